//! Processes, their descriptors and folders.

mod calls;

use super::super::recorded::{Act, OpenId, Opening, Recorded, Span};
use super::argument::plain;
use super::line::{AT_CWD, descriptor};
use super::links::Links;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Calls that start a thread or a process.
pub const STARTS: [&str; 5] = ["clone(", "clone3(", "fork(", "vfork(", "__clone2("];

/// What a descriptor leads to.
#[derive(Debug, Clone, Copy)]
struct Descriptor {
    /// The open file, in the table of those.
    file: usize,
    /// It is closed when another program is run.
    closed_by_exec: bool,
}

/// An open file.
#[derive(Debug)]
struct OpenFile {
    open: OpenId,
    path: String,
    position: u64,
    appends: bool,
    /// Descriptors that lead to it, of all processes.
    descriptors: usize,
}

/// The descriptors that threads share.
#[derive(Debug, Default, Clone)]
struct Table {
    descriptors: BTreeMap<i64, Descriptor>,
    threads: usize,
}

#[derive(Debug, Clone)]
struct Process {
    table: usize,
    folder: String,
    /// The call that started it has not returned: it will still name this one.
    expected: bool,
}

/// All processes of a text.
#[derive(Debug, Default)]
pub struct Processes {
    recorded: Recorded,
    files: Vec<OpenFile>,
    tables: Vec<Table>,
    all: HashMap<u32, Process>,
    /// Lines without a number are of the first process, which has one in other lines.
    first: Option<u32>,
    /// Those that ended before the call that started them returned: a parent may be held up for that long.
    short_lived: HashSet<u32>,
    links: Links,
}

impl Processes {
    /// What was recorded; files that are open stay so.
    pub fn end(self) -> Recorded {
        self.recorded
    }

    /// The number that a thread is known by. One that is new was started by one of `starting`, or is the first.
    pub fn known(&mut self, pid: u32, starting: &[(u32, String)]) -> u32 {
        if pid == 0 {
            return self.first.unwrap_or(0);
        }
        if self.all.contains_key(&pid) {
            return pid;
        }
        // A thread that nothing started is the one whose lines had no number so far.
        let unnumbered = if self.first.is_none() { self.all.remove(&0) } else { None };
        match (unnumbered, starting.first()) {
            (Some(process), _) => {
                self.all.insert(pid, process);
                self.first = Some(pid);
            }
            (None, Some((parent, call))) => self.announced(*parent, pid, call),
            (None, None) => _ = self.first.get_or_insert(pid),
        }
        pid
    }

    /// Whether lines without a number are this thread's.
    pub fn is_first(&self, pid: u32) -> bool {
        self.first == Some(pid)
    }

    /// A thread was started by another's call that has not returned.
    pub fn announced(&mut self, parent: u32, pid: u32, call: &str) {
        self.short_lived.remove(&pid);
        self.started(parent, pid, call, true);
    }

    /// The call that started a thread has returned.
    fn returned(&mut self, parent: u32, pid: u32, call: &str) {
        if self.short_lived.remove(&pid) {
            return;
        }
        match self.all.get_mut(&pid) {
            Some(process) => process.expected = false,
            None => self.started(parent, pid, call, false),
        }
    }

    fn started(&mut self, parent: u32, pid: u32, call: &str, expected: bool) {
        if self.all.contains_key(&pid) {
            return;
        }
        let of = self.process(parent).clone();
        let table = match call.contains("CLONE_FILES") {
            true => of.table,
            false => {
                let copy = Table { threads: 0, ..self.tables[of.table].clone() };
                copy.descriptors.values().for_each(|descriptor| self.files[descriptor.file].descriptors += 1);
                self.tables.push(copy);
                self.tables.len() - 1
            }
        };
        self.tables[table].threads += 1;
        self.all.insert(pid, Process { table, folder: of.folder, expected });
    }

    fn process(&mut self, pid: u32) -> &mut Process {
        let tables = &mut self.tables;
        self.all.entry(pid).or_insert_with(|| {
            tables.push(Table { threads: 1, ..Table::default() });
            Process { table: tables.len() - 1, folder: ".".to_owned(), expected: false }
        })
    }

    /// A thread has ended: what it alone had open is closed.
    pub fn ended(&mut self, pid: u32) {
        let Some(process) = self.all.remove(&pid) else { return };
        if process.expected {
            self.short_lived.insert(pid);
        }
        self.tables[process.table].threads -= 1;
        if self.tables[process.table].threads == 0 {
            let descriptors = std::mem::take(&mut self.tables[process.table].descriptors);
            descriptors.into_values().for_each(|descriptor| self.release(descriptor, None));
        }
    }

    fn release(&mut self, descriptor: Descriptor, span: Span) {
        let file = &mut self.files[descriptor.file];
        file.descriptors -= 1;
        if file.descriptors == 0 {
            self.recorded.push(span, Act::Close(file.open));
        }
    }

    fn table(&mut self, pid: u32) -> &mut Table {
        let table = self.process(pid).table;
        &mut self.tables[table]
    }

    fn close(&mut self, pid: u32, number: i64, span: Span) {
        if let Some(descriptor) = self.table(pid).descriptors.remove(&number) {
            self.release(descriptor, span);
        }
    }

    fn give(&mut self, pid: u32, number: i64, descriptor: Descriptor) {
        self.close(pid, number, None);
        self.files[descriptor.file].descriptors += 1;
        self.table(pid).descriptors.insert(number, descriptor);
    }

    /// The open file of a descriptor. One that was open before the text began is known by the path that `-y` writes.
    fn file(&mut self, pid: u32, argument: &str) -> Option<usize> {
        let (number, path) = descriptor(argument)?;
        if let Some(known) = self.table(pid).descriptors.get(&number) {
            return Some(known.file);
        }
        // Standard input, output and errors are the user's terminal, or where that was led to.
        let path = path.filter(|path| path.starts_with('/') && number > 2)?.into_owned();
        let opening = Opening { writes: true, ..Opening::default() };
        self.open(pid, number, &path, opening, false, None);
        Some(self.files.len() - 1)
    }

    fn open(&mut self, pid: u32, number: i64, path: &str, opening: Opening, closed_by_exec: bool, span: Span) {
        let id = self.recorded.path(path);
        let open = self.recorded.open(span, id, opening);
        let (path, appends) = (path.to_owned(), opening.appends);
        self.files.push(OpenFile { open, path, position: 0, appends, descriptors: 0 });
        self.give(pid, number, Descriptor { file: self.files.len() - 1, closed_by_exec });
    }

    /// A path from the folder that a call names, or the process is in, where it leads to as far as opens have said.
    fn resolve(&mut self, pid: u32, folder: &str, path: &str) -> Option<String> {
        self.as_given(pid, folder, path).map(|path| self.links.leads(path))
    }

    /// A path from the folder that a call names, or the process is in.
    fn as_given(&mut self, pid: u32, folder: &str, path: &str) -> Option<String> {
        self.learn_folder(pid, folder);
        if path.starts_with('/') {
            return Some(plain(path));
        }
        let from = match descriptor(folder)? {
            (_, Some(said)) => said.into_owned(),
            (AT_CWD, None) => self.process(pid).folder.clone(),
            (_, None) => {
                let file = self.file(pid, folder)?;
                self.files[file].path.clone()
            }
        };
        Some(plain(&format!("{from}/{path}")))
    }

    /// With `-y` calls say which folder the process is in; others start from there without saying so.
    fn learn_folder(&mut self, pid: u32, folder: &str) {
        if let Some((AT_CWD, Some(said))) = descriptor(folder) {
            self.process(pid).folder = said.into_owned();
        }
    }
}
