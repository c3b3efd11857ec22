//! A study's shards as a job array of Slurm.

use super::scripts::Shards;
use crate::again::quote;
use crate::arguments::SlurmArguments;
use crate::boards::context;
use crate::progress;
use crate::shards::{Plan, tell};
use pocketstone_board::BoardContext;
use pocketstone_cli::note;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_study::results::store::{FILE, Store};
use pocketstone_study::specification::shares::PLAN_FACT;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How often Slurm is asked, first and after a while.
const EVERY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];
/// How long Slurm may not answer.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long a file that another machine wrote may take to be seen here.
const SEEN: Duration = Duration::from_secs(10);

/// Submits the shards that are missing and the merge, and follows them to the end.
///
/// # Errors
/// `ErrorKind::Board` if Slurm cannot be asked, or shards are still missing after all attempts;
/// `ErrorKind::Interrupted` if the user interrupts, while the jobs go on.
pub fn slurm(arguments: &SlurmArguments) -> Result<u8> {
    let context = context()?;
    let plan = Plan::of(&arguments.cluster.shares, &context)?;
    let shards = Shards::of(&arguments.cluster, &plan)?;
    arguments.sbatch.iter().try_for_each(|option| refuse_option(option))?;
    refuse_backslash(&shards.folder)?;
    let submission = Submission { shards: &shards, options: &arguments.sbatch, name: &plan.study.name };
    if arguments.dry_run {
        let all: Vec<u32> = (1..=shards.of).collect();
        for (name, text) in [("shard", shards.shard()), ("merge", shards.merge())] {
            say!("--- {}\n{text}", shards.script(name).display());
        }
        say!("--- commands\n{}\n{}", words(&submission.array(&all)), words(&submission.merge(Some("ARRAY"))));
        return Ok(0);
    }
    if shards.output.join(FILE).exists() {
        refuse_another(&shards.output, &plan)?;
        return tell(&arguments.cluster.output, false);
    }
    Store::refuse_taken(&shards.output)?;
    shards.write()?;
    // Jobs that an earlier command submitted are followed first.
    if let Ok(jobs) = fs::read_to_string(shards.folder.join("jobs")) {
        submission.follow(jobs.trim(), &context)?;
    }
    for attempt in 1..=arguments.attempts {
        let missing = shards.missing();
        // What could not be merged once cannot be merged.
        if submission.merged() || attempt > 1 && missing.is_empty() {
            break;
        }
        if attempt > 1 {
            note("note", &format!("{} of {} shards are missing: attempt {attempt}", missing.len(), shards.of));
        }
        let jobs = submission.submit(&missing)?;
        submission.follow(&jobs, &context)?;
    }
    progress::clear();
    if !submission.merged() {
        let missing = shards.missing();
        let (log, cure) = match missing.first() {
            Some(first) => (first.to_string(), "the same command tries again"),
            None => ("merge".to_owned(), "the log says what is wrong"),
        };
        let log = shards.log(&log);
        let text = fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(10)..].join("\n");
        let what = match missing.len() {
            0 => "the shards could not be merged".to_owned(),
            n => format!("{n} of {} shards are missing after {} attempts", shards.of, arguments.attempts),
        };
        return Err(Error::board(format!("{what}; {} ends:\n{last}", log.display())).hint(cure));
    }
    tell(&arguments.cluster.output, false)
}

/// Refuses results of another study in the place of those that were asked for, of another board or of other cells.
fn refuse_another(output: &Path, plan: &Plan) -> Result<()> {
    let (store, study) = (Store::open(output, false)?, &plan.study);
    let same_study = store.fact("study")?.as_deref() == Some(&study.text);
    let same_board = store.fact("board")?.as_deref() == Some(&plan.profile.name);
    if same_study && same_board && store.fact(PLAN_FACT)?.as_deref() == Some(&plan.shares.digest) {
        return Ok(());
    }
    let name = match store.fact("study.name")? {
        Some(name) if name != study.name => name,
        _ if same_study => format!("{} of another plan or board", study.name),
        _ => format!("another version of {}", study.name),
    };
    Err(Error::user(format!("{} holds results of {name}", output.display())).hint("choose another --output"))
}

/// Refuses options of the user's that change which jobs there are, or where.
fn refuse_option(option: &str) -> Result<()> {
    let name = option.split('=').next().unwrap_or_default();
    // A long option may be cut short.
    let is = |long: &str, short: &str| name.starts_with(short) || name.len() >= "--ar".len() && long.starts_with(name);
    let cure = if is("--array", "-a") {
        "the array is the shards; to run fewer at a time, submit it, and then: scontrol update JobId=ARRAY \
         ArrayTaskThrottle=4"
    } else if is("--clusters", "-M") {
        "run this command where that cluster is the local one: its queue is followed there"
    } else {
        return Ok(());
    };
    Err(Error::user(format!("--sbatch={option} is not passed on")).hint(cure))
}

/// Refuses a folder in whose path Slurm would not put the shard's number: after a backslash it replaces nothing.
fn refuse_backslash(folder: &Path) -> Result<()> {
    match folder.as_os_str().as_encoded_bytes().contains(&b'\\') {
        false => Ok(()),
        true => Err(Error::user(format!("Slurm cannot write logs to {}: the path has a backslash", folder.display()))
            .hint("choose another --output")),
    }
}

fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| quote(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

/// Jobs of a run's shards.
struct Submission<'a> {
    shards: &'a Shards,
    /// Options of the user's for sbatch.
    options: &'a [String],
    /// The study.
    name: &'a str,
}

impl Submission<'_> {
    /// A job that is never started again by itself: this command does that, and knows what is missing.
    /// Of options that are there twice the last one counts: what belongs to a job comes after the user's.
    fn sbatch(&self, log: &str, script: &str, more: Option<String>) -> Command {
        let mut command = Command::new("sbatch");
        command.args(["--parsable", "--no-requeue", "--open-mode=append"]);
        command.arg(format!("--job-name=pocketstone-{}", self.name));
        // What begins with `%` is replaced in the whole path.
        let logs = self.shards.logs().to_string_lossy().replace('%', "%%");
        command.arg(format!("--output={logs}/{log}.log"));
        command.args(self.options).args(more).arg(self.shards.script(script));
        command
    }

    /// The command that submits shards.
    fn array(&self, indices: &[u32]) -> Command {
        self.sbatch("%a", "shard", Some(format!("--array={}", ranges(indices))))
    }

    /// The command that submits the merge. It comes after the shards however they end: it says itself what is missing.
    fn merge(&self, array: Option<&str>) -> Command {
        self.sbatch("merge", "merge", array.map(|array| format!("--dependency=afterany:{array}")))
    }

    /// Submits shards and the merge, and returns the jobs' numbers, with commas between.
    fn submit(&self, indices: &[u32]) -> Result<String> {
        let mut jobs = Vec::new();
        if !indices.is_empty() {
            jobs.push(job(&mut self.array(indices))?);
        }
        let merge = job(&mut self.merge(jobs.first().map(String::as_str)))?;
        jobs.push(merge);
        let jobs = jobs.join(",");
        let file = self.shards.folder.join("jobs");
        fs::write(&file, &jobs).user(|| format!("cannot write {}", file.display()))?;
        Ok(jobs)
    }

    /// Waits until jobs have ended, and shows how many shards are there.
    fn follow(&self, jobs: &str, context: &BoardContext) -> Result<()> {
        let begin = Instant::now();
        let mut answered = Instant::now();
        loop {
            if context.check().is_err() {
                progress::clear();
                let stop = jobs.replace(',', " ");
                return Err(Error::new(ErrorKind::Interrupted, format!("interrupted; the jobs {jobs} go on"))
                    .hint(format!("follow them: the same command; stop them: scancel {stop}")));
            }
            match queue(jobs) {
                Ok(states) if states.is_empty() => break,
                Ok(states) => {
                    answered = Instant::now();
                    let there = self.shards.of as usize - self.shards.missing().len();
                    let running = states.iter().filter(|state| *state == "R").count();
                    progress::shards(there, self.shards.of as usize, running);
                }
                Err(error) if answered.elapsed() > PATIENCE => {
                    return Err(error.hint(format!(
                        "the jobs {jobs} go on: once Slurm answers, the same command follows them; {} has their logs",
                        self.shards.folder.display()
                    )));
                }
                Err(_) => {}
            }
            std::thread::sleep(EVERY[usize::from(begin.elapsed() > Duration::from_secs(60))]);
        }
        // What the last job wrote may be seen here a little later.
        let end = Instant::now();
        let merge_failed = || !self.shards.missing().is_empty();
        while !self.merged() && !merge_failed() && end.elapsed() < SEEN && context.check().is_ok() {
            std::thread::sleep(EVERY[0]);
        }
        Ok(())
    }

    /// Whether the results are there.
    fn merged(&self) -> bool {
        self.shards.output.join(FILE).exists()
    }
}

/// Submits a job and returns its number.
fn job(command: &mut Command) -> Result<String> {
    let said = ask(command)?;
    // With a cluster's name behind it, where there are several.
    let number = said.trim().split(';').next().unwrap_or_default();
    match !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()) {
        true => Ok(number.to_owned()),
        false => Err(Error::board(format!("sbatch said `{}`, which is no job's number", said.trim()))),
    }
}

/// The states of jobs that have not ended: `PD`, `R` and the like, one for each task that runs.
fn queue(jobs: &str) -> Result<Vec<String>> {
    match ask(Command::new("squeue").args(["--noheader", "--array", "--format=%t", "--jobs", jobs])) {
        Ok(text) => Ok(text.split_whitespace().map(str::to_owned).collect()),
        // Slurm forgets jobs a while after they have ended.
        Err(error) if error.chain().contains("Invalid job id") => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn ask(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| {
        Error::board(format!("cannot run {program}"))
            .because(e)
            .hint("run this on a machine that submits jobs to Slurm; elsewhere: pocketstone cluster parallel")
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::board(format!("{program} failed: {}", said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Numbers as sbatch takes them: `1-3,7`.
fn ranges(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let run = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_that_follow_each_other_are_a_range() {
        assert_eq!(super::ranges(&[1, 2, 3, 7, 9, 10]), "1-3,7,9-10");
        assert_eq!(super::ranges(&[4]), "4");
    }
}
