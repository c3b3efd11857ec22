//! What only looks: `fsck`, `df`, `stat`, `dump`.

use crate::arguments::DumpWhat;
use crate::region;
use crate::target::{self, Target};
use pocketstone_cli::attributes::Shown;
use pocketstone_cli::print_json;
use pocketstone_core::error::Context;
use pocketstone_core::units::format_bytes_rounded;
use pocketstone_core::words::counted;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_mount::State;
use pocketstone_scmfs::{Dump, FileType, FindingKind, Operations, Report, Threshold};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub fn fsck(path: &Path, repair: bool, json: bool) -> Result<u8> {
    let report = match repair {
        true => pocketstone_scmfs::repair(region::open_to_repair(path)?),
        false => pocketstone_scmfs::check(region::open(path, false)?),
    };
    let report = report.user(|| format!("cannot check {}", path.display()))?;
    if json {
        print_json(&report)?;
    } else {
        say_report(path, &report);
    }
    Ok(status(&report))
}

fn left(report: &Report) -> usize {
    report.findings.iter().filter(|finding| !finding.repaired).count()
}

fn status(report: &Report) -> u8 {
    if left(report) == 0 { 0 } else { ErrorKind::Threshold.exit_code() }
}

fn say_report(path: &Path, report: &Report) {
    for finding in &report.findings {
        let done = if finding.repaired { " (repaired)" } else { "" };
        say!("{:#x}: {}: {}{done}", finding.at, finding.kind.name(), finding.what);
    }
    let closed = match (report.clean, report.recovered) {
        (true, _) => "closed cleanly",
        (false, true) => "not closed, recovered",
        (false, false) => "not closed",
    };
    let torn = match report.torn_versions {
        0 => String::new(),
        1 => ", with a torn half of an inode version".into(),
        many => format!(", with {many} torn halves of inode versions"),
    };
    say!(
        "{}: {closed}{torn}; {}, {}, {}, {} used; {}, {} left",
        path.display(),
        counted(report.inodes_used, "inode"),
        counted(report.directories, "directory"),
        counted(report.files, "file"),
        format_bytes_rounded(report.bytes_used),
        counted(report.findings.len(), "finding"),
        left(report)
    );
    if report
        .findings
        .iter()
        .any(|finding| finding.kind == FindingKind::Nameless && finding.path.is_some() && !finding.repaired)
        && report.clean
    {
        say!("hint: repair names nameless inodes; if there is no space for that, remove a file or grow the volume");
    }
}

pub fn upgrade(path: &Path, json: bool) -> Result<u8> {
    let region = region::open(path, true)?;
    let done = pocketstone_scmfs::upgrade(region).user(|| format!("cannot convert {}", path.display()))?;
    if json {
        print_json(&done)?;
    } else {
        say_report(path, &done.report);
        let format = pocketstone_scmfs::FORMAT_VERSION;
        say!(
            "{}: converted to format {format}; it can grow to {}",
            path.display(),
            format_bytes_rounded(done.max_bytes)
        );
        if done.max_bytes < done.old_max_bytes {
            say!(
                "before, it could grow to {}: the new tables need the space",
                format_bytes_rounded(done.old_max_bytes)
            );
        }
    }
    Ok(status(&done.report))
}

pub fn df(path: &Path, json: bool) -> Result<u8> {
    let state = match Target::of(path)? {
        Target::Mounted(directory) => target::state(&directory)?,
        Target::Region(path) => {
            let volume = region::volume(&path, true)?;
            pocketstone_mount::state(&volume, region::text(&path)?)?
        }
    };
    if json {
        print_json(&state)?;
    } else {
        print_state(&state);
    }
    Ok(0)
}

fn print_state(state: &State) {
    let (usage, statfs) = (&state.usage, &state.statfs);
    let bytes = format_bytes_rounded;
    let row = |name: &str, value: String| say!("{name:<28}{value:>12}");
    say!("{}", state.source);
    row("label", pocketstone_scmfs::shown_label(&state.label));
    row("volume", bytes(usage.volume_bytes));
    row("may grow to", bytes(usage.max_bytes));
    row("metadata", bytes(usage.metadata_bytes));
    row("small-page zone", bytes(usage.small_zone_bytes));
    row("  free", bytes(usage.small_free_bytes));
    row("    in pieces", usage.small_free_runs.to_string());
    row("    longest piece", bytes(usage.small_longest_run_bytes));
    row("huge-page zone", bytes(usage.huge_used_bytes + usage.huge_free_bytes));
    row("  free", bytes(usage.huge_free_bytes));
    row("null files", usage.null_files.to_string());
    row("  of which reclaimable", bytes(usage.null_bytes));
    row("available to files", bytes(statfs.available_blocks * u64::from(statfs.block_bytes)));
    row("inodes in use", format!("{} of {}", usage.inodes_used, usage.inodes));
    row("files with extent lists", usage.listed_files.to_string());
    row("windows", usage.windows.to_string());
    row("collections", usage.collections.to_string());
    row("  given back", bytes(usage.collected_bytes));
    let threshold = match usage.threshold {
        Threshold::Bytes(most) => bytes(most),
        Threshold::Never => "never".into(),
    };
    row("huge pages for files beyond", threshold);
    row("data checksums", if usage.checksums { "yes" } else { "no" }.into());
    row("durability", usage.persistence.to_string());
}

pub fn stat(target: &Path, path: &Path, json: bool) -> Result<u8> {
    match Target::of(target)? {
        Target::Mounted(directory) => stat_mounted(&directory, path, json),
        Target::Region(region) => {
            // Any path is meant from the volume's root.
            let path = Path::new("/").join(path);
            let volume = region::volume(&region, true)?;
            let missing = || format!("cannot find {} in {}", path.display(), region.display());
            let ino = volume.resolve(region::text(&path)?).user(missing)?;
            let attributes = volume.attributes(ino).user(missing)?;
            let extents = volume.open(ino).user(missing)?.extents();
            volume.close()?;
            if json {
                let value = serde_json::to_value(attributes).map_err(|e| Error::bug("cannot write JSON").because(e))?;
                return print_with_extents(value, serde_json::json!(extents));
            }
            say_rows(&Shown::from(&attributes));
            for extent in extents {
                let (end, size) = (extent.offset + extent.bytes, format_bytes_rounded(extent.bytes));
                row("data", &format!("{}..{end} at {:#x} ({size})", extent.offset, extent.at));
            }
            Ok(0)
        }
    }
}

fn row(name: &str, value: &str) {
    say!("{name:<24}{value}");
}

fn say_rows(shown: &Shown) {
    shown.rows("allocated").iter().for_each(|(name, value)| row(name, value));
}

/// Prints attributes as JSON, with where the data is.
fn print_with_extents(mut attributes: serde_json::Value, extents: serde_json::Value) -> Result<u8> {
    attributes["extents"] = extents;
    print_json(&attributes)?;
    Ok(0)
}

fn stat_mounted(directory: &Path, path: &Path, json: bool) -> Result<u8> {
    let place = place_in(directory, path);
    let (facts, extents) = examined(&place)?;
    if json {
        let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        let value = serde_json::json!({
            "ino": facts.ino(),
            "kind": FileType::of_mode(facts.mode()),
            "permissions": facts.mode() & 0o7777,
            "links": facts.nlink(),
            "uid": facts.uid(),
            "gid": facts.gid(),
            "rdev": facts.rdev(),
            "size": facts.size(),
            "allocated": facts.blocks() * 512,
            "atime_ns": ns(facts.atime(), facts.atime_nsec()),
            "mtime_ns": ns(facts.mtime(), facts.mtime_nsec()),
            "ctime_ns": ns(facts.ctime(), facts.ctime_nsec()),
        });
        let extents = extents.ok().map(|extents| {
            let one = |(from, to): &(u64, u64)| serde_json::json!({"offset": from, "bytes": to - from});
            extents.iter().map(one).collect::<Vec<_>>()
        });
        return print_with_extents(value, serde_json::json!(extents));
    }
    say_rows(&Shown::from(&facts));
    match extents {
        Ok(extents) => extents.iter().for_each(|(from, to)| {
            row("data", &format!("{from}..{to} ({})", format_bytes_rounded(to - from)));
        }),
        Err(why) => row("data", &format!("cannot be seen: {why}")),
    }
    Ok(0)
}

/// The parts of a file that are no holes, each from an offset to another.
type Parts = Vec<(u64, u64)>;

/// A file's attributes, and its parts as far as this user may see them.
fn examined(place: &Path) -> Result<(Metadata, std::io::Result<Parts>)> {
    let facts = std::fs::symlink_metadata(place).user(|| format!("cannot examine {}", place.display()))?;
    let parts = match facts.is_file() {
        true => std::fs::File::open(place).map(|file| extents(&file, facts.size())),
        false => Ok(Vec::new()),
    };
    Ok((facts, parts))
}

/// A path in a mounted volume: as it is if it leads there, otherwise from the volume's root.
fn place_in(directory: &Path, path: &Path) -> PathBuf {
    let inside = std::path::absolute(path).is_ok_and(|absolute| absolute.starts_with(directory));
    if inside {
        return path.to_path_buf();
    }
    directory.join(path.strip_prefix("/").unwrap_or(path))
}

fn extents(file: &std::fs::File, size: u64) -> Parts {
    let mut found = Vec::new();
    let mut at = 0;
    while at < size {
        let Ok(from) = rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) else { break };
        let to = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(from)).unwrap_or(size);
        found.push((from, to));
        at = to.max(from + 1);
    }
    found
}

pub fn dump(path: &Path, what: Option<DumpWhat>) -> Result<u8> {
    let what = match what.unwrap_or(DumpWhat::Superblock) {
        DumpWhat::Superblock => Dump::Superblock,
        DumpWhat::Journal => Dump::Journal,
        DumpWhat::Mapping => Dump::Mapping,
        DumpWhat::Inode { number } => Dump::Inode(number),
        DumpWhat::Directory { number } => Dump::Directory(number),
    };
    let text = pocketstone_scmfs::dump(region::open(path, false)?, &what)
        .user(|| format!("cannot read {}", path.display()))?;
    say!("{}", text.trim_end());
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn attributes_are_seen_of_a_file_that_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "text").unwrap();
        assert_eq!(examined(&file).unwrap().1.unwrap(), [(0, 4)]);
        fs::set_permissions(&file, Permissions::from_mode(0o000)).unwrap();
        // Root reads all but what nobody reads.
        let root = rustix::process::geteuid().is_root();
        let unreadable = if root { PathBuf::from("/sys/bus/platform/drivers_probe") } else { file };
        let (facts, parts) = examined(&unreadable).unwrap();
        assert!(facts.is_file());
        assert_eq!(parts.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
        assert!(examined(&folder.path().join("no file")).is_err());
    }
}
