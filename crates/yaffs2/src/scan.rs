//! Finding a volume's state: by its checkpoint, or by looking at the tags of every page, newest first.

use crate::blocks::{Flag, State};
use crate::checkpoint::CHECKPOINT_SEQUENCE;
use crate::chip::{Block, Chunk};
use crate::header::Header;
use crate::log::{BAD_SEQUENCE, FIRST_SEQUENCE, LAST_SEQUENCE};
use crate::objects::{DELETED_ID, LARGEST_OBJECT, LOST_ID, Mark, Object, Objects, ROOT_ID, UNLINKED_ID};
use crate::summary::SUMMARY_OBJECT;
use crate::tags::{Content, Extra, Found, Kind, Tags};
use crate::volume::{MountedBy, Volume};
use pocketstone_core::inode::{Error, Result};
use pocketstone_media::nand::Verdict;
use std::collections::HashMap;

/// What the first page of a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    /// A bad block, or one that could not be marked bad.
    Dead,
    Unused,
    /// A checkpoint's page.
    Checkpoint(u32),
    /// Part of the log.
    Sequence(u32),
    /// It cannot be made out.
    Broken,
}

/// What is known of objects while their chunks are being found, beside what stays.
#[derive(Default)]
struct Growing {
    /// What is older and lies at or beyond this size is of no use.
    limits: HashMap<u32, u64>,
    links: Vec<(u32, u32)>,
    /// Files that are longer than their newest headers say, with those sizes.
    longer: Vec<(u32, u64)>,
    /// Chunks of files that were cut in the middle of them, with the sizes: what is behind has not been taken away.
    untrimmed: Vec<(u32, u32, u64)>,
    /// A header could not be read: what lies in lost+found may be all that is left of something.
    damaged: bool,
    /// Objects whose newest header says that they are deleted, and that its block keeps what is older hidden.
    deleted: Vec<u32>,
    /// Objects that others replace, and whose deletion was not seen.
    replaced: Vec<u32>,
}

/// The four objects that are always there.
pub(crate) fn fixed_objects() -> Objects {
    let mut objects = Objects::default();
    for id in [ROOT_ID, LOST_ID, UNLINKED_ID, DELETED_ID] {
        objects.insert(id, Object::new(Kind::Directory));
    }
    objects.name(LOST_ID, b"lost+found");
    objects.attach(LOST_ID, ROOT_ID);
    objects
}

impl Volume {
    /// Finds the state of the volume.
    pub(crate) fn find_state(&mut self) -> Result<()> {
        let mut firsts = Vec::with_capacity(self.chip.blocks() as usize);
        for block in self.blocks.all() {
            firsts.push(self.first(block)?);
        }
        let mut checkpoint: Vec<(u32, Block)> = Vec::new();
        for (block, first) in (1..).zip(&firsts) {
            if let First::Checkpoint(page) = first {
                checkpoint.push((*page, block));
            }
        }
        checkpoint.sort_unstable();
        let checkpoint: Vec<Block> = checkpoint.into_iter().map(|(_, block)| block).collect();
        let (mut found, mut unfinished) = (None, Growing::default());
        if self.options.checkpoint_read && !checkpoint.is_empty() {
            found = self.read_checkpoint(&checkpoint, &firsts)?;
        }
        match found {
            Some(state) => {
                (self.blocks, self.log, self.objects) = (state.blocks, state.log, state.objects);
                self.note_links(state.links);
                self.mounted_by = MountedBy::Checkpoint;
            }
            None => {
                self.objects = fixed_objects();
                unfinished = self.scan(&firsts)?;
            }
        }
        for &block in &checkpoint {
            let info = self.blocks.get_mut(block);
            if info.state == State::Empty {
                info.state = State::Checkpoint;
                self.blocks.erased -= 1;
            }
        }
        self.checkpoint = checkpoint;
        self.tidy(&unfinished)
    }

    pub(crate) fn first(&mut self, block: Block) -> Result<First> {
        if self.chip.is_bad(block)? {
            return Ok(First::Dead);
        }
        Ok(match self.chip.read_tags(self.chip.chunk(block, 0))? {
            Found::Unused => First::Unused,
            Found::Tags { tags, .. } => match (tags.sequence, tags.content) {
                (CHECKPOINT_SEQUENCE, Content::Data { chunk, .. }) => First::Checkpoint(chunk),
                (CHECKPOINT_SEQUENCE, _) => First::Checkpoint(0),
                (BAD_SEQUENCE, _) => First::Dead,
                (FIRST_SEQUENCE..=LAST_SEQUENCE, _) => First::Sequence(tags.sequence),
                _ => First::Broken,
            },
            Found::Broken => First::Broken,
        })
    }

    /// Looks at every block, newest first, and in each at every page, last first. Gives what is to be put in
    /// order.
    fn scan(&mut self, firsts: &[First]) -> Result<Growing> {
        let mut order: Vec<(u32, Block)> = Vec::new();
        for (block, first) in (1..).zip(firsts) {
            match first {
                First::Dead => self.blocks.set_dead(block),
                First::Unused | First::Checkpoint(_) => self.blocks.set_empty(block, false),
                First::Sequence(sequence) => order.push((*sequence, block)),
                // Its first page was cut short, or has worn out: a later one may say whose the block is.
                First::Broken => order.push((self.later_sequence(block)?, block)),
            }
        }
        order.sort_unstable();
        self.blocks.doubtful = !order.is_empty();
        self.log.finder = order.last().map_or(0, |&(_, block)| block);
        let mut growing = Growing::default();
        for &(sequence, block) in order.iter().rev() {
            let info = self.blocks.get_mut(block);
            (info.state, info.sequence) = (State::Full, sequence);
            self.scan_block(block, &mut growing)?;
        }
        // A block of which nothing is of use may have a number of chance: it was being erased, and is before any write.
        let counts = |&&(_, block): &&(u32, Block)| self.blocks.get(block).state != State::Dirty;
        let newest = order.iter().filter(counts).map(|&(sequence, _)| sequence).max();
        self.log.sequence = newest.unwrap_or(FIRST_SEQUENCE).max(FIRST_SEQUENCE);
        self.note_links(std::mem::take(&mut growing.links));
        self.must_be_ours(firsts, &order)?;
        Ok(growing)
    }

    fn later_sequence(&mut self, block: Block) -> Result<u32> {
        for page in 1..self.chip.pages_per_block() {
            let chunk = self.chip.chunk(block, page);
            if let Found::Tags { tags, corrected } = self.chip.read_tags(chunk)? {
                let sure = !corrected && self.chip.guards_tags() || self.is_whole(chunk)?;
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
    fn must_be_ours(&mut self, firsts: &[First], order: &[(u32, Block)]) -> Result<()> {
        if !self.objects.ids().into_iter().all(Volume::is_fixed) {
            return Ok(());
        }
        let useless = |&&(_, block): &&(u32, Block)| {
            let info = self.blocks.get(block);
            info.used == 0 && !info.has(Flag::Shrinks)
        };
        let useless: Vec<Block> = order.iter().filter(useless).map(|&(_, block)| block).collect();
        let what = self.chip.describe();
        let mut page = vec![0; self.chip.data_bytes()];
        for &block in useless.iter().take(8) {
            let chunk = self.chip.chunk(block, 0);
            let whole = self.chip.read(chunk, &mut page)?;
            let ours = matches!(whole.tags, Found::Tags { tags, .. } if tags.object < LARGEST_OBJECT);
            if !ours && Header::is_big_endian(&page) {
                let error = pocketstone_core::Error::user(format!("{what} was written by a big-endian machine"))
                    .hint("only little-endian volumes can be read");
                return Err(error.into());
            }
        }
        // Pages may be full and have nothing where tags would be: another file system's, or tags are elsewhere.
        let mut written = useless.len();
        for (block, _) in (1..).zip(firsts).filter(|(_, first)| **first == First::Unused) {
            written += usize::from(self.chip.is_written(self.chip.chunk(block, 0))?);
        }
        if written <= LEFT_BEHIND {
            return Ok(());
        }
        let error = pocketstone_core::Error::user(format!(
            "{what} holds no YAFFS2 volume: {written} blocks are written, and no page of them makes sense"
        ))
        .hint("check the options for tags (in-band, error correction) and the layout; `yaffs2 mkfs` erases everything");
        Err(error.into())
    }

    fn scan_block(&mut self, block: Block, growing: &mut Growing) -> Result<()> {
        let pages = self.chip.pages_per_block();
        let summary = self.read_summary(block)?;
        if summary.is_some() {
            self.blocks.get_mut(block).set(Flag::Summary, true);
        }
        // Without a summary behind it, the last page may have been cut short.
        let mut suspect = summary.is_none();
        let sequence = self.blocks.get(block).sequence;
        let mut all = Vec::with_capacity(pages as usize);
        for page in 0..if summary.is_some() { self.shape.entries } else { pages } {
            let known = summary.as_ref().map(|entries| entries[page as usize]).filter(|entry| entry.object != 0);
            all.push(match known.and_then(|entry| entry.meaning()) {
                Some((object, content)) => Found::Tags { tags: Tags { sequence, object, content }, corrected: false },
                None => self.chip.read_tags(self.chip.chunk(block, page))?,
            });
        }
        // Tags that do not fit together: an erase was cut short, and what looks like tags may be so by chance.
        let is_own = |found: &Found| match found {
            Found::Unused => true,
            Found::Tags { tags, .. } => tags.sequence == sequence,
            Found::Broken => false,
        };
        let mut odd = summary.is_none() && !self.chip.inband && !all.iter().all(is_own);
        for (page, found) in all.into_iter().enumerate().rev() {
            let page = page as u32;
            let chunk = self.chip.chunk(block, page);
            match found {
                Found::Unused => continue,
                Found::Broken => suspect = false,
                Found::Tags { tags, corrected } => {
                    let last = std::mem::take(&mut suspect);
                    let doubt = last || odd && (corrected || !self.chip.ecc);
                    let whole = !doubt || self.is_whole(chunk)?;
                    // It may be an erase that was cut short instead of a program.
                    odd |= last && !whole && !self.chip.inband;
                    if whole && tags.sequence == sequence && tags.object != SUMMARY_OBJECT {
                        self.scan_chunk(chunk, &tags, growing)?;
                    }
                }
            }
        }
        if self.blocks.get(block).used == 0 && !self.blocks.get(block).has(Flag::Shrinks) && !self.options.read_only {
            // Nothing is written while there is a checkpoint that may be taken for true.
            self.blocks.get_mut(block).state = State::Dirty;
        }
        Ok(())
    }

    fn is_whole(&mut self, chunk: Chunk) -> Result<bool> {
        let mut data = vec![0; self.chip.data_bytes()];
        Ok(self.chip.read(chunk, &mut data)?.verdict != Verdict::Uncorrectable)
    }

    /// A block's summary, if it has a valid one.
    pub(crate) fn read_summary(&mut self, block: Block) -> Result<Option<Vec<crate::tags::Packed>>> {
        let sequence = self.blocks.get(block).sequence;
        let mut pages = Vec::with_capacity(self.shape.pages as usize);
        for page in 0..self.shape.pages {
            let mut data = vec![0; self.chip.data_bytes()];
            let whole = self.chip.read(self.chip.chunk(block, self.shape.entries + page), &mut data)?;
            let content = Content::Data { chunk: page + 1, bytes: self.shape.bytes(page) };
            let right = Tags { sequence, object: SUMMARY_OBJECT, content };
            match whole.tags {
                Found::Tags { tags, .. } if tags == right && whole.verdict != Verdict::Uncorrectable => {
                    pages.push(data);
                }
                _ => return Ok(None),
            }
        }
        Ok(self.shape.decode(sequence, &pages))
    }

    fn scan_chunk(&mut self, chunk: Chunk, tags: &Tags, growing: &mut Growing) -> Result<()> {
        let id = tags.object;
        if !(1..LARGEST_OBJECT).contains(&id) || matches!(id, UNLINKED_ID | DELETED_ID) {
            return Ok(());
        }
        match tags.content {
            Content::Data { chunk: number, bytes } => {
                if number < 1 << 28 && bytes as usize <= self.chip.data_bytes() {
                    self.scan_data(chunk, id, number, bytes, growing);
                }
                Ok(())
            }
            Content::Extra(extra) => self.scan_header(chunk, id, Some(extra), growing),
            Content::Header => self.scan_header(chunk, id, None, growing),
        }
    }

    /// A file's chunk: the first one seen is the newest.
    fn scan_data(&mut self, chunk: Chunk, id: u32, number: u32, bytes: u32, growing: &mut Growing) {
        if self.objects.get(id).is_none() {
            let mut object = Object::new(Kind::File);
            object.set(Mark::Placeholder, true);
            self.objects.insert(id, object);
            self.objects.attach(id, LOST_ID);
        }
        let width = self.width;
        let start = u64::from(number - 1) * self.chip.data_bytes() as u64;
        let Some(object) = self.objects.get_mut(id) else { return };
        let limit = growing.limits.get(&id).copied().unwrap_or(u64::MAX);
        if object.kind != Kind::File || start >= limit || object.map.get(width, number - 1) != 0 {
            return;
        }
        object.map.set(width, number - 1, chunk);
        if object.has(Mark::Placeholder) {
            object.value = object.value.max(start + u64::from(bytes));
        }
        if start + u64::from(bytes) > limit {
            growing.untrimmed.push((id, number, limit));
        }
        self.blocks.mark(chunk);
    }

    fn scan_header(&mut self, chunk: Chunk, id: u32, extra: Option<Extra>, growing: &mut Growing) -> Result<()> {
        let known = self.objects.get(id).filter(|object| object.header != 0 || !object.has(Mark::Placeholder));
        let is_fixed = Volume::is_fixed(id);
        let older = known.is_some() && !(is_fixed && known.is_some_and(|object| object.header == 0));
        let needs_page = extra.is_none() || !older && extra.is_some_and(|extra| extra.shadows);
        let mut header = None;
        if needs_page {
            let mut page = vec![0; self.chip.data_bytes()];
            if self.chip.read(chunk, &mut page)?.verdict != Verdict::Uncorrectable {
                header = Header::decode(&page, self.chip.inband);
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
            self.blocks.get_mut(self.chip.block_of(chunk)).set(Flag::Shrinks, true);
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
        self.blocks.mark(chunk);
        if is_fixed {
            if let Some(object) = self.objects.get_mut(id) {
                object.header = chunk;
            }
            return Ok(());
        }
        self.adopt(id, kind, parent);
        if shrinks && parent == DELETED_ID {
            growing.deleted.push(id);
        }
        let limit = growing.limits.entry(id).or_insert(u64::MAX);
        if kind == Kind::File {
            *limit = (*limit).min(size);
        }
        let Some(object) = self.objects.get_mut(id) else { return Ok(()) };
        object.header = chunk;
        match kind {
            Kind::File => {
                if object.value > size && !shrinks {
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
            self.objects.name(id, &header.name);
        }
        self.shadow(shadows, growing);
        Ok(())
    }

    /// An object's newest header was found: what was put in its place until now becomes what it is.
    fn adopt(&mut self, id: u32, kind: Kind, parent: u32) {
        if self.objects.get(id).is_none() {
            self.objects.insert(id, Object::new(kind));
        }
        if self.objects.get(parent).is_none() && (FIRST_USER..LARGEST_OBJECT).contains(&parent) {
            let mut object = Object::new(Kind::Directory);
            object.set(Mark::Placeholder, true);
            self.objects.insert(parent, object);
            self.objects.attach(parent, LOST_ID);
        }
        self.objects.detach(id);
        if let Some(object) = self.objects.get_mut(id) {
            object.set(Mark::Placeholder, false);
            if object.kind != kind {
                // Chunks of what is no file belong to nobody.
                let chunks: Vec<(u32, Chunk)> = object.map.chunks(self.width).collect();
                let children = std::mem::replace(object, Object::new(kind));
                if children.kind == Kind::Directory {
                    self.objects.insert(id, children);
                    self.objects.children(id).collect::<Vec<_>>().into_iter().for_each(|child| self.lose(child));
                    self.objects.insert(id, Object::new(kind));
                }
                chunks.into_iter().for_each(|(_, chunk)| self.blocks.clear(chunk));
            }
        }
        let is_directory = self.objects.get(parent).is_some_and(|object| object.kind == Kind::Directory);
        self.objects.attach(id, if is_directory && parent != id { parent } else { LOST_ID });
    }

    /// A header replaces an object: whatever is older of that is of no use.
    fn shadow(&mut self, victim: u32, growing: &mut Growing) {
        if (FIRST_USER..LARGEST_OBJECT).contains(&victim) && self.objects.get(victim).is_none() {
            self.objects.insert(victim, Object::new(Kind::File));
            self.objects.attach(victim, UNLINKED_ID);
            growing.limits.insert(victim, 0);
            growing.replaced.push(victim);
        }
    }

    fn note_links(&mut self, links: Vec<(u32, u32)>) {
        for (link, target) in links {
            // One that was deleted may still be among them.
            let is_link = self.objects.get(link).is_some_and(|object| {
                object.kind == Kind::HardLink && !matches!(object.parent, UNLINKED_ID | DELETED_ID)
            });
            if is_link && self.objects.get(target).is_some_and(|o| !matches!(o.kind, Kind::HardLink | Kind::Directory))
            {
                self.links.entry(target).or_default().push(link);
            }
        }
    }

    /// Puts in order what a loss of power left behind, and what lies where nothing leads to.
    fn tidy(&mut self, unfinished: &Growing) -> Result<()> {
        let lost: Vec<u32> = self.objects.ids().into_iter().filter(|&id| !self.is_rooted(id)).collect();
        lost.into_iter().for_each(|id| self.lose(id));
        for &id in &unfinished.deleted {
            self.forget_deleted(id);
        }
        let mut gone = self.stand_ins();
        if self.options.read_only {
            for id in gone {
                if let Some(link) = self.objects.remove(id) {
                    self.forget_link(link.value as u32, id);
                }
            }
            return Ok(());
        }
        let dirty: Vec<Block> = self.blocks.all().filter(|&b| self.blocks.get(b).state == State::Dirty).collect();
        for directory in [UNLINKED_ID, DELETED_ID] {
            gone.extend(self.objects.children(directory));
        }
        let mounted_by_scan = self.mounted_by == MountedBy::Scan;
        if self.options.empty_lost_and_found && mounted_by_scan && !unfinished.damaged {
            self.list_tree(LOST_ID, &mut gone);
        }
        if !dirty.is_empty() || !gone.is_empty() {
            self.erase_checkpoint()?;
        }
        for block in dirty {
            self.erase(block)?;
        }
        // Collecting would write what is behind a file's end once more, as if it were new.
        for &(id, chunk, size) in &unfinished.untrimmed {
            self.trim_chunk(id, chunk, size)?;
        }
        self.unfilled = unfinished.longer.iter().copied().collect();
        // Collecting would take the mark of replacement away, before there is a header that says that they are gone.
        self.collector.paused = true;
        let deleted = unfinished.replaced.iter().try_for_each(|&id| match self.objects.get(id) {
            Some(object) if object.parent == UNLINKED_ID => self.delete_object(id),
            _ => Ok(()),
        });
        self.collector.paused = false;
        deleted?;
        for id in gone {
            if self.objects.get(id).is_none() {
                continue;
            }
            match self.delete_object(id) {
                // It stays where nobody sees it, until a mount finds space.
                Err(Error::NoSpace) => break,
                deleted => deleted?,
            }
        }
        for (id, _) in &unfinished.longer {
            self.fill_lost_chunks(*id)?;
        }
        Ok(())
    }

    /// Hard links that have the very name of what they name: a rename that was cut short has left them.
    fn stand_ins(&mut self) -> Vec<u32> {
        if self.mounted_by == MountedBy::Checkpoint {
            return Vec::new();
        }
        let pairs = self.links.iter().flat_map(|(&target, links)| links.iter().map(move |&link| (target, link)));
        let parent = |id: u32| self.objects.get(id).map(|object| object.parent);
        let beside: Vec<(u32, u32)> = pairs.filter(|&(target, link)| parent(target) == parent(link)).collect();
        let mut name = |id: u32| self.load(id).map(|detail| detail.name.clone()).ok();
        beside
            .into_iter()
            .filter(|&(target, link)| name(link).is_some_and(|n| name(target) == Some(n)))
            .map(|(_, link)| link)
            .collect()
    }

    /// Everything below a directory, what is deepest first.
    pub(crate) fn list_tree(&self, directory: u32, into: &mut Vec<u32>) {
        let mut found = vec![directory];
        let mut at = 0;
        while at < found.len() {
            found.extend(self.objects.children(found[at]));
            at += 1;
        }
        into.extend(found[1..].iter().rev());
    }

    /// Whether an object lies below one that is always there.
    fn is_rooted(&self, id: u32) -> bool {
        const DEEPEST: u32 = LARGEST_OBJECT;
        let mut at = id;
        for _ in 0..DEEPEST {
            if Volume::is_fixed(at) {
                return true;
            }
            match self.objects.get(at) {
                Some(object) if object.parent != 0 => at = object.parent,
                _ => return false,
            }
        }
        false
    }
}

/// Blocks that losses of power can leave behind on an empty volume.
const LEFT_BEHIND: usize = 2;
/// No object of a user has a smaller number.
const FIRST_USER: u32 = SUMMARY_OBJECT + 1;
