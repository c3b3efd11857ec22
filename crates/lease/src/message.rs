//! How a direct process finds the server of a mount, and what they say to each other: messages of 64 bytes over a
//! socket whose name the mount tells, one question and one answer a connection.
//!
//! ```text
//! question                             answer
//!   0  u32 magic   4  u32 version        0  u32 magic   4  u32 version
//!   8  u32 what    12  u32 access, or    8  u32 status  12  u32 bit 0: stores allowed; bit 1: stores are flushed;
//!                        descriptor, or 0                          bit 2: appends allowed; bit 3: files can be mapped;
//!                                                                  bit 4: what is stored and fenced needs no more
//!  16  u64 the process's token, or      16  u64 token
//!          the entry's key
//!  24  u64 inode number, or entry       24  u64 bytes of the region
//!  32  u64 bytes, or 0                  32  u64 entry   40  u64 its key
//!  40  u64 offset in the file, or 0     48  u64 where records of sizes lie in the region; 0: there
//!  48  zeros                                    are none   56  zeros
//! with the answer to "attach": files of the table, the region and, if stores are allowed, the slots
//! with the answer to "map": the region, open for that alone
//! ```
//!
//! The end of a file is asked for by the file itself ([`Lease`]).
//!
//! No descriptor comes along with a question: whoever closes what another process sent may wait for that process, for
//! example if it serves the file system that the file lies on. The server looks at /proc/PID/fd instead.

mod lease;

pub use lease::{LEASED, Lease};

use rustix::io::{Errno, IoSlice, IoSliceMut, Result};
use rustix::ioctl::{Opcode, Updater, opcode};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use rustix::process::Pid;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// `SCML`.
const MAGIC: u32 = 0x4C4D_4353;
/// Of messages, table and slots alike: both sides have the same, or nothing is direct.
pub const VERSION: u32 = 9;
const BYTES: usize = 64;
/// The longest name of a server.
pub const NAME_BYTES: usize = 48;
/// `_IOR('S', 0x6C, char[64])`: where the server of the mount listens that a file lies on.
pub const ASK: Opcode = opcode::read::<[u8; BYTES]>(b'S', 0x6C);
/// `_IOWR('S', 0x6D, char[64])`: a question about the file itself, and its answer.
pub const ASK_BY: Opcode = opcode::read_write::<[u8; BYTES]>(b'S', 0x6D);
/// No answer takes longer, unless the server is gone or stopped.
const PATIENCE: Duration = Duration::from_secs(2);
/// What is mapped may need space, and zeros in it: a GiB takes half a second.
const PATIENCE_TO_MAP: Duration = Duration::from_secs(60);
const MOST_FILES: usize = 3;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// To be direct from now on; `write`: to store, too.
    Attach {
        /// Stores are wanted.
        write: bool,
    },
    /// The entry of an inode.
    File {
        /// The process, as it was told when it attached.
        token: u64,
        /// The inode number.
        ino: u64,
    },
    /// The kernel is to forget the pages of a file that the process has open.
    Free {
        /// The process.
        token: u64,
        /// The entry.
        index: u32,
        /// The process's number of the open file.
        descriptor: RawFd,
    },
    /// A range of such a file is to lie still, to be mapped.
    Map {
        /// The process.
        token: u64,
        /// The entry.
        index: u32,
        /// To store there, too.
        write: bool,
        /// Where the range begins, in bytes.
        offset: u64,
        /// Its length.
        bytes: u64,
    },
    /// Such a file was stored to, by a process that has it mapped because its parent had: it has attached to nothing.
    Stored {
        /// The entry.
        index: u32,
        /// Its key.
        key: u64,
    },
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answer {
    /// 0, or why not: a number of errno(3).
    pub status: u32,
    /// Stores are allowed.
    pub write: bool,
    /// Stores are flushed and fenced.
    pub flushed: bool,
    /// Ends of files are leased.
    pub append: bool,
    /// Files can be mapped.
    pub map: bool,
    /// What is stored, and flushed where that is so, is durable.
    pub settles: bool,
    /// What the process says from now on.
    pub token: u64,
    /// Length of the region in bytes.
    pub region_bytes: u64,
    /// An entry of the table.
    pub index: u64,
    /// Its key.
    pub key: u64,
    /// Where records of sizes lie in the region; 0: there are none.
    pub records_at: u64,
}

impl Answer {
    /// A refusal.
    pub fn refusal(error: Errno) -> Answer {
        Answer { status: error.raw_os_error().unsigned_abs(), ..Answer::default() }
    }
}

fn put32(message: &mut [u8; BYTES], at: usize, value: u32) {
    message[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}

fn put64(message: &mut [u8; BYTES], at: usize, value: u64) {
    message[at..at + 8].copy_from_slice(&value.to_ne_bytes());
}

fn get32(message: &[u8; BYTES], at: usize) -> u32 {
    u32::from_ne_bytes(message[at..at + 4].try_into().unwrap_or_default())
}

fn get64(message: &[u8; BYTES], at: usize) -> u64 {
    u64::from_ne_bytes(message[at..at + 8].try_into().unwrap_or_default())
}

fn begin() -> [u8; BYTES] {
    let mut message = [0; BYTES];
    put32(&mut message, 0, MAGIC);
    put32(&mut message, 4, VERSION);
    message
}

/// Whether both sides mean the same by a message.
fn understood(message: &[u8; BYTES]) -> bool {
    get32(message, 0) == MAGIC && get32(message, 4) == VERSION
}

impl Question {
    fn encode(self) -> [u8; BYTES] {
        let mut message = begin();
        let (what, how, token, value, bytes, offset) = match self {
            Question::Attach { write } => (1, u32::from(write), 0, 0, 0, 0),
            Question::File { token, ino } => (2, 0, token, ino, 0, 0),
            Question::Free { token, index, descriptor } => (3, descriptor as u32, token, u64::from(index), 0, 0),
            Question::Map { token, index, write, offset, bytes } => {
                (4, u32::from(write), token, u64::from(index), bytes, offset)
            }
            Question::Stored { index, key } => (5, 0, key, u64::from(index), 0, 0),
        };
        put32(&mut message, 8, what);
        put32(&mut message, 12, how);
        put64(&mut message, 16, token);
        put64(&mut message, 24, value);
        put64(&mut message, 32, bytes);
        put64(&mut message, 40, offset);
        message
    }

    /// What somebody said; `None`: it is not understood.
    pub fn decode(message: &[u8]) -> Option<Question> {
        let message = message.try_into().ok()?;
        let (token, value) = (get64(message, 16), get64(message, 24));
        if !understood(message) {
            return None;
        }
        match get32(message, 8) {
            1 => Some(Question::Attach { write: get32(message, 12) == 1 }),
            2 => Some(Question::File { token, ino: value }),
            3 => {
                let descriptor = RawFd::try_from(get32(message, 12)).ok()?;
                Some(Question::Free { token, index: u32::try_from(value).ok()?, descriptor })
            }
            4 => {
                let (index, write) = (u32::try_from(value).ok()?, get32(message, 12) == 1);
                Some(Question::Map { token, index, write, offset: get64(message, 40), bytes: get64(message, 32) })
            }
            5 => Some(Question::Stored { index: u32::try_from(value).ok()?, key: token }),
            _ => None,
        }
    }
}

impl Answer {
    /// As it was said, to [`ASK_BY`] or over a socket.
    fn heard(message: &[u8; BYTES]) -> Result<Answer> {
        let answer = Answer::decode(message).ok_or(Errno::PROTO)?;
        match i32::try_from(answer.status) {
            Ok(0) => Ok(answer),
            Ok(status) => Err(Errno::from_raw_os_error(status)),
            Err(_) => Err(Errno::PROTO),
        }
    }

    /// As it is said to who asked.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut message = begin();
        put32(&mut message, 8, self.status);
        let flags = [self.write, self.flushed, self.append, self.map, self.settles];
        put32(&mut message, 12, flags.iter().enumerate().fold(0, |all, (bit, is)| all | u32::from(*is) << bit));
        let words = [self.token, self.region_bytes, self.index, self.key, self.records_at];
        words.into_iter().enumerate().for_each(|(word, value)| put64(&mut message, 16 + 8 * word, value));
        message
    }

    fn decode(message: &[u8; BYTES]) -> Option<Answer> {
        let flags = get32(message, 12);
        understood(message).then(|| Answer {
            status: get32(message, 8),
            write: flags & 1 != 0,
            flushed: flags & 2 != 0,
            append: flags & 4 != 0,
            map: flags & 8 != 0,
            settles: flags & 16 != 0,
            token: get64(message, 16),
            region_bytes: get64(message, 24),
            index: get64(message, 32),
            key: get64(message, 40),
            records_at: get64(message, 48),
        })
    }
}

/// The name of a server, as the mount tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name([u8; NAME_BYTES]);

impl Name {
    /// Of text that is not too long.
    pub fn new(text: &str) -> Option<Name> {
        let mut name = [0; NAME_BYTES];
        name.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Name(name))
    }

    /// What the mount answers to [`ASK`].
    pub fn told(&self) -> [u8; BYTES] {
        let mut message = begin();
        message[8..8 + NAME_BYTES].copy_from_slice(&self.0);
        message
    }

    /// Asks the mount that a file lies on.
    ///
    /// # Errors
    /// `Errno::NOTTY` if it is no such mount, or what else the kernel says; `Errno::INVAL` if it is one of another
    /// version.
    pub fn ask(file: BorrowedFd<'_>) -> Result<Name> {
        let mut message = [0; BYTES];
        // SAFETY: the operation writes 64 bytes at most, as its number says, into an array of that size.
        unsafe { rustix::ioctl::ioctl(file, Updater::<{ ASK }, _>::new(&mut message))? };
        if !understood(&message) {
            return Err(Errno::INVAL);
        }
        message[8..8 + NAME_BYTES].try_into().map(Name).map_err(|_| Errno::INVAL)
    }

    /// As words, and back.
    pub(crate) fn words(&self) -> [u64; NAME_BYTES / 8] {
        std::array::from_fn(|at| u64::from_ne_bytes(self.0[at * 8..at * 8 + 8].try_into().unwrap_or_default()))
    }

    pub(crate) fn of_words(words: &[u64; NAME_BYTES / 8]) -> Name {
        let mut name = [0; NAME_BYTES];
        name.chunks_exact_mut(8).zip(words).for_each(|(part, word)| part.copy_from_slice(&word.to_ne_bytes()));
        Name(name)
    }

    fn address(&self) -> Result<SocketAddrUnix> {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
        SocketAddrUnix::new_abstract_name(&self.0[..length])
    }
}

fn socket() -> Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// SO_PASSRIGHTS of asm-generic/socket.h, from Linux 6.16 on.
const PASS_RIGHTS: libc::c_int = 83;

/// Nobody can send descriptors to a socket, and to those that come of it. An older Linux does not know that.
fn refuse_descriptors(socket: &OwnedFd) {
    let no: libc::c_int = 0;
    let bytes = size_of_val(&no) as libc::socklen_t;
    // SAFETY: the option is a number, which is read from where it is said to be.
    unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, PASS_RIGHTS, (&raw const no).cast(), bytes) };
}

/// Listens under a name.
///
/// # Errors
/// `Errno::ADDRINUSE` if somebody listens under it; what else socket(2), bind(2) and listen(2) return.
pub fn listen(name: &Name) -> Result<OwnedFd> {
    let listener = socket()?;
    refuse_descriptors(&listener);
    rustix::net::bind(&listener, &name.address()?)?;
    rustix::net::listen(&listener, 64)?;
    Ok(listener)
}

/// What a connection brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A question.
    Question(Question),
    /// Nothing yet.
    Nothing,
    /// What is not understood, or its end.
    Nonsense,
}

/// What a process says, if it has said it. Nobody keeps the server waiting.
pub fn receive(from: BorrowedFd<'_>) -> Received {
    let mut message = [0; BYTES];
    // There is no room for descriptors: the kernel drops those of an older Linux, which lets processes send them.
    match rustix::net::recv(from, &mut message, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
        Ok((_, BYTES)) => Question::decode(&message).map_or(Received::Nonsense, Received::Question),
        Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
        Ok(_) | Err(_) => Received::Nonsense,
    }
}

/// A whole message, and the files that come along.
fn take(from: BorrowedFd<'_>) -> Result<([u8; BYTES], [Option<OwnedFd>; MOST_FILES])> {
    let mut message = [0; BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut message)];
    let got = loop {
        match rustix::net::recvmsg(from, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            got => break got?,
        }
    };
    let mut files = [const { None }; MOST_FILES];
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    for (place, file) in files.iter_mut().zip(rights.flatten()) {
        *place = Some(file);
    }
    let whole = got.bytes == BYTES && !got.flags.contains(ReturnFlags::TRUNC);
    if whole { Ok((message, files)) } else { Err(Errno::PROTO) }
}

/// Sends a message, and files with it.
fn give(to: BorrowedFd<'_>, message: &[u8; BYTES], files: &[BorrowedFd<'_>], how: SendFlags) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(Errno::TOOBIG);
    }
    rustix::net::sendmsg(to, &[IoSlice::new(message)], &mut ancillary, how | SendFlags::NOSIGNAL).map(drop)
}

/// Answers, with files that the process gets. That it is gone, or takes nothing, does not matter.
pub fn reply(to: BorrowedFd<'_>, answer: &Answer, files: &[BorrowedFd<'_>]) {
    let _ = give(to, &answer.encode(), files, SendFlags::DONTWAIT);
}

/// Asks a server, and waits for its answer and the files that come with it.
///
/// # Errors
/// `Errno::CONNREFUSED` if there is no such server, `Errno::AGAIN` if it does not answer in time, or what else the
/// kernel says; `Errno::PROTO` if what it says is not understood; or what it answers.
pub fn ask(name: &Name, question: Question) -> Result<(Answer, [Option<OwnedFd>; MOST_FILES])> {
    let server = socket()?;
    let patience = if matches!(question, Question::Map { .. }) { PATIENCE_TO_MAP } else { PATIENCE };
    sockopt::set_socket_timeout(&server, sockopt::Timeout::Recv, Some(patience))?;
    sockopt::set_socket_timeout(&server, sockopt::Timeout::Send, Some(PATIENCE))?;
    rustix::net::connect(&server, &name.address()?)?;
    give(server.as_fd(), &question.encode(), &[], SendFlags::empty())?;
    let (message, files) = take(server.as_fd())?;
    Answer::heard(&message).map(|answer| (answer, files))
}

/// Asks the mount that a file lies on about that file, which takes one round trip where a socket takes two.
///
/// # Errors
/// `Errno::NOTTY` if it is no mount that answers, or what else the kernel says; `Errno::PROTO` if what it says is not
/// understood; or what it answers.
pub fn ask_by(file: BorrowedFd<'_>, question: Question) -> Result<Answer> {
    let mut message = question.encode();
    // SAFETY: the operation reads and writes 64 bytes at most, as its number says, of an array of that size.
    unsafe { rustix::ioctl::ioctl(file, Updater::<{ ASK_BY }, _>::new(&mut message))? };
    Answer::heard(&message)
}

/// The process at the other end of a connection.
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its number, which means it as long as it waits for an answer.
    pub pid: Pid,
}

/// Who asks; `None`: it cannot be seen from here.
pub fn peer(of: BorrowedFd<'_>) -> Option<Peer> {
    let credentials = sockopt::socket_peercred(of).ok()?;
    Some(Peer { uid: credentials.uid.as_raw(), pid: credentials.pid })
}

/// A connection that somebody asked for.
///
/// # Errors
/// What accept(2) returns, such as `Errno::MFILE` if this process has too many files open.
pub fn accept(listener: &OwnedFd) -> Result<OwnedFd> {
    rustix::net::accept_with(listener.as_fd(), SocketFlags::CLOEXEC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_through_and_others_are_not_understood() {
        for question in [
            Question::Attach { write: true },
            Question::Attach { write: false },
            Question::File { token: u64::MAX, ino: 7 },
            Question::Free { token: 1, index: 16_383, descriptor: 3 },
            Question::Map { token: 1, index: 16_383, write: true, offset: 1 << 40, bytes: 1 << 33 },
            Question::Map { token: 1, index: 0, write: false, offset: 0, bytes: 1 },
            Question::Stored { index: 16_383, key: u64::MAX },
        ] {
            let message = question.encode();
            assert_eq!(Question::decode(&message), Some(question));
            for at in 0..8 {
                let mut wrong = message;
                wrong[at] ^= 1;
                assert_eq!(Question::decode(&wrong), None);
            }
        }
        let mut unknown = Question::Attach { write: true }.encode();
        unknown[8] = 9;
        assert_eq!(Question::decode(&unknown), None);
        let answer = Answer {
            settles: true,
            status: 0,
            write: true,
            flushed: true,
            append: true,
            map: true,
            token: 3,
            region_bytes: 1 << 40,
            index: 5,
            key: 1 << 33,
            records_at: 4352,
        };
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        assert_eq!(Answer::decode(&[0; BYTES]), None);
    }

    #[test]
    fn a_name_is_told_as_the_number_of_the_question_says() {
        // _IOR('S', 0x6c, char[64]), printed by a C program that includes linux/ioctl.h.
        assert_eq!(ASK, 0x8040_536c);
        // _IOWR('S', 0x6d, char[64])
        assert_eq!(ASK_BY, 0xc040_536d);
        assert_eq!(Name::new(&"n".repeat(NAME_BYTES + 1)), None);
        let name = Name::new("scmfs-1-2").expect("short enough");
        assert_eq!(name.told()[8..17], *b"scmfs-1-2");
    }

    fn wait_for_question(connection: &OwnedFd) -> Question {
        loop {
            match receive(connection.as_fd()) {
                Received::Question(question) => return question,
                Received::Nothing => std::thread::yield_now(),
                Received::Nonsense => panic!("a question was asked"),
            }
        }
    }

    #[test]
    fn questions_are_asked_and_answered_with_files() {
        let name = Name::new(&format!("pocketstone-test-{}", std::process::id())).expect("short enough");
        let listener = listen(&name).expect("a socket");
        let server = std::thread::spawn(move || {
            let connection = accept(&listener).expect("a connection");
            let uid = peer(connection.as_fd()).expect("this process").uid;
            let question = wait_for_question(&connection);
            let answer = Answer { index: u64::from(uid), ..Answer::default() };
            reply(connection.as_fd(), &answer, &[listener.as_fd(), listener.as_fd()]);
            let refused = accept(&listener).expect("a connection");
            wait_for_question(&refused);
            reply(refused.as_fd(), &Answer::refusal(Errno::ACCESS), &[]);
            question
        });
        let (answer, files) = ask(&name, Question::File { token: 1, ino: 2 }).expect("an answer");
        assert_eq!(answer.index, u64::from(rustix::process::getuid().as_raw()));
        assert_eq!(files.iter().flatten().count(), 2);
        // They are the listener, which would go on listening.
        drop(files);
        let refused = ask(&name, Question::Attach { write: true });
        assert_eq!(refused.map(|(answer, _)| answer), Err(Errno::ACCESS));
        assert_eq!(server.join().expect("no panic"), Question::File { token: 1, ino: 2 });
        assert!(ask(&name, Question::Attach { write: true }).is_err(), "nobody listens");
    }
}
