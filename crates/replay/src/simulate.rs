//! The simulator: an activity runs on a device under a governor, event by event, in whole nanoseconds.
//!
//! Work is counted in kHz * ns, a millionth of a cycle, so that progress at any frequency is a whole number. A
//! computing segment ends at the first whole nanosecond at which its work is done. The rules:
//!
//! - **Cores.** Thread `i` runs on core `i` modulo the cores on-line, for good. Threads that are ready on one core
//!   share it evenly, round robin: the one that is ready longest comes next, and one that had the core for 3 ms
//!   gives way as soon as another one is ready. (An activity knows no priorities. 3 ms is what Linux's fair
//!   scheduler gives each of two equal threads of its period of 6 ms.) A change of threads takes no time.
//! - **Operations.** A delay counts from the end of the operation before. An operation starts when its thread is
//!   on a core after that; its response time counts from the moment it was wanted, and so contains the wake-up
//!   and the wait for a core. In a batch, that moment counts from the end of the pause before the batch.
//!   With busy-waiting the delays of threads that count are spent on the core.
//! - **Idle states.** A core whose threads all wait is idle. It enters the deepest state whose `least_ns` is not
//!   above the idle time that follows, which is known; the shallowest where there is none. It runs `exit_ns` after
//!   the wake-up; until then it is waking: it uses the shallowest state's power, and counts as idle to governors.
//! - **Awake.** A core is awake while it runs, wakes up, or is in the shallowest of several idle states. A state
//!   that is the only one, or a deeper one, lets cluster and device sleep. While any core is awake, the
//!   cluster's shared part and the device's `awake_mw` are paid, else `asleep_mw`. Memory is paid while any core runs.
//! - **Power of a core** that runs is its operating point's, whatever it does: computing, waiting for memory,
//!   looking at the clock, or standing still. Clusters that run nothing and cores that are off-line use nothing.
//! - **Storage** is one device: while several requests wait for it, the largest of their powers is paid, once.
//! - **Frequencies.** Each core has a domain where the cluster's clocks are its cores' own, else all share one;
//!   each domain has its governor. A domain whose cores have no thread is left out. A change is in force
//!   `transition_latency_ns` after its decision (or `transition_stall_ns`, if that is longer), and the domain's
//!   cores stand still for the last `transition_stall_ns` of it. A decision during a change is carried out after it,
//!   and only the newest one. What is decided at the start is in force at once.
//! - **Timers.** A governor's timer takes no time and wakes no core. A deferrable one waits for a busy core, and then
//!   for its kernel's next tick, where it has one. One
//!   that is asked for at a moment not after now expires now; asked for by a timer, 1 ns later. Ticks are at whole
//!   multiples of their period, while the core is busy. Asking for them is looked at whenever a core becomes busy.
//! - **iowait** is the idle time of a core while any of its threads waits for a device.
//! - **Hints** are of threads that count, and tell what a database knows for sure: that an operation starts (and how
//!   many of its batch follow), is about to wait for a device, goes on after that, and has ended (with a
//!   transaction or not). When the next one is due it knows within a batch alone: at once.
//! - At one moment the order is: frequencies, ends of work, wake-ups, cores that have woken, slices, timers, ticks;
//!   each by the number of domain or core.

mod domain;
mod machine;
mod meters;
mod thread;

use crate::activity::Activity;
use crate::device::{Cluster, Device};
use crate::governor::{Governor, Spec};
use crate::levers::Levers;
use crate::outcome::Replayed;
use pocketstone_core::Result;

/// Replays an activity.
///
/// # Errors
/// `ErrorKind::User` if the governor's settings do not fit the device; otherwise as [`simulate_with`].
pub fn simulate(activity: &Activity, device: &Device, governor: &Spec, levers: &Levers) -> Result<Replayed> {
    simulate_with(activity, device, &mut |cluster| governor.build(device, cluster), levers)
}

/// Replays an activity under governors of one's own: `build` makes one for each frequency domain.
///
/// # Errors
/// `ErrorKind::User` if the activity or a lever does not fit the device; the error of `build`; `ErrorKind::Bug` if a
/// governor chooses a frequency that the cluster does not have.
pub fn simulate_with(
    activity: &Activity,
    device: &Device,
    build: &mut dyn FnMut(&Cluster) -> Result<Box<dyn Governor>>,
    levers: &Levers,
) -> Result<Replayed> {
    let applied = levers.apply(activity, device)?;
    machine::Machine::new(&applied, device, levers, build)?.run()
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod scenarios_governor;
#[cfg(test)]
pub(crate) mod testing;
