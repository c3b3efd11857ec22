//! What a reader may try out: recorded runs, devices and governors, and the replay that computes them.

use pocketstone_replay::browser::{Answer, Least};
use pocketstone_replay::device::Device;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The page's part that replays runs at once. All of its numbers are modelled.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Explorer {
    /// Devices; the first is shown first, and so with all lists.
    pub devices: Vec<Device>,
    /// Recorded runs.
    pub runs: Vec<ExplorerRun>,
    /// Delays between operations: `recorded`, or a delay as studies write it. As with devices, the first ones are
    /// those that the grid has; the others need the module.
    pub delays: Vec<String>,
    /// Governors.
    pub governors: Vec<ExplorerGovernor>,
    /// Replays computed before, with the governors' tunables as the devices have them.
    pub grid: Vec<GridRow>,
    /// The bound of each device, run and delay.
    pub bounds: Vec<BoundRow>,
    /// The replay as a WebAssembly module.
    pub module: Option<Vec<u8>>,
    /// Why there is no module, and the cure.
    pub why_no_module: Option<(String, String)>,
}

/// A recorded run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ExplorerRun {
    /// Its name.
    pub name: String,
    /// Its workload, in words.
    pub workload: String,
    /// The activity, packed ([`pocketstone_replay::browser::pack`]).
    pub activity: Vec<u8>,
    /// Operations in it.
    pub operations: u64,
    /// Operations of the whole recording: more than in it where all of them would be too many for a page.
    pub recorded_operations: u64,
    /// Levers that its replays have whatever a reader chooses, by device.
    pub levers: BTreeMap<String, Value>,
    /// What these levers are, in words, by device.
    pub notes: BTreeMap<String, String>,
}

/// A governor.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ExplorerGovernor {
    /// Its text form without tunables, such as `interactive` or `fixed:50`.
    pub spec: String,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// What can be set: name, unit, and the value where neither device nor reader set it.
    pub tunables: Vec<[&'static str; 3]>,
}

/// A replay that was computed before.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GridRow {
    /// Indices in the explorer's lists: device, run, delay, governor.
    pub of: [usize; 4],
    /// What it gave.
    pub answer: Answer,
}

/// The bound.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BoundRow {
    /// Indices in the explorer's lists: device, run, delay.
    pub of: [usize; 3],
    /// The bound.
    pub least: Least,
}
