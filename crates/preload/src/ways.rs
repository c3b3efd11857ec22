//! Which ways calls go, and how many went which.

use core::sync::atomic::{AtomicBool, AtomicU64};
use pocketstone_lease::Why;

/// Which way the bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
}

macro_rules! reasons {
    ($($name:ident $text:literal,)*) => {
        /// Why this library leaves a call to the kernel without asking the mount's table.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub enum Reason { $($name,)* }
        /// The reasons in words.
        pub const REASONS: &[&str] = &[$($text,)*];
    };
}

reasons! {
    FewCalls "few calls",
    Number "number of the descriptor",
    Length "no bytes or too many",
    Address "address",
    NotRegular "not a regular file",
    NotOnMount "not on a mount",
    TooManyMounts "too many mounts",
    NotAttached "not attached",
    Attaching "attaching",
    OtherProcess "child of vfork",
    NotAllowed "file left to the kernel",
    Changed "descriptor means another file",
    Rest "after calls that had to go there",
    Access "access mode",
    Append "append",
    Sync "sync",
    ReadsOnly "reads only",
    Limit "size limit",
    Offset "offset",
    Shared "offset that others may move, too",
    MapsOff "maps by the kernel",
    Stopped "stopped",
    Off "off",
}

/// Direct, by each [`Reason`], by each [`Why`].
const WAYS: usize = 1 + REASONS.len() + Why::COUNT;

/// How a call went.
#[derive(Clone, Copy)]
pub enum Way {
    Direct,
    Kernel(Reason),
    Mount(Why),
}

/// Counts, zeros at first, and again in a child.
pub struct Counts {
    pub reads: [Count; WAYS],
    pub writes: [Count; WAYS],
    pub maps: [Count; WAYS],
    pub syncs: [Count; WAYS],
    /// The report was written.
    pub written: AtomicBool,
}

/// Calls that went one way.
pub struct Count {
    pub calls: AtomicU64,
    pub bytes: AtomicU64,
}
