//! What cannot be read is listed, and is an error for whoever asks for more; never is it as if it were not there.
//! Needs /dev/fuse and root; says so and passes without.

#[allow(dead_code)]
mod ground;

use ground::{Ground, close};
use pocketstone_mount::{MountOptions, Mounted};
use pocketstone_scmfs::Volume;
use pocketstone_testing::{or_skip, program};
use std::fs;
use std::os::unix::fs::{FileExt, chown};
use std::process::Command;
use std::sync::{Arc, Mutex};

/// An owner that nothing else in a volume looks like.
const OWNER: u32 = 0x5eed_1234;
const EIO: i32 = 5;

/// A volume with three files, one of which has lost both versions of its inode; mounted, and what it reports.
fn damaged(ground: &Ground) -> (Mounted, Arc<Volume>, Arc<Mutex<Vec<String>>>) {
    let (mounted, volume) = ground.mount(&MountOptions::default());
    for name in ["before", "lost", "behind"] {
        fs::write(ground.directory().join(name), name).unwrap();
    }
    // Twice: an inode's versions take turns.
    for group in [1, 2, 3] {
        chown(ground.directory().join("lost"), Some(OWNER), Some(group)).unwrap();
    }
    mounted.unmount().unwrap();
    close(volume);
    let region = fs::OpenOptions::new().read(true).write(true).open(ground.region()).unwrap();
    let bytes = fs::read(ground.region()).unwrap();
    let owner = OWNER.to_le_bytes();
    let places: Vec<usize> = (0..bytes.len() - 4).filter(|&at| bytes[at..at + 4] == owner).collect();
    assert!(places.len() >= 2, "{places:?}");
    for place in places {
        region.write_all_at(&[!owner[0]], place as u64).unwrap();
    }
    let said = Arc::new(Mutex::new(Vec::new()));
    let told = said.clone();
    let reporter = move |text: &str| told.lock().unwrap().push(text.to_owned());
    let (mounted, volume) =
        ground.mount(&MountOptions { reporter: Some(Arc::new(reporter)), ..MountOptions::default() });
    (mounted, volume, said)
}

fn names(ground: &Ground) -> Vec<String> {
    let entries = fs::read_dir(ground.directory()).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_whose_inode_is_damaged_is_listed_and_an_error() {
    let ground = or_skip!(Ground::new());
    let (mounted, volume, said) = damaged(&ground);
    let lost = ground.directory().join("lost");
    // Before and after the kernel has asked for it.
    for _ in 0..2 {
        assert_eq!(names(&ground), ["before", "behind", "lost"]);
        assert_eq!(fs::metadata(&lost).unwrap_err().raw_os_error(), Some(EIO));
        assert_eq!(fs::read(&lost).unwrap_err().raw_os_error(), Some(EIO));
        assert_eq!(fs::write(&lost, "new").unwrap_err().raw_os_error(), Some(EIO), "not made anew");
        assert_eq!(fs::remove_file(&lost).unwrap_err().raw_os_error(), Some(EIO));
    }
    assert_eq!(fs::read(ground.directory().join("behind")).unwrap(), b"behind");
    assert!(!ground.directory().join("never").exists());
    let said = said.lock().unwrap();
    assert!(said.iter().any(|text| text.contains("damaged")), "{said:?}");
    drop(said);
    mounted.unmount().unwrap();
    close(volume);
}

#[test]
fn rsync_does_not_delete_the_copy_of_what_is_damaged() {
    let ground = or_skip!(Ground::new());
    or_skip!(program("rsync", "rsync"));
    let (mounted, volume, _) = damaged(&ground);
    let backup = ground.beside().join("backup");
    fs::create_dir(&backup).unwrap();
    for name in ["lost", "gone"] {
        fs::write(backup.join(name), "the good copy").unwrap();
    }
    let mut rsync = Command::new("rsync");
    rsync.args(["-a", "--delete"]).arg(ground.directory().join("")).arg(&backup);
    let output = rsync.output().unwrap();
    assert!(!output.status.success(), "it says so");
    assert_eq!(fs::read(backup.join("lost")).unwrap(), b"the good copy", "{output:?}");
    assert_eq!(fs::read(backup.join("before")).unwrap(), b"before", "the rest is copied");
    mounted.unmount().unwrap();
    close(volume);
}
