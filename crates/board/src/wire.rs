//! A runner on another machine, behind a child process with pipes.

use crate::child::end_group;
use crate::copies::Copies;
use crate::{BoardContext, Failed};
use pocketstone_core::error::Context;
use pocketstone_core::frame::{BEAT, Frame, Frames, Inbox, SILENCE, pieces};
use pocketstone_core::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a connection may take to be there: a shell may read much before it starts anything.
const HELLO_LIMIT: Duration = Duration::from_secs(60);
/// What became of a board that was there.
const GONE: &str = "is not there any more";
/// How long a runner may take to put things in order when its input has ended.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of the client's last words that a message shows at most.
const SHOWN_BYTES: usize = 1000;

/// A connection to a runner. Dropping it ends the runner's lease.
pub struct Connection {
    child: Child,
    /// `None`: it is closed.
    to: Arc<Mutex<Option<ChildStdin>>>,
    from: ChildStdout,
    frames: Frames,
    heard: Instant,
    /// Tells the runner that the lab is there, until it is dropped.
    beats: Option<(Sender<()>, JoinHandle<()>)>,
    /// What the client says of its own.
    errors: File,
    /// The board's, empty if it has none.
    serial: String,
    /// Where settings are noted that the runner is about to make.
    copies: Copies,
    /// The runner keeps others from measuring on the machine.
    taken: bool,
}

impl Connection {
    /// Starts a command whose other end is a runner that serves, and waits until it says so; `way` is how its board is
    /// reached. What a dead run has set is put back then: the runner does so by the board's own journals, and is told
    /// of those that it may have lost.
    ///
    /// # Errors
    /// A failure with `lost` set if there is no answer; `ErrorKind::Board` if the runner says why it does not serve;
    /// `ErrorKind::Interrupted` if the user interrupts.
    pub fn open(mut command: Command, way: &str, context: &BoardContext) -> Result<Connection, Failed> {
        let failed = || "cannot make a connection's pipes and files".to_owned();
        let errors = tempfile::tempfile().board(failed)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors.try_clone().board(failed)?);
        // Ctrl-C is the lab's: it ends the connection when it has put things in order.
        command.process_group(0);
        pocketstone_engine::end_with_this_process(&mut command);
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().board(|| format!("cannot start {program}"))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::bug("a child has no pipes").into());
        };
        let flags = rustix::fs::fcntl_getfl(&to).board(failed)?;
        rustix::fs::fcntl_setfl(&to, flags | OFlags::NONBLOCK).board(failed)?;
        let mut begin = Instant::now();
        let (to, frames) = (Arc::new(Mutex::new(Some(to))), Frames::default());
        let (serial, copies) = (String::new(), Copies::of(&context.cache, way, "")?);
        let (heard, beats, taken) = (begin, None, false);
        let mut connection = Connection { child, to, from, frames, heard, beats, errors, serial, copies, taken };
        loop {
            match connection.frames.take()? {
                Some(Frame::Hello(_, serial)) => {
                    connection.copies = Copies::of(&context.cache, way, &serial)?;
                    connection.serial = serial;
                    break;
                }
                Some(Frame::Failed(why)) => return Err(Error::board(why).into()),
                // It puts back what a dead run has left there.
                Some(Frame::Beat) => begin = Instant::now(),
                Some(_) => return Err(Error::board("the runner does not say hello").into()),
                None if begin.elapsed() >= HELLO_LIMIT => return Err(connection.lost("said nothing")),
                None => {
                    if !connection.wait(context)? {
                        return Err(connection.lost("ended the connection before it was ready"));
                    }
                }
            }
        }
        connection.beats = Some(beat_on(&connection.to));
        for (journal, lines) in connection.copies.left()? {
            connection.put_back(journal, lines, context)?;
        }
        Ok(connection)
    }

    /// The board's serial number, if it has one.
    pub fn serial(&self) -> Option<&str> {
        Some(&*self.serial).filter(|serial| !serial.is_empty())
    }

    /// Has the runner put back what a journal says that the board may have lost.
    fn put_back(&mut self, journal: String, lines: String, context: &BoardContext) -> Result<(), Failed> {
        let copy = self.copies.path(&journal)?;
        (context.progress)(&format!("putting back what an interrupted run has set ({})", copy.display()));
        self.tell(&Frame::Left(journal.clone(), lines), context)?;
        self.heard = Instant::now();
        loop {
            match self.next(context)? {
                Frame::PutBack(done) if done == journal => {
                    self.copies.put_back(&journal)?;
                    return self.tell(&Frame::Noted, context);
                }
                Frame::Failed(why) => {
                    let error = Error::board(format!("the settings that {} says are not put back", copy.display()));
                    let cure = format!("put them back by hand, and remove {}", copy.display());
                    return Err(error.because(Error::board(why)).hint(cure).into());
                }
                Frame::Beat => {}
                _ => return Err(Error::board("the runner does not say what it has put back").into()),
            }
        }
    }

    /// Has the runner keep others from measuring on the machine, until [`Connection::release`], once they have ended
    /// what they measure.
    ///
    /// # Errors
    /// A failure with `lost` set if the board is not there any more; `ErrorKind::Board` if nobody can be kept away
    /// there; `ErrorKind::Interrupted` if the user interrupts.
    pub fn take(&mut self, context: &BoardContext) -> Result<(), Failed> {
        if self.taken {
            return Ok(());
        }
        self.tell(&Frame::Take, context)?;
        self.heard = Instant::now();
        loop {
            match self.next(context)? {
                Frame::Taken => {
                    self.taken = true;
                    return Ok(());
                }
                Frame::Waits(why) => (context.progress)(&format!("the board waits: {why}")),
                Frame::Beat => {}
                Frame::Failed(why) => return Err(Error::board(why).into()),
                _ => return Err(Error::board("the runner does not say that the machine is taken").into()),
            }
        }
    }

    /// Has the runner let others measure on the machine again.
    ///
    /// # Errors
    /// As [`Connection::take`].
    pub fn release(&mut self, context: &BoardContext) -> Result<(), Failed> {
        match std::mem::take(&mut self.taken) {
            true => self.tell(&Frame::Release, context),
            false => Ok(()),
        }
    }

    /// Has the runner carry out the order in `folder`, with the files beside it; what it leaves is in the folder then.
    ///
    /// # Errors
    /// A failure with `lost` set if the board is not there any more: what became of the order is not known. Otherwise
    /// `ErrorKind::Board` if there is no reply; `ErrorKind::Interrupted` if the user interrupts.
    pub fn order(&mut self, folder: &Path, context: &BoardContext) -> Result<(), Failed> {
        let failed = || format!("cannot read {}", folder.display());
        for entry in fs::read_dir(folder).board(failed)? {
            for piece in pieces(&entry.board(failed)?.path())? {
                context.check()?;
                self.tell(&piece?, context)?;
            }
        }
        self.tell(&Frame::Go, context)?;
        self.heard = Instant::now();
        let mut inbox = Inbox::new(folder);
        loop {
            match inbox.take(self.next(context)?)? {
                None | Some(Frame::Beat) => {}
                Some(Frame::Setting(journal, line)) => {
                    self.copies.note(&journal, &line)?;
                    self.tell(&Frame::Noted, context)?;
                }
                Some(Frame::PutBack(journal)) => {
                    self.copies.put_back(&journal)?;
                    self.tell(&Frame::Noted, context)?;
                }
                Some(Frame::Done) => return Ok(()),
                Some(Frame::Failed(why)) => return Err(Error::board(why).into()),
                Some(_) => return Err(Error::board("the runner says what it must not during an order").into()),
            }
        }
    }

    /// What the runner says next; one that is silent for long is not there any more.
    fn next(&mut self, context: &BoardContext) -> Result<Frame, Failed> {
        loop {
            match self.frames.take().map_err(|_| self.lost(GONE))? {
                Some(frame) => return Ok(frame),
                None if self.heard.elapsed() >= SILENCE => return Err(self.lost(GONE)),
                None => {
                    if !self.wait(context)? {
                        return Err(self.lost(GONE));
                    }
                }
            }
        }
    }

    fn tell(&mut self, frame: &Frame, context: &BoardContext) -> Result<(), Failed> {
        let to = self.to.clone();
        let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(to) = to.as_mut() else { return Err(self.lost(GONE)) };
        let mut patient = Patient { to, context, taken: Instant::now() };
        let sent = frame.send(&mut patient);
        let silent = patient.taken.elapsed() >= SILENCE;
        context.check()?;
        match sent {
            Ok(()) => Ok(()),
            Err(_) if silent => Err(self.lost("takes nothing more")),
            Err(_) => Err(self.refused(context)),
        }
    }

    /// Waits until the runner says something, or it is time for a beat; whether it is still there.
    fn wait(&mut self, context: &BoardContext) -> Result<bool> {
        context.check()?;
        let mut polled = vec![PollFd::new(&self.from, PollFlags::IN)];
        polled.extend(context.wakes.as_ref().map(|wakes| PollFd::new(wakes, PollFlags::IN)));
        let limit = Timespec { tv_sec: BEAT.as_secs() as _, tv_nsec: 0 };
        match poll(&mut polled, Some(&limit)) {
            Err(rustix::io::Errno::INTR) => return Ok(true),
            ready => drop(ready.board(|| "cannot wait for the board".into())?),
        }
        if polled[0].revents().is_empty() {
            context.check()?;
            return Ok(true);
        }
        self.heard = Instant::now();
        self.frames.hear(&mut self.from)
    }

    /// Why a runner that takes nothing more has ended, if it says so; else it is lost.
    fn refused(&mut self, context: &BoardContext) -> Failed {
        // While it was being told something nobody listened.
        self.heard = Instant::now();
        loop {
            match self.frames.take() {
                Ok(Some(Frame::Failed(why))) => return Error::board(why).into(),
                Ok(Some(_)) => {}
                Ok(None) if self.heard.elapsed() < SILENCE => match self.wait(context) {
                    Ok(true) => {}
                    Ok(false) => return self.lost(GONE),
                    Err(error) => return error.into(),
                },
                Ok(None) | Err(_) => return self.lost(GONE),
            }
        }
    }

    /// The failure of a board that is gone, with what its client says of that.
    fn lost(&mut self, how: &str) -> Failed {
        // It may be about to say why.
        end_group(&mut self.child, Duration::from_secs(1));
        let mut said = Vec::new();
        let _ = self.errors.seek(SeekFrom::Start(0)).and_then(|_| (&self.errors).take(1 << 20).read_to_end(&mut said));
        let said = String::from_utf8_lossy(&said);
        let said = said.trim();
        let start = said.char_indices().rev().take(SHOWN_BYTES).last().map_or(0, |(at, _)| at);
        let words = if said.is_empty() { String::new() } else { format!(": {}", &said[start..]) };
        Failed { lost: true, ..Error::board(format!("the board {how}{words}")).into() }
    }
}

/// Writes to a client that may take nothing more: for so long as a board may say nothing, or until the user interrupts.
struct Patient<'a> {
    to: &'a ChildStdin,
    context: &'a BoardContext,
    /// When it has taken something last.
    taken: Instant,
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.context.check().map_err(io::Error::other)?;
            match rustix::io::write(self.to, bytes) {
                Err(Errno::AGAIN) if self.taken.elapsed() < SILENCE => {}
                Err(Errno::INTR) => continue,
                written => {
                    self.taken = if written.is_ok() { Instant::now() } else { self.taken };
                    return Ok(written?);
                }
            }
            let mut polled = vec![PollFd::new(self.to, PollFlags::OUT)];
            polled.extend(self.context.wakes.as_ref().map(|wakes| PollFd::new(wakes, PollFlags::IN)));
            match poll(&mut polled, Some(&Timespec { tv_sec: BEAT.as_secs() as _, tv_nsec: 0 })) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends a beat, as long as the connection is open; whether it is. A full pipe has enough for the runner to hear.
fn beat(to: &Mutex<Option<ChildStdin>>) -> bool {
    let mut to = match to.try_lock() {
        Ok(to) => to,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        // A frame is being sent.
        Err(TryLockError::WouldBlock) => return true,
    };
    let Some(to) = to.as_mut() else { return false };
    let mut polled = [PollFd::new(&*to, PollFlags::OUT)];
    let ready = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0);
    // What a pipe takes at all takes a page.
    !ready || Frame::Beat.send(to).is_ok()
}

/// Beats from a thread of its own: the lab may be busy with other things for long.
fn beat_on(to: &Arc<Mutex<Option<ChildStdin>>>) -> (Sender<()>, JoinHandle<()>) {
    let ((end, ends), to) = (channel(), to.clone());
    let thread = std::thread::spawn(move || {
        while let Err(RecvTimeoutError::Timeout) = ends.recv_timeout(BEAT) {
            // That there is nobody to hear it is noticed by who waits for a reply.
            if !beat(&to) {
                return;
            }
        }
    });
    (end, thread)
}

impl Drop for Connection {
    fn drop(&mut self) {
        let beats = self.beats.take().map(|(end, thread)| {
            drop(end);
            thread
        });
        // The end of its input tells the runner to put everything in order. Nobody has it for longer than a beat takes.
        drop(self.to.lock().unwrap_or_else(PoisonError::into_inner).take());
        end_group(&mut self.child, PATIENCE);
        if let Some(thread) = beats {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cache;
    use std::sync::atomic::Ordering;

    /// A lab that is not interrupted.
    fn context(folder: &Path) -> BoardContext {
        BoardContext::uninterrupted(Cache::at(folder).unwrap(), "/nowhere".into(), Arc::new(|_| {}))
    }

    #[test]
    fn who_takes_the_machine_waits_until_it_is_taken_and_says_what_for() {
        let folder = tempfile::tempdir().unwrap();
        let said = |name: &str, frames: &[Frame]| {
            let mut bytes = Vec::new();
            frames.iter().for_each(|frame| frame.send(&mut bytes).unwrap());
            fs::write(folder.path().join(name), bytes).unwrap();
        };
        said("waits", &[Frame::Hello("1".into(), String::new()), Frame::Waits("another run".into()), Frame::Beat]);
        said("taken", &[Frame::Taken, Frame::Beat, Frame::Done, Frame::Taken]);
        let mut runner = Command::new("sh");
        runner.args(["-c", "cat waits; sleep 0.5; cat taken; exec cat > heard"]).current_dir(folder.path());
        let (told, tells) = channel();
        let progress = move |what: &str| drop(told.send(what.to_owned()));
        let context = BoardContext { progress: Arc::new(progress), ..context(folder.path()) };
        let (begin, order) = (Instant::now(), tempfile::tempdir().unwrap());
        let mut connection = Connection::open(runner, "sh", &context).unwrap();
        connection.take(&context).unwrap();
        assert!(begin.elapsed() > Duration::from_millis(500), "{:?}", begin.elapsed());
        assert_eq!(tells.try_iter().collect::<Vec<_>>(), ["the board waits: another run"]);
        connection.take(&context).unwrap();
        connection.order(order.path(), &context).unwrap();
        connection.release(&context).unwrap();
        connection.release(&context).unwrap();
        connection.take(&context).unwrap();
        drop(connection);
        let heard = fs::read(folder.path().join("heard")).unwrap();
        let (mut frames, mut all, mut rest) = (Frames::default(), Vec::new(), &heard[..]);
        while frames.hear(&mut rest).unwrap() {}
        all.extend(std::iter::from_fn(|| frames.take().unwrap()));
        all.retain(|frame| *frame != Frame::Beat);
        assert_eq!(all, [Frame::Take, Frame::Go, Frame::Release, Frame::Take]);
    }

    #[test]
    fn who_waits_for_the_machine_hears_that_the_board_is_gone_or_why_it_cannot_be_had() {
        let folder = tempfile::tempdir().unwrap();
        let context = context(folder.path());
        let taken = |last: &[Frame]| {
            let mut bytes = Vec::new();
            let first = [Frame::Hello("1".into(), String::new()), Frame::Waits("another run".into())];
            first.iter().chain(last).for_each(|frame| frame.send(&mut bytes).unwrap());
            fs::write(folder.path().join("said"), bytes).unwrap();
            let mut runner = Command::new("sh");
            runner.args(["-c", "cat said; head -c 24 > heard"]).current_dir(folder.path());
            Connection::open(runner, "sh", &context).unwrap().take(&context).unwrap_err()
        };
        assert!(taken(&[]).lost);
        for last in [Frame::Failed("no".into()), Frame::Done] {
            assert!(!taken(&[last]).lost);
        }
    }

    #[test]
    fn a_client_that_takes_nothing_more_does_not_keep_the_user_from_interrupting() {
        let mut child = Command::new("sleep").arg("100").stdin(Stdio::piped()).spawn().unwrap();
        let to = child.stdin.take().unwrap();
        rustix::fs::fcntl_setfl(&to, OFlags::NONBLOCK).unwrap();
        let (woken, wakes) = std::io::pipe().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut context = context(folder.path());
        context.wakes = Some(Arc::new(woken.into()));
        let cancelled = context.cancelled.clone();
        let user = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            cancelled.store(true, Ordering::Relaxed);
            drop(wakes);
        });
        let begin = Instant::now();
        let mut patient = Patient { to: &to, context: &context, taken: begin };
        assert!(patient.write_all(&vec![0; 1 << 20]).is_err());
        assert!(begin.elapsed() < BEAT, "{:?}", begin.elapsed());
        user.join().unwrap();
        // Nor does it stop the thread that beats.
        assert!(beat(&Mutex::new(Some(to))));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
