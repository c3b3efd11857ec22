//! Programs with the library loaded that have nothing to do with a mount: they do what they do without it.

use pocketstone_testing::{library, or_skip, program};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The tests do not name the crate: they would have its functions themselves.
fn preload() -> PathBuf {
    library("libscmfs_preload.so")
}

fn compiled(compiler: &Path, folder: &Path, name: &str, source: &str) -> PathBuf {
    let (program, file) = (folder.join(name), folder.join(format!("{name}.c")));
    std::fs::write(&file, source).unwrap();
    let flags = ["-O1", "-Wall", "-Wno-nonnull", "-Wno-unused-result", "-pthread", "-o"];
    let made = Command::new(compiler).args(flags).arg(&program).arg(&file).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    program
}

fn ran(program: &Path, folder: &Path, loaded: bool) -> Output {
    let mut command = Command::new(program);
    command.current_dir(folder);
    if loaded {
        command.env("LD_PRELOAD", preload()).env("SCMFS_PRELOAD_REPORT", folder.join("report"));
    }
    command.output().unwrap()
}

/// What it says is the same, with the library and without.
fn expect_the_same(name: &str, source: &str) -> String {
    let Ok(compiler) = program("cc", "gcc") else { return String::new() };
    let home = tempfile::tempdir().unwrap();
    let program = compiled(&compiler, home.path(), name, source);
    let [without, with] = [false, true].map(|loaded| ran(&program, home.path(), loaded));
    let said = String::from_utf8_lossy(&without.stdout).into_owned();
    assert_eq!(String::from_utf8_lossy(&with.stdout), said);
    assert_eq!((with.status.code(), &with.stderr), (without.status.code(), &without.stderr));
    assert_eq!(without.status.code(), Some(0), "{said}");
    let report = std::fs::read_to_string(home.path().join("report")).unwrap();
    // A line of each process: none of them met a mount.
    assert!(report.lines().count() > 0 && report.lines().all(|line| line.ends_with("used long enough")), "{report}");
    said
}

#[test]
fn calls_that_fail_fail_in_the_same_way() {
    drop(or_skip!(program("cc", "gcc")));
    let said = expect_the_same("errors", include_str!("loaded/errors.c"));
    assert!(said.contains("read EBADF: -1 9") && said.contains("nonblocking: -1 11"), "{said}");
}

#[test]
fn a_thread_that_waits_can_be_cancelled() {
    drop(or_skip!(program("cc", "gcc")));
    let said = expect_the_same("cancel", include_str!("loaded/cancel.c"));
    let expected = ["read", "write", "stdio", "open", "sendmsg"].map(|name| format!("{name}: cleaned up, cancelled\n"));
    assert_eq!(said, expected.concat());
}

#[test]
fn signal_handlers_and_forks_may_read_and_write() {
    drop(or_skip!(program("cc", "gcc")));
    let said = expect_the_same("signals", include_str!("loaded/signals.c"));
    assert!(said.ends_with("child 0\n"), "{said}");
}

#[test]
fn it_is_off_when_it_is_told_to_be() {
    let sh = or_skip!(program("sh", "dash"));
    let home = tempfile::tempdir().unwrap();
    let report = home.path().join("report");
    for (wanted, reports) in [("off", false), ("read", true), ("write", true), ("nonsense", true)] {
        let _ = std::fs::remove_file(&report);
        let mut command = Command::new(&sh);
        command.args(["-c", "echo said"]).env("LD_PRELOAD", preload()).env("SCMFS_PRELOAD", wanted);
        let output = command.env("SCMFS_PRELOAD_REPORT", &report).output().unwrap();
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"said\n"[..], &b""[..]));
        assert_eq!(report.exists(), reports, "{wanted}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn stdio_is_seen_as_well() {
    let sh = or_skip!(program("sh", "dash"));
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(sh);
    command.args(["-c", "seq 1 3 | sort -r"]).env("LD_PRELOAD", preload()).env("SCMFS_PRELOAD_REPORT", "stderr");
    let output = command.current_dir(home.path()).output().unwrap();
    assert_eq!(output.stdout, b"3\n2\n1\n");
    let said = String::from_utf8_lossy(&output.stderr);
    // glibc has seven or eight of them, in which nothing has changed since 2.36.
    assert!(said.contains("functions of libc replaced: 7") || said.contains("functions of libc replaced: 8"), "{said}");
}
