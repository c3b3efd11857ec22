//! Which file a descriptor stands for, while a trace is read.

use std::collections::{BTreeMap, HashMap};

/// Bytes of all names together, and descriptors of all processes together, that are kept: no log but a damaged one has
/// as many. What is beyond them is a file without a name.
const MOST_NAME_BYTES: usize = 1 << 23;
const MOST_DESCRIPTORS: usize = 1 << 17;

/// Descriptors that a process has from the one that started it: those with the lowest numbers, as each start takes as
/// long as they are many.
const MOST_INHERITED: usize = 1 << 9;

/// A descriptor that was open when recording began, as /proc/PID/fd shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    /// The process that has it.
    pub process: u32,
    /// The descriptor.
    pub fd: i32,
    /// The file's name.
    pub name: String,
}

/// A file known by its number: what the page cache's events name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNumber {
    /// Device, major << 20 | minor.
    pub device: u32,
    /// Number of the file on it.
    pub inode: u64,
    /// The file's name.
    pub name: String,
}

/// Names of files, and what descriptors and numbers stand for.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub names: Vec<String>,
    index: HashMap<String, u16>,
    /// Bytes of the names.
    name_bytes: usize,
    /// In an order, so that the memory of those that were closed is free, and those of a process lie together.
    descriptors: BTreeMap<(u32, i64), u16>,
    numbers: HashMap<(u32, u64), u16>,
    /// Where names begin that do not say where they do.
    folder: Option<String>,
    /// The folders of processes that have gone to another one, or were started by such; `None`: it is unknown.
    folders: HashMap<u32, Option<u16>>,
}

impl Files {
    pub fn new(open: &[OpenFile], numbers: &[FileNumber], folder: Option<&str>) -> Files {
        let mut files = Files { folder: folder.map(str::to_owned), ..Files::default() };
        for file in open {
            files.opened(file.process, i64::from(file.fd), &file.name);
        }
        for file in numbers {
            if let Some(index) = files.named(&file.name) {
                files.numbers.insert((file.device, file.inode), index);
            }
        }
        files
    }

    /// Index of a name; `None` where there are more files than a log can tell apart.
    pub fn named(&mut self, name: &str) -> Option<u16> {
        if let Some(index) = self.index.get(name) {
            return Some(*index);
        }
        let index = u16::try_from(self.names.len()).ok().filter(|n| *n < u16::MAX)?;
        if self.name_bytes + name.len() > MOST_NAME_BYTES {
            return None;
        }
        self.name_bytes += name.len();
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), index);
        Some(index)
    }

    /// Index of a name that a process has for a file: it starts from the folder with a descriptor, or the process's.
    pub fn named_by(&mut self, process: u32, folder: Option<i64>, name: &str) -> Option<u16> {
        if name.starts_with('/') || name.contains(':') {
            return self.named(name);
        }
        let known = match (folder, self.folders.get(&process)) {
            (Some(fd), _) => self.of(process, fd).map(|folder| &self.names[usize::from(folder)]),
            (None, Some(folder)) => folder.map(|folder| &self.names[usize::from(folder)]),
            (None, None) => self.folder.as_ref(),
        };
        match known.map(|folder| format!("{folder}/{}", name.strip_prefix("./").unwrap_or(name))) {
            Some(whole) => self.named(&whole),
            None => self.named(name),
        }
    }

    pub fn opened(&mut self, process: u32, fd: i64, name: &str) {
        let file = self.named_by(process, None, name);
        self.stands_for(process, fd, file);
    }

    /// A process is in another folder from now on.
    pub fn moved(&mut self, process: u32, folder: Option<u16>) {
        if self.folders.len() < MOST_DESCRIPTORS || self.folders.contains_key(&process) {
            self.folders.insert(process, folder);
        }
    }

    /// A process starts with the descriptors that another one has, and in its folder.
    pub fn inherit(&mut self, parent: u32, child: u32) {
        if parent != child {
            match self.folders.get(&parent).copied() {
                Some(folder) => self.moved(child, folder),
                None => _ = self.folders.remove(&child),
            }
        }
        if parent == child || self.descriptors.len() >= MOST_DESCRIPTORS {
            return;
        }
        let of_parent = self.descriptors.range((parent, i64::MIN)..=(parent, i64::MAX)).take(MOST_INHERITED);
        for (fd, file) in of_parent.map(|((_, fd), file)| (*fd, *file)).collect::<Vec<_>>() {
            self.stands_for(child, fd, Some(file));
        }
    }

    /// A descriptor is also known by another number, which is no longer what it was.
    pub fn duplicated(&mut self, process: u32, fd: i64, as_fd: i64) {
        let file = self.of(process, fd);
        self.stands_for(process, as_fd, file);
    }

    /// A descriptor became that of a file whose name nobody knows, or of none.
    pub fn closed(&mut self, process: u32, fd: i64) {
        self.stands_for(process, fd, None);
    }

    /// A descriptor became that of a file.
    pub fn stands_for(&mut self, process: u32, fd: i64, file: Option<u16>) {
        let key = (process, fd);
        let has_room = self.descriptors.len() < MOST_DESCRIPTORS || self.descriptors.contains_key(&key);
        match file.filter(|_| has_room) {
            Some(file) => self.descriptors.insert(key, file),
            None => self.descriptors.remove(&key),
        };
    }

    pub fn of(&self, process: u32, fd: i64) -> Option<u16> {
        self.descriptors.get(&(process, fd)).copied()
    }

    pub fn numbered(&self, device: u32, inode: u64) -> Option<u16> {
        self.numbers.get(&(device, inode)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes that each start with what their parent has, and names without end.
    #[test]
    fn what_is_kept_of_files_is_bounded() {
        let mut files = Files::default();
        for fd in 0..512 {
            files.opened(1, fd, "/a");
        }
        for child in 2..400 {
            files.inherit(1, child);
        }
        assert_eq!(files.descriptors.len(), MOST_DESCRIPTORS);
        files.opened(500, 5, "/a");
        assert_eq!((files.of(256, 511), files.of(257, 0), files.of(500, 5)), (Some(0), None, None));
        // One that is known may change, and one that is closed makes room.
        files.opened(2, 7, "/b");
        files.closed(2, 8);
        files.opened(500, 5, "/a");
        assert_eq!((files.of(2, 7), files.of(2, 8), files.of(500, 5)), (Some(1), None, Some(0)));

        let name = |n: usize| format!("{n:0>4096}");
        let names = (MOST_NAME_BYTES - "/a/b".len()) / 4096;
        assert!((0..names).all(|n| files.named(&name(n)).is_some()));
        assert_eq!((files.named(&name(names)), files.named("/b")), (None, Some(1)));
    }

    #[test]
    fn the_lowest_descriptors_are_inherited() {
        let mut files = Files::default();
        for fd in (0..=MOST_INHERITED as i64).rev() {
            files.opened(1, fd, "/a");
        }
        files.opened(2, 1 << 40, "/a");
        files.inherit(1, 2);
        let most = MOST_INHERITED as i64;
        let known = [0, most - 1, most, 1 << 40].map(|fd| files.of(2, fd).is_some());
        assert_eq!(known, [true, true, false, true]);
    }
}
