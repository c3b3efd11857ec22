//! Asynchronous requests: the kernel's AIO, and io_uring.

use crate::system::Map;
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// What AIO is asked for.
#[derive(Clone, Copy)]
pub enum Ask {
    /// To read.
    Read = 0,
    /// To write.
    Write = 1,
    /// To sync.
    Sync = 2,
    /// To sync contents alone.
    DataSync = 3,
}

/// The kernel's `struct iocb`.
#[repr(C)]
#[derive(Default)]
struct Block {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    result_file: u32,
}

/// The kernel's `struct io_event`.
#[repr(C)]
#[derive(Default, Clone, Copy)]
struct Event {
    data: u64,
    block: u64,
    result: i64,
    result_2: i64,
}

/// A queue of AIO.
pub struct Aio(u64);

fn result(returned: i64) -> io::Result<i64> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

impl Aio {
    /// For so many requests at once.
    pub fn new(requests: u32) -> io::Result<Aio> {
        let mut context = 0u64;
        // SAFETY: the kernel writes a number there.
        result(unsafe { libc::syscall(libc::SYS_io_setup, requests, &mut context) })?;
        Ok(Aio(context))
    }

    /// Asks for something of a buffer's bytes. The buffer has to stay until the answer is there.
    pub fn submit(&self, ask: Ask, file: impl AsFd, buffer: &Map, len: usize, offset: u64) -> io::Result<()> {
        let block = Block {
            data: offset,
            opcode: ask as u16,
            file: file.as_fd().as_raw_fd() as u32,
            buffer: if matches!(ask, Ask::Read | Ask::Write) { buffer.address() } else { 0 },
            bytes: len as u64,
            offset: offset as i64,
            ..Block::default()
        };
        let list = [&raw const block];
        // SAFETY: the kernel copies the block; the buffer is memory that only volatile accesses reach.
        result(unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1, list.as_ptr()) }).map(drop)
    }

    /// Waits for an answer: the offset asked for, and bytes or a negative error number.
    pub fn wait(&self) -> io::Result<(u64, i64)> {
        let mut event = Event::default();
        let none = std::ptr::null::<libc::timespec>();
        // SAFETY: there is room for the one event.
        result(unsafe { libc::syscall(libc::SYS_io_getevents, self.0, 1, 1, &mut event, none) })?;
        Ok((event.data, event.result))
    }

    /// Asks for one thing and waits for it.
    pub fn once(&self, ask: Ask, file: impl AsFd, buffer: &Map, len: usize, offset: u64) -> io::Result<i64> {
        self.submit(ask, file, buffer, len, offset)?;
        self.wait().map(|(_, result)| result)
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // SAFETY: the context is ours.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

const SETUP: libc::c_long = libc::SYS_io_uring_setup;
const ENTER: libc::c_long = libc::SYS_io_uring_enter;
/// The kernel's numbers of operations. This one syncs.
pub const FSYNC: u8 = 3;
/// Allocates.
pub const FALLOCATE: u8 = 17;
/// Reads.
pub const READ: u8 = 22;
/// Writes.
pub const WRITE: u8 = 23;

/// A ring of io_uring with one request at a time.
pub struct Ring {
    ring: OwnedFd,
    queues: Map,
    entries: Map,
    /// Where in `queues` the parts are: submissions' tail, mask and array; completions' head, mask, entries.
    parts: [usize; 6],
}

impl Ring {
    /// A new one.
    pub fn new() -> io::Result<Ring> {
        // `struct io_uring_params`: 120 bytes, of which the offsets begin at 40 and 80.
        let mut params = [0u32; 30];
        // SAFETY: the kernel reads and writes these 120 bytes.
        let fd = result(unsafe { libc::syscall(SETUP, 4, params.as_mut_ptr()) })?;
        // SAFETY: the number is that of a file just opened, which nobody else has.
        let ring = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let part = |index: usize| params[index] as usize;
        let parts = [part(11), part(12), part(16), part(20), part(22), part(25)];
        // Since Linux 5.4 both queues are in one mapping.
        let bytes = (part(25) + part(1) * 16).max(part(16) + part(0) * 4);
        let queues = Map::shared(&ring, 0, bytes)?;
        let entries = Map::shared(&ring, 0x1000_0000, part(0) * 64)?;
        Ok(Ring { ring, queues, entries, parts })
    }

    fn number(&self, at: usize) -> &AtomicU32 {
        assert!(at % 4 == 0);
        // SAFETY: it is a number of the queues, aligned, in memory that lives as long as `self`; both
        // sides access it atomically.
        unsafe { AtomicU32::from_ptr((self.queues.address() as usize + at) as *mut u32) }
    }

    /// Asks for one thing and waits for it: bytes or a negative error number.
    pub fn once(&self, operation: u8, file: impl AsFd, buffer: Option<&Map>, len: u32, offset: u64) -> io::Result<i32> {
        let mut entry = [0u8; 64];
        entry[0] = operation;
        entry[4..8].copy_from_slice(&file.as_fd().as_raw_fd().to_ne_bytes());
        entry[8..16].copy_from_slice(&offset.to_ne_bytes());
        // fallocate has its length where the others have the buffer's address.
        let address = buffer.map_or(if operation == FALLOCATE { u64::from(len) } else { 0 }, Map::address);
        entry[16..24].copy_from_slice(&address.to_ne_bytes());
        let len = if operation == FALLOCATE { 0 } else { len };
        entry[24..28].copy_from_slice(&len.to_ne_bytes());
        let [tail, mask, array, head, completed_mask, completed] = self.parts;
        let slot = self.number(tail).load(Ordering::Relaxed) & self.number(mask).load(Ordering::Relaxed);
        self.entries.write(slot as usize * 64, &entry);
        self.number(array + slot as usize * 4).store(slot, Ordering::Relaxed);
        self.number(tail).fetch_add(1, Ordering::Release);
        let none = std::ptr::null::<u8>();
        // SAFETY: one entry is in the queue; its buffer is memory that only volatile accesses reach.
        result(unsafe { libc::syscall(ENTER, self.ring.as_raw_fd(), 1, 1, 1, none, 0) })?;
        let first = self.number(head).load(Ordering::Acquire);
        let slot = first & self.number(completed_mask).load(Ordering::Relaxed);
        let answer = self.number(completed + slot as usize * 16 + 8).load(Ordering::Acquire) as i32;
        self.number(head).store(first.wrapping_add(1), Ordering::Release);
        Ok(answer)
    }
}
