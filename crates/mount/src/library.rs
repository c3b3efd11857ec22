//! Where the library is that programs have loaded to reach files of a mount without the kernel.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The library's file name.
pub const LIBRARY: &str = "libscmfs_preload.so";
/// Where it is, for who keeps it elsewhere.
const PLACE: &str = "SCMFS_PRELOAD_LIBRARY";

/// The library: where the user says, beside this program, or where packages have libraries.
///
/// # Errors
/// `ErrorKind::Board` if it is not there; `ErrorKind::User` if the dynamic linker cannot load it from where it is.
pub fn library() -> Result<PathBuf> {
    let missing = |place: &Path| {
        Error::board(format!("{} is not there", place.display()))
            .hint("cargo build --release -p pocketstone-preload, or name it in SCMFS_PRELOAD_LIBRARY")
    };
    if let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) {
        return if place.is_file() { Ok(place) } else { Err(missing(&place)) };
    }
    let program = std::env::current_exe().board(|| "cannot find this program".to_owned())?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let beside = folder.join(LIBRARY);
    // Cargo leaves what it makes for tests in `deps`, which is never older.
    let folders = ["deps", ".", "../lib", "../lib/scmfs"];
    let places = folders.map(|place| folder.join(place).join(LIBRARY));
    let found = places.into_iter().find(|place| place.is_file());
    // The dynamic linker takes spaces and colons for separators.
    let usable = |place: &PathBuf| !place.as_os_str().as_encoded_bytes().iter().any(|byte| b" :".contains(byte));
    match found.map(|place| place.canonicalize().unwrap_or(place)) {
        Some(place) if usable(&place) => Ok(place),
        Some(place) => Err(Error::user(format!("{} has a space or a colon in its name", place.display()))
            .hint("the dynamic linker cannot load it from there: move it")),
        None => Err(missing(&beside)),
    }
}

/// What `LD_PRELOAD` is to be for a program: the library before `others`, which are loaded anyway.
pub fn loaded_first(library: PathBuf, others: Option<OsString>) -> OsString {
    let mut all = library.into_os_string();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_that_are_loaded_anyway_stay() {
        let library = || PathBuf::from("/lib/a.so");
        assert_eq!(loaded_first(library(), None), "/lib/a.so");
        assert_eq!(loaded_first(library(), Some("".into())), "/lib/a.so");
        assert_eq!(loaded_first(library(), Some("b.so".into())), "/lib/a.so:b.so");
    }
}
