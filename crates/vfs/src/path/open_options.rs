use super::{File, FileSystem, LINKS_MAX};
use crate::{Attr, Error, FileType, Held, Meta, Operations, Result};
use std::ops::Deref;

/// Options for opening a file, like [`std::fs::OpenOptions`].
#[derive(Debug, Clone)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u16,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions::new()
    }
}

impl OpenOptions {
    /// Options with no access mode set.
    pub fn new() -> OpenOptions {
        OpenOptions {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o644,
        }
    }

    /// Opens for reading.
    pub fn read(&mut self, read: bool) -> &mut OpenOptions {
        self.read = read;
        self
    }

    /// Opens for writing at the position.
    pub fn write(&mut self, write: bool) -> &mut OpenOptions {
        self.write = write;
        self
    }

    /// Opens for appending.
    pub fn append(&mut self, append: bool) -> &mut OpenOptions {
        self.append = append;
        self
    }

    /// Truncates the file. Requires [`OpenOptions::write`].
    pub fn truncate(&mut self, truncate: bool) -> &mut OpenOptions {
        self.truncate = truncate;
        self
    }

    /// Creates the file if missing. Requires [`OpenOptions::write`] or [`OpenOptions::append`].
    pub fn create(&mut self, create: bool) -> &mut OpenOptions {
        self.create = create;
        self
    }

    /// Creates the file, and fails if the path exists.
    pub fn create_new(&mut self, create_new: bool) -> &mut OpenOptions {
        self.create_new = create_new;
        self
    }

    /// Permission bits of a new file; defaults to `0o644`.
    pub fn mode(&mut self, mode: u16) -> &mut OpenOptions {
        self.mode = mode;
        self
    }

    /// Opens a file, which borrows the volume.
    ///
    /// # Errors
    /// `Invalid` for contradicting options, as in the standard library; `NotFound`, `Exists`, `IsDirectory`,
    /// `NotDirectory`, `NameTooLong`, `TooManySymlinks`, `NoSpace`, `ReadOnly`, `NotPermitted`.
    pub fn open<'a, V: Operations>(&self, fs: &'a FileSystem<V>, path: impl AsRef<[u8]>) -> Result<File<&'a V>> {
        self.open_in(&fs.volume, path)
    }

    /// Opens a file, which holds the volume by any pointer to it. With an [`Arc`](std::sync::Arc) it can be kept beside
    /// its volume, and moved to a thread.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open_in<P>(&self, volume: P, path: impl AsRef<[u8]>) -> Result<File<P>>
    where
        P: Deref,
        P::Target: Operations + Sized,
    {
        let writes = self.write || self.append;
        let destroys = self.truncate && !self.create_new;
        if !writes && (self.read, self.create || self.create_new || self.truncate) != (true, false)
            || self.append && destroys
        {
            return Err(Error::Invalid);
        }
        let (handle, found) = self.open_handle(&FileSystem::new(&*volume), path.as_ref())?;
        let held = Held::new(volume, handle);
        if self.truncate && found == Some(FileType::Regular) {
            Held::volume(&held).truncate(&held, 0)?;
        }
        Ok(File::new(held, (self.read, self.write, self.append)))
    }

    /// The handle of what is there, with its kind, or of what was made.
    fn open_handle<V: Operations>(&self, fs: &FileSystem<V>, path: &[u8]) -> Result<(V::Handle, Option<FileType>)> {
        if self.create_new {
            return self.make(fs, path);
        }
        match fs.metadata(path) {
            Err(Error::NotFound) if self.create => self.open_or_make(fs, path.to_vec()),
            found => open_found(fs, &found?),
        }
    }

    /// Makes what was not there.
    fn open_or_make<V: Operations>(
        &self,
        fs: &FileSystem<V>,
        mut path: Vec<u8>,
    ) -> Result<(V::Handle, Option<FileType>)> {
        for _ in 0..=LINKS_MAX {
            match self.make(fs, &path) {
                Err(Error::Exists) => {}
                made => return made,
            }
            match fs.metadata(&path) {
                Err(Error::NotFound) => {}
                // Somebody else made it meanwhile.
                found => return open_found(fs, &found?),
            }
            match fs.read_link(&path) {
                // A link to nothing: that is made.
                Ok(target) => path = beside(&path, &target),
                // What somebody else made is gone again.
                Err(Error::NotFound | Error::Invalid) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::TooManySymlinks)
    }

    fn make<V: Operations>(&self, fs: &FileSystem<V>, path: &[u8]) -> Result<(V::Handle, Option<FileType>)> {
        if path.ends_with(b"/") {
            return Err(Error::IsDirectory);
        }
        let place = fs.new_place(path, FileType::Regular)?;
        let handle = fs.volume.create_file(place.directory, &place.name, &Meta::file(self.mode))?;
        Ok((handle, None))
    }
}

fn open_found<V: Operations>(fs: &FileSystem<V>, attr: &Attr) -> Result<(V::Handle, Option<FileType>)> {
    if attr.kind == FileType::Directory {
        return Err(Error::IsDirectory);
    }
    Ok((fs.volume.open(attr.ino)?, Some(attr.kind)))
}

/// The path that a symbolic link's target is, which is relative to the link's directory.
fn beside(link: &[u8], target: &[u8]) -> Vec<u8> {
    let directory = link.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let start = if target.starts_with(b"/") { &[] } else { &link[..directory] };
    [start, target].concat()
}
