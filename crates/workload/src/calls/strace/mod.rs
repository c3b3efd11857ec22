//! Texts of `strace -f -T`, also with `-t`, `-tt`, `-ttt`, `-y`, `-yy`, `-o FILE`, from strace 4.20 on.

mod argument;
mod line;
mod links;
mod process;

use self::line::{Line, What};
use self::process::Processes;
use super::recorded::Span;
use super::{Calls, Selection};
use crate::operation::MOST_PAUSE_NS;
use pocketstone_core::{Error, Result};
use std::collections::BTreeMap;

/// What makes a text that has all that a replay needs.
const CURE: &str = "record it with `strace -f -T -ttt -y -o FILE PROGRAM`";

/// A day in ns, after which the times of `-tt` begin again.
const DAY_NS: u64 = 86_400 * 1_000_000_000;

/// A year in ns: a clock that was ever set has more since 1970.
const YEAR_NS: u64 = 365 * DAY_NS;

/// The calls of a text; `name` is that of its file.
///
/// # Errors
/// `ErrorKind::User` with the file and the line if the text is not strace's, or no call is on a selected file.
pub fn calls(text: &str, name: &str, selection: &Selection) -> Result<Calls> {
    let mut reader = Reader::default();
    let mut lines = text.split_inclusive('\n').enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let whole = line.ends_with('\n');
        if let Err(why) = reader.line(line.trim_end_matches(['\n', '\r'])) {
            // A recorder that was killed leaves half a line.
            if !whole && lines.peek().is_none() && reader.understood > 0 {
                break;
            }
            let shown: String = line.trim().chars().take(80).collect();
            return Err(Error::user(format!("{name} line {}: {why}: {shown}", number + 1)).hint(CURE));
        }
    }
    if reader.understood == 0 {
        return Err(Error::user(format!("{name} line 1: the text has no system call")).hint(CURE));
    }
    let recorded = reader.processes.end();
    recorded.calls(selection).map_err(|e| Error::user(format!("{name} has nothing to replay")).because(e))
}

/// A call whose line was cut by another thread's.
struct Begun {
    text: String,
    start_ns: Option<u64>,
}

#[derive(Default)]
struct Reader {
    processes: Processes,
    /// In the order of their numbers: the same text is always read in the same way.
    begun: BTreeMap<u32, Begun>,
    understood: u64,
    last_ns: u64,
    days: u64,
}

impl Reader {
    fn line(&mut self, text: &str) -> Result<(), &'static str> {
        let Some(Line { pid, start_ns, of_day, what }) = line::parse(text)? else { return Ok(()) };
        let start_ns = match start_ns {
            Some(ns) if of_day => Some(self.over_midnight(ns).ok_or("the time is not understood")?),
            Some(ns) => Some(self.since_the_epoch(ns)?),
            None => None,
        };
        if let What::Attached(child) = what {
            let starting = self.begun_by().first().map(|(parent, call)| (*parent, (*call).to_owned()));
            if let Some((parent, call)) = starting {
                self.processes.announced(parent, child, &call);
            }
            return Ok(());
        }
        let starting: Vec<(u32, String)> =
            self.begun_by().into_iter().map(|(parent, call)| (parent, call.to_owned())).collect();
        let pid = self.processes.known(pid, &starting);
        if let Some(begun) = (pid != 0).then(|| self.begun.remove(&0)).flatten() {
            self.begun.insert(if self.processes.is_first(pid) { pid } else { 0 }, begun);
        }
        match what {
            What::Whole(call) => self.call(pid, call, start_ns),
            What::Begun(call) => {
                self.begun.insert(pid, Begun { text: call.to_owned(), start_ns });
                Ok(())
            }
            What::Resumed(rest) => {
                // Its beginning was before strace came to the thread.
                let Some(begun) = self.begun.remove(&pid) else { return Ok(()) };
                self.call(pid, &(begun.text + rest), begun.start_ns)
            }
            What::Ended => {
                self.processes.ended(pid);
                Ok(())
            }
            What::Attached(_) | What::Nothing => Ok(()),
        }
    }

    /// Calls that are not done, by thread: one of them may be the beginning of a thread that is unknown.
    fn begun_by(&self) -> Vec<(u32, &str)> {
        let starts = |begun: &Begun| process::STARTS.iter().any(|call| begun.text.starts_with(call));
        self.begun.iter().filter(|(_, begun)| starts(begun)).map(|(pid, begun)| (*pid, begun.text.as_str())).collect()
    }

    /// A time that is not of the day. Those of `strace -r`, since the line before, become smaller; a machine whose
    /// clock is set back has times of more than seconds.
    fn since_the_epoch(&mut self, ns: u64) -> Result<u64, &'static str> {
        if ns < self.last_ns && ns < YEAR_NS {
            return Err("the time is since the line before, as with -r");
        }
        self.last_ns = ns;
        Ok(ns)
    }

    /// A time of day as one since the first day's start; `None`: no recording goes on that long.
    fn over_midnight(&mut self, ns: u64) -> Option<u64> {
        if ns + DAY_NS / 2 < self.last_ns {
            self.days += 1;
        }
        self.last_ns = ns;
        self.days.checked_mul(DAY_NS)?.checked_add(ns).filter(|ns| *ns <= MOST_PAUSE_NS)
    }

    fn call(&mut self, pid: u32, text: &str, start_ns: Option<u64>) -> Result<(), &'static str> {
        let call = line::call(text)?;
        self.understood += 1;
        let span: Span = start_ns.map(|start| (start, start.saturating_add(call.took_ns.unwrap_or(0))));
        self.processes.call(pid, &call, span)
    }
}

#[cfg(test)]
mod tests;
