//! Volumes made and mounted by the command `scmfs`, for programs that know nothing of it.
//!
//! Everything is in a mount namespace of the calling thread and of the programs it starts, so that
//! whatever happens to a test, no mount of its stays.

use crate::command::{Process, Ran, binary, poll, run};
use pocketstone_testing::wait::LONG;
use pocketstone_testing::{Need, Skip};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::UnshareFlags;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// `scmfs` with arguments: what was built beside the `pocketstone` under test.
pub fn scmfs<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let program = binary().with_file_name("scmfs");
    assert!(program.exists(), "there is no {}; build it: make build", program.display());
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// A tmpfs that only the calling thread and its children see.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// Mounts it.
    ///
    /// # Errors
    ///
    /// A counted [`Skip`] where this process may not mount, or there is no FUSE.
    #[track_caller]
    pub fn new() -> Result<Place, Skip> {
        pocketstone_testing::fuse()?;
        // SAFETY: only mounts are unshared, and this thread needs none that others make.
        let unshared = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) };
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        if let Err(e) = unshared.and_then(|()| rustix::mount::mount_change("/", private)) {
            return Err(Need::Namespaces.lacks(format_args!("no mounts of one's own: {e}")));
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        rustix::mount::mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), Some(c"size=8G"))
            .expect("a tmpfs is mounted");
        Ok(Place { folder })
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A new folder in it, in which everybody may do everything.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("a new folder");
        open_to_all(&path);
        path
    }

    /// Makes mount(8) find the command under test, and in this place no other helper.
    pub fn mount_helpers(&self) {
        let helpers = self.folder("helpers");
        for name in ["mount.scmfs", "mount.fuse.scmfs"] {
            symlink(binary().with_file_name("scmfs").canonicalize().expect("scmfs"), helpers.join(name))
                .expect("a new link");
        }
        let sbin = Path::new("/sbin").canonicalize().expect("/sbin");
        rustix::mount::mount_bind(&helpers, &sbin).expect("it is bound over /sbin");
    }

    /// A fresh volume of 2 GiB, mounted.
    pub fn volume(&self, mount: &[&str]) -> MountedVolume {
        make(&self.path("region"), &["--size", "2G"]);
        MountedVolume::mount(&self.path("region"), &self.folder("mount"), mount)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.folder.path(), UnmountFlags::DETACH);
    }
}

/// Lets everybody do everything with a file or folder.
pub fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("the mode");
}

/// Makes a volume.
#[track_caller]
pub fn make(region: &Path, more: &[&str]) {
    run(scmfs(["mkfs"]).arg(region).args(more)).ends_with(0);
}

/// A check finds nothing.
#[track_caller]
pub fn check(region: &Path) -> Ran {
    run(scmfs(["fsck"]).arg(region)).ends_with(0).says(&["; 0 findings, 0 left"])
}

/// A mounted volume. When it is dropped it is unmounted, and its server ends, by force if need be.
pub struct MountedVolume {
    region: PathBuf,
    directory: PathBuf,
    server: Process,
}

impl MountedVolume {
    /// Mounts a volume at a directory.
    #[track_caller]
    pub fn mount(region: &Path, directory: &Path, more: &[&str]) -> MountedVolume {
        run(scmfs(["mount"]).args(more).arg(region).arg(directory)).ends_with(0);
        MountedVolume::mounted(region, directory)
    }

    /// What somebody has mounted.
    #[track_caller]
    pub fn mounted(region: &Path, directory: &Path) -> MountedVolume {
        let state = run(scmfs(["df", "--json"]).arg(directory)).ends_with(0);
        let state: serde_json::Value = serde_json::from_str(&state.out).expect("JSON");
        let pid = state["pid"].as_u64().expect("the server's number") as u32;
        let server = Process::of(pid).expect("the server runs");
        MountedVolume { region: region.to_owned(), directory: directory.to_owned(), server }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Whether its server runs.
    pub fn runs(&self) -> bool {
        self.server.runs()
    }

    /// The file that it is in.
    pub fn region(&self) -> &Path {
        &self.region
    }

    /// Unmounts it, checks it, and mounts it otherwise.
    #[track_caller]
    pub fn again(self, mount: &[&str]) -> MountedVolume {
        let (region, directory) = (self.region.clone(), self.directory.clone());
        self.end();
        MountedVolume::mount(&region, &directory, mount)
    }

    /// Kills the server, and waits until it has ended. The directory stays, and everything in it fails.
    pub fn kill(&self) {
        kill(&self.server, Signal::KILL);
    }

    /// Has the server end in its own way, and waits until it has.
    pub fn terminate(&self) {
        kill(&self.server, Signal::TERM);
    }

    /// The server's process id.
    pub fn server(&self) -> u32 {
        self.server.pid
    }

    /// Kills the server, checks what it leaves, and mounts it again.
    #[track_caller]
    pub fn kill_and_mount_again(self, mount: &[&str]) -> MountedVolume {
        let (region, directory) = (self.region.clone(), self.directory.clone());
        self.kill();
        drop(self);
        check(&region).says(&["not closed"]);
        let mounted = run(scmfs(["mount"]).args(mount).arg(&region).arg(&directory)).ends_with(0);
        mounted.complains(&["its server had died; unmounted"]);
        MountedVolume::mounted(&region, &directory)
    }

    /// Unmounts it, and checks it.
    #[track_caller]
    pub fn end(self) {
        // What another thread is just starting holds this one's open files until it executes its program.
        let unmount =
            || Some(run(scmfs(["umount"]).arg(&self.directory))).filter(|ran| !ran.err.contains("os error 16"));
        poll(LONG, unmount).expect("nobody uses it").ends_with(0);
        // By now the volume is closed, though the server may have a last breath to take.
        check(&self.region).says(&["closed cleanly"]);
        let ended = poll(LONG, || (!self.server.runs()).then_some(()));
        assert!(ended.is_some(), "the server stays");
    }
}

impl Drop for MountedVolume {
    fn drop(&mut self) {
        if self.server.runs() {
            let _ = rustix::mount::unmount(&self.directory, UnmountFlags::DETACH);
            if poll(Duration::from_secs(5), || (!self.server.runs()).then_some(())).is_none() {
                kill(&self.server, Signal::KILL);
            }
        }
    }
}

/// Sends a process a signal that ends it, and waits until it has ended.
pub fn kill(process: &Process, signal: Signal) {
    if let Some(pid) = Pid::from_raw(process.pid as i32).filter(|_| process.runs()) {
        let _ = kill_process(pid, signal);
    }
    // Its first thread may have ended while others still hold what it had open.
    let threads = || fs::read_dir(format!("/proc/{}/task", process.pid)).map_or(0, Iterator::count);
    let ended = poll(LONG, || (!process.runs() && threads() < 2).then_some(()));
    assert!(ended.is_some(), "process {} does not end", process.pid);
}
