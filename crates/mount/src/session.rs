//! A mounted directory and the threads that serve it.

use crate::device::{self, Attach, mounted_at};
use crate::handshake::{self, Reading};
use crate::options::MountOptions;
use fuser::{Config, Filesystem, Notifier};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::Duration;

/// A mounted directory. Dropping it unmounts lazily: what is open can still be used.
pub struct Mounted {
    target: Target,
    serving: Option<JoinHandle<std::io::Result<()>>>,
}

/// Takes a mount away, from any thread.
#[derive(Debug, Clone)]
pub struct Target {
    mountpoint: PathBuf,
    device: u64,
}

/// Mounts `filesystem` and serves it by threads of its own. `notifier` gets what it can talk to the
/// kernel by.
pub(crate) fn serve<F: Filesystem>(
    filesystem: F,
    mountpoint: &Path,
    subtype: &'static str,
    options: &MountOptions,
    notifier: &OnceLock<Notifier>,
) -> Result<Mounted> {
    let place = || format!("cannot mount at {}", mountpoint.display());
    let mountpoint = mountpoint.canonicalize().user(place)?;
    if !mountpoint.is_dir() {
        return Err(Error::user(format!("{} is no directory", mountpoint.display())));
    }
    let how =
        Attach { source: options.source.clone(), subtype, flags: options.flags(), allow_other: options.allow_other };
    let device = device::attach(&mountpoint, &how)?;
    let reading = Reading { asynchronous: options.async_read, most_bytes: options.max_readahead_bytes };
    // From here on whatever fails must take the mount away again.
    let started = start(filesystem, device, options.threads, reading, notifier).and_then(|serving| {
        let device = rustix::fs::stat(&mountpoint)?.st_dev;
        Ok((serving, device))
    });
    match started {
        Ok((serving, device)) => {
            read_ahead(device, reading.most_bytes);
            Ok(Mounted { target: Target { mountpoint, device }, serving: Some(serving) })
        }
        Err(error) => {
            let _ = device::detach(&mountpoint, true);
            Err(Error::board(place()).because(error))
        }
    }
}

fn start<F: Filesystem>(
    filesystem: F,
    device: std::os::fd::OwnedFd,
    threads: usize,
    reading: Reading,
    notifier: &OnceLock<Notifier>,
) -> std::io::Result<JoinHandle<std::io::Result<()>>> {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        given => given,
    };
    let mut config = Config::default();
    config.n_threads = Some(threads);
    config.clone_fd = threads > 1;
    let session = handshake::begin(filesystem, device, config, reading)?;
    let _ = notifier.set(session.notifier());
    std::thread::Builder::new().name("fuse".into()).spawn(move || ended(session.run()))
}

/// The handshake can lower the kernel's default of 128 KiB alone. Root may raise it; for others it stays.
fn read_ahead(device: u64, bytes: u32) {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let _ = std::fs::write(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"), (bytes / 1024).to_string());
}

/// How serving ended. A connection that ends while something is on its way through it may say that it was aborted,
/// where it says otherwise that the device is gone.
fn ended(outcome: std::io::Result<()>) -> std::io::Result<()> {
    outcome.or_else(|error| match error.raw_os_error() {
        Some(number) if number == Errno::CONNABORTED.raw_os_error() => Ok(()),
        _ => Err(error),
    })
}

impl Mounted {
    /// What takes the mount away, for another thread.
    pub fn target(&self) -> Target {
        self.target.clone()
    }

    /// Waits until somebody unmounts the directory. By then the file system is dropped.
    ///
    /// # Errors
    /// When serving ended otherwise.
    pub fn wait(mut self) -> Result<()> {
        self.join()
    }

    /// Unmounts the directory and waits until all of it is written.
    ///
    /// # Errors
    /// When the directory is in use. It has vanished all the same, and is unmounted by its last user.
    pub fn unmount(mut self) -> Result<()> {
        self.target.unmount()?;
        self.join()
    }

    fn join(&mut self) -> Result<()> {
        let Some(serving) = self.serving.take() else { return Ok(()) };
        let place = || format!("serving {} failed", self.target.mountpoint.display());
        let outcome = serving.join();
        // If all threads died, a dead mount is left behind.
        if is_dead(&self.target.mountpoint) {
            let _ = device::detach(&self.target.mountpoint, true);
        }
        match outcome {
            Ok(served) => served.board(place),
            Err(_) => Err(Error::bug(place()).because("a thread panicked")),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.serving.as_ref().is_some_and(|serving| !serving.is_finished()) {
            self.target.detach();
        }
    }
}

impl Target {
    /// The directory.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Whether this very mount is still what one sees at the directory.
    fn is_there(&self) -> bool {
        rustix::fs::stat(&self.mountpoint).is_ok_and(|stat| stat.st_dev == self.device)
    }

    /// Unmounts the directory, unless somebody has done it.
    ///
    /// # Errors
    /// When it is in use.
    pub fn unmount(&self) -> Result<()> {
        let busy = || Error::user(format!("{} is in use", self.mountpoint.display()));
        // What looks at every new mount, such as an indexer, lets go of it soon.
        for attempt in 0.. {
            if !self.is_there() {
                break;
            }
            match device::detach(&self.mountpoint, false) {
                Ok(()) => break,
                Err(Errno::BUSY) if attempt < 20 => std::thread::sleep(Duration::from_millis(25)),
                Err(Errno::BUSY) => {
                    let hint = format!("see who uses it: fuser -vm {}", self.mountpoint.display());
                    return Err(busy().because(Errno::BUSY).hint(hint));
                }
                Err(e) => {
                    return Err(Error::board(format!("cannot unmount {}", self.mountpoint.display())).because(e));
                }
            }
        }
        Ok(())
    }

    /// Takes the mount out of sight. It ends when its last user has closed what is open.
    pub fn detach(&self) {
        if self.is_there() {
            let _ = device::detach(&self.mountpoint, true);
        }
    }
}

/// What is to be done about a directory before something can be mounted there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// Nothing.
    Nothing,
    /// There was a mount whose server had died. It was taken away.
    CleanedUp,
}

/// Whether a mount's server has died. Attributes would not tell: the kernel keeps them.
pub fn is_dead(directory: &Path) -> bool {
    matches!(rustix::fs::statfs(directory), Err(Errno::NOTCONN | Errno::CONNABORTED))
}

/// Takes dead mounts away from a directory: those whose server was killed.
///
/// # Errors
/// When that fails.
pub fn clean_up(directory: &Path) -> Result<Before> {
    let mut before = Before::Nothing;
    // Dead mounts may lie on top of each other.
    while is_dead(directory) {
        device::detach(directory, true).map_err(|e| {
            let message = format!("cannot take away the dead mount at {}", directory.display());
            Error::board(message).because(e).hint(format!("umount -l {}", directory.display()))
        })?;
        before = Before::CleanedUp;
    }
    Ok(before)
}

/// Changes a mount that another process serves: whether it can be written, and its other flags. `kind`: what the
/// list of mounts calls it, such as [`crate::KIND`].
///
/// # Errors
/// When no volume is mounted there, or it is being written to, or the caller may not.
pub fn remount(directory: &Path, kind: &str, options: &MountOptions) -> Result<()> {
    let cannot = || format!("cannot remount {}", directory.display());
    if mounted_at(directory)?.is_none_or(|entry| entry.kind != kind) {
        return Err(Error::user(cannot()).because("no volume is mounted there"));
    }
    rustix::mount::mount_remount(directory, options.flags(), "").map_err(|e| {
        let error = Error::user(cannot()).because(e);
        match e {
            Errno::BUSY => error.hint(format!("see who writes to it: fuser -vm {}", directory.display())),
            _ => error,
        }
    })
}

/// Unmounts a directory that another process serves. `lazily`: even if it is in use.
///
/// # Errors
/// When it is in use, or nothing is mounted there, or the caller may not.
pub fn unmount(directory: &Path, lazily: bool) -> Result<()> {
    device::detach(directory, lazily).map_err(|e| {
        let error = Error::user(format!("cannot unmount {}", directory.display())).because(e);
        match e {
            Errno::BUSY => error.hint(format!("see who uses it: fuser -vm {}", directory.display())),
            Errno::INVAL => error.hint("nothing is mounted there"),
            Errno::PERM => error.hint("unmount it as the user who mounted it, or as root"),
            _ => error,
        }
    })
}
