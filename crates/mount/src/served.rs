//! A volume as the kernel sees it: the parts of the operations that are more than a call.

use crate::known::{Handles, Known};
use crate::mountable::{Mountable, errno};
use crate::options::MountOptions;
use crate::{FOREVER, convert};
use fuser::{Errno, FileHandle, FopenFlags, Generation, INodeNo, Notifier, ReplyEntry, Request};
use pocketstone_core::inode::{Attr, Entry, Error, FileType, Ino, Meta, ROOT, Rename, Result, SetAttr, SetXattr};
use std::sync::{Arc, OnceLock};

const S_ISUID: u16 = 0o4000;
const S_ISGID: u16 = 0o2000;
const S_IXGRP: u16 = 0o0010;
/// About as many entries with attributes as a page holds.
const SOME: usize = 24;

pub(crate) struct Served<V: Mountable> {
    pub volume: Arc<V>,
    pub known: Known<V::Open>,
    pub handles: Handles<V::Open>,
    pub options: MountOptions,
    pub notifier: Arc<OnceLock<Notifier>>,
}

impl<V: Mountable> Served<V> {
    pub fn new(volume: Arc<V>, options: &MountOptions) -> Served<V> {
        Served {
            volume,
            known: Known::new(),
            handles: Handles::new(),
            options: options.clone(),
            notifier: Arc::default(),
        }
    }

    /// Tells the kernel that it does not know an inode's mode any more. It drops the set-id bits
    /// neither by itself nor by the answer to a write, and would go by its own at the next execve(2).
    pub fn mode_changed(&self, ino: Ino) {
        if let Some(notifier) = self.notifier.get() {
            // A negative offset: attributes only, no pages. That the kernel forgot the inode is fine.
            let _ = notifier.inval_inode(convert::number(ino), -1, 0);
        }
    }

    /// The number for an error. Damage is reported: an EIO alone helps nobody.
    pub fn errno(&self, error: &Error) -> Errno {
        if let (Error::Damaged(_) | Error::Medium(_), Some(report)) = (error, &self.options.reporter) {
            report(&error.to_string());
        }
        errno(error)
    }

    /// Tells the kernel of an inode under a name, and counts that.
    pub fn entry(&self, found: Result<Attr>, reply: ReplyEntry) {
        match found {
            Ok(attr) => {
                // Counted before it is told: the kernel may forget at once.
                self.known.learn(attr.ino);
                reply.entry(&FOREVER, &convert::attributes(&attr), Generation(attr.generation.into()));
            }
            Err(error) => reply.error(self.errno(&error)),
        }
    }

    /// Flags for a file just opened.
    pub fn open_flags(&self) -> FopenFlags {
        // Mostly nothing is left to write when a file is closed, unless the kernel collects writes; then it
        // ignores this flag.
        let mut flags = FopenFlags::empty();
        flags.set(FopenFlags::FOPEN_NOFLUSH, !V::ASKS_AT_CLOSE);
        if self.options.direct_io {
            flags | FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
        } else {
            flags | FopenFlags::FOPEN_KEEP_CACHE
        }
    }

    /// The open file of a handle.
    pub fn file(&self, handle: FileHandle) -> Result<V::Open, Errno> {
        self.handles.get(handle).ok_or(Errno::EBADF)
    }

    /// What a new object starts with. In a directory with the set-group-id bit it gets the directory's
    /// group, and a directory gets the bit.
    pub fn meta(&self, request: &Request, parent: Ino, kind: FileType, mode: u32, rdev: u32) -> Result<Meta> {
        let above = self.volume.attributes(parent)?;
        let mut permissions = (mode & 0o7777) as u16;
        let mut gid = request.gid();
        if above.permissions & S_ISGID != 0 {
            gid = above.gid;
            if kind == FileType::Directory {
                permissions |= S_ISGID;
            }
        }
        Ok(Meta { kind, permissions, uid: request.uid(), gid, rdev })
    }

    /// A hold on what a name refers to, if the kernel knows it: losing its last name must not free its
    /// number. The kernel holds the directory's lock meanwhile, so the name stays what it is.
    pub fn hold(&self, parent: Ino, name: &[u8]) -> Option<(Ino, V::Open)> {
        let attr = self.volume.lookup(parent, name).ok()?;
        if !self.known.knows(attr.ino) {
            return None;
        }
        Some((attr.ino, self.volume.open(attr.ino).ok()?))
    }

    pub fn rename(&self, from: Ino, name: &[u8], to: Ino, new_name: &[u8], how: Rename) -> Result<()> {
        let replaced = if how == Rename::Replace { self.hold(to, new_name) } else { None };
        self.volume.rename(from, name, to, new_name, how)?;
        if let Some((ino, file)) = replaced {
            self.known.pin(ino, file);
        }
        Ok(())
    }

    /// The bits that are lost when somebody without privileges changes a file's content.
    fn without_privileges(permissions: u16) -> u16 {
        let lost = if permissions & S_IXGRP != 0 { S_ISUID | S_ISGID } else { S_ISUID };
        permissions & !lost
    }

    /// Takes a file's set-id bits away after its content was changed. Whether they were there.
    pub fn drop_privileges(&self, file: &V::Open) -> Result<bool> {
        let permissions = self.volume.attributes_of(file)?.permissions;
        let kept = Self::without_privileges(permissions);
        if kept == permissions {
            return Ok(false);
        }
        self.volume.set_attributes(V::ino(file), &SetAttr { permissions: Some(kept), ..SetAttr::default() })?;
        Ok(true)
    }

    /// Changes attributes, and drops the set-id bits with them where Linux does.
    pub fn set_attributes(&self, uid: u32, ino: Ino, mut change: SetAttr) -> Result<Attr> {
        let owner_changes = change.uid.is_some() || change.gid.is_some();
        let content_changes = change.size.is_some() && uid != 0;
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
            entries.push(Entry { name: name.to_vec(), ino, kind, cookie });
            entries.len() < SOME
        })?;
        Ok(entries)
    }

    /// Copies bytes between files without the kernel. Stops early rather than keep others waiting.
    pub fn copy(&self, from: &V::Open, at: u64, into: &V::Open, to: u64, bytes: u64) -> Result<u64> {
        const AT_ONCE: u64 = 1 << 20;
        const AT_MOST: u64 = 64 << 20;
        let bytes = bytes.min(AT_MOST);
        let mut buffer = vec![0; bytes.min(AT_ONCE) as usize];
        let mut done = 0;
        while done < bytes {
            let wanted = (bytes - done).min(AT_ONCE) as usize;
            let got = self.volume.read(from, &mut buffer[..wanted], at + done)?;
            if got == 0 {
                break;
            }
            match self.volume.write(into, &buffer[..got], to + done) {
                Ok(_) => done += got as u64,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    pub fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let asked = if ino == ROOT { self.volume.asked(&self.options.source, name) } else { None };
        asked.unwrap_or_else(|| self.volume.get_xattr(ino, name))
    }

    pub fn set_xattr(&self, uid: u32, ino: Ino, name: &[u8], value: &[u8], flags: i32) -> Result<()> {
        if let Some(done) = (ino == ROOT).then(|| self.volume.told(uid, name, value)).flatten() {
            return done;
        }
        // XATTR_CREATE and XATTR_REPLACE.
        let how = match flags {
            0 => SetXattr::Any,
            1 => SetXattr::Create,
            2 => SetXattr::Replace,
            _ => return Err(Error::Invalid),
        };
        self.volume.set_xattr(ino, name, value, how)
    }
}

/// The kernel's number as the volume's.
pub(crate) fn ino(number: INodeNo) -> Ino {
    convert::ino(number)
}
