//! Every call does what the header says.

use crate::support::{assert_clean, call, file, message, opened, text, volume};
use scmfs::batch::{FileBatch, Write, scmfs_batch_max, scmfs_write_batch};
use scmfs::directory::{scmfs_closedir, scmfs_opendir, scmfs_readdir};
use scmfs::file::*;
use scmfs::names::*;
use scmfs::types::*;
use scmfs::version::{SCMFS_ABI, scmfs_abi, scmfs_version};
use scmfs::volume::*;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

const RW: u32 = SCMFS_READ | SCMFS_WRITE;

/// What a file holds.
fn content(file: *const OpenFile) -> String {
    let mut bytes = vec![0; 100];
    let read = call!(scmfs_pread(file, bytes.as_mut_ptr().cast(), bytes.len(), 0));
    bytes.truncate(usize::try_from(read).expect("it can be read"));
    String::from_utf8(bytes).expect("text")
}

fn stat(volume: *const OpenVolume, path: &str) -> Attributes {
    let mut attributes = MaybeUninit::uninit();
    assert_eq!(call!(scmfs_lstat(volume, text(path).as_ptr(), attributes.as_mut_ptr())), 0, "{}", message());
    // SAFETY: the call succeeded, and has filled it.
    unsafe { attributes.assume_init() }
}

/// The names in a directory with their types, sorted.
fn list(volume: *const OpenVolume, path: &str) -> Vec<(String, u32)> {
    let (mut directory, mut entries) = (null_mut(), Vec::new());
    assert_eq!(call!(scmfs_opendir(volume, text(path).as_ptr(), &mut directory)), 0, "{}", message());
    let mut entry = MaybeUninit::<Entry>::uninit();
    while call!(scmfs_readdir(directory, entry.as_mut_ptr())) == 1 {
        // SAFETY: the call returned 1, and has filled it; the directory is open.
        let (name, mode) = unsafe { (CStr::from_ptr((*entry.as_ptr()).name), (*entry.as_ptr()).mode) };
        entries.push((name.to_str().expect("UTF-8").to_owned(), mode));
    }
    assert_eq!(call!(scmfs_readdir(directory, entry.as_mut_ptr())), 0, "the end stays the end");
    assert_eq!(call!(scmfs_closedir(&mut directory)), 0);
    entries.sort();
    entries
}

#[test]
fn files_are_written_read_cut_and_synced() {
    let mut volume = volume();
    let mut one = file(volume, "a", RW | SCMFS_CREATE_NEW);
    let write = |text: &str, at| call!(scmfs_pwrite(one, text.as_ptr().cast(), text.len(), at));
    assert_eq!((write("hello", 0), write("y", 4)), (5, 1));
    let mut at = 0;
    assert_eq!(call!(scmfs_append(one, b" there".as_ptr().cast(), 6, &mut at)), 6);
    assert_eq!(call!(scmfs_append(one, b"!".as_ptr().cast(), 1, null_mut())), 1);
    assert_eq!((at, content(one).as_str()), (5, "helly there!"));
    assert_eq!(call!(scmfs_write_atomic(one, b"HE".as_ptr().cast(), 2, 0)), 2);
    assert_eq!((call!(scmfs_truncate(one, 4)), call!(scmfs_truncate(one, 6))), (0, 0));
    assert_eq!(content(one), "HEll\0\0");
    assert_eq!((call!(scmfs_sync(one)), call!(scmfs_volume_sync(volume))), (0, 0));
    let mut attributes = Attributes::default();
    assert_eq!(call!(scmfs_fstat(one, &mut attributes)), 0);
    let found = (attributes.size, attributes.mode, attributes.links, attributes.inode, attributes.mtime_ns > 0);
    assert_eq!(found, (6, 0o100_640, 1, stat(volume, "/a").inode, true));
    // It lives until it is closed.
    assert_eq!(call!(scmfs_unlink(volume, text("a").as_ptr())), 0);
    assert_eq!(content(one), "HEll\0\0");
    assert_eq!(call!(scmfs_close(&mut one)), 0);
    assert_eq!(call!(scmfs_volume_close(&mut volume)), 0);
}

#[test]
fn what_a_symbolic_link_leads_to_is_created() {
    let mut volume = volume();
    for name in ["d", "d/e"] {
        assert_eq!(call!(scmfs_mkdir(volume, text(name).as_ptr())), 0);
    }
    let links = [("d/1", "e/2"), ("d/e/2", "../e/./3"), ("d/e/3", "/new"), ("d/lost", "no/new"), ("d/round", "round")];
    for (name, target) in links {
        assert_eq!(call!(scmfs_symlink(volume, text(target).as_ptr(), text(name).as_ptr())), 0);
    }
    let mut one = file(volume, "d/1", RW | SCMFS_CREATE);
    assert_eq!(call!(scmfs_pwrite(one, b"1".as_ptr().cast(), 1, 0)), 1);
    assert_eq!(call!(scmfs_close(&mut one)), 0);
    assert_eq!((stat(volume, "new").mode, stat(volume, "new").size), (0o100_640, 1));
    let mut open = |name: &str, flags| call!(scmfs_open(volume, text(name).as_ptr(), flags, 0o644, &mut one));
    assert_eq!(open("d/lost", RW | SCMFS_CREATE), -2);
    assert_eq!(open("d/round", RW | SCMFS_CREATE), -40);
    assert_eq!(open("d/lost", RW | SCMFS_CREATE_NEW), -17);
    assert_eq!(call!(scmfs_volume_close(&mut volume)), 0);
}

#[test]
fn names_are_made_listed_changed_and_removed() {
    let mut volume = volume();
    let v = volume;
    let [d, e, a, b, l] = ["d", "d/e", "d/a", "b\u{fffd}", "d/l"].map(text);
    assert_eq!((call!(scmfs_mkdir(v, d.as_ptr())), call!(scmfs_mkdir(v, e.as_ptr()))), (0, 0));
    let mut one = file(v, "d/a", RW | SCMFS_CREATE);
    assert_eq!(call!(scmfs_close(&mut one)), 0);
    assert_eq!(call!(scmfs_link(v, a.as_ptr(), b.as_ptr())), 0);
    assert_eq!(call!(scmfs_symlink(v, text("e").as_ptr(), l.as_ptr())), 0);
    assert_eq!(call!(scmfs_chmod(v, b.as_ptr(), 0o600)), 0);
    assert_eq!((stat(v, "d/a").mode, stat(v, "d/a").links), (0o100_600, 2));
    let mut through = Attributes::default();
    assert_eq!(call!(scmfs_stat(v, l.as_ptr(), &mut through)), 0);
    assert_eq!((through.inode, stat(v, "d/l").mode), (stat(v, "d/e").inode, 0o120_777));
    let names = [("a", 0o100_000), ("e", 0o040_000), ("l", 0o120_000)].map(|(name, mode)| (name.to_owned(), mode));
    assert_eq!(list(v, "d"), names);

    let mut target = [b'x'; 8];
    let mut readlink = |room| call!(scmfs_readlink(v, l.as_ptr(), target.as_mut_ptr().cast(), room));
    assert_eq!((readlink(0), readlink(1)), (-34, -34));
    assert!(message().contains("the buffer is too small"), "{}", message());
    assert_eq!(call!(scmfs_symlink(v, text(&"t".repeat(5000)).as_ptr(), text("d/long").as_ptr())), -36);
    assert!(message().contains("target is too long"), "{}", message());
    assert_eq!(readlink(2), 1);
    assert_eq!(&target[..3], b"e\0x");
    assert_eq!(call!(scmfs_readlink(v, a.as_ptr(), target.as_mut_ptr().cast(), 8)), -22);

    assert_eq!(call!(scmfs_rename(v, b.as_ptr(), a.as_ptr())), 0, "two names of one file: both stay");
    assert_eq!(call!(scmfs_rename(v, a.as_ptr(), text("d/e/a").as_ptr())), 0);
    for (result, errno) in [
        (call!(scmfs_mkdir(v, d.as_ptr())), -17),
        (call!(scmfs_rmdir(v, d.as_ptr())), -39),
        (call!(scmfs_rmdir(v, l.as_ptr())), -20),
        (call!(scmfs_unlink(v, d.as_ptr())), -21),
        (call!(scmfs_unlink(v, a.as_ptr())), -2),
        (call!(scmfs_rename(v, d.as_ptr(), text("d/e/d").as_ptr())), -22),
        (call!(scmfs_rename(v, d.as_ptr(), text("d/e/..").as_ptr())), -16),
        (call!(scmfs_rename(v, text("/").as_ptr(), text("x").as_ptr())), -16),
        (call!(scmfs_mkdir(v, text(&"n".repeat(256)).as_ptr())), -36),
        (call!(scmfs_link(v, d.as_ptr(), text("x").as_ptr())), -1),
        (call!(scmfs_chmod(v, d.as_ptr(), 0o10000)), -22),
    ] {
        assert_eq!(result, errno, "{}", message());
    }
    assert_eq!((call!(scmfs_unlink(v, text("d/e/a").as_ptr())), call!(scmfs_rmdir(v, e.as_ptr()))), (0, 0));
    assert_eq!(list(v, "/").len(), 2);
    assert_eq!(call!(scmfs_volume_close(&mut volume)), 0);
}

#[test]
fn names_are_bytes_and_directories_are_kept_as_they_were() {
    let mut volume = volume();
    let odd = CString::new(b"\xff\xfe".to_vec()).expect("no zero byte");
    let mut one = null_mut();
    assert_eq!(call!(scmfs_open(volume, odd.as_ptr(), RW | SCMFS_CREATE, 0o600, &mut one)), 0);
    let (mut root, mut entry) = (null_mut(), Entry { name: null(), inode: 0, mode: 0 });
    assert_eq!(call!(scmfs_opendir(volume, text("/").as_ptr(), &mut root)), 0);
    assert_eq!(call!(scmfs_unlink(volume, odd.as_ptr())), 0);
    assert_eq!(call!(scmfs_close(&mut one)), 0);
    assert_eq!(call!(scmfs_volume_close(&mut volume)), 0);
    assert_eq!(call!(scmfs_readdir(root, &mut entry)), 1);
    assert_eq!(call!(CStr::from_ptr(entry.name)), odd.as_c_str());
    assert_eq!(call!(scmfs_closedir(&mut root)), 0);
}

#[test]
fn a_batch_is_all_or_nothing() {
    let mut volume = volume();
    let (mut a, mut b) = (file(volume, "a", RW | SCMFS_CREATE), file(volume, "b", RW | SCMFS_CREATE));
    let write = |offset, text: &'static str| Write { offset, data: text.as_ptr().cast(), length: text.len() };
    let writes = [write(0, "one two"), write(4, "TWO"), write(0, "")];
    let of_a = FileBatch { file: a, writes: writes.as_ptr(), count: 3, size: SCMFS_KEEP_SIZE };
    let of_b = FileBatch { file: b, writes: null(), count: 0, size: 3 };
    assert_eq!(call!(scmfs_write_batch(volume, [of_a, of_b].as_ptr(), 2)), 0, "{}", message());
    assert_eq!((content(a).as_str(), content(b).as_str()), ("one TWO", "\0\0\0"));
    assert_eq!(call!(scmfs_write_batch(volume, null(), 0)), 0);
    let cut = FileBatch { size: 0, count: 0, ..of_a };
    for wrong in [[cut, cut], [cut, FileBatch { file: null(), ..of_b }], [cut, FileBatch { writes: null(), ..of_a }]] {
        assert_eq!(call!(scmfs_write_batch(volume, wrong.as_ptr(), 2)), -22, "{}", message());
    }
    let much = vec![0_u8; usize::try_from(call!(scmfs_batch_max(volume))).expect("a limit") + 1];
    let much = Write { offset: 0, data: much.as_ptr().cast(), length: much.len() };
    let much = FileBatch { writes: &much, count: 1, ..of_b };
    assert_eq!(call!(scmfs_write_batch(volume, [cut, FileBatch { size: SCMFS_KEEP_SIZE, ..much }].as_ptr(), 2)), -27);
    assert_eq!(content(a), "one TWO");
    assert_eq!((call!(scmfs_close(&mut a)), call!(scmfs_close(&mut b))), (0, 0));
    assert_eq!(call!(scmfs_volume_close(&mut volume)), 0);
}

#[test]
fn volumes_in_files_are_created_locked_opened_and_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("volume");
    let name = text(path.to_str().expect("UTF-8"));
    let name = name.as_ptr();
    let mut volume = null_mut();
    assert_eq!(call!(scmfs_volume_open(name, 0, &mut volume)), -2, "ENOENT");
    let said = message();
    assert!(said.starts_with("scmfs_volume_open: Refused: cannot open ") && said.contains("No such file"), "{said}");

    let label = text("käse");
    let mut options = CreateOptions {
        flags: SCMFS_CHECKSUMS,
        inodes: 100,
        max_bytes: 64 << 20,
        small_bytes: 4 << 20,
        threshold_bytes: SCMFS_THRESHOLD_NEVER,
        label: label.as_ptr(),
        reserved: [0; 4],
    };
    assert_eq!(call!(scmfs_volume_create(name, 32 << 20, &options)), 0, "{}", message());
    assert_eq!(call!(scmfs_volume_create(name, 32 << 20, &options)), -5, "it has contents");
    assert!(message().contains("; hint: "), "{}", message());
    options.flags |= SCMFS_OVERWRITE;
    assert_eq!(call!(scmfs_volume_create(name, 32 << 20, &options)), 0, "{}", message());

    assert_eq!(call!(scmfs_volume_open(name, SCMFS_BACKGROUND, &mut volume)), 0, "{}", message());
    let mut second = null_mut();
    assert_eq!(call!(scmfs_volume_open(name, 0, &mut second)), -5, "it is in use");
    assert!(second.is_null() && message().contains("in use"), "{}", message());
    let mut one = file(volume, "a", RW | SCMFS_CREATE);
    assert_eq!(call!(scmfs_pwrite(one, b"kept".as_ptr().cast(), 4, 0)), 4);
    assert_eq!(call!(scmfs_volume_close(&mut volume)), 0);
    // A file outlives its volume, to be read.
    assert_eq!(content(one), "kept");
    assert_eq!(call!(scmfs_pwrite(one, b"lost".as_ptr().cast(), 4, 0)), -30);
    assert_eq!(call!(scmfs_close(&mut one)), 0);

    let usage = {
        let fs = opened(&path);
        assert_eq!(fs.read("a").expect("the file"), b"kept");
        let usage = fs.volume().usage();
        fs.into_volume().close().expect("it closes");
        usage
    };
    assert_eq!((usage.volume_bytes, usage.max_bytes, usage.checksums), (32 << 20, 64 << 20, true));
    assert_eq!(usage.threshold, pocketstone_scmfs::Threshold::Never);
    assert_clean(&path);

    assert_eq!(call!(scmfs_volume_open(name, SCMFS_READ_ONLY, &mut volume)), 0, "{}", message());
    assert_eq!(call!(scmfs_mkdir(volume, text("d").as_ptr())), -30);
    assert_eq!(call!(scmfs_volume_close(&mut volume)), 0);
}

#[test]
fn the_library_says_which_one_it_is() {
    assert_eq!((scmfs_abi(), SCMFS_ABI), (1, 1));
    assert_eq!(call!(CStr::from_ptr(scmfs_version())).to_str(), Ok(env!("CARGO_PKG_VERSION")));
}
