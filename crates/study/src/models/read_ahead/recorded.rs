//! The reads of a stored cell.

use crate::results::store::{Store, StoredCell};
use pocketstone_core::database::DATABASE_FOLDER;
use pocketstone_core::events::Window;
use pocketstone_core::log::FlashKind;
use pocketstone_core::outcome::Outcome;
use pocketstone_core::{Error, Result};
use pocketstone_replay::read_ahead::{LoggedFiles, Medium, Observed, PlanWork, Rules, Setting, Work};
use pocketstone_workload::plan::Plan;
use pocketstone_workload::population::FILES_FOLDER;
use pocketstone_workload::{ReadSpec, Workload};
use std::collections::BTreeSet;

/// Of what comes into the page cache, at most so much may come by page faults, which the model of logged reads leaves
/// out: their time would count as independent of read-ahead.
const MOST_FAULTED: f64 = 0.1;

/// A cell's reads, and what the read-ahead was that they were made with.
#[derive(Debug, Clone)]
pub(super) struct Recorded {
    /// The cell.
    pub cell: i64,
    /// The file system's medium.
    pub medium: Medium,
    /// Read-ahead in force.
    pub in_force: Setting,
    /// Time in all of the cell's calls, with the one before the first request; of its plain twin where there is one.
    pub measured_ns: f64,
    /// The part of it that is not reading: computing, writing.
    pub other_ns: f64,
    reads: Reads,
    latencies_ns: Vec<f64>,
}

#[derive(Debug, Clone)]
enum Reads {
    Plan { spec: ReadSpec, seed: u64 },
    Logged(LoggedFiles),
}

impl Recorded {
    /// The reads of a cell: the requests of its plan with the times of its calls, or, with a database, the calls in
    /// the event log of its traced twin.
    ///
    /// # Errors
    /// `ErrorKind::User` if the model does not support the cell, or the results cannot be read.
    pub fn of(store: &Store, cell: &StoredCell) -> Result<Self> {
        let plan: Plan = store.json(cell.id, "plan")?;
        let outcome: Outcome = store.json(cell.id, "outcome")?;
        let file_system = plan.volume.file_system;
        let medium = Medium::of(file_system).ok_or_else(|| {
            Error::user(format!("the read-ahead model does not support {}", file_system.name()))
                .hint("it supports file systems that read page by page inside the call: jffs2, ubifs")
        })?;
        if plan.volume.options.iter().any(|option| option == "bulk_read") {
            return Err(Error::user("the read-ahead model does not support bulk_read"));
        }
        let unknown = || Error::user("the effective read-ahead is unknown");
        let in_force = medium.setting(&outcome.read_ahead).ok_or_else(unknown)?;
        let plain = store.plain_twin(cell.id)?.unwrap_or(cell.id);
        let prefetched = store.json::<Outcome>(plain, "outcome")?.prefetched.map_or(0, |call| call.latency_ns);
        let measured_ns = store.calls(plain)?.iter().map(|c| c.latency_ns as f64).sum::<f64>() + prefetched as f64;
        let of = |reads, latencies_ns, other_ns| Recorded {
            cell: cell.id,
            medium,
            in_force,
            measured_ns,
            other_ns,
            reads,
            latencies_ns,
        };
        match plan.workload {
            Workload::Read(spec) => {
                let latencies = store.calls(cell.id)?.iter().map(|c| c.latency_ns as f64).collect();
                Ok(of(Reads::Plan { spec, seed: plan.seed }, latencies, 0.0))
            }
            Workload::Database(_) | Workload::Command(_) => {
                let threads = outcome.process().map_or_else(BTreeSet::new, |process| {
                    process.threads.iter().copied().chain([process.pid]).collect()
                });
                let folder = if plan.workload.command().is_some() { FILES_FOLDER } else { DATABASE_FOLDER };
                let window = Window { start_ns: outcome.start_ns, end_ns: outcome.end_ns };
                let logged = LoggedFiles::from_log(&store.events(cell.id)?, window, &threads, folder);
                if logged.reads() == 0 {
                    return Err(Error::user("the cell's event log has no file reads")
                        .hint("trace the cell on a board that can trace system calls"));
                }
                refuse_what_reads_do_not_tell(&logged, in_force)?;
                let latencies: Vec<f64> = logged.latencies_ns().map(|ns| ns as f64).collect();
                let other_ns = (measured_ns - latencies.iter().sum::<f64>()).max(0.0);
                Ok(of(Reads::Logged(logged), latencies, other_ns))
            }
            _ => Err(Error::user(
                "the read-ahead model supports the reads of one file, and those of a database or a command",
            )
            .hint("select a run whose workload is read or a database's")),
        }
    }

    /// Number of reads.
    pub fn reads(&self) -> u64 {
        self.latencies_ns.len() as u64
    }

    /// Whether a program can advise the kernel about its file: database engines do not.
    pub fn takes_advice(&self) -> bool {
        matches!(self.reads, Reads::Plan { .. })
    }

    /// What each read makes the file system do.
    pub fn work(&self, rules: Rules, setting: Setting) -> PlanWork {
        match &self.reads {
            Reads::Plan { spec, seed } => self.medium.work(spec, *seed, rules, setting),
            Reads::Logged(logged) => {
                let calls = logged.work(self.medium, rules, setting);
                PlanWork { prefetch: Work::default(), calls, pages: Vec::new() }
            }
        }
    }

    /// What the reads do together, with the call before them.
    pub fn total(&self, rules: Rules, setting: Setting) -> Work {
        self.work(rules, setting).total()
    }

    /// What each read did and how long it took.
    pub fn times(&self) -> Vec<Observed> {
        self.work(Rules::Linux6_1, self.in_force).observed(self.latencies_ns.iter().copied())
    }

    /// What each call of the traced twin did, and the senses within it; none where there is no such twin.
    pub fn senses(&self, store: &Store) -> Result<Vec<Observed>> {
        let sql = "SELECT t.id FROM cell p JOIN cell t USING (experiment, point, seed)
                   WHERE p.id = ?1 AND t.traced AND t.status = 'done'";
        let twin: Vec<i64> = store.rows(sql, [self.cell], |r| r.get(0))?;
        let (Some(twin), Reads::Plan { .. }) = (twin.first(), &self.reads) else { return Ok(Vec::new()) };
        let log = store.flash(*twin)?;
        let mut sensed: Vec<u64> =
            log.ops.iter().filter(|op| op.kind == FlashKind::Sense).map(|op| op.time_ns).collect();
        sensed.sort_unstable();
        if sensed.is_empty() {
            return Ok(Vec::new());
        }
        let before = |time_ns: u64| sensed.partition_point(|t| *t < time_ns);
        let calls = store.calls(*twin)?;
        let within = calls.iter().map(|c| (before(c.start_ns + c.latency_ns + 1) - before(c.start_ns)) as f64);
        Ok(self.work(Rules::Linux6_1, self.in_force).observed(within))
    }
}

/// A log without read-ahead does not show what larger windows bring from behind the last read, and the model of its
/// reads has no page faults.
pub(super) fn refuse_what_reads_do_not_tell(logged: &LoggedFiles, in_force: Setting) -> Result<()> {
    if in_force.window_pages() == 0 {
        return Err(Error::user("the run was made without read-ahead: its event log does not tell how far files go")
            .hint("record the run with a window, such as `--set read_ahead_bytes=128KiB`"));
    }
    let faulted = logged.faulted();
    if faulted > MOST_FAULTED {
        let percent = 100.0 * faulted;
        let why = format!("{percent:.0}% of what the run brought into the page cache came by page faults, not reads");
        return Err(Error::user(why).hint(
            "the model supports runs that read their files: keep the program itself off the volume, and map no files",
        ));
    }
    Ok(())
}
