//! Paths in a volume.

use pocketstone_vfs::{Attr, Ino, Operations, ROOT, Result};
use pocketstone_yaffs2::Volume;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What a path leads to, from the volume's root, whether it begins with `/` or not. Symbolic links are not followed.
pub fn resolve(volume: &Volume, path: &Path) -> Result<Attr> {
    let mut at = ROOT;
    let mut above: Vec<Ino> = Vec::new();
    let parts =
        path.as_os_str().as_bytes().split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    for part in parts {
        if part == b".." {
            at = above.pop().unwrap_or(ROOT);
            continue;
        }
        above.push(at);
        at = volume.lookup(at, part)?.ino;
    }
    volume.attributes(at)
}

/// Names and inodes of a directory, sorted by name.
pub fn list(volume: &Volume, directory: Ino) -> Result<Vec<(Vec<u8>, Ino)>> {
    let mut entries = Vec::new();
    volume.read_directory(directory, 0, &mut |entry| {
        entries.push((entry.name.clone(), entry.ino));
        true
    })?;
    entries.sort();
    Ok(entries)
}
