//! What the device's server tells whoever on the board asks for it: all that changes the device, with its bytes, and
//! what it holds. Asked in the middle of a run: the server, which goes before all others, answers between two requests.

use pocketstone_core::block_record::{BlockChange, BlockImage, decode_block_changes};
use pocketstone_core::error::Context;
use pocketstone_core::translation::TranslationCounts;
use pocketstone_core::{Error, Result};
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// Where it listens: in no file system.
const NAME: &str = "pocketstone-block";

/// What may be asked, each by a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Question {
    /// To record changes from here on.
    Record = b'r',
    /// How many were recorded.
    Recorded = b'n',
    /// Those that were, and no more of them.
    Stop = b's',
    /// What the device holds.
    Image = b'i',
    /// To begin with its translation layer.
    Translate = b't',
    /// What that has done.
    Counts = b'c',
}

impl Question {
    const ALL: [Question; 6] =
        [Question::Record, Question::Recorded, Question::Stop, Question::Image, Question::Translate, Question::Counts];

    const fn letter(self) -> u8 {
        self as u8
    }
}

fn address() -> Result<SocketAddr> {
    SocketAddr::from_abstract_name(NAME).board(|| "cannot name a socket".into())
}

/// The server's ear.
///
/// # Errors
/// `ErrorKind::Board` if another server has it.
pub fn listen() -> Result<UnixListener> {
    UnixListener::bind_addr(&address()?).board(|| "the block device's server cannot listen".into())
}

/// Answers a question that has come, by what `tell` says to it.
///
/// # Errors
/// `ErrorKind::Board` if whoever asked is gone; what `tell` says.
pub fn answer(listener: &UnixListener, tell: impl FnOnce(Question) -> Result<Vec<u8>>) -> Result<()> {
    let failed = || "the block device's server cannot answer".to_owned();
    let (mut stream, _) = listener.accept().board(failed)?;
    let mut letter = [0];
    stream.read_exact(&mut letter).board(failed)?;
    let question = Question::ALL.into_iter().find(|question| question.letter() == letter[0]);
    let question =
        question.ok_or_else(|| Error::board(format!("the block device's server was asked for {}", letter[0])))?;
    stream.write_all(&tell(question)?).board(failed)
}

fn ask(question: Question) -> Result<Vec<u8>> {
    let failed = || "cannot ask the block device's server".to_owned();
    let mut stream = UnixStream::connect_addr(&address()?).board(failed)?;
    stream.write_all(&[question.letter()]).board(failed)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).board(failed)?;
    Ok(answer)
}

/// Has changes recorded from here on.
///
/// # Errors
/// `ErrorKind::Board` if there is no block device.
pub fn record() -> Result<()> {
    ask(Question::Record).map(drop)
}

/// How many were recorded so far.
///
/// # Errors
/// `ErrorKind::Board`, as [`record`], or if the server answers no number.
pub fn recorded() -> Result<u64> {
    let answer =
        ask(Question::Recorded)?.try_into().map_err(|_| Error::board("the block device's server counts nothing"))?;
    Ok(u64::from_le_bytes(answer))
}

/// Those that were, and no more of them.
///
/// # Errors
/// `ErrorKind::Board`, as [`record`], or if the server's answer is damaged.
pub fn stop() -> Result<Vec<BlockChange>> {
    decode_block_changes(&ask(Question::Stop)?)
}

/// What the device holds.
///
/// # Errors
/// `ErrorKind::Board`, as [`record`], or if the server's answer is damaged.
pub fn image() -> Result<BlockImage> {
    BlockImage::decode(&ask(Question::Image)?)
}

/// Has the device begin with its translation layer, if it has one: until then requests take the least they can.
///
/// # Errors
/// `ErrorKind::Board`, as [`record`].
pub fn translate() -> Result<()> {
    ask(Question::Translate).map(drop)
}

/// What the translation layer has done.
///
/// # Errors
/// As [`record`]; `ErrorKind::Board` if the device has none.
pub fn counts() -> Result<TranslationCounts> {
    TranslationCounts::decode(&ask(Question::Counts)?)
}
