//! `pocketstone import` and `pocketstone workload`.

use crate::arguments::{ImportArguments, MakeArguments, WorkloadCommand};
use pocketstone_core::database::Recipe;
use pocketstone_core::error::Context;
use pocketstone_core::plan::Pattern;
use pocketstone_core::units::format_ns;
use pocketstone_core::{Error, Result};
use pocketstone_workload::database::{Trace, from_file, from_sql_log, prepare, to_published};
use std::path::Path;

/// Makes a prepared workload of a database and a list of statements.
///
/// # Errors
/// When a file cannot be read, or the statements are not understood; the line is named.
pub fn import(arguments: &ImportArguments) -> Result<u8> {
    let queries = read_text(&arguments.queries)?;
    let image = match &arguments.db {
        Some(file) => read(file)?,
        None => Vec::new(),
    };
    let named = |e: Error| Error::user(format!("{} is no list of statements", arguments.queries.display())).because(e);
    let trace = from_sql_log(&queries, image, arguments.delay, arguments.seed).map_err(named)?;
    // Bad SQL is found now, and not when a study has run for an hour.
    pocketstone_engine::database::reference(&std::sync::Arc::new(trace.clone()))
        .user(|| format!("{} does not run on SQLite", arguments.queries.display()))?;
    let output = arguments.output.clone().unwrap_or_else(|| arguments.queries.with_extension("trace"));
    write(&output, &trace)?;
    show(&trace, 0);
    if let Some(study) = &arguments.study {
        // Timestamps say when statements came; a delay is one that follows the statement before.
        let arrival = if arguments.delay.is_none() { "open" } else { "closed" };
        let text = study_text(&output, study, arrival)?;
        std::fs::write(study, text).user(|| format!("cannot write {}", study.display()))?;
        say!("study: {}\nrun it: pocketstone run {}", study.display(), study.display());
    }
    Ok(0)
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
        "title = {}\nboard = \"host\"\nrepetitions = 3\nseed = 1\n\n[[experiment]]\nname = \"own\"\n\
         [experiment.factors]\nfile_system = \"directory\"\nworkload = \"prepared\"\nworkload_file = {}\n\
         engine = \"sqlite\"\nsql = \"text\"\narrival = \"{arrival}\"\ndelay = [\"none\", \"own\"]\n\
         journal_mode = [\"delete\", \"wal\"]\n\n[[figure]]\nname = \"mean\"\n\
         title = \"Mean time of a statement\"\ncaption = \"Without delays, and with the workload's own.\"\n\
         experiment = \"own\"\nmetric = \"mean_ns\"\nshow = \"value\"\nx = \"delay\"\nseries = [\"journal_mode\"]\n\n\
         [[detail]]\nname = \"one-run\"\ntitle = \"One run\"\ncaption = \"Its latencies, its time line, and its \
         statements with everything that they caused.\"\nonly = \"delay = 'own' AND journal_mode = 'delete'\"\n",
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
/// When a file is none, or cannot be read or written.
pub fn workload(command: &WorkloadCommand) -> Result<u8> {
    match command {
        WorkloadCommand::Make(arguments) => make(arguments)?,
        WorkloadCommand::Show { file, operations } => show(&open(file)?, *operations),
        WorkloadCommand::Export { file, json } => {
            let text = to_published(&open(file)?)?;
            std::fs::write(json, text).user(|| format!("cannot write {}", json.display()))?;
        }
    }
    Ok(0)
}

fn make(arguments: &MakeArguments) -> Result<()> {
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

fn open(file: &Path) -> Result<Trace> {
    from_file(&read(file)?, &file.display().to_string(), None, 0)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).user(|| format!("cannot read {}", file.display()))
}

fn read_text(file: &Path) -> Result<String> {
    String::from_utf8(read(file)?).user(|| format!("{} is no UTF-8 text", file.display()))
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
        "loads with {} statements{}",
        trace.loading().len(),
        match trace.image.len() {
            0 => String::new(),
            bytes => format!(", starts from a database of {bytes} bytes"),
        }
    );
    say!("{} operations, {} of delays in all", trace.operations(), format_ns(summary.pause_ns as f64));
    for (word, count) in &summary.words {
        say!("  {count:>8} {word}");
    }
    for step in trace.measured().iter().take(operations) {
        say!("{:>10} {}", format_ns(step.pause_ns as f64), trace.sql(step));
    }
}
