//! Frames: what a lab and a runner on another machine say to each other, over any pipe of bytes.
//!
//! ```text
//!  0  "PKSTFRM1"
//!  8  u32 kind      12  u32 CRC-32 of kind, length and content
//! 16  u64 length of the content
//! 24  content
//! ```
//!
//! Numbers are little-endian. What comes before the first frame is skipped: a shell that starts the runner may say
//! something. After it, whatever is no frame is an error.

mod files;

use crate::error::Context;
use crate::{Error, Result};
pub use files::{Inbox, pieces};
use std::io::{Read, Write};
use std::time::Duration;

/// How often each side says that it is there: the lab as long as it is connected, the runner while it is at work.
pub const BEAT: Duration = Duration::from_secs(5);
/// How long one may be silent before the other one takes it for gone.
pub const SILENCE: Duration = Duration::from_secs(30);

/// What a frame begins with.
const MAGIC: [u8; 8] = *b"PKSTFRM1";
/// Bytes in front of the content.
const HEAD_BYTES: usize = 24;
/// Bytes of a file in a frame at most.
const PIECE_BYTES: usize = 256 << 10;
/// The longest content: a piece of a file and its name, or why there is no reply.
const MOST_BYTES: u64 = 1 << 20;
/// Bytes that may come before the first frame.
const MOST_NOISE_BYTES: usize = 1 << 20;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// From the runner, first: its version, and the board's serial number, empty if it has none.
    Hello(String, String),
    /// The sender is there.
    Beat,
    /// A file for the folder of the order, or from it: its name, without any folder, and what it begins with.
    File(String, Vec<u8>),
    /// What follows in that file.
    More(Vec<u8>),
    /// To the runner: all files are there, carry out the order.
    Go,
    /// From the runner: the order is carried out, and all files of the reply were sent.
    Done,
    /// From the runner: there is no reply, and why.
    Failed(String),
    /// From the runner: a journal's name, and its line for a setting that is made once the lab has noted it.
    Setting(String, String),
    /// To the runner: what it said of a journal is noted.
    Noted,
    /// From the runner: all settings that the journal of this name says are put back.
    PutBack(String),
    /// To the runner: a journal's name, and its lines, which are not known to be put back.
    Left(String, String),
    /// From the runner: what it waits for before the machine is the lab's alone.
    Waits(String),
    /// From the runner: nobody else measures on the machine from now on.
    Taken,
    /// To the runner: nobody else is to measure on the machine. The answer is that it waits, that it is taken, or both.
    Take,
    /// To the runner: others may measure on the machine again.
    Release,
}

impl Frame {
    fn kind(&self) -> u32 {
        match self {
            Frame::Hello(..) => 1,
            Frame::Beat => 2,
            Frame::File(..) => 3,
            Frame::Go => 4,
            Frame::Done => 5,
            Frame::Failed(_) => 6,
            Frame::More(_) => 7,
            Frame::Setting(..) => 8,
            Frame::Noted => 9,
            Frame::PutBack(_) => 10,
            Frame::Left(..) => 11,
            Frame::Waits(_) => 12,
            Frame::Taken => 13,
            Frame::Take => 14,
            Frame::Release => 15,
        }
    }

    /// Writes the frame, and has it sent.
    ///
    /// # Errors
    /// `ErrorKind::Board` if nobody takes it.
    pub fn send(&self, to: &mut impl Write) -> Result<()> {
        let content = match self {
            Frame::Failed(text) | Frame::Waits(text) => text.clone().into_bytes(),
            Frame::More(bytes) => bytes.clone(),
            Frame::Beat | Frame::Go | Frame::Done | Frame::Noted => Vec::new(),
            Frame::Taken | Frame::Take | Frame::Release => Vec::new(),
            Frame::File(name, bytes) => named(name, bytes),
            Frame::Hello(name, text) | Frame::Setting(name, text) | Frame::Left(name, text) => {
                named(name, text.as_bytes())
            }
            Frame::PutBack(name) => named(name, &[]),
        };
        let (kind, length) = (self.kind().to_le_bytes(), (content.len() as u64).to_le_bytes());
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&kind);
        head[12..16].copy_from_slice(&checksum(kind, length, &content).to_le_bytes());
        head[16..].copy_from_slice(&length);
        let sent = to.write_all(&head).and_then(|()| to.write_all(&content)).and_then(|()| to.flush());
        sent.board(|| "the connection has ended".into())
    }
}

fn checksum(kind: [u8; 4], length: [u8; 8], content: &[u8]) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    [&kind[..], &length[..], content].iter().for_each(|bytes| checksum.update(bytes));
    checksum.finalize()
}

/// Puts frames together from bytes as they come.
#[derive(Debug, Default)]
pub struct Frames {
    heard: Vec<u8>,
    /// The first frame has begun: nothing is skipped any more.
    begun: bool,
}

impl Frames {
    /// Takes what a pipe has now, with one read; false at its end.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the pipe cannot be read.
    pub fn hear(&mut self, from: &mut impl Read) -> Result<bool> {
        let mut bytes = vec![0; 1 << 16];
        let got = loop {
            match from.read(&mut bytes) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                got => break got.board(|| "cannot read from the connection".into())?,
            }
        };
        self.heard.extend(&bytes[..got]);
        Ok(got > 0)
    }

    /// The next whole frame; `None` where more bytes are needed.
    ///
    /// # Errors
    /// `ErrorKind::Board` if what was heard is no frame.
    pub fn take(&mut self) -> Result<Option<Frame>> {
        if !self.begun {
            match self.heard.windows(MAGIC.len()).position(|bytes| bytes == MAGIC) {
                Some(at) => drop(self.heard.drain(..at)),
                None if self.heard.len() > MOST_NOISE_BYTES => {
                    let start = String::from_utf8_lossy(&self.heard[..200]).into_owned();
                    return Err(Error::board(format!("nothing but noise comes from the board: {start:?}"))
                        .hint("its shell must not print anything without end when it starts"));
                }
                None => return Ok(None),
            }
            self.begun = true;
        }
        let Some(head) = self.heard.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let word = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        let (low, high) = (u32::from_le_bytes(word(16)), u32::from_le_bytes(word(20)));
        let length = u64::from(low) | u64::from(high) << 32;
        if head[..8] != MAGIC || length > MOST_BYTES {
            return Err(damaged());
        }
        let whole = HEAD_BYTES + length as usize;
        if self.heard.len() < whole {
            return Ok(None);
        }
        let (kind, sum) = (word(8), u32::from_le_bytes(word(12)));
        let content: Vec<u8> = self.heard.drain(..whole).skip(HEAD_BYTES).collect();
        if checksum(kind, length.to_le_bytes(), &content) != sum {
            return Err(damaged());
        }
        Ok(Some(match (u32::from_le_bytes(kind), content) {
            (1, content) => text(content).map(|(version, serial)| Frame::Hello(version, serial)).ok_or_else(damaged)?,
            (2, empty) if empty.is_empty() => Frame::Beat,
            (3, content) => parts(content).map(|(name, bytes)| Frame::File(name, bytes)).ok_or_else(damaged)?,
            (4, empty) if empty.is_empty() => Frame::Go,
            (5, empty) if empty.is_empty() => Frame::Done,
            (6, text) => Frame::Failed(String::from_utf8(text).map_err(|_| damaged())?),
            (7, bytes) => Frame::More(bytes),
            (8, content) => text(content).map(|(name, text)| Frame::Setting(name, text)).ok_or_else(damaged)?,
            (9, empty) if empty.is_empty() => Frame::Noted,
            (10, content) => match text(content) {
                Some((name, text)) if text.is_empty() => Frame::PutBack(name),
                _ => return Err(damaged()),
            },
            (11, content) => text(content).map(|(name, text)| Frame::Left(name, text)).ok_or_else(damaged)?,
            (12, text) => Frame::Waits(String::from_utf8(text).map_err(|_| damaged())?),
            (13, empty) if empty.is_empty() => Frame::Taken,
            (14, empty) if empty.is_empty() => Frame::Take,
            (15, empty) if empty.is_empty() => Frame::Release,
            _ => return Err(damaged()),
        }))
    }
}

/// A name and what is behind it.
fn named(name: &str, bytes: &[u8]) -> Vec<u8> {
    [&(name.len() as u32).to_le_bytes(), name.as_bytes(), bytes].concat()
}

/// What [`named`] puts together. A name that leads out of a folder is none.
fn parts(mut content: Vec<u8>) -> Option<(String, Vec<u8>)> {
    let length = u32::from_le_bytes(*content.first_chunk()?) as usize;
    let bytes = content.split_off(4usize.checked_add(length).filter(|end| *end <= content.len())?);
    let name = String::from_utf8(content.split_off(4)).ok()?;
    let plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
    plain.then_some((name, bytes))
}

fn text(content: Vec<u8>) -> Option<(String, String)> {
    let (name, bytes) = parts(content)?;
    Some((name, String::from_utf8(bytes).ok()?))
}

fn damaged() -> Error {
    Error::board("what comes over the connection is damaged")
        .hint("both sides must have the same version of pocketstone")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Frame> {
        vec![
            Frame::Hello("pocketstone-runner 0.1.0".into(), "100000003d1d1c36".into()),
            Frame::File("order.json".into(), b"{}".to_vec()),
            Frame::File("empty".into(), Vec::new()),
            Frame::Go,
            Frame::Beat,
            Frame::File("calls.bin".into(), (0..=255).cycle().take(100_000).collect()),
            Frame::More(vec![7; 300]),
            Frame::Done,
            Frame::Failed("no".into()),
            Frame::Setting("lab-1.journal".into(), "{}\n".into()),
            Frame::Noted,
            Frame::PutBack("lab-1.journal".into()),
            Frame::Left("lab-1.journal".into(), "{}\n{}\n".into()),
            Frame::Waits("another run".into()),
            Frame::Taken,
            Frame::Take,
            Frame::Release,
        ]
    }

    fn bytes() -> Vec<u8> {
        let mut bytes = Vec::new();
        all().iter().for_each(|frame| frame.send(&mut bytes).unwrap());
        bytes
    }

    fn taken(frames: &mut Frames) -> Result<Vec<Frame>> {
        let mut found = Vec::new();
        while let Some(frame) = frames.take()? {
            found.push(frame);
        }
        Ok(found)
    }

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let bytes = [b"Welcome to the board!\nPKST".to_vec(), bytes()].concat();
        for step in [1, 7, 24, 4096, bytes.len()] {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for mut part in bytes.chunks(step) {
                while frames.hear(&mut part).unwrap() {}
                found.extend(taken(&mut frames).unwrap());
            }
            assert_eq!(found, all(), "{step}");
        }
    }

    const CRC: [u8; 4] = [0x85, 0xba, 0x90, 0x88];

    /// By hand, from the drawing above; the checksum by Python's zlib.crc32.
    #[test]
    fn the_form_is_as_drawn() {
        let mut bytes = Vec::new();
        Frame::File("a".into(), b"xyz".to_vec()).send(&mut bytes).unwrap();
        assert_eq!(bytes, [&b"PKSTFRM1\x03\0\0\0"[..], &CRC, b"\x08\0\0\0\0\0\0\0\x01\0\0\0axyz"].concat());
    }

    proptest::proptest! {
        #[test]
        fn whatever_comes_is_frames_or_an_error(bytes: Vec<u8>, cut in 0usize..600, with in 0u8..3) {
            let whole = self::bytes();
            let start = &whole[..cut.min(whole.len())];
            let mixed = match with {
                0 => bytes,
                1 => [start, &bytes].concat(),
                _ => [&bytes, start, &bytes].concat(),
            };
            let mut frames = Frames::default();
            let mut rest = &mixed[..];
            while frames.hear(&mut rest).unwrap() {}
            // No panic, and no more than was said.
            let found = taken(&mut frames).unwrap_or_default();
            let mut again = Vec::new();
            found.iter().for_each(|frame| frame.send(&mut again).unwrap());
            proptest::prop_assert!(again.len() <= mixed.len());
        }
    }

    #[test]
    fn whatever_is_changed_is_noticed() {
        let bytes = bytes();
        let heads = [0, 60, 90];
        for at in (0..heads[2]).chain([bytes.len() - 40, bytes.len() - 1]) {
            let mut wrong = bytes.clone();
            wrong[at] ^= 0x10;
            let (mut frames, mut rest) = (Frames { heard: Vec::new(), begun: true }, &wrong[..]);
            while frames.hear(&mut rest).unwrap() {}
            let found = taken(&mut frames);
            // A length that was made larger is waited for.
            assert!(found.is_err() || found.is_ok_and(|found| found.len() < all().len()), "byte {at}");
        }
        // A frame that says it has more than anything may have is refused at once.
        let mut long = Vec::new();
        Frame::Go.send(&mut long).unwrap();
        long[22] = 1;
        let mut frames = Frames::default();
        assert!(frames.hear(&mut &long[..]).unwrap());
        assert!(frames.take().is_err());
        for name in ["", ".", "..", "a/b", "/etc/passwd"] {
            let name = || name.to_owned();
            let all = [
                Frame::File(name(), Vec::new()),
                Frame::Setting(name(), String::new()),
                Frame::PutBack(name()),
                Frame::Left(name(), String::new()),
            ];
            for frame in all {
                let mut bytes = Vec::new();
                frame.send(&mut bytes).unwrap();
                let mut frames = Frames::default();
                assert!(frames.hear(&mut &bytes[..]).unwrap());
                assert!(frames.take().is_err(), "{frame:?}");
            }
        }
    }
}
