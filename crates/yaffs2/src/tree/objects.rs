//! All objects of a mounted volume, and who is in which directory.
//!
//! What stays in memory of an object is little: names, owners and times are read from its header when they are
//! asked for. A name is found by 16 bits of hash; the header confirms it.

use super::map::Map;
use crate::log::chip::Chunk;
use crate::log::tags::Kind;
pub use pocketstone_media::nand::tags::LARGEST_OBJECT;
use std::collections::{HashMap, HashSet};

/// The root directory.
pub const ROOT_ID: u32 = 1;
/// Where objects go whose directory is not known.
pub const LOST_ID: u32 = 2;
/// Objects that lost their last name while they were in use.
pub const UNLINKED_ID: u32 = 3;
/// Objects that are being deleted.
pub const DELETED_ID: u32 = 4;
/// The first number for an object of a user.
pub const FIRST_ID: u32 = 257;

const PAGE: u32 = 128;

/// An object.
#[derive(Debug)]
pub struct Object {
    pub parent: u32,
    /// The next object of the same directory; 0: none.
    next: u32,
    /// Where its header is; 0: nowhere yet.
    pub header: Chunk,
    /// A file's size in bytes, a directory's first object, a hard link's target.
    pub value: u64,
    pub map: Map,
    pub kind: Kind,
    flags: u8,
    hash: u16,
}

/// A truth about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// Its name's hash is known, and it is in the index.
    Named = 1,
    /// A directory whose objects all are.
    AllNamed = 2,
    /// Something refers to it, but its header has not been seen.
    Placeholder = 4,
}

impl Object {
    pub fn new(kind: Kind) -> Object {
        Object { parent: 0, next: 0, header: 0, value: 0, map: Map::default(), kind, flags: 0, hash: 0 }
    }

    pub fn has(&self, mark: Mark) -> bool {
        self.flags & mark as u8 != 0
    }

    pub fn set(&mut self, mark: Mark, on: bool) {
        if on {
            self.flags |= mark as u8;
        } else {
            self.flags &= !(mark as u8);
        }
    }
}

struct Page {
    slots: [Option<Object>; PAGE as usize],
    /// The lowest bits of what comes before each of them in its directory. (In an object they would take four times
    /// as much.)
    previous: [u16; PAGE as usize],
    used: u32,
}

/// All objects, by number and by name.
#[derive(Default)]
pub struct Objects {
    pages: Vec<Option<Box<Page>>>,
    /// Numbers of named objects, found by directory and hash. 0: free.
    index: Vec<u32>,
    indexed: usize,
    count: u32,
    /// No number below this one is free.
    first_free: u32,
    /// How many directories are in a directory, if there are any.
    subdirectories: HashMap<u32, u32>,
    /// The places in listings of objects that are not listed by their own numbers.
    places: HashMap<u32, u32>,
    /// These places, which are no numbers of objects.
    taken: HashSet<u32>,
}

fn hash_of(name: &[u8]) -> u16 {
    let hash = name.iter().fold(0x811C_9DC5u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash >> 16 ^ hash) as u16
}

/// Whether an object is one of the four that are always there.
pub fn is_fixed(id: u32) -> bool {
    id <= DELETED_ID
}

impl Objects {
    /// The four objects that are always there.
    pub fn fixed() -> Objects {
        let mut objects = Objects::default();
        for id in [ROOT_ID, LOST_ID, UNLINKED_ID, DELETED_ID] {
            objects.insert(id, Object::new(Kind::Directory));
        }
        objects.name(LOST_ID, b"lost+found");
        objects.attach(LOST_ID, ROOT_ID);
        objects
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn get(&self, id: u32) -> Option<&Object> {
        self.pages.get((id / PAGE) as usize)?.as_ref()?.slots[(id % PAGE) as usize].as_ref()
    }

    pub fn get_mut(&mut self, id: u32) -> Option<&mut Object> {
        self.pages.get_mut((id / PAGE) as usize)?.as_mut()?.slots[(id % PAGE) as usize].as_mut()
    }

    /// Puts an object in, in no directory.
    pub fn insert(&mut self, id: u32, object: Object) {
        let page = (id / PAGE) as usize;
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let empty = || Page { slots: std::array::from_fn(|_| None), previous: [0; PAGE as usize], used: 0 };
        let page = self.pages[page].get_or_insert_with(|| Box::new(empty()));
        if page.slots[(id % PAGE) as usize].replace(object).is_none() {
            page.used += 1;
            self.count += 1;
        }
    }

    /// Takes an object out, of its directory too.
    pub fn remove(&mut self, id: u32) -> Option<Object> {
        self.detach(id);
        let entry = self.pages.get_mut((id / PAGE) as usize)?;
        let page = entry.as_mut()?;
        let object = page.slots[(id % PAGE) as usize].take()?;
        page.used -= 1;
        if page.used == 0 {
            *entry = None;
        }
        self.count -= 1;
        self.first_free = self.first_free.min(id);
        self.leave_place(id);
        Some(object)
    }

    /// A number that no object has, and no place in a listing.
    pub fn free_id(&mut self) -> Option<u32> {
        let is_free = |id: &u32| self.get(*id).is_none() && !self.taken.contains(id);
        let id = (self.first_free.max(FIRST_ID)..LARGEST_OBJECT).find(is_free)?;
        self.first_free = id;
        Some(id)
    }

    /// An object's place in a listing, which no other one has: its number, if it was not given another one.
    pub fn place(&self, id: u32) -> u32 {
        self.places.get(&id).copied().unwrap_or(id)
    }

    /// Gives an object another place in listings: the number of one that was removed.
    pub fn set_place(&mut self, id: u32, place: u32) {
        self.leave_place(id);
        self.places.insert(id, place);
        self.taken.insert(place);
    }

    fn leave_place(&mut self, id: u32) {
        if let Some(place) = self.places.remove(&id) {
            self.taken.remove(&place);
            self.first_free = self.first_free.min(place);
        }
    }

    /// All numbers in use, from the lowest.
    pub fn ids(&self) -> Vec<u32> {
        let pages = (0u32..).zip(&self.pages).filter_map(|(at, page)| Some((at * PAGE, page.as_ref()?)));
        pages
            .flat_map(|(first, page)| (first..).zip(&page.slots).filter(|(_, slot)| slot.is_some()).map(|(id, _)| id))
            .collect()
    }

    /// Objects of a directory.
    pub fn children(&self, directory: u32) -> impl Iterator<Item = u32> + '_ {
        let first = match self.get(directory) {
            Some(object) if object.kind == Kind::Directory => object.value as u32,
            _ => 0,
        };
        let next = |&id: &u32| self.get(id).map(|object| object.next).filter(|&id| id != 0);
        std::iter::successors((first != 0).then_some(first), next)
    }

    pub fn is_empty(&self, directory: u32) -> bool {
        self.children(directory).next().is_none()
    }

    /// How many directories are in a directory.
    pub fn subdirectories(&self, directory: u32) -> u32 {
        self.subdirectories.get(&directory).copied().unwrap_or(0)
    }

    fn count_subdirectory(&mut self, directory: u32) {
        *self.subdirectories.entry(directory).or_default() += 1;
    }

    fn discount_subdirectory(&mut self, directory: u32) {
        if let Some(count) = self.subdirectories.get_mut(&directory) {
            *count -= 1;
            if *count == 0 {
                self.subdirectories.remove(&directory);
            }
        }
    }

    /// What comes before an object in its directory; 0: nothing. The few that have the same lowest bits are told apart
    /// by what comes next.
    fn previous(&self, id: u32) -> u32 {
        let page = self.pages.get((id / PAGE) as usize).and_then(Option::as_ref);
        let lowest = page.map_or(0, |page| page.previous[(id % PAGE) as usize]);
        let mut alike = (u32::from(lowest)..LARGEST_OBJECT).step_by(1 << u16::BITS);
        alike.find(|&other| self.get(other).is_some_and(|other| other.next == id)).unwrap_or(0)
    }

    fn set_previous(&mut self, id: u32, previous: u32) {
        if let Some(page) = self.pages.get_mut((id / PAGE) as usize).and_then(Option::as_mut) {
            page.previous[(id % PAGE) as usize] = previous as u16;
        }
    }

    /// Puts an object into a directory.
    pub fn attach(&mut self, id: u32, directory: u32) {
        let Some(parent) = self.get_mut(directory).filter(|parent| parent.kind == Kind::Directory) else { return };
        let first = std::mem::replace(&mut parent.value, id.into()) as u32;
        if first != 0 {
            self.set_previous(first, id);
        }
        self.set_previous(id, 0);
        if self.get(id).is_some_and(|object| object.kind == Kind::Directory) {
            self.count_subdirectory(directory);
        }
        if let Some(object) = self.get_mut(id) {
            (object.parent, object.next) = (directory, first);
            if object.has(Mark::Named) {
                self.index_insert(id);
            } else if let Some(parent) = self.get_mut(directory) {
                parent.set(Mark::AllNamed, false);
            }
        }
    }

    /// Takes an object out of its directory.
    pub fn detach(&mut self, id: u32) {
        let Some(&Object { parent, next, kind, .. }) = self.get(id) else { return };
        if parent == 0 {
            return;
        }
        if self.get(id).is_some_and(|object| object.has(Mark::Named)) {
            self.index_remove(id);
        }
        let previous = self.previous(id);
        if let Some(previous) = self.get_mut(previous) {
            previous.next = next;
        } else if let Some(parent) = self.get_mut(parent).filter(|parent| parent.value == u64::from(id)) {
            parent.value = next.into();
        }
        if next != 0 {
            self.set_previous(next, previous);
        }
        if kind == Kind::Directory {
            self.discount_subdirectory(parent);
        }
        if let Some(object) = self.get_mut(id) {
            (object.parent, object.next) = (0, 0);
        }
    }

    /// An object's name is known now.
    pub fn name(&mut self, id: u32, name: &[u8]) {
        let attached = match self.get(id) {
            Some(object) => object.parent != 0,
            None => return,
        };
        if attached && self.get(id).is_some_and(|object| object.has(Mark::Named)) {
            self.index_remove(id);
        }
        if let Some(object) = self.get_mut(id) {
            object.hash = hash_of(name);
            object.set(Mark::Named, true);
        }
        if attached {
            self.index_insert(id);
        }
    }

    /// Objects of a directory that may have a name.
    pub fn candidates(&self, directory: u32, name: &[u8]) -> Vec<u32> {
        let hash = hash_of(name);
        let mut found = Vec::new();
        if !self.index.is_empty() {
            let mut at = self.home(directory, hash);
            while self.index[at] != 0 {
                let id = self.index[at];
                if self.get(id).is_some_and(|object| object.parent == directory && object.hash == hash) {
                    found.push(id);
                }
                at = self.behind(at);
            }
        }
        found
    }

    fn home(&self, directory: u32, hash: u16) -> usize {
        let mixed = (directory.wrapping_mul(0x85EB_CA6B) ^ u32::from(hash) << 15).wrapping_mul(0x9E37_79B1);
        ((u64::from(mixed) * self.index.len() as u64) >> 32) as usize
    }

    /// The next place of the index, which ends where it begins.
    fn behind(&self, at: usize) -> usize {
        if at + 1 == self.index.len() { 0 } else { at + 1 }
    }

    /// How far a place is behind another.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.index.len() - from }
    }

    fn index_insert(&mut self, id: u32) {
        // Fuller it would be slow, emptier it would be large.
        if (self.indexed + 1) * 5 > self.index.len() * 4 {
            let old = std::mem::take(&mut self.index);
            self.index = vec![0; (old.len() + old.len() / 4).max(64)];
            old.into_iter().filter(|&id| id != 0).for_each(|id| self.index_put(id));
        }
        self.indexed += 1;
        self.index_put(id);
    }

    fn index_put(&mut self, id: u32) {
        let Some(&Object { parent, hash, .. }) = self.get(id) else { return };
        let mut at = self.home(parent, hash);
        while self.index[at] != 0 {
            at = self.behind(at);
        }
        self.index[at] = id;
    }

    fn index_remove(&mut self, id: u32) {
        let Some(&Object { parent, hash, .. }) = self.get(id) else { return };
        if self.index.is_empty() {
            return;
        }
        let mut at = self.home(parent, hash);
        while self.index[at] != id {
            if self.index[at] == 0 {
                return;
            }
            at = self.behind(at);
        }
        // What follows and would not be found any more moves into the gap.
        let mut gap = at;
        loop {
            at = self.behind(at);
            let other = self.index[at];
            if other == 0 {
                break;
            }
            let Some(&Object { parent, hash, .. }) = self.get(other) else { continue };
            let home = self.home(parent, hash);
            if self.distance(home, at) >= self.distance(gap, at) {
                self.index[gap] = other;
                gap = at;
            }
        }
        self.index[gap] = 0;
        self.indexed -= 1;
    }

    /// Bytes of memory that all of it takes, without what the allocator adds.
    pub fn bytes(&self) -> usize {
        let pages = self.pages.iter().flatten();
        let maps: usize =
            pages.clone().flat_map(|page| page.slots.iter().flatten()).map(|object| object.map.bytes()).sum();
        let places = (self.places.capacity() + self.subdirectories.capacity()) * 9 + self.taken.capacity() * 5;
        pages.count() * size_of::<Page>() + self.pages.capacity() * 8 + self.index.capacity() * 4 + places + maps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn an_object_is_small() {
        assert!(size_of::<Option<Object>>() <= 40);
    }

    #[test]
    fn objects_whose_numbers_are_alike_are_taken_out_in_any_order() {
        let ids = [257, 257 + (1 << 16), 257 + (2 << 16), 1 << 16, 2 << 16, 300];
        for first in 0..ids.len() {
            let mut objects = Objects::fixed();
            for id in ids {
                objects.insert(id, Object::new(Kind::File));
                objects.attach(id, ROOT_ID);
            }
            let mut left: Vec<u32> = objects.children(ROOT_ID).collect();
            for step in 0..ids.len() {
                let id = ids[(first + step * 5) % ids.len()];
                objects.remove(id);
                left.retain(|&other| other != id);
                assert!(objects.children(ROOT_ID).eq(left.iter().copied()), "{id} of {left:?}");
            }
        }
    }

    #[test]
    fn a_place_is_no_number_until_it_is_left() {
        let mut objects = Objects::default();
        for id in 257..260 {
            objects.insert(id, Object::new(Kind::File));
        }
        objects.remove(258);
        objects.set_place(257, 258);
        assert_eq!((objects.place(257), objects.place(259), objects.free_id()), (258, 259, Some(260)));
        objects.remove(257);
        assert_eq!((objects.place(257), objects.free_id()), (257, Some(257)));
        objects.insert(257, Object::new(Kind::File));
        assert_eq!(objects.free_id(), Some(258));
    }

    proptest! {
        #[test]
        fn names_are_found_as_in_a_map_of_maps(
            steps in proptest::collection::vec((0u32..4, 0u32..30, 0u32..40), 1..200),
        ) {
            let mut objects = Objects::default();
            for directory in 1..4 {
                objects.insert(directory, Object::new(Kind::Directory));
            }
            let mut model: BTreeMap<(u32, u32), u32> = BTreeMap::new();
            for (what, name, number) in steps {
                let directory = 1 + number % 3;
                let text = format!("name {name}");
                match (what, model.get(&(directory, name)).copied()) {
                    (0 | 1, None) => {
                        let id = objects.free_id().unwrap();
                        // Every third name is a directory's.
                        let kind = if name % 3 == 0 { Kind::Directory } else { Kind::File };
                        objects.insert(id, Object::new(kind));
                        objects.name(id, text.as_bytes());
                        objects.attach(id, directory);
                        model.insert((directory, name), id);
                    }
                    (2, Some(id)) => {
                        prop_assert!(objects.remove(id).is_some());
                        model.remove(&(directory, name));
                    }
                    (3, Some(id)) => {
                        let to = 1 + (number + 1) % 3;
                        if !model.contains_key(&(to, name)) {
                            objects.detach(id);
                            objects.attach(id, to);
                            model.remove(&(directory, name));
                            model.insert((to, name), id);
                        }
                    }
                    _ => {}
                }
                for directory in 1..4 {
                    let mut listed: Vec<u32> = objects.children(directory).collect();
                    listed.sort_unstable();
                    let mut expected: Vec<u32> =
                        model.iter().filter(|((d, _), _)| *d == directory).map(|(_, &id)| id).collect();
                    expected.sort_unstable();
                    prop_assert_eq!(listed, expected);
                    let directories = model.keys().filter(|(d, name)| *d == directory && name % 3 == 0).count();
                    prop_assert_eq!(objects.subdirectories(directory) as usize, directories);
                    for name in 0..30 {
                        let found = objects.candidates(directory, format!("name {name}").as_bytes());
                        match model.get(&(directory, name)) {
                            Some(id) => prop_assert!(found.contains(id)),
                            None => prop_assert!(found.len() <= 1),
                        }
                    }
                }
            }
            prop_assert_eq!(objects.count() as usize, model.len() + 3);
        }
    }
}
