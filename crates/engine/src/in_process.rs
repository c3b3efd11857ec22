//! A volume that is open in this process: no kernel is between, but for the driver of a chip.

use crate::{NoMap, Touch, Tree};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_media::{MapOptions, Mapped, Region};
use pocketstone_scmfs::OpenOptions;
use pocketstone_vfs::{Allocate, Held, Ino, Meta, Operations, ROOT, Rename, SetAttr};
use pocketstone_workload::Purpose;
use std::ffi::CStr;
use std::path::Path;

/// The files of an SCMFS volume.
pub type ScmfsTree = VolumeTree<pocketstone_scmfs::Volume>;
/// The files of a YAFFS2 volume. One call at a time goes to it.
pub type Yaffs2Tree = VolumeTree<pocketstone_yaffs2::Volume>;

/// A file of such a volume: while it is open its inode stays, even without a name.
pub type VolumeFile<'v, V> = Held<&'v V>;

/// A volume whose files can be a [`Tree`]: it says how they are mapped.
pub trait InProcess: Operations<Handle: Send> + Send + Sync + Sized + 'static {
    /// A file whose bytes are read where they lie.
    type Map<'v>: Touch;

    /// Maps a file.
    ///
    /// # Errors
    /// `ErrorKind::User` if the volume does not support views of its files.
    fn map(file: VolumeFile<'_, Self>) -> Result<Self::Map<'_>>;

    /// As [`Tree::allocate`].
    ///
    /// # Errors
    /// `ErrorKind::Board` if there is no space.
    fn allocate(file: &VolumeFile<'_, Self>, bytes: u64) -> Result<()> {
        let _ = (file, bytes);
        Ok(())
    }

    /// As [`Tree::fragmented_files`].
    fn fragmented_files(&self) -> Option<u64> {
        None
    }
}

/// Opens an SCMFS volume in a file, all of its memory mapped: storage class memory is there from the start.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be mapped, is in use, or is no volume.
pub fn open_scmfs(path: &Path, options: &OpenOptions) -> Result<pocketstone_scmfs::Volume> {
    let region = Mapped::open(path, &MapOptions::default())?;
    region.touch(0, region.bytes());
    Ok(pocketstone_scmfs::Volume::open(Box::new(region), options)?)
}

/// An open volume, from its root directory on.
pub struct VolumeTree<V>(V);

impl<V: InProcess> VolumeTree<V> {
    /// Takes an open volume.
    pub fn new(volume: V) -> Self {
        VolumeTree(volume)
    }

    /// Gives the volume back.
    pub fn into_volume(self) -> V {
        self.0
    }

    /// The directory that a path's last name is in, and that name.
    #[inline]
    fn parent<'a>(&self, path: &'a CStr) -> Result<(Ino, &'a [u8])> {
        let (mut directory, mut rest) = (ROOT, path.to_bytes());
        while let Some(slash) = rest.iter().position(|byte| *byte == b'/') {
            let found = self.0.lookup(directory, &rest[..slash]).board(|| "the volume has no such folder".into())?;
            (directory, rest) = (found.ino, &rest[slash + 1..]);
        }
        Ok((directory, rest))
    }

    fn find(&self, path: &CStr) -> Result<VolumeFile<'_, V>> {
        let (directory, name) = self.parent(path)?;
        let found = self.0.lookup(directory, name).and_then(|found| Held::open(&self.0, found.ino));
        found.board(|| "the volume cannot open a file".into())
    }
}

impl<V: InProcess> Tree for VolumeTree<V> {
    type File<'t> = VolumeFile<'t, V>;
    type Map<'t> = V::Map<'t>;

    fn free_bytes(&self) -> Result<u64> {
        let found = self.0.statfs().board(|| "the volume cannot say what is free".into())?;
        Ok(found.free_blocks * u64::from(found.block_bytes))
    }

    fn fragmented_files(&self) -> Option<u64> {
        self.0.fragmented_files()
    }

    fn create(&self, path: &CStr) -> Result<VolumeFile<'_, V>> {
        let (directory, name) = self.parent(path)?;
        let made = self.0.create_file(directory, name, &Meta::file(0o644));
        Ok(Held::new(&self.0, made.board(|| "the volume cannot create a file".into())?))
    }

    fn open(&self, path: &CStr, purpose: Purpose) -> Result<VolumeFile<'_, V>> {
        match purpose {
            Purpose::New => self.create(path),
            Purpose::Read | Purpose::Write | Purpose::Append | Purpose::Direct => self.find(path),
        }
    }

    fn open_anew(&self, path: &CStr) -> Result<VolumeFile<'_, V>> {
        let file = self.find(path)?;
        self.truncate(&file, 0).map(|()| file)
    }

    #[inline]
    fn read(&self, file: &VolumeFile<'_, V>, into: &mut [u8], offset: u64) -> Result<usize> {
        self.0.read_at(file, into, offset).board(|| "the volume cannot read".into())
    }

    #[inline]
    fn write(&self, file: &VolumeFile<'_, V>, from: &[u8], offset: u64) -> Result<usize> {
        self.0.write_at(file, from, offset).board(|| "the volume cannot write".into())
    }

    #[inline]
    fn append(&self, file: &VolumeFile<'_, V>, from: &[u8]) -> Result<usize> {
        Ok(self.0.append(file, from).board(|| "the volume cannot append".into())?.0)
    }

    fn append_what_fits(&self, file: &VolumeFile<'_, V>, from: &[u8]) -> Result<usize> {
        match self.0.append(file, from) {
            Err(pocketstone_vfs::Error::NoSpace) => Ok(0),
            other => Ok(other.board(|| "the volume cannot append".into())?.0),
        }
    }

    fn truncate(&self, file: &VolumeFile<'_, V>, bytes: u64) -> Result<()> {
        self.0.truncate(file, bytes).board(|| "the volume cannot truncate".into())
    }

    fn allocate(&self, file: &VolumeFile<'_, V>, bytes: u64) -> Result<()> {
        V::allocate(file, bytes)
    }

    fn sync(&self, file: &VolumeFile<'_, V>) -> Result<()> {
        self.0.sync(file).board(|| "the volume cannot sync".into())
    }

    fn set_owner(&self, file: &VolumeFile<'_, V>) -> Result<()> {
        // What this process makes in a volume is root's.
        let change = SetAttr::default().uid(Some(0)).gid(Some(0));
        let changed = self.0.set_attributes(self.0.ino(file), &change);
        changed.map(drop).board(|| "the volume cannot change attributes".into())
    }

    fn sync_folder(&self) -> Result<()> {
        let folder = Held::open(&self.0, ROOT).board(|| "the volume cannot open its folder".into())?;
        self.sync(&folder)
    }

    fn unlink(&self, path: &CStr) -> Result<()> {
        let (directory, name) = self.parent(path)?;
        self.0.unlink(directory, name).board(|| "the volume cannot delete".into())
    }

    fn rename(&self, from: &CStr, to: &CStr) -> Result<()> {
        let ((from, old), (to, new)) = (self.parent(from)?, self.parent(to)?);
        self.0.rename(from, old, to, new, Rename::Replace).board(|| "the volume cannot rename".into())
    }

    fn stat(&self, path: &CStr) -> Result<u64> {
        let (directory, name) = self.parent(path)?;
        Ok(self.0.lookup(directory, name).board(|| "the volume cannot find the name".into())?.size)
    }

    fn attributes(&self, file: &VolumeFile<'_, V>) -> Result<u64> {
        Ok(self.0.attributes(self.0.ino(file)).board(|| "the volume cannot say a file's attributes".into())?.size)
    }

    fn mkdir(&self, path: &CStr) -> Result<()> {
        let (directory, name) = self.parent(path)?;
        let made = self.0.create_directory(directory, name, &Meta::directory(0o755));
        made.map(|_| ()).board(|| "the volume cannot create a directory".into())
    }

    fn list(&self) -> Result<u64> {
        let mut names = 0;
        let mut count = |_: &_| {
            names += 1;
            true
        };
        self.0.read_directory(ROOT, 0, &mut count).board(|| "the volume cannot list".into())?;
        Ok(names)
    }

    fn map(&self, path: &CStr) -> Result<V::Map<'_>> {
        V::map(self.find(path)?)
    }
}

impl InProcess for pocketstone_scmfs::Volume {
    type Map<'v> = ScmfsMap<'v>;

    fn map(file: VolumeFile<'_, Self>) -> Result<ScmfsMap<'_>> {
        Ok(ScmfsMap(file))
    }

    fn allocate(file: &VolumeFile<'_, Self>, bytes: u64) -> Result<()> {
        file.allocate(Allocate::Extend, 0, bytes).board(|| "the volume cannot reserve space".into())
    }

    fn fragmented_files(&self) -> Option<u64> {
        Some(u64::from(self.usage().listed_files))
    }
}

/// A file of an SCMFS volume, to be touched by views.
pub struct ScmfsMap<'v>(VolumeFile<'v, pocketstone_scmfs::Volume>);

impl Touch for ScmfsMap<'_> {
    fn touch(&self, offset: u64, bytes: u64) -> Result<()> {
        let view = self.0.view().board(|| "the volume cannot view a file".into())?;
        let range = usize::try_from(offset).ok().zip(usize::try_from(bytes).ok());
        let range = range.and_then(|(offset, bytes)| view.get(offset..offset.checked_add(bytes)?));
        let Some(range) = range else {
            return Err(Error::board(format!("{bytes} bytes at {offset} are not in a file of {}", view.len())));
        };
        crate::mapping::touch(range, offset);
        Ok(())
    }
}

impl InProcess for pocketstone_yaffs2::Volume {
    type Map<'v> = NoMap;

    fn map(_: VolumeFile<'_, Self>) -> Result<NoMap> {
        Err(Error::user("a mapping is unsupported on yaffs2 in process").hint("set volume_access = \"fuse\" for it"))
    }
}
