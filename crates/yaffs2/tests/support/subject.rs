//! YAFFS2 as what the shared tests know.

use pocketstone_fstest::{Handle, Subject, Walked};
use pocketstone_vfs::{Ino, Result, SetXattr};
use pocketstone_yaffs2::Volume;

#[derive(Debug)]
pub struct Yaffs2;

pub type OpenFiles = pocketstone_fstest::OpenFiles<Yaffs2>;

/// Reads a whole volume.
///
/// # Errors
/// A `String` that says what contradicts itself, or cannot be read.
pub fn walk(volume: &Volume) -> Result<Walked, String> {
    pocketstone_fstest::walk::<Yaffs2>(volume).map_err(|broken| format!("{broken:?}"))
}

/// Unmounts a volume.
///
/// # Errors
/// `Medium` if something cannot be written.
pub fn close(volume: Volume) -> Result<()> {
    volume.close()
}

/// Drops a volume as it is.
pub fn abandon(volume: Volume) {
    volume.abandon();
}

impl Subject for Yaffs2 {
    type Volume = Volume;
    const TIMES: bool = true;

    fn set_xattr(volume: &Volume, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        volume.set_xattr(ino, name, value, how)
    }

    fn get_xattr(volume: &Volume, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        volume.get_xattr(ino, name)
    }

    fn list_xattrs(volume: &Volume, ino: Ino) -> Result<Vec<Vec<u8>>> {
        volume.list_xattrs(ino)
    }

    fn remove_xattr(volume: &Volume, ino: Ino, name: &[u8]) -> Result<()> {
        volume.remove_xattr(ino, name)
    }

    fn background(volume: &Volume) -> Result<()> {
        volume.background()
    }

    fn close(_: &Volume, handle: Handle<Yaffs2>) -> Result<()> {
        // Dropping it would not say what goes wrong.
        handle.close()
    }
}
