//! The library that reaches the files of an SCMFS mount without the kernel, in the process that measures.
//!
//! It can only be loaded before a program begins, so a cell that is to have it starts this program anew, in its place.

use pocketstone_core::volume::{Access, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_mount::{LIBRARY, library, loaded_first, stores_directly};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What is direct, for library and mount: reads, overwrites and appends.
pub const WAY: &str = "append";
/// The loader's variable.
const LOADED: &str = "LD_PRELOAD";
/// Set, to nothing, for this program when it was started anew: that is done once.
const ANEW: &str = "POCKETSTONE_PRELOADED";

/// Starts this program anew if a volume is to be reached by the library and it is not loaded. Why that cannot be is
/// told by [`check`].
pub fn load_for(volume: &Volume) {
    if volume.access == Access::Preload && std::env::var_os(ANEW).is_none() {
        let _failed = started_anew();
    }
}

/// Returns if that cannot be.
fn started_anew() -> Result<()> {
    let loaded = loaded_first(library()?, std::env::var_os(LOADED));
    let mut command = Command::new("/proc/self/exe");
    command.args(std::env::args_os().skip(1)).env(LOADED, loaded).env(ANEW, "").env("SCMFS_PRELOAD", WAY);
    Err(Error::board("cannot start this program anew").because(command.exec()))
}

/// Checks that the library is loaded.
///
/// # Errors
/// `ErrorKind::Board` if it is not: it was not found, this program is static, as on boards, or the kernel is too old.
pub fn check() -> Result<()> {
    if !stores_directly() {
        let error = Error::board("before Linux 6.16 the kernel lets no program write to files of a mount directly");
        return Err(error.hint("use Linux 6.16 or newer, or set volume_access = \"fuse\""));
    }
    library()?;
    let maps = procfs::process::Process::myself().and_then(|own| own.maps());
    let is_ours = |path: &procfs::process::MMapPath| match path {
        procfs::process::MMapPath::Path(path) => path.file_name().is_some_and(|name| name == LIBRARY),
        _ => false,
    };
    match maps.is_ok_and(|maps| maps.iter().any(|map| is_ours(&map.pathname))) {
        true => Ok(()),
        false => {
            Err(Error::board("the library for direct access is not loaded: this program is static or has another libc")
                .hint("set volume_access = \"fuse\", or use the host board"))
        }
    }
}

/// A command whose program must not have it: who serves the mount.
pub fn without(command: &mut Command) {
    command.env_remove(LOADED);
}
