//! A session of Android's program `perfetto`, which records for as long as it lasts.

use pocketstone_core::error::Context as _;
use pocketstone_core::{Error, Result};
use pocketstone_process::ended_within;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where Android lets `perfetto` write.
const TRACES: &str = "/data/misc/perfetto-traces";

/// Of every session: whatever becomes of this process, it ends after an hour, and with a file of 2 GiB. Who has events
/// gives them to `traced` four times a second, and `traced` writes them into the file: so a run may be as long as that,
/// and its first ones show that they are recorded.
const LASTING: &str = "duration_ms: 3600000\nwrite_into_file: true\nfile_write_period_ms: 250\nflush_period_ms: 250\n\
                       max_file_size_bytes: 2147483648\n";
/// How the names of their files begin and end.
const NAMED: [&str; 2] = ["pocketstone-", ".pftrace"];

/// How long a session may take to record its first event, and to end.
const LIMIT: Duration = Duration::from_secs(20);
/// How often it is looked whether it records.
const LOOK: Duration = Duration::from_millis(20);

/// The program `perfetto`.
///
/// # Errors
/// `ErrorKind::Board` if there is none.
pub(crate) fn program() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("perfetto")).find(|file| file.is_file());
    found.ok_or_else(|| Error::board("there is no program perfetto").hint("use Android 10 or newer, or a rooted phone"))
}

fn folder() -> PathBuf {
    let androids = Path::new(TRACES);
    if androids.is_dir() { androids.into() } else { std::env::temp_dir() }
}

/// Ends the sessions that killed runners have left, and removes their files. Nobody else may be at work.
pub fn end_left() {
    if program().is_err() {
        return;
    }
    let [begin, end] = NAMED;
    let is_trace = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(begin) && name.ends_with(end)
    };
    for process in procfs::process::all_processes().into_iter().flatten().flatten() {
        let words = process.cmdline().unwrap_or_default();
        let is_perfetto = words.first().is_some_and(|program| Path::new(program).ends_with("perfetto"));
        if is_perfetto && words.iter().any(|word| is_trace(Path::new(word))) {
            let _ = Pid::from_raw(process.pid).map(|pid| kill_process(pid, Signal::INT));
        }
    }
    for entry in fs::read_dir(folder()).into_iter().flatten().flatten() {
        if is_trace(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A session of `perfetto`, which ends with this.
pub(crate) struct Session {
    child: Child,
    trace: PathBuf,
    is_over: bool,
}

impl Session {
    /// Starts one that records this, and waits until `records` finds in its file, which may be written to meanwhile,
    /// that it does: before anybody has told `traced` of an event, it writes of itself. `name` tells it from others of
    /// this process.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it does not record, with the fix as its hint.
    pub fn start(
        program: &Path,
        name: &str,
        config: &str,
        records: impl Fn(BufReader<File>) -> bool,
    ) -> Result<Session> {
        let [begin, end] = NAMED;
        let trace = folder().join(format!("{begin}{}-{name}{end}", std::process::id()));
        // One that a killed runner has left; another process that is alive has another number.
        let _ = fs::remove_file(&trace);
        let mut command = Command::new(program);
        // Its config by standard input: until Android 12 it may not read a file's.
        command.args(["--txt", "-c", "-", "-o"]).arg(&trace).stdin(Stdio::piped());
        // What it says by a pipe: Android lets it write to few files.
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().board(|| format!("cannot start {}", program.display()))?;
        let input = child.stdin.take();
        let mut session = Session { child, trace, is_over: false };
        if let Some(mut input) = input {
            // One that ends at once says why by itself.
            let _ = input.write_all([LASTING, config].concat().as_bytes());
        }
        let begin = Instant::now();
        while !File::open(&session.trace).is_ok_and(|file| records(BufReader::new(file))) {
            if let Some(why) = session.ended_within(LOOK)? {
                return Err(Error::board(format!("perfetto ended before it recorded anything: {why}")).hint(
                    "Android 9 and 10 need `adb shell setprop persist.traced.enable 1`, and Android 9 cannot be told \
                     by text what to record",
                ));
            }
            if begin.elapsed() > LIMIT {
                return Err(Error::board(format!("perfetto recorded nothing within {} s", LIMIT.as_secs()))
                    .hint("end other sessions of perfetto on the phone, or restart it"));
            }
        }
        Ok(session)
    }

    /// As Ctrl-C, which does not reach it without a terminal: it writes what it has. Whether it then ends in time.
    fn interrupt(&mut self) -> Result<bool> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::INT);
        }
        Ok(self.ended_within(LIMIT)?.is_some())
    }

    /// What it said, if it ends within this time.
    fn ended_within(&mut self, limit: Duration) -> Result<Option<String>> {
        if ended_within(&mut self.child, limit).board(|| "cannot wait for perfetto".into())?.is_none() {
            return Ok(None);
        }
        self.is_over = true;
        let mut said = [0; 4096];
        let length = self.child.stderr.as_mut().map_or(0, |pipe| {
            // A process that it has left would keep the pipe open.
            let _ = rustix::fs::fcntl_setfl(&*pipe, rustix::fs::OFlags::NONBLOCK);
            pipe.read(&mut said).unwrap_or(0)
        });
        let said = String::from_utf8_lossy(&said[..length]);
        Ok(Some(said.lines().last().unwrap_or("it did not say why").trim().to_owned()))
    }

    /// Ends it; its trace.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it had ended before, or does not end.
    pub fn stop(&mut self) -> Result<File> {
        if let Some(why) = self.ended_within(Duration::ZERO)? {
            return Err(Error::board(format!("perfetto ended before the run did: {why}"))
                .hint("a session lasts an hour at most, and another one may have ended it"));
        }
        if !self.interrupt()? {
            return Err(
                Error::board(format!("perfetto did not end within {} s", LIMIT.as_secs())).hint("restart the phone")
            );
        }
        File::open(&self.trace).board(|| format!("cannot read {}", self.trace.display()))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // One that does not end is not waited for: Android does not let its shell kill it, and it ends by itself.
        if !self.is_over && !self.interrupt().unwrap_or(false) {
            let _ = self.child.kill();
            let _ = self.child.try_wait();
        }
        let _ = fs::remove_file(&self.trace);
    }
}
