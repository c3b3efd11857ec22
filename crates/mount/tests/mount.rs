//! Volumes under a real kernel. Needs /dev/fuse and the right to mount.

use pocketstone_fstest::drive::by_kernel;
use pocketstone_fstest::{Decoder, Has, Model, Op};
use pocketstone_media::nand::{Geometry, SimulatedNand, SimulatedOptions};
use pocketstone_media::{MapOptions, Mapped, Region};
use pocketstone_mount::{MountOptions, Mounted, RESIZE, USAGE, Yaffs2, mount_null, mount_scmfs, mount_yaffs2};
use pocketstone_scmfs::{CreateOptions, OpenOptions, Volume};
use pocketstone_testing::{Skip, amount, clock, fuse, or_skip, say, seed};
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags, SeekFrom, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions as Open};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

const VOLUME_BYTES: u64 = 64 << 20;

/// What is mounted.
enum Behind {
    Scmfs(Arc<Volume>),
    Yaffs2(Yaffs2, SimulatedNand),
}

/// A fresh volume, mounted. Unmounted and closed by [`Fixture::end`].
struct Fixture {
    // Unmounted before the directory is removed, also when a test fails.
    mounted: Option<Mounted>,
    behind: Behind,
    home: TempDir,
}

impl Fixture {
    fn scmfs(options: &MountOptions) -> Result<Fixture, Skip> {
        fuse()?;
        let volume = Arc::new(Volume::open(fresh_region(), &OpenOptions::default()).unwrap());
        let home = tempfile::tempdir().unwrap();
        let mounted = mount_scmfs(volume.clone(), home.path(), options).unwrap();
        Ok(Fixture { mounted: Some(mounted), behind: Behind::Scmfs(volume), home })
    }

    /// On a chip of 2 KiB pages as the paper's, with a quarter of its blocks.
    fn yaffs2(options: &MountOptions) -> Result<Fixture, Skip> {
        Fixture::yaffs2_of(512, options)
    }

    fn yaffs2_of(blocks: u32, options: &MountOptions) -> Result<Fixture, Skip> {
        fuse()?;
        let geometry = Geometry { page_bytes: 2048, spare_bytes: 38, pages_per_block: 64, blocks };
        let chip = SimulatedNand::new(geometry, SimulatedOptions::default());
        pocketstone_yaffs2::Volume::create(&mut chip.clone()).unwrap();
        let volume = pocketstone_yaffs2::Volume::open(Box::new(chip.clone()), &Default::default()).unwrap();
        let home = tempfile::tempdir().unwrap();
        let (mounted, yaffs2) = mount_yaffs2(volume, home.path(), options).unwrap();
        Ok(Fixture { mounted: Some(mounted), behind: Behind::Yaffs2(yaffs2, chip), home })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// YAFFS2 knows whole seconds, and no exchange of names.
    fn is_yaffs2(&self) -> bool {
        matches!(self.behind, Behind::Yaffs2(..))
    }

    fn end(mut self) {
        self.mounted.take().unwrap().unmount().unwrap();
        match self.behind {
            Behind::Scmfs(volume) => Arc::into_inner(volume).expect("nothing else holds it").close().unwrap(),
            Behind::Yaffs2(yaffs2, _) => yaffs2.close().unwrap(),
        }
    }
}

/// Every kind of file system, or none where nothing can be mounted.
fn each(options: &MountOptions) -> impl Iterator<Item = Fixture> + use<> {
    [Fixture::scmfs(options), Fixture::yaffs2(options)].into_iter().flatten()
}

#[test]
fn the_kernel_does_on_a_mount_what_the_model_does() {
    let seed = seed(1);
    for fixture in each(&MountOptions::default()) {
        let target_max = if fixture.is_yaffs2() { 159 } else { 4095 };
        let has = Has { all_of_linux: !fixture.is_yaffs2(), target_max, ..Has::all() };
        let permissions = fixture.home.path().metadata().unwrap().permissions().mode() & 0o7777;
        let mut model = Model::new(has.clone(), permissions as u16, 0, 0);
        if fixture.is_yaffs2() {
            model.apply(&Op::Mkdir("/lost+found".into(), 0o700));
        }
        let decoder = Decoder::of_kernel(has);
        let (compared, left_out) = by_kernel(fixture.home.path(), &mut model, &decoder, seed, amount(3_000, 100_000));
        say(&format!("{compared} operations compared, {left_out} left out"));
        assert!(compared > 4 * left_out, "hardly anything could be compared");
        fixture.end();
    }
}

/// A region with an empty volume.
fn fresh_region() -> Box<dyn Region> {
    // Deleted at the end of this function; what is mapped stays.
    let file = tempfile::NamedTempFile::new().unwrap();
    let options = MapOptions::default().overwrite(true);
    let region = Mapped::create(file.path(), VOLUME_BYTES, &options).unwrap();
    Volume::create(Box::new(region), &CreateOptions::default().zeroed(true)).unwrap();
    Box::new(Mapped::open(file.path(), &options).unwrap())
}

fn plain() -> impl Iterator<Item = Fixture> + use<> {
    each(&MountOptions::default())
}

fn scmfs() -> Result<Fixture, Skip> {
    Fixture::scmfs(&MountOptions::default())
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    // YAFFS2 always has it.
    names.retain(|name| name != "lost+found");
    names.sort();
    names
}

#[test]
fn files_and_directories_are_made_read_and_removed() {
    for f in plain() {
        fs::create_dir(f.path("d")).unwrap();
        fs::write(f.path("d/a"), b"hello").unwrap();
        assert_eq!(fs::read(f.path("d/a")).unwrap(), b"hello");
        fs::hard_link(f.path("d/a"), f.path("b")).unwrap();
        assert_eq!(fs::metadata(f.path("d/a")).unwrap().nlink(), 2);
        std::os::unix::fs::symlink("d/a", f.path("s")).unwrap();
        assert_eq!(fs::read(f.path("s")).unwrap(), b"hello");
        assert_eq!(names(f.home.path()), ["b", "d", "s"]);
        assert_eq!(fs::remove_dir(f.path("d")).unwrap_err().raw_os_error(), Some(39), "not empty");
        fs::remove_file(f.path("d/a")).unwrap();
        assert_eq!(fs::metadata(f.path("b")).unwrap().nlink(), 1);
        fs::remove_dir(f.path("d")).unwrap();
        assert!(!f.path("d").exists());
        f.end();
    }
}

#[test]
fn a_name_that_was_missing_is_found_once_it_exists() {
    for f in plain() {
        assert!(!f.path("x").exists());
        fs::write(f.path("x"), b"1").unwrap();
        assert!(f.path("x").exists());
        fs::remove_file(f.path("x")).unwrap();
        assert!(!f.path("x").exists());
        f.end();
    }
}

/// YAFFS2 writes what there is space for, and write(2) says how much that was.
#[test]
fn what_was_written_before_space_ran_out_is_counted() {
    const PART: usize = 300_000;
    for direct_io in [false, true] {
        for copies in [false, true] {
            let options = MountOptions { direct_io, ..MountOptions::raw_nand("chip") };
            let f = or_skip!(Fixture::yaffs2_of(40, &options));
            fs::write(f.path("source"), [7; PART]).unwrap();
            let source = File::open(f.path("source")).unwrap();
            let mut file = Open::new().append(!copies).write(true).create(true).open(f.path("file")).unwrap();
            let mut told = 0;
            let error = loop {
                let written = match copies {
                    true => rustix::fs::copy_file_range(&source, Some(&mut 0), &file, Some(&mut { told }), PART)
                        .map_err(std::io::Error::from),
                    false => file.write(&[7; PART]),
                };
                match written {
                    Ok(bytes) => told += bytes as u64,
                    Err(error) => break error,
                }
            };
            assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
            let content = fs::read(f.path("file")).unwrap();
            assert_eq!(content.len() as u64, told, "direct_io {direct_io}, copies {copies}");
            assert!(told % PART as u64 != 0 && content.iter().all(|byte| *byte == 7));
            drop((source, file));
            f.end();
        }
    }
}

#[test]
fn large_directories_are_listed_whole() {
    for f in plain() {
        let mut expected: Vec<String> = (0..1500).map(|n| format!("file-with-a-rather-long-name-{n:05}")).collect();
        for name in &expected {
            File::create(f.path(name)).unwrap();
        }
        assert_eq!(names(f.home.path()), expected);
        // With attributes, too, and while entries vanish.
        for name in expected.drain(..500) {
            fs::metadata(f.path(&name)).unwrap();
            fs::remove_file(f.path(&name)).unwrap();
        }
        assert_eq!(names(f.home.path()), expected);
        f.end();
    }
}

#[test]
fn an_unlinked_file_lives_until_it_is_closed_and_its_number_is_not_reused() {
    for f in plain() {
        let mut open = Open::new().read(true).write(true).create_new(true).open(f.path("gone")).unwrap();
        open.write_all(b"still here").unwrap();
        let number = open.metadata().unwrap().ino();
        fs::remove_file(f.path("gone")).unwrap();
        assert_eq!(open.metadata().unwrap().nlink(), 0);
        for n in 0..50 {
            fs::write(f.path(&format!("other{n}")), b"other").unwrap();
            assert_ne!(fs::metadata(f.path(&format!("other{n}"))).unwrap().ino(), number);
        }
        let mut text = String::new();
        open.rewind().unwrap();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, "still here");
        // One that another took the place of, likewise.
        fs::write(f.path("new"), b"new").unwrap();
        let old = File::open(f.path("other0")).unwrap();
        fs::rename(f.path("new"), f.path("other0")).unwrap();
        assert_eq!(std::io::read_to_string(old).unwrap(), "other");
        assert_eq!(fs::read(f.path("other0")).unwrap(), b"new");
        drop(open);
        f.end();
    }
}

#[test]
fn a_removed_directory_that_somebody_is_in_stays_harmless() {
    for f in plain() {
        fs::create_dir(f.path("d")).unwrap();
        let inside = File::open(f.path("d")).unwrap();
        fs::remove_dir(f.path("d")).unwrap();
        fs::create_dir(f.path("e")).unwrap();
        fs::write(f.path("e/x"), b"x").unwrap();
        let made = rustix::fs::openat(&inside, "y", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR);
        assert_eq!(made.unwrap_err(), Errno::NOENT);
        drop(inside);
        f.end();
    }
}

#[test]
fn renames_replace_exchange_or_refuse() {
    for f in plain() {
        let rename = |from: &str, to: &str, how| rustix::fs::renameat_with(CWD, f.path(from), CWD, f.path(to), how);
        fs::write(f.path("a"), b"a").unwrap();
        fs::write(f.path("b"), b"b").unwrap();
        assert_eq!(rename("a", "b", RenameFlags::NOREPLACE), Err(Errno::EXIST));
        if f.is_yaffs2() {
            assert_eq!(rename("a", "b", RenameFlags::EXCHANGE), Err(Errno::INVAL));
            rename("a", "c", RenameFlags::NOREPLACE).unwrap();
            rename("b", "a", RenameFlags::NOREPLACE).unwrap();
            rename("c", "b", RenameFlags::NOREPLACE).unwrap();
        } else {
            rename("a", "b", RenameFlags::EXCHANGE).unwrap();
        }
        assert_eq!((fs::read(f.path("a")).unwrap(), fs::read(f.path("b")).unwrap()), (b"b".to_vec(), b"a".to_vec()));
        rename("a", "b", RenameFlags::empty()).unwrap();
        assert_eq!(fs::read(f.path("b")).unwrap(), b"b");
        rename("b", "c", RenameFlags::NOREPLACE).unwrap();
        assert_eq!(names(f.home.path()), ["c"]);
        f.end();
    }
}

#[test]
fn appends_of_many_writers_do_not_overwrite_each_other() {
    for direct_io in [false, true] {
        for f in each(&MountOptions { direct_io, threads: 4, ..MountOptions::default() }) {
            File::create(f.path("log")).unwrap();
            std::thread::scope(|scope| {
                for writer in 0..4u8 {
                    let path = f.path("log");
                    scope.spawn(move || {
                        let mut log = Open::new().append(true).open(path).unwrap();
                        for _ in 0..100 {
                            log.write_all(&[b'a' + writer; 100]).unwrap();
                        }
                    });
                }
            });
            let log = fs::read(f.path("log")).unwrap();
            assert_eq!(log.len(), 4 * 100 * 100);
            assert!(log.chunks(100).all(|record| record.iter().all(|&b| b == record[0])), "direct_io {direct_io}");
            f.end();
        }
    }
}

#[test]
fn large_writes_holes_and_mappings_agree() {
    for (writeback, direct_io) in [(false, false), (true, false), (false, true)] {
        for f in each(&MountOptions { writeback, direct_io, ..MountOptions::default() }) {
            let data: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
            let path = f.path("large");
            let file = Open::new().read(true).write(true).create_new(true).open(&path).unwrap();
            file.write_all_at(&data, 100_000).unwrap();
            file.sync_all().unwrap();
            assert_eq!(file.metadata().unwrap().len(), 3_100_000);
            let back = fs::read(&path).unwrap();
            assert!(back[..100_000].iter().all(|&b| b == 0) && back[100_000..] == data);
            file.set_len(200_000).unwrap();
            file.set_len(300_000).unwrap();
            let back = fs::read(&path).unwrap();
            assert!(back[100_000..200_000] == data[..100_000] && back[200_000..].iter().all(|&b| b == 0));
            drop(file);
            f.end();
        }
    }
}

#[test]
fn attributes_are_set_and_cached_ones_are_not_stale() {
    for f in plain() {
        let path = f.path("x");
        fs::write(&path, b"x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
        let m = fs::metadata(&path).unwrap();
        assert_eq!((m.mode() & 0o7777, m.uid(), m.gid()), (0o640, 1234, 4321));
        let at = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        let times = Timestamps { last_access: at(-2, 750_000_000), last_modification: at(4_000_000_000, 5) };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
        let m = fs::metadata(&path).unwrap();
        let (atime_nsec, mtime_nsec) = if f.is_yaffs2() { (0, 0) } else { (750_000_000, 5) };
        let expected = (-2, atime_nsec, 4_000_000_000, mtime_nsec);
        assert_eq!((m.atime(), m.atime_nsec(), m.mtime(), m.mtime_nsec()), expected);
        // A write moves the time on, and the kernel asks again.
        Open::new().append(true).open(&path).unwrap().write_all(b"yz").unwrap();
        let m = fs::metadata(&path).unwrap();
        assert!(m.mtime() < 4_000_000_000);
        assert_eq!(m.len(), 3);
        let before = fs::metadata(f.home.path()).unwrap();
        if f.is_yaffs2() {
            clock::next_second()
        } else {
            clock::tick()
        }
        fs::create_dir(f.path("d")).unwrap();
        let after = fs::metadata(f.home.path()).unwrap();
        assert_eq!(after.nlink(), before.nlink() + 1);
        assert!((after.mtime(), after.mtime_nsec()) > (before.mtime(), before.mtime_nsec()));
        f.end();
    }
}

#[test]
fn new_objects_take_after_a_directory_with_the_group_bit() {
    for f in plain() {
        let shared = f.path("shared");
        fs::create_dir(&shared).unwrap();
        std::os::unix::fs::chown(&shared, None, Some(77)).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o2775)).unwrap();
        fs::write(shared.join("file"), b"").unwrap();
        fs::create_dir(shared.join("sub")).unwrap();
        assert_eq!(fs::metadata(shared.join("file")).unwrap().gid(), 77);
        let sub = fs::metadata(shared.join("sub")).unwrap();
        assert_eq!((sub.gid(), sub.mode() & 0o2000), (77, 0o2000));
        f.end();
    }
}

#[test]
fn set_id_bits_are_lost_with_the_owner() {
    for f in plain() {
        let path = f.path("program");
        fs::write(&path, b"").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
        // Root writes: Linux keeps them.
        Open::new().append(true).open(&path).unwrap().write_all(b"x").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o6755);
        std::os::unix::fs::chown(&path, Some(5), Some(5)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
        f.end();
    }
}

#[test]
fn extended_attributes_are_sized_listed_and_refused() {
    for f in plain() {
        let path = f.path("x");
        fs::write(&path, b"").unwrap();
        let none = XattrFlags::empty();
        rustix::fs::setxattr(&path, "user.a", b"value", none).unwrap();
        assert_eq!(rustix::fs::setxattr(&path, "user.a", b"v", XattrFlags::CREATE), Err(Errno::EXIST));
        assert_eq!(rustix::fs::setxattr(&path, "user.b", b"v", XattrFlags::REPLACE), Err(Errno::NODATA));
        let mut buffer = [0u8; 64];
        assert_eq!(rustix::fs::getxattr_query(&path, "user.a"), Ok(5), "a probe for the size");
        assert_eq!(rustix::fs::getxattr(&path, "user.a", &mut buffer[..2]), Err(Errno::RANGE));
        assert_eq!(rustix::fs::getxattr(&path, "user.a", &mut buffer[..]), Ok(5));
        assert_eq!(&buffer[..5], b"value");
        let bytes = rustix::fs::listxattr(&path, &mut buffer[..]).unwrap();
        assert_eq!(&buffer[..bytes], b"user.a\0");
        rustix::fs::removexattr(&path, "user.a").unwrap();
        assert_eq!(rustix::fs::getxattr(&path, "user.a", &mut buffer[..]), Err(Errno::NODATA));
        f.end();
    }
}

#[test]
fn space_is_reserved_punched_and_searched() {
    let f = or_skip!(scmfs());
    let file = Open::new().read(true).write(true).create_new(true).open(f.path("x")).unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    file.write_all_at(&[7; 3 * 65536], 0).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 65536, 65536).unwrap();
    let mut middle = [1; 65536];
    file.read_exact_at(&mut middle, 65536).unwrap();
    assert!(middle.iter().all(|&b| b == 0));
    let collapse = rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 65536);
    assert_eq!(collapse, Err(Errno::OPNOTSUPP));
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(0)), Ok(0));
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(1 << 20)), Err(Errno::NXIO));
    let copy = Open::new().read(true).write(true).create_new(true).open(f.path("copy")).unwrap();
    let mut from = 0;
    let copied = rustix::fs::copy_file_range(&file, Some(&mut from), &copy, None, 1 << 20).unwrap();
    assert_eq!(copied, 1 << 20);
    assert_eq!(fs::read(f.path("x")).unwrap(), fs::read(f.path("copy")).unwrap());
    drop((file, copy));
    f.end();
}

#[test]
fn special_files_are_made() {
    for f in plain() {
        let make = |name: &str, kind, dev| rustix::fs::mknodat(CWD, f.path(name), kind, Mode::from(0o600), dev);
        make("fifo", rustix::fs::FileType::Fifo, 0).unwrap();
        make("null", rustix::fs::FileType::CharacterDevice, rustix::fs::makedev(1, 3)).unwrap();
        let null = fs::metadata(f.path("null")).unwrap();
        assert_eq!(null.rdev(), rustix::fs::makedev(1, 3));
        // Root's mounts have working devices.
        fs::write(f.path("null"), b"nowhere").unwrap();
        f.end();
    }
}

#[test]
fn the_running_mount_answers_for_itself() {
    let f = or_skip!(scmfs());
    let mut buffer = vec![0u8; 65536];
    let bytes = rustix::fs::getxattr(f.home.path(), USAGE, &mut buffer[..]).unwrap();
    let state: serde_json::Value = serde_json::from_slice(&buffer[..bytes]).unwrap();
    assert_eq!(state["pid"], std::process::id());
    assert!(state["usage"]["volume_bytes"].as_u64().unwrap() > 0);
    rustix::fs::setxattr(f.home.path(), "user.scmfs.collect", b"1", XattrFlags::empty()).unwrap();
    assert_eq!(rustix::fs::setxattr(f.home.path(), RESIZE, b"many", XattrFlags::empty()), Err(Errno::INVAL));
    let listed = rustix::fs::listxattr(f.home.path(), &mut buffer[..]).unwrap();
    assert_eq!(listed, 0, "they are not copied along");
    let entry = pocketstone_mount::mounted_at(&f.home.path().canonicalize().unwrap()).unwrap().unwrap();
    assert_eq!(entry.kind, pocketstone_mount::KIND);
    f.end();
}

#[test]
fn a_mount_in_use_is_not_unmounted_but_detached() {
    for mut f in plain() {
        let open = File::create(f.path("open")).unwrap();
        let error = f.mounted.take().unwrap().unmount().unwrap_err();
        assert!(error.message().contains("in use") && error.cure().is_some());
        assert!(!f.path("open").exists(), "out of sight");
        (&open).write_all(b"still works").unwrap();
    }
}

#[test]
fn a_read_only_mount_refuses_changes() {
    for f in each(&MountOptions { read_only: true, ..MountOptions::default() }) {
        assert_eq!(fs::write(f.path("x"), b"").unwrap_err().raw_os_error(), Some(30));
        f.end();
    }
}

#[test]
fn synchronous_and_temporary_files_work() {
    for f in plain() {
        let flags = (OFlags::SYNC).bits() as i32;
        let mut file =
            Open::new().write(true).create(true).truncate(true).custom_flags(flags).open(f.path("s")).unwrap();
        file.write_all(b"now").unwrap();
        drop(file);
        // No O_TMPFILE by FUSE here; `tempfile` does without.
        let mut temporary = tempfile::tempfile_in(f.home.path()).unwrap();
        temporary.write_all(b"t").unwrap();
        drop(temporary);
        assert_eq!(names(f.home.path()), ["s"]);
        f.end();
    }
}

#[test]
fn the_null_file_system_reads_zeros() {
    or_skip!(fuse());
    for direct_io in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let options = MountOptions { direct_io, ..MountOptions::raw_nand("null") };
        let mounted = mount_null(home.path(), "zeros", 1_000_000, &options).unwrap();
        let file = File::open(home.path().join("zeros")).unwrap();
        let mut block = [1; 4096];
        file.read_exact_at(&mut block, 12345).unwrap();
        assert!(block.iter().all(|&b| b == 0));
        assert_eq!(file.read_at(&mut block, 999_990).unwrap(), 10);
        drop(file);
        mounted.unmount().unwrap();
    }
}

#[test]
fn yaffs2_says_what_it_does_not_have_and_the_kernel_does_without() {
    let f = or_skip!(Fixture::yaffs2(&MountOptions::raw_nand("chip")));
    let file = Open::new().read(true).write(true).create_new(true).open(f.path("x")).unwrap();
    assert_eq!(rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 20), Err(Errno::OPNOTSUPP));
    file.write_all_at(&[7; 8192], 65536).unwrap();
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(100)), Ok(100), "all of a file is data");
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(100)), Ok(65536 + 8192));
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(1 << 20)), Err(Errno::NXIO));
    let copy = Open::new().read(true).write(true).create_new(true).open(f.path("copy")).unwrap();
    let copied = rustix::fs::copy_file_range(&file, Some(&mut 65000), &copy, None, 1 << 20).unwrap();
    assert_eq!(copied, 65536 + 8192 - 65000);
    drop((file, copy));
    f.end();
}

#[test]
fn what_was_written_to_yaffs2_is_there_after_the_next_mount_and_after_a_loss_of_power_if_it_was_synced() {
    let mut f = or_skip!(Fixture::yaffs2(&MountOptions::raw_nand("chip")));
    fs::create_dir(f.path("d")).unwrap();
    fs::write(f.path("d/closed"), vec![1; 5000]).unwrap();
    let synced = File::create(f.path("d/synced")).unwrap();
    synced.write_all_at(&[2; 3000], 100).unwrap();
    synced.sync_all().unwrap();
    let Behind::Yaffs2(_, chip) = &f.behind else { panic!("it is YAFFS2") };
    let again = |chip: SimulatedNand| {
        let volume = pocketstone_yaffs2::Volume::open(Box::new(chip), &Default::default()).unwrap();
        let home = tempfile::tempdir().unwrap();
        let (mounted, yaffs2) = mount_yaffs2(volume, home.path(), &MountOptions::raw_nand("chip")).unwrap();
        assert_eq!(fs::read(home.path().join("d/closed")).unwrap(), vec![1; 5000]);
        let synced = fs::read(home.path().join("d/synced")).unwrap();
        assert!(synced[..100] == [0; 100] && synced[100..] == [2; 3000]);
        mounted.unmount().unwrap();
        yaffs2.close().unwrap();
    };
    // What the chip has at this moment, as if the power went; a file is written out when it is closed.
    again(chip.snapshot());
    drop(synced);
    let chip = chip.clone();
    f.mounted.take().unwrap().unmount().unwrap();
    let Behind::Yaffs2(yaffs2, _) = f.behind else { panic!("it is YAFFS2") };
    yaffs2.close().unwrap();
    again(chip);
}
