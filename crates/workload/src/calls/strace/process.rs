//! Processes, their descriptors and folders, and what their calls do to files.

use super::super::recorded::{AT_END, Act, OpenId, Opening, Recorded, Span};
use super::super::text::MOST_CALL_BYTES;
use super::argument::{TOO_LARGE, UNKNOWN, offset, place, plain, pointed, size};
use super::line::{AT_CWD, Call, descriptor, field, number, string};
use super::links::Links;
use crate::operation::MOST_FILE_BYTES;
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

    /// Adds what a call did.
    ///
    /// # Errors
    /// Why it is not understood: `UNKNOWN` arguments, `TOO_LARGE` files, too many bytes at once, or a path that is cut
    /// off or starts from a folder that is not known.
    pub fn call(&mut self, pid: u32, call: &Call<'_>, span: Span) -> Result<(), &'static str> {
        self.process(pid);
        let argument = |n: usize| call.arguments.get(n).copied().ok_or(UNKNOWN);
        let Some(result) = call.result else { return Ok(()) };
        if result < 0 {
            return self.failed(pid, call);
        }
        let moves = ["read", "write", "send", "copy_file"].iter().any(|word| call.name.contains(word));
        if moves && result as u64 > MOST_CALL_BYTES {
            return Err("a call cannot move so many bytes");
        }
        match call.name {
            "open" => self.opened(pid, call, "AT_FDCWD", 0, argument(1)?, span)?,
            "openat" => self.opened(pid, call, argument(0)?, 1, argument(2)?, span)?,
            "openat2" => {
                self.opened(pid, call, argument(0)?, 1, field(argument(2)?, "flags=").ok_or(UNKNOWN)?, span)?
            }
            "creat" => self.opened(pid, call, "AT_FDCWD", 0, "O_WRONLY|O_CREAT|O_TRUNC", span)?,
            "read" | "readv" => self.moved(pid, argument(0)?, None, result as u64, false, span)?,
            "write" | "writev" => self.moved(pid, argument(0)?, None, result as u64, true, span)?,
            "pread64" | "pread" | "preadv" | "preadv2" => {
                self.moved(pid, argument(0)?, offset(argument(3)?)?, result as u64, false, span)?;
            }
            "pwrite64" | "pwrite" | "pwritev" | "pwritev2" => {
                self.moved(pid, argument(0)?, offset(argument(3)?)?, result as u64, true, span)?;
            }
            "sendfile" | "sendfile64" => {
                self.moved(pid, argument(1)?, pointed(argument(2)?)?, result as u64, false, span)?;
                self.moved(pid, argument(0)?, None, result as u64, true, span.map(|(_, end)| (end, end)))?;
            }
            "copy_file_range" => {
                self.moved(pid, argument(0)?, pointed(argument(1)?)?, result as u64, false, span)?;
                let (to, at) = (argument(2)?, pointed(argument(3)?)?);
                self.moved(pid, to, at, result as u64, true, span.map(|(_, end)| (end, end)))?;
            }
            "lseek" | "_llseek" => {
                let (to, whence) = match call.name {
                    "lseek" => (result as u64, argument(2)?),
                    _ => {
                        (place(argument(call.arguments.len().saturating_sub(2))?)?, argument(call.arguments.len() - 1)?)
                    }
                };
                self.sought(pid, argument(0)?, to, whence == "SEEK_END");
            }
            "fsync" | "fdatasync" => {
                if let Some(file) = self.file(pid, argument(0)?) {
                    self.recorded.push(span, Act::Sync(self.files[file].open, call.name == "fdatasync"));
                }
            }
            "fchown" | "fchown32" | "fchmod" => {
                if let Some(file) = self.file(pid, argument(0)?) {
                    self.recorded.push(span, Act::SetAttributes(self.files[file].open));
                }
            }
            "ftruncate" | "ftruncate64" => {
                let bytes = place(call.arguments.last().ok_or(UNKNOWN)?)?;
                if let Some(file) = self.file(pid, argument(0)?) {
                    self.recorded.push(span, Act::Truncate(self.files[file].open, bytes));
                }
            }
            "fallocate" if argument(1)? == "0" => {
                let end = place(argument(2)?)?.saturating_add(place(argument(3)?)?);
                if end > MOST_FILE_BYTES {
                    return Err(TOO_LARGE);
                }
                if let Some(file) = self.file(pid, argument(0)?) {
                    self.recorded.push(span, Act::Allocate(self.files[file].open, end));
                }
            }
            "truncate" | "truncate64" => {
                let bytes = place(call.arguments.last().ok_or(UNKNOWN)?)?;
                let path = self.named(pid, call, "AT_FDCWD", 0)?;
                let path = self.recorded.path(&path);
                let open = self.recorded.open(span, path, Opening { writes: true, ..Opening::default() });
                let end = span.map(|(_, end)| (end, end));
                self.recorded.push(end, Act::Truncate(open, bytes));
                self.recorded.push(end, Act::Close(open));
            }
            "close" => {
                let (number, _) = descriptor(argument(0)?).ok_or(UNKNOWN)?;
                self.close(pid, number, span);
            }
            "close_range" => {
                let range = number(argument(0)?).zip(number(argument(1)?)).ok_or(UNKNOWN)?;
                let held = self.table(pid).descriptors.keys().filter(|n| (range.0..=range.1).contains(&(**n as u64)));
                let held: Vec<i64> = held.copied().collect();
                let at_exec = call.arguments.get(2).is_some_and(|flags| flags.contains("CLOSE_RANGE_CLOEXEC"));
                for number in held {
                    match self.table(pid).descriptors.get_mut(&number).filter(|_| at_exec) {
                        Some(descriptor) => descriptor.closed_by_exec = true,
                        None => self.close(pid, number, None),
                    }
                }
            }
            "dup" | "dup2" | "dup3" => {
                let exec = call.arguments.get(2).is_some_and(|flags| flags.contains("O_CLOEXEC"));
                self.doubled(pid, argument(0)?, result, exec);
            }
            "fcntl" | "fcntl64" if argument(1)?.starts_with("F_DUPFD") => {
                self.doubled(pid, argument(0)?, result, argument(1)? == "F_DUPFD_CLOEXEC");
            }
            "fcntl" | "fcntl64" if argument(1)? == "F_SETFD" => {
                let (number, _) = descriptor(argument(0)?).ok_or(UNKNOWN)?;
                let exec = argument(2)?.contains("FD_CLOEXEC");
                if let Some(descriptor) = self.table(pid).descriptors.get_mut(&number) {
                    descriptor.closed_by_exec = exec;
                }
            }
            "unlink" => self.deleted(pid, call, "AT_FDCWD", 0, span)?,
            "unlinkat" if argument(2)?.contains("AT_REMOVEDIR") => self.recorded.leave_out("rmdir"),
            "unlinkat" => self.deleted(pid, call, argument(0)?, 1, span)?,
            "rename" => self.renamed(pid, call, ["AT_FDCWD"; 2], [0, 1], span)?,
            "renameat" | "renameat2" => {
                if call.arguments.get(4).is_some_and(|flags| flags.contains("RENAME_EXCHANGE")) {
                    self.recorded.leave_out("rename that exchanges");
                } else {
                    self.renamed(pid, call, [argument(0)?, argument(2)?], [1, 3], span)?;
                }
            }
            "mkdir" | "mkdirat" => {
                let (folder, at) = if call.name == "mkdir" { ("AT_FDCWD", 0) } else { (argument(0)?, 1) };
                let path = self.named(pid, call, folder, at)?;
                let path = self.recorded.path(&path);
                self.recorded.folder(path);
                self.recorded.push(span, Act::MakeFolder(path));
            }
            "getdents" | "getdents64" => {
                if let Some(file) = self.file(pid, argument(0)?) {
                    let path = self.recorded.path(&self.files[file].path);
                    self.recorded.folder(path);
                    self.recorded.push(span, Act::List(self.files[file].open));
                }
            }
            "stat" | "lstat" | "stat64" | "lstat64" => self.looked_up(pid, call, "AT_FDCWD", 0, argument(1)?, span)?,
            "access" => self.looked_up(pid, call, "AT_FDCWD", 0, "", span)?,
            "faccessat" | "faccessat2" => self.looked_up(pid, call, argument(0)?, 1, "", span)?,
            "newfstatat" | "fstatat64" => self.looked_up(pid, call, argument(0)?, 1, argument(2)?, span)?,
            "statx" => self.looked_up(pid, call, argument(0)?, 1, argument(4)?, span)?,
            "fstat" | "fstat64" => self.has_size(pid, argument(0)?, argument(1)?)?,
            "chdir" => {
                let path = self.named(pid, call, "AT_FDCWD", 0)?;
                let id = self.recorded.path(&path);
                self.recorded.folder(id);
                self.process(pid).folder = path;
            }
            "fchdir" => {
                if let Some(file) = self.file(pid, argument(0)?) {
                    self.process(pid).folder = self.files[file].path.clone();
                }
            }
            "clone" | "clone3" | "fork" | "vfork" | "__clone2" => {
                let child = u32::try_from(result).map_err(|_| UNKNOWN)?;
                self.returned(pid, child, &call.arguments.join(","));
            }
            "execve" | "execveat" => {
                let gone = self.table(pid).descriptors.iter().filter(|(_, d)| d.closed_by_exec);
                let gone: Vec<i64> = gone.map(|(number, _)| *number).collect();
                gone.into_iter().for_each(|number| self.close(pid, number, None));
            }
            "mmap" | "mmap2" if call.arguments.get(4).is_some_and(|file| self.file(pid, file).is_some()) => {
                self.recorded.leave_out("mmap of a file: what is read or written through it is in no trace");
            }
            "chown" | "chmod" | "fchownat" | "fchmodat" | "utimensat" | "sync" | "syncfs" | "sync_file_range"
            | "msync" | "fallocate" | "link" | "linkat" | "symlink" | "symlinkat" | "rmdir" | "splice"
            | "io_submit" | "io_uring_enter" => self.recorded.leave_out(call.name),
            _ => {}
        }
        Ok(())
    }

    /// A call that failed changes nothing, but says what there is not.
    fn failed(&mut self, pid: u32, call: &Call<'_>) -> Result<(), &'static str> {
        let (folder, at) = match call.name {
            "open" | "stat" | "lstat" | "stat64" | "lstat64" | "access" | "unlink" => ("AT_FDCWD", 0),
            "openat" | "newfstatat" | "fstatat64" | "statx" | "faccessat" | "faccessat2" | "unlinkat" => {
                (call.arguments.first().copied().ok_or(UNKNOWN)?, 1)
            }
            _ => return Ok(()),
        };
        if call.error == Some("ENOENT") {
            let path = self.named(pid, call, folder, at)?;
            let path = self.recorded.path(&path);
            self.recorded.push(None, Act::Absent(path));
        }
        self.recorded.leave_out("calls that failed");
        Ok(())
    }

    /// The path that is an argument.
    fn named(&mut self, pid: u32, call: &Call<'_>, folder: &str, at: usize) -> Result<String, &'static str> {
        let path = call.arguments.get(at).and_then(|path| string(path)).ok_or("a path is cut off or none")?;
        self.resolve(pid, folder, &path).ok_or("the folder that a path starts from is unknown; record with -y")
    }

    fn opened(
        &mut self,
        pid: u32,
        call: &Call<'_>,
        folder: &str,
        at: usize,
        flags: &str,
        span: Span,
    ) -> Result<(), &'static str> {
        let number = call.result.unwrap_or(-1);
        self.learn_folder(pid, folder);
        let flag = |name: &str| flags.split('|').any(|flag| flag == name);
        let unnamed = flag("O_TMPFILE");
        let path = match call.result_path.as_deref().filter(|path| path.starts_with('/')) {
            Some(leads) => {
                let given = call.arguments.get(at).and_then(|path| string(path));
                if let Some(given) = given.and_then(|given| self.as_given(pid, folder, &given)).filter(|_| !unnamed) {
                    self.links.learn(&given, leads, flag("O_DIRECTORY") || flag("O_PATH"));
                }
                // The kernel gives the number in such a name again.
                if unnamed { format!("{leads}#{}", self.files.len()) } else { leads.to_owned() }
            }
            // The call names the folder of a file that has no name.
            None if unnamed => format!("{}/#{}", self.named(pid, call, folder, at)?, self.files.len()),
            None => self.named(pid, call, folder, at)?,
        };
        let opening = Opening {
            writes: flag("O_WRONLY") || flag("O_RDWR"),
            appends: flag("O_APPEND"),
            creates: flag("O_CREAT") || unnamed,
            exclusive: flag("O_EXCL") || unnamed,
            truncates: flag("O_TRUNC"),
            syncs: flag("O_SYNC") || flag("O_DSYNC"),
        };
        if flag("O_DIRECTORY") {
            let id = self.recorded.path(&path);
            self.recorded.folder(id);
        }
        if flag("O_DIRECT") {
            self.recorded.leave_out("O_DIRECT: the replay goes through the page cache");
        }
        self.open(pid, number, &path, opening, flag("O_CLOEXEC"), span);
        Ok(())
    }

    fn moved(
        &mut self,
        pid: u32,
        argument: &str,
        at: Option<u64>,
        bytes: u64,
        writes: bool,
        span: Span,
    ) -> Result<(), &'static str> {
        let Some(file) = self.file(pid, argument) else { return Ok(()) };
        let file = &mut self.files[file];
        let offset = match at {
            Some(offset) => offset,
            None if writes && file.appends => AT_END,
            None => file.position,
        };
        if offset != AT_END && offset.saturating_add(bytes) > MOST_FILE_BYTES {
            return Err(TOO_LARGE);
        }
        if at.is_none() && offset != AT_END {
            file.position = file.position.saturating_add(bytes);
        }
        let act = if writes { Act::Write(file.open, offset, bytes) } else { Act::Read(file.open, offset, bytes) };
        self.recorded.push(span, act);
        Ok(())
    }

    fn sought(&mut self, pid: u32, argument: &str, to: u64, from_end: bool) {
        let Some(file) = self.file(pid, argument) else { return };
        let file = &mut self.files[file];
        file.position = to;
        if from_end {
            // The end of a file is at least where a position before it is.
            self.recorded.push(None, Act::OpenSize(file.open, to));
        }
    }

    fn doubled(&mut self, pid: u32, argument: &str, number: i64, closed_by_exec: bool) {
        // dup2 of a descriptor onto itself leaves it as it is.
        if descriptor(argument).is_some_and(|(from, _)| from == number) {
            return;
        }
        if let Some(file) = self.file(pid, argument) {
            self.give(pid, number, Descriptor { file, closed_by_exec });
        } else {
            self.close(pid, number, None);
        }
    }

    fn deleted(&mut self, pid: u32, call: &Call<'_>, folder: &str, at: usize, span: Span) -> Result<(), &'static str> {
        let path = self.named(pid, call, folder, at)?;
        let path = self.recorded.path(&path);
        self.recorded.push(span, Act::Delete(path));
        Ok(())
    }

    fn renamed(
        &mut self,
        pid: u32,
        call: &Call<'_>,
        folders: [&str; 2],
        at: [usize; 2],
        span: Span,
    ) -> Result<(), &'static str> {
        let (from, to) = (self.named(pid, call, folders[0], at[0])?, self.named(pid, call, folders[1], at[1])?);
        let (from, to) = (self.recorded.path(&from), self.recorded.path(&to));
        self.recorded.push(span, Act::Rename(from, to));
        Ok(())
    }

    fn looked_up(
        &mut self,
        pid: u32,
        call: &Call<'_>,
        folder: &str,
        at: usize,
        says: &str,
        span: Span,
    ) -> Result<(), &'static str> {
        // Without a path it is about the descriptor.
        if call.arguments.get(at).is_some_and(|path| *path == "\"\"" || *path == "NULL") {
            return self.has_size(pid, folder, says);
        }
        let path = self.named(pid, call, folder, at)?;
        let path = self.recorded.path(&path);
        if says.contains("S_IFDIR") {
            self.recorded.folder(path);
            return Ok(());
        }
        if says.contains("mode=S_IF") && !says.contains("S_IFREG") {
            return Ok(());
        }
        if let Some(bytes) = size(says)? {
            self.recorded.push(None, Act::Size(path, bytes));
        }
        self.recorded.push(span, Act::LookUp(path));
        Ok(())
    }

    fn has_size(&mut self, pid: u32, argument: &str, says: &str) -> Result<(), &'static str> {
        let Some(file) = self.file(pid, argument) else { return Ok(()) };
        if says.contains("S_IFDIR") {
            let path = self.recorded.path(&self.files[file].path);
            self.recorded.folder(path);
        } else if let Some(bytes) = size(says)?.filter(|_| says.contains("S_IFREG")) {
            self.recorded.push(None, Act::OpenSize(self.files[file].open, bytes));
        }
        Ok(())
    }
}
