//! What a server makes durable before it answers: `sync` and `dirsync` of mount(8). The kernel flushes what write(2)
//! brings by itself, and nothing else.

use crate::listed;
use crate::options::MountOptions;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// An extended attribute of a mount's root directory, stored nowhere: what its server makes durable, and whether others
/// store without it. Who asks for it has the server look how it is mounted: a remount tells it nothing.
pub(crate) const FLUSHES: &str = "user.pocketstone.flushes";

/// What is made durable before it is answered.
pub(crate) struct Flushes {
    everything: AtomicBool,
    names: AtomicBool,
}

impl Flushes {
    pub fn new(options: &MountOptions) -> Flushes {
        Flushes { everything: options.sync.into(), names: options.dir_sync.into() }
    }

    /// Whether all changes are.
    pub fn everything(&self) -> bool {
        self.everything.load(Ordering::Relaxed)
    }

    /// Whether changes of names are.
    pub fn names(&self) -> bool {
        self.everything() || self.names.load(Ordering::Relaxed)
    }

    /// Looks how the file system of a device is mounted now; and says so, in the form of [`FLUSHES`]. `stores`: others
    /// store without this server.
    pub fn look(&self, device: Option<u64>, stores: bool) -> Vec<u8> {
        // It is the same everywhere.
        let mount = device.and_then(|device| listed::here(device).ok()?.pop());
        if let Some(mount) = mount {
            self.everything.store(mount.has("sync"), Ordering::Relaxed);
            self.names.store(mount.has("dirsync"), Ordering::Relaxed);
        }
        let words = [("sync", self.everything()), ("dirsync", self.names.load(Ordering::Relaxed)), ("stores", stores)];
        words.into_iter().filter(|(_, is)| *is).map(|(word, _)| word).collect::<Vec<_>>().join(" ").into_bytes()
    }
}

/// What the server of a mount says of itself.
pub(crate) struct Said(String);

impl Said {
    /// Has the server of what is mounted at a directory look; `None`: it is of an older version, or this user may not
    /// ask it.
    pub fn of(directory: &Path) -> Option<Said> {
        let mut value = [0; 64];
        let bytes = rustix::fs::getxattr(directory, FLUSHES, &mut value[..]).ok()?;
        Some(Said(String::from_utf8_lossy(value.get(..bytes)?).into_owned()))
    }

    /// Whether other processes store to files without it.
    pub fn others_store(&self) -> bool {
        self.0.split(' ').any(|word| word == "stores")
    }
}
