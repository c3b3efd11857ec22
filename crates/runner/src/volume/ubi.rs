//! Making a UBI volume on raw flash, by the kernel's ioctls.

use super::mtd::device;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::ioctl::{NoArg, Setter, ioctl, opcode};
use std::fs;
use std::io::Write;

/// The volume's name, by which what a killed runner has left is known.
const NAME: &str = "pocketstone";
/// Devices of UBI, as the kernel lists them.
const CLASS: &str = "/sys/class/ubi";

/// Source of a mount of the volume made here on an MTD device.
///
/// # Errors
/// `ErrorKind::Board` if UBI is not attached to it.
pub fn volume(mtd: u32) -> Result<String> {
    Ok(format!("ubi{}:{NAME}", number(mtd)?))
}

/// The number of the UBI device that is attached to an MTD device.
pub fn attached(mtd: u32) -> Option<u32> {
    numbers().into_iter().find(|ubi| sysfs_number(*ubi, "mtd_num").is_ok_and(|on| on == i64::from(mtd)))
}

fn number(mtd: u32) -> Result<u32> {
    attached(mtd).ok_or_else(|| Error::board(format!("UBI is not attached to mtd{mtd}")))
}

/// The numbers of all UBI devices.
fn numbers() -> Vec<u32> {
    let entries = fs::read_dir(CLASS).into_iter().flatten().flatten();
    let number = |name: String| name.strip_prefix("ubi")?.parse().ok();
    entries.filter_map(|entry| number(entry.file_name().into_string().ok()?)).collect()
}

/// Detaches UBI from every MTD device that has nothing but a volume made here.
///
/// # Errors
/// `ErrorKind::Board` if one is in use.
pub fn detach_ours() -> Result<()> {
    for ubi in numbers() {
        let name = fs::read_to_string(format!("{CLASS}/ubi{ubi}/ubi{ubi}_0/name")).unwrap_or_default();
        if name.trim_end() != NAME || sysfs_number(ubi, "volumes_count")? != 1 {
            continue;
        }
        remove_block_device(ubi);
        let control = device("/dev/ubi_ctrl")?;
        let number = i32::try_from(ubi).board(|| format!("no UBI device {ubi}"))?;
        // SAFETY: UBI_IOCDET reads an i32, the number of the UBI device.
        unsafe { ioctl(&control, Setter::<{ opcode::write::<i32>(b'o', 65) }, i32>::new(number)) }
            .board(|| format!("cannot detach ubi{ubi}"))?;
    }
    Ok(())
}

/// Removes the block device on the volume, if there is one.
fn remove_block_device(ubi: u32) {
    let Ok(volume) = device(&format!("/dev/ubi{ubi}_0")) else { return };
    // SAFETY: UBI_IOCVOLRMBLK takes no argument.
    let _ = unsafe { ioctl(&volume, NoArg::<{ opcode::none(b'O', 8) }>::new()) };
}

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

fn sysfs_number(ubi: u32, file: &str) -> Result<i64> {
    let path = format!("{CLASS}/ubi{ubi}/{file}");
    let text = fs::read_to_string(&path).board(|| format!("cannot read {path}"))?;
    text.trim().parse().board(|| format!("{path} holds `{}`", text.trim()))
}

/// Attaches UBI to an MTD device, if possible with the same number.
///
/// # Errors
/// `ErrorKind::Board` if the kernel refuses.
pub fn attach(mtd: u32) -> Result<()> {
    let missing = "check that the board's profile loads the module `ubi`";
    let control = device("/dev/ubi_ctrl").map_err(|e| e.hint(missing))?;
    let mtd_number = i32::try_from(mtd).board(|| format!("no MTD device {mtd}"))?;
    // Another one may have that number; then the kernel chooses (UBI_DEV_NUM_AUTO).
    let ubi_number = if numbers().contains(&mtd) { -1 } else { mtd_number };
    let (vid_header_offset, max_bad_per_1024, padding) = (0, 0, [0; 10]);
    let request = AttachRequest { ubi_number, mtd_number, vid_header_offset, max_bad_per_1024, padding };
    // SAFETY: UBI_IOCATT reads the request, which has the size and layout its number encodes.
    unsafe { ioctl(&control, Setter::<{ opcode::write::<AttachRequest>(b'o', 64) }, AttachRequest>::new(request)) }
        .board(|| format!("cannot attach UBI to mtd{mtd}"))
}

/// Attaches UBI to an MTD device as [`attach`], and makes one volume that fills it.
///
/// # Errors
/// `ErrorKind::Board` if the kernel refuses.
pub fn attach_and_make_volume(mtd: u32) -> Result<()> {
    attach(mtd)?;
    let ubi = number(mtd)?;
    let bytes = sysfs_number(ubi, "avail_eraseblocks")? * sysfs_number(ubi, "eraseblock_size")?;
    let mut name = [0; 128];
    name[..NAME.len()].copy_from_slice(NAME.as_bytes());
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
    let ubi = device(&format!("/dev/ubi{ubi}"))?;
    // SAFETY: UBI_IOCMKVOL reads the request, which has the size and layout its number encodes.
    unsafe { ioctl(&ubi, Setter::<{ opcode::write::<MakeVolumeRequest>(b'o', 0) }, MakeVolumeRequest>::new(request)) }
        .board(|| "cannot create the UBI volume".into())
}

/// Writes what the volume holds from now on.
///
/// # Errors
/// `ErrorKind::Board` if it does not fit, or the kernel refuses.
pub fn update_volume(mtd: u32, bytes: &[u8]) -> Result<()> {
    let mut volume = device(&format!("/dev/ubi{}_0", number(mtd)?))?;
    let length = bytes.len() as i64;
    // SAFETY: UBI_IOCVOLUP reads an i64, the number of bytes that follow.
    unsafe { ioctl(&volume, Setter::<{ opcode::write::<i64>(b'O', 0) }, i64>::new(length)) }
        .board(|| format!("the UBI volume cannot hold an image of {length} bytes"))?;
    volume.write_all(bytes).board(|| "cannot write the UBI volume".into())
}

/// The read-only block device on the volume made here on an MTD device.
///
/// # Errors
/// `ErrorKind::Board` if UBI is not attached to it.
pub fn block_device(mtd: u32) -> Result<String> {
    Ok(format!("/dev/ubiblock{}_0", number(mtd)?))
}

/// Makes the volume a read-only block device.
///
/// # Errors
/// `ErrorKind::Board` if the kernel refuses.
pub fn make_block_device(mtd: u32) -> Result<()> {
    let volume = device(&format!("/dev/ubi{}_0", number(mtd)?))?;
    let request = MakeBlockDeviceRequest { padding: [0; 128] };
    const MAKE: rustix::ioctl::Opcode = opcode::write::<MakeBlockDeviceRequest>(b'O', 7);
    // SAFETY: UBI_IOCVOLCRBLK reads the request, which has the size that its number encodes.
    unsafe { ioctl(&volume, Setter::<MAKE, MakeBlockDeviceRequest>::new(request)) }
        .board(|| "cannot create a block device for the UBI volume".into())
        .map_err(|e| e.hint("the board's kernel requires CONFIG_MTD_UBI_BLOCK"))
}
