//! `database`: the governor that a database informs.
//!
//! A governor that samples learns of an operation when it is over: one of about a million cycles ends within the
//! first sampling period. The database knows when an operation starts, and how many wait behind it. So the speed
//! is not derived from a load that was, but from what a cycle costs on this device:
//!
//! ```text
//! least over f of   (busy power at f + price x waiting operations) / f
//! ```
//! The busy power includes everything that is awake only because the core is ([`crate::bound::busy_mw`]): too slow
//! a core keeps all that awake for longer, too fast a one needs a higher voltage. With a price of 0 this is the
//! operating point with the least energy for a cycle, and neither a slower nor a dearer one is ever chosen. The
//! price is what a waiting operation is worth, in milliwatts: it is the slope of the bound's front, so that a
//! core that is held at this point takes as little energy as any policy that is as fast (docs/database-governor.md).
//!
//! What it asks for is what a thread can ask a kernel for: a least and a greatest utilisation (the same, here) on
//! top of schedutil, which the kernel keeps while the thread sleeps and applies as it wakes, before any sample. Where
//! the core runs something else while the thread waits for a device, schedutil alone decides.
//!
//! | Tunable | Unit | Default | |
//! |---|---|---|---|
//! | `waiting_percent` | % | 10 | the price of a waiting operation: part of the busy power at the efficient point |
//! | `most_waiting` | operations | 8 | more than these behind one another change nothing |
//! | `rate_limit_us` | us | 1.5 x the transition latency, at most 2000 | least time between two changes |

use super::{Decision, Domain, Governor, Moment, at_least};
use crate::bound::busy_mw;
use crate::device::{Cluster, Device};
use pocketstone_core::hint::Hint;
use pocketstone_core::{Error, Result};
use std::collections::BTreeMap;

/// The governor's tunables, by name.
pub const TUNABLES: &[&str] = &["waiting_percent", "most_waiting", "rate_limit_us"];
/// How often a busy core is looked at where schedutil does not say: 250 ticks in a second.
const TICK_NS: u64 = 4_000_000;
/// Longest least time between two changes: schedutil's.
const MOST_RATE_LIMIT_NS: u64 = 2_000_000;

/// What is known of the thread that hints come from, on one core.
#[derive(Debug, Clone, Copy, Default)]
struct Hinted {
    /// The point that it asks for, once it has said anything.
    khz: Option<u32>,
    /// Whether it waits for a device: what the core runs meanwhile is not it.
    blocked: bool,
}

/// The governor. One thread with hints to a core is what it is made for.
pub struct DatabaseInformed {
    schedutil: Box<dyn Governor>,
    /// What schedutil chose last.
    schedutil_khz: Option<u32>,
    /// Frequency and busy power in mW, ascending.
    points: Vec<(u32, f64)>,
    price_mw: f64,
    most_waiting: u32,
    rate_limit_ns: u64,
    changed_ns: Option<u64>,
    cores: Vec<Hinted>,
}

impl DatabaseInformed {
    /// On top of schedutil, for one domain of a cluster; `tunables` by name, as text.
    ///
    /// # Errors
    /// `ErrorKind::User` if a tunable is unknown or not a number in its range, or the cluster has no operating point.
    pub fn new(
        device: &Device,
        cluster: &Cluster,
        tunables: &BTreeMap<String, String>,
        schedutil: Box<dyn Governor>,
    ) -> Result<DatabaseInformed> {
        if let Some(unknown) = tunables.keys().find(|name| !TUNABLES.contains(&name.as_str())) {
            return Err(Error::user(format!("the governor database has no tunable `{unknown}`"))
                .hint(format!("its tunables: {}", TUNABLES.join(", "))));
        }
        let busy_mw = busy_mw(device, cluster, cluster.cores);
        let points: Vec<(u32, f64)> = cluster.points.iter().map(|p| p.khz).zip(busy_mw).collect();
        let efficient_mw = cheapest(&points, 0.0)
            .map(|(_, power_mw)| power_mw)
            .ok_or_else(|| Error::user(format!("cluster `{}` of {} has no frequency", cluster.name, device.name)))?;
        let limit_ns = (cluster.transition_latency_ns.saturating_mul(3) / 2).min(MOST_RATE_LIMIT_NS);
        let number = |name: &str, default: f64, most: f64| match tunables.get(name) {
            None => Ok(default),
            Some(text) => text.parse().ok().filter(|n| (0.0..=most).contains(n)).ok_or_else(|| {
                Error::user(format!("`{text}` is not a valid {name}")).hint(format!("a number from 0 to {most}"))
            }),
        };
        Ok(DatabaseInformed {
            schedutil,
            schedutil_khz: None,
            points,
            price_mw: efficient_mw * number("waiting_percent", 10.0, 100_000.0)? / 100.0,
            most_waiting: number("most_waiting", 8.0, 1e6)? as u32,
            rate_limit_ns: (number("rate_limit_us", limit_ns as f64 / 1e3, 1e9)? * 1e3) as u64,
            changed_ns: None,
            cores: Vec::new(),
        })
    }

    /// The point for an operation with `following` others behind it, in kHz.
    pub fn point_khz(&self, following: u32) -> u32 {
        let waiting = following.min(self.most_waiting) + 1;
        cheapest(&self.points, self.price_mw * f64::from(waiting)).map_or(0, |(khz, _)| khz)
    }

    /// Takes what a moment tells of the thread with hints.
    fn hear(&mut self, moment: Moment, domain: &Domain<'_>) {
        self.cores.resize(domain.cores.len().max(self.cores.len()), Hinted::default());
        let (core, hint) = match moment {
            Moment::Hint { core, hint } => (core, hint),
            // The device has answered the thread itself, and its clamp counts from its wake-up on.
            Moment::IdleExit { core, from_io: true } => (core, Hint::Resumes),
            _ => return,
        };
        let asked = match hint {
            Hint::OperationStarts { following } => {
                Some(at_least(domain.frequencies_khz, self.point_khz(following).into()))
            }
            _ => None,
        };
        let Some(thread) = self.cores.get_mut(core) else { return };
        match hint {
            Hint::OperationStarts { .. } => *thread = Hinted { khz: asked, blocked: false },
            Hint::Blocks => thread.blocked = true,
            // The clamp stays until the next operation: it costs nothing while the thread sleeps.
            Hint::Resumes | Hint::OperationEnds { .. } => thread.blocked = false,
        }
    }

    /// The frequency that the busy cores need; `None` where all are idle.
    fn needed_khz(&self, moment: Moment, domain: &Domain<'_>) -> Option<u32> {
        let schedutil_khz = self.schedutil_khz.unwrap_or(domain.khz);
        let busy = domain.cores.iter().zip(&self.cores).enumerate().filter(|(n, (core, _))| match moment {
            Moment::IdleEntry { core: idle } if idle == *n => false,
            // It is about to leave the core: what comes next there is not known yet.
            Moment::Hint { core: leaves, hint: Hint::Blocks } if leaves == *n => false,
            Moment::IdleExit { core: busy, .. } if busy == *n => true,
            _ => core.busy,
        });
        busy.map(|(_, (_, thread))| thread.khz.filter(|_| !thread.blocked).unwrap_or(schedutil_khz)).max()
    }
}

/// The point at which a cycle is cheapest with a price on time; the faster one of equals.
fn cheapest(points: &[(u32, f64)], price_mw: f64) -> Option<(u32, f64)> {
    let cost = |(khz, power_mw): &(u32, f64)| (power_mw + price_mw) / f64::from(*khz);
    points.iter().rev().min_by(|a, b| cost(a).total_cmp(&cost(b))).copied()
}

impl Governor for DatabaseInformed {
    fn decide(&mut self, moment: Moment, domain: &Domain<'_>) -> Decision {
        let mut decision = Decision::default();
        if !matches!(moment, Moment::Hint { .. }) {
            // Schedutil goes on as if its own choice were in force.
            let own = Domain { khz: self.schedutil_khz.unwrap_or(domain.khz), ..*domain };
            decision = self.schedutil.decide(moment, &own);
            self.schedutil_khz = decision.khz.or(self.schedutil_khz);
        }
        self.hear(moment, domain);
        let due = self.changed_ns.is_none_or(|at| domain.now_ns >= at.saturating_add(self.rate_limit_ns));
        decision.khz = self.needed_khz(moment, domain).filter(|khz| due && *khz != domain.khz);
        if decision.khz.is_some() {
            self.changed_ns = Some(domain.now_ns);
        }
        decision
    }

    fn tick_ns(&self) -> Option<u64> {
        self.schedutil.tick_ns().or(Some(TICK_NS))
    }
}

#[cfg(test)]
mod tests;
