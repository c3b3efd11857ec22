//! Reading a checkpoint. Whatever is not as it should be makes it no checkpoint: the mount scans then.

use super::stream::{Invalid, Reader};
use super::{
    DEVICE_BYTES, LEAF_CHUNKS, MAGIC, NO_LEAF, OBJECT_BYTES, VALIDITY_BYTES, VERSION, leaf_bytes, shifted_width,
};
use crate::bytes::u32_at;
use crate::log::blocks::{Blocks, Flag, State};
use crate::log::chip::{Block, Chip};
use crate::log::tags::{Content, Found, Kind};
use crate::log::{CHECKPOINT_SEQUENCE, First, Head, Log};
use crate::tree::map::Width;
use crate::tree::objects::{DELETED_ID, LARGEST_OBJECT, LOST_ID, Object, Objects, ROOT_ID, UNLINKED_ID};
use crate::tree::width_of;
use pocketstone_media::nand::Verdict;
use pocketstone_vfs::Result;
use std::cell::Cell;

/// What a checkpoint says.
pub struct Saved {
    pub blocks: Blocks,
    pub head: Head,
    pub objects: Objects,
    /// Hard links: link, target.
    pub links: Vec<(u32, u32)>,
    /// By how much its writer's numbers of blocks are larger.
    pub shift: Block,
}

/// The state that a checkpoint in these blocks holds, in their order; `None` if it is not valid. `firsts`: what
/// the first page of each block is.
pub fn read(log: &mut Log, checkpoint: &[Block], firsts: &[First]) -> Result<Option<Saved>> {
    // The pointers of the machine that wrote it are as long as ours, or not.
    let own = size_of::<usize>();
    for (shift, pointer_bytes) in
        shifts(log, checkpoint, firsts).into_iter().flat_map(|shift| [(shift, own), (shift, 12 - own)])
    {
        let stored = shifted_width(log, shift);
        let leaf = leaf_bytes(stored, pointer_bytes);
        if pointer_bytes != own && leaf == leaf_bytes(stored, own) {
            continue;
        }
        let parser = Parser {
            width: width_of(log),
            stored,
            shift,
            owned: Cell::new(0),
            leaf,
            pages: log.chip.pages_per_block(),
            last_chunk: log.chip.chunk(log.chip.blocks() + 1, 0),
            fresh: Blocks::new(log.chip.blocks(), log.chip.pages_per_block(), log.shape),
        };
        let mut medium = None;
        let chip = &mut log.chip;
        let read = |index: u32| match checkpoint_page(chip, checkpoint, index) {
            Ok(page) => page,
            Err(error) => {
                medium = Some(error);
                None
            }
        };
        let parsed = parser.parse(&mut Reader::new(read));
        if let Some(error) = medium {
            return Err(error);
        }
        let Ok((state, owned)) = parsed else { continue };
        // The shift is right if the block that is being filled is, or if all pages in use have an owner: no other could
        // have that many in the same places.
        if state.head.block != 0 || owned == state.blocks.used() || names_its_pages(log, &state)? {
            return Ok((fits(&state, firsts) && sizes_fit(&log.chip, &state)).then_some(state));
        }
    }
    Ok(None)
}

/// By how much a checkpoint's numbers may be larger, by the block that its first page's tags say to look in next: some
/// writers give that page's own block, others the one after it.
fn shifts(log: &Log, checkpoint: &[Block], firsts: &[First]) -> Vec<Block> {
    let mut shifts = vec![0];
    let first = checkpoint.first().and_then(|&block| Some((block, firsts.get(block as usize - 1)?)));
    if let Some((block, First::Checkpoint { next, .. })) = first {
        let largest = (1u32 << 28) / log.chip.pages_per_block();
        for own in [*next, next.saturating_sub(1)] {
            let fits = own.checked_add(log.chip.blocks()).is_some_and(|last| last < largest);
            if let (Some(shift), true) = (own.checked_sub(block), fits) {
                shifts.push(shift);
            }
        }
    }
    shifts.sort_unstable();
    shifts.dedup();
    shifts
}

/// Whether the page that should be an object's header is one, of the first object that has one.
fn names_its_pages(log: &mut Log, state: &Saved) -> Result<bool> {
    for id in state.objects.ids() {
        let Some(object) = state.objects.get(id).filter(|object| object.header != 0) else { continue };
        return Ok(match log.chip.read_tags(object.header)? {
            Found::Tags { tags, .. } => tags.object == id && !matches!(tags.content, Content::Data { .. }),
            // It has worn out, and is told as that.
            _ => true,
        });
    }
    Ok(true)
}

/// Whether the blocks are what a checkpoint takes them for.
fn fits(state: &Saved, firsts: &[First]) -> bool {
    state.blocks.all().zip(firsts).all(|(block, first)| match (state.blocks.get(block).state, first) {
        (State::Dead, first) => *first == First::Dead,
        (State::Empty, first) => matches!(first, First::Unused | First::Checkpoint { .. }),
        (State::Full | State::Allocating, First::Sequence(sequence)) => state.blocks.get(block).sequence == *sequence,
        // Its first page is broken; a scan found a later one.
        (State::Full, First::Broken) => true,
        _ => false,
    })
}

/// Whether files are no larger than any can be.
fn sizes_fit(chip: &Chip, state: &Saved) -> bool {
    let mut files = state.objects.ids().into_iter().filter_map(|id| state.objects.get(id));
    files.all(|object| object.kind != Kind::File || object.value <= chip.largest_file())
}

fn checkpoint_page(chip: &mut Chip, blocks: &[Block], index: u32) -> Result<Option<Vec<u8>>> {
    let pages = chip.pages_per_block();
    let Some(&block) = blocks.get((index / pages) as usize) else { return Ok(None) };
    let mut data = vec![0; chip.data_bytes()];
    let whole = chip.read(chip.chunk(block, index % pages), &mut data)?;
    let right = match whole.tags {
        Found::Tags { tags, .. } => {
            tags.sequence == CHECKPOINT_SEQUENCE
                && matches!(tags.content, Content::Data { chunk, .. } if chunk == index + 1)
        }
        _ => false,
    };
    Ok((right && whole.verdict != Verdict::Uncorrectable).then_some(data))
}

struct Parser {
    width: Width,
    /// What its numbers are like, and by how much those of its blocks are larger.
    stored: Width,
    shift: Block,
    /// How many pages objects have named.
    owned: Cell<u64>,
    leaf: usize,
    pages: u32,
    /// One more than the largest chunk.
    last_chunk: u32,
    fresh: Blocks,
}

impl Parser {
    fn parse<F: FnMut(u32) -> Option<Vec<u8>>>(mut self, from: &mut Reader<F>) -> Result<(Saved, u64), Invalid> {
        let must = |is: bool| if is { Ok(()) } else { Err(Invalid) };
        must(from.words::<4>()? == [VALIDITY_BYTES, MAGIC, VERSION, 1])?;
        let [bytes, _, block, page, _, _, _, _, sequence] = from.words::<9>()?;
        must(bytes == DEVICE_BYTES)?;
        self.fresh.doubtful = true;
        let mut head = Head { sequence, ..Head::default() };
        if block != u32::MAX {
            let block = block.checked_sub(self.shift).ok_or(Invalid)?;
            must(self.fresh.all().contains(&block) && page < self.pages)?;
            (head.block, head.page, head.finder) = (block, page, block);
        }
        let mut used = Vec::new();
        for block in self.fresh.all() {
            let [bits, sequence] = from.words::<2>()?;
            let state = State::of(bits >> 20 & 0xF).ok_or(Invalid)?;
            used.push((bits >> 10 & 0x3FF) as u16);
            match state {
                State::Dead => self.fresh.set_dead(block),
                State::Empty => self.fresh.set_empty(block, bits >> 25 & 1 == 1),
                State::Checkpoint => self.fresh.set_empty(block, false),
                State::Full | State::Collecting | State::Allocating => {
                    let info = self.fresh.get_mut(block);
                    info.state = if state == State::Allocating { state } else { State::Full };
                    info.sequence = sequence;
                    info.set(Flag::Retiring, bits >> 24 & 1 == 1);
                    info.set(Flag::Prioritised, bits >> 26 & 1 == 1);
                    info.set(Flag::Summary, bits >> 30 & 1 == 1);
                    info.set(Flag::Shrinks, bits >> 31 == 1);
                    // The one being filled has to be the log's.
                    must((state == State::Allocating) == (head.block == block))?;
                }
                _ => return Err(Invalid),
            }
            self.fresh.get_mut(block).set_strikes(bits >> 27 & 7);
        }
        let mut bitmap = vec![0; self.pages.div_ceil(8) as usize];
        for (block, used) in self.fresh.all().zip(used) {
            from.take(&mut bitmap)?;
            for page in (0..self.pages).filter(|page| bitmap[*page as usize / 8] >> (page % 8) & 1 == 1) {
                must(matches!(self.fresh.get(block).state, State::Full | State::Allocating))?;
                self.fresh.mark(block * self.pages + page);
            }
            must(self.fresh.get(block).used == used || self.pages > 0x3FF)?;
            // Some writers count a summary's pages as in use.
            for page in self.fresh.capacity(self.fresh.get(block))..self.pages {
                self.fresh.clear(block * self.pages + page);
            }
        }
        let (objects, links) = self.objects(from)?;
        must(from.words::<4>()? == [VALIDITY_BYTES, MAGIC, VERSION, 0])?;
        let expected = from.sums.last();
        must(from.words::<1>()? == [expected])?;
        let owned = self.owned.get();
        Ok((Saved { blocks: self.fresh, head, objects, links, shift: self.shift }, owned))
    }

    fn objects<F: FnMut(u32) -> Option<Vec<u8>>>(
        &self,
        from: &mut Reader<F>,
    ) -> Result<(Objects, Vec<(u32, u32)>), Invalid> {
        let mut objects = Objects::fixed();
        let mut parents = Vec::new();
        let mut links = Vec::new();
        let is_chunk = |chunk: u32| (self.pages..self.last_chunk).contains(&chunk) && self.fresh.is_used(chunk);
        loop {
            let [bytes, id, parent, header, bits, _, low, high] = from.words::<8>()?;
            if bytes != OBJECT_BYTES {
                return Err(Invalid);
            }
            if id == u32::MAX {
                break;
            }
            let header = self.own(header)?;
            let kind = Kind::of(bits & 7).ok_or(Invalid)?;
            let known = matches!(id, ROOT_ID | LOST_ID | UNLINKED_ID | DELETED_ID);
            if !(1..LARGEST_OBJECT).contains(&id)
                || known != objects.get(id).is_some()
                || header != 0 && !is_chunk(header)
            {
                return Err(Invalid);
            }
            let mut object = Object::new(kind);
            object.header = header;
            if kind != Kind::Directory {
                object.value = u64::from(high) << 32 | u64::from(low);
            }
            if kind == Kind::HardLink {
                links.push((id, low));
            }
            if kind == Kind::File {
                self.leaves(from, &mut object, is_chunk)?;
            }
            if known {
                if kind != Kind::Directory {
                    return Err(Invalid);
                }
                if let Some(fixed) = objects.get_mut(id) {
                    fixed.header = header;
                }
            } else {
                objects.insert(id, object);
                parents.push((id, parent));
            }
        }
        for (id, parent) in parents {
            let is_directory = objects.get(parent).is_some_and(|parent| parent.kind == Kind::Directory);
            objects.attach(id, if is_directory && parent != id { parent } else { LOST_ID });
        }
        Ok((objects, links))
    }

    /// A chunk's number here, which is counted; 0 is none everywhere.
    fn own(&self, chunk: u32) -> Result<u32, Invalid> {
        let shift = self.shift * self.pages;
        self.owned.set(self.owned.get() + u64::from(chunk != 0));
        if chunk == 0 { Ok(0) } else { chunk.checked_sub(shift).filter(|&own| own != 0).ok_or(Invalid) }
    }

    fn leaves<F: FnMut(u32) -> Option<Vec<u8>>>(
        &self,
        from: &mut Reader<F>,
        object: &mut Object,
        is_chunk: impl Fn(u32) -> bool,
    ) -> Result<(), Invalid> {
        let mut bytes = vec![0; self.leaf];
        loop {
            let [base] = from.words::<1>()?;
            if base == NO_LEAF {
                return Ok(());
            }
            if base % LEAF_CHUNKS != 0 || base >= 1 << 28 {
                return Err(Invalid);
            }
            from.take(&mut bytes)?;
            let words: Vec<u32> = bytes.chunks_exact(4).map(|bytes| u32_at(bytes, 0)).collect();
            for chunk in base.max(1)..base + LEAF_CHUNKS {
                match self.own(self.stored.get(&words, chunk - base))? {
                    0 => {}
                    place if is_chunk(place) => object.map.set(self.width, chunk - 1, place),
                    _ => return Err(Invalid),
                }
            }
        }
    }
}
