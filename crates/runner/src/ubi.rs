//! Making a UBI volume on raw flash, by the kernel's ioctls.

use crate::mtd::device;
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use rustix::ioctl::{Setter, ioctl, opcode};
use std::fs;
use std::io::Write;

/// Source of a mount of the volume made here.
pub const VOLUME: &str = "ubi0:target";
const NAME: &[u8] = b"target";

/// struct ubi_attach_req of include/uapi/mtd/ubi-user.h.
#[repr(C)]
struct AttachRequest {
    ubi_number: i32,
    mtd_number: i32,
    vid_header_offset: i32,
    max_bad_per_1024: i16,
    padding: [i8; 10],
}

/// struct ubi_mkvol_req of the same header.
#[repr(C, packed)]
struct MakeVolumeRequest {
    volume: i32,
    alignment: i32,
    bytes: i64,
    kind: i8,
    flags: u8,
    name_length: i16,
    padding: [i8; 4],
    name: [u8; 128],
}

/// struct ubi_blkcreate_req of the same header: nothing but room for later.
#[repr(C)]
struct MakeBlockDeviceRequest {
    padding: [i8; 128],
}

const DYNAMIC_VOLUME: i8 = 3;

fn sysfs_number(file: &str) -> Result<i64> {
    let path = format!("/sys/class/ubi/ubi0/{file}");
    let text = fs::read_to_string(&path).board(|| format!("cannot read {path}"))?;
    text.trim().parse().board(|| format!("{path} holds `{}`", text.trim()))
}

/// Attaches UBI to the first MTD device and makes one volume that fills it.
///
/// # Errors
/// When the kernel refuses.
pub fn attach_and_make_volume() -> Result<()> {
    let missing = "check that the board's profile loads the module `ubi`";
    let control = device("/dev/ubi_ctrl").map_err(|e| e.hint(missing))?;
    let request =
        AttachRequest { ubi_number: 0, mtd_number: 0, vid_header_offset: 0, max_bad_per_1024: 0, padding: [0; 10] };
    // SAFETY: UBI_IOCATT reads the request, which has the size and layout its number encodes.
    unsafe { ioctl(&control, Setter::<{ opcode::write::<AttachRequest>(b'o', 64) }, AttachRequest>::new(request)) }
        .board(|| "UBI cannot be attached to mtd0".into())?;
    let bytes = sysfs_number("avail_eraseblocks")? * sysfs_number("eraseblock_size")?;
    let mut name = [0; 128];
    name[..NAME.len()].copy_from_slice(NAME);
    let request = MakeVolumeRequest {
        volume: 0,
        alignment: 1,
        bytes,
        kind: DYNAMIC_VOLUME,
        flags: 0,
        name_length: NAME.len() as i16,
        padding: [0; 4],
        name,
    };
    let ubi = device("/dev/ubi0")?;
    // SAFETY: UBI_IOCMKVOL reads the request, which has the size and layout its number encodes.
    unsafe { ioctl(&ubi, Setter::<{ opcode::write::<MakeVolumeRequest>(b'o', 0) }, MakeVolumeRequest>::new(request)) }
        .board(|| "the UBI volume cannot be made".into())
}

/// Writes what the volume holds from now on.
///
/// # Errors
/// When it does not fit, or the kernel refuses.
pub fn update_volume(bytes: &[u8]) -> Result<()> {
    let mut volume = device("/dev/ubi0_0")?;
    let length = bytes.len() as i64;
    // SAFETY: UBI_IOCVOLUP reads an i64, the number of bytes that follow.
    unsafe { ioctl(&volume, Setter::<{ opcode::write::<i64>(b'O', 0) }, i64>::new(length)) }
        .board(|| format!("the UBI volume takes no image of {length} bytes"))?;
    volume.write_all(bytes).board(|| "the UBI volume cannot be written".into())
}

/// Makes the volume a read-only block device, /dev/ubiblock0_0.
///
/// # Errors
/// When the kernel refuses.
pub fn make_block_device() -> Result<()> {
    let volume = device("/dev/ubi0_0")?;
    let request = MakeBlockDeviceRequest { padding: [0; 128] };
    const MAKE: rustix::ioctl::Opcode = opcode::write::<MakeBlockDeviceRequest>(b'O', 7);
    // SAFETY: UBI_IOCVOLCRBLK reads the request, which has the size that its number encodes.
    unsafe { ioctl(&volume, Setter::<MAKE, MakeBlockDeviceRequest>::new(request)) }
        .board(|| "the UBI volume cannot be made a block device".into())
        .map_err(|e| e.hint("the board's kernel needs CONFIG_MTD_UBI_BLOCK"))
}
