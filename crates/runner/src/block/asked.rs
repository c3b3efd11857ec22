//! What the device's server tells whoever on the board asks for it: all that changes the device, with its bytes, and
//! what it holds. Asked in the middle of a run: the server, which goes before all others, answers between two requests.

use super::server::Server;
use pocketstone_core::block_record::{BlockChange, BlockImage, decode_block_changes, encode_block_changes};
use pocketstone_core::error::Context;
use pocketstone_core::translation::TranslationCounts;
use pocketstone_core::{Error, Result};
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// Where it listens: in no file system.
const NAME: &str = "pocketstone-block";

/// Questions, by a letter.
const RECORD: u8 = b'r';
const COUNT: u8 = b'n';
const STOP: u8 = b's';
const IMAGE: u8 = b'i';
const TRANSLATE: u8 = b't';
const COUNTS: u8 = b'c';

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

/// Answers a question that has come.
///
/// # Errors
/// `ErrorKind::Board` if whoever asked is gone.
pub fn answer(listener: &UnixListener, server: &mut Server) -> Result<()> {
    let failed = || "the block device's server cannot answer".to_owned();
    let (mut stream, _) = listener.accept().board(failed)?;
    let mut question = [0];
    stream.read_exact(&mut question).board(failed)?;
    let answer = match question[0] {
        RECORD => {
            server.record();
            Vec::new()
        }
        COUNT => server.recorded().to_le_bytes().to_vec(),
        STOP => encode_block_changes(&server.stop_recording()),
        IMAGE => server.image()?.encode(),
        TRANSLATE => {
            server.translate();
            Vec::new()
        }
        COUNTS => server.counts().map_or_else(Vec::new, |counts| counts.encode()),
        other => return Err(Error::board(format!("the block device's server was asked for {other}"))),
    };
    stream.write_all(&answer).board(failed)
}

fn ask(question: u8) -> Result<Vec<u8>> {
    let failed = || "cannot ask the block device's server".to_owned();
    let mut stream = UnixStream::connect_addr(&address()?).board(failed)?;
    stream.write_all(&[question]).board(failed)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).board(failed)?;
    Ok(answer)
}

/// Has changes recorded from here on.
///
/// # Errors
/// `ErrorKind::Board` if there is no block device.
pub fn record() -> Result<()> {
    ask(RECORD).map(drop)
}

/// How many were recorded so far.
///
/// # Errors
/// As [`record`].
pub fn recorded() -> Result<u64> {
    let answer = ask(COUNT)?.try_into().map_err(|_| Error::board("the block device's server counts nothing"))?;
    Ok(u64::from_le_bytes(answer))
}

/// Those that were, and no more of them.
///
/// # Errors
/// As [`record`].
pub fn stop() -> Result<Vec<BlockChange>> {
    decode_block_changes(&ask(STOP)?)
}

/// What the device holds.
///
/// # Errors
/// As [`record`].
pub fn image() -> Result<BlockImage> {
    BlockImage::decode(&ask(IMAGE)?)
}

/// Has the device begin with its translation layer, if it has one: until then requests take the least they can.
///
/// # Errors
/// As [`record`].
pub fn translate() -> Result<()> {
    ask(TRANSLATE).map(drop)
}

/// What the translation layer has done.
///
/// # Errors
/// As [`record`]; `ErrorKind::Board` if the device has none.
pub fn counts() -> Result<TranslationCounts> {
    TranslationCounts::decode(&ask(COUNTS)?)
}
