//! Files without a name, and birth times, as Linux has them on its own file systems: what is asked of a mounted volume
//! is asked of a tmpfs, too. Needs /dev/fuse and root; says so and passes without.

#[allow(dead_code)]
mod ground;

use ground::{Ground, close};
use pocketstone_mount::MountOptions;
use pocketstone_scmfs::Operations;
use pocketstone_testing::wait::until;
use pocketstone_testing::{Need, Skip, clock, or_skip};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::SystemTime;

/// Opens a file without a name; a counted skip where the kernel cannot have FUSE do that.
fn nameless(directory: &Path, more: OFlags) -> Result<File, Skip> {
    match rustix::fs::open(directory, OFlags::TMPFILE | OFlags::RDWR | more, Mode::from(0o640)) {
        Ok(file) => Ok(file.into()),
        Err(Errno::OPNOTSUPP) => Err(Need::Kernel.lacks("O_TMPFILE: FUSE has it from Linux 6.2 on")),
        Err(error) => panic!("{}: {error}", directory.display()),
    }
}

/// Gives an open file a name, by the file itself or by its place in /proc.
fn name(file: &File, to: &Path, by_proc: bool) -> rustix::io::Result<()> {
    if by_proc {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        return rustix::fs::linkat(CWD, path, CWD, to, AtFlags::SYMLINK_FOLLOW);
    }
    rustix::fs::linkat(file, "", CWD, to, AtFlags::EMPTY_PATH)
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

fn files_without_names(directory: &Path) {
    let file = or_skip!(nameless(directory, OFlags::empty()));
    file.write_all_at(b"draft", 0).unwrap();
    let seen = file.metadata().unwrap();
    assert_eq!((seen.nlink(), seen.len(), seen.mode()), (0, 5, 0o100_640));
    assert!(is_empty(directory));
    let (a, b) = (directory.join("a"), directory.join("b"));
    name(&file, &a, false).unwrap();
    assert_eq!(fs::read(&a).unwrap(), b"draft");
    assert_eq!(fs::metadata(&a).unwrap().ino(), seen.ino());
    assert_eq!(name(&file, &a, true), Err(Errno::EXIST));
    name(&file, &b, true).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 2);
    fs::remove_file(&a).unwrap();
    fs::remove_file(&b).unwrap();
    // It had a name, so it does not get another.
    assert_eq!(name(&file, &a, false), Err(Errno::NOENT));
    let mut text = [0; 5];
    file.read_exact_at(&mut text, 0).unwrap();
    assert_eq!(&text, b"draft");
    let secret = nameless(directory, OFlags::EXCL).unwrap();
    assert_eq!(name(&secret, &a, false), Err(Errno::NOENT), "O_EXCL: never");
    assert!(is_empty(directory));
}

#[test]
fn files_without_names_are_made_written_and_named() {
    let ground = or_skip!(Ground::new());
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        files_without_names(tempfile::tempdir_in(shared).unwrap().path());
    }
    for writeback in [false, true] {
        let (mounted, volume) = ground.mount(&MountOptions { writeback, ..MountOptions::default() });
        let used = || {
            let room = rustix::fs::statvfs(ground.directory()).unwrap();
            room.f_files - room.f_ffree
        };
        let before = used();
        files_without_names(&ground.directory());
        // The kernel forgets what was closed, and then it is gone.
        until("the inodes are free again", || used() == before);
        mounted.unmount().unwrap();
        close(volume);
    }
}

/// Whoever copies a file asks where its data is: what the kernel has not yet written back is data, too.
#[test]
fn what_the_kernel_still_holds_is_no_hole() {
    let ground = or_skip!(Ground::new());
    for writeback in [false, true] {
        let (mounted, volume) = ground.mount(&MountOptions { writeback, ..MountOptions::default() });
        let path = ground.directory().join("sparse");
        let file = fs::OpenOptions::new().write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(8 << 20).unwrap();
        file.write_all_at(b"payload", 4 << 20).unwrap();
        let other = fs::File::open(&path).unwrap();
        let found = rustix::fs::seek(&other, rustix::fs::SeekFrom::Data(0));
        assert!(found.is_ok_and(|at| at <= 4 << 20), "writeback {writeback}: {found:?}");
        drop((file, other));
        mounted.unmount().unwrap();
        close(volume);
    }
}

#[test]
fn a_named_one_is_there_after_the_next_mount_and_a_nameless_one_is_not() {
    let ground = or_skip!(Ground::new());
    let (mounted, volume) = ground.mount(&MountOptions::default());
    let file = or_skip!(nameless(&ground.directory(), OFlags::empty()));
    file.write_all_at(&[7; 10_000], 0).unwrap();
    name(&file, &ground.directory().join("kept"), false).unwrap();
    let lost = nameless(&ground.directory(), OFlags::empty()).unwrap();
    lost.write_all_at(&[8; 10_000], 0).unwrap();
    drop((file, lost));
    mounted.unmount().unwrap();
    close(volume);
    let (mounted, volume) = ground.mount(&MountOptions::default());
    let names: Vec<_> = fs::read_dir(ground.directory()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["kept"]);
    assert_eq!(fs::read(ground.directory().join("kept")).unwrap(), [7; 10_000]);
    let room = volume.statfs().unwrap();
    // The root's and the file's.
    assert_eq!(room.inodes - room.free_inodes, 2);
    mounted.unmount().unwrap();
    close(volume);
}

#[test]
fn birth_times_are_those_of_the_making_and_stay() {
    let ground = or_skip!(Ground::new());
    let (mounted, volume) = ground.mount(&MountOptions::default());
    let path = ground.directory().join("x");
    let before = clock::of_files();
    let file = File::create(&path).unwrap();
    let after = SystemTime::now();
    let Ok(born) = fs::metadata(&path).unwrap().created() else {
        return Need::Kernel.lacks("birth times: FUSE has them from Linux 6.6 on").end();
    };
    assert!(before <= born && born <= after, "{before:?} {born:?} {after:?}");
    clock::tick();
    file.write_all_at(b"more", 0).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let renamed = ground.directory().join("y");
    fs::rename(&path, &renamed).unwrap();
    let seen = fs::metadata(&renamed).unwrap();
    assert_eq!((seen.created().unwrap(), seen.len(), seen.mtime()), (born, 4, 0));
    assert_eq!(file.metadata().unwrap().created().unwrap(), born, "by the open file");
    drop(file);
    mounted.unmount().unwrap();
    close(volume);
    let (mounted, volume) = ground.mount(&MountOptions::default());
    assert_eq!(fs::metadata(&renamed).unwrap().created().unwrap(), born);
    mounted.unmount().unwrap();
    close(volume);
}
