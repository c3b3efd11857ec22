//! A command of the user's as a process that waits until it may begin.
//!
//! The process is there, with its number, before the command runs: probes are armed for it. It is the runner's program
//! until it is let go, and then, by exec(2), the shell that runs the command line.

use crate::child::{at_end, how_it_ended, last_words};
use crate::clock::now_ns;
use pocketstone_core::database::Usage;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Bytes of the end of its output that are kept.
const KEPT_BYTES: u64 = 64 << 10;

/// How long a process may take until it waits.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// The runner's word for a process that waits in front of a command.
pub const GATE: &str = "gate";

/// The runner's word for a process that ends a command if the runner cannot.
pub const GUARD: &str = "guard";

/// A command that waits or runs. Dropping it kills it, and all that it started and that is still in its process group;
/// if this process is killed, its guard does.
pub struct Waiting {
    child: Child,
    guard: Option<Child>,
    output: PathBuf,
    /// What it waits at: it is let go by a byte.
    gate: Option<UnixStream>,
    /// What starting the process in front of it has used.
    before: Usage,
    /// Its status was taken, and its number may be another's.
    taken: bool,
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// What it used, with those of its children that it waited for.
    pub usage: Usage,
    /// The end of its output.
    pub output: String,
    /// Bytes of its output in all.
    pub output_bytes: u64,
}

impl Waiting {
    /// Puts a process in place that waits in front of a command line; `runner` is the program that has [`GATE`]. The
    /// command will find itself in `folder`, `variables` in its environment, and nothing to read; what it writes goes
    /// to the file `output`.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it cannot be started.
    pub fn start(
        runner: &Path,
        line: &str,
        folder: &Path,
        output: &Path,
        variables: &[(&str, String)],
    ) -> Result<Waiting> {
        let failed = || format!("cannot make {}", output.display());
        let file = File::create(output).board(failed)?;
        let (gate, its_side) = UnixStream::pair().board(|| "cannot make a pair of sockets".into())?;
        let mut command = Command::new(runner);
        command.args([GATE, line]).current_dir(folder).envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(OwnedFd::from(its_side)).stdout(file.try_clone().board(failed)?).stderr(file);
        in_own_session(&mut command);
        crate::end_with_this_process(&mut command);
        let child = command.spawn().board(|| format!("cannot start the command in {}", folder.display()))?;
        // Its side is the process's alone: whoever waits for it hears of its end.
        drop(command);
        // Dropped by whatever fails from here on.
        let (output, before) = (output.to_owned(), Usage::default());
        let mut waiting = Waiting { child, guard: None, output, gate: None, before, taken: false };
        let mut guard = Command::new(runner);
        guard.args([GUARD, &waiting.pid().to_string()]);
        // What a terminal sends to all is not for it.
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        waiting.guard = Some(guard.spawn().board(|| "cannot start the command's guard".into())?);
        waiting.before = ready(&gate).ok_or_else(|| {
            Error::board(format!("the process in front of the command did not start{}", waiting.said()))
        })?;
        waiting.gate = Some(gate);
        Ok(waiting)
    }

    /// Its process number, before and after it is let go.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it go, and waits until it has ended: when it began and when it had ended, in ns of CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it takes longer than `limit`: it is killed then.
    pub fn go(&mut self, limit: Duration) -> Result<(u64, u64)> {
        let (tell, ended) = channel();
        // Nobody may be interested any more when it has been killed.
        at_end(&self.child, move |end_ns| {
            let _ = tell.send(end_ns);
        });
        let start_ns = now_ns();
        if let Some(mut gate) = self.gate.take() {
            gate.write_all(b"\n").board(|| "the process in front of the command has ended".into())?;
        }
        match ended.recv_timeout(limit) {
            Ok(end_ns) => Ok((start_ns, end_ns)),
            Err(_) => {
                let (seconds, said) = (limit.as_secs(), self.said());
                let error = Error::board(format!("the command did not end within {seconds} s and was killed{said}"));
                Err(error.hint("give it less to do"))
            }
        }
    }

    /// What it did. Whatever it left running in its process group is killed.
    ///
    /// # Errors
    /// `ErrorKind::Board` if its exit status is not 0, with the end of its output; if it has not ended; or if its
    /// output cannot be read.
    pub fn finish(mut self) -> Result<Ended> {
        let (status, usage) = self.take()?;
        if !status.success() {
            let error = Error::board(format!("the command {}{}", how_it_ended(status), self.said()));
            return Err(match status.code() {
                Some(126 | 127) => error.hint(
                    "it is run by the board's shell in a folder of the volume: name the files that it needs there \
                     (--files, or command_files in a study), built for the board's processor and linked statically \
                     where the board lacks libraries",
                ),
                _ => error
                    .hint("the command must succeed on the board; end it with `|| true` if its status says nothing"),
            });
        }
        let (output, output_bytes) = end_of(&self.output, KEPT_BYTES)?;
        // What is kept of it is here; it may be as long as its disk.
        let _ = std::fs::remove_file(&self.output);
        Ok(Ended { usage, output, output_bytes })
    }

    /// Its status and what it used, once.
    fn take(&mut self) -> Result<(ExitStatus, Usage)> {
        let pid = pid(&self.child)?;
        let (mut status, mut used) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
        // SAFETY: both are places that are written to, and there for the call.
        let ended = unsafe { libc::wait4(pid.as_raw_pid(), &mut status, 0, used.as_mut_ptr()) };
        if ended != pid.as_raw_pid() {
            return Err(Error::board("the command's exit status is lost").because(std::io::Error::last_os_error()));
        }
        self.taken = true;
        let _ = kill_process_group(pid, Signal::KILL);
        // SAFETY: all of its bytes may be 0, and the kernel has filled it in.
        let used = unsafe { used.assume_init() };
        Ok((ExitStatus::from_raw(status), less(&usage(&used), &self.before)))
    }

    /// Its last words, for messages.
    fn said(&self) -> String {
        let (text, _) = end_of(&self.output, KEPT_BYTES).unwrap_or_default();
        let words = last_words(text.as_bytes());
        words.map_or("; it wrote nothing".to_owned(), |words| format!("; its last output: {words}"))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // All of it fails only where somebody has ended already.
        if !self.taken {
            if let Ok(pid) = pid(&self.child) {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if let Some(mut guard) = self.guard.take() {
            let _ = guard.stdin.take().map(|mut guard| guard.write_all(RELIEVED));
            let _ = guard.wait();
        }
    }
}

/// The end of a command's output, and how much there is in all. What is no text is replaced, as are zeros, at which
/// SQLite ends a text.
fn end_of(output: &Path, most_bytes: u64) -> Result<(String, u64)> {
    let failed = || format!("cannot read {}", output.display());
    let mut file = File::open(output).board(failed)?;
    let bytes = file.metadata().board(failed)?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(most_bytes))).board(failed)?;
    let mut text = Vec::new();
    file.take(most_bytes).read_to_end(&mut text).board(failed)?;
    Ok((String::from_utf8_lossy(&text).replace('\0', "\u{fffd}"), bytes))
}

/// Gives a command a session, and so a process group, that has its number. It has no terminal then: a program that asks
/// there for a password fails, and does not wait for somebody who does not see it.
fn in_own_session(command: &mut Command) {
    let session = || rustix::process::setsid().map(drop).map_err(std::io::Error::from);
    // SAFETY: between fork and exec it makes one system call, allocates nothing and takes no lock.
    unsafe { command.pre_exec(session) };
}

/// What a guard is told when there is nothing to guard any more.
const RELIEVED: &[u8] = b"done";

/// The guard of a command: waits until whoever started it says that the command has ended, and kills the command's
/// process group if it ends without a word.
///
/// # Errors
/// `ErrorKind::User` if `group` is no process group.
pub fn guard(group: &str) -> Result<()> {
    let group = group.parse().ok().filter(|group| *group > 1).and_then(Pid::from_raw);
    let group = group.ok_or_else(|| Error::user("a guard needs the number of a process group"))?;
    let mut said = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut said);
    if said != RELIEVED {
        // It fails if all of them have ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
    Ok(())
}

fn pid(child: &Child) -> Result<Pid> {
    Pid::from_raw(child.id() as i32).ok_or_else(|| Error::bug("a process has number 0"))
}

/// getrusage(2): times in seconds and microseconds, block operations in units of 512 bytes.
fn usage(used: &libc::rusage) -> Usage {
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    Usage {
        on_core_ns: Some(ns(used.ru_utime) + ns(used.ru_stime)),
        kernel_ns: Some(ns(used.ru_stime)),
        voluntary_switches: Some(used.ru_nvcsw as u64),
        involuntary_switches: Some(used.ru_nivcsw as u64),
        read_calls: None,
        write_calls: None,
        device_read_bytes: Some(used.ru_inblock as u64 * 512),
        device_write_bytes: Some(used.ru_oublock as u64 * 512),
        major_faults: Some(used.ru_majflt as u64),
    }
}

/// What a process has used since it had used something.
fn less(now: &Usage, before: &Usage) -> Usage {
    let less = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
    Usage {
        on_core_ns: less(now.on_core_ns, before.on_core_ns),
        kernel_ns: less(now.kernel_ns, before.kernel_ns),
        voluntary_switches: less(now.voluntary_switches, before.voluntary_switches),
        involuntary_switches: less(now.involuntary_switches, before.involuntary_switches),
        read_calls: None,
        write_calls: None,
        device_read_bytes: less(now.device_read_bytes, before.device_read_bytes),
        device_write_bytes: less(now.device_write_bytes, before.device_write_bytes),
        major_faults: less(now.major_faults, before.major_faults),
    }
}

/// What the process in front of a command says that it has used when it is about to wait; `None` if it does not.
fn ready(gate: &UnixStream) -> Option<Usage> {
    gate.set_read_timeout(Some(READY_LIMIT)).ok()?;
    let mut line = String::new();
    BufReader::new(gate).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

/// The process in front of a command: waits for a byte, and becomes the shell that runs the command line. It returns
/// only if that fails, or nobody lets it go.
///
/// # Errors
/// `ErrorKind::Board` if there is no shell; `ErrorKind::Interrupted` if nobody is left who might let it go.
pub fn gate(line: &str) -> Result<()> {
    let mut so_far = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the place is written to; all of its bytes may be 0.
    let so_far = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, so_far.as_mut_ptr());
        so_far.assume_init()
    };
    let mut used = usage(&so_far);
    // It is about to give its core up once more.
    used.voluntary_switches = used.voluntary_switches.map(|switches| switches + 1);
    let said = serde_json::to_string(&used).map_err(|e| Error::bug("no JSON").because(e))? + "\n";
    rustix::io::write(std::io::stdin(), said.as_bytes()).board(|| "nobody is there to let the command go".into())?;
    let let_go = std::io::stdin().read(&mut [0]).board(|| "cannot wait".into())?;
    if let_go == 0 {
        return Err(Error::new(pocketstone_core::ErrorKind::Interrupted, "nobody lets the command go"));
    }
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).stdin(Stdio::null());
    Err(Error::board("cannot start /bin/sh").because(shell.exec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_leads_a_session_without_a_terminal() {
        let mut command = Command::new("cat");
        in_own_session(command.arg("/proc/self/stat"));
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let (_, fields) = said.rsplit_once(") ").unwrap();
        let [_, _, group, session, terminal] = fields.splitn(6, ' ').take(5).collect::<Vec<_>>()[..] else {
            panic!("{said}")
        };
        let pid = said.split(' ').next().unwrap();
        assert_eq!((group, session, terminal), (pid, pid, "0"));
    }

    #[test]
    fn the_end_of_what_is_written_is_kept_as_text() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        std::fs::write(&output, b"much, and a\0b\xff").unwrap();
        assert_eq!(end_of(&output, 4).unwrap(), ("a\u{fffd}b\u{fffd}".to_owned(), 14));
    }
}
