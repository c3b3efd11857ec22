//! What tests of mounts share: a volume to mount.

use pocketstone_media::{MapOptions, Mapped};
use pocketstone_mount::{MountOptions, Mounted, mount_scmfs};
use pocketstone_scmfs::{CreateOptions, OpenOptions, Volume};
use pocketstone_testing::Skip;
use pocketstone_testing::wait::retry;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

const VOLUME_BYTES: u64 = 32 << 20;

/// A volume in a file that can be mounted again and again.
pub struct Ground {
    home: TempDir,
}

impl Ground {
    /// A fresh one; a counted skip where there can be no mounts.
    #[track_caller]
    pub fn new() -> Result<Ground, Skip> {
        pocketstone_testing::fuse()?;
        let ground = Ground { home: tempfile::tempdir().unwrap() };
        fs::create_dir(ground.directory()).unwrap();
        let options = MapOptions::default().overwrite(true);
        let region = Mapped::create(&ground.region(), VOLUME_BYTES, &options).unwrap();
        Volume::create(Box::new(region), &CreateOptions::default().zeroed(true)).unwrap();
        Ok(ground)
    }

    pub fn region(&self) -> PathBuf {
        self.home.path().join("region")
    }

    /// Where it is mounted.
    pub fn directory(&self) -> PathBuf {
        self.home.path().join("mount")
    }

    /// A folder beside it.
    pub fn beside(&self) -> &Path {
        self.home.path()
    }

    pub fn open(&self) -> Volume {
        let options = MapOptions::default().overwrite(true);
        // A process that another test has just started holds what is open here, locks too, until it runs its program.
        let region = retry(|_| true, || Mapped::open(&self.region(), &options));
        Volume::open(Box::new(region.expect("a region that nobody uses")), &OpenOptions::default()).unwrap()
    }

    pub fn mount(&self, options: &MountOptions) -> (Mounted, Arc<Volume>) {
        let volume = Arc::new(self.open());
        (mount_scmfs(volume.clone(), &self.directory(), options).unwrap(), volume)
    }
}

/// Closes a volume that nobody serves any more.
pub fn close(volume: Arc<Volume>) {
    Arc::into_inner(volume).expect("nothing else holds it").close().unwrap();
}
