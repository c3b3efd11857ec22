//! `scrub`: a look through a whole volume, which stays in use.

use crate::region;
use crate::target::{Target, ask, tell};
use indicatif::{ProgressBar, ProgressStyle};
use pocketstone_cli::print_json;
use pocketstone_core::units::format_bytes_rounded;
use pocketstone_core::words::counted;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_mount::SCRUB;
use pocketstone_scmfs::{DamageOf, ScrubDamage, ScrubProgress, ScrubReport, ScrubState};
use std::path::Path;
use std::time::Duration;

/// How often a server is asked how far it has come, at most.
const PERIOD: Duration = Duration::from_millis(200);

pub fn scrub(path: &Path, json: bool) -> Result<u8> {
    // Drawn only on a terminal.
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} inodes, {msg}")
        .map_err(|e| Error::bug("a wrong template").because(e))?;
    let bar = ProgressBar::new(0).with_style(style);
    let show = |progress: &ScrubProgress| {
        bar.set_length(progress.inodes);
        bar.set_position(progress.inodes_done);
        bar.set_message(format_bytes_rounded(progress.bytes));
    };
    let report = match Target::of(path)? {
        Target::Mounted(directory) => ask_server(&directory, &show)?,
        Target::Region(path) => {
            let volume = region::volume(&path, false)?;
            let report = volume.scrub(&mut |progress| {
                show(progress);
                true
            });
            volume.close()?;
            report
        }
    };
    bar.finish_and_clear();
    if json {
        print_json(&report)?;
    } else {
        print(path, &report);
    }
    if !report.complete {
        let error = Error::user(format!("the scrub of {} was stopped before it finished", path.display()));
        return Err(error.hint("restart it: scmfs scrub"));
    }
    Ok(if report.damaged_places == 0 { 0 } else { ErrorKind::Threshold.exit_code() })
}

/// Has the server of a mounted volume do it, and waits. Who is interrupted leaves the server at it.
fn ask_server(directory: &Path, show: &impl Fn(&ScrubProgress)) -> Result<ScrubReport> {
    tell(directory, SCRUB, "start", "scrub")?;
    let cannot = || format!("cannot query the server of {}", directory.display());
    let mut pause = Duration::from_millis(2);
    loop {
        let state: ScrubState = ask(directory, SCRUB, cannot)?;
        if !state.running {
            return state.report.ok_or_else(|| Error::bug(cannot()).because("it returned no result"));
        }
        show(&state.progress);
        std::thread::sleep(pause);
        pause = (pause * 2).min(PERIOD);
    }
}

fn print(path: &Path, report: &ScrubReport) {
    report.damaged.iter().for_each(print_damage);
    let (places, listed) = (report.damaged_places, report.damaged.len() as u64);
    if places > listed {
        say!("and {}", counted(places - listed, "more damaged place"));
    }
    let bytes = format_bytes_rounded(report.bytes);
    let contents = match (report.checksums, report.pages_unknown) {
        (false, _) => "without data checksums (mkfs --checksums)".into(),
        (true, 0) => format!("{bytes} of data verified"),
        (true, pages) => format!("{bytes} of data; {} had no checksum before", counted(pages, "page")),
    };
    let (files, directories) = (counted(report.files, "file"), counted(report.directories, "directory"));
    say!("{}: {directories}, {files}, {contents}; {}", path.display(), counted(places, "damaged place"));
}

fn print_damage(damage: &ScrubDamage) {
    let ScrubDamage { of, ino, path, offset, bytes, what } = damage;
    let name = path.clone().unwrap_or_else(|| format!("inode {ino}"));
    match (of, ino) {
        (DamageOf::Contents, _) => say!("{name}: bytes {offset}..{}: {what}", offset + bytes),
        (_, 0) => say!("{offset:#x}: {what}"),
        (_, _) => say!("{name}: at {offset:#x} of the region: {what}"),
    }
}
