//! What a process may have of memory, stacks and file sizes, and what it keeps when it runs another program: the volume
//! that is mapped into it is not its own.

use crate::report::{Report, compiled, storing};
use pocketstone_testing::{or_skip, program};
use pocketstone_tests::command::run;
use std::fs;
use std::process::Command;

const WAYS: [&str; 6] = ["address space", "locked", "locked in future", "size", "small stack", "handler"];

#[test]
fn limits_are_those_of_the_program() {
    let compiler = or_skip!(program("cc", "gcc"));
    let place = or_skip!(storing());
    let volume = place.volume(&["-o", "preload=append"]);
    let limits = compiled(&compiler, &place, "limits", include_str!("limits.c"), &[]);
    let file = volume.path().join("file");
    for way in WAYS {
        let report = Report::at(place.path(&format!("report of {way}")));
        let said = |mut command: Command| {
            fs::write(&file, vec![b'x'; 51_200]).expect("a file");
            run(command.arg(way).arg(&file)).ends_with(0).out
        };
        let alone = said(Command::new(&limits));
        assert_eq!(said(report.run(&limits)), alone, "{way}\n{}", report.text());
    }
    volume.end();
}

/// As many sessions as there are programs, not as were ever started.
#[test]
fn a_process_that_runs_one_program_after_the_other_is_attached_once() {
    let compiler = or_skip!(program("cc", "gcc"));
    let place = or_skip!(storing());
    let volume = place.volume(&["-o", "preload=append"]);
    let limits = compiled(&compiler, &place, "limits", include_str!("limits.c"), &[]);
    let file = volume.path().join("file");
    fs::write(&file, vec![b'x'; 51_200]).expect("a file");
    let report = Report::at(place.path("report"));
    let mut child = report.run("/bin/sh");
    child.arg("-c").arg("\"$0\" again \"$1\" 60; ls /proc/$2/fd | wc -l; exec \"$0\" again \"$1\" 60");
    let said = run(child.arg(&limits).arg(&file).arg(volume.server().to_string())).ends_with(0);
    let descriptors: Vec<u32> = said.out.lines().filter_map(|line| line.trim().parse().ok()).collect();
    let [while_others_run] = descriptors[..] else { panic!("{said}") };
    assert!(while_others_run < 40, "{said}");
    assert_eq!(said.out.matches("done").count(), 2, "{said}");
    let (reads, writes) = report.direct();
    // Of the last of each: one that becomes another program says nothing.
    assert!(reads > 2 * 50 && writes > 2 * 50, "{}", report.text());
    volume.end();
}
