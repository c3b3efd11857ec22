//! Names: which inodes they lead to, which lead nowhere, and which inodes have none.

use super::{FindingKind, PageCopy, Subject, Survey};
use crate::format::entry::{Slot, check_name, decode, slots_of};
use crate::format::inode::Record;
use crate::format::layout::SLOT_BYTES;
use crate::store::Clock;
use crate::{Entry, FileType, Ino, Meta, ROOT};
use std::collections::{HashMap, HashSet};

/// A name of a directory in a directory that it does not call its parent. It counts if there is no other.
struct Spare {
    child: Ino,
    directory: Ino,
    at: u64,
    name: Vec<u8>,
}

/// What a walk through directories comes across.
#[derive(Default)]
pub(super) struct Tree {
    links: HashMap<Ino, u32>,
    /// Where the directories are; an adopted one is in directory 0.
    places: HashMap<Ino, (Ino, Vec<u8>)>,
    /// Names of other inodes that something is said about.
    names: HashMap<Ino, (Ino, Vec<u8>)>,
    spares: Vec<Spare>,
}

/// What a place in a directory holds.
enum Place {
    /// Nothing, not even space.
    Hole,
    Damaged(u64),
    Free,
    Entry(u64, Entry, u32),
}

impl Survey {
    /// Offset of a byte of a directory.
    fn locate(&self, ino: Ino, record: &Record, offset: u64) -> Option<u64> {
        let layout = &self.image.layout;
        if offset < u64::from(record.run_pages) * layout.page {
            return Some(layout.page_at(record.run_start) + offset);
        }
        let list = self.huge.get(&ino).map_or(&[][..], Vec::as_slice);
        if let Ok(found) = list.binary_search_by_key(&((offset / layout.huge) as u32), |(index, _)| *index) {
            return Some(layout.segment_at(list[found].1) + offset % layout.huge);
        }
        let page = (offset / layout.page) as u32;
        let extents = self.lists.get(&ino)?;
        let extent = extents[..extents.partition_point(|extent| extent.index <= page)].last()?;
        let within = page - extent.index;
        (within < extent.pages).then(|| layout.page_at(extent.start + within) + offset % layout.page)
    }

    /// Reads what will be at an offset: what gets a copy is still where it was.
    fn read_planned(&self, at: u64, into: &mut [u8]) {
        let layout = &self.image.layout;
        let place = |copy: &PageCopy| layout.page_at(copy.to)..layout.page_at(copy.to + copy.pages);
        let copy = self.copies.iter().find(|copy| place(copy).contains(&at));
        self.image.read(copy.map_or(at, |copy| at - layout.page_at(copy.to) + layout.page_at(copy.from)), into);
    }

    fn place(&self, directory: Ino, record: &Record, slot: u32) -> Place {
        let offset = u64::from(slot) * SLOT_BYTES;
        let Some(at) = self.locate(directory, record, offset) else { return Place::Hole };
        let huge = self.image.layout.huge;
        // What a name needs may lie in several pieces, if the directory does.
        let bytes = (record.size - offset).min(huge - offset % huge).min(5 * SLOT_BYTES);
        let mut b = [0; 5 * SLOT_BYTES as usize];
        for step in (0..bytes).step_by(SLOT_BYTES as usize) {
            match self.locate(directory, record, offset + step) {
                Some(at) => self.read_planned(at, &mut b[step as usize..(step + SLOT_BYTES) as usize]),
                None => break,
            }
        }
        match decode(directory, slot, &b[..bytes as usize]) {
            Some(Slot::Free) => Place::Free,
            Some(Slot::Entry(entry, slots)) => Place::Entry(at, entry, slots),
            None => Place::Damaged(at),
        }
    }

    /// Calls `each` for everything in a directory but free slots. A hole is told of once for each page.
    fn places(&self, directory: Ino, record: &Record, mut each: impl FnMut(u32, Place)) {
        let (mut slot, end) = (0, (record.size / SLOT_BYTES) as u32);
        let unit = (self.image.layout.page / SLOT_BYTES) as u32;
        while slot < end {
            let place = self.place(directory, record, slot);
            let next = match &place {
                Place::Hole => (slot / unit + 1) * unit,
                Place::Entry(_, _, slots) => slot + slots,
                Place::Free | Place::Damaged(_) => slot + 1,
            };
            if !matches!(place, Place::Free) {
                each(slot, place);
            }
            slot = next;
        }
    }

    /// Inodes with 0 links that a name leads to stay: only damage brings that about. The others are freed.
    pub(super) fn orphans(&mut self) {
        if self.orphans.is_empty() {
            return;
        }
        let mut named = HashSet::new();
        for (directory, record) in self.records.iter().filter(|(_, record)| record.is_directory()) {
            self.places(*directory, record, |_, place| {
                if let Place::Entry(_, entry, _) = place {
                    named.insert((entry.ino, entry.kind));
                }
            });
        }
        for (ino, record) in std::mem::take(&mut self.orphans) {
            if named.contains(&(ino, record.kind())) {
                self.records.insert(ino, record);
                continue;
            }
            for (_, segment) in self.huge.remove(&ino).unwrap_or_default() {
                self.clear_entry(segment, None);
            }
            self.freed.insert(ino, record.freed());
        }
    }

    /// Walks through all directories, and finds out what has no name.
    pub(super) fn tree(&mut self) -> Tree {
        let mut tree = Tree::default();
        let at = self.image.layout.version_at(ROOT, 0);
        match self.records.get(&ROOT) {
            Some(root) if root.is_directory() => {
                if root.parent != ROOT {
                    let what = format!("the root names inode {} as its parent", root.parent);
                    self.find(at, FindingKind::Parent, what, Subject::None);
                    self.change(ROOT, |root| root.parent = ROOT);
                }
            }
            _ => {
                self.find(at, FindingKind::Root, "the root is not a directory: an empty one is created", Subject::None);
                let mut root = Record::new(&Meta::directory(0o755), 1, Clock::new(None).now());
                root.parent = ROOT;
                self.lost.remove(&ROOT);
                for (_, segment) in self.huge.remove(&ROOT).unwrap_or_default() {
                    self.clear_entry(segment, None);
                }
                self.records.insert(ROOT, root);
                self.rewritten.insert(ROOT);
            }
        }
        self.walk(ROOT, &mut tree);
        self.use_spares(&mut tree);
        self.nameless(&mut tree);
        for spare in std::mem::take(&mut tree.spares) {
            let what = format!("{} is a second name of a directory", tree.path(spare.directory, &spare.name));
            self.clear_name(spare.at, &spare.name, what, None);
        }
        let wrong: Vec<(Ino, u32, u32)> = self
            .records
            .iter()
            .map(|(ino, record)| (*ino, record.links, tree.links.get(ino).copied().unwrap_or(0)))
            .filter(|(_, says, has)| says != has)
            .collect();
        for (ino, says, has) in wrong {
            if !self.nameless.contains(&ino) {
                let at = self.image.layout.version_at(ino, 0);
                self.find(
                    at,
                    FindingKind::Links,
                    format!("its link count is {says}, but it has {has}"),
                    Subject::Inode(ino),
                );
            }
            self.change(ino, |record| record.links = has);
        }
        tree
    }

    /// Directories that only a name leads to which they do not know: it becomes theirs.
    fn use_spares(&mut self, tree: &mut Tree) {
        while let Some(found) = tree.spares.iter().position(|spare| !tree.links.contains_key(&spare.child)) {
            let Spare { child, directory, name, .. } = tree.spares.swap_remove(found);
            let what = format!("its recorded parent is not {directory}");
            self.find(self.image.layout.version_at(child, 0), FindingKind::Parent, what, Subject::Inode(child));
            self.change(child, |record| record.parent = directory);
            *tree.links.entry(directory).or_default() += 1;
            tree.places.insert(child, (directory, name));
            self.walk(child, tree);
        }
    }

    /// Finds what no name leads to from the root. Of what hangs together only the top gets a name.
    fn nameless(&mut self, tree: &mut Tree) {
        let unseen = |survey: &Survey, tree: &Tree, directories: bool| -> Vec<Ino> {
            let all = survey.records.iter().filter(|(_, record)| record.is_directory() == directories);
            all.map(|(ino, _)| *ino).filter(|ino| !tree.links.contains_key(ino)).collect()
        };
        let lost = unseen(self, tree, true);
        let mut named = HashSet::new();
        for directory in &lost {
            self.places(*directory, &self.records[directory], |_, place| {
                if let Place::Entry(_, entry, _) = place {
                    let knows = self.records.get(&entry.ino).is_some_and(|child| child.parent == *directory);
                    if knows && entry.ino != *directory {
                        named.insert(entry.ino);
                    }
                }
            });
        }
        // First the tops; what is left then goes in circles, or is no directory.
        let (tops, circles): (Vec<Ino>, Vec<Ino>) = lost.into_iter().partition(|ino| !named.contains(ino));
        for directory in tops.into_iter().chain(circles) {
            if !tree.links.contains_key(&directory) {
                self.adopt(directory, tree);
                self.walk(directory, tree);
                self.use_spares(tree);
            }
        }
        for ino in unseen(self, tree, false) {
            self.adopt(ino, tree);
            tree.links.insert(ino, 1);
        }
    }

    fn adopt(&mut self, ino: Ino, tree: &mut Tree) {
        let what = "it has no name; repair gives it this one";
        self.find(self.image.layout.version_at(ino, 0), FindingKind::Nameless, what, Subject::Inode(ino));
        self.nameless.insert(ino);
        tree.places.insert(ino, (0, format!("#{ino}").into_bytes()));
    }

    /// Checks the directories from one on down.
    fn walk(&mut self, top: Ino, tree: &mut Tree) {
        tree.links.insert(top, 2);
        let mut queue = vec![top];
        while let Some(directory) = queue.pop() {
            let record = self.records[&directory];
            let (mut names, mut found) = (HashSet::new(), Vec::new());
            let (mut holes, mut damaged): (u32, Vec<(u64, u32, u32)>) = (0, Vec::new());
            self.places(directory, &record, |slot, place| match place {
                Place::Entry(at, entry, _) => found.push((at, entry)),
                Place::Damaged(at) => match damaged.last_mut() {
                    // One after the other: told of together.
                    Some((from, first, slots))
                        if *first + *slots == slot && *from + u64::from(*slots) * SLOT_BYTES == at =>
                    {
                        *slots += 1;
                    }
                    _ => damaged.push((at, slot, 1)),
                },
                Place::Hole => holes += 1,
                Place::Free => {}
            });
            let inode_at = self.image.layout.version_at(directory, 0);
            if holes > 0 {
                let what = format!("the directory has no space for {holes} of its small pages: their names are lost");
                self.find(inode_at, FindingKind::Hole, what, Subject::Inode(directory));
                self.holes.push(directory);
            }
            for (at, slot, slots) in damaged {
                let what = format!("the directory has damaged entries in slots {slot} to {}", slot + slots - 1);
                self.find(at, FindingKind::Entry, what, Subject::Inode(directory));
                self.cleared.push((at, u64::from(slots) * SLOT_BYTES));
            }
            for (at, entry) in found {
                if let Some((what, size)) = self.entry_fault(directory, &entry, &names, tree) {
                    self.clear_name(at, &entry.name, what, size);
                    if !tree.links.contains_key(&entry.ino) {
                        tree.names.entry(entry.ino).or_insert((directory, entry.name));
                    }
                    continue;
                }
                if entry.kind == FileType::Directory {
                    names.insert(entry.name.clone());
                    if self.records[&entry.ino].parent != directory {
                        tree.spares.push(Spare { child: entry.ino, directory, at, name: entry.name });
                        continue;
                    }
                    *tree.links.entry(directory).or_default() += 1;
                    tree.links.insert(entry.ino, 2);
                    tree.places.insert(entry.ino, (directory, entry.name));
                    queue.push(entry.ino);
                    continue;
                }
                *tree.links.entry(entry.ino).or_default() += 1;
                if self.subjects.contains(&entry.ino) {
                    tree.names.entry(entry.ino).or_insert((directory, entry.name.clone()));
                }
                names.insert(entry.name);
            }
        }
    }

    /// Removes a name.
    fn clear_name(&mut self, at: u64, name: &[u8], what: String, size: Option<u64>) {
        self.find(at, FindingKind::Entry, what, Subject::Text(size));
        self.cleared.push((at, u64::from(slots_of(name)) * SLOT_BYTES));
    }

    /// What is wrong with an entry, and the size of what it led to, if it is known and lost.
    fn entry_fault(
        &self,
        directory: Ino,
        entry: &Entry,
        names: &HashSet<Vec<u8>>,
        tree: &Tree,
    ) -> Option<(String, Option<u64>)> {
        let path = || tree.path(directory, &entry.name);
        let fault = |what: &str| Some((format!("{}: {what}", path()), None));
        if check_name(&entry.name).is_err() {
            return fault("this cannot be a name");
        }
        let Some(record) = self.records.get(&entry.ino) else {
            return match self.lost.get(&entry.ino) {
                Some(size) => {
                    let bytes = size.map_or(String::new(), |size| format!(", {} bytes", grouped(size)));
                    Some((format!("{}{bytes}: its inode, {}, is damaged", path(), entry.ino), *size))
                }
                None => fault(&format!("it refers to inode {}, which is not in use", entry.ino)),
            };
        };
        if record.kind() != entry.kind {
            return fault(&format!("its kind differs from inode {}", entry.ino));
        }
        if names.contains(&entry.name) {
            return fault("the name occurs twice in its directory");
        }
        if entry.kind == FileType::Directory && tree.links.contains_key(&entry.ino) {
            return fault("it is a second name of a directory");
        }
        None
    }
}

impl Tree {
    /// The path of a name in a directory.
    pub(super) fn path(&self, directory: Ino, name: &[u8]) -> String {
        let (mut parts, mut at) = (vec![String::from_utf8_lossy(name).into_owned()], directory);
        while at != ROOT && parts.len() <= self.places.len() + 1 {
            if at == 0 {
                parts.push("lost+found".into());
                break;
            }
            let Some((above, name)) = self.places.get(&at) else { break };
            parts.push(String::from_utf8_lossy(name).into_owned());
            at = *above;
        }
        parts.reverse();
        format!("/{}", parts.join("/"))
    }

    /// The path of an inode, if it is known.
    pub(super) fn path_of(&self, ino: Ino) -> Option<String> {
        if ino == ROOT {
            return Some("/".into());
        }
        let (directory, name) = self.places.get(&ino).or_else(|| self.names.get(&ino))?;
        Some(self.path(*directory, name))
    }
}

/// A number with commas between its thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
