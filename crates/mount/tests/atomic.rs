//! Several ranges of a file change at once, by an extended attribute that is not stored.

mod ground;

use ground::{Ground, close};
use pocketstone_lease::batch::{BYTES_MAX, Change, NAME, Offer, What};
use pocketstone_mount::MountOptions;
use pocketstone_testing::Skip;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::Uid;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;
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
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for round in 0..300_u64 {
        // The kernel holds all of it.
        assert_eq!(fs::read(&path).unwrap(), expected, "round {round}");
        let shown: Vec<u8> = mapped.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        assert_eq!(shown, expected[..MAPPED], "round {round}, mapped");
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
    // SAFETY: it is not used any more.
    unsafe { munmap(mapped.as_ptr().cast_mut().cast(), MAPPED).unwrap() };
    drop(file);
    mounted.unmount().unwrap();
    close(volume);
    let (mounted, volume) = ground.mount(&atomic());
    assert_eq!(fs::read(&path).unwrap(), expected);
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
    assert_eq!(write(&path, &[(u64::MAX - 1, b"far")], 3), Err(Errno::INVAL));
    assert_eq!(write(&path, &[(0, b"new")], u64::MAX), Err(Errno::FBIG));
    assert_eq!(change(&path, ino, What::Space { bytes: 1 << 40 }), Err(Errno::NOSPC));
    assert_eq!(fs::read(&path).unwrap(), b"old");
    change(&path, ino, What::Space { bytes: 1 << 20 }).unwrap();
    let known = fs::metadata(&path).unwrap();
    assert_eq!((known.len(), known.blocks()), (3, (1 << 20) / 512));
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
    let refused = pocketstone_mount::mount(volume.clone(), &ground.directory(), &both).err().unwrap();
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
