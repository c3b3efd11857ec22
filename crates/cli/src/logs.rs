//! `pocketstone trace`: what kernel's traces show, of one log or of all in a folder.

use crate::again::{quote, this_command};
use crate::screen;
use flate2::bufread::MultiGzDecoder;
use pocketstone_cli::print_json;
use pocketstone_core::error::Context;
use pocketstone_core::events::EventLog;
use pocketstone_core::units::{format_bytes, format_ns};
use pocketstone_core::{Error, Result};
use pocketstone_probe::analysis::{PhoneRuns, PhoneSummary, longest, phone_summary};
use pocketstone_probe::ftrace::{self, Reading};
use pocketstone_study::specification::recordings::{BESIDE, Beside, ENDINGS, Recorded};
use pocketstone_study::views::traces::{self, LogRun};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Says what a trace shows: of a phone's database run, how long it took and where.
///
/// # Errors
/// `ErrorKind::User` if it cannot be read, or is not ftrace text; the message includes the line.
pub fn show(path: &Path, page: Option<&Path>, json: bool) -> Result<u8> {
    if path.is_dir() {
        return folder(path, page, json);
    }
    if page.is_some() {
        return Err(Error::user("--output is for a folder of logs, and this is one log")
            .hint("give the folder it is in; without --output, the log is shown here"));
    }
    let (reading, runs) = summed(path)?;
    if json {
        let runs_found = runs.as_deref().unwrap_or_default();
        print_json(&serde_json::json!({
            "lines": reading.lines, "events": reading.used, "left_out": reading.left_out,
            "of": recorded_with(path, longest(runs_found))?, "run": longest(runs_found), "runs": runs_found,
            "why_no_run": runs.as_ref().err().map(Error::chain),
        }))?;
        return Ok(0);
    }
    say!("{} lines, {} events", reading.lines, reading.used);
    reading.left_out.iter().for_each(|(reason, count)| say!("  {count:>8} {reason}"));
    match runs {
        Ok(runs) => runs.iter().for_each(print),
        Err(error) => say!("it contains no marked run: {}", error.chain()),
    }
    Ok(0)
}

fn print(run: &PhoneSummary) {
    let time = |ns: u64| format_ns(ns as f64);
    say!("run        {} of {} by thread {}", time(run.runtime_ns), run.name, run.app);
    let optional = |ns: Option<u64>| ns.map_or("unavailable".to_owned(), time);
    let bursts = run.bursts;
    let (mean, max) = (optional(bursts.mean_ns), optional(bursts.max_ns));
    say!("on core    {} in {} bursts, {mean} on average, {max} at most", time(run.on_core_ns), bursts.count);
    for (khz, ns) in &run.on_core_khz_ns {
        say!("  at {:>7} kHz {}", khz, time(*ns));
    }
    say!("reads      {} ({}) in {}", run.reads, format_bytes(run.read_bytes), time(run.read_ns));
    say!("writes     {} ({}) in {}", run.writes, format_bytes(run.written_bytes), time(run.write_ns));
    say!("syncs      {} in {}", run.syncs, time(run.sync_ns));
    let (read, written) = (format_bytes(run.block_read_bytes), format_bytes(run.block_written_bytes));
    let mean = optional(run.block_mean_ns);
    say!("block I/O  {} reads ({read}), {} writes ({written}), {mean} on average", run.block_reads, run.block_writes);
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

/// What a log is of, by its file's name and the TOML beside it.
///
/// # Errors
/// `ErrorKind::User` if that TOML cannot be read, or is wrong.
fn recorded(file: &Path) -> Result<Recorded> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let beside = file.parent().unwrap_or(Path::new("")).join(BESIDE);
    let said = match beside.is_file() {
        true => {
            let text = std::fs::read_to_string(&beside).user(|| format!("cannot read {}", beside.display()))?;
            Beside::parse(&text).map_err(|e| Error::user(format!("{} is not usable", beside.display())).because(e))?
        }
        false => Beside::default(),
    };
    Ok(said.of(&name).or(Recorded::of_name(&name)))
}

/// That, and where neither says anything, what the app wrote of the run.
fn recorded_of(beside: &Recorded, run: &PhoneSummary) -> Recorded {
    let said = &run.parameters;
    let word = |word: &'static str| match word {
        "workload" => said.workload.as_deref(),
        "engine" => said.database.as_deref().or(Some(run.name.as_str())),
        "delay" => said.delay.as_deref(),
        _ => said.governor.as_deref(),
    };
    let words = Recorded::of_words(word("workload"), word("engine"), word("delay"), word("governor"));
    beside.clone().or(words)
}

/// That of a log with one run, or its longest.
fn recorded_with(file: &Path, run: Option<&PhoneSummary>) -> Result<Recorded> {
    let beside = recorded(file)?;
    Ok(run.map_or(beside.clone(), |run| recorded_of(&beside, run)))
}

/// The longest text whose events are all kept at once, unpacked: the published logs have up to some 60 MB.
const MOST_LOG_BYTES: u64 = 1 << 30;

/// The whole log of a file, and what its longest run is of.
///
/// # Errors
/// As [`show`], or if it is too long.
pub fn log(file: &Path) -> Result<(EventLog, Recorded)> {
    let log = whole(open(file)?, MOST_LOG_BYTES).map_err(unreadable(file))?;
    let of = recorded_with(file, phone_summary(&log).ok().as_ref())?;
    Ok((log, of))
}

/// All events of a text of at most so many bytes.
fn whole(input: impl BufRead, most_bytes: u64) -> Result<EventLog> {
    let mut part = input.take(most_bytes);
    let reading = ftrace::read(&mut part, &ftrace::Context::default())?;
    let rest = part.into_inner().fill_buf().user(|| "cannot read its end".to_owned())?.len();
    match rest {
        0 => Ok(reading.log),
        _ => Err(Error::user(format!("it has more than {} of text", format_bytes(most_bytes)))
            .hint("keep the lines of one run, from its NAME_START to its NAME_END")),
    }
}

/// What a file holds but for its events, and its runs.
fn summed(file: &Path) -> Result<(Reading, Result<Vec<PhoneSummary>>)> {
    let mut runs = PhoneRuns::default();
    let reading = ftrace::read_from(open(file)?, &ftrace::Context::default(), &mut runs).map_err(unreadable(file))?;
    Ok((reading, runs.end()))
}

fn unreadable(file: &Path) -> impl FnOnce(Error) -> Error {
    move |e| Error::user(format!("{} is not a readable trace", file.display())).because(e)
}

/// A file's text, or that of standard input, unpacked where it begins as gzip's do.
fn open(file: &Path) -> Result<Box<dyn BufRead>> {
    let failed = || format!("cannot read {}", file.display());
    let mut input: Box<dyn BufRead> = match file.as_os_str() == "-" {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(BufReader::with_capacity(1 << 16, File::open(file).user(failed)?)),
    };
    // A pipe may give one byte first.
    let mut first = Vec::new();
    input.by_ref().take(2).read_to_end(&mut first).user(failed)?;
    let packed = first == [0x1f, 0x8b];
    let whole = BufReader::with_capacity(1 << 16, std::io::Cursor::new(first).chain(input));
    Ok(if packed { Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(whole))) } else { Box::new(whole) })
}

/// The logs in a folder and those below it, in the order of their names. Links are not followed, and a pipe is no log:
/// it might never end.
fn logs_below(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let failed = || format!("cannot read {}", folder.display());
    let mut entries: Vec<_> = std::fs::read_dir(folder).user(failed)?.collect::<std::io::Result<_>>().user(failed)?;
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let stem = name.strip_suffix(".gz").unwrap_or(&name);
        let kind = entry.file_type().user(failed)?;
        if kind.is_dir() {
            logs_below(&entry.path(), found)?;
        } else if kind.is_file() && ENDINGS.iter().any(|ending| stem.ends_with(ending)) {
            found.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_to_be_kept_is_refused() {
        let text = "a-1 [000] .... 1.0: print: A_START\na-1 [000] .... 2.0: print: A_END\n";
        let read = |most_bytes: usize| whole(text.as_bytes(), most_bytes as u64);
        assert_eq!(read(text.len()).unwrap().events.len(), 2);
        for most_bytes in [text.len() - 1, text.len() - 20] {
            let error = read(most_bytes).unwrap_err();
            assert!(error.message().contains("more than") && error.cure().is_some(), "{error}");
        }
    }
}
