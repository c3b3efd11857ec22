//! ftrace text, the form of tracefs' file `trace`, as an event log.
//!
//! Every line becomes an event or is counted by a reason with a name; one that is neither is an error with
//! its number. docs/tracing.md lists the events that are read.

mod files;
mod line;
mod phone;
mod reading;
mod system_calls;
mod threads;

pub(crate) use files::Files;
pub use files::{FileNumber, OpenFile};
pub use reading::{Clocks, Form, Reading, Sink, Twin};
pub(crate) use reading::{block_request, collect};
pub(crate) use threads::Threads;

use line::Line;
use pocketstone_core::error::Context as _;
use pocketstone_core::events::{Event, EventKind, SystemCall};
use pocketstone_core::{Error, Result};
use std::io::{BufRead, Read};
use system_calls::Folder;
use threads::Call;

/// The reason by which starts of a system call are counted that no log follows.
pub(crate) fn not_used(call: &str) -> String {
    format!("event not used: sys_{call}")
}

/// The event that names the file which a thread is opening, defined by the recorder where it can.
pub(crate) const OPEN_NAME: &str = "pocketstone_open";

/// The event of a thread or a process that starts another one.
pub(crate) const START: &str = "sched_process_fork";

/// What a text does not say by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    /// Descriptors open when recording began.
    pub open: Vec<OpenFile>,
    /// Files that may come into the page cache.
    pub numbers: Vec<FileNumber>,
    /// The process that threads belong to whose line does not name one; without it, each thread is one.
    pub process: Option<u32>,
    /// Whether the kernel that wrote the text is a 32-bit one, which shows no 64-bit positions.
    pub narrow: bool,
    /// Where the process was when it began: names that do not begin with `/` are taken for those of files there.
    pub folder: Option<String>,
}

/// The longest line that is read, in bytes: the kernel's have at most a page of 4096.
const LONGEST_LINE_BYTES: u64 = 1 << 16;

/// Reads a text into a log; bytes that are no UTF-8, which task names may hold, are replaced.
///
/// # Errors
/// `ErrorKind::User` and `ErrorKind::Board`, as [`read_from`].
pub fn read(text: impl BufRead, context: &Context) -> Result<Reading> {
    collect(|sink| read_from(text, context, sink))
}

/// Reads a text of any length, whose events go to `sink`: what comes back holds none, and no marks.
///
/// # Errors
/// `ErrorKind::User` if it cannot be read; `ErrorKind::Board` if a line is not understood, or the text says that the
/// kernel lost events. A last line that is not whole is none: the log was cut off there.
pub fn read_from(mut input: impl BufRead, context: &Context, sink: &mut dyn Sink) -> Result<Reading> {
    let mut reader = Reader::new(context, sink);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.by_ref().take(LONGEST_LINE_BYTES).read_until(b'\n', &mut line);
        let failed = || format!("cannot read the trace after line {}", reader.reading.lines);
        if read.user(failed).map_err(|e| e.hint("it may be cut off or damaged; copy it again"))? == 0 {
            return Ok(reader.end());
        }
        reader.reading.lines += 1;
        let whole = line.ends_with(b"\n");
        line.truncate(line.len() - usize::from(whole));
        if !whole && line.len() as u64 == LONGEST_LINE_BYTES {
            return Err(reader.unknown("is not an event", &String::from_utf8_lossy(&line)));
        }
        // Logs that came through a terminal have both ends.
        line.truncate(line.len() - usize::from(line.ends_with(b"\r")));
        let text = String::from_utf8_lossy(&line);
        match reader.line(&text) {
            Err(_) if !whole && reader.reading.lines > 1 && !says_lost(&text) => reader.leave_out("cut off")?,
            done => done?,
        }
    }
}

/// Whether a line says that the kernel lost events.
fn says_lost(text: &str) -> bool {
    text.starts_with("CPU:") && text.contains(" [LOST ")
}

struct Reader<'a> {
    context: &'a Context,
    sink: &'a mut dyn Sink,
    reading: Reading,
    threads: Threads,
    files: Files,
    /// Whether the last event's line was a mark, whose text may hold line ends.
    after_mark: bool,
}

impl<'a> Reader<'a> {
    fn new(context: &'a Context, sink: &'a mut dyn Sink) -> Self {
        Reader {
            context,
            sink,
            reading: Reading::default(),
            threads: Threads::default(),
            files: Files::new(&context.open, &context.numbers, context.folder.as_deref()),
            after_mark: false,
        }
    }

    fn line(&mut self, text: &str) -> Result<()> {
        if text.starts_with('#') {
            return self.leave_out("comment");
        }
        if text.trim().is_empty() {
            return self.leave_out("blank line");
        }
        if says_lost(text) {
            let why = format!("the kernel lost events (line {}: {})", self.reading.lines, short(text));
            return Err(Error::board(why).hint("record a shorter run, or with a larger buffer"));
        }
        let Some(line) = Line::of(text) else {
            return match self.after_mark {
                true => self.leave_out("continuation of a mark"),
                false => Err(self.unknown("is not an event", text)),
            };
        };
        self.after_mark = false;
        if let Some(process) = line.process {
            self.threads.is_of(line.pid, process);
        }
        self.threads.named(line.pid, line.comm);
        match self.event(&line) {
            Ok(None) => {
                self.reading.used += 1;
                Ok(())
            }
            Ok(Some(reason)) => self.leave_out(&reason),
            Err(()) => Err(self.unknown("has an event of an unknown format", text)),
        }
    }

    fn unknown(&self, what: &str, text: &str) -> Error {
        Error::board(format!("line {} of the kernel's trace {what}: {}", self.reading.lines, short(text)))
            .hint("it must be the complete, unmodified text of tracefs' file `trace`")
    }

    fn leave_out(&mut self, reason: &str) -> Result<()> {
        self.reading.leave_out(reason);
        Ok(())
    }

    fn put(&mut self, line: &Line<'_>, time_ns: u64, kind: EventKind, twin: Twin) {
        self.reading.has_second(twin);
        self.sink.event(Event { time_ns, cpu: line.cpu, pid: line.pid, kind }, twin);
    }

    /// Takes an event; `Ok(Some(reason))` where it is not used.
    fn event(&mut self, line: &Line<'_>) -> Result<Option<String>, ()> {
        let what = line.what;
        if let Some(call) = what.strip_prefix("sys_") {
            if let Some((name, arguments)) = call.split_once('(').filter(|(n, _)| is_word(n)) {
                return self.enter(line, name, arguments.strip_suffix(')').ok_or(())?);
            }
            if let Some((name, result)) = call.split_once(" -> ").filter(|(n, _)| is_word(n)) {
                return self.exit(line, name, result);
            }
        }
        let (name, body) = what.split_once(':').ok_or(())?;
        if name.is_empty() || name.contains(' ') {
            return Err(());
        }
        let body = body.strip_prefix(' ').unwrap_or(body);
        let mut twin = Twin::None;
        let kind = match name {
            "sched_switch" => self.switch(body).ok_or(())?,
            "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => {
                match name {
                    "sched_waking" => self.reading.has_first(Twin::Wakeup),
                    "sched_wakeup" => twin = Twin::Wakeup,
                    _ => {}
                }
                let (left, right) = body.strip_prefix("comm=").and_then(|b| b.rsplit_once(" pid=")).ok_or(())?;
                let pid = first_number(right).ok_or(())?;
                self.threads.named(pid, left);
                EventKind::Wake { pid }
            }
            "cpu_frequency" => {
                let (khz, cpu) = state_of_cpu(body).ok_or(())?;
                EventKind::Frequency { cpu, khz }
            }
            "cpu_idle" => {
                let (state, cpu) = state_of_cpu(body).ok_or(())?;
                EventKind::Idle { cpu, state: Some(state).filter(|s| *s != u32::MAX) }
            }
            "block_rq_issue" | "block_rq_insert" | "block_rq_complete" => {
                let Some(request) = Request::of(body).ok_or(())? else {
                    return Ok(Some(format!("event not used: {name} of a discard")));
                };
                match name {
                    "block_rq_issue" => self.reading.has_first(Twin::Insert),
                    "block_rq_insert" => twin = Twin::Insert,
                    _ => {}
                }
                let Request { device, write, sector, sectors } = request;
                match name {
                    "block_rq_complete" => EventKind::BlockComplete { device, write, sector, sectors },
                    _ => EventKind::BlockIssue { device, write, sector, sectors },
                }
            }
            "mm_filemap_add_to_page_cache" => self.cache_miss(body).ok_or(())?,
            "tracing_mark_write" | "print" => {
                self.after_mark = true;
                // `print` has the address of its caller in front.
                let text = match name {
                    "print" => body.split_once(": ").map_or(body, |(_, text)| text),
                    _ => body,
                };
                let kind = EventKind::Mark { text: 0 };
                self.sink.mark(Event { time_ns: line.time_ns, cpu: line.cpu, pid: line.pid, kind }, text);
                return Ok(None);
            }
            OPEN_NAME => {
                if body.ends_with("file=(fault)") {
                    return Ok(Some(format!("unknown name of an opened file: {OPEN_NAME}")));
                }
                let name = body.split_once("file=\"").and_then(|(_, n)| n.strip_suffix('"')).ok_or(())?;
                self.threads.opens(line.pid, name);
                return Ok(Some(format!("name of an opened file: {OPEN_NAME}")));
            }
            START => {
                let child = body.rsplit_once(" child_pid=").and_then(|(_, pid)| first_number(pid)).ok_or(())?;
                // It has its parent's descriptors, unless it is a thread, whose lines name its process.
                self.files.inherit(self.process(line), child);
                return Ok(Some(match self.threads.starts(line.pid, child) {
                    true => format!("start of a thread or process: {START}"),
                    false => format!("too many starts of threads and processes: {START}"),
                }));
            }
            _ if phone::is_one(name) => return Ok(self.finished(line, name, body)),
            _ => return Ok(Some(format!("event not used: {name}"))),
        };
        self.put(line, line.time_ns, kind, twin);
        Ok(None)
    }

    /// `prev_comm=X prev_pid=N prev_prio=N prev_state=S ==> next_comm=Y next_pid=N next_prio=N`
    fn switch(&mut self, body: &str) -> Option<EventKind> {
        let (left, right) = body.strip_prefix("prev_comm=")?.rsplit_once(" ==> next_comm=")?;
        let (prev_name, prev) = left.rsplit_once(" prev_pid=")?;
        let (next_name, next) = right.rsplit_once(" next_pid=")?;
        let state = *prev.split_once(" prev_state=")?.1.as_bytes().first()?;
        let (prev, next) = (first_number(prev)?, first_number(next)?);
        self.threads.named(prev, prev_name);
        self.threads.named(next, next_name);
        Some(EventKind::Switch { prev, state, next })
    }

    /// `dev 254:0 ino f2305 pfn=0x4b8fc6 ofs=4096 order=0`; old kernels have no order.
    fn cache_miss(&self, body: &str) -> Option<EventKind> {
        let (device, rest) = body.strip_prefix("dev ")?.split_once(" ino ")?;
        let device = device_number(device, ':')?;
        let inode = u64::from_str_radix(rest.split(' ').next()?, 16).ok()?;
        let value = |name| rest.split(' ').find_map(|w| w.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok());
        let order = value("order").unwrap_or(0);
        let pages = 1u32.checked_shl(u32::try_from(order).ok()?)?;
        Some(EventKind::CacheMiss { file: self.files.numbered(device, inode), page: value("ofs")? / 4096, pages })
    }

    fn process(&self, line: &Line<'_>) -> u32 {
        line.process
            .or_else(|| self.threads.processes.get(&line.pid).copied())
            .or(self.context.process)
            .unwrap_or(line.pid)
    }

    fn enter(&mut self, line: &Line<'_>, name: &str, arguments: &str) -> Result<Option<String>, ()> {
        let Some(called) = system_calls::enter(name, arguments, self.context.narrow)? else {
            self.threads.ends(line.pid);
            if let Some(fd) = system_calls::duplicates(name, arguments) {
                self.threads.duplicates(line.pid, fd);
            }
            if let Some(folder) = system_calls::moves(name, arguments) {
                let process = self.process(line);
                let folder = match folder {
                    Folder::Named(name) => name.and_then(|name| self.files.named_by(process, None, name)),
                    Folder::Open(fd) => self.files.of(process, fd),
                };
                self.threads.moves(line.pid, folder);
            }
            return Ok(Some(not_used(name)));
        };
        let file = match (called.fd, called.name) {
            (Some(fd), _) => self.files.of(self.process(line), fd),
            (None, Some(name)) => self.files.named_by(self.process(line), called.folder, name),
            (None, None) => None,
        };
        let kind = EventKind::Enter { call: called.call, file, offset: called.offset, bytes: called.bytes };
        self.put(line, line.time_ns, kind, Twin::None);
        let name = called.name.map(str::to_owned);
        self.threads.begins(
            line.pid,
            Call { call: called.call, fd: called.fd, name, copies_to: called.copies_to, folder: called.folder },
        );
        Ok(None)
    }

    fn exit(&mut self, line: &Line<'_>, name: &str, result: &str) -> Result<Option<String>, ()> {
        let result = system_calls::result(result).ok_or(())?;
        // Without its start, nobody knows whether an fcntl was a lock; the start of any other is before the trace.
        let begun = self.threads.ends(line.pid);
        if let Some(fd) = self.threads.duplicated(line.pid).filter(|_| result >= 0) {
            self.files.duplicated(self.process(line), fd, result);
        }
        if let Some(folder) = self.threads.moved(line.pid).filter(|_| result >= 0) {
            self.files.moved(self.process(line), folder);
        }
        let Some((call, begun)) = system_calls::kind(name).and_then(|call| Some((call, begun?))) else {
            return Ok(Some(format!("event not used: sys_{name} returned")));
        };
        if begun.call != call {
            return Err(());
        }
        let process = self.process(line);
        match (call, begun.fd, begun.name) {
            (SystemCall::Open, _, Some(name)) if result >= 0 => {
                let file = self.files.named_by(process, begun.folder, &name);
                self.files.stands_for(process, result, file);
            }
            (SystemCall::Open, _, None) if result >= 0 => self.files.closed(process, result),
            (SystemCall::Close, Some(fd), _) => self.files.closed(process, fd),
            _ => {}
        }
        self.put(line, line.time_ns, EventKind::Exit { call, result }, Twin::None);
        if let (Some(fd), Ok(bytes @ 1..)) = (begun.copies_to, u64::try_from(result)) {
            self.copied(line, self.files.of(process, fd), bytes);
        }
        Ok(None)
    }

    /// The write of a call that read and wrote: what it took is in the read.
    fn copied(&mut self, line: &Line<'_>, file: Option<u16>, bytes: u64) {
        let call = SystemCall::Write;
        self.put(line, line.time_ns, EventKind::Enter { call, file, offset: None, bytes }, Twin::None);
        self.put(line, line.time_ns, EventKind::Exit { call, result: bytes as i64 }, Twin::None);
    }

    fn finished(&mut self, line: &Line<'_>, event: &str, body: &str) -> Option<String> {
        let done = match phone::read(event, body) {
            phone::Said::Call(done) => done,
            phone::Said::Other(action) => return Some(format!("event not used: {event} {action}")),
            phone::Said::Nothing => return Some(format!("event not understood: {event}")),
        };
        let process = done.process.unwrap_or_else(|| self.process(line));
        let file = match (done.fd, &done.path) {
            (Some(fd), _) => self.files.of(process, fd),
            (None, Some(path)) => self.files.named(path),
            (None, None) => None,
        };
        match (done.call, done.fd, &done.path) {
            (SystemCall::Open, _, Some(path)) if done.result >= 0 => self.files.opened(process, done.result, path),
            (SystemCall::Close, Some(fd), _) => self.files.closed(process, fd),
            _ => {}
        }
        let kind = EventKind::Enter { call: done.call, file, offset: done.offset, bytes: done.bytes };
        self.put(line, done.start_ns, kind, Twin::None);
        self.put(line, done.end_ns, EventKind::Exit { call: done.call, result: done.result }, Twin::None);
        None
    }

    fn end(self) -> Reading {
        self.reading.end(self.threads, self.files)
    }
}

/// A request of a block event: `254,0 WS 8192 () 342424064 + 16 be,0,4 [python3]`.
struct Request {
    device: u32,
    write: bool,
    sector: u64,
    sectors: u32,
}

impl Request {
    /// `Some(None)` is a discard.
    fn of(body: &str) -> Option<Option<Request>> {
        let (device, rest) = body.split_once(' ')?;
        let (kind, rest) = rest.split_once(' ')?;
        let (_, place) = rest.split_once('(')?.1.split_once(") ")?;
        let (sector, rest) = place.split_once(" + ")?;
        let sectors = rest.split(' ').next()?.parse().ok()?;
        let (device, sector) = (device_number(device, ',')?, sector.parse().ok()?);
        Some(block_request(kind).map(|write| Request { device, write, sector, sectors }))
    }
}

/// `major:minor` or `major,minor` as major << 20 | minor.
fn device_number(text: &str, separator: char) -> Option<u32> {
    let (major, minor) = text.split_once(separator)?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

/// `state=N cpu_id=N`
fn state_of_cpu(body: &str) -> Option<(u32, u16)> {
    let (state, cpu) = body.strip_prefix("state=")?.split_once(" cpu_id=")?;
    Some((state.parse().ok()?, cpu.trim_end().parse().ok()?))
}

fn first_number(text: &str) -> Option<u32> {
    text.split(' ').next()?.parse().ok()
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn short(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests;
