//! `mkfs`.

use crate::arguments::MkfsArguments;
use crate::region;
use pocketstone_core::error::Context;
use pocketstone_core::units::format_bytes_rounded;
use pocketstone_core::{Error, Result};
use pocketstone_media::{MapOptions, Mapped, Region};
use pocketstone_scmfs::{CreateOptions, Operations, ROOT, SetAttr, Threshold, Volume};
use pocketstone_vfs::MediumErrorKind;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

pub fn mkfs(arguments: &MkfsArguments) -> Result<u8> {
    let path = &arguments.region;
    let name = path.display();
    let there = match std::fs::metadata(path) {
        Ok(there) => Some(there),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => return Err(Error::user(format!("cannot examine {name}")).because(e)),
    };
    if there.as_ref().is_some_and(Metadata::is_dir) {
        return Err(Error::user(format!("{name} is a directory")).hint("specify a file or a memory device"));
    }
    if there.as_ref().is_some_and(|there| there.file_type().is_block_device()) {
        return Err(Error::user(format!("{name} is a block device"))
            .hint("mount a file system on it, and specify a file there"));
    }
    let device = there.as_ref().is_some_and(|there| there.file_type().is_char_device());
    let length = there.as_ref().map_or(0, Metadata::len);
    let bytes = match arguments.size {
        Some(size) => size,
        // All of a device.
        None if device => 0,
        None if length > 0 => length,
        None => return Err(Error::user(format!("{name} has no size yet")).hint("specify one: --size 2G")),
    };
    let mut create = CreateOptions::default()
        .max_bytes(arguments.max_size)
        .inodes(arguments.inodes)
        .small_bytes(arguments.small_zone)
        .threshold(arguments.threshold)
        .label(arguments.label.clone())
        .checksums(arguments.checksums);
    if !device {
        let unit = pocketstone_media::map_bytes_at(path)?;
        refuse_small_pages_only(&name.to_string(), unit, &create)?;
        let rounded = bytes.checked_next_multiple_of(unit).unwrap_or(bytes);
        // A volume's size is rounded up; how far it may grow was meant for the size that was asked for.
        create.max_bytes = arguments.max_size.map(|most| if most >= bytes { most.max(rounded) } else { most });
        // Before the file is touched, which may hold something.
        create.check(rounded, unit).map_err(Error::from).user(|| format!("cannot create a volume in {name}"))?;
    }
    let made = fill(arguments, there.as_ref(), bytes, create);
    if made.is_err() && !device && length == 0 {
        // As it was before: not there, or empty. The error says what matters.
        let _ = match there {
            None => std::fs::remove_file(path),
            Some(_) => std::fs::OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(0)),
        };
    }
    made
}

fn fill(arguments: &MkfsArguments, there: Option<&Metadata>, bytes: u64, mut create: CreateOptions) -> Result<u8> {
    let path = &arguments.region;
    let name = path.display();
    let holds = there.is_some_and(|there| there.file_type().is_char_device() || there.len() > 0);
    // A file that was only given a length holds nothing.
    let hollow = there.is_some_and(|there| there.is_file() && there.blocks() == 0);
    let options = MapOptions::default().overwrite(arguments.force || hollow).flushed(true);
    let region = Mapped::create(path, bytes, &options)
        .map_err(|error| if holds && !arguments.force { error.hint("--force destroys its contents") } else { error });
    // The file may be in use instead; the advice to force would be wrong then.
    let region = region.map_err(|error| match error.kind() {
        MediumErrorKind::InUse => error.hint("unmount it first: scmfs umount DIR"),
        _ => error,
    })?;
    create.zeroed = region.zeroed();
    refuse_small_pages_only(&region.describe(), region.map_bytes(), &create)?;
    let bytes = region.bytes();
    let cannot = || format!("cannot create a volume in {name}");
    Volume::create(Box::new(region), &create).map_err(Error::from).user(cannot)?;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if !user.is_root() {
        // A user could not do anything in a directory of root's.
        let owner = SetAttr::default().uid(Some(user.as_raw())).gid(Some(group.as_raw()));
        let volume = region::volume(path, false)?;
        volume.set_attributes(ROOT, &owner).and_then(|_| volume.close()).user(cannot)?;
    }
    say!("{name}: a volume of {}", format_bytes_rounded(bytes));
    Ok(0)
}

/// A file on small pages is scattered in a region, and is made contiguous by mapping. On memory that
/// can only be mapped by huge pages that does not work.
fn refuse_small_pages_only(name: &str, map_bytes: u64, options: &CreateOptions) -> Result<()> {
    if options.threshold == Threshold::Never && map_bytes > options.geometry.page_bytes.into() {
        let unit = format_bytes_rounded(map_bytes);
        let message = format!("{name} is mapped with {unit} pages, which requires huge pages for large files");
        return Err(Error::user(message).hint("omit --threshold never"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    #[test]
    fn who_forces_it_is_not_told_to() {
        for (force, told) in [(&[][..], true), (&["--force"][..], false)] {
            let words = ["scmfs", "mkfs", "/dev/null", "--size", "64M"].iter().chain(force);
            let Command::Mkfs(arguments) = Arguments::try_parse_from(words).unwrap().command else {
                unreachable!("it is mkfs")
            };
            let refused = mkfs(&arguments).unwrap_err();
            assert_eq!(refused.cure().is_some_and(|cure| cure.contains("--force")), told, "{}", refused.chain());
        }
    }
}
