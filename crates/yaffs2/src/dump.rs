//! What lies on a chip, page by page, in words. Damage is no error here: it is said.

use crate::checkpoint::{self, Saved};
use crate::log::blocks::State;
use crate::log::chip::{Block, Chip, Chunk};
use crate::log::summary::SUMMARY_OBJECT;
use crate::log::tags::{Content, Extra, Found, Kind, Tags};
use crate::log::{BAD_SEQUENCE, CHECKPOINT_SEQUENCE, FIRST_SEQUENCE, First, LAST_SEQUENCE, Log};
use crate::options::OpenOptions;
use crate::tree::header::{HEADER_BYTES, Header};
use crate::tree::{width_of, xattrs};
use pocketstone_media::nand::{Nand, Verdict};
use pocketstone_vfs::{MediumError, Result, setters};

/// What to tell of a chip.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DumpOptions {
    /// This block alone, from 0, without the checkpoint.
    pub block: Option<u32>,
    /// The entries of block summaries, too.
    pub summary: bool,
}

impl DumpOptions {
    setters! { block: impl Into<Option<u32>>, summary: bool }
}

/// Tells what lies on a chip, line by line, until `line` returns false. Of `options`, those count that say how tags
/// and summaries are stored.
///
/// # Errors
/// `Medium` if the chip cannot be read, or its geometry is unsupported.
pub fn dump(
    nand: Box<dyn Nand>,
    options: &OpenOptions,
    what: &DumpOptions,
    line: &mut dyn FnMut(&str) -> bool,
) -> Result<()> {
    let options = OpenOptions { read_only: true, ..options.clone() };
    let mut log = open(nand, &options)?;
    let blocks = match what.block {
        Some(block) if block >= log.chip.blocks() => {
            let error = MediumError::refused(format!("no block {block}"))
                .hint(format!("blocks are numbered from 0 to {}", log.chip.blocks() - 1));
            return Err(error.into());
        }
        Some(block) => block + 1..=block + 1,
        None => log.blocks.all(),
    };
    if !line(&log.chip.describe()) {
        return Ok(());
    }
    // Blocks of which there is nothing to tell are told together.
    let mut erased: Option<(Block, Block)> = None;
    for block in blocks {
        let mut lines = Vec::new();
        if block_lines(&mut log, block, what, &mut lines)? {
            erased = Some((erased.map_or(block, |(first, _)| first), block));
            continue;
        }
        lines.splice(0..0, erased.take().map(erased_line));
        if !lines.iter().all(|text| line(text)) {
            return Ok(());
        }
    }
    if !erased.map(erased_line).is_none_or(|text| line(&text)) || what.block.is_some() {
        return Ok(());
    }
    checkpoint_lines(&mut log, line)
}

/// A log of which nothing but its chip is known.
fn open(nand: Box<dyn Nand>, options: &OpenOptions) -> Result<Log> {
    let chip = Chip::new(nand, options)?;
    Ok(Log::new(chip, options.summary, options.read_only))
}

fn erased_line((first, last): (Block, Block)) -> String {
    match first == last {
        true => format!("block {}: erased", first - 1),
        false => format!("blocks {} to {}: erased", first - 1, last - 1),
    }
}

/// A block's lines. True: all of it is erased.
fn block_lines(log: &mut Log, block: Block, what: &DumpOptions, lines: &mut Vec<String>) -> Result<bool> {
    let pages = log.chip.pages_per_block();
    if log.chip.is_bad(block)? {
        lines.push(format!("block {}: bad", block - 1));
        return Ok(false);
    }
    let mut all_erased = true;
    let mut sequence = None;
    let mut data = vec![0; log.chip.data_bytes()];
    for page in 0..pages {
        let chunk = log.chip.chunk(block, page);
        let whole = log.chip.read(chunk, &mut data)?;
        if whole.tags == Found::Unused && data.iter().all(|&byte| byte == 0xFF) {
            continue;
        }
        all_erased = false;
        if let (None, Found::Tags { tags, .. }) = (sequence, &whole.tags) {
            sequence = Some(tags.sequence);
        }
        lines.push(page_line(page, &whole.tags, whole.verdict, sequence));
        let Found::Tags { tags, .. } = whole.tags else { continue };
        if !matches!(tags.content, Content::Data { .. }) {
            lines.extend(header_lines(&data, log.chip.inband));
        }
    }
    let kind = match sequence {
        None => "written, without tags".to_owned(),
        Some(CHECKPOINT_SEQUENCE) => "checkpoint".to_owned(),
        Some(_) if log.chip.yaffs1 => "YAFFS1".to_owned(),
        Some(BAD_SEQUENCE) => "given up".to_owned(),
        Some(sequence) if (FIRST_SEQUENCE..=LAST_SEQUENCE).contains(&sequence) => format!("sequence {sequence:#x}"),
        Some(sequence) => format!("invalid sequence {sequence:#x}"),
    };
    lines.insert(0, format!("block {}: {kind}", block - 1));
    if let (true, Some(sequence)) = (what.summary && log.shape.is_on(), sequence) {
        log.blocks.get_mut(block).sequence = sequence;
        match log.read_summary(block)? {
            None => lines.push("  no summary".to_owned()),
            Some(entries) => {
                lines.push("  summary".to_owned());
                lines.extend((0u32..).zip(entries).map(|(page, entry)| match entry.meaning() {
                    _ if entry.object == 0 => format!("  {page:>4}  no entry"),
                    Some((object, content)) => format!("  {page:>4}  {}", content_words(object, &content)),
                    None => format!("  {page:>4}  an impossible entry: {entry:x?}"),
                }));
            }
        }
    }
    Ok(all_erased)
}

fn page_line(page: u32, found: &Found, verdict: Verdict, block: Option<u32>) -> String {
    let mut text = match found {
        Found::Unused => "written, without tags".to_owned(),
        Found::Deleted => "deleted".to_owned(),
        Found::Broken => "tags that cannot be decoded".to_owned(),
        Found::Tags { tags, .. } if tags.sequence == CHECKPOINT_SEQUENCE => checkpoint_page(tags),
        Found::Tags { tags, .. } => content_words(tags.object, &tags.content),
    };
    if let Found::Tags { tags, corrected } = found {
        if Some(tags.sequence) != block {
            text += &format!("; sequence {:#x}", tags.sequence);
        }
        if *corrected {
            text += "; tags corrected";
        }
    }
    text += match verdict {
        Verdict::Clean => "",
        Verdict::Corrected => "; data corrected",
        Verdict::Uncorrectable => "; data cannot be corrected",
    };
    format!("  {page:>4}  {text}")
}

fn checkpoint_page(tags: &Tags) -> String {
    match tags.content {
        Content::Data { chunk, bytes } => format!("checkpoint page {chunk}, {bytes} bytes; next after {}", tags.object),
        _ => "not a checkpoint page".to_owned(),
    }
}

fn content_words(object: u32, content: &Content) -> String {
    match content {
        Content::Data { chunk, bytes } if object == SUMMARY_OBJECT => format!("summary page {chunk}, {bytes} bytes"),
        Content::Data { chunk, bytes } => format!("object {object}, chunk {chunk}, {bytes} bytes"),
        Content::Header => format!("object {object}, header"),
        Content::Extra(extra) => format!("object {object}, header: {}", extra_words(extra)),
    }
}

fn extra_words(extra: &Extra) -> String {
    let value = match extra.kind {
        Kind::File => format!(", {} bytes", extra.value),
        Kind::HardLink => format!(" to {}", extra.value),
        _ => String::new(),
    };
    let shrinks = if extra.shrinks { ", shrinks" } else { "" };
    let shadows = if extra.shadows { ", replaces another" } else { "" };
    format!("{}{value}, in {}{shrinks}{shadows}", extra.kind.word(), extra.parent)
}

/// What a header's page says.
fn header_lines(page: &[u8], inband: bool) -> Vec<String> {
    let Some(header) = Header::decode(page, inband) else { return vec!["        no header".to_owned()] };
    let mut text = format!("{} `{}` in {}", header.kind.word(), shown(&header.name), header.parent);
    match header.kind {
        Kind::File => text += &format!(", {} bytes", header.size),
        Kind::Symlink => text += &format!(" -> `{}`", shown(&header.target)),
        Kind::HardLink => text += &format!(" to object {}", header.equivalent),
        Kind::Special => text += &format!(", device {:#x}", header.rdev),
        Kind::Directory | Kind::Unknown => {}
    }
    if header.shadows != 0 {
        text += &format!(", replaces object {}", header.shadows);
    }
    if header.shrinks {
        text += ", shrinks";
    }
    let mut lines = vec![format!("        {text}")];
    if header.kind != Kind::HardLink {
        let Header { mode, uid, gid, atime_s, mtime_s, ctime_s, .. } = header;
        lines.push(format!(
            "        mode {mode:o}, user {uid}, group {gid}, read {atime_s}, written {mtime_s}, changed {ctime_s}"
        ));
    }
    for (name, value) in xattrs::records(&page[HEADER_BYTES.min(page.len())..]) {
        lines.push(format!("        attribute `{}`, {} bytes", shown(name), value.len()));
    }
    lines
}

/// A name as it can be shown on a terminal.
fn shown(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}

/// Whether a chip has a checkpoint that is whole, and true for blocks of the chip's size. A wrong size is told by this:
/// what is in a checkpoint has a sum, and an entry for each block.
///
/// # Errors
/// `Medium` if the chip cannot be read, or its geometry is unsupported.
pub fn has_checkpoint(nand: Box<dyn Nand>, options: &OpenOptions) -> Result<bool> {
    let mut log = open(nand, options)?;
    Ok(find_checkpoint(&mut log)?.is_some_and(|state| state.is_some()))
}

/// The checkpoint, if there is one, and what it says, if it is valid.
fn find_checkpoint(log: &mut Log) -> Result<Option<Option<Saved>>> {
    let mut firsts = Vec::new();
    for block in log.blocks.all() {
        firsts.push(log.first(block)?);
    }
    let mut blocks: Vec<(u32, Block)> = (1..)
        .zip(&firsts)
        .filter_map(|(block, first)| match first {
            First::Checkpoint { page, .. } => Some((*page, block)),
            _ => None,
        })
        .collect();
    blocks.sort_unstable();
    let blocks: Vec<Block> = blocks.into_iter().map(|(_, block)| block).collect();
    if blocks.is_empty() { Ok(None) } else { checkpoint::read(log, &blocks, &firsts).map(Some) }
}

/// The content of a checkpoint.
fn checkpoint_lines(log: &mut Log, line: &mut dyn FnMut(&str) -> bool) -> Result<()> {
    let state = match find_checkpoint(log)? {
        Some(Some(state)) => state,
        Some(None) => {
            line("an invalid checkpoint, which mounts ignore");
            return Ok(());
        }
        None => {
            line("no checkpoint");
            return Ok(());
        }
    };
    let pages = log.chip.pages_per_block();
    let place = |chunk: Chunk| match chunk {
        0 => "without header".to_owned(),
        chunk => format!("header at block {} page {}", chunk / pages - 1, chunk % pages),
    };
    let writing = match state.head.block {
        0 => "no block is being filled".to_owned(),
        block => format!("block {} is filled up to page {}", block - 1, state.head.page),
    };
    let mut lines = vec![
        format!("checkpoint: newest sequence {:#x}; {writing}", state.head.sequence),
        format!(
            "  {} pages in use, {} blocks erased, {} bad",
            state.blocks.used(),
            state.blocks.erased,
            state.blocks.dead
        ),
    ];
    for block in state.blocks.all() {
        let info = state.blocks.get(block);
        if matches!(info.state, State::Full | State::Allocating) {
            let filling = if info.state == State::Allocating { "being filled" } else { "full" };
            lines.push(format!(
                "  block {}: {filling}, sequence {:#x}, {} pages in use",
                block - 1,
                info.sequence,
                info.used
            ));
        }
    }
    for id in state.objects.ids() {
        let Some(object) = state.objects.get(id) else { continue };
        let value = match object.kind {
            Kind::File => {
                format!(", {} bytes in {} chunks", object.value, object.map.chunks(width_of(log)).count())
            }
            Kind::HardLink => format!(" to {}", object.value),
            _ => String::new(),
        };
        let (kind, parent) = (object.kind.word(), object.parent);
        lines.push(format!("  object {id}: {kind}{value}, in {parent}, {}", place(object.header)));
    }
    lines.iter().all(|text| line(text));
    Ok(())
}
