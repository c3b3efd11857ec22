//! Runs operations on a recorded region, crashes them wherever a crash can come, and judges what is left.

use super::expect::Expectation;
use super::region::Shared;
use super::shape::Shape;
use super::subject::{OpenFiles, apply_both, walk};
use pocketstone_fstest::{Has, Model, Op, Outcome, Tree, apply};
use pocketstone_media::crash::{CrashState, Limits, Recorder};
use pocketstone_scmfs::{FileType, OpenOptions, Operations, Volume, check};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A durable volume, what is on it, and files that are opened before anything else happens.
pub struct Start {
    pub name: &'static str,
    pub shape: Shape,
    pub image: Vec<u8>,
    pub model: Model,
    /// Must not change the tree.
    pub prelude: Vec<Op>,
}

/// Operations to crash.
pub struct Case<'a> {
    pub start: &'a Start,
    pub ops: Vec<Op>,
    /// Ends with a clean close, which can be crashed too.
    pub close: bool,
    /// Seeds the choice of crash states, where there are too many for all of them.
    pub seed: u64,
}

/// How closely to look.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// How many lines at a time differ from all the others.
    pub lines: usize,
    pub states_per_fence: usize,
    /// The recovery of every so many states is crashed as well; 0: of none.
    pub recrash_every: u64,
}

/// What was looked at.
#[derive(Debug, Default)]
pub struct Count {
    pub cases: AtomicU64,
    pub states: AtomicU64,
    /// States whose recovery was crashed.
    pub recrashed: AtomicU64,
    pub recovery_states: AtomicU64,
}

impl Count {
    fn add(counter: &AtomicU64) -> u64 {
        counter.fetch_add(1, Ordering::Relaxed)
    }
}

/// Marks in the trace: the prelude is over.
const READY: u64 = 1;

impl Case<'_> {
    fn describe(&self) -> String {
        let end = if self.close { ", close" } else { "" };
        format!("start {:?}, operations {:?}{end}, seed {}", self.start.name, self.ops, self.seed)
    }

    /// `Err` describes the first crash that left something else than it may.
    pub fn explore(&self, effort: &Effort, count: &Count) -> Result<(), String> {
        let run = AssertUnwindSafe(|| self.explore_or_panic(effort, count));
        let result = catch_unwind(run).unwrap_or_else(|payload| {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            Err(format!("panic: {}", text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("of another type")))
        });
        result.map_err(|what| format!("{}\n  {what}", self.describe()))
    }

    fn explore_or_panic(&self, effort: &Effort, count: &Count) -> Result<(), String> {
        let start = self.start;
        Count::add(&count.cases);
        let (recorder, log) = Recorder::new(&start.image);
        let volume = Volume::open(Box::new(recorder), &start.shape.open).map_err(|e| format!("open: {e}"))?;
        let mut files = OpenFiles::default();
        let mut model = start.model.clone();
        let mut expectations = vec![Expectation::exactly(model.tree())];
        for op in &start.prelude {
            apply_both(&volume, &mut files, &mut model, op, false)?;
        }
        log.mark(READY);
        for (i, op) in self.ops.iter().enumerate() {
            let before = model.clone();
            apply_both(&volume, &mut files, &mut model, op, start.shape.tight)?;
            expectations.push(Expectation::during(op, &before, &model));
            log.mark(READY + 1 + i as u64);
        }
        expectations.push(Expectation::exactly(model.tree()));
        drop(files);
        if self.close {
            volume.close().map_err(|e| format!("close: {e}"))?;
        } else {
            volume.abandon();
        }
        let limits =
            Limits { max_lines: effort.lines, max_states_per_fence: Some(effort.states_per_fence), seed: self.seed };
        let mut seen = HashSet::new();
        let mut result = Ok(());
        log.trace().crash_states(&limits, &mut |state: &CrashState| {
            let mark = state.last_mark.unwrap_or(0);
            let mut hasher = DefaultHasher::new();
            (&state.image, mark).hash(&mut hasher);
            if !seen.insert(hasher.finish()) {
                return ControlFlow::Continue(());
            }
            let serial = Count::add(&count.states);
            let expectation = &expectations[mark as usize];
            result = judge(state.image, &start.shape.open, expectation, serial);
            if result.is_ok() && effort.recrash_every > 0 && serial % effort.recrash_every == 0 {
                Count::add(&count.recrashed);
                result = self.crash_recovery(state.image, expectation, count);
            }
            match &mut result {
                Ok(()) => ControlFlow::Continue(()),
                Err(what) => {
                    *what = format!("crash after mark {mark}, {}: {what}", state.describe());
                    ControlFlow::Break(())
                }
            }
        });
        result
    }

    fn crash_recovery(&self, image: &[u8], expectation: &Expectation, count: &Count) -> Result<(), String> {
        let (recorder, log) = Recorder::new(image);
        let volume = Volume::open(Box::new(recorder), &self.start.shape.open).map_err(|e| format!("open: {e}"))?;
        volume.abandon();
        let limits = Limits { max_lines: 2, max_states_per_fence: Some(8), seed: self.seed };
        let mut result = Ok(());
        log.trace().crash_states(&limits, &mut |state: &CrashState| {
            let serial = Count::add(&count.recovery_states);
            match judge(state.image, &self.start.shape.open, expectation, serial) {
                Ok(()) => ControlFlow::Continue(()),
                Err(what) => {
                    result = Err(format!("second crash, in recovery, {}: {what}", state.describe()));
                    ControlFlow::Break(())
                }
            }
        });
        result
    }
}

/// Recovers, and looks at everything: the tree, fsck, the next start, whether the volume can be used.
fn judge(image: &[u8], options: &OpenOptions, expectation: &Expectation, serial: u64) -> Result<(), String> {
    let shared = Shared::from_image(image);
    let open = |what: &str| Volume::open(shared.region(), options).map_err(|error| format!("{what}: {error}"));
    let volume = open("recovery")?;
    let tree = walk(&volume).map_err(|broken| format!("after recovery: {broken:?}"))?;
    expectation.allows(&tree)?;
    if serial % 8 == 1 {
        return overwrite_and_crash(volume, &shared, options, &tree);
    }
    if serial % 2 == 0 {
        volume.close().map_err(|error| format!("close after recovery: {error}"))?;
    } else {
        volume.abandon();
    }
    expect_no_findings(&shared, "after recovery")?;
    // The rest costs as much again, and says little that is new about each single state.
    if serial % 4 > 1 {
        return Ok(());
    }
    let volume = open("the start after recovery")?;
    let again = walk(&volume).map_err(|broken| format!("at the start after recovery: {broken:?}"))?;
    if again != tree {
        return Err(format!("another tree at the start after recovery:\n{again:#?}\ninstead of\n{tree:#?}"));
    }
    use_volume(&volume)?;
    volume.close().map_err(|error| format!("close: {error}"))?;
    expect_no_findings(&shared, "after use")
}

/// What is written in place after a recovery stays written when the process dies right after: nothing that
/// recovery once needed may be replayed over it.
fn overwrite_and_crash(volume: Volume, shared: &Shared, options: &OpenOptions, tree: &Tree) -> Result<(), String> {
    let said = |error: pocketstone_scmfs::Error| format!("overwriting after recovery: {error}");
    let (mut written, mut open) = (Vec::new(), Vec::new());
    for (path, leaf) in tree.iter().filter(|(_, leaf)| leaf.kind == FileType::Regular) {
        let file = volume.resolve(path).and_then(|ino| volume.open(ino)).map_err(said)?;
        let bytes = vec![0xC3; super::space_from_start(&file).min(file.attributes().size).min(4096) as usize];
        file.write_at(&bytes, 0).map_err(said)?;
        if leaf.links == 1 {
            written.push((path, bytes));
        }
        open.push(file);
    }
    volume.abandon();
    drop(open); // after that: they store nothing, as in a process that was killed
    let volume = Volume::open(shared.region(), options).map_err(said)?;
    for (path, bytes) in written {
        let file = volume.resolve(path).and_then(|ino| volume.open(ino)).map_err(said)?;
        let mut found = vec![0; bytes.len()];
        file.read_at(&mut found, 0).map_err(said)?;
        if found != bytes {
            return Err(format!("{path} was overwritten after a recovery, and the next one undid it"));
        }
    }
    Ok(())
}

fn expect_no_findings(shared: &Shared, when: &str) -> Result<(), String> {
    let report = check(shared.region()).map_err(|error| format!("fsck {when}: {error}"))?;
    if report.findings.is_empty() { Ok(()) } else { Err(format!("fsck {when} found {:#?}", report.findings)) }
}

/// A file can be made, written, read and removed, unless the volume is full.
fn use_volume(volume: &Volume) -> Result<(), String> {
    let (path, mut files) = ("/after-the-crash", OpenFiles::default());
    let mut model = Model::new(Has::all(), 0, 0, 0);
    let ops = [
        Op::Create(path.into(), FileType::Regular, 0o600, None),
        Op::Write(path.into(), 0, 700, 3),
        Op::Read(path.into(), 0, 1000),
        Op::Unlink(path.into()),
    ];
    if matches!(apply(volume, &mut files, &ops[0]), Ok(Outcome::Failed(pocketstone_fstest::errno::ENOSPC))) {
        return Ok(());
    }
    model.apply(&ops[0]);
    ops[1..].iter().try_for_each(|op| apply_both(volume, &mut files, &mut model, op, true))
}

/// Explores all cases on all processors; the failures, at most a few. `prepare` is called in each thread.
pub fn explore_all(cases: &[Case<'_>], effort: &Effort, prepare: &(dyn Fn() + Sync)) -> (Count, Vec<String>) {
    const ENOUGH: usize = 3;
    let (count, next, failures) = (Count::default(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                prepare();
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(failure) = case.explore(effort, &count) {
                        let mut failures = failures.lock().expect("no thread panics with the lock");
                        failures.push(failure);
                        if failures.len() >= ENOUGH {
                            next.store(cases.len(), Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    (count, failures.into_inner().expect("no thread panics with the lock"))
}
