//! Seeded defects: each switches one thing off that crash safety needs. They exist only with the cargo
//! feature `defects`, for the test that shows that the crash tests find them.

/// Every defect: its number and what it does.
#[cfg(feature = "defects")]
pub const ALL: &[(u32, &str)] = &[
    (JOURNAL_FENCE, "a journal record is applied before it is durable"),
    (APPLY_FLUSH, "applied metadata is not flushed"),
    (APPLY_FENCE, "applied metadata is not fenced before the next record"),
    (RECORD_CRC, "recovery replays a record without checking its checksum"),
    (NO_REPLAY, "recovery does not replay the journal"),
    (REPLAY_OLDER, "replay overwrites newer versions of an inode"),
    (SAME_HALF, "an inode's version overwrites the one that counts"),
    (VERSION_CRC, "an inode's version is not checked when recovery reads it"),
    (DATA_FENCE, "a file's size is stored before the data is durable"),
    (SIZE_FLUSH, "a file's new version is not flushed"),
    (SIZE_FENCE, "a file's new version is not fenced"),
    (GAP_ZERO, "the gap between old end and new data is not zeroed"),
    (COPY_FENCE, "a file moves before its copy is durable"),
    (FREE_EARLY, "a file's old place is reused before the move is durable"),
    (RENAME_TWO, "rename removes the old name before it adds the new one"),
    (REPLACE_TWO, "rename frees the replaced file in a step of its own, first"),
    (LINK_COUNT, "link adds the name before it counts the link"),
    (CREATE_ORDER, "create stores the name before the inode"),
    (MAPPING_LATE, "huge pages enter the mapping table after the inode counts them"),
    (XATTR_FENCE, "an inode refers to extended attributes that are not durable"),
    (SYMLINK_FENCE, "a symbolic link's target is not durable when its name is"),
    (ATOMIC_IN_PLACE, "an atomic write writes in place"),
    (BATCH_APART, "the files of a batch change one after another"),
    (CLEAN_EARLY, "the volume is marked clean before its free map is durable"),
    (OPEN_CLEAN, "the volume stays marked clean while it is in use"),
    (ORPHANS_KEPT, "recovery keeps inodes that have no name"),
    (CHUNK_FENCE, "a huge page goes on with the inode table before it holds durable zeros"),
    (LIST_FENCE, "an inode refers to a list of extents that is not durable"),
    (SUM_KEPT, "a page's checksum is not durably gone before its content changes"),
    (SUM_EARLY, "a page gets its checksum before its content is durable"),
];

pub(crate) const JOURNAL_FENCE: u32 = 1;
pub(crate) const APPLY_FLUSH: u32 = 2;
pub(crate) const APPLY_FENCE: u32 = 3;
pub(crate) const RECORD_CRC: u32 = 4;
pub(crate) const NO_REPLAY: u32 = 5;
pub(crate) const REPLAY_OLDER: u32 = 6;
pub(crate) const SAME_HALF: u32 = 7;
pub(crate) const VERSION_CRC: u32 = 8;
pub(crate) const DATA_FENCE: u32 = 9;
pub(crate) const SIZE_FLUSH: u32 = 10;
pub(crate) const SIZE_FENCE: u32 = 11;
pub(crate) const GAP_ZERO: u32 = 12;
pub(crate) const COPY_FENCE: u32 = 13;
pub(crate) const FREE_EARLY: u32 = 14;
pub(crate) const RENAME_TWO: u32 = 15;
pub(crate) const REPLACE_TWO: u32 = 16;
pub(crate) const LINK_COUNT: u32 = 17;
pub(crate) const CREATE_ORDER: u32 = 18;
pub(crate) const MAPPING_LATE: u32 = 19;
pub(crate) const XATTR_FENCE: u32 = 20;
pub(crate) const SYMLINK_FENCE: u32 = 21;
pub(crate) const ATOMIC_IN_PLACE: u32 = 23;
pub(crate) const CLEAN_EARLY: u32 = 24;
pub(crate) const OPEN_CLEAN: u32 = 25;
pub(crate) const ORPHANS_KEPT: u32 = 26;
pub(crate) const LIST_FENCE: u32 = 27;
pub(crate) const CHUNK_FENCE: u32 = 28;
pub(crate) const SUM_KEPT: u32 = 29;
pub(crate) const SUM_EARLY: u32 = 30;
pub(crate) const BATCH_APART: u32 = 31;

#[cfg(feature = "defects")]
thread_local! {
    // Of a thread, so that tests of several defects can run side by side.
    static ACTIVE: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Switches one defect on for this thread, and all others off.
#[cfg(feature = "defects")]
pub fn set(defect: Option<u32>) {
    ACTIVE.with(|active| active.set(defect.unwrap_or(0)));
}

/// Whether a defect is switched on. Never, without the feature.
#[inline(always)]
pub(crate) fn on(defect: u32) -> bool {
    #[cfg(feature = "defects")]
    return ACTIVE.with(|active| active.get() == defect);
    #[cfg(not(feature = "defects"))]
    {
        let _ = defect;
        false
    }
}
