//! Which file a descriptor stands for, while a trace is read.

use std::collections::HashMap;

/// The longest name of a file that is taken, in bytes: Linux has none that is longer.
pub(super) const LONGEST_NAME_BYTES: usize = 4096;

/// Bytes of all names together, and descriptors of all processes together, that are kept: as many as nothing but a
/// damaged log has. What is beyond them is a file without a name.
const MOST_NAME_BYTES: usize = 1 << 24;
const MOST_DESCRIPTORS: usize = 1 << 19;

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
pub(super) struct Files {
    pub names: Vec<String>,
    index: HashMap<String, u16>,
    /// Bytes of the names.
    name_bytes: usize,
    /// By process.
    descriptors: HashMap<u32, HashMap<i64, u16>>,
    /// How many there are.
    open: usize,
    numbers: HashMap<(u32, u64), u16>,
    /// Where names begin that do not say where they do.
    folder: Option<String>,
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
        let in_folder = self.folder.as_ref().filter(|_| !name.starts_with('/') && !name.contains(':'));
        let whole = in_folder.map(|folder| format!("{folder}/{}", name.strip_prefix("./").unwrap_or(name)));
        let name = whole.as_deref().unwrap_or(name);
        if let Some(index) = self.index.get(name) {
            return Some(*index);
        }
        let index = u16::try_from(self.names.len()).ok().filter(|n| *n < u16::MAX)?;
        if name.len() > LONGEST_NAME_BYTES || self.name_bytes + name.len() > MOST_NAME_BYTES {
            return None;
        }
        self.name_bytes += name.len();
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), index);
        Some(index)
    }

    pub fn opened(&mut self, process: u32, fd: i64, name: &str) {
        let file = self.named(name);
        self.stands_for(process, fd, file);
    }

    /// A process starts with the descriptors that another one has.
    pub fn inherit(&mut self, parent: u32, child: u32) {
        let Some(of_parent) = self.descriptors.get(&parent).filter(|_| parent != child) else { return };
        if self.open + of_parent.len() > MOST_DESCRIPTORS {
            return;
        }
        let of_parent = of_parent.clone();
        self.open += of_parent.len();
        let had = self.descriptors.insert(child, of_parent);
        self.open -= had.map_or(0, |had| had.len());
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

    fn stands_for(&mut self, process: u32, fd: i64, file: Option<u16>) {
        let Some(file) = file.filter(|_| self.open < MOST_DESCRIPTORS) else {
            let Some(of_process) = self.descriptors.get_mut(&process) else { return };
            self.open -= usize::from(of_process.remove(&fd).is_some());
            if of_process.is_empty() {
                self.descriptors.remove(&process);
            }
            return;
        };
        self.open += usize::from(self.descriptors.entry(process).or_default().insert(fd, file).is_none());
    }

    pub fn of(&self, process: u32, fd: i64) -> Option<u16> {
        self.descriptors.get(&process)?.get(&fd).copied()
    }

    pub fn numbered(&self, device: u32, inode: u64) -> Option<u16> {
        self.numbers.get(&(device, inode)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of forks that each take over what their parent has, and of names without end.
    #[test]
    fn what_is_kept_of_a_log_is_bounded() {
        let mut files = Files::default();
        for fd in 0..1024 {
            files.opened(1, fd, "/a");
        }
        for child in 2..2000 {
            files.inherit(1, child);
        }
        let kept = |files: &Files| files.descriptors.values().map(HashMap::len).sum::<usize>();
        assert_eq!((files.open, kept(&files)), (MOST_DESCRIPTORS, MOST_DESCRIPTORS));
        files.opened(3000, 5, "/a");
        assert_eq!((files.of(512, 1023), files.of(3000, 5)), (Some(0), None));
        // What is closed makes room, and a process that begins anew has what its own parent has.
        files.closed(2, 7);
        files.opened(3000, 5, "/a");
        assert_eq!((files.of(2, 7), files.of(3000, 5)), (None, Some(0)));
        files.closed(3000, 5);
        files.closed(3, 0);
        files.duplicated(4, 0, 0);
        files.inherit(3000, 4);
        assert_eq!(files.open, kept(&files));

        assert_eq!(files.named(&"x".repeat(LONGEST_NAME_BYTES + 1)), None);
        let names = MOST_NAME_BYTES / LONGEST_NAME_BYTES;
        let long = |n: usize| format!("{n:0>LONGEST_NAME_BYTES$}");
        assert!((0..names - 1).all(|n| files.named(&long(n)).is_some()));
        assert_eq!((files.named(&long(names)), files.named("/a")), (None, Some(0)));
        assert!(files.names.iter().map(String::len).sum::<usize>() <= MOST_NAME_BYTES);
    }
}
