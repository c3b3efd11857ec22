//! Reading checkpoints back.

use super::folder::{Folder, Output};
use super::format::{Entry, PAGE, UNFINISHED};
use super::target::{Chain, Generation, generations};
use crate::{Error, Result};
use pocketstone_vfs::MediumError;
use serde::Serialize;
use std::sync::mpsc::sync_channel;

/// Parts that were read and are not stored yet.
const AHEAD: usize = 4;

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
    let chain = Chain::open(folder, chosen(folder, generation)?)?;
    let header = chain.newest().header;
    let mut region = make(header.region_bytes)?;
    let cannot = |error: std::io::Error| {
        let full = error.kind() == std::io::ErrorKind::StorageFull;
        let failed = MediumError::failed("cannot write the region").because(error);
        Error::from(if full { failed.hint("its file system is full: free space there") } else { failed })
    };
    let mut pages = 0;
    // One thread reads and verifies, this one writes.
    std::thread::scope(|scope| {
        let (send, received) = sync_channel::<(Vec<u64>, Vec<u8>)>(AHEAD);
        let (give_back, spare) = sync_channel::<Vec<u8>>(AHEAD + 2);
        let chain = &chain;
        let reader = scope.spawn(move || {
            chain.each(|entries: &[Entry], content| {
                if entries[0].at.is_none() {
                    return Ok(());
                }
                let next = spare.try_recv().unwrap_or_default();
                let places = entries.iter().map(|entry| entry.page).collect();
                // Who writes has failed, and says why.
                send.send((places, std::mem::replace(content, next))).map_err(|_| Error::NoSpace)
            })
        });
        for (places, content) in received {
            // Pages that lie behind each other are written at once.
            let mut rest = &content[..];
            for run in places.chunk_by(|page, next| page + 1 == *next) {
                let (now, later) = rest.split_at(run.len() * PAGE);
                let at = run[0] * PAGE as u64;
                let bytes = (now.len() as u64).min(header.region_bytes - at) as usize;
                region.write_all_at(&now[..bytes], at).map_err(cannot)?;
                rest = later;
            }
            pages += places.len() as u64;
            let _ = give_back.try_send(content);
        }
        reader.join().unwrap_or_else(|_| Err(MediumError::bug("the thread that reads has panicked").into()))
    })?;
    region.sync().map_err(cannot)?;
    let (generation, taken_ns) = (header.generation, header.taken_ns);
    Ok(Restored { generation, taken_ns, region_bytes: header.region_bytes, pages })
}

/// Reads all that a target holds. Of each checkpoint, in order: what it is, or what is wrong with it or with one that
/// it builds on.
///
/// # Errors
/// `Medium` if there is none, or the folder cannot be read.
pub fn verify(folder: &dyn Folder) -> Result<Vec<(u64, Result<Verified>)>> {
    chosen(folder, None)?;
    let verified = |generation| {
        // Those that it builds on, too.
        Chain::open(folder, generation)?
            .0
            .iter()
            .try_for_each(|one| one.each(|_| true, &mut Vec::new(), |_, _| Ok(())))?;
        let Generation { header, file_bytes, .. } = Generation::open(folder, generation)?;
        Ok(Verified {
            generation,
            taken_ns: header.taken_ns,
            complete: header.parent == 0,
            region_bytes: header.region_bytes,
            uuid: header.uuid,
            pages: header.stored,
            bytes: file_bytes,
        })
    };
    Ok(generations(folder)?.into_iter().map(|generation| (generation, verified(generation))).collect())
}
