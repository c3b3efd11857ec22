//! Stores through mappings of a file that became append-only or immutable: those of before count, later ones do not.

use crate::wire::Connection;
use pocketstone_vfs::Ino;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files whose protection was changed, as long as the kernel's cache may hold what was stored before.
#[derive(Clone, Default)]
pub(crate) struct Unsealed {
    files: Arc<Mutex<HashSet<Ino>>>,
}

impl Unsealed {
    fn files(&self) -> MutexGuard<'_, HashSet<Ino>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn contains(&self, ino: Ino) -> bool {
        self.files().contains(&ino)
    }

    /// A file's protection is about to change: until the kernel has written what it holds, its writes are of before.
    pub fn begin(&self, ino: Ino) {
        self.files().insert(ino);
    }

    /// Has the kernel write what it holds of a file, on a thread that answers no requests: the kernel sends some
    /// meanwhile.
    pub fn end(&self, ino: Ino, connection: Connection) {
        let unsealed = self.clone();
        let seal = move || {
            // That the kernel has forgotten the inode is fine: it wrote what it had.
            let _ = connection.forget_contents(ino.into());
            unsealed.files().remove(&ino);
        };
        // Without a thread the file stays as it is: nothing is lost, and mapped stores are not refused.
        let _ = std::thread::Builder::new().name("seal".into()).spawn(seal);
    }
}
