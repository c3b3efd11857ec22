//! `pocketstone study new`: a commented study to begin with.

use crate::arguments::StudyNewArguments;
use crate::{boards, own_program};
use pocketstone_core::error::Context;
use pocketstone_core::words::{Word, choices};
use pocketstone_core::{Error, Result};
use pocketstone_study::Study;
use pocketstone_workload::factor::{AnyFactor, Kind};
use pocketstone_workload::table::Name;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, IsTerminal, Write as _};
use std::path::Path;

/// Writes a study into a new file. What the user did not say is asked for on a terminal, and has a usual value
/// elsewhere.
///
/// # Errors
/// `ErrorKind::User` if the file exists, a word is unknown, or what was said makes no valid study: nothing is written
/// then.
pub fn new(arguments: &StudyNewArguments) -> Result<()> {
    let file = &arguments.file;
    if file.exists() {
        return Err(Error::user(format!("{} exists", file.display())).hint("choose another name, or remove it"));
    }
    let board = said(&arguments.board, "board (`pocketstone board list`)", "virt-nand")?;
    let profile = boards::profile(&board)?;
    let workload = said(&arguments.workload, "workload (read, files, postmark, ycsb-a, command, ...)", "read")?;
    let name = Name::of_word(&workload).ok_or_else(|| {
        Error::user(format!("unknown workload `{workload}`")).hint(choices(&workload, "workloads", Name::WORDS))
    })?;
    let mut set = set(arguments)?;
    let usual = profile.usual_volume().name();
    let file_systems = match (set.remove("file_system"), &arguments.file_systems) {
        (Some(set), None) => set,
        (None, given) => said(given, "file systems, separated by commas", &usual)?,
        (Some(_), Some(_)) => {
            let error = "`--file-systems` and `--set file_system=...` are the same thing";
            return Err(Error::user(error).hint("give one of them"));
        }
    };
    for factor in name.factors().filter(|factor| factor.default.is_none() && names_a_file(factor)) {
        if !set.contains_key(factor.name) {
            let path = asked(factor.about)?.ok_or_else(|| {
                Error::user(format!("`{workload}` needs a file: {}", factor.about))
                    .hint(format!("add --set {}=FILE", factor.name))
            })?;
            set.insert(factor.name.to_owned(), path);
        }
    }
    let text = text(file, &board, &workload, name, &file_systems, set, arguments)?;
    // Whatever is wrong is said before there is a file.
    Study::parse(&file.display().to_string(), &text)?;
    // It may be there by now: nothing is overwritten.
    let written = File::create_new(file).and_then(|mut new| new.write_all(text.as_bytes()));
    written.user(|| format!("cannot write {}", file.display()))
}

/// What the user said, or says now, or the usual.
fn said(option: &Option<String>, what: &str, usual: &str) -> Result<String> {
    if let Some(said) = option {
        return Ok(said.clone());
    }
    Ok(asked(&format!("{what} [{usual}]"))?.unwrap_or_else(|| usual.to_owned()))
}

/// What the user says on a terminal; `None` where nothing is said.
fn asked(what: &str) -> Result<Option<String>> {
    if !std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let mut out = std::io::stdout();
    let _ = write!(out, "{what}: ").and_then(|()| out.flush());
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).user(|| "cannot read what you say".into())?;
    Ok(Some(line.trim().to_owned()).filter(|line| !line.is_empty()))
}

/// The values of the factors that are set, by their names.
fn set(arguments: &StudyNewArguments) -> Result<BTreeMap<String, String>> {
    let all = own_program::all_set(&arguments.set)?;
    if all.contains_key("workload") {
        return Err(Error::user("a new study has one workload").hint("give it by --workload"));
    }
    Ok(all)
}

/// Whether a factor's value is a file of the user's, for which nothing else can stand.
fn names_a_file(factor: &AnyFactor) -> bool {
    matches!(factor.kind, Kind::Text) && factor.name.ends_with("_file")
}

fn text(
    file: &Path,
    board: &str,
    workload: &str,
    name: Name,
    file_systems: &str,
    mut set: BTreeMap<String, String>,
    arguments: &StudyNewArguments,
) -> Result<String> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let list = |factor: &str, values: &str| -> String {
        let values: Vec<String> = own_program::values_of(factor, values).iter().map(toml::Value::to_string).collect();
        if values.len() == 1 { values[0].clone() } else { format!("[{}]", values.join(", ")) }
    };
    let mut text = format!(
        "# Check it: pocketstone study check {file}\n# Run it:   pocketstone run {file}\n\
         # All keys and factors: docs/studies.md\n\ntitle = {}\nboard = {}\n\
         # Seeds of each combination. A median of 5 or more has a confidence interval.\nrepetitions = {}\n\n\
         [[experiment]]\nname = {}\n[experiment.factors]\n# A list of values is measured value by value, in all \
         combinations.\nfile_system = {}\nworkload = {}\n",
        quoted(&stem),
        quoted(board),
        arguments.repetitions.unwrap_or(own_program::REPETITIONS),
        quoted(workload),
        list("file_system", file_systems),
        quoted(workload),
        file = file.display(),
    );
    for factor in name.factors() {
        let _ = writeln!(text, "# {}{}", factor.about, values(factor));
        let _ = match (set.remove(factor.name), factor.default) {
            (Some(values), _) => writeln!(text, "{} = {}", factor.name, list(factor.name, &values)),
            (None, Some(default)) => writeln!(text, "# {} = {}", factor.name, own_program::value(default)),
            (None, None) => writeln!(text, "{} = {}", factor.name, usual(factor)),
        };
    }
    for (name, values) in set {
        let _ = writeln!(text, "{name} = {}", list(&name, &values));
    }
    text += "\n# To compare two values of a factor:\n# [experiment.compare]\n# factor = \"read_ahead_bytes\"\n\
             # baseline = \"128KiB\"\n# candidate = 0\n";
    let experiment = quoted(workload);
    let _ = write!(
        text,
        "\n[[figure]]\nname = \"time\"\ntitle = \"Total time\"\ncaption = \"Medians over the seeds.\"\n\
         experiment = {experiment}\nmetric = \"total_ns\"\nshow = \"value\"\nx = \"file_system\"\nseries = []\n"
    );
    Ok(text)
}

/// The words that a factor may be.
fn values(factor: &AnyFactor) -> String {
    let default = if factor.or_default { ", or default" } else { "" };
    match factor.kind {
        Kind::Word(words) if words.len() <= 12 => format!(": {}{default}", words.join(", ")),
        _ => String::new(),
    }
}

/// A value to begin with, of a factor that needs one.
fn usual(factor: &AnyFactor) -> &'static str {
    match factor.kind {
        Kind::Bytes => "\"1MiB\"",
        Kind::Text => "\"true\"",
        _ => "64",
    }
}
