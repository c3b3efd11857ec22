//! What a volume does by inode numbers, as any other file system.

use super::{File, Volume};
use crate::operations::{names, unlink};
use pocketstone_vfs::{Attr, Entry, Ino, Meta, Operations, Rename, Result, SetAttr, Statfs};

/// Any of these may find that a header is `Damaged`, or that the chip fails: `Medium`.
impl Operations for Volume {
    type Handle = File;

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.shared.with(|mounted| names::lookup(&mut mounted.files, parent, name))
    }

    fn parent(&self, directory: Ino) -> Result<Ino> {
        self.shared.with(|mounted| names::parent(&mut mounted.files, directory))
    }

    fn attributes(&self, ino: Ino) -> Result<Attr> {
        self.shared.with(|mounted| mounted.files.tree.attributes(ino))
    }

    /// Times have whole seconds. `Invalid` if the inode cannot have a size.
    fn set_attributes(&self, ino: Ino, change: &SetAttr) -> Result<Attr> {
        self.shared.with(|mounted| names::set_attributes(&mut mounted.files, ino, change))
    }

    /// A regular file, a pipe, a socket or a device: `Invalid` for other kinds.
    fn create_file(&self, parent: Ino, name: &[u8], meta: &Meta) -> Result<File> {
        let made = self.shared.with(|mounted| {
            let ino = names::create_file(&mut mounted.files, parent, name, meta)?.ino;
            unlink::hold(&mut mounted.files, ino).map(|()| ino)
        });
        Ok(File::held(&self.shared, made?))
    }

    fn create_directory(&self, parent: Ino, name: &[u8], meta: &Meta) -> Result<Attr> {
        self.shared.with(|mounted| names::create_directory(&mut mounted.files, parent, name, meta))
    }

    /// `NameTooLong` for targets longer than 159 bytes, the format's limit.
    fn create_symlink(&self, parent: Ino, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<Attr> {
        self.shared.with(|mounted| names::create_symlink(&mut mounted.files, parent, name, target, uid, gid))
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>> {
        self.shared.with(|mounted| names::read_link(&mut mounted.files, ino))
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.shared.with(|mounted| names::link(&mut mounted.files, ino, parent, name))
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.shared.with(|mounted| unlink::unlink(&mut mounted.files, parent, name))
    }

    /// `NotPermitted` for directories that always exist.
    fn remove_directory(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.shared.with(|mounted| unlink::remove_directory(&mut mounted.files, parent, name))
    }

    /// `Invalid` for [`Rename::Exchange`] and [`Rename::Whiteout`], which are not supported.
    fn rename(&self, from: Ino, name: &[u8], to: Ino, new_name: &[u8], how: Rename) -> Result<()> {
        self.shared.with(|mounted| unlink::rename(&mut mounted.files, from, name, to, new_name, how))
    }

    fn read_directory(&self, ino: Ino, cookie: u64, take: &mut dyn FnMut(&Entry) -> bool) -> Result<()> {
        self.shared.with(|mounted| names::read_directory(&mut mounted.files, ino, cookie, take))
    }

    fn open(&self, ino: Ino) -> Result<File> {
        self.shared.with(|mounted| unlink::hold(&mut mounted.files, ino))?;
        Ok(File::held(&self.shared, ino))
    }

    fn release(&self, file: File) {
        drop(file);
    }

    fn ino(&self, file: &File) -> Ino {
        file.ino()
    }

    fn read_at(&self, file: &File, into: &mut [u8], offset: u64) -> Result<usize> {
        file.read_at(into, offset)
    }

    fn write_at(&self, file: &File, from: &[u8], offset: u64) -> Result<usize> {
        file.write_at(from, offset)
    }

    fn append(&self, file: &File, from: &[u8]) -> Result<(usize, u64)> {
        file.append(from)
    }

    fn sync(&self, file: &File) -> Result<()> {
        file.sync()
    }

    fn sync_all(&self) -> Result<()> {
        self.shared.with(|mounted| mounted.sync_all())
    }

    fn statfs(&self) -> Result<Statfs> {
        self.shared.with(|mounted| Ok(mounted.statfs()))
    }
}
