//! What a mount with `sync` or `dirsync` makes durable before it answers. Needs /dev/fuse; says so and passes without.

use pocketstone_media::nand::{Fault, Geometry, Nand, SimulatedNand, SimulatedOptions, Verdict};
use pocketstone_media::{MapOptions, Mapped, Persistence, Region, Result};
use pocketstone_mount::{KIND, MountOptions, Preload, mount_scmfs, mount_yaffs2, remount, stores_directly};
use pocketstone_scmfs::{CreateOptions, OpenOptions, Volume};
use pocketstone_testing::{fuse, or_skip, root};
use rustix::fs::{CWD, FallocateFlags, FileType, Mode, XattrFlags, copy_file_range, fallocate, mknodat, setxattr};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A medium that counts how often it is asked to make everything durable.
struct Counting<M>(M, Arc<AtomicU64>);

impl<M> Counting<M> {
    fn count(&self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: everything is the inner region's.
unsafe impl Region for Counting<Mapped> {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn base(&self) -> *const u8 {
        self.0.base()
    }

    fn map_bytes(&self) -> u64 {
        self.0.map_bytes()
    }

    fn persistence(&self) -> Persistence {
        self.0.persistence()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        self.0.read(at, into);
    }

    unsafe fn write(&self, at: u64, from: &[u8]) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.0.write(at, from) }
    }

    unsafe fn store_u64(&self, at: u64, value: u64) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.0.store_u64(at, value) }
    }

    unsafe fn stream(&self, at: u64, from: &[u8]) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.0.stream(at, from) }
    }

    unsafe fn zero(&self, at: u64, bytes: u64) {
        // SAFETY: the caller's promise, handed on.
        unsafe { self.0.zero(at, bytes) }
    }

    fn flush(&self, at: u64, bytes: u64) {
        self.0.flush(at, bytes);
    }

    fn fence(&self) {
        self.0.fence();
    }

    fn sync(&self) -> Result<()> {
        self.count();
        self.0.sync()
    }
}

impl Nand for Counting<SimulatedNand> {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&mut self, page: u32, data: &mut [u8], spare: &mut [u8]) -> Result<Verdict> {
        self.0.read(page, data, spare)
    }

    fn program(&mut self, page: u32, data: &[u8], spare: &[u8]) -> std::result::Result<(), Fault> {
        self.0.program(page, data, spare)
    }

    fn erase(&mut self, block: u32) -> std::result::Result<(), Fault> {
        self.0.erase(block)
    }

    fn is_bad(&mut self, block: u32) -> Result<bool> {
        self.0.is_bad(block)
    }

    fn mark_bad(&mut self, block: u32) -> Result<()> {
        self.0.mark_bad(block)
    }

    fn sync(&mut self) -> Result<()> {
        self.count();
        self.0.sync()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

fn scmfs(flushed: &Arc<AtomicU64>) -> Arc<Volume> {
    // Deleted at the end of this function; what is mapped stays.
    let file = tempfile::NamedTempFile::new().unwrap();
    let options = MapOptions::default().overwrite(true);
    let region = Mapped::create(file.path(), 32 << 20, &options).unwrap();
    Volume::create(Box::new(region), &CreateOptions::default().zeroed(true)).unwrap();
    let region = Counting(Mapped::open(file.path(), &options).unwrap(), flushed.clone());
    Arc::new(Volume::open(Box::new(region), &OpenOptions::default()).unwrap())
}

fn yaffs2(flushed: &Arc<AtomicU64>) -> pocketstone_yaffs2::Volume {
    let geometry = Geometry { page_bytes: 2048, spare_bytes: 38, pages_per_block: 64, blocks: 64 };
    let chip = SimulatedNand::new(geometry, SimulatedOptions::default());
    pocketstone_yaffs2::Volume::create(&mut chip.clone()).unwrap();
    pocketstone_yaffs2::Volume::open(Box::new(Counting(chip, flushed.clone())), &Default::default()).unwrap()
}

/// Checks which changes in a directory are flushed when they are answered.
fn check(directory: &Path, flushed: &AtomicU64, names: bool, everything: bool) {
    let path = |name: &str| directory.join(name);
    let each = |expected: bool, what: &str, change: &dyn Fn()| {
        let before = flushed.load(Ordering::Relaxed);
        change();
        assert_eq!(flushed.load(Ordering::Relaxed) > before, expected, "{what}, names: {names}, all: {everything}");
    };
    let folder = path("folder");
    each(names, "mkdir", &|| fs::create_dir(&folder).unwrap());
    let (file, moved) = (folder.join("file"), path("moved"));
    each(names, "mknod", &|| mknodat(CWD, &file, FileType::RegularFile, Mode::from(0o644), 0).unwrap());
    each(names, "symlink", &|| symlink("file", folder.join("link")).unwrap());
    each(names, "link", &|| fs::hard_link(&file, path("second")).unwrap());
    each(names, "rename", &|| fs::rename(&file, &moved).unwrap());
    each(names, "exchange", &|| fs::rename(path("second"), folder.join("file")).unwrap());
    each(everything, "chmod", &|| fs::set_permissions(&moved, Permissions::from_mode(0o600)).unwrap());
    each(everything, "setxattr", &|| setxattr(&moved, "user.a", b"value", XattrFlags::empty()).unwrap());
    each(everything, "removexattr", &|| rustix::fs::removexattr(&moved, "user.a").unwrap());
    let open = File::options().read(true).write(true).open(&moved).unwrap();
    each(everything, "write", &|| open.write_all_at(&[7; 5000], 0).unwrap());
    each(everything, "truncate", &|| open.set_len(4000).unwrap());
    // Not everything has it.
    let allocates = fallocate(&open, FallocateFlags::empty(), 0, 6000).is_ok();
    each(everything && allocates, "fallocate", &|| {
        let _ = fallocate(&open, FallocateFlags::empty(), 0, 9000);
    });
    let other = File::options().read(true).write(true).open(folder.join("file")).unwrap();
    each(everything, "copy_file_range", &|| {
        let _ = copy_file_range(&open, Some(&mut 0), &other, Some(&mut 20_000), 3000).unwrap();
    });
    drop((open, other));
    let created = std::cell::Cell::new(None);
    each(names, "create", &|| created.set(Some(File::create_new(path("created")).unwrap())));
    drop(created.take());
    let open = File::options().write(true).open(path("created")).unwrap();
    each(names, "unlink", &|| fs::remove_file(path("created")).unwrap());
    // Its inode has no name any more.
    open.set_len(100).unwrap();
    drop(open);
    fs::remove_file(folder.join("file")).unwrap();
    fs::remove_file(folder.join("link")).unwrap();
    each(names, "rmdir", &|| fs::remove_dir(&folder).unwrap());
    each(names, "unlink", &|| fs::remove_file(&moved).unwrap());
}

#[test]
fn what_a_mount_is_to_flush_is_flushed_when_it_answers() {
    or_skip!(fuse());
    let home = tempfile::tempdir().unwrap();
    for (sync, dir_sync) in [(false, false), (false, true), (true, false)] {
        for direct_io in [false, true] {
            let options = MountOptions { sync, dir_sync, direct_io, ..MountOptions::default() };
            let flushed = Arc::default();
            let volume = scmfs(&flushed);
            let mounted = mount_scmfs(volume.clone(), home.path(), &options).unwrap();
            check(home.path(), &flushed, sync || dir_sync, sync);
            mounted.unmount().unwrap();
            Arc::into_inner(volume).expect("nothing else holds it").close().unwrap();
            let (mounted, volume) = mount_yaffs2(yaffs2(&flushed), home.path(), &options).unwrap();
            check(home.path(), &flushed, sync || dir_sync, sync);
            mounted.unmount().unwrap();
            volume.close().unwrap();
        }
    }
}

#[test]
fn a_remount_takes_flushing_on_and_off() {
    or_skip!(fuse());
    or_skip!(root());
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().canonicalize().unwrap();
    let flushed = Arc::default();
    let volume = scmfs(&flushed);
    let mounted = mount_scmfs(volume.clone(), &directory, &MountOptions::default()).unwrap();
    let remounted = |change: &dyn Fn(&mut MountOptions)| {
        let mut options = MountOptions::default();
        options.keep_flags_of(&directory).unwrap();
        change(&mut options);
        remount(&directory, KIND, &options)
    };
    for sync in [true, false] {
        remounted(&|options| options.sync = sync).unwrap();
        check(&directory, &flushed, sync, sync);
        remounted(&|options| options.noatime = true).unwrap();
        check(&directory, &flushed, sync, sync);
    }
    let refused = remounted(&|options| options.dir_sync = true).unwrap_err();
    assert!(refused.chain().contains("dirsync") && refused.cure().is_some(), "{}", refused.chain());
    mounted.unmount().unwrap();
    let mounted = mount_scmfs(volume.clone(), &directory, &MountOptions { dir_sync: true, ..MountOptions::default() });
    remounted(&|options| options.noatime = true).unwrap();
    check(&directory, &flushed, true, false);
    mounted.unwrap().unmount().unwrap();
    Arc::into_inner(volume).expect("nothing else holds it").close().unwrap();
}

#[test]
fn what_others_store_to_is_not_remounted_with_sync() {
    or_skip!(fuse());
    or_skip!(root());
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().canonicalize().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let region = Mapped::create(file.path(), 32 << 20, &MapOptions::default().overwrite(true)).unwrap();
    Volume::create(Box::new(region), &CreateOptions::default().zeroed(true)).unwrap();
    for (preload, refused) in [(Preload::Read, false), (Preload::Write, stores_directly())] {
        let region = Mapped::open(file.path(), &MapOptions::default()).unwrap();
        let volume = Arc::new(Volume::open(Box::new(region), &OpenOptions::default()).unwrap());
        let mounted =
            mount_scmfs(volume.clone(), &directory, &MountOptions { preload, ..MountOptions::default() }).unwrap();
        let mut options = MountOptions::default();
        options.keep_flags_of(&directory).unwrap();
        options.sync = true;
        let outcome = remount(&directory, KIND, &options);
        assert_eq!(outcome.is_err_and(|error| error.chain().contains("preload")), refused, "{preload:?}");
        mounted.unmount().unwrap();
        Arc::into_inner(volume).expect("nothing else holds it").close().unwrap();
    }
}
