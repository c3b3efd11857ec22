//! A program under `scmfs run`, and what it says of the ways its calls took.

use pocketstone_testing::{Need, Skip};
use pocketstone_tests::command::run;
use pocketstone_tests::mounted::{Place, scmfs};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A place for volumes, where programs may store to a mount without the kernel.
#[track_caller]
pub fn storing() -> Result<Place, Skip> {
    match pocketstone_mount::stores_directly() {
        true => Place::new(),
        false => Err(Need::Kernel.lacks("direct stores: FUSE is ready for them from Linux 6.16 on")),
    }
}

/// Where the report of a run goes.
pub struct Report(PathBuf);

impl Report {
    pub fn at(path: PathBuf) -> Report {
        Report(path)
    }

    /// A program that reports there.
    pub fn run(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = scmfs(["run", "--report"]);
        command.arg(&self.0).arg(program);
        // So that both ways are mixed as much as can be.
        command.env("SCMFS_PRELOAD_REST_MS", "0");
        command
    }

    /// All of it.
    pub fn text(&self) -> String {
        fs::read_to_string(&self.0).unwrap_or_default()
    }

    fn calls(&self, what: &str) -> u64 {
        let lines = self.text();
        let of = lines.lines().filter_map(|line| line.split(&format!("{what} direct: ")).nth(1).map(str::to_owned));
        of.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()).sum()
    }

    /// Calls that went without the kernel, of all processes: reads and writes.
    pub fn direct(&self) -> (u64, u64) {
        (self.calls("reads"), self.calls("writes"))
    }

    /// Mappings without the kernel, of all processes.
    pub fn maps(&self) -> u64 {
        self.calls("maps")
    }

    /// Calls of fdatasync(2) that had nothing to do, of all processes.
    pub fn syncs(&self) -> u64 {
        self.calls("syncs")
    }

    /// Calls of the first process for which the kernel was asked what a descriptor is.
    pub fn asked(&self) -> u64 {
        let text = self.text();
        let number = text.split("looked at in ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        number.unwrap_or_else(|| panic!("no number: {text}"))
    }
}

/// The digests of all files below a folder, and their sizes and modes, by name.
pub fn tree(folder: &Path) -> String {
    let script = "find . -not -path './.git/*' -not -name .git -printf '%P %y %m %s\\n' | LC_ALL=C sort; \
                  find . -type f -not -path './.git/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum";
    let output = Command::new("sh").arg("-c").arg(script).current_dir(folder).output().expect("sh starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // A directory's size is the file system's own.
    let size_of_directory = |line: &str| line.contains(" d ") && !line.contains("  ");
    let keep =
        |line: &str| if size_of_directory(line) { line.rsplit_once(' ').map(|(l, _)| l.to_owned()) } else { None };
    text.lines().map(|line| keep(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

/// A program of C, or an object, made of a source at a place.
pub fn compiled(compiler: &Path, place: &Place, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (made, file) = (place.path(name), place.path(&format!("{name}.c")));
    fs::write(&file, source).expect("a source");
    let mut command = Command::new(compiler);
    run(command.args(["-O1", "-pthread", "-o"]).arg(&made).arg(&file).args(flags)).ends_with(0);
    made
}
