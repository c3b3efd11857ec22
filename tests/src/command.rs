//! The command `pocketstone` as its user meets it: a process with words and an exit status.

use crate::project;
use pocketstone_board::Board;
use pocketstone_testing::Skip;
pub use pocketstone_testing::wait::poll;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The command under test: `$POCKETSTONE_BIN`, else what was built last, debug or release.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("POCKETSTONE_BIN").filter(|p| !p.is_empty()) {
        return path.into();
    }
    let built = ["release", "debug"].map(|kind| project().join("target").join(kind).join("pocketstone"));
    let when = |path: &PathBuf| std::fs::metadata(path).and_then(|facts| facts.modified()).ok();
    let found = built.into_iter().filter(|path| path.exists()).max_by_key(when);
    found.expect("there is no pocketstone to test; build it: make build")
}

/// `pocketstone` with arguments, in `folder`.
pub fn pocketstone(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.current_dir(folder).args(arguments);
    command
}

/// What a command that has ended said.
pub struct Ran {
    /// What was run, for messages.
    pub words: String,
    /// Its exit status; `None` where a signal ended it.
    pub status: Option<i32>,
    /// What it wrote to standard output.
    pub out: String,
    /// What it wrote to standard error.
    pub err: String,
}

impl Ran {
    /// The exit status is `status`, and nothing panicked.
    #[track_caller]
    pub fn ends_with(self, status: i32) -> Self {
        assert_eq!(self.status, Some(status), "the exit status of {self}");
        assert!(!self.err.contains("panicked at"), "a panic of {self}");
        self
    }

    /// Standard output has all these words.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.out.contains(word), "{word:?} is not in the output of {self}");
        }
        self
    }

    /// Standard error has all these words.
    #[track_caller]
    pub fn complains(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in the complaint of {self}");
        }
        self
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ran { words, status, out, err } = self;
        write!(f, "`{words}`\nstatus: {status:?}\n--- output\n{out}\n--- errors\n{err}")
    }
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Ran {
    let words = format!("{command:?}");
    let output = command.output().unwrap_or_else(|e| panic!("{words}: {e}"));
    ran(words, &output)
}

/// What an ended command's output says.
pub fn ran(words: String, output: &Output) -> Ran {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { words, status: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// Runs `pocketstone` in `folder` to its end.
pub fn lab(folder: &Path, arguments: &[&str]) -> Ran {
    run(&mut pocketstone(folder, arguments))
}

/// Copies a program that is to be run then. By a process of its own: what this one has open for writing, all that it
/// starts have until they run their programs, and so long the copy cannot be run.
#[track_caller]
pub fn copy_program(from: impl AsRef<Path>, to: &Path) {
    run(Command::new("cp").arg(from.as_ref()).arg(to)).ends_with(0);
}

/// The shipped virtual board, opened once for a whole test program.
///
/// # Errors
///
/// A counted [`Skip`] where there is no QEMU.
#[track_caller]
pub fn board() -> Result<&'static Board, Skip> {
    static BOARD: OnceLock<Board> = OnceLock::new();
    crate::qemu()?;
    Ok(BOARD.get_or_init(|| crate::opened("virt-nand", |_| {}, false)))
}

/// Writes a file into `folder` and returns its path as text.
#[track_caller]
pub fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// `text` with `from`, which it must have once, replaced by `to`.
#[track_caller]
pub fn changed(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "{from:?} is to be found once in\n{text}");
    text.replace(from, to)
}

/// The profile of the shipped virtual board with one text in it replaced.
#[track_caller]
pub fn profile_with(from: &str, to: &str) -> String {
    let path = project().join("devices/virt-nand.toml");
    changed(&fs::read_to_string(path).expect("the shipped profile"), from, to)
}

/// A process, told apart from a later one of the same number by when it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its parent's number.
    pub parent: u32,
    /// Its name, of which the kernel keeps 15 characters.
    pub name: String,
    /// Whether it has ended and only waits to be noticed.
    pub ended: bool,
    started: u64,
}

impl Process {
    /// The process with that number, if there is one.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may hold anything, so it ends at the last parenthesis.
        let (left, right) = stat.rsplit_once(") ")?;
        let name = left.split_once(" (")?.1.to_owned();
        let fields: Vec<&str> = right.split_whitespace().collect();
        Some(Process {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            name,
            ended: matches!(fields.first(), Some(&"Z" | &"X")),
            started: fields.get(19)?.parse().ok()?,
        })
    }

    /// Sends it a signal, if it is still there.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid as i32).expect("a number");
        let _ = kill_process(pid, signal);
    }

    /// Kills it.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Every process of the machine.
    pub fn all() -> impl Iterator<Item = Self> {
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(Process::of)
    }

    /// Every process that runs, and whose program or folder is in `folder`.
    pub fn within(folder: &Path) -> Vec<Self> {
        let here = |process: &Process| {
            ["exe", "cwd"].iter().any(|link| process.link(link).is_some_and(|to| to.starts_with(folder)))
        };
        Process::all().filter(|process| !process.ended && here(process)).collect()
    }

    /// Every process that comes from process `pid`, itself not counted.
    pub fn descendants(pid: u32) -> Vec<Self> {
        let all: Vec<Process> = Process::all().collect();
        let mut found: Vec<Process> = Vec::new();
        let mut parents = vec![pid];
        while let Some(parent) = parents.pop() {
            for child in all.iter().filter(|p| p.parent == parent) {
                parents.push(child.pid);
                found.push(child.clone());
            }
        }
        found
    }

    /// The machines in QEMU that process `pid` runs; one that only tells its version is none.
    pub fn machines_of(pid: u32) -> Vec<Self> {
        let machine = |p: &Process| p.name == "qemu-system-arm" && !p.ended && p.cell().is_some();
        Self::descendants(pid).into_iter().filter(machine).collect()
    }

    /// The cell's folder in the cache that it works in.
    pub fn cell(&self) -> Option<PathBuf> {
        self.link("cwd").filter(|folder| folder.parent().is_some_and(|p| p.ends_with("cells")))
    }

    /// Whether it still runs.
    pub fn runs(&self) -> bool {
        Process::of(self.pid).is_some_and(|now| now.started == self.started && !now.ended)
    }

    /// Where a link in its folder of /proc leads.
    pub fn link(&self, name: impl AsRef<OsStr>) -> Option<PathBuf> {
        fs::read_link(Path::new("/proc").join(self.pid.to_string()).join(name.as_ref())).ok()
    }
}
