//! Ranking of read-ahead settings for a recorded run: `pocketstone advise readahead`.

use super::recorded::Recorded;
use crate::models::advise::fitting;
use crate::results::store::Store;
use crate::specification::factor::{Point, describe};
use crate::specification::study::Study;
use pocketstone_core::{Error, Result};
use pocketstone_replay::read_ahead::{Advice, Cost, PAGE_BYTES, Rules, Setting};
use pocketstone_workload::plan::ReadAheadBy;
use serde::Serialize;

/// The largest window tried: what Linux gives a disk.
const MOST_PAGES: u64 = 32;

/// The answer. All times except `measured_ns` are modelled.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    /// Factors of the run.
    pub point: Point,
    /// Number of its trials.
    pub trials: usize,
    /// Reads of a trial.
    pub reads: u64,
    /// Time in the calls as it was recorded, mean of the trials.
    pub measured_ns: f64,
    /// The same by the model, with the read-ahead that was in force.
    pub modelled_ns: f64,
    /// Settings, the best one first.
    pub ranked: Vec<Candidate>,
}

/// A setting that was tried on the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// Where it is set.
    pub by: ReadAheadBy,
    /// The window of the mount.
    pub window_bytes: u64,
    /// The advice for the file, where it is set there.
    pub advice: Option<Advice>,
    /// Time in the calls, mean of the trials.
    pub total_ns: f64,
    /// How much longer that is than with the best setting.
    pub over_best: f64,
    /// Pages read from the medium, mean of the trials.
    pub page_reads: f64,
}

impl Candidate {
    /// The setting in words.
    pub fn name(&self) -> String {
        let kib = self.window_bytes / 1024;
        match self.advice {
            Some(Advice::Random) => format!("file: POSIX_FADV_RANDOM (mount: {kib} KiB)"),
            Some(Advice::Sequential) => format!("file: POSIX_FADV_SEQUENTIAL (mount: {kib} KiB)"),
            Some(Advice::Normal) | None => format!("mount: {kib} KiB"),
        }
    }
}

impl Answer {
    /// The run in words.
    pub fn run(&self) -> String {
        let names =
            ["workload", "engine", "file_system", "access", "pattern", "requests", "request_bytes", "operations"];
        describe(&self.point, &names)
    }
}

/// Ranks settings for the trials of the first point that an SQL condition on the view `cells` selects.
///
/// Windows go from 0 to 128 KiB in the kernel's steps of a page. A file's advice is tried where the program could give
/// it, which a database engine does not. Of settings that take the same time, the one with the smallest window is
/// first.
///
/// # Errors
/// `ErrorKind::User` if no measured cell matches, or the model does not support the run.
pub fn read_ahead(store: &Store, study: &Study, only: &str) -> Result<Answer> {
    let cells = fitting(store, study, only)?;
    let recorded = cells.iter().map(|cell| Recorded::of(store, cell)).collect::<Result<Vec<_>>>()?;
    let times: Vec<_> = recorded.iter().flat_map(Recorded::times).map(|call| (call.work, call.value)).collect();
    let cost = Cost::from_calls(&times).ok_or_else(|| {
        Error::user("no call of the run read from the medium, so read-ahead has no effect")
            .hint("select a run that starts with a cold page cache")
    })?;
    let trials = recorded.len() as f64;
    let mean = |of: &dyn Fn(&Recorded) -> f64| recorded.iter().map(of).sum::<f64>() / trials;
    let total_ns = |r: &Recorded, setting| r.other_ns + cost.of(r.total(Rules::Linux6_1, setting));
    let of = |by, mount_pages: u64, advice: Option<Advice>| {
        let setting = |r: &Recorded| Setting {
            mount_pages,
            io_pages: r.medium.io_pages,
            advice: advice.unwrap_or(Advice::Normal),
        };
        Candidate {
            by,
            window_bytes: mount_pages * PAGE_BYTES,
            advice,
            total_ns: mean(&|r| total_ns(r, setting(r))),
            over_best: 0.0,
            page_reads: mean(&|r| r.total(Rules::Linux6_1, setting(r)).pages as f64),
        }
    };
    let mut ranked: Vec<Candidate> = (0..=MOST_PAGES).map(|pages| of(ReadAheadBy::Mount, pages, None)).collect();
    if recorded.iter().all(Recorded::takes_advice) {
        ranked.push(of(ReadAheadBy::File, MOST_PAGES, Some(Advice::Random)));
    }
    // Stable: of equals, the smaller window stays in front.
    ranked.sort_by(|a, b| a.total_ns.total_cmp(&b.total_ns));
    let best = ranked[0].total_ns;
    ranked.iter_mut().for_each(|c| c.over_best = if best > 0.0 { c.total_ns / best - 1.0 } else { 0.0 });
    Ok(Answer {
        point: cells[0].point.clone(),
        trials: recorded.len(),
        reads: recorded[0].reads(),
        measured_ns: mean(&|r| r.measured_ns),
        modelled_ns: mean(&|r| total_ns(r, r.in_force)),
        ranked,
    })
}
