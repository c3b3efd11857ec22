//! Changes of a file that a program makes all at once, in two ways: in one message (`pocketstone_lease::batch`), or by
//! write(2) between two ioctl(2) that F2FS has for it, which SQLite built with SQLITE_ENABLE_BATCH_ATOMIC_WRITE calls.
//!
//! What is written between those is kept back. The kernel shows it to all who read, as F2FS does not: who reads a
//! database meanwhile has no lock on it. It must be gone before the locks of a process that dies fall, so the kernel
//! asks at every close(2), before it drops them.

use crate::convert;
use crate::kept::{Kept, is_batch};
use crate::mountable::{Mountable, Open};
use crate::served::Served;
use crate::wire::{Ioctl, Operation, Request};
use crate::{caller, flags};
use pocketstone_lease::batch::{Change, Offer, What};
use pocketstone_scmfs::Allocate;
use pocketstone_vfs::{Error, FileType, Ino, Original, Result};
use rustix::io::Errno;

/// `_IO(0xf5, 1)`, 2 and 5 of linux/f2fs.h.
const START: u32 = flags::request(0, 0, 0xf5, 1);
const COMMIT: u32 = flags::request(0, 0, 0xf5, 2);
const ABORT: u32 = flags::request(0, 0, 0xf5, 5);
/// `_IOR(0xf5, 12, __u32)`, and what it answers: F2FS_FEATURE_ATOMIC_WRITE of SQLite's source.
const GET_FEATURES: u32 = flags::request(2, 4, 0xf5, 12);
const ATOMIC_WRITE: u32 = 4;

/// An open file of a volume.
struct Opened<'a, V: Mountable>(&'a V, &'a Open<V>);

impl<V: Mountable> Original for Opened<'_, V> {
    type Error = Error;

    fn size(&self) -> Result<u64> {
        Ok(self.0.attributes_of(self.1)?.size)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        self.0.read_at(self.1, into, offset)
    }
}

impl<V: Mountable> Served<V> {
    /// Whether the answer waits until the kernel has forgotten pages.
    pub fn forgets_pages(&self, operation: &Operation<'_>) -> bool {
        self.options.atomic
            && match operation {
                Operation::Setxattr(given) => is_batch(given.name),
                Operation::Ioctl(given) => given.command == ABORT,
                // Whether there is anything to forget may change until it is answered.
                Operation::Flush { .. } => true,
                _ => false,
            }
    }

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
        let change = Change::decode(value).filter(|change| change.ino == u64::from(ino)).ok_or(Error::Invalid)?;
        if self.atomic.keeps(ino) {
            return Err(Error::Busy);
        }
        let file = self.known.file(ino, || self.take(ino))?;
        match change.what {
            What::Space { ranges } => {
                let provide = |(at, bytes)| self.volume.allocate(&file, Allocate::KeepSize, at, bytes);
                ranges.into_iter().try_for_each(provide)
            }
            What::Writes { writes, size, durable } => {
                self.drop_privileges(&file, to.uid != 0)?;
                self.write_at_once(&file, &writes, size)?;
                if durable { self.volume.sync(&file) } else { Ok(()) }
            }
        }
    }

    /// Writes all or nothing, and gives the kernel what it holds of it anew.
    fn write_at_once(&self, file: &Open<V>, writes: &[(u64, &[u8])], size: u64) -> Result<()> {
        let before = self.volume.attributes_of(file)?.size;
        self.volume.write_batch(file, writes, size)?;
        let Some(connection) = self.connection.get() else { return Ok(()) };
        let node = self.volume.ino(file).into();
        // That the kernel has forgotten the inode is fine.
        if size < before {
            // What was cut off must not be seen if the file grows again.
            let _ = connection.forget_range(node, size as i64, 0);
        }
        for (offset, data) in writes.iter().filter(|(_, data)| !data.is_empty()) {
            // A page that it cannot take it must not keep as it was.
            if connection.store(node, *offset, data).is_err() {
                let _ = connection.forget_range(node, *offset as i64, data.len() as i64);
            }
        }
        let _ = connection.forget_attributes(node);
        Ok(())
    }

    /// Answers the ioctl(2) of F2FS; `None`: it is another one, or the mount has none.
    pub fn f2fs(&self, to: &Request, given: &Ioctl<'_>) -> Option<Result<Vec<u8>>> {
        let ino = convert::ino(to.node);
        self.volume.batch_max().filter(|_| self.options.atomic)?;
        let nothing = |done: Result<()>| done.map(|()| Vec::new());
        match given.command {
            GET_FEATURES => Some(Ok(ATOMIC_WRITE.to_ne_bytes().to_vec())),
            START => Some(nothing(self.start(to, ino))),
            COMMIT => Some(nothing(self.commit(to, ino))),
            ABORT => Some(nothing(self.abort(to, ino))),
            _ => None,
        }
    }

    /// From here on what is written to a file is kept back. As in F2FS the file's owner may do that.
    fn start(&self, to: &Request, ino: Ino) -> Result<()> {
        let known = self.volume.attributes(ino)?;
        if known.kind != FileType::Regular {
            return Err(Error::Invalid);
        }
        if to.uid != 0 && to.uid != known.uid {
            return Err(Error::Denied);
        }
        self.atomic.begin(ino, caller::process(to).ok_or(Error::NotSupported)?)
    }

    /// Makes all of it. If that fails it stays as it is, until it is given up.
    fn commit(&self, to: &Request, ino: Ino) -> Result<()> {
        let owner = caller::process(to).ok_or(Error::Invalid)?;
        let file = self.known.file(ino, || self.take(ino))?;
        self.atomic.end(ino, owner, |kept| {
            if kept.is_too_much {
                return Err(Error::TooLarge);
            }
            if kept.staging.is_empty() {
                return Ok(());
            }
            let (writes, size) = kept.staging.changes();
            self.volume.write_batch(&file, &writes, size)
        })?;
        // The kernel has the content; the times and the space are new.
        self.mode_changed(ino);
        self.volume.sync(&file)
    }

    fn abort(&self, to: &Request, ino: Ino) -> Result<()> {
        let owner = caller::process(to).ok_or(Error::Invalid)?;
        self.atomic.end(ino, owner, |_| Ok(()))?;
        self.forget_kept(ino);
        Ok(())
    }

    fn forget_kept(&self, ino: Ino) {
        if let Some(connection) = self.connection.get() {
            let _ = connection.forget_contents(ino.into());
        }
    }

    /// A process closes a file, or ends: what it did not commit is gone before its locks are.
    pub fn give_up_at_close(&self, to: &Request) {
        let ino = convert::ino(to.node);
        if !self.atomic.keeps(ino) {
            return;
        }
        let ended = match caller::process(to) {
            Some(process) => self.atomic.end(ino, process, |_| Ok(())).is_ok(),
            // Nobody knows whose it is: better too little than what nobody may have committed.
            None => self.atomic.forgotten(ino),
        };
        if ended {
            self.forget_kept(ino);
        }
    }

    /// Keeps a write back; `at`: its offset, or at the end. `None`: nothing is kept back from that file.
    pub fn keep_back(&self, file: &Open<V>, data: &[u8], at: Option<u64>) -> Option<Result<()>> {
        let opened = Opened(&*self.volume, file);
        self.atomic.with(self.volume.ino(file), |kept| {
            self.volume.may_write(file, false)?;
            let offset = at.map_or_else(|| kept.staging.size(&opened), Ok)?;
            let end = offset.checked_add(data.len() as u64).ok_or(Error::TooLarge)?;
            self.must_fit(kept, &opened, end, data.len() as u64)?;
            kept.staging.write(&opened, data, offset)
        })
    }

    /// Keeps a change of a file's size back.
    pub fn keep_size_back(&self, file: &Open<V>, size: u64) -> Option<Result<()>> {
        let opened = Opened(&*self.volume, file);
        self.atomic.with(self.volume.ino(file), |kept| {
            self.volume.may_write(file, false)?;
            self.must_fit(kept, &opened, size, 0)?;
            kept.staging.truncate(&opened, size)
        })
    }

    /// Refuses more than a record of the volume's journal takes, before it is kept; all of the transaction with it.
    fn must_fit(&self, kept: &mut Kept, opened: &Opened<'_, V>, end: u64, bytes: u64) -> Result<()> {
        let (most, page) = self.volume.batch_max().unwrap_or_default();
        let grows = end.saturating_sub(opened.size()?);
        let taken = kept.staging.record_bytes(page).saturating_add(bytes);
        if kept.is_too_much || grows > most || taken > most {
            kept.staging.clear();
            kept.is_too_much = true;
            return Err(Error::TooLarge);
        }
        Ok(())
    }

    /// Reads a file as it will be.
    pub fn read_kept(&self, file: &Open<V>, into: &mut [u8], offset: u64) -> Option<Result<usize>> {
        let opened = Opened(&*self.volume, file);
        self.atomic.with(self.volume.ino(file), |kept| kept.staging.read(&opened, into, offset))
    }

    /// The size that a file will have.
    pub fn kept_size(&self, ino: Ino) -> Option<u64> {
        self.atomic.with(ino, |kept| kept.staging.staged_size()).flatten()
    }

    /// Refuses what cannot be kept back.
    pub fn must_not_keep(&self, ino: Ino) -> Result<(), Errno> {
        if self.atomic.keeps(ino) { Err(Errno::BUSY) } else { Ok(()) }
    }
}
