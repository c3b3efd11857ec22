//! A server ends when it is told to, whoever still sees its mount, and nothing that was written is lost.

use pocketstone_testing::or_skip;
use pocketstone_testing::wait::LONG;
use pocketstone_tests::command::{Process, poll, run};
use pocketstone_tests::mounted::{MountedVolume, Place, check, make, scmfs};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far less than the mount is used here, and than an end waits for what is being written: within this, nobody was
/// waited for, however busy the machine is.
const BAR: Duration = Duration::from_secs(30);

/// A process with a copy of all mounts, in which it has a file of a volume open.
struct Copy(Child);

impl Copy {
    fn of(directory: &Path) -> Copy {
        let script = "exec 3>\"$0/theirs\" && echo text >&3 && echo ready && exec sleep 100";
        let mut command = Command::new("unshare");
        command.args(["-m", "--propagation", "private", "sh", "-c", script]).arg(directory);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("unshare");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Copy(child)
    }

    /// It was not its end that the mount ended with.
    #[track_caller]
    fn lives_on(&mut self) {
        assert!(self.0.try_wait().expect("a child of ours").is_none(), "who uses the mount has ended first");
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A volume, mounted; its server tells a file what it has to say.
fn mounted(place: &Place, log: &Path) -> MountedVolume {
    make(&place.path("region"), &["--size", "64M"]);
    MountedVolume::mount(&place.path("region"), &place.folder("mount"), &["--log", log.to_str().expect("UTF-8")])
}

#[test]
fn umount_ends_a_mount_that_another_namespace_has_a_copy_of() {
    let place = or_skip!(Place::new());
    let log = place.path("log");
    let volume = mounted(&place, &log);
    let mut other = Copy::of(volume.path());
    let start = Instant::now();
    let who = format!("process {} (sleep)", other.0.id());
    run(scmfs(["umount"]).arg(volume.path())).ends_with(0).complains(&[&who]);
    let time = start.elapsed();
    other.lives_on();
    check(&place.path("region")).says(&["closed cleanly"]);
    assert!(time < BAR, "{time:?}");
    assert!(fs::read_to_string(&log).expect("the log").contains(&who));
    let ended = poll(LONG, || (!volume.runs()).then_some(()));
    assert!(ended.is_some(), "the server stays");
    other.lives_on();
    // By the way of the other process the mount can still be seen, and nothing can be had from it.
    let theirs = format!("/proc/{}/root{}/theirs", other.0.id(), volume.path().display());
    // ENOTCONN.
    assert_eq!(fs::read(theirs).unwrap_err().raw_os_error(), Some(107));
    let volume = MountedVolume::mount(&place.path("region"), volume.path(), &[]);
    assert_eq!(fs::read_to_string(volume.path().join("theirs")).expect("the file"), "text\n");
    volume.end();
}

/// Mounts a part of a volume at a place of its own as well.
fn bound(place: &Place, name: &str, part: &Path) -> PathBuf {
    let other = place.folder(name);
    rustix::mount::mount_bind(part, &other).expect("a bind mount");
    other
}

#[test]
fn umount_of_one_place_leaves_the_others() {
    let place = or_skip!(Place::new());
    let volume = mounted(&place, &place.path("log"));
    let part = volume.path().join("part");
    fs::create_dir(&part).expect("a folder");
    let (all, part) = (bound(&place, "all", volume.path()), bound(&place, "a part", &part));
    // It is used at the place that is unmounted last.
    let mut open = File::create(part.join("file")).expect("a file");
    for (leaves, stays) in [(all.as_path(), part.as_path()), (volume.path(), part.as_path())] {
        let start = Instant::now();
        let words = format!("still mounted at {}", stays.display());
        run(scmfs(["umount"]).arg(leaves)).ends_with(0).complains(&[&words]);
        assert!(start.elapsed() < BAR, "{:?}", start.elapsed());
        // Longer than it takes a server to find out that nobody has its mount.
        std::thread::sleep(Duration::from_millis(300));
        open.write_all(b"text").expect("it is still there");
        assert!(volume.runs());
    }
    run(scmfs(["umount"]).arg(&part)).ends_with(1).complains(&["busy"]);
    drop(open);
    run(scmfs(["umount"]).arg(&part)).ends_with(0);
    check(volume.region()).says(&["closed cleanly"]);
    let again = MountedVolume::mount(volume.region(), volume.path(), &[]);
    assert_eq!(fs::read_to_string(again.path().join("part/file")).expect("the file"), "texttext");
    again.end();
}

#[test]
fn a_server_that_is_told_to_terminate_does_so_with_files_open() {
    let place = or_skip!(Place::new());
    for signal in [Signal::TERM, Signal::INT] {
        let _ = fs::remove_file(place.path("region"));
        let _ = fs::remove_dir(place.path("mount"));
        let volume = mounted(&place, &place.path("log"));
        let volume = volume.again(&["-o", "writeback"]);
        let mut open = File::create(volume.path().join("ours")).expect("a file");
        open.write_all(&[7; 3_000_000]).expect("it is written");
        let mut other = Copy::of(volume.path());
        let state = run(scmfs(["df", "--json"]).arg(volume.path())).ends_with(0).out;
        let state: serde_json::Value = serde_json::from_str(&state).expect("JSON");
        let pid = state["pid"].as_u64().expect("a number") as u32;
        let server = Process::of(pid).expect("the server runs");
        let start = Instant::now();
        kill_process(Pid::from_raw(pid as i32).expect("a process"), signal).expect("a signal");
        let ended = poll(LONG, || (!server.runs()).then_some(()));
        let time = start.elapsed();
        other.lives_on();
        assert!(ended.is_some() && time < BAR, "{time:?}");
        assert_eq!(open.sync_all().unwrap_err().raw_os_error(), Some(107));
        check(&place.path("region")).says(&["closed cleanly"]);
        let again = MountedVolume::mount(&place.path("region"), volume.path(), &[]);
        assert!(fs::read(again.path().join("ours")).expect("the file") == [7; 3_000_000]);
        again.end();
    }
}
