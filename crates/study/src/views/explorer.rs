//! Makes what a reader may try out, and the module that computes it in a browser.

mod runs;
pub mod shipped;

pub use runs::recorded;

use crate::results::store::Store;
use crate::specification::study::Study;
use crate::views::model::{BoundRow, Explorer, ExplorerGovernor, ExplorerRun, GridRow, LeftOut, Model};
use pocketstone_board::{BoardContext, Compiled, compiler_for};
use pocketstone_core::error::{Context, ErrorKind};
use pocketstone_core::{Error, Result};
use pocketstone_engine::installed::{Installed, checkout};
use pocketstone_replay::activity::Activity;
use pocketstone_replay::browser::{Answer, front, levers, pack, shortened};
use pocketstone_replay::device::{Device, list};
use pocketstone_replay::governor::Spec;
use pocketstone_replay::governor::about::GOVERNORS;
use pocketstone_replay::levers::Levers;
use pocketstone_replay::simulate::simulate;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

const TARGET: &str = "wasm32-unknown-unknown";

/// Bytes that the activities of all runs take in a page.
pub const ACTIVITY_BYTES: usize = 320 << 10;

/// Points of a frequency line of the grid: there are many lines.
const GRID_POINTS: usize = 80;

/// Rows of the grid: beyond, it has the first devices only.
const GRID_ROWS: usize = 160;

/// A recorded run that a reader may replay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recorded {
    /// Its name.
    pub name: String,
    /// Its workload, in words.
    pub workload: String,
    /// What it did.
    pub activity: Activity,
    /// Levers that it has on a device, as the replay's requests write them: how its cycles become the device's.
    pub levers: BTreeMap<String, Value>,
    /// The same in words.
    pub notes: BTreeMap<String, String>,
}

/// What there is to choose from. The first of each list is shown first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choices {
    /// Devices.
    pub devices: Vec<Device>,
    /// Recorded runs.
    pub runs: Vec<Recorded>,
    /// `recorded`, or a delay as studies write it.
    pub delays: Vec<String>,
    /// How many of the devices and of the delays, from the first on, are computed beforehand.
    pub grid: [usize; 2],
    /// Governors without tunables.
    pub governors: Vec<Spec>,
}

/// Adds to a report's model what a reader may try out, where the study replays anything: with the devices that it
/// names and those in `folder`. No report fails for it: what is wrong is said among what was left out.
pub fn add(model: &mut Model, store: &Store, study: &Study, folder: &Path, module: impl FnOnce() -> Result<Vec<u8>>) {
    let make = || -> Result<Option<Explorer>> {
        let named = crate::models::replay::devices(study, folder, Some(store))?;
        // The results may be where the project's other devices are not.
        let others = list(folder).unwrap_or_default();
        let choices = recorded(store, study, &named, &others)?;
        choices.map(|choices| explorer(choices, module())).transpose()
    };
    match make() {
        Ok(explorer) => model.explorer = explorer,
        Err(error) => model.left_out.push(LeftOut::new("the report's interactive replays", &error)),
    }
}

/// What is offered. A run that is too long for a page is cut to its first operations, and all numbers are those of
/// the part that is left.
///
/// # Errors
/// `ErrorKind::User` if a replay fails, for example for an unknown delay or governor.
pub fn explorer(choices: Choices, module: Result<Vec<u8>>) -> Result<Explorer> {
    let Choices { devices, runs, delays, grid, governors } = choices;
    let mut explorer = Explorer { governors: governors.iter().map(about).collect(), ..Explorer::default() };
    let of_device = runs.len() * grid[1].min(delays.len()) * governors.len();
    let before = grid[0].min((GRID_ROWS / of_device.max(1)).max(1));
    let share = ACTIVITY_BYTES / runs.len().max(1);
    for (r, run) in runs.into_iter().enumerate() {
        let activity = shortened(&run.activity, share).ok_or_else(|| {
            Error::user(format!("one operation of the run {} takes more than {share} bytes", run.name))
                .hint("that run is omitted from the page")
        })?;
        for (d, device) in devices.iter().enumerate().take(before) {
            for (l, delay) in delays.iter().enumerate().take(grid[1]) {
                let levers = levers_of(&run, &device.name, delay)?;
                explorer.bounds.push(BoundRow { of: [d, r, l], least: front(&activity, device, &levers)? });
                for (g, spec) in governors.iter().enumerate() {
                    let replayed = simulate(&activity, device, spec, &levers)?;
                    let answer = Answer::of(&replayed, None, GRID_POINTS);
                    explorer.grid.push(GridRow { of: [d, r, l, g], answer });
                }
            }
        }
        explorer.runs.push(ExplorerRun {
            name: run.name,
            workload: run.workload,
            activity: pack(&activity),
            operations: operations(&activity),
            recorded_operations: operations(&run.activity),
            levers: run.levers,
            notes: run.notes,
        });
    }
    match module {
        Ok(bytes) => explorer.module = Some(bytes),
        Err(error) => explorer.why_no_module = Some((error.chain(), error.cure().unwrap_or("").to_owned())),
    }
    Ok(Explorer { devices, delays, ..explorer })
}

/// Governors that come first, and then all others that there are; those that can be tuned before those that cannot.
pub fn governors(first: impl IntoIterator<Item = Spec>) -> Vec<Spec> {
    let mut all: Vec<Spec> = Vec::new();
    let others = GOVERNORS.iter().filter_map(|g| g.name.parse().ok());
    for spec in first.into_iter().filter_map(|s| s.name().parse().ok()).chain(others) {
        if !all.contains(&spec) {
            all.push(spec);
        }
    }
    all.sort_by_key(|s| s.tunables().is_empty());
    all
}

fn about(spec: &Spec) -> ExplorerGovernor {
    let about = spec.about();
    let tunables = about.tunables.iter().map(|t| [t.name, t.unit, t.default]).collect();
    ExplorerGovernor { spec: spec.to_string(), about: about.about, tunables }
}

fn levers_of(run: &Recorded, device: &str, delay: &str) -> Result<Levers> {
    let mut given = run.levers.get(device).cloned().unwrap_or_else(|| json!({}));
    if delay != "recorded" {
        given["delay"] = delay.into();
    }
    levers(given)
}

fn operations(activity: &Activity) -> u64 {
    activity.threads.iter().filter(|t| !t.background).map(|t| t.operations.len() as u64).sum()
}

/// The replay as a WebAssembly module: the installed one, or the shipped one where it is of these sources, or else from
/// the cache or compiled now.
///
/// # Errors
/// `ErrorKind::Board` if none can be had; the hint is the fix. `ErrorKind::Interrupted` if the
/// user interrupts.
pub fn module(context: &BoardContext) -> Result<Vec<u8>> {
    if let Some(installed) = Installed::of_this_program() {
        let path = installed.program("replay.wasm", WHAT)?;
        return std::fs::read(&path).board(|| format!("cannot read {}", path.display()));
    }
    shipped_or(&checkout(WHAT)?, || compiled(context))
}

/// The module that the project ships, or else what is compiled.
fn shipped_or(root: &Path, compiled: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
    let shipped = match shipped::shipped(root) {
        Ok(module) => return Ok(module),
        Err(error) => error,
    };
    compiled().map_err(|error| match error.kind() {
        ErrorKind::Board => {
            let (why, other) = (error.chain(), shipped.chain());
            let text = format!("{why}; the module that comes with the sources cannot be used: {other}");
            Error::board(text).hint(error.cure().unwrap_or(shipped::COMMAND))
        }
        _ => error,
    })
}

const WHAT: &str = "the replay for browsers";

/// The module that this machine makes of these sources, from the cache or compiled now.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be compiled, with the fix as its hint; `ErrorKind::User` if the cache cannot be
/// used; `ErrorKind::Interrupted` if the user interrupts.
pub fn compiled(context: &BoardContext) -> Result<Vec<u8>> {
    let cure = "rustup target add wasm32-unknown-unknown, then regenerate the report: `pocketstone report DIR`";
    let toolchain = compiler_for(TARGET).ok_or_else(|| {
        Error::board("this machine's Rust compiler has no standard library for WebAssembly").hint(cure)
    })?;
    let module = Compiled {
        what: WHAT,
        folder: "browser-modules",
        rooms: &["vfs", "random", "core", "tlb", "workload", "replay"],
        toolchain: &toolchain,
        target: TARGET,
        profile: "browser",
        arguments: &["rustc", "-p", "pocketstone-replay", "--lib", "--crate-type", "cdylib"],
        file: "pocketstone_replay.wasm",
        cure,
    };
    let path = module.make(context, |_| {})?;
    std::fs::read(&path).board(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_replay::activity::{Operation, Segment, Thread};

    fn run(operations: usize) -> Recorded {
        let segments = vec![Segment::Compute { cycles: 40_000_000 }; 40];
        let operation = Operation { segments, delay_ns: 1_000_000, ..Operation::default() };
        let thread = Thread { operations: vec![operation; operations], background: false };
        Recorded { name: "long".into(), activity: Activity { threads: vec![thread] }, ..Recorded::default() }
    }

    #[test]
    fn a_run_that_is_too_long_is_cut_and_says_so_and_a_delay_that_is_none_is_an_error() {
        let missing = || Err(Error::board("no library").hint("add it"));
        let choices = Choices { runs: vec![run(4000)], delays: vec!["recorded".into()], ..Choices::default() };
        let explorer = explorer(choices, missing()).unwrap();
        let kept = &explorer.runs[0];
        // An operation takes 4 bytes of delay, 1 of count and 5 for each of 40 segments.
        assert_eq!(kept.operations, ((ACTIVITY_BYTES - 5) / 205) as u64);
        assert_eq!(kept.recorded_operations, 4000);
        assert!(kept.activity.len() <= ACTIVITY_BYTES);
        assert_eq!(explorer.why_no_module, Some(("no library".into(), "add it".into())));
        let error = levers_of(&run(1), "x", "often").unwrap_err();
        assert!(error.chain().contains("often"), "{error:?}");
    }

    #[test]
    fn the_shipped_module_serves_where_it_is_of_these_sources_and_nothing_is_compiled() {
        let lacks = || Err(Error::board("no library for WebAssembly").hint("rustup target add"));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let shipped = std::fs::read(root.join(shipped::MODULE)).unwrap();
        assert_eq!(shipped_or(&root, || panic!("nothing is compiled")).unwrap(), shipped);
        let elsewhere = tempfile::tempdir().unwrap();
        assert_eq!(shipped_or(elsewhere.path(), || Ok(vec![1])).unwrap(), [1]);
        let error = shipped_or(elsewhere.path(), lacks).unwrap_err();
        let said = ["no library for WebAssembly", "cannot be used", shipped::MODULE];
        assert!(said.iter().all(|words| error.chain().contains(words)), "{}", error.chain());
        assert_eq!(error.cure(), Some("rustup target add"));
        let stop = || Err(Error::new(ErrorKind::Interrupted, "stopped"));
        let stopped = shipped_or(elsewhere.path(), stop).unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::Interrupted);
    }

    #[test]
    fn the_grid_has_the_first_devices_and_delays_alone() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../devices");
        let device = |name| Device::load(std::path::Path::new(path), name).unwrap();
        let choices = Choices {
            devices: vec![device("nexus-6"), device("nexus-5"), device("msm8998")],
            runs: vec![run(3), run(2)],
            delays: ["none", "6ms", "recorded"].map(str::to_owned).into(),
            grid: [2, 2],
            governors: governors(["fixed:50", "performance"].map(|g| g.parse().unwrap())),
        };
        let few = explorer(choices.clone(), Ok(vec![1])).unwrap();
        // fixed:50 and all ten but `fixed`; tuned ones first.
        assert_eq!(few.governors.len(), 10);
        assert!(!few.governors[0].tunables.is_empty() && few.governors[7].spec == "fixed:50");
        assert_eq!((few.devices.len(), few.delays.len(), few.module.clone()), (3, 3, Some(vec![1])));
        assert_eq!((few.grid.len(), few.bounds.len()), (2 * 2 * 2 * 10, 2 * 2 * 2));
        assert!(few.grid.iter().all(|r| r.of[0] < 2 && r.of[2] < 2 && r.answer.total_mj > 0.0));
        let many = Choices { runs: vec![run(1); 6], ..choices };
        assert!(explorer(many, Ok(Vec::new())).unwrap().grid.iter().all(|r| r.of[0] == 0), "240 rows are too many");
    }
}
