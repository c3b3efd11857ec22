//! `checkpoint` and `restore`, and what a mount does of them by itself.

use crate::arguments::{CheckpointArguments, MountArguments, RestoreArguments};
use crate::region;
use crate::target::{Target, ask, tell};
use pocketstone_cli::{mounts, note, print_json};
use pocketstone_core::error::Context;
use pocketstone_core::units::format_bytes_rounded;
use pocketstone_core::words::counted;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_media::{MapOptions, Mapped, Medium, Region, Unmapped, map_bytes_at};
use pocketstone_mount::daemon::Log;
use pocketstone_mount::{CHECKPOINT, CheckpointRequest, MountOptions, Target as Mount};
use pocketstone_scmfs::Volume;
use pocketstone_scmfs::checkpoint::{self, CheckpointState, Checkpoints, Directory, Output, Restored, Schedule, Taken};
use pocketstone_vfs::causes;
use rustix::io::Errno;
use std::cell::Cell;
use std::ffi::OsString;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

/// How often a server is asked whether it is done.
const PERIOD: Duration = Duration::from_millis(2);
const PERIOD_MOST: Duration = Duration::from_millis(200);

pub fn checkpoint(given: &CheckpointArguments) -> Result<u8> {
    if let Some(target) = &given.verify {
        return verify(target, given.json);
    }
    let (Some(source), Some(target)) = (&given.source, &given.target) else {
        return Err(Error::user("a volume and a target are required").hint("scmfs checkpoint DIR TARGET"));
    };
    let target = std::path::absolute(target).user(|| format!("cannot find {}", target.display()))?;
    let directory = match Target::of(source)? {
        Target::Mounted(directory) => {
            let device = |path: &Path| std::fs::metadata(path).map(|facts| facts.dev()).ok();
            if nearest(&target).and_then(device) == device(&directory) {
                return Err(on_itself(&target));
            }
            directory
        }
        Target::Region(_) if given.every.is_some() => {
            return Err(Error::user(format!("{} is not mounted, and does not change", source.display()))
                .hint("leave out --every, or specify the mount point"));
        }
        Target::Region(path) => {
            let cannot = || format!("cannot take a checkpoint of {}", path.display());
            let region = region::open(&path, false)?;
            let taken = Checkpoints::open(&target, given.keep).and_then(|mut series| series.take_closed(region));
            return say_taken(source, &target, &taken.user(cannot)?, given.json);
        }
    };
    loop {
        let begun = Instant::now();
        let taken = ask_server(&directory, &target, given.keep)?;
        say_taken(source, &target, &taken, given.json)?;
        let Some(every) = given.every else { return Ok(0) };
        std::thread::sleep(every.saturating_sub(begun.elapsed()));
    }
}

/// What there is of a path: it, or the nearest folder above it.
fn nearest(path: &Path) -> Option<&Path> {
    path.ancestors().find(|path| path.exists())
}

/// Why a target on the volume itself is refused.
fn on_itself(target: &Path) -> Error {
    Error::user(format!("{} is on the volume itself, and is lost with it", target.display()))
        .hint("choose a folder on another file system")
}

fn say_taken(source: &Path, target: &Path, taken: &Taken, json: bool) -> Result<u8> {
    if json {
        print_json(taken)?;
        return Ok(0);
    }
    let kind = if taken.complete { "complete" } else { "changes" };
    let ms = |ns: u64| ns as f64 / 1e6;
    say!(
        "{}: checkpoint {} in {} ({kind}, {}), {:.1} ms; operations held up for {:.3} ms",
        source.display(),
        taken.generation,
        target.display(),
        format_bytes_rounded(taken.bytes),
        ms(taken.took_ns),
        ms(taken.held_up_ns),
    );
    if let Some(trouble) = &taken.trouble {
        note("warning", &format!("the checkpoint is whole, but {trouble}"));
    }
    Ok(0)
}

/// Has the server of a mounted volume take one, and waits for it.
fn ask_server(directory: &Path, target: &Path, keep: Option<u32>) -> Result<Taken> {
    let cannot = || format!("cannot take a checkpoint of the volume at {}", directory.display());
    let open = std::fs::File::open(directory).user(cannot)?;
    // The server waits for what the kernel writes back by that.
    rustix::fs::syncfs(&open).user(cannot)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let word = format!("{}-{now}", std::process::id());
    let request = CheckpointRequest { target: region::text(target)?.into(), keep, word };
    let question = serde_json::to_string(&request).board(cannot)?;
    tell(directory, CHECKPOINT, &question, "take a checkpoint of").map_err(|error| {
        let is = |errno: Errno| causes(&error).any(|cause| cause.downcast_ref() == Some(&errno));
        if is(Errno::BUSY) {
            return error.hint(
                "another checkpoint is being taken: try again later; or the mount has a target of its own: scmfs \
                 checkpoint DIR with that one",
            );
        }
        if is(Errno::PERM) { error.hint("only root and the user who mounted it may do this") } else { error }
    })?;
    let mut pause = PERIOD;
    loop {
        let state = state(directory)?;
        if let Some(answer) = state.answers.into_iter().find(|answer| answer.word == request.word) {
            let why = answer.error.unwrap_or_else(|| "its server has not said why".into());
            return answer.taken.ok_or_else(|| {
                Error::user(cannot())
                    .because(why)
                    .hint("what the target held before is kept: scmfs checkpoint --verify TARGET")
            });
        }
        if state.waiting == 0 {
            return Err(Error::board(cannot())
                .because("its server has no answer any more")
                .hint("see what the target has: scmfs checkpoint --verify TARGET"));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PERIOD_MOST);
    }
}

/// Unmounts a volume, and makes sure that the last checkpoint of one that takes them was taken.
///
/// # Errors
/// As [`mounts::umount`]; `ErrorKind::Board` if there is no last checkpoint.
pub fn umount(directory: &Path, lazy: bool) -> Result<u8> {
    let series = (!lazy).then(|| series_of(directory)).flatten();
    let closed = mounts::umount(directory, pocketstone_mount::KIND, lazy)?;
    // The last one is taken when the volume is closed.
    let Some((source, target, before)) = series.filter(|_| closed) else { return Ok(0) };
    let after = checkpoint::newest(&Directory::to_read(&target)).ok().flatten();
    if after <= before {
        let (source, target) = (source.display(), target.display());
        return Err(Error::board(format!("unmounted, but there is no last checkpoint in {target}"))
            .because("the log of the mount says why")
            .hint(format!("the volume is whole, in {source}: scmfs checkpoint {source} {target}")));
    }
    Ok(0)
}

/// The region of a mounted volume that takes checkpoints by itself, their target, and the newest; `None` where there is
/// none, or this user may not know.
fn series_of(directory: &Path) -> Option<(PathBuf, PathBuf, Option<u64>)> {
    let directory = directory.canonicalize().ok()?;
    let entry = pocketstone_mount::mounted_at(&directory).ok()??;
    let state = state(&directory).ok().filter(|state| state.every_s.is_some())?;
    let target = state.target;
    let newest = checkpoint::newest(&Directory::to_read(&target)).ok()?;
    Some((entry.source.into(), target, newest))
}

/// What the server of a mounted volume says about its checkpoints.
fn state(directory: &Path) -> Result<CheckpointState> {
    ask(directory, CHECKPOINT, || format!("cannot ask for the checkpoints of {}", directory.display()))
}

fn verify(target: &Path, json: bool) -> Result<u8> {
    let cannot = || format!("cannot verify {}", target.display());
    let found = checkpoint::verify(&Directory::to_read(target)).user(cannot)?;
    let damaged = found.iter().filter(|(_, verified)| verified.is_err()).count();
    if json {
        let entry = |(generation, verified): &(u64, pocketstone_scmfs::Result<checkpoint::Verified>)| match verified {
            Ok(verified) => serde_json::json!({ "generation": generation, "whole": verified }),
            Err(error) => serde_json::json!({ "generation": generation, "damage": pocketstone_vfs::chain(error) }),
        };
        print_json(&found.iter().map(entry).collect::<Vec<_>>())?;
    } else {
        for (generation, verified) in &found {
            match verified {
                Ok(whole) => {
                    let kind = if whole.complete { "complete" } else { "changes" };
                    let (bytes, volume) = (format_bytes_rounded(whole.bytes), format_bytes_rounded(whole.region_bytes));
                    say!(
                        "{generation}: whole, {kind}, {bytes} for a region of {volume}, taken {}",
                        ago(whole.taken_ns)
                    );
                }
                Err(error) => say!("{generation}: {}", pocketstone_vfs::chain(error)),
            }
        }
        say!("{}: {}, {damaged} damaged", target.display(), counted(found.len(), "checkpoint"));
    }
    Ok(if damaged == 0 { 0 } else { ErrorKind::Threshold.exit_code() })
}

/// How long ago a time was, roughly.
fn ago(taken_ns: i64) -> String {
    let taken = SystemTime::UNIX_EPOCH + Duration::from_nanos(taken_ns.unsigned_abs());
    match SystemTime::now().duration_since(taken).map(|age| age.as_secs()) {
        Ok(seconds @ 0..120) => format!("{seconds} s ago"),
        Ok(seconds @ 120..7200) => format!("{} min ago", seconds / 60),
        Ok(seconds @ 7200..172_800) => format!("{} h ago", seconds / 3600),
        Ok(seconds) => format!("{} days ago", seconds / 86_400),
        Err(_) => "in the future, by this clock".into(),
    }
}

pub fn restore(given: &RestoreArguments) -> Result<u8> {
    let restored = restore_to(&given.target, &given.region, given.generation, given.force)?;
    if given.json {
        print_json(&restored)?;
    } else {
        let (generation, bytes) = (restored.generation, format_bytes_rounded(restored.region_bytes));
        let age = ago(restored.taken_ns);
        say!("{}: {bytes} from checkpoint {generation}, taken {age}", given.region.display());
    }
    Ok(0)
}

/// Restores a region whole or not at all: a file gets its name when everything is in it.
fn restore_to(target: &Path, path: &Path, generation: Option<u64>, force: bool) -> Result<Restored> {
    let cannot = || format!("cannot restore {} from {}", path.display(), target.display());
    let known = std::fs::metadata(path).ok();
    let device = known.as_ref().is_some_and(|facts| facts.file_type().is_char_device());
    if !force && (device || known.is_some_and(|facts| facts.len() > 0)) {
        let message = format!("{} already exists and may hold data", path.display());
        return Err(Error::user(message).hint("choose another file, or use --force to destroy what it holds"));
    }
    let mut name = OsString::from(path);
    name.push(".restoring");
    let unfinished = if device { path.to_owned() } else { PathBuf::from(name) };
    if !device && path.exists() {
        // Who has it open would keep the old one.
        drop(LockedOut::check(path)?);
    }
    // What can only be mapped has larger pages, or is memory itself.
    let only_mapped = device || map_bytes_at(path).user(cannot)? > rustix::param::page_size() as u64;
    let made = Cell::new(false);
    let make = |bytes: u64| -> pocketstone_scmfs::Result<Box<dyn Output>> {
        if only_mapped {
            let options = MapOptions::default().overwrite(true).flushed(true);
            let region = Mapped::create(&unfinished, bytes, &options)?;
            made.set(true);
            return Ok(Box::new(Mutex::new(Medium::new(Box::new(region)))));
        }
        let region = Unmapped::create(&unfinished, bytes)?;
        made.set(true);
        Ok(Box::new(region))
    };
    let restored = checkpoint::restore(&Directory::to_read(target), generation, make).user(cannot).and_then(|done| {
        if !device {
            std::fs::rename(&unfinished, path).user(cannot)?;
        }
        Ok(done)
    });
    if restored.is_err() && !device && made.get() {
        // It is of no use to anybody, and takes memory. One that could not be made may be another command's.
        let _ = std::fs::remove_file(&unfinished);
    }
    restored
}

/// A region that nobody has open.
struct LockedOut(#[allow(dead_code, reason = "held")] Option<Box<dyn Region>>);

impl LockedOut {
    fn check(path: &Path) -> Result<LockedOut> {
        // An empty file is no region yet.
        let empty = std::fs::metadata(path).is_ok_and(|facts| facts.len() == 0);
        Ok(LockedOut(if empty { None } else { Some(region::open(path, true)?) }))
    }
}

/// Restores the region of a mount that is told to, if it is not there or empty.
pub fn restore_empty(arguments: &MountArguments) -> Result<()> {
    let Some(target) = arguments.checkpoint.as_ref().filter(|_| arguments.restore && !arguments.fake) else {
        return Ok(());
    };
    if std::fs::metadata(&arguments.region).is_ok_and(|facts| facts.len() > 0 || facts.file_type().is_char_device()) {
        return Ok(());
    }
    let restored = restore_to(target, &arguments.region, None, false).map_err(|error| {
        match checkpoint::newest(&Directory::to_read(target)) {
            Ok(Some(_)) => error.hint(
                "find one that is whole, and restore that: scmfs checkpoint --verify TARGET; scmfs restore \
                 --generation N TARGET REGION",
            ),
            Err(_) if target.exists() => error,
            _ => error.hint("the first time, create a volume: scmfs mkfs REGION --size SIZE"),
        }
    })?;
    let (generation, age) = (restored.generation, ago(restored.taken_ns));
    note("note", &format!("{}: restored from checkpoint {generation}, taken {age}", arguments.region.display()));
    Ok(())
}

/// Where a mount's volume is to take checkpoints to by itself. One that is mounted read-only takes none.
fn target_of<'a>(arguments: &'a MountArguments, options: &MountOptions) -> Option<&'a Path> {
    arguments.checkpoint.as_deref().filter(|_| !options.read_only)
}

/// Has a mount's volume take checkpoints by itself, if it is told to. `mount`: it, once there is one.
pub fn schedule(
    volume: &Volume,
    arguments: &MountArguments,
    options: &MountOptions,
    log: &Log,
    mount: Arc<OnceLock<Mount>>,
) -> Result<()> {
    let Some(target) = target_of(arguments, options) else { return Ok(()) };
    let directory = arguments.directory.clone();
    let canonical = |path: &Path| path.canonicalize().ok();
    if let (Some(there), Some(mount)) = (nearest(target).and_then(canonical), canonical(&directory)) {
        if there.starts_with(mount) {
            return Err(on_itself(target));
        }
    }
    let before = move || mount.get()?.write_back().unwrap_or_else(|error| Some(error.chain()));
    let (every, report) = (arguments.every.unwrap_or(Duration::from_secs(30)), log.reporter());
    let cannot = || format!("cannot take checkpoints to {}", target.display());
    let schedule =
        Schedule::new(target).keep(arguments.keep).every(every).before(before).report(move |line| report(line));
    volume.schedule_checkpoints(&schedule).user(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_mount_is_in_the_end_says_whether_it_takes_checkpoints() {
        for (flag, option, takes) in
            [(false, "rw", true), (false, "ro", false), (true, "rw", true), (true, "noatime", false)]
        {
            let given = vec![format!("{option},checkpoint=/t")];
            let mut arguments = MountArguments { read_only: flag, options: given, ..MountArguments::default() };
            let mut options = MountOptions::default();
            crate::helper::apply(&mut arguments, &mut options).unwrap();
            assert_eq!(target_of(&arguments, &options).is_some(), takes, "--read-only: {flag}, -o {option}");
        }
    }
}
