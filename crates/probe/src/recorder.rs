//! Recording what the kernel does during a run, through tracefs, into an event log.
//!
//! Two tracing instances of our own: one follows the measured process (`set_event_pid`, with `event-fork`
//! for the threads it starts), the other the machine: block requests end, frequencies change and processors
//! idle while other threads, or none, run. Both use CLOCK_MONOTONIC; their text counts in microseconds.

use crate::conditions::Machine;
use crate::ftrace::{self, FileNumber, OpenFile};
use crate::tracefs::{Instance, Probe};
use crate::usage;
use pocketstone_core::error::Context;
use pocketstone_core::events::{Event, EventKind, EventLog};
use pocketstone_core::outcome::{Quantity, Unavailable};
use pocketstone_core::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Buffer per processor and instance that holds at least 400,000 events: the largest takes 80 bytes.
pub const BUFFER_KIB: u64 = 32 * 1024;

/// Kinds of event that belong together: all of the first ones must exist, the others may.
struct Kind {
    what: Quantity,
    of_process: bool,
    must: &'static [&'static str],
    may: &'static [&'static str],
    cure: &'static str,
}

static KINDS: [Kind; 6] = [
    Kind {
        what: Quantity::ContextSwitches,
        of_process: true,
        must: &["sched/sched_switch", "sched/sched_waking", "sched/sched_wakeup_new"],
        may: &[],
        cure: "use a kernel with CONFIG_TRACING",
    },
    Kind {
        what: Quantity::SystemCalls,
        of_process: true,
        must: &["syscalls/sys_enter_read", "syscalls/sys_exit_read", "syscalls/sys_enter_fsync"],
        may: &SYSTEM_CALLS,
        cure: "use a kernel with CONFIG_FTRACE_SYSCALLS",
    },
    Kind {
        what: Quantity::PageCacheMisses,
        of_process: true,
        must: &["filemap/mm_filemap_add_to_page_cache"],
        may: &[],
        cure: "use a kernel with CONFIG_TRACING",
    },
    Kind {
        what: Quantity::BlockRequests,
        of_process: false,
        must: &["block/block_rq_issue", "block/block_rq_complete"],
        may: &[],
        cure: "use a kernel with CONFIG_BLOCK",
    },
    Kind {
        what: Quantity::FrequencyChanges,
        of_process: false,
        must: &["power/cpu_frequency"],
        may: &[],
        cure: "use a kernel with CONFIG_CPU_FREQ",
    },
    Kind {
        what: Quantity::IdleStates,
        of_process: false,
        must: &["power/cpu_idle"],
        may: &[],
        cure: "use a kernel with CONFIG_CPU_IDLE",
    },
];

macro_rules! system_calls {
    ($($name:literal)*) => {
        [$(concat!("syscalls/sys_enter_", $name), concat!("syscalls/sys_exit_", $name)),*]
    };
}

const SYSTEM_CALLS: [&str; 68] = system_calls!(
    "read" "pread64" "readv" "preadv" "preadv2" "write" "pwrite64" "writev" "pwritev" "pwritev2" "sendfile"
    "sendfile64" "copy_file_range" "splice" "fsync" "fdatasync"
    "msync" "sync" "syncfs" "sync_file_range" "sync_file_range2" "open" "openat" "openat2"
    "creat" "close" "unlink" "unlinkat" "ftruncate" "ftruncate64" "fallocate" "fcntl" "fcntl64" "flock"
);

/// Calls that hand over requests which are carried out beside the program: what they read and write is in no call.
const QUEUES: [&str; 2] = ["io_submit", "io_uring_enter"];

/// Calls that make descriptors known by other numbers.
const DUPLICATIONS: [&str; 6] = [
    "syscalls/sys_enter_dup",
    "syscalls/sys_exit_dup",
    "syscalls/sys_enter_dup2",
    "syscalls/sys_exit_dup2",
    "syscalls/sys_enter_dup3",
    "syscalls/sys_exit_dup3",
];

/// Calls that change the folder that names start from.
const FOLDER_CHANGES: [&str; 4] =
    ["syscalls/sys_enter_chdir", "syscalls/sys_exit_chdir", "syscalls/sys_enter_fchdir", "syscalls/sys_exit_fchdir"];

/// Where the second argument of a kernel function is, and so the name that do_sys_openat2 and do_filp_open get.
const OPEN_NAME_REGISTER: Option<&str> = if cfg!(target_arch = "arm") {
    Some("%r1")
} else if cfg!(target_arch = "aarch64") {
    Some("%x1")
} else if cfg!(target_arch = "x86_64") {
    Some("%si")
} else {
    None
};

/// What a recorder follows of a process.
#[derive(Debug, Clone, Copy)]
pub struct Follow {
    /// Its system calls; without them, those are left to a process that records its own: each costs two events.
    pub system_calls: bool,
    /// Also the processes that it starts, and those that these start, as if they were it.
    pub children: bool,
}

/// A recording that is made.
pub struct Recorder {
    pid: u32,
    folders: Vec<PathBuf>,
    process: Instance,
    machine: Instance,
    open: Vec<OpenFile>,
    numbers: BTreeMap<(u32, u64), String>,
    frequencies_khz: Vec<(u16, u32)>,
    /// Whether processes that the measured one starts count as it does.
    children: bool,
    /// Threads of the process when the recording was stopped.
    threads: Vec<u32>,
    unavailable: Vec<Unavailable>,
}

/// The kinds of event that a recorder follows, as [`Unavailable::what`] has them.
pub fn kinds(system_calls: bool) -> impl Iterator<Item = Quantity> {
    wanted(system_calls).map(|kind| kind.what.clone())
}

fn wanted(system_calls: bool) -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(move |kind| system_calls || kind.what != Quantity::SystemCalls)
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// The events.
    pub log: EventLog,
    /// Threads of the measured process and, with its children, of theirs.
    pub threads: BTreeSet<u32>,
    /// Lines of the kernel's text that are no event of the log, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// Kinds of event that this machine does not have.
    pub unavailable: Vec<Unavailable>,
}

impl Recorder {
    /// Prepares to record process `pid`, with a buffer of `buffer_kib` per processor; [`BUFFER_KIB`] does for
    /// most runs. `folders` are those whose files the run uses: their page-cache misses get names.
    ///
    /// # Errors
    /// `ErrorKind::Board` if there is no process `pid`, tracefs is not mounted or not accessible, or nothing can be
    /// recorded.
    pub fn new(pid: u32, folders: &[&Path], buffer_kib: u64, follow: Follow) -> Result<Recorder> {
        let Follow { system_calls, children } = follow;
        let threads = threads_of(pid)?;
        let process = Instance::new("process", buffer_kib)?;
        let machine = Instance::new("machine", buffer_kib)?;
        process.set("options/event-fork", "1")?;
        process.set("options/record-tgid", "1")?;
        let list = threads.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        process.set("set_event_pid", &list)?;
        let mut recorder = Recorder {
            pid,
            folders: folders.iter().map(|f| f.to_path_buf()).collect(),
            process,
            machine,
            open: Vec::new(),
            numbers: BTreeMap::new(),
            frequencies_khz: Vec::new(),
            children,
            threads: Vec::new(),
            unavailable: Vec::new(),
        };
        for kind in wanted(system_calls) {
            recorder.enable(kind)?;
        }
        if recorder.unavailable.len() == wanted(system_calls).count() {
            return Err(Error::board("this kernel has no event that can be recorded")
                .hint("use a kernel with CONFIG_TRACING and CONFIG_FTRACE_SYSCALLS"));
        }
        if system_calls {
            recorder.look_for_queues()?;
        }
        if system_calls && recorder.unavailable.iter().all(|u| u.what != Quantity::SystemCalls) {
            recorder.name_opened_files();
        }
        if children {
            recorder.process.enable(&format!("sched/{}", ftrace::START))?;
            // A shell's redirections, and where it goes.
            for event in DUPLICATIONS.iter().chain(&FOLDER_CHANGES).filter(|event| recorder.process.has(event)) {
                recorder.process.enable(event)?;
            }
        }
        Ok(recorder)
    }

    fn enable(&mut self, kind: &Kind) -> Result<()> {
        let instance = if kind.of_process { &self.process } else { &self.machine };
        if let Some(event) = kind.must.iter().find(|e| !instance.has(e)) {
            let why = format!("this kernel has no event {event}");
            self.unavailable.push(Unavailable { what: kind.what.clone(), why, cure: kind.cure.into() });
            return Ok(());
        }
        for event in kind.must.iter().chain(kind.may).filter(|e| instance.has(e)) {
            instance.enable(event)?;
        }
        Ok(())
    }

    /// Has calls be recorded that make the others no account of what is read and written.
    fn look_for_queues(&self) -> Result<()> {
        let events = QUEUES.map(|call| format!("syscalls/sys_enter_{call}"));
        events.iter().filter(|event| self.process.has(event)).try_for_each(|event| self.process.enable(event))
    }

    fn name_opened_files(&mut self) {
        let Some(register) = OPEN_NAME_REGISTER else { return };
        let definition = match self.children {
            // The name is in the kernel by then: in a program that has just begun, its page may not be there yet.
            true => format!("do_filp_open file=+0(+0({register})):string"),
            false => format!("do_sys_openat2 file=+0({register}):ustring"),
        };
        if let Err(error) = self.process.add(&Probe { name: ftrace::OPEN_NAME, definition }) {
            self.unavailable.push(Unavailable {
                what: Quantity::OpenedFileNames,
                why: error.chain(),
                cure: "use a kernel with CONFIG_KPROBE_EVENTS, or Linux 6.19 or newer".into(),
            });
        }
    }

    /// Starts recording.
    ///
    /// # Errors
    /// `ErrorKind::Board` if tracefs refuses.
    pub fn start(&mut self) -> Result<()> {
        self.look_at_files(true);
        self.frequencies_khz = Machine::default().frequencies_khz();
        if self.frequencies_khz.is_empty() {
            self.unavailable.push(Unavailable {
                what: Quantity::Frequencies,
                why: "this machine has no cpufreq: /sys/devices/system/cpu/cpu0/cpufreq is missing".into(),
                cure: String::new(),
            });
        }
        self.machine.start()?;
        self.process.start()
    }

    /// Stops recording. The process must still be there: its files and threads are asked for.
    ///
    /// # Errors
    /// `ErrorKind::Board` if tracefs refuses.
    pub fn stop(&mut self) -> Result<()> {
        self.process.stop()?;
        self.machine.stop()?;
        self.look_at_files(false);
        self.threads = threads_of(self.pid).unwrap_or_default();
        Ok(())
    }

    /// Reads what was recorded, after [`Recorder::stop`]: that takes a while, and memory.
    ///
    /// # Errors
    /// `ErrorKind::Board` if events were lost, or the kernel's text cannot be read or understood.
    pub fn read(mut self) -> Result<Recording> {
        let lost = self.process.lost()? + self.machine.lost()?;
        if lost > 0 {
            return Err(Error::board(format!("the kernel lost {lost} events, so every count would be wrong"))
                .hint("record with a larger buffer, or a shorter run"));
        }
        let number = |((device, inode), name): (&(u32, u64), &String)| FileNumber {
            device: *device,
            inode: *inode,
            name: name.clone(),
        };
        let context = ftrace::Context {
            open: std::mem::take(&mut self.open),
            numbers: self.numbers.iter().map(number).collect(),
            process: Some(self.pid),
            narrow: self.process.word_bytes()? == 4,
            folder: self.folders.first().filter(|_| self.children).map(|folder| folder.to_string_lossy().into_owned()),
        };
        // The reader sorts by time: one text behind the other is as good as one.
        let mut text = self.process.bytes()?;
        text.extend(self.machine.bytes()?);
        let reading = ftrace::read(text.as_slice(), &context)?;
        let mut log = reading.log;
        let first_ns = log.events.first().map(|e| e.time_ns);
        if let Some(time_ns) = first_ns {
            let event = |(cpu, khz): &(u16, u32)| Event {
                time_ns,
                cpu: *cpu,
                pid: 0,
                kind: EventKind::Frequency { cpu: *cpu, khz: *khz },
            };
            log.events.splice(0..0, self.frequencies_khz.iter().map(event));
        }
        let of_process = reading.processes.iter().filter(|(_, p)| **p == self.pid).map(|(t, _)| *t);
        let mut threads: BTreeSet<u32> = of_process.chain(self.threads.iter().copied()).chain([self.pid]).collect();
        if self.children {
            // In the order of their starts: whoever starts one has been started before.
            for (parent, child) in &reading.started {
                if threads.contains(parent) {
                    threads.insert(*child);
                }
            }
        }
        let mut unavailable = std::mem::take(&mut self.unavailable);
        unavailable.extend(queued(&reading.left_out));
        Ok(Recording { log, threads, left_out: reading.left_out, unavailable })
    }

    /// Notes which file each descriptor is, and each file's number.
    fn look_at_files(&mut self, at_start: bool) {
        let descriptors = PathBuf::from(format!("/proc/{}/fd", self.pid));
        for entry in fs::read_dir(descriptors).into_iter().flatten().flatten() {
            let fd = entry.file_name().to_str().and_then(|n| n.parse().ok());
            let (Some(fd), Ok(name)) = (fd, fs::read_link(entry.path())) else { continue };
            let name = name.to_string_lossy().into_owned();
            self.number(&entry.path(), &name);
            if at_start {
                self.open.push(OpenFile { process: self.pid, fd, name });
            }
        }
        self.folders.clone().iter().for_each(|folder| self.number_all(folder));
    }

    /// The files of a folder and of those in it.
    fn number_all(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => self.number_all(&entry.path()),
                false => self.number(&entry.path(), &entry.path().to_string_lossy()),
            }
        }
    }

    fn number(&mut self, path: &Path, name: &str) {
        if let Ok(metadata) = fs::metadata(path) {
            if metadata.is_file() {
                let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
                self.numbers.insert((major << 20 | minor, metadata.ino()), name.to_owned());
            }
        }
    }
}

/// What cannot be said of a program that has used queues of requests.
fn queued(left_out: &BTreeMap<String, u64>) -> Option<Unavailable> {
    let used = QUEUES.iter().find(|call| left_out.contains_key(&ftrace::not_used(call)))?;
    Some(Unavailable {
        what: Quantity::SystemCalls,
        why: format!("the program hands over requests by {used}; what they read and write is not in its calls"),
        cure: "have it use read and write: of fio, ioengine=psync".into(),
    })
}

fn threads_of(pid: u32) -> Result<Vec<u32>> {
    usage::threads(pid).board(|| format!("no process {pid} to record"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_a_program_with_queues_of_requests_are_no_account_of_it() {
        let line = |call: &str| format!("fio-7 [000] .... 1.0: sys_{call}\n");
        let of = |text: String| queued(&ftrace::read(text.as_bytes(), &ftrace::Context::default()).unwrap().left_out);
        let submits = "io_submit(ctx_id: 7f00, nr: 1, iocbpp: 7ffe)";
        let missing = of(line("fsync(fd: 3)") + &line(submits)).unwrap();
        assert_eq!(missing.what, Quantity::SystemCalls);
        assert!(missing.why.contains("io_submit") && !missing.cure.is_empty());
        assert!(of(line("io_uring_enter(fd: 4, to_submit: 1)")).is_some());
        assert_eq!(of(line("fsync(fd: 3)") + &line("newfstatat(dfd: 3)")), None);
    }
}
