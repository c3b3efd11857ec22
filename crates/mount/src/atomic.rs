//! Changes of a file that a program makes all at once (`pocketstone_lease::batch`).

use crate::convert;
use crate::mountable::{Mountable, Open};
use crate::served::Served;
use crate::wire::Request;
use pocketstone_lease::batch::{Change, NAME, Offer, What};
use pocketstone_scmfs::Allocate;
use pocketstone_vfs::{Error, FileType, Ino, Result};

/// Whether an extended attribute is the way of such changes.
pub(crate) fn is_batch(name: &[u8]) -> bool {
    name == NAME.as_bytes()
}

impl<V: Mountable> Served<V> {
    /// What is taken for a file, or would be for one in a directory.
    pub fn offer(&self, ino: Ino) -> Result<Vec<u8>> {
        let taken =
            self.options.atomic && matches!(self.volume.attributes(ino)?.kind, FileType::Regular | FileType::Directory);
        let (record_bytes, page_bytes) = self.volume.batch_max().filter(|_| taken).ok_or(Error::NoAttribute)?;
        Ok(Offer { ino: ino.into(), record_bytes, page_bytes }.encode())
    }

    /// Makes a change. The kernel asked for the right to write before, and keeps writers off meanwhile.
    pub fn change(&self, to: &Request, value: &[u8]) -> Result<()> {
        if !self.options.atomic {
            // It must not be stored as if it were made.
            return Err(Error::NotSupported);
        }
        let ino = convert::ino(to.node);
        // A path may have come to mean another file.
        let change = Change::decode(value).filter(|change| change.ino == u64::from(ino)).ok_or(Error::Invalid)?;
        let file = self.known.file(ino, || self.take(ino))?;
        match change.what {
            What::Space { bytes } => self.volume.allocate(&file, Allocate::KeepSize, 0, bytes),
            What::Writes { writes, size, durable } => {
                self.drop_privileges(&file, to.uid != 0)?;
                self.write_at_once(&file, &writes, size)?;
                if durable { self.volume.sync(&file) } else { Ok(()) }
            }
        }
    }

    /// Writes all or nothing, and has the kernel forget what it holds of it.
    fn write_at_once(&self, file: &Open<V>, writes: &[(u64, &[u8])], size: u64) -> Result<()> {
        let before = self.volume.attributes_of(file)?.size;
        self.volume.write_batch(file, writes, size)?;
        let Some(connection) = self.connection.get() else { return Ok(()) };
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        // Pages around the old end and the new one have bytes that are not those of the file any more.
        let ends = (before.min(size), before.max(size));
        let moved = (before != size).then_some(ends);
        let written = writes.iter().map(|(offset, data)| (*offset, offset + data.len() as u64));
        let mut sorted: Vec<(u64, u64)> = written.chain(moved).filter(|(from, to)| from < to).collect();
        sorted.sort_unstable();
        for (from, to) in sorted {
            match ranges.last_mut() {
                Some((_, end)) if *end >= from => *end = to.max(*end),
                _ => ranges.push((from, to)),
            }
        }
        let node = self.volume.ino(file).into();
        for (from, to) in ranges {
            // That the kernel has forgotten the inode is fine.
            let _ = connection.forget_range(node, from as i64, (to - from) as i64);
        }
        Ok(())
    }
}
