//! The copy of a journal of settings that a lab far away keeps, for a board may lose its own.
//!
//! The process that changes settings does not talk to the lab itself. It says each change to the one that does, over a
//! socket, as a line of JSON, and goes on when a byte comes back: then the lab has it on its disk.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// What comes back when the lab has noted something.
pub const NOTED: u8 = b'\n';

/// What is said to the lab of a journal, by its file's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// A setting is about to be made: the journal has this line more.
    Setting {
        /// The journal.
        journal: String,
        /// The line, without its end.
        line: String,
    },
    /// All of it is put back.
    PutBack {
        /// The journal.
        journal: String,
    },
}

/// The way to a lab's copy.
#[derive(Debug)]
pub struct LabCopy {
    socket: UnixStream,
}

impl LabCopy {
    /// By the socket to the process that talks to the lab.
    pub fn by(socket: OwnedFd) -> LabCopy {
        LabCopy { socket: socket.into() }
    }

    /// Says something, and waits until the lab has noted it.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the lab is not there any more.
    pub fn say(&mut self, said: &Said) -> Result<()> {
        let mut line = serde_json::to_vec(said).map_err(|e| Error::bug("no line for the lab").because(e))?;
        line.push(b'\n');
        let mut noted = [0];
        let answer = self.socket.write_all(&line).and_then(|()| self.socket.read_exact(&mut noted));
        answer.board(|| "the lab has not noted a setting".into())
    }
}
