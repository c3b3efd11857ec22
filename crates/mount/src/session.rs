//! A mounted directory and the threads that serve it.

use crate::device::{self, Attach, mounted_at};
use crate::flushes;
use crate::holders;
use crate::listed;
use crate::options::MountOptions;
use crate::wire::{Connection, Filesystem, Reading, Serving, Session};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{AtFlags, StatVfsMountFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A mounted directory. Dropping it unmounts lazily: what is open can still be used.
pub struct Mounted {
    target: Target,
    serving: Option<Serving>,
    waits_for_itself: bool,
}

/// Takes a mount away, from any thread.
#[derive(Clone)]
pub struct Target {
    mountpoint: PathBuf,
    device: u64,
    connection: Connection,
}

/// Mounts `filesystem` and serves it by threads of its own, at least `least_threads`. `connection` gets what it can
/// talk to the kernel by.
pub(crate) fn serve<F: Filesystem>(
    filesystem: F,
    mountpoint: &Path,
    subtype: &'static str,
    options: &MountOptions,
    least_threads: usize,
    connection: &OnceLock<Connection>,
) -> Result<Mounted> {
    let place = || format!("cannot mount at {}", mountpoint.display());
    let mountpoint = mountpoint.canonicalize().user(place)?;
    if !mountpoint.is_dir() {
        return Err(Error::user(format!("{} is not a directory", mountpoint.display())));
    }
    let how =
        Attach { source: options.source.clone(), subtype, flags: options.flags(), allow_other: options.allow_other };
    let device = device::attach(&mountpoint, &how)?;
    let reading = Reading { asynchronous: options.async_read, most_bytes: options.max_readahead_bytes };
    // From here on whatever fails must take the mount away again.
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        given => given,
    };
    let waits_for_itself = filesystem.waits_for_itself();
    let how = (threads.max(least_threads), options.busy_poll);
    let started = start(filesystem, device, how, reading, connection)
        .and_then(|(serving, connection)| Ok((serving, device_at(&mountpoint)?, connection)))
        .and_then(|started| must_follow_no_links(options, &mountpoint).map(|()| started));
    match started {
        Ok((serving, device, connection)) => {
            connection.is_mounted(device);
            read_ahead(device, reading.most_bytes);
            let target = Target { mountpoint, device, connection };
            Ok(Mounted { target, serving: Some(serving), waits_for_itself })
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
    (threads, busy_poll): (usize, Duration),
    reading: Reading,
    connection: &OnceLock<Connection>,
) -> std::io::Result<(Serving, Connection)> {
    let session = Session::begin(&filesystem, device, reading)?;
    session.serve(filesystem, threads, busy_poll, |made| drop(connection.set(made)))
}

/// Refuses a mount that has to follow no symbolic links where the kernel has not heard of that, and follows them.
fn must_follow_no_links(options: &MountOptions, directory: &Path) -> std::io::Result<()> {
    if options.follow_symlinks || listed::has(directory, "nosymfollow")? {
        return Ok(());
    }
    Err(std::io::Error::other("`nosymfollow` needs Linux 5.10: this kernel follows symbolic links on every mount"))
}

/// The file system that one sees at a directory, without asking whoever serves it. A process that is killed while it
/// waits for an answer of its own threads never ends: none of them is left to give it, and the kernel waits for it.
fn device_at(directory: &Path) -> rustix::io::Result<u64> {
    let (what, how) = (StatxFlags::empty(), AtFlags::STATX_DONT_SYNC);
    let found = rustix::fs::statx(rustix::fs::CWD, directory, how, what)?;
    Ok(rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor))
}

/// The handshake can lower the kernel's default of 128 KiB alone. Root may raise it; for others it stays.
fn read_ahead(device: u64, bytes: u32) {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let _ = std::fs::write(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"), (bytes / 1024).to_string());
}

impl Mounted {
    /// What takes the mount away, for another thread.
    pub fn target(&self) -> Target {
        self.target.clone()
    }

    /// Whether threads of this process have requests of their own for the mount. A process that is killed meanwhile
    /// never ends, unless another one aborts the connection: [`crate::daemon`] takes care of that.
    pub fn waits_for_itself(&self) -> bool {
        self.waits_for_itself
    }

    /// Waits until somebody unmounts the directory. By then the file system is dropped.
    ///
    /// # Errors
    /// `ErrorKind::Board` if serving failed; `ErrorKind::Bug` if a thread panicked.
    pub fn wait(mut self) -> Result<()> {
        self.join()
    }

    /// Unmounts the directory and waits until all of it is written.
    ///
    /// # Errors
    /// As [`Target::unmount`]: a directory in use has vanished all the same, and is unmounted by its last user.
    /// Otherwise as [`Mounted::wait`].
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
            Some(served) => served.board(place),
            None => Err(Error::bug(place()).because("a thread panicked")),
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

    /// The number of the file system.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// Whether this very mount is still what one sees at the directory.
    fn is_there(&self) -> bool {
        device_at(&self.mountpoint).is_ok_and(|device| device == self.device)
    }

    /// Unmounts the directory, unless somebody has done it.
    ///
    /// # Errors
    /// `ErrorKind::User` if it is in use; `ErrorKind::Board` if the kernel refuses for another reason.
    pub fn unmount(&self) -> Result<()> {
        self.unmount_within(20)
    }

    fn unmount_within(&self, attempts: u32) -> Result<()> {
        let busy = || Error::user(format!("{} is in use", self.mountpoint.display()));
        // What looks at every new mount, such as an indexer, lets go of it soon.
        for attempt in 0.. {
            if !self.is_there() {
                break;
            }
            match device::detach(&self.mountpoint, false) {
                Ok(()) => break,
                Err(Errno::BUSY) if attempt < attempts => std::thread::sleep(Duration::from_millis(25)),
                Err(Errno::BUSY) => {
                    let hint = format!("find its users: fuser -vm {}", self.mountpoint.display());
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

impl Target {
    /// Waits until somebody has unmounted the file system in this mount namespace, and ends it if it lives on then
    /// only because other namespaces have copies of the mount. What is open in a mount that was taken away lazily can
    /// be used until its last user closes it, unless there are copies.
    pub fn end_when_unmounted(&self, say: &dyn Fn(&str)) {
        // By then who has nothing but the mount itself has let go of it.
        const ENDING: Duration = Duration::from_millis(100);
        let Ok(list) = File::open("/proc/self/mountinfo") else { return };
        while self.connection.is_alive() && !holders::here(self.device).is_empty() {
            // The kernel says by these that the list of mounts has changed.
            let changed = PollFlags::PRI | PollFlags::ERR;
            let _ = rustix::event::poll(&mut [PollFd::new(&list, changed)], None);
        }
        std::thread::sleep(ENDING);
        if self.connection.is_alive() && !holders::elsewhere(self.device).is_empty() {
            self.end(say);
        }
    }

    /// Has the kernel write back what it holds of the mount's files, and waits until that has arrived. What of
    /// it may be missing, as far as can be told soon.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the mount cannot be seen at its directory, or what was written could not be stored.
    pub fn write_back(&self) -> Result<Option<String>> {
        let cannot = || format!("cannot write back what the kernel holds of {}", self.mountpoint.display());
        // Another mount may lie on top of it.
        if !self.is_there() {
            return Err(Error::board(cannot()).because("it cannot be seen there"));
        }
        let root = File::open(&self.mountpoint).board(cannot)?;
        rustix::fs::syncfs(&root).board(cannot)?;
        // It keeps the mount in use.
        drop(root);
        Ok(self.connection.arrived())
    }

    /// Ends the mount, whoever uses it. It is taken away in this mount namespace. If it is still alive then, because
    /// files are open in it or another namespace has a copy, `say` is told so; what was written, also what the
    /// kernel still keeps, is handed to the file system, and then nobody serves any more: what is open fails.
    pub fn end(&self, say: &dyn Fn(&str)) {
        // By then what merely looks at every new mount has let go of it.
        const ATTEMPTS: u32 = 8;
        const ENDING: Duration = Duration::from_millis(100);
        // Its own threads may come late on a busy machine.
        const SURE_ENDING: Duration = Duration::from_secs(5);
        const WRITING: Duration = Duration::from_secs(60);
        // Once it has ended, its device number may be another's.
        if !self.connection.is_alive() {
            return;
        }
        let was_there = self.is_there();
        let in_use = self.unmount_within(ATTEMPTS).is_err();
        // It was unmounted while nobody used it: unless there are other mounts of it, it ends for sure.
        let mut ends = was_there && !in_use;
        // Something of it that can be synchronised, before it is out of sight.
        let mut root = if in_use { File::open(&self.mountpoint).ok() } else { None };
        self.detach();
        for place in holders::here(self.device) {
            if !self.connection.is_alive() {
                return;
            }
            ends = false;
            root = root.or_else(|| File::open(&place).ok());
            let _ = device::detach(&place, true);
        }
        let start = Instant::now();
        let wait = |limit: Duration| {
            while self.connection.is_alive() && start.elapsed() < limit {
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        if !in_use {
            wait(ENDING);
        }
        let holders = if self.connection.is_alive() { holders::elsewhere(self.device) } else { Vec::new() };
        if ends && holders.is_empty() {
            wait(SURE_ENDING);
        }
        if !self.connection.is_alive() {
            return;
        }
        let place = self.mountpoint.display();
        for holder in &holders {
            say(&format!("{place} was still mounted in {holder}; unmounted there, too"));
        }
        if in_use || holders.is_empty() {
            say(&format!("{place} was in use; files open in it fail from now on"));
        }
        root = root.or_else(|| holders.iter().find_map(|holder| File::open(holder.path()).ok()));
        match &root {
            Some(root) => drop(rustix::fs::syncfs(root)),
            None => rustix::fs::sync(),
        }
        if !self.connection.settle(Duration::ZERO, WRITING) {
            say(&format!("{place} was still being written to when the mount ended"));
        }
        if !self.connection.end(self.device, root.as_ref()) {
            say(&format!("{place} ends with its last user: it cannot be ended earlier here"));
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
/// `ErrorKind::Board` if the kernel refuses.
pub fn clean_up(directory: &Path) -> Result<Before> {
    let mut before = Before::Nothing;
    // Dead mounts may lie on top of each other.
    while is_dead(directory) {
        device::detach(directory, true).map_err(|e| {
            let message = format!("cannot remove the dead mount at {}", directory.display());
            Error::board(message).because(e).hint(format!("umount -l {}", directory.display()))
        })?;
        before = Before::CleanedUp;
    }
    Ok(before)
}

fn is_without_access_times(directory: &Path) -> bool {
    rustix::fs::statvfs(directory).is_ok_and(|now| now.f_flag.contains(StatVfsMountFlags::NOATIME))
}

/// Changes a mount that another process serves: whether it can be written, and its other flags. `kind`: what the
/// list of mounts calls it, such as [`crate::KIND`]. [`MountOptions::keep_flags_of`] keeps what is not to be changed.
///
/// # Errors
/// `ErrorKind::User` if no volume is mounted there, it is being written to, the caller is not permitted to, or an
/// option cannot be changed.
pub fn remount(directory: &Path, kind: &str, options: &MountOptions) -> Result<()> {
    let cannot = || format!("cannot remount {}", directory.display());
    if mounted_at(directory)?.is_none_or(|entry| entry.kind != kind) {
        return Err(Error::user(cannot()).because("no volume is mounted there"));
    }
    let wants = |given: bool, option| Ok::<_, Error>(given && !listed::has(directory, option).user(cannot)?);
    let refused = if wants(options.dir_sync, "dirsync")? {
        Some("no kernel changes `dirsync` of what is mounted")
    } else if wants(options.sync, "sync")? {
        match flushes::Said::of(directory) {
            Some(said) if said.others_store() => Some("`sync` keeps no program from storing by `preload` any more"),
            Some(_) => None,
            None => Some("its server cannot be asked for `sync`"),
        }
    } else {
        None
    };
    if let Some(why) = refused {
        return Err(Error::user(cannot()).because(why).hint("unmount it, and mount it with the option"));
    }
    let mut flags = options.flags();
    // Without a word on access times the kernel leaves them as they are.
    flags.set(MountFlags::RELATIME, !options.noatime && is_without_access_times(directory));
    rustix::mount::mount_remount(directory, flags, "").map_err(|e| {
        let error = Error::user(cannot()).because(e);
        match e {
            Errno::BUSY => error.hint(format!("find its writers: fuser -vm {}", directory.display())),
            _ => error,
        }
    })?;
    // One that is not asked goes on as before: with `sync` it was asked above.
    let _ = flushes::Said::of(directory);
    must_follow_no_links(options, directory).user(cannot)
}

/// Unmounts a directory that another process serves. `lazily`: even if it is in use. Where else its file system is
/// still mounted in this mount namespace.
///
/// # Errors
/// `ErrorKind::User` if it is in use, nothing is mounted there, or the caller is not permitted to.
pub fn unmount(directory: &Path, lazily: bool) -> Result<Vec<PathBuf>> {
    let device = device_at(directory).ok();
    device::detach(directory, lazily).map_err(|e| {
        let error = Error::user(format!("cannot unmount {}", directory.display())).because(e);
        match e {
            Errno::BUSY => error.hint(format!("find its users: fuser -vm {}", directory.display())),
            Errno::INVAL => error.hint("nothing is mounted there"),
            Errno::PERM => error.hint("unmount it as the user who mounted it, or as root"),
            _ => error,
        }
    })?;
    Ok(device.map(holders::here).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Answer, Attributes, More, Request};
    use pocketstone_testing::Skip;
    use std::sync::{Arc, Mutex};

    /// Notes which threads ask for attributes.
    #[derive(Clone, Default)]
    struct Asked(Arc<Mutex<Vec<u32>>>);

    impl Filesystem for Asked {
        fn getattr(&self, request: &Request) -> Answer<Attributes> {
            self.0.lock().unwrap().push(request.pid);
            Err(Errno::IO)
        }

        fn statx(&self, request: &Request) -> Answer<(Attributes, More)> {
            self.0.lock().unwrap().push(request.pid);
            Err(Errno::IO)
        }
    }

    #[test]
    fn who_mounts_asks_its_own_threads_nothing() -> std::result::Result<(), Skip> {
        pocketstone_testing::fuse()?;
        let folder = tempfile::tempdir().unwrap();
        let below = device_at(folder.path()).unwrap();
        let (asked, options) = (Asked::default(), MountOptions::default());
        let mounted = serve(asked.clone(), folder.path(), "test", &options, 2, &OnceLock::new()).unwrap();
        let target = mounted.target();
        assert!(target.is_there() && target.device != below);
        let this = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let by_this = || asked.0.lock().unwrap().iter().filter(|thread| **thread == this).count();
        assert_eq!(by_this(), 0);
        // That it would be noticed.
        assert_eq!(rustix::fs::stat(folder.path()).unwrap_err(), Errno::IO);
        assert!(by_this() > 0);
        mounted.unmount().unwrap();
        assert!(!target.is_there());
        assert_eq!(device_at(folder.path()).unwrap(), below);
        Ok(())
    }
}
