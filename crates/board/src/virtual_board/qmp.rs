//! Talking to QEMU through its machine protocol (QMP), on a socket that only the two of us have.

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

/// A QMP connection.
pub struct Qmp {
    socket: UnixStream,
    received: Vec<u8>,
    /// The machine has stopped and nobody has asked yet.
    stopped: bool,
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
    /// When it does not answer.
    pub fn new(socket: UnixStream) -> Result<Self> {
        socket.set_read_timeout(Some(TICK)).board(|| "cannot set up the QMP socket".into())?;
        let mut qmp = Qmp { socket, received: Vec::new(), stopped: false };
        qmp.ask("qmp_capabilities", json!({}), None)?;
        Ok(qmp)
    }

    /// Executes a command, passing a file along with it where one is given, and returns its result.
    ///
    /// # Errors
    /// When QEMU refuses or has ended.
    pub fn ask(&mut self, command: &str, arguments: Value, file: Option<&dyn AsFd>) -> Result<Value> {
        let mut text = json!({ "execute": command, "arguments": arguments }).to_string();
        text.push('\n');
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = file.map(|f| [f.as_fd()]);
        if let Some(files) = &files {
            control.push(SendAncillaryMessage::ScmRights(files));
        }
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL)
            .board(|| format!("QEMU does not take the command {command}"))?;
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match self.message(deadline)? {
                None if Instant::now() >= deadline => {
                    return Err(Error::board(format!("QEMU did not answer {command} within 30 s")));
                }
                None => {}
                Some(message) => {
                    if let Some(error) = message.get("error") {
                        let why = error["desc"].as_str().unwrap_or("no reason given");
                        return Err(Error::board(format!("QEMU refused {command}: {why}")));
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
    /// What `check` returns, or a damaged message.
    pub fn wait_for_stop(&mut self, limit: Duration, check: impl Fn() -> Result<()>) -> Result<Waited> {
        let deadline = Instant::now() + limit;
        loop {
            if std::mem::take(&mut self.stopped) {
                return Ok(Waited::Stopped);
            }
            check()?;
            match self.message(Instant::now() + TICK) {
                Ok(_) => {}
                Err(_) => return Ok(Waited::Ended),
            }
            if Instant::now() >= deadline {
                return Ok(Waited::TimedOut);
            }
        }
    }

    /// The next message, or `None` when none came in time. Errors mean that QEMU has ended.
    fn message(&mut self, deadline: Instant) -> Result<Option<Value>> {
        loop {
            if let Some(end) = self.received.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                let message: Value = serde_json::from_slice(&line).board(|| "QEMU's answer is no JSON".into())?;
                match message["event"].as_str() {
                    Some("STOP") => self.stopped = true,
                    Some("RESUME") => self.stopped = false,
                    _ => {}
                }
                return Ok(Some(message));
            }
            let mut buffer = [0; 4096];
            match self.socket.read(&mut buffer) {
                Ok(0) => return Err(Error::board("QEMU ended")),
                Ok(n) => self.received.extend(&buffer[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {
                    if Instant::now() >= deadline {
                        return Ok(None);
                    }
                }
                Err(e) => return Err(Error::board("QEMU ended").because(e)),
            }
        }
    }
}
