//! The read-ahead setting of a mount, through its backing device (bdi).

use crate::settings::Settings;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The `read_ahead_kb` file of one backing device.
#[derive(Debug, Clone)]
pub struct Bdi {
    name: String,
    file: PathBuf,
}

impl Bdi {
    /// The backing device called `name`, such as `mtd-0`, `ubifs_0_0` or `8:0`.
    ///
    /// # Errors
    /// `ErrorKind::Board` if there is none of that name.
    pub fn named(name: &str) -> Result<Self> {
        Self::within(Path::new("/sys/class/bdi"), name)
    }

    fn within(class: &Path, name: &str) -> Result<Self> {
        let file = class.join(name).join("read_ahead_kb");
        if !file.exists() {
            return Err(Error::board(format!("no backing device `{name}` ({} is missing)", file.display())));
        }
        Ok(Bdi { name: name.to_owned(), file })
    }

    /// The backing device of the file system that `path` is on, where it is a block device or a FUSE mount.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the path cannot be read, or its file system has no such device (tmpfs, overlay).
    pub fn of(path: &Path) -> Result<Self> {
        let device = rustix::fs::stat(path).board(|| format!("cannot stat {}", path.display()))?.st_dev;
        let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        Self::named(&whole_disk(Path::new("/sys/dev/block"), &number).unwrap_or(number))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value in force, in bytes.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the file cannot be read.
    pub fn bytes(&self) -> Result<u64> {
        let text = fs::read_to_string(&self.file).board(|| format!("cannot read {}", self.file.display()))?;
        let kib: u64 = text.trim().parse().board(|| format!("{} holds `{}`", self.file.display(), text.trim()))?;
        Ok(kib * 1024)
    }

    /// Sets the value as one of `settings`, and returns the one before in bytes.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it cannot be set (which requires root), is not a multiple of 1 KiB, or the kernel takes
    /// another value.
    pub fn set_in(&self, settings: &mut Settings, bytes: u64) -> Result<u64> {
        let before = self.bytes()?;
        if bytes % 1024 != 0 {
            return Err(Error::board(format!("read-ahead of {} cannot be {bytes} bytes", self.name))
                .hint("the kernel counts in KiB: use a multiple of 1 KiB"));
        }
        let set = settings.set(&self.file, &(bytes / 1024).to_string());
        set.map_err(|e| {
            Error::board(format!("cannot set read-ahead of {} to {bytes} bytes", self.name))
                .because(e)
                .hint("run as root, or set read-ahead by file: read_ahead_by = \"file\"")
        })?;
        Ok(before)
    }
}

/// The number of the disk that a partition is on, in a folder like /sys/dev/block: only the disk has a backing device.
/// `None` if `number` is no partition.
fn whole_disk(devices: &Path, number: &str) -> Option<String> {
    let partition = fs::canonicalize(devices.join(number)).ok()?;
    let disk = partition.join("partition").exists().then(|| partition.parent())??;
    Some(fs::read_to_string(disk.join("dev")).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_the_backing_device_of_its_disk() {
        let sys = tempfile::tempdir().unwrap();
        let (disk, devices) = (sys.path().join("devices/mmcblk0"), sys.path().join("dev/block"));
        fs::create_dir_all(disk.join("mmcblk0p2")).unwrap();
        fs::create_dir_all(&devices).unwrap();
        fs::write(disk.join("dev"), "179:0\n").unwrap();
        fs::write(disk.join("mmcblk0p2/partition"), "2\n").unwrap();
        std::os::unix::fs::symlink(&disk, devices.join("179:0")).unwrap();
        std::os::unix::fs::symlink(disk.join("mmcblk0p2"), devices.join("179:2")).unwrap();
        assert_eq!(whole_disk(&devices, "179:2").as_deref(), Some("179:0"));
        assert_eq!(whole_disk(&devices, "179:0"), None);
        assert_eq!(whole_disk(&devices, "0:32"), None);
    }

    #[test]
    fn a_setting_is_put_back_and_a_missing_device_is_named() {
        let class = tempfile::tempdir().unwrap();
        fs::create_dir(class.path().join("mtd-0")).unwrap();
        let file = class.path().join("mtd-0/read_ahead_kb");
        fs::write(&file, "128\n").unwrap();
        let bdi = Bdi::within(class.path(), "mtd-0").unwrap();
        let mut settings = Settings::unguarded();
        assert_eq!((bdi.set_in(&mut settings, 0).unwrap(), bdi.bytes().unwrap()), (131_072, 0));
        settings.restore().unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "128\n");
        let error = bdi.set_in(&mut Settings::unguarded(), 100).unwrap_err();
        assert!(error.cure().unwrap().contains("multiple of 1 KiB"), "{}", error.chain());
        assert_eq!(fs::read_to_string(&file).unwrap(), "128\n");
        assert!(Bdi::within(class.path(), "mtd-9").unwrap_err().to_string().contains("mtd-9"));
    }
}
