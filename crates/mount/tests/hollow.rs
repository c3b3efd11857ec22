//! The file system of names and sizes alone: what programs see of it.

use pocketstone_mount::{MountOptions, mount_hollow};
use pocketstone_testing::{fuse, or_skip};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn names_and_sizes_are_kept_and_contents_are_zeros() {
    or_skip!(fuse());
    for direct_io in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let options = MountOptions { direct_io, ..MountOptions::default() };
        let mounted = mount_hollow(home.path(), &options).unwrap();
        let (folder, path) = (home.path().join("folder"), home.path().join("folder/file"));
        fs::create_dir(&folder).unwrap();
        let mut file = OpenOptions::new().create_new(true).append(true).read(true).open(&path).unwrap();
        file.write_all(&[7; 5000]).unwrap();
        file.write_all(&[7; 1000]).unwrap();
        file.sync_all().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 6000);
        let again = OpenOptions::new().create_new(true).write(true).open(&path);
        assert_eq!(again.unwrap_err().raw_os_error(), Some(Errno::EXIST.raw_os_error()));
        // Past the page cache, all that is read is zeros.
        if direct_io {
            let mut block = [1; 4096];
            assert_eq!(file.read_at(&mut block, 4096).unwrap(), 1904);
            assert!(block[..1904].iter().all(|byte| *byte == 0) && block[1904..].iter().all(|byte| *byte == 1));
        }
        file.set_len(10).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 10);
        // A file that has no name any more is there while it is open, and a directory that has some is not empty.
        let held = File::open(&path).unwrap();
        assert_eq!(fs::remove_dir(&folder).unwrap_err().raw_os_error(), Some(Errno::NOTEMPTY.raw_os_error()));
        fs::remove_file(&path).unwrap();
        file.write_all(&[7; 100]).unwrap();
        assert_eq!(held.metadata().unwrap().len(), 110);
        drop((held, file));
        fs::remove_dir(&folder).unwrap();
        assert!(names(home.path()).is_empty());
        mounted.unmount().unwrap();
    }
}

#[test]
fn names_move_and_are_listed_once_each() {
    or_skip!(fuse());
    let home = tempfile::tempdir().unwrap();
    let mounted = mount_hollow(home.path(), &MountOptions::default()).unwrap();
    // More than one answer to readdir holds.
    let all: BTreeSet<String> = (0..1000).map(|n| format!("a file with some longer name, number {n}")).collect();
    for (size, name) in all.iter().enumerate() {
        fs::write(home.path().join(name), vec![1; size]).unwrap();
    }
    assert_eq!(names(home.path()), all);
    let [first, last] = [all.first().unwrap(), all.last().unwrap()].map(|name| home.path().join(name));
    fs::rename(&last, &first).unwrap();
    assert_eq!(fs::metadata(&first).unwrap().len(), 999);
    assert!(!last.exists());
    let inner = home.path().join("inner");
    fs::create_dir(&inner).unwrap();
    fs::rename(&first, inner.join("moved")).unwrap();
    assert_eq!(names(&inner), BTreeSet::from(["moved".to_owned()]));
    fs::remove_dir_all(&inner).unwrap();
    assert_eq!(names(home.path()).len(), 998);
    mounted.unmount().unwrap();
}
