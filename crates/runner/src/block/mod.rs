//! The block device of a virtual board: a network block device (nbd) whose server is a process of ours. It keeps the
//! content in memory, and answers each request when a device of the profile's kind would, on the board's own clock.

pub mod asked;
mod calibration;
mod kernel;
mod server;

pub use kernel::queue;

use calibration::{Corrections, calibrate, mean};
use pocketstone_core::block::{BLOCK_FILE, BlockDevice, BlockOp, SIZES};
use pocketstone_core::block_record::{BlockImage, PAGE_BYTES};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::fs::{Mode, OFlags, SeekFrom};
use server::Server;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Pages in the largest request that loads an image.
const LOADED_PAGES: usize = 64;
/// What the server says when its device is there and takes the times it should.
const READY: &str = "ready";
/// The program's word for the server, in front of the device's description.
pub const SERVE: &str = "serve-block";

/// Starts this program again as the server of the device `at` that `description` describes, and waits until it is
/// ready. It outlives the caller.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be started or served; the message includes what the server said.
pub fn start(description: &Path, at: &Path) -> Result<()> {
    let program = std::env::current_exe().board(|| "cannot find the path of this program".into())?;
    let mut command = Command::new(program);
    command.arg(SERVE).args([description, at]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().board(|| "cannot start the block device's server".into())?;
    let Some(output) = child.stdout.take() else { return Err(Error::bug("the server has no output")) };
    let (mut output, mut said) = (BufReader::new(output), String::new());
    output.read_line(&mut said).board(|| "cannot read from the block device's server".into())?;
    if said.trim() == READY {
        return Ok(());
    }
    // It has more to say where it failed.
    output.read_to_string(&mut said).board(|| "cannot read from the block device's server".into())?;
    let hint = "change [block] in the board's profile, and load the module `nbd` in [modules]";
    Err(Error::board(format!("there is no block device: {}", said.trim())).hint(hint))
}

/// The board's block device, if it has one.
///
/// # Errors
/// `ErrorKind::User` if its description cannot be read, or describes none.
pub fn described() -> Result<Option<BlockDevice>> {
    let description = Path::new("/").join(BLOCK_FILE);
    description.exists().then(|| read(&description)).transpose()
}

fn read(description: &Path) -> Result<BlockDevice> {
    let text = fs::read(description).user(|| format!("cannot read {}", description.display()))?;
    serde_json::from_slice(&text).user(|| format!("{} describes no block device", description.display()))
}

/// Serves the device `at` that the file `description` describes, for as long as the board runs.
///
/// # Errors
/// `ErrorKind::User` if the file cannot be read or describes no device; `ErrorKind::Board` if the kernel refuses, or
/// requests take longer on this board than they should in all.
pub fn serve(description: &Path, at: &Path, say: impl Fn(&str)) -> Result<()> {
    let device = read(description)?;
    device.check()?;
    let corrections = Arc::new(Corrections::default());
    kernel::keep_free_pages()?;
    let stream = kernel::attach(&device, at)?;
    let listener = asked::listen()?;
    let server = Server::new(device.clone(), Arc::clone(&corrections), stream, listener);
    let serving = std::thread::spawn(move || server.serve());
    kernel::configure(&device, at)?;
    calibrate(&device, at, &corrections)?;
    if device.translation.is_some() {
        asked::translate()?;
    }
    say(&format!("{READY}\n"));
    serving.join().unwrap_or_else(|_| Err(Error::bug("the block device's server panicked")))
}

/// Gives the device `at`, which nobody has mounted, the contents of an image, past the kernel's page cache.
///
/// # Errors
/// `ErrorKind::Board` if it has another size, or a write fails.
pub fn load(image: &BlockImage, at: &Path) -> Result<()> {
    let failed = || format!("cannot write the contents of {}", at.display());
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(at, flags, Mode::empty()).board(failed)?);
    let size = rustix::fs::seek(&file, SeekFrom::End(0)).board(failed)?;
    if size != image.size() {
        let (name, wanted) = (at.display(), image.size());
        return Err(Error::board(format!("{name} has {size} bytes, the contents are of {wanted}")));
    }
    let mut memory = vec![0; LOADED_PAGES * PAGE_BYTES + PAGE_BYTES];
    let start = memory.as_ptr().align_offset(PAGE_BYTES);
    let buffer = &mut memory[start..start + LOADED_PAGES * PAGE_BYTES];
    // Pages that follow each other are one request.
    let (mut first, mut count) = (0, 0);
    for (page, bytes) in image.pages() {
        if count > 0 && (page != first + count as u64 || count == LOADED_PAGES) {
            file.write_all_at(&buffer[..count * PAGE_BYTES], first * PAGE_BYTES as u64).board(failed)?;
            count = 0;
        }
        if count == 0 {
            first = page;
        }
        buffer[count * PAGE_BYTES..(count + 1) * PAGE_BYTES].copy_from_slice(bytes);
        count += 1;
    }
    file.write_all_at(&buffer[..count * PAGE_BYTES], first * PAGE_BYTES as u64).board(failed)?;
    file.sync_all().board(failed)
}

/// How long requests of every kind and size take on a block device, whose content is lost: lines of operation, bytes
/// and nanoseconds.
///
/// # Errors
/// `ErrorKind::User` if `count` is no number; `ErrorKind::Board` if a request fails.
pub fn times(device: &str, count: &str, say: impl Fn(&str)) -> Result<()> {
    let count = count.parse().user(|| format!("`{count}` is not a number of requests"))?;
    for op in BlockOp::ALL {
        let sizes: &[u64] = if op == BlockOp::Flush { &[0] } else { &SIZES };
        for bytes in sizes {
            say(&format!("{} {bytes} {}\n", op.name(), mean(Path::new(device), op, *bytes, count)?));
        }
    }
    Ok(())
}
