//! From what a recorder saw to calls that can be done again: which files there were, how large, under which numbers.

mod names;

use self::names::Names;
use super::{Calls, Selection};
use crate::content::NewFile;
use crate::{Operation, Purpose};
use pocketstone_core::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Folders whose files are the system's: what a program reads there is not its data.
const OF_THE_SYSTEM: [&str; 11] =
    ["/proc", "/sys", "/dev", "/run", "/etc", "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin"];

/// When a call began and ended, in ns of the recorder's clock; `None`: it does not say.
pub type Span = Option<(u64, u64)>;

/// A path, by its number in [`Recorded`].
pub type PathId = usize;

/// An open file, from the call that opened it to its last close.
pub type OpenId = usize;

/// How a file was opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opening {
    /// It can be written.
    pub writes: bool,
    /// Every write is at the end.
    pub appends: bool,
    /// It is made if there is none.
    pub creates: bool,
    /// There must be none.
    pub exclusive: bool,
    /// What it held is gone.
    pub truncates: bool,
    /// Every write is durable when it returns.
    pub syncs: bool,
}

/// What a call was, as far as files go.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    /// A file was opened.
    Open(PathId, OpenId, Opening),
    /// Bytes were read at an offset.
    Read(OpenId, u64, u64),
    /// Bytes were written at an offset.
    Write(OpenId, u64, u64),
    /// A file, or its data alone (`true`), was made durable.
    Sync(OpenId, bool),
    /// A file got an owner, permissions or times.
    SetAttributes(OpenId),
    /// A file got a size.
    Truncate(OpenId, u64),
    /// Room was made in a file up to here, which is its size from now on if it was smaller.
    Allocate(OpenId, u64),
    /// The last descriptor was closed.
    Close(OpenId),
    /// The names of a folder were read.
    List(OpenId),
    /// A name was removed.
    Delete(PathId),
    /// A name was given to what has another.
    Rename(PathId, PathId),
    /// Attributes were asked for by name.
    LookUp(PathId),
    /// A folder was made.
    MakeFolder(PathId),
    /// The recorder says how large a file is. No call.
    Size(PathId, u64),
    /// The same of an open file.
    OpenSize(OpenId, u64),
    /// The recorder says that there is no such file. No call.
    Absent(PathId),
}

/// What a recorder saw, in the order of its calls' ends.
#[derive(Debug, Default)]
pub struct Recorded {
    paths: Vec<String>,
    numbers: HashMap<String, PathId>,
    folders: BTreeSet<PathId>,
    acts: Vec<(Span, Act)>,
    opened: usize,
    left_out: BTreeMap<String, u64>,
}

impl Recorded {
    /// The number of a path.
    pub fn path(&mut self, path: &str) -> PathId {
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        self.paths.push(path.to_owned());
        self.numbers.insert(path.to_owned(), self.paths.len() - 1);
        self.paths.len() - 1
    }

    /// The text of a path.
    pub fn text(&self, path: PathId) -> &str {
        self.paths.get(path).map_or("", String::as_str)
    }

    /// Notes that a path is that of a folder.
    pub fn folder(&mut self, path: PathId) {
        self.folders.insert(path);
    }

    /// Adds a call that opens a path.
    pub fn open(&mut self, span: Span, path: PathId, opening: Opening) -> OpenId {
        let open = self.opened;
        self.opened += 1;
        self.acts.push((span, Act::Open(path, open, opening)));
        open
    }

    /// Adds a call, or what a call says.
    pub fn push(&mut self, span: Span, act: Act) {
        self.acts.push((span, act));
    }

    /// Counts a call that is not replayed.
    pub fn leave_out(&mut self, why: &str) {
        match self.left_out.get_mut(why) {
            Some(times) => *times += 1,
            None => _ = self.left_out.insert(why.to_owned(), 1),
        }
    }

    /// The calls to replay.
    ///
    /// # Errors
    /// `ErrorKind::User` if none of them is on a selected file; the hint has the folders that there are.
    pub fn calls(mut self, selection: &Selection) -> Result<Calls> {
        self.find_folders();
        let kept: Vec<bool> = (0..self.paths.len()).map(|path| self.keeps(path, selection)).collect();
        let world = World::learn(&self, &kept);
        let mut made = Making::new(&self, kept, world);
        for (span, act) in &self.acts {
            made.act(*span, *act, selection.pauses);
        }
        let mut calls = made.calls;
        calls.left_out = self.left_out.clone();
        for (why, times) in made.left_out {
            *calls.left_out.entry(why.to_owned()).or_default() += times;
        }
        if calls.operations.is_empty() {
            return Err(self.nothing(selection));
        }
        Ok(calls)
    }

    /// A path that others lie below is a folder.
    fn find_folders(&mut self) {
        for path in 0..self.paths.len() {
            let mut rest = self.paths[path].as_str();
            while let Some((above, _)) = rest.rsplit_once('/') {
                self.folders.extend(self.numbers.get(if above.is_empty() { "/" } else { above }));
                rest = above;
            }
        }
    }

    fn keeps(&self, path: PathId, selection: &Selection) -> bool {
        let text = self.text(path);
        let below = |folder: &str| {
            let rest = text.strip_prefix(folder.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        match selection.below.as_str() {
            "" => !OF_THE_SYSTEM.iter().any(|folder| below(folder)),
            folder => below(folder),
        }
    }

    fn nothing(&self, selection: &Selection) -> Error {
        let opened = self.acts.iter().filter_map(|(_, act)| match act {
            Act::Open(path, ..) if !self.folders.contains(path) => self.text(*path).rsplit_once('/').map(|(f, _)| f),
            _ => None,
        });
        let mut folders: Vec<&str> = opened.collect::<BTreeSet<_>>().into_iter().take(5).collect();
        if folders.is_empty() {
            folders.push("none");
        }
        let of = match selection.below.as_str() {
            "" => "that is not the system's".to_owned(),
            folder => format!("below {folder}"),
        };
        Error::user(format!("no recorded call is on a file {of}")).hint(format!(
            "set calls_below to the folder of the application's files; it opened files in {}",
            folders.join(", ")
        ))
    }
}

/// A file as the recording tells of it.
#[derive(Debug, Clone, Copy)]
struct Thing {
    /// Its first path.
    path: PathId,
    /// Whether it was there before the first call; `None`: nothing says so, and then it was not.
    there: Option<bool>,
    /// Its size then, as far as it is known.
    first_bytes: u64,
    bytes: u64,
    /// It was made or cut: what is beyond was not there before.
    cut: bool,
    /// Something was added at its end, wherever that was.
    grown: bool,
}

/// The files of a recording at one moment.
#[derive(Debug, Default)]
struct World {
    things: Vec<Thing>,
    /// What a path names; `None` behind a path: nothing.
    named: HashMap<PathId, Option<usize>>,
    open: HashMap<OpenId, usize>,
}

impl World {
    /// What all calls together say of the files that there were at first.
    fn learn(recorded: &Recorded, kept: &[bool]) -> Vec<Thing> {
        let mut world = World::default();
        let file = |path: PathId| kept[path] && !recorded.folders.contains(&path);
        for (_, act) in &recorded.acts {
            match *act {
                Act::Open(path, open, opening) if file(path) => {
                    let there = if opening.exclusive && opening.creates { Some(false) } else { None };
                    let there = if opening.creates { there } else { Some(true) };
                    let thing = world.name(path, there);
                    world.open.insert(open, thing);
                    if opening.truncates {
                        world.resize(thing, 0);
                    }
                }
                Act::Read(open, offset, bytes) if bytes > 0 => world.at_least(open, offset.saturating_add(bytes)),
                Act::Write(open, offset, bytes) => world.grow(open, offset, bytes),
                Act::Allocate(open, end) => world.grow(open, end, 0),
                Act::Truncate(open, bytes) => {
                    if let Some(thing) = world.open.get(&open) {
                        world.resize(*thing, bytes);
                    }
                }
                Act::OpenSize(open, bytes) => world.at_least(open, bytes),
                Act::Size(path, bytes) if file(path) => {
                    let thing = world.name(path, Some(true));
                    world.thing_at_least(thing, bytes);
                }
                Act::LookUp(path) if file(path) => _ = world.name(path, Some(true)),
                Act::Absent(path) => _ = world.named.entry(path).or_insert(None),
                Act::Delete(path) if file(path) => {
                    world.name(path, Some(true));
                    world.named.insert(path, None);
                }
                Act::Rename(from, to) if file(from) => {
                    let thing = world.name(from, Some(true));
                    world.named.insert(from, None);
                    world.named.insert(to, Some(thing));
                }
                _ => {}
            }
        }
        world.things
    }

    /// What a path names; if nothing is known of it, from now on it is a file that was there, was not, or either.
    fn name(&mut self, path: PathId, there: Option<bool>) -> usize {
        let there = match self.named.get(&path) {
            Some(Some(thing)) => return *thing,
            // What was removed, or was not there, and now is: it was made.
            Some(None) => Some(false),
            None => there,
        };
        let cut = there == Some(false);
        self.things.push(Thing { path, there, first_bytes: 0, bytes: 0, cut, grown: false });
        self.named.insert(path, Some(self.things.len() - 1));
        self.things.len() - 1
    }

    fn resize(&mut self, thing: usize, bytes: u64) {
        let thing = &mut self.things[thing];
        (thing.bytes, thing.cut) = (bytes, true);
    }

    fn grow(&mut self, open: OpenId, offset: u64, bytes: u64) {
        let Some(thing) = self.open.get(&open).map(|thing| &mut self.things[*thing]) else { return };
        match offset {
            AT_END => (thing.bytes, thing.grown) = (thing.bytes.saturating_add(bytes), true),
            _ => thing.bytes = thing.bytes.max(offset.saturating_add(bytes)),
        }
    }

    fn at_least(&mut self, open: OpenId, bytes: u64) {
        if let Some(thing) = self.open.get(&open) {
            self.thing_at_least(*thing, bytes);
        }
    }

    /// The file has so many bytes. What nothing wrote was there before.
    fn thing_at_least(&mut self, thing: usize, bytes: u64) {
        let thing = &mut self.things[thing];
        if bytes <= thing.bytes || thing.cut {
            return;
        }
        thing.first_bytes = if thing.grown { thing.first_bytes + (bytes - thing.bytes) } else { bytes };
        (thing.bytes, thing.there) = (bytes, Some(true));
    }
}

/// The offset of a write at the end, wherever that is.
pub const AT_END: u64 = u64::MAX;

/// Makes operations.
struct Making<'a> {
    recorded: &'a Recorded,
    kept: Vec<bool>,
    /// What there is under a path, and its size.
    sizes: Vec<u64>,
    named: HashMap<PathId, usize>,
    open: HashMap<OpenId, Descriptor>,
    /// Numbers of a path, and whether each is open.
    numbers: HashMap<PathId, Vec<(u32, bool)>>,
    names: Names,
    listed: BTreeSet<OpenId>,
    folders_made: u32,
    last_end_ns: Option<u64>,
    calls: Calls,
    left_out: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Copy)]
struct Descriptor {
    path: PathId,
    /// `None`: a folder.
    file: Option<(u32, usize)>,
    opening: Opening,
}

impl<'a> Making<'a> {
    fn new(recorded: &'a Recorded, kept: Vec<bool>, things: Vec<Thing>) -> Self {
        let calls = Calls { threads: 1, ..Calls::default() };
        let names = Names::new(recorded, &kept);
        let mut made = Making {
            recorded,
            kept,
            sizes: Vec::new(),
            named: HashMap::new(),
            open: HashMap::new(),
            numbers: HashMap::new(),
            names,
            listed: BTreeSet::new(),
            folders_made: 0,
            last_end_ns: None,
            calls,
            left_out: BTreeMap::new(),
        };
        for thing in things.iter().filter(|thing| thing.there == Some(true)) {
            let name = made.names.of(recorded, thing.path);
            made.numbers.insert(thing.path, vec![(made.calls.files.len() as u32, false)]);
            made.calls.files.push(NewFile { name, bytes: thing.first_bytes });
            made.named.insert(thing.path, made.sizes.len());
            made.sizes.push(thing.first_bytes);
        }
        made
    }

    fn is_file(&self, path: PathId) -> bool {
        self.kept[path] && !self.recorded.folders.contains(&path)
    }

    /// A number of a path: one that is not open, where it will be.
    fn number(&mut self, path: PathId, opens: bool) -> u32 {
        let numbers = self.numbers.entry(path).or_default();
        if let Some((number, open)) = numbers.iter_mut().find(|(_, open)| !opens || !*open) {
            *open |= opens;
            return *number;
        }
        let number = (self.calls.files.len() + self.calls.names.len()) as u32;
        numbers.push((number, opens));
        let name = self.names.of(self.recorded, path);
        self.calls.names.push(name);
        number
    }

    fn add(&mut self, operation: Operation) {
        self.calls.operations.push(operation);
    }

    /// The time between the last call that is replayed and this one.
    fn pause(&mut self, span: Span, pauses: bool) {
        let Some((start_ns, end_ns)) = span.filter(|_| pauses) else { return };
        let ns = self.last_end_ns.map_or(0, |last| start_ns.saturating_sub(last));
        if ns > 0 {
            self.add(Operation::Pause { ns });
        }
        self.last_end_ns = Some(self.last_end_ns.unwrap_or(0).max(end_ns));
    }

    fn act(&mut self, span: Span, act: Act, pauses: bool) {
        let (before, last) = (self.calls.operations.len(), self.last_end_ns);
        self.pause(span, pauses);
        let with_pause = self.calls.operations.len();
        self.make(act);
        // Nothing was made of it: its time is a part of the pause before the next call.
        if self.calls.operations.len() == with_pause {
            self.calls.operations.truncate(before);
            self.last_end_ns = last;
        }
    }

    fn make(&mut self, act: Act) {
        match act {
            Act::Open(path, open, opening) => self.make_open(path, open, opening),
            Act::Read(open, offset, bytes) => self.make_read(open, offset, bytes),
            Act::Write(open, offset, bytes) => self.make_write(open, offset, bytes),
            Act::Sync(open, data_alone) => self.make_sync(open, data_alone),
            Act::SetAttributes(open) => {
                let Some((file, _)) = self.file(open) else { return };
                self.add(Operation::SetOwner { file });
            }
            Act::Truncate(open, bytes) => {
                let Some((file, thing)) = self.file(open) else { return };
                self.sizes[thing] = bytes;
                self.add(Operation::Truncate { file, bytes });
            }
            Act::Allocate(open, end) => {
                let Some((file, thing)) = self.file(open).filter(|(_, thing)| self.sizes[*thing] < end) else { return };
                self.sizes[thing] = end;
                self.add(Operation::Truncate { file, bytes: end });
            }
            Act::Close(open) => self.make_close(open),
            Act::List(open) => {
                // One listing is as many calls as its names need.
                if self.open.contains_key(&open) && self.listed.insert(open) {
                    self.add(Operation::List);
                }
            }
            Act::Delete(path) => {
                if self.is_file(path) && self.named.remove(&path).is_some() {
                    let file = self.number(path, false);
                    self.add(Operation::Delete { file });
                }
            }
            Act::Rename(from, to) => self.make_rename(from, to),
            Act::LookUp(path) => {
                if self.is_file(path) && self.named.contains_key(&path) {
                    let file = self.number(path, false);
                    self.add(Operation::LookUp { file });
                }
            }
            Act::MakeFolder(path) => {
                if self.kept[path] {
                    self.folders_made += 1;
                    self.add(Operation::MakeDirectory { directory: self.folders_made - 1 });
                }
            }
            Act::Size(..) | Act::OpenSize(..) | Act::Absent(_) => {}
        }
    }

    fn make_read(&mut self, open: OpenId, offset: u64, bytes: u64) {
        let Some((file, thing)) = self.file(open) else { return };
        let there = self.sizes[thing].saturating_sub(offset);
        if there < bytes {
            self.leave_out("bytes read behind where no recorded call made the file end");
        }
        self.add(Operation::Read { file, offset, bytes: bytes.min(there) });
    }

    fn make_write(&mut self, open: OpenId, offset: u64, bytes: u64) {
        let Some((file, thing)) = self.file(open).filter(|_| bytes > 0) else { return };
        let opening = self.open[&open].opening;
        let end = self.sizes[thing];
        if opening.appends {
            self.sizes[thing] = end.saturating_add(bytes);
            self.add(Operation::Append { file, bytes });
        } else {
            let offset = if offset == AT_END { end } else { offset };
            self.sizes[thing] = end.max(offset.saturating_add(bytes));
            self.add(Operation::Write { file, offset, bytes });
        }
        if opening.syncs {
            self.add(Operation::SyncData { file });
        }
    }

    fn make_sync(&mut self, open: OpenId, data_alone: bool) {
        let Some(descriptor) = self.open.get(&open) else { return };
        self.add(match (descriptor.file, data_alone) {
            (Some((file, _)), true) => Operation::SyncData { file },
            (Some((file, _)), false) => Operation::Sync { file },
            (None, _) => Operation::SyncFolder,
        });
    }

    fn make_close(&mut self, open: OpenId) {
        let Some(Descriptor { path, file: Some((file, _)), .. }) = self.open.remove(&open) else { return };
        let numbers = self.numbers.get_mut(&path).into_iter().flatten();
        numbers.filter(|(number, _)| *number == file).for_each(|(_, open)| *open = false);
        self.add(Operation::Close { file });
    }

    fn make_rename(&mut self, from: PathId, to: PathId) {
        match (self.is_file(from), self.kept[to]) {
            (true, true) => {
                let Some(thing) = self.named.remove(&from) else { return };
                self.named.insert(to, thing);
                let (file, to) = (self.number(from, false), self.number(to, false));
                self.add(Operation::Rename { file, to });
            }
            (true, false) | (false, true) => self.leave_out("rename across the selected folder, or of a folder"),
            (false, false) => {}
        }
    }

    fn file(&self, open: OpenId) -> Option<(u32, usize)> {
        self.open.get(&open).and_then(|descriptor| descriptor.file)
    }

    fn make_open(&mut self, path: PathId, open: OpenId, opening: Opening) {
        if self.recorded.folders.contains(&path) {
            // A folder of the files, or the one that they are in.
            if self.kept[path] || self.names.common.starts_with(self.recorded.text(path)) {
                self.open.insert(open, Descriptor { path, file: None, opening });
            }
            return;
        }
        if !self.kept[path] {
            return self.leave_out("open of a file that is not selected");
        }
        let file = self.number(path, true);
        let known = self.named.get(&path).copied();
        let thing = known.unwrap_or(self.sizes.len());
        match (known, opening) {
            (Some(_), Opening { appends: true, .. }) => self.add(Operation::Open { file, purpose: Purpose::Append }),
            (Some(_), Opening { writes: true, .. }) => self.add(Operation::Open { file, purpose: Purpose::Write }),
            (Some(_), _) => self.add(Operation::Open { file, purpose: Purpose::Read }),
            (None, Opening { appends: true, .. }) => self.add(Operation::Create { file }),
            (None, _) => self.add(Operation::Open { file, purpose: Purpose::New }),
        }
        if known.is_none() {
            self.named.insert(path, thing);
            self.sizes.push(0);
        } else if opening.truncates {
            self.sizes[thing] = 0;
            self.add(Operation::Truncate { file, bytes: 0 });
        }
        self.open.insert(open, Descriptor { path, file: Some((file, thing)), opening });
    }

    fn leave_out(&mut self, why: &'static str) {
        *self.left_out.entry(why).or_default() += 1;
    }
}
