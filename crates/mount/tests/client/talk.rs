//! What a hostile client says.

use super::attached::Attached;
use pocketstone_lease::message::{Name, Question, ask};
use pocketstone_random::Random;
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

fn socket() -> OwnedFd {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("a socket")
}

/// The server's address, and how a message begins.
fn address(name: &Name) -> (SocketAddrUnix, [u8; 8]) {
    let told = name.told();
    let text: Vec<u8> = told[8..].iter().copied().take_while(|byte| *byte != 0).collect();
    (SocketAddrUnix::new_abstract_name(&text).expect("a name"), told[..8].try_into().expect("8 bytes"))
}

fn connect(name: &Name) -> Option<OwnedFd> {
    let socket = socket();
    // The server is busy with others, perhaps.
    rustix::net::sockopt::set_socket_timeout(
        &socket,
        rustix::net::sockopt::Timeout::Send,
        Some(std::time::Duration::from_secs(1)),
    )
    .ok()?;
    rustix::net::connect(&socket, &address(name).0).ok().map(|()| socket)
}

fn message(name: &Name, what: u32, how: u32, token: u64, value: u64) -> Vec<u8> {
    let mut message = address(name).1.to_vec();
    message.extend(what.to_ne_bytes());
    message.extend(how.to_ne_bytes());
    message.extend(token.to_ne_bytes());
    message.extend(value.to_ne_bytes());
    message.resize(64, 0);
    message
}

/// Messages of any kind, of any length, with descriptors and without, whole and in parts, on one connection.
pub fn nonsense(name: &Name, token: u64, random: &mut Random) {
    let Some(socket) = connect(name) else { return };
    for _ in 0..=random.below(3) {
        let (what, how) = (random.below(6) as u32, random.next_u64() as u32 >> random.below(32));
        let value = random.next_u64() >> random.below(64);
        let mut said = message(name, what, how, token, value);
        match random.below(6) {
            0 => random.fill(&mut said),
            1 => said.truncate(random.below(65) as usize),
            2 => said.resize(65 + random.below(4096) as usize, 7),
            3 => said[random.below(16) as usize] ^= 1 << random.below(8),
            _ => {}
        }
        let own = [rustix::stdio::stderr(), socket.as_fd()];
        let files = &own[..random.below(3) as usize];
        let parts = if random.below(3) == 0 { said.len() / 2 } else { 0 };
        for part in [&said[..parts], &said[parts..]] {
            send(&socket, part, files);
        }
    }
    if random.below(2) == 0 {
        let _ = rustix::net::recv(&socket, &mut [0; 64], RecvFlags::DONTWAIT);
    }
}

/// Linux from 6.16 on does not let descriptors through.
fn send(to: &OwnedFd, said: &[u8], files: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(files)));
    }
    let how = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let _ = rustix::net::sendmsg(to, &[IoSlice::new(said)], &mut ancillary, how);
}

/// Connections on which nothing is said.
pub fn say_nothing(name: &Name, count: usize) -> Vec<OwnedFd> {
    (0..count).filter_map(|_| connect(name)).collect()
}

/// A process that connects by a socket of this one; it ends when it is killed, or at once.
fn other(socket: &OwnedFd, name: &Name, lives: bool) -> Option<Child> {
    let (address, socket) = (address(name).0, socket.try_clone().expect("a descriptor"));
    let mut command = Command::new("sleep");
    // Should this process be killed, it ends by itself, and keeps no pipe open.
    command.arg("60").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let connect = move || {
        rustix::net::connect(&socket, &address)?;
        if lives { Ok(()) } else { Err(Errno::CANCELED.into()) }
    };
    // SAFETY: it makes one system call, and allocates nothing.
    unsafe { command.pre_exec(connect) };
    command.spawn().ok()
}

/// The process that asks has ended by then.
pub fn ask_of_the_dead(name: &Name) {
    let socket = socket();
    assert!(other(&socket, name, false).is_none());
    send(&socket, &message(name, 1, 1, 0, 0), &[]);
    let answered = take(&socket).is_some_and(|(answer, _)| answer[8..12] == [0; 4]);
    assert!(!answered, "nobody would notice its end");
}

/// Becomes direct, by this process or by another one that ends when what is returned does.
pub fn attach(name: &Name, write: bool, by_another: bool) -> Option<Attached> {
    if !by_another {
        let (answer, files) = ask(name, Question::Attach { write }).ok()?;
        return Some(Attached::new(answer.token, answer.region_bytes, files, None));
    }
    let socket = socket();
    let child = other(&socket, name, true)?;
    send(&socket, &message(name, 1, u32::from(write), 0, 0), &[]);
    let (answer, files) = take(&socket)?;
    let word = |at: usize| u64::from_ne_bytes(answer[at..at + 8].try_into().expect("8 bytes"));
    let (status, token, region_bytes) = (word(8) as u32, word(16), word(24));
    (status == 0).then(|| Attached::new(token, region_bytes, files, Some(child)))
}

/// An answer, and its files; `None`: the server has closed the connection.
fn take(from: &OwnedFd) -> Option<([u8; 64], [Option<OwnedFd>; 3])> {
    let mut answer = [0; 64];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut answer)];
    let timeout = Some(super::PATIENCE);
    rustix::net::sockopt::set_socket_timeout(from, rustix::net::sockopt::Timeout::Recv, timeout).expect("a timeout");
    match rustix::net::recvmsg(from, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
        Ok(got) if got.bytes == 64 => {}
        Ok(_) | Err(Errno::CONNRESET) => return None,
        Err(error) => panic!("no answer: {error}"),
    }
    let mut files = [const { None }; 3];
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    for (place, file) in files.iter_mut().zip(rights.flatten()) {
        *place = Some(file);
    }
    Some((answer, files))
}
