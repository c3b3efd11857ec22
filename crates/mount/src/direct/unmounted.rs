//! The door of a volume that is not mounted, for tests and fuzzers: they say what the kernel would.

use super::Direct;
use super::lease::Appends;
use crate::known::Known;
use crate::mountable::{Mountable, Open};
use crate::options::MountOptions;
use pocketstone_lease::message::Name;
use pocketstone_vfs::Ino;
use std::sync::{Arc, OnceLock};

/// Serves processes that reach the content of a volume's files directly, without a mount. It does not have
/// pages forgotten, for there is no kernel that holds any.
pub struct Unmounted<V: Mountable> {
    direct: Direct<V>,
    known: Arc<Known<Open<V>>>,
}

impl<V: Mountable> Unmounted<V> {
    /// Begins to serve. `None`: the volume has nothing to map, the options rule it out, or the kernel refuses.
    pub fn serve(volume: &Arc<V>, options: &MountOptions) -> Option<Unmounted<V>> {
        let known = Arc::new(Known::new());
        let direct = Direct::open(volume, &known, &Arc::new(OnceLock::new()), options)?;
        Some(Unmounted { direct, known })
    }

    /// Where to attach.
    pub fn name(&self) -> &Name {
        self.direct.name()
    }

    /// The kernel gets to know an inode.
    pub fn learn(&self, ino: Ino) {
        self.known.learn(ino);
    }

    /// The kernel forgets an inode that it was told of once.
    pub fn forget(&self, ino: Ino) {
        self.known.forget(ino, 1);
        if !self.known.knows(ino) {
            self.direct.forgotten(ino);
        }
    }

    /// The kernel asks for a file's content, or brings some.
    pub fn kernel_came(&self, ino: Ino) {
        self.direct.kernel_came(ino, false);
    }

    /// The kernel has forgotten a file's pages.
    pub fn kernel_went(&self, ino: Ino) {
        let files = &self.direct.shared.files;
        if let Some((index, _)) = files.entry(ino) {
            files.table.kernel_went(index, files.table.kernel(index));
        }
    }

    /// Leases the end of a file to a process that may store, by its place among those, as a call does that is made for
    /// it. Whether it did.
    pub fn lease(&self, ino: Ino, process: usize, bytes: u64) -> bool {
        let shared = &self.direct.shared;
        let slots = shared.files.stores.all().get(process).cloned();
        let (Some(slots), Some((index, _))) = (slots.filter(|_| shared.appends), shared.files.entry(ino)) else {
            return false;
        };
        let appends = Appends { bytes, expected: bytes };
        shared.room(ino, &appends).is_some_and(|limit| shared.lease(ino, index, limit, &slots))
    }
}
