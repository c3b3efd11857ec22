//! What a test may need of a machine. A test without it is skipped, and every skip is counted.
//!
//! A skip says so on standard error and appends a line to the file that `POCKETSTONE_SKIPPED` names, from which
//! `scripts/skipped` sums up. Where `REQUIRE` has the need's word, it is a failure: `REQUIRE=qemu,root make test`.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::panic::Location;
use std::path::PathBuf;

/// What a test may need beyond Rust and a C compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A virtual board.
    Qemu,
    /// The rights of the superuser.
    Root,
    /// File systems in user space.
    Fuse,
    /// Mount and user namespaces.
    Namespaces,
    /// Something that the kernel of this machine may lack, or a device it may not have.
    Kernel,
    /// A program that a package brings.
    Programs,
    /// A suite of others that `scripts/suites` builds.
    Suites,
    /// A library of a database engine, or Java for H2.
    Engines,
    /// A browser.
    Browser,
    /// Rust's standard library for programs in a browser.
    Wasm,
    /// A checkout with git, of which files can be listed and clones be made.
    Git,
    /// The published files that `POCKETSTONE_REFERENCE` names the folder of.
    ReferenceData,
}

/// Every need there is.
pub const ALL: [Need; 12] = [
    Need::Qemu,
    Need::Root,
    Need::Fuse,
    Need::Namespaces,
    Need::Kernel,
    Need::Programs,
    Need::Suites,
    Need::Engines,
    Need::Browser,
    Need::Wasm,
    Need::Git,
    Need::ReferenceData,
];

impl Need {
    /// Its word in `REQUIRE`, and in the sum of what was skipped.
    pub const fn word(self) -> &'static str {
        match self {
            Need::Qemu => "qemu",
            Need::Root => "root",
            Need::Fuse => "fuse",
            Need::Namespaces => "namespaces",
            Need::Kernel => "kernel",
            Need::Programs => "programs",
            Need::Suites => "suites",
            Need::Engines => "engines",
            Need::Browser => "browser",
            Need::Wasm => "wasm",
            Need::Git => "git",
            Need::ReferenceData => "reference-data",
        }
    }

    /// What helps where it is missing.
    pub const fn cure(self) -> &'static str {
        match self {
            Need::Qemu => "sudo apt-get install qemu-system-arm",
            Need::Root => "run the tests as root",
            Need::Fuse => "load the kernel's module fuse and run the tests as root",
            Need::Namespaces => "run the tests as root, in a container with CAP_SYS_ADMIN",
            Need::Kernel => "run the tests on a newer kernel, or on a machine with what is named",
            Need::Wasm => "rustup target add wasm32-unknown-unknown",
            Need::Programs | Need::Browser => "scripts/setup test, or install the package that is named",
            Need::Suites => "scripts/suites",
            Need::Engines => "sudo apt-get install libdb5.3-sql default-jdk-headless maven, then scripts/java",
            Need::Git => "run the tests in a clone made with git",
            Need::ReferenceData => "set POCKETSTONE_REFERENCE to the folder of the published files",
        }
    }

    /// Counts that a test, or a part of one, is skipped, because this need is not met for the reason `why`.
    ///
    /// # Panics
    ///
    /// Where `REQUIRE` says that this machine meets the need.
    #[track_caller]
    pub fn lacks(self, why: impl std::fmt::Display) -> Skip {
        let why = flat(&why.to_string());
        if required(&std::env::var("REQUIRE").unwrap_or_default()).contains(&self) {
            panic!("REQUIRE has {}, and {why}; fix: {}", self.word(), self.cure());
        }
        let line = line(self, &test(Location::caller()), &why);
        // Written, not printed: the test runner keeps to itself what a passing test prints.
        let _ = writeln!(std::io::stderr(), "skipped: {why}; fix: {}", self.cure());
        if let Some(path) = std::env::var_os("POCKETSTONE_SKIPPED").filter(|path| !path.is_empty()) {
            let mut file = OpenOptions::new().append(true).create(true).open(&path).expect("POCKETSTONE_SKIPPED");
            // One write: several programs append at once.
            file.write_all(line.as_bytes()).expect("POCKETSTONE_SKIPPED");
        }
        Skip(())
    }
}

/// That a test was counted as skipped: only [`Need::lacks`] makes one.
#[derive(Debug, Clone, Copy)]
#[must_use = "the test ends where something that it needs is missing"]
pub struct Skip(());

impl Skip {
    /// Ends a test: `return skip.end()`.
    pub fn end(self) {}
}

/// What is there, or the end of the test: what is missing was counted where it was found missing.
#[macro_export]
macro_rules! or_skip {
    ($found:expr) => {
        match $found {
            Ok(found) => found,
            Err(skip) => return $crate::Skip::end(skip),
        }
    };
}

/// The needs in a list of words such as `qemu,root`; `all` is every one.
///
/// # Panics
///
/// If a word is none of a need: a typing error must not switch a requirement off.
pub fn required(words: &str) -> Vec<Need> {
    let of = |word: &str| match ALL.into_iter().find(|need| need.word() == word) {
        Some(need) => vec![need],
        None if word == "all" => ALL.to_vec(),
        None => panic!("REQUIRE: `{word}` is none of {}", ALL.map(Need::word).join(", ")),
    };
    words.split([',', ' ']).filter(|word| !word.is_empty()).flat_map(of).collect()
}

/// The test that runs in this thread: the program's name without Cargo's digest and the test's, or the place where it
/// was found missing if this is no test's own thread.
fn test(place: &Location) -> String {
    let program = std::env::current_exe().ok().and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
    let program = program.unwrap_or_default();
    let program = program.rsplit_once('-').map_or(&*program, |(name, _)| name);
    match std::thread::current().name() {
        Some(name) if name != "main" => format!("{program}::{name}"),
        _ => format!("{program}::{}:{}", place.file(), place.line()),
    }
}

/// On one line, without the tabs that part columns.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn line(need: Need, test: &str, why: &str) -> String {
    format!("{}\t{}\t{why}\t{}\n", need.word(), flat(test), need.cure())
}

/// Whether this process has the rights of the superuser.
///
/// # Errors
///
/// A counted [`Skip`] where it has not.
#[track_caller]
pub fn root() -> Result<(), Skip> {
    // The folder belongs to the effective user.
    match std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        true => Ok(()),
        false => Err(Need::Root.lacks("this test needs root")),
    }
}

/// Whether file systems in user space can be mounted.
///
/// # Errors
///
/// A counted [`Skip`] where `/dev/fuse` cannot be opened or this is not root.
#[track_caller]
pub fn fuse() -> Result<(), Skip> {
    match OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Ok(_) => root(),
        Err(error) => Err(Need::Fuse.lacks(format_args!("no FUSE mounts: /dev/fuse: {error}"))),
    }
}

/// Where a program is that this machine may have.
pub fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps programs for the administrator where not every PATH looks.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Where a program of a Debian package is.
///
/// # Errors
///
/// A counted [`Skip`] where it is not installed.
#[track_caller]
pub fn program(name: &str, package: &str) -> Result<PathBuf, Skip> {
    let missing = || Need::Programs.lacks(format_args!("there is no {name}: sudo apt-get install {package}"));
    installed(name).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Output};

    #[test]
    fn the_words_of_require_are_known_and_a_wrong_one_is_told() {
        assert_eq!(required("qemu,root, fuse"), [Need::Qemu, Need::Root, Need::Fuse]);
        assert_eq!((required(""), required("all")), (vec![], ALL.to_vec()));
        let wrong = std::panic::catch_unwind(|| required("qemu,roof")).unwrap_err();
        assert!(wrong.downcast_ref::<String>().unwrap().contains("`roof` is none of qemu, root"));
        // What this run itself was given: with a wrong word in it this test fails, whatever is skipped.
        required(&std::env::var("REQUIRE").unwrap_or_default());
    }

    /// This test program's `is_skipped`, in a process of its own.
    fn skipping(require: &str, list: &std::path::Path) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "needs::tests::is_skipped", "--ignored"]);
        command.env("REQUIRE", require).env("POCKETSTONE_SKIPPED", list).output().unwrap()
    }

    #[test]
    #[ignore = "another test starts it"]
    fn is_skipped() {
        let found: Result<(), Skip> = Err(Need::Kernel.lacks("no\tsuch\nthing"));
        or_skip!(found);
        unreachable!("the test has ended");
    }

    #[test]
    fn a_skip_is_counted_with_its_test_and_is_a_failure_where_the_need_is_required() {
        let list = std::env::temp_dir().join(format!("pocketstone-skipped-{}", std::process::id()));
        let skipped = skipping("qemu", &list);
        assert!(skipped.status.success() && String::from_utf8_lossy(&skipped.stdout).contains("1 passed"));
        let counted = std::fs::read_to_string(&list).unwrap();
        let required = skipping("qemu,kernel", &list);
        let after = std::fs::read_to_string(&list).unwrap();
        std::fs::remove_file(&list).unwrap();
        let expected = "kernel\tpocketstone_testing::needs::tests::is_skipped\tno such thing\t";
        assert!(counted.starts_with(expected) && counted.lines().count() == 1, "{counted}");
        assert!(!required.status.success() && after == counted, "{required:?}");
        let said = String::from_utf8_lossy(&required.stdout).into_owned();
        assert!(said.contains("REQUIRE has kernel, and no such thing"), "{said}");
    }
}
