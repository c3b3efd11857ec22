//! Locks and leases. Through FUSE they are the kernel's, of this machine alone, as on a local file system.

use crate::cases;
use crate::ground::*;
use crate::groups::Case;
use crate::system::{lease, lock, who_locks};
use libc::{F_RDLCK, F_UNLCK, F_WRLCK};
use pocketstone_testing::Need;
use pocketstone_testing::wait::retry;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use std::fs;
use std::process::{Command, Stdio};

pub const CASES: &[Case] = cases![
    generic_131_ranges_of_processes,
    generic_478_locks_of_open_files,
    generic_484_locks_and_execve,
    generic_504_locks_are_told,
    generic_571_leases
];

/// A process of another kind that tries to lock bytes of a file: whether it can.
fn another_locks(path: &std::path::Path, kind: &str, start: u64, len: u64) -> std::io::Result<bool> {
    let script = "import fcntl, sys\n\
        path, kind, start, length = sys.argv[1:]\n\
        file = open(path, 'r+b')\n\
        how = fcntl.LOCK_EX if kind == 'write' else fcntl.LOCK_SH\n\
        try:\n    fcntl.lockf(file, how | fcntl.LOCK_NB, int(length), int(start))\n\
        except OSError:\n    sys.exit(7)\n";
    let words = [start.to_string(), len.to_string()];
    let status = Command::new("python3").args(["-c", script]).arg(path).arg(kind).args(words).status()?;
    assert!(matches!(status.code(), Some(0 | 7)), "{status}");
    Ok(status.success())
}

fn python(g: &Ground) -> Result<(), Fault> {
    let found = Command::new("python3").arg("-V").stdout(Stdio::null()).status();
    if found.is_ok() { Ok(()) } else { g.skip(Need::Programs, "there is no python3: sudo apt-get install python3") }
}

/// Does what needs a file that was closed just before. What another group has just started holds it, too, until it runs
/// its program.
fn freed<T>(act: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    retry(|error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock, act)
}

/// Locks of ranges between processes: read and write, split, joined, gone with any close.
fn generic_131_ranges_of_processes(g: &Ground) -> Done {
    python(g)?;
    let file = g.file("file", &[0; 100])?;
    let other = |kind, start, len| another_locks(&g.at("file"), kind, start, len);
    lock(&file, false, F_WRLCK, 10, 20)?;
    assert!(!other("read", 15, 1)? && !other("write", 0, 11)? && other("write", 0, 10)? && other("write", 30, 5)?);
    // A hole in the middle, and a part that is for reading now.
    lock(&file, false, F_UNLCK, 15, 5)?;
    lock(&file, false, F_RDLCK, 20, 5)?;
    assert!(other("write", 15, 5)? && !other("write", 14, 1)? && other("read", 20, 5)? && !other("write", 20, 1)?);
    // Closing any descriptor of the file gives all of the process back.
    drop(fs::File::open(g.at("file"))?);
    assert!(other("write", 0, 100)?);
    // To the end, wherever that is.
    lock(&file, false, F_WRLCK, 50, 0)?;
    file.set_len(1000)?;
    assert!(!other("read", 900, 1)? && other("write", 0, 50)?);
    Ok(())
}

/// Locks of open files: two of one process stand in each other's way.
fn generic_478_locks_of_open_files(g: &Ground) -> Done {
    let (a, b) = (g.file("file", &[0; 100])?, rw(&g.at("file"))?);
    lock(&a, true, F_WRLCK, 0, 50)?;
    fails(lock(&b, true, F_RDLCK, 49, 1), Errno::AGAIN);
    lock(&b, true, F_WRLCK, 50, 10)?;
    assert_eq!(who_locks(&b, true, F_WRLCK, 0, 10)?, (F_WRLCK, -1));
    // A copy of the descriptor is the same open file, and closing it gives nothing back.
    let copy = a.try_clone()?;
    lock(&copy, true, F_RDLCK, 0, 50)?;
    drop(copy);
    lock(&b, true, F_RDLCK, 0, 50)?;
    fails(lock(&b, true, F_WRLCK, 0, 50), Errno::AGAIN);
    drop(a);
    freed(|| lock(&b, true, F_WRLCK, 0, 50))?;
    // Whole files, in the BSD way, are a matter of their own.
    let c = rw(&g.at("file"))?;
    flock(&b, FlockOperation::LockExclusive)?;
    fails(flock(&c, FlockOperation::NonBlockingLockShared), Errno::AGAIN);
    flock(&b, FlockOperation::LockShared)?;
    flock(&c, FlockOperation::NonBlockingLockShared)?;
    flock(&b, FlockOperation::Unlock)?;
    flock(&c, FlockOperation::NonBlockingLockExclusive)?;
    Ok(())
}

/// A lock of a process stays with it when another program takes its place.
fn generic_484_locks_and_execve(g: &Ground) -> Done {
    python(g)?;
    fs::write(g.at("file"), [0; 10])?;
    let script = "import fcntl, os, sys\n\
        fd = os.open(sys.argv[1], os.O_RDWR)\n\
        os.set_inheritable(fd, True)\n\
        fcntl.lockf(fd, fcntl.LOCK_EX)\n\
        os.execvp('sh', ['sh', '-c', 'echo ready; read line'])\n";
    let mut child = Command::new("python3");
    child.args(["-c", script]).arg(g.at("file")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn()?;
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut ready)?;
    let file = rw(&g.at("file"))?;
    let found = who_locks(&file, false, F_RDLCK, 0, 10);
    drop(child.stdin.take());
    let id = child.id();
    child.wait()?;
    assert_eq!(found?, (F_WRLCK, id as i32));
    assert_eq!(who_locks(&file, false, F_RDLCK, 0, 10)?.0, F_UNLCK);
    Ok(())
}

/// /proc/locks has a lock, with the inode's number and its kind.
fn generic_504_locks_are_told(g: &Ground) -> Done {
    use std::os::unix::fs::MetadataExt;
    let file = g.file("file", b"")?;
    let found = file.metadata()?;
    // As the kernel prints it: inodes of one number are on many devices.
    let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let place = format!(" {major:02x}:{minor:02x}:{} ", found.ino());
    let told = || -> std::io::Result<Vec<String>> {
        let all = fs::read_to_string("/proc/locks")?;
        let of_it = all.lines().filter(|line| line.contains(&place));
        Ok(of_it.map(str::to_owned).collect())
    };
    assert!(!told()?.iter().any(|line| line.contains("FLOCK")));
    flock(&file, FlockOperation::LockExclusive)?;
    assert!(told()?.iter().any(|line| line.contains("FLOCK") && line.contains("WRITE")), "{:?}", told()?);
    flock(&file, FlockOperation::Unlock)?;
    assert!(!told()?.iter().any(|line| line.contains("FLOCK")));
    Ok(())
}

/// A lease is given to who is alone with a file, and refused where others have it open.
fn generic_571_leases(g: &Ground) -> Done {
    let file = g.file("file", b"text")?;
    if let Err(error) = lease(&file, Some(F_WRLCK)) {
        return Err(error.into());
    }
    assert_eq!(lease(&file, None)?, F_WRLCK);
    // Who does not want to wait is told at once that there is one.
    fails(open(&g.at("file"), OFlags::RDONLY | OFlags::NONBLOCK), Errno::AGAIN);
    lease(&file, Some(F_UNLCK))?;
    let other = fs::File::open(g.at("file"))?;
    fails(lease(&file, Some(F_WRLCK)), Errno::AGAIN);
    drop(other);
    drop(file);
    let reader = fs::File::open(g.at("file"))?;
    freed(|| lease(&reader, Some(F_RDLCK)))?;
    assert_eq!(lease(&reader, None)?, F_RDLCK);
    lease(&reader, Some(F_UNLCK))?;
    Ok(())
}
