//! How to mount.

use crate::listed;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::fs::StatVfsMountFlags;
use rustix::mount::MountFlags;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// About what it takes in a virtual machine until a thread on another processor runs (docs/scmfs.md): who looks for so
/// long in vain has lost no more than sleeping would have cost.
const BUSY_POLL: Duration = Duration::from_micros(100);

/// `ST_NOSYMFOLLOW` of statvfs(3).
const NOSYMFOLLOW: StatVfsMountFlags = StatVfsMountFlags::from_bits_retain(0x2000);

/// Is told what went wrong while a volume is served, in one line.
pub type Reporter = Arc<dyn Fn(&str) + Send + Sync>;

/// What processes of the user who serves a mount, and of root, may do with the content of files without the kernel, if
/// they have the library for it loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preload {
    /// Nothing.
    #[default]
    Off,
    /// Read: they map the region so that they cannot store to it.
    Read,
    /// Read and overwrite: they are trusted as much as the server.
    Write,
    /// Append, too: one process at a time has the end of a file.
    Append,
    /// Overwrite, and map files: the kernel keeps no pages of any file then, and maps none that others share. Where
    /// files cannot be mapped it is as [`Preload::Write`].
    Map,
}

impl Preload {
    /// Whether processes may store.
    pub fn stores(self) -> bool {
        matches!(self, Preload::Write | Preload::Append | Preload::Map)
    }
}

/// How to mount a volume.
#[derive(Clone)]
pub struct MountOptions {
    /// What the list of mounts shows as the source: the region's path.
    pub source: String,
    /// Threads that serve; 0: as many as there are processors.
    pub threads: usize,
    /// How long a thread looks for the next request after one before it sleeps, where the one before came as soon: to
    /// wake it takes longer than most answers. Ten times as long while processes that store directly ask. Zero, or on
    /// the only processor: not at all.
    pub busy_poll: Duration,
    /// Refuse changes.
    pub read_only: bool,
    /// Keep nothing in the kernel's page cache: every read and write comes here.
    pub direct_io: bool,
    /// Refuse at open(2) already, not only at the first change, to write to what is append-only or immutable, as a
    /// kernel's file system does. The kernel asks at every open and close then.
    pub strict_open: bool,
    /// Let the kernel collect writes. Faster for small ones, but a write may fail after it returned,
    /// and what was collected is lost if the machine stops.
    pub writeback: bool,
    /// Let programs change several ranges of a file at once, all or nothing: databases without a journal. Not together
    /// with `writeback` or `preload`.
    pub atomic: bool,
    /// Let other users in. Needs root, or `user_allow_other` in /etc/fuse.conf.
    pub allow_other: bool,
    /// Do not note when something was read.
    pub noatime: bool,
    /// Device files work (root only).
    pub dev: bool,
    /// Set-user-id programs work (root only).
    pub suid: bool,
    /// Programs can be run.
    pub exec: bool,
    /// Every change is flushed before the call that makes it returns, so that no process stores without the server;
    /// what is stored to mapped files is flushed by msync(2).
    pub sync: bool,
    /// So is every change of names.
    pub dir_sync: bool,
    /// Paths lead through symbolic links. Where the kernel knows no other way, a mount that is not to do so is refused.
    pub follow_symlinks: bool,
    /// Read ahead without letting the reader wait. Off, a read(2) that triggers read-ahead takes the time of all
    /// of it, as over the kernel's MTD: right for raw NAND, where one chip does one thing at a time.
    pub async_read: bool,
    /// Largest window of the kernel's read-ahead in bytes, a multiple of 1024. Above 128 KiB root alone gets it.
    pub max_readahead_bytes: u32,
    /// What processes may do with the content of files without the kernel.
    pub preload: Preload,
    /// Is told of damage.
    pub reporter: Option<Reporter>,
}

impl Default for MountOptions {
    /// As `mount` has it: root gets a mount for all users with everything working, others one for
    /// themselves.
    fn default() -> MountOptions {
        let root = rustix::process::geteuid().is_root();
        MountOptions {
            source: "scmfs".into(),
            threads: 0,
            busy_poll: BUSY_POLL,
            read_only: false,
            direct_io: false,
            strict_open: false,
            writeback: false,
            atomic: false,
            allow_other: root,
            noatime: false,
            dev: root,
            suid: root,
            exec: true,
            sync: false,
            dir_sync: false,
            follow_symlinks: true,
            async_read: true,
            max_readahead_bytes: 1 << 20,
            preload: Preload::default(),
            reporter: None,
        }
    }
}

impl MountOptions {
    /// As a file system on raw NAND is mounted: prefetch is read inside the read(2) that triggers it, with the
    /// 128 KiB that Linux gives a device at most by default (VM_READAHEAD_PAGES), and by one thread, as there is
    /// one chip; it takes longer for a request than waking the thread does.
    pub fn raw_nand(source: &str) -> MountOptions {
        MountOptions {
            source: source.into(),
            threads: 1,
            busy_poll: Duration::ZERO,
            async_read: false,
            max_readahead_bytes: 128 << 10,
            ..MountOptions::default()
        }
    }

    /// Takes over the flags that a directory is mounted with, so that a remount changes only those that somebody names.
    ///
    /// # Errors
    /// `ErrorKind::User` if the directory cannot be looked at.
    pub fn keep_flags_of(&mut self, directory: &Path) -> Result<()> {
        let cannot = || format!("cannot see how {} is mounted", directory.display());
        let now = rustix::fs::statvfs(directory).user(cannot)?.f_flag;
        self.read_only = now.contains(StatVfsMountFlags::RDONLY);
        self.noatime = now.contains(StatVfsMountFlags::NOATIME);
        self.dev = !now.contains(StatVfsMountFlags::NODEV);
        self.suid = !now.contains(StatVfsMountFlags::NOSUID);
        self.exec = !now.contains(StatVfsMountFlags::NOEXEC);
        self.sync = now.contains(StatVfsMountFlags::SYNCHRONOUS);
        // statvfs(3) does not tell.
        self.dir_sync = listed::has(&directory.canonicalize().user(cannot)?, "dirsync").user(cannot)?;
        self.follow_symlinks = !now.contains(NOSYMFOLLOW);
        Ok(())
    }

    /// Refuses what does not go together.
    pub(crate) fn check(&self) -> Result<()> {
        let others = [("writeback", self.writeback), ("preload", self.preload != Preload::Off)];
        match others.iter().find(|(_, given)| self.atomic && *given) {
            None => Ok(()),
            Some((other, _)) => Err(Error::user(format!("`atomic` and `{other}` are not for the same mount"))
                .hint("leave one of them out: with `atomic` every write has to come through the kernel as it is made")),
        }
    }

    /// The flags that mount(2) takes.
    pub(crate) fn flags(&self) -> MountFlags {
        let mut flags = MountFlags::empty();
        flags.set(MountFlags::RDONLY, self.read_only);
        flags.set(MountFlags::NOATIME, self.noatime);
        flags.set(MountFlags::NODEV, !self.dev);
        flags.set(MountFlags::NOSUID, !self.suid);
        flags.set(MountFlags::NOEXEC, !self.exec);
        flags.set(MountFlags::SYNCHRONOUS, self.sync);
        flags.set(MountFlags::DIRSYNC, self.dir_sync);
        flags.set(MountFlags::NOSYMFOLLOW, !self.follow_symlinks);
        flags
    }
}
