//! What the way to the device and back takes by itself, which requests are answered earlier by.

use pocketstone_core::block::{BlockDevice, BlockOp, SIZES};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_engine::now_ns;
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Setter, ioctl, opcode};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::RwLock;

/// How often requests are made for a mean, the smaller ones and the larger ones.
const COUNTS: (u64, u64) = (40, 10);
/// Requests up to so many bytes are small.
const SMALL_BYTES: u64 = 65_536;
/// How often what is left is corrected.
const ROUNDS: usize = 3;
/// The part of a device that requests go to.
const PART_BYTES: u64 = 8 << 20;
/// Largest difference that is left, in thousandths of the time.
const TOLERANCE: u64 = 15;

/// By how much answers are early, by operation and size.
#[derive(Debug, Default)]
pub struct Corrections(RwLock<[[u64; SIZES.len()]; BlockOp::ALL.len()]>);

impl Corrections {
    /// That for a request.
    pub fn of(&self, op: BlockOp, bytes: u64) -> u64 {
        let table = self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        between(&table[op as usize], bytes)
    }

    fn change(&self, op: BlockOp, size: usize, change: impl Fn(u64) -> u64) {
        let mut table = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        table[op as usize][size] = change(table[op as usize][size]);
    }
}

/// The value for so many bytes, on the lines between those for [`SIZES`].
fn between(values: &[u64; SIZES.len()], bytes: u64) -> u64 {
    let above = SIZES.iter().position(|size| *size >= bytes).unwrap_or(SIZES.len() - 1);
    let Some(below) = above.checked_sub(1).filter(|_| bytes < SIZES[above]) else { return values[above] };
    let (part, whole) = (bytes - SIZES[below], SIZES[above] - SIZES[below]);
    let (low, high) = (values[below], values[above]);
    match high >= low {
        true => low + (high - low) * part / whole,
        false => low - (low - high) * part / whole,
    }
}

/// Finds the corrections with which requests take the time they should, as a program measures it that makes them by
/// O_DIRECT, one after the other. Published numbers are measured so.
///
/// # Errors
/// `ErrorKind::Board` if requests fail, or take longer without any waiting.
pub fn calibrate(device: &BlockDevice, at: &Path, corrections: &Corrections) -> Result<()> {
    for op in BlockOp::ALL {
        let sizes: &[u64] = if op == BlockOp::Flush { &SIZES[..1] } else { &SIZES };
        for (size, bytes) in sizes.iter().copied().enumerate().filter(|(_, bytes)| *bytes <= largest(device)) {
            let count = if bytes <= SMALL_BYTES { COUNTS.0 } else { COUNTS.1 };
            let wanted = device.alone_ns(op, if op == BlockOp::Flush { 0 } else { bytes });
            let mut taken = 0;
            for _ in 0..ROUNDS {
                // What the kernel does beside it falls on some of them.
                let mut times = durations(at, op, bytes, count)?;
                times.sort_unstable();
                taken = times[times.len() / 2];
                corrections.change(op, size, |now| (now + taken).saturating_sub(wanted));
            }
            if taken.abs_diff(wanted) * 1000 > wanted * TOLERANCE {
                let (name, wanted, taken) = (op.name(), wanted / 1000, taken / 1000);
                return Err(Error::board(format!("{name} of {bytes} bytes takes {taken} us, and not {wanted}")));
            }
        }
        // Those that are never asked for in one request, or have no size.
        let last = sizes.iter().rposition(|bytes| *bytes <= largest(device)).unwrap_or(0);
        for size in last + 1..SIZES.len() {
            let value = corrections.of(op, SIZES[last]);
            corrections.change(op, size, |_| value);
        }
    }
    Ok(())
}

/// Larger requests are split.
fn largest(device: &BlockDevice) -> u64 {
    u64::from(device.request_kib) * 1024
}

/// How long requests take in the mean that a program makes by O_DIRECT, one after the other, in nanoseconds.
///
/// # Errors
/// `ErrorKind::Board`, as [`durations`].
pub fn mean(device: &Path, op: BlockOp, bytes: u64, count: u64) -> Result<u64> {
    let times = durations(device, op, bytes, count.max(1))?;
    Ok(times.iter().sum::<u64>() / times.len() as u64)
}

/// How long each of some requests takes that a program makes by O_DIRECT, one after the other, in the first part of a
/// device. They write zeros.
///
/// # Errors
/// `ErrorKind::Board` if the device cannot be opened, or a request fails.
fn durations(device: &Path, op: BlockOp, bytes: u64, count: u64) -> Result<Vec<u64>> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let opened =
        rustix::fs::open(device, flags, Mode::empty()).board(|| format!("cannot open {}", device.display()))?;
    let file = File::from(opened);
    let mut memory = vec![0; bytes as usize + 4096];
    let start = memory.as_ptr().align_offset(4096);
    let buffer = &mut memory[start..start + bytes as usize];
    let failed = || format!("{} of {bytes} bytes failed on {}", op.name(), device.display());
    let mut times = Vec::new();
    for request in 0..count + 1 {
        let at = place(request, bytes);
        let begin = now_ns();
        match op {
            BlockOp::Read => file.read_exact_at(buffer, at).board(failed)?,
            BlockOp::Write => file.write_all_at(buffer, at).board(failed)?,
            BlockOp::Flush => file.sync_data().board(failed)?,
            BlockOp::Discard => {
                // SAFETY: BLKDISCARD reads two u64, where to begin and how many bytes.
                unsafe { ioctl(&file, Setter::<{ opcode::none(0x12, 119) }, [u64; 2]>::new([at, bytes])) }
                    .board(failed)?;
            }
        }
        times.push(now_ns() - begin);
    }
    // The first one finds cold paths.
    times.remove(0);
    Ok(times)
}

/// Where a request goes: not behind the one before it, so that no kernel takes them for a stream.
fn place(request: u64, bytes: u64) -> u64 {
    request * 7 % (PART_BYTES / bytes.max(4096)) * bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrections_lie_on_lines_between_those_that_were_found() {
        let corrections = Corrections::default();
        for (size, value) in [100, 200, 150, 0, 0, 0, 0, 0, 1000].into_iter().enumerate() {
            corrections.change(BlockOp::Write, size, |_| value);
        }
        let of = |bytes| corrections.of(BlockOp::Write, bytes);
        assert_eq!([512, 4096, 6144, 8192, 12_288, 1 << 20, 8 << 20].map(of), [100, 100, 150, 200, 175, 1000, 1000]);
        assert_eq!(corrections.of(BlockOp::Read, 4096), 0);
    }

    #[test]
    fn requests_stay_in_the_first_part_and_go_about_in_it() {
        let places = |bytes| (0..41).map(|request| place(request, bytes)).collect::<Vec<u64>>();
        for bytes in SIZES {
            let places = places(bytes);
            assert!(places.iter().all(|at| at % bytes == 0 && at + bytes <= PART_BYTES), "{bytes}: {places:?}");
            assert!(places.windows(2).all(|pair| pair[1] != pair[0] + bytes), "{bytes}: {places:?}");
        }
    }

    #[test]
    fn a_file_is_no_device() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = mean(file.path(), BlockOp::Discard, 4096, 1).unwrap_err();
        assert!(error.chain().contains(&file.path().display().to_string()), "{}", error.chain());
    }
}
