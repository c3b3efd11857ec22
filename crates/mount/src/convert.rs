//! Between the volume's words and FUSE's.

use fuser::{FileAttr, FileType as Kind, INodeNo, TimeOrNow};
use pocketstone_core::inode::{Attr, FileType, Ino, TimeNs};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) fn kind(kind: FileType) -> Kind {
    match kind {
        FileType::Regular => Kind::RegularFile,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::NamedPipe,
        FileType::CharDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Socket => Kind::Socket,
    }
}

/// The kind of object that mknod(2) is to make.
pub(crate) fn kind_of_mode(mode: u32) -> Option<FileType> {
    // No type at all means a regular file.
    let kind = if mode & 0o170_000 == 0 { Some(FileType::Regular) } else { FileType::of_mode(mode) };
    kind.filter(|kind| !matches!(kind, FileType::Directory | FileType::Symlink))
}

pub(crate) fn number(ino: Ino) -> INodeNo {
    INodeNo(ino.into())
}

/// The kernel uses only numbers that it got from here.
pub(crate) fn ino(number: INodeNo) -> Ino {
    Ino::try_from(number.0).unwrap_or(Ino::MAX)
}

pub(crate) fn attributes(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: number(attr.ino),
        size: attr.size,
        blocks: attr.allocated.div_ceil(512),
        atime: time(attr.atime_ns),
        mtime: time(attr.mtime_ns),
        ctime: time(attr.ctime_ns),
        crtime: time(attr.btime_ns),
        kind: kind(attr.kind),
        perm: attr.permissions,
        nlink: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: 4096,
        flags: 0,
    }
}

fn time(ns: TimeNs) -> SystemTime {
    let distance = Duration::from_nanos(ns.unsigned_abs());
    if ns >= 0 { UNIX_EPOCH + distance } else { UNIX_EPOCH - distance }
}

/// By the clock that the volume goes by: a finer one would put "now" after a change that follows it.
fn now_ns() -> TimeNs {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as TimeNs)
}

fn time_ns(time: SystemTime) -> TimeNs {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => TimeNs::try_from(after.as_nanos()).unwrap_or(TimeNs::MAX),
        Err(before) => TimeNs::try_from(before.duration().as_nanos()).map_or(TimeNs::MIN, |ns| -ns),
    }
}

/// A time that the kernel gave, or now.
pub(crate) fn given_ns(time: TimeOrNow) -> TimeNs {
    match time {
        TimeOrNow::Now => now_ns(),
        TimeOrNow::SpecificTime(time) => specific_ns(time),
    }
}

/// A time that the kernel gave. Before 1970 `fuser` 0.18 subtracts the nanoseconds from the epoch,
/// where the kernel means them to be added to the (negative) seconds.
pub(crate) fn specific_ns(time: SystemTime) -> TimeNs {
    match time.duration_since(UNIX_EPOCH) {
        Ok(_) => time_ns(time),
        Err(before) => {
            let distance = before.duration();
            let seconds = TimeNs::try_from(distance.as_secs()).unwrap_or(TimeNs::MAX);
            seconds.saturating_mul(-1_000_000_000).saturating_add(distance.subsec_nanos().into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_way_there_and_back() {
        for ns in [0, 1, -1, 1_700_000_000_123_456_789, -5_000_000_001, TimeNs::MAX] {
            assert_eq!(time_ns(time(ns)), ns);
        }
    }

    #[test]
    fn a_time_before_1970_means_what_the_kernel_meant() {
        // The kernel: -2 s + 0.75 s. fuser: epoch - 2.75 s.
        let from_fuser = UNIX_EPOCH - Duration::new(2, 750_000_000);
        assert_eq!(specific_ns(from_fuser), -1_250_000_000);
        assert_eq!(specific_ns(UNIX_EPOCH - Duration::from_secs(3)), -3_000_000_000);
    }

    #[test]
    fn modes_have_kinds() {
        assert_eq!(kind_of_mode(0o100_644), Some(FileType::Regular));
        assert_eq!(kind_of_mode(0o010_644), Some(FileType::Fifo));
        assert_eq!(kind_of_mode(0o040_755), None);
    }
}
