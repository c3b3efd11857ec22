//! Archives of a command's files: the same files make the same bytes, whoever packs them and when.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// What an archive does not say of its files: who owns them, when they were made, in which order they were found.
const THE_SAME_EACH_TIME: [&str; 6] =
    ["--format=gnu", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"];

/// Refuses what cannot be packed.
///
/// # Errors
/// `ErrorKind::User` if there is no such file or folder, or it is something else.
pub fn check(path: &Path) -> Result<()> {
    let hint = "command_files is a folder, a tar file or one other file, relative to the study's folder";
    let facts = fs::metadata(path).user(|| format!("cannot read {}", path.display())).map_err(|e| e.hint(hint))?;
    // Anything else may have no end, or wait for somebody who writes.
    match facts.is_dir() || facts.is_file() {
        true => Ok(()),
        false => Err(Error::user(format!("{} is neither a folder nor a regular file", path.display())).hint(hint)),
    }
}

/// Endings of tar files' names; everything else that is no folder is a file to be packed itself.
const ENDINGS: [&str; 7] = [".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar.zst", ".tar.lz"];

/// Packs a folder, what a tar file holds, or one other file, into a file `DIGEST.tar` of a folder; the SHA-256 of its
/// bytes.
///
/// # Errors
/// `ErrorKind::User` as [`check`], or if it cannot be read; `ErrorKind::Board` if the archive cannot be stored.
pub fn pack(path: &Path, into: &Path) -> Result<String> {
    check(path)?;
    if path.is_dir() {
        return pack_folder(path, into);
    }
    let opened = pocketstone_board::temporary_folder()?;
    let name = path.file_name().unwrap_or_default();
    match ENDINGS.iter().any(|ending| name.to_string_lossy().ends_with(ending)) {
        true => tar(Command::new("tar").arg("-xf").arg(path).arg("-C").arg(opened.path()), path)?,
        false => {
            fs::copy(path, opened.path().join(name)).map(|_| ()).user(|| format!("cannot read {}", path.display()))?
        }
    }
    pack_folder(opened.path(), into)
}

fn pack_folder(folder: &Path, into: &Path) -> Result<String> {
    let failed = || format!("cannot store an archive in {}", into.display());
    fs::create_dir_all(into).board(failed)?;
    let packed = tempfile::NamedTempFile::new_in(into).board(failed)?;
    // The folder itself is not packed: its permissions are nobody's concern.
    let listed = || format!("cannot list {}", folder.display());
    let mut entries = fs::read_dir(folder).user(listed)?.collect::<std::io::Result<Vec<_>>>().user(listed)?;
    // tar sorts what is in folders, and not what it is told.
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut names = tempfile::NamedTempFile::new().board(failed)?;
    for entry in entries {
        names.write_all(&[b"./", entry.file_name().as_encoded_bytes(), b"\0"].concat()).board(failed)?;
    }
    let mut pack = Command::new("tar");
    pack.args(THE_SAME_EACH_TIME).arg("-cf").arg(packed.path()).arg("-C").arg(folder);
    tar(pack.args(["--null", "--verbatim-files-from", "-T"]).arg(names.path()), folder)?;
    let digest = pocketstone_board::digest_of_file(packed.path())?;
    packed.persist(pocketstone_board::archive_file(into, &digest)).map_err(|e| e.error).board(failed)?;
    Ok(digest)
}

fn tar(command: &mut Command, about: &Path) -> Result<()> {
    let done = command.output().board(|| "cannot start tar".into())?;
    match done.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&done.stderr);
            Err(Error::user(format!("cannot pack {}: {}", about.display(), said.trim()))
                .hint("command_files is a folder, a tar file or one other file that can be read"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_same_files_make_the_same_archive() {
        let home = tempfile::tempdir().unwrap();
        let (one, two, into) = (home.path().join("one"), home.path().join("two"), home.path().join("cache"));
        for (folder, names) in [(&one, ["b", "a"]), (&two, ["a", "b"])] {
            fs::create_dir_all(folder.join("inner")).unwrap();
            names.iter().for_each(|name| fs::write(folder.join(name), name).unwrap());
            fs::set_permissions(folder.join("a"), fs::Permissions::from_mode(0o755)).unwrap();
            fs::set_permissions(folder.join("b"), fs::Permissions::from_mode(0o640)).unwrap();
            std::os::unix::fs::symlink("../a", folder.join("inner/link")).unwrap();
        }
        let digest = pack(&one, &into).unwrap();
        assert_eq!(pack(&two, &into).unwrap(), digest);
        let file = pocketstone_board::archive_file(&into, &digest);
        assert_eq!(pack(&file, &into).unwrap(), digest, "an archive is packed anew");
        let opened = home.path().join("opened");
        fs::create_dir(&opened).unwrap();
        assert!(Command::new("tar").arg("-xf").arg(&file).arg("-C").arg(&opened).status().unwrap().success());
        assert_eq!(fs::read(opened.join("inner/link")).unwrap(), b"a");
        assert_eq!(fs::metadata(opened.join("a")).unwrap().permissions().mode() & 0o777, 0o755);
        fs::write(one.join("a"), "other").unwrap();
        assert_ne!(pack(&one, &into).unwrap(), digest);
        // One file, as a folder that has nothing else.
        let alone = home.path().join("alone");
        fs::create_dir(&alone).unwrap();
        fs::copy(two.join("a"), alone.join("a")).unwrap();
        assert_eq!(pack(&two.join("a"), &into).unwrap(), pack(&alone, &into).unwrap());
        let kept = fs::read_dir(&into).unwrap().count();
        fs::write(home.path().join("no.tar.gz"), "text").unwrap();
        for wrong in [home.path().join("none"), home.path().join("no.tar.gz"), "/dev/zero".into()] {
            assert!(pack(&wrong, &into).unwrap_err().cure().is_some());
        }
        assert_eq!(fs::read_dir(&into).unwrap().count(), kept, "nothing is left of what failed");
    }
}
