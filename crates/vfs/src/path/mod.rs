//! Path-based access to a volume, modelled on the standard library.

mod file;
mod open_options;
mod read_dir;

pub use file::File;
pub use open_options::OpenOptions;
pub use read_dir::ReadDir;

use crate::{Attr, Error, FileType, Ino, Meta, Operations, ROOT, Rename, Result, SetAttr, Statfs};

/// Maximum number of symbolic links followed in a path, as in Linux.
const LINKS_MAX: u32 = 40;

/// Path-based access to a volume.
///
/// A path is bytes, such as a `&str`: names separated by `/`, relative to the root with or without a leading `/`; `.`,
/// `..` and symbolic links work as in open(2). Permissions are not checked.
#[derive(Debug)]
pub struct FileSystem<V> {
    volume: V,
}

/// Where a path leads: a name in a directory.
struct Place {
    directory: Ino,
    name: Vec<u8>,
}

impl<V: Operations> FileSystem<V> {
    /// Wraps a volume.
    pub fn new(volume: V) -> FileSystem<V> {
        FileSystem { volume }
    }

    /// The volume, for operations without a path.
    pub fn volume(&self) -> &V {
        &self.volume
    }

    /// Returns the volume, to close it.
    pub fn into_volume(self) -> V {
        self.volume
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(&self, path: impl AsRef<[u8]>) -> Result<File<&V>> {
        OpenOptions::new().read(true).open(self, path)
    }

    /// Opens a file for writing, creating it if missing and truncating it otherwise.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn create(&self, path: impl AsRef<[u8]>) -> Result<File<&V>> {
        OpenOptions::new().write(true).create(true).truncate(true).open(self, path)
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// As [`OpenOptions::open`] and [`File::read_at`]; `TooLarge` if there is no memory for it.
    pub fn read(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let file = self.open(path)?;
        let size = usize::try_from(file.metadata()?.size).map_err(|_| Error::TooLarge)?;
        // A hole may be longer than there is memory.
        Vec::<u8>::new().try_reserve_exact(size).map_err(|_| Error::TooLarge)?;
        let mut content = vec![0; size];
        let mut done = 0;
        while done < content.len() {
            match file.read_at(&mut content[done..], done as u64)? {
                // It was cut meanwhile.
                0 => break,
                bytes => done += bytes,
            }
        }
        content.truncate(done);
        Ok(content)
    }

    /// Writes `content` as the whole contents of a file, creating it if missing.
    ///
    /// # Errors
    /// As [`OpenOptions::open`] and [`File::write_at`].
    pub fn write(&self, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Result<()> {
        self.create(path)?.write_all_at(content.as_ref(), 0)
    }

    /// Attributes of a path's target, following symbolic links.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NameTooLong`, `TooManySymlinks`.
    pub fn metadata(&self, path: impl AsRef<[u8]>) -> Result<Attr> {
        self.find(path.as_ref(), true)
    }

    /// As [`FileSystem::metadata`], without following a final symbolic link.
    ///
    /// # Errors
    /// As [`FileSystem::metadata`].
    pub fn symlink_metadata(&self, path: impl AsRef<[u8]>) -> Result<Attr> {
        self.find(path.as_ref(), false)
    }

    /// Whether a path exists.
    ///
    /// # Errors
    /// As [`FileSystem::metadata`], except `NotFound`.
    pub fn exists(&self, path: impl AsRef<[u8]>) -> Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(Error::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sets the permission bits, `0o7777`, of a path's target.
    ///
    /// # Errors
    /// As [`FileSystem::metadata`]; `NoSpace`, `ReadOnly`, `NotPermitted`.
    pub fn set_permissions(&self, path: impl AsRef<[u8]>, permissions: u16) -> Result<()> {
        let ino = self.metadata(path)?.ino;
        let change = SetAttr { permissions: Some(permissions), ..SetAttr::default() };
        self.volume.set_attributes(ino, &change).map(drop)
    }

    /// The entries of a directory, unordered.
    ///
    /// # Errors
    /// As [`FileSystem::metadata`]; `NotDirectory` also for the target of the path.
    pub fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<ReadDir<'_, V>> {
        let attr = self.metadata(path)?;
        if attr.kind == FileType::Directory {
            Ok(ReadDir::new(&self.volume, attr.ino))
        } else {
            Err(Error::NotDirectory)
        }
    }

    /// Creates a directory, with the permissions `0o755`.
    ///
    /// # Errors
    /// `Exists`, `NotFound`, `NotDirectory`, `NameTooLong`, `NoSpace`, `ReadOnly`.
    pub fn create_dir(&self, path: impl AsRef<[u8]>) -> Result<()> {
        let place = self.new_place(path.as_ref(), FileType::Directory)?;
        self.volume.create_directory(place.directory, &place.name, &Meta::directory(0o755)).map(drop)
    }

    /// Creates a directory and its missing parents.
    ///
    /// # Errors
    /// As [`FileSystem::create_dir`]; `Exists` only if something other than a directory exists.
    pub fn create_dir_all(&self, path: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        let ends = (1..=path.len()).filter(|&at| at == path.len() || path[at] == b'/');
        for part in ends.map(|end| &path[..end]) {
            match self.metadata(part) {
                Ok(attr) if attr.kind == FileType::Directory => {}
                Ok(_) => return Err(Error::Exists),
                Err(Error::NotFound) => self.create_dir(part)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NotEmpty`, `ReadOnly`.
    pub fn remove_dir(&self, path: impl AsRef<[u8]>) -> Result<()> {
        let place = self.old_place(path.as_ref())?.ok_or(Error::Invalid)?;
        self.volume.remove_directory(place.directory, &place.name)
    }

    /// Removes a name that is not a directory's. The file is deleted with its last name and last open [`File`].
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `IsDirectory`, `ReadOnly`.
    pub fn remove_file(&self, path: impl AsRef<[u8]>) -> Result<()> {
        let place = self.old_place(path.as_ref())?.ok_or(Error::IsDirectory)?;
        self.volume.unlink(place.directory, &place.name)
    }

    /// Renames an object, replacing an existing file or empty directory.
    ///
    /// # Errors
    /// As rename(2): `NotFound`, `NotEmpty`, `IsDirectory`, `NotDirectory`, `NoSpace`, `ReadOnly`; `Invalid` if a
    /// directory would move into itself; `Busy` if one of the paths ends with `.` or `..`, or is the root.
    pub fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        let directory = from.as_ref().ends_with(b"/") || to.as_ref().ends_with(b"/");
        // Both paths have to lead somewhere before it counts whether they end with names.
        let (from, to) = (self.reached_place(from.as_ref())?, self.reached_place(to.as_ref())?);
        let (from, to) = (from.ok_or(Error::Busy)?, to.ok_or(Error::Busy)?);
        if directory && self.volume.lookup(from.directory, &from.name)?.kind != FileType::Directory {
            return Err(Error::NotDirectory);
        }
        self.volume.rename(from.directory, &from.name, to.directory, &to.name, Rename::Replace)
    }

    /// Creates a hard link. Symbolic links are not followed.
    ///
    /// # Errors
    /// `Exists`, `NotFound`, `NotPermitted` for directories, `TooManyLinks`, `NoSpace`, `ReadOnly`.
    pub fn hard_link(&self, original: impl AsRef<[u8]>, link: impl AsRef<[u8]>) -> Result<()> {
        let original = self.symlink_metadata(original)?.ino;
        let place = self.new_place(link.as_ref(), FileType::Regular)?;
        self.volume.link(original, place.directory, &place.name).map(drop)
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// As [`FileSystem::create_dir`]; `NameTooLong` also for the target.
    pub fn symlink(&self, target: impl AsRef<[u8]>, link: impl AsRef<[u8]>) -> Result<()> {
        let place = self.new_place(link.as_ref(), FileType::Symlink)?;
        self.volume.create_symlink(place.directory, &place.name, target.as_ref(), 0, 0).map(drop)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// As [`FileSystem::metadata`]; `Invalid` if it is not a symbolic link.
    pub fn read_link(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let attr = self.symlink_metadata(path)?;
        if attr.kind == FileType::Symlink { self.volume.read_link(attr.ino) } else { Err(Error::Invalid) }
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// `Medium` if the medium fails.
    pub fn sync_all(&self) -> Result<()> {
        self.volume.sync_all()
    }

    /// Space and inode counts.
    ///
    /// # Errors
    /// `Medium` if the volume is unavailable.
    pub fn statfs(&self) -> Result<Statfs> {
        self.volume.statfs()
    }

    /// What a path leads to; through a symbolic link at its end, if that is to be followed or a `/` is behind it.
    fn find(&self, path: &[u8], follow: bool) -> Result<Attr> {
        let mut followed = 0;
        match self.place(path, &mut followed)? {
            None => self.end_of(path, &mut followed),
            Some(place) => {
                let mut attr = self.volume.lookup(place.directory, &place.name)?;
                let is_directory = path.ends_with(b"/");
                if attr.kind == FileType::Symlink && (follow || is_directory) {
                    attr = self.follow(place.directory, attr.ino, &mut followed)?;
                }
                if is_directory && attr.kind != FileType::Directory { Err(Error::NotDirectory) } else { Ok(attr) }
            }
        }
    }

    /// What a path without a last name leads to: one that ends with `.` or `..`, or the root's.
    fn end_of(&self, path: &[u8], followed: &mut u32) -> Result<Attr> {
        let directory = self.walk(ROOT, path, followed)?;
        self.volume.attributes(directory)
    }

    /// The place of a name that is to be made; behind a `/` only a directory can be.
    fn new_place(&self, path: &[u8], kind: FileType) -> Result<Place> {
        if path.is_empty() {
            return Err(Error::NotFound);
        }
        let place = self.place(path, &mut 0)?.ok_or(Error::Exists)?;
        if path.ends_with(b"/") && kind != FileType::Directory {
            self.volume.lookup(place.directory, &place.name)?;
            return Err(Error::Exists);
        }
        Ok(place)
    }

    /// The place of a name that is there; behind a `/` it has to be a directory's.
    fn old_place(&self, path: &[u8]) -> Result<Option<Place>> {
        let place = self.place(path, &mut 0)?;
        if let Some(Place { directory, name }) = place.as_ref().filter(|_| path.ends_with(b"/")) {
            if self.volume.lookup(*directory, name)?.kind != FileType::Directory {
                return Err(Error::NotDirectory);
            }
        }
        Ok(place)
    }

    /// As [`FileSystem::place`], and what comes before a last `.` or `..` is there, too.
    fn reached_place(&self, path: &[u8]) -> Result<Option<Place>> {
        let place = self.place(path, &mut 0)?;
        if place.is_none() {
            self.end_of(path, &mut 0)?;
        }
        Ok(place)
    }

    /// The directory and the name that a path ends with; `None`: it ends with the root, `.` or `..`.
    fn place(&self, path: &[u8], followed: &mut u32) -> Result<Option<Place>> {
        self.place_from(ROOT, path, followed)
    }

    fn place_from(&self, start: Ino, path: &[u8], followed: &mut u32) -> Result<Option<Place>> {
        if path.is_empty() {
            return Err(Error::NotFound);
        }
        let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        let first = path[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let name = &path[first..end];
        if matches!(name, b"" | b"." | b"..") {
            return Ok(None);
        }
        let directory = self.walk(start, &path[..first], followed)?;
        Ok(Some(Place { directory, name: name.to_vec() }))
    }

    /// The directory at the end of a path whose every part leads to one.
    fn walk(&self, start: Ino, path: &[u8], followed: &mut u32) -> Result<Ino> {
        let mut at = if path.starts_with(b"/") { ROOT } else { start };
        for name in path.split(|&byte| byte == b'/') {
            at = match name {
                b"" | b"." => at,
                b".." => self.volume.parent(at)?,
                name => {
                    let mut attr = self.volume.lookup(at, name)?;
                    if attr.kind == FileType::Symlink {
                        attr = self.follow(at, attr.ino, followed)?;
                    }
                    if attr.kind != FileType::Directory {
                        return Err(Error::NotDirectory);
                    }
                    attr.ino
                }
            };
        }
        Ok(at)
    }

    /// What a symbolic link in a directory leads to in the end.
    fn follow(&self, directory: Ino, link: Ino, followed: &mut u32) -> Result<Attr> {
        *followed += 1;
        if *followed > LINKS_MAX {
            return Err(Error::TooManySymlinks);
        }
        let target = self.volume.read_link(link)?;
        let Some(place) = self.place_from(directory, &target, followed)? else {
            let end = self.walk(directory, &target, followed)?;
            return self.volume.attributes(end);
        };
        let attr = self.volume.lookup(place.directory, &place.name)?;
        let is_directory = target.ends_with(b"/");
        match attr.kind {
            FileType::Symlink => self.follow(place.directory, attr.ino, followed),
            kind if is_directory && kind != FileType::Directory => Err(Error::NotDirectory),
            _ => Ok(attr),
        }
    }
}
