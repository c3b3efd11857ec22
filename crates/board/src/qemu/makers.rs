//! The programs that make file systems on a board's block device: Debian's, with the libraries they need.

use crate::VirtualProfile;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A file system's module, its maker's name on the board and in its package, and the package.
const MAKERS: [(&str, &str, &str, &str); 4] = [
    ("ext4", "mkfs.ext4", "mke2fs", "e2fsprogs"),
    ("f2fs", "mkfs.f2fs", "mkfs.f2fs", "f2fs-tools"),
    ("btrfs", "mkfs.btrfs", "mkfs.btrfs", "btrfs-progs"),
    ("exfat", "mkfs.exfat", "mkfs.exfat", "exfatprogs"),
];

/// The packages of libraries that these depend on.
const LIBRARIES: [&str; 11] = [
    "libblkid1",
    "libc6",
    "libcom-err2",
    "libext2fs2",
    "liblzo2-2",
    "libpcre2-8-0",
    "libselinux1",
    "libudev1",
    "libuuid1",
    "libzstd1",
    "zlib1g",
];

/// All packages that are needed for the makers of any file system.
pub fn packages() -> Vec<&'static str> {
    MAKERS.iter().map(|maker| maker.3).chain(LIBRARIES).collect()
}

/// Whether a board has a block device, and so needs makers.
pub fn needed(profile: &VirtualProfile) -> bool {
    profile.block.is_some()
}

/// The makers of the file systems that a profile loads, and the libraries they need, by their paths on the board.
///
/// # Errors
/// `ErrorKind::Board` if one is not in `unpacked`, the folder of the packages.
pub fn of(profile: &VirtualProfile, unpacked: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let files = index(unpacked)?;
    let read = |name: &str| -> Result<Vec<u8>> {
        let missing = || Error::board(format!("{name} is missing in {}", unpacked.display()));
        let path = files.get(name).ok_or_else(missing)?;
        fs::read(path).board(|| format!("cannot read {}", path.display()))
    };
    let loaded = |module: &str| profile.modules.load.iter().any(|name| name == module);
    let mut found = BTreeMap::new();
    for (_, name, file, _) in MAKERS.iter().filter(|maker| loaded(maker.0)) {
        found.insert(format!("sbin/{name}"), read(file)?);
    }
    if found.is_empty() {
        return Ok(found);
    }
    let loader = profile.machine.architecture.loader();
    found.insert(format!("lib/{loader}"), read(loader)?);
    // Those that something needs, until nothing needs another one.
    loop {
        // What looks like a library's name and is none in these packages is not needed from them.
        let is_missing = |name: &&str| files.contains_key(*name) && !found.contains_key(&format!("lib/{name}"));
        let missing = found.values().flat_map(|content| libraries(content)).find(is_missing).map(str::to_owned);
        let Some(name) = missing else { break };
        found.insert(format!("lib/{name}"), read(&name)?);
    }
    Ok(found)
}

/// The names of libraries that a program or library has: ELF has those that it needs as strings between zeros.
fn libraries(content: &[u8]) -> impl Iterator<Item = &str> {
    let words = content.split(|byte| *byte == 0).filter(|word| word.starts_with(b"lib"));
    words.filter_map(|word| std::str::from_utf8(word).ok()).filter(|word| word.contains(".so"))
}

/// Every file below a folder, by its name. A link counts if it leads to a file beside it.
fn index(folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).board(|| format!("cannot list {}", folder.display()))?.flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(_) if path.is_file() => {
                    files.insert(entry.file_name().to_string_lossy().into_owned(), path);
                }
                _ => {}
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Profile, ProfileKind};

    fn profile(load: &[&str]) -> VirtualProfile {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices");
        let ProfileKind::Virtual(mut machine) = Profile::load(&shipped, "virt-emmc").unwrap().kind else {
            panic!("a virtual board")
        };
        machine.modules.load = load.iter().map(|name| (*name).to_owned()).collect();
        *machine
    }

    #[test]
    fn makers_come_with_what_they_need_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("usr/lib");
        fs::create_dir_all(&library).unwrap();
        let write = |name: &str, content: &[u8]| fs::write(library.join(name), content).unwrap();
        write("mke2fs", b"ELF\0libone.so.2\0libc.so.6\0");
        write("mkfs.f2fs", b"ELF\0libf.so.9\0");
        write("libone.so.2.0", b"ELF\0libtwo.so\0");
        std::os::unix::fs::symlink("libone.so.2.0", library.join("libone.so.2")).unwrap();
        let loader = "ld-linux-armhf.so.3";
        ["libtwo.so", "libc.so.6", "libf.so.9", "libthree.so", loader].iter().for_each(|name| write(name, b"ELF"));
        let of = |load: &[&str]| of(&profile(load), folder.path()).map(|found| found.into_keys().collect::<Vec<_>>());
        let expected =
            ["lib/ld-linux-armhf.so.3", "lib/libc.so.6", "lib/libone.so.2", "lib/libtwo.so", "sbin/mkfs.ext4"];
        assert_eq!(of(&["nbd", "ext4"]).unwrap(), expected);
        assert!(of(&["nbd"]).unwrap().is_empty());
        assert!(of(&["btrfs"]).unwrap_err().chain().contains("mkfs.btrfs is missing"));
    }
}
