//! The lab that gives orders: what it says, and whether it is still there.

use pocketstone_core::Result;
use pocketstone_core::frame::{BEAT, Frame, Frames, SILENCE};
use pocketstone_probe::alone::Alone;
use pocketstone_probe::lab_copy::Said;
use pocketstone_probe::serial::serial;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{BufRead, BufReader, stdin, stdout};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How long what is being done may take to end when the lab is gone: it may wait to be heard by nobody.
const GRACE: Duration = Duration::from_secs(5);
/// Frames that may wait to be taken: pieces of files, of which a small board must not hold many.
const WAITING: usize = 4;

/// What happens to a runner that serves.
pub enum Event {
    /// The lab says something, or what comes from it is damaged.
    Said(Result<Frame>),
    /// The lab is not there any more.
    Gone,
    /// The child has ended that was to be awaited.
    Ended,
    /// A child says something that is for the lab.
    Told(Said),
    /// The name that was waited for is this process's, or cannot be had.
    Alone(Result<Alone>),
}

/// The lab at the other end of standard input and output.
pub struct Lab {
    events: Receiver<Event>,
    sender: SyncSender<Event>,
    /// When the lab was last told that this side is there.
    told: Instant,
}

impl Lab {
    /// Says hello, and listens from then on.
    ///
    /// # Errors
    /// `ErrorKind::Board` if nobody is there.
    pub fn greet() -> Result<Lab> {
        let version = concat!("pocketstone-runner ", env!("CARGO_PKG_VERSION")).to_owned();
        Frame::Hello(version, serial().unwrap_or_default()).send(&mut stdout())?;
        let (sender, events) = sync_channel(WAITING);
        let heard = sender.clone();
        std::thread::spawn(move || {
            listen(&heard);
            // Unless this process is waiting for somebody to read what it writes, it has ended by then.
            std::thread::sleep(GRACE);
            std::process::exit(1);
        });
        Ok(Lab { events, sender, told: Instant::now() })
    }

    /// The next event; `None` if there is none until the next beat.
    pub fn next(&self) -> Option<Event> {
        self.events.recv_timeout(BEAT.saturating_sub(self.told.elapsed())).ok()
    }

    /// The next event, however long it takes: while no order is carried out, the lab awaits no beats.
    pub fn wait(&self) -> Event {
        self.events.recv().unwrap_or(Event::Gone)
    }

    /// Says something to the lab.
    ///
    /// # Errors
    /// `ErrorKind::Board` if nobody is there.
    pub fn tell(&mut self, frame: &Frame) -> Result<()> {
        self.told = Instant::now();
        frame.send(&mut stdout())
    }

    /// Says that this side is there, if it is time for that.
    ///
    /// # Errors
    /// `ErrorKind::Board` if nobody is there.
    pub fn beat(&mut self) -> Result<()> {
        if self.told.elapsed() >= BEAT { self.tell(&Frame::Beat) } else { Ok(()) }
    }

    /// Has what a child says over a socket be events.
    pub fn hear(&self, child: UnixStream) {
        let events = self.sender.clone();
        std::thread::spawn(move || told(child).all(|said| events.send(Event::Told(said)).is_ok()));
    }

    /// Has it be an event that a name is free, and this process's. Nobody has to await that: the thread that waits ends
    /// with this process, and gives the name back.
    pub fn await_alone(&self, name: &'static str) {
        let events = self.sender.clone();
        std::thread::spawn(move || events.send(Event::Alone(Alone::wait(name))));
    }

    /// Has the end of a child be an event. The child remains to be waited for.
    pub fn await_end(&self, child: &Child) {
        let ended = self.sender.clone();
        // The runner itself may be about to end.
        pocketstone_engine::at_end(child, move |_| drop(ended.send(Event::Ended)));
    }
}

/// What a child says, until it ends.
fn told(child: UnixStream) -> impl Iterator<Item = Said> {
    BufReader::new(child).lines().map_while(|line| serde_json::from_str(&line.ok()?).ok())
}

/// Passes on what the lab says, until it is gone.
fn listen(events: &SyncSender<Event>) {
    let (from, mut frames) = (stdin(), Frames::default());
    let limit = Timespec { tv_sec: SILENCE.as_secs() as _, tv_nsec: 0 };
    loop {
        let there = match poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&limit)) {
            Err(rustix::io::Errno::INTR) => continue,
            Ok(0) | Err(_) => false,
            Ok(_) => frames.hear(&mut from.lock()).is_ok_and(|more| more),
        };
        while let Some(frame) = frames.take().transpose() {
            // Beats have done what they are for.
            let (beat, damaged) = (matches!(frame, Ok(Frame::Beat)), frame.is_err());
            if !beat && events.send(Event::Said(frame)).is_err() || damaged {
                return;
            }
        }
        if !there {
            let _ = events.send(Event::Gone);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::time::{ClockId, clock_gettime};
    use std::collections::BTreeSet;

    #[test]
    fn a_runner_that_waits_for_an_order_takes_no_time_of_its_processor() {
        let (sender, events) = sync_channel(WAITING);
        let mut lab = Lab { events, sender: sender.clone(), told: Instant::now() - 2 * BEAT };
        let said = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            sender.send(Event::Said(Ok(Frame::Go))).is_ok()
        });
        let used_ms = || {
            let used = clock_gettime(ClockId::ThreadCPUTime);
            used.tv_sec * 1000 + used.tv_nsec / 1_000_000
        };
        let before = used_ms();
        let given = crate::serve::order(&mut lab, std::path::Path::new("/nowhere"), &mut None).unwrap();
        assert_eq!(given, Some(BTreeSet::new()));
        assert!(said.join().unwrap());
        let used = used_ms() - before;
        assert!(used < 50, "{used} ms");
    }
}
