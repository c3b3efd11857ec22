//! `pocketstone import` and `pocketstone workload`.

use crate::arguments::{ImportArguments, MakeArguments, WorkloadCommand};
use crate::{again, calls};
use pocketstone_core::database::Recipe;
use pocketstone_core::error::Context;
use pocketstone_core::pattern::Pattern;
use pocketstone_core::units::format_ns;
use pocketstone_core::words::counted;
use pocketstone_core::{Error, Result};
use pocketstone_workload::database::{Trace, check_image, from_file, import as parse_log, prepare, to_published};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Makes a prepared workload of a database and a list of statements.
///
/// # Errors
/// `ErrorKind::User` if a file cannot be read or written, or the statements are not understood; the message includes
/// the line.
pub fn import(arguments: &ImportArguments) -> Result<u8> {
    let queries = read_text(&arguments.queries)?;
    let image = match &arguments.db {
        Some(file) => {
            let image = read(file)?;
            check_image(&image).user(|| format!("{} is not the log's database", file.display()))?;
            image
        }
        None => Vec::new(),
    };
    let output = arguments.output.clone().unwrap_or_else(|| arguments.queries.with_extension("trace"));
    refuse_others_file(&output, PREPARED)?;
    // Timestamps say when statements came; a delay is one that follows the statement before.
    let arrival = if arguments.delay.is_none() { "open" } else { "closed" };
    let study = arguments.study.as_deref().map(|study| Ok::<_, Error>((study, study_text(&output, study, arrival)?)));
    let study = study.transpose()?;
    if let Some((path, text)) = &study {
        if std::fs::read_to_string(path).is_ok_and(|there| there != *text) || path.is_dir() {
            return Err(Error::user(format!("{} already exists and is a different study", path.display()))
                .hint("give --study another name, or omit it: the existing study runs the new workload"));
        }
    }
    let (trace, skipped) = understood(arguments, &queries, image)?;
    write(&output, &trace)?;
    show(&trace, 0);
    if !skipped.is_empty() {
        say!("skipped, with {} lines in total:", skipped.len());
        skipped.iter().for_each(|(line, why)| say!("  line {line}: {why}"));
    }
    if let Some((study, text)) = &study {
        std::fs::write(study, text).user(|| format!("cannot write {}", study.display()))?;
        let (command, file) = (again::this_command(), again::quote(&study.to_string_lossy()));
        say!("study: {}\nrun it: {command} run {file}", study.display());
    }
    Ok(0)
}

/// The workload of a log, and the lines of it that are left out.
fn understood(arguments: &ImportArguments, queries: &str, image: Vec<u8>) -> Result<(Trace, Vec<(usize, String)>)> {
    let path = arguments.queries.display();
    let named = |e: Error| Error::user(format!("{path} is not a list of statements")).because(e);
    let mut skip = BTreeMap::new();
    loop {
        let skipping = arguments.skip_errors.then_some(&skip);
        let found = parse_log(queries, image.clone(), arguments.delay, arguments.seed, skipping).map_err(named)?;
        let trace = Arc::new(found.trace);
        // Bad SQL is found now, and not when a study has run for an hour.
        let failing = pocketstone_engine::database::failing(&trace)?;
        let line = |step: usize| found.lines.get(step).copied().unwrap_or_default();
        match failing.first() {
            None => {
                let trace = Arc::try_unwrap(trace).map_err(|_| Error::bug("a workload is in use"))?;
                return Ok((trace, found.skipped));
            }
            Some((step, error)) if !arguments.skip_errors => {
                let text = trace.sql(&trace.measured()[*step]);
                let shown: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(120).collect();
                let why = Error::user(format!("line {}: {}", line(*step), error.chain()));
                return Err(Error::user(format!("{path} does not run on SQLite: {shown}"))
                    .because(why)
                    .hint("pass its database with --db, or skip such lines with --skip-errors"));
            }
            // What failed changed nothing, but left out, it may let others run that failed with it.
            Some(_) => skip.extend(failing.iter().map(|(step, error)| (line(*step), error.chain()))),
        }
    }
}

/// What a kind of workload begins with, and its name.
type Start = (&'static [u8], &'static str);
const PREPARED: Start = (b"PKTTRACE", "a prepared workload");
const PUBLISHED: Start = (b"{\"init\"", "a workload in JSON");

/// Refuses to write a workload over a file that is none of its kind.
fn refuse_others_file(path: &Path, (start, kind): Start) -> Result<()> {
    // That it cannot be looked at, is said by who writes it.
    let Ok(facts) = std::fs::metadata(path) else { return Ok(()) };
    let mut there = vec![0; start.len()];
    // Anything else may have no end, or wait for somebody who writes.
    let same = facts.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut there)).is_ok();
    match same && there == start {
        true => Ok(()),
        false => Err(Error::user(format!("{} already exists and is not {kind}", path.display()))
            .hint("choose another file to write to")),
    }
}

/// A study of a prepared workload: engines that have SQL, with its own delays and without any.
fn study_text(workload: &Path, study: &Path, arrival: &str) -> Result<String> {
    let absolute = std::path::absolute(workload).user(|| format!("cannot resolve {}", workload.display()))?;
    let folder = std::path::absolute(study).user(|| format!("cannot resolve {}", study.display()))?;
    // Beside each other, the two can be moved together.
    let path = match absolute.parent() == folder.parent() {
        true => absolute.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        false => absolute.to_string_lossy().into_owned(),
    };
    let name = absolute.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let quoted = |text: &str| toml_string(text);
    Ok(format!(
        "title = {}\nboard = \"host\"\nrepetitions = 3\nseed = 1\n\n[[experiment]]\nname = \"own\"\ntraced = \
            \"first\"\n[experiment.factors]\nfile_system = \"directory\"\nworkload = \"prepared\"\nworkload_file = \
            {}\nengine = \"sqlite\"\nsql = \"text\"\narrival = \"{arrival}\"\ndelay = [\"none\", \
            \"own\"]\njournal_mode = [\"delete\", \"wal\"]\n\n[[figure]]\nname = \"mean\"\ntitle = \"Mean time of a \
            statement\"\ncaption = \"Without delays, and with the workload's own.\"\nexperiment = \"own\"\nmetric = \
            \"mean_ns\"\nshow = \"value\"\nx = \"delay\"\nseries = [\"journal_mode\"]\n\n[[detail]]\nname = \
            \"one-run\"\ntitle = \"One run\"\ncaption = \"Its latencies, its timeline, and its statements with \
            everything they caused.\"\nonly = \"delay = 'own' AND journal_mode = 'delete'\"\n",
        quoted(&format!("{name} on SQLite")),
        quoted(&path),
    ))
}

fn toml_string(text: &str) -> String {
    // JSON's escapes are all TOML's.
    serde_json::Value::from(text).to_string()
}

/// Carries out a command on workloads.
///
/// # Errors
/// `ErrorKind::User` if a file is not a prepared workload or cannot be read or written, or a number is out of range.
pub fn workload(command: &WorkloadCommand) -> Result<u8> {
    match command {
        WorkloadCommand::Make(arguments) => make(arguments)?,
        WorkloadCommand::Show { file, operations, below } => match (from_prepared(file), below) {
            (Some(trace), None) => show(&trace?, *operations),
            _ => calls::show(file, *operations, below.as_deref())?,
        },
        WorkloadCommand::Export { file, json } => {
            refuse_others_file(json, PUBLISHED)?;
            let text = to_published(&open(file)?)?;
            std::fs::write(json, text).user(|| format!("cannot write {}", json.display()))?;
        }
    }
    Ok(0)
}

fn make(arguments: &MakeArguments) -> Result<()> {
    refuse_others_file(&arguments.output, PREPARED)?;
    let recipe = Recipe {
        workload: arguments.workload,
        file: None,
        records: arguments.records,
        operations: arguments.operations,
        fields: arguments.fields,
        field_bytes: arguments.field_bytes,
        scan_records: arguments.scan_records,
        pattern: Pattern::Random,
        delay: Some(arguments.delay),
    };
    let trace = prepare(&recipe, arguments.seed)?;
    write(&arguments.output, &trace)?;
    show(&trace, 0);
    Ok(())
}

/// A prepared workload or one published as JSON; `None`: the file is neither.
fn from_prepared(file: &Path) -> Option<Result<Trace>> {
    let start = std::fs::read(file).ok()?;
    let json = start.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| *byte == b'{');
    (json || start.starts_with(PREPARED.0)).then(|| open(file))
}

fn open(file: &Path) -> Result<Trace> {
    from_file(&read(file)?, &file.display().to_string(), None, 0)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).user(|| format!("cannot read {}", file.display()))
}

fn read_text(file: &Path) -> Result<String> {
    String::from_utf8(read(file)?).user(|| format!("{} is not UTF-8 text", file.display()))
}

fn write(file: &Path, trace: &Trace) -> Result<()> {
    let bytes = trace.encode();
    std::fs::write(file, &bytes).user(|| format!("cannot write {}", file.display()))?;
    say!("{}: {} bytes, digest {}", file.display(), bytes.len(), Trace::digest(&bytes));
    Ok(())
}

fn show(trace: &Trace, operations: usize) {
    let summary = trace.summary();
    say!(
        "loads with {}{}",
        counted(trace.loading().len(), "statement"),
        match trace.image.len() {
            0 => String::new(),
            bytes => format!(", starts from a database of {bytes} bytes"),
        }
    );
    let operations_in_all = counted(trace.operations(), "operation");
    say!("{operations_in_all}, {} of delays in total", format_ns(summary.pause_ns as f64));
    for (word, count) in &summary.words {
        say!("  {count:>8} {word}");
    }
    for step in trace.first_operations(operations) {
        say!("{:>10} {}", format_ns(step.pause_ns as f64), trace.sql(step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_workload_replaces_only_what_is_one_of_its_kind() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("trace"), "PKTTRACE and so on").unwrap();
        fs::write(path("json"), "{\"init\": []}").unwrap();
        fs::write(path("short"), "PKT").unwrap();
        fs::write(path("text"), "CREATE TABLE t (a)").unwrap();
        for (name, prepared, published) in [
            ("trace", true, false),
            ("json", false, true),
            ("short", false, false),
            ("text", false, false),
            ("new", true, true),
            (".", false, false),
            // Reading it would not end.
            ("/dev/full", false, false),
        ] {
            for (start, replaced) in [(PREPARED, prepared), (PUBLISHED, published)] {
                assert_eq!(refuse_others_file(&path(name), start).is_ok(), replaced, "{name} by {}", start.1);
            }
        }
    }

    #[test]
    fn making_and_exporting_leave_other_files_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let told = |words: &[&str]| {
            let words = ["pocketstone", "workload"].iter().chain(words);
            match <crate::arguments::Arguments as clap::Parser>::try_parse_from(words).unwrap().command {
                crate::arguments::Command::Workload(command) => workload(&command),
                _ => unreachable!("it is a command on workloads"),
            }
        };
        let make = |output: &str| told(&["make", "ycsb-c", "--records", "5", "--operations", "5", "-o", output]);
        fs::write(path("mine"), "mine").unwrap();
        for _ in 0..2 {
            make(&path("trace")).unwrap();
            told(&["export", &path("trace"), &path("json")]).unwrap();
        }
        assert!(make(&path("mine")).is_err() && told(&["export", &path("trace"), &path("mine")]).is_err());
        assert_eq!(fs::read(path("mine")).unwrap(), b"mine");
    }
}
