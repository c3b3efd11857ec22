//! Operations as data: executed on the model and on a volume, printed, decoded from random bytes.

use super::shape::{NOW_S, Shape};
use pocketstone_core::inode::{FileType, Rename, SetXattr};
use pocketstone_core::random::Random;
use std::fmt;

/// The file that an operation on content is for.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    Path(String),
    /// An open file.
    Slot(u8),
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Path(path) => write!(f, "{path}"),
            Target::Slot(slot) => write!(f, "#{slot}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Path, kind, permissions.
    Create(String, FileType, u16),
    /// Path, target.
    Symlink(String, String),
    /// Existing path, new path.
    Link(String, String),
    Unlink(String),
    Rmdir(String),
    Rename(String, String, Rename),
    Open(u8, String),
    Close(u8),
    /// Offset, bytes, fill.
    Write(Target, u64, u64, u8),
    Truncate(Target, u64),
    Read(Target, u64, u64),
    Chmod(String, u16),
    Chown(String, u32, u32),
    /// Path, last read and last change in seconds.
    Times(String, i64, i64),
    /// Path, name, bytes, fill.
    SetXattr(String, String, u64, u8, SetXattr),
    RemoveXattr(String, String),
    SyncFile(Target),
    Sync,
    Background,
}

/// What an operation gave: how much, or an errno.
pub type Outcome = Result<Answer, i32>;

#[derive(Clone, PartialEq, Eq)]
pub enum Answer {
    Done,
    Number(u64),
    Bytes(Vec<u8>),
    /// It makes no sense here, and was not executed: reading a pipe, an empty slot.
    Skipped,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Done => write!(f, "done"),
            Answer::Number(number) => write!(f, "{number}"),
            Answer::Bytes(bytes) => write!(f, "{} bytes {:02x?}", bytes.len(), &bytes[..bytes.len().min(16)]),
            Answer::Skipped => write!(f, "skipped"),
        }
    }
}

/// The bytes that a write with this `fill` puts at an offset. Never zero, so that they differ from holes; they
/// depend on the place, so that a chunk at the wrong place shows.
pub fn pattern(fill: u8, offset: u64, bytes: u64) -> Vec<u8> {
    (offset..offset + bytes).map(|at| 1 + ((u64::from(fill) * 37 + at * 11 + at / 256 * 7) % 255) as u8).collect()
}

const DIRECTORIES: [&str; 8] = ["", "", "", "/d", "/d", "/e", "/d/f", "/e/g"];
/// `d` to `g` are files in some runs and directories in others, so that every wrong kind comes up.
const NAMES: [&str; 9] = ["a", "b", "c", "a", "b", "d", "e", "f", "g"];
const FILES: [&str; 8] = ["a", "b", "c", "a", "b", "c", "f", "a name that is longer than most"];
const NEW_DIRECTORIES: [&str; 8] = ["d", "e", "d", "e", "f", "g", "f", "a"];
const XATTRS: [&str; 3] = ["user.a", "user.b", "trusted.c"];

/// What an operation's bytes choose from.
pub struct Decoder {
    offsets: Vec<u64>,
    lengths: Vec<u64>,
    sizes_of_xattrs: Vec<u64>,
}

fn pick<T: Clone>(from: &[T], by: u8) -> T {
    from[usize::from(by) % from.len()].clone()
}

impl Decoder {
    pub fn new(shape: &Shape) -> Decoder {
        let chunk = shape.chunk_bytes();
        let mut offsets = vec![0, 0, 0, 1, 7, 30];
        for edge in [chunk, 2 * chunk, 3 * chunk, 5 * chunk, 9 * chunk, 17 * chunk] {
            offsets.extend([edge - 1, edge, edge + 1, edge - chunk / 2]);
        }
        let lengths =
            vec![1, 8, 100, chunk - 1, chunk, chunk, chunk + 1, 2 * chunk, 3 * chunk, 5 * chunk + 7, 12 * chunk];
        Decoder { offsets, lengths, sizes_of_xattrs: vec![0, 5, 40, 200, chunk] }
    }

    fn path(&self, a: u8, b: u8) -> String {
        path(&NAMES, a, b)
    }

    pub fn decode(&self, word: [u8; 8]) -> Op {
        let [what, a, b, c, d, e, fill, mode] = word;
        let at = self.path(a, b);
        let target = if a >= 216 { Target::Slot(b % 3) } else { Target::Path(path(&FILES, a, b)) };
        let offset = if mode >= 224 { pick(&self.offsets, c) / 3 } else { pick(&self.offsets, c) };
        let bytes = pick(&self.lengths, d);
        match what % 64 {
            0..=6 => {
                let kinds = [FileType::Fifo, FileType::Socket, FileType::CharDevice];
                let kind = if mode < 224 { FileType::Regular } else { pick(&kinds, mode) };
                Op::Create(path(&FILES, a, b), kind, u16::from(fill) & 0o777)
            }
            7 => Op::Create(format!("{at}{}", "y".repeat(230 + usize::from(e % 40))), FileType::Regular, 0o644),
            8..=11 => Op::Create(path(&NEW_DIRECTORIES, a, b), FileType::Directory, u16::from(fill) | 0o700),
            12 => Op::Symlink(at, "target/".repeat(usize::from(e) % 24 + 1)),
            13..=16 => Op::Link(at, self.path(c, d)),
            17..=21 => Op::Unlink(at),
            22 | 23 => Op::Rmdir(at),
            24..=28 => {
                let how = pick(&[Rename::Replace, Rename::Replace, Rename::Replace, Rename::NoReplace], mode);
                Op::Rename(at, self.path(c, d), how)
            }
            29 => Op::Open(e % 3, path(&FILES, a, b)),
            30 => Op::Close(e % 3),
            31..=46 => Op::Write(target, offset, bytes, fill),
            47..=50 => Op::Truncate(target, offset),
            51 | 52 => Op::Read(target, offset, bytes),
            53 => Op::Chmod(at, u16::from(fill) | 0o4000),
            54 => Op::Chown(at, u32::from(fill), u32::from(mode)),
            55 => Op::Times(at, i64::from(fill) - 9, NOW_S + i64::from(mode)),
            56..=58 => {
                let how = pick(&[SetXattr::Any, SetXattr::Any, SetXattr::Create, SetXattr::Replace], mode);
                Op::SetXattr(at, pick(&XATTRS, e).into(), pick(&self.sizes_of_xattrs, d), fill, how)
            }
            59 => Op::RemoveXattr(at, pick(&XATTRS, e).into()),
            60 | 61 => Op::SyncFile(target),
            62 => Op::Sync,
            _ => Op::Background,
        }
    }

    pub fn random(&self, random: &mut Random) -> Op {
        self.decode(random.next_u64().to_le_bytes())
    }
}

fn path(names: &[&str], a: u8, b: u8) -> String {
    format!("{}/{}", pick(&DIRECTORIES, a), pick(names, b))
}
