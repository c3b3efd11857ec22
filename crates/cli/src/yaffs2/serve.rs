//! `mount`: a process that serves a volume, and what mount options mean.

use crate::arguments::{ChipArguments, LayoutArguments, MOUNT_OPTIONS, MountArguments, PAGES_PER_BLOCK};
use crate::chip::{self, Opened};
use pocketstone_cli::mounts::{Asked, HelperArguments, log_file, not_a_directory};
use pocketstone_cli::note;
use pocketstone_core::error::Context;
use pocketstone_core::units::parse_bytes;
use pocketstone_core::{Error, Result};
use pocketstone_media::nand::Access;
use pocketstone_mount::daemon::{self, Log};
use pocketstone_mount::{Before, MountOptions, YAFFS2_KIND};
use pocketstone_yaffs2::{OpenOptions, Volume};
use std::path::{Path, PathBuf};

/// A mount helper's arguments.
pub fn arguments(given: HelperArguments) -> MountArguments {
    let HelperArguments { source, directory, options, sloppy, fake } = given;
    let chip = ChipArguments { path: source, ..ChipArguments::default() };
    MountArguments { chip, directory, options, sloppy, fake, ..MountArguments::default() }
}

/// Changes to how the volume is opened, in the order in which they are given.
type Changes = Vec<fn(&mut OpenOptions)>;

/// Applies the mount options among the arguments; those of YAFFS2 itself are given back.
fn apply(arguments: &mut MountArguments, options: &mut MountOptions) -> Result<Changes> {
    options.read_only = arguments.read_only;
    let mut changes: Changes = Vec::new();
    let MountArguments { directory, options: given, sloppy, chip, .. } = arguments;
    let asked = Asked { directory, options: given, sloppy: *sloppy, own: MOUNT_OPTIONS };
    let said = asked.apply(options, |_, name, value| match value {
        Some(value) => of_layout(&mut chip.layout, name, value),
        None => Ok(own(chip, &mut changes, name)),
    })?;
    arguments.remount = said.remount;
    arguments.log = said.log.or(arguments.log.take());
    Ok(changes)
}

/// Applies a mount option of the kernel's YAFFS2; whether it is one.
fn own(chip: &mut ChipArguments, changes: &mut Changes, name: &str) -> bool {
    match name {
        "inband-tags" => chip.inband_tags = true,
        "tags-ecc-on" => chip.no_tags_ecc = false,
        "tags-ecc-off" => chip.no_tags_ecc = true,
        "no-checkpoint" => changes.push(|o| (o.checkpoint_read, o.checkpoint_write) = (false, false)),
        "no-checkpoint-read" => changes.push(|o| o.checkpoint_read = false),
        "no-checkpoint-write" => changes.push(|o| o.checkpoint_write = false),
        "disable-summary" => changes.push(|o| o.summary = false),
        "no-cache" => changes.push(|o| o.cache_chunks = 0),
        "lazy-loading-on" => changes.push(|o| o.lazy_loading = true),
        "lazy-loading-off" => changes.push(|o| o.lazy_loading = false),
        "empty-lost-and-found-on" => changes.push(|o| o.empty_lost_and_found = true),
        "empty-lost-and-found-off" => changes.push(|o| o.empty_lost_and_found = false),
        _ => return false,
    }
    true
}

/// Applies a mount option that describes an image, as /etc/fstab has no other place for it; whether it is one.
fn of_layout(layout: &mut LayoutArguments, name: &str, value: &str) -> Result<bool> {
    let wrong = |why: &str| Error::user(format!("`{name}={value}` is not a mount option: {why}"));
    match name {
        "page" => layout.page = Some(parse_bytes(value)?),
        "spare" => layout.spare = Some(parse_bytes(value)?),
        "spare-offset" => layout.spare_offset = Some(value.parse().map_err(|_| wrong("it needs a number of bytes"))?),
        "pages-per-block" => {
            let pages = value.parse::<u32>().ok().filter(|pages| PAGES_PER_BLOCK.contains(&i64::from(*pages)));
            layout.pages_per_block = Some(pages.ok_or_else(|| wrong("a block has 2 to 65536 pages"))?);
        }
        _ => return Ok(false),
    }
    Ok(true)
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
    use std::ffi::OsString;

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
        let (arguments, _, _) = applied("page=2K,spare=64,spare-offset=0,pages-per-block=64").unwrap();
        let layout = arguments.chip.layout;
        assert_eq!((layout.page, layout.spare, layout.spare_offset), (Some(2048), Some(64), Some(0)));
        assert_eq!(layout.pages_per_block, Some(64));
        for wrong in ["page=big", "page", "spare-offset=-1", "pages-per-block=1", "pages-per-block=65537"] {
            assert!(applied(wrong).is_err(), "{wrong}");
        }
        let (_, _, open) = applied("no-checkpoint-read,empty-lost-and-found-off,relatime").unwrap();
        assert!(!open.checkpoint_read && open.checkpoint_write && !open.empty_lost_and_found);
        assert!(applied("compress").err().is_some_and(|error| error.cure().is_some()));
    }

    #[test]
    fn a_helpers_arguments_are_understood() {
        let parse = |line: &str| HelperArguments::parse(line.split(' ').map(OsString::from), "").map(arguments);
        let arguments = parse("/dev/mtd1 /mnt -n -o ro,no-cache").unwrap();
        assert_eq!((arguments.chip.path.to_str(), arguments.directory.to_str()), (Some("/dev/mtd1"), Some("/mnt")));
        assert!(parse("/dev/mtd1").is_err());
    }
}
