//! Which file a descriptor stands for, while a trace is read.

use std::collections::HashMap;

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
    descriptors: HashMap<(u32, i64), u16>,
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
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), index);
        Some(index)
    }

    pub fn opened(&mut self, process: u32, fd: i64, name: &str) {
        match self.named(name) {
            Some(index) => self.descriptors.insert((process, fd), index),
            None => self.descriptors.remove(&(process, fd)),
        };
    }

    /// A process starts with the descriptors that another one has.
    pub fn inherit(&mut self, parent: u32, child: u32) {
        let of_parent: Vec<(i64, u16)> = self
            .descriptors
            .iter()
            .filter(|((process, _), _)| *process == parent)
            .map(|((_, fd), f)| (*fd, *f))
            .collect();
        self.descriptors.extend(of_parent.into_iter().map(|(fd, file)| ((child, fd), file)));
    }

    /// A descriptor is also known by another number, which is no longer what it was.
    pub fn duplicated(&mut self, process: u32, fd: i64, as_fd: i64) {
        match self.of(process, fd) {
            Some(file) => self.descriptors.insert((process, as_fd), file),
            None => self.descriptors.remove(&(process, as_fd)),
        };
    }

    /// A descriptor became that of a file whose name nobody knows, or of none.
    pub fn closed(&mut self, process: u32, fd: i64) {
        self.descriptors.remove(&(process, fd));
    }

    pub fn of(&self, process: u32, fd: i64) -> Option<u16> {
        self.descriptors.get(&(process, fd)).copied()
    }

    pub fn numbered(&self, device: u32, inode: u64) -> Option<u16> {
        self.numbers.get(&(device, inode)).copied()
    }
}
