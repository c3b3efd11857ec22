use crate::{Attr, Error, Held, Operations, Result};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Deref;

/// An open file with a position, released on drop. `P` points to the volume: a reference, or an `Arc`.
///
/// There is no buffer: [`Write::flush`] does nothing, and [`File::sync_all`] makes written data durable.
pub struct File<P>
where
    P: Deref,
    P::Target: Operations,
{
    handle: Held<P>,
    position: u64,
    read: bool,
    write: bool,
    append: bool,
}

impl<P> std::fmt::Debug for File<P>
where
    P: Deref,
    P::Target: Operations,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File")
            .field("ino", &self.volume().ino(&self.handle))
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl<P> File<P>
where
    P: Deref,
    P::Target: Operations,
{
    pub(super) fn new(handle: Held<P>, (read, write, append): (bool, bool, bool)) -> File<P> {
        File { handle, position: 0, read, write, append }
    }

    fn volume(&self) -> &P::Target {
        Held::volume(&self.handle)
    }

    fn handle_for(&self, allowed: bool) -> Result<&<P::Target as Operations>::Handle> {
        if allowed { Ok(&self.handle) } else { Err(Error::BadHandle) }
    }

    /// The file's handle, for operations of the volume that have none by path. What the file was opened for is not
    /// checked there.
    pub fn handle(&self) -> &<P::Target as Operations>::Handle {
        &self.handle
    }

    /// The file's attributes.
    ///
    /// # Errors
    /// As [`Operations::attributes`].
    pub fn metadata(&self) -> Result<Attr> {
        self.volume().attributes(self.volume().ino(&self.handle))
    }

    /// Reads at a byte offset, independently of the position; returns the bytes read, 0 at end of file.
    ///
    /// # Errors
    /// `BadHandle` if not open for reading; `Invalid` if not a regular file.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        self.volume().read_at(self.handle_for(self.read)?, into, offset)
    }

    /// Writes at a byte offset, independently of the position, or at the end if opened for appending. Returns the bytes
    /// written.
    ///
    /// # Errors
    /// `BadHandle` if not open for writing; `NoSpace`, `TooLarge`, `NotPermitted`.
    pub fn write_at(&self, from: &[u8], offset: u64) -> Result<usize> {
        let handle = self.handle_for(self.write || self.append)?;
        if self.append {
            return Ok(self.volume().append(handle, from)?.0);
        }
        self.volume().write_at(handle, from, offset)
    }

    /// Writes all of `from`, like [`File::write_at`].
    ///
    /// # Errors
    /// As [`File::write_at`]; part of the data may have been written.
    pub fn write_all_at(&self, mut from: &[u8], mut offset: u64) -> Result<()> {
        while !from.is_empty() {
            match self.write_at(from, offset)? {
                0 => return Err(Error::NoSpace),
                bytes => {
                    from = &from[bytes..];
                    offset += bytes as u64;
                }
            }
        }
        Ok(())
    }

    /// Truncates the file, or extends it with zeros. The position is unchanged.
    ///
    /// # Errors
    /// `BadHandle` if not open for writing; `TooLarge`, `NoSpace`, `NotPermitted`.
    pub fn set_len(&self, size: u64) -> Result<()> {
        self.volume().truncate(self.handle_for(self.write || self.append)?, size)
    }

    /// Makes the file's contents and attributes durable.
    ///
    /// # Errors
    /// `Medium` if the medium fails.
    pub fn sync_all(&self) -> Result<()> {
        self.volume().sync(&self.handle)
    }
}

impl<P> Read for File<P>
where
    P: Deref,
    P::Target: Operations,
{
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.read_at(into, self.position)?;
        self.position += bytes as u64;
        Ok(bytes)
    }
}

impl<P> Write for File<P>
where
    P: Deref,
    P::Target: Operations,
{
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        if self.append {
            let (bytes, end) = self.volume().append(&self.handle, from)?;
            self.position = end;
            return Ok(bytes);
        }
        let bytes = self.write_at(from, self.position)?;
        self.position += bytes as u64;
        Ok(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<P> Seek for File<P>
where
    P: Deref,
    P::Target: Operations,
{
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.metadata()?.size.checked_add_signed(by),
        };
        // As lseek(2): before the start there is nothing, and offsets are signed.
        self.position = position.filter(|&at| i64::try_from(at).is_ok()).ok_or(Error::Invalid)?;
        Ok(self.position)
    }
}
