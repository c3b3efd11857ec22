//! Man pages of a command and of all its subcommands.

use clap::{Arg, Command};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Writes a command's man pages to a folder and returns the first one's path. They have the date of
/// `SOURCE_DATE_EPOCH`, in seconds, or else today's.
///
/// # Errors
/// `ErrorKind::User` if the folder cannot be written to.
pub fn man(command: Command, folder: &Path) -> Result<PathBuf> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    fs::create_dir_all(folder).user(|| format!("cannot create {}", folder.display()))?;
    let version = command.get_version().and_then(|version| version.split_whitespace().next()).unwrap_or_default();
    let issue = Issue { date: date(), source: format!("{} {version}", command.get_name()) };
    write(&command, folder, &issue)
}

/// What all pages have in their title.
struct Issue {
    date: String,
    source: String,
}

fn date() -> String {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let given = given.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    given.unwrap_or_else(jiff::Timestamp::now).strftime("%Y-%m-%d").to_string()
}

fn write(command: &Command, folder: &Path, issue: &Issue) -> Result<PathBuf> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write(below, folder, issue)?;
    }
    let page = clap_mangen::Man::new(command.clone()).date(&issue.date).source(&issue.source);
    let path = folder.join(page.get_filename());
    let mut text = Vec::new();
    page.render(&mut text).user(|| format!("cannot write {}", path.display()))?;
    let text = String::from_utf8(text).map_err(|e| Error::bug("a man page is not UTF-8").because(e))?;
    fs::write(&path, with_synopsis(&text, command)).user(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The page with a synopsis that names the values of options, which the library's leaves out.
fn with_synopsis(page: &str, command: &Command) -> String {
    let (head, behind) = (".SH SYNOPSIS\n", ".SH DESCRIPTION\n");
    match page.split_once(head).and_then(|(before, rest)| Some((before, rest.split_once(behind)?.1))) {
        Some((before, after)) => format!("{before}{head}{}\n{behind}{after}", synopsis(command)),
        None => page.to_owned(),
    }
}

fn synopsis(command: &Command) -> String {
    let shown = || command.get_arguments().filter(|argument| !argument.is_hide_set());
    let (positionals, options): (Vec<&Arg>, Vec<&Arg>) = shown().partition(|argument| argument.is_positional());
    let mut words = vec![font('B', command.get_bin_name().unwrap_or(command.get_name()))];
    words.extend(options.into_iter().map(|option| bracketed(option, &option_names(option))));
    words.extend(positionals.into_iter().map(|positional| bracketed(positional, &values(positional))));
    if command.has_subcommands() {
        words.push(font('I', "COMMAND"));
    }
    words.join(" ")
}

fn bracketed(argument: &Arg, text: &str) -> String {
    // What stands behind `--` is the words of another command.
    let separator = if argument.is_last_set() { font('B', "--") + " " } else { String::new() };
    match argument.is_required_set() {
        true => separator + text,
        false => format!("[{separator}{text}]"),
    }
}

fn option_names(option: &Arg) -> String {
    let short = option.get_short().map(|short| font('B', &format!("-{short}")));
    let long = option.get_long().map(|long| font('B', &format!("--{long}")));
    let names = short.into_iter().chain(long).collect::<Vec<_>>().join("|");
    let takes_values = option.get_num_args().is_some_and(|count| count.takes_values());
    if takes_values { format!("{names} {}", values(option)) } else { names }
}

fn values(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let names = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ");
    let many = argument.get_num_args().is_some_and(|count| count.max_values() > 1);
    font('I', &names) + if many { "..." } else { "" }
}

/// Text in a font of roff, whose hyphens are those that one types.
fn font(font: char, text: &str) -> String {
    format!("\\f{font}{}\\fR", text.replace('\\', "\\e").replace('-', "\\-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ArgAction;

    #[test]
    fn pages_name_values_date_and_version() {
        let options = Arg::new("options").short('o').value_name("OPTIONS").action(ArgAction::Append);
        let threads = Arg::new("threads").long("threads").value_name("N").required(true);
        let program = Arg::new("program").value_name("PROGRAM").num_args(1..).last(true);
        let below = Command::new("run").args([options, threads, program]).disable_help_flag(true);
        let command = Command::new("tool").version("1.2.3 (revision 4)").subcommand(below);
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(man(command, folder.path()).expect("pages"), folder.path().join("tool.1"));
        let page = fs::read_to_string(folder.path().join("tool-run.1")).expect("the page");
        let synopsis =
            r"\fBtool run\fR [\fB\-o\fR \fIOPTIONS\fR] \fB\-\-threads\fR \fIN\fR [\fB\-\-\fR \fIPROGRAM\fR...]";
        assert!(page.lines().any(|line| line == synopsis), "{page}");
        let title = page.lines().find(|line| line.starts_with(".TH tool-run 1 ")).expect("a title");
        assert!(title.contains("\"tool 1.2.3\"") && title.contains(&date()), "{title}");
    }
}
