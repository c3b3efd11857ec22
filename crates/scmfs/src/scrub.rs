//! Looking through a whole volume while it is in use: what its files hold, where there are checksums, and all
//! metadata that has some. Nothing is repaired; pages without a checksum get one.

use crate::contents::sums;
use crate::format::inode::{self, Half};
use crate::format::mapping::Mapping;
use crate::format::superblock::Superblock;
use crate::inodes::{Node, State};
use crate::operations::{attributes, directory, names};
use crate::parts::Parts;
use crate::store::lock;
use crate::{Error, FileType, Ino, ROOT, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// So much of a file is looked at while it is locked.
const STEP_BYTES: u64 = 1 << 20;
/// Mapping entries that are looked at while nobody can change any.
const STEP_ENTRIES: u32 = 64;

/// What is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DamageOf {
    /// Bytes of a file.
    Contents,
    /// Anything else.
    Metadata,
}

/// Bytes that are not what was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubDamage {
    /// What they belong to.
    pub of: DamageOf,
    /// The inode; 0 if it is none's.
    pub ino: Ino,
    /// A name of it, if one was found.
    pub path: Option<String>,
    /// Where they begin: contents in the file, metadata in the volume.
    pub offset: u64,
    /// How many there are of a file; 0 of metadata.
    pub bytes: u64,
    /// The findings.
    pub what: String,
}

/// Its progress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScrubProgress {
    /// Inodes that were looked at.
    pub inodes_done: u64,
    /// Inodes that there were at the start.
    pub inodes: u64,
    /// Bytes of files that were looked at.
    pub bytes: u64,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScrubReport {
    /// Whether contents have checksums. If not, only metadata was verified.
    pub checksums: bool,
    /// Whether it came to the end.
    pub complete: bool,
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Bytes of files that were verified, holes included.
    pub bytes: u64,
    /// Pages of files with the right checksum.
    pub pages_verified: u64,
    /// Pages of files that had no checksum; they have one now, unless the volume is open for reading only.
    pub pages_unknown: u64,
    /// Damaged places, of which the list may have only the first.
    pub damaged_places: u64,
    /// The damaged places, in the order in which they were found.
    pub damaged: Vec<ScrubDamage>,
}

/// A background scrub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScrubState {
    /// It has not ended.
    pub running: bool,
    /// Its progress.
    pub progress: ScrubProgress,
    /// What it found, when it has ended.
    pub report: Option<ScrubReport>,
}

/// The thread of a scrub. Dropping it ends it and waits.
pub(crate) struct Scrubber {
    told_to_stop: Arc<AtomicBool>,
    state: Arc<Mutex<ScrubState>>,
    thread: Option<JoinHandle<()>>,
}

impl Scrubber {
    pub fn start(parts: &Arc<Parts>) -> Result<Scrubber> {
        let told_to_stop = Arc::new(AtomicBool::new(false));
        let state = Arc::new(Mutex::new(ScrubState { running: true, ..ScrubState::default() }));
        let (parts, told, shared) = (parts.clone(), told_to_stop.clone(), state.clone());
        let thread = std::thread::Builder::new().name("scmfs-scrub".into()).spawn(move || {
            let mut go_on = |progress: &ScrubProgress| {
                lock(&shared).progress = *progress;
                !told.load(Ordering::Relaxed)
            };
            let report = Scrub::new(&parts, &mut go_on).run();
            let mut state = lock(&shared);
            (state.running, state.report) = (false, Some(report));
        });
        let failed = |e| pocketstone_vfs::MediumError::failed("cannot start a scrub thread").because(e);
        Ok(Scrubber { told_to_stop, state, thread: Some(thread.map_err(failed)?) })
    }

    pub fn state(&self) -> ScrubState {
        let mut state = lock(&self.state).clone();
        // A thread that panicked has no result, and does not run either.
        state.running &= self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        state
    }

    pub fn stop(&mut self) {
        self.told_to_stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Scrubber {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(crate) struct Scrub<'a> {
    parts: &'a Parts,
    go_on: &'a mut dyn FnMut(&ScrubProgress) -> bool,
    progress: ScrubProgress,
    report: ScrubReport,
}

impl<'a> Scrub<'a> {
    pub fn new(parts: &'a Parts, go_on: &'a mut dyn FnMut(&ScrubProgress) -> bool) -> Scrub<'a> {
        let report = ScrubReport { checksums: parts.store.layout.checks_at.is_some(), ..ScrubReport::default() };
        Scrub { parts, go_on, progress: ScrubProgress::default(), report }
    }

    pub fn run(mut self) -> ScrubReport {
        let used: Vec<Ino> = self.parts.space.alloc().inodes.used().collect();
        self.progress.inodes = used.len() as u64;
        self.superblocks();
        self.mapping();
        self.report.complete = used.into_iter().all(|ino| {
            let whole = self.inode(ino);
            self.progress.inodes_done += 1;
            whole && (self.go_on)(&self.progress)
        });
        self.name_damage();
        self.report.bytes = if self.report.checksums { self.progress.bytes } else { 0 };
        self.report.damaged_places = self.report.damaged.len() as u64;
        self.report
    }

    // --- metadata -------------------------------------------------------------------------------

    fn found(&mut self, ino: Ino, error: &Error) {
        if let Error::Damaged(damage) = error {
            let (of, what) = (DamageOf::Metadata, damage.found.clone());
            self.report.damaged.push(ScrubDamage { of, ino, path: None, offset: damage.at, bytes: 0, what });
        }
    }

    fn superblocks(&mut self) {
        let faults = {
            let _unchanged = self.parts.store.superblock();
            match Superblock::read(&self.parts.store.medium) {
                Ok((_, faults)) => faults,
                Err(error) => vec![error],
            }
        };
        faults.iter().for_each(|fault| self.found(0, fault));
    }

    /// Both copies of every entry of the mapping table.
    fn mapping(&mut self) {
        let store = &self.parts.store;
        let segments = store.segments();
        for first in (0..segments).step_by(STEP_ENTRIES as usize) {
            // Who holds it changes the two copies together.
            let unchanged = store.journal();
            let mut errors = Vec::new();
            for segment in first..segments.min(first + STEP_ENTRIES) {
                match Mapping::copies(&store.layout, segment, |at, into| store.medium.read(at, into)) {
                    [Ok(one), Ok(other)] if one == other => {}
                    [Ok(_), Ok(_)] => {
                        let at = store.layout.mapping_entry_at(segment);
                        errors.push(Error::damaged(at, format!("mapping entry {segment}, whose copies differ")));
                    }
                    copies => errors.extend(copies.into_iter().filter_map(Result::err)),
                }
            }
            drop(unchanged);
            errors.iter().for_each(|error| self.found(0, error));
        }
    }

    /// Looks at an inode and all that belongs to it; `false` if it is to end.
    fn inode(&mut self, ino: Ino) -> bool {
        let node = match self.parts.node(ino) {
            Ok(node) => node,
            Err(error) => {
                self.found(ino, &error);
                return true;
            }
        };
        let (kind, errors) = {
            let state = node.read();
            if state.record.is_free() {
                return true;
            }
            (state.record.kind(), self.metadata_of(ino, &state))
        };
        errors.iter().for_each(|error| self.found(ino, error));
        match kind {
            FileType::Directory => self.report.directories += 1,
            FileType::Regular => {
                self.report.files += 1;
                return self.contents(ino, &node);
            }
            _ => {}
        }
        true
    }

    fn metadata_of(&self, ino: Ino, state: &State) -> Vec<Error> {
        let (parts, mut errors) = (self.parts, Vec::new());
        let store = &parts.store;
        // In memory or not: what counts is what is found there the next time.
        if inode::halves(&store.medium, &store.layout, ino).contains(&Half::Torn) {
            let at = store.layout.version_at(ino, 0);
            errors.push(Error::damaged(at, format!("inode {ino} with a wrong checksum")));
        }
        errors.extend(attributes::xattrs(parts, ino, state).err());
        let read = |at: u64, into: &mut [u8]| store.medium.read(at, into);
        errors.extend(inode::load_list(&store.layout, ino, &state.record, store.segments(), read).err());
        match state.record.kind() {
            FileType::Directory => errors.extend(directory::entries(parts, ino, state, 0, &mut |_| true).err()),
            FileType::Symlink => errors.extend(names::target(parts, ino, state).err()),
            _ => {}
        }
        errors
    }

    // --- contents -------------------------------------------------------------------------------

    /// Verifies a file's content, step by step; `false` if it is to end.
    fn contents(&mut self, ino: Ino, node: &Node) -> bool {
        let (store, step) = (&self.parts.store, STEP_BYTES.max(self.parts.store.layout.page));
        let mut from = 0;
        loop {
            let (end, unknown) = {
                let state = node.read();
                let size = state.record.size;
                let Some(sums) = sums(store, &state.record).filter(|_| from < size) else { return true };
                let end = size.min(from + step);
                let mut bad = Vec::new();
                let found = sums.verify(&state.body, from..end, |offset, _| bad.push(offset));
                self.report.pages_verified += found.right;
                self.report.pages_unknown += found.unknown;
                let page = store.layout.page;
                bad.into_iter().for_each(|offset| self.damaged_page(ino, offset, size.min(offset + page)));
                (end, found.unknown)
            };
            if unknown > 0 {
                give_unknown_sums(self.parts, node, from..end);
            }
            self.progress.bytes += end - from;
            from += step;
            if !(self.go_on)(&self.progress) {
                return false;
            }
        }
    }

    fn damaged_page(&mut self, ino: Ino, offset: u64, end: u64) {
        if let Some(last) = self.report.damaged.last_mut() {
            if last.of == DamageOf::Contents && last.ino == ino && last.offset + last.bytes == offset {
                last.bytes = end - last.offset;
                return;
            }
        }
        let (of, bytes) = (DamageOf::Contents, end - offset);
        let what = "bytes with a wrong checksum".into();
        self.report.damaged.push(ScrubDamage { of, ino, path: None, offset, bytes, what });
    }

    // --- names ----------------------------------------------------------------------------------

    /// Finds names for the damaged inodes, from the root on.
    fn name_damage(&mut self) {
        let mut wanted: HashMap<Ino, Option<String>> =
            self.report.damaged.iter().filter(|damage| damage.ino != 0).map(|damage| (damage.ino, None)).collect();
        let mut missing = wanted.len();
        let mut found = |ino: Ino, path: &str| {
            if let Some(known @ None) = wanted.get_mut(&ino) {
                *known = Some(path.to_owned());
                missing -= 1;
            }
            missing > 0
        };
        let mut left = if found(ROOT, "/") { vec![(ROOT, String::new())] } else { Vec::new() };
        while let Some((directory, path)) = left.pop() {
            let Ok(node) = self.parts.node(directory) else { continue };
            let mut searching = true;
            // As far as it can be read: what is damaged was found before.
            let _ = directory::entries(self.parts, directory, &node.read(), 0, &mut |entry| {
                let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
                searching = found(entry.ino, &path);
                if entry.kind == FileType::Directory {
                    left.push((entry.ino, path));
                }
                searching
            });
            if !searching {
                break;
            }
        }
        for damage in &mut self.report.damaged {
            damage.path = wanted.get(&damage.ino).cloned().flatten();
        }
    }
}

/// Gives checksums to the pages of a part of a file that have none.
fn give_unknown_sums(parts: &Parts, node: &Node, range: std::ops::Range<u64>) {
    let _operation = parts.store.operation();
    // A volume that is only read keeps them as they are.
    let Ok(state) = node.exclusive(&parts.store) else { return };
    if let Some(sums) = sums(&parts.store, &state.record).filter(|_| range.start < state.record.size) {
        let given = sums.give_unknown(&state.body, range.start..range.end.min(state.record.size));
        parts.store.medium.fence(given).done();
    }
}
