//! A command of the user's as a process that waits until it may begin.
//!
//! The process is there, with its number, before the command runs: probes are armed for it. It is the runner's program
//! until it is let go, and then, by exec(2), the shell that runs the command line. Between it and the runner is its
//! keeper, to which everything falls that the command starts and does not wait for.

mod gate;
mod keeper;
mod left;

pub use gate::{GATE, gate};
pub use keeper::{KEEPER, keep};
pub use left::{RUNNER_VARIABLE, end_orphans, own_identity};

use crate::child::{how_it_ended, last_words};
use keeper::{LET_GO, TAKE, Told};
use pocketstone_core::database::Usage;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// Bytes of the end of its output that are kept.
const KEPT_BYTES: u64 = 64 << 10;

/// How long its keeper may take for what it does itself.
const KEEPER_LIMIT: Duration = Duration::from_secs(60);

/// A command that waits or runs. Dropping it kills it, and all that it started; if this process is killed, its keeper
/// does.
pub struct Waiting {
    keeper: Child,
    pid: u32,
    output: PathBuf,
    /// The way to the keeper, which kills the command when it ends.
    control: Option<BufReader<UnixStream>>,
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// What it used, with those of its children that it waited for.
    pub usage: Usage,
    /// The end of its output.
    pub output: String,
    /// Bytes of its output in all.
    pub output_bytes: u64,
    /// Names of the processes that it left running; they have been killed.
    pub left: BTreeSet<String>,
}

impl Waiting {
    /// Puts a process in place that waits in front of a command line; `runner` is the program that has [`KEEPER`] and
    /// [`GATE`]. The command will find itself in `folder`, `variables` in its environment, and nothing to read; what it
    /// writes goes to the file `output`.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it cannot be started.
    pub fn start(
        runner: &Path,
        line: &str,
        folder: &Path,
        output: &Path,
        variables: &[(&str, String)],
    ) -> Result<Waiting> {
        let failed = || format!("cannot make {}", output.display());
        let file = File::create(output).board(failed)?;
        let (control, its_side) = UnixStream::pair().board(|| "cannot make a pair of sockets".into())?;
        let mut command = Command::new(runner);
        command.args([KEEPER, line]).current_dir(folder).envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(OwnedFd::from(its_side)).stdout(file.try_clone().board(failed)?).stderr(file);
        // What a terminal sends to all is not for it.
        command.process_group(0);
        let keeper = command.spawn().board(|| format!("cannot start the command in {}", folder.display()))?;
        // Its side is the keeper's alone: whoever waits for it hears of its end.
        drop(command);
        let control = Some(BufReader::new(control));
        // Dropped by whatever fails from here on.
        let mut waiting = Waiting { keeper, pid: 0, output: output.to_owned(), control };
        match waiting.told(KEEPER_LIMIT) {
            Some(Told::InPlace { pid }) => waiting.pid = pid,
            _ => {
                let said = waiting.said();
                return Err(Error::board(format!("the process in front of the command did not start{said}")));
            }
        }
        Ok(waiting)
    }

    /// Its process number, before and after it is let go.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it go, and waits until it has ended: when it began and when it had ended, in ns of CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it takes longer than `limit`: it is killed then.
    pub fn go(&mut self, limit: Duration) -> Result<(u64, u64)> {
        self.tell(LET_GO)?;
        match self.told(limit) {
            Some(Told::Ended { start_ns, end_ns }) => Ok((start_ns, end_ns)),
            _ if self.keeper.try_wait().is_ok_and(|ended| ended.is_some()) => {
                Err(Error::board(format!("the process that keeps the command was killed{}", self.said())))
            }
            _ => {
                let (seconds, said) = (limit.as_secs(), self.said());
                let error = Error::board(format!("the command did not end within {seconds} s and was killed{said}"));
                Err(error.hint("give it less to do"))
            }
        }
    }

    /// What it did. Whatever it left running is killed.
    ///
    /// # Errors
    /// `ErrorKind::Board` if its exit status is not 0, with the end of its output; if it has not ended, or what it left
    /// running does not end; or if its output cannot be read.
    pub fn finish(mut self) -> Result<Ended> {
        self.tell(TAKE)?;
        let Some(Told::Taken { status, usage, left, lasting }) = self.told(KEEPER_LIMIT) else {
            return Err(Error::board("the command's exit status is lost"));
        };
        let status = ExitStatus::from_raw(status);
        if !status.success() {
            let error = Error::board(format!("the command {}{}", how_it_ended(status), self.said()));
            return Err(match status.code() {
                Some(126 | 127) => error.hint(
                    "it is run by the board's shell in a folder of the volume: name the files that it needs there \
                     (--files, or command_files in a study), built for the board's processor and linked statically \
                     where the board lacks libraries",
                ),
                _ => error
                    .hint("the command must succeed on the board; end it with `|| true` if its status says nothing"),
            });
        }
        if !lasting.is_empty() {
            let names = lasting.into_iter().collect::<Vec<_>>().join(", ");
            return Err(Error::board(format!("the command left processes running that cannot be killed: {names}"))
                .hint("have it end what it starts; end these by hand before the next cell"));
        }
        let (output, output_bytes) = end_of(&self.output, KEPT_BYTES)?;
        // What is kept of it is here; it may be as long as its disk.
        let _ = std::fs::remove_file(&self.output);
        Ok(Ended { usage, output, output_bytes, left })
    }

    fn tell(&mut self, word: u8) -> Result<()> {
        let told = self.control.as_mut().map(|control| control.get_mut().write_all(&[word]));
        told.unwrap_or(Ok(())).board(|| "the command's keeper has ended".into())
    }

    /// What the keeper says next; `None` if it does not in time.
    fn told(&mut self, limit: Duration) -> Option<Told> {
        let control = self.control.as_mut()?;
        control.get_ref().set_read_timeout(Some(limit)).ok()?;
        let mut line = String::new();
        control.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    /// Its last words, for messages.
    fn said(&self) -> String {
        let (text, _) = end_of(&self.output, KEPT_BYTES).unwrap_or_default();
        let words = last_words(text.as_bytes());
        words.map_or("; it wrote nothing".to_owned(), |words| format!("; its last output: {words}"))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // The keeper hears the end of it, and kills what still runs.
        drop(self.control.take());
        let _ = self.keeper.wait();
    }
}

/// The end of a command's output, and how much there is in all. What is no text is replaced, as are zeros, at which
/// SQLite ends a text.
fn end_of(output: &Path, most_bytes: u64) -> Result<(String, u64)> {
    let failed = || format!("cannot read {}", output.display());
    let mut file = File::open(output).board(failed)?;
    let bytes = file.metadata().board(failed)?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(most_bytes))).board(failed)?;
    let mut text = Vec::new();
    file.take(most_bytes).read_to_end(&mut text).board(failed)?;
    Ok((String::from_utf8_lossy(&text).replace('\0', "\u{fffd}"), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_what_is_written_is_kept_as_text() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        std::fs::write(&output, b"much, and a\0b\xff").unwrap();
        assert_eq!(end_of(&output, 4).unwrap(), ("a\u{fffd}b\u{fffd}".to_owned(), 14));
    }
}
