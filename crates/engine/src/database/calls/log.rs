//! Where records go: room made before the run, filled by any thread without a lock.

use crate::clock::now_ns;
use pocketstone_core::events::{Event, EventKind, EventLog, SystemCall};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// No file is known.
pub(super) const NO_FILE: u16 = u16::MAX;
/// Descriptors that names are kept for; a process may have no more than 1024 where nobody raised that.
const DESCRIPTORS: usize = 4096;
/// No position in the file. A file's largest is 2^63 - 1.
const NO_OFFSET: u64 = u64::MAX;

/// A call that has returned.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) call: SystemCall,
    pub(super) file: u16,
    pub(super) offset: Option<u64>,
    /// Bytes asked for.
    pub(super) bytes: u64,
    /// What it returned: an error number below 0.
    pub(super) result: i64,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
}

/// A record's place. Atomics, so that reading one that is being written is no harm; stores cost nothing more.
#[derive(Default)]
struct Slot {
    start_ns: AtomicU64,
    end_ns: AtomicU64,
    offset: AtomicU64,
    bytes: AtomicU64,
    result: AtomicU64,
    /// Thread, file, call, and in the lowest bit whether all is written.
    rest: AtomicU64,
}

impl Slot {
    fn put(&self, record: &Record, thread: u32) {
        self.start_ns.store(record.start_ns, Ordering::Relaxed);
        self.end_ns.store(record.end_ns, Ordering::Relaxed);
        self.offset.store(record.offset.unwrap_or(NO_OFFSET), Ordering::Relaxed);
        self.bytes.store(record.bytes, Ordering::Relaxed);
        self.result.store(record.result as u64, Ordering::Relaxed);
        let rest = u64::from(thread) << 32 | u64::from(record.file) << 16 | (record.call as u64) << 8 | 1;
        self.rest.store(rest, Ordering::Release);
    }

    fn get(&self) -> Option<(Record, u32)> {
        let rest = self.rest.load(Ordering::Acquire);
        let call = SystemCall::ALL.get((rest >> 8 & 0xff) as usize).filter(|_| rest & 1 == 1)?;
        let offset = self.offset.load(Ordering::Relaxed);
        let record = Record {
            call: *call,
            file: (rest >> 16) as u16,
            offset: (offset != NO_OFFSET).then_some(offset),
            bytes: self.bytes.load(Ordering::Relaxed),
            result: self.result.load(Ordering::Relaxed) as i64,
            start_ns: self.start_ns.load(Ordering::Relaxed),
            end_ns: self.end_ns.load(Ordering::Relaxed),
        };
        Some((record, (rest >> 32) as u32))
    }
}

/// Names of files and their numbers.
#[derive(Default)]
struct Files {
    names: Vec<String>,
    numbers: HashMap<Vec<u8>, u16>,
}

/// The records of a process.
pub(super) struct Log {
    on: AtomicBool,
    next: AtomicUsize,
    slots: Box<[Slot]>,
    /// What had no room in the slots.
    more: Mutex<Vec<(Record, u32)>>,
    files: Mutex<Files>,
    /// The file behind each descriptor.
    descriptors: Box<[AtomicU16]>,
    threads: Mutex<Vec<(u32, String)>>,
}

thread_local! {
    /// This thread's number, 0 until it is known.
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// A panic elsewhere leaves these tables whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    pub(super) fn new(calls: usize) -> Log {
        Log {
            on: AtomicBool::new(false),
            next: AtomicUsize::new(0),
            // Written here, so that no call pays for a page fault.
            slots: (0..calls).map(|_| Slot::default()).collect(),
            more: Mutex::default(),
            files: Mutex::default(),
            descriptors: (0..DESCRIPTORS).map(|_| AtomicU16::new(NO_FILE)).collect(),
            threads: Mutex::default(),
        }
    }

    pub(super) fn switch(&self, on: bool) {
        self.on.store(on, Ordering::SeqCst);
    }

    /// The time of a call's start, where calls are recorded.
    #[inline]
    pub(super) fn begin(&self) -> Option<u64> {
        self.on.load(Ordering::Relaxed).then(now_ns)
    }

    #[inline]
    pub(super) fn push(&self, record: &Record) {
        let thread = THREAD.get();
        let thread = if thread == 0 { self.meet_thread() } else { thread };
        match self.slots.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            Some(slot) => slot.put(record, thread),
            None => locked(&self.more).push((*record, thread)),
        }
    }

    #[cold]
    fn meet_thread(&self) -> u32 {
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        THREAD.set(thread);
        let name = rustix::thread::name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        locked(&self.threads).push((thread, name));
        thread
    }

    /// The number of a file by its name; [`NO_FILE`] where there are too many.
    pub(super) fn file(&self, name: &[u8]) -> u16 {
        let mut files = locked(&self.files);
        if let Some(number) = files.numbers.get(name) {
            return *number;
        }
        let number = u16::try_from(files.names.len()).unwrap_or(NO_FILE);
        if number != NO_FILE {
            files.names.push(String::from_utf8_lossy(name).into_owned());
            files.numbers.insert(name.to_owned(), number);
        }
        number
    }

    fn descriptor(&self, fd: i32) -> Option<&AtomicU16> {
        self.descriptors.get(usize::try_from(fd).ok()?)
    }

    /// Notes that a descriptor is a file's.
    pub(super) fn opened(&self, fd: i32, file: u16) {
        if let Some(place) = self.descriptor(fd) {
            place.store(file, Ordering::Relaxed);
        }
    }

    /// Forgets a descriptor that is about to be closed: another thread may get the same one at once.
    pub(super) fn closing(&self, fd: i32) -> u16 {
        self.descriptor(fd).map_or(NO_FILE, |place| place.swap(NO_FILE, Ordering::Relaxed))
    }

    /// The file of a descriptor.
    #[inline]
    pub(super) fn of(&self, fd: i32) -> u16 {
        self.descriptor(fd).map_or(NO_FILE, |place| place.load(Ordering::Relaxed))
    }

    /// All records as the events of a log.
    pub(super) fn events(&self) -> EventLog {
        let mut events = Vec::with_capacity(2 * self.next.load(Ordering::Relaxed));
        let more = locked(&self.more);
        let slots = self.slots.iter().take(self.next.load(Ordering::Relaxed));
        for (r, pid) in slots.filter_map(Slot::get).chain(more.iter().copied()) {
            let event = |time_ns, kind| Event { time_ns, cpu: 0, pid, kind };
            let file = (r.file != NO_FILE).then_some(r.file);
            events.push(event(r.start_ns, EventKind::Enter { call: r.call, file, offset: r.offset, bytes: r.bytes }));
            events.push(event(r.end_ns, EventKind::Exit { call: r.call, result: r.result }));
        }
        // Stable: a thread's records are in the order in which its calls returned.
        events.sort_by_key(|e| e.time_ns);
        let mut tasks = locked(&self.threads).clone();
        tasks.sort();
        tasks.dedup_by_key(|(thread, _)| *thread);
        EventLog { tasks, files: locked(&self.files).names.clone(), marks: Vec::new(), events }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(start_ns: u64) -> Record {
        let (file, offset) = (3, Some(start_ns));
        Record { call: SystemCall::Write, file, offset, bytes: 7, result: -5, start_ns, end_ns: start_ns + 1 }
    }

    #[test]
    fn records_come_back_also_those_beyond_the_room_made_for_them() {
        let log = Log::new(10);
        (0..4).for_each(|n| assert_eq!(log.file(&[b'a' + n]), u16::from(n)));
        assert_eq!(log.file(b"c"), 2);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let log = &log;
                scope.spawn(move || (0..5).for_each(|n| log.push(&record(thread * 100 + n * 10))));
            }
        });
        let events = log.events();
        assert_eq!((events.events.len(), events.tasks.len(), events.files.len()), (40, 4, 4));
        for pair in events.events.chunks(2) {
            let start_ns = pair[0].time_ns;
            let enter = EventKind::Enter { call: SystemCall::Write, file: Some(3), offset: Some(start_ns), bytes: 7 };
            assert_eq!(pair[0].kind, enter);
            let exit = EventKind::Exit { call: SystemCall::Write, result: -5 };
            assert_eq!((pair[1].time_ns, pair[1].kind, pair[1].pid), (start_ns + 1, exit, pair[0].pid));
        }
    }

    #[test]
    fn a_descriptor_has_its_file_until_it_is_closed() {
        let log = Log::new(0);
        assert_eq!([log.of(5), log.of(-1), log.of(i32::MAX)], [NO_FILE; 3]);
        log.opened(5, 2);
        log.opened(i32::MAX, 2);
        assert_eq!((log.of(5), log.closing(5), log.of(5)), (2, 2, NO_FILE));
        assert_eq!(log.closing(i32::MAX), NO_FILE);
        (0..70_000u32).for_each(|n| assert!(log.file(&n.to_le_bytes()) >= n.min(65_535) as u16));
        assert_eq!(log.file(b"one more"), NO_FILE);
        assert_eq!(log.events().files.len(), usize::from(NO_FILE));
        assert!(log.begin().is_none());
        log.switch(true);
        assert!(log.begin().is_some());
    }
}
