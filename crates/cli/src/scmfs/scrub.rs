//! `scrub`: a look through a whole volume, which stays in use.

use crate::region;
use crate::target::{Target, tell};
use indicatif::{ProgressBar, ProgressStyle};
use pocketstone_cli::print_json;
use pocketstone_core::error::Context;
use pocketstone_core::units::format_bytes_rounded;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_mount::SCRUB;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// How often a server is asked how far it has come, at most.
const PERIOD: Duration = Duration::from_millis(200);

pub fn scrub(path: &Path, json: bool) -> Result<u8> {
    // Drawn only on a terminal.
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} inodes, {msg}")
        .map_err(|e| Error::bug("a wrong template").because(e))?;
    let bar = ProgressBar::new(0).with_style(style);
    let show = |inodes: u64, done: u64, bytes: u64| {
        bar.set_length(inodes);
        bar.set_position(done);
        bar.set_message(format_bytes_rounded(bytes));
    };
    let report = match Target::of(path)? {
        Target::Mounted(directory) => ask_server(&directory, &show)?,
        Target::Region(path) => {
            let volume = region::volume(&path, false)?;
            let report = volume.scrub(&mut |progress| {
                show(progress.inodes, progress.inodes_done, progress.bytes);
                true
            });
            volume.close()?;
            serde_json::to_value(report).map_err(|e| Error::bug("cannot write JSON").because(e))?
        }
    };
    bar.finish_and_clear();
    if json {
        print_json(&report)?;
    } else {
        print(path, &report);
    }
    if report["complete"] != true {
        let error = Error::user(format!("the scrub of {} was stopped before it finished", path.display()));
        return Err(error.hint("restart it: scmfs scrub"));
    }
    Ok(if report["damaged_places"] == 0 { 0 } else { ErrorKind::Threshold.exit_code() })
}

/// Has the server of a mounted volume do it, and waits. Who is interrupted leaves the server at it.
fn ask_server(directory: &Path, show: &impl Fn(u64, u64, u64)) -> Result<Value> {
    tell(directory, SCRUB, "start", "scrub")?;
    let cannot = || format!("cannot query the server of {}", directory.display());
    let mut pause = Duration::from_millis(2);
    loop {
        let mut buffer = vec![0u8; 64 << 10];
        let bytes = rustix::fs::getxattr(directory, SCRUB, &mut buffer[..]).board(cannot)?;
        let mut state: Value = serde_json::from_slice(&buffer[..bytes]).board(cannot)?;
        if state["running"] != true {
            let report = state["report"].take();
            return if report.is_null() {
                Err(Error::bug(cannot()).because("it returned no result"))
            } else {
                Ok(report)
            };
        }
        let number = |name: &str| state["progress"][name].as_u64().unwrap_or(0);
        show(number("inodes"), number("inodes_done"), number("bytes"));
        std::thread::sleep(pause);
        pause = (pause * 2).min(PERIOD);
    }
}

fn print(path: &Path, report: &Value) {
    let number = |value: &Value, name: &str| value[name].as_u64().unwrap_or(0);
    let damaged = report["damaged"].as_array().map_or(&[][..], Vec::as_slice);
    for damage in damaged {
        let what = damage["what"].as_str().unwrap_or_default();
        let name = match damage["path"].as_str() {
            Some(path) => path.to_owned(),
            None => format!("inode {}", number(damage, "ino")),
        };
        let (from, bytes) = (number(damage, "offset"), number(damage, "bytes"));
        match (damage["of"] == "contents", number(damage, "ino")) {
            (true, _) => say!("{name}: bytes {from}..{}: {what}", from + bytes),
            (false, 0) => say!("{from:#x}: {what}"),
            (false, _) => say!("{name}: at {from:#x} of the region: {what}"),
        }
    }
    let places = number(report, "damaged_places");
    if places > damaged.len() as u64 {
        say!("and {} more damaged places", places - damaged.len() as u64);
    }
    let contents = match (report["checksums"] == true, number(report, "pages_unknown")) {
        (false, _) => "without data checksums (mkfs --checksums)".into(),
        (true, 0) => format!("{} of data verified", format_bytes_rounded(number(report, "bytes"))),
        (true, pages) => {
            format!("{} of data; {pages} pages had no checksum before", format_bytes_rounded(number(report, "bytes")))
        }
    };
    let (files, directories) = (number(report, "files"), number(report, "directories"));
    say!("{}: {directories} directories, {files} files, {contents}; {places} damaged places", path.display());
}
