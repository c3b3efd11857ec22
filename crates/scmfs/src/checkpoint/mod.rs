//! Checkpoints: images of a volume in use, in a folder elsewhere, each of one moment at which no operation is under
//! way.
//!
//! The first has the whole region, the next ones what was stored to since. A file is complete before it gets its name,
//! so that whatever cuts a checkpoint short leaves those before it. What an image holds is a volume that was not
//! closed, unless it is the last one, made while the volume is closed.

mod folder;
mod format;
mod restore;
mod schedule;
mod target;

pub use folder::{Directory, Folder, Input, Output};
pub use restore::{Restored, Verified, restore, verify};
pub use schedule::{Answer, CheckpointState, Schedule};
pub(crate) use schedule::{Asked, Scheduled};

use crate::format::superblock::Superblock;
use crate::parts::Parts;
use crate::{Error, OutsideStores, Result, TimeNs};
use format::PAGE;
use pocketstone_media::{Medium, NoSnapshot, Region, Snapshot, TRACKED_BYTES};
use pocketstone_vfs::MediumError;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use target::{Chain, Head, New, Written};

/// Operations are held up so long at most for each GiB that has begun.
const PATIENCE_PER_GIB: Duration = Duration::from_millis(1);
/// How long a moment without operations is looked for, and direct stores are waited for.
const SEARCH: Duration = Duration::from_secs(10);
const DRAIN: Duration = Duration::from_millis(100);
/// A chain of more files than this is put together.
const CHAIN_MOST: usize = 64;

/// A checkpoint that was taken.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Its number.
    pub generation: u64,
    /// Whether it needs no earlier one.
    pub complete: bool,
    /// Pages of 4 KiB that it stores.
    pub pages: u64,
    /// The length of its file.
    pub bytes: u64,
    /// How long operations may have been held up for it, in ns.
    pub held_up_ns: u64,
    /// How often a moment without operations was looked for in vain before.
    pub in_vain: u32,
    /// How long all of it took, in ns.
    pub took_ns: u64,
    /// What went wrong when earlier ones were put together or removed: the checkpoint is whole nevertheless.
    pub trouble: Option<String>,
}

/// A series of checkpoints of one open volume in one folder.
pub struct Checkpoints {
    folder: Box<dyn Folder>,
    keep: u32,
    /// The last one that this value took, and those that it builds on, the oldest first: the next one builds on it.
    chain: Vec<Link>,
    /// The number of the last one that this value took. No other gets it, also if that one is removed.
    given: u64,
    /// Bytes of the chain's first one, which has everything, and of those that came after it.
    base_bytes: u64,
    later_bytes: u64,
}

/// A generation that later ones build on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Link {
    generation: u64,
    /// With the number it tells the generation from any other.
    taken_ns: i64,
}

/// The number of the newest checkpoint in a folder, be it whole or not; `None` where there is none.
///
/// # Errors
/// `Medium` if the folder cannot be read.
pub fn newest(folder: &dyn Folder) -> Result<Option<u64>> {
    Ok(target::generations(folder)?.last().copied())
}

/// How many the last series in a folder kept. Those that are there may be more: what others build on, and what a
/// process that was killed had not removed yet.
fn kept_so_far(folder: &dyn Folder) -> Result<u32> {
    let known = target::generations(folder)?;
    let said = known.iter().rev().find_map(|&known| Head::open(folder, known).ok()).map_or(0, |head| head.header.keep);
    Ok(if said > 0 { said } else { u32::try_from(known.len()).unwrap_or(u32::MAX) })
}

impl Checkpoints {
    /// A series in a folder of the kernel's, which is made if it is not there. The newest `keep` are kept; `None`: as
    /// many as the series before it kept, and at least one.
    ///
    /// # Errors
    /// `Medium` if somebody else takes checkpoints there, or the folder cannot be used.
    pub fn open(path: &Path, keep: impl Into<Option<u32>>) -> Result<Checkpoints> {
        let folder = Directory::to_write(path).map_err(|error| {
            if error.kind() == ErrorKind::ResourceBusy {
                let message = format!("{} is the target of another process's checkpoints", path.display());
                return MediumError::refused(message).hint("stop that one, or choose another target");
            }
            MediumError::refused(format!("cannot use {} as a target", path.display())).because(error)
        })?;
        Checkpoints::in_folder(Box::new(folder), keep)
    }

    /// A series in any folder.
    ///
    /// # Errors
    /// `Medium` if the folder cannot be read.
    pub fn in_folder(folder: Box<dyn Folder>, keep: impl Into<Option<u32>>) -> Result<Checkpoints> {
        let keep = match keep.into() {
            Some(keep) => keep,
            None => kept_so_far(&*folder)?,
        };
        let keep = keep.max(1);
        Ok(Checkpoints { folder, keep, chain: Vec::new(), given: 0, base_bytes: 0, later_bytes: 0 })
    }

    /// Makes sure that what the folder holds is of this volume.
    ///
    /// # Errors
    /// `Medium` if it is of another one.
    pub(crate) fn check_owner(&self, uuid: [u8; 16]) -> Result<()> {
        let known = target::generations(&*self.folder)?;
        // One that cannot be read says nothing, and is not built on.
        let found = known.iter().rev().find_map(|&known| Head::open(&*self.folder, known).ok());
        match found.filter(|found| found.header.uuid != uuid) {
            None => Ok(()),
            Some(other) => {
                let message = format!("the target holds checkpoints of another volume ({})", other.name);
                Err(MediumError::refused(message).hint("choose another target").into())
            }
        }
    }

    /// Whether all that the next one is to build on is still there. Whoever removes files of the target takes nothing
    /// from later checkpoints but that the next one has everything again.
    fn chain_is_there(&self) -> bool {
        self.chain.iter().all(|link| {
            let taken_ns = Head::open(&*self.folder, link.generation).map(|head| head.header.taken_ns);
            taken_ns.is_ok_and(|taken_ns| taken_ns == link.taken_ns)
        })
    }

    /// Takes a checkpoint of a volume that nobody has open.
    ///
    /// # Errors
    /// `Medium` if the region holds no volume, the target is another volume's, or it cannot be written.
    pub fn take_closed(&mut self, region: Box<dyn Region>) -> Result<Taken> {
        let start = Instant::now();
        let medium = Medium::new(region);
        let (superblock, _) = Superblock::read(&medium)?;
        let new = self.next(superblock.uuid, medium.bytes(), 0)?;
        let pages = 0..medium.bytes().div_ceil(TRACKED_BYTES);
        let written = target::write(&*self.folder, &new, pages, |page, into| {
            let at = page * TRACKED_BYTES;
            let bytes = TRACKED_BYTES.min(medium.bytes() - at) as usize;
            medium.read(at, &mut into[..bytes]);
            Ok(bytes)
        })?;
        Ok(self.written(&new, &written, (Duration::ZERO, 0), start))
    }

    /// Takes a checkpoint of an open volume.
    pub(crate) fn take(&mut self, parts: &Parts) -> Result<Taken> {
        let start = Instant::now();
        let medium = &parts.store.medium;
        let tracker = medium.tracker().ok_or_else(|| {
            let message = "nobody knows what is stored to this region while the volume is open";
            MediumError::refused(message).hint("open it as a `Tracked` region, or close it before")
        })?;
        if !self.chain_is_there() {
            self.chain.clear();
        }
        if self.chain.is_empty() {
            // What was stored before is in no checkpoint that one could build on.
            tracker.forget();
        }
        for node in parts.inodes.all() {
            node.store_times(&parts.store);
        }
        let uuid = parts.store.superblock().uuid;
        let paused = Paused::begin(parts.space.held.stores().cloned());
        let (snapshot, in_vain) = moment(parts, &paused)?;
        let parent = if snapshot.is_complete() { 0 } else { self.chain.last().map_or(0, |last| last.generation) };
        let new = self.next(uuid, snapshot.bytes(), parent)?;
        let written = target::write(&*self.folder, &new, snapshot.pages(), |page, into| {
            Ok(snapshot.read(page, into, |at, into| medium.read(at, into)))
        })?;
        let held_up = snapshot.held_up();
        snapshot.keep();
        drop(paused);
        Ok(self.written(&new, &written, (held_up, in_vain), start))
    }

    /// The next generation.
    fn next(&self, uuid: [u8; 16], region_bytes: u64, parent: u64) -> Result<New> {
        target::remove_unfinished(&*self.folder)?;
        if self.chain.is_empty() {
            self.check_owner(uuid)?;
        }
        let last = target::generations(&*self.folder)?.last().copied().unwrap_or(0).max(self.given);
        let taken_ns = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let taken_ns = TimeNs::try_from(taken_ns).unwrap_or(TimeNs::MAX);
        Ok(New { uuid, generation: last + 1, parent, region_bytes, taken_ns, keep: self.keep })
    }

    fn written(&mut self, new: &New, written: &Written, held_up: (Duration, u32), start: Instant) -> Taken {
        let complete = new.parent == 0;
        if complete {
            self.chain.clear();
            (self.base_bytes, self.later_bytes) = (written.file_bytes, 0);
        } else {
            self.later_bytes += written.file_bytes;
        }
        self.given = new.generation;
        self.chain.push(Link { generation: new.generation, taken_ns: new.taken_ns });
        let much = self.later_bytes >= self.base_bytes || self.chain.len() > CHAIN_MOST;
        let tidied = if complete || much { self.tidy() } else { Ok(()) };
        Taken {
            generation: new.generation,
            complete,
            pages: written.stored,
            bytes: written.file_bytes,
            held_up_ns: held_up.0.as_nanos() as u64,
            in_vain: held_up.1,
            took_ns: start.elapsed().as_nanos() as u64,
            trouble: tidied.err().map(|error| pocketstone_vfs::chain(&error)),
        }
    }

    /// Puts the oldest that is kept together with those that it builds on, and removes what is not needed.
    fn tidy(&mut self) -> Result<()> {
        let known = target::generations(&*self.folder)?;
        let kept = &known[known.len().saturating_sub(self.keep as usize)..];
        let Some(oldest) = kept.first() else { return Ok(()) };
        // One of an earlier series may be damaged, which the ones of this series are not the worse for.
        let Some(chain) = Chain::open(&*self.folder, *oldest)? else { return Ok(()) };
        if chain.0.len() > 1 {
            self.base_bytes = merge(&*self.folder, &chain)?;
            self.later_bytes = 0;
            self.chain.retain(|link| link.generation >= *oldest);
        }
        // What builds on others goes before them: whoever reads meanwhile finds all that there is whole.
        known.iter().rev().filter(|known| *known < oldest).try_for_each(|known| {
            self.folder.remove(&format::name(*known)).map_err(|error| target::failed("remove an old checkpoint", error))
        })
    }
}

/// Writes a generation anew, with all that it builds on; returns the file's length.
fn merge(folder: &dyn Folder, chain: &Chain) -> Result<u64> {
    let header = chain.newest().header;
    let mut found: Vec<(u64, usize, usize)> = Vec::new();
    for (generation, of) in chain.0.iter().enumerate() {
        found.extend(of.entries.iter().enumerate().map(|(number, entry)| (entry.page, generation, number)));
    }
    // Of each page the newest, which comes first.
    found.sort_unstable();
    found.dedup_by_key(|(page, ..)| *page);
    found.retain(|(page, ..)| page * TRACKED_BYTES < header.region_bytes);
    let format::Header { uuid, generation, region_bytes, taken_ns, keep, .. } = header;
    let new = New { uuid, generation, parent: 0, region_bytes, taken_ns, keep };
    let (mut next, mut buffer) = (found.iter(), Vec::new());
    let written = target::write(folder, &new, found.iter().map(|(page, ..)| *page), |_, into| {
        // It asks for them in this order.
        if let Some(&(_, of, number)) = next.next() {
            chain.0[of].read_page(number, &mut buffer)?;
            into.copy_from_slice(&buffer);
        }
        Ok(PAGE)
    })?;
    Ok(written.file_bytes)
}

/// Direct stores are turned away until this is dropped.
struct Paused(Option<Arc<dyn OutsideStores>>);

impl Paused {
    fn begin(stores: Option<Arc<dyn OutsideStores>>) -> Paused {
        if let Some(stores) = &stores {
            stores.pause();
        }
        Paused(stores)
    }

    /// Waits for those that run. One that does not end, in a process that was stopped in the middle of it, say, is like
    /// one that a crash cuts short: the image may have a part of it, and it is in the next one, too.
    fn wait(&self) {
        let Some(running) = self.0.as_ref().and_then(|stores| stores.running()) else { return };
        let start = Instant::now();
        while running() && start.elapsed() < DRAIN {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        if let Some(stores) = &self.0 {
            stores.resume();
        }
    }
}

/// Finds a moment at which no operation is under way; how often in vain.
fn moment<'a>(parts: &'a Parts, paused: &Paused) -> Result<(Snapshot<'a>, u32)> {
    let medium = &parts.store.medium;
    let Some(tracker) = medium.tracker() else { return Err(Error::NotSupported) };
    let gibs = u32::try_from(medium.bytes().div_ceil(1 << 30)).unwrap_or(u32::MAX);
    let (start, mut in_vain, mut pause) = (Instant::now(), 0, Duration::from_micros(200));
    loop {
        paused.wait();
        parts.store_sizes();
        if let Some(stores) = &paused.0 {
            stores.stored(&mut |at, bytes| tracker.note(at, bytes));
        }
        match tracker.snapshot(|| medium.bytes(), PATIENCE_PER_GIB.saturating_mul(gibs)) {
            Ok(snapshot) => return Ok((snapshot, in_vain)),
            Err(NoSnapshot::Taken) => {
                return Err(MediumError::refused("another checkpoint of this volume is being taken").into());
            }
            Err(NoSnapshot::Busy) if start.elapsed() > SEARCH => {
                let seconds = SEARCH.as_secs();
                let message = format!("there was no moment without a running operation for {seconds} s");
                return Err(MediumError::failed(message)
                    .hint("a view of a file keeps writers waiting: drop it")
                    .into());
            }
            Err(NoSnapshot::Busy) => {
                in_vain += 1;
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
        }
    }
}
