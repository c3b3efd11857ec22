//! The kernel's files past its page cache, as far as that can be: by O_DIRECT.

use crate::kernel::{ANEW, CREATE, flags, no_direct};
use crate::{KernelTree, NoMap, Tree};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_workload::Purpose;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::cell::Cell;
use std::ffi::CStr;
use std::path::Path;

/// No call whose buffer, offset or size is no multiple of this can be direct: it is a block device's sector. A device
/// may want more.
const SECTOR_BYTES: u64 = 512;

/// A folder whose files are opened with O_DIRECT. A call that cannot be direct goes through the page cache: O_DIRECT is
/// taken off the open file for it, by fcntl(), and put back for the next one that can be.
pub struct DirectTree(KernelTree);

/// A file that was opened with O_DIRECT.
pub struct DirectFile {
    file: OwnedFd,
    flags: OFlags,
    /// Whether it has O_DIRECT now.
    direct: Cell<bool>,
}

impl DirectTree {
    /// Opens a folder.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the folder cannot be opened.
    pub fn open(path: &Path) -> Result<Self> {
        KernelTree::open(path).map(DirectTree)
    }

    fn open_with(&self, path: &CStr, flags: OFlags) -> Result<DirectFile> {
        let file = self.0.open_with(path, flags | OFlags::DIRECT).map_err(no_direct)?;
        Ok(DirectFile { file, flags, direct: Cell::new(true) })
    }
}

impl DirectFile {
    fn set(&self, direct: bool) -> Result<(), Errno> {
        if self.direct.get() != direct {
            let with = if direct { OFlags::DIRECT } else { OFlags::empty() };
            rustix::fs::fcntl_setfl(&self.file, self.flags | with)?;
            self.direct.set(direct);
        }
        Ok(())
    }

    /// Makes a call directly if that can be, else through the page cache. `place` is the address of its buffer, its
    /// size and, where that is known before, its offset.
    fn call<R>(&self, place: [u64; 3], mut call: impl FnMut(&OwnedFd) -> Result<R, Errno>) -> Result<R, Errno> {
        let whole = place.iter().all(|number| number % SECTOR_BYTES == 0);
        self.set(whole)?;
        match call(&self.file) {
            // An append that begins within a sector, or a device that wants more.
            Err(Errno::INVAL) if whole => {
                self.set(false)?;
                call(&self.file)
            }
            other => other,
        }
    }

    fn append(&self, from: &[u8]) -> Result<usize, Errno> {
        self.call([address(from), from.len() as u64, 0], |file| rustix::io::write(file, from))
    }
}

fn address(bytes: &[u8]) -> u64 {
    bytes.as_ptr().addr() as u64
}

impl Tree for DirectTree {
    type File<'t> = DirectFile;
    type Map<'t> = NoMap;

    fn direct(&self) -> bool {
        true
    }

    fn free_bytes(&self) -> Result<u64> {
        self.0.free_bytes()
    }

    fn create(&self, path: &CStr) -> Result<DirectFile> {
        self.open_with(path, CREATE)
    }

    fn open(&self, path: &CStr, purpose: Purpose) -> Result<DirectFile> {
        self.open_with(path, flags(purpose))
    }

    fn open_anew(&self, path: &CStr) -> Result<DirectFile> {
        self.open_with(path, ANEW)
    }

    fn read(&self, file: &DirectFile, into: &mut [u8], offset: u64) -> Result<usize> {
        let place = [address(into), into.len() as u64, offset];
        file.call(place, |file| rustix::io::pread(file, &mut *into, offset)).board(|| "pread() failed".into())
    }

    fn write(&self, file: &DirectFile, from: &[u8], offset: u64) -> Result<usize> {
        let place = [address(from), from.len() as u64, offset];
        file.call(place, |file| rustix::io::pwrite(file, from, offset)).board(|| "pwrite() failed".into())
    }

    fn append(&self, file: &DirectFile, from: &[u8]) -> Result<usize> {
        file.append(from).board(|| "write() failed".into())
    }

    fn append_what_fits(&self, file: &DirectFile, from: &[u8]) -> Result<usize> {
        match file.append(from) {
            Err(Errno::NOSPC) => Ok(0),
            other => other.board(|| "write() failed".into()),
        }
    }

    fn truncate(&self, file: &DirectFile, bytes: u64) -> Result<()> {
        self.0.truncate(&file.file, bytes)
    }

    fn allocate(&self, file: &DirectFile, bytes: u64) -> Result<()> {
        self.0.allocate(&file.file, bytes)
    }

    fn sync(&self, file: &DirectFile) -> Result<()> {
        self.0.sync(&file.file)
    }

    fn sync_data(&self, file: &DirectFile) -> Result<()> {
        self.0.sync_data(&file.file)
    }

    fn set_owner(&self, file: &DirectFile) -> Result<()> {
        self.0.set_owner(&file.file)
    }

    fn sync_folder(&self) -> Result<()> {
        self.0.sync_folder()
    }

    fn unlink(&self, path: &CStr) -> Result<()> {
        self.0.unlink(path)
    }

    fn rename(&self, from: &CStr, to: &CStr) -> Result<()> {
        self.0.rename(from, to)
    }

    fn stat(&self, path: &CStr) -> Result<u64> {
        self.0.stat(path)
    }

    fn attributes(&self, file: &DirectFile) -> Result<u64> {
        self.0.attributes(&file.file)
    }

    fn seek_end(&self, file: &DirectFile) -> Result<u64> {
        self.0.seek_end(&file.file)
    }

    fn mkdir(&self, path: &CStr) -> Result<()> {
        self.0.mkdir(path)
    }

    fn list(&self) -> Result<u64> {
        self.0.list()
    }

    fn map(&self, _path: &CStr) -> Result<NoMap> {
        Err(Error::user("a mapping goes through the page cache").hint("omit direct"))
    }

    fn evict(&self, path: &CStr) -> Result<()> {
        self.0.evict(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resident_pages;
    use pocketstone_testing::Need;

    /// A folder on a file system that has O_DIRECT, which a tmpfs has from Linux 6.6 on.
    fn tree() -> Option<(tempfile::TempDir, DirectTree)> {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let tree = DirectTree::open(folder.path()).unwrap();
        let able = tree.create(c"probe").is_ok();
        able.then_some((folder, tree))
    }

    #[test]
    fn aligned_calls_leave_nothing_in_the_page_cache_and_others_are_made_all_the_same() {
        let Some((folder, tree)) = tree() else {
            return Need::Kernel.lacks("O_DIRECT on the file system of the sources").end();
        };
        let mut buffer = vec![7u8; 16384];
        let start = buffer.as_ptr().align_offset(4096);
        let path = folder.path().join("f");
        let file = tree.create(c"f").unwrap();
        assert_eq!(tree.append(&file, &buffer[start..start + 8192]).unwrap(), 8192);
        assert!(file.direct.get());
        assert_eq!(resident_pages(&path), Some(0), "what was written directly is not cached");
        // 1000 bytes are no sectors, and what follows begins within one.
        assert_eq!(tree.append(&file, &buffer[start..start + 1000]).unwrap(), 1000);
        assert!(!file.direct.get());
        assert_eq!(tree.append(&file, &buffer[start..start + 512]).unwrap(), 512);
        assert!(resident_pages(&path).unwrap() > 0, "these were");
        assert_eq!(std::fs::read(&path).unwrap(), vec![7; 8192 + 1512]);
        assert_eq!(tree.read(&file, &mut buffer[start..start + 4096], 4096).unwrap(), 4096);
        assert!(file.direct.get(), "and the next one is direct again");
        assert_eq!(tree.read(&file, &mut buffer[start + 1..start + 4097], 0).unwrap(), 4096);
        assert!(!file.direct.get(), "for its buffer");
        assert!(tree.map(c"f").is_err_and(|e| e.cure().unwrap().contains("omit direct")));
    }
}
