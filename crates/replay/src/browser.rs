//! The replay as a page calls it: requests and answers in JSON, the same in a browser's WebAssembly and here.
//!
//! ```text
//! {"do": "hold", "devices": [Device], "activities": [BASE64 of packed]}      -> {"ok": null}
//! {"do": "replay", "device": NAME, "activity": 0, "governor": "interactive{...}",
//!  "levers": {"delay": "lognormal:6ms"}, "window_ns": [0, 1000000000]}               -> {"ok": Answer}
//! {"do": "front", "device": NAME, "activity": 0, "levers": {}}                        -> {"ok": Least}
//! anything wrong                                                                      -> {"error": .., "hint": ..}
//! ```
//! Levers that are left out have their defaults. Built for `wasm32-unknown-unknown` this crate exports `take`,
//! `give_back` and `answer`; see [`exports`](self) at the end of this file.

mod packed;

pub use packed::{base64, bytes_of_base64, pack, shortened, unpack};

use crate::activity::Activity;
use crate::bound;
use crate::device::Device;
use crate::governor::Spec;
use crate::levers::Levers;
use crate::outcome::{Energy, FrequencyChange, Replayed, Residency};
use crate::simulate::simulate;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Points of an answer's frequency line, over all domains; beyond it is thinned.
pub const POINTS: usize = 2000;

/// What a request may ask for.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
enum Request {
    Hold {
        devices: Vec<Value>,
        activities: Vec<String>,
    },
    Replay(Replay),
    Front {
        device: String,
        activity: usize,
        #[serde(default)]
        levers: Value,
    },
}

/// A replay that is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replay {
    device: String,
    activity: usize,
    governor: Spec,
    #[serde(default)]
    levers: Value,
    #[serde(default)]
    window_ns: Option<(u64, u64)>,
}

/// A replayed run in the few numbers that a page shows. Modelled, never measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Answer {
    /// Operations that count.
    pub operations: u64,
    /// Mean of their latencies; `None` where there is no operation.
    pub mean_latency_ns: Option<f64>,
    /// Their 99th percentile by nearest rank: the smallest latency that at least 99% do not exceed.
    pub p99_latency_ns: Option<u64>,
    /// Mean time from when an operation was wanted until its end.
    pub mean_response_ns: Option<f64>,
    /// From the start until the last operation's end.
    pub run_ns: u64,
    /// Time that cores were busy with threads that count.
    pub busy_ns: u64,
    /// Energy by part.
    pub energy: Energy,
    /// All of it.
    pub total_mj: f64,
    /// Number of frequency changes after the start.
    pub transitions: u64,
    /// Time at each frequency.
    pub residency: Vec<Residency>,
    /// Each domain's frequency: the domain, and from when which one was in force, in ns and kHz.
    pub frequencies: Vec<(u16, Vec<(u64, u32)>)>,
    /// Whether the lines leave out changes.
    pub thinned: bool,
}

impl Answer {
    /// Sums a replay up, with the frequencies of a window (`None`: of the whole run) as at most `points` points.
    pub fn of(replayed: &Replayed, window_ns: Option<(u64, u64)>, points: usize) -> Answer {
        let (frequencies, thinned) = lines(&replayed.frequencies, window_ns.unwrap_or((0, replayed.run_ns)), points);
        Answer {
            operations: replayed.operations.len() as u64,
            mean_latency_ns: replayed.mean_latency_ns(),
            p99_latency_ns: replayed.p99_latency_ns(),
            mean_response_ns: replayed.mean_response_ns(),
            run_ns: replayed.run_ns,
            busy_ns: replayed.busy_ns,
            energy: replayed.energy,
            total_mj: replayed.energy.total_mj(),
            transitions: replayed.transitions,
            residency: replayed.residency.clone(),
            frequencies,
            thinned,
        }
    }
}

type Lines = Vec<(u16, Vec<(u64, u32)>)>;

/// The frequencies in force in a window, by domain, and whether changes are left out.
fn lines(changes: &[FrequencyChange], (from, to): (u64, u64), points: usize) -> (Lines, bool) {
    let mut lines: Lines = Vec::new();
    for change in changes.iter().filter(|c| c.time_ns <= to) {
        let line = match lines.iter_mut().position(|l| l.0 == change.domain) {
            Some(at) => &mut lines[at].1,
            None => {
                lines.push((change.domain, Vec::new()));
                &mut lines.last_mut().expect("one was pushed").1
            }
        };
        // What was in force when the window starts stands at its start.
        let point = (change.time_ns.max(from), change.khz);
        match line.last_mut() {
            Some(last) if last.0 == point.0 => *last = point,
            _ => line.push(point),
        }
    }
    lines.sort();
    let each = points / lines.len().max(1);
    let mut thinned = false;
    for (_, line) in &mut lines {
        if line.len() > each {
            *line = thin(line, from, to, each);
            thinned = true;
        }
    }
    (lines, thinned)
}

/// At most about `points` points: of each of many equal parts of the window the first, the lowest, the highest and
/// the last, in order.
fn thin(line: &[(u64, u32)], from: u64, to: u64, points: usize) -> Vec<(u64, u32)> {
    let parts = (points / 4).max(1) as u128;
    let part = |time: u64| u128::from(time - from) * parts / u128::from((to - from).max(1) + 1);
    line.chunk_by(|a, b| part(a.0) == part(b.0))
        .flat_map(|chunk| {
            let khz = |i: &usize| chunk[*i].1;
            let all = || 0..chunk.len();
            let mut kept = [0, all().min_by_key(khz).unwrap_or(0), all().max_by_key(khz).unwrap_or(0), chunk.len() - 1];
            kept.sort_unstable();
            let mut kept = kept.to_vec();
            kept.dedup();
            kept.into_iter().map(|i| chunk[i])
        })
        .collect()
}

/// What requests work on: devices and activities that were given before.
#[derive(Debug, Default)]
pub struct Held {
    devices: Vec<Device>,
    activities: Vec<Activity>,
}

impl Held {
    /// The answer to a request, as JSON.
    pub fn answer(&mut self, request: &str) -> String {
        let answer = serde_json::from_str(request).user(|| "a request cannot be read".into());
        let answer = answer.and_then(|r| self.carry_out(r));
        let answer = match answer {
            Ok(value) => json!({ "ok": value }),
            Err(error) => json!({ "error": error.chain(), "hint": error.cure() }),
        };
        answer.to_string()
    }

    fn carry_out(&mut self, request: Request) -> Result<Value> {
        match request {
            Request::Hold { devices, activities } => {
                let device = |value| serde_json::from_value(value).user(|| "a device cannot be read".into());
                self.devices = devices.into_iter().map(device).collect::<Result<_>>()?;
                self.activities = activities.iter().map(|text| activity(text)).collect::<Result<_>>()?;
                Ok(Value::Null)
            }
            Request::Replay(r) => {
                let (device, activity) = self.find(&r.device, r.activity)?;
                let replayed = simulate(activity, device, &r.governor, &levers(r.levers)?)?;
                let window = r.window_ns.map(|(from, to)| (from.min(to), to.min(replayed.run_ns).max(from.min(to))));
                serde_json::to_value(Answer::of(&replayed, window, POINTS))
                    .user(|| "an answer is not valid JSON".into())
            }
            Request::Front { device, activity, levers: given } => {
                let (device, activity) = self.find(&device, activity)?;
                Ok(json!(front(activity, device, &levers(given)?)?))
            }
        }
    }

    fn find(&self, device: &str, activity: usize) -> Result<(&Device, &Activity)> {
        let known = || self.devices.iter().map(|d| d.name.as_str()).collect::<Vec<_>>().join(", ");
        let found = self.devices.iter().find(|d| d.name == device);
        let found = found
            .ok_or_else(|| Error::user(format!("unknown device `{device}`")).hint(format!("devices: {}", known())))?;
        let of = self.activities.len();
        let run = self.activities.get(activity).ok_or_else(|| {
            Error::user(format!("no activity {activity}")).hint(format!("there are {of}, numbered from 0"))
        })?;
        Ok((found, run))
    }
}

/// The bound, by ascending mean latency: pairs of mean latency in ns and energy in mJ.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Least {
    /// For every governor: straight lines between these ([`bound::Front::corners`]).
    pub corners: Vec<(f64, f64)>,
    /// The best schedules with one frequency for each stretch on a core, thinned ([`bound::Front::points`]).
    pub schedules: Vec<(f64, f64)>,
}

/// Schedules of [`Least`] that are kept at most.
const SCHEDULES: usize = 120;

/// The bound as a page shows it.
///
/// # Errors
/// `ErrorKind::User`, as [`bound::front`].
pub fn front(activity: &Activity, device: &Device, levers: &Levers) -> Result<Least> {
    let front = bound::front(activity, device, levers)?;
    let mean = |total_ns: f64| total_ns / front.operations.max(1) as f64;
    Ok(Least {
        corners: front.corners.iter().map(|c| (mean(c.total_latency_ns), c.energy_mj)).collect(),
        schedules: front.curve(SCHEDULES - 1),
    })
}

fn activity(text: &str) -> Result<Activity> {
    unpack(&bytes_of_base64(text).ok_or_else(|| Error::user("an activity is not base64"))?)
}

/// The default levers with those that were given.
///
/// # Errors
/// `ErrorKind::User` for an unknown lever, or a value that a lever cannot have.
pub fn levers(given: Value) -> Result<Levers> {
    let Value::Object(mut all) = serde_json::to_value(Levers::default()).user(|| "levers are not valid JSON".into())?
    else {
        return Err(Error::bug("levers are not a JSON object"));
    };
    let given = match given {
        Value::Null => serde_json::Map::new(),
        Value::Object(given) => given,
        other => return Err(Error::user(format!("levers are an object, not {other}"))),
    };
    for (name, value) in given {
        let Some(lever) = all.get_mut(&name) else {
            let known = all.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(Error::user(format!("unknown lever `{name}`")).hint(format!("levers: {known}")));
        };
        *lever = value;
    }
    serde_json::from_value(Value::Object(all)).user(|| "invalid value of a lever".into())
}

#[cfg(target_arch = "wasm32")]
mod exports;

#[cfg(test)]
mod tests;
