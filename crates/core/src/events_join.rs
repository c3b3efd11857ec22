//! Two logs of one run become one.

use crate::events::{EventKind, EventLog};
use crate::{Error, Result};
use std::collections::{BTreeMap, HashMap};

impl EventLog {
    /// This log with the events of another one of the same run and clock. At the same time, this one's come
    /// first; each log's own order stays. A file or a mark of both is one; a thread keeps the name it has here.
    ///
    /// # Errors
    /// `ErrorKind::User` if there are more files than an event can number.
    pub fn join(mut self, other: EventLog) -> Result<EventLog> {
        let mut numbers = HashMap::new();
        for (number, name) in (0u16..).zip(&self.files) {
            numbers.entry(name.clone()).or_insert(number);
        }
        let mut files = Vec::with_capacity(other.files.len());
        for name in other.files {
            let number = match numbers.get(&name) {
                Some(number) => *number,
                None => {
                    let number = u16::try_from(self.files.len()).ok().filter(|n| *n != u16::MAX).ok_or_else(|| {
                        Error::user("two event logs together have more than 65,535 files").hint("trace a shorter run")
                    })?;
                    self.files.push(name.clone());
                    numbers.insert(name, number);
                    number
                }
            };
            files.push(number);
        }
        let first_mark = self.marks.len() as u32;
        self.marks.extend(other.marks);
        let mut tasks: BTreeMap<u32, String> = other.tasks.into_iter().collect();
        tasks.extend(self.tasks);
        self.tasks = tasks.into_iter().collect();
        self.events.extend(other.events.into_iter().map(|mut event| {
            match &mut event.kind {
                EventKind::Enter { file, .. } | EventKind::CacheMiss { file, .. } => {
                    *file = file.map(|number| files[usize::from(number)]);
                }
                EventKind::Mark { text } => *text += first_mark,
                _ => {}
            }
            event
        }));
        // Stable: of equal times, what was in front stays there.
        self.events.sort_by_key(|event| event.time_ns);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Event, SystemCall};
    use crate::events_log::{decode_events, encode_events};

    fn event(time_ns: u64, pid: u32, kind: EventKind) -> Event {
        Event { time_ns, cpu: 0, pid, kind }
    }

    fn enter(file: u16) -> EventKind {
        EventKind::Enter { call: SystemCall::Read, file: Some(file), offset: Some(0), bytes: 1 }
    }

    fn exit() -> EventKind {
        EventKind::Exit { call: SystemCall::Read, result: 1 }
    }

    fn log(tasks: &[(u32, &str)], files: &[&str], marks: &[&str], events: Vec<Event>) -> EventLog {
        let texts = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect();
        let tasks = tasks.iter().map(|(pid, name)| (*pid, (*name).to_owned())).collect();
        EventLog { tasks, files: texts(files), marks: texts(marks), events }
    }

    #[test]
    fn two_logs_become_one_in_order_of_time_with_one_table_of_files() {
        let miss = |file| EventKind::CacheMiss { file, page: 3, pages: 1 };
        let kernel = log(
            &[(0, "idle"), (7, "kernel's")],
            &["a", "b"],
            &["one"],
            vec![
                event(10, 7, EventKind::Mark { text: 0 }),
                event(20, 7, miss(Some(1))),
                event(30, 7, EventKind::Wake { pid: 9 }),
            ],
        );
        let own = log(
            &[(7, "own"), (8, "other")],
            &["b", "c"],
            &["two"],
            vec![
                event(5, 7, enter(1)),
                event(20, 7, exit()),
                event(20, 7, enter(0)),
                event(20, 7, exit()),
                event(40, 8, EventKind::Mark { text: 0 }),
                event(41, 8, miss(None)),
            ],
        );
        let joined = kernel.clone().join(own.clone()).unwrap();
        let expected = log(
            &[(0, "idle"), (7, "kernel's"), (8, "other")],
            &["a", "b", "c"],
            &["one", "two"],
            vec![
                event(5, 7, enter(2)),
                event(10, 7, EventKind::Mark { text: 0 }),
                event(20, 7, miss(Some(1))),
                event(20, 7, exit()),
                event(20, 7, enter(1)),
                event(20, 7, exit()),
                event(30, 7, EventKind::Wake { pid: 9 }),
                event(40, 8, EventKind::Mark { text: 1 }),
                event(41, 8, miss(None)),
            ],
        );
        assert_eq!(joined, expected);
        assert_eq!(decode_events(&encode_events(&joined).unwrap()).unwrap(), joined);
        assert_eq!(kernel.clone().join(EventLog::default()).unwrap(), kernel);
        assert_eq!(EventLog::default().join(own.clone()).unwrap(), own);
    }

    #[test]
    fn more_files_than_an_event_can_name_are_refused() {
        let names = |from: u32, count: u32| EventLog {
            files: (from..from + count).map(|n| n.to_string()).collect(),
            ..EventLog::default()
        };
        assert_eq!(names(0, 65_000).join(names(64_000, 1_535)).unwrap().files.len(), 65_535);
        let error = names(0, 65_000).join(names(65_000, 536)).unwrap_err();
        assert!(error.cure().is_some(), "{}", error.chain());
    }
}
