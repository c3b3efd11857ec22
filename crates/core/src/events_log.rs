//! Binary form of an event log: little-endian; docs/tracing.md draws the same.
//!
//! ```text
//! 0   magic "PKTEVENT"
//! 8   u32 format = 1    u32 tasks T
//! 16  u32 files F       u32 marks M
//! 24  u64 events E
//! 32  task x T:  u32 pid, u32 bytes, name      ascending by pid
//!     file x F:  u32 bytes, name               at most 65,535
//!     mark x M:  u32 bytes, text
//!     event x E, 32 bytes each, ascending by time:
//!       0 u64 time_ns   8 u64 a   16 u64 b   24 u24 pid   27 u8 kind   28 u16 cpu   30 u16 file
//! ```
//! Linux numbers threads below 2^22, so that 24 bits hold them. `file` is 0xffff where there is none.
//! `kind` has the number of the kind in bits 0 to 3, the system call in bits 4 to 6 and a flag in bit 7.
//!
//! | kind | a | b | call | flag |
//! | --- | --- | --- | --- | --- |
//! | 0 switch | prev, next << 32 | state | | |
//! | 1 wake | pid | | | |
//! | 2 frequency | kHz | processor | | |
//! | 3 idle | state | processor | | it has a state |
//! | 4 enter | offset | bytes | call | it has an offset |
//! | 5 exit | result | | call | |
//! | 6 cache miss | page | pages | | |
//! | 7 block issue | sector | device, sectors << 32 | | it writes |
//! | 8 block complete | sector | device, sectors << 32 | | it writes |
//! | 9 mark | index | | | |
//!
//! What a kind does not use is 0.

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::events::{Event, EventKind, EventLog, SystemCall};
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"PKTEVENT";
const FORMAT: u32 = 1;
const HEADER: usize = 32;
const EVENT: usize = 32;
const NO_FILE: u16 = 0xffff;
const FLAG: u8 = 0x80;
const MOST_PID: u32 = (1 << 24) - 1;

/// The bytes of an event log.
///
/// # Errors
/// `ErrorKind::User` for more than 65,535 files; `ErrorKind::Bug` for a thread number above 2^24 - 1.
pub fn encode_events(log: &EventLog) -> Result<Vec<u8>> {
    if log.files.len() > usize::from(NO_FILE) {
        return Err(Error::user(format!("{} files exceed the limit of an event log", log.files.len()))
            .hint(format!("trace a shorter run: a log has at most {NO_FILE} files")));
    }
    let mut bytes = Vec::with_capacity(HEADER + log.events.len() * EVENT + 32 * log.tasks.len());
    bytes.extend(MAGIC);
    bytes.extend(FORMAT.to_le_bytes());
    for count in [log.tasks.len(), log.files.len(), log.marks.len()] {
        bytes.extend((count as u32).to_le_bytes());
    }
    bytes.extend((log.events.len() as u64).to_le_bytes());
    let put_text = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    for (pid, name) in &log.tasks {
        bytes.extend(pid.to_le_bytes());
        put_text(&mut bytes, name);
    }
    log.files.iter().chain(&log.marks).for_each(|text| put_text(&mut bytes, text));
    for event in &log.events {
        if event.pid > MOST_PID {
            return Err(Error::bug(format!("thread {} is above {MOST_PID}, Linux's maximum", event.pid)));
        }
        bytes.extend(record(event));
    }
    Ok(bytes)
}

/// Reads an event log, and checks everything in it.
///
/// # Errors
/// `ErrorKind::Board` if it is not an event log, has another format, or is damaged or truncated; the message includes
/// the offset.
pub fn decode_events(bytes: &[u8]) -> Result<EventLog> {
    if bytes.len() < HEADER || &bytes[..8] != MAGIC {
        return Err(Error::board("it is not an event log (PKTEVENT is not at its start)"));
    }
    let number = |at: usize| u32_at(bytes, at);
    if number(8) != FORMAT {
        return Err(Error::board(format!(
            "it is an event log of format {}; this pocketstone supports {FORMAT}",
            number(8)
        ))
        .hint("read it with the version that wrote it"));
    }
    let mut log = EventLog::default();
    let mut reader = Reader { bytes, at: HEADER };
    for _ in 0..number(12) {
        let at = reader.at;
        let pid = u32_at(reader.take(4)?, 0);
        if log.tasks.last().is_some_and(|(last, _)| *last >= pid) {
            return Err(damaged("a task", at));
        }
        log.tasks.push((pid, reader.text()?));
    }
    if number(16) > u32::from(NO_FILE) {
        return Err(damaged("the number of files", 16));
    }
    for _ in 0..number(16) {
        log.files.push(reader.text()?);
    }
    for _ in 0..number(20) {
        log.marks.push(reader.text()?);
    }
    let rest = &bytes[reader.at..];
    if rest.len() % EVENT != 0 || (rest.len() / EVENT) as u64 != u64_at(bytes, 24) {
        return Err(damaged("the number of events", reader.at));
    }
    log.events.reserve_exact(rest.len() / EVENT);
    let mut last = 0;
    for (n, place) in rest.chunks_exact(EVENT).enumerate() {
        let wrong = || damaged("an event", reader.at + n * EVENT);
        let event = event(place).ok_or_else(wrong)?;
        // Only what this module writes comes out of it again: unused fields are 0.
        let known = match event.kind {
            EventKind::Enter { file, .. } | EventKind::CacheMiss { file, .. } => {
                file.is_none_or(|f| usize::from(f) < log.files.len())
            }
            EventKind::Mark { text } => (text as usize) < log.marks.len(),
            _ => true,
        };
        if !known || event.time_ns < last || record(&event)[..] != *place {
            return Err(wrong());
        }
        last = event.time_ns;
        log.events.push(event);
    }
    Ok(log)
}

fn record(event: &Event) -> [u8; EVENT] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let flag = |set: bool| if set { FLAG } else { 0 };
    let (kind, a, b, file) = match event.kind {
        EventKind::Switch { prev, state, next } => (0, pair(prev, next), u64::from(state), None),
        EventKind::Wake { pid } => (1, u64::from(pid), 0, None),
        EventKind::Frequency { cpu, khz } => (2, u64::from(khz), u64::from(cpu), None),
        EventKind::Idle { cpu, state } => {
            (3 | flag(state.is_some()), u64::from(state.unwrap_or(0)), u64::from(cpu), None)
        }
        EventKind::Enter { call, file, offset, bytes } => {
            (4 | (call as u8) << 4 | flag(offset.is_some()), offset.unwrap_or(0), bytes, file)
        }
        EventKind::Exit { call, result } => (5 | (call as u8) << 4, result as u64, 0, None),
        EventKind::CacheMiss { file, page, pages } => (6, page, u64::from(pages), file),
        EventKind::BlockIssue { device, write, sector, sectors } => {
            (7 | flag(write), sector, pair(device, sectors), None)
        }
        EventKind::BlockComplete { device, write, sector, sectors } => {
            (8 | flag(write), sector, pair(device, sectors), None)
        }
        EventKind::Mark { text } => (9, u64::from(text), 0, None),
    };
    let mut record = [0; EVENT];
    record[..8].copy_from_slice(&event.time_ns.to_le_bytes());
    record[8..16].copy_from_slice(&a.to_le_bytes());
    record[16..24].copy_from_slice(&b.to_le_bytes());
    record[24..28].copy_from_slice(&(event.pid & MOST_PID | u32::from(kind) << 24).to_le_bytes());
    record[28..30].copy_from_slice(&event.cpu.to_le_bytes());
    record[30..].copy_from_slice(&file.unwrap_or(NO_FILE).to_le_bytes());
    record
}

fn event(record: &[u8]) -> Option<Event> {
    let (a, b) = (u64_at(record, 8), u64_at(record, 16));
    let (low, high) = (|n: u64| n as u32, |n: u64| (n >> 32) as u32);
    let flag = record[27] & FLAG != 0;
    let call = SystemCall::ALL[usize::from(record[27] >> 4 & 7)];
    let file = Some(u16_at(record, 30)).filter(|f| *f != NO_FILE);
    let kind = match record[27] & 15 {
        0 => EventKind::Switch { prev: low(a), state: b as u8, next: high(a) },
        1 => EventKind::Wake { pid: low(a) },
        2 => EventKind::Frequency { cpu: b as u16, khz: low(a) },
        3 => EventKind::Idle { cpu: b as u16, state: flag.then_some(low(a)) },
        4 => EventKind::Enter { call, file, offset: flag.then_some(a), bytes: b },
        5 => EventKind::Exit { call, result: a as i64 },
        6 => EventKind::CacheMiss { file, page: a, pages: low(b) },
        7 => EventKind::BlockIssue { device: low(b), write: flag, sector: a, sectors: high(b) },
        8 => EventKind::BlockComplete { device: low(b), write: flag, sector: a, sectors: high(b) },
        9 => EventKind::Mark { text: low(a) },
        _ => return None,
    };
    let pid = u32_at(record, 24) & MOST_PID;
    Some(Event { time_ns: u64_at(record, 0), cpu: u16_at(record, 28), pid, kind })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let part = self.bytes[self.at..].get(..count).ok_or_else(|| damaged("a text", self.at))?;
        self.at += count;
        Ok(part)
    }

    fn text(&mut self) -> Result<String> {
        let at = self.at;
        let count = u32_at(self.take(4)?, 0);
        let text = std::str::from_utf8(self.take(count as usize)?).map_err(|_| damaged("a text", at))?;
        Ok(text.to_owned())
    }
}

fn damaged(what: &str, place: usize) -> Error {
    Error::board(format!("an event log is damaged or truncated: {what} at byte {place}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kind() -> impl Strategy<Value = EventKind> {
        let call = || (0usize..8).prop_map(|n| SystemCall::ALL[n]);
        let file = || prop::option::of(0u16..3);
        let block = || (any::<u32>(), any::<bool>(), any::<u64>(), any::<u32>());
        prop_oneof![
            (any::<u32>(), any::<u8>(), any::<u32>()).prop_map(|(prev, state, next)| EventKind::Switch {
                prev,
                state,
                next
            }),
            any::<u32>().prop_map(|pid| EventKind::Wake { pid }),
            (any::<u16>(), any::<u32>()).prop_map(|(cpu, khz)| EventKind::Frequency { cpu, khz }),
            (any::<u16>(), any::<Option<u32>>()).prop_map(|(cpu, state)| EventKind::Idle { cpu, state }),
            (call(), file(), any::<Option<u64>>(), any::<u64>())
                .prop_map(|(call, file, offset, bytes)| EventKind::Enter { call, file, offset, bytes }),
            (call(), any::<i64>()).prop_map(|(call, result)| EventKind::Exit { call, result }),
            (file(), any::<u64>(), any::<u32>()).prop_map(|(file, page, pages)| EventKind::CacheMiss {
                file,
                page,
                pages
            }),
            block().prop_map(|(device, write, sector, sectors)| EventKind::BlockIssue {
                device,
                write,
                sector,
                sectors
            }),
            block().prop_map(|(device, write, sector, sectors)| EventKind::BlockComplete {
                device,
                write,
                sector,
                sectors
            }),
            (0u32..2).prop_map(|text| EventKind::Mark { text }),
        ]
    }

    fn log() -> impl Strategy<Value = EventLog> {
        let event = (any::<u64>(), any::<u16>(), 0..=MOST_PID, kind()).prop_map(|(time_ns, cpu, pid, kind)| Event {
            time_ns,
            cpu,
            pid,
            kind,
        });
        let tasks = prop::collection::btree_map(any::<u32>(), ".{0,15}", 0..4);
        let texts = (prop::collection::vec(".{0,20}", 3), prop::collection::vec(".{0,20}", 2));
        (tasks, texts, prop::collection::vec(event, 0..40)).prop_map(|(tasks, (files, marks), mut events)| {
            events.sort_by_key(|e| e.time_ns);
            EventLog { tasks: tasks.into_iter().collect(), files, marks, events }
        })
    }

    proptest! {
        #[test]
        fn a_log_comes_back(log in log()) {
            let bytes = encode_events(&log).unwrap();
            prop_assert_eq!(decode_events(&bytes).unwrap(), log);
        }

        #[test]
        fn a_damaged_log_never_panics_and_is_refused_or_means_its_own_bytes(
            log in log(), at in any::<prop::sample::Index>(), value in any::<u8>(), cut in any::<prop::sample::Index>()
        ) {
            let mut bytes = encode_events(&log).unwrap();
            let cut = cut.index(bytes.len());
            prop_assert!(decode_events(&bytes[..cut]).is_err());
            let at = at.index(bytes.len());
            bytes[at] = value;
            if let Ok(other) = decode_events(&bytes) {
                prop_assert_eq!(encode_events(&other).unwrap(), bytes);
            }
        }

        #[test]
        fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_events(&bytes);
            let mut with_magic = [&MAGIC[..], &FORMAT.to_le_bytes()].concat();
            with_magic.extend(&bytes);
            let _ = decode_events(&with_magic);
        }
    }

    /// Written down by hand from the table above.
    #[test]
    fn the_bytes_of_one_event() {
        let kind = EventKind::Enter { call: SystemCall::Sync, file: Some(1), offset: Some(0x1122), bytes: 3 };
        let event = Event { time_ns: 0x0102, cpu: 5, pid: 0x0001_2345, kind };
        let mut expected = [0u8; 32];
        (expected[0], expected[1]) = (0x02, 0x01);
        (expected[8], expected[9]) = (0x22, 0x11);
        expected[16] = 3;
        expected[24..28].copy_from_slice(&[0x45, 0x23, 0x01, 0x80 | 2 << 4 | 4]);
        (expected[28], expected[30]) = (5, 1);
        assert_eq!(record(&event), expected);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let wake = Event { time_ns: 0, cpu: 0, pid: MOST_PID + 1, kind: EventKind::Wake { pid: 1 } };
        let log = EventLog { events: vec![wake], ..EventLog::default() };
        assert!(encode_events(&log).unwrap_err().message().contains("16777216"));
        let log = EventLog { files: vec![String::new(); 65_536], ..EventLog::default() };
        assert!(encode_events(&log).unwrap_err().cure().is_some());
    }
}
