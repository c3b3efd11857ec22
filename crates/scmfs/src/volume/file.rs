//! An open file.

use super::{View, Volume};
use crate::contents;
use crate::inodes::Node;
use crate::operations::{allocate, atomic, batch, create, write};
use crate::parts::Parts;
use crate::{Allocate, Attr, Error, FileExtent, FileType, Ino, Meta, Result};
use pocketstone_media::Durable;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How much of a file a search for data or holes looks through at a time.
const SEEK_STEP: u64 = 8 << 20;

/// An open file, or any other open inode. The inode outlives its last name while one exists. Clones refer to the same
/// open file; there is no position.
///
/// ```
/// use pocketstone_scmfs::{CreateOptions, Meta, OpenOptions, Operations, ROOT, Volume};
///
/// # fn main() -> pocketstone_scmfs::Result<()> {
/// # let (memory, _) = pocketstone_media::Pcm::new(16 << 20, &Default::default());
/// # Volume::create(Box::new(memory.region()?), &CreateOptions::default())?;
/// # let volume = Volume::open(Box::new(memory.region()?), &OpenOptions::default())?;
/// let file = volume.create_file(ROOT, b"log", &Meta::file(0o600))?;
/// assert_eq!(file.write_at(b"one", 0)?, 3);
/// assert_eq!(file.append(b" two")?, (4, 7));
/// volume.unlink(ROOT, b"log")?;
/// let mut content = [0; 7];
/// file.read_at(&mut content, 0)?;
/// assert_eq!(&content, b"one two");
/// # Ok(())
/// # }
/// ```
pub struct File {
    pub(super) parts: Arc<Parts>,
    pub(super) node: Arc<Node>,
}

impl Volume {
    /// Creates an unnamed file. It is deleted when the last [`File`] is dropped, unless [`Volume::link_file`] names it.
    ///
    /// # Errors
    /// `NoSpace`, `ReadOnly`; `Invalid` for a directory or a symbolic link.
    pub fn temporary_file(&self, meta: &Meta) -> Result<File> {
        let _operation = self.parts.store.operation();
        if matches!(meta.kind, FileType::Directory | FileType::Symlink) {
            return Err(Error::Invalid);
        }
        let node = create::create_unnamed(&self.parts, None, meta)?;
        Ok(File::pinned(&self.parts, node))
    }

    /// As [`Volume::temporary_file`]; it inherits ACLs from the directory.
    ///
    /// # Errors
    /// Also `NotFound`, `NotDirectory`.
    pub fn temporary_file_in(&self, directory: Ino, meta: &Meta) -> Result<File> {
        let _operation = self.parts.store.operation();
        if matches!(meta.kind, FileType::Directory | FileType::Symlink) {
            return Err(Error::Invalid);
        }
        let node = create::create_unnamed(&self.parts, Some(directory), meta)?;
        Ok(File::pinned(&self.parts, node))
    }

    /// Links an open file, including an unnamed one.
    ///
    /// # Errors
    /// As [`Operations::link`](crate::Operations::link).
    pub fn link_file(&self, file: &File, parent: Ino, name: &[u8]) -> Result<Attr> {
        let _operation = self.parts.store.operation();
        create::link(&self.parts, file.ino(), parent, name, true)
    }

    /// Makes an inode durable, as fsync does.
    ///
    /// # Errors
    /// `NotFound`; `Medium` if the medium cannot write back.
    pub fn sync_inode(&self, ino: Ino) -> Result<()> {
        let node = self.parts.node(ino)?;
        node.store_times(&self.parts.store);
        Ok(self.parts.store.medium.sync()?)
    }
}

/// What [`Volume::write_batch`] does to one file.
#[derive(Clone, Copy)]
pub struct FileBatch<'a> {
    /// The file.
    pub file: &'a File,
    /// Offsets in bytes, and what to write there. Where they overlap, the last one counts.
    pub writes: &'a [(u64, &'a [u8])],
    /// The file's size after it; `None`: as the writes leave it.
    pub size: Option<u64>,
}

impl Volume {
    /// Writes to several files, several times each, and sets their sizes: all of it or nothing, even after a crash.
    ///
    /// # Errors
    /// `TooLarge` if there is more than [`Volume::batch_max`]; `Invalid` for a file that is given twice or belongs to
    /// another volume, and for a write beyond the given size; otherwise as [`File::write_at`] and [`File::truncate`].
    /// Nothing has changed then.
    pub fn write_batch(&self, batch: &[FileBatch<'_>]) -> Result<()> {
        let _operation = self.parts.store.operation();
        // Whoever locks several files does it in the order of their numbers.
        let mut order: Vec<&FileBatch<'_>> = batch.iter().collect();
        order.sort_by_key(|part| part.file.ino());
        let twice = order.windows(2).any(|pair| pair[0].file.ino() == pair[1].file.ino());
        if twice || batch.iter().any(|part| !Arc::ptr_eq(&part.file.parts, &self.parts)) {
            return Err(Error::Invalid);
        }
        let mut states = Vec::with_capacity(order.len());
        for part in &order {
            part.file.check_regular()?;
            let state = part.file.node.exclusive(&self.parts.store)?;
            part.writes.iter().try_for_each(|(offset, _)| state.record.must_allow_write(*offset))?;
            // Unless it grows by what is written.
            let reaches = |size| part.writes.iter().any(|(at, data)| at.saturating_add(data.len() as u64) >= size);
            let resized = |size| size < state.record.size || size > state.record.size && !reaches(size);
            if part.size.is_some_and(resized) {
                state.record.must_be_free_to_change()?;
            }
            states.push(state);
        }
        let parts = order.iter().zip(&mut states).map(|(part, state)| batch::Part {
            ino: part.file.ino(),
            state: &mut *state,
            writes: part.writes,
            size: part.size,
        });
        batch::write_batch(&self.parts, &mut parts.collect::<Vec<_>>())
    }

    /// What [`Volume::write_batch`] takes, in bytes: the data, 144 bytes for each file, and up to 32 for each piece of
    /// a write, of which it has one for each extent. A third of the journal, 1.3 MiB of the usual 4 MiB.
    pub fn batch_max(&self) -> u64 {
        batch::max(&self.parts)
    }
}

impl Clone for File {
    fn clone(&self) -> File {
        self.node.pins.fetch_add(1, Ordering::AcqRel);
        File { parts: self.parts.clone(), node: self.node.clone() }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.node.pins.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let _operation = self.parts.store.operation();
        let Ok(mut state) = self.node.exclusive(&self.parts.store) else { return };
        let unused = self.node.pins.load(Ordering::Acquire) == 0;
        // What programs have mapped while the volume is being closed is freed when the collector has ended.
        if unused && state.record.links == 0 && !state.record.is_free() && !state.is_mapped() {
            contents::free_inode(&self.parts, self.node.ino, &mut state);
        } else if unused && state.stale && !state.record.is_free() {
            self.parts.store_version(self.node.ino, &mut state, Durable::nothing_new()).done();
        }
    }
}

impl File {
    /// Takes a pin over that was counted already.
    pub(crate) fn pinned(parts: &Arc<Parts>, node: Arc<Node>) -> File {
        File { parts: parts.clone(), node }
    }

    /// The inode number.
    pub fn ino(&self) -> Ino {
        self.node.ino
    }

    /// Checks whether a file may be opened for writing: an append-only one only at its end.
    ///
    /// # Errors
    /// `NotPermitted`.
    pub fn may_write(&self, at_end: bool) -> Result<()> {
        let state = self.node.read();
        if at_end { state.record.must_take_more() } else { state.record.must_be_free_to_change() }
    }

    /// The current attributes.
    pub fn attributes(&self) -> Attr {
        let state = self.node.read_times();
        self.node.attributes_of(&self.parts.store.layout, &state)
    }

    pub(super) fn check_regular(&self) -> Result<()> {
        match self.node.read().record.kind() {
            FileType::Regular => Ok(()),
            FileType::Directory => Err(Error::IsDirectory),
            _ => Err(Error::Invalid),
        }
    }

    /// Reads at an offset; returns the bytes read, fewer than requested only at end of file.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid` if not a regular file; `Damaged` if a page of the range does not match its checksum, in
    /// which case nothing is read.
    #[inline]
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        let state = self.node.read();
        if state.record.mode & 0o170_000 != 0o100_000 {
            drop(state);
            return self.check_regular().map(|()| 0);
        }
        let bytes = contents::read(&self.parts, self.node.ino, &state, into, offset)?;
        self.node.note_read(&state, &self.parts.store);
        Ok(bytes)
    }

    /// Writes all of `from` at an offset, durable on return on media with fences. Returns the bytes written.
    ///
    /// # Errors
    /// `NoSpace`, `TooLarge`, `ReadOnly`, `NotPermitted`; `IsDirectory`, `Invalid` if not a regular file; `Damaged` if
    /// only part of a page that does not match its checksum would change, in which case nothing is written.
    #[inline]
    pub fn write_at(&self, from: &[u8], offset: u64) -> Result<usize> {
        let _operation = self.parts.store.operation();
        let mut state = self.node.exclusive(&self.parts.store)?;
        if state.record.mode & 0o170_000 != 0o100_000 {
            drop(state);
            return self.check_regular().map(|()| 0);
        }
        state.record.must_allow_write(offset)?;
        write::write(&self.parts, &self.node, &mut state, from, offset)?;
        Ok(from.len())
    }

    /// Writes back cached data of an earlier write, regardless of the file's current protection.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_back(&self, from: &[u8], offset: u64) -> Result<()> {
        let _operation = self.parts.store.operation();
        self.check_regular()?;
        write::write(&self.parts, &self.node, &mut *self.node.exclusive(&self.parts.store)?, from, offset)
    }

    /// Appends all of `from` to the file; returns the bytes written and the resulting file size.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn append(&self, from: &[u8]) -> Result<(usize, u64)> {
        let _operation = self.parts.store.operation();
        let mut state = self.node.exclusive(&self.parts.store)?;
        if state.record.mode & 0o170_000 != 0o100_000 {
            drop(state);
            return self.check_regular().map(|()| (0, 0));
        }
        state.record.must_take_more()?;
        let offset = state.record.size;
        write::write(&self.parts, &self.node, &mut state, from, offset)?;
        Ok((from.len(), offset + from.len() as u64))
    }

    /// Writes all of `from` or nothing, even after a crash. At most [`File::atomic_max`] bytes.
    ///
    /// # Errors
    /// `TooLarge` if there are more; otherwise as [`File::write_at`].
    pub fn write_atomic(&self, from: &[u8], offset: u64) -> Result<()> {
        let _operation = self.parts.store.operation();
        self.check_regular()?;
        let mut state = self.node.exclusive(&self.parts.store)?;
        state.record.must_allow_write(offset)?;
        atomic::write_atomic(&self.parts, self.node.ino, &mut state, from, offset)
    }

    /// Maximum length of [`File::write_atomic`] on this volume: 1 MiB for volumes of 64 MiB or more.
    pub fn atomic_max(&self) -> u64 {
        self.parts.store.layout.max_atomic()
    }

    /// Changes the size: truncates, or extends with zeros.
    ///
    /// # Errors
    /// `TooLarge`, `NoSpace`, `ReadOnly`, `NotPermitted`; `IsDirectory`, `Invalid` if not a regular file.
    pub fn truncate(&self, size: u64) -> Result<()> {
        let _operation = self.parts.store.operation();
        self.check_regular()?;
        let mut state = self.node.exclusive(&self.parts.store)?;
        state.record.must_be_free_to_change()?;
        write::resize_file(&self.parts, self.node.ino, &mut state, size)
    }

    /// Reserves, punches or zeroes a range; collapses or inserts one atomically.
    ///
    /// # Errors
    /// `Invalid` for an empty range, or one that `Collapse` or `Insert` does not support; `NoSpace` also if the file
    /// would need more than 5,460 extents; otherwise as [`File::truncate`].
    pub fn allocate(&self, how: Allocate, offset: u64, bytes: u64) -> Result<()> {
        let _operation = self.parts.store.operation();
        self.check_regular()?;
        let mut state = self.node.exclusive(&self.parts.store)?;
        state.record.must_allow_space(how)?;
        allocate::allocate(&self.parts, self.node.ino, &mut state, how, offset, bytes)
    }

    /// The first byte from an offset on that is not in a hole. A page without space, or with only zeros, is a hole,
    /// including reserved space and unwritten parts of a huge page.
    ///
    /// # Errors
    /// `NoMore` if there is none.
    pub fn next_data(&self, offset: u64) -> Result<u64> {
        self.seek(offset, true)
    }

    /// The first byte from an offset on that is in a hole; the end of the file counts as one.
    ///
    /// # Errors
    /// `NoMore` if the offset is beyond the end of the file.
    pub fn next_hole(&self, offset: u64) -> Result<u64> {
        self.seek(offset, false)
    }

    /// The file's extents in the volume, in file order, including space beyond its end.
    pub fn extents(&self) -> Vec<FileExtent> {
        let mut extents: Vec<FileExtent> = Vec::new();
        self.node.read().body.each_piece(|offset, at, bytes| match extents.last_mut() {
            Some(last) if last.offset + last.bytes == offset && last.at + last.bytes == at => last.bytes += bytes,
            _ => extents.push(FileExtent { offset, at, bytes }),
        });
        extents
    }

    fn seek(&self, offset: u64, data: bool) -> Result<u64> {
        let page = self.parts.store.layout.page;
        let (mut content, zeros) = (vec![0; page as usize], vec![0; page as usize]);
        let mut at = offset;
        loop {
            // Anew for every step, so that whoever writes need not wait for the end of a long search.
            let state = self.node.read();
            let size = state.record.size;
            if at >= size {
                return if data || offset >= size { Err(Error::NoMore) } else { Ok(size) };
            }
            let (place, bytes) = state.body.locate(at);
            // Ends with a page, however far inside of one it begins: no page is looked at in two parts.
            let piece = at..(at.saturating_add(bytes.min(SEEK_STEP)) / page * page).min(size);
            at = match place {
                None if data => at.saturating_add(bytes),
                None => return Ok(at),
                Some(place) => {
                    let mut pages = Pages { left: piece.clone(), page };
                    let found = pages.find(|of_page| {
                        let bytes = (of_page.end - of_page.start) as usize;
                        self.parts.store.medium.read(place + (of_page.start - piece.start), &mut content[..bytes]);
                        (content[..bytes] != zeros[..bytes]) == data
                    });
                    match found {
                        Some(of_page) => return Ok(of_page.start),
                        None => piece.end,
                    }
                }
            };
        }
    }

    /// Makes the file durable, including its timestamps.
    ///
    /// # Errors
    /// `Medium` if the medium cannot write back.
    pub fn sync(&self) -> Result<()> {
        self.node.store_times(&self.parts.store);
        Ok(self.parts.store.medium.sync()?)
    }

    /// A zero-copy view of the file's bytes at one address. While it lives, the file cannot change or move. On a volume
    /// with data checksums the whole file is verified first, which takes as long as reading it.
    ///
    /// # Errors
    /// `TooLarge` if the file is larger than the address space; `IsDirectory`, `Invalid` if not a regular file;
    /// `Damaged`.
    pub fn view(&self) -> Result<View<'_>> {
        self.check_regular()?;
        View::new(&self.parts, &self.node)
    }
}

/// The parts of a range that lie in one page each.
struct Pages {
    left: Range<u64>,
    page: u64,
}

impl Iterator for Pages {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let start = self.left.start;
        self.left.start = (start + 1).next_multiple_of(self.page).min(self.left.end);
        (start < self.left.end).then_some(start..self.left.start)
    }
}
