//! The virtual clock in a saved state.
//!
//! When the machine stops itself, two threads of QEMU meet. One sees a processor that runs no more
//! and, the virtual clock being free to skip idle time, moves the clock on to the next timer. The
//! other declares the machine stopped, after which the clock stays where it is. Which comes first is
//! the host's affair; both are right, but they are two different states. So only one of them is kept:
//! the one with the clock moved on, which is the usual one. The other is recognised and made again.
//!
//! The moves of the clock are added up in the saved state (QEMU's softmmu/cpu-timers.c, this
//! subsection the same since 2.10), numbers big-endian:
//!
//! ```text
//! 0x05  length (1)  "timer/icount"  version (4)  qemu_icount_bias (8)  qemu_icount (8)
//! ```

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;

const COUNT: &[u8] = b"\x0ctimer/icount\0\0\0\x01";
/// Devices come last in a state; all of them together take far less than this.
const TAIL_BYTES: u64 = 4 << 20;

/// Nanoseconds by which a saved state's clock was moved on since the machine was switched on.
///
/// # Errors
/// `ErrorKind::Board` if the state cannot be read or has another format.
pub fn moved_on_ns(state: &File) -> Result<u64> {
    let length = state.metadata().board(|| "cannot examine the saved state".into())?.len();
    let start = length.saturating_sub(TAIL_BYTES);
    let mut tail = vec![0; (length - start) as usize];
    state.read_exact_at(&mut tail, start).board(|| "cannot read the saved state".into())?;
    let at = tail.windows(COUNT.len()).rposition(|w| w == COUNT).map(|at| at + COUNT.len());
    let bias = at.and_then(|at| tail.get(at..at + 8)?.try_into().ok()).map(u64::from_be_bytes);
    bias.ok_or_else(|| {
        Error::board("the saved state has no clock in a known format")
            .hint("the virtual board was tested with QEMU 7.2; check yours: qemu-system-arm --version")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_last_clock_in_a_state_counts() {
        let mut file = tempfile::tempfile().unwrap();
        for part in [b"ram", COUNT, &[9; 16], b"more ram", COUNT, &[0, 0, 0, 0, 0, 0, 1, 2, 7, 7, 7, 7, 7, 7, 7, 7]] {
            file.write_all(part).unwrap();
        }
        assert_eq!(moved_on_ns(&file).unwrap(), 0x102);
        let other = tempfile::tempfile().unwrap();
        assert!(moved_on_ns(&other).unwrap_err().cure().unwrap().contains("--version"));
    }
}
