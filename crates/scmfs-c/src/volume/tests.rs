use super::*;
use crate::names::scmfs_mkdir;

#[test]
fn a_volume_in_which_the_library_panicked_is_abandoned_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let region = std::ffi::CString::new(folder.path().join("v").as_os_str().as_bytes()).unwrap();
    let region = region.as_ptr();
    let mut volume = std::ptr::null_mut();
    // SAFETY: texts, variables, and a volume that is open.
    unsafe {
        assert_eq!(scmfs_volume_create(region, 16 << 20, std::ptr::null()), 0);
        assert_eq!(scmfs_volume_open(region, 0, &mut volume), 0);
        assert_eq!(scmfs_mkdir(volume, c"before".as_ptr()), 0);
        let panicked = status("f", || {
            let (_fs, _call) = entered(volume)?;
            panic!("as a defect would")
        });
        assert_eq!((panicked, scmfs_mkdir(volume, c"after".as_ptr()), scmfs_volume_sync(volume)), (-5, -5, -5));
        assert_eq!((scmfs_volume_close(&mut volume), volume.is_null()), (-5, true));
        // Only a volume that was not closed is refused read-only.
        assert_eq!(scmfs_volume_open(region, SCMFS_READ_ONLY, &mut volume), -5);
        assert_eq!(scmfs_volume_open(region, 0, &mut volume), 0);
        assert_eq!(scmfs_mkdir(volume, c"before".as_ptr()), -17, "it was there");
        assert_eq!(scmfs_mkdir(volume, c"after".as_ptr()), 0);
        assert_eq!(scmfs_volume_close(&mut volume), 0);
    }
}
