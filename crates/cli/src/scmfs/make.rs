//! `mkfs`.

use crate::arguments::MkfsArguments;
use crate::region;
use pocketstone_core::error::Context;
use pocketstone_core::units::{format_bytes, format_bytes_rounded};
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
        let checked = create.check(rounded, unit).map_err(in_words_of_mkfs);
        checked.user(|| format!("cannot create a volume in {name}"))?;
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
    Volume::create(Box::new(region), &create).map_err(in_words_of_mkfs).user(cannot)?;
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

/// What the library says of its options, by the names and in the units that they have here.
fn in_words_of_mkfs(error: pocketstone_vfs::Error) -> Error {
    let words = |text: &str| {
        // What is quoted is the user's.
        if text.contains('"') {
            return text.to_owned();
        }
        let named = [("`max_bytes`", "--max-size"), ("more `bytes`", "a larger --size"), ("`bytes`", "--size")];
        let text = named.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours));
        in_units(&text.replace("fewer `inodes`", "fewer --inodes"))
    };
    match error {
        pocketstone_vfs::Error::Medium(refused) if refused.kind() == MediumErrorKind::Refused => {
            let (message, cure, cause) = refused.into_parts();
            let ours = Error::user(words(&message));
            let ours = cause.into_iter().fold(ours, Error::because);
            cure.into_iter().fold(ours, |error, cure| error.hint(words(&cure)))
        }
        other => Error::from(other),
    }
}

/// A text with its numbers of bytes in the largest units that divide them.
fn in_units(text: &str) -> String {
    let mut parts = text.split(" bytes");
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let number = made.len() - made.bytes().rev().take_while(u8::is_ascii_digit).count();
        match made[number..].parse() {
            Ok(bytes) => made.replace_range(number.., &format_bytes(bytes)),
            Err(_) => made.push_str(" bytes"),
        }
        made.push_str(part);
    }
    made
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
    fn options_have_the_names_and_units_of_the_command() {
        let refused = |bytes: u64, options: CreateOptions| {
            let error = in_words_of_mkfs(options.check(bytes, 4096).unwrap_err());
            let cure = error.cure().unwrap_or_default().to_owned();
            assert!(!cure.contains('`') && !error.message().contains(" bytes"), "{} {cure}", error.message());
            (error.message().to_owned(), cure)
        };
        let (message, cure) = refused(64 << 20, CreateOptions::default().max_bytes(Some(32 << 20)));
        assert_eq!(message, "a volume of 64 MiB cannot have a maximum size of 32 MiB");
        assert_eq!(cure, "--max-size must be at least --size");
        let (message, cure) = refused(1 << 20, CreateOptions::default());
        assert_eq!(message, "a volume of 1 MiB is too small");
        assert!(cure.contains("iB: use a larger --size, or fewer --inodes"), "{cure}");
        let label = CreateOptions::default().label("a label of 4096 bytes, which is more than 32");
        assert!(in_words_of_mkfs(label.check(64 << 20, 4096).unwrap_err()).message().contains("4096 bytes"));
        assert_eq!(in_units("of bytes 5000 bytes and 0 bytes"), "of bytes 5000 B and 0 B");
    }

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
