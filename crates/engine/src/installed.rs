//! Where the files that come with the commands are: below the prefix that a program is installed in, or, for one that
//! was built and not installed, in its checkout.
//!
//! ```text
//! PREFIX/bin/pocketstone                                  the commands
//! PREFIX/lib/pocketstone/pocketstone-runner               the runner of this machine
//! PREFIX/lib/pocketstone/runners/TRIPLE                   static runners for boards, as Rust names their processors
//! PREFIX/lib/pocketstone/replay.wasm                      the replay for browsers
//! PREFIX/share/pocketstone/devices, .../studies           profiles and studies
//! PREFIX/share/pocketstone/java/pocketstone-h2.jar        the H2 process
//! ```

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::path::{Path, PathBuf};

/// What a program below a prefix is at most: `PREFIX/lib/pocketstone/PROGRAM`.
const DEPTH: usize = 3;
/// Where a folder of profiles or studies is in a checkout, from this room on.
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The cure where an installation lacks something.
const CURE: &str = "install the package again, or use the command that `make build` makes in a checkout";

/// An installation of the commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    prefix: PathBuf,
}

impl Installed {
    /// The installation that this program belongs to; `None` for one that was built and not installed.
    pub fn of_this_program() -> Option<Self> {
        Self::of(&std::env::current_exe().ok()?)
    }

    /// The installation that the program at a path belongs to.
    pub fn of(program: &Path) -> Option<Self> {
        let prefixes = program.ancestors().skip(1).take(DEPTH).map(|prefix| Installed { prefix: prefix.to_owned() });
        prefixes.into_iter().find(|installed| installed.share().is_dir())
    }

    /// What is the same on every machine.
    pub fn share(&self) -> PathBuf {
        self.prefix.join("share/pocketstone")
    }

    /// Programs.
    pub fn lib(&self) -> PathBuf {
        self.prefix.join("lib/pocketstone")
    }

    /// A program of the installation, by its name in [`Installed::lib`].
    ///
    /// # Errors
    /// `ErrorKind::Board` if the installation lacks it.
    pub fn program(&self, name: &str, what: &str) -> Result<PathBuf> {
        let path = self.lib().join(name);
        match path.is_file() {
            true => Ok(path),
            false => Err(Error::board(format!("{what} is not installed: there is no {}", path.display())).hint(CURE)),
        }
    }
}

/// The root of the checkout that this program was built in.
///
/// # Errors
/// `ErrorKind::Board` if it is not there any more; `what` requires it.
pub fn checkout(what: &str) -> Result<PathBuf> {
    std::fs::canonicalize(CHECKOUT).board(|| format!("pocketstone's sources are not at {CHECKOUT}")).map_err(|e| {
        e.hint(format!("{what} comes from them: install pocketstone as a package, or build it in its source tree"))
    })
}

/// The folder `devices` or `studies`: the installation's, or else the checkout's.
///
/// # Errors
/// `ErrorKind::Board` if neither has it.
pub fn data(name: &str) -> Result<PathBuf> {
    data_of(Installed::of_this_program(), name)
}

fn data_of(installed: Option<Installed>, name: &str) -> Result<PathBuf> {
    let folder = match &installed {
        Some(installed) => installed.share().join(name),
        None => checkout(&format!("the folder {name}"))?.join(name),
    };
    match folder.is_dir() {
        true => Ok(folder),
        false => Err(Error::board(format!("there is no folder {}", folder.display())).hint(CURE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_program_belongs_to_the_prefix_above_it() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("usr");
        let programs = ["bin/pocketstone", "lib/pocketstone/pocketstone-runner"].map(|name| prefix.join(name));
        assert!(programs.iter().all(|program| Installed::of(program).is_none()));
        fs::create_dir_all(prefix.join("share/pocketstone/devices")).unwrap();
        let installed = Installed { prefix: prefix.clone() };
        assert!(programs.iter().all(|program| Installed::of(program).as_ref() == Some(&installed)));
        // A build in a folder of that prefix is not installed.
        assert_eq!(Installed::of(&prefix.join("src/pocketstone/target/release/pocketstone")), None);
    }

    #[test]
    fn what_an_installation_lacks_is_named_with_its_cure() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("share/pocketstone/devices")).unwrap();
        let installed = Installed { prefix: folder.path().to_owned() };
        let devices = data_of(Some(installed.clone()), "devices").unwrap();
        assert_eq!(devices, folder.path().join("share/pocketstone/devices"));
        let missing = [
            data_of(Some(installed.clone()), "studies").unwrap_err(),
            installed.program("runners/pdp11", "the runner for pdp11").unwrap_err(),
        ];
        for error in missing {
            assert!(error.message().contains(&*folder.path().to_string_lossy()), "{}", error.chain());
            assert_eq!(error.cure(), Some(CURE));
        }
    }

    #[test]
    fn what_was_only_built_reads_its_checkout() {
        let studies = data_of(None, "studies").unwrap();
        assert!(studies.join("readahead.toml").is_file(), "{}", studies.display());
        assert!(data_of(None, "no-such-folder").unwrap_err().message().contains("no-such-folder"));
    }
}
