//! Append-only and immutable files, on a mount that the kernel need not ask at open(2) and on one that it asks. Needs
//! /dev/fuse and root; says so and passes without.

#[allow(dead_code)]
mod ground;

use ground::{Ground, close};
use pocketstone_mount::MountOptions;
use pocketstone_testing::or_skip;
use pocketstone_testing::wait::until;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PAGE: usize = 4096;

fn protect(path: &Path, flag: IFlags) {
    let file = File::open(path).unwrap();
    ioctl_setflags(&file, ioctl_getflags(&file).unwrap() | flag).unwrap();
}

fn number<T>(outcome: io::Result<T>) -> Option<i32> {
    outcome.err().and_then(|error| error.raw_os_error())
}

const EPERM: Option<i32> = Some(Errno::PERM.raw_os_error());

#[test]
fn nothing_protected_changes_and_a_strict_mount_says_so_at_open() {
    let ground = or_skip!(Ground::new());
    for strict_open in [false, true] {
        let (mounted, volume) = ground.mount(&MountOptions { strict_open, ..MountOptions::default() });
        let path = |name: &str| ground.directory().join(format!("{name}-{strict_open}"));
        let (fixed, log) = (path("fixed"), path("log"));
        fs::write(&fixed, b"fixed").unwrap();
        fs::write(&log, b"one ").unwrap();
        protect(&fixed, IFlags::IMMUTABLE);
        protect(&log, IFlags::APPEND);
        for path in [&fixed, &log] {
            let opened = OpenOptions::new().write(true).open(path);
            match opened {
                Ok(file) => assert_eq!((strict_open, number(file.write_all_at(b"x", 0))), (false, EPERM)),
                Err(error) => assert_eq!((strict_open, error.raw_os_error()), (true, EPERM)),
            }
            assert_eq!(number(File::create(path)), EPERM, "truncated at open");
            assert_eq!(number(fs::remove_file(path)), EPERM);
        }
        let mut end = OpenOptions::new().append(true).open(&log).unwrap();
        io::Write::write_all(&mut end, b"two").unwrap();
        assert_eq!((fs::read(&fixed).unwrap(), fs::read(&log).unwrap()), (b"fixed".to_vec(), b"one two".to_vec()));
        drop(end);
        mounted.unmount().unwrap();
        close(volume);
    }
}

/// A shared mapping of a file's first page, to write to.
struct Stores(*mut u8);

impl Stores {
    fn of(file: &File) -> Stores {
        let (read_write, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping, at a place that the kernel chooses.
        Stores(unsafe { mmap(std::ptr::null_mut(), PAGE, read_write, shared, file, 0) }.unwrap().cast())
    }

    fn store(&self, byte: u8) {
        // SAFETY: the page is mapped to be written to until this is dropped, and no reference to it exists.
        unsafe { self.0.write_volatile(byte) };
    }

    fn sync(&self) -> rustix::io::Result<()> {
        // SAFETY: it writes what was stored, and changes nothing here.
        unsafe { msync(self.0.cast(), PAGE, MsyncFlags::SYNC) }
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        // SAFETY: it was mapped here, and nobody has the address any more.
        let _ = unsafe { munmap(self.0.cast(), PAGE) };
    }
}

#[test]
fn what_was_stored_through_a_mapping_before_counts_and_what_is_stored_later_does_not() {
    let ground = or_skip!(Ground::new());
    let (mounted, volume) = ground.mount(&MountOptions::default());
    let path = ground.directory().join("file");
    fs::write(&path, [b'0'; PAGE]).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let before = Stores::of(&file);
    before.store(b'1');
    protect(&path, IFlags::IMMUTABLE);
    // The kernel writes what it holds within moments.
    until("nothing that was stored before is lost", || there(&volume) == b'1');
    // Sealed once all of it is written.
    let after = Stores::of(&OpenOptions::new().read(true).write(true).open(&path).unwrap());
    let mut stored = b'1';
    until("stores into an immutable file are refused", || {
        stored = stored.wrapping_add(1);
        after.store(stored);
        after.sync().is_err()
    });
    assert_ne!(there(&volume), stored);
    drop((before, after, file));
    mounted.unmount().unwrap();
    close(volume);
}

/// The file's first byte, as the volume has it.
fn there(volume: &pocketstone_scmfs::Volume) -> u8 {
    use pocketstone_scmfs::Operations;
    let open = volume.open(volume.lookup(pocketstone_scmfs::ROOT, b"file").unwrap().ino).unwrap();
    let mut first = [0];
    open.read_at(&mut first, 0).unwrap();
    first[0]
}
