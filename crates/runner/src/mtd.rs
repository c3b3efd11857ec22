//! Raw flash: erasing it, by the kernel's MTD ioctls.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, ioctl, opcode};
use std::fs;
use std::io::Write;

/// Opens a device file for reading and writing.
///
/// # Errors
/// When it cannot be opened.
pub fn device(path: &str) -> Result<fs::File> {
    fs::File::options().read(true).write(true).open(path).board(|| format!("cannot open {path}"))
}

/// struct erase_info_user of include/uapi/mtd/mtd-abi.h.
#[repr(C)]
struct EraseRequest {
    start: u32,
    length: u32,
}

/// struct mtd_write_req of the same header.
#[repr(C)]
struct WriteRequest {
    start: u64,
    length: u64,
    oob_length: u64,
    data: u64,
    oob: u64,
    mode: u8,
    padding: [u8; 7],
}

/// MTD_OPS_AUTO_OOB: the bytes go to the free part of the out-of-band area.
const AUTO_OOB: u8 = 1;

/// The marker by which JFFS2 knows an erased block on NAND: magic, node type CLEANMARKER, length 8.
fn clean_marker() -> [u8; 8] {
    let mut marker = [0; 8];
    marker[..2].copy_from_slice(&0x1985u16.to_ne_bytes());
    marker[2..4].copy_from_slice(&0x2003u16.to_ne_bytes());
    marker[4..].copy_from_slice(&8u32.to_ne_bytes());
    marker
}

/// A number that the kernel says of mtd0.
fn number(file: &str) -> Result<u32> {
    let path = format!("/sys/class/mtd/mtd0/{file}");
    let text = fs::read_to_string(&path)
        .board(|| "the board has no MTD device".into())
        .map_err(|e| e.hint("check that the board's profile loads the module `nandsim`"))?;
    text.trim().parse().map_err(|e| Error::board(format!("{path} holds `{}`", text.trim())).because(e))
}

/// Size and erase block size of mtd0, in bytes.
fn geometry() -> Result<(u32, u32)> {
    Ok((number("size")?, number("erasesize")?))
}

fn is_bad(device: &fs::File, start: u32) -> bool {
    let mut offset = i64::from(start);
    // SAFETY: MEMGETBADBLOCK reads an i64 offset.
    let answer = unsafe { ioctl(device, BadBlock(&mut offset)) };
    // A chip that does not know has no bad blocks.
    answer.unwrap_or(0) > 0
}

/// Writes bytes to the first MTD device from its start on; the last page is filled up with ones.
///
/// # Errors
/// When they do not fit, a block among them is bad (a block device on the chip would not step over it), or the chip
/// refuses.
pub fn write_from_start(bytes: &[u8]) -> Result<()> {
    let (size, block) = geometry()?;
    if bytes.len() > size as usize {
        return Err(Error::board(format!("an image of {} bytes does not fit a chip of {size}", bytes.len())));
    }
    let page = number("writesize")? as usize;
    let mut device = device("/dev/mtd0")?;
    for (part, start) in bytes.chunks(block as usize).zip((0..size).step_by(block as usize)) {
        if is_bad(&device, start) {
            return Err(Error::board(format!("the block at {start:#x} is bad, and an image has no place for that"))
                .hint("use UBI: file_system = \"squashfs-ubiblock\""));
        }
        let mut pages = part.to_vec();
        pages.resize(part.len().next_multiple_of(page), 0xff);
        device.write_all(&pages).board(|| format!("cannot write the block at {start:#x}"))?;
    }
    Ok(())
}

/// Erases the whole first MTD device.
///
/// # Errors
/// When a block cannot be erased.
pub fn erase() -> Result<()> {
    erase_then(|_, _| Ok(()))
}

/// Erases it and leaves JFFS2's clean markers, as `flash_erase --jffs2` does. Without them JFFS2
/// would erase and read back every block in the background for half a minute after the mount.
///
/// # Errors
/// When a block cannot be erased or marked.
pub fn erase_for_jffs2() -> Result<()> {
    let marker = clean_marker();
    erase_then(|device, start| {
        let request = WriteRequest {
            start: u64::from(start),
            length: 0,
            oob_length: marker.len() as u64,
            data: 0,
            oob: marker.as_ptr() as usize as u64,
            mode: AUTO_OOB,
            padding: [0; 7],
        };
        // SAFETY: MEMWRITE reads the request and `oob_length` bytes at `oob`, both alive here.
        unsafe { ioctl(device, Setter::<{ opcode::read_write::<WriteRequest>(b'M', 24) }, WriteRequest>::new(request)) }
            .board(|| format!("cannot mark the block at {start:#x}"))
    })
}

fn erase_then(after: impl Fn(&fs::File, u32) -> Result<()>) -> Result<()> {
    let (bytes, block) = geometry()?;
    let device = device("/dev/mtd0")?;
    for start in (0..bytes).step_by(block as usize) {
        if is_bad(&device, start) {
            continue;
        }
        let request = EraseRequest { start, length: block };
        // SAFETY: MEMERASE reads the request, which has the size and layout its number encodes.
        unsafe { ioctl(&device, Setter::<{ opcode::write::<EraseRequest>(b'M', 2) }, EraseRequest>::new(request)) }
            .board(|| format!("cannot erase the block at {start:#x}"))?;
        after(&device, start)?;
    }
    Ok(())
}

/// MEMGETBADBLOCK: whose answer is the return value, which no ready-made pattern hands back.
struct BadBlock<'a>(&'a mut i64);

// SAFETY: the number encodes a read of an i64, which `as_ptr` points to.
unsafe impl Ioctl for BadBlock<'_> {
    type Output = i32;
    const IS_MUTATING: bool = false;
    fn opcode(&self) -> Opcode {
        opcode::write::<i64>(b'M', 11)
    }
    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::from_mut(self.0).cast()
    }
    unsafe fn output_from_ptr(result: IoctlOutput, _: *mut std::ffi::c_void) -> rustix::io::Result<Self::Output> {
        Ok(result)
    }
}
