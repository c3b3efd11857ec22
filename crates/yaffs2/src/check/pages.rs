//! Every page: its tags, its data, whose it is.

use super::{Finding, Place, Report, Severity};
use crate::log::blocks::State;
use crate::log::chip::{Block, Chunk};
use crate::log::summary::SUMMARY_OBJECT;
use crate::log::tags::{Content, Extra, Found, Kind, Tags};
use crate::log::{BAD_SEQUENCE, CHECKPOINT_SEQUENCE, FIRST_SEQUENCE, LAST_SEQUENCE};
use crate::tree::Tree;
use crate::tree::header::Header;
use crate::tree::objects::{DELETED_ID, LARGEST_OBJECT, UNLINKED_ID};
use pocketstone_media::nand::Verdict;
use pocketstone_vfs::Result;

/// A page as it was read.
struct Page {
    found: Found,
    verdict: Verdict,
    /// Every bit reads as erased.
    blank: bool,
    /// What its data says, judged while it was at hand.
    fault: Option<(Severity, &'static str, String)>,
}

impl Page {
    fn tags(&self) -> Option<&Tags> {
        match &self.found {
            Found::Tags { tags, .. } => Some(tags),
            _ => None,
        }
    }
}

pub(super) fn check(tree: &mut Tree, report: &mut Report) -> Result<()> {
    for block in tree.log.blocks.all() {
        check_block(tree, block, report)?;
    }
    Ok(())
}

fn find(
    tree: &Tree,
    report: &mut Report,
    chunk: Chunk,
    object: Option<u32>,
    finding: (Severity, &'static str, String),
) {
    let (severity, kind, what) = finding;
    let place = Place { chip: &tree.log.chip, chunk: Some(chunk), object };
    report.find(place.finding(severity, kind, what));
}

fn check_block(tree: &mut Tree, block: Block, report: &mut Report) -> Result<()> {
    let pages = tree.log.chip.pages_per_block();
    let note = |severity, kind, what: &str| Finding {
        severity,
        kind,
        block: Some(block - 1),
        page: None,
        object: None,
        what: what.to_owned(),
    };
    if tree.log.chip.is_bad(block)? {
        report.bad_blocks += 1;
        report.find(note(Severity::Note, "bad block", "the block is marked bad"));
        return Ok(());
    }
    let read: Vec<Page> = (0..pages).map(|page| read(tree, tree.log.chip.chunk(block, page))).collect::<Result<_>>()?;
    report.corrected_pages += read
        .iter()
        .filter(|page| page.verdict == Verdict::Corrected || matches!(page.found, Found::Tags { corrected: true, .. }))
        .count() as u64;
    let written = read.iter().rposition(|page| !page.blank);
    report.erased_pages += read.iter().filter(|page| page.blank).count() as u64;
    let Some(last) = written else {
        report.erased_blocks += 1;
        return Ok(());
    };
    match read[0].tags().map(|tags| tags.sequence) {
        Some(CHECKPOINT_SEQUENCE) => {
            report.checkpoint_blocks += 1;
            return Ok(());
        }
        Some(BAD_SEQUENCE) => {
            report.find(note(Severity::Note, "bad block", "the block could not be marked bad, and is not used"));
            return Ok(());
        }
        // A page that was cut short may say anything.
        Some(sequence)
            if read[0].verdict != Verdict::Uncorrectable && !(FIRST_SEQUENCE..=LAST_SEQUENCE).contains(&sequence) =>
        {
            let what = format!("its first page has the invalid sequence number {sequence:#x}");
            report.find(note(Severity::Error, "sequence number of no kind", &what));
        }
        None if read[0].found == Found::Unused => {
            report.find(note(
                Severity::Tidy,
                "block not erased",
                "the first page has no tags, but the block is not erased: a program or erase was interrupted",
            ));
            return Ok(());
        }
        _ => {}
    }
    let sequence = tree.log.blocks.get(block).sequence;
    let foreign = |page: &Page| match &page.found {
        Found::Unused => !page.blank,
        Found::Deleted => false,
        Found::Broken => true,
        Found::Tags { tags, .. } => page.verdict == Verdict::Uncorrectable || tags.sequence != sequence,
    };
    // The last page alone may have been cut short itself.
    if tree.log.blocks.get(block).used == 0 && read[..last].iter().any(foreign) {
        report.garbage_pages += read.iter().filter(|page| !page.blank).count() as u64;
        let what = "the block has no valid data, and not all of it is readable: its erase was interrupted";
        report.find(note(Severity::Tidy, "block half erased", what));
        return Ok(());
    }
    if tree.log.blocks.get(block).state == State::Full && read.iter().any(|page| page.tags().is_some()) {
        let (low, high) = report.sequences.unwrap_or((sequence, sequence));
        report.sequences = Some((low.min(sequence), high.max(sequence)));
    }
    for (at, page) in (0u32..).zip(&read).take(last + 1) {
        check_page(tree, block, at, page, at as usize == last, report);
    }
    check_summary(tree, block, &read, report)
}

fn read(tree: &mut Tree, chunk: Chunk) -> Result<Page> {
    let mut data = vec![0; tree.log.chip.data_bytes()];
    let whole = tree.log.chip.read(chunk, &mut data)?;
    let blank = whole.tags == Found::Unused && data.iter().all(|&byte| byte == 0xFF);
    let fault = match whole.tags {
        Found::Tags { tags, .. } if whole.verdict != Verdict::Uncorrectable && tags.object != SUMMARY_OBJECT => {
            fault_of(tree, chunk, &tags, &data)
        }
        _ => None,
    };
    Ok(Page { found: whole.tags, verdict: whole.verdict, blank, fault })
}

/// What is wrong with a page that can be read.
fn fault_of(tree: &Tree, chunk: Chunk, tags: &Tags, data: &[u8]) -> Option<(Severity, &'static str, String)> {
    let id = tags.object;
    let error = |kind, what| Some((Severity::Error, kind, what));
    if !(1..LARGEST_OBJECT).contains(&id) || matches!(id, UNLINKED_ID | DELETED_ID) {
        return error("tags of no object", format!("the tags name object {id}, which cannot have pages"));
    }
    match tags.content {
        Content::Data { chunk: number, bytes } => {
            if number >= 1 << 28 || bytes == 0 || bytes as usize > data.len() {
                let what =
                    format!("the tags name chunk {number} with {bytes} bytes of object {id}, which is impossible");
                return error("tags out of range", what);
            }
            let start = u64::from(number - 1) * data.len() as u64;
            let size = tree.objects.get(id).filter(|_| tree.log.blocks.is_used(chunk)).map_or(0, |file| file.value);
            let visible = (size.saturating_sub(start)).min(data.len() as u64) as usize;
            let beyond = data.get(bytes as usize..visible).is_some_and(|rest| rest.iter().any(|&byte| byte != 0));
            if beyond {
                let what = format!("chunk {number} of object {id} has {bytes} valid bytes; the file shows {visible}");
                return error("bytes beyond the valid ones", what);
            }
            None
        }
        Content::Header => match Header::decode(data, tree.log.chip.inband) {
            Some(_) => None,
            None => error("no header", format!("the tags name the header of object {id}; the page is not a header")),
        },
        Content::Extra(extra) => match Header::decode(data, tree.log.chip.inband) {
            Some(header) => disagreement(&header, &extra, tree.log.chip.inband)
                .and_then(|what| error("tags disagree with header", format!("of object {id}: {what}"))),
            None => error("no header", format!("the tags name the header of object {id}; the page is not a header")),
        },
    }
}

/// Where a header and the extra information in its tags say different things.
fn disagreement(header: &Header, extra: &Extra, inband: bool) -> Option<String> {
    let differ =
        |what: &str, tags: String, page: String| Some(format!("{what} is {tags} in the tags, {page} in the page"));
    if header.kind != extra.kind {
        return differ("its kind", extra.kind.word().into(), header.kind.word().into());
    }
    if header.parent != extra.parent {
        return differ("its directory", extra.parent.to_string(), header.parent.to_string());
    }
    let value = match header.kind {
        Kind::File => header.size,
        Kind::HardLink => header.equivalent.into(),
        _ => extra.value.into(),
    };
    let gone = matches!(extra.parent, UNLINKED_ID | DELETED_ID);
    if !gone && value != u64::from(extra.value) {
        let what = if header.kind == Kind::File { "its size" } else { "its link target" };
        return differ(what, extra.value.to_string(), value.to_string());
    }
    if (header.shadows != 0) != extra.shadows {
        return differ("whether it replaces another", extra.shadows.to_string(), (header.shadows != 0).to_string());
    }
    // In-band writers do not set the flag in the page.
    if !inband && header.shrinks != extra.shrinks {
        return differ("whether it shrinks", extra.shrinks.to_string(), header.shrinks.to_string());
    }
    None
}

fn check_page(tree: &Tree, block: Block, at: u32, page: &Page, last: bool, report: &mut Report) {
    let chunk = tree.log.chip.chunk(block, at);
    let used = tree.log.blocks.is_used(chunk);
    report.used_pages += u64::from(used);
    let summary = page.tags().is_some_and(|tags| tags.object == SUMMARY_OBJECT);
    report.garbage_pages += u64::from(!used && !summary && !page.blank);
    let object = page.tags().map(|tags| tags.object);
    let torn = |kind, what: &str| {
        let severity = if last { Severity::Tidy } else { Severity::Error };
        let why = if last { ": its program was interrupted; it is not referenced" } else { "" };
        (severity, kind, format!("{what}{why}"))
    };
    let finding = match (&page.found, page.verdict) {
        (Found::Unused, _) if page.blank => return,
        (Found::Deleted, _) => return,
        (Found::Unused, _) => torn("page without tags", "the page has data but no tags"),
        (Found::Broken, _) => torn("tags not readable", "the page's tags cannot be decoded"),
        (Found::Tags { tags, .. }, Verdict::Uncorrectable) => {
            let what = format!("the data of {} cannot be corrected", describe(tags));
            match (used, last) {
                (true, _) => (Severity::Error, "data not readable", what),
                (false, true) => torn("data not readable", &what),
                (false, false) => (Severity::Note, "data not readable", format!("{what}; it is not referenced")),
            }
        }
        (Found::Tags { tags, .. }, _) if tags.sequence != tree.log.blocks.get(block).sequence => {
            let block = tree.log.blocks.get(block).sequence;
            let what = format!("the tags have the sequence number {:#x}, the block has {block:#x}", tags.sequence);
            (Severity::Error, "sequence number is not the block's", what)
        }
        (Found::Tags { .. }, _) => match &page.fault {
            // Without error correction of the chip's own nobody says that a page is torn.
            Some((_, kind, what)) if !used && last => torn(kind, what),
            Some(fault) => fault.clone(),
            None => return,
        },
    };
    find(tree, report, chunk, object, finding);
}

/// A page's content in words.
fn describe(tags: &Tags) -> String {
    match tags.content {
        Content::Data { chunk, .. } => format!("chunk {chunk} of object {}", tags.object),
        _ => format!("the header of object {}", tags.object),
    }
}

/// Holds a block's summary against the tags of its pages.
fn check_summary(tree: &mut Tree, block: Block, read: &[Page], report: &mut Report) -> Result<()> {
    let entries = tree.log.shape.entries as usize;
    if !tree.log.shape.is_on() || read[entries].tags().is_none_or(|tags| tags.object != SUMMARY_OBJECT) {
        return Ok(());
    }
    let chunk = tree.log.chip.chunk(block, tree.log.shape.entries);
    let Some(summary) = tree.log.read_summary(block)? else {
        let whole = read[entries..].iter().all(|page| page.tags().is_some() && page.verdict != Verdict::Uncorrectable);
        let finding = match whole {
            true => (Severity::Error, "summary not valid", "the block's summary is not valid; mounts read all tags"),
            false => (
                Severity::Tidy,
                "summary not whole",
                "writing the block's summary was interrupted; mounts read all tags",
            ),
        };
        find(tree, report, chunk, None, (finding.0, finding.1, finding.2.to_owned()));
        return Ok(());
    };
    report.summarised_blocks += 1;
    for (at, (entry, page)) in (0u32..).zip(summary.iter().zip(read)) {
        // Without an entry the tags are read.
        if entry.object == 0 {
            continue;
        }
        let said = entry.meaning();
        let agree = match &page.found {
            Found::Tags { tags, .. } => said == Some((tags.object, tags.content)),
            Found::Unused | Found::Deleted => false,
            // The summary is there for that.
            Found::Broken => true,
        };
        if !agree {
            let (chunk, object) = (tree.log.chip.chunk(block, at), page.tags().map(|tags| tags.object));
            let said = match said {
                Some((object, content)) => describe(&Tags { sequence: 0, object, content }),
                None => "an impossible entry".to_owned(),
            };
            let found = page.tags().map_or("nothing".to_owned(), describe);
            let what = format!("the block's summary has {said} here, the page's tags say {found}");
            find(tree, report, chunk, object, (Severity::Error, "summary disagrees with tags", what));
        }
    }
    Ok(())
}
