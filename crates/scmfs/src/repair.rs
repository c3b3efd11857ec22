//! Mending what fsck found: what was decided is stored, whatever the volume looks like; then it is opened, closed and
//! looked at again. Nothing is stored where something else may still be needed, so that a repair that was
//! interrupted can be started again.

use crate::check::{Report, Survey, look};
use crate::contents::of_pages;
use crate::format::inode::{self, Record};
use crate::format::superblock::Superblock;
use crate::inodes::State;
use crate::operations::{create, write};
use crate::{Error, FileType, Finding, FindingKind, Ino, Meta, OpenOptions, Operations, ROOT, Result, Volume};
use pocketstone_media::{Durable, Flushed, Medium, Region};
use std::collections::HashSet;

/// Each round should be the last but one; a fault of this program must not make it repair for ever.
const ROUNDS: usize = 4;

/// Checks a volume, repairs it and checks again: recovers an unclean one, and extends a truncated region.
///
/// # Errors
/// `Medium` if the region is not a volume, or one of an unsupported format; also if it is truncated and cannot grow.
pub fn repair(region: Box<dyn Region>) -> Result<Report> {
    mended(Medium::new(region)).map(|(_, report)| report)
}

/// Mends a volume; gives the medium back, and what was found, with what is mended.
fn mended(mut medium: Medium) -> Result<(Medium, Report)> {
    let (superblock, _) = Superblock::find(&medium)?;
    superblock.check_writable()?;
    let mut cut_from = lengthen(&medium, &superblock)?;
    let mut first: Option<Report> = None;
    let mut nameless = HashSet::new();
    for _ in 0..ROUNDS {
        let survey = look(medium, cut_from.take())?;
        let (findings, is_clean) = (survey.report.findings.clone(), survey.report.clean);
        let report = first.get_or_insert_with(|| survey.report.clone());
        let known = identities(&report.findings);
        let more: Vec<Finding> = findings.iter().filter(|one| !known.contains(&identity(one))).cloned().collect();
        report.findings.extend(more);
        // What has no name for lack of space is left as it is, and told of.
        let is_left =
            findings.iter().all(|finding| nameless.contains(&finding.at) && finding.kind == FindingKind::Nameless);
        if is_clean && is_left {
            let mut report = report.clone();
            note_repaired(&mut report.findings, &findings);
            let counts = survey.report;
            let (clean, torn_versions) = (report.clean, report.torn_versions);
            let recovered = report.recovered || !clean;
            return Ok((
                survey.image.medium,
                Report { clean, recovered, torn_versions, findings: report.findings, ..counts },
            ));
        }
        let left;
        (medium, left) = mend(survey, &findings)?;
        nameless.extend(left);
    }
    let survey = look(medium, None)?;
    let mut report = first.unwrap_or_default();
    note_repaired(&mut report.findings, &survey.report.findings);
    Ok((survey.image.medium, report))
}

/// Notes which findings are not among those that are left.
fn note_repaired(findings: &mut [Finding], left: &[Finding]) {
    let left = identities(left);
    for finding in findings {
        finding.repaired = !left.contains(&identity(finding));
    }
}

/// What makes two findings the same.
fn identity(finding: &Finding) -> (u64, FindingKind) {
    (finding.at, finding.kind)
}

fn identities(findings: &[Finding]) -> HashSet<(u64, FindingKind)> {
    findings.iter().map(identity).collect()
}

/// Gives a region that was cut short its length back; where it ended, if it was.
fn lengthen(medium: &Medium, superblock: &Superblock) -> Result<Option<u64>> {
    let bytes = medium.bytes();
    if superblock.bytes <= bytes {
        return Ok(None);
    }
    medium.grow(superblock.bytes).map_err(|_| superblock.is_cut(medium))?;
    Ok(Some(bytes))
}

/// Stores what was decided, and gives names to what has none. Also says where the inodes are that stay nameless.
fn mend(survey: Survey, findings: &[Finding]) -> Result<(Medium, Vec<u64>)> {
    if !findings.is_empty() {
        store(&survey);
    }
    let places: Vec<(Ino, u64, FileType)> = survey
        .nameless
        .iter()
        .map(|ino| (*ino, survey.image.layout.version_at(*ino, 0), survey.records[ino].kind()))
        .collect();
    let is_directory = |(_, record): &(&Ino, &Record)| record.is_directory();
    let directories: Vec<Ino> = survey.records.iter().filter(is_directory).map(|(ino, _)| *ino).collect();
    let holes = survey.holes;
    let options = OpenOptions { null_files: 0, ..OpenOptions::default() };
    let volume = Volume::open_medium(survey.image.medium, &options)?;
    for ino in holes {
        let node = volume.parts.node(ino)?;
        let mut state = node.write();
        match write::fill_directory(&volume.parts, ino, &mut state) {
            // It ends before the hole then; what had its name behind it is nameless, and gets another.
            Err(Error::NoSpace) => end_at_hole(&volume, ino, &mut state)?,
            filled => filled?,
        }
    }
    let mut left = Vec::new();
    for (ino, at, kind) in places {
        match adopt(&volume, ino, kind, &directories) {
            Ok(()) => {}
            Err(Error::NoSpace) => left.push(at),
            Err(error) => return Err(error),
        }
    }
    Ok((volume.into_medium()?, left))
}

/// Cuts a directory off where its first hole begins.
fn end_at_hole(volume: &Volume, ino: Ino, state: &mut State) -> Result<()> {
    let offsets = (0..state.record.size).step_by(volume.parts.store.layout.page as usize);
    let Some(hole) = offsets.into_iter().find(|offset| state.body.locate(*offset).0.is_none()) else { return Ok(()) };
    state.index = None;
    write::resize_file(&volume.parts, ino, state, hole)
}

/// Gives an inode the name `#NUMBER` in `/lost+found`, or in any of the `directories` where there is space for a name:
/// on a full volume that is at least where names were lost.
fn adopt(volume: &Volume, ino: Ino, kind: FileType, directories: &[Ino]) -> Result<()> {
    let name = format!("#{ino}");
    let mut done = match home(volume) {
        Ok(home) => {
            let done = create::adopt(&volume.parts, home, name.as_bytes(), ino, kind);
            // One that can hold nothing takes the space of a name.
            if matches!(done, Err(Error::NoSpace)) && volume.attributes(home)?.size == 0 {
                volume.remove_directory(ROOT, HOME.as_bytes())?;
            }
            done
        }
        Err(error) => Err(error),
    };
    for directory in directories.iter().filter(|directory| **directory != ino) {
        if !matches!(done, Err(Error::NoSpace | Error::Exists | Error::NotFound)) {
            break;
        }
        done = create::adopt(&volume.parts, *directory, name.as_bytes(), ino, kind);
    }
    done
}

/// What the directory for what has lost its name is called.
const HOME: &str = "lost+found";

/// The directory for what has lost its name.
fn home(volume: &Volume) -> Result<Ino> {
    let mut tried = 0;
    loop {
        let name = if tried == 0 { HOME.to_string() } else { format!("{HOME}.{tried}") };
        match volume.lookup(ROOT, name.as_bytes()) {
            Ok(attr) if attr.kind == FileType::Directory => return Ok(attr.ino),
            Ok(_) => tried += 1,
            Err(Error::NotFound) => {
                return Ok(volume.create_directory(ROOT, name.as_bytes(), &Meta::directory(0o700))?.ino);
            }
            Err(error) => return Err(error),
        }
    }
}

fn store(survey: &Survey) {
    let (image, medium) = (&survey.image, &survey.image.medium);
    let fence = |flushed| medium.fence(flushed).done();
    let write = |at: u64, bytes: &[u8]| {
        // SAFETY: nobody else has the volume.
        medium.flush(unsafe { medium.write(at, bytes, Durable::repeatable()) })
    };
    let zero = |at: u64, bytes: u64| {
        // SAFETY: nobody else has the volume.
        unsafe { medium.zero(at, bytes, Durable::repeatable()) }
    };
    // What the journal holds comes before any repair, and never again.
    image.settle();
    if survey.report.clean {
        // With no links they would be freed, should the repair be interrupted: they get their names first.
        for ino in &survey.nameless {
            store_inode(survey, *ino, &survey.records[ino]);
        }
    }
    // Everything that follows from inodes and tables is made anew; both copies are written.
    let mut superblock = image.superblock.clone();
    superblock.clean = false;
    superblock.size_records = false;
    for _ in 0..2 {
        fence(medium.flush(superblock.write(medium, Durable::repeatable())));
    }
    // First what goes to free pages, then what refers to it.
    let mut flushed = Flushed::nothing();
    for copy in &survey.copies {
        let (from, to) = (image.layout.page_at(copy.from), image.layout.page_at(copy.to));
        // SAFETY: nobody else has the volume.
        flushed
            .join(unsafe { medium.copy(from, to, u64::from(copy.pages) * image.layout.page, Durable::repeatable()) });
        if let Some(sums) = of_pages(medium, &image.layout).filter(|_| copy.content) {
            flushed.join(sums.copied_pages(copy.from, copy.to, copy.pages, &copy.foreign));
        }
    }
    for (at, bytes) in &survey.texts {
        flushed.join(write(*at, bytes));
    }
    for segment in &survey.empty_chunks {
        flushed.join(zero(image.layout.segment_at(*segment), image.layout.huge));
    }
    fence(flushed);
    for (segment, entry) in &survey.entries {
        let at = image.layout.mapping_entry_at(*segment);
        for at in [at, image.layout.mirrored(at)] {
            fence(write(at, &entry.encode(*segment)));
        }
    }
    for ino in survey.lost.keys() {
        fence(zero(image.layout.version_at(*ino, 0), 256));
    }
    for (ino, record) in &survey.freed {
        store_inode(survey, *ino, record);
    }
    for ino in &survey.rewritten {
        if let Some(record) = survey.records.get(ino) {
            store_inode(survey, *ino, record);
        }
    }
    for (at, bytes) in &survey.cleared {
        fence(zero(*at, *bytes));
    }
}

/// Stores an inode's record as its newest version, whatever the halves hold.
fn store_inode(survey: &Survey, ino: Ino, record: &Record) {
    let (medium, layout) = (&survey.image.medium, &survey.image.layout);
    let sequence = inode::current(inode::halves(medium, layout, ino)).map_or(0, |(sequence, _)| sequence);
    // Both halves, so that neither is torn.
    for step in 1..=2 {
        let next = sequence.wrapping_add(step);
        let (at, version) = (layout.version_at(ino, next), record.encode(ino, next));
        // SAFETY: nobody else has the volume.
        let dirty = unsafe { medium.write(at, &version, Durable::repeatable()) };
        medium.fence(medium.flush(dirty)).done();
    }
}
