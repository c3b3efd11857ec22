//! Finding a volume's state by looking at the tags of every page, newest first.

use super::yaffs1;
use crate::log::blocks::{Flag, State};
use crate::log::chip::{Block, Chunk};
use crate::log::summary::SUMMARY_OBJECT;
use crate::log::tags::{Content, Extra, Found, Kind, Tags};
use crate::log::{FIRST_SEQUENCE, First, LAST_SEQUENCE};
use crate::tree::Tree;
use crate::tree::header::Header;
use crate::tree::objects::{DELETED_ID, LARGEST_OBJECT, LOST_ID, Mark, Object, UNLINKED_ID, is_fixed};
use pocketstone_media::nand::Verdict;
use pocketstone_vfs::{MediumError, Result};
use std::collections::{HashMap, HashSet};

/// Blocks that losses of power can leave behind on an empty volume.
const LEFT_BEHIND: usize = 2;
/// No object of a user has a smaller number.
const FIRST_USER: u32 = SUMMARY_OBJECT + 1;

/// What is known of objects while their chunks are being found, beside what stays.
#[derive(Default)]
pub struct Growing {
    /// What is older and lies at or beyond this size is of no use.
    limits: HashMap<u32, u64>,
    links: Vec<(u32, u32)>,
    /// Files that are longer than their newest headers say, with those sizes.
    pub longer: Vec<(u32, u64)>,
    /// Chunks of files that were cut in the middle of them, with the sizes: what is behind has not been taken away.
    pub untrimmed: Vec<(u32, u32, u64)>,
    /// A header could not be read: what lies in lost+found may be all that is left of something.
    pub damaged: bool,
    /// Objects whose newest header says that they are deleted, and that its block keeps what is older hidden.
    pub deleted: Vec<u32>,
    /// Objects that others replace, and whose deletion was not seen.
    pub replaced: Vec<u32>,
    /// YAFFS1's chunks that have newer ones, and were not marked before the power failed.
    stale: HashSet<Chunk>,
    /// Room for a header.
    page: Vec<u8>,
}

/// Looks at every block, newest first, and in each at every page, last first. Gives what is to be put in
/// order.
pub fn scan(tree: &mut Tree, firsts: &[First]) -> Result<Growing> {
    let mut order: Vec<(u32, Block)> = Vec::new();
    for (block, first) in (1..).zip(firsts) {
        match first {
            First::Dead => tree.log.blocks.set_dead(block),
            First::Unused | First::Checkpoint { .. } => tree.log.blocks.set_empty(block, false),
            First::Sequence(sequence) => order.push((*sequence, block)),
            // Its first page was cut short, or has worn out: a later one may say whose the block is.
            First::Broken => order.push((later_sequence(tree, block)?, block)),
        }
    }
    order.sort_unstable();
    tree.log.blocks.doubtful = !order.is_empty();
    tree.log.head.finder = order.last().map_or(0, |&(_, block)| block);
    let mut growing = Growing::default();
    if tree.log.chip.yaffs1 {
        growing.stale = yaffs1::stale_chunks(&mut tree.log)?;
    }
    for &(sequence, block) in order.iter().rev() {
        let info = tree.log.blocks.get_mut(block);
        (info.state, info.sequence) = (State::Full, sequence);
        scan_block(tree, block, &mut growing)?;
    }
    // A block of which nothing is of use may have a number of chance: it was being erased, and is before any write.
    let counts = |&&(_, block): &&(u32, Block)| tree.log.blocks.get(block).state != State::Dirty;
    let newest = order.iter().filter(counts).map(|&(sequence, _)| sequence).max();
    tree.log.head.sequence = newest.unwrap_or(FIRST_SEQUENCE).max(FIRST_SEQUENCE);
    tree.note_links(std::mem::take(&mut growing.links));
    must_be_ours(tree, firsts, &order)?;
    Ok(growing)
}

fn later_sequence(tree: &mut Tree, block: Block) -> Result<u32> {
    for page in 1..tree.log.chip.pages_per_block() {
        let chunk = tree.log.chip.chunk(block, page);
        if let Found::Tags { tags, corrected } = tree.log.chip.read_tags(chunk)? {
            let sure = !corrected && tree.log.chip.guards_tags() || tree.log.is_whole(chunk)?;
            if sure && (FIRST_SEQUENCE..=LAST_SEQUENCE).contains(&tags.sequence) {
                return Ok(tags.sequence);
            }
        }
    }
    // Nothing in it is of use: it will be erased.
    Ok(FIRST_SEQUENCE)
}

/// Refuses what is no YAFFS2 volume, before anything of it is erased: a chip on which nothing makes sense, but for
/// what one loss of power can leave behind.
fn must_be_ours(tree: &mut Tree, firsts: &[First], order: &[(u32, Block)]) -> Result<()> {
    if !tree.objects.ids().into_iter().all(is_fixed) {
        return Ok(());
    }
    let useless = |&&(_, block): &&(u32, Block)| {
        let info = tree.log.blocks.get(block);
        info.used == 0 && !info.has(Flag::Shrinks)
    };
    let useless: Vec<Block> = order.iter().filter(useless).map(|&(_, block)| block).collect();
    let what = tree.log.chip.describe();
    let mut page = vec![0; tree.log.chip.data_bytes()];
    for &block in useless.iter().take(8) {
        let chunk = tree.log.chip.chunk(block, 0);
        let whole = tree.log.chip.read(chunk, &mut page)?;
        let ours = matches!(whole.tags, Found::Tags { tags, .. } if tags.object < LARGEST_OBJECT);
        if !ours && Header::is_big_endian(&page) {
            let error = MediumError::refused(format!("{what} was written by a big-endian machine"))
                .hint("such volumes can be read only: mount it read-only, or extract an image of it");
            return Err(error.into());
        }
    }
    // Pages may be full and have nothing where tags would be: another file system's, or tags are elsewhere.
    let mut written = useless.len();
    for (block, _) in (1..).zip(firsts).filter(|(_, first)| **first == First::Unused) {
        written += usize::from(tree.log.chip.is_written(tree.log.chip.chunk(block, 0))?);
    }
    if written <= LEFT_BEHIND {
        return Ok(());
    }
    let error = MediumError::refused(format!(
        "{what} is not a YAFFS2 volume: {written} blocks have data, but no page can be decoded"
    ))
    .hint("check the options for tags (in-band, error correction) and the layout; `yaffs2 mkfs` erases everything");
    Err(error.into())
}

fn scan_block(tree: &mut Tree, block: Block, growing: &mut Growing) -> Result<()> {
    let pages = tree.log.chip.pages_per_block();
    let summary = tree.log.read_summary(block)?;
    if summary.is_some() {
        tree.log.blocks.get_mut(block).set(Flag::Summary, true);
    }
    // Without a summary behind it, the last page may have been cut short.
    let mut suspect = summary.is_none();
    let sequence = tree.log.blocks.get(block).sequence;
    let mut all = Vec::with_capacity(pages as usize);
    for page in 0..if summary.is_some() { tree.log.shape.entries } else { pages } {
        let known = summary.as_ref().map(|entries| entries[page as usize]).filter(|entry| entry.object != 0);
        all.push(match known.and_then(|entry| entry.meaning()) {
            Some((object, content)) => Found::Tags { tags: Tags { sequence, object, content }, corrected: false },
            None => tree.log.chip.read_tags(tree.log.chip.chunk(block, page))?,
        });
    }
    // Tags that do not fit together: an erase was cut short, and what looks like tags may be so by chance.
    let is_own = |found: &Found| match found {
        Found::Unused => true,
        Found::Tags { tags, .. } => tags.sequence == sequence,
        Found::Broken => false,
        Found::Deleted => true,
    };
    let mut odd = summary.is_none() && !tree.log.chip.inband && !all.iter().all(is_own);
    for (page, found) in all.into_iter().enumerate().rev() {
        let page = page as u32;
        let chunk = tree.log.chip.chunk(block, page);
        match found {
            Found::Unused => continue,
            // Only the last page that was written may have been cut short: what another one held is lost.
            Found::Broken => growing.damaged |= !std::mem::take(&mut suspect),
            Found::Deleted => suspect = false,
            Found::Tags { tags, corrected } => {
                let last = std::mem::take(&mut suspect);
                let doubt = last || odd && (corrected || !tree.log.chip.ecc);
                let whole = !doubt || tree.log.is_whole(chunk)?;
                // It may be an erase that was cut short instead of a program.
                odd |= last && !whole && !tree.log.chip.inband;
                if whole
                    && tags.sequence == sequence
                    && tags.object != SUMMARY_OBJECT
                    && !growing.stale.contains(&chunk)
                {
                    scan_chunk(tree, chunk, &tags, growing)?;
                }
            }
        }
    }
    if tree.log.blocks.get(block).used == 0 && !tree.log.blocks.get(block).has(Flag::Shrinks) && !tree.log.read_only {
        // Nothing is written while there is a checkpoint that may be taken for true.
        tree.log.blocks.get_mut(block).state = State::Dirty;
    }
    Ok(())
}

fn scan_chunk(tree: &mut Tree, chunk: Chunk, tags: &Tags, growing: &mut Growing) -> Result<()> {
    let id = tags.object;
    if !(1..LARGEST_OBJECT).contains(&id) || matches!(id, UNLINKED_ID | DELETED_ID) {
        return Ok(());
    }
    match tags.content {
        Content::Data { chunk: number, bytes } => {
            if number < 1 << 28 && bytes as usize <= tree.log.chip.data_bytes() {
                scan_data(tree, chunk, id, number, bytes, growing);
            }
            Ok(())
        }
        Content::Extra(extra) => scan_header(tree, chunk, id, Some(extra), growing),
        Content::Header => scan_header(tree, chunk, id, None, growing),
    }
}

/// A file's chunk: the first one seen is the newest.
fn scan_data(tree: &mut Tree, chunk: Chunk, id: u32, number: u32, bytes: u32, growing: &mut Growing) {
    if tree.objects.get(id).is_none() {
        let mut object = Object::new(Kind::File);
        object.set(Mark::Placeholder, true);
        tree.objects.insert(id, object);
        tree.objects.attach(id, LOST_ID);
    }
    let width = tree.width;
    let start = u64::from(number - 1) * tree.log.chip.data_bytes() as u64;
    // Without an order in time no header says what is beyond a file's end: its chunks do.
    let unordered = tree.log.chip.yaffs1;
    let Some(object) = tree.objects.get_mut(id) else { return };
    let limit = growing.limits.get(&id).filter(|_| !unordered).copied().unwrap_or(u64::MAX);
    if object.kind != Kind::File || start >= limit || object.map.get(width, number - 1) != 0 {
        return;
    }
    object.map.set(width, number - 1, chunk);
    if object.has(Mark::Placeholder) || unordered {
        object.value = object.value.max(start + u64::from(bytes));
    }
    if start + u64::from(bytes) > limit {
        growing.untrimmed.push((id, number, limit));
    }
    tree.log.blocks.mark(chunk);
}

fn scan_header(tree: &mut Tree, chunk: Chunk, id: u32, extra: Option<Extra>, growing: &mut Growing) -> Result<()> {
    let known = tree.objects.get(id).filter(|object| object.header != 0 || !object.has(Mark::Placeholder));
    let is_fixed = is_fixed(id);
    let older = known.is_some() && !(is_fixed && known.is_some_and(|object| object.header == 0));
    let needs_page = extra.is_none() || !older && extra.is_some_and(|extra| extra.shadows);
    let mut header = None;
    let mut page = std::mem::take(&mut growing.page);
    if needs_page {
        page.resize(tree.log.chip.data_bytes(), 0);
        if tree.log.chip.read(chunk, &mut page)?.verdict != Verdict::Uncorrectable {
            header = Header::decode(&page, tree.log.chip.inband);
        }
        if header.is_none() {
            growing.damaged = true;
            return Ok(());
        }
    }
    let (kind, parent, size, target, shrinks, shadows) = match (&extra, &header) {
        (Some(extra), header) => {
            let value = u64::from(extra.value);
            let shadows = header.as_ref().map_or(0, |header| header.shadows);
            (extra.kind, extra.parent, value, extra.value, extra.shrinks, shadows)
        }
        (None, Some(header)) => {
            (header.kind, header.parent, header.size, header.equivalent, header.shrinks, header.shadows)
        }
        (None, None) => return Ok(()),
    };
    if shrinks {
        tree.log.blocks.get_mut(tree.log.chip.block_of(chunk)).set(Flag::Shrinks, true);
    }
    let gone = matches!(parent, UNLINKED_ID | DELETED_ID);
    if older {
        if shrinks || gone {
            let limit = growing.limits.entry(id).or_insert(u64::MAX);
            *limit = (*limit).min(if gone { 0 } else { size });
        }
        return Ok(());
    }
    if kind == Kind::Unknown || is_fixed && kind != Kind::Directory {
        return Ok(());
    }
    tree.log.blocks.mark(chunk);
    if is_fixed {
        if let Some(object) = tree.objects.get_mut(id) {
            object.header = chunk;
        }
        return Ok(());
    }
    adopt(tree, id, kind, parent);
    if shrinks && parent == DELETED_ID {
        growing.deleted.push(id);
    }
    let largest = tree.log.chip.largest_file();
    growing.damaged |= kind == Kind::File && size > largest;
    let size = size.min(largest);
    let unordered = tree.log.chip.yaffs1;
    let limit = growing.limits.entry(id).or_insert(u64::MAX);
    if kind == Kind::File {
        *limit = (*limit).min(size);
    }
    let Some(object) = tree.objects.get_mut(id) else { return Ok(()) };
    object.header = chunk;
    match kind {
        Kind::File => {
            if object.value > size && !shrinks && !unordered {
                growing.longer.push((id, size));
            }
            object.value = object.value.max(size);
        }
        Kind::HardLink => {
            object.value = target.into();
            growing.links.push((id, target));
        }
        _ => {}
    }
    if let Some(header) = &header {
        tree.objects.name(id, &header.name);
        tree.details.scanned(id, header, &page);
    }
    growing.page = page;
    shadow(tree, shadows, growing);
    Ok(())
}

/// An object's newest header was found: what was put in its place until now becomes what it is.
fn adopt(tree: &mut Tree, id: u32, kind: Kind, parent: u32) {
    if tree.objects.get(id).is_none() {
        tree.objects.insert(id, Object::new(kind));
    }
    if tree.objects.get(parent).is_none() && (FIRST_USER..LARGEST_OBJECT).contains(&parent) {
        let mut object = Object::new(Kind::Directory);
        object.set(Mark::Placeholder, true);
        tree.objects.insert(parent, object);
        tree.objects.attach(parent, LOST_ID);
    }
    tree.objects.detach(id);
    if let Some(object) = tree.objects.get_mut(id) {
        object.set(Mark::Placeholder, false);
        if object.kind != kind {
            // Chunks of what is no file belong to nobody.
            let chunks: Vec<(u32, Chunk)> = object.map.chunks(tree.width).collect();
            let children = std::mem::replace(object, Object::new(kind));
            if children.kind == Kind::Directory {
                tree.objects.insert(id, children);
                tree.objects.children(id).collect::<Vec<_>>().into_iter().for_each(|child| tree.lose(child));
                tree.objects.insert(id, Object::new(kind));
            }
            chunks.into_iter().for_each(|(_, chunk)| tree.log.blocks.clear(chunk));
        }
    }
    let is_directory = tree.objects.get(parent).is_some_and(|object| object.kind == Kind::Directory);
    tree.objects.attach(id, if is_directory && parent != id { parent } else { LOST_ID });
}

/// A header replaces an object: whatever is older of that is of no use.
fn shadow(tree: &mut Tree, victim: u32, growing: &mut Growing) {
    if (FIRST_USER..LARGEST_OBJECT).contains(&victim) && tree.objects.get(victim).is_none() {
        tree.objects.insert(victim, Object::new(Kind::File));
        tree.objects.attach(victim, UNLINKED_ID);
        growing.limits.insert(victim, 0);
        growing.replaced.push(victim);
    }
}
