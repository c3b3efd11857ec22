//! What is known of threads while a trace is read, within bounds whatever the trace says.

use pocketstone_core::events::SystemCall;
use std::collections::{BTreeMap, HashMap};

/// Threads of which a name, a process, a call or a start are kept: phones have 32,768 numbers for all of theirs, and
/// what is beyond this is of a damaged log. Nothing is known of it.
pub(super) const MOST_THREADS: usize = 1 << 17;

/// The longest name of a thread that is taken, in bytes: the kernel's have 15, which may be 45 where they are no UTF-8.
pub(super) const LONGEST_THREAD_BYTES: usize = 64;

/// Bytes of the names of files that are being opened at one time.
const MOST_NAME_BYTES: usize = 1 << 22;

/// A call that has begun.
pub(crate) struct Call {
    pub call: SystemCall,
    pub fd: Option<i64>,
    /// The file that is opened.
    pub name: Option<String>,
    /// The descriptor to which the kernel writes what the call reads.
    pub copies_to: Option<i64>,
    /// The descriptor of the folder that the name starts from; `None`: that which the process is in.
    pub folder: Option<i64>,
}

/// What is known of each thread by its number.
#[derive(Default)]
pub(crate) struct Threads {
    names: HashMap<u32, String>,
    /// Process of those whose line named it.
    pub processes: BTreeMap<u32, u32>,
    /// Who started whom.
    pub started: Vec<(u32, u32)>,
    calls: HashMap<u32, Call>,
    /// Bytes of the calls' names.
    name_bytes: usize,
    /// Those that are about to have a descriptor by another number, too, and the one they have it by.
    duplicating: HashMap<u32, i64>,
    /// Those that are about to go to a folder, and its index among the files' names where it is known.
    moving: HashMap<u32, Option<u16>>,
}

impl Threads {
    pub fn named(&mut self, thread: u32, name: &str) {
        // The kernel keeps few names: it writes `<...>` for the others.
        if name == "<...>" || thread == 0 || name.len() > LONGEST_THREAD_BYTES {
            return;
        }
        let has_room = self.names.len() < MOST_THREADS;
        match self.names.get_mut(&thread) {
            Some(known) if known == name => {}
            Some(known) => name.clone_into(known),
            None if has_room => drop(self.names.insert(thread, name.to_owned())),
            None => {}
        }
    }

    pub fn is_of(&mut self, thread: u32, process: u32) {
        if self.processes.len() < MOST_THREADS || self.processes.contains_key(&thread) {
            self.processes.insert(thread, process);
        }
    }

    /// Whether there was room for it.
    pub fn starts(&mut self, thread: u32, child: u32) -> bool {
        let has_room = self.started.len() < MOST_THREADS;
        if has_room {
            self.started.push((thread, child));
        }
        has_room
    }

    pub fn begins(&mut self, thread: u32, call: Call) {
        self.ends(thread);
        if self.calls.len() < MOST_THREADS {
            let name = call.name.filter(|name| self.has_room(name));
            self.name_bytes += name.as_ref().map_or(0, String::len);
            self.calls.insert(thread, Call { name, ..call });
        }
    }

    /// The name of the file that a thread is opening, unless its call had one.
    pub fn opens(&mut self, thread: u32, name: &str) {
        let has_room = self.has_room(name);
        let opening = self.calls.get_mut(&thread).filter(|c| c.call == SystemCall::Open && c.name.is_none());
        if let Some(call) = opening.filter(|_| has_room) {
            self.name_bytes += name.len();
            call.name = Some(name.to_owned());
        }
    }

    /// The call that a thread was in, which is over.
    pub fn ends(&mut self, thread: u32) -> Option<Call> {
        let call = self.calls.remove(&thread)?;
        self.name_bytes -= call.name.as_ref().map_or(0, String::len);
        Some(call)
    }

    fn has_room(&self, name: &str) -> bool {
        self.name_bytes + name.len() <= MOST_NAME_BYTES
    }

    pub fn duplicates(&mut self, thread: u32, fd: i64) {
        if self.duplicating.len() < MOST_THREADS || self.duplicating.contains_key(&thread) {
            self.duplicating.insert(thread, fd);
        }
    }

    /// The descriptor that a thread was about to have by another number, too.
    pub fn duplicated(&mut self, thread: u32) -> Option<i64> {
        self.duplicating.remove(&thread)
    }

    pub fn moves(&mut self, thread: u32, folder: Option<u16>) {
        if self.moving.len() < MOST_THREADS || self.moving.contains_key(&thread) {
            self.moving.insert(thread, folder);
        }
    }

    /// The folder that a thread was about to go to.
    pub fn moved(&mut self, thread: u32) -> Option<Option<u16>> {
        self.moving.remove(&thread)
    }

    /// Names by thread, ascending.
    pub fn into_names(self) -> Vec<(u32, String)> {
        let mut names: Vec<_> = self.names.into_iter().collect();
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(name: Option<&str>) -> Call {
        Call { call: SystemCall::Open, fd: None, name: name.map(str::to_owned), copies_to: None, folder: None }
    }

    /// Calls that never end, which open files with long names; a name by the event that has it counts alike.
    #[test]
    fn names_of_files_that_are_being_opened_are_bounded() {
        let mut threads = Threads::default();
        let long = "n".repeat(1 << 12);
        let most = MOST_NAME_BYTES >> 12;
        for thread in 0..most as u32 {
            threads.begins(thread, opening((thread % 2 == 0).then_some(&long)));
            threads.opens(thread, &long);
            // It has one already.
            threads.opens(thread, "other");
        }
        threads.begins(9_999, opening(Some("/a")));
        threads.begins(9_998, opening(None));
        threads.opens(9_998, "/a");
        assert_eq!([9_999, 9_998].map(|thread| threads.ends(thread).unwrap().name), [None, None]);
        // Who begins another call has ended the one before, and that has room for a name.
        threads.begins(5, opening(Some("/b")));
        threads.begins(9_999, opening(Some("/a")));
        let names = [5, 9_999, 6].map(|thread| threads.ends(thread).unwrap().name.unwrap());
        assert_eq!(names, ["/b", "/a", &long]);
        let others = (0..most as u32).filter(|thread| threads.ends(*thread).is_some()).count();
        assert_eq!((others, threads.name_bytes), (most - 2, 0));
    }

    #[test]
    fn calls_and_descriptors_are_known_of_so_many_threads() {
        let mut threads = Threads::default();
        for thread in 0..MOST_THREADS as u32 + 2 {
            threads.begins(thread, opening(None));
            threads.duplicates(thread, 3);
        }
        let beyond = MOST_THREADS as u32;
        assert!(threads.ends(beyond).is_none() && threads.duplicated(beyond + 1).is_none());
        threads.duplicates(7, 4);
        assert!(threads.ends(7).is_some() && threads.duplicated(7) == Some(4));
        threads.begins(beyond, opening(None));
        assert!(threads.ends(beyond).is_some());
    }
}
