//! The part of the page in which a reader replays runs: its data, packed, and what is shown without scripts.
//!
//! The replay itself is the WebAssembly module that the model carries; `explore/*.js` asks it and draws. Data and
//! module are deflated (zlib, RFC 1950), which browsers undo, and base64.

use crate::format;
use crate::palette::{Palette, subject};
use crate::picture::Look;
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use pocketstone_replay::browser::base64;
use pocketstone_replay::device::Device;
use pocketstone_study::views::model::{Explorer, ExplorerRun, GridRow, Scale};
use serde::Serialize;
use serde_json::{Value, json};

/// Style and scripts that only a page with this part needs.
pub(crate) const CSS: &str = include_str!("explore/explore.css");
pub(crate) const JS: [&str; 3] =
    [include_str!("explore/engine.js"), include_str!("explore/draw.js"), include_str!("explore/explore.js")];

/// What the template shows.
#[derive(Debug, Serialize)]
pub(crate) struct Part {
    /// Everything but the module.
    data: String,
    /// The module; empty where there is none.
    module: String,
    /// Why there is none, and the cure; empty where there is one.
    why: String,
    cure: String,
    /// What to know of all of it.
    note: String,
    /// The table that is shown without scripts.
    first: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

/// The part of the page as far as there is room; `None` where there is none, or nothing to choose from.
///
/// # Errors
/// `ErrorKind::User` if it cannot be written as JSON.
pub(crate) fn part(explorer: &Explorer, room: Room, palette: &Palette) -> Result<Option<Part>> {
    let lists = [explorer.devices.len(), explorer.runs.len(), explorer.delays.len(), explorer.governors.len()];
    if lists.contains(&0) || room == Room::Nothing {
        return Ok(None);
    }
    let module = explorer.module.as_ref().filter(|_| room == Room::Whole);
    let (why, cure) = match (&explorer.module, &explorer.why_no_module) {
        (Some(_), _) if module.is_some() => Default::default(),
        (Some(_), _) => {
            ("the module and the runs would make this page too large".to_owned(), "fewer runs in a study".to_owned())
        }
        (None, Some((why, cure))) => (why.clone(), cure.clone()),
        (None, None) => ("this report was made without the module".to_owned(), String::new()),
    };
    Ok(Some(Part {
        data: packed(data(explorer, module.is_some(), palette)?.as_bytes()),
        module: module.map(|m| packed(m)).unwrap_or_default(),
        why,
        cure,
        note: note(&explorer.runs),
        first: format!("{} on {}, delay {}", explorer.runs[0].name, explorer.devices[0].name, explorer.delays[0]),
        columns: vec!["Governor", "Mean latency", "99th percentile", "Energy", "Run"],
        rows: explorer.grid.iter().filter(|r| r.of[..3] == [0; 3]).map(|r| row(explorer, r)).collect(),
    }))
}

/// How much of the explorer has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// All of it.
    Whole,
    /// What was computed before.
    Grid,
    /// Nothing.
    Nothing,
}

impl Room {
    /// The next smaller one.
    pub(crate) fn less(self) -> Room {
        match self {
            Room::Whole => Room::Grid,
            Room::Grid | Room::Nothing => Room::Nothing,
        }
    }
}

/// The lists as JSON, for the scripts: with the module also what it computes from. The grid is there in any case,
/// for browsers that do not run the module.
fn data(explorer: &Explorer, module: bool, palette: &Palette) -> Result<String> {
    let before = |at: usize| explorer.grid.iter().map(|r| r.of[at] + 1).max().unwrap_or(0);
    let (devices, delays) = match module {
        true => (explorer.devices.len(), explorer.delays.len()),
        false => (before(0), before(2)),
    };
    let device = |d: &Device| {
        let clusters: Vec<Value> = d.clusters.iter().map(|c| json!({ "name": c.name, "cores": c.cores })).collect();
        json!({ "name": d.name, "description": d.description, "clusters": clusters, "tunables": d.tunables,
            "storage": d.storage.times.is_some(), "memory_share": d.memory_share,
            "profile": if module { json!(d) } else { Value::Null } })
    };
    let run = |r: &ExplorerRun| {
        json!({ "name": r.name, "workload": r.workload, "operations": r.operations,
            "recorded_operations": r.recorded_operations, "levers": r.levers, "notes": r.notes,
            "activity": if module { base64(&r.activity) } else { String::new() } })
    };
    let numbers = palette.numbers(&explorer.governors.iter().map(|g| subject(&g.spec)).collect::<Vec<_>>());
    let look = |&number: &usize| {
        let look = Look { number, paper: false, shade: 0 };
        json!([look.class(), look.marker()])
    };
    let data = json!({
        "looks": numbers.iter().map(look).collect::<Vec<_>>(),
        "devices": explorer.devices.iter().take(devices).map(device).collect::<Vec<_>>(),
        "runs": explorer.runs.iter().map(run).collect::<Vec<_>>(),
        "delays": explorer.delays[..delays],
        "grid_lists": [before(0), before(2)],
        "governors": explorer.governors,
        "grid": explorer.grid,
        "bounds": explorer.bounds,
    });
    serde_json::to_string(&data).user(|| "cannot write the explorer as JSON".into())
}

fn packed(bytes: &[u8]) -> String {
    base64(&miniz_oxide::deflate::compress_to_vec_zlib(bytes, 9))
}

fn note(runs: &[ExplorerRun]) -> String {
    let cut = runs.iter().filter(|r| r.operations < r.recorded_operations);
    let cut: Vec<String> = cut
        .map(|r| format!("the first {} of {} operations of {}", r.operations, r.recorded_operations, r.name))
        .collect();
    match cut.is_empty() {
        true => String::new(),
        false => format!("Because of its size the page contains only {}.", cut.join(", ")),
    }
}

fn row(explorer: &Explorer, row: &GridRow) -> Vec<String> {
    let time = |ns: Option<f64>| ns.map_or(format::NOTHING.to_owned(), |ns| format::value(Scale::Duration, ns));
    let answer = &row.answer;
    vec![
        explorer.governors.get(row.of[3]).map(|g| g.spec.clone()).unwrap_or_default(),
        time(answer.mean_latency_ns),
        time(answer.p99_latency_ns.map(|ns| ns as f64)),
        format!("{} mJ", format::value(Scale::Linear, answer.total_mj)),
        time(Some(answer.run_ns as f64)),
    ]
}
