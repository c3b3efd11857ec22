//! Governors: who decides how fast a processor runs.
//!
//! A governor sees what a kernel's sees: how long its cores were busy, and when they start and stop. It is told of
//! moments, and answers with a frequency and the next moment it wants to be told of.

pub mod about;
mod bias;
mod choose;
pub mod conservative;
pub mod database;
mod estimate;
pub mod fixed;
pub mod interactive;
mod kernel;
pub mod ondemand;
pub mod ondemand_legacy;
mod pelt;
mod sampling;
pub mod schedutil;
mod spec;
pub mod tunables;

pub(crate) use kernel::DEFAULT_HZ;
use pocketstone_core::hint::Hint;
pub use spec::Spec;

/// A governor of one frequency domain: the cores that share a clock.
pub trait Governor {
    /// Its answer to a moment.
    fn decide(&mut self, moment: Moment, domain: &Domain<'_>) -> Decision;

    /// The load of its busiest core that governors of other domains see, in per cent; 0 for those that tell none.
    fn load(&self) -> u64 {
        0
    }

    /// Whether it wants to be told [`Moment::Tick`] while a core is busy, and how often.
    fn tick_ns(&self) -> Option<u64> {
        None
    }
}

/// Moments that a governor is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The replay starts: all cores are idle.
    Start,
    /// The timer that it asked for has expired.
    Timer,
    /// The scheduler's tick on a busy core.
    Tick {
        /// Which core of the domain.
        core: usize,
    },
    /// A core has nothing more to run.
    IdleEntry {
        /// Which core of the domain.
        core: usize,
    },
    /// A core was idle and gets something to run.
    IdleExit {
        /// Which core of the domain.
        core: usize,
        /// Whether what it runs had waited for a device.
        from_io: bool,
    },
    /// A thread becomes ready on a core that is busy already.
    Wakeup {
        /// Which core of the domain.
        core: usize,
        /// Whether it had waited for a device.
        from_io: bool,
    },
    /// A database says something about the thread that runs, or just ran, on a core.
    Hint {
        /// Which core of the domain.
        core: usize,
        /// What it says.
        hint: Hint,
    },
}

/// What a governor sees.
#[derive(Debug, Clone, Copy)]
pub struct Domain<'a> {
    /// Time since the replay's start.
    pub now_ns: u64,
    /// The frequency in force, or the one decided for where a transition is under way.
    pub khz: u32,
    /// Frequencies that can be chosen, ascending, in kHz.
    pub frequencies_khz: &'a [u32],
    /// The domain's cores.
    pub cores: &'a [CoreTimes],
    /// What is known of the cores of other domains.
    pub others: Others,
}

/// What governors of other domains told of their cores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Others {
    /// Cores on-line that are not the domain's.
    pub cores: u32,
    /// The highest load of one, in per cent.
    pub load: u64,
    /// The highest frequency of one; 0 where there is none.
    pub khz: u32,
}

/// What a core did since the replay's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CoreTimes {
    /// Time busy; stalls and busy-waiting count.
    pub busy_ns: u64,
    /// Time idle while a thread that last ran on it waits for a device.
    pub iowait_ns: u64,
    /// Whether it is busy now.
    pub busy: bool,
}

/// What a governor answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Decision {
    /// The frequency to go to, one of the domain's; `None` leaves it.
    pub khz: Option<u32>,
    /// What to do with its timer.
    pub timer: TimerRequest,
}

/// What a governor wants its timer to do. It has one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TimerRequest {
    /// It stays as it is: armed until the moment asked for earlier, or off.
    #[default]
    Keep,
    /// It is off.
    Off,
    /// It expires at a moment.
    At {
        /// Time since the replay's start.
        at_ns: u64,
        /// Whether it waits, once expired, for a core of the domain to become busy.
        deferrable: bool,
        /// Where it waited, it expires at a whole multiple of this: a kernel's tick, or 1 for at once.
        tick_ns: u64,
    },
}

/// The lowest of the frequencies (ascending, not empty) that is at least `khz`; the highest where none is.
pub fn at_least(frequencies_khz: &[u32], khz: u64) -> u32 {
    let at = frequencies_khz.partition_point(|f| u64::from(*f) < khz);
    frequencies_khz[at.min(frequencies_khz.len() - 1)]
}

/// The highest of the frequencies (ascending, not empty) that is at most `khz`; the lowest where none is.
pub fn at_most(frequencies_khz: &[u32], khz: u64) -> u32 {
    let above = frequencies_khz.partition_point(|f| u64::from(*f) <= khz);
    frequencies_khz[above.saturating_sub(1)]
}

/// The frequency (of ascending ones, not empty) that is nearest to `khz`; the lower of two that are as near.
pub fn nearest(frequencies_khz: &[u32], khz: u64) -> u32 {
    let (below, above) = (at_most(frequencies_khz, khz), at_least(frequencies_khz, khz));
    if u64::from(above).abs_diff(khz) < u64::from(below).abs_diff(khz) { above } else { below }
}
