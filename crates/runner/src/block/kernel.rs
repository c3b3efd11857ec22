//! The kernel's side of a network block device, and its settings.

use pocketstone_core::block::BlockDevice;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, NoArg, ioctl};
use rustix::net::sockopt;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

// include/uapi/linux/nbd.h: all of these take a number.
const SET_SOCKET: u32 = 0xab00;
const SET_BLOCK_BYTES: u32 = 0xab01;
const DO_IT: u32 = 0xab03;
const SET_BLOCKS: u32 = 0xab07;
const SET_FLAGS: u32 = 0xab0a;
/// Flags are meant; it can flush and discard.
const FLAGS: usize = 1 | 1 << 2 | 1 << 5;
/// Room for several of the largest requests, so that neither side waits for the other in the middle of one.
const SOCKET_BYTES: usize = 4 << 20;
/// The part of a zone's pages that a processor may keep free at hand is one divided by this, and 8 is the least
/// (MIN_PERCPU_PAGELIST_HIGH_FRACTION, mm/page_alloc.c).
const FREE_PAGES: &str = "/proc/sys/vm/percpu_pagelist_high_fraction";
const LARGEST_PART: &str = "8";

/// What the kernel says of a block device.
fn block(at: &Path) -> PathBuf {
    Path::new("/sys/block").join(at.file_name().unwrap_or_default())
}

/// The settings of a block device.
pub fn queue(at: &Path) -> PathBuf {
    block(at).join("queue")
}

/// Makes the device `at` one that is served at the other end of the returned socket. A thread stays in the kernel for
/// it.
///
/// # Errors
/// `ErrorKind::Board` if there is no such device, or the kernel refuses.
pub fn attach(device: &BlockDevice, at: &Path) -> Result<UnixStream> {
    let (kernels, ours) = UnixStream::pair().board(|| "cannot create a socket pair".into())?;
    for end in [&kernels, &ours] {
        sockopt::set_socket_send_buffer_size_force(end, SOCKET_BYTES).board(|| "cannot enlarge a socket".into())?;
    }
    let name = at.display();
    let file = File::options().read(true).write(true).open(at).map_err(|e| {
        Error::board(format!("cannot open {name}")).because(e).hint("load the module `nbd` in the board's profile")
    })?;
    let failed = || format!("the kernel does not take {name} on");
    let blocks = usize::try_from(device.bytes() / u64::from(device.sector_bytes)).board(failed)?;
    let socket = usize::try_from(kernels.as_raw_fd()).board(failed)?;
    // SAFETY: these ioctls take a number, and no pointer.
    unsafe {
        ioctl(&file, IntegerSetter::<SET_BLOCK_BYTES>::new_usize(device.sector_bytes as usize)).board(failed)?;
        ioctl(&file, IntegerSetter::<SET_BLOCKS>::new_usize(blocks)).board(failed)?;
        ioctl(&file, IntegerSetter::<SET_FLAGS>::new_usize(FLAGS)).board(failed)?;
        ioctl(&file, IntegerSetter::<SET_SOCKET>::new_usize(socket)).board(failed)?;
    }
    std::thread::spawn(move || -> rustix::io::Result<()> {
        // The kernel has a reference of its own to the socket only from here on.
        let _socket = kernels;
        // SAFETY: NBD_DO_IT takes no argument. It returns when the device is gone.
        unsafe { ioctl(&file, NoArg::<DO_IT>::new()) }
    });
    Ok(ours)
}

/// Waits until the kernel has the device `at`, and makes its queue that of such a device.
///
/// # Errors
/// `ErrorKind::Board` if it does not come, or a setting is refused.
pub fn configure(device: &BlockDevice, at: &Path) -> Result<()> {
    let (name, queue) = (at.display(), queue(at));
    let sectors = (device.bytes() / 512).to_string();
    let there = || fs::read_to_string(block(at).join("size")).is_ok_and(|size| size.trim() == sectors);
    for _ in 0..1000 {
        if there() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    if !there() {
        return Err(Error::board(format!("the kernel did not bring {name} up")).because(Errno::NODEV));
    }
    let set = |what: &str, value: &str| {
        fs::write(queue.join(what), value).board(|| format!("cannot set {what} of {name} to {value}"))
    };
    let usual = scheduler(at)?;
    // Without a scheduler, this is the number of requests that the driver has at once; with one, the number that the
    // scheduler has, and the driver keeps the number it was given.
    set("scheduler", "none")?;
    set("nr_requests", &device.queue_depth.to_string())?;
    set("scheduler", &usual)?;
    set("max_sectors_kb", &device.request_kib.to_string())?;
    // It is no disk with a seek.
    set("rotational", "0")
}

/// Lets the kernel keep as many free pages of a processor at hand as it can be told to. Once they are as many as it
/// usually keeps, it gives 63 of them back with each request to the device, and takes 63 with the next one, until
/// something else comes: 31 us of the processor, which a controller does not need.
///
/// # Errors
/// `ErrorKind::Board` if the kernel has the setting and refuses it.
pub fn keep_free_pages() -> Result<()> {
    match fs::write(FREE_PAGES, LARGEST_PART) {
        // Before Linux 5.14.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        set => set.board(|| format!("cannot set {FREE_PAGES} to {LARGEST_PART}")),
    }
}

/// The I/O scheduler in force.
fn scheduler(at: &Path) -> Result<String> {
    let name = at.display();
    let text = fs::read_to_string(queue(at).join("scheduler")).board(|| format!("{name} has no scheduler"))?;
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    chosen.map(str::to_owned).ok_or_else(|| Error::board(format!("no scheduler of {name} is in force: {text}")))
}
