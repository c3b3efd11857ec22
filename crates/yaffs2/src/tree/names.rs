//! Objects by their names, and what is to be known of them.

use super::Tree;
use super::header::NAME_BYTES;
use super::objects::UNLINKED_ID;
use crate::log::tags::Kind;
use pocketstone_vfs::{Attr, Entry, Error, FileType, Ino, Result};

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

impl Tree {
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
                // One that leads to a directory, or to another one, is damage: a tree of them would have no end.
                let kind = self.objects.get(target).map(|target| target.kind);
                match kind.filter(|kind| !matches!(kind, Kind::Directory | Kind::HardLink)) {
                    Some(_) => Ok(target),
                    None => Err(Error::NotFound),
                }
            }
            Some(_) => Ok(id),
            None => Err(Error::NotFound),
        }
    }

    /// An inode's attributes.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such inode; when its header cannot be read.
    pub(crate) fn attributes(&mut self, ino: Ino) -> Result<Attr> {
        let detail = self.load(ino)?.clone();
        let chunks = u64::from(self.count_chunks(ino));
        let object = self.objects.get(ino).ok_or(Error::NotFound)?;
        let links = match object.kind {
            _ if object.parent == UNLINKED_ID => 0,
            Kind::Directory => 2 + self.objects.subdirectories(ino),
            _ => 1 + self.links.get(&ino).map_or(0, |links| links.len() as u32),
        };
        let chunk = self.log.chip.data_bytes() as u64;
        let (size, allocated) = match object.kind {
            Kind::File => (object.value, chunks * chunk),
            Kind::Symlink => (detail.target.len() as u64, 0),
            _ => (chunk, 0),
        };
        Ok(Attr::new(ino, file_type(object.kind, detail.mode))
            .permissions((detail.mode & 0o7777) as u16)
            .links(links)
            .uid(detail.uid)
            .gid(detail.gid)
            .rdev(detail.rdev)
            .size(size)
            .allocated(allocated)
            .atime_ns(detail.atime_s.saturating_mul(NS))
            .mtime_ns(detail.mtime_s.saturating_mul(NS))
            .ctime_ns(detail.ctime_s.saturating_mul(NS))
            .btime_ns(detail.ctime_s.saturating_mul(NS)))
    }

    /// An object as an entry of its directory, if it is in there and names something.
    pub(crate) fn entry(&mut self, directory: Ino, id: u32) -> Result<Option<Entry>> {
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
        Ok(Some(Entry::new(name, ino, file_type(stored, mode), self.objects.place(id).into())))
    }
}
