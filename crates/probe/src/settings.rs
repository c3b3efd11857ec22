//! Settings of the machine that are put back whatever happens, `kill -9` included.
//!
//! Before a value is changed, the value before it goes into a journal, which is made durable. A watchdog,
//! a process in a session of its own, waits at a pipe for the end of the process that changes settings, and
//! then writes back what the journal says. If both were killed, [`restore_left`] does so at the next start.
//!
//! Journal: a line of JSON for each change, `{"path": "/sys/..", "before": "128"}`, or `{"undo": ["cmd", ..]}` for what
//! a command has set. Its owner holds a lock on it (flock) as long as it lives.
//!
//! Of a journal whose name begins with `lab-` a lab far away has a copy. It says that too when it next connects, and
//! [`restore_copy`] puts back what the journal was lost for. That a journal was not lost but carried out is known by an
//! empty file `.restored` of its name, until the lab knows it.

use crate::lab_copy::{LabCopy, Said};
use crate::own_folder;
use pocketstone_core::board::{Setting, WAS};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The runner's subcommand that [`watchdog_main`] is.
pub const WATCHDOG: &str = "watchdog";

/// What the names of the folders of journals begin with: each user has one.
pub const JOURNALS: &str = "pocketstone-settings";
/// Ending of journals' names, and of what is left of those that are carried out and that a lab has a copy of.
pub const JOURNAL_ENDING: &str = "journal";
const RESTORED_ENDING: &str = "restored";
/// What the names of journals begin with that a lab has a copy of.
const COPIED: &str = "lab-";
/// How many journals it is known of at most that they are carried out: a lab that never comes back asks for none.
const MOST_RESTORED: usize = 32;
/// How long a command that sets something may take, and how often it is looked whether it has ended.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of what it says that are told at most.
const SAID_BYTES: u64 = 4096;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Change {
    File { path: PathBuf, before: String },
    Command { undo: Vec<String> },
}

/// Changed settings; dropping this puts them back, the last one first.
#[derive(Debug)]
pub struct Settings {
    changes: Vec<Change>,
    guard: Option<Guard>,
}

#[derive(Debug)]
struct Guard {
    journal: PathBuf,
    file: File,
    watchdog: Child,
    copy: Option<LabCopy>,
    /// The lab has been told of a setting.
    told: bool,
}

/// The folder of this user's journals. Nobody else may write one, for it is obeyed. Where commands set something that
/// outlives a reboot, so does the folder, which the lab chooses.
///
/// # Errors
/// `ErrorKind::Board` if it is somebody else's, or cannot be made.
pub fn journals() -> Result<PathBuf> {
    own_folder(&std::env::temp_dir(), JOURNALS)
}

impl Settings {
    /// Settings that are put back only while this process lives: for machines that are thrown away.
    pub fn unguarded() -> Settings {
        Settings { changes: Vec::new(), guard: None }
    }

    /// Settings with a journal in `folder` that a watchdog puts back if this process cannot: `program watchdog JOURNAL`
    /// is started. With `copy`, each is made when a lab has noted it as well.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the journal cannot be created, or the watchdog cannot be started.
    pub fn guarded(program: &Path, folder: &Path, copy: Option<LabCopy>) -> Result<Settings> {
        let journal = &folder.join(journal_name(copy.is_some()));
        let file = OpenOptions::new().create(true).append(true).open(journal);
        let file = file.board(|| format!("cannot create the journal {}", journal.display()))?;
        lock(&file, journal, FlockOperation::NonBlockingLockExclusive)?;
        sync_folder(journal)?;
        let mut watchdog = Command::new(program);
        watchdog.arg(WATCHDOG).arg(journal).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = watchdog.spawn().board(|| format!("cannot start the watchdog {}", program.display()));
        let mut guard = match started {
            Ok(watchdog) => Guard { journal: journal.to_owned(), file, watchdog, copy, told: false },
            Err(error) => {
                let _ = fs::remove_file(journal);
                return Err(error);
            }
        };
        // Before it has a session of its own, what ends this process may end it too.
        let mut ready = [0];
        let answer = guard.watchdog.stdout.as_mut().map(|out| out.read_exact(&mut ready));
        if !matches!(answer, Some(Ok(()))) {
            guard.remove();
            guard.end();
            return Err(Error::board(format!("{} {WATCHDOG} exited immediately", program.display()))
                .hint("it must be the pocketstone-runner built with this pocketstone"));
        }
        Ok(Settings { changes: Vec::new(), guard: Some(guard) })
    }

    /// Writes `value` and returns what was there before, both without white space around them.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the file or the journal cannot be written, or the file cannot be read or holds something
    /// else afterwards; a change is put back when this is dropped, in that case too.
    pub fn set(&mut self, path: &Path, value: &str) -> Result<String> {
        let read = || fs::read_to_string(path).board(|| format!("cannot read {}", path.display()));
        let before = in_force(&read()?).to_owned();
        if before == value {
            return Ok(before);
        }
        self.note(Change::File { path: path.to_owned(), before: before.clone() })?;
        write_value(path, value)?;
        let now = read()?;
        match in_force(&now) {
            now if now == value => Ok(before),
            now => Err(Error::board(format!("{} became `{now}`, not `{value}`", path.display()))),
        }
    }

    /// Makes a setting of a board.
    ///
    /// # Errors
    /// As [`Settings::set`]; `ErrorKind::Board` if a command cannot be started, fails, or takes longer than a minute.
    /// It is undone all the same.
    pub fn make(&mut self, setting: &Setting) -> Result<()> {
        match setting {
            Setting::File { file, value } => self.set(file, value).map(drop),
            Setting::Command { set, undo, read } => {
                let undo = match read {
                    Some(read) => with(undo, &said(read)?),
                    None => undo.clone(),
                };
                self.note(Change::Command { undo })?;
                run(set, Some(LIMIT))
            }
        }
    }

    /// Notes a change that is about to be made.
    fn note(&mut self, change: Change) -> Result<()> {
        if let Some(guard) = &mut self.guard {
            guard.note(&change)?;
        }
        self.changes.push(change);
        Ok(())
    }

    /// Puts everything back, the last change first, as dropping does.
    ///
    /// # Errors
    /// `ErrorKind::Board` if a value cannot be written; the others are.
    pub fn restore(mut self) -> Result<()> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<()> {
        let left = put_back(std::mem::take(&mut self.changes)).map_err(|(_, error)| error);
        let Some(mut guard) = self.guard.take() else { return left };
        // What could not be written stays in the journal: the watchdog tries it once more.
        if left.is_ok() {
            guard.remove();
        }
        guard.end();
        match left {
            Err(error) if guard.journal.exists() => Err(not_put_back(error, &guard.journal)),
            _ => Ok(()),
        }
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // Who wants to know calls `restore`.
        let _ = self.put_back();
    }
}

impl Guard {
    fn note(&mut self, change: &Change) -> Result<()> {
        let line = serde_json::to_string(change).board(|| "cannot write a journal's line".into())?;
        let noted = self.file.write_all(format!("{line}\n").as_bytes()).and_then(|()| self.file.sync_all());
        noted.board(|| format!("cannot write the journal {}", self.journal.display()))?;
        let Some(copy) = &mut self.copy else { return Ok(()) };
        self.told = true;
        copy.say(&Said::Setting { journal: name_of(&self.journal), line })
    }

    fn remove(&mut self) {
        let _ = self.file.set_len(0);
        match &mut self.copy {
            Some(copy) if self.told => {
                let _ = fs::rename(&self.journal, restored(&self.journal));
                // A lab that is gone asks when it is back.
                if copy.say(&Said::PutBack { journal: name_of(&self.journal) }).is_ok() {
                    forget_restored(&self.journal);
                }
            }
            _ => drop(fs::remove_file(&self.journal)),
        }
    }

    /// Lets the watchdog end: its pipe closes.
    fn end(&mut self) {
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

/// A name that no other journal on this machine has had.
fn journal_name(copied: bool) -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let copied = if copied { COPIED } else { "" };
    format!("{copied}{}-{}.{JOURNAL_ENDING}", since_epoch.as_nanos(), std::process::id())
}

fn name_of(journal: &Path) -> String {
    journal.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What says that a journal is carried out.
fn restored(journal: &Path) -> PathBuf {
    journal.with_extension(RESTORED_ENDING)
}

/// Forgets that a journal was carried out: the lab knows it.
pub fn forget_restored(journal: &Path) {
    let _ = fs::remove_file(restored(journal));
}

/// The value that a file of a setting holds, without white space around it. The kernel lists choices with the one in
/// force in brackets, such as `[none] mq-deadline kyber`, and takes only its name.
fn in_force(text: &str) -> &str {
    let mut chosen = text.split_whitespace().filter_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match (chosen.next(), chosen.next()) {
        (Some(word), None) if !word.is_empty() => word,
        _ => text.trim(),
    }
}

fn write_value(path: &Path, value: &str) -> Result<()> {
    let written = fs::write(path, format!("{value}\n"));
    written.board(|| format!("cannot write `{value}` to {}", path.display())).map_err(|e| e.hint("run as root"))
}

/// Writes a value that may be there already: what could not be changed cannot be written back, either.
fn write_back(path: &Path, before: &str) -> Result<()> {
    let unchanged = || fs::read_to_string(path).is_ok_and(|now| in_force(&now) == before);
    write_value(path, before).or_else(|error| if unchanged() { Ok(()) } else { Err(error) })
}

/// What undoes a setting, with what was there before.
fn with(undo: &[String], was: &str) -> Vec<String> {
    undo.iter().map(|word| word.replace(WAS, was)).collect()
}

/// What a command says of how something is set, without white space around it.
fn said(words: &[String]) -> Result<String> {
    let output = nameless_file()?;
    let failed = || format!("cannot read what `{}` says", words.join(" "));
    run_into(words, Some(LIMIT), output.try_clone().board(failed)?.into())?;
    let mut text = Vec::new();
    let mut output = output;
    output.rewind().and_then(|()| output.take(SAID_BYTES).read_to_end(&mut text)).board(failed)?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

/// Runs a command that sets something, or undoes that.
fn run(words: &[String], limit: Option<Duration>) -> Result<()> {
    run_into(words, limit, Stdio::null())
}

fn run_into(words: &[String], limit: Option<Duration>, output: Stdio) -> Result<()> {
    let line = words.join(" ");
    let Some((program, arguments)) = words.split_first() else {
        return Err(Error::user("a setting's command is empty").hint("correct `settings` in the board's profile"));
    };
    let failed = || format!("cannot run `{line}`");
    // What it leaves in the background may say something for as long as it likes: nobody waits for the end of that.
    // Where there is no room for that, an undo matters more than what it says.
    let errors = nameless_file().ok();
    let stderr = errors.as_ref().and_then(|file| file.try_clone().ok()).map_or_else(Stdio::null, Stdio::from);
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(output).process_group(0);
    let mut child = command.stderr(stderr).spawn().board(failed)?;
    let status = match limit {
        Some(limit) => ended_or_killed(&mut child, limit),
        None => child.wait().map(Some),
    };
    let status = status.board(failed)?;
    let why = match status {
        Some(status) if status.success() => return Ok(()),
        Some(status) => format!("failed ({status})"),
        None => format!("did not end within {} s and was killed", LIMIT.as_secs()),
    };
    let mut said = Vec::new();
    if let Some(mut errors) = errors {
        let read = errors.rewind().and_then(|()| errors.take(SAID_BYTES).read_to_end(&mut said));
        read.board(failed)?;
    }
    let error = Error::board(format!("`{line}` {why}: {}", String::from_utf8_lossy(&said).trim()));
    Err(error.hint("try it on the board, and correct `settings` in its profile"))
}

/// Waits for a child that leads a process group; `None` if it did not end in time, and its group was killed.
fn ended_or_killed(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let ended = pocketstone_process::ended_within(child, limit)?;
    if ended.is_none() {
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
        child.wait()?;
    }
    Ok(ended)
}

/// A file that is gone when nobody has it open any more.
fn nameless_file() -> Result<File> {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let path = std::env::temp_dir().join(format!("pocketstone-{}-{}", std::process::id(), since_epoch.as_nanos()));
    let failed = || format!("cannot make {}", path.display());
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path).board(failed)?;
    fs::remove_file(&path).board(failed)?;
    Ok(file)
}

/// Writes values back, the last change first. What failed comes back, oldest first, with the first error.
fn put_back(changes: Vec<Change>) -> std::result::Result<(), (Vec<Change>, Error)> {
    let mut failed: Option<(Vec<Change>, Error)> = None;
    for change in changes.into_iter().rev() {
        let put_back = match &change {
            // A device that went away has no setting any more.
            Change::File { path, .. } if !path.exists() => Ok(()),
            Change::File { path, before } => write_back(path, in_force(before)),
            // Nothing was to be undone: what a profile says today is refused if it is empty.
            Change::Command { undo } if undo.is_empty() => Ok(()),
            // However long it takes: half of it would leave the board in a state that nobody has asked for.
            Change::Command { undo } => run(undo, None),
        };
        if let Err(error) = put_back {
            match &mut failed {
                Some((left, _)) => left.insert(0, change),
                None => failed = Some((vec![change], error)),
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

fn lock(file: &File, journal: &Path, how: FlockOperation) -> Result<()> {
    rustix::fs::flock(file, how)
        .board(|| format!("the journal {} belongs to a running process", journal.display()))
        .map_err(|e| e.hint("wait until it has exited"))
}

fn sync_folder(journal: &Path) -> Result<()> {
    let folder = journal.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(folder).and_then(|f| f.sync_all());
    synced.board(|| format!("cannot make {} durable", folder.display()))
}

/// Writes back what a journal holds, and removes it.
fn restore(journal: &Path, how: FlockOperation) -> Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).open(journal);
    let file = file.as_mut().map_err(|e| Error::board(format!("cannot open {}: {e}", journal.display())))?;
    lock(file, journal, how)?;
    let mut text = String::new();
    file.read_to_string(&mut text).board(|| format!("cannot read {}", journal.display()))?;
    carry_out(&text, journal)?;
    // Another process may have waited for the lock: there is nothing left for it.
    let _ = file.set_len(0);
    let ended = match name_of(journal).starts_with(COPIED) {
        true => fs::rename(journal, restored(journal)),
        false => fs::remove_file(journal),
    };
    ended.board(|| format!("cannot remove {}", journal.display()))
}

/// Puts back what a journal or a copy of it says.
fn carry_out(text: &str, journal: &Path) -> Result<()> {
    let done = changes(text, journal).and_then(|changes| put_back(changes).map_err(|(_, error)| error));
    done.map_err(|error| not_put_back(error, journal))
}

/// Why what a journal says is not put back, with what the user does then.
fn not_put_back(error: Error, journal: &Path) -> Error {
    let cure = error.cure().map(|cure| format!("{cure}; or ")).unwrap_or_default();
    let by_hand = match name_of(journal).starts_with(COPIED) {
        // The lab would give its copy of one that is lost.
        true => format!("touch {}; rm -f {}", restored(journal).display(), journal.display()),
        false => format!("rm {}", journal.display()),
    };
    Error::board(format!("cannot put back what {} says", journal.display()))
        .because(error)
        .hint(format!("{cure}put it back by hand, and then: {by_hand}"))
}

/// What the lines of a journal say.
fn changes(text: &str, journal: &Path) -> Result<Vec<Change>> {
    // A line without its end was not durable: what it announces was not done.
    let whole = text.split_inclusive('\n').map_while(|line| line.strip_suffix('\n'));
    let change = |(n, line)| -> Result<Change> {
        serde_json::from_str(line).board(|| format!("line {} of the journal {} is damaged", n + 1, journal.display()))
    };
    whole.enumerate().map(change).collect()
}

/// Puts back what a lab's copy of a journal says, unless the journal in `folder` is or was carried out. That it is done
/// is known until [`forget_restored`].
///
/// # Errors
/// `ErrorKind::Board` if the copy is damaged, or a value cannot be put back.
pub fn restore_copy(folder: &Path, name: &str, text: &str) -> Result<()> {
    let journal = &folder.join(name);
    if !name.starts_with(COPIED) || journal.extension().is_none_or(|e| e != JOURNAL_ENDING) {
        return Err(Error::board(format!("{name:?} is no journal that a lab has a copy of")));
    }
    if journal.exists() {
        match restore(journal, FlockOperation::LockExclusive) {
            // Its watchdog was quicker.
            Err(_) if !journal.exists() => {}
            done => done?,
        }
    }
    if restored(journal).exists() {
        return Ok(());
    }
    carry_out(text, journal)?;
    fs::write(restored(journal), "").board(|| format!("cannot write to {}", folder.display()))
}

/// Restores what journals in `folder` hold whose processes, watchdogs included, are gone; returns how many.
/// A folder that does not exist has none.
///
/// # Errors
/// `ErrorKind::Board` if the folder cannot be listed, or a journal cannot be carried out; the others are.
pub fn restore_left(folder: &Path) -> Result<usize> {
    if !folder.exists() {
        return Ok(0);
    }
    let (mut restored, mut failure) = (0, None);
    let entries = fs::read_dir(folder).board(|| format!("cannot list {}", folder.display()))?;
    let paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    let mut known: Vec<&PathBuf> =
        paths.iter().filter(|path| path.extension().is_some_and(|e| e == RESTORED_ENDING)).collect();
    // Their names begin with the time.
    known.sort();
    for path in known.iter().rev().skip(MOST_RESTORED) {
        let _ = fs::remove_file(path);
    }
    for path in paths {
        if path.extension().is_none_or(|e| e != JOURNAL_ENDING) || in_use(&path) {
            continue;
        }
        match restore(&path, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => restored += 1,
            // Its watchdog was quicker.
            Err(_) if !path.exists() => {}
            Err(error) => failure = Some(error),
        }
    }
    failure.map_or(Ok(restored), Err)
}

fn in_use(journal: &Path) -> bool {
    let Ok(file) = File::open(journal) else { return true };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
}

/// The watchdog: waits until its standard input ends, then restores what the journal holds.
///
/// # Errors
/// `ErrorKind::User` if the arguments are not one journal; `ErrorKind::Board` if a value cannot be put back.
pub fn watchdog_main(arguments: &[String]) -> Result<()> {
    let [journal] = arguments else {
        return Err(Error::user("the watchdog takes one argument, its journal").hint("watchdog JOURNAL"));
    };
    let journal = Path::new(journal);
    // Neither the terminal's signals nor those to the runner's group reach another session. It fails where
    // this process leads a group already, which serves as well.
    let _ = rustix::process::setsid();
    let mut out = std::io::stdout();
    out.write_all(b"1").and_then(|()| out.flush()).board(|| "cannot tell that the watchdog is ready".into())?;
    let mut nothing = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut nothing);
    match journal.exists() {
        // A process that its end has caught between fork and exec still has the lock, for a moment.
        true => restore(journal, FlockOperation::LockExclusive),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
