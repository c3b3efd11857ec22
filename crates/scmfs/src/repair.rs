//! Mending what fsck found. What cannot be trusted goes; what lost its name gets one in `lost+found`.

use crate::check::{Checker, Cure, Report, look};
use crate::inode::Record;
use crate::{Error, FileType, Ino, Meta, OpenOptions, ROOT, Result, Volume};
use pocketstone_media::{Durable, Medium};

/// Repairs may bring more to light; after so many rounds fsck gives up and says what is left.
const ROUNDS: usize = 8;

/// Mends a volume; gives the medium back, and what was found, with what is mended.
pub(crate) fn repair(mut medium: Medium) -> Result<(Medium, Report)> {
    let mut first: Option<Report> = None;
    for _ in 0..ROUNDS {
        let checker = look(medium)?;
        let unclean = !checker.report.clean;
        let none = checker.report.findings.is_empty();
        let report = first.get_or_insert_with(|| checker.report.clone());
        for finding in &checker.report.findings {
            if !report.findings.contains(finding) {
                report.findings.push(finding.clone());
            }
        }
        if none && !unclean {
            let counts = checker.report.clone();
            let findings = std::mem::take(&mut report.findings);
            let mended = findings.into_iter().map(|finding| crate::Finding { repaired: true, ..finding }).collect();
            let (clean, recovered) = (report.clean, report.recovered || !report.clean);
            return Ok((checker.image.medium, Report { clean, recovered, findings: mended, ..counts }));
        }
        medium = if none { Checker::recover(checker.image.medium)? } else { mend(checker)? };
    }
    let mut report = look(medium)?;
    let left = std::mem::take(&mut report.report.findings);
    let mut all = first.unwrap_or_default();
    for finding in &mut all.findings {
        finding.repaired = !left.iter().any(|l| l.at == finding.at && l.kind == finding.kind);
    }
    Ok((report.image.medium, all))
}

fn mend(checker: Checker) -> Result<Medium> {
    let image = &checker.image;
    let zero = |at: u64, bytes: u64| {
        let flushed = image.medium.zero(at, bytes, Durable::nothing());
        image.medium.fence(flushed).done();
    };
    // What the journal holds comes before any repair, and never again.
    image.settle();
    let mut superblock = image.superblock.clone();
    let (mut adopt, mut fill) = (Vec::new(), Vec::new());
    for cure in &checker.cures {
        match cure {
            Cure::Superblock | Cure::Recover => {}
            Cure::Mapping(segment) => zero(image.layout.mapping_entry_at(*segment), 16),
            Cure::Inode(ROOT) => {
                let mut root = Record::new(&Meta::directory(0o755), 1, 0);
                root.parent = ROOT;
                checker.store(ROOT, &root);
            }
            Cure::Inode(ino) => zero(image.layout.version_at(*ino, 0), 256),
            Cure::Entry(at, bytes) => zero(*at, *bytes),
            Cure::Links(ino, links) => change(&checker, *ino, |record| record.links = *links),
            Cure::Parent(ino, parent) => change(&checker, *ino, |record| record.parent = *parent),
            Cure::Segments(ino, segments) => change(&checker, *ino, |record| {
                record.segments = *segments;
                record.huge = *segments > 0;
            }),
            Cure::Half(ino) => change(&checker, *ino, |_| {}),
            Cure::Fill(ino) => fill.push(*ino),
            Cure::Xattrs(ino) => change(&checker, *ino, |record| {
                (record.xattr_start, record.xattr_pages, record.xattr_bytes) = (0, 0, 0);
            }),
            Cure::Adopt(ino) => {
                // With none it would be freed before it gets its name.
                change(&checker, *ino, |record| record.links = record.links.max(1));
                adopt.push((*ino, checker.record(*ino).map_or(0, |record| record.mode)));
            }
        }
    }
    // Everything that follows from inodes and tables is made anew; both copies are written.
    superblock.clean = false;
    for _ in 0..2 {
        let dirty = superblock.write(&image.medium, Durable::nothing());
        image.medium.fence(image.medium.flush(dirty)).done();
    }
    let medium = checker.image.medium;
    let volume = Volume::open_medium(medium, &OpenOptions { null_files: 0, ..OpenOptions::default() })?;
    fill.sort_unstable();
    fill.dedup();
    for ino in fill {
        let node = volume.inner.node(ino)?;
        volume.inner.fill_directory(ino, &mut node.write())?;
    }
    for (ino, mode) in adopt {
        adopt_inode(&volume, ino, FileType::of_mode(mode.into()).unwrap_or(FileType::Regular))?;
    }
    volume.into_medium()
}

fn change(checker: &Checker, ino: Ino, change: impl FnOnce(&mut Record)) {
    if let Some(mut record) = checker.record(ino) {
        change(&mut record);
        checker.store(ino, &record);
    }
}

/// Gives an inode the name `#NUMBER` in `/lost+found`.
fn adopt_inode(volume: &Volume, ino: Ino, kind: FileType) -> Result<()> {
    let home = match volume.lookup(ROOT, b"lost+found") {
        Ok(attr) => attr.ino,
        Err(Error::NotFound) => volume.create_directory(ROOT, b"lost+found", &Meta::directory(0o700))?.ino,
        Err(error) => return Err(error),
    };
    volume.inner.adopt(home, format!("#{ino}").as_bytes(), ino, kind)
}
