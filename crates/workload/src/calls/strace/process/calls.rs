//! What calls do to files and processes.

use super::super::argument::{TOO_LARGE, UNKNOWN, offset, place, pointed, size};
use super::super::line::{Call, descriptor, field, number, string};
use super::{Descriptor, Processes};
use crate::calls::recorded::{AT_END, Act, OpenId, Opening, Span};
use crate::calls::text::MOST_CALL_BYTES;
use crate::operation::MOST_FILE_BYTES;

/// The folder of calls that name none.
const HERE: &str = "AT_FDCWD";

/// A call that did not fail, and whose it is.
#[derive(Clone, Copy)]
struct Done<'a> {
    pid: u32,
    call: &'a Call<'a>,
    result: i64,
    span: Span,
}

impl<'a> Done<'a> {
    fn argument(&self, number: usize) -> Result<&'a str, &'static str> {
        self.call.arguments.get(number).copied().ok_or(UNKNOWN)
    }

    /// The argument that comes so many before the end.
    fn argument_from_end(&self, number: usize) -> Result<&'a str, &'static str> {
        self.call.arguments.iter().rev().nth(number).copied().ok_or(UNKNOWN)
    }

    /// Whether an argument that may be left out has a flag.
    fn has_flag(&self, number: usize, flag: &str) -> bool {
        self.call.arguments.get(number).is_some_and(|flags| flags.contains(flag))
    }

    fn bytes(&self) -> u64 {
        self.result as u64
    }

    /// The same where it ended, for what it did second.
    fn at_end(self) -> Self {
        Done { span: self.span.map(|(_, end)| (end, end)), ..self }
    }
}

impl Processes {
    /// Adds what a call did.
    ///
    /// # Errors
    /// Why it is not understood: `UNKNOWN` arguments, `TOO_LARGE` files, too many bytes at once, or a path that is cut
    /// off or starts from a folder that is not known.
    pub fn call(&mut self, pid: u32, call: &Call<'_>, span: Span) -> Result<(), &'static str> {
        self.process(pid);
        let Some(result) = call.result else { return Ok(()) };
        if result < 0 {
            return self.failed(pid, call);
        }
        let done = Done { pid, call, result, span };
        let known = self.opens_files(&done)?
            || self.moves_bytes(&done)?
            || self.changes_files(&done)?
            || self.changes_descriptors(&done)?
            || self.changes_names(&done)?
            || self.looks_at_files(&done)?
            || self.changes_processes(&done)?;
        if !known {
            self.leaves_out(&done);
        }
        Ok(())
    }

    /// A call that failed changes nothing, but says what there is not.
    fn failed(&mut self, pid: u32, call: &Call<'_>) -> Result<(), &'static str> {
        let (folder, at) = match call.name {
            "open" | "stat" | "lstat" | "stat64" | "lstat64" | "access" | "unlink" => (HERE, 0),
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

    /// Calls that open a file; whether this is one.
    fn opens_files(&mut self, done: &Done<'_>) -> Result<bool, &'static str> {
        match done.call.name {
            "open" => self.opened(done, HERE, 0, done.argument(1)?)?,
            "openat" => self.opened(done, done.argument(0)?, 1, done.argument(2)?)?,
            "openat2" => {
                let flags = field(done.argument(2)?, "flags=").ok_or(UNKNOWN)?;
                self.opened(done, done.argument(0)?, 1, flags)?;
            }
            "creat" => self.opened(done, HERE, 0, "O_WRONLY|O_CREAT|O_TRUNC")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Calls that read, write and seek; whether this is one.
    fn moves_bytes(&mut self, done: &Done<'_>) -> Result<bool, &'static str> {
        let moves = ["read", "write", "send", "copy_file"].iter().any(|word| done.call.name.contains(word));
        if moves && done.bytes() > MOST_CALL_BYTES {
            return Err("a call cannot move so many bytes");
        }
        match done.call.name {
            "read" | "readv" => self.moved(done, done.argument(0)?, None, false)?,
            "write" | "writev" => self.moved(done, done.argument(0)?, None, true)?,
            "pread64" | "pread" | "preadv" | "preadv2" => {
                self.moved(done, done.argument(0)?, offset(done.argument(3)?)?, false)?;
            }
            "pwrite64" | "pwrite" | "pwritev" | "pwritev2" => {
                self.moved(done, done.argument(0)?, offset(done.argument(3)?)?, true)?;
            }
            "sendfile" | "sendfile64" => {
                self.moved(done, done.argument(1)?, pointed(done.argument(2)?)?, false)?;
                self.moved(&done.at_end(), done.argument(0)?, None, true)?;
            }
            "copy_file_range" => {
                self.moved(done, done.argument(0)?, pointed(done.argument(1)?)?, false)?;
                self.moved(&done.at_end(), done.argument(2)?, pointed(done.argument(3)?)?, true)?;
            }
            "lseek" => self.sought(done, done.bytes(), done.argument(2)?)?,
            "_llseek" => self.sought(done, place(done.argument_from_end(1)?)?, done.argument_from_end(0)?)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Calls that change an open file, or make it durable, and truncate; whether this is one.
    fn changes_files(&mut self, done: &Done<'_>) -> Result<bool, &'static str> {
        match done.call.name {
            "fsync" => self.on_file(done, |open| Act::Sync(open, false))?,
            "fdatasync" => self.on_file(done, |open| Act::Sync(open, true))?,
            "fchown" | "fchown32" | "fchmod" => self.on_file(done, Act::SetAttributes)?,
            "ftruncate" | "ftruncate64" => {
                let bytes = place(done.argument_from_end(0)?)?;
                self.on_file(done, |open| Act::Truncate(open, bytes))?;
            }
            "fallocate" if done.argument(1)? == "0" => {
                let end = place(done.argument(2)?)?.saturating_add(place(done.argument(3)?)?);
                if end > MOST_FILE_BYTES {
                    return Err(TOO_LARGE);
                }
                self.on_file(done, |open| Act::Allocate(open, end))?;
            }
            "truncate" | "truncate64" => self.truncated(done)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Calls that close descriptors, double them, and say what closes them; whether this is one.
    fn changes_descriptors(&mut self, done: &Done<'_>) -> Result<bool, &'static str> {
        match done.call.name {
            "close" => {
                let (number, _) = descriptor(done.argument(0)?).ok_or(UNKNOWN)?;
                self.close(done.pid, number, done.span);
            }
            "close_range" => self.range_closed(done)?,
            "dup" | "dup2" | "dup3" => self.doubled(done, done.has_flag(2, "O_CLOEXEC"))?,
            "fcntl" | "fcntl64" if done.argument(1)?.starts_with("F_DUPFD") => {
                self.doubled(done, done.argument(1)? == "F_DUPFD_CLOEXEC")?;
            }
            "fcntl" | "fcntl64" if done.argument(1)? == "F_SETFD" => {
                let (number, _) = descriptor(done.argument(0)?).ok_or(UNKNOWN)?;
                let exec = done.argument(2)?.contains("FD_CLOEXEC");
                if let Some(descriptor) = self.table(done.pid).descriptors.get_mut(&number) {
                    descriptor.closed_by_exec = exec;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Calls that change the names in a folder, or list them; whether this is one.
    fn changes_names(&mut self, done: &Done<'_>) -> Result<bool, &'static str> {
        match done.call.name {
            "unlink" => self.deleted(done, HERE, 0)?,
            "unlinkat" if done.argument(2)?.contains("AT_REMOVEDIR") => self.recorded.leave_out("rmdir"),
            "unlinkat" => self.deleted(done, done.argument(0)?, 1)?,
            "rename" => self.renamed(done, [HERE; 2], [0, 1])?,
            "renameat" | "renameat2" if done.has_flag(4, "RENAME_EXCHANGE") => {
                self.recorded.leave_out("rename that exchanges");
            }
            "renameat" | "renameat2" => self.renamed(done, [done.argument(0)?, done.argument(2)?], [1, 3])?,
            "mkdir" => self.folder_made(done, HERE, 0)?,
            "mkdirat" => self.folder_made(done, done.argument(0)?, 1)?,
            "getdents" | "getdents64" => self.listed(done)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Calls that say what a file is; whether this is one.
    fn looks_at_files(&mut self, done: &Done<'_>) -> Result<bool, &'static str> {
        match done.call.name {
            "stat" | "lstat" | "stat64" | "lstat64" => self.looked_up(done, HERE, 0, done.argument(1)?)?,
            "access" => self.looked_up(done, HERE, 0, "")?,
            "faccessat" | "faccessat2" => self.looked_up(done, done.argument(0)?, 1, "")?,
            "newfstatat" | "fstatat64" => self.looked_up(done, done.argument(0)?, 1, done.argument(2)?)?,
            "statx" => self.looked_up(done, done.argument(0)?, 1, done.argument(4)?)?,
            "fstat" | "fstat64" => self.has_size(done.pid, done.argument(0)?, done.argument(1)?)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Calls that start processes, run programs in them, and change their folders; whether this is one.
    fn changes_processes(&mut self, done: &Done<'_>) -> Result<bool, &'static str> {
        match done.call.name {
            "chdir" => {
                let path = self.named(done.pid, done.call, HERE, 0)?;
                let id = self.recorded.path(&path);
                self.recorded.folder(id);
                self.process(done.pid).folder = path;
            }
            "fchdir" => {
                if let Some(file) = self.file(done.pid, done.argument(0)?) {
                    self.process(done.pid).folder = self.files[file].path.clone();
                }
            }
            "clone" | "clone3" | "fork" | "vfork" | "__clone2" => {
                let child = u32::try_from(done.result).map_err(|_| UNKNOWN)?;
                self.returned(done.pid, child, &done.call.arguments.join(","));
            }
            "execve" | "execveat" => {
                let gone = self.table(done.pid).descriptors.iter().filter(|(_, d)| d.closed_by_exec);
                let gone: Vec<i64> = gone.map(|(number, _)| *number).collect();
                gone.into_iter().for_each(|number| self.close(done.pid, number, None));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Counts what a replay has not. Calls that are nothing of files are not counted.
    fn leaves_out(&mut self, done: &Done<'_>) {
        match done.call.name {
            "mmap" | "mmap2" if done.argument(4).is_ok_and(|file| self.file(done.pid, file).is_some()) => {
                self.recorded.leave_out("mmap of a file: what is read or written through it is in no trace");
            }
            "chown" | "chmod" | "fchownat" | "fchmodat" | "utimensat" | "sync" | "syncfs" | "sync_file_range"
            | "msync" | "fallocate" | "link" | "linkat" | "symlink" | "symlinkat" | "rmdir" | "splice"
            | "io_submit" | "io_uring_enter" => self.recorded.leave_out(done.call.name),
            _ => {}
        }
    }

    /// The path that is an argument.
    fn named(&mut self, pid: u32, call: &Call<'_>, folder: &str, at: usize) -> Result<String, &'static str> {
        let path = call.arguments.get(at).and_then(|path| string(path)).ok_or("a path is cut off or none")?;
        self.resolve(pid, folder, &path).ok_or("the folder that a path starts from is unknown; record with -y")
    }

    fn opened(&mut self, done: &Done<'_>, folder: &str, at: usize, flags: &str) -> Result<(), &'static str> {
        let Done { pid, call, result, span } = *done;
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
        self.open(pid, result, &path, opening, flag("O_CLOEXEC"), span);
        Ok(())
    }

    fn moved(&mut self, done: &Done<'_>, argument: &str, at: Option<u64>, writes: bool) -> Result<(), &'static str> {
        let Some(file) = self.file(done.pid, argument) else { return Ok(()) };
        let (file, bytes) = (&mut self.files[file], done.bytes());
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
        self.recorded.push(done.span, act);
        Ok(())
    }

    fn sought(&mut self, done: &Done<'_>, to: u64, whence: &str) -> Result<(), &'static str> {
        let Some(file) = self.file(done.pid, done.argument(0)?) else { return Ok(()) };
        let file = &mut self.files[file];
        file.position = to;
        if whence == "SEEK_END" {
            // The end of a file is at least where a position before it is.
            self.recorded.push(None, Act::OpenSize(file.open, to));
        }
        Ok(())
    }

    /// Adds what was done to the open file of the first argument.
    fn on_file(&mut self, done: &Done<'_>, act: impl FnOnce(OpenId) -> Act) -> Result<(), &'static str> {
        if let Some(file) = self.file(done.pid, done.argument(0)?) {
            self.recorded.push(done.span, act(self.files[file].open));
        }
        Ok(())
    }

    fn truncated(&mut self, done: &Done<'_>) -> Result<(), &'static str> {
        let bytes = place(done.argument_from_end(0)?)?;
        let path = self.named(done.pid, done.call, HERE, 0)?;
        let path = self.recorded.path(&path);
        let open = self.recorded.open(done.span, path, Opening { writes: true, ..Opening::default() });
        let end = done.at_end().span;
        self.recorded.push(end, Act::Truncate(open, bytes));
        self.recorded.push(end, Act::Close(open));
        Ok(())
    }

    fn range_closed(&mut self, done: &Done<'_>) -> Result<(), &'static str> {
        let (first, last) = number(done.argument(0)?).zip(number(done.argument(1)?)).ok_or(UNKNOWN)?;
        let held = self.table(done.pid).descriptors.keys().filter(|n| (first..=last).contains(&(**n as u64)));
        let held: Vec<i64> = held.copied().collect();
        let at_exec = done.has_flag(2, "CLOSE_RANGE_CLOEXEC");
        for number in held {
            match self.table(done.pid).descriptors.get_mut(&number).filter(|_| at_exec) {
                Some(descriptor) => descriptor.closed_by_exec = true,
                None => self.close(done.pid, number, None),
            }
        }
        Ok(())
    }

    fn doubled(&mut self, done: &Done<'_>, closed_by_exec: bool) -> Result<(), &'static str> {
        let Done { pid, result: number, .. } = *done;
        let argument = done.argument(0)?;
        // dup2 of a descriptor onto itself leaves it as it is.
        if descriptor(argument).is_some_and(|(from, _)| from == number) {
            return Ok(());
        }
        match self.file(pid, argument) {
            Some(file) => self.give(pid, number, Descriptor { file, closed_by_exec }),
            None => self.close(pid, number, None),
        }
        Ok(())
    }

    fn deleted(&mut self, done: &Done<'_>, folder: &str, at: usize) -> Result<(), &'static str> {
        let path = self.named(done.pid, done.call, folder, at)?;
        let path = self.recorded.path(&path);
        self.recorded.push(done.span, Act::Delete(path));
        Ok(())
    }

    fn renamed(&mut self, done: &Done<'_>, folders: [&str; 2], at: [usize; 2]) -> Result<(), &'static str> {
        let from = self.named(done.pid, done.call, folders[0], at[0])?;
        let to = self.named(done.pid, done.call, folders[1], at[1])?;
        let (from, to) = (self.recorded.path(&from), self.recorded.path(&to));
        self.recorded.push(done.span, Act::Rename(from, to));
        Ok(())
    }

    fn folder_made(&mut self, done: &Done<'_>, folder: &str, at: usize) -> Result<(), &'static str> {
        let path = self.named(done.pid, done.call, folder, at)?;
        let path = self.recorded.path(&path);
        self.recorded.folder(path);
        self.recorded.push(done.span, Act::MakeFolder(path));
        Ok(())
    }

    fn listed(&mut self, done: &Done<'_>) -> Result<(), &'static str> {
        if let Some(file) = self.file(done.pid, done.argument(0)?) {
            let path = self.recorded.path(&self.files[file].path);
            self.recorded.folder(path);
            self.recorded.push(done.span, Act::List(self.files[file].open));
        }
        Ok(())
    }

    fn looked_up(&mut self, done: &Done<'_>, folder: &str, at: usize, says: &str) -> Result<(), &'static str> {
        let Done { pid, call, span, .. } = *done;
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
