//! The device's side of a network block device: requests come by a socket, and are answered in time.
//!
//! The protocol is that of Linux's nbd, <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>: numbers
//! are big-endian.

use super::asked::{self, Question};
use super::calibration::Corrections;
use pocketstone_core::block::{BlockDevice, BlockOp, Schedule};
use pocketstone_core::block_record::{BlockChange, BlockImage, PAGE_BYTES, encode_block_changes};
use pocketstone_core::error::Context;
use pocketstone_core::translation::{ChipOperations, TranslationCounts, Translator};
use pocketstone_core::{Error, Result};
use pocketstone_engine::now_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io::{IoSlice, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const DISCONNECT: u16 = 2;
/// EINVAL, as the protocol has it.
const INVALID: u32 = 22;

/// A request's header.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    op: BlockOp,
    handle: [u8; 8],
    from: u64,
    bytes: u32,
}

impl Header {
    /// Reads one; `None`: the kernel wants no more.
    fn parse(text: &[u8; 28]) -> Result<Option<Header>> {
        let field = |at: usize| u32::from_be_bytes([text[at], text[at + 1], text[at + 2], text[at + 3]]);
        if field(0) != REQUEST_MAGIC {
            return Err(Error::board(format!("the kernel's request begins with {:#010x}", field(0))));
        }
        // The upper half are flags, of which none was offered.
        let op = match field(4) as u16 {
            0 => BlockOp::Read,
            1 => BlockOp::Write,
            DISCONNECT => return Ok(None),
            3 => BlockOp::Flush,
            4 => BlockOp::Discard,
            other => return Err(Error::board(format!("the kernel asks for {other}, which was not offered"))),
        };
        let handle = [text[8], text[9], text[10], text[11], text[12], text[13], text[14], text[15]];
        let from = u64::from(field(16)) << 32 | u64::from(field(20));
        Ok(Some(Header { op, handle, from, bytes: field(24) }))
    }

    /// The bytes it is about, on a device with so many.
    fn range(&self, device_bytes: usize) -> Option<std::ops::Range<usize>> {
        let from = usize::try_from(self.from).ok()?;
        let to = from.checked_add(usize::try_from(self.bytes).ok()?)?;
        (to <= device_bytes).then_some(from..to)
    }
}

/// An answer whose time has not come.
struct Answer {
    head: [u8; 16],
    /// What was read.
    content: std::ops::Range<usize>,
    /// Its place among the recorded changes.
    recorded: Option<usize>,
}

/// Bytes that an answer ends with. The others are sent before, while the device is at work: the kernel moves them into
/// place meanwhile, as a controller does, and is done when it has the last ones.
const END_BYTES: usize = 64;

/// A device that is served.
pub struct Server {
    device: BlockDevice,
    corrections: Arc<Corrections>,
    schedule: Schedule,
    /// The translation layer, once it is at work.
    translator: Option<Translator<ChipOperations>>,
    stream: UnixStream,
    content: Vec<u8>,
    /// Pages of it that may be other than zeros.
    written: Vec<bool>,
    /// By when they are due, and by the order in which requests came.
    answers: BTreeMap<(u64, u64), Answer>,
    /// The one of which all but the end is sent: no other one can go before it.
    begun: Option<(u64, u64)>,
    taken: u64,
    listener: UnixListener,
    /// Changes, while somebody wants them.
    changes: Option<Vec<BlockChange>>,
}

impl Server {
    /// A device full of zeros, at the other end of a socket.
    pub fn new(
        device: BlockDevice,
        corrections: Arc<Corrections>,
        stream: UnixStream,
        listener: UnixListener,
    ) -> Server {
        let schedule = Schedule::new(&device);
        // Zeros take no memory before they are touched.
        let content = vec![0; device.bytes() as usize];
        let (written, answers) = (vec![false; content.len().div_ceil(PAGE_BYTES)], BTreeMap::new());
        Server {
            device,
            corrections,
            schedule,
            translator: None,
            stream,
            content,
            written,
            answers,
            begun: None,
            taken: 0,
            listener,
            changes: None,
        }
    }

    /// Begins with the translation layer, on an erased chip: what was written so far are zeros, as it reads then.
    pub fn translate(&mut self) {
        let bytes = self.device.bytes();
        let layer = self.device.translation.as_ref();
        self.translator = layer.map(|layer| Translator::new(layer, bytes, ChipOperations::default()));
    }

    /// What the translation layer has done.
    pub fn counts(&self) -> Option<TranslationCounts> {
        self.translator.as_ref().map(Translator::counts)
    }

    /// How long the chip below the translation layer is at work for a request.
    fn chip_ns(&mut self, op: BlockOp, range: &std::ops::Range<usize>) -> u64 {
        let Some(layer) = self.device.translation else { return 0 };
        let (from, bytes) = (range.start as u64, range.len() as u64);
        let Some(translator) = &mut self.translator else { return layer.least_ns(op, bytes) };
        let before = translator.counts();
        translator.take(op, from, bytes);
        layer.ns(&translator.counts().since(&before).chip)
    }

    /// Records changes from here on.
    pub fn record(&mut self) {
        self.changes = Some(Vec::new());
        self.answers.values_mut().for_each(|answer| answer.recorded = None);
    }

    /// How many changes were recorded so far.
    pub fn recorded(&self) -> u64 {
        self.changes.as_ref().map_or(0, |changes| changes.len() as u64)
    }

    /// Records no more changes; those that were.
    pub fn stop_recording(&mut self) -> Vec<BlockChange> {
        self.answers.values_mut().for_each(|answer| answer.recorded = None);
        self.changes.take().unwrap_or_default()
    }

    /// What the device holds.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it is not whole pages.
    pub fn image(&self) -> Result<BlockImage> {
        let mut image = BlockImage::new(self.content.len() as u64);
        for (page, _) in self.written.iter().enumerate().filter(|(_, written)| **written) {
            let start = page * PAGE_BYTES;
            image.write(start as u64, &self.content[start..self.content.len().min(start + PAGE_BYTES)])?;
        }
        Ok(image)
    }

    /// Notes a request where changes are recorded; its place among them.
    fn note(&mut self, header: &Header, range: &std::ops::Range<usize>, begin_ns: u64) -> Option<usize> {
        let changes = self.changes.as_mut().filter(|_| header.op != BlockOp::Read)?;
        let bytes = if header.op == BlockOp::Write { self.content[range.clone()].to_vec() } else { Vec::new() };
        let length = range.len() as u32;
        changes.push(BlockChange { begin_ns, end_ns: u64::MAX, op: header.op, from: header.from, length, bytes });
        Some(changes.len() - 1)
    }

    /// Serves until the kernel wants no more.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel breaks the protocol, or the socket fails.
    pub fn serve(mut self) -> Result<()> {
        go_first()?;
        loop {
            let now = now_ns();
            let next = self.begun.or_else(|| self.answers.first_key_value().map(|(key, _)| *key));
            if let Some(key) = next {
                if key.0 <= now {
                    self.answer(key)?;
                    continue;
                }
                if self.begun.is_none() && self.begin(key)? {
                    continue;
                }
            }
            let wait = next.map(|(due, _)| timespec(due - now));
            let (stream, listener) = (&self.stream, &self.listener);
            let mut sockets = [PollFd::new(stream, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
            if poll(&mut sockets, wait.as_ref()).board(|| "cannot wait for requests".into())? == 0 {
                continue;
            }
            let [requests, questions] = sockets.map(|socket| !socket.revents().is_empty());
            if requests && !self.take()? {
                return Ok(());
            }
            if questions && !requests {
                let listener = self.listener.try_clone().board(|| "cannot listen".into())?;
                asked::answer(&listener, |question| self.tell(question))?;
            }
        }
    }

    /// What to answer to a question.
    fn tell(&mut self, question: Question) -> Result<Vec<u8>> {
        match question {
            Question::Record => self.record(),
            Question::Translate => self.translate(),
            Question::Recorded => return Ok(self.recorded().to_le_bytes().to_vec()),
            Question::Stop => return Ok(encode_block_changes(&self.stop_recording())),
            Question::Image => return Ok(self.image()?.encode()),
            Question::Counts => return Ok(self.counts().map_or_else(Vec::new, |counts| counts.encode())),
        }
        Ok(Vec::new())
    }

    /// Takes a request on; false: the kernel wants no more.
    fn take(&mut self) -> Result<bool> {
        let failed = || "cannot read a request".to_owned();
        let mut text = [0; 28];
        self.stream.read_exact(&mut text).board(failed)?;
        let now = now_ns();
        let Some(header) = Header::parse(&text)? else { return Ok(false) };
        let range = header.range(self.content.len());
        let mut head = [0; 16];
        head[..4].copy_from_slice(&REPLY_MAGIC.to_be_bytes());
        head[8..].copy_from_slice(&header.handle);
        if range.is_none() {
            head[4..8].copy_from_slice(&INVALID.to_be_bytes());
        }
        let range = range.unwrap_or(0..0);
        match header.op {
            BlockOp::Write if range.is_empty() => {
                let refused = std::io::copy(&mut (&self.stream).take(header.bytes.into()), &mut std::io::sink());
                refused.board(failed)?;
            }
            BlockOp::Write => {
                self.stream.read_exact(&mut self.content[range.clone()]).board(failed)?;
                self.written[range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES)].fill(true);
            }
            BlockOp::Discard => self.discard(range.clone()),
            // Memory that is touched for the first time takes time, which is to pass before the answer is due.
            BlockOp::Read => {
                let touched = self.content[range.clone()].iter().step_by(PAGE_BYTES).fold(0, |sum, byte| sum | byte);
                std::hint::black_box(touched);
            }
            BlockOp::Flush => {}
        }
        let recorded = self.note(&header, &range, now);
        let bytes = u64::from(header.bytes);
        let chip_ns = self.chip_ns(header.op, &range);
        let done = self.schedule.take(&self.device, header.op, bytes, chip_ns, now);
        let due = done.saturating_sub(self.corrections.of(header.op, bytes));
        let content = if header.op == BlockOp::Read { range } else { 0..0 };
        self.taken += 1;
        self.answers.insert((due, self.taken), Answer { head, content, recorded });
        Ok(true)
    }

    /// Makes a part zeros. Those that are there are left alone: most of them take no memory yet.
    fn discard(&mut self, range: std::ops::Range<usize>) {
        for page in range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES) {
            if self.written[page] {
                let (start, end) = (page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
                self.content[start.max(range.start)..end.min(range.end)].fill(0);
                self.written[page] = start < range.start || range.end < end;
            }
        }
    }

    /// Sends what can be sent early of an answer; false: there is nothing of that kind.
    fn begin(&mut self, key: (u64, u64)) -> Result<bool> {
        let Some(answer) = self.answers.get(&key).filter(|answer| answer.content.len() > END_BYTES) else {
            return Ok(false);
        };
        self.begun = Some(key);
        let early = answer.content.start..answer.content.end - END_BYTES;
        send(&mut self.stream, &answer.head, &self.content[early]).map(|()| true)
    }

    fn answer(&mut self, key: (u64, u64)) -> Result<()> {
        let Some(answer) = self.answers.remove(&key) else { return Ok(()) };
        if let Some(change) = answer.recorded.and_then(|at| self.changes.as_mut()?.get_mut(at)) {
            change.end_ns = now_ns();
        }
        let content = &self.content[answer.content];
        match self.begun.take() {
            Some(_) => send(&mut self.stream, &[], &content[content.len() - END_BYTES..]),
            None => send(&mut self.stream, &answer.head, content),
        }
    }
}

/// Sends a head and what follows it, at once: whoever waits for it is woken once.
fn send(stream: &mut UnixStream, head: &[u8], content: &[u8]) -> Result<()> {
    let failed = || "cannot answer a request".to_owned();
    let sent = stream.write_vectored(&[IoSlice::new(head), IoSlice::new(content)]).board(failed)?;
    match sent.checked_sub(head.len()) {
        Some(sent) => stream.write_all(&content[sent..]).board(failed),
        None => Err(Error::board("the kernel takes no answers")),
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// Goes before every other task, as a device does that has a processor of its own, and never waits for memory that
/// would have to be written back to the device first.
fn go_first() -> Result<()> {
    const IO_FLUSHER: libc::c_int = 57;
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter is a valid structure, which the kernel only reads; prctl takes numbers alone.
    let refused = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) != 0 || libc::prctl(IO_FLUSHER, 1, 0, 0, 0) != 0
    };
    match refused {
        true => {
            Err(Error::board("the block device's server has no rights of its own")
                .because(std::io::Error::last_os_error()))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request as proto.md draws it.
    fn request(kind: u8, from: u64, bytes: u32) -> [u8; 28] {
        let mut text = [0; 28];
        text[..4].copy_from_slice(&[0x25, 0x60, 0x95, 0x13]);
        text[7] = kind;
        text[8..16].copy_from_slice(b"a handle");
        text[16..24].copy_from_slice(&from.to_be_bytes());
        text[24..].copy_from_slice(&bytes.to_be_bytes());
        text
    }

    #[test]
    fn requests_are_read_as_the_protocol_has_them() {
        let read = Header::parse(&request(0, 0x1_0000_0200, 4096)).unwrap().unwrap();
        assert_eq!((read.op, read.from, read.bytes, &read.handle), (BlockOp::Read, 0x1_0000_0200, 4096, b"a handle"));
        let ops = [1, 3, 4].map(|kind| Header::parse(&request(kind, 0, 0)).unwrap().unwrap().op);
        assert_eq!(ops, [BlockOp::Write, BlockOp::Flush, BlockOp::Discard]);
        assert_eq!(Header::parse(&request(2, 0, 0)).unwrap(), None);
        assert!(Header::parse(&request(9, 0, 0)).unwrap_err().chain().contains("asks for 9"));
        assert!(Header::parse(&[0; 28]).is_err());
    }

    #[test]
    fn requests_past_the_end_are_of_nothing() {
        let of = |from, bytes| Header::parse(&request(0, from, bytes)).unwrap().unwrap().range(8192);
        assert_eq!((of(4096, 4096), of(4096, 4097), of(u64::MAX, 2)), (Some(4096..8192), None, None));
    }
}
