//! Makes what a reader may try out, and the module that computes it in a browser.

use crate::model::{BoundRow, Explorer, ExplorerDevice, ExplorerGovernor, ExplorerRun, GridRow};
use pocketstone_board::{Cache, Compiled, compiler_for};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_replay::activity::Activity;
use pocketstone_replay::browser::{Answer, front, pack, shortened};
use pocketstone_replay::device::Device;
use pocketstone_replay::governor::Spec;
use pocketstone_replay::levers::Levers;
use pocketstone_replay::simulate::simulate;
use std::collections::BTreeMap;

const TARGET: &str = "wasm32-unknown-unknown";

/// Bytes that the activities of all runs take in a page.
pub const ACTIVITY_BYTES: usize = 320 << 10;

/// Points of a frequency line of the grid: there are many lines.
const GRID_POINTS: usize = 120;

/// A recorded run that a reader may replay.
#[derive(Debug, Clone, Copy)]
pub struct Recorded<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its workload, in words.
    pub workload: &'a str,
    /// What it did.
    pub activity: &'a Activity,
    /// Factor on its cycles, by the device's name.
    pub cycles_scale: &'a BTreeMap<String, f64>,
}

/// What is offered. `delays` are `recorded` or a delay as studies write it; a run that is too long for a page
/// is cut to its first operations, and all numbers are those of the part that is left.
///
/// # Errors
/// Where a replay fails: a delay or governor that there is none of, an activity that is none.
pub fn explorer(
    devices: &[Device],
    runs: &[Recorded<'_>],
    delays: &[&str],
    governors: &[ExplorerGovernor],
    module: Result<Vec<u8>>,
) -> Result<Explorer> {
    let mut explorer = Explorer {
        devices: devices.iter().map(device).collect(),
        delays: delays.iter().map(|d| (*d).to_owned()).collect(),
        governors: governors.to_vec(),
        ..Explorer::default()
    };
    let specs = governors.iter().map(|g| g.spec.parse()).collect::<Result<Vec<Spec>>>()?;
    for (r, run) in runs.iter().enumerate() {
        let share = ACTIVITY_BYTES / runs.len();
        let activity = shortened(run.activity, share).ok_or_else(|| {
            Error::user(format!("one operation of the run {} takes more than {share} bytes", run.name))
                .hint("leave that run out of the page")
        })?;
        for (d, device) in devices.iter().enumerate() {
            for (l, delay) in delays.iter().enumerate() {
                let levers = levers(run, &device.name, delay)?;
                let points = front(&activity, device, &levers)?;
                explorer.bounds.push(BoundRow { of: [d, r, l], points });
                for (g, spec) in specs.iter().enumerate() {
                    let replayed = simulate(&activity, device, spec, &levers)?;
                    let answer = Answer::of(&replayed, None, GRID_POINTS);
                    explorer.grid.push(GridRow { of: [d, r, l, g], answer });
                }
            }
        }
        explorer.runs.push(ExplorerRun {
            name: run.name.to_owned(),
            workload: run.workload.to_owned(),
            activity: pack(&activity),
            operations: operations(&activity),
            recorded_operations: operations(run.activity),
            cycles_scale: run.cycles_scale.clone(),
        });
    }
    match module {
        Ok(bytes) => explorer.module = Some(bytes),
        Err(error) => explorer.why_no_module = Some((error.chain(), error.cure().unwrap_or("").to_owned())),
    }
    Ok(explorer)
}

fn device(device: &Device) -> ExplorerDevice {
    ExplorerDevice {
        name: device.name.clone(),
        description: device.description.clone(),
        text: device.text.clone(),
        cores: device.clusters.first().map_or(1, |c| c.cores),
        tunables: device.tunables.clone(),
    }
}

fn levers(run: &Recorded<'_>, device: &str, delay: &str) -> Result<Levers> {
    let delay = (delay != "recorded").then(|| delay.parse()).transpose()?;
    Ok(Levers { delay, cycles_scale: run.cycles_scale.get(device).copied().unwrap_or(1.0), ..Levers::default() })
}

fn operations(activity: &Activity) -> u64 {
    activity.threads.iter().filter(|t| !t.background).map(|t| t.operations.len() as u64).sum()
}

/// The replay as a WebAssembly module, from the cache or compiled now.
///
/// # Errors
/// When this machine's compiler cannot make one; the hint is the cure.
pub fn module(cache: &Cache, progress: &dyn Fn(&str)) -> Result<Vec<u8>> {
    let cure = "rustup target add wasm32-unknown-unknown, then make the report again: `pocketstone report DIR`";
    let toolchain = compiler_for(TARGET).ok_or_else(|| {
        Error::board("this machine's Rust compiler has no standard library for WebAssembly").hint(cure)
    })?;
    let module = Compiled {
        what: "the replay for browsers",
        folder: "browser-modules",
        rooms: &["core", "replay"],
        toolchain: &toolchain,
        target: TARGET,
        profile: "browser",
        arguments: &["rustc", "-p", "pocketstone-replay", "--lib", "--crate-type", "cdylib"],
        file: "pocketstone_replay.wasm",
        cure,
    };
    let path = module.make(cache, progress, |_| {})?;
    std::fs::read(&path).board(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_replay::activity::{Operation, Segment, Thread};

    #[test]
    fn a_run_that_is_too_long_is_cut_and_says_so_and_a_delay_that_is_none_is_an_error() {
        let segments = vec![Segment::Compute { cycles: 40_000_000 }; 40];
        let operation = Operation { segments, delay_ns: 1_000_000, ..Operation::default() };
        let thread = Thread { operations: vec![operation; 4000], background: false };
        let activity = Activity { threads: vec![thread] };
        let scales = BTreeMap::new();
        let run = Recorded { name: "long", workload: "w", activity: &activity, cycles_scale: &scales };
        let missing = || Err(Error::board("no library").hint("add it"));
        let explorer = explorer(&[], &[run], &["recorded"], &[], missing()).unwrap();
        let kept = &explorer.runs[0];
        // An operation takes 4 bytes of delay, 1 of count and 5 for each of 40 segments.
        assert_eq!(kept.operations, ((ACTIVITY_BYTES - 5) / 205) as u64);
        assert_eq!(kept.recorded_operations, 4000);
        assert!(kept.activity.len() <= ACTIVITY_BYTES);
        assert_eq!(explorer.why_no_module, Some(("no library".into(), "add it".into())));
        let error = levers(&run, "x", "often").unwrap_err();
        assert!(error.chain().contains("often"), "{error:?}");
    }
}
