//! Garbage collection: moving what is of use out of a block, so that it can be erased.
//!
//! While there are erased blocks enough, it works in small steps and takes only blocks that are nearly empty;
//! when they run short, it takes whatever frees most. A block with a header that says "this file shrank" or
//! "this object is gone" waits until nothing older holds garbage: what the header rules out could come back.

use super::Files;
use crate::log::Log;
use crate::log::blocks::{Blocks, Flag, State};
use crate::log::chip::{Block, Chunk};
use crate::log::tags::{Content, Found, Kind};
use crate::tree::header::Header;
use crate::tree::headers::content_of;
use crate::tree::objects::UNLINKED_ID;
use pocketstone_media::nand::Verdict;
use pocketstone_vfs::{Error, Result};

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
    /// Chunks moved since the mount.
    pub moved: u64,
    /// Blocks freed since the mount.
    pub collected: u64,
}

impl Collector {
    /// The block whose chunks are being moved: one that is erased meanwhile is not any more.
    fn victim(&self, blocks: &Blocks) -> Option<Block> {
        (self.victim != 0 && blocks.get(self.victim).state == State::Collecting).then_some(self.victim)
    }

    /// A block to collect.
    fn choose(&mut self, log: &mut Log, refresh_period: u32, aggressive: bool, background: bool) -> Option<Block> {
        let oldest = std::cell::OnceCell::new();
        let may = |blocks: &Blocks, block: Block| {
            let info = blocks.get(block);
            info.state == State::Full
                && !info.has(Flag::Stuck)
                && (!info.has(Flag::Shrinks)
                    || oldest
                        .get_or_init(|| blocks.oldest_with_garbage())
                        .is_none_or(|sequence: u32| sequence >= info.sequence))
        };
        if log.prioritised {
            let first = log.blocks.all().find(|&b| log.blocks.get(b).has(Flag::Prioritised) && may(&log.blocks, b));
            if first.is_some() {
                return first;
            }
            log.prioritised = false;
        }
        let has_garbage = |blocks: &Blocks, block: Block| {
            let info = blocks.get(block);
            u32::from(info.used) < blocks.capacity(info)
        };
        self.since_refresh += 1;
        if !aggressive && refresh_period > 0 && self.since_refresh > refresh_period {
            self.since_refresh = 0;
            let full = log.blocks.all().filter(|&b| may(&log.blocks, b));
            if let Some(block) = full.min_by_key(|&b| log.blocks.get(b).sequence) {
                return Some(block);
            }
        }
        let all = log.chip.blocks();
        let (look_at, most) = match (aggressive, background) {
            (true, _) => (all, u32::MAX),
            (false, false) => ((all / 16 + 1).min(LOOK_AT), FEW),
            (false, true) => ((all / 16 + 1).min(LOOK_AT), (2 * (self.misses + 2)).min(log.chip.pages_per_block() / 2)),
        };
        let mut best: Option<(u16, Block)> = None;
        for _ in 0..look_at {
            self.finger = self.finger % all + 1;
            let block = self.finger;
            let used = log.blocks.get(block).used;
            let better = best.is_none_or(|(least, _)| used < least);
            if better && u32::from(used) <= most && has_garbage(&log.blocks, block) && may(&log.blocks, block) {
                best = Some((used, block));
                if used <= GOOD_ENOUGH {
                    break;
                }
            }
        }
        if best.is_none() {
            self.misses += 1;
            if self.misses < if background { 10 } else { 20 } {
                return None;
            }
            let dirty = log.blocks.all().filter(|&b| has_garbage(&log.blocks, b) && may(&log.blocks, b));
            best = dirty.min_by_key(|&b| log.blocks.get(b).sequence).map(|block| (0, block));
        }
        self.misses = 0;
        best.map(|(_, block)| block)
    }
}

impl Files {
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
        let pages = i64::from(self.tree.log.chip.pages_per_block());
        for _ in 0..2 {
            let wanted = self.options.reserved_blocks + self.checkpoint_blocks() + 1;
            let aggressive = self.tree.log.blocks.erased < wanted;
            let erased = i64::from(self.tree.log.blocks.erased) * pages;
            let enough = if background { self.tree.log.blocks.free() / 2 } else { self.tree.log.blocks.free() / 4 };
            if !aggressive && erased > enough && !self.tree.log.prioritised {
                break;
            }
            if self.collector.victim(&self.tree.log.blocks).is_none() {
                let period = self.options.refresh_period;
                let chosen = self.collector.choose(&mut self.tree.log, period, aggressive, background);
                let Some(block) = chosen else { break };
                self.tree.log.blocks.get_mut(block).state = State::Collecting;
                (self.collector.victim, self.collector.page) = (block, 0);
            }
            self.move_chunks(if aggressive { u32::MAX } else { STEP })?;
            if self.tree.log.blocks.erased >= self.options.reserved_blocks {
                break;
            }
        }
        Ok(())
    }

    /// Moves up to `most` chunks of the victim. It is erased with the last one.
    fn move_chunks(&mut self, most: u32) -> Result<()> {
        let Some(victim) = self.collector.victim(&self.tree.log.blocks) else { return Ok(()) };
        let mut moved = 0;
        let mut data = vec![0; self.tree.log.chip.data_bytes()];
        while self.is_collecting(victim) && moved < most && self.collector.page < self.tree.log.chip.pages_per_block() {
            let chunk = self.tree.log.chip.chunk(victim, self.collector.page);
            if self.tree.log.blocks.is_used(chunk) {
                moved += 1;
                match self.move_chunk(chunk, &mut data) {
                    // It stays where it is, so that its reader is told.
                    Err(Error::Damaged(_)) => {}
                    done => done?,
                }
            }
            self.collector.page += 1;
        }
        if self.is_collecting(victim) && self.collector.page < self.tree.log.chip.pages_per_block() {
            return Ok(());
        }
        self.collector.collected += 1;
        if self.is_collecting(victim) {
            self.collector.victim = 0;
            if self.tree.log.blocks.get(victim).used == 0 {
                return self.tree.log.erase(victim);
            }
            let info = self.tree.log.blocks.get_mut(victim);
            info.state = State::Full;
            info.set(Flag::Stuck, true);
        }
        Ok(())
    }

    fn is_collecting(&self, victim: Block) -> bool {
        self.collector.victim(&self.tree.log.blocks) == Some(victim)
    }

    fn move_chunk(&mut self, chunk: Chunk, data: &mut [u8]) -> Result<()> {
        let whole = self.tree.log.chip.read(chunk, data)?;
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
                None => return self.tree.log.discard(chunk),
            },
        };
        self.collector.moved += 1;
        match data_chunk {
            Some((slot, bytes)) => self.move_data(chunk, id, slot, data, bytes),
            None => self.move_header(chunk, id, data),
        }
    }

    fn move_data(&mut self, chunk: Chunk, id: u32, slot: u32, data: &mut [u8], bytes: u32) -> Result<()> {
        let width = self.tree.width;
        let all = data.len() as u64;
        let valid = match self.tree.objects.get(id) {
            Some(object) if object.map.get(width, slot) == chunk => {
                object.value.saturating_sub(u64::from(slot) * all).min(u64::from(bytes)) as u32
            }
            _ => 0,
        };
        if valid == 0 {
            return self.tree.log.discard(chunk);
        }
        // A file that was cut may grow again: other readers show what is behind the valid bytes.
        data[valid as usize..].fill(0);
        let place = self.tree.log.append(data, id, Content::Data { chunk: slot + 1, bytes: valid })?;
        self.tree.set_chunk(id, slot + 1, place);
        self.tree.log.discard(chunk)
    }

    fn move_header(&mut self, chunk: Chunk, id: u32, data: &mut [u8]) -> Result<()> {
        if self.tree.objects.get(id).is_none_or(|object| object.header != chunk) {
            return self.tree.log.discard(chunk);
        }
        // What is only in memory would be newer than a header that tells of it.
        self.flush(id)?;
        let Some(object) = self.tree.objects.get(id).filter(|object| object.header == chunk) else { return Ok(()) };
        let mut header = Header::decode(data, self.tree.log.chip.inband)
            .ok_or_else(|| Error::damaged(self.tree.log.chip.at(chunk), format!("no header of object {id}")))?;
        (header.shrinks, header.shadows) = (false, 0);
        if object.kind == Kind::File {
            header.size = if object.parent == UNLINKED_ID { 0 } else { object.value };
        }
        header.parent = object.parent;
        header.encode(data, self.tree.log.chip.inband);
        let place = self.tree.log.append(data, id, content_of(&header))?;
        if let Some(object) = self.tree.objects.get_mut(id) {
            object.header = place;
        }
        self.tree.log.discard(chunk)
    }

    /// Whose a chunk is whose tags cannot be read.
    fn owner(&self, chunk: Chunk) -> Option<(u32, Option<(u32, u32)>)> {
        self.tree.objects.ids().into_iter().find_map(|id| {
            let object = self.tree.objects.get(id)?;
            if object.header == chunk {
                return Some((id, None));
            }
            let (slot, _) = object.map.chunks(self.tree.width).find(|&(_, place)| place == chunk)?;
            Some((id, Some((slot, self.tree.log.chip.data_bytes() as u32))))
        })
    }
}
