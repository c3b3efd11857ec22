//! Handles of files: what servers of NFS keep of a file, which a client may come back with after days.

use pocketstone_testing::or_skip;
use pocketstone_tests::handles::{Handle, handle_of, open_handle};
use pocketstone_tests::mounted::{MountedVolume, Place, make};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;

/// What a file has, opened by its handle.
#[track_caller]
fn read(volume: &MountedVolume, handle: &Handle) -> String {
    let mut text = String::new();
    let mut file = open_handle(top(volume), handle, libc::O_RDWR).expect("the handle opens it");
    file.read_to_string(&mut text).expect("it can be read");
    text
}

fn top(volume: &MountedVolume) -> File {
    File::open(volume.path()).expect("the mount")
}

#[track_caller]
fn is_stale(volume: &MountedVolume, handle: &Handle) {
    let error = open_handle(top(volume), handle, libc::O_RDONLY).expect_err("the handle is of what is gone");
    assert_eq!(error.raw_os_error(), Some(Errno::STALE.raw_os_error()), "{error}");
}

/// The kernel forgets every inode that nobody has open.
fn forget(volume: &MountedVolume) {
    rustix::fs::syncfs(top(volume)).expect("a sync");
    fs::write("/proc/sys/vm/drop_caches", "2").expect("dropped");
}

fn volume(place: &Place) -> MountedVolume {
    make(&place.path("region"), &["--size", "64M"]);
    MountedVolume::mount(&place.path("region"), &place.folder("mount"), &[])
}

#[test]
fn handles_outlive_the_kernels_memory_and_a_killed_server() {
    let place = or_skip!(Place::new());
    let mut volume = volume(&place);
    let at = |volume: &MountedVolume, name: &str| volume.path().join(name);
    fs::create_dir_all(at(&volume, "folder/below")).expect("folders");
    fs::write(at(&volume, "folder/below/file"), "text").expect("a file");
    let file = handle_of(&at(&volume, "folder/below/file")).expect("its handle");
    let folder = handle_of(&at(&volume, "folder/below")).expect("its handle");
    fs::write(at(&volume, "gone"), "gone").expect("a file");
    let gone = handle_of(&at(&volume, "gone")).expect("its handle");
    fs::remove_file(at(&volume, "gone")).expect("removed");
    for kills in 0..3 {
        if kills > 0 {
            volume = volume.kill_and_mount_again(&[]);
        }
        // By the handle alone: no name was looked up in this mount.
        assert_eq!(read(&volume, &file), "text", "{kills} kills");
        forget(&volume);
        assert_eq!(read(&volume, &file), "text", "{kills} kills, and forgotten");
        let within = open_handle(top(&volume), &folder, libc::O_RDONLY | libc::O_DIRECTORY).expect("the folder");
        let names = rustix::fs::Dir::read_from(&within).expect("its names").flatten();
        assert!(names.into_iter().any(|entry| entry.file_name() == c"file"), "{kills} kills");
        let above = rustix::fs::statat(&within, "..", rustix::fs::AtFlags::empty()).expect("the folder above");
        assert_eq!(above.st_ino, at(&volume, "folder").metadata().expect("the folder above").ino());
        is_stale(&volume, &gone);
    }
    // What is written by it is the file's.
    open_handle(top(&volume), &file, libc::O_RDWR).expect("the file").write_all(b"TEXT").expect("written");
    assert_eq!(fs::read_to_string(at(&volume, "folder/below/file")).expect("the file"), "TEXT");
    volume.end();
}

#[test]
fn a_handle_of_what_is_gone_is_stale_though_its_inode_has_another_file() {
    let place = or_skip!(Place::new());
    let mut volume = volume(&place);
    fs::write(volume.path().join("old"), "old").expect("a file");
    let number = volume.path().join("old").metadata().expect("the file").ino();
    let old = handle_of(&volume.path().join("old")).expect("its handle");
    fs::remove_file(volume.path().join("old")).expect("removed");
    is_stale(&volume, &old);
    forget(&volume);
    let new = (0..100_000).map(|n| volume.path().join(format!("new-{n}"))).find(|path| {
        fs::write(path, "new").expect("a file");
        path.metadata().expect("the file").ino() == number
    });
    let new = handle_of(&new.expect("the inode is used again")).expect("its handle");
    for killed in [false, true] {
        if killed {
            volume = volume.kill_and_mount_again(&[]);
        }
        is_stale(&volume, &old);
        assert_eq!(read(&volume, &new), "new");
        is_stale(&volume, &old);
        forget(&volume);
        is_stale(&volume, &old);
        assert_eq!(read(&volume, &new), "new");
    }
    volume.end();
}
