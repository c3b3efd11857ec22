//! The `fio` workload: what a job file of fio says, done by the lab on any volume.
//!
//! [`sections`] reads the text, [`values`] fio's units, [`job`] what the options of a section say, and [`stream`]
//! makes the requests. An option that the lab cannot follow is refused by its name, with the line: a job file that is
//! accepted is followed whole. The options are listed in docs/studies.md.

mod job;
mod sections;
mod stream;
mod values;

pub use self::job::{Fallocate, Job, Mode};
use crate::content::NewFile;
use crate::database::Prepares;
use crate::definition::{Defined, FileWorkload};
use crate::factor::{AnyFactor, Factor, Impossible, Point, Text, blame};
use crate::factors::DATA;
use crate::population::{Caches, Population, Sizes};
use crate::{Data, Operation, Purpose};
use pocketstone_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

const FIO_FILE: Factor<Text> = Factor::new("fio_file", "the job file of fio, relative to the study");
const FIO_OPTIONS: Factor<Text> =
    Factor::new("fio_options", "further options of all jobs, separated by blanks: they replace the file's").default("");

/// Files that a workload can have open at once: below the 1024 that a process has by default.
const MOST_OPEN_FILES: usize = 512;

/// The `fio` workload: the jobs of a job file, each a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FioSpec {
    /// The jobs: all at once, or, where they wait for each other, one after the other.
    pub jobs: Vec<Job>,
    /// What is in the files, and what is written.
    pub data: Data,
}

/// A file that jobs share by its name.
#[derive(Debug, Clone, Copy, Default)]
struct Made {
    /// Its size when the clock starts.
    bytes: u64,
    laid_out: bool,
    /// How it got that size, if it has no contents.
    by: Option<Fallocate>,
    /// Whether a job reads it.
    read: bool,
    direct: bool,
}

impl FioSpec {
    /// Reads a job file whose name is `name`; `further` options replace those of all its jobs.
    ///
    /// # Errors
    /// `ErrorKind::User` with the line and the option that is not understood, or cannot be followed.
    pub fn read(text: &str, name: &str, further: &str, data: Data) -> Result<FioSpec> {
        let mut jobs: Vec<Job> = Vec::new();
        let mut places: Vec<&str> = Vec::new();
        let sections = sections::sections(text, name, further)?;
        for section in &sections {
            let before = jobs.len();
            jobs.extend(Job::of_section(section)?);
            places.resize(jobs.len(), &section.at);
            if jobs.len() > job::MOST_THREADS as usize {
                let error =
                    Error::user(format!("{}: with [{}] there are {} jobs", section.at, section.name, jobs.len()));
                return Err(error.hint(format!("have at most {} jobs, clones included", job::MOST_THREADS)));
            }
            let waits = jobs.iter().skip(1).any(|job| job.after);
            if waits && !(jobs.len() == before + 1 && jobs.iter().skip(1).all(|job| job.after)) {
                let what =
                    format!("{}: [{}] is one of several jobs at once, and others wait", section.at, section.name);
                return Err(Error::user(what)
                    .hint("give all jobs but the first `stonewall` and numjobs=1, or each group its own job file"));
            }
        }
        let spec = FioSpec { jobs, data };
        spec.check()?;
        spec.cold().map_err(|number| {
            let what = format!("{}: the job {}", places[number], spec.jobs[number].name);
            Error::user(format!("{what} begins with another `invalidate` than the jobs before it"))
                .hint("give all jobs the same; with `stonewall`, one on files of earlier jobs may have invalidate=0")
        })?;
        Ok(spec)
    }

    /// Whether one thread does the jobs in turn.
    fn in_turn(&self) -> bool {
        self.jobs.iter().skip(1).any(|job| job.after)
    }

    fn files(&self) -> BTreeMap<&str, Made> {
        let mut files: BTreeMap<&str, Made> = BTreeMap::new();
        for job in &self.jobs {
            for name in &job.files {
                let made = files.entry(name).or_default();
                // fio makes a file for the first job that has it, and again for one that needs more of it; all of that
                // before any of them begins. One that it leaves empty is as good as none to the jobs after it.
                let empty = !job.laid_out && job.fallocate == Fallocate::None;
                if !empty && job.file_bytes > made.bytes {
                    (made.bytes, made.laid_out, made.by) = (job.file_bytes, job.laid_out, Some(job.fallocate));
                }
                made.read |= job.mode.reads();
                made.direct |= job.direct;
            }
        }
        files
    }

    /// Whether the page cache has nothing of the files at the start, as the first job wants it; the number of a job
    /// that cannot have it so. To one that passes by the page cache it is all the same.
    fn cold(&self) -> Result<bool, usize> {
        let (in_turn, mut had) = (self.in_turn(), BTreeSet::new());
        let mut wanted = None;
        for (number, job) in self.jobs.iter().enumerate() {
            let new = job.files.iter().filter(|name| had.insert(name.as_str())).count() > 0;
            if job.direct {
                continue;
            }
            let differs = *wanted.get_or_insert(job.invalidate) != job.invalidate;
            if differs && (new || !in_turn || job.invalidate) {
                return Err(number);
            }
        }
        Ok(wanted.unwrap_or(true))
    }

    /// The numbers of a job's files.
    fn numbers(&self, job: &Job) -> Vec<u32> {
        let files: Vec<&str> = self.files().into_keys().collect();
        job.files.iter().filter_map(|name| files.binary_search(&name.as_str()).ok()).map(|n| n as u32).collect()
    }
}

impl Defined for FioSpec {
    const NAME: &'static str = "fio";
    const ABOUT: &'static str = "the jobs of a job file of fio";
    const SMALL: &'static str = "fio_file = 'jobs.fio'";
    const FACTORS: &'static [AnyFactor] = &[FIO_FILE.any(), FIO_OPTIONS.any(), DATA.any()];

    fn of_point(point: &Point, prepares: &mut dyn Prepares) -> Result<Self, Impossible> {
        let name = point.of(&FIO_FILE)?;
        let text = prepares.text(&name).map_err(blame(FIO_FILE.name()))?;
        let read = FioSpec::read(&text, &name, &point.of(&FIO_OPTIONS)?, point.of(&DATA)?);
        read.map_err(blame(FIO_FILE.name()))
    }
}

impl FileWorkload for FioSpec {
    fn judge(&self) -> Result<(), Impossible> {
        let wrong = |why: String, cure: String| blame(FIO_FILE.name())(Error::user(why).hint(cure));
        let files = self.files();
        let open = files.len() * self.threads() as usize;
        if open > MOST_OPEN_FILES {
            let cure = format!("files times jobs must be at most {MOST_OPEN_FILES}");
            return Err(wrong(format!("{open} files are more than can be open at once"), cure));
        }
        for job in &self.jobs {
            if let Some(name) = job.files.iter().find(|name| files[name.as_str()].direct != job.direct) {
                let why = format!("the file {name} is opened with and without direct=1");
                return Err(wrong(why, "give the jobs different files, or the same `direct`".into()));
            }
            if job.direct && job.block_bytes % 512 != 0 {
                let what = format!("direct requests of {} bytes are none of whole sectors", job.block_bytes);
                return Err(wrong(what, "use a bs that is a multiple of 512 with direct=1".into()));
            }
        }
        let inside =
            |name: &str| files.keys().any(|other| other.strip_prefix(name).is_some_and(|r| r.starts_with('/')));
        match files.keys().find(|name| inside(name)) {
            Some(name) => {
                let why = format!("{name} is a file of one job and a folder of another");
                Err(wrong(why, "change filename or directory".into()))
            }
            None => Ok(()),
        }
    }

    fn population(&self, seed: u64) -> Population {
        let there = |made: &Made| if made.laid_out { made.bytes } else { 0 };
        let files = self.files().into_iter();
        let list: Vec<_> = files.map(|(name, made)| NewFile { name: name.to_owned(), bytes: there(&made) }).collect();
        Population {
            files: list.len() as u64,
            file_bytes: list.iter().map(|file| file.bytes).max().unwrap_or(0),
            data: self.data,
            seed,
            sizes: Sizes::Listed { list },
            caches: if self.cold().unwrap_or(true) { Caches::ColdPages } else { Caches::Warm },
        }
    }

    /// As fio does before its clock starts: files are open, and those that are only written are as `fallocate` says.
    fn setup(&self) -> Box<dyn Iterator<Item = Operation>> {
        let files = self.files().into_values().zip(0..);
        let open = files.flat_map(|(made, file)| {
            let purpose = if made.direct { Purpose::Direct } else { Purpose::Write };
            let by = made.by.filter(|_| !made.laid_out);
            let allocated = by == Some(Fallocate::Native);
            // A job that reads what an earlier one did not write finds zeros, also where no space can be reserved.
            let sized = by == Some(Fallocate::Truncate) || allocated && made.read;
            [
                Some(Operation::Open { file, purpose }),
                allocated.then_some(Operation::Allocate { file, bytes: made.bytes }),
                sized.then_some(Operation::Truncate { file, bytes: made.bytes }),
            ]
        });
        Box::new(open.flatten().collect::<Vec<_>>().into_iter())
    }

    fn operations(&self, seed: u64) -> Box<dyn Iterator<Item = Operation>> {
        let of_job = |(number, job): (usize, &Job)| {
            let label = format!("fio {number} {}", job.name);
            let shares = |other: &Job| other.files.iter().any(|name| job.files.contains(name));
            let again = self.in_turn() && self.jobs[..number].iter().any(shares);
            stream::operations(job, self.numbers(job), seed, &label, again)
        };
        let streams: Vec<_> = self.jobs.iter().enumerate().map(of_job).collect();
        if self.threads() == 1 {
            return Box::new(streams.into_iter().flatten());
        }
        let of_thread = |(thread, stream)| std::iter::once(Operation::Turn { thread }).chain(stream);
        Box::new((0..).zip(streams).flat_map(of_thread))
    }

    fn request_bytes(&self) -> u64 {
        self.jobs.iter().map(|job| job.block_bytes).max().unwrap_or(1)
    }

    fn writes(&self) -> bool {
        self.jobs.iter().any(|job| job.mode.writes())
    }

    fn threads(&self) -> u32 {
        if self.in_turn() { 1 } else { self.jobs.len() as u32 }
    }

    /// Jobs at once pause at once.
    fn pauses_ns(&self) -> u64 {
        let pauses = self.jobs.iter().map(Job::pauses_ns);
        if self.in_turn() { pauses.fold(0, u64::saturating_add) } else { pauses.max().unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests;
