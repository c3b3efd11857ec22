//! Making a UBI volume on raw flash, by the kernel's ioctls.

use super::mtd::device;
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use rustix::ioctl::{Setter, ioctl, opcode};
use std::fs;
use std::io::Write;

/// Source of a mount of the volume made here on an MTD device, whose number the UBI device gets, too.
pub fn volume(mtd: u32) -> String {
    format!("ubi{mtd}:target")
}

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

fn sysfs_number(mtd: u32, file: &str) -> Result<i64> {
    let path = format!("/sys/class/ubi/ubi{mtd}/{file}");
    let text = fs::read_to_string(&path).board(|| format!("cannot read {path}"))?;
    text.trim().parse().board(|| format!("{path} holds `{}`", text.trim()))
}

/// Attaches UBI to an MTD device and makes one volume that fills it.
///
/// # Errors
/// `ErrorKind::Board` if the kernel refuses.
pub fn attach_and_make_volume(mtd: u32) -> Result<()> {
    let missing = "check that the board's profile loads the module `ubi`";
    let control = device("/dev/ubi_ctrl").map_err(|e| e.hint(missing))?;
    let number = i32::try_from(mtd).board(|| format!("no MTD device {mtd}"))?;
    let (vid_header_offset, max_bad_per_1024, padding) = (0, 0, [0; 10]);
    let request =
        AttachRequest { ubi_number: number, mtd_number: number, vid_header_offset, max_bad_per_1024, padding };
    // SAFETY: UBI_IOCATT reads the request, which has the size and layout its number encodes.
    unsafe { ioctl(&control, Setter::<{ opcode::write::<AttachRequest>(b'o', 64) }, AttachRequest>::new(request)) }
        .board(|| format!("cannot attach UBI to mtd{mtd}"))?;
    let bytes = sysfs_number(mtd, "avail_eraseblocks")? * sysfs_number(mtd, "eraseblock_size")?;
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
    let ubi = device(&format!("/dev/ubi{mtd}"))?;
    // SAFETY: UBI_IOCMKVOL reads the request, which has the size and layout its number encodes.
    unsafe { ioctl(&ubi, Setter::<{ opcode::write::<MakeVolumeRequest>(b'o', 0) }, MakeVolumeRequest>::new(request)) }
        .board(|| "cannot create the UBI volume".into())
}

/// Writes what the volume holds from now on.
///
/// # Errors
/// `ErrorKind::Board` if it does not fit, or the kernel refuses.
pub fn update_volume(mtd: u32, bytes: &[u8]) -> Result<()> {
    let mut volume = device(&format!("/dev/ubi{mtd}_0"))?;
    let length = bytes.len() as i64;
    // SAFETY: UBI_IOCVOLUP reads an i64, the number of bytes that follow.
    unsafe { ioctl(&volume, Setter::<{ opcode::write::<i64>(b'O', 0) }, i64>::new(length)) }
        .board(|| format!("the UBI volume cannot hold an image of {length} bytes"))?;
    volume.write_all(bytes).board(|| "cannot write the UBI volume".into())
}

/// Makes the volume a read-only block device, /dev/ubiblockN_0.
///
/// # Errors
/// `ErrorKind::Board` if the kernel refuses.
pub fn make_block_device(mtd: u32) -> Result<()> {
    let volume = device(&format!("/dev/ubi{mtd}_0"))?;
    let request = MakeBlockDeviceRequest { padding: [0; 128] };
    const MAKE: rustix::ioctl::Opcode = opcode::write::<MakeBlockDeviceRequest>(b'O', 7);
    // SAFETY: UBI_IOCVOLCRBLK reads the request, which has the size that its number encodes.
    unsafe { ioctl(&volume, Setter::<MAKE, MakeBlockDeviceRequest>::new(request)) }
        .board(|| "cannot create a block device for the UBI volume".into())
        .map_err(|e| e.hint("the board's kernel requires CONFIG_MTD_UBI_BLOCK"))
}
