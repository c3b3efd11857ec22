//! Garbage collection: moving what is of use out of a block, so that it can be erased.
//!
//! While there are erased blocks enough, it works in small steps and takes only blocks that are nearly empty;
//! when they run short, it takes whatever frees most. A block with a header that says "this file shrank" or
//! "this object is gone" waits until nothing older holds garbage: what the header rules out could come back.

use crate::blocks::{Flag, State};
use crate::chip::{Block, Chunk};
use crate::header::Header;
use crate::headers::content_of;
use crate::log::Space;
use crate::objects::UNLINKED_ID;
use crate::tags::{Content, Found, Kind};
use crate::volume::Volume;
use pocketstone_core::inode::{Error, Result};
use pocketstone_media::nand::Verdict;

/// Chunks that a step moves while there is no hurry.
const STEP: u32 = 5;
/// Blocks that are looked at for a victim, at most.
const LOOK_AT: u32 = 100;
/// A block with so many chunks in use is good enough at once.
const GOOD_ENOUGH: u16 = 2;
/// Chunks in use that a victim may have, when a write waits.
const FEW: u32 = 4;

/// What garbage collection is about.
#[derive(Default)]
pub struct Collector {
    /// The block whose chunks are being moved; 0: none.
    victim: Block,
    /// Its next page.
    page: u32,
    finger: Block,
    misses: u32,
    since_refresh: u32,
    running: bool,
    /// Not now: headers on the chip mean something that a copy would not say.
    pub paused: bool,
    /// There may be blocks that should be collected first.
    pub prioritised: bool,
    /// Chunks moved since the mount.
    pub moved: u64,
    /// Blocks freed since the mount.
    pub collected: u64,
}

impl Collector {
    /// A block is erased.
    pub fn forget(&mut self, block: Block) {
        if self.victim == block {
            self.victim = 0;
        }
    }
}

impl Volume {
    /// Collects garbage if that is due; `background`: nobody waits for it.
    pub(crate) fn collect(&mut self, background: bool) -> Result<()> {
        if self.collector.running || self.collector.paused || self.options.read_only {
            return Ok(());
        }
        self.collector.running = true;
        let outcome = self.collect_steps(background);
        self.collector.running = false;
        outcome
    }

    fn collect_steps(&mut self, background: bool) -> Result<()> {
        let pages = i64::from(self.chip.pages_per_block());
        for _ in 0..2 {
            let wanted = self.options.reserved_blocks + self.checkpoint_blocks() + 1;
            let aggressive = self.blocks.erased < wanted;
            let erased = i64::from(self.blocks.erased) * pages;
            let enough = if background { self.blocks.free() / 2 } else { self.blocks.free() / 4 };
            if !aggressive && erased > enough && !self.collector.prioritised {
                break;
            }
            if self.collector.victim == 0 {
                let Some(block) = self.choose(aggressive, background) else { break };
                self.blocks.get_mut(block).state = State::Collecting;
                (self.collector.victim, self.collector.page) = (block, 0);
            }
            self.move_chunks(if aggressive { u32::MAX } else { STEP })?;
            if self.blocks.erased >= self.options.reserved_blocks {
                break;
            }
        }
        Ok(())
    }

    /// A block to collect.
    fn choose(&mut self, aggressive: bool, background: bool) -> Option<Block> {
        let oldest = std::cell::OnceCell::new();
        let may = |volume: &Volume, block: Block| {
            let info = volume.blocks.get(block);
            info.state == State::Full
                && !info.has(Flag::Stuck)
                && (!info.has(Flag::Shrinks)
                    || oldest
                        .get_or_init(|| volume.blocks.oldest_with_garbage())
                        .is_none_or(|sequence: u32| sequence >= info.sequence))
        };
        if self.collector.prioritised {
            let first = self.blocks.all().find(|&b| self.blocks.get(b).has(Flag::Prioritised) && may(self, b));
            if first.is_some() {
                return first;
            }
            self.collector.prioritised = false;
        }
        let has_garbage = |volume: &Volume, block: Block| {
            let info = volume.blocks.get(block);
            u32::from(info.used) < volume.blocks.capacity(info)
        };
        self.collector.since_refresh += 1;
        let period = self.options.refresh_period;
        if !aggressive && period > 0 && self.collector.since_refresh > period {
            self.collector.since_refresh = 0;
            let full = self.blocks.all().filter(|&b| may(self, b));
            if let Some(block) = full.min_by_key(|&b| self.blocks.get(b).sequence) {
                return Some(block);
            }
        }
        let all = self.chip.blocks();
        let (look_at, most) = match (aggressive, background) {
            (true, _) => (all, u32::MAX),
            (false, false) => ((all / 16 + 1).min(LOOK_AT), FEW),
            (false, true) => {
                ((all / 16 + 1).min(LOOK_AT), (2 * (self.collector.misses + 2)).min(self.chip.pages_per_block() / 2))
            }
        };
        let mut best: Option<(u16, Block)> = None;
        for _ in 0..look_at {
            self.collector.finger = self.collector.finger % all + 1;
            let block = self.collector.finger;
            let used = self.blocks.get(block).used;
            let better = best.is_none_or(|(least, _)| used < least);
            if better && u32::from(used) <= most && has_garbage(self, block) && may(self, block) {
                best = Some((used, block));
                if used <= GOOD_ENOUGH {
                    break;
                }
            }
        }
        if best.is_none() {
            self.collector.misses += 1;
            if self.collector.misses < if background { 10 } else { 20 } {
                return None;
            }
            let dirty = self.blocks.all().filter(|&b| has_garbage(self, b) && may(self, b));
            best = dirty.min_by_key(|&b| self.blocks.get(b).sequence).map(|block| (0, block));
        }
        self.collector.misses = 0;
        best.map(|(_, block)| block)
    }

    /// Moves up to `most` chunks of the victim. It is erased with the last one.
    fn move_chunks(&mut self, most: u32) -> Result<()> {
        let victim = self.collector.victim;
        let mut moved = 0;
        let mut data = vec![0; self.chip.data_bytes()];
        while self.collector.victim == victim && moved < most && self.collector.page < self.chip.pages_per_block() {
            let chunk = self.chip.chunk(victim, self.collector.page);
            if self.blocks.is_used(chunk) {
                moved += 1;
                match self.move_chunk(chunk, &mut data) {
                    // It stays where it is, so that its reader is told.
                    Err(Error::Damaged(_)) => {}
                    done => done?,
                }
            }
            self.collector.page += 1;
        }
        if self.collector.victim == victim && self.collector.page < self.chip.pages_per_block() {
            return Ok(());
        }
        self.collector.collected += 1;
        if self.collector.victim == victim {
            self.collector.victim = 0;
            if self.blocks.get(victim).used == 0 {
                return self.erase(victim);
            }
            let info = self.blocks.get_mut(victim);
            info.state = State::Full;
            info.set(Flag::Stuck, true);
        }
        Ok(())
    }

    fn move_chunk(&mut self, chunk: Chunk, data: &mut [u8]) -> Result<()> {
        let whole = self.chip.read(chunk, data)?;
        if whole.verdict == Verdict::Uncorrectable {
            // A copy would look right. It stays, so that its reader is told.
            return Ok(());
        }
        let (id, data_chunk) = match whole.tags {
            Found::Tags { tags, .. } => match tags.content {
                Content::Data { chunk, bytes } => (tags.object, Some((chunk - 1, bytes))),
                _ => (tags.object, None),
            },
            _ => match self.owner(chunk) {
                Some(owner) => owner,
                None => return self.discard(chunk),
            },
        };
        self.collector.moved += 1;
        match data_chunk {
            Some((slot, bytes)) => self.move_data(chunk, id, slot, data, bytes),
            None => self.move_header(chunk, id, data),
        }
    }

    fn move_data(&mut self, chunk: Chunk, id: u32, slot: u32, data: &mut [u8], bytes: u32) -> Result<()> {
        let width = self.width;
        let all = data.len() as u64;
        let valid = match self.objects.get(id) {
            Some(object) if object.map.get(width, slot) == chunk => {
                object.value.saturating_sub(u64::from(slot) * all).min(u64::from(bytes)) as u32
            }
            _ => 0,
        };
        if valid == 0 {
            return self.discard(chunk);
        }
        // A file that was cut may grow again: other readers show what is behind the valid bytes.
        data[valid as usize..].fill(0);
        let place = self.append(data, id, Content::Data { chunk: slot + 1, bytes: valid }, Space::Reserve)?;
        if let Some(object) = self.objects.get_mut(id) {
            object.map.set(width, slot, place);
        }
        self.discard(chunk)
    }

    fn move_header(&mut self, chunk: Chunk, id: u32, data: &mut [u8]) -> Result<()> {
        if self.objects.get(id).is_none_or(|object| object.header != chunk) {
            return self.discard(chunk);
        }
        // What is only in memory would be newer than a header that tells of it.
        self.flush(id)?;
        let Some(object) = self.objects.get(id).filter(|object| object.header == chunk) else { return Ok(()) };
        let mut header = Header::decode(data, self.chip.inband)
            .ok_or_else(|| Error::damaged(self.chip.at(chunk), format!("no header of object {id}")))?;
        (header.shrinks, header.shadows) = (false, 0);
        if object.kind == Kind::File {
            header.size = if object.parent == UNLINKED_ID { 0 } else { object.value };
        }
        header.parent = object.parent;
        header.encode(data, self.chip.inband);
        let place = self.append(data, id, content_of(&header), Space::Reserve)?;
        if let Some(object) = self.objects.get_mut(id) {
            object.header = place;
        }
        self.discard(chunk)
    }

    /// Whose a chunk is whose tags cannot be read.
    fn owner(&self, chunk: Chunk) -> Option<(u32, Option<(u32, u32)>)> {
        self.objects.ids().into_iter().find_map(|id| {
            let object = self.objects.get(id)?;
            if object.header == chunk {
                return Some((id, None));
            }
            let (slot, _) = object.map.chunks(self.width).find(|&(_, place)| place == chunk)?;
            Some((id, Some((slot, self.chip.data_bytes() as u32))))
        })
    }
}
