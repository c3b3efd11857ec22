//! Files of the host, from inside a virtual board, by Arm semihosting.
//!
//! A semihosting call is executed by QEMU synchronously with the virtual processor, so that it takes
//! the same virtual time in every run; a virtio device would complete whenever the host is ready.
//! Specification: "Semihosting for AArch32 and AArch64" (Arm, 2.0). In ARM state the call is
//! `svc 0x123456` with r0 = operation and r1 = address of the parameter block; in 64-bit state `hlt #0xf000` with x0
//! and x1, and the block's fields have 64 bits.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};

/// Opening mode "rb".
pub const READ: u32 = 1;
/// Opening mode "wb".
pub const WRITE: u32 = 5;

const OPEN: u32 = 0x01;
const CLOSE: u32 = 0x02;
const WRITE_BYTES: u32 = 0x05;
const READ_BYTES: u32 = 0x06;
const LENGTH: u32 = 0x0c;

/// What helps if the host does not take a file, for which the lab has a folder.
const FULL: &str =
    "is the disk full that its cache is on? Free some of it, or set POCKETSTONE_CACHE=DIR; then --resume";

/// Bytes moved by one call; the buffer is on the heap and touched before, see [`call`].
const CHUNK: usize = 64 * 1024;

/// Makes a semihosting call. Memory that the parameters point to must be present: QEMU looks it up
/// in the page tables and takes no page fault.
#[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
fn call(operation: u32, parameters: &[usize; 3]) -> isize {
    let mut result = operation as isize;
    // SAFETY: the call reads the parameter block, which lives across it, and reads or writes the
    // buffer that its fields give address and length of: callers pass live buffers of that length.
    unsafe {
        #[cfg(target_arch = "arm")]
        std::arch::asm!("svc 0x123456", inout("r0") result, in("r1") parameters.as_ptr(), options(nostack));
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("hlt #0xf000", inout("x0") result, in("x1") parameters.as_ptr(), options(nostack));
    }
    result
}

#[cfg(not(any(target_arch = "arm", target_arch = "aarch64")))]
fn call(_operation: u32, _parameters: &[usize; 3]) -> isize {
    -1
}

/// A file of the host.
pub struct File {
    handle: usize,
}

impl File {
    /// Opens `path`, which the host resolves within the cell's own folder.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the host refuses, or there is no semihosting.
    pub fn open(path: &str, mode: u32) -> Result<Self> {
        let mut name = path.as_bytes().to_vec();
        name.push(0);
        let handle = call(OPEN, &[name.as_ptr() as usize, mode as usize, path.len()]);
        let refused = || Error::board(format!("the host refused to open `{path}`"));
        Ok(File { handle: usize::try_from(handle).map_err(|_| refused())? })
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it cannot be read.
    pub fn read_all(&mut self) -> Result<Vec<u8>> {
        let failed = || Error::board("cannot read a file of the host");
        let length = call(LENGTH, &[self.handle, 0, 0]);
        let mut all = vec![0xa5; usize::try_from(length).map_err(|_| failed())?];
        for chunk in all.chunks_mut(CHUNK) {
            // The result is the number of bytes that were not read.
            if call(READ_BYTES, &[self.handle, chunk.as_mut_ptr() as usize, chunk.len()]) != 0 {
                return Err(failed());
            }
        }
        Ok(all)
    }

    /// Writes `bytes`.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the host did not take all of them.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        for chunk in bytes.chunks(CHUNK) {
            // A copy, so that every page of the buffer is present even if `bytes` is a mapped file.
            let buffer = chunk.to_vec();
            if call(WRITE_BYTES, &[self.handle, buffer.as_ptr() as usize, buffer.len()]) != 0 {
                return Err(Error::board("the host did not write all bytes"));
            }
        }
        Ok(())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        call(CLOSE, &[self.handle, 0, 0]);
    }
}

/// Reads a whole file of the host.
///
/// # Errors
/// As [`File::open`] and [`File::read_all`].
pub fn read(path: &str) -> Result<Vec<u8>> {
    File::open(path, READ)?.read_all()
}

/// Writes a whole file of the host.
///
/// # Errors
/// As [`File::open`] and [`File::write_all`].
pub fn write(path: &str, bytes: &[u8]) -> Result<()> {
    let written = File::open(path, WRITE).and_then(|mut file| file.write_all(bytes));
    written.board(|| format!("cannot give `{path}` to the host")).map_err(|e| e.hint(FULL))
}
