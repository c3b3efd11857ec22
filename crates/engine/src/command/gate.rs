//! The process in front of a command: the command's number and accounts begin with it.

use crate::end_with_this_process;
use pocketstone_core::database::Usage;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a process may take until it waits.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// The runner's word for a process that waits in front of a command.
pub const GATE: &str = "gate";

/// Starts the process in front of a command line, below this one and by this one's program. It is let go by a byte.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be started.
pub(super) fn start(line: &str) -> Result<(Child, UnixStream)> {
    let (gate, its_side) = UnixStream::pair().board(|| "cannot make a pair of sockets".into())?;
    let program = std::env::current_exe().board(|| "cannot find the path of this program".into())?;
    let mut command = Command::new(program);
    command.args([GATE, line]).stdin(OwnedFd::from(its_side));
    in_own_session(&mut command);
    end_with_this_process(&mut command);
    let child = command.spawn().board(|| "cannot start the process in front of the command".into())?;
    Ok((child, gate))
}

/// Gives a command a session, and so a process group, that has its number. It has no terminal then: a program that asks
/// there for a password fails, and does not wait for somebody who does not see it.
fn in_own_session(command: &mut Command) {
    let session = || rustix::process::setsid().map(drop).map_err(std::io::Error::from);
    // SAFETY: between fork and exec it makes one system call, allocates nothing and takes no lock.
    unsafe { command.pre_exec(session) };
}

/// What the process in front of a command says that it has used when it is about to wait; `None` if it does not.
pub(super) fn ready(gate: &UnixStream) -> Option<Usage> {
    gate.set_read_timeout(Some(READY_LIMIT)).ok()?;
    let mut line = String::new();
    BufReader::new(gate).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

/// getrusage(2): times in seconds and microseconds, block operations in units of 512 bytes.
pub(super) fn usage(used: &libc::rusage) -> Usage {
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
}
