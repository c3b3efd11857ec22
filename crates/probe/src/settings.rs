//! Settings of the machine that are put back whatever happens, `kill -9` included.
//!
//! Before a value is changed, the value before it goes into a journal, which is made durable. A watchdog,
//! a process in a session of its own, waits at a pipe for the end of the process that changes settings, and
//! then writes back what the journal says. If both were killed, [`restore_left`] does so at the next start.
//!
//! Journal: a line of JSON for each change, `{"path": "/sys/..", "before": "128"}`, or `{"undo": ["cmd", ..]}` for what
//! a command has set. Its owner holds a lock on it (flock) as long as it lives.

use pocketstone_core::board::Setting;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The runner's subcommand that [`watchdog_main`] is.
pub const WATCHDOG: &str = "watchdog";

/// Ending of journals' names.
pub const JOURNAL_ENDING: &str = "journal";

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
}

impl Settings {
    /// Settings that are put back only while this process lives: for machines that are thrown away.
    pub fn unguarded() -> Settings {
        Settings { changes: Vec::new(), guard: None }
    }

    /// Settings that a watchdog puts back if this process cannot: `program watchdog JOURNAL` is started.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the journal belongs to another process, what it holds cannot be restored, it cannot be
    /// created, or the watchdog cannot be started.
    pub fn guarded(program: &Path, journal: &Path) -> Result<Settings> {
        if journal.exists() {
            restore(journal, FlockOperation::NonBlockingLockExclusive)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(journal);
        let file = file.board(|| format!("cannot create the journal {}", journal.display()))?;
        lock(&file, journal, FlockOperation::NonBlockingLockExclusive)?;
        sync_folder(journal)?;
        let mut watchdog = Command::new(program);
        watchdog.arg(WATCHDOG).arg(journal).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = watchdog.spawn().board(|| format!("cannot start the watchdog {}", program.display()));
        let mut guard = match started {
            Ok(watchdog) => Guard { journal: journal.to_owned(), file, watchdog },
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
        let before = read()?.trim().to_owned();
        if before == value {
            return Ok(before);
        }
        self.note(Change::File { path: path.to_owned(), before: before.clone() })?;
        write_value(path, value)?;
        let now = read()?;
        match now.trim() == value {
            true => Ok(before),
            false => Err(Error::board(format!("{} became `{}`, not `{value}`", path.display(), now.trim()))),
        }
    }

    /// Makes a setting of a board.
    ///
    /// # Errors
    /// As [`Settings::set`]; `ErrorKind::Board` if a command cannot be started or fails. It is undone all the same.
    pub fn make(&mut self, setting: &Setting) -> Result<()> {
        match setting {
            Setting::File { file, value } => self.set(file, value).map(drop),
            Setting::Command { set, undo } => {
                self.note(Change::Command { undo: undo.clone() })?;
                run(set)
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
        let left = put_back(std::mem::take(&mut self.changes));
        if let Some(mut guard) = self.guard.take() {
            // What could not be written stays in the journal: the watchdog tries it once more.
            if left.is_ok() {
                guard.remove();
            }
            guard.end();
        }
        left.map_err(|(_, error)| error)
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
        let mut line = serde_json::to_vec(change).board(|| "cannot write a journal's line".into())?;
        line.push(b'\n');
        let noted = self.file.write_all(&line).and_then(|()| self.file.sync_all());
        noted.board(|| format!("cannot write the journal {}", self.journal.display()))
    }

    fn remove(&mut self) {
        let _ = self.file.set_len(0);
        let _ = fs::remove_file(&self.journal);
    }

    /// Lets the watchdog end: its pipe closes.
    fn end(&mut self) {
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

fn write_value(path: &Path, value: &str) -> Result<()> {
    let written = fs::write(path, format!("{value}\n"));
    written.board(|| format!("cannot write `{value}` to {}", path.display())).map_err(|e| e.hint("run as root"))
}

/// Runs a command that sets something.
fn run(words: &[String]) -> Result<()> {
    let line = words.join(" ");
    let Some((program, arguments)) = words.split_first() else {
        return Err(Error::user("a setting's command is empty").hint("correct `settings` in the board's profile"));
    };
    let failed = || format!("cannot run `{line}`");
    let ran = Command::new(program).args(arguments).stdin(Stdio::null()).output().board(failed)?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
    let error = Error::board(format!("`{line}` failed ({}): {said}", ran.status));
    Err(error.hint("try it on the board, and correct `settings` in its profile"))
}

/// Writes values back, the last change first. What failed comes back, oldest first, with the first error.
fn put_back(changes: Vec<Change>) -> std::result::Result<(), (Vec<Change>, Error)> {
    let mut failed: Option<(Vec<Change>, Error)> = None;
    for change in changes.into_iter().rev() {
        let put_back = match &change {
            // A device that went away has no setting any more.
            Change::File { path, .. } if !path.exists() => Ok(()),
            Change::File { path, before } => write_value(path, before),
            Change::Command { undo } => run(undo),
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
    let mut changes = Vec::new();
    for (n, line) in text.split_inclusive('\n').enumerate() {
        // A line without its end was not durable: what it announces was not done.
        let Some(line) = line.strip_suffix('\n') else { break };
        let change = serde_json::from_str(line);
        changes.push(change.board(|| format!("line {} of the journal {} is damaged", n + 1, journal.display()))?);
    }
    put_back(changes).map_err(|(_, error)| error)?;
    // Another process may have waited for the lock: there is nothing left for it.
    let _ = file.set_len(0);
    fs::remove_file(journal).board(|| format!("cannot remove {}", journal.display()))
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
    for path in entries.flatten().map(|e| e.path()) {
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
mod tests {
    use super::*;
    use pocketstone_testing::wait::until;

    fn tree() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&a, "1\n").unwrap();
        fs::write(&b, "ondemand\n").unwrap();
        (folder, a, b)
    }

    #[test]
    fn dropping_puts_the_first_values_back() {
        let (_folder, a, b) = tree();
        let mut settings = Settings::unguarded();
        assert_eq!(settings.set(&a, "0").unwrap(), "1");
        assert_eq!(settings.set(&a, "5").unwrap(), "0");
        assert_eq!(settings.set(&b, "performance").unwrap(), "ondemand");
        assert_eq!(fs::read_to_string(&a).unwrap(), "5\n");
        drop(settings);
        assert_eq!(fs::read_to_string(&a).unwrap(), "1\n");
        assert_eq!(fs::read_to_string(&b).unwrap(), "ondemand\n");
        let missing = Settings::unguarded().set(Path::new("/nowhere/x"), "1").unwrap_err();
        assert!(missing.chain().contains("/nowhere/x"));
    }

    #[test]
    fn what_commands_set_is_undone_in_the_opposite_order_also_by_what_is_left_of_a_dead_process() {
        let (folder, a, log) = (tempfile::tempdir().unwrap(), "a", "log");
        let at = |name: &str| folder.path().join(name).display().to_string();
        let words = |line: String| ["sh", "-c", &line].map(str::to_owned).to_vec();
        let command = |name: &str| Setting::Command {
            set: words(format!("echo {name} >> {}", at(log))),
            undo: words(format!("echo not {name} >> {}", at(log))),
        };
        fs::write(at(a), "1\n").unwrap();
        let mut settings = Settings::unguarded();
        settings.make(&command("one")).unwrap();
        settings.make(&Setting::File { file: at(a).into(), value: "2".into() }).unwrap();
        settings.make(&command("two")).unwrap();
        let failing = Setting::Command { set: words("echo why >&2; exit 3".into()), undo: words("exit 0".into()) };
        let error = settings.make(&failing).unwrap_err();
        assert!(error.chain().contains("3") && error.chain().contains("why"), "{}", error.chain());
        assert_eq!(fs::read_to_string(at(a)).unwrap(), "2\n");
        settings.restore().unwrap();
        assert_eq!(fs::read_to_string(at(log)).unwrap(), "one\ntwo\nnot two\nnot one\n");
        assert_eq!(fs::read_to_string(at(a)).unwrap(), "1\n");

        let left = serde_json::json!({"undo": words(format!("echo left >> {}", at(log)))}).to_string() + "\n";
        fs::write(at("1.journal"), left).unwrap();
        assert_eq!(restore_left(folder.path()).unwrap(), 1);
        assert!(fs::read_to_string(at(log)).unwrap().ends_with("left\n"));
    }

    #[test]
    fn a_left_journal_is_carried_out_once_and_not_while_its_owner_lives() {
        let (folder, a, b) = tree();
        let journal = folder.path().join("1.journal");
        let line = |path: &Path, before: &str| {
            serde_json::to_string(&Change::File { path: path.into(), before: before.into() }).unwrap() + "\n"
        };
        fs::write(&a, "7\n").unwrap();
        let gone = line(&folder.path().join("gone"), "1");
        // Twice the same file: the older value counts. The last line is not whole.
        let text = line(&a, "1") + &line(&a, "2") + &gone + line(&b, "powersave").trim_end();
        fs::write(&journal, text).unwrap();
        let owner = File::open(&journal).unwrap();
        lock(&owner, &journal, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(restore_left(folder.path()).unwrap(), 0);
        assert_eq!(fs::read_to_string(&a).unwrap(), "7\n");
        drop(owner);
        // A process that another test has just started holds the lock until it runs its program.
        until("the lock is free, and the journal carried out", || match restore_left(folder.path()).unwrap() {
            0 => false,
            restored => {
                assert_eq!(restored, 1);
                true
            }
        });
        assert_eq!(fs::read_to_string(&a).unwrap(), "1\n");
        assert_eq!(fs::read_to_string(&b).unwrap(), "ondemand\n");
        assert!(!journal.exists());
        assert_eq!(restore_left(folder.path()).unwrap(), 0);
        assert_eq!(restore_left(Path::new("/nowhere")).unwrap(), 0);
        fs::write(&journal, "nonsense\n").unwrap();
        assert!(restore_left(folder.path()).unwrap_err().chain().contains("line 1"));
        assert!(journal.exists());
    }

    #[test]
    fn a_program_that_is_no_watchdog_is_refused() {
        let (folder, ..) = tree();
        let journal = folder.path().join("1.journal");
        let error = Settings::guarded(Path::new("/bin/true"), &journal).unwrap_err();
        assert!(error.message().contains("exited immediately"), "{}", error.chain());
        let error = Settings::guarded(Path::new("/nowhere"), &journal).unwrap_err();
        assert!(error.message().contains("/nowhere"));
        assert!(watchdog_main(&[]).unwrap_err().cure().is_some());
    }
}
