//! Operations out of random bytes: one decoder for seeded runs, proptest and the fuzzers.

use super::op::{Op, Target};
use super::shape::Shape;
use pocketstone_core::random::Random;
use pocketstone_scmfs::{Allocate, FileType, Rename, SetXattr};

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

/// What an operation's bytes choose from.
pub struct Decoder {
    prefix: String,
    offsets: Vec<u64>,
    lengths: Vec<u64>,
}

impl Decoder {
    pub fn new(shape: &Shape) -> Decoder {
        Decoder::below(shape, "")
    }

    /// All paths begin with `prefix`.
    pub fn below(shape: &Shape, prefix: &str) -> Decoder {
        let (page, huge, threshold) = (shape.page_bytes(), shape.huge_bytes(), shape.threshold_bytes());
        let edges = [page, 2 * page, 5 * page, threshold, huge, 2 * huge, shape.reach_bytes];
        let mut offsets = vec![0, 0, 1, 7];
        for edge in edges {
            offsets.extend([edge - 1, edge, edge + 1, edge - page / 2]);
        }
        offsets.retain(|offset| *offset <= shape.reach_bytes);
        let mut lengths = vec![1, 8, 63, 64, 100, page - 1, page, page + 1, 3 * page, threshold, threshold + 1];
        // Writes of whole huge pages, as long as that stays cheap.
        lengths.extend([huge, huge + page].into_iter().filter(|length| *length <= 64 << 10));
        lengths.retain(|length| *length <= shape.reach_bytes);
        Decoder { prefix: prefix.into(), offsets, lengths }
    }

    fn path(&self, a: u8, b: u8) -> String {
        self.path_of(&NAMES, a, b)
    }

    fn path_of(&self, names: &[&str], a: u8, b: u8) -> String {
        format!("{}{}/{}", self.prefix, pick(&DIRECTORIES, a), pick(names, b))
    }

    fn target(&self, a: u8, b: u8) -> Target {
        if a >= 208 { Target::Slot(b % 3) } else { Target::Path(self.path_of(&FILES, a, b)) }
    }

    /// Mostly at an edge, sometimes anywhere.
    fn offset(&self, a: u8, b: u8) -> u64 {
        let edge = pick(&self.offsets, a);
        if b >= 192 { edge / 256 * u64::from(b) + u64::from(a) } else { edge }
    }

    pub fn decode(&self, word: Word) -> Op {
        let [what, a, b, c, d, e, fill, mode] = word;
        let (path, target) = (self.path(a, b), self.target(a, b));
        let (offset, bytes) = (self.offset(c, mode), pick(&self.lengths, d));
        match what % 64 {
            0..=5 => {
                let kind = if mode < 224 { FileType::Regular } else { pick(&[FileType::Fifo, FileType::Socket], mode) };
                Op::Create(self.path_of(&FILES, a, b), kind, u16::from(fill) & 0o777, (e < 64).then_some(e % 3))
            }
            6 => Op::Create(format!("{path}{}", "y".repeat(230 + usize::from(e % 40))), FileType::Regular, 0o644, None),
            7..=10 => Op::Mkdir(self.path_of(&NEW_DIRECTORIES, a, b), u16::from(fill) | 0o700),
            11 | 12 => Op::Symlink(path, "target/".repeat(usize::from(e) % 20 + 1)),
            13..=15 => Op::Link(path, self.path(c, d)),
            16..=20 => Op::Unlink(path),
            21 | 22 => Op::Rmdir(path),
            23..=27 => {
                let how = pick(&[Rename::Replace, Rename::Replace, Rename::NoReplace, Rename::Exchange], mode);
                Op::Rename(path, self.path(c, d), how)
            }
            28 => Op::Open(e % 3, self.path_of(&FILES, a, b)),
            29 => Op::Close(e % 3),
            30 => Op::Temporary(e % 3),
            31 => Op::LinkSlot(e % 3, path),
            32..=39 => Op::Write(target, offset, bytes, fill),
            40 | 41 => Op::WriteAtomic(target, offset, bytes, fill),
            42..=44 => Op::Append(target, bytes, fill),
            45..=47 => Op::Truncate(target, offset),
            48 | 49 => {
                let how = [
                    Allocate::Extend,
                    Allocate::KeepSize,
                    Allocate::PunchHole,
                    Allocate::PunchHole,
                    Allocate::Zero,
                    Allocate::ZeroKeepSize,
                ];
                // A tenth of them without a length, which is not allowed.
                Op::Allocate(target, pick(&how, mode), self.offset(c, 0), if e < 25 { 0 } else { bytes })
            }
            50 | 51 => Op::Read(target, offset, bytes),
            52 => Op::View(target),
            53 => Op::Stat(path),
            54 => Op::ReadLink(path),
            55 => Op::Chmod(path, u16::from(fill) | 0o4000),
            56 => Op::Chown(path, u32::from(fill), u32::from(mode)),
            57 => Op::SetSize(self.path_of(&FILES, a, b), offset),
            58 | 59 => {
                let how = pick(&[SetXattr::Any, SetXattr::Any, SetXattr::Create, SetXattr::Replace], mode);
                Op::SetXattr(path, pick(&XATTRS, e).into(), pick(&[0, 5, 30, 80], d), fill, how)
            }
            60 if e < 128 => Op::GetXattr(path, pick(&XATTRS, e).into()),
            60 => Op::RemoveXattr(path, pick(&XATTRS, e).into()),
            61 if e < 128 => Op::ListXattrs(path),
            61 => Op::List(path),
            62 => Op::SyncFile(target),
            _ if e < 64 => Op::Sync,
            _ => Op::Collect,
        }
    }

    pub fn random(&self, random: &mut Random) -> Op {
        self.decode(random.next_u64().to_le_bytes())
    }
}

fn pick<T: Clone>(from: &[T], by: u8) -> T {
    from[usize::from(by) % from.len()].clone()
}
