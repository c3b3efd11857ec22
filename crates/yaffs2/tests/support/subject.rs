//! YAFFS2 as what the shared tests know.

use pocketstone_fstest::{Handle, Subject, Walked};
use pocketstone_vfs::{Ino, Operations, Result, SetXattr};
use pocketstone_yaffs2::SharedVolume;

#[derive(Debug)]
pub struct Yaffs2;

pub type OpenFiles = pocketstone_fstest::OpenFiles<Yaffs2>;

/// Reads a whole volume.
///
/// # Errors
/// A `String` that says what contradicts itself, or cannot be read.
pub fn walk(volume: &SharedVolume) -> Result<Walked, String> {
    pocketstone_fstest::walk::<Yaffs2>(volume).map_err(|broken| format!("{broken:?}"))
}

/// Unmounts a volume.
///
/// # Errors
/// `Medium` if something cannot be written.
pub fn close(volume: SharedVolume) -> Result<()> {
    volume.into_volume()?.close()
}

/// Drops a volume as it is.
pub fn abandon(volume: SharedVolume) {
    volume.into_volume().expect("nobody panics with it").abandon();
}

impl Subject for Yaffs2 {
    type Volume = SharedVolume;
    const TIMES: bool = true;

    fn set_xattr(volume: &SharedVolume, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        volume.lock()?.set_xattr(ino, name, value, how)
    }

    fn get_xattr(volume: &SharedVolume, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        volume.lock()?.get_xattr(ino, name)
    }

    fn list_xattrs(volume: &SharedVolume, ino: Ino) -> Result<Vec<Vec<u8>>> {
        volume.lock()?.list_xattrs(ino)
    }

    fn remove_xattr(volume: &SharedVolume, ino: Ino, name: &[u8]) -> Result<()> {
        volume.lock()?.remove_xattr(ino, name)
    }

    fn background(volume: &SharedVolume) -> Result<()> {
        volume.lock()?.background()
    }

    fn close(volume: &SharedVolume, handle: Handle<Yaffs2>) -> Result<()> {
        // The shared volume would not say what goes wrong.
        volume.lock()?.release(volume.ino(&handle))
    }
}
