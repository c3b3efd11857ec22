//! Descriptors that are trusted without a question to the kernel: whatever makes a number mean another file, or an open
//! file append, is seen, or ends the trust.

use crate::report::{Report, compiled, storing};
use pocketstone_testing::{or_skip, program};
use pocketstone_tests::command::run;
use std::fs;
use std::process::Command;

const TRUSTED: &str = "descriptors: trusted";
const BY_ITSELF: &str = "an object makes system calls by itself";
const OWN: &str = "a thread or child may have descriptors of its own";
const OTHER: &str = "other B\nother B\n";
const APPENDED: &str = "at the place: stored, longer by 6\n";

const CODE: &str = "the program made code";

/// A way, what the program says, and what the report says of trust at its end.
const WAYS: [(&str, &str, &str); 42] = [
    ("nothing", "first A\n", TRUSTED),
    ("openat", "other B\n", TRUSTED),
    ("close", OTHER, TRUSTED),
    ("dup2", OTHER, TRUSTED),
    ("dup3", OTHER, TRUSTED),
    ("close_range", OTHER, TRUSTED),
    ("closefrom", OTHER, TRUSTED),
    ("mq_close", OTHER, TRUSTED),
    ("fclose", OTHER, TRUSTED),
    ("freopen", OTHER, TRUSTED),
    ("libc", OTHER, TRUSTED),
    ("number", OTHER, "the program made a system call by syscall(2)"),
    ("object", OTHER, BY_ITSELF),
    ("object that goes", "other B\n", TRUSTED),
    ("code by mprotect", OTHER, CODE),
    ("code by pkey_mprotect", OTHER, CODE),
    ("code by mmap", OTHER, CODE),
    ("code by shmat", OTHER, CODE),
    ("code by personality", OTHER, CODE),
    ("vfork", "first A\n", TRUSTED),
    ("spawn", "inherited B\nfirst A\n", TRUSTED),
    ("exec", "inherited B\n", TRUSTED),
    ("standard input", "inherited B\n", TRUSTED),
    ("copies", "copy A\ncopy A\ncopy A\ncopy A\ncopy A\nother B\n", TRUSTED),
    ("fork", "parent 100, child 100, mixed 0, offset 102400\n", TRUSTED),
    ("append", APPENDED, TRUSTED),
    ("append by another number", APPENDED, TRUSTED),
    ("append by a stream", APPENDED, TRUSTED),
    ("append by a child", APPENDED, TRUSTED),
    ("append by a child of vfork", APPENDED, TRUSTED),
    ("append by a program", APPENDED, TRUSTED),
    ("append by posix_spawn", APPENDED, TRUSTED),
    ("append by posix_spawnp", APPENDED, TRUSTED),
    ("append by posix_spawn of old", APPENDED, TRUSTED),
    ("append by posix_spawnp of old", APPENDED, TRUSTED),
    ("append by system", APPENDED, TRUSTED),
    ("message", APPENDED, TRUSTED),
    ("messages", APPENDED, TRUSTED),
    ("own table", "other B\nfirst A\n", OWN),
    ("clone", "first A\n", OWN),
    ("threads", "right\nright\nright\nright\n", TRUSTED),
    ("raw", OTHER, BY_ITSELF),
];

#[test]
fn whatever_a_descriptor_comes_to_mean_is_what_is_read() {
    let compiler = or_skip!(program("cc", "gcc"));
    let place = or_skip!(storing());
    let volume = place.volume(&["-o", "preload=write"]);
    let ways = compiled(&compiler, &place, "ways", include_str!("trust/ways.c"), &[]);
    let raw = compiled(&compiler, &place, "raw", include_str!("trust/ways.c"), &["-DRAW"]);
    let object = compiled(&compiler, &place, "object.so", include_str!("trust/object.c"), &["-shared", "-fPIC"]);
    let [a, b, c] = ["a", "b", "c"].map(|name| volume.path().join(name));
    let known = cfg!(target_arch = "x86_64") && version().starts_with("2.36");
    for (way, says, trust) in WAYS {
        fs::write(&a, "A".repeat(256 << 10)).expect("a file");
        fs::write(&b, "B".repeat(256 << 10)).expect("a file");
        fs::write(&c, vec![0; 256 << 10]).expect("a file");
        let report = Report::at(place.path(&format!("report of {way}")));
        let program = if way == "raw" { &raw } else { &ways };
        let ran = run(report.run(program).arg(way).args([&a, &b, &c, &object])).ends_with(0);
        assert_eq!(ran.out, says, "{way}");
        // A program that is replaced, and one that starts others, have several.
        assert!(!known || report.text().contains(trust), "{way}: {}", report.text());
        assert!(report.direct().0 + report.direct().1 > 1000, "{way}: {}", report.text());
        // A number that was seen to be opened is asked for no more, once there is trust.
        let all =
            ["nothing", "openat", "close", "copies", "standard input"].contains(&way) || way.starts_with("append");
        assert!(!known || !all || report.asked() < 2100, "{way}: {}", report.text());
    }
}

/// glibc's, as ldd(1) says.
fn version() -> String {
    let said = run(Command::new("ldd").arg("--version")).ends_with(0).out;
    said.lines().next().and_then(|line| line.rsplit(' ').next()).unwrap_or_default().to_owned()
}
