//! The text of a job file: sections of options, each with its line.

use pocketstone_core::{Error, Result};

/// An option as it stands in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    /// Where it stands, for messages.
    pub at: String,
    /// Its name, as written.
    pub name: String,
    /// Its value; an option without one is switched on.
    pub value: String,
}

impl Given {
    /// That this option cannot be followed.
    pub fn wrong(&self, why: impl std::fmt::Display) -> Error {
        Error::user(format!("{}: `{}={}`: {why}", self.at, self.name, self.value))
    }
}

/// A job, with what the global sections before it say first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    /// The line of its name.
    pub at: String,
    /// Its name.
    pub name: String,
    /// Its options in order; later ones replace earlier ones.
    pub options: Vec<Given>,
}

/// The jobs of a file whose name is `file`; `further` options, separated by blanks, end each of them.
pub(super) fn sections(text: &str, file: &str, further: &str) -> Result<Vec<Section>> {
    let mut global: Vec<Given> = Vec::new();
    let mut jobs: Vec<Section> = Vec::new();
    let mut in_global = None;
    for (number, line) in text.lines().enumerate() {
        let at = format!("{file} line {}", number + 1);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.split_once(']').filter(|(name, rest)| !name.is_empty() && comment(rest));
            let Some((name, _)) = name else {
                return Err(Error::user(format!("{at}: `{line}` is no name of a section")).hint("write it as [name]"));
            };
            in_global = Some(name == "global");
            if name != "global" {
                jobs.push(Section { at, name: name.to_owned(), options: global.clone() });
            }
            continue;
        }
        let option = option(&at, line)?;
        match (in_global, jobs.last_mut()) {
            (Some(true), _) => global.push(option),
            (Some(false), Some(job)) => job.options.push(option),
            _ => {
                let error = Error::user(format!("{at}: `{line}` stands before the first section"));
                return Err(error.hint("begin with [global] or with the name of a job, as [name]"));
            }
        }
    }
    for (number, word) in further.split_whitespace().enumerate() {
        let option = option(&format!("fio_options, word {}", number + 1), word.trim_start_matches("--"))?;
        jobs.iter_mut().for_each(|job| job.options.push(option.clone()));
    }
    if jobs.is_empty() {
        return Err(Error::user(format!("{file} has no job")).hint("a job begins with its name, as [name]"));
    }
    Ok(jobs)
}

fn comment(rest: &str) -> bool {
    let rest = rest.trim();
    rest.is_empty() || rest.starts_with(['#', ';'])
}

fn option(at: &str, line: &str) -> Result<Given> {
    // What follows a `;` or `#` is a comment, inside a value, too.
    let end = line.find([';', '#']).unwrap_or(line.len());
    let line = line[..end].trim_end();
    if line.starts_with("include ") {
        return Err(Error::user(format!("{at}: `include` is not supported")).hint("put the other file's text here"));
    }
    let (name, value) = line.split_once('=').unwrap_or((line, "1"));
    let given = Given { at: at.to_owned(), name: name.trim().to_owned(), value: value.trim().to_owned() };
    if given.value.contains("${") {
        let error = given.wrong("variables of the environment are not replaced");
        return Err(error.hint("write the value, or leave it to the study's fio_options"));
    }
    Ok(given)
}
