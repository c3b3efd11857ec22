//! Waiting for a child without waking up meanwhile.

use crate::BoardContext;
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};
use std::process::{Child, ExitStatus};

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

fn until_it_ends(child: &mut Child, context: &BoardContext) -> Result<ExitStatus> {
    let failed = || "cannot wait for a process".to_owned();
    // Nobody else waits for it, so its number is its own.
    let end = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty()).board(failed)?;
    loop {
        if let Some(status) = child.try_wait().board(failed)? {
            return Ok(status);
        }
        context.check()?;
        let mut events = vec![PollFd::new(&end, PollFlags::IN)];
        events.extend(context.wakes.as_ref().map(|wakes| PollFd::new(wakes, PollFlags::IN)));
        match rustix::event::poll(&mut events, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).board(failed),
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
    use std::process::Command;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};

    fn context() -> BoardContext {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        BoardContext {
            cache,
            devices: "devices".into(),
            progress: Arc::new(|_| {}),
            cancelled: Arc::default(),
            wakes: None,
        }
    }

    /// How often this thread has gone to sleep.
    fn sleeps() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse().unwrap()
    }

    #[test]
    fn who_waits_sleeps_once() {
        let mut child = Command::new("sleep").arg("0.5").spawn().unwrap();
        let before = sleeps();
        assert!(wait(&mut child, &context()).unwrap().success());
        // A look every few milliseconds would be a hundred.
        assert!(sleeps() - before < 10, "woken {} times", sleeps() - before);
        let mut child = Command::new("false").spawn().unwrap();
        assert_eq!(wait(&mut child, &context()).unwrap().code(), Some(1));
    }

    #[test]
    fn the_user_ends_the_wait_and_the_child() {
        let (wakes, mut wake) = UnixStream::pair().unwrap();
        let context = BoardContext { wakes: Some(Arc::new(wakes.into())), ..context() };
        let cancelled = Arc::clone(&context.cancelled);
        let user = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            cancelled.store(true, Ordering::Relaxed);
            wake.write_all(b"!").unwrap();
            wake
        });
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
