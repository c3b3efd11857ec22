//! What commands that mount volumes share: the arguments of mount(8), and unmounting.

use crate::{LONG_VERSION, note, say};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_mount::{Before, MountOptions, Server};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
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

/// Mounts, if mount(8) has called this program as the helper for a kind of volume, which is on a `source`; or says what
/// a helper is given. It looks for the second name to remount, for it goes by the list of mounts.
pub fn as_helper(kind: &str, source: &str, mount: impl FnOnce(HelperArguments) -> Result<u8>) -> Option<ExitCode> {
    let mut given = std::env::args_os();
    let name = given.next().unwrap_or_default();
    let name = name.to_string_lossy();
    let called = ["mount.", "mount.fuse."].iter().any(|helper| name.ends_with(&format!("{helper}{kind}")));
    called.then(|| {
        let usage = format!("mount.{kind} {source} DIR [-sfnv] [-N NS] [-t TYPE] [-o OPTIONS]");
        let given: Vec<OsString> = given.collect();
        crate::finish(match about(&given, kind, &usage) {
            Some(words) => {
                say!("{words}");
                Ok(0)
            }
            None => HelperArguments::parse(given.into_iter(), &usage).and_then(mount),
        })
    })
}

/// What a helper says of itself, if it is asked.
fn about(given: &[OsString], kind: &str, usage: &str) -> Option<String> {
    given.iter().find_map(|argument| match argument.to_str()? {
        "--help" | "-h" => Some(format!("usage: {usage}\n\nmount(8) calls it; `{kind} mount --help` has the options")),
        "--version" | "-V" => Some(format!("mount.{kind} {LONG_VERSION}")),
        _ => None,
    })
}

/// Mount options, of which several may stand in one text with commas between them.
fn options_of(given: &[String]) -> impl Iterator<Item = &str> {
    given.iter().flat_map(|options| options.split(',')).map(str::trim).filter(|option| !option.is_empty())
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

/// The options of every mount.
const COMMON: &str = "ro, noatime, nodev, nosuid, noexec, sync, dirsync, nosymfollow, allow_other, log=FILE";

/// The help on mount options, of which `own` are those of one file system.
pub fn options_help(own: &str) -> String {
    format!("Mount options, separated by commas: {COMMON}, {own}; generic ones of mount(8) are accepted")
}

/// Options of mount(8) that say nothing to a file system, or what it does anyway.
const GENERIC: [&str; 23] = [
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
    "iversion",
    "noiversion",
    "nomand",
    "silent",
    "loud",
];

/// What a mount is asked for, beside what its file system knows.
pub struct Asked<'a> {
    /// Where.
    pub directory: &'a Path,
    /// As `-o` has them.
    pub options: &'a [String],
    /// Accept options that are not known.
    pub sloppy: bool,
    /// Mount options of this file system, for a hint.
    pub own: &'a str,
}

/// What options say of the process that mounts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Only change how it is mounted.
    pub remount: bool,
    /// File to append errors to.
    pub log: Option<PathBuf>,
}

impl Asked<'_> {
    /// Applies the mount options; `own` is given those that not every mount has, and says whether its file system does.
    ///
    /// # Errors
    /// `ErrorKind::User` if one is not known, or a directory to remount cannot be looked at; those of `own`.
    pub fn apply(
        &self,
        options: &mut MountOptions,
        mut own: impl FnMut(&mut MountOptions, &str, Option<&str>) -> Result<bool>,
    ) -> Result<Said> {
        let remount = options_of(self.options).any(|option| option == "remount");
        let mut said = Said { remount, log: None };
        if remount {
            let read_only = options.read_only;
            options.keep_flags_of(self.directory)?;
            options.read_only |= read_only;
        }
        for option in options_of(self.options) {
            let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
            match (name, value) {
                (name, None) if set_flag(options, name) => {}
                ("log", Some(file)) => said.log = Some(file.into()),
                (name, value) if own(options, name, value)? || is_generic(name, value) => {}
                (name, value) => match self.form_of(name).filter(|_| value.is_none()) {
                    Some(form) => return Err(Error::user(format!("`{name}` needs a value")).hint(form)),
                    // mount(8) adds all that the list of mounts says, which includes the kernel's own words.
                    None if self.sloppy || remount => {}
                    None => {
                        let hint = format!("supported: {COMMON}, {}", self.own);
                        return Err(Error::user(format!("unknown mount option `{option}`")).hint(hint));
                    }
                },
            }
        }
        Ok(said)
    }

    /// How a mount option that has a value is given; `None` if there is no such one.
    fn form_of(&self, name: &str) -> Option<&str> {
        let is_its = |form: &&str| form.split_once('=').is_some_and(|(its, _)| its == name);
        COMMON.split(", ").chain(self.own.split(", ")).find(is_its)
    }
}

/// Applies a mount option that every file system has; whether it is one.
fn set_flag(options: &mut MountOptions, name: &str) -> bool {
    let (flag, value) = match name {
        "ro" | "rw" => (&mut options.read_only, name == "ro"),
        "atime" | "noatime" => (&mut options.noatime, name == "noatime"),
        "dev" | "nodev" => (&mut options.dev, name == "dev"),
        "suid" | "nosuid" => (&mut options.suid, name == "suid"),
        "exec" | "noexec" => (&mut options.exec, name == "exec"),
        "sync" | "async" => (&mut options.sync, name == "sync"),
        "dirsync" => (&mut options.dir_sync, true),
        "symfollow" | "nosymfollow" => (&mut options.follow_symlinks, name == "symfollow"),
        "allow_other" => (&mut options.allow_other, true),
        _ => return false,
    };
    *flag = value;
    true
}

/// Whether a mount option is one that says nothing to a file system, or what it does anyway.
fn is_generic(name: &str, value: Option<&str>) -> bool {
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

    fn applied(options: &str) -> Result<(MountOptions, Said)> {
        let given = [options.to_owned()];
        let asked = Asked { directory: Path::new("/"), options: &given, sloppy: false, own: "own, few=N" };
        let mut mount = MountOptions::default();
        let said = asked.apply(&mut mount, |_, name, value| Ok((name, value) == ("own", None)))?;
        Ok((mount, said))
    }

    #[test]
    fn options_of_every_mount_are_flags_or_say_nothing() {
        let (mount, said) = applied("ro,noatime, nodev,nosuid,noexec,sync,dirsync,nosymfollow,own,log=/l").unwrap();
        assert!(mount.read_only && mount.noatime && !mount.dev && !mount.suid && !mount.exec);
        assert!(mount.sync && mount.dir_sync && !mount.follow_symlinks);
        assert_eq!(said, Said { remount: false, log: Some("/l".into()) });
        let (mount, said) = applied("ro,sync,nosymfollow,rw,async,symfollow,iversion,noiversion,nomand").unwrap();
        assert!(!mount.read_only && !mount.sync && mount.follow_symlinks && said == Said::default());
        // Linux has no mandatory locks any more, and FUSE never had.
        assert!(applied("mand").is_err());
        for option in GENERIC {
            assert!(applied(option).is_ok() && applied(&format!("{option}=1")).is_err(), "{option}");
        }
        let error = applied("noatime,compress").err().unwrap();
        assert!(error.message().contains("`compress`") && error.cure().unwrap().ends_with("log=FILE, own, few=N"));
        for (option, form) in [("few", "few=N"), ("log", "log=FILE")] {
            let error = applied(option).err().unwrap();
            assert_eq!((error.message(), error.cure()), (&*format!("`{option}` needs a value"), Some(form)));
        }
        assert!(applied("own=1").is_err_and(|error| error.message().contains("unknown")));
    }

    #[test]
    fn a_helper_says_what_it_is() {
        let asked = |arguments: &str| {
            let given: Vec<OsString> = arguments.split(' ').map(OsString::from).collect();
            about(&given, "scmfs", "mount.scmfs REGION DIR")
        };
        assert!(asked("--help").unwrap().starts_with("usage: mount.scmfs REGION DIR\n"));
        assert!(asked("--version").unwrap().starts_with(&format!("mount.scmfs {}", env!("CARGO_PKG_VERSION"))));
        assert_eq!(asked("/r /mnt -o ro"), None);
    }

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
