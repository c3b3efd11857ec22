//! What a case stands on: a folder of its own on the file system under test, and small helpers.

use pocketstone_random::Random;
use pocketstone_testing::Need;
pub use pocketstone_testing::clock::tick;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::{Gid, Uid};
use rustix::thread::UnshareFlags;
use std::fmt::Display;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A page of memory, and a block of every file system here.
pub const PAGE: usize = 4096;
/// Somebody without privileges.
pub const NOBODY: u32 = 65534;
/// Somebody else without privileges.
pub const DAEMON: u32 = 1;

/// Why a case did not pass.
#[derive(Debug)]
pub enum Fault {
    /// It failed.
    Failed(String),
    /// It cannot be run here.
    Skipped(String),
}

impl<E: Display> From<E> for Fault {
    #[track_caller]
    fn from(error: E) -> Fault {
        let place = std::panic::Location::caller();
        let file = Path::new(place.file()).file_name().unwrap_or_default().to_string_lossy();
        Fault::Failed(format!("{file}:{}: {error}", place.line()))
    }
}

/// How a case ended.
pub type Done = Result<(), Fault>;

/// Which file system a case runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The one under test.
    Scmfs,
    /// The one that shows what Linux does, and so that the case is right.
    Ext4,
}

/// What a case is given.
pub struct Ground<'a> {
    /// Its own folder, empty, in which everybody may do everything.
    pub folder: PathBuf,
    /// Where the file system is mounted.
    pub top: &'a Path,
    /// A folder on another file system.
    pub elsewhere: PathBuf,
    /// Which file system it is.
    pub kind: Kind,
}

impl Ground<'_> {
    /// A path in the case's folder.
    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A new file with these bytes, open to read and write.
    #[track_caller]
    pub fn file(&self, name: &str, bytes: &[u8]) -> Result<File, Fault> {
        let file = open(&self.at(name), OFlags::CREATE | OFlags::EXCL | OFlags::RDWR)?;
        file.write_all_at(bytes, 0)?;
        Ok(file)
    }

    /// A new directory in which everybody may do everything.
    #[track_caller]
    pub fn directory(&self, name: &str) -> Result<PathBuf, Fault> {
        let path = self.at(name);
        fs::create_dir(&path)?;
        pocketstone_tests::mounted::open_to_all(&path);
        Ok(path)
    }

    /// Ends a case that cannot be run here, and counts it.
    #[track_caller]
    pub fn skip<T>(&self, need: Need, why: &str) -> Result<T, Fault> {
        let _ = need.lacks(why);
        Err(Fault::Skipped(why.to_owned()))
    }
}

/// Opens a file; a new one gets the mode 0644.
pub fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    Ok(rustix::fs::openat(CWD, path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))?.into())
}

/// Opens to read and write.
pub fn rw(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDWR)
}

/// Opens past the page cache.
pub fn direct(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDWR | OFlags::CREATE | OFlags::DIRECT)
}

/// What is known of a name itself.
pub fn of(path: &Path) -> io::Result<Metadata> {
    fs::symlink_metadata(path)
}

/// It fails with this number.
#[track_caller]
pub fn fails<T, E: Into<io::Error>>(outcome: Result<T, E>, wanted: rustix::io::Errno) {
    match outcome {
        Ok(_) => panic!("it succeeds, where {wanted} is due"),
        Err(error) => {
            let error = error.into();
            assert_eq!(error.raw_os_error(), Some(wanted.raw_os_error()), "{error}, where {wanted} is due");
        }
    }
}

/// Two byte strings are equal; says where they are not.
#[track_caller]
pub fn same(found: &[u8], wanted: &[u8]) {
    if found == wanted {
        return;
    }
    if let Some(at) = found.iter().zip(wanted).position(|(a, b)| a != b) {
        panic!("byte {at} is {:#x}, not {:#x} ({} and {} bytes)", found[at], wanted[at], found.len(), wanted.len());
    }
    assert_eq!(found.len(), wanted.len(), "the number of bytes");
}

/// A file holds these bytes, however it is read.
#[track_caller]
pub fn holds(path: &Path, wanted: &[u8]) {
    same(&fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())), wanted);
}

/// Bytes that differ everywhere, from a seed.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut numbers = Numbers::new(seed);
    let mut bytes = vec![0; len];
    for part in bytes.chunks_mut(8) {
        // A zero could be mistaken for a hole.
        part.copy_from_slice(&(numbers.next() | 0x0101_0101_0101_0101).to_le_bytes()[..part.len()]);
    }
    bytes
}

/// Random numbers, which are mostly sizes and places.
pub struct Numbers(Random);

impl Numbers {
    /// From a seed.
    pub fn new(seed: u64) -> Numbers {
        Numbers(Random::new(seed))
    }

    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// One below a bound.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.below(end as u64) as usize
    }
}

/// Does something as another user, with no group but that of the same number, in a thread of its own.
#[track_caller]
pub fn as_user<T: Send>(user: u32, act: impl FnOnce() -> T + Send) -> T {
    alone(move || {
        let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
        rustix::thread::set_thread_groups(&[]).expect("no groups");
        rustix::thread::set_thread_res_gid(gid, gid, gid).expect("the group");
        rustix::thread::set_thread_res_uid(uid, uid, uid).expect("the user");
        act()
    })
}

/// Does something in a thread with a working directory and a mask of permissions of its own.
#[track_caller]
pub fn alone<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: the thread parts with its working directory and mask, which no other needs.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }.expect("a working directory of one's own");
            act()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Changes a file's mode.
pub fn chmod(path: &Path, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::chmod(path, Mode::from_raw_mode(mode))?)
}

/// The names in a directory, sorted.
pub fn names(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
