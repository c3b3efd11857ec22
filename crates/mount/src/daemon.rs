//! The process that serves a mount: in the background, until it is told to end.

use crate::guard;
use crate::options::Reporter;
use crate::session::{Mounted, Target};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Set for the process that is to serve in the background.
const SERVER: &str = "POCKETSTONE_MOUNT_SERVER";
/// What it says when the mount can be used.
const READY: &str = "ready";

/// Whether this process was started by [`in_background`], to serve.
pub fn is_background() -> bool {
    std::env::var_os(SERVER).is_some()
}

/// Starts this command again, to serve, and waits until it does or fails; the exit status. What it has to say until
/// then it says on this terminal.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be started, or exits before the volume is mounted without a status of its own.
pub fn in_background() -> Result<u8> {
    let cannot = || "cannot start the server".to_owned();
    let mut given = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    command.arg0(given.next().unwrap_or_default()).args(given).env(SERVER, "1");
    // A group of its own: an interrupt from the terminal is not meant for it.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut server = command.spawn().board(cannot)?;
    let output = server.stdout.take().ok_or_else(|| Error::bug(cannot()))?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).board(cannot)?;
    if line.trim_end() == READY {
        return Ok(0);
    }
    let status = server.wait().board(cannot)?;
    let ended = || Error::board("the server exited before the volume was mounted").because(status.to_string());
    // It has said why.
    status.code().and_then(|code| u8::try_from(code).ok()).filter(|&code| code != 0).ok_or_else(ended)
}

/// Serves a mount until somebody unmounts it, or a signal asks for the end; then `close` closes the volume. A
/// process of [`in_background`] leaves its terminal first.
///
/// # Errors
/// As [`Mounted::wait`], or the error of `close`; in the background the log has either, too. `ErrorKind::Board` if
/// signals cannot be handled, or the terminal cannot be left.
pub fn serve(mounted: Mounted, log: &Log, close: impl FnOnce() -> Result<()>) -> Result<()> {
    let background = is_background();
    end_when_told(mounted.target(), log.clone())?;
    if background {
        log.0.detached.store(true, Ordering::Relaxed);
        leave_the_terminal()?;
    }
    abort_on_panic(log.clone());
    let served = mounted.wait();
    let outcome = served.and(close());
    if let (Err(error), true) = (&outcome, background) {
        log.write(&error.chain());
    }
    outcome
}

/// Starts this command once more, to watch the server of a mount that waits for itself; then [`guard::is_guard`].
/// Without it the mount is as good, until its server is killed.
///
/// # Errors
/// `ErrorKind::Board` if the kernel lets nobody abort the connection here, or the command cannot be started.
pub fn watch(mounted: &Mounted) -> Result<()> {
    if !mounted.waits_for_itself() {
        return Ok(());
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg0("mount-guard").env_remove(SERVER);
    guard::start(mounted.target().device(), command).map_err(|e| {
        e.hint(
            "as root: mount -t fusectl none /sys/fs/fuse/connections; or, if its server is killed: umount -f, as root",
        )
    })
}

/// Says that the mount can be used, and becomes a process of its own.
fn leave_the_terminal() -> Result<()> {
    let cannot = || "cannot detach from the terminal".to_owned();
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/").board(cannot)?;
    let mut output = std::io::stdout();
    // Whoever waited may have been killed; the mount is good all the same.
    let _ = writeln!(output, "{READY}").and_then(|()| output.flush());
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").board(cannot)?;
    rustix::stdio::dup2_stdout(&null).board(cannot)?;
    rustix::stdio::dup2_stderr(&null).board(cannot)
}

/// From now on an interrupt or a request to terminate ends the mount, whoever uses it; and so does unmounting it
/// where it was mounted, if other mount namespaces have copies.
fn end_when_told(target: Target, log: Log) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals =
        signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]).board(|| "cannot handle signals".to_owned())?;
    let (same, its_log) = (target.clone(), log.clone());
    let unmounted = move || same.end_when_unmounted(&|text| its_log.write(text));
    let wait = move || {
        for _ in signals.forever() {
            target.end(&|text| log.write(text));
        }
    };
    let start = |name: &str, work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.into()).spawn(work).board(|| "cannot start a thread".to_owned())
    };
    start("signals", Box::new(wait))?;
    start("unmounted", Box::new(unmounted))?;
    Ok(())
}

/// A fault must not go on with half an operation done. The process ends, and the volume is recovered
/// as after any other death.
fn abort_on_panic(log: Log) {
    std::panic::set_hook(Box::new(move |panic| {
        log.write(&format!("internal error in {}, the server exits: {panic}", log.0.name));
        std::process::abort();
    }));
}

/// Where errors go: to the terminal, and to a file or the system's log when that is gone.
#[derive(Clone)]
pub struct Log(Arc<Inner>);

struct Inner {
    name: &'static str,
    file: Option<PathBuf>,
    on_terminal: fn(&str),
    detached: AtomicBool,
    last: Mutex<String>,
}

impl Log {
    /// A log of the program `name`. `on_terminal` is told as long as there is one; then `file`, or the system's log.
    pub fn new(name: &'static str, file: Option<PathBuf>, on_terminal: fn(&str)) -> Log {
        Log(Arc::new(Inner { name, file, on_terminal, detached: AtomicBool::default(), last: Mutex::default() }))
    }

    /// Tells it what goes wrong while a volume is served.
    pub fn reporter(&self) -> Reporter {
        let log = self.clone();
        Arc::new(move |text: &str| log.write(text))
    }

    fn write(&self, text: &str) {
        // The same damage may be met thousands of times.
        let mut last = self.0.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *last == text {
            return;
        }
        text.clone_into(&mut last);
        if !self.0.detached.load(Ordering::Relaxed) {
            return (self.0.on_terminal)(text);
        }
        // Nobody is left to be told that this failed.
        let _ = match &self.0.file {
            Some(file) => append(file, text),
            None => system_log(self.0.name, text),
        };
    }
}

fn append(file: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file)?;
    writeln!(file, "{text}")
}

/// An error of a daemon, as syslog(3) would send it.
fn system_log(name: &str, text: &str) -> std::io::Result<()> {
    const DAEMON_ERROR: u8 = (3 << 3) | 3;
    let line = format!("<{DAEMON_ERROR}>{name}[{}]: {text}", std::process::id());
    UnixDatagram::unbound()?.send_to(line.as_bytes(), "/dev/log").map(|_| ())
}
