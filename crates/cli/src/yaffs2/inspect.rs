//! What only looks: `fsck`, `ls`, `stat`, `dump`.

use crate::arguments::ChipArguments;
use crate::chip::{self, Opened};
use crate::paths;
use pocketstone_cli::attributes::{self, Shown};
use pocketstone_cli::print_json;
use pocketstone_core::error::Context;
use pocketstone_core::units::format_bytes_rounded;
use pocketstone_core::words::counted;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_media::nand::Access;
use pocketstone_vfs::{Attr, FileType, shown};
use pocketstone_yaffs2::{DumpOptions, Operations, Severity, Volume};
use std::io::Write;
use std::path::Path;

pub fn fsck(given: &ChipArguments, json: bool) -> Result<u8> {
    let name = given.path.display();
    let Opened { nand, options, lock: _lock } = chip::open(given, Access::Read)?;
    let report =
        pocketstone_yaffs2::check(nand, &options).map_err(Error::from).user(|| format!("cannot check {name}"))?;
    if json {
        print_json(&report)?;
    } else {
        for finding in &report.findings {
            let place = match (finding.block, finding.page) {
                (Some(block), Some(page)) => format!("block {block} page {page}: "),
                (Some(block), None) => format!("block {block}: "),
                _ => String::new(),
            };
            let means = match finding.severity {
                Severity::Error => "error",
                Severity::Tidy => "will be tidied",
                _ => "note",
            };
            say!("{means}: {place}{}: {}", finding.kind, finding.what);
        }
        if report.findings_left_out > 0 {
            say!("and {}", counted(report.findings_left_out, "more finding"));
        }
        let kinds = report.objects;
        say!(
            "{name}: {} ({}), {}, {}, {}, {}",
            counted(kinds.files, "file"),
            format_bytes_rounded(report.file_bytes),
            counted(kinds.directories, "directory"),
            counted(kinds.symlinks, "symbolic link"),
            counted(kinds.hard_links, "hard link"),
            counted(kinds.specials, "special file")
        );
        say!(
            "{name}: {}, {} erased, {} bad; pages: {} used, {} garbage, {} erased; sequence {}; {} checkpoint",
            counted(report.blocks, "block"),
            report.erased_blocks,
            report.bad_blocks,
            report.used_pages,
            report.garbage_pages,
            report.erased_pages,
            report.sequences.map_or("none".to_owned(), |(low, high)| format!("{low:#x} to {high:#x}")),
            if report.checkpoint { "with a" } else { "no" }
        );
        let tidy = report.findings.iter().filter(|finding| finding.severity == Severity::Tidy).count();
        say!("{name}: {}, {} of a power loss", counted(report.errors, "error"), counted(tidy, "leftover"));
    }
    Ok(if report.errors == 0 { 0 } else { ErrorKind::Threshold.exit_code() })
}

/// What a path leads to.
fn find(volume: &Volume, given: &ChipArguments, path: &Path) -> Result<Attr> {
    let found = paths::resolve(volume, path).map_err(Error::from);
    found.user(|| format!("cannot find {} in {}", path.display(), given.path.display()))
}

pub fn ls(given: &ChipArguments, long: bool, path: &Path) -> Result<u8> {
    let volume = chip::volume(given)?;
    let attr = find(&volume, given, path)?;
    if attr.kind != FileType::Directory {
        let name = path.file_name().map_or(Vec::new(), |name| name.as_encoded_bytes().to_vec());
        print_entry(&volume, long, &name, Ok(attr));
        return Ok(0);
    }
    for (name, ino) in paths::list(&volume, attr.ino).map_err(Error::from)? {
        let attr = if long { volume.attributes(ino).map_err(Error::from) } else { Ok(attr) };
        print_entry(&volume, long, &name, attr);
    }
    Ok(0)
}

fn print_entry(volume: &Volume, long: bool, name: &[u8], attr: Result<Attr>) {
    let name = shown(name);
    match attr {
        _ if !long => say!("{name}"),
        Err(error) => say!("{:<10} {name}: {}", "?", error.chain()),
        Ok(attr) => {
            let size = match attr.kind {
                FileType::CharDevice | FileType::BlockDevice => attributes::device(attr.rdev),
                _ => attr.size.to_string(),
            };
            let target = match attr.kind {
                FileType::Symlink => volume.read_link(attr.ino).map(|target| format!(" -> {}", shown(&target))),
                _ => Ok(String::new()),
            };
            let (links, user, group, time) = (attr.links, attr.uid, attr.gid, attributes::time(attr.mtime_ns));
            let mode = attributes::mode(attr.kind, attr.permissions);
            say!("{mode} {links:>3} {user:>5} {group:>5} {size:>10} {time} {name}{}", target.unwrap_or_default());
        }
    }
}

pub fn stat(given: &ChipArguments, path: Option<&Path>, json: bool) -> Result<u8> {
    let volume = chip::volume(given)?;
    let row = |name: &str, value: String| say!("{name:<24}{value}");
    let Some(path) = path else {
        let usage = volume.usage();
        if json {
            print_json(&usage)?;
            return Ok(0);
        }
        let chunks =
            |chunks: u64| format!("{chunks} ({})", format_bytes_rounded(chunks * u64::from(usage.chunk_bytes)));
        row("volume", volume.describe());
        row("blocks", usage.blocks.to_string());
        row("  bad", usage.bad_blocks.to_string());
        row("  erased", usage.erased_blocks.to_string());
        row("pages in a block", usage.chunks_per_block.to_string());
        row("bytes of data in a page", usage.chunk_bytes.to_string());
        row("pages in use", chunks(usage.used_chunks));
        row("pages free or garbage", chunks(usage.free_chunks.max(0) as u64));
        let good = u64::from(usage.blocks - usage.bad_blocks) * u64::from(usage.chunks_per_block);
        let summaries = (good as i64 - usage.used_chunks as i64 - usage.free_chunks).max(0) as u64;
        row("pages for summaries", chunks(summaries));
        row("objects", usage.objects.to_string());
        let by = match usage.mounted_by {
            pocketstone_yaffs2::MountedBy::Checkpoint => "a checkpoint",
            _ => "a scan of all tags",
        };
        row("known by", by.to_owned());
        row("memory of a mount", format_bytes_rounded(usage.memory_bytes));
        return Ok(0);
    };
    let attr = find(&volume, given, path)?;
    let extents = match attr.kind {
        FileType::Regular => volume.data_ranges(attr.ino).map_err(Error::from)?,
        _ => Vec::new(),
    };
    let target = match attr.kind {
        FileType::Symlink => Some(volume.read_link(attr.ino).map_err(Error::from)?),
        _ => None,
    };
    let xattrs: Vec<String> =
        volume.list_xattrs(attr.ino).map_err(Error::from)?.iter().map(|name| shown(name)).collect();
    if json {
        let mut value = serde_json::to_value(attr).map_err(|e| Error::bug("cannot write JSON").because(e))?;
        value["extents"] = serde_json::json!(extents);
        value["target"] = serde_json::json!(target.as_deref().map(shown));
        value["xattrs"] = serde_json::json!(xattrs);
        print_json(&value)?;
        return Ok(0);
    }
    Shown::from(&attr).rows("on the chip").into_iter().for_each(|(name, value)| row(name, value));
    if let Some(target) = target {
        row("leads to", shown(&target));
    }
    xattrs.iter().for_each(|name| row("attribute", name.clone()));
    extents.iter().for_each(|(from, to)| row("data", format!("{from}..{to}")));
    Ok(0)
}

pub fn dump(given: &ChipArguments, block: Option<u32>, summary: bool) -> Result<u8> {
    let Opened { nand, options, lock: _lock } = chip::open(given, Access::Read)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    // A reader that went away, as in `| head`, is no reason to fail, nor to go on.
    let mut line = |text: &str| writeln!(out, "{text}").is_ok();
    let what = DumpOptions::default().block(block).summary(summary);
    let dumped = pocketstone_yaffs2::dump(nand, &options, &what, &mut line).map_err(Error::from);
    dumped.user(|| format!("cannot dump {}", given.path.display()))?;
    let _ = out.flush();
    Ok(0)
}
