//! The reads and writes of files that a kernel's event log has: those of a database's process.

use super::{Medium, PAGE_BYTES, Reader, Request, Rules, Setting, Work};
use pocketstone_core::events::{EventKind, EventLog, SystemCall, Window};
use std::collections::{BTreeMap, BTreeSet};

/// What a process did to files of one folder, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedFiles {
    files: BTreeMap<u16, Known>,
    steps: Vec<Step>,
    /// Pages that came into the page cache in a read.
    read_pages: u64,
    /// Pages that the threads brought there outside all calls: by faults on mappings, which a program's own is.
    fault_pages: u64,
}

/// What the log says of a file.
#[derive(Debug, Clone, Default, PartialEq)]
struct Known {
    /// Its size, as far as anything reached.
    bytes: u64,
    /// Pages that came into the page cache meanwhile.
    missed: BTreeSet<u64>,
    /// Pages that were read from the cache and never came into it: they were there before.
    found: BTreeSet<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    file: u16,
    what: What,
    latency_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    /// The file was opened, or closed to be opened again: its window starts anew.
    Open,
    Read(Request),
    Write(Request),
}

impl LoggedFiles {
    /// The calls of `threads` within a window of time on files whose path has `folder` in it.
    pub fn from_log(log: &EventLog, window: Window, threads: &BTreeSet<u32>, folder: &str) -> Self {
        let here: BTreeSet<u16> =
            (0..).zip(&log.files).filter(|(_, name)| name.contains(folder)).map(|(n, _)| n).collect();
        let mut logged = LoggedFiles { files: BTreeMap::new(), steps: Vec::new(), read_pages: 0, fault_pages: 0 };
        let mut open = BTreeMap::new();
        let mut positions: BTreeMap<u16, u64> = BTreeMap::new();
        for event in log.events.iter().filter(|e| window.holds(e.time_ns)) {
            match event.kind {
                EventKind::Enter { call, file: Some(file), offset, bytes } if threads.contains(&event.pid) => {
                    let offset = offset.unwrap_or_else(|| positions.get(&file).copied().unwrap_or_default());
                    open.insert(event.pid, (event.time_ns, call, file, offset, bytes));
                }
                EventKind::Exit { result, .. } => {
                    let Some((start_ns, call, file, offset, asked)) = open.remove(&event.pid) else { continue };
                    let done = u64::try_from(result).unwrap_or_default();
                    if !here.contains(&file) {
                        continue;
                    }
                    let request = Request { offset, bytes: asked.max(done) };
                    let what = match call {
                        // What opens a file often has no name yet, so that its close is all that tells.
                        SystemCall::Open | SystemCall::Close => {
                            positions.remove(&file);
                            What::Open
                        }
                        SystemCall::Read if done > 0 => What::Read(request),
                        SystemCall::Write if done > 0 => What::Write(Request { offset, bytes: done }),
                        _ => continue,
                    };
                    if what != What::Open {
                        positions.insert(file, offset + done);
                        let known = logged.files.entry(file).or_default();
                        known.bytes = known.bytes.max(offset + done);
                    }
                    logged.steps.push(Step { file, what, latency_ns: event.time_ns - start_ns });
                }
                EventKind::CacheMiss { file: Some(file), page, pages } if here.contains(&file) => {
                    match open.get(&event.pid) {
                        Some((_, SystemCall::Read, ..)) => logged.read_pages += u64::from(pages),
                        None if threads.contains(&event.pid) => logged.fault_pages += u64::from(pages),
                        _ => {}
                    }
                    let known = logged.files.entry(file).or_default();
                    known.missed.extend(page..page + u64::from(pages));
                    known.bytes = known.bytes.max((page + u64::from(pages)) * PAGE_BYTES);
                }
                _ => {}
            }
        }
        logged.find_cached();
        logged
    }

    fn find_cached(&mut self) {
        for step in &self.steps {
            let (What::Read(request), Some(known)) = (step.what, self.files.get_mut(&step.file)) else { continue };
            let first = request.offset / PAGE_BYTES;
            let pages = first..first + request.pages(known.bytes);
            known.found.extend(pages.filter(|page| !known.missed.contains(page)));
        }
    }

    /// Number of reads.
    pub fn reads(&self) -> u64 {
        self.steps.iter().filter(|s| matches!(s.what, What::Read(_))).count() as u64
    }

    /// Share of page faults in the pages that came into the page cache by reads and faults.
    pub fn faulted(&self) -> f64 {
        self.fault_pages as f64 / (self.read_pages + self.fault_pages).max(1) as f64
    }

    /// Time in each read, in order.
    pub fn latencies_ns(&self) -> impl Iterator<Item = u64> + '_ {
        self.steps.iter().filter(|s| matches!(s.what, What::Read(_))).map(|s| s.latency_ns)
    }

    /// What each read makes the file system do under rules and a setting. Files are as long as anything in the log
    /// reached: what read-ahead would bring from behind that is not counted.
    pub fn work(&self, medium: Medium, rules: Rules, setting: Setting) -> Vec<Work> {
        let reader = |known: &Known| {
            let mut reader = Reader::cold(rules, setting, known.bytes, medium.fan_out);
            known.found.iter().for_each(|page| reader.preload(*page));
            reader
        };
        let mut readers: BTreeMap<u16, Reader> =
            self.files.iter().map(|(file, known)| (*file, reader(known))).collect();
        let mut work = Vec::new();
        for step in &self.steps {
            let Some(reader) = readers.get_mut(&step.file) else { continue };
            match step.what {
                What::Open => reader.reopen(),
                What::Read(request) => work.push(reader.read(request)),
                What::Write(request) => reader.write(request),
            }
        }
        work
    }
}
