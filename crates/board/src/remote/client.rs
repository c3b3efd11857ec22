//! Programs that reach another machine.

use crate::child::end_group;
use crate::{BoardContext, Failed};
use pocketstone_core::error::Context;
use pocketstone_core::outcome::Facts;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_engine::{at_end, end_with_this_process};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// What the shell on the board says last, with the status of what it was asked. Nothing else tells a reply that is
/// whole from one that was cut off: adb ends with status 0 when the connection is lost.
const MARK: &str = "pocketstone-status ";
/// How long a short command may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a command may take that turns a board's power off and on.
const POWER_LIMIT: Duration = Duration::from_secs(120);
/// The slowest connection over which what a client has taken already of a file is sent.
const BYTES_PER_S: u64 = 100_000;
/// How often a user's Ctrl-C is looked for meanwhile.
const LOOK: Duration = Duration::from_millis(200);
/// How often a board is looked at that is not fit to be measured, and how long altogether.
const UNFIT_LOOK: Duration = Duration::from_secs(10);
const UNFIT_LIMIT: Duration = Duration::from_secs(3600);

/// A program that runs commands on another machine, as a process with pipes.
pub trait Client: Send + Sync {
    /// The board, as the program knows it.
    fn board(&self) -> &str;

    /// Its command for a line that the board's shell is to run.
    fn command(&self, line: &str) -> Command;

    /// What to install where it is missing.
    fn cure(&self) -> &'static str;

    /// A command for the user, to try the connection by hand.
    fn by_hand(&self) -> String;

    /// Folder for the runner, unless the profile names one.
    fn folder(&self) -> &'static str;

    /// What has to be done before each connection.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the program is missing or does not answer.
    fn prepare(&self, context: &BoardContext) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Turns the board's power off and on again: the last resort when it is lost. Whether there is a way to do that.
    ///
    /// # Errors
    /// `ErrorKind::Board` if that fails; `ErrorKind::Interrupted`.
    fn power_cycle(&self, context: &BoardContext) -> Result<bool> {
        let _ = context;
        Ok(false)
    }

    /// Waits until the board is fit to be measured.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it does not become so, or does not answer; `ErrorKind::Interrupted`.
    fn await_fitness(&self, context: &BoardContext) -> Result<(), Failed> {
        let _ = context;
        Ok(())
    }

    /// Facts about the board that its runner does not know.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it does not answer.
    fn facts(&self, context: &BoardContext) -> Result<Facts> {
        let _ = context;
        Ok(Facts::new())
    }

    /// Facts about the board at the end of a cell.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it does not answer.
    fn conditions(&self, context: &BoardContext) -> Result<Facts> {
        let _ = context;
        Ok(Facts::new())
    }
}

/// Has the board's shell run a line; its output.
///
/// # Errors
/// `ErrorKind::Board` if the board cannot be reached, with `lost` set, or the line fails; `ErrorKind::Interrupted`.
pub fn ask(client: &dyn Client, line: &str, input: Option<File>, context: &BoardContext) -> Result<String, Failed> {
    let bytes = input.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |metadata| metadata.len());
    let limit = LIMIT + Duration::from_secs(bytes / BYTES_PER_S);
    // A shell of the user's choice may speak another language. The line has one of its own, whose mistakes it keeps.
    let asked = format!("exec sh -c {}", quoted(&format!("sh -c {}; echo \"{MARK}$?\"", quoted(line))));
    let begin = Instant::now();
    let late =
        |error: Error| Failed { lost: error.kind() == ErrorKind::Board && begin.elapsed() >= limit, ..error.into() };
    let Ran { output, errors, .. } = run(client.command(&asked), input, limit, client.cure(), context).map_err(late)?;
    let end = output.trim_end().rsplit('\n').next().unwrap_or_default();
    match end.trim_end().strip_prefix(MARK) {
        Some("0") => {
            let said = output.trim_end();
            Ok(said[..said.len() - end.len()].to_owned())
        }
        Some(_) => Err(Error::board(format!("a command on {} failed: {}", client.board(), errors.trim())).into()),
        None => {
            let why = Some(errors.trim()).filter(|why| !why.is_empty()).unwrap_or("the connection was lost");
            let error = Error::board(format!("cannot reach {}: {why}", client.board()));
            let error = error.hint(format!("try it by hand: {}", client.by_hand()));
            Err(Failed { lost: true, ..error.into() })
        }
    }
}

/// Says what may help where a line failed; a board that cannot be reached has its own cure, and who interrupts needs
/// none.
pub fn cured(error: Error, cure: impl FnOnce() -> String) -> Error {
    if error.cure().is_some() || error.kind() == ErrorKind::Interrupted { error } else { error.hint(cure()) }
}

/// Waits until nothing speaks against measuring the board; `unfit` says what does.
///
/// # Errors
/// `ErrorKind::Board` with the hint `cure` if that takes longer than an hour; what `unfit` says;
/// `ErrorKind::Interrupted`.
pub fn await_fit(
    client: &dyn Client,
    context: &BoardContext,
    cure: &str,
    unfit: impl Fn() -> Result<Option<String>, Failed>,
) -> Result<(), Failed> {
    let begin = Instant::now();
    loop {
        let Some(why) = unfit()? else { return Ok(()) };
        if begin.elapsed() >= UNFIT_LIMIT {
            return Err(Error::board(format!("{} is not fit to be measured: {why}", client.board())).hint(cure).into());
        }
        (context.progress)(&format!("waiting for {}: {why}", client.board()));
        pause(UNFIT_LOOK, context)?;
    }
}

/// Waits until a line succeeds in the board's shell, if there is one.
///
/// # Errors
/// As [`await_fit`].
pub fn await_ready(client: &dyn Client, line: Option<&str>, context: &BoardContext) -> Result<(), Failed> {
    let Some(line) = line else { return Ok(()) };
    let asked = format!("if sh -c {} >/dev/null; then echo fit; else echo unfit; fi", quoted(line));
    await_fit(client, context, "see why `ready` of its profile fails there, or change it", || {
        let said = ask(client, &asked, None, context)?;
        Ok((said.lines().last() != Some("fit")).then(|| format!("not ready: {line}")))
    })
}

/// Runs the command of a profile that turns a board's power off and on again; whether there is one.
///
/// # Errors
/// `ErrorKind::Board` if it fails; `ErrorKind::Interrupted`.
pub fn power_cycle(words: &[String], context: &BoardContext) -> Result<bool> {
    let [program, arguments @ ..] = words else { return Ok(false) };
    let mut command = Command::new(program);
    command.args(arguments);
    let ran = run(command, None, POWER_LIMIT, "correct `power_cycle` in its profile", context)?;
    match ran.success {
        true => Ok(true),
        false => Err(Error::board(format!("{} failed: {}", words.join(" "), ran.errors.trim()))),
    }
}

/// Does nothing for so long.
///
/// # Errors
/// `ErrorKind::Interrupted`.
pub fn pause(time: Duration, context: &BoardContext) -> Result<()> {
    let until = Instant::now() + time;
    while Instant::now() < until {
        context.check()?;
        std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
    }
    context.check()
}

/// What a program left that has ended.
pub struct Ran {
    /// What it wrote to standard output.
    pub output: String,
    /// What it wrote to standard error.
    pub errors: String,
    /// Whether its status was 0.
    pub success: bool,
}

/// Runs a program to its end, at the latest when it has taken nothing more of its input for `limit`.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be started, or takes too long; `ErrorKind::Interrupted`.
pub fn run(
    mut command: Command,
    input: Option<File>,
    limit: Duration,
    cure: &str,
    context: &BoardContext,
) -> Result<Ran> {
    let failed = || "cannot make a temporary file".to_owned();
    // Both have one position, which tells how much was taken.
    let fed = input.as_ref().map(File::try_clone).transpose().board(failed)?;
    let position = || fed.as_ref().and_then(|mut input| input.stream_position().ok());
    // Files, not pipes: what a program leaves in the background would keep a pipe open.
    let (output, errors) = (tempfile::tempfile().board(failed)?, tempfile::tempfile().board(failed)?);
    command.stdin(input.map_or_else(Stdio::null, Stdio::from));
    command.stdout(output.try_clone().board(failed)?).stderr(errors.try_clone().board(failed)?).process_group(0);
    end_with_this_process(&mut command);
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().board(|| format!("cannot start {program}")).map_err(|e| e.hint(cure))?;
    let (tell, ended) = channel();
    at_end(&child, move |_| {
        let _ = tell.send(());
    });
    let (mut since, mut taken) = (Instant::now(), position());
    let waited = loop {
        match ended.recv_timeout(LOOK) {
            Ok(()) => break Ok(()),
            Err(RecvTimeoutError::Disconnected) => break Err(Error::bug("nobody waits for a child")),
            Err(RecvTimeoutError::Timeout) if position() != taken => (since, taken) = (Instant::now(), position()),
            Err(RecvTimeoutError::Timeout) if since.elapsed() >= limit => {
                let error = Error::board(format!("{program} did not end within {} s", limit.as_secs()));
                break Err(error.hint("look for what it waits for: run it by hand"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(interrupted) = context.check() {
            break Err(interrupted);
        }
    };
    if let Err(error) = waited {
        end_group(&mut child, Duration::ZERO);
        return Err(error);
    }
    let status = child.wait();
    let text = |mut file: File| -> Result<String> {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes)).board(failed)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let success = status.is_ok_and(|status| status.success());
    Ok(Ran { output: text(output)?, errors: text(errors)?, success })
}

/// A word as the board's shell takes it as it is. Between quotes, fish has escapes, and csh a history.
pub fn quoted(word: &str) -> String {
    let escaped = |c: char| match c {
        '\'' | '\\' | '!' => format!("'\\{c}'"),
        c => c.into(),
    };
    format!("'{}'", word.chars().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cache;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A client that runs a line here: the one that it has, or else that which it is given.
    struct Says(Option<&'static str>);

    impl Client for Says {
        fn board(&self) -> &str {
            "a board"
        }

        fn command(&self, line: &str) -> Command {
            let mut command = Command::new("sh");
            command.args(["-c", self.0.unwrap_or(line)]);
            command
        }

        fn cure(&self) -> &'static str {
            "install it"
        }

        fn by_hand(&self) -> String {
            "sh".into()
        }

        fn folder(&self) -> &'static str {
            "/nowhere"
        }
    }

    #[test]
    fn a_link_may_be_slow_as_long_as_it_takes_something() {
        let folder = tempfile::tempdir().unwrap();
        let context =
            BoardContext::uninterrupted(Cache::at(folder.path()).unwrap(), "/nowhere".into(), Arc::new(|_| {}));
        let (file, limit) = (folder.path().join("input"), Duration::from_secs(2));
        std::fs::write(&file, "123456").unwrap();
        let fed = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            run(command, File::open(&file).ok(), limit, "install it", &context)
        };
        let begin = Instant::now();
        let slowly = "for byte in 1 2 3 4 5 6; do dd bs=1 count=1 2>/dev/null; sleep 0.5; done";
        assert_eq!(fed(slowly).unwrap().output, "123456");
        assert!(begin.elapsed() > limit);
        assert!(fed("cat; exec sleep 100").err().is_some_and(|error| error.message().contains("did not end")));
    }

    /// Those of them that are installed.
    #[test]
    fn a_word_is_taken_as_it_is_by_all_shells_that_a_user_may_have() {
        let word = r#"it's a \ and a \' and a \\, a ! and !!, "$HOME" `id` ~ * #{}()<>|&;"#;
        let printed = quoted(&format!("printf %s {}", quoted(word)));
        for shell in ["sh", "bash", "dash", "zsh", "mksh", "fish", "tcsh"] {
            let Some(shell) = pocketstone_testing::installed(shell) else { continue };
            let ran = Command::new(&shell).args(["-c", &format!("exec sh -c {printed}")]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&ran.stdout), word, "{}", shell.display());
        }
    }

    #[test]
    fn a_board_that_cannot_be_reached_is_lost_and_one_that_says_no_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let context =
            BoardContext::uninterrupted(Cache::at(folder.path()).unwrap(), "/nowhere".into(), Arc::new(|_| {}));
        let asked = |says| await_ready(&Says(Some(says)), Some("test -e ready"), &context);
        asked("echo fit; echo pocketstone-status 0").unwrap();
        assert!(asked("echo refused >&2; exit 255").unwrap_err().lost);
        assert!(!asked("echo pocketstone-status 1").unwrap_err().lost);
        assert_eq!(cured(Error::new(ErrorKind::Interrupted, "interrupted"), || "wait".into()).cure(), None);
    }

    #[test]
    fn a_board_is_ready_when_the_line_succeeds_whatever_it_prints_and_not_lost_by_one_that_is_no_shell() {
        let folder = tempfile::tempdir().unwrap();
        let cancelled = Arc::new(AtomicBool::new(false));
        let stops = cancelled.clone();
        // A board that is not ready is looked at again, until the user interrupts.
        let progress = Arc::new(move |_: &str| stops.store(true, Ordering::Relaxed));
        let cache = Cache::at(folder.path()).unwrap();
        let context = BoardContext { cancelled, ..BoardContext::uninterrupted(cache, "/nowhere".into(), progress) };
        for ready in ["printf yes", "echo 'it''s'; true", "(exit 0)", "# nothing"] {
            await_ready(&Says(None), Some(ready), &context).unwrap();
        }
        for unready in ["if", ")", "exit 3", "printf fit; false"] {
            context.cancelled.store(false, Ordering::Relaxed);
            let failed = await_ready(&Says(None), Some(unready), &context).unwrap_err();
            assert_eq!((failed.error.kind(), failed.lost), (ErrorKind::Interrupted, false), "{unready}");
        }
        context.cancelled.store(false, Ordering::Relaxed);
        let failed = ask(&Says(None), "if", None, &context).unwrap_err();
        assert!(!failed.lost, "{}", failed.error.chain());
    }
}
