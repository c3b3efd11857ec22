//! `pocketstone export`: a cell for a viewer of traces.

use crate::arguments::ExportArguments;
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use pocketstone_report::perfetto::{PerfettoProcess, PerfettoQuery, PerfettoRun, write};
use pocketstone_study::results::layers::Layers;
use pocketstone_study::results::store::Store;
use pocketstone_study::specification::factor::describe;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes a traced cell of a run as a Perfetto trace.
///
/// # Errors
/// `ErrorKind::User` if there is no such cell, it lacks required data, or the file cannot be written.
pub fn export(arguments: &ExportArguments, path: &Path) -> Result<u8> {
    let store = Store::open(&arguments.folder, false)?;
    let cell = store.traced_cell(arguments.only.as_deref())?;
    let layers = Layers::of(&store, cell.id)?;
    let names: Vec<String> = layers.sql.iter().map(|sql| first_words(sql)).collect();
    let queries: Vec<PerfettoQuery<'_>> = layers
        .calls
        .iter()
        .enumerate()
        .map(|(n, call)| PerfettoQuery {
            start_ns: call.start_ns,
            end_ns: call.start_ns + call.latency_ns,
            thread: Some(layers.thread),
            name: names.get(n).map_or("query", String::as_str),
            sql: layers.sql.get(n).map_or("", String::as_str),
        })
        .collect();
    let kernel = store.fact("fact.kernel.release")?;
    let name = describe(&cell.point, &["workload", "workload_file", "engine", "delay", "file_system"]);
    let run = PerfettoRun {
        start_ns: layers.calls.first().map_or(0, |c| c.start_ns),
        end_ns: layers.calls.last().map_or(0, |c| c.start_ns + c.latency_ns),
        kernel: kernel.as_deref(),
        process: Some(PerfettoProcess { pid: layers.pid, name: &name, threads: &layers.threads }),
        queries: &queries,
        events: &layers.events,
        flash: Some(&layers.flash).filter(|log| !log.ops.is_empty()),
        frequencies: &[],
    };
    let failed = || format!("cannot write {}", path.display());
    let temporary = path.with_extension("new");
    let mut out = BufWriter::new(std::fs::File::create(&temporary).user(failed)?);
    write(&mut out, &run)?;
    out.flush().user(failed)?;
    std::fs::rename(&temporary, path).user(failed)?;
    say!("{}: {name}\nopen it at https://ui.perfetto.dev", path.display());
    Ok(0)
}

/// What a slice is called: the statement's first words.
fn first_words(sql: &str) -> String {
    sql.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
