//! A volume as the kernel sees it: the parts of the operations that are more than a call.

use crate::background::Background;
use crate::direct::Direct;
use crate::flushes::{FLUSHES, Flushes};
use crate::kept::{Atomic, is_batch};
use crate::known::{Handles, Known, NO_HANDLE};
use crate::mountable::{self, Mountable, Open, errno, write_some};
use crate::options::MountOptions;
use crate::sealed::Unsealed;
use crate::wire::abi::fopen;
use crate::wire::{Answer, Attributes, Connection, Ioctl, Request, SetXattr as Given};
use crate::{caller, convert, flags, server};
use pocketstone_lease::message;
use pocketstone_vfs::{
    ACL_ACCESS, ACL_DEFAULT, Attr, Entry, Error, FileType, Held, Ino, Meta, ROOT, Rename, Result, SetAttr, SetXattr,
};
use rustix::io::Errno;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const S_ISUID: u16 = 0o4000;
const S_ISGID: u16 = 0o2000;
const S_IXGRP: u16 = 0o0010;
const O_ACCMODE: u32 = 0o3;
const O_APPEND: u32 = 0o2000;
/// A file that nothing is asked about for one to two periods is closed: its times are stored then.
const IDLE: Duration = Duration::from_millis(2500);
/// About as many entries with attributes as a page holds.
const SOME: usize = 24;

pub(crate) struct Served<V: Mountable> {
    pub volume: Arc<V>,
    pub known: Arc<Known<Open<V>>>,
    pub handles: Handles<Open<V>>,
    /// The kernel asks nothing at open(2) and close(2), and about inodes afterwards: what closes files nevertheless.
    pub by_number: OnceLock<Background>,
    pub options: MountOptions,
    pub connection: Arc<OnceLock<Connection>>,
    pub unsealed: Unsealed,
    pub atomic: Atomic,
    pub direct: Option<Direct<V>>,
    pub flushes: Flushes,
}

impl<V: Mountable> Served<V> {
    pub fn new(volume: Arc<V>, options: &MountOptions) -> Served<V> {
        let (known, connection) = (Arc::new(Known::new()), Arc::default());
        Served {
            direct: Direct::open(&volume, &known, &connection, options),
            volume,
            known,
            handles: Handles::new(),
            by_number: OnceLock::new(),
            options: options.clone(),
            connection,
            unsealed: Unsealed::default(),
            atomic: Atomic::default(),
            flushes: Flushes::new(options),
        }
    }

    /// Tells the kernel that it does not know an inode's mode any more. It drops the set-id bits
    /// neither by itself nor by the answer to a write, and would go by its own at the next execve(2).
    pub fn mode_changed(&self, ino: Ino) {
        if let Some(connection) = self.connection.get() {
            // That the kernel has forgotten the inode is fine.
            let _ = connection.forget_attributes(ino.into());
        }
    }

    /// Writes what the kernel had in its cache. On a mount that is not asked at open(2), that is what was stored
    /// through mappings, perhaps of a file that must not change.
    pub fn write_back(&self, file: &Open<V>, data: &[u8], offset: u64) -> Result<()> {
        if self.by_number.get().is_some() && !self.unsealed.contains(self.volume.ino(file)) {
            self.volume.may_write(file, false)?;
        }
        let data = match &self.direct {
            // Nobody makes a file longer by a mapping, whatever end the kernel takes it to have.
            Some(direct) if direct.appends() => {
                let inside = self.volume.attributes_of(file)?.size.saturating_sub(offset);
                &data[..data.len().min(usize::try_from(inside).unwrap_or(usize::MAX))]
            }
            _ => data,
        };
        self.volume.write_back(file, data, offset)
    }

    /// Answers an ioctl(2); `None`: there is no such one.
    pub fn ioctl(&self, request: &Request, given: &Ioctl<'_>) -> Option<Result<Vec<u8>>> {
        if let Some(direct) = self.direct.as_ref().filter(|_| given.command == message::ASK) {
            return Some(Ok(direct.name().told().to_vec()));
        }
        if let Some(answer) = self.f2fs(request, given) {
            return Some(answer);
        }
        let ino = convert::ino(request.node);
        let answer = || flags::ioctl(&*self.volume, request.uid, ino, given.command, given.data);
        // Only what changes flags brings data along, and root alone may.
        let seals = !given.data.is_empty() && request.uid == 0 && self.by_number.get().is_some();
        let connection = self.connection.get().filter(|_| seals);
        if connection.is_some() {
            self.unsealed.begin(ino);
        }
        let answer = match answer() {
            Some(Ok(bytes)) if !given.data.is_empty() => Some(self.changed(ino).map(|()| bytes)),
            answer => answer,
        };
        if !given.data.is_empty() {
            // A change of flags is one of the inode, whose ctime the kernel does not ask for after an ioctl.
            self.mode_changed(ino);
        }
        if let Some(connection) = connection {
            self.unsealed.end(ino, connection.clone());
        }
        answer
    }

    /// The number for an error. Damage is reported: an EIO alone helps nobody.
    pub fn errno(&self, error: &Error) -> Errno {
        if let (Error::Damaged(_) | Error::Medium(_), Some(report)) = (error, &self.options.reporter) {
            report(&error.to_string());
        }
        errno(error)
    }

    /// The answer that an outcome is.
    pub fn answer<T>(&self, outcome: Result<T>) -> Answer<T> {
        outcome.map_err(|error| self.errno(&error))
    }

    /// Attributes, content or the size of an inode have changed, which is durable before it is answered where the mount
    /// says so.
    pub fn changed(&self, ino: Ino) -> Result<()> {
        if self.flushes.everything() { self.flush(ino) } else { Ok(()) }
    }

    /// So have names in a directory.
    pub fn names_changed(&self, directory: Ino) -> Result<()> {
        if self.flushes.names() { self.flush(directory) } else { Ok(()) }
    }

    /// What was made in a directory, once its names are flushed where everything or they are to be.
    pub fn flushed_in<T>(&self, directory: Ino, made: Result<T>) -> Result<T> {
        let made = made?;
        self.names_changed(directory)?;
        Ok(made)
    }

    fn flush(&self, ino: Ino) -> Result<()> {
        match self.volume.sync_inode(ino) {
            // Of what has lost its last name nothing is left to be flushed.
            Err(Error::NotFound) => Ok(()),
            flushed => flushed,
        }
    }

    /// Tells the kernel of an inode under a name, and counts that.
    pub fn entry(&self, found: Result<Attr>) -> Answer<Attributes> {
        let attr = self.answer(found)?;
        // Counted before it is told: the kernel may forget at once.
        self.known.learn(attr.ino);
        Ok(self.told(attr))
    }

    /// Attributes for the kernel. Those of a file whose times change without its knowledge are not to be kept.
    pub fn told(&self, attr: Attr) -> Attributes {
        let ahead = self.direct.as_ref().is_some_and(|direct| direct.kernel_told(attr.ino));
        let attr = if ahead { self.volume.attributes(attr.ino).unwrap_or(attr) } else { attr };
        let size = self.kept_size(attr.ino).unwrap_or(attr.size);
        let attr = attr.size(size);
        let stored_to = self.direct.as_ref().is_some_and(|direct| direct.is_stored_to(attr.ino));
        let told = convert::attributes(&attr);
        Attributes { kept: told.kept && !stored_to, ..told }
    }

    /// The kernel asks for a file's content (`reads`), or brings some.
    pub fn kernel_came(&self, node: u64, reads: bool) {
        if let Some(direct) = &self.direct {
            direct.kernel_came(convert::ino(node), reads);
        }
    }

    /// Whether processes may map files without the kernel.
    pub fn maps(&self) -> bool {
        self.direct.as_ref().is_some_and(Direct::maps)
    }

    /// Whether the kernel keeps no content.
    fn is_uncached(&self) -> bool {
        self.options.direct_io || self.maps()
    }

    /// Flags for a file just opened.
    pub fn open_flags(&self) -> u32 {
        // Mostly nothing is left to write when a file is closed, unless the kernel collects writes; then it
        // ignores this flag.
        let close = if V::ASKS_AT_CLOSE || self.options.atomic { 0 } else { fopen::NOFLUSH };
        let cache = match self.is_uncached() {
            true => fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES,
            false => fopen::KEEP_CACHE,
        };
        close | cache
    }

    /// Whether the kernel needs to ask nothing at open(2) and close(2), if it can do without.
    pub fn may_open_by_number(&self) -> bool {
        // A cache that collects writes has to know at open(2) whether there may be any.
        V::OPENS_BY_NUMBER && !self.is_uncached() && !self.options.strict_open && !self.options.writeback
    }

    /// From here on the kernel has no handles.
    pub fn open_by_number(&self) {
        let known = self.known.clone();
        // Without the thread it asks as ever.
        if let Ok(background) = Background::start(IDLE, move || known.close_idle()) {
            let _ = self.by_number.set(background);
        }
    }

    /// Refuses what the kernel need not ask any more: it does not do so again then.
    pub fn must_ask(&self) -> Answer<()> {
        if self.by_number.get().is_some() { Err(Errno::NOSYS) } else { Ok(()) }
    }

    /// The handle of an open file that the kernel asked for; of one that it did not ask for, which stays open for a
    /// while, none.
    pub fn handle(&self, file: Open<V>) -> u64 {
        if self.by_number.get().is_none() {
            return self.handles.insert(file);
        }
        let _ = self.known.file(self.volume.ino(&file), || Ok::<_, Errno>(file.clone()));
        NO_HANDLE
    }

    /// The open file of a handle, or of an inode's number.
    pub fn file(&self, node: u64, handle: u64) -> Answer<Open<V>> {
        if handle != NO_HANDLE {
            return self.handles.get(handle).ok_or(Errno::BADF);
        }
        self.answer(self.known.file(convert::ino(node), || self.take(convert::ino(node))))
    }

    /// Takes an inode into use.
    pub fn take(&self, ino: Ino) -> Result<Open<V>> {
        mountable::take(&self.volume, ino)
    }

    /// Takes over what an operation took into use when it made it, and says what it is.
    pub fn made(&self, handle: V::Handle) -> Result<(Attr, Open<V>)> {
        let file = Held::new(self.volume.clone(), handle);
        Ok((self.volume.attributes_of(&file)?, Arc::new(file)))
    }

    /// Opens a file as open(2) was asked to.
    pub fn open(&self, ino: Ino, flags: u32) -> Result<Open<V>> {
        let file = self.take(ino)?;
        if flags & O_ACCMODE != 0 {
            self.volume.may_write(&file, flags & O_APPEND != 0)?;
        }
        Ok(file)
    }

    /// What a new object starts with. In a directory with the set-group-id bit it gets the directory's
    /// group, and a directory gets the bit.
    pub fn meta(
        &self,
        request: &Request,
        parent: Ino,
        kind: FileType,
        (mode, umask): (u32, u32),
        rdev: u32,
    ) -> Result<Meta> {
        let above = self.volume.attributes(parent)?;
        let mut permissions = (mode & 0o7777) as u16;
        let mut gid = request.gid;
        if above.permissions & S_ISGID != 0 {
            gid = above.gid;
            if kind == FileType::Directory {
                permissions |= S_ISGID;
            }
        }
        Ok(Meta::file(permissions).kind(kind).umask((umask & 0o777) as u16).uid(request.uid).gid(gid).rdev(rdev))
    }

    /// A hold on what a name refers to, if the kernel knows it: losing its last name must not free its
    /// number. The kernel holds the directory's lock meanwhile, so the name stays what it is.
    pub fn hold(&self, parent: Ino, name: &[u8]) -> Option<(Ino, Open<V>)> {
        let attr = self.volume.lookup(parent, name).ok()?;
        if !self.known.knows(attr.ino) {
            return None;
        }
        Some((attr.ino, self.take(attr.ino).ok()?))
    }

    pub fn rename(&self, from: Ino, name: &[u8], to: Ino, new_name: &[u8], how: Rename) -> Result<()> {
        let replaces = matches!(how, Rename::Replace | Rename::Whiteout { replace: true, .. });
        let replaced = if replaces { self.hold(to, new_name) } else { None };
        self.volume.rename(from, name, to, new_name, how)?;
        if let Some((ino, file)) = replaced {
            self.known.pin(ino, file);
        }
        self.names_changed(from)?;
        if to == from { Ok(()) } else { self.names_changed(to) }
    }

    /// The bits that are lost when somebody without privileges changes a file's content.
    fn without_privileges(permissions: u16) -> u16 {
        let lost = if permissions & S_IXGRP != 0 { S_ISUID | S_ISGID } else { S_ISUID };
        permissions & !lost
    }

    /// Takes a file's capabilities away before its content is changed, and its set-id bits with `set_id`.
    pub fn drop_privileges(&self, file: &Open<V>, set_id: bool) -> Result<()> {
        let ino = self.volume.ino(file);
        self.volume.drop_capability(ino)?;
        if set_id {
            let permissions = self.volume.attributes_of(file)?.permissions;
            let kept = Self::without_privileges(permissions);
            if kept != permissions {
                let change = SetAttr::default().permissions(Some(kept)).implied(true);
                self.volume.set_attributes(ino, &change)?;
                self.mode_changed(ino);
            }
        }
        Ok(())
    }

    /// Changes attributes, and drops the set-id bits and capabilities with them where Linux does.
    pub fn set_attributes(&self, uid: u32, ino: Ino, mut change: SetAttr) -> Result<Attr> {
        // The same owner once more takes nothing away if it is root who says so: overlayfs copies a file up like that,
        // and has set the mode before.
        let asks = change.uid.is_some() || change.gid.is_some();
        let before = if asks { Some(self.volume.attributes(ino)?) } else { None };
        let is_other = |before: Attr| {
            change.uid.is_some_and(|uid| uid != before.uid) || change.gid.is_some_and(|gid| gid != before.gid)
        };
        let owner_changes = before.is_some_and(|before| uid != 0 || is_other(before));
        let content_changes = change.size.is_some() && uid != 0;
        if owner_changes || change.size.is_some() {
            self.volume.drop_capability(ino)?;
        }
        if change.permissions.is_none() && (owner_changes || content_changes) {
            let attr = self.volume.attributes(ino)?;
            let kept = Self::without_privileges(attr.permissions);
            if attr.kind != FileType::Directory && kept != attr.permissions {
                change.permissions = Some(kept);
            }
        }
        self.volume.set_attributes(ino, &change)
    }

    /// Gives the entries of a directory after an offset to `take`, until that is full and returns
    /// false. Offsets are cookies plus 2, for "." and ".." come first: an entry's offset is where to go
    /// on after it.
    pub fn list(&self, ino: Ino, offset: u64, take: &mut impl FnMut(&[u8], Ino, FileType, u64) -> bool) -> Result<()> {
        if offset == 0 && !take(b".", ino, FileType::Directory, 1) {
            return Ok(());
        }
        if offset <= 1 && !take(b"..", self.volume.parent(ino)?, FileType::Directory, 2) {
            return Ok(());
        }
        let cookie = offset.saturating_sub(2);
        self.volume.read_directory(ino, cookie, &mut |e| take(&e.name, e.ino, e.kind, e.cookie + 2))
    }

    /// A few entries after an offset. For who needs to ask more about them, which must not be done
    /// while the directory is being read.
    pub fn list_some(&self, ino: Ino, offset: u64) -> Result<Vec<Entry>> {
        let mut entries = Vec::with_capacity(SOME);
        self.list(ino, offset, &mut |name: &[u8], ino, kind, cookie| {
            entries.push(Entry::new(name.to_vec(), ino, kind, cookie));
            entries.len() < SOME
        })?;
        Ok(entries)
    }

    /// Copies bytes between files without the kernel. Stops early rather than keep others waiting.
    pub fn copy(&self, from: &Open<V>, at: u64, into: &Open<V>, to: u64, bytes: u64) -> Result<u64> {
        const AT_ONCE: u64 = 1 << 20;
        const AT_MOST: u64 = 64 << 20;
        let bytes = bytes.min(AT_MOST);
        let mut buffer = vec![0; bytes.min(AT_ONCE) as usize];
        let mut done = 0;
        while done < bytes {
            let wanted = (bytes - done).min(AT_ONCE) as usize;
            let got = self.volume.read_at(from, &mut buffer[..wanted], at + done)?;
            if got == 0 {
                break;
            }
            match write_some(&*self.volume, into, &buffer[..got], to + done) {
                Ok(written) if written < got => return Ok(done + written as u64),
                Ok(_) => done += got as u64,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    pub fn get_xattr(&self, uid: u32, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        if ino == ROOT && name == server::SERVER.as_bytes() {
            return Ok(server::this());
        }
        if ino == ROOT && name == FLUSHES.as_bytes() {
            let device = self.connection.get().and_then(Connection::mounted);
            return Ok(self.flushes.look(device, self.direct.as_ref().is_some_and(Direct::stores)));
        }
        if is_batch(name) {
            return self.offer(ino);
        }
        let asked = if ino == ROOT { self.volume.asked(&self.options.source, uid, name) } else { None };
        asked.unwrap_or_else(|| self.volume.get_xattr(ino, name))
    }

    /// The names that a user may see.
    pub fn list_xattrs(&self, uid: u32, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let mut names = self.volume.list_xattrs(ino)?;
        names.retain(|name| uid == 0 || !name.starts_with(b"trusted."));
        Ok(names)
    }

    pub fn set_xattr(&self, request: &Request, given: &Given<'_>) -> Result<()> {
        let (ino, name, value) = (convert::ino(request.node), given.name, given.value);
        if ino == ROOT {
            let connection = self.connection.clone();
            let arrived = Arc::new(move || connection.get().and_then(Connection::arrived));
            if let Some(done) = self.volume.told(request.uid, name, value, arrived) {
                return done;
            }
        }
        if is_batch(name) {
            return self.change(request, value);
        }
        if V::KEEPS_ACLS && (name == ACL_ACCESS || name == ACL_DEFAULT) {
            let attr = self.volume.attributes(ino)?;
            let outside = || given.kills_group_id.unwrap_or_else(|| !caller::is_in_group(request, attr.gid));
            let drop_group_id = attr.permissions & S_ISGID != 0 && outside();
            return self.volume.set_acl(ino, name, value, drop_group_id);
        }
        // XATTR_CREATE and XATTR_REPLACE.
        let how = match given.flags {
            0 => SetXattr::Any,
            1 => SetXattr::Create,
            2 => SetXattr::Replace,
            _ => return Err(Error::Invalid),
        };
        self.volume.set_xattr(ino, name, value, how)
    }
}
