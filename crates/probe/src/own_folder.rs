//! A user's own folder among those of others.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// The user's own folder in one that everybody may write to: nobody else can read it, or has put something else there.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be made, is not a directory, or belongs to another user.
pub fn own_folder(parent: &Path, name: &str) -> Result<PathBuf> {
    let user = rustix::process::geteuid();
    let path = parent.join(format!("{name}-{}", user.as_raw()));
    let failed = || format!("cannot use {}", path.display());
    match rustix::fs::mkdir(&path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(e) => return Err(Error::board(failed()).because(e)),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let not_ours = |why: String| {
        Error::board(format!("{} is not this user's own folder: {why}", path.display()))
            .hint(format!("as root, check who created it, and remove it: {}", path.display()))
    };
    let folder = rustix::fs::open(&path, flags, Mode::empty()).map_err(|e| not_ours(e.to_string()))?;
    let owner = rustix::fs::fstat(&folder).board(failed)?.st_uid;
    if owner != user.as_raw() {
        return Err(not_ours(format!("it belongs to user {owner}")));
    }
    rustix::fs::fchmod(&folder, Mode::RWXU).board(failed)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn the_users_own_folder_is_nobody_elses() {
        let parent = tempfile::tempdir().unwrap();
        let own = own_folder(parent.path(), "x").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&own), 0o700);
        // One that is there already is used, and closed to others.
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!((own_folder(parent.path(), "x").unwrap(), mode(&own)), (own.clone(), 0o700));
        // What somebody else has put there is not followed.
        std::fs::remove_dir(&own).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), &own).unwrap();
        let error = own_folder(parent.path(), "x").unwrap_err();
        assert!(error.message().contains("own folder") && error.cure().is_some(), "{}", error.chain());
        if rustix::process::geteuid().is_root() {
            std::fs::remove_file(&own).unwrap();
            std::fs::create_dir(&own).unwrap();
            std::os::unix::fs::chown(&own, Some(65534), None).unwrap();
            let error = own_folder(parent.path(), "x").unwrap_err();
            assert!(error.message().contains("belongs to user 65534"), "{}", error.chain());
        }
    }
}
