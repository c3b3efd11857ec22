//! Debian packages of any architecture, from a private apt root: nothing on the host's package
//! configuration changes, and no root is needed. The archive is the one the host is set up for.

use crate::{BoardContext, Cache};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The lock under which packages are fetched: two of apt's programs cannot work in one root.
pub const LOCK: &str = "packages";

/// An apt of our own for one architecture.
pub struct Apt {
    root: PathBuf,
    architecture: String,
}

impl Apt {
    /// Sets the private root up and reads the archive's indexes.
    ///
    /// # Errors
    /// `ErrorKind::Board` if apt is missing.
    pub fn new(cache: &Cache, architecture: &str, context: &BoardContext) -> Result<Self> {
        let root = cache.folder(&format!("apt-{architecture}"))?;
        for folder in ["lists/partial", "archives/partial"] {
            fs::create_dir_all(root.join(folder)).board(|| format!("cannot create {folder}"))?;
        }
        let apt = Apt { root, architecture: architecture.to_owned() };
        (context.progress)(&format!("reading Debian's package index for {architecture}"));
        // The exit status says too little: one index out of step fails the whole update. Whether the
        // wanted packages are known is what counts, and is asked next.
        let _ = apt.run("apt-get", &["update"])?;
        Ok(apt)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<Output> {
        let option = |name: &str, value: &str| format!("-o{name}={value}");
        let folder = |name: &str| self.root.join(name).display().to_string();
        Command::new(program)
            .arg(option("APT::Architecture", &self.architecture))
            .arg(option("APT::Architectures", &self.architecture))
            .arg(option("Dir::State::Lists", &folder("lists")))
            .arg(option("Dir::Cache", &self.root.display().to_string()))
            .arg(option("Dir::State::status", "/dev/null"))
            // apt drops root for another user, who may not read a cache in a home directory.
            .arg(option("APT::Sandbox::User", "root"))
            .args(arguments)
            .current_dir(self.root.join("archives"))
            .output()
            .map_err(|e| {
                Error::board(format!("cannot run {program}")).because(e).hint(
                    "the board's kernel comes from Debian's archive: run this on Debian, or set your own kernel in \
                        the profile ([kernel] image and modules)",
                )
            })
    }

    /// The record of a package's candidate version (or of `name=version`), as `apt-cache show` prints it.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the archive has none.
    pub fn show(&self, name: &str) -> Result<String> {
        let output = self.run("apt-cache", &["show", "--no-all-versions", name])?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.success() && !text.is_empty() {
            true => Ok(text),
            false => Err(Error::board(format!("the archive has no package {name} for {}", self.architecture))
                .hint("is the network up? `apt-get update` must work on this machine")),
        }
    }

    /// Downloads packages (`name` or `name=version`) and unpacks them into `target`.
    ///
    /// # Errors
    /// `ErrorKind::Board` if one cannot be downloaded or unpacked.
    pub fn unpack(&self, names: &[&str], target: &Path) -> Result<()> {
        for name in names {
            let output = self.run("apt-get", &[&["download"], &[*name][..]].concat())?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(Error::board(format!("cannot download the package {name}: {}", said.trim()))
                    .hint("is the network up? `apt-get update` must work on this machine"));
            }
            let name = name.split('=').next().unwrap_or(name);
            let file = self.newest_archive(name)?;
            let status = Command::new("dpkg-deb").arg("-x").arg(&file).arg(target).status();
            let unpacked = status.board(|| "cannot run dpkg-deb".into())?.success();
            let _ = fs::remove_file(&file);
            if !unpacked {
                return Err(Error::board(format!("cannot unpack {} (is the disk full?)", file.display())));
            }
        }
        Ok(())
    }

    fn newest_archive(&self, name: &str) -> Result<PathBuf> {
        let folder = self.root.join("archives");
        let entries = fs::read_dir(&folder).board(|| format!("cannot list {}", folder.display()))?;
        entries
            .flatten()
            .map(|e| e.path())
            .filter(|p| p.file_name().is_some_and(|f| f.to_string_lossy().starts_with(&format!("{name}_"))))
            .max_by_key(|p| p.metadata().and_then(|m| m.modified()).ok())
            .ok_or_else(|| Error::board(format!("apt-get downloaded {name}, but the file is missing")))
    }
}

/// The value of a field in a package's record.
pub fn field<'a>(record: &'a str, name: &str) -> Option<&'a str> {
    record.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(": "))
}

/// The first package in a record's dependencies whose name starts with `prefix`.
pub fn dependency<'a>(record: &'a str, prefix: &str) -> Option<&'a str> {
    let names = field(record, "Depends")?.split([',', '|']).map(|d| d.trim().split(' ').next().unwrap_or_default());
    names.into_iter().find(|d| d.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read() {
        let record = "Package: linux-image-armmp\nVersion: 6.1.176-1\nDepends: linux-image-6.1.0-50-armmp (= \
            6.1.176-1), x | libllvm19 (>= 1)\n";
        assert_eq!(field(record, "Version"), Some("6.1.176-1"));
        assert_eq!(dependency(record, "linux-image-"), Some("linux-image-6.1.0-50-armmp"));
        assert_eq!(dependency(record, "libllvm"), Some("libllvm19"));
        assert_eq!(dependency(record, "gcc"), None);
    }
}
