//! Generations of checkpoints in a folder: writing one, finding them, reading and verifying what they hold.

use super::folder::{Folder, Input};
use super::format::{self, ENTRY, Entry, Header, PAGE, UNFINISHED, decode_table};
use crate::{Error, Result};
use pocketstone_vfs::MediumError;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::Arc;

/// Bytes that are written or read at once.
const CHUNK: usize = 1 << 20;

/// What is to be written beside the pages.
pub(super) struct New {
    pub uuid: [u8; 16],
    pub generation: u64,
    pub parent: u64,
    pub region_bytes: u64,
    pub taken_ns: i64,
    pub keep: u32,
}

/// What was written.
pub(super) struct Written {
    pub stored: u64,
    pub file_bytes: u64,
}

/// Says that something failed in a folder.
pub(super) fn failed(what: &str, error: std::io::Error) -> Error {
    if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
        let full = MediumError::failed(format!("cannot {what}: the target is full")).because(error);
        return full.hint("free space there, or keep fewer checkpoints; what was there before is kept").into();
    }
    MediumError::failed(format!("cannot {what}")).because(error).into()
}

/// Says that a file of a target is not what was written.
pub(super) fn damaged(name: &str, what: &str) -> Error {
    MediumError::refused(format!("{name} is damaged: {what}"))
        .hint("verify the target to see which checkpoints are whole, and restore one of those by its generation")
        .into()
}

/// Writes a generation, of which everything or nothing is there afterwards, also if the power fails. `read` fills in a
/// page; what it returns may be shorter than one. A generation without a parent leaves out pages of zeros.
pub(super) fn write(
    folder: &dyn Folder,
    new: &New,
    pages: impl Iterator<Item = u64>,
    mut read: impl FnMut(u64, &mut [u8; PAGE]) -> Result<usize>,
) -> Result<Written> {
    let name = format::name(new.generation);
    let unfinished = format!("{name}{UNFINISHED}");
    let what = format!("write {name}");
    let io = |error| failed(&what, error);
    let made = (|| {
        let file = folder.create(&unfinished).map_err(io)?;
        let (mut chunk, mut table, mut page) = (Vec::with_capacity(CHUNK), Vec::new(), [0; PAGE]);
        let (mut at, mut stored) = (PAGE as u64, 0);
        for number in pages {
            let bytes = read(number, &mut page)?;
            page[bytes..].fill(0);
            let zeros = is_zeros(&page);
            if zeros && new.parent == 0 {
                continue;
            }
            table.extend_from_slice(&Entry::encode(number, crc32c::crc32c(&page), zeros));
            if zeros {
                continue;
            }
            stored += 1;
            chunk.extend_from_slice(&page);
            if chunk.len() == CHUNK {
                file.write_all_at(&chunk, at).map_err(io)?;
                at += CHUNK as u64;
                chunk.clear();
            }
        }
        chunk.extend_from_slice(&table);
        file.write_all_at(&chunk, at).map_err(io)?;
        let &New { uuid, generation, parent, region_bytes, taken_ns, keep } = new;
        let (entries, table_crc) = ((table.len() / ENTRY) as u64, crc32c::crc32c(&table));
        let header = Header { uuid, generation, parent, region_bytes, stored, entries, taken_ns, table_crc, keep };
        file.write_all_at(&header.encode(), 0).map_err(io)?;
        file.sync().map_err(io)?;
        drop(file);
        folder.rename(&unfinished, &name).and_then(|()| folder.sync()).map_err(io)?;
        Ok(Written { stored, file_bytes: at + chunk.len() as u64 })
    })();
    if made.is_err() {
        // It takes room; the next one would remove it, too.
        let _ = folder.remove(&unfinished);
    }
    made
}

fn is_zeros(page: &[u8; PAGE]) -> bool {
    // As words, which compilers make one comparison of many.
    page.chunks_exact(64).all(|line| line.iter().fold(0, |any, byte| any | byte) == 0)
}

/// The generations in a folder, in order.
pub(super) fn generations(folder: &dyn Folder) -> Result<Vec<u64>> {
    let names = folder.names().map_err(|error| failed("read the target", error))?;
    let mut found: Vec<u64> = names.iter().filter_map(|name| format::generation(name)).collect();
    found.sort_unstable();
    Ok(found)
}

/// Removes what is left of checkpoints that were cut short.
pub(super) fn remove_unfinished(folder: &dyn Folder) -> Result<()> {
    let names = folder.names().map_err(|error| failed("read the target", error))?;
    let ours = |name: &&String| name.strip_suffix(UNFINISHED).and_then(format::generation).is_some();
    names.iter().filter(ours).try_for_each(|name| folder.remove(name)).map_err(|e| failed("remove a cut file", e))
}

/// What a generation says of itself.
pub(super) struct Head {
    pub name: String,
    pub header: Header,
    pub file_bytes: u64,
    input: Box<dyn Input>,
}

impl Head {
    /// Opens one, and checks its header alone.
    pub fn open(folder: &dyn Folder, generation: u64) -> Result<Head> {
        let name = format::name(generation);
        let what = format!("read {name}");
        let io = |error| failed(&what, error);
        let wrong = |what: String| damaged(&name, &what);
        let input = folder.open(&name).map_err(|error| match error.kind() {
            ErrorKind::NotFound => wrong("it is not there, and another one builds on it".into()),
            _ => io(error),
        })?;
        let file_bytes = input.bytes().map_err(io)?;
        let mut b = [0; PAGE];
        if file_bytes < PAGE as u64 {
            return Err(wrong(format!("it has only {file_bytes} bytes")));
        }
        input.read_exact_at(&mut b, 0).map_err(io)?;
        let header = Header::decode(&b, file_bytes).map_err(wrong)?;
        if header.generation != generation {
            return Err(wrong(format!("it is generation {}", header.generation)));
        }
        Ok(Head { name, header, file_bytes, input })
    }
}

/// An open generation.
pub(super) struct Generation {
    pub name: String,
    pub header: Header,
    pub entries: Vec<Entry>,
    pub file_bytes: u64,
    input: Box<dyn Input>,
}

impl Generation {
    /// Opens one, and checks all but its pages.
    pub fn open(folder: &dyn Folder, generation: u64) -> Result<Generation> {
        let Head { name, header, file_bytes, input } = Head::open(folder, generation)?;
        // As long as the rest of the file, which is there.
        let mut table = vec![0; (file_bytes - header.table_at()) as usize];
        let io = |error| failed(&format!("read {name}"), error);
        input.read_exact_at(&mut table, header.table_at()).map_err(io)?;
        let entries = decode_table(&header, &table).map_err(|what| damaged(&name, &what))?;
        Ok(Generation { name, header, entries, file_bytes, input })
    }

    /// Reads pages that lie behind each other, and checks them.
    pub fn read(&self, entries: &[Entry], into: &mut Vec<u8>) -> Result<()> {
        into.resize(entries.len() * PAGE, 0);
        let Some(at) = entries.first().and_then(|first| first.at) else { return Ok(()) };
        self.input.read_exact_at(into, at).map_err(|error| failed(&format!("read {}", self.name), error))?;
        for (entry, page) in entries.iter().zip(into.chunks_exact(PAGE)) {
            if crc32c::crc32c(page) != entry.crc {
                return Err(damaged(&self.name, &format!("page {} has a wrong checksum", entry.page)));
            }
        }
        Ok(())
    }

    /// Reads one page, by its place in the table.
    pub fn read_page(&self, number: usize, into: &mut Vec<u8>) -> Result<()> {
        into.clear();
        into.resize(PAGE, 0);
        self.read(&self.entries[number..=number], into)
    }

    /// Those of its pages that are wanted and stored, in order: at most `most` at a time, which lie behind each other.
    pub fn runs(&self, wanted: impl Fn(u64) -> bool, most: usize) -> impl Iterator<Item = &[Entry]> {
        let mut rest = &self.entries[..];
        std::iter::from_fn(move || {
            let is_wanted = |entry: &Entry| entry.at.is_some() && wanted(entry.page);
            rest = &rest[rest.iter().position(is_wanted)?..];
            let first = rest[0].at?;
            let follows = |(number, entry): &(usize, &Entry)| {
                entry.at == Some(first + (number * PAGE) as u64) && *number < most && wanted(entry.page)
            };
            let (now, later) = rest.split_at(rest.iter().enumerate().take_while(follows).count());
            rest = later;
            Some(now)
        })
    }
}

/// A generation and those that it builds on, the newest first.
pub(super) struct Chain(pub Vec<Generation>);

impl Chain {
    /// Opens them all; `None` if the newest is not there any more. Whoever takes checkpoints puts a generation together
    /// with those that it builds on, and removes these: then what it is now is opened.
    pub fn open(folder: &dyn Folder, generation: u64) -> Result<Option<Chain>> {
        // The newer ones have no part in it.
        let up_to = || -> Result<Vec<u64>> {
            Ok(generations(folder)?.into_iter().filter(|known| *known <= generation).collect())
        };
        let mut before = up_to()?;
        loop {
            let found = Chain::as_it_is(folder, generation);
            if found.is_ok() {
                return found.map(Some);
            }
            let after = up_to()?;
            if !after.contains(&generation) {
                return Ok(None);
            }
            if after == before {
                return found.map(Some);
            }
            before = after;
        }
    }

    /// Opens them all, if none is removed meanwhile.
    fn as_it_is(folder: &dyn Folder, generation: u64) -> Result<Chain> {
        let mut all = vec![Generation::open(folder, generation)?];
        loop {
            let last = &all[all.len() - 1];
            if last.header.parent == 0 {
                return Ok(Chain(all));
            }
            let next = Generation::open(folder, last.header.parent)?;
            if next.header.uuid != last.header.uuid {
                return Err(damaged(&next.name, "it is of another volume than the one that builds on it"));
            }
            all.push(next);
        }
    }

    pub fn newest(&self) -> &Generation {
        &self.0[0]
    }

    /// All pages that are in the chain, as they were last, and that the newest's region has, but for those of zeros: by
    /// who stores them, as [`Generation::runs`].
    pub fn runs(&self, most: usize) -> impl Iterator<Item = (&Generation, &[Entry])> {
        let pages = self.newest().header.region_bytes.div_ceil(PAGE as u64);
        // Which generation each page is taken from. The last one has what no other has, and is by far the longest.
        let mut sources = HashMap::new();
        for (number, generation) in self.0.iter().enumerate().filter(|(_, generation)| generation.header.parent != 0) {
            generation.entries.iter().for_each(|entry| _ = sources.entry(entry.page).or_insert(number));
        }
        let sources = Arc::new(sources);
        self.0.iter().enumerate().flat_map(move |(number, generation)| {
            let sources = sources.clone();
            let wanted = move |page| page < pages && sources.get(&page).is_none_or(|source: &usize| *source == number);
            generation.runs(wanted, most).map(move |run| (generation, run))
        })
    }
}
