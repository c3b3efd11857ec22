//! Processes that do not go by the rules: the server serves on, and nobody else is harmed.

use super::{Both, open, options, storing};
use crate::ground::close;
use pocketstone_lease::message::{Answer, Lease, Name, Question, ask, ask_by};
use pocketstone_lease::{Access, Session};
use pocketstone_mount::Preload;
use pocketstone_random::Random;
use pocketstone_testing::or_skip;
use pocketstone_testing::wait::until;
use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::{Errno, IoSlice};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// What a mapping to store to says.
fn map(file: BorrowedFd<'_>, bytes: usize) -> Result<*mut u8, Errno> {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at a place that the kernel chooses.
    unsafe { mmap(std::ptr::null_mut(), bytes, prot, MapFlags::SHARED, file, 0) }.map(|base| base.cast())
}

fn again(file: &OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::fs::open(format!("/proc/self/fd/{}", file.as_raw_fd()), OFlags::RDWR, Mode::empty())
}

/// A connection to a server, as none of its clients makes it.
fn connect(name: &Name) -> Result<OwnedFd, Errno> {
    let told = name.told();
    let name: Vec<u8> = told[8..].iter().copied().take_while(|byte| *byte != 0).collect();
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new_abstract_name(&name)?)?;
    Ok(socket)
}

#[test]
fn nobody_but_the_server_changes_the_table() {
    let ground = or_skip!(storing());
    for preload in [Preload::Read, Preload::Write] {
        let (mounted, volume) = ground.mount(&options(preload));
        let directory = File::open(ground.directory()).unwrap();
        let name = Name::ask(directory.as_fd()).unwrap();
        let (answer, [table, region, slots]) = ask(&name, Question::Attach { write: true }).unwrap();
        let table = table.unwrap();
        assert_eq!(map(table.as_fd(), 4096).err(), Some(Errno::ACCESS));
        // The file can be opened anew by who may; it is sealed.
        if let Ok(writable) = again(&table) {
            assert_eq!(map(writable.as_fd(), 4096).err(), Some(Errno::PERM));
            assert_eq!(rustix::io::pwrite(&writable, &[1], 0), Err(Errno::PERM));
            assert_eq!(rustix::fs::ftruncate(&writable, 0), Err(Errno::PERM));
        }
        // The region is one's own to store to, or not.
        let stored = map(region.unwrap().as_fd(), 4096);
        assert_eq!(stored.is_ok(), preload == Preload::Write);
        assert_eq!((answer.write, slots.is_some()), (stored.is_ok(), stored.is_ok()));
        if let Ok(base) = stored {
            // SAFETY: just mapped, and nothing refers to it.
            unsafe { munmap(base.cast(), 4096).unwrap() };
        }
        drop(directory);
        mounted.unmount().unwrap();
        close(volume);
    }
}

#[test]
fn slots_of_nonsense_harm_nobody() {
    let ground = or_skip!(storing());
    let (mounted, volume) = ground.mount(&options(Preload::Write));
    let path = ground.directory().join("file");
    fs::write(&path, vec![1; 50_000]).unwrap();
    let both = Both::of(&path, Access::Write);
    let name = Name::ask(both.kernel.as_fd()).unwrap();
    let (answer, [_, _, slots]) = ask(&name, Question::Attach { write: true }).unwrap();
    let ino = both.kernel.metadata().unwrap().ino();
    let (file, _) = ask(&name, Question::File { token: answer.token, ino }).unwrap();
    let slots = slots.unwrap();
    let bytes = rustix::fs::fstat(&slots).unwrap().st_size as usize;
    let base = map(slots.as_fd(), bytes).unwrap();
    let mut random = Random::new(5);
    let before = std::time::SystemTime::now();
    for round in 0..200_u64 {
        let mut nonsense = vec![0; bytes];
        random.fill(&mut nonsense);
        // SAFETY: the mapping is that long. The server sees it as atomic words, and takes any of them.
        unsafe { std::ptr::copy_nonoverlapping(nonsense.as_ptr(), base, bytes) };
        let content = vec![round as u8; 1 + random.below(60_000) as usize];
        fs::write(&path, &content).unwrap();
        assert_eq!(fs::read(&path).unwrap(), content);
        let other = ground.directory().join(format!("other {}", round % 3));
        fs::write(&other, &content).unwrap();
        assert_eq!(fs::read(&other).unwrap(), content);
        volume.collect();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let second = std::time::Duration::from_secs(1);
        assert!(modified + second > before && modified < std::time::SystemTime::now() + second, "{modified:?}");
    }
    // An entry that is not one's own, or nobody's, and files that are not its.
    let (elsewhere, pair) = (File::open(ground.beside()).unwrap(), std::os::unix::net::UnixStream::pair().unwrap());
    for index in [0, 1, 16_383, 16_384, u32::MAX] {
        let files = [both.kernel.as_raw_fd(), elsewhere.as_raw_fd(), pair.0.as_raw_fd(), -1, 9_999, i32::MAX];
        for descriptor in files {
            let _ = ask(&name, Question::Free { token: answer.token, index, descriptor });
        }
    }
    for (token, index) in [(0, file.index as u32), (answer.token ^ 1, file.index as u32)] {
        assert_eq!(ask(&name, Question::Free { token, index, descriptor: 0 }).map(|_| ()), Err(Errno::ACCESS));
        assert_eq!(ask(&name, Question::File { token, ino }).map(|_| ()), Err(Errno::ACCESS));
    }
    // SAFETY: the mapping is this test's, and nothing refers to it.
    unsafe { munmap(base.cast(), bytes).unwrap() };
    drop((both, slots));
    mounted.unmount().unwrap();
    close(volume);
}

#[test]
fn the_end_of_a_file_is_given_to_who_asks_for_it_by_that_file_alone() {
    let ground = or_skip!(storing());
    for preload in [Preload::Write, Preload::Append] {
        let (mounted, volume) = ground.mount(&options(preload));
        let (path, other) = (ground.directory().join("file"), ground.directory().join("other"));
        fs::write(&path, b"content").unwrap();
        fs::write(&other, b"other").unwrap();
        let (kernel, other) = (File::options().append(true).open(&path).unwrap(), open(&other));
        let name = Name::ask(kernel.as_fd()).unwrap();
        let (answer, _files) = ask(&name, Question::Attach { write: true }).unwrap();
        let (token, ino) = (answer.token, kernel.metadata().unwrap().ino());
        let index = ask(&name, Question::File { token, ino }).unwrap().0.index as u32;
        let right = Lease { token, index, bytes: 100, expected: 1000 };
        let asked = |lease: Lease| lease.ask(kernel.as_fd());
        let expected = if preload == Preload::Append { Ok(()) } else { Err(Errno::ACCESS) };
        assert_eq!(asked(right), expected);
        for token in [0, token ^ 1, u64::MAX] {
            assert_eq!(asked(Lease { token, ..right }), Err(Errno::ACCESS));
        }
        // Who may only read.
        let (reader, _files) = ask(&name, Question::Attach { write: false }).unwrap();
        assert_eq!(asked(Lease { token: reader.token, ..right }), Err(Errno::ACCESS));
        for named in [0, ino + 1] {
            let other = ask_by(kernel.as_fd(), Question::File { token, ino: named });
            assert_eq!(other.map(|_| ()), Err(Errno::ACCESS), "of another file");
        }
        let question = Question::File { token: token ^ 1, ino };
        assert_eq!(ask_by(kernel.as_fd(), question).map(|_| ()), Err(Errno::ACCESS));
        for question in [Question::Attach { write: true }, Question::Stored { index, key: 0 }] {
            assert_eq!(ask_by(kernel.as_fd(), question).map(|_| ()), Err(Errno::INVAL));
        }
        if preload == Preload::Append {
            for index in [index ^ 1, 16_383, 16_384, u32::MAX] {
                assert_eq!(asked(Lease { index, ..right }), Err(Errno::BADF));
            }
            for bytes in [0, (8 << 20) + 1, u64::MAX] {
                assert_eq!(asked(Lease { bytes, ..right }), Err(Errno::INVAL));
            }
            assert_eq!(right.ask(other.as_fd()), Err(Errno::BADF));
            assert_eq!(asked(Lease { expected: u64::MAX, ..right }), Ok(()));
        }
        let mut random = Random::new(3);
        for bytes in (0..80).chain([4096, 60_000]) {
            let mut value = vec![0; bytes];
            random.fill(&mut value);
            let set = rustix::fs::fsetxattr(&kernel, "system.scmfs.lease", &value, XattrFlags::empty());
            assert_eq!(set, Err(Errno::INVAL));
        }
        // Not of this machine's other file systems, nor of a directory.
        let directory = File::open(ground.directory()).unwrap();
        assert_eq!(right.ask(File::open(ground.beside()).unwrap().as_fd()), Err(Errno::OPNOTSUPP));
        assert!(right.ask(directory.as_fd()).is_err());
        // Who has it says nothing: the kernel appends where the file ends.
        std::io::Write::write_all(&mut &kernel, b", more").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"content, more");
        drop((kernel, other, directory));
        mounted.unmount().unwrap();
        close(volume);
    }
}

#[test]
fn whatever_is_said_the_server_answers_the_next_one() {
    let ground = or_skip!(storing());
    let (mounted, volume) = ground.mount(&options(Preload::Read));
    let path = ground.directory().join("file");
    fs::write(&path, b"content").unwrap();
    let kernel = open(&path);
    let name = Name::ask(kernel.as_fd()).unwrap();
    let told = name.told();
    let connect = || connect(&name);
    let mut random = Random::new(9);
    for _ in 0..300 {
        let mut message = vec![0; random.below(200) as usize];
        random.fill(&mut message);
        if random.below(2) == 0 && message.len() >= 16 {
            // Understood as far as to what is asked.
            message[..8].copy_from_slice(&told[..8]);
            message[8..12].copy_from_slice(&(random.below(5) as u32).to_ne_bytes());
        }
        if let Ok(socket) = connect() {
            let _ = rustix::net::send(&socket, &message, SendFlags::NOSIGNAL);
        }
    }
    // Some say nothing at all, and stay.
    let silent: Vec<_> = (0..4).map(|_| connect().unwrap()).collect();
    let session = Session::attach(kernel.as_fd(), Access::Read).unwrap();
    let file = session.file(kernel.metadata().unwrap().ino(), kernel.as_raw_fd()).unwrap();
    let mut into = [0; 7];
    // SAFETY: the buffer is that long.
    let got = unsafe { session.read(file, kernel.as_raw_fd(), into.as_mut_ptr(), 7, 0) };
    assert_eq!((got, &into), (pocketstone_lease::Outcome::Done(7), b"content"));
    drop((silent, session, kernel));
    mounted.unmount().unwrap();
    close(volume);
}

#[test]
fn whoever_says_nothing_keeps_nobody_waiting() {
    let ground = or_skip!(storing());
    let (mounted, volume) = ground.mount(&options(Preload::Read));
    let directory = File::open(ground.directory()).unwrap();
    let name = Name::ask(directory.as_fd()).unwrap();
    // More than the server listens to.
    let silent: Vec<OwnedFd> = (0..100).map(|_| connect(&name).unwrap()).collect();
    let start = Instant::now();
    for _ in 0..5 {
        Session::attach(directory.as_fd(), Access::Read).unwrap();
    }
    // Much less than the sum of what each of them is listened to.
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    // Those that are not listened to any more are told so.
    until("the first one is given up", || {
        rustix::net::recv(&silent[0], &mut [0; 64], RecvFlags::DONTWAIT) != Err(Errno::AGAIN)
    });
    drop((silent, directory));
    mounted.unmount().unwrap();
    close(volume);
}

#[test]
fn a_file_of_another_mount_is_not_touched() {
    let (ground, other) = (or_skip!(storing()), or_skip!(storing()));
    let (mounted, volume) = ground.mount(&options(Preload::Write));
    let (mounted_other, volume_other) = other.mount(&options(Preload::Write));
    let (mine, its) = (ground.directory().join("file"), other.directory().join("file"));
    fs::write(&mine, b"content").unwrap();
    fs::write(&its, b"content").unwrap();
    let (mine, its) = (open(&mine), open(&its));
    let ino = mine.metadata().unwrap().ino();
    assert_eq!(its.metadata().unwrap().ino(), ino, "the number alone does not tell them apart");
    let name = Name::ask(mine.as_fd()).unwrap();
    let (Answer { token, .. }, _) = ask(&name, Question::Attach { write: true }).unwrap();
    let (Answer { index, .. }, _) = ask(&name, Question::File { token, ino }).unwrap();
    let free =
        |of: &File| ask(&name, Question::Free { token, index: index as u32, descriptor: of.as_raw_fd() }).map(|_| ());
    // Whoever serves the other mount might never answer.
    assert_eq!(free(&its), Err(Errno::BADF));
    assert_eq!(free(&mine), Ok(()));
    drop((mine, its));
    mounted.unmount().unwrap();
    close(volume);
    mounted_other.unmount().unwrap();
    close(volume_other);
}

#[test]
fn nobody_sends_descriptors_to_the_server() {
    let ground = or_skip!(storing());
    let (mounted, volume) = ground.mount(&options(Preload::Read));
    let directory = File::open(ground.directory()).unwrap();
    let socket = connect(&Name::ask(directory.as_fd()).unwrap()).unwrap();
    let files = [directory.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
    let sent = rustix::net::sendmsg(&socket, &[IoSlice::new(&[0; 64])], &mut ancillary, SendFlags::NOSIGNAL);
    // unix(7): SO_PASSRIGHTS is off.
    assert_eq!(sent, Err(Errno::PERM));
    drop((socket, directory));
    mounted.unmount().unwrap();
    close(volume);
}
