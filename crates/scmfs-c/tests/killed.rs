//! A process in Python acknowledges what it has stored, and is killed: everything that it acknowledged is there.

use crate::support::{assert_clean, call, library, message, opened, text};
use pocketstone_testing::{or_skip, program};
use scmfs::volume::scmfs_volume_create;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const RECORD_BYTES: u64 = 16;

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let python = or_skip!(program("python3", "python3"));
    for acknowledged in [1, 50, 400] {
        let folder = tempfile::tempdir().expect("a folder");
        let region = folder.path().join("volume");
        let name = text(region.to_str().expect("UTF-8"));
        assert_eq!(call!(scmfs_volume_create(name.as_ptr(), 16 << 20, std::ptr::null())), 0, "{}", message());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/killed.py");
        let mut child = Command::new(&python)
            .args([script.as_ref(), region.as_os_str(), library("libscmfs.so").as_os_str()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut last = None;
        for line in lines.by_ref().take(acknowledged) {
            last = Some(line.expect("a line"));
        }
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
        // It went on until the signal came. A line is one write to a pipe: it came whole or not at all.
        last = lines.map_while(Result::ok).last().or(last);
        let last: u64 = last.expect("an acknowledgement").parse().expect("a number");

        let fs = opened(&region);
        let log = fs.read("log").expect("the log");
        let records = log.len() as u64 / RECORD_BYTES;
        assert!(log.len() as u64 % RECORD_BYTES == 0 && records > last, "{} bytes, {last} acknowledged", log.len());
        for (number, record) in log.chunks(RECORD_BYTES as usize).enumerate() {
            assert_eq!(record, format!("{number:015}\n").as_bytes());
        }
        let state = fs.read("state").expect("the state");
        let of: u64 = String::from_utf8_lossy(&state[..15]).parse().expect("a number");
        assert!(of >= last && of < records, "the state of {of}, {last} acknowledged");
        assert_eq!(state, format!("{of:015}\n").repeat(500).as_bytes(), "all of one state");
        fs.into_volume().close().expect("it closes");
        assert_clean(&region);
    }
}
