//! A runner on another machine, behind a child process with pipes.

use crate::{BoardContext, Failed};
use pocketstone_core::error::Context;
use pocketstone_core::frame::{BEAT, Frame, Frames, SILENCE};
use pocketstone_core::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a connection may take to be there: a shell may read much before it starts anything.
const HELLO_LIMIT: Duration = Duration::from_secs(60);
/// Bytes of the client's last words that a message shows at most.
const SHOWN_BYTES: usize = 1000;

/// A connection to a runner. Dropping it ends the runner's lease.
pub struct Connection {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
    frames: Frames,
    heard: Instant,
    /// When the runner was last told that the lab is there.
    told: Instant,
    /// What the client says of its own.
    errors: File,
}

impl Connection {
    /// Starts a command whose other end is a runner that serves, and waits until it says so.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it does not; `ErrorKind::Interrupted` if the user interrupts.
    pub fn open(mut command: Command, context: &BoardContext) -> Result<Connection> {
        let failed = || "cannot make a temporary file".to_owned();
        let errors = tempfile::tempfile().board(failed)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors.try_clone().board(failed)?);
        // Ctrl-C is the lab's: it ends the connection when it has put things in order.
        command.process_group(0);
        pocketstone_engine::end_with_this_process(&mut command);
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().board(|| format!("cannot start {program}"))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::bug("a child has no pipes"));
        };
        let begin = Instant::now();
        let frames = Frames::default();
        let mut connection = Connection { child, to, from, frames, heard: begin, told: begin, errors };
        loop {
            match connection.frames.take()? {
                Some(Frame::Hello(_)) => return Ok(connection),
                Some(Frame::Failed(why)) => return Err(Error::board(why)),
                Some(Frame::Beat) => {}
                Some(_) => return Err(Error::board("the runner does not say hello")),
                None if begin.elapsed() >= HELLO_LIMIT => return Err(connection.ended("said nothing")),
                None => {
                    if !connection.wait(context)? {
                        return Err(connection.ended("ended the connection before it was ready"));
                    }
                }
            }
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
            let path = entry.board(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = fs::read(&path).board(failed)?;
            Frame::File(name, bytes).send(&mut self.to).map_err(|_| self.refused())?;
        }
        Frame::Go.send(&mut self.to).map_err(|_| self.refused())?;
        (self.heard, self.told) = (Instant::now(), Instant::now());
        loop {
            match self.frames.take().map_err(|_| self.lost())? {
                Some(Frame::File(name, bytes)) => {
                    let path = folder.join(name);
                    fs::write(&path, bytes).board(|| format!("cannot write {}", path.display()))?;
                }
                Some(Frame::Done) => return Ok(()),
                Some(Frame::Failed(why)) => return Err(Error::board(why).into()),
                Some(Frame::Beat) => {}
                Some(_) => return Err(Error::board("the runner says what it must not during an order").into()),
                None if self.heard.elapsed() >= SILENCE => return Err(self.lost()),
                None => {
                    if !self.wait(context)? {
                        return Err(self.lost());
                    }
                    // Not with all that comes: a runner that sends its reply does not listen meanwhile.
                    if self.told.elapsed() >= BEAT {
                        Frame::Beat.send(&mut self.to).map_err(|_| self.lost())?;
                        self.told = Instant::now();
                    }
                }
            }
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
    fn refused(&mut self) -> Failed {
        loop {
            match self.frames.take() {
                Ok(Some(Frame::Failed(why))) => return Error::board(why).into(),
                Ok(Some(_)) => {}
                Ok(None) if self.frames.hear(&mut self.from).is_ok_and(|more| more) => {}
                Ok(None) | Err(_) => return self.lost(),
            }
        }
    }

    fn lost(&mut self) -> Failed {
        let error = self.ended("is not there any more");
        Failed { lost: true, ..error.into() }
    }

    /// The error of a board that is gone, with what its client says of that.
    fn ended(&mut self, how: &str) -> Error {
        // It may be about to say why.
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let mut said = Vec::new();
        let _ = self.errors.seek(SeekFrom::Start(0)).and_then(|_| (&self.errors).take(1 << 20).read_to_end(&mut said));
        let said = String::from_utf8_lossy(&said);
        let said = said.trim();
        let start = said.char_indices().rev().take(SHOWN_BYTES).last().map_or(0, |(at, _)| at);
        let words = if said.is_empty() { String::new() } else { format!(": {}", &said[start..]) };
        Error::board(format!("the board {how}{words}"))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The end of its input would do; a client that hangs does not hear of it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
