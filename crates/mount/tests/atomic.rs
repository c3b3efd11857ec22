//! Several ranges of a file change at once, by an extended attribute that is not stored.

mod ground;

use ground::{Ground, close};
use pocketstone_lease::batch::{BYTES_MAX, Change, NAME, Offer, What};
use pocketstone_mount::MountOptions;
use pocketstone_random::Random;
use pocketstone_scmfs::Operations;
use pocketstone_testing::Skip;
use rustix::fs::{AtFlags, StatxFlags, XattrFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::Uid;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

/// So much of a file is mapped, and stays.
const MAPPED: usize = 50_000;

fn atomic() -> MountOptions {
    MountOptions { atomic: true, ..MountOptions::default() }
}

fn offer(path: &Path) -> Result<Offer, Errno> {
    let mut value = [0; 64];
    let bytes = rustix::fs::getxattr(path, NAME, &mut value)?;
    Ok(Offer::decode(&value[..bytes]).unwrap())
}

fn set(path: &Path, value: &[u8]) -> Result<(), Errno> {
    rustix::fs::setxattr(path, NAME, value, XattrFlags::empty())
}

fn change(path: &Path, ino: u64, what: What<'_>) -> Result<(), Errno> {
    let mut value = Vec::new();
    Change { ino, what }.encode(&mut value);
    set(path, &value)
}

fn write(path: &Path, writes: &[(u64, &[u8])], size: u64) -> Result<(), Errno> {
    let ino = fs::metadata(path).unwrap().ino();
    change(path, ino, What::Writes { writes: writes.to_vec(), size, durable: true })
}

#[test]
fn what_is_written_at_once_is_seen_by_all_that_read() -> Result<(), Skip> {
    let ground = Ground::new()?;
    let (mounted, volume) = ground.mount(&atomic());
    let path = ground.directory().join("f");
    let mut expected = vec![7; 100_000];
    fs::write(&path, &expected).unwrap();
    let file = File::open(&path).unwrap();
    let (read, shared) = (ProtFlags::READ, MapFlags::SHARED);
    // SAFETY: a mapping of its own, which stays; nobody shortens the file below it.
    let mapped = unsafe {
        let at = mmap(std::ptr::null_mut(), MAPPED, read, shared, &file, 0).unwrap();
        std::slice::from_raw_parts(at.cast::<std::sync::atomic::AtomicU8>(), MAPPED)
    };
    let mut numbers = Random::new(1);
    let mut random = |below: u64| numbers.below(below);
    for round in 0..300_u64 {
        // The kernel holds all of it.
        assert!(fs::read(&path).unwrap() == expected, "round {round}");
        let shown: Vec<u8> = mapped.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        assert!(shown == expected[..MAPPED], "round {round}, mapped");
        let size = MAPPED as u64 + random(60_000);
        let pieces: Vec<(u64, Vec<u8>)> = (0..1 + random(12))
            .map(|i| (random(size), vec![(round + i) as u8; 1 + random(5000) as usize]))
            .map(|(at, data)| (at, data[..data.len().min((size - at) as usize)].to_vec()))
            .collect();
        let writes: Vec<(u64, &[u8])> = pieces.iter().map(|(at, data)| (*at, &data[..])).collect();
        write(&path, &writes, size).unwrap();
        expected.resize(size as usize, 0);
        for (at, data) in &pieces {
            expected[*at as usize..*at as usize + data.len()].copy_from_slice(data);
        }
        assert_eq!(file.metadata().unwrap().len(), size);
        // Writes by the kernel lie beside it.
        let at = random(size - 10);
        fs::OpenOptions::new().write(true).open(&path).unwrap().write_all_at(b"0123456789", at).unwrap();
        expected[at as usize..at as usize + 10].copy_from_slice(b"0123456789");
    }
    // Shorter and longer again, with nobody asking in between: what was cut off is gone.
    let (size, ino) = (expected.len() as u64, fs::metadata(&path).unwrap().ino());
    let what = |writes, size| What::Writes { writes, size, durable: false };
    let open = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut content = vec![0; size as usize + 103];
    let _ = open.read_at(&mut content, 0).unwrap();
    change(&path, ino, what(vec![], size - 20_000)).unwrap();
    open.write_all_at(b"end", size + 100).unwrap();
    expected.truncate(size as usize - 20_000);
    expected.resize(size as usize + 100, 0);
    expected.extend(b"end");
    open.read_exact_at(&mut content, 0).unwrap();
    assert!(content == expected);
    drop(open);
    // Who asks for the time alone is told the new one.
    let modified = || rustix::fs::statx(rustix::fs::CWD, &path, AtFlags::empty(), StatxFlags::MTIME).unwrap().stx_mtime;
    let before = modified();
    // More than a clock's tick.
    std::thread::sleep(std::time::Duration::from_millis(20));
    change(&path, ino, what(vec![(0, &expected[..10])], size + 103)).unwrap();
    let after = modified();
    assert!((after.tv_sec, after.tv_nsec) > (before.tv_sec, before.tv_nsec));
    // SAFETY: it is not used any more.
    unsafe { munmap(mapped.as_ptr().cast_mut().cast(), MAPPED).unwrap() };
    drop(file);
    mounted.unmount().unwrap();
    close(volume);
    let (mounted, volume) = ground.mount(&atomic());
    assert!(fs::read(&path).unwrap() == expected);
    assert!(xattrs(&path).is_empty());
    mounted.unmount().unwrap();
    close(volume);
    Ok(())
}

fn xattrs(path: &Path) -> Vec<u8> {
    let mut names = vec![0; 1000];
    let bytes = rustix::fs::listxattr(path, &mut names).unwrap();
    names.truncate(bytes);
    names
}

#[test]
fn what_is_not_a_change_of_that_file_is_refused() -> Result<(), Skip> {
    let ground = Ground::new()?;
    let (mounted, volume) = ground.mount(&atomic());
    let path = ground.directory().join("f");
    fs::write(&path, "old").unwrap();
    let ino = fs::metadata(&path).unwrap().ino();
    let offered = offer(&path).unwrap();
    assert_eq!((offered.ino, offered.page_bytes), (ino, 4096));
    assert!(offered.record_bytes >= BYTES_MAX as u64);
    // One who wants to make a file asks the directory.
    assert!(offer(ground.directory().as_path()).is_ok());
    let writes = || What::Writes { writes: vec![(0, b"new")], size: 3, durable: false };
    assert_eq!(change(&path, ino + 1, writes()), Err(Errno::INVAL));
    assert_eq!(change(&ground.directory(), 1, writes()), Err(Errno::ISDIR));
    assert_eq!(set(&path, b"nonsense"), Err(Errno::INVAL));
    assert_eq!(set(&path, b""), Err(Errno::INVAL));
    assert_eq!(write(&path, &[(2, b"beyond the size")], 3), Err(Errno::INVAL));
    assert_eq!(write(&path, &[(u64::MAX - 1, b"far")], 3), Err(Errno::FBIG));
    assert_eq!(write(&path, &[(0, b"new")], u64::MAX), Err(Errno::FBIG));
    let space = |ranges| change(&path, ino, What::Space { ranges });
    assert_eq!(space(vec![(0, 1 << 40)]), Err(Errno::NOSPC));
    assert_eq!(space(vec![(u64::MAX - 1, 2)]), Err(Errno::FBIG));
    assert_eq!(fs::read(&path).unwrap(), b"old");
    // What lies between stays a hole.
    space(vec![(0, 1 << 20), (1 << 40, 4096)]).unwrap();
    let known = fs::metadata(&path).unwrap();
    assert_eq!(known.len(), 3);
    assert!((((1 << 20) + 4096) / 512..1 << 20).contains(&known.blocks()), "{}", known.blocks());
    write(&path, &[(0, b"new")], 3).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    mounted.unmount().unwrap();
    close(volume);
    Ok(())
}

#[test]
fn who_may_not_write_may_not_change() -> Result<(), Skip> {
    pocketstone_testing::root()?;
    let ground = Ground::new()?;
    fs::set_permissions(ground.beside(), fs::Permissions::from_mode(0o755)).unwrap();
    let (mounted, volume) = ground.mount(&atomic());
    let path = ground.directory().join("f");
    fs::write(&path, "old").unwrap();
    let ino = fs::metadata(&path).unwrap().ino();
    let mut value = Vec::new();
    Change { ino, what: What::Writes { writes: vec![(0, b"new")], size: 3, durable: false } }.encode(&mut value);
    let as_nobody = || {
        std::thread::scope(|scope| {
            let set = || {
                // Of this thread alone.
                rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::from_raw(65534), Uid::ROOT).unwrap();
                set(&path, &value)
            };
            scope.spawn(set).join().unwrap()
        })
    };
    for (mode, owner, expected) in [
        (0o644, 0, Err(Errno::ACCESS)),
        (0o444, 65534, Err(Errno::ACCESS)),
        (0o666, 0, Ok(())),
        (0o4755, 65534, Ok(())),
    ] {
        fs::write(&path, "old").unwrap();
        chown(&path, Some(owner), None).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(as_nobody(), expected, "{mode:o}");
        let content = if expected.is_ok() { "new" } else { "old" };
        assert_eq!(fs::read_to_string(&path).unwrap(), content, "{mode:o}");
    }
    // As by write(2).
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
    let chattr = |flag: &str| std::process::Command::new("chattr").arg(flag).arg(&path).status().unwrap().success();
    for flag in ["a", "i"] {
        assert!(chattr(&format!("+{flag}")));
        assert_eq!(write(&path, &[(0, b"old")], 3), Err(Errno::PERM), "{flag}");
        assert_eq!(write(&path, &[], 100), Err(Errno::PERM), "{flag}");
        assert!(chattr(&format!("-{flag}")));
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    mounted.unmount().unwrap();
    close(volume);
    Ok(())
}

#[test]
fn a_mount_without_the_option_offers_and_stores_nothing() -> Result<(), Skip> {
    let ground = Ground::new()?;
    let (mounted, volume) = ground.mount(&MountOptions::default());
    let path = ground.directory().join("f");
    fs::write(&path, "old").unwrap();
    assert_eq!(offer(&path), Err(Errno::NODATA));
    assert_eq!(write(&path, &[(0, b"new")], 3), Err(Errno::OPNOTSUPP));
    assert_eq!((fs::read(&path).unwrap(), offer(&path)), (b"old".to_vec(), Err(Errno::NODATA)));
    mounted.unmount().unwrap();
    let both = MountOptions { writeback: true, ..atomic() };
    let refused = pocketstone_mount::mount_scmfs(volume.clone(), &ground.directory(), &both).err().unwrap();
    assert!(refused.to_string().contains("`atomic` and `writeback`"), "{refused}");
    close(volume);
    Ok(())
}

/// All serving threads have changes to make while others read the same pages: one is always left to answer those.
#[test]
fn many_change_while_many_read() -> Result<(), Skip> {
    let ground = Ground::new()?;
    let (mounted, volume) = ground.mount(&MountOptions { threads: 2, ..atomic() });
    let paths: Vec<_> = (0..6).map(|i| ground.directory().join(format!("f{i}"))).collect();
    paths.iter().for_each(|path| fs::write(path, vec![0; 400_000]).unwrap());
    std::thread::scope(|scope| {
        for path in &paths {
            scope.spawn(move || {
                for round in 1..=200 {
                    let page = vec![round as u8; 4096];
                    let writes: Vec<(u64, &[u8])> = (0..12).map(|i| (i * 32768, &page[..])).collect();
                    write(path, &writes, 400_000).unwrap();
                }
            });
            scope.spawn(move || {
                let file = File::open(path).unwrap();
                let mut content = vec![0; 400_000];
                for _ in 0..300 {
                    file.read_exact_at(&mut content, 0).unwrap();
                }
            });
        }
    });
    for path in &paths {
        let content = fs::read(path).unwrap();
        assert!((0..12).all(|i| content[i * 32768..][..4096] == [200; 4096]));
    }
    mounted.unmount().unwrap();
    close(volume);
    Ok(())
}

/// `_IO(0xf5, n)`: START, COMMIT, ABORT of F2FS.
const START: libc::Ioctl = 0xf501;
const COMMIT: libc::Ioctl = 0xf502;
const ABORT: libc::Ioctl = 0xf505;

fn ioctl(file: &File, number: libc::Ioctl) -> Result<(), Option<i32>> {
    // SAFETY: these take nothing.
    match unsafe { libc::ioctl(file.as_raw_fd(), number) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error()),
    }
}

#[test]
fn what_is_written_between_start_and_commit_is_made_at_once() -> Result<(), Skip> {
    let ground = Ground::new()?;
    let (mounted, volume) = ground.mount(&atomic());
    let path = ground.directory().join("f");
    let old: Vec<u8> = (0..20_000).map(|i| i as u8).collect();
    fs::write(&path, &old).unwrap();
    let open = || fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let file = open();
    let ino = volume.resolve("/f").unwrap();
    let stored = || {
        let file = volume.open(ino).unwrap();
        let mut content = vec![0; file.attributes().size as usize];
        let read = file.read_at(&mut content, 0).unwrap();
        assert_eq!(read, content.len());
        content
    };
    // By the same descriptor: closing another one would end it.
    let seen = || {
        let mut content = vec![0; 1 << 20];
        let read = file.read_at(&mut content, 0).unwrap();
        content.truncate(read);
        content
    };
    assert_eq!(ioctl(&file, COMMIT), Err(Some(libc::EINVAL)));
    for commits in [false, true] {
        let mut new = old.clone();
        ioctl(&file, START).unwrap();
        ioctl(&file, START).unwrap();
        for (at, data) in [(0, &[1; 4096][..]), (8000, b"in the middle"), (19_990, &[2; 300]), (4096, &[3; 4096])] {
            file.write_all_at(data, at as u64).unwrap();
            new.resize(new.len().max(at + data.len()), 0);
            new[at..at + data.len()].copy_from_slice(data);
        }
        file.set_len(19_000).unwrap();
        file.set_len(19_100).unwrap();
        new.truncate(19_000);
        new.resize(19_100, 0);
        assert!(seen() == new);
        // Also what the kernel has to ask for again.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        assert!(seen() == new);
        assert_eq!(fs::metadata(&path).unwrap().len(), 19_100);
        assert!(stored() == old);
        assert_eq!(write(&path, &[(0, b"x")], 19_100), Err(Errno::BUSY));
        if commits {
            ioctl(&file, COMMIT).unwrap();
            assert!(stored() == new);
        } else {
            ioctl(&file, ABORT).unwrap();
            assert!(stored() == old);
            assert_eq!(fs::metadata(&path).unwrap().len(), 20_000);
        }
        assert!(seen() == if commits { new } else { old.clone() });
    }
    // More than a record of the volume's journal takes.
    let before = stored();
    ioctl(&file, START).unwrap();
    file.write_all_at(b"new", 0).unwrap();
    assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(libc::EBUSY));
    for failed in [file.set_len(1 << 40).unwrap_err(), file.write_all_at(b"far", 1 << 50).unwrap_err()] {
        assert_eq!(failed.raw_os_error(), Some(libc::EFBIG));
    }
    assert_eq!(ioctl(&file, COMMIT), Err(Some(libc::EFBIG)));
    ioctl(&file, ABORT).unwrap();
    assert!(stored() == before && seen() == before);
    ioctl(&file, START).unwrap();
    let failed = (0..1000).find_map(|i| file.write_all_at(&[9; 4096], i * 4096).err()).unwrap();
    assert_eq!(failed.raw_os_error(), Some(libc::EFBIG));
    drop(file);
    assert!(stored() == before && fs::read(&path).unwrap() == before);
    mounted.unmount().unwrap();
    close(volume);
    Ok(())
}

/// Takes a lock, says so once it has written, and waits to be killed.
const WRITER: &str = "
import fcntl, os, sys, time
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(file, fcntl.LOCK_EX)
fcntl.ioctl(file, 0xf501)
for page in range(20):
    os.pwrite(file, b'new' * 1000, page * 4096)
print('written', flush=True)
time.sleep(60)
";

#[test]
fn what_a_killed_process_wrote_is_gone_before_its_lock_is() -> Result<(), Skip> {
    let python = pocketstone_testing::program("python3", "python3")?;
    let ground = Ground::new()?;
    let (mounted, volume) = ground.mount(&atomic());
    let path = ground.directory().join("f");
    let old = vec![7; 100_000];
    fs::write(&path, &old).unwrap();
    for round in 0..20 {
        let mut command = Command::new(&python);
        let mut child = command.args(["-c", WRITER]).arg(&path).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "written\n");
        let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        // The kernel shows it, and others cannot begin.
        assert_ne!(fs::read(&path).unwrap(), old);
        assert_eq!(ioctl(&file, START), Err(Some(libc::EBUSY)));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(round % 4));
            child.kill().unwrap();
            child.wait().unwrap();
        });
        // SAFETY: `flock` is plain data, for which zeros are good values.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        // SAFETY: an open file, and a lock that lives until the call returns.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLKW, &lock) }, 0);
        let mut now = vec![0; 100_000];
        file.read_exact_at(&mut now, 0).unwrap();
        assert!(now == old, "round {round}");
        killer.join().unwrap();
    }
    mounted.unmount().unwrap();
    close(volume);
    Ok(())
}
