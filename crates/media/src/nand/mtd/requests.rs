//! The requests of include/uapi/mtd/mtd-abi.h that are used here, each as a function. Addresses are 64 bits wide on
//! every machine, so that the structures are the same on 32-bit and on 64-bit ones.

use rustix::fd::AsFd;
use rustix::ffi::c_void;
use rustix::io::Result;
use rustix::ioctl::{Getter, Ioctl, IoctlOutput, Opcode, Setter, Updater, ioctl, opcode};

/// MTD_OPS_AUTO_OOB: spare bytes are those that error correction leaves free, in their order.
pub(super) const AUTO_OOB: u8 = 1;
/// MTD_OPS_RAW: everything as it is on the chip, without error correction.
pub(super) const RAW: u8 = 2;

/// struct mtd_info_user.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Info {
    pub kind: u8,
    flags: u32,
    pub bytes: u32,
    pub erase_bytes: u32,
    pub write_bytes: u32,
    pub oob_bytes: u32,
    padding: u64,
}

impl Info {
    /// MTD_NANDFLASH.
    pub(super) const NAND: u8 = 4;
    /// MTD_MLCNANDFLASH.
    pub(super) const MLC_NAND: u8 = 8;
}

/// struct erase_info_user64.
#[repr(C)]
struct EraseRequest {
    start: u64,
    length: u64,
}

/// struct mtd_oob_buf64.
#[repr(C)]
pub(super) struct OobRequest {
    pub start: u64,
    pub padding: u32,
    pub length: u32,
    pub pointer: u64,
}

/// struct mtd_write_req.
#[repr(C)]
pub(super) struct WriteRequest {
    pub start: u64,
    pub length: u64,
    pub oob_length: u64,
    pub data: u64,
    pub oob: u64,
    pub mode: u8,
    pub padding: [u8; 7],
}

/// struct mtd_read_req, with its struct mtd_read_req_ecc_stats.
#[repr(C)]
#[derive(Default)]
pub(super) struct ReadRequest {
    pub start: u64,
    pub length: u64,
    pub oob_length: u64,
    pub data: u64,
    pub oob: u64,
    pub mode: u8,
    pub padding: [u8; 7],
    /// Steps of error correction that gave up.
    pub uncorrectable: u32,
    /// Bits that were put right in all steps.
    pub corrected: u32,
    /// Bits that were put right in the worst step.
    pub most_bitflips: u32,
}

/// struct nand_oobfree.
#[repr(C)]
#[derive(Default, Clone, Copy)]
pub(super) struct OobFree {
    pub offset: u32,
    pub length: u32,
}

/// struct nand_ecclayout_user.
#[repr(C)]
pub(super) struct Layout {
    ecc_bytes: u32,
    ecc_positions: [u32; 64],
    free_bytes: u32,
    pub free: [OobFree; 8],
}

impl Default for Layout {
    fn default() -> Layout {
        Layout { ecc_bytes: 0, ecc_positions: [0; 64], free_bytes: 0, free: [OobFree::default(); 8] }
    }
}

/// struct mtd_ecc_stats.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stats {
    pub corrected: u32,
    pub failed: u32,
    bad_blocks: u32,
    table_blocks: u32,
}

const MEMGETINFO: Opcode = opcode::read::<Info>(b'M', 1);
const MEMGETBADBLOCK: Opcode = opcode::write::<i64>(b'M', 11);
const MEMSETBADBLOCK: Opcode = opcode::write::<i64>(b'M', 12);
const ECCGETLAYOUT: Opcode = opcode::read::<Layout>(b'M', 17);
const ECCGETSTATS: Opcode = opcode::read::<Stats>(b'M', 18);
const MEMERASE64: Opcode = opcode::write::<EraseRequest>(b'M', 20);
const MEMREADOOB64: Opcode = opcode::read_write::<OobRequest>(b'M', 22);
const MEMWRITE: Opcode = opcode::read_write::<WriteRequest>(b'M', 24);
const MEMREAD: Opcode = opcode::read_write::<ReadRequest>(b'M', 26);

pub(super) fn info(device: impl AsFd) -> Result<Info> {
    // SAFETY: MEMGETINFO fills an `Info`.
    unsafe { ioctl(device, Getter::<MEMGETINFO, Info>::new()) }
}

pub(super) fn layout(device: impl AsFd) -> Result<Layout> {
    // SAFETY: ECCGETLAYOUT fills a `Layout`.
    unsafe { ioctl(device, Getter::<ECCGETLAYOUT, Layout>::new()) }
}

pub(super) fn stats(device: impl AsFd) -> Result<Stats> {
    // SAFETY: ECCGETSTATS fills a `Stats`.
    unsafe { ioctl(device, Getter::<ECCGETSTATS, Stats>::new()) }
}

pub(super) fn erase(device: impl AsFd, start: u64, length: u64) -> Result<()> {
    // SAFETY: MEMERASE64 reads an `EraseRequest`.
    unsafe { ioctl(device, Setter::<MEMERASE64, EraseRequest>::new(EraseRequest { start, length })) }
}

/// Above 0 if the block that starts there is marked bad.
pub(super) fn is_bad(device: impl AsFd, start: u64) -> Result<i32> {
    // SAFETY: MEMGETBADBLOCK reads an offset.
    unsafe { ioctl(device, OfBlock::<MEMGETBADBLOCK>(start as i64)) }
}

pub(super) fn mark_bad(device: impl AsFd, start: u64) -> Result<()> {
    // SAFETY: MEMSETBADBLOCK reads an offset.
    unsafe { ioctl(device, OfBlock::<MEMSETBADBLOCK>(start as i64)) }.map(|_| ())
}

/// # Safety
/// `data` and `oob` are 0 or addresses of buffers of `length` and `oob_length` bytes, alive for the call.
pub(super) unsafe fn write(device: impl AsFd, request: WriteRequest) -> Result<()> {
    // SAFETY: MEMWRITE reads a `WriteRequest` and the buffers that the caller vouches for.
    unsafe { ioctl(device, Setter::<MEMWRITE, WriteRequest>::new(request)) }
}

/// The statistics in the request are valid after EUCLEAN and EBADMSG, too.
///
/// # Safety
/// `data` and `oob` are 0 or addresses of buffers of `length` and `oob_length` bytes that nobody else uses.
pub(super) unsafe fn read_into(device: impl AsFd, request: &mut ReadRequest) -> Result<()> {
    // SAFETY: MEMREAD reads and fills a `ReadRequest`, and fills the buffers that the caller vouches for.
    unsafe { ioctl(device, Updater::<MEMREAD, ReadRequest>::new(request)) }
}

/// Whether the kernel knows MEMREAD: asks it to read nothing.
pub(super) fn knows_read(device: impl AsFd) -> bool {
    // SAFETY: both addresses are 0.
    unsafe { read_into(device, &mut ReadRequest { mode: AUTO_OOB, ..ReadRequest::default() }) }.is_ok()
}

/// # Safety
/// `pointer` is the address of a buffer of `length` bytes that nobody else uses.
pub(super) unsafe fn read_oob(device: impl AsFd, mut request: OobRequest) -> Result<()> {
    // SAFETY: MEMREADOOB64 reads and fills an `OobRequest`, and fills the buffer that the caller vouches for.
    unsafe { ioctl(device, Updater::<MEMREADOOB64, OobRequest>::new(&mut request)) }
}

/// A request about the block at an offset, whose answer is the return value: no ready-made pattern hands that back.
struct OfBlock<const OPCODE: Opcode>(i64);

// SAFETY: the numbers used encode a read of an i64, which `as_ptr` points to.
unsafe impl<const OPCODE: Opcode> Ioctl for OfBlock<OPCODE> {
    type Output = i32;
    const IS_MUTATING: bool = false;
    fn opcode(&self) -> Opcode {
        OPCODE
    }
    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(&mut self.0).cast()
    }
    unsafe fn output_from_ptr(result: IoctlOutput, _: *mut c_void) -> Result<i32> {
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structures_are_laid_out_as_a_c_compiler_does_with_the_header() {
        // Of a C program with sizeof and offsetof, compiled for x86-64 and for 32-bit ARM: both said the same.
        assert_eq!(size_of::<Info>(), 32);
        assert_eq!([offset_of!(Info, flags), offset_of!(Info, write_bytes), offset_of!(Info, oob_bytes)], [4, 16, 20]);
        assert_eq!(size_of::<EraseRequest>(), 16);
        assert_eq!(size_of::<OobRequest>(), 24);
        assert_eq!([offset_of!(OobRequest, length), offset_of!(OobRequest, pointer)], [12, 16]);
        assert_eq!((size_of::<WriteRequest>(), offset_of!(WriteRequest, mode)), (48, 40));
        assert_eq!((size_of::<ReadRequest>(), offset_of!(ReadRequest, mode)), (64, 40));
        assert_eq!([offset_of!(ReadRequest, uncorrectable), offset_of!(ReadRequest, most_bitflips)], [48, 56]);
        assert_eq!(size_of::<Layout>(), 328);
        assert_eq!([offset_of!(Layout, free_bytes), offset_of!(Layout, free)], [260, 264]);
        assert_eq!((size_of::<Stats>(), offset_of!(Stats, failed)), (16, 4));
    }

    // MIPS, PowerPC and SPARC number the directions of requests otherwise.
    #[cfg(any(target_arch = "x86_64", target_arch = "arm", target_arch = "aarch64"))]
    #[test]
    fn requests_have_the_numbers_that_a_c_compiler_gives_them() {
        let numbers = [
            MEMGETINFO,
            MEMGETBADBLOCK,
            MEMSETBADBLOCK,
            ECCGETLAYOUT,
            ECCGETSTATS,
            MEMERASE64,
            MEMREADOOB64,
            MEMWRITE,
            MEMREAD,
        ];
        let by_c = [
            0x8020_4d01,
            0x4008_4d0b,
            0x4008_4d0c,
            0x8148_4d11,
            0x8010_4d12,
            0x4010_4d14,
            0xc018_4d16,
            0xc030_4d18,
            0xc040_4d1a,
        ];
        assert_eq!(numbers, by_c);
    }
}
