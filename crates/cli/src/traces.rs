//! `pocketstone trace` and `pocketstone export`: what a kernel's trace shows, and a cell for a viewer of traces.

use crate::arguments::ExportArguments;
use pocketstone_core::error::Context;
use pocketstone_core::events::Window;
use pocketstone_core::units::{format_bytes, format_ns};
use pocketstone_core::{Error, Result};
use pocketstone_probe::analysis::{analyse, phone_summary};
use pocketstone_probe::ftrace;
use pocketstone_report::perfetto::{PerfettoProcess, PerfettoQuery, PerfettoRun, write};
use pocketstone_study::results::layers::Layers;
use pocketstone_study::results::store::Store;
use pocketstone_study::specification::factor::describe;
use std::collections::BTreeSet;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

/// Says what a trace shows: of a phone's database run, how long it took and where.
///
/// # Errors
/// `ErrorKind::User` if it cannot be read, or is not ftrace text; the message includes the line.
pub fn show(file: &Path, json: bool) -> Result<u8> {
    let mut text = Vec::new();
    let failed = || format!("cannot read {}", file.display());
    match file.as_os_str() == "-" {
        true => std::io::stdin().lock().read_to_end(&mut text).map(|_| ()).user(failed)?,
        false => text = std::fs::read(file).user(failed)?,
    }
    if text.starts_with(&[0x1f, 0x8b]) {
        return Err(Error::user(format!("{} is compressed", file.display()))
            .hint(format!("zcat {} | pocketstone trace -", file.display())));
    }
    let named = |e: Error| Error::user(format!("{} is not a readable trace", file.display())).because(e);
    let reading = ftrace::read(&text, &ftrace::Context::default()).map_err(named)?;
    let summary = phone_summary(&reading.log);
    if json {
        let value = serde_json::json!({
            "lines": reading.lines, "events": reading.log.events.len(), "left_out": reading.left_out,
            "run": summary.as_ref().ok(), "why_no_run": summary.as_ref().err().map(Error::chain),
        });
        let text = serde_json::to_string_pretty(&value).map_err(|e| Error::bug("no JSON").because(e))?;
        say!("{text}");
        return Ok(0);
    }
    say!("{} lines, {} events", reading.lines, reading.log.events.len());
    reading.left_out.iter().for_each(|(reason, count)| say!("  {count:>8} {reason}"));
    let run = match summary {
        Ok(run) => run,
        Err(error) => {
            say!("it contains no marked run: {}", error.chain());
            return Ok(0);
        }
    };
    let time = |ns: u64| format_ns(ns as f64);
    say!("run        {}", time(run.runtime_ns));
    let optional = |ns: Option<u64>| ns.map_or("unavailable".to_owned(), time);
    let bursts = run.bursts;
    let (mean, max) = (optional(bursts.mean_ns), optional(bursts.max_ns));
    say!("on core    {} in {} bursts, {mean} on average, {max} at most", time(run.on_core_ns), bursts.count);
    let window = Window { start_ns: run.start_ns, end_ns: run.start_ns + run.runtime_ns };
    let cost = analyse(&reading.log, window, &BTreeSet::from([run.app]), &[], 1).total;
    say!("reads      {} ({}) in {}", cost.reads, format_bytes(cost.read_bytes), time(cost.read_ns));
    say!("writes     {} ({}) in {}", cost.writes, format_bytes(cost.written_bytes), time(cost.write_ns));
    say!("syncs      {} in {}", cost.syncs, time(cost.sync_ns));
    let (read, written) = (format_bytes(run.block_read_bytes), format_bytes(run.block_written_bytes));
    let mean = optional(run.block_mean_ns);
    say!("block I/O  {} reads ({read}), {} writes ({written}), {mean} on average", run.block_reads, run.block_writes);
    Ok(0)
}

/// Writes a traced cell of a run as a Perfetto trace.
///
/// # Errors
/// `ErrorKind::User` if there is no such cell, it lacks required data, or the file cannot be written.
pub fn export(arguments: &ExportArguments) -> Result<u8> {
    let store = Store::open(&arguments.folder, false)?;
    let cell = store.traced_cell(&arguments.only)?;
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
    let path = &arguments.perfetto;
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
