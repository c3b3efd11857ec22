//! An engine's process, from the side of who started it; the protocol is in `task.rs`.

use super::{Task, TaskResult, command};
use crate::child::{how_it_ended, last_words};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_process::ended_within;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Files that are made in the folder of a process.
const TASK_FILE: &str = "task.json";
const STDERR_FILE: &str = "stderr.txt";
/// How long a process that has said all may take to write its logs and end.
const END_LIMIT: Duration = Duration::from_secs(60);
/// How long one that closed its output may take to end.
const CRASH_LIMIT: Duration = Duration::from_secs(5);

/// A process that executes a task. Dropping it kills it; it is also killed when the thread that started it
/// ends, or the program does.
pub struct Process {
    child: Child,
    engine: &'static str,
    result: PathBuf,
    stderr: PathBuf,
    /// What it has said beyond the last line taken.
    heard: Vec<u8>,
    /// Its last line.
    said: &'static str,
}

impl Process {
    /// Writes the task into `folder` and starts the process of its engine there; `runner` is the program
    /// `pocketstone-runner`.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it cannot be started.
    pub fn start(runner: &Path, task: &Task, folder: &Path) -> Result<Process> {
        let path = folder.join(TASK_FILE);
        let text = serde_json::to_vec_pretty(task).map_err(|e| Error::bug("a task has no JSON").because(e))?;
        std::fs::write(&path, text).board(|| format!("cannot write {}", path.display()))?;
        Process::spawn(command(task.spec.engine, runner, &path)?, task, folder)
    }

    /// Starts any command as the process of a task.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it cannot be started.
    pub fn spawn(mut command: Command, task: &Task, folder: &Path) -> Result<Process> {
        let engine = task.spec.engine.name();
        let stderr = folder.join(STDERR_FILE);
        let file = std::fs::File::create(&stderr).board(|| format!("cannot make {}", stderr.display()))?;
        // A result of an earlier process would be taken for this one's.
        if task.result.exists() {
            std::fs::remove_file(&task.result).board(|| format!("cannot remove {}", task.result.display()))?;
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        crate::end_with_this_process(&mut command);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().board(|| format!("cannot start {program} for {engine}"))?;
        Ok(Process { child, engine, result: task.result.clone(), stderr, heard: Vec::new(), said: "" })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the database is open.
    ///
    /// # Errors
    /// The process's own failure; `ErrorKind::Board` if it exits, or exceeds `limit` and is killed.
    pub fn wait_ready(&mut self, limit: Duration) -> Result<()> {
        self.wait_line("ready", limit)
    }

    /// Lets it begin.
    ///
    /// # Errors
    /// The failure of the process if it has exited; `ErrorKind::Bug` after the end of its input.
    pub fn go(&mut self) -> Result<()> {
        let stdin = self.child.stdin.as_mut().ok_or_else(|| Error::bug("`go` was sent after the end"))?;
        match stdin.write_all(b"go\n") {
            Ok(()) => Ok(()),
            Err(_) => Err(self.ended()),
        }
    }

    /// Waits until all operations are executed. The process is still there then, and uses nothing more.
    ///
    /// # Errors
    /// The process's own failure; `ErrorKind::Board` if it exits, or exceeds `limit` and is killed.
    pub fn wait_done(&mut self, limit: Duration) -> Result<()> {
        self.wait_line("done", limit)
    }

    /// Lets it write its logs and end, and reads its result.
    ///
    /// # Errors
    /// The process's own failure; `ErrorKind::Board` if there is no result.
    pub fn finish(mut self) -> Result<TaskResult> {
        drop(self.child.stdin.take());
        match self.wait_end(END_LIMIT)? {
            Some(status) => self.judge(status),
            None => Err(self.kill("did not end", END_LIMIT)),
        }
    }

    fn wait_line(&mut self, expected: &'static str, limit: Duration) -> Result<()> {
        let until = Instant::now() + limit;
        let end = loop {
            if let Some(end) = self.heard.iter().position(|b| *b == b'\n') {
                break end;
            }
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                return Err(self.kill(&format!("did not send `{expected}`"), limit));
            };
            if !self.hear(left)? {
                return Err(self.ended());
            }
        };
        let line: Vec<u8> = self.heard.drain(..=end).collect();
        if line[..end] != *expected.as_bytes() {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            return Err(Error::board(format!("{} sent {line:?} instead of `{expected}`{}", self.name(), self.words())));
        }
        self.said = expected;
        Ok(())
    }

    /// Takes what it says within a time; false at the end of its output.
    fn hear(&mut self, limit: Duration) -> Result<bool> {
        let stdout = self.child.stdout.as_mut().ok_or_else(|| Error::bug("a process has no output"))?;
        let limit = Timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos() as _ };
        let ready = match poll(&mut [PollFd::new(&*stdout, PollFlags::IN)], Some(&limit)) {
            Err(rustix::io::Errno::INTR) => 0,
            ready => ready.board(|| "cannot wait for a process".to_owned())?,
        };
        if ready == 0 {
            return Ok(true);
        }
        let mut buffer = [0; 256];
        let got = stdout.read(&mut buffer).board(|| "cannot read from a process".to_owned())?;
        self.heard.extend(&buffer[..got]);
        Ok(got > 0)
    }

    /// Its exit status, or `None` where it has not ended in time.
    fn wait_end(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        ended_within(&mut self.child, limit).board(|| "cannot wait for a process".to_owned())
    }

    /// The error of a process that ended where it should not have.
    #[cold]
    fn ended(&mut self) -> Error {
        match self.wait_end(CRASH_LIMIT) {
            Ok(Some(status)) => match self.judge(status) {
                Ok(_) => Error::board(format!("{} ended {}", self.name(), self.stage())),
                Err(error) => error,
            },
            Ok(None) => self.kill("closed its output and did not exit", CRASH_LIMIT),
            Err(error) => error,
        }
    }

    /// The result of a process that has ended.
    fn judge(&self, status: ExitStatus) -> Result<TaskResult> {
        let result = match std::fs::read(&self.result) {
            Ok(text) => serde_json::from_slice::<TaskResult>(&text).ok(),
            Err(_) => None,
        };
        match result {
            Some(TaskResult { failure: Some(failure), .. }) => Err(failure.into()),
            Some(result) if status.success() => Ok(result),
            _ => {
                let how = match status.success() {
                    true => "exited without a result".to_owned(),
                    false => how_it_ended(status),
                };
                Err(Error::board(format!("{} {how} {}{}", self.name(), self.stage(), self.words())))
            }
        }
    }

    /// Kills it and says why.
    #[cold]
    fn kill(&mut self, what: &str, limit: Duration) -> Error {
        let state = self.state();
        self.end();
        let seconds = limit.as_secs_f64();
        let message = format!("{} {what} within {seconds} s and was killed {}", self.name(), self.stage());
        Error::board(format!("{message}{state}{}", self.words()))
            .hint("a slow machine needs a longer limit or fewer operations; a hang is a fault of the engine")
    }

    fn end(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn name(&self) -> String {
        format!("the process of {}", self.engine)
    }

    fn stage(&self) -> &'static str {
        match self.said {
            "ready" => "while it executed its operations",
            "done" => "after its last operation",
            _ => "before its database was open",
        }
    }

    /// What the kernel says that it is doing.
    fn state(&self) -> String {
        let process = procfs::process::Process::new(self.pid() as i32);
        let status = process.and_then(|process| process.status());
        status.map(|status| format!("; its state was {}", status.state)).unwrap_or_default()
    }

    /// The last lines of its standard error.
    fn words(&self) -> String {
        let bytes = std::fs::read(&self.stderr).unwrap_or_default();
        last_words(&bytes).map_or(String::new(), |words| format!("; its last output: {words}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
