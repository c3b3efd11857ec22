//! Other processes: waiting for their end without waking up meanwhile, and whose numbers they are.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// How often it is looked whether a child has ended where the kernel cannot tell, as Linux before 5.3, or tells too
/// soon, as of one that a debugger holds.
const LOOK: Duration = Duration::from_millis(2);

/// The namespace that process numbers are of: a process in a container may share files with one outside, and does not
/// see its processes. `None` if the kernel does not say.
pub fn number_namespace() -> Option<u64> {
    let link = std::fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// A process, also when its number has come to mean another one.
#[derive(Debug)]
pub struct Process(OwnedFd);

impl Process {
    /// The one that has a number.
    ///
    /// # Errors
    /// Those of pidfd_open(2): none has that number, or the kernel is older than Linux 5.3.
    pub fn numbered(number: u32) -> io::Result<Process> {
        let number = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        Ok(Process(pidfd_open(number, PidfdFlags::empty())?))
    }

    /// Waits until it has ended; whether it has within this time.
    pub fn has_ended_within(&self, limit: Duration) -> bool {
        let begin = Instant::now();
        loop {
            match says_something(&[self.0.as_fd()], Some(limit.saturating_sub(begin.elapsed()))) {
                Err(Errno::INTR) => {}
                ended => return ended == Ok(true),
            }
        }
    }

    /// Asks it to end; nothing happens if it has.
    pub fn terminate(&self) {
        let _ = pidfd_send_signal(&self.0, Signal::TERM);
    }
}

/// Waits for a child; `None` if it has not ended within this time.
///
/// # Errors
/// Those of waitpid(2) and poll(2).
pub fn ended_within(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let end = Process::numbered(child.id()).ok();
    wait(child, end.as_ref(), Some(limit), None)
}

/// Waits for a child as long as `wakes` has nothing to say; `None` if it had before the child has ended.
///
/// # Errors
/// As [`ended_within`].
pub fn ended_or_woken(child: &mut Child, wakes: Option<BorrowedFd<'_>>) -> io::Result<Option<ExitStatus>> {
    let end = Process::numbered(child.id()).ok();
    wait(child, end.as_ref(), None, wakes)
}

/// `end` is the child itself; without it, it is looked again and again.
fn wait(
    child: &mut Child,
    end: Option<&Process>,
    limit: Option<Duration>,
    wakes: Option<BorrowedFd<'_>>,
) -> io::Result<Option<ExitStatus>> {
    let begin = Instant::now();
    // It has ended, and who looks does not get to know: as long as a debugger has not.
    let mut is_held = false;
    let ends: Vec<BorrowedFd<'_>> = end.iter().map(|end| end.0.as_fd()).chain(wakes).collect();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = limit.map(|limit| limit.saturating_sub(begin.elapsed()));
        let is_woken = wakes.is_some_and(|wakes| says_something(&[wakes], Some(Duration::ZERO)) == Ok(true));
        if is_woken || left == Some(Duration::ZERO) {
            return Ok(None);
        }
        let is_told = end.is_some() && !is_held;
        let pause = if is_told { left } else { Some(left.map_or(LOOK, |left| left.min(LOOK))) };
        match says_something(if is_held { wakes.as_slice() } else { &ends }, pause) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        is_held = end.is_some_and(|end| end.has_ended_within(Duration::ZERO));
    }
}

/// Waits until one of these can be read, as a process that has ended can; whether one can within this time.
fn says_something(ends: &[BorrowedFd<'_>], limit: Option<Duration>) -> Result<bool, Errno> {
    let mut ends: Vec<PollFd<'_>> = ends.iter().map(|end| PollFd::from_borrowed_fd(*end, PollFlags::IN)).collect();
    // More than the kernel can count is for ever.
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    Ok(poll(&mut ends, limit.as_ref())? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    const LONG: Duration = Duration::from_secs(60);

    /// One that ends when its input does.
    fn patient() -> Child {
        Command::new("cat").stdin(Stdio::piped()).spawn().unwrap()
    }

    /// How often this thread has gone to sleep.
    fn sleeps() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse().unwrap()
    }

    #[test]
    fn the_end_of_a_child_is_waited_for_on_any_kernel() {
        for can_tell in [true, false] {
            let mut child = patient();
            let end = can_tell.then(|| Process::numbered(child.id()).unwrap());
            let wait = |child: &mut Child, limit| super::wait(child, end.as_ref(), Some(limit), None).unwrap();
            let begin = Instant::now();
            assert_eq!(wait(&mut child, Duration::ZERO), None);
            assert_eq!(wait(&mut child, Duration::from_millis(20)), None);
            assert!(begin.elapsed() >= Duration::from_millis(20));
            drop(child.stdin.take());
            assert!(wait(&mut child, LONG).unwrap().success());
            // Its status is known from then on.
            assert!(wait(&mut child, Duration::MAX).unwrap().success());
        }
    }

    #[test]
    fn who_waits_sleeps_once() {
        let mut child = Command::new("sh").args(["-c", "sleep 0.3; exit 3"]).spawn().unwrap();
        let before = sleeps();
        assert_eq!(ended_within(&mut child, LONG).unwrap().unwrap().code(), Some(3));
        // A look every 2 ms would be 150.
        assert!(sleeps() - before < 10, "woken {} times", sleeps() - before);
    }

    #[test]
    fn who_waits_is_woken_on_any_kernel() {
        for can_tell in [true, false] {
            let mut child = patient();
            let end = can_tell.then(|| Process::numbered(child.id()).unwrap());
            let (wakes, mut wake) = UnixStream::pair().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(20));
                    wake.write_all(b"!").unwrap();
                });
                assert_eq!(wait(&mut child, end.as_ref(), None, Some(wakes.as_fd())).unwrap(), None);
            });
            drop(child.stdin.take());
            assert!(ended_or_woken(&mut child, None).unwrap().unwrap().success());
            assert!(ended_or_woken(&mut child, Some(wakes.as_fd())).unwrap().is_some(), "an end comes first");
        }
    }

    #[test]
    fn an_end_that_a_debugger_holds_back_is_waited_for_asleep() {
        let (mut child, mut ended) = (patient(), patient());
        let end = Process::numbered(ended.id()).unwrap();
        drop(ended.stdin.take());
        ended.wait().unwrap();
        let before = sleeps();
        assert_eq!(wait(&mut child, Some(&end), Some(Duration::from_millis(100)), None).unwrap(), None);
        assert!((2..100).contains(&(sleeps() - before)), "slept {} times", sleeps() - before);
        let (wakes, mut wake) = UnixStream::pair().unwrap();
        wake.write_all(b"!").unwrap();
        assert_eq!(wait(&mut child, Some(&end), None, Some(wakes.as_fd())).unwrap(), None);
        drop(child.stdin.take());
        assert!(wait(&mut child, Some(&end), Some(LONG), None).unwrap().unwrap().success());
    }

    #[test]
    fn a_process_is_known_by_more_than_its_number() {
        let mut child = patient();
        let process = Process::numbered(child.id()).unwrap();
        assert!(!process.has_ended_within(Duration::ZERO) && !process.has_ended_within(Duration::from_millis(5)));
        process.terminate();
        assert!(process.has_ended_within(LONG));
        // Also when nobody is left to be asked.
        child.wait().unwrap();
        assert!(process.has_ended_within(Duration::ZERO));
        process.terminate();
        for nobody in [0, 4_194_305, u32::MAX] {
            assert!(Process::numbered(nobody).is_err());
        }
    }

    #[test]
    fn numbers_are_of_a_namespace() {
        assert!(number_namespace().is_some_and(|namespace| namespace > 0));
    }
}
