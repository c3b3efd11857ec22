//! Kernel events of a run, from any recorder. [`crate::events_log`] has their binary format.

use crate::run_marks::{MOST_RUNS, RunMarks};
use crate::{Error, Result};

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When, on the run's clock.
    pub time_ns: u64,
    /// Processor.
    pub cpu: u16,
    /// Thread that was running.
    pub pid: u32,
    /// What happened.
    pub kind: EventKind,
}

/// A span of time on a log's clock, end excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its start.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
}

impl Window {
    /// Whether a moment is within it.
    pub fn holds(&self, time_ns: u64) -> bool {
        (self.start_ns..self.end_ns).contains(&time_ns)
    }
}

/// Kinds of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A processor went from one thread to another.
    Switch {
        /// The thread that left.
        prev: u32,
        /// Its state, as the kernel writes it: `R` still wants to run, `S` sleeps, `D` waits for a device.
        state: u8,
        /// The thread that came; 0 is the idle thread.
        next: u32,
    },
    /// A thread was made ready to run.
    Wake {
        /// Which.
        pid: u32,
    },
    /// A processor's frequency changed.
    Frequency {
        /// Which processor.
        cpu: u16,
        /// To what, in kHz.
        khz: u32,
    },
    /// A processor entered an idle state, or left it (`None`).
    Idle {
        /// Which processor.
        cpu: u16,
        /// The state.
        state: Option<u32>,
    },
    /// A system call on a file began.
    Enter {
        /// Which one.
        call: SystemCall,
        /// The file: index into [`EventLog::files`], `None` where it is not known.
        file: Option<u16>,
        /// Position in the file, where the call says it.
        offset: Option<u64>,
        /// Bytes asked for; 0 where the call does not say it (readv, writev: their vectors are not traced).
        bytes: u64,
    },
    /// It returned.
    Exit {
        /// Which one.
        call: SystemCall,
        /// What it returned.
        result: i64,
    },
    /// A page came into the page cache.
    CacheMiss {
        /// The file, where it is known.
        file: Option<u16>,
        /// Page number within it, in pages of 4096 bytes.
        page: u64,
        /// Number of pages.
        pages: u32,
    },
    /// A request was given to a block device or queued for it.
    BlockIssue {
        /// Device number, major << 20 | minor.
        device: u32,
        /// Whether it writes.
        write: bool,
        /// First sector of 512 bytes.
        sector: u64,
        /// Number of sectors.
        sectors: u32,
    },
    /// A block device has done a request.
    BlockComplete {
        /// Device number, major << 20 | minor.
        device: u32,
        /// Whether it wrote.
        write: bool,
        /// First sector of 512 bytes.
        sector: u64,
        /// Number of sectors.
        sectors: u32,
    },
    /// A mark that a program wrote into the trace: index into [`EventLog::marks`].
    Mark {
        /// Which.
        text: u32,
    },
}

/// System calls that a trace follows; variants of one call (pread64, preadv) are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SystemCall {
    /// read, pread64, readv, preadv.
    Read = 0,
    /// write, pwrite64, writev, pwritev.
    Write = 1,
    /// fsync, fdatasync, msync, sync, syncfs, sync_file_range.
    Sync = 2,
    /// open, openat.
    Open = 3,
    /// close.
    Close = 4,
    /// unlink, unlinkat.
    Delete = 5,
    /// ftruncate, fallocate.
    Truncate = 6,
    /// fcntl with a lock, flock.
    Lock = 7,
}

impl SystemCall {
    /// Every call, by its number in the log.
    pub const ALL: [SystemCall; 8] = [
        SystemCall::Read,
        SystemCall::Write,
        SystemCall::Sync,
        SystemCall::Open,
        SystemCall::Close,
        SystemCall::Delete,
        SystemCall::Truncate,
        SystemCall::Lock,
    ];

    /// The name used in results.
    pub fn name(self) -> &'static str {
        match self {
            SystemCall::Read => "read",
            SystemCall::Write => "write",
            SystemCall::Sync => "sync",
            SystemCall::Open => "open",
            SystemCall::Close => "close",
            SystemCall::Delete => "delete",
            SystemCall::Truncate => "truncate",
            SystemCall::Lock => "lock",
        }
    }
}

/// The events of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventLog {
    /// Name of each thread seen, by thread number, ascending.
    pub tasks: Vec<(u32, String)>,
    /// Files seen.
    pub files: Vec<String>,
    /// Texts of marks.
    pub marks: Vec<String>,
    /// The events in order of time.
    pub events: Vec<Event>,
}

impl EventLog {
    /// The name of a thread, where one was seen.
    pub fn task(&self, pid: u32) -> Option<&str> {
        let at = self.tasks.binary_search_by_key(&pid, |(p, _)| *p).ok()?;
        Some(&self.tasks[at].1)
    }

    /// The longest run between marks `NAME_START` and `NAME_END`, which PocketData's app writes into a phone's trace
    /// (`SQL_START` and `SQL_END`), and the thread that wrote the first.
    ///
    /// # Errors
    /// `ErrorKind::User` if no run has both marks in their order, or there are too many.
    pub fn phone_run(&self) -> Result<(u32, Window)> {
        let mut runs = RunMarks::default();
        for event in &self.events {
            let EventKind::Mark { text } = event.kind else { continue };
            let Some(text) = self.marks.get(text as usize) else { continue };
            let end = |(app, start_ns)| {
                (start_ns <= event.time_ns).then_some((app, Window { start_ns, end_ns: event.time_ns }))
            };
            runs.mark(text, |_| (event.pid, event.time_ns), end);
        }
        if runs.beyond() > 0 {
            return Err(too_many_runs(runs.beyond()));
        }
        let (runs, left) = runs.end();
        let longest = runs.into_iter().rev().max_by_key(|(_, w)| w.end_ns - w.start_ns);
        longest.ok_or_else(|| no_run(left.as_deref()))
    }
}

/// The error of a trace with more runs than [`MOST_RUNS`], by so many.
pub fn too_many_runs(beyond: u64) -> Error {
    Error::user(format!("the trace has {} runs; at most {MOST_RUNS} are told of", beyond + MOST_RUNS as u64))
        .hint("cut it into parts, each with fewer NAME_START and NAME_END")
}

/// The error of a trace without a run; `begun` is the name of one that does not end in it.
pub fn no_run(begun: Option<&str>) -> Error {
    let hint =
        "PocketData's app writes the marks SQL_START and SQL_END to its trace; any NAME_START and NAME_END will do";
    match begun {
        Some(name) => Error::user(format!("the trace has a mark {name}_START and no {name}_END after it"))
            .hint("the log ends before the run; record it again with a larger buffer"),
        None => Error::user("the trace has no marks of a run, such as SQL_START and SQL_END").hint(hint),
    }
}
