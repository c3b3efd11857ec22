//! Talking to QEMU through its machine protocol (QMP), on a socket that only the two of us have.

use crate::Failed;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use serde_json::{Value, json};
use std::io::{ErrorKind, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How often a wait looks up to see whether it should end.
const TICK: Duration = Duration::from_millis(50);

/// How long QEMU may take to answer.
const ANSWER: Duration = Duration::from_secs(30);

/// A QMP connection.
pub struct Qmp {
    socket: UnixStream,
    received: Vec<u8>,
    answer: Duration,
    /// The machine has stopped and nobody has asked yet.
    stopped: bool,
}

/// What came from QEMU.
enum Received {
    Message(Value),
    /// Nothing, in the time that was given.
    Nothing,
    /// QEMU has ended.
    Ended,
}

/// What ended a wait.
#[derive(Debug, PartialEq, Eq)]
pub enum Waited {
    /// The machine stopped itself.
    Stopped,
    /// QEMU ended.
    Ended,
    /// The time ran out.
    TimedOut,
}

impl Qmp {
    /// Greets QEMU on its socket.
    ///
    /// # Errors
    /// `ErrorKind::Board`, with `lost` set if it does not answer in time.
    pub fn new(socket: UnixStream) -> Result<Self, Failed> {
        Qmp::within(socket, ANSWER)
    }

    fn within(socket: UnixStream, answer: Duration) -> Result<Self, Failed> {
        socket.set_read_timeout(Some(TICK)).board(|| "cannot set up the QMP socket".into())?;
        let mut qmp = Qmp { socket, received: Vec::new(), answer, stopped: false };
        qmp.ask("qmp_capabilities", json!({}), None)?;
        Ok(qmp)
    }

    /// Executes a command, passing a file along with it where one is given, and returns its result.
    ///
    /// # Errors
    /// `ErrorKind::Board` if QEMU refuses or has exited, with `lost` set if it does not answer in time: this
    /// says nothing of a machine that got no time to.
    pub fn ask(&mut self, command: &str, arguments: Value, file: Option<&dyn AsFd>) -> Result<Value, Failed> {
        let mut text = json!({ "execute": command, "arguments": arguments }).to_string();
        text.push('\n');
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = file.map(|f| [f.as_fd()]);
        if let Some(files) = &files {
            control.push(SendAncillaryMessage::ScmRights(files));
        }
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL)
            .board(|| format!("QEMU does not accept the command {command}"))?;
        let deadline = Instant::now() + self.answer;
        loop {
            match self.message(deadline)? {
                Received::Ended => {
                    return Err(Error::board(format!("QEMU exited instead of answering {command}")).into());
                }
                Received::Nothing if Instant::now() >= deadline => {
                    let why = format!("QEMU did not answer {command} within {} s", self.answer.as_secs());
                    let error = Error::board(why).hint("run fewer boards or other programs at once, then --resume");
                    return Err(Failed { lost: true, ..error.into() });
                }
                Received::Nothing => {}
                Received::Message(message) => {
                    if let Some(error) = message.get("error") {
                        let why = error["desc"].as_str().unwrap_or("no reason given");
                        return Err(Error::board(format!("QEMU refused {command}: {why}")).into());
                    }
                    if let Some(result) = message.get("return") {
                        return Ok(result.clone());
                    }
                }
            }
        }
    }

    /// Waits until the machine stops itself.
    ///
    /// # Errors
    /// The error of `check`; `ErrorKind::Board` for a damaged message.
    pub fn wait_for_stop(&mut self, limit: Duration, check: impl Fn() -> Result<()>) -> Result<Waited> {
        let deadline = Instant::now() + limit;
        loop {
            if std::mem::take(&mut self.stopped) {
                return Ok(Waited::Stopped);
            }
            check()?;
            if let Received::Ended = self.message(Instant::now() + TICK)? {
                return Ok(Waited::Ended);
            }
            if Instant::now() >= deadline {
                return Ok(Waited::TimedOut);
            }
        }
    }

    /// The next message, if one comes in time.
    fn message(&mut self, deadline: Instant) -> Result<Received> {
        loop {
            if let Some(end) = self.received.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                let message: Value =
                    serde_json::from_slice(&line).board(|| "QEMU's answer is not valid JSON".into())?;
                match message["event"].as_str() {
                    Some("STOP") => self.stopped = true,
                    Some("RESUME") => self.stopped = false,
                    _ => {}
                }
                return Ok(Received::Message(message));
            }
            let mut buffer = [0; 4096];
            match self.socket.read(&mut buffer) {
                Ok(0) => return Ok(Received::Ended),
                Ok(n) => self.received.extend(&buffer[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {
                    if Instant::now() >= deadline {
                        return Ok(Received::Nothing);
                    }
                }
                Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                    return Ok(Received::Ended);
                }
                Err(e) => return Err(Error::board("cannot read QEMU's output").because(e)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A connection to a QEMU that says `text` and then ends.
    fn said(text: &[u8]) -> Qmp {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(TICK)).unwrap();
        theirs.write_all(text).unwrap();
        Qmp { socket: ours, received: Vec::new(), answer: ANSWER, stopped: false }
    }

    #[test]
    fn a_wait_tells_an_end_from_a_message_that_is_damaged() {
        let wait = |text: &[u8]| said(text).wait_for_stop(Duration::from_secs(5), || Ok(()));
        assert_eq!(wait(b"{\"event\": \"STOP\"}\n").unwrap(), Waited::Stopped);
        assert_eq!(wait(b"{\"event\": \"RESUME\"}\n").unwrap(), Waited::Ended);
        let damaged = wait(b"{\"event\": \n").unwrap_err();
        assert!(damaged.chain().contains("not valid JSON"), "{}", damaged.chain());
    }

    #[test]
    fn a_machine_that_does_not_answer_is_lost_and_one_that_refuses_or_ends_is_not() {
        let greeted = |text: &[u8], keep: bool| {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(text).unwrap();
            let _open = keep.then(|| theirs.try_clone().unwrap());
            drop(theirs);
            Qmp::within(ours, Duration::from_millis(80))
                .map(|_| ())
                .map_err(|failed| (failed.lost, failed.error.chain()))
        };
        assert!(greeted(b"{\"return\": {}}\n", true).is_ok());
        let (lost, why) = greeted(b"{\"QMP\": {}}\n", true).unwrap_err();
        assert!(lost && why.contains("did not answer qmp_capabilities"), "{why}");
        let (lost, why) = greeted(b"{\"error\": {\"desc\": \"busy\"}}\n", true).unwrap_err();
        assert!(!lost && why.contains("busy"), "{why}");
        let (lost, why) = greeted(b"{\"QMP\": {}}\n", false).unwrap_err();
        assert!(!lost && why.contains("QEMU"), "{why}");
    }
}
