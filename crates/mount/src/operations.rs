//! The operations of FUSE, each a call to the volume.

use crate::convert::{self, ino};
use crate::direct::{self, Direct};
use crate::known::NO_HANDLE;
use crate::mountable::{Mountable, Open, append_some, write_some};
use crate::served::Served;
use crate::wire::abi::{fopen, init, write};
use crate::wire::{
    Answer, Attributes, Content, Copy, Fallocate, Filesystem, Full, Ioctl, Listing, More, Opened, Operation, Part,
    Request, SetAttributes, SetXattr, Statfs, Write,
};
use pocketstone_lease::message;
use pocketstone_scmfs::Allocate;
use pocketstone_vfs::{Attr, Entry, Error, FileType, Meta, NAME_MAX, Rename};
use rustix::fs::OFlags;
use rustix::io::Errno;

const O_APPEND: u32 = 0o2000;
/// `O_SYNC` includes it.
const O_DSYNC: u32 = 0o10000;
const O_EXCL: u32 = 0o200;
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;
/// The kernel remembers that there is nothing to ask at open(2) and close(2).
const BY_NUMBER: u64 = init::NO_OPEN_SUPPORT | init::NO_OPENDIR_SUPPORT;
const RENAME_NOREPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;
const RENAME_WHITEOUT: u32 = 4;

/// How `fallocate` is meant, by its mode: KEEP_SIZE is 1, PUNCH_HOLE 2, ZERO_RANGE 16.
fn allocation(mode: u32) -> Option<Allocate> {
    match mode {
        0 => Some(Allocate::Extend),
        1 => Some(Allocate::KeepSize),
        3 => Some(Allocate::PunchHole),
        16 => Some(Allocate::Zero),
        17 => Some(Allocate::ZeroKeepSize),
        _ => None,
    }
}

impl<V: Mountable> Served<V> {
    /// Adds an entry with its attributes to a listing.
    fn add(&self, entry: &Entry, listing: &mut Listing<'_>) -> Full {
        let (node, next, kind) = (entry.ino.into(), entry.cookie, convert::entry_kind(entry.kind));
        // What cannot be read is listed all the same, without attributes; whoever asks for them is told why. Nothing
        // vanishes meanwhile: the kernel holds the directory's lock.
        let Ok(attr) = self.volume.attributes(entry.ino) else {
            return listing.entry(None, node, next, kind, &entry.name);
        };
        // Counted first, for the kernel may forget as soon as it knows. It does not count dots.
        let counted = entry.name != b"." && entry.name != b"..";
        if counted {
            self.known.learn(entry.ino);
        }
        let full = listing.entry(Some(&self.told(attr)), node, next, kind, &entry.name);
        if full.is_break() && counted {
            self.known.forget(entry.ino, 1);
        }
        full
    }

    /// Makes what is neither a regular file that is opened at once nor a symbolic link.
    fn make(&self, to: &Request, name: &[u8], kind: FileType, mode: (u32, u32), rdev: u32) -> Answer<Attributes> {
        let parent = ino(to.node);
        let meta = self.meta(to, parent, kind, mode, rdev);
        let made = meta.and_then(|meta| match kind {
            FileType::Directory => self.volume.create_directory(parent, name, &meta),
            _ => Ok(self.made(self.volume.create_file(parent, name, &meta)?)?.0),
        });
        self.entry(self.flushed_in(parent, made))
    }

    /// Takes a name away, by an operation that does; what it named lives until the kernel has forgotten it.
    fn remove(&self, to: &Request, name: &[u8], how: impl FnOnce(&V) -> Result<(), Error>) -> Answer<()> {
        let held = self.hold(ino(to.node), name);
        self.answer(how(&self.volume))?;
        if let Some((ino, file)) = held {
            self.known.pin(ino, file);
        }
        self.answer(self.names_changed(ino(to.node)))
    }

    /// Tells the kernel of a file that was made and opened.
    fn created(&self, attr: &Attr, file: Open<V>) -> (Attributes, Opened) {
        self.known.learn(attr.ino);
        let opened = Opened { handle: self.handle(file), flags: self.open_flags() };
        (self.told(*attr), opened)
    }

    /// Writes what the kernel or a program brings. How many bytes there was space for.
    fn take_in(&self, to: &Request, given: &Write<'_>) -> Answer<usize> {
        let file = self.file(to.node, given.handle)?;
        // The kernel's flags are those of the moment, so fcntl(2) has its say. What comes from the
        // kernel's cache goes where it was, whoever had it open how.
        let cached = given.how & write::CACHE != 0;
        let drops_set_id = given.how & write::KILL_SUIDGID != 0;
        let dropped = if cached && !drops_set_id { Ok(()) } else { self.drop_privileges(&file, drops_set_id) };
        let at = (given.flags & O_APPEND == 0).then_some(given.offset);
        let kept = if cached { None } else { self.keep_back(&file, given.data, at) };
        if let Some(kept) = kept {
            return self.answer(dropped.and(kept).map(|()| given.data.len()));
        }
        let written = dropped.and_then(|()| match given.flags & O_APPEND {
            _ if cached => self.write_back(&file, given.data, given.offset).map(|()| given.data.len()),
            0 => write_some(&*self.volume, &file, given.data, given.offset),
            _ => append_some(&*self.volume, &file, given.data).map(|(written, end)| {
                let bytes = written as u64;
                let (at, direct) = (end.saturating_sub(bytes), self.direct.as_ref().filter(|direct| direct.appends()));
                if let Some(direct) = direct.filter(|_| at != given.offset) {
                    direct.misplaced(ino(to.node), given.offset, at, bytes);
                }
                written
            }),
        });
        let sync = given.flags & O_DSYNC != 0 && !cached;
        self.answer(written.and_then(|written| {
            if sync {
                self.volume.sync(&file)?;
            }
            Ok(written)
        }))
    }
}

/// An object with a name.
fn named(attr: Attr) -> Result<Attr, Error> {
    if attr.links == 0 { Err(Error::NotFound) } else { Ok(attr) }
}

impl<V: Mountable> Filesystem for Served<V> {
    fn waits_for_itself(&self) -> bool {
        self.options.atomic || self.direct.is_some()
    }

    fn patience(&self) -> u32 {
        self.direct.as_ref().map_or(1, Direct::patience)
    }

    fn waits(&self, to: &Request, operation: &Operation<'_>) -> bool {
        let at_end = |given: &Write<'_>| given.flags & O_APPEND != 0 && given.how & write::CACHE == 0;
        let appends = self.direct.as_ref().is_some_and(Direct::appends);
        self.forgets_pages(operation)
            || match operation {
                Operation::Write(given) => appends && at_end(given),
                Operation::Fsync { .. } => {
                    self.direct.as_ref().is_some_and(|direct| direct.frees(ino(to.node), to.pid))
                }
                Operation::Setxattr(given) => {
                    let leases = |name| message::Lease::asked(name, &[]).is_some();
                    self.direct.is_some() && (direct::is_forget(given.name) || leases(given.name))
                }
                _ => false,
            }
    }

    fn wants(&self) -> u64 {
        // Without KILLPRIV_V2 the kernel asks for security.capability before every write.
        let mut flags = init::PARALLEL_DIROPS | init::CACHE_SYMLINKS | init::ASYNC_DIO | init::HANDLE_KILLPRIV_V2;
        if !self.maps() {
            // Its pages would not be those that processes map without it.
            flags |= init::DIRECT_IO_ALLOW_MMAP;
        }
        if V::LISTS_ATTRIBUTES {
            flags |= init::DO_READDIRPLUS | init::READDIRPLUS_AUTO;
        }
        if V::FINDS_BY_NUMBER {
            flags |= init::EXPORT_SUPPORT;
        }
        if V::KEEPS_ACLS {
            // What a new object gets depends on its directory: the kernel must not apply the umask before.
            flags |= init::POSIX_ACL | init::DONT_MASK;
        }
        if self.options.writeback {
            flags |= init::WRITEBACK_CACHE;
        }
        if self.may_open_by_number() {
            flags |= BY_NUMBER;
        }
        if self.direct.as_ref().is_some_and(Direct::appends) {
            // The kernel takes a file whose end is leased to be longer than it is, and would read zeros there: so it
            // asks before each read(2) of a file whose attributes it does not keep.
            flags |= init::AUTO_INVAL_DATA;
        }
        flags
    }

    fn agreed(&self, flags: u64) {
        if flags & BY_NUMBER == BY_NUMBER && self.may_open_by_number() {
            self.open_by_number();
        }
    }

    fn lookup(&self, to: &Request, name: &[u8]) -> Answer<Option<Attributes>> {
        let found = match name {
            // Of what need not be a directory: the kernel has only a number, out of a handle. What has no name any
            // more may still be known here, until the kernel's word that it forgot it is read: it is gone.
            b"." => self.volume.attributes(ino(to.node)).and_then(named),
            name => self.volume.lookup(ino(to.node), name),
        };
        match found {
            Err(Error::NotFound) => Ok(None),
            found => self.entry(found).map(Some),
        }
    }

    fn forget(&self, node: u64, lookups: u64) {
        self.known.forget(ino(node), lookups);
        if let Some(direct) = self.direct.as_ref().filter(|_| !self.known.knows(ino(node))) {
            direct.forgotten(ino(node));
        }
        if !self.known.knows(ino(node)) {
            self.atomic.forgotten(ino(node));
        }
    }

    fn getattr(&self, to: &Request) -> Answer<Attributes> {
        self.answer(self.volume.attributes(ino(to.node))).map(|attr| self.told(attr))
    }

    fn statx(&self, to: &Request) -> Answer<(Attributes, More)> {
        if !V::KNOWS_BIRTH {
            return Err(Errno::NOSYS);
        }
        let attr = self.answer(self.volume.attributes(ino(to.node)))?;
        let protection = self.volume.protection(attr.ino).ok();
        Ok((self.told(attr), convert::more(&attr, protection)))
    }

    fn setattr(&self, to: &Request, change: &SetAttributes) -> Answer<Attributes> {
        let mut change = *change;
        if let Some(size) = change.size.filter(|_| self.atomic.keeps(ino(to.node))) {
            let file = self.file(to.node, NO_HANDLE)?;
            if let Some(kept) = self.keep_size_back(&file, size) {
                self.answer(kept)?;
                change.size = None;
            }
        }
        let change = &change;
        let changed = self.set_attributes(to.uid, ino(to.node), convert::change(change, self.options.writeback));
        let changed = match changed {
            Ok(attr) => self.changed(attr.ino).map(|()| attr),
            // The file was protected after the write that they are of.
            Err(Error::NotPermitted) if convert::is_collected(change) => self.volume.attributes(ino(to.node)),
            changed => changed,
        };
        self.answer(changed).map(|attr| self.told(attr))
    }

    fn readlink(&self, to: &Request) -> Answer<Vec<u8>> {
        self.answer(self.volume.read_link(ino(to.node)))
    }

    fn mknod(&self, to: &Request, name: &[u8], mode: u32, rdev: u32, umask: u32) -> Answer<Attributes> {
        self.make(to, name, convert::kind_of_mode(mode).ok_or(Errno::INVAL)?, (mode, umask), rdev)
    }

    fn mkdir(&self, to: &Request, name: &[u8], mode: u32, umask: u32) -> Answer<Attributes> {
        self.make(to, name, FileType::Directory, (mode, umask), 0)
    }

    fn unlink(&self, to: &Request, name: &[u8]) -> Answer<()> {
        self.remove(to, name, |volume| volume.unlink(ino(to.node), name))
    }

    fn rmdir(&self, to: &Request, name: &[u8]) -> Answer<()> {
        self.remove(to, name, |volume| volume.remove_directory(ino(to.node), name))
    }

    fn symlink(&self, to: &Request, name: &[u8], target: &[u8]) -> Answer<Attributes> {
        let parent = ino(to.node);
        let meta = self.meta(to, parent, FileType::Symlink, (0o777, 0), 0);
        let made = meta.and_then(|meta| self.volume.create_symlink(parent, name, target, meta.uid, meta.gid));
        self.entry(self.flushed_in(parent, made))
    }

    fn rename(&self, from: &Request, name: &[u8], to: u64, new_name: &[u8], flags: u32) -> Answer<()> {
        let how = match flags {
            0 => Rename::Replace,
            RENAME_NOREPLACE => Rename::NoReplace,
            RENAME_EXCHANGE => Rename::Exchange,
            _ if flags & !RENAME_NOREPLACE == RENAME_WHITEOUT => {
                let meta = self.meta(from, ino(from.node), FileType::CharDevice, (0, 0), 0);
                let Meta { uid, gid, .. } = self.answer(meta)?;
                Rename::Whiteout { replace: flags & RENAME_NOREPLACE == 0, uid, gid }
            }
            _ => return Err(Errno::INVAL),
        };
        self.answer(Served::rename(self, ino(from.node), name, ino(to), new_name, how))
    }

    fn link(&self, to: &Request, node: u64, name: &[u8]) -> Answer<Attributes> {
        let parent = ino(to.node);
        // One without a name gets it only once it was asked for one that may have a name.
        let linked = match self.known.nameless(ino(node)) {
            Some(file) => self.volume.link_open(&file, parent, name),
            None => self.volume.link(ino(node), parent, name),
        };
        if linked.is_ok() {
            self.known.named(ino(node));
        }
        let flushed = || self.names_changed(parent).and_then(|()| self.changed(ino(node)));
        self.entry(linked.and_then(|attr| flushed().map(|()| attr)))
    }

    fn open(&self, to: &Request, flags: u32) -> Answer<Opened> {
        self.must_ask()?;
        let file = self.answer(Served::open(self, ino(to.node), flags))?;
        Ok(Opened { handle: self.handle(file), flags: self.open_flags() })
    }

    fn create(&self, to: &Request, name: &[u8], mode: u32, umask: u32) -> Answer<(Attributes, Opened)> {
        let parent = ino(to.node);
        let meta = self.meta(to, parent, FileType::Regular, (mode, umask), 0);
        let made = meta.and_then(|meta| self.made(self.volume.create_file(parent, name, &meta)?));
        let (attr, file) = self.answer(self.flushed_in(parent, made))?;
        Ok(self.created(&attr, file))
    }

    fn tmpfile(&self, to: &Request, mode: u32, umask: u32, flags: u32) -> Answer<(Attributes, Opened)> {
        let meta = self.meta(to, ino(to.node), FileType::Regular, (mode, umask), 0);
        let made = meta.and_then(|meta| self.made(self.volume.create_unnamed(ino(to.node), &meta)?));
        let (attr, file) = self.answer(made)?;
        let told = self.created(&attr, file.clone());
        // Its number is the kernel's until that has forgotten it, which is after it was closed.
        self.known.pin(attr.ino, file);
        if flags & O_EXCL == 0 {
            self.known.may_be_named(attr.ino);
        }
        Ok(told)
    }

    fn read(&self, to: &Request, part: &Part, into: &mut [u8]) -> Answer<Content<'_>> {
        self.kernel_came(to.node, true);
        let file = self.file(to.node, part.handle)?;
        let kept = self.read_kept(&file, into, part.offset);
        let read = self.answer(kept.unwrap_or_else(|| self.volume.read_at(&file, into, part.offset)))?;
        let ahead = self.direct.as_ref().is_some_and(Direct::appends) && part.flags & OFlags::DIRECT.bits() == 0;
        if ahead && read == 0 && self.answer(self.volume.attributes_of(&file))?.size < part.offset {
            // The kernel takes the file for longer, and reads ahead. What ends early says where the file ends, but only
            // the first such answer counts: it has to be the one of the part in which the file ends.
            into.fill(0);
            return Ok(Content::Filled(into.len()));
        }
        Ok(Content::Filled(read))
    }

    fn write(&self, to: &Request, given: &Write<'_>) -> Answer<usize> {
        self.kernel_came(to.node, false);
        let written = self.take_in(to, given);
        // Nobody waits for the answer: the kernel tells whoever calls fsync(2).
        if let Some(direct) = self.direct.as_ref().filter(|_| written.is_err() && given.how & write::CACHE != 0) {
            direct.failed();
        }
        written
    }

    fn flush(&self, to: &Request, handle: u64) -> Answer<()> {
        if self.options.atomic {
            self.give_up_at_close(to);
        } else {
            self.must_ask()?;
        }
        if !V::ASKS_AT_CLOSE {
            return Ok(());
        }
        let file = self.file(to.node, handle)?;
        self.answer(self.volume.closing(&file))
    }

    fn release(&self, handle: u64) {
        self.handles.remove(handle);
    }

    fn fsync(&self, to: &Request, handle: u64) -> Answer<()> {
        if self.direct.as_ref().is_some_and(|direct| direct.free(ino(to.node), to.pid)) {
            return Ok(());
        }
        // What is kept back is not durable before it is committed.
        self.must_not_keep(ino(to.node))?;
        if let Some(direct) = &self.direct {
            direct.synced(ino(to.node));
        }
        let file = self.file(to.node, handle)?;
        self.answer(self.volume.sync(&file))
    }

    fn opendir(&self, to: &Request) -> Answer<Opened> {
        self.must_ask()?;
        let file = self.answer(self.take(ino(to.node)))?;
        Ok(Opened { handle: self.handle(file), flags: fopen::CACHE_DIR | fopen::KEEP_CACHE })
    }

    fn readdir(&self, to: &Request, offset: u64, listing: &mut Listing<'_>) -> Answer<()> {
        self.answer(self.list(ino(to.node), offset, &mut |name: &[u8], ino, kind, cookie| {
            listing.name(ino.into(), cookie, convert::entry_kind(kind), name).is_continue()
        }))
    }

    fn readdirplus(&self, to: &Request, mut offset: u64, listing: &mut Listing<'_>) -> Answer<()> {
        loop {
            let entries = match self.list_some(ino(to.node), offset) {
                Ok(entries) => entries,
                // What was added has to be told.
                Err(_) if !listing.is_empty() => return Ok(()),
                Err(error) => return Err(self.errno(&error)),
            };
            let Some(last) = entries.last() else { return Ok(()) };
            if entries.iter().any(|entry| self.add(entry, listing).is_break()) {
                return Ok(());
            }
            offset = last.cookie;
        }
    }

    fn releasedir(&self, handle: u64) {
        self.handles.remove(handle);
    }

    fn fsyncdir(&self, to: &Request) -> Answer<()> {
        self.answer(self.volume.sync_inode(ino(to.node)))
    }

    fn statfs(&self, _: &Request) -> Answer<Statfs> {
        let s = self.answer(self.volume.statfs())?;
        Ok(Statfs {
            blocks: s.blocks,
            free: s.free_blocks,
            available: s.available_blocks,
            files: s.inodes,
            free_files: s.free_inodes,
            block_bytes: s.block_bytes,
            longest_name: NAME_MAX as u32,
        })
    }

    fn setxattr(&self, to: &Request, xattr: &SetXattr<'_>) -> Answer<()> {
        if let Some(direct) = &self.direct {
            if direct::is_forget(xattr.name) && direct.free(ino(to.node), to.pid) {
                return Err(direct::FORGOTTEN);
            }
            if let Some(asked) = message::Lease::asked(xattr.name, xattr.value) {
                return Err(direct.lease(ino(to.node), to.uid, &asked?).err().unwrap_or(message::LEASED));
            }
        }
        self.answer(self.set_xattr(to, xattr).and_then(|()| self.changed(ino(to.node))))
    }

    fn getxattr(&self, to: &Request, name: &[u8]) -> Answer<Vec<u8>> {
        self.answer(self.get_xattr(to.uid, ino(to.node), name))
    }

    fn listxattr(&self, to: &Request) -> Answer<Vec<u8>> {
        let names = self.answer(self.list_xattrs(to.uid, ino(to.node)))?;
        Ok(names.into_iter().flat_map(|name| [name, vec![0]].concat()).collect())
    }

    fn removexattr(&self, to: &Request, name: &[u8]) -> Answer<()> {
        let removed = self.volume.remove_xattr(ino(to.node), name);
        self.answer(removed.and_then(|()| self.changed(ino(to.node))))
    }

    fn fallocate(&self, to: &Request, given: &Fallocate) -> Answer<()> {
        let how = allocation(given.mode).ok_or(Errno::OPNOTSUPP)?;
        self.must_not_keep(ino(to.node))?;
        let file = self.file(to.node, given.handle)?;
        let dropped = self.drop_privileges(&file, to.uid != 0);
        let allocated = dropped.and_then(|()| self.volume.allocate(&file, how, given.offset, given.bytes));
        self.answer(allocated.and_then(|()| self.changed(ino(to.node))))
    }

    fn lseek(&self, to: &Request, handle: u64, offset: i64, whence: u32) -> Answer<u64> {
        if self.options.writeback {
            // The kernel asks without writing back what it keeps, which would be taken for a hole. From now on, all of
            // a file is data for it.
            return Err(Errno::NOSYS);
        }
        let file = self.file(to.node, handle)?;
        self.answer(match (u64::try_from(offset), whence) {
            (Ok(offset), SEEK_DATA) => self.volume.next_data(&file, offset),
            (Ok(offset), SEEK_HOLE) => self.volume.next_hole(&file, offset),
            (Err(_), SEEK_DATA | SEEK_HOLE) => Err(Error::NoMore),
            _ => Err(Error::Invalid),
        })
    }

    fn copy_file_range(&self, to: &Request, given: &Copy) -> Answer<u64> {
        self.must_not_keep(ino(to.node)).and(self.must_not_keep(ino(given.to_node)))?;
        let (from, into) = (self.file(to.node, given.from)?, self.file(given.to_node, given.to)?);
        let dropped = self.drop_privileges(&into, to.uid != 0);
        let copy = |()| self.copy(&from, given.from_offset, &into, given.to_offset, given.bytes);
        let copied = dropped.and_then(copy);
        self.answer(copied.and_then(|bytes| self.changed(ino(given.to_node)).map(|()| bytes)))
    }

    fn ioctl(&self, to: &Request, given: &Ioctl<'_>) -> Answer<Vec<u8>> {
        if let Some(direct) = self.direct.as_ref().filter(|_| given.command == message::ASK_BY) {
            return direct.asked(ino(to.node), to.uid, given.data);
        }
        match Served::ioctl(self, to, given) {
            Some(answer) => self.answer(answer),
            None => Err(Errno::NOTTY),
        }
    }
}
