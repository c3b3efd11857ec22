//! Processes that reach the content of files without the kernel, beside others that use the kernel. Needs /dev/fuse;
//! says so and passes without.

#[allow(dead_code)]
mod ground;

use ground::{Ground, close};
use pocketstone_lease::{Access, File as Direct, Outcome, Refusal, Session, Why};
use pocketstone_mount::{MountOptions, Preload, stores_directly};
use pocketstone_testing::wait::until;
use pocketstone_testing::{Need, Skip, or_skip};
use rustix::fs::{IFlags, ioctl_setflags};
use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, SystemTime};

#[path = "direct/append.rs"]
mod append;
#[path = "direct/hostile.rs"]
mod hostile;
#[path = "direct/pair.rs"]
mod pair;
#[path = "direct/storm.rs"]
mod storm;

/// A volume, where processes may store to a mount without the kernel.
#[track_caller]
fn storing() -> Result<Ground, Skip> {
    match stores_directly() {
        true => Ground::new(),
        false => Err(Need::Kernel.lacks("direct stores: FUSE is ready for them from Linux 6.16 on")),
    }
}

fn options(preload: Preload) -> MountOptions {
    MountOptions { preload, ..MountOptions::default() }
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

/// An open file, and the same one without the kernel.
struct Both {
    kernel: File,
    session: Session,
    direct: Direct,
}

impl Both {
    fn of(path: &Path, access: Access) -> Both {
        let kernel = open(path);
        let session = Session::attach(kernel.as_fd(), access).unwrap().resting(Duration::ZERO);
        let direct = session.file(kernel.metadata().unwrap().ino(), kernel.as_raw_fd()).unwrap();
        Both { kernel, session, direct }
    }

    fn read(&self, bytes: usize, offset: u64) -> Result<Vec<u8>, Why> {
        let mut into = vec![0xEE; bytes];
        // SAFETY: the buffer is that long.
        match unsafe { self.session.read(self.direct, self.kernel.as_raw_fd(), into.as_mut_ptr(), bytes, offset) } {
            Outcome::Done(got) => {
                into.truncate(got);
                Ok(into)
            }
            Outcome::Kernel(why) => Err(why),
        }
    }

    fn write(&self, from: &[u8], offset: u64) -> Result<usize, Why> {
        // SAFETY: the buffer is that long.
        match unsafe { self.session.write(self.direct, self.kernel.as_raw_fd(), from.as_ptr(), from.len(), offset) } {
            Outcome::Done(bytes) => Ok(bytes),
            Outcome::Kernel(why) => Err(why),
        }
    }

    /// What the kernel reads.
    fn kernel(&self, bytes: usize, offset: u64) -> Vec<u8> {
        let mut into = vec![0; bytes];
        let got = self.kernel.read_at(&mut into, offset).unwrap();
        into.truncate(got);
        into
    }
}

#[test]
fn what_one_way_writes_the_other_reads() {
    let ground = or_skip!(storing());
    let (mounted, volume) = ground.mount(&options(Preload::Write));
    let path = ground.directory().join("file");
    fs::write(&path, vec![1; 10_000]).unwrap();
    let both = Both::of(&path, Access::Write);
    assert!(both.session.may_write());
    assert_eq!(both.read(10_000, 0), Ok(vec![1; 10_000]));
    assert_eq!(both.read(100, 9_990), Ok(vec![1; 10]), "up to the end");
    assert_eq!(both.read(100, 10_000), Ok(vec![]));
    assert_eq!(both.write(&[2; 5000], 3000), Ok(5000));
    let mut expected = vec![1; 10_000];
    expected[3000..8000].fill(2);
    assert_eq!(both.kernel(10_000, 0), expected);
    // The kernel holds pages now.
    assert_eq!(both.write(&[3; 10], 0), Ok(10));
    expected[..10].fill(3);
    assert_eq!(both.kernel(10_000, 0), expected);
    both.kernel.write_all_at(&[4; 10], 5).unwrap();
    expected[5..15].fill(4);
    assert_eq!(both.read(10_000, 0), Ok(expected.clone()));
    assert_eq!(fs::read(&path).unwrap(), expected);
    // What is appended, cut and written anew by the kernel is there at once.
    both.kernel.write_all_at(&[5; 100], 10_000).unwrap();
    assert_eq!(both.read(1000, 9_999), Ok([vec![1], vec![5; 100]].concat()));
    both.kernel.set_len(50).unwrap();
    assert_eq!(both.read(100, 0), Ok(expected[..50].to_vec()));
    both.kernel.set_len(60).unwrap();
    assert_eq!(both.read(100, 40), Ok([vec![1; 10], vec![0; 10]].concat()));
    drop(both);
    mounted.unmount().unwrap();
    close(volume);
}

#[test]
fn several_that_come_to_a_file_at_once_are_told_the_same() {
    let ground = or_skip!(storing());
    let (mounted, volume) = ground.mount(&options(Preload::Write));
    let paths: Vec<_> = (0..200).map(|number| ground.directory().join(number.to_string())).collect();
    paths.iter().for_each(|path| fs::write(path, "content").unwrap());
    let first = open(&paths[0]);
    let sessions = [(); 4].map(|()| Session::attach(first.as_fd(), Access::Write).unwrap());
    let ready = Barrier::new(sessions.len());
    let told = std::thread::scope(|scope| {
        let asks = sessions.each_ref().map(|session| {
            scope.spawn(|| {
                let ask = |path: &PathBuf| {
                    let file = open(path);
                    let ino = file.metadata().unwrap().ino();
                    ready.wait();
                    session.file(ino, file.as_raw_fd())
                };
                paths.iter().map(ask).collect::<Vec<_>>()
            })
        });
        asks.map(|asks| asks.join().unwrap())
    });
    assert!(told[0].iter().all(Option::is_some), "nobody is refused");
    assert!(told.iter().all(|others| *others == told[0]));
    drop(sessions);
    drop(first);
    mounted.unmount().unwrap();
    close(volume);
}

#[test]
fn times_change_as_by_write() {
    let ground = or_skip!(storing());
    let (mounted, volume) = ground.mount(&options(Preload::Write));
    let path = ground.directory().join("file");
    fs::write(&path, vec![1; 100]).unwrap();
    let both = Both::of(&path, Access::Write);
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    both.kernel.set_modified(old).unwrap();
    let changed = fs::metadata(&path).unwrap();
    assert_eq!(changed.modified().unwrap(), old);
    std::thread::sleep(Duration::from_millis(20));
    both.write(b"x", 0).unwrap();
    let now = fs::metadata(&path).unwrap();
    assert!(now.modified().unwrap() > old + Duration::from_secs(1_000_000), "{now:?}");
    assert!((now.ctime(), now.ctime_nsec()) > (changed.ctime(), changed.ctime_nsec()));
    assert_eq!((now.mtime(), now.mtime_nsec()), (now.ctime(), now.ctime_nsec()));
    // What is set after a store stays.
    both.write(b"y", 0).unwrap();
    both.kernel.set_modified(old).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), old);
    // A time that is still to come does not stay.
    let later = SystemTime::now() + Duration::from_secs(1_000_000);
    both.kernel.set_modified(later).unwrap();
    both.write(b"y", 0).unwrap();
    assert!(fs::metadata(&path).unwrap().modified().unwrap() < later - Duration::from_secs(500_000));
    // A store before a change of the name is noted after it: ctime does not go back.
    both.write(b"y", 0).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    fs::rename(&path, ground.directory().join("moved")).unwrap();
    fs::rename(ground.directory().join("moved"), &path).unwrap();
    let renamed = fs::metadata(&path).unwrap();
    assert!((renamed.ctime(), renamed.ctime_nsec()) > (renamed.mtime(), renamed.mtime_nsec()), "{renamed:?}");
    // What nobody asked for is stored all the same.
    std::thread::sleep(Duration::from_millis(20));
    both.write(b"z", 0).unwrap();
    drop(both);
    mounted.unmount().unwrap();
    close(volume);
    let (mounted, volume) = ground.mount(&options(Preload::Off));
    assert!(fs::metadata(&path).unwrap().modified().unwrap() > old);
    assert_eq!(fs::read(&path).unwrap()[..1], *b"z");
    mounted.unmount().unwrap();
    close(volume);
}

#[test]
fn the_time_of_a_store_is_that_of_its_file_alone() {
    let ground = or_skip!(storing());
    let (mounted, volume) = ground.mount(&options(Preload::Write));
    let path = |name: &str| ground.directory().join(name);
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    for _ in 0..5 {
        fs::write(path("a"), vec![1; 100]).unwrap();
        fs::write(path("b"), vec![2; 100]).unwrap();
        let Both { kernel, session, direct } = Both::of(&path("a"), Access::Write);
        // SAFETY: a byte.
        let stored = unsafe { session.write(direct, kernel.as_raw_fd(), b"x".as_ptr(), 1, 0) };
        assert_eq!(stored, Outcome::Done(1));
        // Its entry is the next one's.
        drop(kernel);
        fs::remove_file(path("a")).unwrap();
        open(&path("b")).set_modified(old).unwrap();
        let other = open(&path("b"));
        let number = other.metadata().unwrap().ino();
        until("the file is shown", || session.file(number, other.as_raw_fd()).is_some());
        assert_eq!(fs::metadata(path("b")).unwrap().modified().unwrap(), old);
    }
    mounted.unmount().unwrap();
    close(volume);
}

#[test]
fn what_is_more_than_storing_is_left_to_the_kernel() {
    let ground = or_skip!(storing());
    let (mounted, volume) = ground.mount(&options(Preload::Write));
    let path = |name: &str| ground.directory().join(name);
    fs::write(path("file"), vec![1; 100]).unwrap();
    let both = Both::of(&path("file"), Access::Write);
    assert_eq!(both.write(&[1; 10], 95), Err(Why::Growth));
    assert_eq!(both.write(&[1], u64::MAX), Err(Why::Growth));
    both.kernel.set_permissions(fs::Permissions::from_mode(0o4755)).unwrap();
    assert_eq!(both.write(&[1; 10], 0), Err(Why::Refused), "the bit would have to go");
    assert_eq!(both.read(1, 0), Ok(vec![1]));
    both.kernel.set_permissions(fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(both.write(&[1; 10], 0), Ok(10));
    // With a capability, as setcap(8) writes it.
    let capability = b"\x01\0\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let set = rustix::fs::fsetxattr(&both.kernel, "security.capability", capability, rustix::fs::XattrFlags::empty());
    if set.is_ok() {
        assert_eq!(both.write(&[1; 10], 0), Err(Why::Refused));
        both.kernel.write_all_at(&[1], 0).unwrap();
        assert_eq!(both.write(&[1; 10], 0), Ok(10), "the kernel's way took it off");
    }
    if rustix::process::geteuid().is_root() {
        for flag in [IFlags::APPEND, IFlags::IMMUTABLE] {
            ioctl_setflags(&both.kernel, flag).unwrap();
            assert_eq!(both.write(&[1; 10], 0), Err(Why::Refused));
            ioctl_setflags(&both.kernel, IFlags::empty()).unwrap();
            assert_eq!(both.write(&[1; 10], 0), Ok(10));
        }
    }
    // A hole between two pages.
    let sparse = Both::of(&path("sparse"), Access::Write);
    sparse.kernel.write_all_at(&[7; 10], 8 << 20).unwrap();
    assert_eq!(sparse.read(10, 8 << 20), Ok(vec![7; 10]));
    assert_eq!(sparse.read(10, 1 << 20), Err(Why::Hole));
    assert_eq!(sparse.write(&[1], 1 << 20), Err(Why::Hole));
    // Neither a directory nor a file that is not open is shown.
    assert_eq!(both.session.file(1, File::open(ground.directory()).unwrap().as_raw_fd()), None);
    assert_eq!(both.session.file(4_000_000_000, both.kernel.as_raw_fd()), None);
    // Nor by another one, or by none.
    assert_eq!(both.session.file(both.kernel.metadata().unwrap().ino() + 1, both.kernel.as_raw_fd()), None);
    assert_eq!(both.session.file(4_000_000_000, -1), None);
    drop((both, sparse));
    mounted.unmount().unwrap();
    close(volume);
}

#[test]
fn a_mount_allows_what_it_was_told_to() {
    let ground = or_skip!(storing());
    // What is stored to a file of a disk would have to be written back.
    let in_memory = rustix::fs::statfs(ground.beside()).unwrap().f_type as u64 == 0x0102_1994;
    for preload in [Preload::Off, Preload::Read, Preload::Write, Preload::Append, Preload::Map] {
        for option in ["", "ro", "writeback", "direct_io", "sync"] {
            let [read_only, writeback, direct_io, sync] =
                ["ro", "writeback", "direct_io", "sync"].map(|given| given == option);
            let given = MountOptions { read_only, writeback, direct_io, sync, ..options(preload) };
            let (mounted, volume) = ground.mount(&given);
            let directory = File::open(ground.directory()).unwrap();
            let session = Session::attach(directory.as_fd(), Access::Map);
            let (appends, maps) = session.as_ref().map_or((false, false), |s| (s.may_append(), s.may_map()));
            let plain = option.is_empty();
            assert_eq!(appends, preload == Preload::Append && plain);
            assert_eq!(maps, preload == Preload::Map && plain && in_memory);
            let attached = session.map(|session| session.may_write());
            let expected = match preload {
                _ if writeback || direct_io => Err(Refusal::Unknown),
                Preload::Off => Err(Refusal::Unknown),
                Preload::Read => Ok(false),
                Preload::Write | Preload::Append | Preload::Map => Ok(plain),
            };
            assert_eq!(attached, expected, "{preload:?}, -o {option}");
            drop(directory);
            mounted.unmount().unwrap();
            close(volume);
        }
    }
    let elsewhere = File::open(ground.beside()).unwrap();
    let refused = Session::attach(elsewhere.as_fd(), Access::Read).map(|session| session.device());
    assert_eq!(refused, Err(Refusal::Unknown));
}

#[test]
fn nobody_is_direct_after_the_mount_has_ended() {
    let ground = or_skip!(storing());
    let (mounted, volume) = ground.mount(&options(Preload::Write));
    let path = ground.directory().join("file");
    fs::write(&path, vec![1; 100]).unwrap();
    let Both { kernel, session, direct } = Both::of(&path, Access::Write);
    drop(kernel);
    mounted.unmount().unwrap();
    close(volume);
    let mut byte = 0;
    // SAFETY: one byte.
    let outcomes = unsafe { [session.read(direct, -1, &mut byte, 1, 0), session.write(direct, -1, &byte, 1, 0)] };
    assert_eq!(outcomes, [Outcome::Kernel(Why::Ended); 2]);
    assert_eq!(session.file(2, -1), None);
}

#[test]
fn a_name_that_is_gone_leaves_its_space_when_the_file_is_closed() {
    let ground = or_skip!(storing());
    let (mounted, volume) = ground.mount(&options(Preload::Write));
    let path = ground.directory().join("file");
    let free = || rustix::fs::statvfs(ground.directory()).unwrap().f_bfree;
    let before = free();
    for round in 0..20 {
        fs::write(&path, vec![round; 4 << 20]).unwrap();
        let both = Both::of(&path, Access::Write);
        fs::remove_file(&path).unwrap();
        assert_eq!(both.write(&[9; 100], 1 << 20), Ok(100));
        assert_eq!(both.read(200, 1 << 20), Ok([vec![9; 100], vec![round; 100]].concat()));
    }
    // The kernel forgets it when it gets round to that.
    until("all but one of the files have gone", || free() + 2000 > before);
    mounted.unmount().unwrap();
    close(volume);
}
