//! `pocketstone run -- PROGRAM`: the study of a program that the user names on the command line.

mod page;

use crate::again::quote;
use crate::arguments::RunArguments;
use crate::boards::profile;
use pocketstone_core::{Error, Result};
use pocketstone_study::Study;
use pocketstone_study::specification::factor::{named, read};
use std::collections::BTreeMap;
use std::path::Path;

/// Seeds of a point where the user does not say how many: as many as an interval of a median needs.
pub const REPETITIONS: u32 = 5;

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
    for (factor, values) in all_set(&arguments.set)? {
        if ["workload", "command", "command_files"].contains(&factor.as_str()) {
            return Err(Error::user(format!("`--set {factor}`: the workload is the program that is given"))
                .hint("to run another workload, write a study (pocketstone study new)"));
        }
        factors.insert(factor.clone(), checked(&factor, &values)?.into());
    }
    if !factors.contains_key("file_system") {
        let board = profile(arguments.board.as_deref().unwrap_or("host"))?;
        factors.insert("file_system".into(), board.usual_volume().name().into());
    }
    let varied: Vec<&str> = factors
        .iter()
        .filter(|(_, v)| v.as_array().is_some_and(|v| v.len() > 1))
        .map(|(name, _)| name.as_str())
        .collect();
    let mut text = toml::Table::new();
    text.insert("title".into(), line.into());
    text.insert("board".into(), arguments.board.clone().unwrap_or_else(|| "host".into()).into());
    let repetitions = arguments.repetitions.unwrap_or(REPETITIONS);
    text.insert("repetitions".into(), i64::from(repetitions).into());
    let mut experiment = toml::Table::new();
    experiment.insert("name".into(), "command".into());
    experiment.insert("traced".into(), "first".into());
    experiment.insert("factors".into(), factors.clone().into());
    text.insert("experiment".into(), vec![toml::Value::from(experiment)].into());
    text.extend(page::parts(&varied, repetitions));
    let text = toml::to_string(&text).map_err(|e| Error::bug("a study has no text").because(e))?;
    // Its factors are from `--set`, and the rest is right: there is no file to name in errors.
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    Study::parse_as(&name.chars().map(plain).collect::<String>(), "the study of this command", &text)
}

/// The values that are set for a factor.
///
/// # Errors
/// `ErrorKind::User` if there is no such factor, or it has no such value; the message has what was written.
fn checked(factor: &str, values: &str) -> Result<Vec<toml::Value>> {
    let wrong = |error: Error| {
        let placed = Error::user(format!("{}, in --set {factor}={values}", error.chain()));
        error.cure().into_iter().fold(placed, Error::hint)
    };
    let known = named(factor).map_err(wrong)?;
    let values = values_of(factor, values);
    values.iter().try_for_each(|value| read(known, value).map(drop)).map_err(wrong)?;
    Ok(values)
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

/// The values of the factors that are set, each by `FACTOR=VALUE,...`, by their names.
///
/// # Errors
/// `ErrorKind::User` if a side is missing, or a factor is set twice.
pub fn all_set(set: &[String]) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for set in set {
        let (factor, values) = factor_and_values(set)?;
        if all.insert(factor.to_owned(), values.to_owned()).is_some() {
            let error = Error::user(format!("`{factor}` is set twice"));
            return Err(error.hint(format!("give all its values at once: --set {factor}=ONE,OTHER")));
        }
    }
    Ok(all)
}

fn factor_and_values(set: &str) -> Result<(&str, &str)> {
    set.split_once('=')
        .filter(|(name, values)| !name.is_empty() && !values.is_empty())
        .ok_or_else(|| Error::user(format!("`--set {set}` sets nothing")).hint("such as --set file_system=jffs2,ubifs"))
}
