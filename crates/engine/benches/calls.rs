//! What SQLite's own record of its file calls adds to a run.
//!
//! PocketData's workload C as text, 1800 queries on a file with a rollback journal that stays, in a process
//! of its own each time, without and with the record, in turns. Prints both medians and least values, and the
//! median of the pairs' ratios with a 95% bootstrap interval; the bar is 5%.

use pocketstone_core::database::{Configuration, DatabaseEngine, DatabaseSpec, DatabaseWorkload, Recipe, SqlForm};
use pocketstone_core::median::median;
use pocketstone_core::random::Random;
use pocketstone_engine::database::{Process, Task, Work, load, serve};
use pocketstone_workload::database::{Trace, prepare};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const PAIRS: usize = 61;
const BAR: f64 = 0.05;
const BOOTSTRAPS: usize = 2000;
const LIMIT: Duration = Duration::from_secs(60);
/// The argument of a process that serves, before its task's file.
const SERVE: &str = "--serve";

fn spec() -> DatabaseSpec {
    let configuration = Configuration {
        journal_mode: Some("persist".into()),
        synchronous: Some("full".into()),
        ..Configuration::default()
    };
    let recipe = Recipe::new(DatabaseWorkload::PocketdataC);
    DatabaseSpec { sql: SqlForm::Text, configuration, ..DatabaseSpec::new(recipe, DatabaseEngine::Sqlite) }
}

/// Milliseconds of the operations of a process.
fn run(folder: &Path, spec: &DatabaseSpec, recorded: bool) -> f64 {
    let task = Task {
        work: Work::Measure,
        directory: folder.join("database"),
        trace: folder.join("trace"),
        calls: folder.join("calls.bin"),
        events: recorded.then(|| folder.join("events.bin")),
        result: folder.join("result.json"),
        spec: spec.clone(),
    };
    let path = folder.join("task.json");
    std::fs::write(&path, serde_json::to_vec(&task).expect("JSON")).expect("a task");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg(SERVE).arg(path);
    let mut process = Process::spawn(command, &task, folder).expect("a process");
    process.wait_ready(LIMIT).expect("ready");
    process.go().expect("go");
    process.wait_done(LIMIT).expect("done");
    let result = process.finish().expect("a result");
    (result.end_ns - result.start_ns) as f64 / 1e6
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, task] = &arguments[..] {
        if word == SERVE {
            let status = serve(Path::new(task), std::io::stdin().lock(), std::io::stdout().lock());
            std::process::exit(i32::from(status));
        }
    }
    let (folder, mut spec) = (tempfile::tempdir().expect("a folder"), spec());
    let file = prepare(&spec.recipe, 1).expect("the workload").encode();
    spec.trace = Trace::digest(&file);
    std::fs::write(folder.path().join("trace"), &file).expect("the workload's file");
    let database = folder.path().join("database");
    std::fs::create_dir(&database).expect("a folder");
    load(&spec, &database, &Arc::new(Trace::decode(&file).expect("the workload"))).expect("a database");
    run(folder.path(), &spec, false);
    let mut pairs = Vec::new();
    for pair in 0..PAIRS {
        // Whoever comes second has a warmer cache: they take turns.
        let first = run(folder.path(), &spec, pair % 2 == 1);
        let second = run(folder.path(), &spec, pair % 2 == 0);
        pairs.push(if pair % 2 == 0 { (first, second) } else { (second, first) });
    }
    let ratios: Vec<f64> = pairs.iter().map(|(without, with)| with / without - 1.0).collect();
    let mut random = Random::new(1);
    let mut resampled: Vec<f64> = (0..BOOTSTRAPS)
        .map(|_| {
            let sample: Vec<f64> = (0..PAIRS).map(|_| ratios[random.below(PAIRS as u64) as usize]).collect();
            median(sample).expect("pairs")
        })
        .collect();
    resampled.sort_by(f64::total_cmp);
    let [low, high] = [BOOTSTRAPS / 40, BOOTSTRAPS - 1 - BOOTSTRAPS / 40].map(|n| 100.0 * resampled[n]);
    let added = median(ratios).expect("pairs");
    let [mut without, mut with]: [Vec<f64>; 2] =
        [pairs.iter().map(|p| p.0).collect(), pairs.iter().map(|p| p.1).collect()];
    let medians = [&mut without, &mut with].map(|all| median(all).expect("pairs"));
    let word = if added <= BAR { "met" } else { "NOT met" };
    let text = format!(
        "PocketData C, SQLite on a file: {:.2} ms, {:.2} ms with its calls recorded (least: {:.2} and {:.2}); \
         recording adds {:.2}% ({low:.2} to {high:.2}, {PAIRS} pairs); bar {:.0}%: {word}\n",
        medians[0],
        medians[1],
        without[0],
        with[0],
        100.0 * added,
        100.0 * BAR
    );
    let _ = std::io::stdout().write_all(text.as_bytes());
}
