//! Other ways to mount, other memory, other users.

use pocketstone_testing::{Need, or_skip, program};
use pocketstone_tests::command::{binary, copy_program, poll, run};
use pocketstone_tests::mounted::{MountedVolume, Place, check, make, scmfs};
use pocketstone_tests::suites::{command, fio};
use rustix::mount::{MountFlags, UnmountFlags};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What the list of mounts says of a directory: source, type and options.
fn listed(directory: &Path) -> Option<Vec<String>> {
    let list = fs::read_to_string("/proc/thread-self/mounts").expect("the list of mounts");
    let fields = list.lines().map(|line| line.split(' ').map(|field| field.replace("\\040", " ")).collect::<Vec<_>>());
    fields.into_iter().rev().find(|fields| Path::new(&fields[1]) == directory).map(|mut fields| {
        fields.remove(1);
        fields.truncate(3);
        fields
    })
}

#[test]
fn mount_8_mounts_remounts_and_unmounts() {
    let place = or_skip!(Place::new());
    place.mount_helpers();
    let (region, directory) = (place.path("region"), place.folder("a mount"));
    make(&region, &["--size", "64M"]);
    let mount = |words: &[&str]| run(command("mount").args(words)).ends_with(0);
    let (from, to) = (region.to_str().expect("UTF-8"), directory.to_str().expect("UTF-8"));
    mount(&["-t", "scmfs", "-o", "noatime,nodev,sync,dirsync,iversion,nomand", from, to]);
    let volume = MountedVolume::mounted(&region, &directory);
    let seen = listed(&directory).expect("it is mounted");
    assert_eq!(seen[..2], [from.to_owned(), "fuse.scmfs".into()]);
    assert!(["rw,", "noatime", "nodev", ",sync", "dirsync"].iter().all(|option| seen[2].contains(option)), "{seen:?}");
    fs::write(directory.join("a"), "text").expect("a file");
    mount(&["-o", "remount,ro", to]);
    assert!(listed(&directory).is_some_and(|seen| seen[2].starts_with("ro,") && seen[2].contains("noatime")));
    assert_eq!(fs::write(directory.join("b"), "text").unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    mount(&["-o", "remount,rw", to]);
    fs::write(directory.join("b"), "text").expect("a file");
    run(command("mount").args(["-t", "scmfs", "-o", "compress", from, to])).complains(&["compress"]);
    run(command("umount").arg(&directory)).ends_with(0);
    assert_eq!(listed(&directory), None);
    // umount(8) does not wait for the server.
    assert!(poll(Duration::from_secs(20), || (!volume.runs()).then_some(())).is_some(), "the server ends");
    check(&region).says(&["closed cleanly", "2 files"]);
}

#[test]
fn a_remount_changes_what_it_names() {
    let place = or_skip!(Place::new());
    let (region, directory) = (place.path("region"), place.folder("mount"));
    make(&region, &["--size", "64M"]);
    let volume = MountedVolume::mount(&region, &directory, &["-o", "nosuid,nodev,noexec,noatime,sync,nosymfollow"]);
    let words = ["ro", "nosuid", "nodev", "noexec", "noatime", "sync", "nosymfollow"];
    let remounted = |options: &str| {
        run(scmfs(["mount", "-o", options]).args([&region, &directory])).ends_with(0);
        let seen = listed(&directory).expect("it is mounted").remove(2);
        words.map(|word| seen.split(',').any(|option| option == word))
    };
    assert_eq!(remounted("remount,ro"), [true; 7]);
    assert_eq!(remounted("remount,exec"), [true, true, true, false, true, true, true]);
    assert_eq!(remounted("remount,rw"), [false, true, true, false, true, true, true]);
    assert_eq!(remounted("remount,suid,dev,atime,async,symfollow"), [false; 7]);
    volume.end();
}

/// A command as the user nobody.
fn as_nobody(command: &Command) -> Command {
    let mut words = Command::new("setpriv");
    words.args(["--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--"]);
    words.arg(command.get_program()).args(command.get_args());
    words
}

/// The command under test where everybody can run it.
fn copied(place: &Path) -> PathBuf {
    let copy = place.join("scmfs");
    copy_program(binary().with_file_name("scmfs"), &copy);
    copy
}

/// Lets everybody use FUSE, as udev does. Seen from this place alone.
fn fuse_for_all(place: &Place) {
    use rustix::fs::{CWD, FileType, Mode};
    let device = place.path("fuse");
    let number = fs::metadata("/dev/fuse").expect("the device").rdev();
    rustix::fs::mknodat(CWD, &device, FileType::CharacterDevice, Mode::empty(), number).expect("a device");
    pocketstone_tests::mounted::open_to_all(&device);
    rustix::mount::mount_bind(&device, "/dev/fuse").expect("it is bound over the other");
}

#[test]
fn a_user_mounts_and_unmounts() {
    const NOBODY: u32 = 65534;
    or_skip!(program("setpriv", "util-linux"));
    or_skip!(program("fusermount3", "fuse3"));
    let place = or_skip!(Place::new());
    fuse_for_all(&place);
    let program = copied(&place.path(""));
    let theirs = place.folder("theirs");
    chown(&theirs, Some(NOBODY), Some(NOBODY)).expect("a folder of theirs");
    let (region, directory) = (theirs.join("region"), theirs.join("mount"));
    let user = |words: &[&str], path: &[&Path]| run(&mut as_nobody(Command::new(&program).args(words).args(path)));
    user(&["mkfs", "--size", "64M"], &[&region]).ends_with(0);
    run(&mut as_nobody(Command::new("mkdir").arg(&directory))).ends_with(0);
    user(&["mount"], &[&region, &directory]).ends_with(0);
    let seen = listed(&directory).expect("it is mounted");
    assert_eq!(seen[1], "fuse.scmfs");
    assert!(["nosuid", "nodev", "user_id=65534"].iter().all(|option| seen[2].contains(option)), "{seen:?}");
    // It is theirs alone: not even root looks in.
    assert_eq!(fs::read_dir(&directory).unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    let script = "cd \"$0\" && echo text >a && ln a b && mkdir c && mv b c/d && cat c/d && stat -c %u:%h a";
    let shell = |script: &str| run(&mut as_nobody(Command::new("sh").args(["-c", script]).arg(&directory)));
    assert_eq!(shell(script).ends_with(0).out, "text\n65534:2\n");
    user(&["df"], &[&directory]).ends_with(0).says(&["64 MiB"]);
    user(&["umount"], &[&directory]).ends_with(0);
    assert_eq!(listed(&directory), None);
    user(&["fsck"], &[&region]).ends_with(0).says(&["closed cleanly", "0 findings"]);
    // What a user mounted, root can look at, too, when it is root who mounts it.
    let volume = MountedVolume::mount(&region, &directory, &[]);
    assert_eq!(fs::metadata(directory.join("a")).expect("the file").uid(), NOBODY);
    volume.end();
}

#[test]
fn only_root_and_the_owner_may_resize_and_collect() {
    or_skip!(program("setpriv", "util-linux"));
    let place = or_skip!(Place::new());
    let program = copied(&place.path(""));
    make(&place.path("region"), &["--size", "64M"]);
    let volume = MountedVolume::mount(&place.path("region"), &place.folder("mount"), &[]);
    // The kernel would let anybody set attributes of a directory that all may write to.
    pocketstone_tests::mounted::open_to_all(volume.path());
    // Null files are made in the background.
    let told = |line: &&str| line.starts_with("volume") || line.starts_with("collections");
    let size = || {
        let said = run(scmfs(["df"]).arg(volume.path())).ends_with(0).out;
        said.lines().filter(told).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = size();
    assert_eq!(before.len(), 2);
    let nobody = |words: &[&str]| {
        let mut words: Vec<_> = words.iter().map(std::ffi::OsStr::new).collect();
        words.insert(1, volume.path().as_os_str());
        run(&mut as_nobody(Command::new(&program).args(words)))
    };
    nobody(&["resize", "128M"]).ends_with(1).complains(&["only root and the owner"]);
    nobody(&["gc"]).ends_with(1).complains(&["only root and the owner"]);
    nobody(&["df"]).ends_with(0);
    assert_eq!(size(), before);
    run(scmfs(["resize"]).arg(volume.path()).arg("128M")).ends_with(0);
    assert_ne!(size(), before);
    chown(volume.path(), Some(65534), None).expect("another owner");
    nobody(&["resize", "256M"]).ends_with(0);
    nobody(&["gc"]).ends_with(0);
    volume.end();
}

#[test]
fn a_persistent_region_is_taken_at_its_word() {
    let place = or_skip!(Place::new());
    let (region, directory) = (place.path("region"), place.folder("mount"));
    make(&region, &["--size", "64M"]);
    let mount = |more: &[&str]| run(scmfs(["mount"]).args(more).arg(&region).arg(&directory)).ends_with(0);
    mount(&[]).complains(&["warning", "not power-safe"]);
    MountedVolume::mounted(&region, &directory).end();
    let ran = mount(&["--persistent"]);
    assert_eq!(ran.err, "", "there is nothing to warn of");
    let volume = MountedVolume::mounted(&region, &directory);
    if let Ok(suite) = program("fio", "fio") {
        fio(&suite, volume.path(), "psync", "4k", "4m");
    }
    let volume = volume.kill_and_mount_again(&["--persistent"]);
    volume.end();
}

/// Huge pages and a file system of them, both given back when dropped.
struct HugePages {
    before: u64,
    folder: PathBuf,
}

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

fn huge_pages() -> Option<u64> {
    fs::read_to_string(HUGE_PAGES).ok()?.trim().parse().ok()
}

impl HugePages {
    fn get(place: &Place, wanted: u64) -> Option<HugePages> {
        let before = huge_pages()?;
        let pages = HugePages { before, folder: place.folder("hugetlbfs") };
        fs::write(HUGE_PAGES, (before + wanted).to_string()).ok()?;
        let mounted = || {
            let options = Some(c"pagesize=2M");
            rustix::mount::mount("none", &pages.folder, "hugetlbfs", MountFlags::empty(), options).is_ok()
        };
        (huge_pages()? >= before + wanted && mounted()).then_some(pages)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.folder, UnmountFlags::DETACH);
        let _ = fs::write(HUGE_PAGES, self.before.to_string());
    }
}

#[test]
fn a_volume_on_huge_pages() {
    let place = or_skip!(Place::new());
    let Some(pages) = HugePages::get(&place, 96) else {
        return Need::Kernel.lacks("the kernel gives no 96 huge pages: free memory").end();
    };
    let region = pages.folder.join("region");
    run(scmfs(["mkfs", "--size", "192M", "--threshold", "never"]).arg(&region))
        .ends_with(1)
        .complains(&["mapped with 2 MiB pages", "omit --threshold never"]);
    make(&region, &["--size", "192M", "--force"]);
    let volume = MountedVolume::mount(&region, &place.folder("mount"), &[]);
    if let Ok(suite) = program("fio", "fio") {
        for (engine, block) in [("psync", "4k"), ("psync", "1m"), ("mmap", "4k")] {
            fio(&suite, volume.path(), engine, block, "16m");
        }
    }
    let volume = volume.kill_and_mount_again(&[]);
    volume.end();
    fs::remove_file(&region).expect("the region");
    drop(pages);
}
