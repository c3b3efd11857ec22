//! A block device on a file, by the kernel's ioctls.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, ioctl};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;

/// The device is freed when its last user has closed or unmounted it.
const AUTOCLEAR: u32 = 4;
/// LOOP_CONFIGURE.
const CONFIGURE: Opcode = 0x4c0a;
/// Other processes may take the free device that the kernel named.
const ATTEMPTS: usize = 16;

/// struct loop_config of include/uapi/linux/loop.h, with its struct loop_info64 in place.
#[repr(C)]
struct LoopConfig {
    file: u32,
    block_bytes: u32,
    /// Device, inode, rdevice, offset, size limit.
    numbers: [u64; 5],
    /// Number, encryption type and key size.
    names: [u32; 3],
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    key: [u8; 32],
    init: [u64; 2],
    reserved: [u64; 8],
}

/// LOOP_CTL_GET_FREE, whose answer is the return value.
struct GetFree;

// SAFETY: the call takes no argument.
unsafe impl Ioctl for GetFree {
    type Output = i32;
    const IS_MUTATING: bool = false;
    fn opcode(&self) -> Opcode {
        0x4c82
    }
    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::null_mut()
    }
    unsafe fn output_from_ptr(result: IoctlOutput, _: *mut std::ffi::c_void) -> rustix::io::Result<i32> {
        Ok(result)
    }
}

/// Makes a file a block device, until its last user is gone: the returned handle, or a mount.
///
/// # Errors
/// `ErrorKind::Board` if `file` cannot be opened, or no loop device is free or accessible.
pub fn attach(file: &Path) -> Result<(File, String)> {
    let open = |path: &str| OpenOptions::new().read(true).write(true).open(path);
    let missing = |e: std::io::Error| {
        let hint = match e.kind() {
            std::io::ErrorKind::PermissionDenied => "run as root",
            _ => "modprobe loop, as root",
        };
        Error::board("no loop device is available").because(e).hint(hint)
    };
    let control = open("/dev/loop-control").map_err(missing)?;
    let backing =
        OpenOptions::new().read(true).write(true).open(file).board(|| format!("cannot open {}", file.display()))?;
    for _ in 0..ATTEMPTS {
        // SAFETY: the call takes no argument.
        let number = unsafe { ioctl(&control, GetFree) }.map_err(|e| missing(e.into()))?;
        let path = format!("/dev/loop{number}");
        let device = open(&path).map_err(missing)?;
        let config = LoopConfig {
            file: backing.as_raw_fd() as u32,
            block_bytes: 0,
            numbers: [0; 5],
            names: [0; 3],
            flags: AUTOCLEAR,
            file_name: [0; 64],
            crypt_name: [0; 64],
            key: [0; 32],
            init: [0; 2],
            reserved: [0; 8],
        };
        // SAFETY: LOOP_CONFIGURE reads a struct loop_config, which this one is laid out as.
        match unsafe { ioctl(&device, Setter::<CONFIGURE, LoopConfig>::new(config)) } {
            Ok(()) => return Ok((device, path)),
            Err(Errno::BUSY) => {}
            Err(error) => return Err(missing(error.into())),
        }
    }
    Err(Error::board("other processes took all free loop devices").hint("try again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_has_the_kernels_layout() {
        assert_eq!(std::mem::size_of::<LoopConfig>(), 304);
        assert_eq!(std::mem::offset_of!(LoopConfig, flags), 60);
        assert_eq!(std::mem::offset_of!(LoopConfig, reserved), 240);
    }
}
