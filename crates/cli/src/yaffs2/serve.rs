//! `mount`: a process that serves a volume, and what mount options mean.

use crate::arguments::{ChipArguments, MountArguments};
use crate::chip::{self, Opened};
use pocketstone_cli::mounts::{HelperArguments, is_generic, log_file, not_a_directory, options_of, set_flag};
use pocketstone_cli::note;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_media::nand::Access;
use pocketstone_mount::daemon::{self, Log};
use pocketstone_mount::{Before, MountOptions, YAFFS2_KIND};
use pocketstone_yaffs2::{OpenOptions, Volume};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Mount options of the kernel's YAFFS2, and of mounts in general.
const KNOWN: &str = "ro, noatime, nodev, nosuid, noexec, allow_other, log=FILE, inband-tags, tags-ecc-on, \
    tags-ecc-off, no-checkpoint, no-checkpoint-read, no-checkpoint-write, disable-summary, no-cache, lazy-loading-on, \
    lazy-loading-off, empty-lost-and-found-on, empty-lost-and-found-off";

/// Reads a mount helper's arguments.
pub fn parse(given: impl Iterator<Item = OsString>) -> Result<MountArguments> {
    let HelperArguments { source, directory, options, sloppy, fake } =
        HelperArguments::parse(given, "mount.yaffs2 CHIP DIR [-sfnv] [-o OPTIONS]")?;
    let chip = ChipArguments { path: source, ..ChipArguments::default() };
    Ok(MountArguments { chip, directory, options, sloppy, fake, ..MountArguments::default() })
}

/// Changes to how the volume is opened, in the order in which they are given.
type Changes = Vec<fn(&mut OpenOptions)>;

/// Applies the mount options among the arguments; those of YAFFS2 itself are given back.
fn apply(arguments: &mut MountArguments, options: &mut MountOptions) -> Result<Changes> {
    let given = options_of(&arguments.options);
    arguments.remount = given.iter().any(|option| option == "remount");
    if arguments.remount {
        options.keep_flags_of(&arguments.directory)?;
        arguments.read_only |= options.read_only;
    }
    let mut changes: Changes = Vec::new();
    for option in given.iter().map(String::as_str) {
        let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        match (name, value) {
            ("ro", None) => arguments.read_only = true,
            ("rw", None) => arguments.read_only = false,
            (name, None) if set_flag(options, name) => {}
            ("log", Some(file)) => arguments.log = Some(file.into()),
            ("inband-tags", None) => arguments.chip.inband_tags = true,
            ("tags-ecc-on", None) => arguments.chip.no_tags_ecc = false,
            ("tags-ecc-off", None) => arguments.chip.no_tags_ecc = true,
            ("no-checkpoint", None) => changes.push(|o| (o.checkpoint_read, o.checkpoint_write) = (false, false)),
            ("no-checkpoint-read", None) => changes.push(|o| o.checkpoint_read = false),
            ("no-checkpoint-write", None) => changes.push(|o| o.checkpoint_write = false),
            ("disable-summary", None) => changes.push(|o| o.summary = false),
            ("no-cache", None) => changes.push(|o| o.cache_chunks = 0),
            ("lazy-loading-on", None) => changes.push(|o| o.lazy_loading = true),
            ("lazy-loading-off", None) => changes.push(|o| o.lazy_loading = false),
            ("empty-lost-and-found-on", None) => changes.push(|o| o.empty_lost_and_found = true),
            ("empty-lost-and-found-off", None) => changes.push(|o| o.empty_lost_and_found = false),
            (name, value) if is_generic(name, value) => {}
            // mount(8) adds all that the list of mounts says, which includes the kernel's own words.
            _ if arguments.sloppy || arguments.remount => {}
            _ => {
                return Err(Error::user(format!("unknown mount option `{option}`")).hint(format!("supported: {KNOWN}")));
            }
        }
    }
    options.read_only = arguments.read_only;
    Ok(changes)
}

/// The one name that a file has everywhere.
fn canonical(path: &Path) -> Result<PathBuf> {
    path.canonicalize().user(|| format!("cannot find {}", path.display()))
}

pub fn mount(given: &MountArguments) -> Result<u8> {
    let mut arguments = given.clone();
    let mut options = MountOptions::raw_nand("");
    let changes = apply(&mut arguments, &mut options)?;
    if arguments.remount {
        return pocketstone_mount::remount(&canonical(&arguments.directory)?, YAFFS2_KIND, &options).map(|()| 0);
    }
    not_a_directory(&arguments.chip.path, "yaffs2 mount CHIP DIRECTORY")?;
    if !daemon::is_background() && !arguments.foreground && !arguments.fake {
        return daemon::in_background();
    }
    if pocketstone_mount::clean_up(&arguments.directory)? == Before::CleanedUp {
        let directory = arguments.directory.display();
        note("note", &format!("{directory} was mounted, but its server had died; unmounted"));
    }
    // The working directory is given up, and the mount table should say the same to everybody.
    arguments.chip.path = canonical(&arguments.chip.path)?;
    arguments.directory = canonical(&arguments.directory)?;
    if let Some(log) = &arguments.log {
        arguments.log = Some(log_file(log)?);
    }
    let path = arguments.chip.path.clone();
    let text = path.to_str().ok_or_else(|| Error::user(format!("{} is not UTF-8", path.display())))?;
    options.source = text.to_owned();
    let access = if options.read_only { Access::Read } else { Access::Write };
    let Opened { nand, options: mut open, lock } = chip::open(&arguments.chip, access)?;
    changes.into_iter().for_each(|change| change(&mut open));
    if arguments.fake {
        return Ok(0);
    }
    let volume = Volume::open(nand, &open).map_err(Error::from).user(|| format!("cannot open {text}"))?;
    let log = Log::new("yaffs2", arguments.log.clone(), |text| note("error", text));
    options.reporter = Some(log.reporter());
    let (mounted, served) = pocketstone_mount::mount_yaffs2(volume, &arguments.directory, &options)?;
    daemon::serve(mounted, &log, || served.close().user(|| format!("cannot close {text}")))?;
    // Whoever unmounts waits for it.
    drop(lock);
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(options: &str) -> Result<(MountArguments, MountOptions, OpenOptions)> {
        let mut arguments = MountArguments { options: vec![options.to_owned()], ..MountArguments::default() };
        let (mut mount, mut open) = (MountOptions::raw_nand(""), OpenOptions::default());
        apply(&mut arguments, &mut mount)?.into_iter().for_each(|change| change(&mut open));
        Ok((arguments, mount, open))
    }

    #[test]
    fn options_are_those_of_the_kernel() {
        let (arguments, mount, open) =
            applied("ro,noatime,inband-tags,tags-ecc-off,no-checkpoint,disable-summary,no-cache,lazy-loading-off")
                .unwrap();
        assert!(mount.read_only && mount.noatime && arguments.chip.inband_tags && arguments.chip.no_tags_ecc);
        assert!(!open.checkpoint_read && !open.checkpoint_write && !open.summary && !open.lazy_loading);
        assert_eq!(open.cache_chunks, 0);
        let (_, _, open) = applied("no-checkpoint-read,empty-lost-and-found-off,relatime").unwrap();
        assert!(!open.checkpoint_read && open.checkpoint_write && !open.empty_lost_and_found);
        assert!(applied("compress").err().is_some_and(|error| error.cure().is_some()));
    }

    #[test]
    fn a_helpers_arguments_are_understood() {
        let arguments = parse("/dev/mtd1 /mnt -n -o ro,no-cache".split(' ').map(OsString::from)).unwrap();
        assert_eq!((arguments.chip.path.to_str(), arguments.directory.to_str()), (Some("/dev/mtd1"), Some("/mnt")));
        assert!(parse("/dev/mtd1".split(' ').map(OsString::from)).is_err());
    }
}
