//! Random operations, and models that know what must be there.
//!
//! Not those of `fstest`: its operations say for certain what they give, and here one may be refused for want of space
//! at any step, by what others do; and it has neither shared mappings nor O_DIRECT.

use crate::cases;
use crate::ground::*;
use crate::groups::Case;
use crate::system::Map;
use rustix::fs::{FallocateFlags, RenameFlags, fallocate};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

pub const CASES: &[Case] = cases![generic_013_random_operations, generic_075_one_file, generic_263_one_file_by_pages];

/// What is under a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    File(Vec<u8>),
    Link(String),
    Directory,
}

/// A folder, and what is known of it.
pub struct Tree {
    folder: PathBuf,
    numbers: Numbers,
    known: BTreeMap<String, Node>,
    steps: u64,
}

impl Tree {
    /// An empty one.
    pub fn new(folder: PathBuf, seed: u64) -> Tree {
        Tree { folder, numbers: Numbers::new(seed + 1), known: BTreeMap::new(), steps: 0 }
    }

    /// A path that there may be, at most three deep.
    fn path(&mut self) -> String {
        let depth = 1 + self.numbers.below(3);
        let parts: Vec<String> = (0..depth).map(|_| format!("n{}", self.numbers.below(6))).collect();
        parts.join("/")
    }

    fn is_directory(&self, path: &str) -> bool {
        path.is_empty() || self.known.get(path) == Some(&Node::Directory)
    }

    fn has_room_for(&self, path: &str) -> bool {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        self.is_directory(parent) && !self.known.contains_key(path)
    }

    fn is_empty(&self, path: &str) -> bool {
        !self.known.keys().any(|key| key.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    }

    /// One operation, whose outcome is the model's.
    pub fn step(&mut self) -> Done {
        self.attempt().map_err(|why| Fault::Failed(format!("step {}: {why:?}", self.steps)))
    }

    /// One operation, which may be refused for want of space, and then has changed nothing but a file's end.
    pub fn step_when_full(&mut self) -> Done {
        match self.attempt() {
            Err(Some(error)) if error.raw_os_error() == Some(libc::ENOSPC) => self.learn(),
            other => other.map_err(|why| Fault::Failed(format!("step {}: {why:?}", self.steps))),
        }
    }

    fn attempt(&mut self) -> Result<(), Option<std::io::Error>> {
        self.steps += 1;
        let (path, other) = (self.path(), self.path());
        let (at, to) = (self.folder.join(&path), self.folder.join(&other));
        let agreed = |outcome: std::io::Result<()>, wanted: bool| match outcome {
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => Err(Some(error)),
            Ok(()) if wanted => Ok(true),
            Err(_) if !wanted => Ok(false),
            // It does what it must not, or does not what it must.
            Ok(()) => Err(None),
            Err(error) => Err(Some(error)),
        };
        match self.numbers.below(9) {
            0 => {
                let wanted = self.has_room_for(&path);
                if agreed(fs::create_dir(&at), wanted)? {
                    self.known.insert(path, Node::Directory);
                }
            }
            1 | 2 => {
                let len = self.numbers.below(30_000);
                let text = bytes(self.steps, len);
                let wanted = self.has_room_for(&path) || matches!(self.known.get(&path), Some(Node::File(_)));
                // A link is not followed here: it would be somebody else's file.
                let outcome = if matches!(self.known.get(&path), Some(Node::Link(_))) {
                    Err(Errno::LOOP.into())
                } else {
                    fs::write(&at, &text)
                };
                if agreed(outcome, wanted)? {
                    self.known.insert(path, Node::File(text));
                }
            }
            3 => {
                let Some(Node::File(text)) = self.known.get_mut(&path) else { return Ok(()) };
                let (from, len) = (self.numbers.below(text.len() + 5000), 1 + self.numbers.below(9000));
                let piece = bytes(self.steps, len);
                rw(&at)?.write_all_at(&piece, from as u64)?;
                text.resize(text.len().max(from + len), 0);
                text[from..from + len].copy_from_slice(&piece);
            }
            4 => {
                let Some(Node::File(text)) = self.known.get_mut(&path) else { return Ok(()) };
                let size = self.numbers.below(text.len() + 5000);
                rw(&at)?.set_len(size as u64)?;
                text.resize(size, 0);
            }
            5 => {
                let wanted = self.has_room_for(&path);
                // It leads nowhere, so that no path is another one's.
                let target = format!("absent/{other}");
                if agreed(symlink(&target, &at), wanted)? {
                    self.known.insert(path, Node::Link(target));
                }
            }
            6 => {
                let (outcome, wanted) = match self.known.get(&path) {
                    Some(Node::Directory) => (fs::remove_dir(&at), self.is_empty(&path)),
                    other => (fs::remove_file(&at), other.is_some()),
                };
                if agreed(outcome, wanted)? {
                    self.known.remove(&path);
                }
            }
            7 => {
                let wanted = self.known.contains_key(&path) && self.has_room_for(&other);
                let within = other == path || other.starts_with(&format!("{path}/"));
                let outcome =
                    rustix::fs::renameat_with(rustix::fs::CWD, &at, rustix::fs::CWD, &to, RenameFlags::NOREPLACE);
                if agreed(outcome.map_err(Into::into), wanted && !within)? {
                    let moved: Vec<String> = self
                        .known
                        .keys()
                        .filter(|key| **key == path || key.starts_with(&format!("{path}/")))
                        .cloned()
                        .collect();
                    for key in moved {
                        if let Some(node) = self.known.remove(&key) {
                            self.known.insert(format!("{other}{}", &key[path.len()..]), node);
                        }
                    }
                }
            }
            _ => {
                if let Some(Node::File(text)) = self.known.get(&path) {
                    if fs::read(&at)? != *text {
                        return Err(Some(std::io::Error::other(format!("{path} is not what was written"))));
                    }
                }
            }
        }
        Ok(())
    }

    fn found(&self) -> std::io::Result<BTreeMap<String, Node>> {
        fn visit(folder: &Path, prefix: &str, found: &mut BTreeMap<String, Node>) -> std::io::Result<()> {
            for name in names(folder)? {
                let (path, key) = (folder.join(&name), format!("{prefix}{name}"));
                let kind = of(&path)?;
                if kind.is_dir() {
                    visit(&path, &format!("{key}/"), found)?;
                    found.insert(key, Node::Directory);
                } else if kind.is_symlink() {
                    found.insert(key, Node::Link(fs::read_link(&path)?.to_string_lossy().into_owned()));
                } else {
                    found.insert(key, Node::File(fs::read(&path)?));
                }
            }
            Ok(())
        }
        let mut found = BTreeMap::new();
        visit(&self.folder, "", &mut found)?;
        Ok(found)
    }

    /// Takes over what a refused write left of the file it was for, and compares all else.
    fn learn(&mut self) -> Done {
        let found = self.found()?;
        let differ = |key: &&String| found.get(*key) != self.known.get(*key);
        let differing: Vec<&String> = found.keys().chain(self.known.keys()).filter(differ).collect();
        let files = differing.iter().all(|key| matches!(found.get(*key), Some(Node::File(_)) | None));
        assert!(differing.len() <= 2 && files, "a refused step changed {differing:?}");
        self.known = found;
        Ok(())
    }

    /// Everything is as it must be.
    pub fn compare(&self) -> Done {
        let found = self.found()?;
        let differ = |key: &&String| found.get(*key) != self.known.get(*key);
        let differing: Vec<&String> = found.keys().chain(self.known.keys()).filter(differ).collect();
        assert!(differing.is_empty(), "after {} steps these differ: {differing:?}", self.steps);
        Ok(())
    }
}

/// One file, and what is known of it.
pub struct Files {
    path: PathBuf,
    cached: File,
    past: File,
    model: Vec<u8>,
    most: usize,
    numbers: Numbers,
}

impl Files {
    /// An empty file that may grow so far.
    pub fn new(g: &Ground, seed: u64, most: usize) -> Result<Files, Fault> {
        let path = g.at(&format!("file-{seed}"));
        let past = direct(&path)?;
        let cached = rw(&path)?;
        Ok(Files { path, cached, past, model: Vec::new(), most, numbers: Numbers::new(seed + 77) })
    }

    fn put(&mut self, at: usize, piece: &[u8]) {
        self.model.resize(self.model.len().max(at + piece.len()), 0);
        self.model[at..at + piece.len()].copy_from_slice(piece);
    }

    /// So many operations, and a comparison.
    pub fn run(mut self, operations: u64) -> Done {
        for n in 0..operations {
            let at = self.numbers.below(self.most);
            let len = 1 + self.numbers.below((self.most - at).min(60_000));
            self.step(n, at, len).map_err(|why| Fault::Failed(format!("operation {n} at {at}, {len}: {why:?}")))?;
            assert_eq!(self.cached.metadata()?.len(), self.model.len() as u64, "the size after operation {n}");
        }
        holds(&self.path, &self.model);
        Ok(())
    }

    fn step(&mut self, n: u64, at: usize, len: usize) -> Done {
        let end = self.model.len();
        let wanted = |model: &[u8]| model.get(at..model.len().min(at + len)).unwrap_or_default().to_vec();
        match self.numbers.below(10) {
            0 | 1 => {
                self.cached.write_all_at(&bytes(n, len), at as u64)?;
                self.put(at, &bytes(n, len));
            }
            2 => {
                let (at, len) = (at / PAGE * PAGE, len.div_ceil(PAGE) * PAGE);
                let buffer = Map::holding(&bytes(n, len))?;
                assert_eq!(buffer.write_to(0, len, &self.past, at as u64)?, len);
                self.put(at, &bytes(n, len));
            }
            3 => {
                let mut found = vec![0; len];
                let got = self.cached.read_at(&mut found, at as u64)?;
                same(&found[..got], &wanted(&self.model));
            }
            4 => {
                let (at, len) = (at / PAGE * PAGE, len.div_ceil(PAGE) * PAGE);
                let buffer = Map::anonymous(len)?;
                let got = buffer.read_from(0, len, &self.past, at as u64)?;
                let wanted = self.model.get(at..end.min(at + len)).unwrap_or_default();
                same(&buffer.read(0, got), wanted);
            }
            5 if end > 0 => {
                let at = at % end;
                let len = len.min(end - at);
                let map = Map::shared(&self.cached, 0, end)?;
                if n % 2 == 0 {
                    map.write(at, &bytes(n, len));
                    self.put(at, &bytes(n, len));
                } else {
                    same(&map.read(at, len), &self.model[at..at + len]);
                }
            }
            6 => {
                self.cached.set_len(at as u64)?;
                self.model.resize(at, 0);
            }
            7 => {
                let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(&self.cached, punch, at as u64, len as u64)?;
                self.model[at.min(end)..end.min(at + len)].fill(0);
            }
            8 => {
                fallocate(&self.cached, FallocateFlags::ZERO_RANGE, at as u64, len as u64)?;
                self.put(at, &vec![0; len]);
            }
            _ => {
                fallocate(&self.cached, FallocateFlags::empty(), at as u64, len as u64)?;
                self.model.resize(end.max(at + len), 0);
            }
        }
        if n % 50 == 49 {
            self.cached.sync_all()?;
            rustix::fs::fadvise(&self.cached, 0, None, rustix::fs::Advice::DontNeed)?;
        }
        Ok(())
    }
}

/// Threads with random operations on trees of their own.
fn generic_013_random_operations(g: &Ground) -> Done {
    std::thread::scope(|scope| {
        let busy = |thread: u64| {
            move || -> Done {
                let mut tree = Tree::new(g.directory(&format!("tree-{thread}"))?, thread);
                (0..600).try_for_each(|_| tree.step())?;
                tree.compare()
            }
        };
        let threads: Vec<_> = (0..3).map(|thread| scope.spawn(busy(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

/// One file: written, read, mapped, truncated, punched, zeroed, by the cache and past it.
fn generic_075_one_file(g: &Ground) -> Done {
    Files::new(g, 75, 256 << 10)?.run(500)
}

/// The same in a larger file.
fn generic_263_one_file_by_pages(g: &Ground) -> Done {
    Files::new(g, 263, 4 << 20)?.run(250)
}
