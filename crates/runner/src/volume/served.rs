//! File systems that a process of ours serves by FUSE. On a board it lives from one order to the next, as the first
//! process's child; whoever carries out the next order finds it by the notes that it left.

use pocketstone_core::board::Places;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_media::nand::{Access, MtdNand};
use pocketstone_mount::{MountOptions, Mounted, mount_null, mount_yaffs2};
use pocketstone_yaffs2 as yaffs2;
use procfs::process::{Process, all_processes};
use rustix::mount::UnmountFlags;
use rustix::process::{Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How the name of this program's file begins: on boards that are not thrown away, and elsewhere.
const RUNNER: [&str; 2] = ["runner", "pocketstone-runner"];
/// The word of this program's command line that has it serve an MTD device.
pub const SERVE_YAFFS2: &str = "serve-yaffs2";
/// What a server says when its volume is mounted.
pub const READY: &str = "mounted";
/// The note of which process it is: its number, and when it began, as numbers are given again.
const PID: &str = "volume.pid";
/// The note of what became of a volume when it was closed: nothing, or what went wrong.
const CLOSED: &str = "volume.closed";
/// Longest time that closing may take: a checkpoint of a large chip is seconds of its time.
const CLOSING_LIMIT: Duration = Duration::from_secs(300);

/// Starts this program again to serve a volume, by these words of its command line, and waits until it is mounted.
/// `prepare` is given the command before it is started.
///
/// # Errors
/// `ErrorKind::Board` if FUSE is unavailable, or the volume cannot be mounted; the message includes what the server
/// said.
pub fn spawn(words: &[&str], at: &Path, prepare: impl FnOnce(&mut Command)) -> Result<Child> {
    fs::File::options().read(true).write(true).open("/dev/fuse").map_err(no_fuse)?;
    fs::create_dir_all(at).board(|| format!("cannot create {}", at.display()))?;
    let program = std::env::current_exe().board(|| "cannot find the path of this program".into())?;
    let mut command = Command::new(program);
    command.args(words).arg(at).stdin(Stdio::null()).stdout(Stdio::piped());
    prepare(&mut command);
    let mut child = command.spawn().board(|| "cannot start the volume's server".into())?;
    let mut said = String::new();
    if let Some(output) = child.stdout.take() {
        let heard = BufReader::new(output).read_line(&mut said);
        heard.board(|| "cannot read from the volume's server".into())?;
    }
    if said.trim() == READY {
        return Ok(child);
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(Error::board(format!("cannot mount the volume through FUSE: {}", said.trim())))
}

/// Why FUSE cannot be used, with a cure for this user: to load a module helps nobody who may not open the device.
fn no_fuse(error: std::io::Error) -> Error {
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "as root, allow all users to access it, as udev does: chmod 666 /dev/fuse"
        }
        _ => "modprobe fuse, as root; a container requires the device /dev/fuse",
    };
    Error::board("FUSE is unavailable: cannot open /dev/fuse").because(error).hint(hint)
}

/// Has a server that outlives this order mount a volume of a board; it leaves its notes where the board has them.
///
/// # Errors
/// `ErrorKind::Board`, as [`spawn`], or if the server's process id cannot be written.
pub fn attach(words: &[&str], places: &Places) -> Result<()> {
    let (pid, closed) = (places.notes.join(PID), places.notes.join(CLOSED));
    let _ = fs::remove_file(&closed);
    let note = closed.to_string_lossy();
    let child = spawn(&[words, &[&note]].concat(), &places.mount_point, |_| {})?;
    let began = Process::new(child.id() as i32).and_then(|server| server.stat()).map(|stat| stat.starttime);
    let began = began.board(|| "the volume's server is gone".into())?;
    fs::write(&pid, format!("{} {began}", child.id())).board(|| format!("cannot write {}", pid.display()))
}

/// The process that a board's notes name, if it is still there.
fn noted(notes: &Path) -> Option<Process> {
    let note = fs::read_to_string(notes.join(PID)).ok()?;
    let (pid, began) = note.trim().split_once(' ')?;
    let process = Process::new(pid.parse().ok()?).ok()?;
    // A board's first process does not take note of those who died.
    let is_it = process.stat().is_ok_and(|stat| stat.state != 'Z' && began.parse() == Ok(stat.starttime));
    is_it.then_some(process)
}

/// Unmounts it and waits until the server has closed the volume: until all of it is on the medium.
///
/// # Errors
/// `ErrorKind::Board` if it is in use, or could not be closed.
pub fn detach(places: &Places) -> Result<()> {
    rustix::mount::unmount(&places.mount_point, UnmountFlags::empty()).board(|| "cannot unmount".into())?;
    const STEP: Duration = Duration::from_millis(10);
    for _ in 0..CLOSING_LIMIT.as_millis() / STEP.as_millis() {
        // In this order: one that has noted how it went may end right after that.
        let is_there = noted(&places.notes).is_some();
        match fs::read_to_string(places.notes.join(CLOSED)) {
            Ok(said) => {
                forget(&places.notes);
                return match said.is_empty() {
                    true => Ok(()),
                    false => Err(Error::board("cannot close the volume").because(said)),
                };
            }
            Err(_) if is_there => std::thread::sleep(STEP),
            Err(_) => break,
        }
    }
    Err(Error::board("the volume's server exited or hangs without closing the volume")
        .hint("see the console's last lines"))
}

/// Ends a server that an earlier lab's runner has left, by its notes.
pub fn end_left(notes: &Path) {
    noted(notes).into_iter().filter(is_a_runner).for_each(|server| end(&server));
    forget(notes);
}

/// Ends the servers of a device that earlier labs' runners have left, wherever their notes are: no other lab is at
/// work.
pub fn end_left_on(device: &str) {
    let serves = |process: &Process| {
        let words = process.cmdline().unwrap_or_default();
        words.get(1).is_some_and(|word| word == SERVE_YAFFS2) && words.get(2).is_some_and(|of| of == device)
    };
    let all = all_processes().into_iter().flatten().flatten();
    all.filter(|process| serves(process) && is_a_runner(process)).for_each(|server| end(&server));
}

fn forget(notes: &Path) {
    for note in [PID, CLOSED] {
        let _ = fs::remove_file(notes.join(note));
    }
}

fn is_a_runner(process: &Process) -> bool {
    let exe = process.exe().unwrap_or_default();
    let name = exe.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    RUNNER.iter().any(|runner| name.starts_with(runner))
}

/// Ends a server whose volume is about to be erased.
fn end(server: &Process) {
    let _ = rustix::process::Pid::from_raw(server.pid).map(|pid| kill_process(pid, Signal::KILL));
    for _ in 0..100 {
        if !server.is_alive() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The threads of the process that serves a board's volume; none where there is no such process.
pub fn threads(notes: &Path) -> Vec<u32> {
    let threads = |process: Process| pocketstone_probe::usage::threads(u32::try_from(process.pid).ok()?).ok();
    noted(notes).and_then(threads).unwrap_or_default()
}

/// Serves the YAFFS2 volume of an MTD device until it is unmounted, and notes in the file `closed` how that went.
///
/// # Errors
/// `ErrorKind::User` if the device is not raw NAND; `ErrorKind::Board` if the volume cannot be opened, served or
/// closed; otherwise as [`mount_yaffs2`].
pub fn serve_yaffs2(device: &str, closed: &Path, at: &Path, say: impl Fn(&str)) -> Result<()> {
    let chip = MtdNand::open(Path::new(device), Access::Write)?;
    let volume = yaffs2::Volume::open(Box::new(chip), &yaffs2::OpenOptions::default());
    let volume = volume.board(|| format!("cannot open the volume on {device}"))?;
    let (mounted, volume) = mount_yaffs2(volume, at, &options(device))?;
    serve(mounted, closed, say, || volume.close())
}

/// As the kernel's file systems are mounted on boards, and as raw NAND is.
fn options(source: &str) -> MountOptions {
    MountOptions { noatime: true, ..MountOptions::raw_nand(source) }
}

/// As [`serve_yaffs2`], the null file system with a file of so many bytes.
///
/// # Errors
/// `ErrorKind::User` if `bytes` is not a number; `ErrorKind::Board` if serving fails; otherwise as [`mount_null`].
pub fn serve_null(file: &str, bytes: &str, closed: &Path, at: &Path, say: impl Fn(&str)) -> Result<()> {
    let bytes = bytes.parse().user(|| format!("`{bytes}` is not a number of bytes"))?;
    let mounted = mount_null(at, file, bytes, &options("null"))?;
    serve(mounted, closed, say, || Ok(()))
}

/// Serves a mount until it is unmounted, then closes it, and notes how that went.
fn serve(mounted: Mounted, closed: &Path, say: impl Fn(&str), close: impl FnOnce() -> Result<()>) -> Result<()> {
    say(&format!("{READY}\n"));
    let outcome = mounted.wait().and_then(|()| close());
    let text = outcome.as_ref().err().map(Error::chain).unwrap_or_default();
    // Whoever waits must not see half of it.
    let new = closed.with_extension("new");
    let failed = || format!("cannot write {}", closed.display());
    fs::write(&new, text).and_then(|()| fs::rename(&new, closed)).board(failed)?;
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_known_by_the_notes_of_their_own_board() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (own, note) = (Process::myself().unwrap(), one.path().join(PID));
        let began = own.stat().unwrap().starttime;
        fs::write(&note, format!("{} {began}", own.pid)).unwrap();
        assert!(threads(one.path()).contains(&std::process::id()) && threads(other.path()).is_empty());
        end_left(other.path());
        assert!(note.exists());
        // A process that is another program, such as these tests, is no server.
        end_left(one.path());
        assert!(!note.exists());
        // Nor is one with the number of a server that has ended.
        fs::write(&note, format!("{} {}", own.pid, began + 1)).unwrap();
        assert!(threads(one.path()).is_empty());
    }

    #[test]
    fn a_device_that_is_not_there_and_one_that_is_closed_have_cures_of_their_own() {
        let cure = |kind: std::io::ErrorKind| no_fuse(kind.into()).cure().map(str::to_owned).unwrap_or_default();
        assert!(cure(std::io::ErrorKind::PermissionDenied).contains("chmod 666 /dev/fuse"));
        assert!(cure(std::io::ErrorKind::NotFound).contains("modprobe fuse"));
    }
}
