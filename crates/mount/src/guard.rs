//! A process that ends a mount whose server was killed while it waited for itself.
//!
//! Some threads of a server wait for the kernel, which waits for others of them: to forget a file's pages, for one. If
//! all are killed then, none is left to answer, and those that wait never end; nor does the kernel end the mount, as
//! they have its device open. Who uses the mount would wait with them. So another process watches a thread of the
//! server that waits for nothing else. When that ends, so do all, and the connection is aborted: whoever waits gets an
//! error.

use crate::wire::controls;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;

/// Set for the process that watches: the server's number, and that of its thread.
const GUARD: &str = "POCKETSTONE_MOUNT_GUARD";
/// `PIDFD_THREAD`, of Linux 6.9: the thread, not the process. By its leader one would see the end of all alone.
const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(0o200);

/// Whether this process was started to watch a server: [`watch`] is what it has to do.
pub fn is_guard() -> bool {
    std::env::var_os(GUARD).is_some()
}

/// Starts the process that watches this one, which serves a file system of that device number. `command` is to call
/// [`watch`].
///
/// # Errors
/// `ErrorKind::Board` if the kernel lets nobody abort connections here, or the process cannot be started.
pub(crate) fn start(device: u64, mut command: Command) -> Result<()> {
    let cannot = || "cannot start the process that watches the server".to_owned();
    let abort = controls(device).board(cannot)?;
    let (say, started) = sync_channel(1);
    let wait = move || {
        let this = rustix::thread::gettid();
        command.env(GUARD, format!("{} {}", std::process::id(), this.as_raw_nonzero()));
        // What ends the server by its terminal or its folder is not meant for it.
        command.process_group(0).current_dir("/");
        command.stdin(abort).stdout(Stdio::null()).stderr(Stdio::null());
        let guard = command.spawn();
        drop(command);
        match guard {
            Ok(mut guard) => {
                let _ = say.send(Ok(()));
                let _ = guard.wait();
            }
            Err(error) => drop(say.send(Err(error))),
        }
    };
    std::thread::Builder::new().name("guarded".into()).spawn(wait).board(cannot)?;
    started.recv().map_err(|_| Error::bug(cannot()))?.board(cannot)
}

/// Waits until the server has ended, and aborts its connection: standard input is what that is done by. A connection
/// that is no more takes no notice.
///
/// # Errors
/// `ErrorKind::Bug` if this is not such a process; `ErrorKind::Board` if the server cannot be watched.
pub fn watch() -> Result<()> {
    let said = std::env::var(GUARD).unwrap_or_default();
    let numbers: Vec<Option<Pid>> = said.split(' ').map(|number| Pid::from_raw(number.parse().ok()?)).collect();
    let [Some(server), Some(thread)] = numbers[..] else {
        return Err(Error::bug(format!("`{said}` is not a process and its thread")));
    };
    let watched = pidfd_open(thread, THREAD);
    // As long as it is the parent, its numbers mean it.
    if getppid() == Some(server) {
        match watched {
            Ok(thread) => {
                let ended = retry_on_intr(|| poll(&mut [PollFd::new(&thread, PollFlags::IN)], None));
                ended.board(|| "cannot wait for the server's end".into())?;
            }
            Err(Errno::SRCH) => {}
            Err(error) => return Err(error).board(|| "cannot watch the server".into()),
        }
    }
    rustix::io::write(rustix::stdio::stdin(), b"1").map(drop).board(|| "cannot abort the connection".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{is_dead, serve};
    use crate::wire::{Answer, Attributes, Filesystem, Request};
    use crate::{MountOptions, clean_up};
    use pocketstone_testing::Skip;
    use pocketstone_testing::wait::{self, LONG};
    use std::path::{Path, PathBuf};
    use std::sync::OnceLock;

    /// Where the process mounts that is killed, and where it says that it waits.
    const PLACE: &str = "POCKETSTONE_TEST_PLACE";

    /// Says that it was asked for attributes, and never answers.
    struct Silent(PathBuf);

    impl Filesystem for Silent {
        fn getattr(&self, _: &Request) -> Answer<Attributes> {
            std::fs::write(&self.0, "").unwrap();
            loop {
                std::thread::park();
            }
        }
    }

    /// A test of this program as a program of its own.
    fn this(test: &str) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.args(["--exact", &format!("guard::tests::{test}"), "--ignored", "--nocapture"]);
        command
    }

    #[test]
    #[ignore = "another test starts it, and kills it"]
    fn server() {
        let place = PathBuf::from(std::env::var_os(PLACE).expect("that the test below starts this"));
        let (directory, asked) = (place.join("mounted"), place.join("asked"));
        let mounted = serve(Silent(asked), &directory, "test", &MountOptions::default(), 2, &OnceLock::new()).unwrap();
        start(mounted.target().device(), this("guard")).unwrap();
        let _ = rustix::fs::stat(&directory);
    }

    #[test]
    #[ignore = "another test starts it"]
    fn guard() {
        watch().unwrap();
    }

    #[test]
    fn a_server_that_is_killed_while_it_waits_for_itself_ends() -> std::result::Result<(), Skip> {
        pocketstone_testing::fuse()?;
        let folder = tempfile::tempdir().unwrap();
        let directory: &Path = &folder.path().join("mounted");
        std::fs::create_dir(directory).unwrap();
        let mut server = this("server").env(PLACE, folder.path()).stdout(Stdio::null()).spawn().unwrap();
        wait::poll(LONG, || folder.path().join("asked").exists().then_some(())).expect("a server that waits");
        server.kill().unwrap();
        wait::poll(LONG, || server.try_wait().unwrap()).expect("a server that ends");
        assert!(is_dead(directory));
        clean_up(directory).unwrap();
        Ok(())
    }
}
