//! Waiting for a child without waking up meanwhile.

use crate::BoardContext;
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use pocketstone_process::{ended_or_woken, ended_within};
use rustix::process::{Pid, Signal};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

/// Waits until a child ends; kills it when the user wants to stop. What it measures is not disturbed: this process
/// sleeps until one or the other happens.
///
/// # Errors
/// `ErrorKind::Interrupted` if the user interrupts; `ErrorKind::Board` if the kernel cannot wait for the child.
pub(crate) fn wait(child: &mut Child, context: &BoardContext) -> Result<ExitStatus> {
    let ended = until_it_ends(child, context);
    if ended.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    ended
}

/// Runs a command to its end and returns what it said. A user who can be heard ends it and all that it has started.
///
/// # Errors
/// As [`wait`]; `ErrorKind::Board` if the command cannot be started.
pub(crate) fn output(command: &mut Command, context: &BoardContext) -> Result<Output> {
    let failed = format!("cannot run {}", command.get_program().to_string_lossy());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Without one, what a terminal sends has to reach them all.
    if context.wakes.is_some() {
        command.process_group(0);
    }
    let mut child = command.spawn().board(|| failed)?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let (stdout, stderr) = (scope.spawn(|| read(out)), scope.spawn(|| read(err)));
        let ended = until_it_ends(&mut child, context);
        if ended.is_err() {
            // It has not been waited for, so the number is still its own.
            if context.wakes.is_some() {
                let _ = rustix::process::kill_process_group(Pid::from_child(&child), Signal::KILL);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
        Ok(Output { status: ended?, stdout, stderr })
    })
}

/// Ends a child that leads a process group of its own: waits as long as `patience` until it does so by itself, then
/// kills the group. One that belongs to somebody else cannot be killed, and is not waited for much longer.
pub(crate) fn end_group(child: &mut Child, patience: Duration) {
    if !matches!(ended_within(child, patience), Ok(None)) {
        return;
    }
    // It has not been waited for, so the number is still its own.
    let _ = rustix::process::kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = ended_within(child, Duration::from_secs(2));
}

/// What comes out of a pipe, to its end.
fn read(pipe: Option<impl Read>) -> Vec<u8> {
    let mut said = Vec::new();
    // What came before an error is still what was said.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut said));
    said
}

fn until_it_ends(child: &mut Child, context: &BoardContext) -> Result<ExitStatus> {
    let failed = || "cannot wait for a process".to_owned();
    let wakes = context.wakes.as_ref().map(|wakes| wakes.as_fd());
    if let Some(status) = child.try_wait().board(failed)? {
        return Ok(status);
    }
    loop {
        context.check()?;
        if let Some(status) = ended_or_woken(child, wakes).board(failed)? {
            return Ok(status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cache;
    use pocketstone_core::ErrorKind;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};

    fn context() -> BoardContext {
        let folder = tempfile::tempdir().unwrap();
        BoardContext::uninterrupted(Cache::at(folder.path()).unwrap(), "devices".into(), Arc::new(|_| {}))
    }

    #[test]
    fn the_status_of_a_child_is_told() {
        for (program, status) in [("true", 0), ("false", 1)] {
            let mut child = Command::new(program).spawn().unwrap();
            assert_eq!(wait(&mut child, &context()).unwrap().code(), Some(status));
        }
    }

    /// A user who wants to stop in a moment.
    fn impatient() -> (BoardContext, std::thread::JoinHandle<UnixStream>) {
        let (wakes, mut wake) = UnixStream::pair().unwrap();
        let context = BoardContext { wakes: Some(Arc::new(wakes.into())), ..context() };
        let cancelled = Arc::clone(&context.cancelled);
        let user = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            cancelled.store(true, Ordering::Relaxed);
            wake.write_all(b"!").unwrap();
            wake
        });
        (context, user)
    }

    #[test]
    fn a_command_says_all_it_has_to_say() {
        let script = "seq 100000; seq 100000 >&2; exit 3";
        let said = output(Command::new("sh").args(["-c", script]), &context()).unwrap();
        let all: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
        assert_eq!(said.status.code(), Some(3));
        assert!(said.stdout == all.as_bytes() && said.stderr == all.as_bytes());
        let error = output(&mut Command::new("/no/such/command"), &context()).unwrap_err();
        assert!(error.to_string().contains("cannot run /no/such/command"), "{error}");
    }

    #[test]
    fn the_user_ends_a_command_and_what_it_has_started() {
        let (context, user) = impatient();
        let start = Instant::now();
        // The grandchild has the pipe, too: who reads to its end would wait for it.
        let error = output(Command::new("sh").args(["-c", "sleep 60 & sleep 60; :"]), &context).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted);
        assert!(start.elapsed() < Duration::from_secs(30));
        drop(user.join().unwrap());
    }

    #[test]
    fn the_user_ends_the_wait_and_the_child() {
        let (context, user) = impatient();
        let start = Instant::now();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let error = wait(&mut child, &context).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted);
        assert!(start.elapsed() < Duration::from_secs(30));
        assert!(child.try_wait().unwrap().is_some(), "the child lives on");
        // Everybody who waits hears of it, not the first one alone.
        let mut another = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(wait(&mut another, &context).is_err());
        drop(user.join().unwrap());
    }
}
