//! `pocketstone run -- PROGRAM`: the study of a program that the user names on the command line.

use crate::again::quote;
use crate::arguments::RunArguments;
use crate::boards::profile;
use pocketstone_board::Profile;
use pocketstone_core::{Error, Result};
use pocketstone_study::Study;
use std::path::Path;

/// Seeds of a point where the user does not say how many: as many as an interval of a median needs.
pub const REPETITIONS: u32 = 5;

/// A file's name as the program knows it: from its folder on, and what its output is written to.
const FILE: &str = "CASE WHEN file IS NULL THEN 'unnamed' WHEN file LIKE '%/command-output' THEN 'its output' \
    WHEN instr(file, '/pocketstone-files/') > 0 THEN substr(file, instr(file, '/pocketstone-files/') + 19) \
    ELSE file END";

/// The names of the tables that answer, in the study.
pub const TABLES: [&str; 3] = ["took", "files", "output"];

/// The study of the program that the arguments have.
///
/// # Errors
/// `ErrorKind::User` if a factor is unknown or has no such value, or if the program is named by a path that leads
/// nowhere.
pub fn study(arguments: &RunArguments) -> Result<Study> {
    let [program, rest @ ..] = &arguments.program[..] else { return Err(Error::user("no program given")) };
    let path = Path::new(program);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // A file that is named is brought along; any other word is a program that the board has.
    let brought = program.contains('/') && path.is_file() && arguments.files.is_none();
    if program.contains('/') && path.is_relative() && !brought && arguments.files.is_none() {
        return Err(Error::user(format!("there is no file {program}")).hint(
            "a program that the board has is named without its folder; files that belong to one are given by --files",
        ));
    }
    let files = if brought { Some(path) } else { arguments.files.as_deref() };
    let first = if brought { format!("./{}", quote(&name)) } else { quote(program) };
    let line = std::iter::once(first).chain(rest.iter().map(|word| quote(word))).collect::<Vec<_>>().join(" ");
    let mut factors = toml::Table::new();
    factors.insert("workload".into(), "command".into());
    factors.insert("command".into(), line.clone().into());
    if let Some(files) = files {
        factors.insert("command_files".into(), files.to_string_lossy().into_owned().into());
    }
    for set in &arguments.set {
        let (factor, values) = factor_and_values(set)?;
        factors.insert(factor.into(), values_of(factor, values).into());
    }
    if !factors.contains_key("file_system") {
        let board = profile(arguments.board.as_deref().unwrap_or("host"))?;
        factors.insert("file_system".into(), usual_file_system(&board).into());
    }
    let varied: Vec<&str> = factors
        .iter()
        .filter(|(_, v)| v.as_array().is_some_and(|v| v.len() > 1))
        .map(|(name, _)| name.as_str())
        .collect();
    let mut text = toml::Table::new();
    text.insert("title".into(), line.into());
    text.insert("board".into(), arguments.board.clone().unwrap_or_else(|| "host".into()).into());
    text.insert("repetitions".into(), i64::from(arguments.repetitions.unwrap_or(REPETITIONS)).into());
    let mut experiment = toml::Table::new();
    experiment.insert("name".into(), "command".into());
    experiment.insert("traced".into(), "first".into());
    experiment.insert("factors".into(), factors.clone().into());
    text.insert("experiment".into(), vec![toml::Value::from(experiment)].into());
    text.insert(
        "table".into(),
        vec![
            toml::Value::from(took(&varied)),
            toml::Value::from(files_used(&varied)),
            toml::Value::from(output(&varied)),
        ]
        .into(),
    );
    let text = toml::to_string(&text).map_err(|e| Error::bug("a study has no text").because(e))?;
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    Study::parse(&format!("{}.toml", name.chars().map(plain).collect::<String>()), &text)
}

/// A value as it stands in a study.
pub fn value(text: &str) -> toml::Value {
    let number = text.parse::<i64>().map(toml::Value::from);
    number.or_else(|_| text.parse::<bool>().map(toml::Value::from)).unwrap_or_else(|_| text.into())
}

/// The values of a factor that are separated by commas; a command line is one, whatever is in it.
pub fn values_of(factor: &str, values: &str) -> Vec<toml::Value> {
    match factor {
        "command" => vec![values.into()],
        _ => values.split(',').map(|text| value(text.trim())).collect(),
    }
}

/// The two sides of `FACTOR=VALUE,...`.
///
/// # Errors
/// `ErrorKind::User` if one is missing.
pub fn factor_and_values(set: &str) -> Result<(&str, &str)> {
    set.split_once('=')
        .filter(|(name, values)| !name.is_empty() && !values.is_empty())
        .ok_or_else(|| Error::user(format!("`--set {set}` sets nothing")).hint("such as --set file_system=jffs2,ubifs"))
}

/// The file system where the user names none: that of a directory, or the one that boards of ours have first.
pub fn usual_file_system(board: &Profile) -> &'static str {
    if board.kind().one_at_a_time { "directory" } else { "jffs2" }
}

/// Factors as columns with names in words, and as terms to order by, each with its comma; `of` is what stands before
/// their names.
fn columns(varied: &[&str], of: &str) -> [String; 2] {
    let column = |name: &&str| format!("{of}{name} AS \"{}\", ", name.replace('_', " "));
    [varied.iter().map(column).collect(), varied.iter().map(|name| format!("{of}{name}, ")).collect()]
}

/// What the runs took: a line for each quantity that was measured.
fn took(varied: &[&str]) -> toml::Table {
    let [columns, order] = columns(varied, "");
    table(
        "took",
        "What it took",
        "Medians over the seeds. Times are those of runs that were not traced; calls, pages, requests and flash \
         operations are those of a traced one, with all processes that the command started.",
        format!(
            "WITH shown(place, metric, what, divisor, unit) AS (VALUES \
             (1, 'total_ns', 'from start to end', 1e6, ' ms'), \
             (2, 'on_core_ns', 'time on a core', 1e6, ' ms'), \
             (3, 'kernel_ns', 'of it in the kernel', 1e6, ' ms'), \
             (4, 'io_ns', 'time in calls that read, write or sync', 1e6, ' ms'), \
             (5, 'reads', 'read calls', 1.0, ''), (6, 'read_bytes', 'bytes read', 1024.0, ' KiB'), \
             (7, 'writes', 'write calls', 1.0, ''), (8, 'written_bytes', 'bytes written', 1024.0, ' KiB'), \
             (9, 'syncs', 'sync calls', 1.0, ''), (10, 'cache_misses', 'page-cache misses', 1.0, ' pages'), \
             (11, 'major_faults', 'major page faults', 1.0, ''), \
             (12, 'block_reads', 'block requests that read', 1.0, ''), \
             (13, 'block_writes', 'block requests that write', 1.0, ''), \
             (14, 'page_senses', 'flash page senses', 1.0, ''), \
             (15, 'page_programs', 'flash page programs', 1.0, ''), \
             (16, 'block_erases', 'flash block erases', 1.0, ''), \
             (17, 'energy_uj', 'energy', 1000.0, ' mJ'), \
             (18, 'active_energy_uj', 'energy less idle', 1000.0, ' mJ')) \
             SELECT {columns}what AS quantity, printf('%.6g%s', median / divisor, unit) AS median, \
             iif(low IS NULL OR low = high, '', printf('%.6g to %.6g%s', low / divisor, high / divisor, unit)) \
             AS spread, \
             n AS runs FROM shown JOIN summary USING (metric) ORDER BY {order}place"
        ),
    )
}

/// Which files the calls of the first seed's traced run were on.
fn files_used(varied: &[&str]) -> toml::Table {
    let [columns, order] = columns(varied, "c.");
    table(
        "files",
        "Its files",
        "Calls by file in the traced run, those with the most time first; 20 at most for each point. Files whose name \
         the trace does not have are one line.",
        format!(
            "WITH ranked AS (SELECT f.*, row_number() OVER (PARTITION BY cell ORDER BY \
             read_ns + write_ns + sync_ns DESC, coalesce(cache_misses, 0) DESC, file) AS place FROM file_cost f) \
             SELECT {columns}{FILE} AS file, reads, read_bytes AS \"bytes read\", writes, \
             written_bytes AS \"bytes written\", syncs, \
             printf('%.3f ms', (read_ns + write_ns + sync_ns) / 1e6) AS \"time in them\", \
             cache_misses AS \"cache misses\" \
             FROM ranked JOIN cells c ON c.id = cell WHERE place <= 20 AND c.repetition = 0 ORDER BY {order}place"
        ),
    )
}

/// The end of what it wrote.
fn output(varied: &[&str]) -> toml::Table {
    let [columns, _] = columns(varied, "c.");
    table(
        "output",
        "Its output",
        "The end of what it wrote to standard output and standard error with the first seed; the results have up to \
         64 KiB of each run.",
        format!(
            "SELECT {columns}c.seed, rtrim(substr(outcome ->> '$.command.output', -400), char(10)) AS output \
             FROM cells c JOIN cell USING (id) WHERE c.repetition = 0 AND NOT c.traced AND output <> '' ORDER BY c.id"
        ),
    )
}

fn table(name: &str, title: &str, caption: &str, query: String) -> toml::Table {
    let texts =
        [("name", name.to_owned()), ("title", title.to_owned()), ("caption", caption.to_owned()), ("query", query)];
    texts.into_iter().map(|(key, text)| (key.to_owned(), text.into())).collect()
}
