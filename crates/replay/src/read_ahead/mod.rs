//! Linux read-ahead, old and new: which pages of a file a sequence of requests reads from the medium, in which call,
//! and what that costs on a file system whose pages cost what they cost.
//!
//! ```text
//! requests (offset, bytes) --> Reader: OpenFile (rules, setting, window) --> pages read, by request
//!                                        |             ^                        |
//!                                        +-> PageCache +                        +--(Cost)--> page senses, ns
//! ```
//! Three sets of rules: 2.6.37 on 32 bits, with which the paper "Revisiting read-ahead efficiency for raw NAND flash
//! storage in embedded Linux" (EWiLi'14) was measured; 3.12 on 32 bits, the last before the comparison below was
//! mended; and 6.1, which the virtual board runs. They differ in what counts as sequential:
//!
//! | a miss that | 2.6.37 | 3.12 | 6.1 |
//! | --- | --- | --- | --- |
//! | is at page 0, or longer than the window | opens a window | the same | the same |
//! | is where the window expects it | gets the next window | the same | the same |
//! | is on the page of the access before, or the next | opens a window | the same | the same |
//! | **jumps backward** | opens a window | opens a window | is random |
//! | follows cached pages | opens a window after one | after more than it asks for | as 3.12 |
//! | anything else | reads what was asked for | the same | the same |
//!
//! The comparison of where a read is with where the last one was had signed numbers on 32 bits until 3.13 (commit
//! af248a0c6745), so that every jump backward counted as sequential. The rule on cached pages was made more careful
//! in the same year 2013 ("make context readahead more conservative").
//!
//! Covered: read() and pread() of any size and alignment, windows of any size and none, the file's end,
//! posix_fadvise NORMAL, SEQUENTIAL, RANDOM and WILLNEED, readahead(2), madvise, and page faults with read-around.
//! Left out: eviction, large folios, congestion, and what a file system reads on its own (UBIFS's `bulk_read`).
//! File systems that read one page at a time (JFFS2, UBIFS and YAFFS2 do) serve a whole pass inside the call that
//! started it, so that its time is that call's.
//!
//! All of it is modelled. It uses no clock and no randomness.

mod cache;
mod costs;
mod file;
mod log;
mod plan;
mod reader;
#[cfg(test)]
mod tests;
mod window;

pub use cache::{PAGE_BYTES, PageCache};
pub use costs::{Cost, Observed, PageCosts};
pub use file::{MapAdvice, Mapping, OpenFile};
pub use log::LoggedFiles;
pub use plan::{Medium, PlanWork};
pub use reader::{Reader, Work};

use serde::Serialize;

/// Whose rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Rules {
    /// Linux 2.6.37 on a 32-bit machine.
    #[serde(rename = "2.6.37-32bit")]
    Linux2_6_37,
    /// Linux 3.12 on a 32-bit machine.
    #[serde(rename = "3.12-32bit")]
    Linux3_12,
    /// Linux 6.1.
    #[serde(rename = "6.1")]
    Linux6_1,
}

impl Rules {
    /// All of them, from the oldest on.
    pub const ALL: [Rules; 3] = [Rules::Linux2_6_37, Rules::Linux3_12, Rules::Linux6_1];

    /// The name used in studies and results.
    pub fn name(self) -> &'static str {
        match self {
            Rules::Linux2_6_37 => "2.6.37-32bit",
            Rules::Linux3_12 => "3.12-32bit",
            Rules::Linux6_1 => "6.1",
        }
    }

    /// Whether they are those of the kernel that the virtual board runs.
    pub(crate) fn today(self) -> bool {
        self == Rules::Linux6_1
    }

    /// Whether a fault on the page after the last one's counts as sequential. Since 3.0 ("readahead: trigger mmap
    /// sequential readahead on PG_readahead") a marker a quarter before the end of what is read around tells it.
    pub(crate) fn follows_faults(self) -> bool {
        self == Rules::Linux2_6_37
    }
}

/// What a program said of a file by posix_fadvise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Advice {
    /// Nothing, or POSIX_FADV_NORMAL: the mount's window.
    Normal,
    /// POSIX_FADV_SEQUENTIAL: twice the mount's window.
    Sequential,
    /// POSIX_FADV_RANDOM: each miss reads what is asked for, as far as the window allows.
    Random,
}

/// Read-ahead in force for an open file, in pages of [`PAGE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The backing device's window (`read_ahead_kb`); 0 is off.
    pub mount_pages: u64,
    /// The backing device's best transfer: 0 on raw NAND, a disk's `max_sectors_kb`. Old kernels have none.
    pub io_pages: u64,
    /// The program's advice.
    pub advice: Advice,
}

impl Setting {
    /// A window of raw NAND, where the best transfer is 0, in bytes; a part of a page counts for nothing.
    pub fn raw_nand(window_bytes: u64, advice: Advice) -> Self {
        Setting { mount_pages: window_bytes / PAGE_BYTES, io_pages: 0, advice }
    }

    /// The largest window that the file gets.
    pub fn window_pages(&self) -> u64 {
        match self.advice {
            Advice::Sequential => 2 * self.mount_pages,
            Advice::Normal | Advice::Random => self.mount_pages,
        }
    }
}

/// One read() or pread(), or what a program touches of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Where.
    pub offset: u64,
    /// Bytes asked for.
    pub bytes: u64,
}
