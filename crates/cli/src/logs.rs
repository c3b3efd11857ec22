//! `pocketstone trace`: what kernel's traces show, of one log or of all in a folder.

use crate::again::{quote, this_command};
use crate::screen;
use pocketstone_cli::print_json;
use pocketstone_core::error::Context;
use pocketstone_core::units::{format_bytes, format_ns};
use pocketstone_core::words::counted;
use pocketstone_core::{Error, Result};
use pocketstone_probe::analysis::{PhoneSummary, longest};
use pocketstone_probe::ftrace::Form;
use pocketstone_probe::traced::SUSPENDED_NS;
use pocketstone_study::specification::phone_logs::{logs_below, recorded, recorded_of, recorded_with, summed};
use pocketstone_study::specification::recordings::ENDINGS;
use pocketstone_study::views::traces::{self, LogRun};
use std::path::Path;

/// Says what a trace shows: of a phone's database run, how long it took and where.
///
/// # Errors
/// `ErrorKind::User` if it cannot be read, or is no trace; the message includes the line, or the byte.
pub fn show(path: &Path, page: Option<&Path>, json: bool) -> Result<u8> {
    if path.is_dir() {
        return folder(path, page, json);
    }
    if page.is_some() {
        return Err(Error::user("--output is for a folder of logs, and this is one log")
            .hint("give the folder it is in; without --output, the log is shown here"));
    }
    let (reading, runs) = summed(path)?;
    let suspended_ns = reading.clocks.map(|clocks| clocks.suspended_ns());
    let (form, what) = match reading.form {
        Form::Text => ("ftrace", "lines"),
        Form::Perfetto => ("perfetto", "events and other packets"),
    };
    if json {
        let runs_found = runs.as_deref().unwrap_or_default();
        print_json(&serde_json::json!({
            "form": form, "lines": reading.lines, "lost": reading.losses, "suspended_ns": suspended_ns,
            "events": reading.used, "left_out": reading.left_out,
            "of": recorded_with(path, longest(runs_found))?, "run": longest(runs_found), "runs": runs_found,
            "why_no_run": runs.as_ref().err().map(Error::chain),
        }))?;
        return Ok(0);
    }
    say!("{} {what}, {} used", reading.lines, counted(reading.used, "event"));
    reading.left_out.iter().for_each(|(reason, count)| say!("  {count:>8} {reason}"));
    if reading.losses > 0 {
        say!("events were lost {}: record a shorter run, or with a larger buffer", counted(reading.losses, "time"));
    }
    if let Some(ns) = suspended_ns.filter(|ns| *ns >= SUSPENDED_NS) {
        say!("the machine was suspended for {} of it, which counts as time", format_ns(ns as f64));
    }
    match runs {
        Ok(runs) => runs.iter().for_each(print),
        Err(error) => say!("it contains no marked run: {}", error.chain()),
    }
    Ok(0)
}

fn print(run: &PhoneSummary) {
    let time = |ns: u64| format_ns(ns as f64);
    say!("run        {} of {} by thread {}", time(run.runtime_ns), run.name, run.app);
    let bursts = run.bursts;
    let each = of_each(bursts.mean_ns, "on average") + &of_each(bursts.max_ns, "at most");
    say!("on core    {} in {}{each}", time(run.on_core_ns), counted(bursts.count, "burst"));
    for (khz, ns) in &run.on_core_khz_ns {
        say!("  at {:>7} kHz {}", khz, time(*ns));
    }
    say!("reads      {} ({}) in {}", run.reads, format_bytes(run.read_bytes), time(run.read_ns));
    say!("writes     {} ({}) in {}", run.writes, format_bytes(run.written_bytes), time(run.write_ns));
    say!("syncs      {} in {}", run.syncs, time(run.sync_ns));
    let (read, written) = (format_bytes(run.block_read_bytes), format_bytes(run.block_written_bytes));
    let mean = of_each(run.block_mean_ns, "on average");
    if run.lost_events {
        say!("lost       events were lost within it: its counts and times are too low");
    }
    let (reads, writes) = (counted(run.block_reads, "read"), counted(run.block_writes, "write"));
    say!("block I/O  {reads} ({read}), {writes} ({written}){mean}");
}

/// What each of some things took; there is no average of nothing.
fn of_each(ns: Option<u64>, what: &str) -> String {
    ns.map_or(String::new(), |ns| format!(", {} {what}", format_ns(ns as f64)))
}

fn folder(path: &Path, page: Option<&Path>, json: bool) -> Result<u8> {
    let mut files = Vec::new();
    logs_below(path, &mut files)?;
    if files.is_empty() {
        return Err(Error::user(format!("{} has no logs", path.display()))
            .hint(format!("logs end in {}, each also with .gz", ENDINGS.join(", "))));
    }
    let mut rows = Vec::new();
    for file in &files {
        rows.extend(rows_of(file, file.strip_prefix(path).unwrap_or(file))?);
    }
    let key = |row: &LogRun| {
        let of = &row.of;
        (of.workload.clone(), of.engine.clone(), of.delay.clone(), of.governor.clone(), row.file.clone())
    };
    rows.sort_by_key(key);
    let without = rows.iter().filter(|row| row.run.is_none()).count();
    match json {
        true => print_json(&rows)?,
        false => table(&rows),
    }
    if without == rows.len() {
        let why = rows.iter().find_map(|row| Some(format!("{}: {}", row.file, row.why_no_run.as_ref()?)));
        return Err(Error::user(format!("none of {} logs in {} has a run", files.len(), path.display()))
            .because(Error::user(why.unwrap_or_default()))
            .hint("`pocketstone trace LOG` shows what one of them holds"));
    }
    if let Some(file) = page {
        let word = |path: &Path| quote(&path.to_string_lossy());
        let command = format!("{} trace {} --output {}", this_command(), word(path), word(file));
        let html = pocketstone_report::html(&traces::model(&path.display().to_string(), &command, &rows))?;
        std::fs::write(file, html).user(|| format!("cannot write {}", file.display()))?;
        if !json {
            say!("figures: {}", file.display());
        }
    }
    if without > 0 && !json {
        say!("{without} of {} logs have no run:", files.len());
        rows.iter().filter_map(|row| Some((row, row.why_no_run.as_ref()?))).for_each(|(row, why)| {
            say!("  {}: {why}", row.file);
        });
    }
    Ok(0)
}

fn rows_of(file: &Path, name: &Path) -> Result<Vec<LogRun>> {
    let beside = recorded(file)?;
    let file_name = name.display().to_string();
    let found = summed(file).and_then(|(_, runs)| runs);
    let row = |run: Option<PhoneSummary>, why_no_run| {
        let of = match &run {
            Some(run) => recorded_of(&beside, run),
            None => beside.clone(),
        };
        let (on_core_share, mean_khz) = run.as_ref().map_or((None, None), |r| (r.on_core_share(), r.mean_khz()));
        LogRun { file: file_name.clone(), of, run, on_core_share, mean_khz, why_no_run }
    };
    Ok(match found {
        Ok(runs) => runs.into_iter().map(|run| row(Some(run), None)).collect(),
        Err(error) => vec![row(None, Some(error.chain()))],
    })
}

fn table(rows: &[LogRun]) {
    let head = ["run", "takes", "on core", "share", "bursts", "mean", "MHz", "reads/writes/syncs", "block r/w"];
    let unknown = || "?".to_owned();
    let mut cells = Vec::new();
    for row in rows {
        let Some(run) = &row.run else { continue };
        cells.push(vec![
            row.name(),
            format_ns(run.runtime_ns as f64),
            format_ns(run.on_core_ns as f64),
            row.on_core_share.map_or_else(unknown, |share| format!("{:.1} %", 100.0 * share)),
            run.bursts.count.to_string(),
            run.bursts.mean_ns.map_or_else(unknown, |ns| format_ns(ns as f64)),
            row.mean_khz.map_or_else(unknown, |khz| format!("{:.0}", khz / 1e3)),
            format!("{}/{}/{}", run.reads, run.writes, run.syncs),
            format!("{}/{}", run.block_reads, run.block_writes),
        ]);
    }
    say!("{}", screen::table(&head.map(str::to_owned), &cells, 8, false));
    if rows.iter().any(|row| row.run.is_some() && row.mean_khz.is_none()) {
        say!("MHz is `?` where a log has no event cpu_frequency");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nothing_there_is_no_average() {
        assert_eq!(of_each(Some(1500), "on average") + &of_each(None, "at most"), ", 1.50 us on average");
    }
}
