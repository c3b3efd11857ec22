//! Arguments that are wrong: each is refused as the header says, and nothing happens.

use crate::support::{call, file, message, text, volume};
use scmfs::batch::{FileBatch, Write, scmfs_batch_max, scmfs_write_batch};
use scmfs::directory::{scmfs_closedir, scmfs_opendir, scmfs_readdir};
use scmfs::file::*;
use scmfs::names::*;
use scmfs::types::*;
use scmfs::volume::*;
use std::ptr::{null, null_mut};

const EIO: i32 = -5;
const EBADF: i32 = -9;
const EINVAL: i32 = -22;
const EFBIG: i64 = -27;
const RW: u32 = SCMFS_READ | SCMFS_WRITE;

fn options() -> CreateOptions {
    CreateOptions {
        flags: 0,
        inodes: 0,
        max_bytes: 0,
        small_bytes: 0,
        threshold_bytes: 0,
        label: null(),
        reserved: [0; 4],
    }
}

#[test]
fn null_is_refused_by_every_function() {
    let mut opened = volume();
    let volume = opened;
    let a = text("a");
    let a = a.as_ptr();
    let (mut a_file, mut a_directory, mut a_volume) = (null_mut(), null_mut(), null_mut());
    for result in [
        call!(scmfs_volume_create(null(), 1 << 24, null())),
        call!(scmfs_volume_open(null(), 0, &mut a_volume)),
        call!(scmfs_volume_open(a, 0, null_mut())),
        call!(scmfs_volume_in_memory(1 << 24, null(), null_mut())),
        call!(scmfs_volume_sync(null())),
        call!(scmfs_open(null(), a, RW, 0, &mut a_file)),
        call!(scmfs_open(volume, null(), RW, 0, &mut a_file)),
        call!(scmfs_open(volume, a, RW, 0, null_mut())),
        call!(scmfs_truncate(null(), 0)),
        call!(scmfs_sync(null())),
        call!(scmfs_fstat(null(), null_mut())),
        call!(scmfs_write_batch(null(), null(), 0)),
        call!(scmfs_write_batch(volume, null(), 1)),
        call!(scmfs_mkdir(null(), a)),
        call!(scmfs_mkdir(volume, null())),
        call!(scmfs_rmdir(volume, null())),
        call!(scmfs_unlink(volume, null())),
        call!(scmfs_rename(volume, null(), a)),
        call!(scmfs_rename(volume, a, null())),
        call!(scmfs_link(volume, null(), a)),
        call!(scmfs_link(volume, a, null())),
        call!(scmfs_symlink(volume, null(), a)),
        call!(scmfs_symlink(volume, a, null())),
        call!(scmfs_stat(volume, text("/").as_ptr(), null_mut())),
        call!(scmfs_stat(volume, null(), null_mut())),
        call!(scmfs_lstat(volume, null(), null_mut())),
        call!(scmfs_chmod(volume, null(), 0)),
        call!(scmfs_opendir(volume, null(), &mut a_directory)),
        call!(scmfs_opendir(volume, text("/").as_ptr(), null_mut())),
        call!(scmfs_readdir(null_mut(), null_mut())),
    ] {
        assert_eq!(result, EINVAL, "{}", message());
    }
    for result in [
        call!(scmfs_pread(null(), null_mut(), 0, 0)),
        call!(scmfs_pwrite(null(), null(), 0, 0)),
        call!(scmfs_append(null(), null(), 0, null_mut())),
        call!(scmfs_write_atomic(null(), null(), 0, 0)),
        call!(scmfs_atomic_max(null())),
        call!(scmfs_batch_max(null())),
        call!(scmfs_readlink(volume, null(), null_mut(), 0)),
    ] {
        assert_eq!(result, i64::from(EINVAL), "{}", message());
    }
    assert!(a_file.is_null() && a_directory.is_null() && a_volume.is_null());
    assert_eq!(message(), "scmfs_readlink: Argument: path is NULL");
    assert_eq!(call!(scmfs_volume_close(&mut opened)), 0);
}

#[test]
fn closing_twice_and_closing_nothing_is_allowed() {
    let mut volume = volume();
    let mut one = file(volume, "a", RW | SCMFS_CREATE);
    let mut root = null_mut();
    assert_eq!(call!(scmfs_opendir(volume, text("/").as_ptr(), &mut root)), 0);
    for _ in 0..2 {
        assert_eq!(call!(scmfs_close(&mut one)), 0);
        assert_eq!(call!(scmfs_closedir(&mut root)), 0);
        assert_eq!(call!(scmfs_volume_close(&mut volume)), 0);
        assert!(one.is_null() && root.is_null() && volume.is_null());
    }
    assert_eq!(call!(scmfs_close(null_mut())), 0);
    assert_eq!(call!(scmfs_closedir(null_mut())), 0);
    assert_eq!(call!(scmfs_volume_close(null_mut())), 0);
}

#[test]
fn lengths_and_offsets_at_the_ends_of_their_ranges() {
    let mut volume = volume();
    let mut one = file(volume, "a", RW | SCMFS_CREATE);
    let mut bytes = *b"some bytes";
    let data = bytes.as_mut_ptr().cast();
    for length in [isize::MAX as usize + 1, usize::MAX] {
        for result in [
            call!(scmfs_pread(one, data, length, 0)),
            call!(scmfs_pwrite(one, data, length, 0)),
            call!(scmfs_append(one, data, length, null_mut())),
            call!(scmfs_write_atomic(one, data, length, 0)),
            call!(scmfs_readlink(volume, text("a").as_ptr(), data.cast(), length)),
            i64::from(call!(scmfs_write_batch(volume, data.cast(), length))),
            i64::from(call!(scmfs_write_batch(volume, data.cast(), length / size_of::<FileBatch>() + 1))),
        ] {
            assert_eq!(result, i64::from(EINVAL), "{}", message());
        }
    }
    assert_eq!(call!(scmfs_pread(one, null_mut(), 1, 0)), i64::from(EINVAL));
    assert_eq!(message(), "scmfs_pread: Argument: data is NULL, and its length is not 0");
    assert_eq!(call!(scmfs_pwrite(one, null(), 1, 0)), i64::from(EINVAL));
    for offset in [0, 1, u64::MAX] {
        assert_eq!(call!(scmfs_pread(one, null_mut(), 0, offset)), 0);
        assert_eq!(call!(scmfs_pread(one, data, 10, offset)), 0, "nothing is there");
    }
    assert_eq!(call!(scmfs_pwrite(one, null(), 0, 0)), 0);
    for offset in [u64::MAX, u64::MAX - 9, i64::MAX as u64] {
        assert_eq!(call!(scmfs_pwrite(one, data, 10, offset)), EFBIG, "{}", message());
        assert_eq!(call!(scmfs_write_atomic(one, data, 10, offset)), EFBIG);
        let write = Write { offset, data, length: 10 };
        let batch = FileBatch { file: one, writes: &write, count: 1, size: SCMFS_KEEP_SIZE };
        assert_eq!(i64::from(call!(scmfs_write_batch(volume, &batch, 1))), EFBIG);
    }
    assert_eq!(i64::from(call!(scmfs_truncate(one, u64::MAX))), EFBIG);
    let many = vec![1; call!(scmfs_atomic_max(one)) as usize + 1];
    assert_eq!(call!(scmfs_write_atomic(one, many.as_ptr().cast(), many.len(), 0)), EFBIG);
    assert_eq!(call!(scmfs_write_atomic(one, many.as_ptr().cast(), many.len() - 1, 0)), many.len() as i64 - 1);
    assert_eq!(call!(scmfs_close(&mut one)), 0);
    assert_eq!(call!(scmfs_volume_close(&mut volume)), 0);
}

#[test]
fn flags_modes_and_options_that_do_not_exist() {
    let mut volume = volume();
    let a = text("a");
    let mut one = null_mut();
    for (flags, mode) in [
        (0, 0),
        (0x20, 0),
        (RW | SCMFS_READ_ONLY, 0),
        (SCMFS_READ | SCMFS_CREATE, 0),
        (SCMFS_READ | SCMFS_TRUNCATE, 0),
        (RW | SCMFS_CREATE, 0o10000),
        (RW | SCMFS_CREATE, u32::MAX),
    ] {
        assert_eq!(call!(scmfs_open(volume, a.as_ptr(), flags, mode, &mut one)), EINVAL, "{flags:#x} {mode:o}");
    }
    let mut another = null_mut();
    assert_eq!(call!(scmfs_volume_open(a.as_ptr(), SCMFS_CREATE, &mut another)), EINVAL);
    let latin = *b"\xe4\0";
    for wrong in [
        CreateOptions { flags: SCMFS_READ_ONLY, ..options() },
        CreateOptions { reserved: [0, 0, 0, 1], ..options() },
        CreateOptions { label: latin.as_ptr().cast(), ..options() },
    ] {
        assert_eq!(call!(scmfs_volume_in_memory(16 << 20, &wrong, &mut another)), EINVAL);
    }
    let label = text(&"x".repeat(33));
    for contradictory in [
        CreateOptions { max_bytes: 1 << 20, ..options() },
        CreateOptions { small_bytes: u64::MAX, ..options() },
        CreateOptions { label: label.as_ptr(), ..options() },
    ] {
        assert_eq!(call!(scmfs_volume_in_memory(16 << 20, &contradictory, &mut another)), EIO);
        assert!(message().starts_with("scmfs_volume_in_memory: Refused: "), "{}", message());
    }
    assert!(call!(scmfs_volume_in_memory(0, null(), &mut another)) < 0 && another.is_null());
    assert!(call!(scmfs_volume_in_memory(u64::MAX, null(), &mut another)) < 0 && another.is_null());
    assert_eq!(call!(scmfs_volume_close(&mut volume)), 0);
}

#[test]
fn a_file_does_only_what_it_is_open_for() {
    let mut volume = volume();
    let mut reads = file(volume, "a", RW | SCMFS_CREATE);
    assert_eq!(call!(scmfs_close(&mut reads)), 0);
    let (mut reads, mut writes) = (file(volume, "a", SCMFS_READ), file(volume, "a", SCMFS_WRITE));
    let mut byte = 7_u8;
    let data = (&raw mut byte).cast();
    let batch = FileBatch { file: reads, writes: null(), count: 0, size: 9 };
    for result in [
        call!(scmfs_pread(writes, data, 1, 0)),
        call!(scmfs_pwrite(reads, data, 1, 0)),
        call!(scmfs_append(reads, data, 1, null_mut())),
        call!(scmfs_write_atomic(reads, data, 1, 0)),
        i64::from(call!(scmfs_truncate(reads, 1))),
        i64::from(call!(scmfs_write_batch(volume, &batch, 1))),
    ] {
        assert_eq!(result, i64::from(EBADF), "{}", message());
    }
    assert_eq!(call!(scmfs_pwrite(writes, data, 1, 0)), 1);
    assert_eq!(call!(scmfs_pread(reads, data, 1, 0)), 1);
    assert_eq!((call!(scmfs_close(&mut reads)), call!(scmfs_close(&mut writes))), (0, 0));
    assert_eq!(call!(scmfs_volume_close(&mut volume)), 0);
}
