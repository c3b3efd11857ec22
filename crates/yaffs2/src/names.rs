//! Names: looking up, listing, creating, linking.

use crate::details::Detail;
use crate::header::{NAME_BYTES, TARGET_BYTES};
use crate::objects::{DELETED_ID, Object, ROOT_ID, UNLINKED_ID};
use crate::tags::Kind;
use crate::volume::Volume;
use pocketstone_core::inode::{Attr, Entry, Error, FileType, Ino, Meta, Result, SetAttr, TimeNs};

const NS: i64 = 1_000_000_000;

/// What an object is for its users.
fn file_type(kind: Kind, mode: u32) -> FileType {
    match kind {
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Special => FileType::of_mode(mode)
            .filter(|kind| matches!(kind, FileType::Fifo | FileType::BlockDevice | FileType::Socket))
            .unwrap_or(FileType::CharDevice),
        _ => FileType::Regular,
    }
}

/// Refuses what no directory can hold.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    match name {
        b"" | b"." | b".." => Err(Error::Invalid),
        _ if name.len() > NAME_BYTES => Err(Error::NameTooLong),
        _ if name.iter().any(|&byte| byte == b'/' || byte == 0) => Err(Error::Invalid),
        _ => Ok(()),
    }
}

impl Volume {
    pub(crate) fn must_be_directory(&self, ino: Ino) -> Result<()> {
        match self.objects.get(ino) {
            Some(object) if object.kind == Kind::Directory => Ok(()),
            Some(_) => Err(Error::NotDirectory),
            None => Err(Error::NotFound),
        }
    }

    /// The object that has a name: a hard link, not what it names.
    pub(crate) fn find(&mut self, parent: Ino, name: &[u8]) -> Result<Option<u32>> {
        self.must_be_directory(parent)?;
        if name.len() > NAME_BYTES {
            return Err(Error::NameTooLong);
        }
        self.name_all(parent)?;
        for id in self.objects.candidates(parent, name) {
            match self.load(id) {
                Ok(detail) if detail.name == name => return Ok(Some(id)),
                Ok(_) => {}
                // What cannot be read has the name that a listing makes up.
                Err(Error::Damaged(_)) if format!("obj{id}").as_bytes() == name => return Ok(Some(id)),
                Err(Error::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// What a hard link names; any other object is itself.
    pub(crate) fn resolve(&self, id: u32) -> Result<u32> {
        match self.objects.get(id) {
            Some(object) if object.kind == Kind::HardLink => {
                let target = object.value as u32;
                if self.objects.get(target).is_some() { Ok(target) } else { Err(Error::NotFound) }
            }
            Some(_) => Ok(id),
            None => Err(Error::NotFound),
        }
    }

    /// What a name in a directory refers to.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such name.
    pub fn lookup(&mut self, parent: Ino, name: &[u8]) -> Result<Attr> {
        let id = self.find(parent, name)?.ok_or(Error::NotFound)?;
        let ino = self.resolve(id)?;
        self.attributes(ino)
    }

    /// An inode's attributes.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such inode; when its header cannot be read.
    pub fn attributes(&mut self, ino: Ino) -> Result<Attr> {
        let detail = self.load(ino)?.clone();
        let object = self.objects.get(ino).ok_or(Error::NotFound)?;
        let links = match object.kind {
            _ if object.parent == UNLINKED_ID => 0,
            Kind::Directory => {
                let is_directory = |id: &u32| self.objects.get(*id).is_some_and(|child| child.kind == Kind::Directory);
                2 + self.objects.children(ino).filter(is_directory).count() as u32
            }
            _ => 1 + self.links.get(&ino).map_or(0, |links| links.len() as u32),
        };
        let chunk = self.chip.data_bytes() as u64;
        let (size, allocated) = match object.kind {
            Kind::File => (object.value, object.map.chunks(self.width).count() as u64 * chunk),
            Kind::Symlink => (detail.target.len() as u64, 0),
            _ => (chunk, 0),
        };
        Ok(Attr {
            ino,
            generation: 0,
            kind: file_type(object.kind, detail.mode),
            permissions: (detail.mode & 0o7777) as u16,
            links,
            uid: detail.uid,
            gid: detail.gid,
            rdev: detail.rdev,
            size,
            allocated,
            atime_ns: detail.atime_s.saturating_mul(NS),
            mtime_ns: detail.mtime_s.saturating_mul(NS),
            ctime_ns: detail.ctime_s.saturating_mul(NS),
            btime_ns: detail.ctime_s.saturating_mul(NS),
        })
    }

    /// The directory that a directory is in; the root's is itself.
    ///
    /// # Errors
    /// When it is no directory.
    pub fn parent(&mut self, directory: Ino) -> Result<Ino> {
        self.must_be_directory(directory)?;
        match self.objects.get(directory).map_or(0, |object| object.parent) {
            0 => Ok(ROOT_ID),
            parent => Ok(parent),
        }
    }

    /// Changes attributes; times have whole seconds.
    ///
    /// # Errors
    /// When the inode is not there, cannot have a size, or there is no space.
    pub fn set_attributes(&mut self, ino: Ino, change: &SetAttr) -> Result<Attr> {
        self.writable()?;
        if let Some(size) = change.size {
            if self.objects.get(ino).is_some_and(|object| object.kind == Kind::Directory) {
                return Err(Error::IsDirectory);
            }
            self.resize(ino, size)?;
        }
        let now = self.now_s();
        let seconds = |ns: TimeNs| ns.div_euclid(NS);
        let detail = self.load(ino)?;
        let before = detail.clone();
        if let Some(permissions) = change.permissions {
            detail.mode = detail.mode & !0o7777 | u32::from(permissions);
        }
        detail.uid = change.uid.unwrap_or(detail.uid);
        detail.gid = change.gid.unwrap_or(detail.gid);
        detail.atime_s = change.atime_ns.map_or(detail.atime_s, seconds);
        detail.mtime_s = change.mtime_ns.map_or(detail.mtime_s, seconds);
        let asks = SetAttr { size: None, ..*change } != SetAttr::default();
        if asks {
            detail.ctime_s = change.ctime_ns.map_or(now, seconds);
            if let Err(error) = self.write_header(ino) {
                self.details.insert(ino, before);
                return Err(error);
            }
        }
        self.attributes(ino)
    }

    /// Something in a directory changed. Its header is written soon.
    pub(crate) fn touch(&mut self, directory: Ino) -> Result<()> {
        let now = self.now_s();
        self.details.changed(directory, now);
        self.listing = None;
        Ok(())
    }

    /// Makes an object of any kind but a symbolic link.
    ///
    /// # Errors
    /// When the name is taken or none, or there is no space.
    pub fn create(&mut self, parent: Ino, name: &[u8], meta: &Meta) -> Result<Attr> {
        let kind = match meta.kind {
            FileType::Regular => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => return Err(Error::Invalid),
            _ => Kind::Special,
        };
        let mode = u32::from(meta.kind.mode_bits()) | u32::from(meta.permissions & 0o7777);
        let mut detail = Detail::new(name, mode, meta.uid, meta.gid, self.now_s());
        if matches!(meta.kind, FileType::CharDevice | FileType::BlockDevice) {
            detail.rdev = meta.rdev;
        }
        let id = self.make(parent, Object::new(kind), detail)?;
        self.attributes(id)
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// As [`Volume::create`]; [`Error::NameTooLong`] for targets longer than 159 bytes, which the format cannot hold.
    pub fn symlink(&mut self, parent: Ino, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<Attr> {
        if target.is_empty() || target.contains(&0) {
            return Err(Error::Invalid);
        }
        if target.len() > TARGET_BYTES && self.find(parent, name)?.is_none() {
            return Err(Error::NameTooLong);
        }
        let mut detail = Detail::new(name, 0o120_777, uid, gid, self.now_s());
        detail.target = target.to_vec();
        let id = self.make(parent, Object::new(Kind::Symlink), detail)?;
        self.attributes(id)
    }

    /// Gives an object one more name.
    ///
    /// # Errors
    /// As [`Volume::create`]; [`Error::NotPermitted`] for directories.
    pub fn link(&mut self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.objects.get(ino).ok_or(Error::NotFound)?;
        // That the name is taken is said first, as Linux does.
        if self.find(parent, name)?.is_some() {
            return Err(Error::Exists);
        }
        let object = self.objects.get(ino).ok_or(Error::NotFound)?;
        if object.kind == Kind::Directory {
            return Err(Error::NotPermitted);
        }
        if object.parent == UNLINKED_ID {
            return Err(Error::NotFound);
        }
        self.may_be_made(parent, name)?;
        self.add_link(ino, parent, name)?;
        self.load(ino)?.ctime_s = self.now_s();
        self.write_header(ino)?;
        self.attributes(ino)
    }

    /// Puts a hard link into a directory, whatever names there are.
    pub(crate) fn add_link(&mut self, ino: Ino, parent: Ino, name: &[u8]) -> Result<u32> {
        let mut link = Object::new(Kind::HardLink);
        link.value = ino.into();
        let id = self.put(parent, link, Detail::new(name, 0, 0, 0, self.now_s()))?;
        self.links.entry(ino).or_default().push(id);
        Ok(id)
    }

    fn make(&mut self, parent: Ino, object: Object, detail: Detail) -> Result<u32> {
        self.may_be_made(parent, &detail.name)?;
        self.put(parent, object, detail)
    }

    /// Whether a directory may get a new name, and there is space for it.
    fn may_be_made(&mut self, parent: Ino, name: &[u8]) -> Result<()> {
        self.writable()?;
        if self.find(parent, name)?.is_some() {
            return Err(Error::Exists);
        }
        check_name(name)?;
        if self.objects.get(parent).is_some_and(|object| object.parent == UNLINKED_ID) {
            return Err(Error::NotFound);
        }
        self.collect(false)?;
        self.check_space(0)
    }

    fn put(&mut self, parent: Ino, object: Object, detail: Detail) -> Result<u32> {
        let name = detail.name.clone();
        let id = self.objects.free_id().ok_or(Error::NoSpace)?;
        self.objects.insert(id, object);
        self.objects.name(id, &name);
        self.objects.attach(id, parent);
        self.details.insert(id, detail);
        if let Err(error) = self.put_header(id, None, 0, false) {
            self.objects.remove(id);
            self.details.remove(id);
            return Err(error);
        }
        self.touch(parent)?;
        Ok(id)
    }

    /// Where a symbolic link points to.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is none.
    pub fn read_link(&mut self, ino: Ino) -> Result<Vec<u8>> {
        match self.objects.get(ino) {
            Some(object) if object.kind == Kind::Symlink => Ok(self.load(ino)?.target.clone()),
            Some(_) => Err(Error::Invalid),
            None => Err(Error::NotFound),
        }
    }

    /// Gives the entries of a directory after a cookie, without "." and "..", until `take` returns false: then that
    /// entry was not taken.
    ///
    /// # Errors
    /// When it is no directory.
    pub fn read_directory(&mut self, ino: Ino, cookie: u64, take: &mut dyn FnMut(&Entry) -> bool) -> Result<()> {
        self.must_be_directory(ino)?;
        if self.listing.as_ref().is_none_or(|(directory, _)| *directory != ino) {
            let mut ids: Vec<u32> = self.objects.children(ino).collect();
            ids.sort_unstable();
            self.listing = Some((ino, ids));
        }
        let Some((_, ids)) = self.listing.take() else { return Ok(()) };
        let from = ids.partition_point(|&id| u64::from(id) <= cookie);
        let mut outcome = Ok(());
        for &id in &ids[from..] {
            let entry = match self.entry(ino, id) {
                Ok(Some(entry)) => entry,
                Ok(None) => continue,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            };
            if !take(&entry) {
                break;
            }
        }
        self.listing = Some((ino, ids));
        outcome
    }

    /// An object as an entry of its directory, if it is in there and names something.
    fn entry(&mut self, directory: Ino, id: u32) -> Result<Option<Entry>> {
        let in_there = self.objects.get(id).is_some_and(|object| object.parent == directory);
        let Ok(ino) = self.resolve(id) else { return Ok(None) };
        if !in_there {
            return Ok(None);
        }
        let name = match self.load(id) {
            Ok(detail) => detail.name.clone(),
            Err(Error::Damaged(_)) => format!("obj{id}").into_bytes(),
            Err(error) => return Err(error),
        };
        let stored = self.objects.get(ino).map_or(Kind::Unknown, |object| object.kind);
        let mode = match stored {
            Kind::Special => self.load(ino).map_or(0, |detail| detail.mode),
            _ => 0,
        };
        Ok(Some(Entry { name, ino, kind: file_type(stored, mode), cookie: id.into() }))
    }

    /// Whether an object is one of those that are always there.
    pub(crate) fn is_fixed(id: u32) -> bool {
        id <= DELETED_ID
    }
}
