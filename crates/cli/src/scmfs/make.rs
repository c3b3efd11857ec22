//! `mkfs`.

use crate::arguments::MkfsArguments;
use crate::region;
use pocketstone_cli::show_bytes;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_media::{MapOptions, Mapped, Region};
use pocketstone_scmfs::{CreateOptions, ROOT, SetAttr, Threshold, Volume};
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
        return Err(Error::user(format!("{name} is a directory")).hint("name a file or a memory device"));
    }
    let device = there.as_ref().is_some_and(|there| there.file_type().is_char_device());
    let length = there.as_ref().map_or(0, Metadata::len);
    let bytes = match arguments.size {
        Some(size) => size,
        // All of a device.
        None if device => 0,
        None if length > 0 => length,
        None => return Err(Error::user(format!("{name} has no size yet")).hint("give one: --size 2G")),
    };
    // A file that was only given a length holds nothing.
    let hollow = there.as_ref().is_some_and(|there| there.is_file() && there.blocks() == 0);
    let (overwrite, persistent) = (arguments.force || hollow, region::flushed());
    let options = MapOptions { overwrite, persistent, ..MapOptions::default() };
    let region = Mapped::create(path, bytes, &options)
        .map_err(|error| if length > 0 || device { error.hint("--force destroys what it holds") } else { error });
    // The file may be in use instead; the advice to force would be wrong then.
    let region = region.map_err(|error| match error.message().contains("in use") {
        true => error.hint("unmount it first: scmfs umount DIR"),
        false => error,
    })?;
    let create = CreateOptions {
        max_bytes: arguments.max_size,
        inodes: arguments.inodes,
        small_bytes: arguments.small_zone,
        threshold: arguments.threshold,
        label: arguments.label.clone(),
        zeroed: region.zeroed(),
        ..CreateOptions::default()
    };
    refuse_small_pages_only(&region, &create)?;
    let bytes = region.bytes();
    let cannot = || format!("cannot make a volume in {name}");
    Volume::create(Box::new(region), &create).user(cannot)?;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if !user.is_root() {
        // A user could not do anything in a directory of root's.
        let owner = SetAttr { uid: Some(user.as_raw()), gid: Some(group.as_raw()), ..SetAttr::default() };
        let volume = region::volume(path, false)?;
        volume.set_attributes(ROOT, &owner).and_then(|_| volume.close()).user(cannot)?;
    }
    say!("{name}: a volume of {}", show_bytes(bytes));
    Ok(0)
}

/// A file on small pages is scattered in a region, and is made contiguous by mapping. On memory that
/// can only be mapped by huge pages that does not work.
fn refuse_small_pages_only(region: &dyn Region, options: &CreateOptions) -> Result<()> {
    if options.threshold == Threshold::Never && region.map_bytes() > options.geometry.page_bytes.into() {
        let unit = show_bytes(region.map_bytes());
        let message = format!("{} is mapped by pages of {unit}: large files need huge pages there", region.describe());
        return Err(Error::user(message).hint("leave --threshold never out"));
    }
    Ok(())
}
