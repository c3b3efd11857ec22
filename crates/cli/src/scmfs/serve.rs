//! `mount`: a process that serves a volume, and the one that waits until it does.

use crate::arguments::MountArguments;
use crate::{helper, region};
use pocketstone_cli::note;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_mount::{Before, MountOptions, Reporter};
use pocketstone_scmfs::{OpenOptions, Volume};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Set for the process that is to serve in the background.
const SERVER: &str = "SCMFS_SERVER";
/// What it says when the mount can be used.
const READY: &str = "ready";

pub fn mount(given: &MountArguments) -> Result<u8> {
    let mut arguments = given.clone();
    let mut options = MountOptions::default();
    helper::apply(&mut arguments, &mut options)?;
    if arguments.remount {
        return pocketstone_mount::remount(&region::canonical(&arguments.directory)?, pocketstone_mount::KIND, &options).map(|()| 0);
    }
    let server = std::env::var_os(SERVER).is_some();
    if !server && !arguments.foreground && !arguments.fake {
        return in_background();
    }
    if pocketstone_mount::clean_up(&arguments.directory)? == Before::CleanedUp {
        let directory = arguments.directory.display();
        note("note", &format!("{directory} was mounted, but its server had died: unmounted it"));
    }
    // The working directory is given up, and the mount table should say the same to everybody.
    arguments.region = region::canonical(&arguments.region)?;
    arguments.directory = region::canonical(&arguments.directory)?;
    if let Some(log) = &arguments.log {
        arguments.log = Some(std::path::absolute(log).user(|| format!("cannot find {}", log.display()))?);
    }
    options.source = region::text(&arguments.region)?.to_owned();
    let region = region::open(&arguments.region, !options.read_only, arguments.persistent)?;
    if arguments.fake {
        return Ok(0);
    }
    let warning = region::warning(&*region);
    let open = OpenOptions { read_only: options.read_only, background: true, ..OpenOptions::default() };
    let volume = Volume::open(region, &open).user(|| format!("cannot open {}", arguments.region.display()))?;
    if let Some(warning) = warning {
        note("warning", &warning);
    }
    serve(volume, &arguments, options, server)
}

/// Starts this command again, to serve, and waits until it does or fails. What it has to say until
/// then it says on this terminal.
fn in_background() -> Result<u8> {
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
    let ended = || Error::board("the server ended before the volume was mounted").because(status.to_string());
    // It has said why.
    status.code().and_then(|code| u8::try_from(code).ok()).filter(|&code| code != 0).ok_or_else(ended)
}

fn serve(volume: Volume, arguments: &MountArguments, mut options: MountOptions, server: bool) -> Result<u8> {
    let log = Log::new(arguments.log.clone());
    let reporter: Reporter = {
        let log = log.clone();
        Arc::new(move |text: &str| log.write(text))
    };
    options.reporter = Some(reporter);
    let volume = Arc::new(volume);
    let mounted = pocketstone_mount::mount(volume.clone(), &arguments.directory, &options)?;
    unmount_when_told(mounted.target())?;
    if server {
        log.detach();
        leave_the_terminal()?;
    }
    abort_on_panic(log.clone());
    let served = mounted.wait();
    let close = || format!("cannot close {}", arguments.region.display());
    let closed = match Arc::into_inner(volume) {
        Some(volume) => volume.close().user(close),
        None => Err(Error::bug(close()).because("something still holds it")),
    };
    let outcome = served.and(closed);
    if let (Err(error), true) = (&outcome, server) {
        log.write(&error.chain());
    }
    outcome.map(|()| 0)
}

/// Says that the mount can be used, and becomes a process of its own.
fn leave_the_terminal() -> Result<()> {
    let cannot = || "cannot leave the terminal".to_owned();
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/").board(cannot)?;
    let mut output = std::io::stdout();
    // Whoever waited may have been killed; the mount is good all the same.
    let _ = writeln!(output, "{READY}").and_then(|()| output.flush());
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").board(cannot)?;
    rustix::stdio::dup2_stdout(&null).board(cannot)?;
    rustix::stdio::dup2_stderr(&null).board(cannot)
}

/// An interrupt or a request to terminate unmounts; if the mount is in use it vanishes, and ends with
/// its last user.
fn unmount_when_told(target: pocketstone_mount::Target) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals =
        signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]).board(|| "cannot handle signals".to_owned())?;
    let wait = move || {
        for _ in signals.forever() {
            if target.unmount().is_err() {
                target.detach();
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).board(|| "cannot start a thread".to_owned())?;
    Ok(())
}

/// A fault must not go on with half an operation done. The process ends, and the volume is recovered
/// as after any other death.
fn abort_on_panic(log: Log) {
    std::panic::set_hook(Box::new(move |panic| {
        log.write(&format!("a fault of scmfs, the server ends: {panic}"));
        std::process::abort();
    }));
}

/// Where errors go: to the terminal, and to a file or the system's log when that is gone.
#[derive(Clone)]
struct Log {
    file: Option<PathBuf>,
    detached: Arc<AtomicBool>,
    last: Arc<Mutex<String>>,
}

impl Log {
    fn new(file: Option<PathBuf>) -> Log {
        Log { file, detached: Arc::default(), last: Arc::default() }
    }

    fn detach(&self) {
        self.detached.store(true, Ordering::Relaxed);
    }

    fn write(&self, text: &str) {
        // The same damage may be met thousands of times.
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *last == text {
            return;
        }
        text.clone_into(&mut last);
        if !self.detached.load(Ordering::Relaxed) {
            return note("error", text);
        }
        // Nobody is left to be told that this failed.
        let _ = match &self.file {
            Some(file) => append(file, text),
            None => system_log(text),
        };
    }
}

fn append(file: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file)?;
    writeln!(file, "{text}")
}

/// An error of a daemon, as syslog(3) would send it.
fn system_log(text: &str) -> std::io::Result<()> {
    const DAEMON_ERROR: u8 = (3 << 3) | 3;
    let line = format!("<{DAEMON_ERROR}>scmfs[{}]: {text}", std::process::id());
    UnixDatagram::unbound()?.send_to(line.as_bytes(), "/dev/log").map(|_| ())
}
