//! SCMFS as it is mounted: it locks inode by inode, so nothing is added here.

use crate::control;
use crate::mountable::Mountable;
use pocketstone_scmfs::{
    Allocate, Attr, Entry, File, FileType, Ino, Meta, Rename, Result, SetAttr, SetXattr, Statfs, Volume,
};
use std::sync::Arc;

impl Mountable for Volume {
    type Open = File;

    const SUBTYPE: &'static str = "scmfs";

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        Volume::lookup(self, parent, name)
    }

    fn attributes(&self, ino: Ino) -> Result<Attr> {
        Volume::attributes(self, ino)
    }

    fn parent(&self, directory: Ino) -> Result<Ino> {
        Volume::parent(self, directory)
    }

    fn set_attributes(&self, ino: Ino, change: &SetAttr) -> Result<Attr> {
        Volume::set_attributes(self, ino, change)
    }

    fn create(self: &Arc<Self>, parent: Ino, name: &[u8], meta: &Meta) -> Result<Attr> {
        match meta.kind {
            FileType::Directory => self.create_directory(parent, name, meta),
            _ => self.create_file(parent, name, meta).map(|file| file.attributes()),
        }
    }

    fn create_open(self: &Arc<Self>, parent: Ino, name: &[u8], meta: &Meta) -> Result<(Attr, File)> {
        self.create_file(parent, name, meta).map(|file| (file.attributes(), file))
    }

    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<Attr> {
        self.create_symlink(parent, name, target, uid, gid)
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>> {
        Volume::read_link(self, ino)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        Volume::link(self, ino, parent, name)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        Volume::unlink(self, parent, name)
    }

    fn remove_directory(&self, parent: Ino, name: &[u8]) -> Result<()> {
        Volume::remove_directory(self, parent, name)
    }

    fn rename(&self, from: Ino, name: &[u8], to: Ino, new_name: &[u8], how: Rename) -> Result<()> {
        Volume::rename(self, from, name, to, new_name, how)
    }

    fn read_directory(&self, ino: Ino, cookie: u64, take: &mut dyn FnMut(&Entry) -> bool) -> Result<()> {
        Volume::read_directory(self, ino, cookie, take)
    }

    fn open(self: &Arc<Self>, ino: Ino) -> Result<File> {
        self.open_file(ino)
    }

    fn ino(open: &File) -> Ino {
        open.ino()
    }

    fn attributes_of(&self, open: &File) -> Result<Attr> {
        Ok(open.attributes())
    }

    fn read(&self, open: &File, into: &mut [u8], offset: u64) -> Result<usize> {
        open.read_at(into, offset)
    }

    fn write(&self, open: &File, from: &[u8], offset: u64) -> Result<()> {
        open.write_at(from, offset).map(|_| ())
    }

    fn append(&self, open: &File, from: &[u8]) -> Result<()> {
        open.append(from).map(|_| ())
    }

    fn sync(&self, open: &File) -> Result<()> {
        open.sync()
    }

    fn sync_directory(&self, ino: Ino) -> Result<()> {
        self.sync_inode(ino)
    }

    fn allocate(&self, open: &File, how: Allocate, offset: u64, bytes: u64) -> Result<()> {
        open.allocate(how, offset, bytes)
    }

    fn next_data(&self, open: &File, offset: u64) -> Result<u64> {
        open.next_data(offset)
    }

    fn next_hole(&self, open: &File, offset: u64) -> Result<u64> {
        open.next_hole(offset)
    }

    fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        Volume::get_xattr(self, ino, name)
    }

    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        Volume::list_xattrs(self, ino)
    }

    fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        Volume::set_xattr(self, ino, name, value, how)
    }

    fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        Volume::remove_xattr(self, ino, name)
    }

    fn statfs(&self) -> Result<Statfs> {
        Ok(Volume::statfs(self))
    }

    fn asked(&self, source: &str, name: &[u8]) -> Option<Result<Vec<u8>>> {
        control::get(self, source, name)
    }

    fn told(&self, uid: u32, name: &[u8], value: &[u8]) -> Option<Result<()>> {
        control::set(self, uid, name, value)
    }
}
