//! What a database was promised: an operation that returned with no transaction left open.

use super::Progress;
use crate::temporary_folder;
use pocketstone_core::chip::{Found, Survivor, Verdict};
use pocketstone_core::database::{Configuration, DATABASE_FOLDER, DatabaseEngine, DatabaseSpec};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_engine::database::{inspect, states};
use pocketstone_workload::database::Trace;
use std::fs;
use std::sync::Arc;

/// The database's file.
const FILE: &str = "data.sqlite";

/// What the database held before the first operation and after each.
pub(super) struct History {
    states: Vec<String>,
    /// Whether SQLite's settings promise that an operation is durable when it returns.
    durable: bool,
    /// Whether the board's engine says what there is; SQLite's files are opened here.
    on_the_board: bool,
}

impl History {
    pub fn of(spec: &DatabaseSpec, trace: &Arc<Trace>) -> Result<History> {
        let on_the_board = spec.engine.opens_on_the_board();
        if !(on_the_board || spec.engine == DatabaseEngine::Sqlite) || spec.threads != 1 {
            let error =
                Error::user("only databases of SQLite, LMDB and redb with one thread are looked at after a cut");
            return Err(error.hint("set engine = \"sqlite\" and threads = 1, or omit power_cuts"));
        }
        let durable = durable(spec.engine, &spec.configuration);
        states(spec.engine, trace).map(|states| History { states, durable, on_the_board })
    }

    /// What was promised, and what became of it.
    pub fn verdict(&self, progress: Progress, found: &Found, survivors: &[Survivor]) -> Result<(u64, Verdict)> {
        let state = match self.on_the_board {
            true => found.database.clone().unwrap_or_else(|| Err("the database was not opened".into())),
            false => self.opened(survivors)?,
        };
        let promised = if self.durable { self.changes(0, progress.returned) } else { 0 };
        Ok((promised, self.judge(progress, state)))
    }

    /// Opens what was found with the SQLite of this machine, which is that of the board.
    fn opened(&self, survivors: &[Survivor]) -> Result<std::result::Result<String, String>> {
        let folder = temporary_folder()?;
        let prefix = format!("{DATABASE_FOLDER}/");
        let mut unreadable = None;
        for survivor in survivors {
            let Some(name) = survivor.name.strip_prefix(&prefix).filter(|name| !name.contains('/')) else { continue };
            match &survivor.content {
                Ok(content) => {
                    fs::write(folder.path().join(name), content).board(|| format!("cannot write {name}"))?;
                }
                Err(why) => unreadable = Some(format!("{name} cannot be read: {why}")),
            }
        }
        let file = folder.path().join(FILE);
        Ok(match unreadable {
            // Without one of its files SQLite would take another state for the right one.
            Some(why) => Err(why),
            None if !file.exists() => Err(format!("{FILE} is missing")),
            None => {
                inspect(&file).map_err(|error| error.chain()).and_then(|inspected| match inspected.integrity.as_str() {
                    "ok" => Ok(inspected.state),
                    other => Err(format!("integrity_check: {other}")),
                })
            }
        })
    }

    /// So many operations of those that had returned are not there.
    fn lost(&self, operations: u64) -> Verdict {
        match self.durable {
            true => Verdict { lost_promises: operations, ..Verdict::default() },
            false => Verdict { lost_unpromised: operations, ..Verdict::default() },
        }
    }

    /// Operations after the first `from` and among the first `to` that changed the state.
    fn changes(&self, from: usize, to: usize) -> u64 {
        let to = to.min(self.states.len() - 1);
        (from..to.max(from)).filter(|n| self.states[*n] != self.states[n + 1]).count() as u64
    }

    fn judge(&self, progress: Progress, found: std::result::Result<String, String>) -> Verdict {
        let damaged =
            |why: String| Verdict { damaged: 1, first: Some(why), ..self.lost(self.changes(0, progress.returned)) };
        let begun = progress.begun.min(self.states.len() - 1);
        match found {
            Err(why) => damaged(why),
            Ok(state) => match self.states[..=begun].iter().rposition(|known| *known == state) {
                None => damaged("the database holds a state that it never had".into()),
                Some(at) => {
                    let lost = self.changes(at, progress.returned);
                    let first = (lost > 0).then(|| format!("the last {lost} operations are not there"));
                    Verdict { first, ..self.lost(lost) }
                }
            },
        }
    }
}

/// What `PRAGMA synchronous` promises, by SQLite's documentation: with `off` nothing, with `normal` and a write-ahead
/// log consistency alone. It is `full` where nothing is said, which leaves one case open where the journal is deleted:
/// the deletion itself is not synced, as it is with `extra`; it counts as a promise all the same. LMDB (MDB_NOMETASYNC)
/// and redb (Eventual) may lose the last transactions with `normal`, by theirs.
fn durable(engine: DatabaseEngine, configuration: &Configuration) -> bool {
    match configuration.synchronous.as_deref() {
        Some("off") => false,
        Some("normal") => engine == DatabaseEngine::Sqlite && configuration.journal_mode.as_deref() != Some("wal"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(returned: usize, begun: usize, found: std::result::Result<&str, &str>) -> (u64, u64) {
        // Two changes, a read, a change, and a last one that makes it as it was before that.
        let history = History {
            states: ["a", "b", "c", "c", "d", "c"].map(str::to_owned).to_vec(),
            durable: true,
            on_the_board: false,
        };
        let found = found.map(str::to_owned).map_err(str::to_owned);
        let verdict = history.judge(Progress { returned, begun }, found);
        (verdict.lost_promises, verdict.damaged)
    }

    #[test]
    fn operations_that_returned_must_be_there_and_reads_cannot_be_lost() {
        assert_eq!(verdict(4, 4, Ok("d")), (0, 0));
        assert_eq!(verdict(4, 4, Ok("c")), (1, 0));
        assert_eq!(verdict(3, 4, Ok("c")), (0, 0));
        assert_eq!(verdict(4, 4, Ok("b")), (2, 0));
        assert_eq!(verdict(4, 4, Ok("a")), (3, 0));
        // One that was begun may be there; one that was not may not.
        assert_eq!(verdict(1, 2, Ok("c")), (0, 0));
        assert_eq!(verdict(1, 1, Ok("c")), (1, 1));
        assert_eq!(verdict(5, 5, Ok("c")), (0, 0));
        assert_eq!(verdict(4, 4, Ok("never")), (3, 1));
        assert_eq!(verdict(4, 4, Err("damaged")), (3, 1));
    }

    #[test]
    fn settings_that_promise_nothing_break_no_promise() {
        let of = |synchronous: &str, journal: &str| {
            let word = |word: &str| (!word.is_empty()).then(|| word.to_owned());
            let (synchronous, journal_mode) = (word(synchronous), word(journal));
            durable(DatabaseEngine::Sqlite, &Configuration { synchronous, journal_mode, ..Configuration::default() })
        };
        assert!(of("", "") && of("full", "wal") && of("normal", "delete") && of("extra", "persist") && of("", "wal"));
        assert!(!of("off", "") && !of("normal", "wal"));
        let history = History { states: ["a", "b"].map(str::to_owned).to_vec(), durable: false, on_the_board: false };
        let verdict = history.judge(Progress { returned: 1, begun: 1 }, Ok("a".into()));
        assert_eq!((verdict.lost_promises, verdict.lost_unpromised), (0, 1));
        let lmdb = |word: Option<&str>| {
            let configuration = Configuration { synchronous: word.map(str::to_owned), ..Configuration::default() };
            durable(DatabaseEngine::Lmdb, &configuration)
        };
        assert_eq!([None, Some("full"), Some("normal"), Some("off")].map(lmdb), [true, true, false, false]);
    }

    /// What the board's engine says is taken; that it said nothing is damage.
    #[test]
    fn a_board_that_opened_no_database_has_lost_it() {
        let history = History { states: ["a", "b"].map(str::to_owned).to_vec(), durable: true, on_the_board: true };
        let of = |database: Option<std::result::Result<&str, &str>>| {
            let database = database.map(|found| found.map(str::to_owned).map_err(str::to_owned));
            let found = Found { mount_ns: 0, refused: None, unwritable: None, database };
            let (promised, verdict) = history.verdict(Progress { returned: 1, begun: 1 }, &found, &[]).unwrap();
            (promised, verdict.lost_promises, verdict.damaged)
        };
        assert_eq!([of(Some(Ok("b"))), of(Some(Ok("a")))], [(1, 0, 0), (1, 1, 0)]);
        assert_eq!([of(Some(Err("killed"))), of(None)], [(1, 1, 1), (1, 1, 1)]);
    }
}
