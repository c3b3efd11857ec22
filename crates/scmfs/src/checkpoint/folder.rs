//! Where checkpoints lie: a folder with files.

use pocketstone_media::{Durable, Medium, Unmapped};
use rustix::fs::{Advice, FlockOperation, fadvise, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A file that is being written: of a target, or a region that is restored.
pub trait Output: Send + Sync {
    /// Writes all of `from` at an offset. Several threads may do so at once.
    ///
    /// # Errors
    /// `StorageFull` if there is no room; otherwise as [`FileExt::write_all_at`].
    fn write_all_at(&self, from: &[u8], at: u64) -> Result<()>;

    /// Gives room to bytes that will not be written, where they have none. What does not has it given by `sync`, or
    /// needs none.
    ///
    /// # Errors
    /// `StorageFull` if there is no room; what else fallocate(2) says of a full or a broken disk.
    fn allocate(&self, _at: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }

    /// What was written outlives a loss of power from now on.
    ///
    /// # Errors
    /// As [`File::sync_all`]; `Other` if a region cannot be filled up or written back.
    fn sync(&self) -> Result<()>;
}

/// A file that is read.
pub trait Input: Send + Sync {
    /// Its length.
    ///
    /// # Errors
    /// As [`File::metadata`].
    fn bytes(&self) -> Result<u64>;

    /// Reads as many bytes as `into` takes.
    ///
    /// # Errors
    /// `UnexpectedEof` if it ends before; otherwise as [`FileExt::read_exact_at`].
    fn read_exact_at(&self, into: &mut [u8], at: u64) -> Result<()>;
}

/// A folder. What it promises is what POSIX does: a file's content outlives a loss of power once it is synced, a name
/// once the folder is, and a rename puts one file in another's place at once.
pub trait Folder: Send {
    /// The names of its files.
    ///
    /// # Errors
    /// `NotFound` if there is no such folder; otherwise as [`std::fs::read_dir`].
    fn names(&self) -> Result<Vec<String>>;

    /// Makes an empty file, in the place of another.
    ///
    /// # Errors
    /// `NotFound` if there is no such folder; otherwise as [`OpenOptions::open`].
    fn create(&self, name: &str) -> Result<Box<dyn Output>>;

    /// Opens a file to read.
    ///
    /// # Errors
    /// `NotFound` if there is none of that name; otherwise as [`File::open`].
    fn open(&self, name: &str) -> Result<Box<dyn Input>>;

    /// Gives a file another name, in the place of the file that has it.
    ///
    /// # Errors
    /// `NotFound` if there is none of the first name; otherwise as [`std::fs::rename`].
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// `NotFound` if there is none of that name; otherwise as [`std::fs::remove_file`].
    fn remove(&self, name: &str) -> Result<()>;

    /// Names outlive a loss of power from now on as they are.
    ///
    /// # Errors
    /// `NotFound` if there is no such folder; otherwise as [`File::sync_all`].
    fn sync(&self) -> Result<()>;
}

/// A folder of the kernel's.
pub struct Directory {
    path: PathBuf,
    /// Its lock keeps a second writer off, as long as it is open.
    _lock: Option<File>,
}

/// The file that who writes has locked.
const LOCK: &str = "lock";

impl Directory {
    /// A folder to read.
    pub fn to_read(path: &Path) -> Directory {
        Directory { path: path.to_owned(), _lock: None }
    }

    /// A folder to write, made if there is none.
    ///
    /// # Errors
    /// `ResourceBusy` if somebody else writes there; as [`std::fs::create_dir_all`].
    pub fn to_write(path: &Path) -> Result<Directory> {
        std::fs::create_dir_all(path)?;
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path.join(LOCK))?;
        // On a file system without locks, two that write there must be kept apart by who starts them.
        if flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(Error::from(ErrorKind::ResourceBusy));
        }
        Ok(Directory { path: path.to_owned(), _lock: Some(lock) })
    }
}

impl Output for File {
    fn write_all_at(&self, from: &[u8], at: u64) -> Result<()> {
        FileExt::write_all_at(self, from, at)
    }

    fn sync(&self) -> Result<()> {
        self.sync_all()
    }
}

impl Output for Unmapped {
    fn write_all_at(&self, from: &[u8], at: u64) -> Result<()> {
        Unmapped::write_all_at(self, from, at)
    }

    fn allocate(&self, at: u64, bytes: u64) -> Result<()> {
        Unmapped::allocate(self, at, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.finish().map_err(Error::other)
    }
}

/// A region, where it can only be mapped.
impl Output for Mutex<Medium> {
    fn write_all_at(&self, from: &[u8], at: u64) -> Result<()> {
        let region = self.lock().unwrap_or_else(PoisonError::into_inner);
        if at.checked_add(from.len() as u64).is_none_or(|end| end > region.bytes()) {
            return Err(Error::new(ErrorKind::StorageFull, format!("the region has only {} bytes", region.bytes())));
        }
        // SAFETY: it is this value's alone, and nobody has references into it; who holds the lock is the only one to
        // store.
        let stored = unsafe { region.stream_fresh(at, from, Durable::unreferenced()) };
        region.fence(stored).done();
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.lock().unwrap_or_else(PoisonError::into_inner).sync().map_err(Error::other)
    }
}

impl Input for File {
    fn bytes(&self) -> Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, into: &mut [u8], at: u64) -> Result<()> {
        FileExt::read_exact_at(self, into, at)
    }
}

impl Folder for Directory {
    fn names(&self) -> Result<Vec<String>> {
        let name = |entry: Result<std::fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        std::fs::read_dir(&self.path)?.map(name).collect()
    }

    fn create(&self, name: &str) -> Result<Box<dyn Output>> {
        // Whoever can read it can read all files of the volume.
        let how = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(self.path.join(name))?;
        Ok(Box::new(how))
    }

    fn open(&self, name: &str) -> Result<Box<dyn Input>> {
        let file = File::open(self.path.join(name))?;
        // All of it is read, in order; the kernel then reads further ahead. One that does not is none the worse for it.
        let _ = fadvise(&file, 0, None, Advice::Sequential);
        Ok(Box::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> Result<()> {
        File::open(&self.path)?.sync_all()
    }
}
