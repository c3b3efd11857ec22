//! Between the volume's words and FUSE's.

use crate::wire::abi::statx;
use crate::wire::{Attributes, More, SetAttributes, SetTime, Time};
use pocketstone_vfs::{Attr, FileType, Ino, Protection, SetAttr, TimeNs};

const SECOND: TimeNs = 1_000_000_000;

/// The kind of object that mknod(2) is to make.
pub(crate) fn kind_of_mode(mode: u32) -> Option<FileType> {
    // No type at all means a regular file.
    let kind = if mode & 0o170_000 == 0 { Some(FileType::Regular) } else { FileType::of_mode(mode) };
    kind.filter(|kind| !matches!(kind, FileType::Directory | FileType::Symlink))
}

/// The `d_type` of a directory's entry.
pub(crate) fn entry_kind(kind: FileType) -> u32 {
    u32::from(kind.mode_bits()) >> 12
}

/// The kernel uses only numbers that it got from here.
pub(crate) fn ino(node: u64) -> Ino {
    Ino::try_from(node).unwrap_or(Ino::MAX)
}

pub(crate) fn attributes(attr: &Attr) -> Attributes {
    Attributes {
        node: attr.ino.into(),
        generation: attr.generation.into(),
        size: attr.size,
        blocks: attr.allocated.div_ceil(512),
        atime: time(attr.atime_ns),
        mtime: time(attr.mtime_ns),
        ctime: time(attr.ctime_ns),
        mode: u32::from(attr.kind.mode_bits()) | u32::from(attr.permissions),
        links: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        block_bytes: 4096,
        kept: true,
    }
}

/// What statx(2) tells beyond that. `None`: whether anything protects it is not known.
pub(crate) fn more(attr: &Attr, protection: Option<Protection>) -> More {
    let flag = |is: bool, flag: u64| if is { flag } else { 0 };
    let flags = |p: Protection| flag(p.immutable, statx::ATTR_IMMUTABLE) | flag(p.append_only, statx::ATTR_APPEND);
    let known_flags = flag(protection.is_some(), statx::ATTR_IMMUTABLE | statx::ATTR_APPEND);
    More { btime: time(attr.btime_ns), flags: protection.map_or(0, flags), known_flags }
}

fn time(ns: TimeNs) -> Time {
    Time { seconds: ns.div_euclid(SECOND), nanoseconds: ns.rem_euclid(SECOND) as u32 }
}

/// By the clock that the volume goes by: a finer one would put "now" after a change that follows it.
pub(crate) fn now_ns() -> TimeNs {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    now.tv_sec.saturating_mul(SECOND).saturating_add(now.tv_nsec as TimeNs)
}

fn time_ns(time: Time) -> TimeNs {
    time.seconds.saturating_mul(SECOND).saturating_add(time.nanoseconds.into())
}

fn given_ns(time: SetTime) -> TimeNs {
    match time {
        SetTime::Now => now_ns(),
        SetTime::To(time) => time_ns(time),
    }
}

/// Whether times are those that the kernel had collected: they come with a file, and are nobody's choice.
pub(crate) fn is_collected(given: &SetAttributes) -> bool {
    given.size.is_none() && given.of_file
}

/// What is to change. `collects`: the kernel collects writes.
pub(crate) fn change(given: &SetAttributes, collects: bool) -> SetAttr {
    let by_clock = match (given.atime, given.mtime) {
        // The kernel that collects writes takes its own time for "now".
        (Some(SetTime::Now), _) if collects => true,
        (Some(SetTime::To(_)), _) | (_, Some(SetTime::To(_))) => false,
        _ => true,
    };
    let owner = given.uid.is_some() || given.gid.is_some();
    let times_alone = given.mode.is_none() && !owner && given.size.is_none();
    SetAttr::default()
        .permissions(given.mode.map(|mode| (mode & 0o7777) as u16))
        .uid(given.uid)
        .gid(given.gid)
        .size(given.size)
        .atime_ns(given.atime.map(given_ns))
        .mtime_ns(given.mtime.map(given_ns))
        .ctime_ns(given.ctime.map(time_ns))
        .implied(times_alone && (by_clock || is_collected(given)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_way_there_and_back() {
        for ns in [0, 1, -1, 1_700_000_000_123_456_789, -5_000_000_001, TimeNs::MAX, TimeNs::MIN + SECOND] {
            assert_eq!(time_ns(time(ns)), ns);
        }
    }

    #[test]
    fn a_time_before_1970_means_what_the_kernel_means() {
        // utimensat(2): the nanoseconds are added to the seconds, also to negative ones.
        let quarter = Time { seconds: -2, nanoseconds: 750_000_000 };
        assert_eq!(time_ns(quarter), -1_250_000_000);
        assert_eq!(time(-1_250_000_000), quarter);
        assert_eq!(time_ns(Time { seconds: i64::MAX, nanoseconds: 1 }), TimeNs::MAX);
    }

    #[test]
    fn modes_have_kinds() {
        assert_eq!(kind_of_mode(0o100_644), Some(FileType::Regular));
        assert_eq!(kind_of_mode(0o010_644), Some(FileType::Fifo));
        assert_eq!(kind_of_mode(0o040_755), None);
        // DT_DIR and DT_LNK of readdir(3).
        assert_eq!((entry_kind(FileType::Directory), entry_kind(FileType::Symlink)), (4, 10));
    }
}
