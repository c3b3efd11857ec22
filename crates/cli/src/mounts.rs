//! What commands that mount volumes share: the arguments of mount(8), and unmounting.

use crate::note;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_mount::{Before, MountOptions, Server};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a server is left to find out by itself that nobody uses its mount any more.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long unmounting waits for the server to close the volume.
const CLOSING: Duration = Duration::from_secs(120);

/// Refuses a directory in the place of what holds a volume, as when the two are given in the wrong order.
///
/// # Errors
/// `ErrorKind::User` if it is one.
pub fn not_a_directory(source: &Path, right: &str) -> Result<()> {
    match source.is_dir() {
        true => Err(Error::user(format!("{} is a directory", source.display())).hint(format!("usage: {right}"))),
        false => Ok(()),
    }
}

/// The one name of a log everywhere, if it can be written to: when something has gone wrong it is too late to say so.
///
/// # Errors
/// `ErrorKind::User` if it cannot.
pub fn log_file(log: &Path) -> Result<PathBuf> {
    let failed = || format!("cannot write to the log {}", log.display());
    File::options().append(true).create(true).open(log).user(failed)?;
    std::path::absolute(log).user(failed)
}

/// What this program is given, if mount(8) has called it as the helper for a kind of volume. It looks for the second
/// name to remount, for it goes by the list of mounts.
pub fn as_helper(kind: &str) -> Option<impl Iterator<Item = OsString> + use<>> {
    let mut given = std::env::args_os();
    let name = given.next().unwrap_or_default();
    let name = name.to_string_lossy();
    let called = ["mount.", "mount.fuse."].iter().any(|helper| name.ends_with(&format!("{helper}{kind}")));
    called.then_some(given)
}

/// Mount options, of which several may stand in one text with commas between them.
pub fn options_of(given: &[String]) -> Vec<String> {
    let given = given.iter().flat_map(|options| options.split(','));
    given.map(str::trim).filter(|option| !option.is_empty()).map(str::to_owned).collect()
}

/// What mount(8) says to a mount helper: `SOURCE DIR [-sfnv] [-N NS] [-t TYPE] [-o OPTIONS]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelperArguments {
    /// What to mount.
    pub source: PathBuf,
    /// Where.
    pub directory: PathBuf,
    /// Mount options, separated by commas.
    pub options: Vec<String>,
    /// Accept options that are not known.
    pub sloppy: bool,
    /// Find out whether it could be mounted, and do not do it.
    pub fake: bool,
}

impl HelperArguments {
    /// Reads the arguments. `right` is what they should be, for the hint.
    ///
    /// # Errors
    /// `ErrorKind::User` if they are not as mount(8) has them.
    pub fn parse(given: impl Iterator<Item = OsString>, right: &str) -> Result<HelperArguments> {
        let usage = |wrong: String| Error::user(wrong).hint(right);
        let (mut places, mut options, mut sloppy, mut fake) = (Vec::new(), Vec::new(), false, false);
        let mut given = given;
        while let Some(argument) = given.next() {
            let text = argument.to_string_lossy().into_owned();
            let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
                places.push(argument);
                continue;
            };
            for (at, letter) in letters.char_indices() {
                match letter {
                    's' => sloppy = true,
                    'f' => fake = true,
                    'n' | 'v' => {}
                    'o' | 't' | 'N' => {
                        let rest = &letters[at + 1..];
                        let value = if rest.is_empty() { given.next() } else { Some(rest.into()) };
                        let value = value.ok_or_else(|| usage(format!("-{letter} needs a value")))?;
                        if letter == 'o' {
                            options.push(value.to_string_lossy().into_owned());
                        }
                        break;
                    }
                    other => return Err(usage(format!("unknown mount helper option -{other}"))),
                }
            }
        }
        let [source, directory] =
            <[OsString; 2]>::try_from(places).map_err(|_| usage("a device and a directory are required".to_owned()))?;
        Ok(HelperArguments { source: source.into(), directory: directory.into(), options, sloppy, fake })
    }
}

/// Options of mount(8) that say nothing to a file system, or what it does anyway.
const GENERIC: [&str; 22] = [
    "rw",
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "_netdev",
    "nofail",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "lazytime",
    "nolazytime",
    "diratime",
    "nodiratime",
    "async",
    "silent",
    "loud",
];

/// Applies a mount option that every file system has; whether it is one.
pub fn set_flag(options: &mut MountOptions, name: &str) -> bool {
    match name {
        "atime" => options.noatime = false,
        "noatime" => options.noatime = true,
        "dev" => options.dev = true,
        "nodev" => options.dev = false,
        "suid" => options.suid = true,
        "nosuid" => options.suid = false,
        "exec" => options.exec = true,
        "noexec" => options.exec = false,
        "allow_other" => options.allow_other = true,
        _ => return false,
    }
    true
}

/// Whether a mount option is one that says nothing to a file system, or what it does anyway.
pub fn is_generic(name: &str, value: Option<&str>) -> bool {
    let ours = name.starts_with("x-") || name.starts_with("X-") || name == "comment" || name == "uhelper";
    ours || value.is_none() && GENERIC.contains(&name)
}

/// Unmounts a directory at which a volume of a kind is mounted, and waits until it is closed; whether it is. Copies of
/// the mount in other mount namespaces end with it; other places in this one, as of a bind mount, keep the volume open.
///
/// # Errors
/// `ErrorKind::User` if no volume is mounted there, or it is in use; `ErrorKind::Board` if a dead mount cannot be
/// removed, or the server does not close the volume in time.
pub fn umount(directory: &Path, kind: &str, lazy: bool) -> Result<bool> {
    if pocketstone_mount::clean_up(directory)? == Before::CleanedUp {
        note("note", &format!("the server of {} had died; unmounted", directory.display()));
        return Ok(true);
    }
    let directory = directory.canonicalize().user(|| format!("cannot find {}", directory.display()))?;
    let entry = pocketstone_mount::mounted_at(&directory)?;
    let Some(entry) = entry.filter(|entry| entry.kind == kind) else {
        return Err(Error::user(format!("no volume is mounted at {}", directory.display())));
    };
    let server = if lazy { None } else { Server::of(&directory) };
    let others = pocketstone_mount::unmount(&directory, lazy)?;
    if let Some(place) = others.first() {
        note("note", &format!("it is still mounted at {}", place.display()));
        return Ok(false);
    }
    if !lazy {
        wait_until_closed(Path::new(&entry.source), server)?;
    }
    Ok(!lazy)
}

/// The server ends when it has closed the volume; one that cannot be seen from here holds a lock until then.
fn wait_until_closed(path: &Path, server: Option<Server>) -> Result<()> {
    let closed = match server {
        Some(server) => {
            server.ended(PATIENCE) || {
                for holder in server.elsewhere() {
                    note("note", &format!("it was still mounted in {holder}; unmounted there, too"));
                }
                server.end();
                server.ended(CLOSING)
            }
        }
        None => is_unlocked_within(path, CLOSING),
    };
    match closed {
        true => Ok(()),
        false => Err(Error::board(format!("unmounted, but {} is still in use", path.display()))
            .hint("it may be mounted elsewhere, for example in another mount namespace")),
    }
}

/// Waits until nobody writes to what was mounted. Who only reads shares the lock: its end is not seen.
fn is_unlocked_within(path: &Path, timeout: Duration) -> bool {
    // Without the right to look at it there is no way to know.
    let Ok(file) = File::open(path) else { return true };
    let start = Instant::now();
    // Closing the file gives the lock back.
    while rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
        if start.elapsed() > timeout {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_a_file_that_can_be_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        std::fs::write(&log, "before").unwrap();
        assert_eq!(log_file(&log).unwrap(), log);
        assert_eq!(std::fs::read(&log).unwrap(), b"before");
        assert!(log_file(&log.join("below")).unwrap_err().message().contains("cannot write to the log"));
    }
}
