//! Messages as include/uapi/linux/fuse.h draws them, written out by hand; cut short, and random ones.

use super::abi::opcode;
use super::dispatch::{Outcome, carry_out};
use super::reply::{Attributes, Listing, More, Opened, Reply, Statfs, Taken};
use super::request::{Malformed, Operation, Request, SetTime, Time, parse};
use super::{Filesystem, Full};
use pocketstone_core::random::Random;

/// A file system that can do nothing.
struct Nothing;
impl Filesystem for Nothing {}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_ne_bytes()).collect()
}

/// `struct fuse_in_header` with uid 1000, gid 100, of process 77, about inode 5; then the body.
fn message(code: u32, body: &[u8]) -> Vec<u8> {
    let mut message = words(&[40 + body.len() as u32, code]);
    message.extend(longs(&[9, 5]));
    message.extend(words(&[1000, 100, 77, 0]));
    message.extend(body);
    message
}

/// A body of every operation that has one, with the fewest bytes that make it whole.
fn bodies() -> Vec<(u32, Vec<u8>)> {
    let join = |parts: &[&[u8]]| parts.concat();
    let part = join(&[&longs(&[3, 4096]), &words(&[512, 0]), &longs(&[0]), &words(&[0o2])]);
    vec![
        (opcode::LOOKUP, b"name\0".to_vec()),
        (opcode::FORGET, longs(&[2])),
        (opcode::BATCH_FORGET, join(&[&words(&[2, 0]), &longs(&[5, 1, 6, 2])])),
        (
            opcode::SETATTR,
            join(&[&words(&[0x1 | 0x20 | 0x100, 0]), &longs(&[0; 6]), &words(&[0, 0, 0, 0o644, 0, 7, 8])]),
        ),
        (opcode::SYMLINK, b"name\0target\0".to_vec()),
        (opcode::MKNOD, join(&[&words(&[0o10_644, 0, 0o22, 0]), b"fifo\0"])),
        (opcode::MKDIR, join(&[&words(&[0o755, 0o22]), b"dir\0"])),
        (opcode::UNLINK, b"n\0".to_vec()),
        (opcode::RMDIR, b"n\0".to_vec()),
        (opcode::RENAME, join(&[&longs(&[6]), b"old\0new\0"])),
        (opcode::RENAME2, join(&[&longs(&[6]), &words(&[1, 0]), b"old\0new\0"])),
        (opcode::LINK, join(&[&longs(&[6]), b"name\0"])),
        (opcode::OPEN, words(&[0o2])),
        (opcode::CREATE, join(&[&words(&[0o102, 0o644, 0o22, 0]), b"name\0"])),
        (opcode::TMPFILE, words(&[0o202, 0o600, 0o22, 0])),
        (opcode::READ, part.clone()),
        (opcode::READDIR, part.clone()),
        (opcode::READDIRPLUS, part),
        (opcode::WRITE, join(&[&longs(&[3, 100]), &words(&[4, 0]), &longs(&[0]), &words(&[0o2001, 0]), b"data"])),
        (opcode::FLUSH, longs(&[3])),
        (opcode::RELEASE, longs(&[3])),
        (opcode::RELEASEDIR, longs(&[3])),
        (opcode::FSYNC, longs(&[3])),
        (opcode::SETXATTR, join(&[&words(&[5, 1]), b"user.a\0value"])),
        (opcode::GETXATTR, join(&[&words(&[64, 0]), b"user.a\0"])),
        (opcode::LISTXATTR, words(&[64])),
        (opcode::REMOVEXATTR, b"user.a\0".to_vec()),
        (opcode::FALLOCATE, join(&[&longs(&[3, 0, 4096]), &words(&[1])])),
        (opcode::LSEEK, join(&[&longs(&[3, 10]), &words(&[4])])),
        (opcode::COPY_FILE_RANGE, longs(&[3, 0, 6, 4, 10, 4096])),
        (opcode::COPY_FILE_RANGE_64, longs(&[3, 0, 6, 4, 10, 4096])),
        (opcode::IOCTL, join(&[&longs(&[3]), &words(&[0, 0x6601]), &longs(&[0]), &words(&[2, 8]), b"in"])),
        (opcode::INIT, words(&[7, 45, 65536, 1 | 1 << 30, 1 << 4])),
    ]
}

#[test]
fn every_operation_is_read_whole_and_refused_when_cut_short() {
    for (code, body) in bodies() {
        let whole = message(code, &body);
        let (request, operation) = parse(&whole, false).unwrap();
        assert_eq!(request, Request { unique: 9, node: 5, uid: 1000, gid: 100, pid: 77 });
        assert_ne!(operation, Operation::Other, "{code}");
        for length in 0..body.len() {
            // The rules of a version that says less are nevertheless a question.
            let short = message(code, &body[..length]);
            let init_without_flags = code == opcode::INIT && (8..16).contains(&length);
            assert_eq!(parse(&short, false).is_err(), !init_without_flags, "{code} of {length}");
            assert_eq!(parse(&whole[..40 + length], false), Err(Malformed(None)), "{code}, less than it says");
        }
    }
    for length in 0..40 {
        assert_eq!(parse(&message(opcode::GETATTR, b"")[..length], false), Err(Malformed(None)));
    }
}

#[test]
fn fields_mean_what_the_header_says() {
    let parsed = |code: u32, check: &dyn Fn(Operation<'_>)| {
        let body = bodies().into_iter().find(|(known, _)| *known == code).unwrap().1;
        check(parse(&message(code, &body), false).unwrap().1);
    };
    parsed(opcode::RENAME2, &|operation| {
        assert_eq!(operation, Operation::Rename { name: b"old", to: 6, new_name: b"new", flags: 1 });
    });
    parsed(opcode::BATCH_FORGET, &|operation| {
        let Operation::BatchForget(forgotten) = operation else { panic!("{operation:?}") };
        assert_eq!(forgotten.collect::<Vec<_>>(), [(5, 1), (6, 2)]);
    });
    parsed(opcode::READ, &|operation| {
        let Operation::Read(part) = operation else { panic!("{operation:?}") };
        assert_eq!((part.handle, part.offset, part.size, part.flags), (3, 4096, 512, 0o2));
    });
    parsed(opcode::WRITE, &|operation| {
        let Operation::Write(write) = operation else { panic!("{operation:?}") };
        assert_eq!((write.handle, write.offset, write.flags, write.data), (3, 100, 0o2001, &b"data"[..]));
    });
    parsed(opcode::INIT, &|operation| {
        let Operation::Init(init) = operation else { panic!("{operation:?}") };
        assert_eq!((init.minor, init.max_readahead, init.flags), (45, 65536, 1 | 1 << 30 | 1 << 36));
    });
    parsed(opcode::TMPFILE, &|operation| {
        assert_eq!(operation, Operation::Tmpfile { mode: 0o600, umask: 0o22, flags: 0o202 });
    });
    parsed(opcode::SETXATTR, &|operation| {
        let Operation::Setxattr(xattr) = operation else { panic!("{operation:?}") };
        assert_eq!(
            (xattr.name, xattr.value, xattr.flags, xattr.kills_group_id),
            (&b"user.a"[..], &b"value"[..], 1, None)
        );
    });
    let long = message(opcode::SETXATTR, &[&words(&[1, 2, 1, 0])[..], b"user.a\0v"].concat());
    let Operation::Setxattr(xattr) = parse(&long, true).unwrap().1 else { panic!("no xattr") };
    assert_eq!(
        (xattr.name, xattr.value, xattr.flags, xattr.kills_group_id),
        (&b"user.a"[..], &b"v"[..], 2, Some(true))
    );
    // Mode, modification and change at -2 s + 750 ms, reading now.
    let set = [
        &words(&[0x1 | 0x10 | 0x20 | 0x80 | 0x400, 0])[..],
        &longs(&[0, 0, 0, 1, -2_i64 as u64, -2_i64 as u64]),
        &words(&[1, 750_000_000, 750_000_000, 0o100_640, 0, 7, 8, 0]),
    ];
    let set = message(opcode::SETATTR, &set.concat());
    let Operation::Setattr(change) = parse(&set, true).unwrap().1 else { panic!("no change") };
    let then = Time { seconds: -2, nanoseconds: 750_000_000 };
    assert_eq!((change.mode, change.uid, change.gid, change.size), (Some(0o100_640), None, None, None));
    assert_eq!((change.atime, change.mtime, change.ctime), (Some(SetTime::Now), Some(SetTime::To(then)), Some(then)));
}

#[test]
fn no_message_makes_anything_panic() {
    let mut random = Random::labelled(1, "messages");
    let mut reply = Reply::new();
    for _ in 0..200_000 {
        let length = random.below(120) as usize;
        let body: Vec<u8> =
            (0..length).map(|_| if random.below(3) == 0 { random.below(256) as u8 } else { 0 }).collect();
        let whole = message(random.below(60) as u32, &body);
        let cut = whole.len() - random.below(3) as usize;
        if let Ok((request, operation)) = parse(&whole[..cut], random.below(2) == 0) {
            if let Outcome::Made = carry_out(&Nothing, &request, &operation, &mut reply) {
                assert!(reply.message(request.unique).len() >= 16);
            }
        }
    }
}

const ATTRIBUTES: Attributes = Attributes {
    node: 5,
    generation: 3,
    size: 4097,
    blocks: 16,
    atime: Time { seconds: 1, nanoseconds: 11 },
    mtime: Time { seconds: -2, nanoseconds: 22 },
    ctime: Time { seconds: 3, nanoseconds: 33 },
    mode: 0o100_640,
    links: 2,
    uid: 1000,
    gid: 100,
    // Device 8:300, as the kernel encodes it.
    rdev: 0x0010_082c,
    block_bytes: 4096,
    kept: true,
};

fn u32_at(message: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(message[at..at + 4].try_into().unwrap())
}

fn u64_at(message: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(message[at..at + 8].try_into().unwrap())
}

fn made(fill: impl FnOnce(&mut Reply)) -> Vec<u8> {
    let mut reply = Reply::new();
    fill(&mut reply);
    let message = reply.message(77).to_vec();
    assert_eq!((u32_at(&message, 0) as usize, u32_at(&message, 4), u64_at(&message, 8)), (message.len(), 0, 77));
    message[16..].to_vec()
}

#[test]
fn answers_are_laid_out_as_the_header_says() {
    let entry = made(|reply| reply.entry(&ATTRIBUTES));
    assert_eq!(entry.len(), 128);
    assert_eq!([0, 8, 40, 48, 56].map(|at| u64_at(&entry, at)), [5, 3, 5, 4097, 16]);
    assert_eq!([64, 72, 80].map(|at| u64_at(&entry, at) as i64), [1, -2, 3]);
    let numbers = [88, 92, 96, 100, 104, 108, 112, 116, 120, 124].map(|at| u32_at(&entry, at));
    assert_eq!(numbers, [11, 22, 33, 0o100_640, 2, 1000, 100, 0x0010_082c, 4096, 0]);
    let attr = made(|reply| reply.attr(&ATTRIBUTES));
    assert_eq!((attr.len(), &attr[16..]), (104, &entry[40..]));
    let none = made(Reply::no_entry);
    assert_eq!((none.len(), u64_at(&none, 0), u64_at(&none, 16)), (128, 0, u64::from(u32::MAX)));

    let more = More { btime: Time { seconds: 9, nanoseconds: 99 }, flags: 0x10, known_flags: 0x30 };
    let statx = made(|reply| reply.statx(&ATTRIBUTES, &more));
    assert_eq!(statx.len(), 32 + 256);
    assert_eq!([32, 36, 48, 52, 56].map(|at| u32_at(&statx, at)), [0xfff, 4096, 2, 1000, 100]);
    assert_eq!(u16::from_ne_bytes([statx[60], statx[61]]), 0o100_640);
    assert_eq!([40, 64, 72, 80, 88].map(|at| u64_at(&statx, at)), [0x10, 5, 4097, 16, 0x30]);
    assert_eq!([96, 112, 128, 144].map(|at| u64_at(&statx, at) as i64), [1, 9, 3, -2]);
    assert_eq!([104, 120, 136, 152].map(|at| u32_at(&statx, at)), [11, 99, 33, 22]);
    assert_eq!([160, 164].map(|at| u32_at(&statx, at)), [8, 300]);

    assert_eq!(made(|reply| reply.opened(Opened { handle: 4, flags: 2 })), [longs(&[4]), words(&[2, 0])].concat());
    let room =
        Statfs { blocks: 10, free: 4, available: 2, files: 7, free_files: 3, block_bytes: 512, longest_name: 255 };
    let statfs = made(|reply| reply.statfs(&room));
    let expected = [longs(&[10, 4, 2, 7, 3]), words(&[512, 255, 512, 0, 0, 0, 0, 0, 0, 0])].concat();
    assert_eq!(statfs, expected);
    let flags = 1 | 1 << 36;
    let taken = Taken { minor: 38, max_readahead: 9, flags, max_background: 64, max_write: 1 << 20, max_pages: 256 };
    let init = made(|reply| reply.init(&taken));
    let head = [words(&[7, 38, 9, 1]), [64_u16.to_ne_bytes(), 48_u16.to_ne_bytes()].concat(), words(&[1 << 20, 1])];
    assert_eq!((init.len(), &init[..28]), (64, &head.concat()[..]));
    assert_eq!((u32_at(&init, 28), u32_at(&init, 32)), (u32::from_ne_bytes([0, 1, 0, 0]), 1 << 4));
}

#[test]
fn listings_are_padded_and_end_where_the_kernels_room_does() {
    let mut reply = Reply::new();
    let mut listing = Listing::new(&mut reply, 24 + 8 + 24 + 16);
    assert_eq!(listing.name(5, 1, 8, b"abc"), Full::Continue(()));
    assert_eq!(listing.name(6, 2, 4, b"a-name-of-17-byte"), Full::Break(()), "two words more than there are");
    assert_eq!(listing.name(6, 2, 4, b"123456789"), Full::Continue(()));
    let listed = &reply.message(1)[16..];
    let first = [longs(&[5, 1]), words(&[3, 8]), b"abc\0\0\0\0\0".to_vec()].concat();
    let second = [longs(&[6, 2]), words(&[9, 4]), b"123456789\0\0\0\0\0\0\0".to_vec()].concat();
    assert_eq!(listed, [first, second].concat());
    // What has no attributes has number 0 before the name.
    let mut reply = Reply::new();
    let mut listing = Listing::new(&mut reply, 128 + 32);
    assert_eq!(listing.entry(None, 7, 3, 8, b"x"), Full::Continue(()));
    assert_eq!(listing.entry(Some(&ATTRIBUTES), 7, 3, 8, b"y"), Full::Break(()));
    let listed = &reply.message(1)[16..];
    assert!(listed[..128].iter().all(|&byte| byte == 0));
    assert_eq!((u64_at(listed, 128), u64_at(listed, 136), listed.len()), (7, 3, 160));
}

#[test]
fn an_answers_memory_grows_with_what_is_put_in_and_begins_at_a_page() {
    let mut reply = Reply::new();
    for round in 0..3_u8 {
        reply.clear();
        reply.bytes(&[round; 4000]);
        reply.bytes(&[round + 1; 9000]);
        let message = reply.message(1);
        assert_eq!((&message[16..18], &message[13_014..]), (&[round; 2][..], &[round + 1; 2][..]));
        assert_eq!((message[16..].as_ptr() as usize) % 4096, 0);
    }
    reply.clear();
    reply.room(1 << 20).fill(7);
    reply.filled(100);
    assert_eq!(reply.message(1)[16..], [7; 100]);
}
