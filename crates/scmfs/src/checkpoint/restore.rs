//! Reading checkpoints back.

use super::folder::{Folder, Output};
use super::format::{Entry, PAGE, UNFINISHED};
use super::target::{Chain, Generation, generations};
use crate::{Error, Result};
use pocketstone_vfs::MediumError;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes that get room at once.
const ROOM: usize = 2 << 20;
/// Pages that are read, verified and stored at once. They stay in the caches of the processor that does all of it: what
/// another one has read comes from there more slowly than from the kernel.
const PART: usize = (512 << 10) / PAGE;

/// What was restored.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// The checkpoint.
    pub generation: u64,
    /// When it was taken, in ns since 1970.
    pub taken_ns: i64,
    /// The region's length.
    pub region_bytes: u64,
    /// Pages that were stored.
    pub pages: u64,
}

/// A checkpoint that is whole.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Its number.
    pub generation: u64,
    /// When it was taken, in ns since 1970.
    pub taken_ns: i64,
    /// Whether it needs no earlier one.
    pub complete: bool,
    /// The region's length.
    pub region_bytes: u64,
    /// The volume's uuid.
    pub uuid: [u8; 16],
    /// Pages that its file stores.
    pub pages: u64,
    /// The file's length.
    pub bytes: u64,
}

/// The newest generation, or the one that was asked for.
fn chosen(folder: &dyn Folder, generation: Option<u64>) -> Result<u64> {
    let known = generations(folder)?;
    match (generation, known.last()) {
        (Some(wanted), _) if known.contains(&wanted) => Ok(wanted),
        (None, Some(newest)) => Ok(*newest),
        (Some(wanted), Some(_)) => {
            let all = known.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            Err(MediumError::refused(format!("there is no checkpoint {wanted}"))
                .hint(format!("there are {all}"))
                .into())
        }
        (_, None) => {
            let cut = folder.names().is_ok_and(|names| names.iter().any(|name| name.ends_with(UNFINISHED)));
            let what = if cut { "only one that was cut short" } else { "no checkpoint" };
            Err(MediumError::refused(format!("the target holds {what}")).hint("take one: scmfs checkpoint").into())
        }
    }
}

/// What a chain stores nothing for, as offsets and lengths in bytes, in parts.
fn holes(chain: &Chain) -> impl Iterator<Item = (u64, u64)> {
    let region_bytes = chain.newest().header.region_bytes;
    let mut stored: Vec<(u64, u64)> = chain
        .runs(usize::MAX)
        .flat_map(|(_, run)| run.chunk_by(|one, next| one.page + 1 == next.page))
        .map(|run| (run[0].page * PAGE as u64, (run.len() * PAGE) as u64))
        .collect();
    stored.sort_unstable();
    stored.push((region_bytes, 0));
    let mut end = 0;
    stored.into_iter().flat_map(move |(at, bytes)| {
        let hole = end..at;
        end = at + bytes;
        hole.clone().step_by(ROOM).map(move |from| (from, (hole.end - from).min(ROOM as u64)))
    })
}

/// Writes a checkpoint, the newest unless another is asked for, to a region that `make` makes of the right length; its
/// bytes are zeros. What is damaged is found before it is written.
///
/// # Errors
/// `Medium` if there is none, or it is damaged, or the region cannot be made or written; it is of no use then.
pub fn restore(
    folder: &dyn Folder,
    generation: Option<u64>,
    make: impl FnOnce(u64) -> Result<Box<dyn Output>>,
) -> Result<Restored> {
    let chain = loop {
        // One that is removed meanwhile has a newer one in its place, or is not there.
        if let Some(chain) = Chain::open(folder, chosen(folder, generation)?)? {
            break chain;
        }
    };
    let header = chain.newest().header;
    let region = make(header.region_bytes)?;
    let cannot = |error: std::io::Error| {
        let full = error.kind() == std::io::ErrorKind::StorageFull;
        let failed = MediumError::failed("cannot write the region").because(error);
        Error::from(if full { failed.hint("its file system is full: free space there") } else { failed })
    };
    let store = |entries: &[Entry], mut content: &[u8]| -> Result<()> {
        // Pages that lie behind each other there, too, are written at once.
        for run in entries.chunk_by(|one, next| one.page + 1 == next.page) {
            let (now, later) = content.split_at(run.len() * PAGE);
            let at = run[0].page * PAGE as u64;
            let bytes = (now.len() as u64).min(header.region_bytes - at) as usize;
            region.write_all_at(&now[..bytes], at).map_err(cannot)?;
            content = later;
        }
        Ok(())
    };
    let (parts, ends) = (Mutex::new(chain.runs(PART)), AtomicBool::new(false));
    let ended = |_: &Error| ends.store(true, Ordering::Relaxed);
    let goes_on = || !ends.load(Ordering::Relaxed);
    let work = || {
        let (mut content, mut pages) = (Vec::new(), 0);
        while goes_on() {
            let Some((generation, entries)) = parts.lock().unwrap_or_else(PoisonError::into_inner).next() else {
                break;
            };
            let done = generation.read(entries, &mut content).and_then(|()| store(entries, &content));
            done.inspect_err(ended)?;
            pages += entries.len() as u64;
        }
        Ok::<u64, Error>(pages)
    };
    let make_room = || {
        let mut holes = holes(&chain).take_while(|_| goes_on());
        let done = holes.try_for_each(|(at, bytes)| region.allocate(at, bytes).map_err(cannot));
        done.inspect_err(ended)
    };
    // While one waits for the disk, or for the other's write to the same file, that one goes on. What nothing is stored
    // to gets its room meanwhile.
    let pages = std::thread::scope(|scope| {
        let (other, room) = (scope.spawn(work), scope.spawn(make_room));
        let own = work();
        let panicked = |_| MediumError::bug("a thread that restores has panicked").into();
        let others = other.join().unwrap_or_else(|panic| Err(panicked(panic)));
        room.join().unwrap_or_else(|panic| Err(panicked(panic)))?;
        Ok::<u64, Error>(own? + others?)
    })?;
    region.sync().map_err(cannot)?;
    let (generation, taken_ns) = (header.generation, header.taken_ns);
    Ok(Restored { generation, taken_ns, region_bytes: header.region_bytes, pages })
}

/// Reads all that a target holds. Of each checkpoint, in order: what it is, or what is wrong with it or with one that
/// it builds on. Checkpoints may be taken there meanwhile: what is removed before it was read is left out.
///
/// # Errors
/// `Medium` if there is none, or the folder cannot be read.
pub fn verify(folder: &dyn Folder) -> Result<Vec<(u64, Result<Verified>)>> {
    loop {
        chosen(folder, None)?;
        let known = generations(folder)?.into_iter();
        let found: Vec<_> = known.filter_map(|known| Some((known, verified(folder, known).transpose()?))).collect();
        // Where all of them were removed, there are newer ones.
        if !found.is_empty() {
            return Ok(found);
        }
    }
}

/// Reads a generation and those that it builds on; `None` if it is not there any more.
fn verified(folder: &dyn Folder, generation: u64) -> Result<Option<Verified>> {
    let Some(chain) = Chain::open(folder, generation)? else { return Ok(None) };
    let mut content = Vec::new();
    for one in &chain.0 {
        one.runs(|_| true, PART).try_for_each(|part| one.read(part, &mut content))?;
    }
    let &Generation { header, file_bytes, .. } = chain.newest();
    Ok(Some(Verified {
        generation,
        taken_ns: header.taken_ns,
        complete: header.parent == 0,
        region_bytes: header.region_bytes,
        uuid: header.uuid,
        pages: header.stored,
        bytes: file_bytes,
    }))
}
