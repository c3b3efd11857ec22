//! SCMFS as it is mounted: it locks inode by inode, so nothing is added here.

use crate::mountable::{Mountable, Waits};
use crate::{MountOptions, Mounted, control};
use pocketstone_media::Shared;
use pocketstone_scmfs::{
    Allocate, Attr, File, FileBatch, Ino, Meta, Operations, OutsideStores, Protection, Result, Running, SetXattr,
    TimeNs, Volume, Watch,
};
use std::path::Path;
use std::sync::Arc;

/// As [`mount`](crate::mount), of an SCMFS volume: what serves it is compiled here once, not by each who calls it.
///
/// # Errors
/// Those of [`mount`](crate::mount).
pub fn mount_scmfs(volume: Arc<Volume>, at: &Path, options: &MountOptions) -> pocketstone_core::Result<Mounted> {
    crate::mount(volume, at, options)
}

impl Mountable for Volume {
    const SUBTYPE: &'static str = "scmfs";
    const OPENS_BY_NUMBER: bool = true;
    const FINDS_BY_NUMBER: bool = true;
    const KNOWS_BIRTH: bool = true;
    const KEEPS_ACLS: bool = true;

    fn create_unnamed(&self, directory: Ino, meta: &Meta) -> Result<File> {
        self.temporary_file_in(directory, meta)
    }

    fn link_open(&self, open: &File, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.link_file(open, parent, name)
    }

    fn attributes_of(&self, open: &File) -> Result<Attr> {
        Ok(open.attributes())
    }

    fn write_back(&self, open: &File, from: &[u8], offset: u64) -> Result<()> {
        File::write_back(open, from, offset)
    }

    fn may_write(&self, open: &File, at_end: bool) -> Result<()> {
        File::may_write(open, at_end)
    }

    fn sync_inode(&self, ino: Ino) -> Result<()> {
        Volume::sync_inode(self, ino)
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

    fn set_acl(&self, ino: Ino, name: &[u8], value: &[u8], drop_group_id: bool) -> Result<()> {
        Volume::set_acl(self, ino, name, value, drop_group_id)
    }

    fn drop_capability(&self, ino: Ino) -> Result<bool> {
        Volume::drop_capability(self, ino)
    }

    fn protection(&self, ino: Ino) -> Result<Protection> {
        Volume::protection(self, ino)
    }

    fn protect(&self, ino: Ino, how: Protection) -> Result<()> {
        Volume::protect(self, ino, how)
    }

    fn batch_max(&self) -> Option<(u64, u64)> {
        Some((Volume::batch_max(self), self.statfs().ok()?.block_bytes.into()))
    }

    fn write_batch(&self, open: &File, writes: &[(u64, &[u8])], size: u64) -> Result<()> {
        Volume::write_batch(self, &[FileBatch { file: open, writes, size: Some(size) }])
    }

    fn shared(&self) -> Option<Shared<'_>> {
        Volume::shared(self)
    }

    fn let_others_store(&self, stores: Arc<dyn OutsideStores>) -> Result<()> {
        Volume::let_others_store(self, stores)
    }

    fn note_stored(&self, at: u64, bytes: u64) {
        Volume::note_stored(self, at, bytes);
    }

    fn watch(&self, open: &File, watch: &dyn Fn(u32) -> Option<Box<dyn Watch>>) -> Result<bool> {
        open.watch(watch)
    }

    fn room_to_append(&self, open: &File, bytes: u64) -> Result<u64> {
        open.room_to_append(bytes)
    }

    fn lease_end(&self, open: &File, limit: u64, give: &dyn Fn(u64)) -> Result<bool> {
        open.lease_end(limit, give)
    }

    fn may_be_mapped(&self) -> bool {
        Volume::may_be_mapped(self)
    }

    fn lie_still(&self, open: &File, offset: u64, bytes: u64, hold: &dyn Fn() -> Option<Running>) -> Result<bool> {
        open.lie_still(offset, bytes, hold)
    }

    fn store_sizes(&self) {
        Volume::store_sizes(self);
    }

    fn size_records(&self) -> (u64, u32) {
        Volume::size_records(self)
    }

    fn use_size_records(&self) -> Result<()> {
        Volume::use_size_records(self)
    }

    unsafe fn clear_size_record(&self, record: u32) {
        // SAFETY: the caller's promise, handed on.
        unsafe { Volume::clear_size_record(self, record) };
    }

    fn note_written(&self, open: &File, at_ns: Option<TimeNs>) -> Result<()> {
        open.note_written(at_ns)
    }

    fn asked(&self, source: &str, uid: u32, name: &[u8]) -> Option<Result<Vec<u8>>> {
        control::get(self, source, uid, name)
    }

    fn told(&self, uid: u32, name: &[u8], value: &[u8], arrived: Waits) -> Option<Result<()>> {
        control::set(self, uid, name, value, arrived)
    }
}
