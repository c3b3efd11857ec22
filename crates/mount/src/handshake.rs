//! The first exchange with the kernel, in which a mount gets its rules.
//!
//! `fuser` always asks for asynchronous reads (FUSE_ASYNC_READ). With them read-ahead returns at once, and what
//! was not asked for is read while the reader goes on; without them a read(2) that triggers read-ahead waits for
//! all of it, as over MTD. So `fuser` does its handshake through a socket: the kernel's question is passed on to
//! it, its answer is changed and passed back, and only then it gets the device itself.

use fuser::{Config, Filesystem, Session, SessionACL};
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// How the kernel is to read ahead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// Several reads of one file at once, for which nobody waits.
    pub asynchronous: bool,
    /// Largest window in bytes.
    pub most_bytes: u32,
}

/// Largest message of a handshake: the kernel's question has 104 bytes, what it may read has to have 8 KiB.
const MESSAGE_BYTES: usize = 64 << 10;

// struct fuse_out_header and struct fuse_init_out of include/uapi/linux/fuse.h: offsets in the answer.
const HEADER_ERROR: usize = 4;
const HEADER_BYTES: usize = 16;
const MAX_READAHEAD: usize = HEADER_BYTES + 8;
const FLAGS: usize = HEADER_BYTES + 12;
/// FUSE_ASYNC_READ of `flags`.
const ASYNC_READ: u32 = 1;

/// Begins a session on an open /dev/fuse.
pub(crate) fn begin<F: Filesystem>(
    filesystem: F,
    device: OwnedFd,
    config: Config,
    reading: Reading,
) -> io::Result<Session<F>> {
    // Keeps the bounds of messages, as the device does.
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let mut message = vec![0; MESSAGE_BYTES];
    let length = rustix::io::retry_on_intr(|| rustix::io::read(&device, &mut message))?;
    rustix::net::send(&ours, &message[..length], SendFlags::empty())?;
    // A second question does not come this way: whoever waits for one gets an end of file.
    rustix::net::shutdown(&ours, Shutdown::Write)?;
    // The kernel enforces who may use a mount; asked twice, it would refuse what the kernel itself sends.
    let session = Session::from_fd(filesystem, theirs, SessionACL::All, config);
    // A refusal is an answer too.
    if let Ok(length) = rustix::io::read(&ours, &mut message).map(|length| length.min(MESSAGE_BYTES)) {
        let answer = &mut message[..length];
        if length > 0 {
            change(answer, reading);
            rustix::io::retry_on_intr(|| rustix::io::write(&device, answer))?;
        }
    }
    let session = session?;
    // SAFETY: the session owns this descriptor and lives on; `ManuallyDrop` leaves closing it to the session.
    let mut its = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(session.as_fd().as_raw_fd()) });
    rustix::io::dup3(&device, &mut its, rustix::io::DupFlags::CLOEXEC)?;
    Ok(session)
}

/// Puts what is wanted into an answer to FUSE_INIT.
fn change(answer: &mut [u8], reading: Reading) {
    let refused = answer.get(HEADER_ERROR..HEADER_ERROR + 4).is_none_or(|error| error != [0; 4]);
    if refused || answer.len() < FLAGS + 4 {
        return;
    }
    let field = |at: usize| u32::from_ne_bytes([answer[at], answer[at + 1], answer[at + 2], answer[at + 3]]);
    let most = field(MAX_READAHEAD).min(reading.most_bytes);
    let flags = if reading.asynchronous { field(FLAGS) } else { field(FLAGS) & !ASYNC_READ };
    answer[MAX_READAHEAD..MAX_READAHEAD + 4].copy_from_slice(&most.to_ne_bytes());
    answer[FLAGS..FLAGS + 4].copy_from_slice(&flags.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer as the header draws it: length, error, unique, then major, minor, max_readahead, flags, the rest.
    fn answer(error: i32, flags: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(80u32.to_ne_bytes());
        bytes.extend(error.to_ne_bytes());
        bytes.extend(7u64.to_ne_bytes());
        for word in [7, 40, 1 << 20, flags] {
            bytes.extend(u32::to_ne_bytes(word));
        }
        bytes.resize(80, 0xab);
        bytes
    }

    #[test]
    fn the_bit_is_cleared_and_the_window_is_bounded_and_nothing_else_changes() {
        let mut changed = answer(0, 0xffff_ffff);
        change(&mut changed, Reading { asynchronous: false, most_bytes: 128 << 10 });
        let mut expected = answer(0, 0xffff_fffe);
        expected[24..28].copy_from_slice(&(128u32 << 10).to_ne_bytes());
        assert_eq!(changed, expected);
        let mut kept = answer(0, 0xffff_ffff);
        change(&mut kept, Reading { asynchronous: true, most_bytes: u32::MAX });
        assert_eq!(kept, answer(0, 0xffff_ffff));
    }

    #[test]
    fn a_refusal_and_a_short_answer_stay_what_they_are() {
        for original in [answer(-71, 1), answer(0, 1)[..20].to_vec(), Vec::new()] {
            let mut changed = original.clone();
            change(&mut changed, Reading { asynchronous: false, most_bytes: 0 });
            assert_eq!(changed, original);
        }
    }
}
