//! Operations out of random bytes: one decoder for seeded runs, proptest and the fuzzers.

use crate::model::Has;
use crate::op::{BatchPart, Op, Target};
use pocketstone_random::Random;
use pocketstone_vfs::{Allocate, FileType, Rename, SetXattr};

/// One operation. Eight bytes, so that shrinking one does not move the others.
pub type Word = [u8; 8];

/// Directories that paths lead through; most of them exist only now and then.
const DIRECTORIES: [&str; 8] = ["", "", "", "/d", "/d", "/e", "/d/f", "/e/g"];
/// `d` to `g` are files in some runs and directories in others, so that every wrong kind comes up.
const NAMES: [&str; 10] = ["a", "b", "c", "a", "b", "d", "e", "f", "g", "x.long-name-to-fill-directories"];
/// What files and directories are mostly named, so that most operations find the kind they are for.
const FILES: [&str; 8] = ["a", "b", "c", "a", "b", "c", "f", "x.long-name-to-fill-directories"];
const NEW_DIRECTORIES: [&str; 10] = ["d", "e", "d", "e", "f", "g", "f", "g", "a", "x.long-name-to-fill-directories"];
const XATTRS: [&str; 3] = ["user.a", "user.b", "trusted.c"];
const KINDS: [FileType; 3] = [FileType::Fifo, FileType::Socket, FileType::CharDevice];
const RENAMES: [Rename; 4] = [Rename::Replace, Rename::Replace, Rename::NoReplace, Rename::Exchange];
const SET_XATTRS: [SetXattr; 4] = [SetXattr::Any, SetXattr::Any, SetXattr::Create, SetXattr::Replace];
const ALLOCATES: [Allocate; 8] = [
    Allocate::Extend,
    Allocate::KeepSize,
    Allocate::PunchHole,
    Allocate::PunchHole,
    Allocate::Zero,
    Allocate::ZeroKeepSize,
    Allocate::Collapse,
    Allocate::Insert,
];

/// What an operation's bytes choose from.
#[derive(Debug, Clone)]
pub struct Decoder {
    /// All paths begin with it.
    pub prefix: String,
    /// What the operations are for.
    pub has: Has,
    /// Where operations on contents begin, and sizes of files.
    pub offsets: Vec<u64>,
    /// How long they are.
    pub lengths: Vec<u64>,
    /// Bytes of extended attributes.
    pub xattr_bytes: Vec<u64>,
}

fn pick<T: Clone>(from: &[T], by: u8) -> T {
    from[usize::from(by) % from.len()].clone()
}

impl Decoder {
    /// For pages of `page` bytes: offsets are beside `edges`, and no offset or length is beyond `reach`.
    pub fn new(has: Has, page: u64, edges: &[u64], lengths: &[u64], reach: u64) -> Decoder {
        let mut offsets = vec![0, 0, 1, 7];
        for edge in edges {
            offsets.extend([edge - 1, *edge, edge + 1, edge - page / 2]);
        }
        offsets.retain(|offset| *offset <= reach);
        let lengths = lengths.iter().copied().filter(|length| *length <= reach).collect();
        Decoder { prefix: String::new(), has, offsets, lengths, xattr_bytes: vec![0, 5, 30, 80] }
    }

    /// For what is reached through the kernel: beside what is a page in some file system, and less and more than one.
    pub fn of_kernel(has: Has) -> Decoder {
        let edges = [256, 512, 1280, 1024, 2048, 4096, 12288];
        let lengths = [1, 8, 63, 64, 100, 255, 256, 257, 768, 1024, 1025, 2048, 2304];
        Decoder::new(has, 256, &edges, &lengths, 12288)
    }

    fn path(&self, names: &[&str], a: u8, b: u8) -> String {
        format!("{}{}/{}", self.prefix, pick(&DIRECTORIES, a), pick(names, b))
    }

    fn target(&self, a: u8, b: u8) -> Target {
        if a >= 208 { Target::Slot(b % 3) } else { Target::Path(self.path(&FILES, a, b)) }
    }

    /// Mostly at an edge, sometimes anywhere.
    fn offset(&self, a: u8, b: u8) -> u64 {
        let edge = pick(&self.offsets, a);
        if b >= 192 { edge / 256 * u64::from(b) + u64::from(a) } else { edge }
    }

    /// What some bytes stand for.
    pub fn decode(&self, word: Word) -> Op {
        let [what, a, b, c, d, e, fill, mode] = word;
        if !self.has.all_of_linux {
            if let Some(op) = self.instead(word) {
                return op;
            }
        }
        let (path, target) = (self.path(&NAMES, a, b), self.target(a, b));
        let (offset, bytes) = (self.offset(c, mode), pick(&self.lengths, d));
        match what % 64 {
            0..=5 => {
                let kind = if mode < 224 { FileType::Regular } else { pick(&KINDS[..2], mode) };
                self.create(word, kind)
            }
            6 => Op::Create(format!("{path}{}", "y".repeat(230 + usize::from(e % 40))), FileType::Regular, 0o644, None),
            7..=10 => Op::Mkdir(self.path(&NEW_DIRECTORIES, a, b), u16::from(fill) | 0o700),
            11 | 12 => Op::Symlink(path, "target/".repeat(usize::from(e) % 20 + 1)),
            13..=15 => Op::Link(path, self.path(&NAMES, c, d)),
            16..=20 => Op::Unlink(path),
            21 | 22 => Op::Rmdir(path),
            23..=27 => Op::Rename(path, self.path(&NAMES, c, d), pick(&RENAMES, mode)),
            28 => Op::Open(e % 3, self.path(&FILES, a, b)),
            29 => Op::Close(e % 3),
            30 => Op::Temporary(e % 3),
            31 => Op::LinkSlot(e % 3, path),
            32..=39 => Op::Write(target, offset, bytes, fill),
            41 if e >= 128 => self.batch(word),
            40 | 41 => Op::WriteAtomic(target, offset, bytes, fill),
            42..=44 => Op::Append(target, bytes, fill),
            45..=47 => Op::Truncate(target, offset),
            48 | 49 => self.allocate(word, target, bytes),
            50 | 51 => Op::Read(target, offset, bytes),
            52 => Op::View(target),
            53 => Op::Stat(path),
            54 => Op::ReadLink(path),
            55 => Op::Chmod(path, u16::from(fill) | 0o4000),
            56 => Op::Chown(path, u32::from(fill), u32::from(mode)),
            57 => Op::SetSize(self.path(&FILES, a, b), offset),
            58 | 59 => {
                Op::SetXattr(path, pick(&XATTRS, e).into(), pick(&self.xattr_bytes, d), fill, pick(&SET_XATTRS, mode))
            }
            60 if e < 128 => Op::GetXattr(path, pick(&XATTRS, e).into()),
            60 => Op::RemoveXattr(path, pick(&XATTRS, e).into()),
            61 if e < 128 => Op::ListXattrs(path),
            61 => Op::List(path),
            62 => Op::SyncFile(target),
            _ if e < 64 => Op::Sync,
            _ => Op::Background,
        }
    }

    fn create(&self, word: Word, kind: FileType) -> Op {
        let [_, a, b, _, _, e, fill, _] = word;
        Op::Create(self.path(&FILES, a, b), kind, u16::from(fill) & 0o777, (e < 64).then_some(e % 3))
    }

    /// Two files, or one twice, with writes that may overlap, and a size that is now and then too small.
    fn batch(&self, word: Word) -> Op {
        let [_, a, b, c, d, e, fill, mode] = word;
        let (bytes, more) = (pick(&self.lengths, d), pick(&self.lengths, fill));
        let write = (self.offset(c, 0), bytes, fill);
        let size = (mode < 64).then(|| self.offset(d, mode));
        let second = BatchPart {
            path: self.path(&FILES, b, c),
            writes: vec![(self.offset(e, 255), more, !fill)],
            size: (mode >= 192).then(|| self.offset(mode, 0)),
        };
        let overlapping = (write.0 + bytes / 2, more, fill.wrapping_add(1));
        let first = BatchPart { path: self.path(&FILES, a, b), writes: vec![write, overlapping], size };
        Op::WriteBatch(if e < 160 { vec![first] } else { vec![first, second] })
    }

    fn allocate(&self, word: Word, target: Target, bytes: u64) -> Op {
        let [_, _, _, c, _, e, fill, mode] = word;
        let (how, offset) = (pick(&ALLOCATES, mode), self.offset(c, 0));
        // Whole pages, for what takes nothing else.
        let is_whole = matches!(how, Allocate::Collapse | Allocate::Insert) && fill < 224;
        let unit = if is_whole { self.has.page_bytes } else { 1 };
        let (offset, bytes) = (offset / unit * unit, bytes.next_multiple_of(unit));
        // A tenth of them without a length, which is not allowed.
        Op::Allocate(target, how, offset, if e < 25 { 0 } else { bytes })
    }

    /// What is done where a file system lacks what the word is for.
    fn instead(&self, word: Word) -> Option<Op> {
        let [what, a, b, c, d, e, fill, mode] = word;
        let path = self.path(&NAMES, a, b);
        let at = (self.target(a, b), self.offset(c, mode), pick(&self.lengths, d));
        Some(match what % 64 {
            0..=5 if mode >= 224 => self.create(word, pick(&KINDS, mode)),
            // Targets that are too long, too.
            12 => Op::Symlink(path, "target/".repeat(usize::from(e) % 24 + 1)),
            23..=27 => Op::Rename(path, self.path(&NAMES, c, d), pick(&RENAMES[..3], mode)),
            30 => Op::Times(path, i64::from(fill) - 9, self.has.now_s.unwrap_or_default() + i64::from(mode)),
            31 => Op::SyncFile(at.0),
            11 | 40 | 41 | 48 | 49 => Op::Write(at.0, at.1, at.2, fill),
            52 => Op::Sync,
            _ => return None,
        })
    }

    /// The next operation of a stream.
    pub fn random(&self, random: &mut Random) -> Op {
        self.decode(random.next_u64().to_le_bytes())
    }
}
