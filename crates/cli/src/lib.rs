//! What the commands share. This room is the only one that prints.

#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod attributes;
mod man;
pub mod mounts;

pub use man::man;

use pocketstone_core::{Error, Result};
use std::io::ErrorKind::BrokenPipe;
use std::io::Write;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

/// The version, and the revision that a command was built from.
pub const LONG_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\nrevision ", env!("POCKETSTONE_REVISION"));

/// Prints a line. A reader that went away, as in `| head`, is no reason to fail.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        $crate::written(writeln!(std::io::stdout(), $($text)*));
    }};
}

/// Why something that was printed got lost, the first time.
static LOST: Mutex<Option<std::io::Error>> = Mutex::new(None);

/// Remembers that output was lost, for [`finish`].
pub fn written(outcome: std::io::Result<()>) {
    if let Err(error) = outcome.or_else(|error| if error.kind() == BrokenPipe { Ok(()) } else { Err(error) }) {
        LOST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// The status of a command that has succeeded, if all that it printed was written.
fn complete_output(status: u8) -> Result<u8> {
    written(std::io::stdout().flush());
    match LOST.lock().unwrap_or_else(PoisonError::into_inner).take() {
        None => Ok(status),
        Some(error) => Err(Error::user("cannot write to the standard output")
            .because(error)
            .hint("what was printed is incomplete; free space, or write to another file")),
    }
}

/// The exit code of a command; an error is printed with its causes and its cure. Output that was lost is one.
pub fn finish(outcome: Result<u8>) -> ExitCode {
    match outcome.and_then(complete_output) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            explain("error", &error);
            ExitCode::from(error.kind().exit_code())
        }
    }
}

/// Prints an error, its causes and its cure. `kind`: what it means to who started the command.
pub fn explain(kind: &str, error: &Error) {
    note(kind, &printable(error.message()));
    for cause in pocketstone_vfs::causes(error).skip(1) {
        tell(&printable(&format!("  because: {cause}")));
    }
    if let Some(hint) = error.cure() {
        tell(&printable(&format!("  hint: {hint}")));
    }
}

/// A text that may quote any file, for a terminal: what would be invisible there, or change it, as Rust writes it.
fn printable(text: &str) -> String {
    let changes = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || c == '\u{feff}';
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        match changes(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
        shown
    })
}

/// Prints a line that is no result.
pub fn note(kind: &str, text: &str) {
    tell(&format!("{kind}: {text}"));
}

/// Prints a line to standard error. That nobody reads it any more is no reason to end otherwise.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints JSON for people and programs.
///
/// # Errors
/// `ErrorKind::Bug` if it cannot be written as JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Error::bug("cannot write JSON").because(e))?;
    say!("{text}");
    Ok(())
}

/// Shells that can complete the commands' words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Shell {
    /// Bash 4.4 or newer.
    Bash,
    /// Zsh.
    Zsh,
    /// Fish.
    Fish,
    /// Elvish.
    Elvish,
}

/// The variable by which a completion script asks a command.
const ASKED_BY: &str = "POCKETSTONE_COMPLETE";

/// Answers the shell and ends the process, if it was started by a script of [`completions`]. To be called before
/// anything else.
pub fn complete(command: impl Fn() -> clap::Command) {
    clap_complete::CompleteEnv::with_factory(command).var(ASKED_BY).complete();
}

/// Prints a completion script. It asks the command itself, so it knows what boards and studies there are now.
///
/// # Errors
/// `ErrorKind::Bug` if the library does not know the shell.
pub fn completions(command: &clap::Command, shell: Shell) -> Result<()> {
    let (name, word) = (command.get_name(), format!("{shell:?}").to_lowercase());
    let shells = clap_complete::env::Shells::builtins();
    let script = shells.completer(&word).ok_or_else(|| Error::bug(format!("no completions for {word}")))?;
    let mut text = Vec::new();
    script
        .write_registration(ASKED_BY, name, name, name, &mut text)
        .map_err(|e| Error::bug("cannot write a completion script").because(e))?;
    say!("{}", String::from_utf8_lossy(&text).trim_end());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says_does_not_change_the_terminal() {
        assert_eq!(printable("\u{1b}[2J\u{feff}a\0 \u{9b}b\r"), "\\u{1b}[2J\\u{feff}a\\u{0} \\u{9b}b\\r");
        assert_eq!(printable("line 1\n\t\u{e9} \"it's\""), "line 1\n\t\u{e9} \"it's\"");
    }

    #[test]
    fn lost_output_is_an_error_unless_nobody_reads_it() {
        written(Err(BrokenPipe.into()));
        assert_eq!(complete_output(3).unwrap(), 3);
        written(writeln!(std::fs::File::create("/dev/full").unwrap(), "a line"));
        written(Ok(()));
        let error = complete_output(0).unwrap_err();
        assert_eq!(error.kind().exit_code(), 1);
        assert!(error.chain().contains("No space left"), "{}", error.chain());
        assert_eq!(complete_output(0).unwrap(), 0);
    }
}
