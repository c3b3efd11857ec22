//! fsck: everything in a volume against everything else, and repair.

use crate::directory::{Slot, check_name, decode, slots_of};
use crate::inode::{self, Half, Record};
use crate::journal;
use crate::layout::{Layout, SLOT_BYTES};
use crate::mapping::Mapping;
use crate::superblock::Superblock;
use crate::{Entry, Error, FileType, Ino, OpenOptions, ROOT, Result, Volume, repair, xattr};
use pocketstone_media::{Durable, Flushed, Medium, Region};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What fsck found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// The volume was closed cleanly.
    pub clean: bool,
    /// The newest record of the journal was not applied yet, or inodes were torn: opening recovers that.
    pub recovered: bool,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Inodes in use.
    pub inodes_used: u32,
    /// Directories among them.
    pub directories: u32,
    /// Regular files among them.
    pub files: u32,
    /// Bytes of the data area that inodes hold.
    pub bytes_used: u64,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Where, in bytes from the start of the volume.
    pub at: u64,
    /// Which kind of thing: a short name that does not change.
    pub kind: String,
    /// What is wrong with it.
    pub what: String,
    /// Repair mended it.
    pub repaired: bool,
}

/// What a finding needs for its repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cure {
    /// Write the superblock anew.
    Superblock,
    /// Clear a mapping entry.
    Mapping(u32),
    /// Free an inode.
    Inode(Ino),
    /// Clear the slots of an entry: where and how many bytes.
    Entry(u64, u64),
    /// Set an inode's links.
    Links(Ino, u32),
    /// Set a directory's parent.
    Parent(Ino, Ino),
    /// Set the number of huge pages of an inode to what the mapping table has.
    Segments(Ino, u32),
    /// Write an inode anew, from the half that is whole.
    Half(Ino),
    /// Give a directory space where it has none.
    Fill(Ino),
    /// Drop an inode's extended attributes.
    Xattrs(Ino),
    /// Give an inode a name in lost+found.
    Adopt(Ino),
    /// Rebuild what follows from the rest, by recovering.
    Recover,
}

/// A volume as it would be after the journal's newest record: nothing is written to look at it.
pub(crate) struct Image {
    pub medium: Medium,
    pub superblock: Superblock,
    pub layout: Layout,
    overlay: Vec<(u64, Vec<u8>)>,
}

impl Image {
    pub fn read(&self, at: u64, into: &mut [u8]) {
        self.medium.read(at, into);
        let end = at + into.len() as u64;
        for (from, bytes) in &self.overlay {
            let (low, high) = (at.max(*from), end.min(from + bytes.len() as u64));
            if low < high {
                let part = &bytes[(low - from) as usize..(high - from) as usize];
                into[(low - at) as usize..(high - at) as usize].copy_from_slice(part);
            }
        }
    }

    /// Stores what the journal's newest record says, and empties the journal.
    pub fn settle(&self) {
        let mut flushed = Flushed::nothing();
        for (at, bytes) in &self.overlay {
            flushed = flushed.and(self.medium.flush(self.medium.write(*at, bytes, Durable::nothing())));
        }
        let applied = self.medium.fence(flushed);
        let emptied = self.medium.zero(self.layout.journal_at, self.layout.journal_bytes, applied);
        self.medium.fence(emptied).done();
    }

    fn halves(&self, ino: Ino) -> [Half; 2] {
        let mut b = [0; 256];
        self.read(self.layout.version_at(ino, 0), &mut b);
        [inode::decode_half(ino, 0, &b[..128]), inode::decode_half(ino, 1, &b[128..])]
    }

    fn mapping(&self, segment: u32) -> Result<Mapping> {
        let at = self.layout.mapping_entry_at(segment);
        let mut b = [0; 16];
        self.read(at, &mut b);
        Mapping::decode(segment, &b, at)
    }
}

/// What a walk through directories has come across.
#[derive(Default)]
struct Tree {
    links: HashMap<Ino, u32>,
    seen: HashSet<Ino>,
}

pub(crate) struct Checker {
    pub image: Image,
    pub report: Report,
    pub cures: Vec<Cure>,
    records: BTreeMap<Ino, Record>,
    extents: HashMap<Ino, Vec<(u32, u32)>>,
    zone: Vec<bool>,
}

/// Checks a volume; with `repair`, mends what can be mended and checks again. An unclean volume is
/// looked at as it would be after its recovery; `repair` recovers it.
///
/// # Errors
/// If the region holds no volume at all, or one that this program cannot know.
pub fn check(region: Box<dyn Region>, repair: bool) -> Result<Report> {
    let medium = Medium::new(region);
    let (medium, report) =
        if repair { repair::repair(medium)? } else { look(medium).map(|c| (c.image.medium, c.report))? };
    drop(medium);
    Ok(report)
}

/// Looks at a volume without changing it.
pub(crate) fn look(medium: Medium) -> Result<Checker> {
    let (superblock, faults) = Superblock::read(&medium)?;
    let layout = superblock.layout;
    let last = journal::find(&medium, &layout, &superblock.uuid).filter(|_| !superblock.clean);
    let overlay = last.map(|(_, record)| journal::replay(&medium, &layout, &record)).unwrap_or_default();
    let report = Report { clean: superblock.clean, ..Report::default() };
    let image = Image { medium, superblock, layout, overlay };
    let segments = layout.segments(image.superblock.bytes) as usize;
    let (records, extents) = (BTreeMap::new(), HashMap::new());
    let mut checker = Checker { image, report, cures: Vec::new(), records, extents, zone: vec![false; segments] };
    for fault in faults {
        if let Error::Damaged(damage) = fault {
            checker.find(damage.at, "superblock", damage.found, Cure::Superblock);
        }
    }
    checker.mapping_table();
    checker.inodes();
    checker.tree();
    checker.free_map();
    Ok(checker)
}

impl Checker {
    fn find(&mut self, at: u64, kind: &str, what: impl Into<String>, cure: Cure) {
        self.report.findings.push(Finding { at, kind: kind.into(), what: what.into(), repaired: false });
        self.cures.push(cure);
    }

    fn inode_at(&self, ino: Ino) -> u64 {
        self.image.layout.version_at(ino, 0)
    }

    fn mapping_table(&mut self) {
        for segment in 0..self.zone.len() as u32 {
            let at = self.image.layout.mapping_entry_at(segment);
            match self.image.mapping(segment) {
                Ok(Mapping::Free) => {}
                Ok(Mapping::SmallZone) => self.zone[segment as usize] = true,
                Ok(Mapping::File { owner, .. }) if owner == 0 || owner > self.image.layout.inodes => {
                    self.find(at, "mapping", format!("entry {segment} of inode {owner}"), Cure::Mapping(segment));
                }
                Ok(Mapping::File { owner, index, .. }) => {
                    self.extents.entry(owner).or_default().push((index, segment));
                }
                Err(error) => self.find(at, "mapping", error.to_string(), Cure::Mapping(segment)),
            }
        }
    }

    fn inodes(&mut self) {
        let segments = self.zone.len() as u32;
        let layout = self.image.layout;
        let mut used: Vec<Option<Ino>> = vec![None; self.zone.len() * layout.pages_per_segment() as usize];
        for ino in 1..=layout.inodes {
            let halves = self.image.halves(ino);
            if halves == [Half::Virgin, Half::Virgin] {
                continue;
            }
            let torn = match halves {
                [Half::Torn, Half::Valid(_, r)] | [Half::Valid(_, r), Half::Torn] => Some(r),
                [Half::Virgin, Half::Torn] if !self.report.clean => Some(Record::default()),
                _ => None,
            };
            if torn.is_some() && self.report.clean {
                let what = format!("one of two versions of inode {ino} has a wrong checksum");
                self.find(self.inode_at(ino), "inode", what, Cure::Half(ino));
            }
            // After a crash that is nothing to wonder at, and recovery mends it.
            self.report.recovered |= torn.is_some() && !self.report.clean;
            let Some(record) = inode::newest(halves).map(|(_, record)| record).or(torn) else {
                self.find(self.inode_at(ino), "inode", format!("inode {ino} has a wrong checksum"), Cure::Inode(ino));
                continue;
            };
            if record.is_free() || record.links == 0 && !self.report.clean {
                continue;
            }
            if let Some(what) = record.nonsense(&layout, segments) {
                self.find(self.inode_at(ino), "inode", format!("inode {ino} has {what}"), Cure::Inode(ino));
                continue;
            }
            if self.claim(ino, &record, &mut used) {
                self.records.insert(ino, record);
            }
        }
        self.extents_against_inodes();
    }

    /// Claims an inode's pages; false if another has them, or they are not in the small-page zone.
    fn claim(&mut self, ino: Ino, record: &Record, used: &mut [Option<Ino>]) -> bool {
        let pps = self.image.layout.pages_per_segment();
        let runs = [(record.run_start, record.run_pages), (record.xattr_start, record.xattr_pages)];
        let pages = || runs.into_iter().flat_map(|(start, pages)| start..start + pages);
        for page in pages() {
            let other = used[page as usize];
            if other.is_some() || !self.zone[(page / pps) as usize] {
                let what = match other {
                    Some(other) => format!("inode {ino} has page {page}, as has inode {other}"),
                    None => format!("inode {ino} has page {page}, which is not in the small-page zone"),
                };
                self.find(self.inode_at(ino), "page", what, Cure::Inode(ino));
                return false;
            }
        }
        for page in pages() {
            used[page as usize] = Some(ino);
        }
        if record.xattr_bytes > 0 {
            let at = self.image.layout.page_at(record.xattr_start);
            let mut b = vec![0; record.xattr_bytes as usize];
            self.image.read(at, &mut b);
            if xattr::decode(ino, &b).is_none() {
                self.find(at, "xattr", format!("inode {ino} has damaged extended attributes"), Cure::Xattrs(ino));
            }
        }
        if record.kind() == FileType::Symlink {
            let at = self.image.layout.page_at(record.run_start);
            let mut target = vec![0; record.size as usize];
            self.image.read(at, &mut target);
            if crc32c::crc32c(&target) != record.target_crc {
                let what = format!("the target of symbolic link {ino} has a wrong checksum");
                self.find(at, "symlink", what, Cure::Inode(ino));
                return false;
            }
        }
        self.report.inodes_used += 1;
        self.report.directories += u32::from(record.is_directory());
        self.report.files += u32::from(record.kind() == FileType::Regular);
        let pages = u64::from(record.run_pages) + u64::from(record.xattr_pages);
        let huge = u64::from(record.segments) * self.image.layout.huge;
        self.report.bytes_used += pages * self.image.layout.page + huge;
        true
    }

    fn extents_against_inodes(&mut self) {
        let mut lists: Vec<(Ino, Vec<(u32, u32)>)> = std::mem::take(&mut self.extents).into_iter().collect();
        lists.sort_unstable();
        for (owner, mut list) in lists {
            list.sort_unstable();
            let record = self.records.get(&owner).copied();
            let mut kept: Vec<(u32, u32)> = Vec::new();
            for (index, segment) in list {
                let at = self.image.layout.mapping_entry_at(segment);
                let generation = match self.image.mapping(segment) {
                    Ok(Mapping::File { generation, .. }) => generation,
                    _ => continue,
                };
                let what = match record {
                    // After a crash recovery frees what has no name, huge pages included.
                    None if self.is_orphan(owner) => continue,
                    None => format!("entry {segment} of inode {owner}, which is not in use"),
                    Some(r) if !r.huge => format!("entry {segment} of inode {owner}, which has small pages"),
                    Some(r) if r.generation != generation => format!("entry {segment} of an earlier inode {owner}"),
                    Some(_) if kept.last().is_some_and(|(last, _)| *last == index) => {
                        format!("entry {segment} for page {index} of inode {owner}, which has one")
                    }
                    Some(_) => {
                        kept.push((index, segment));
                        continue;
                    }
                };
                self.find(at, "mapping", what, Cure::Mapping(segment));
            }
            self.extents.insert(owner, kept);
        }
        let counts: Vec<(Ino, u32)> = self.records.iter().map(|(ino, record)| (*ino, record.segments)).collect();
        for (ino, segments) in counts {
            let there = self.extents.get(&ino).map_or(0, Vec::len) as u32;
            if there != segments {
                let what = format!("inode {ino} should have {segments} huge pages, the mapping table has {there}");
                self.find(self.inode_at(ino), "inode", what, Cure::Segments(ino, there));
            }
        }
    }

    fn is_orphan(&self, ino: Ino) -> bool {
        !self.report.clean
            && self.image.halves(ino).iter().any(|half| matches!(half, Half::Valid(_, r) if r.links == 0 && r.huge))
    }

    /// Offset of a byte of a directory.
    fn locate(&self, ino: Ino, record: &Record, offset: u64) -> Option<u64> {
        let layout = &self.image.layout;
        if !record.huge {
            let bytes = u64::from(record.run_pages) * layout.page;
            return (offset < bytes).then(|| layout.page_at(record.run_start) + offset);
        }
        let list = self.extents.get(&ino)?;
        let found = list.binary_search_by_key(&((offset / layout.huge) as u32), |(index, _)| *index).ok()?;
        Some(layout.segment_at(list[found].1) + offset % layout.huge)
    }

    fn tree(&mut self) {
        let mut tree = Tree::default();
        match self.records.get(&ROOT) {
            Some(root) if root.is_directory() && root.parent != ROOT => {
                let what = format!("the root names inode {} as its parent", root.parent);
                self.find(self.inode_at(ROOT), "parent", what, Cure::Parent(ROOT, ROOT));
            }
            Some(root) if root.is_directory() => {}
            _ => return self.find(self.inode_at(ROOT), "root", "the root is not a directory", Cure::Inode(ROOT)),
        }
        self.walk(ROOT, &mut tree);
        self.nameless(&mut tree);
        let records: Vec<(Ino, Record)> = self.records.iter().map(|(ino, record)| (*ino, *record)).collect();
        for (ino, record) in records {
            let counted = tree.links.get(&ino).copied().unwrap_or(0);
            if counted != record.links {
                let what = format!("inode {ino} says {} links, it has {counted}", record.links);
                self.find(self.inode_at(ino), "links", what, Cure::Links(ino, counted));
            }
        }
    }

    /// Finds what no name leads to from the root. Of what hangs together only the top gets a name.
    fn nameless(&mut self, tree: &mut Tree) {
        let lost = |checker: &Checker, tree: &Tree, directories: bool| -> Vec<Ino> {
            let all = checker.records.iter().filter(|(_, record)| record.is_directory() == directories);
            all.map(|(ino, _)| *ino).filter(|ino| !tree.seen.contains(ino)).collect()
        };
        let mut named = HashSet::new();
        for directory in lost(self, tree, true) {
            let record = self.records[&directory];
            let (mut slot, end) = (0, (record.size / SLOT_BYTES) as u32);
            while slot < end {
                match self.slot(directory, &record, slot) {
                    (None, _) => slot = self.after_hole(slot),
                    (_, Some(Slot::Entry(entry, slots))) => {
                        named.insert(entry.ino);
                        slot += slots;
                    }
                    _ => slot += 1,
                }
            }
        }
        // First the tops; what is left then goes in circles, or is no directory.
        let tops: Vec<Ino> = lost(self, tree, true).into_iter().filter(|ino| !named.contains(ino)).collect();
        for directory in tops {
            self.adopt(directory, tree);
        }
        while let Some(ino) = lost(self, tree, true).first().or(lost(self, tree, false).first()) {
            self.adopt(*ino, tree);
        }
    }

    /// The first slot of the huge page after the one that a slot would lie in.
    fn after_hole(&self, slot: u32) -> u32 {
        let unit = (self.image.layout.huge / SLOT_BYTES) as u32;
        (slot / unit + 1) * unit
    }

    fn adopt(&mut self, ino: Ino, tree: &mut Tree) {
        self.find(self.inode_at(ino), "nameless", format!("inode {ino} has no name"), Cure::Adopt(ino));
        tree.seen.insert(ino);
        if self.records[&ino].is_directory() {
            self.walk(ino, tree);
        } else {
            tree.links.insert(ino, 1);
        }
    }

    /// Checks the directories from one on down.
    fn walk(&mut self, top: Ino, tree: &mut Tree) {
        tree.seen.insert(top);
        let mut queue = vec![top];
        while let Some(directory) = queue.pop() {
            let record = self.records[&directory];
            let mut names: HashSet<Vec<u8>> = HashSet::new();
            let (mut slot, end) = (0, (record.size / SLOT_BYTES) as u32);
            let mut subdirectories = 0;
            while slot < end {
                let (at, decoded) = self.slot(directory, &record, slot);
                let (entry, slots) = match decoded {
                    Some(Slot::Free) => {
                        slot += 1;
                        continue;
                    }
                    None if at.is_none() => {
                        let what = format!("directory {directory} has no space from slot {slot} on");
                        self.find(self.inode_at(directory), "hole", what, Cure::Fill(directory));
                        slot = self.after_hole(slot);
                        continue;
                    }
                    None => {
                        let at = at.unwrap_or_default();
                        let what = format!("directory {directory} has a damaged entry in slot {slot}");
                        self.find(at, "entry", what, Cure::Entry(at, SLOT_BYTES));
                        slot += 1;
                        continue;
                    }
                    Some(Slot::Entry(entry, slots)) => (entry, slots),
                };
                slot += slots;
                if let Some(what) = self.entry_fault(directory, &entry, &names, &tree.seen) {
                    let at = at.unwrap_or_default();
                    self.find(at, "entry", what, Cure::Entry(at, u64::from(slots_of(&entry.name)) * SLOT_BYTES));
                    continue;
                }
                *tree.links.entry(entry.ino).or_default() += 1;
                tree.seen.insert(entry.ino);
                if entry.kind == FileType::Directory {
                    subdirectories += 1;
                    queue.push(entry.ino);
                    if self.records[&entry.ino].parent != directory {
                        let what = format!("directory {} names another parent than {directory}", entry.ino);
                        self.find(self.inode_at(entry.ino), "parent", what, Cure::Parent(entry.ino, directory));
                    }
                }
                names.insert(entry.name);
            }
            tree.links.insert(directory, 2 + subdirectories);
        }
    }

    /// What a slot of a directory holds, and where it lies.
    fn slot(&self, directory: Ino, record: &Record, slot: u32) -> (Option<u64>, Option<Slot>) {
        let offset = u64::from(slot) * SLOT_BYTES;
        let Some(at) = self.locate(directory, record, offset) else { return (None, None) };
        let huge = self.image.layout.huge;
        let bytes = (record.size - offset).min(huge - offset % huge).min(5 * SLOT_BYTES);
        let mut b = [0; 5 * SLOT_BYTES as usize];
        self.image.read(at, &mut b[..bytes as usize]);
        (Some(at), decode(directory, slot, &b[..bytes as usize]))
    }

    fn entry_fault(
        &self,
        directory: Ino,
        entry: &Entry,
        names: &HashSet<Vec<u8>>,
        seen: &HashSet<Ino>,
    ) -> Option<String> {
        let name = String::from_utf8_lossy(&entry.name);
        if check_name(&entry.name).is_err() {
            return Some(format!("\"{name}\" in directory {directory} cannot be a name"));
        }
        let Some(record) = self.records.get(&entry.ino) else {
            return Some(format!("\"{name}\" in directory {directory} leads to inode {}, which is none", entry.ino));
        };
        if record.kind() != entry.kind {
            return Some(format!("\"{name}\" in directory {directory} is of another kind than inode {}", entry.ino));
        }
        if names.contains(&entry.name) {
            return Some(format!("\"{name}\" is twice in directory {directory}"));
        }
        if entry.kind == FileType::Directory && seen.contains(&entry.ino) {
            return Some(format!("\"{name}\" in directory {directory} is a second name of a directory"));
        }
        None
    }

    /// A clean volume's free map against what was counted.
    fn free_map(&mut self) {
        if !self.report.clean || !self.report.findings.is_empty() {
            return;
        }
        let (layout, segments) = (self.image.layout, self.zone.len() as u32);
        let mut alloc = crate::alloc::Alloc::new(&layout, segments);
        for segment in 0..segments {
            match self.image.mapping(segment) {
                Ok(Mapping::SmallZone) => alloc.claim_segment(segment, crate::mapping::SMALL_ZONE),
                Ok(Mapping::File { owner, .. }) => alloc.claim_segment(segment, owner),
                _ => continue,
            };
        }
        for (ino, record) in &self.records {
            alloc.claim_inode(*ino);
            alloc.take_pages_at(record.run_start, record.run_pages);
            alloc.take_pages_at(record.xattr_start, record.xattr_pages);
        }
        let mut map = vec![0; alloc.free_map_bytes() as usize];
        self.image.read(layout.free_map_at, &mut map);
        let is_right = crc32c::crc32c(&map) == self.image.superblock.free_map_crc;
        if map != alloc.free_map() || !is_right {
            let wrong = if is_right { "content" } else { "checksum" };
            self.find(layout.free_map_at, "free-map", format!("the free map has a wrong {wrong}"), Cure::Recover);
        }
    }

    /// Recovers what needs recovery, by opening the volume and closing it.
    pub fn recover(medium: Medium) -> Result<Medium> {
        let volume = Volume::open_medium(medium, &OpenOptions { null_files: 0, ..OpenOptions::default() })?;
        volume.into_medium()
    }

    /// Stores an inode's record as its newest version, whatever the halves hold.
    pub fn store(&self, ino: Ino, record: &Record) {
        let sequence = match inode::halves(&self.image.medium, &self.image.layout, ino) {
            [Half::Valid(a, _), Half::Valid(b, _)] => {
                if inode::newer(a, b) {
                    a
                } else {
                    b
                }
            }
            [Half::Valid(s, _), _] | [_, Half::Valid(s, _)] => s,
            _ => 0,
        };
        // Both halves, so that neither is torn.
        for step in 1..=2 {
            let next = sequence.wrapping_add(step);
            let at = self.image.layout.version_at(ino, next);
            let dirty = self.image.medium.write(at, &record.encode(ino, next), Durable::nothing());
            self.image.medium.fence(self.image.medium.flush(dirty)).done();
        }
    }

    pub fn record(&self, ino: Ino) -> Option<Record> {
        self.records.get(&ino).copied()
    }
}
