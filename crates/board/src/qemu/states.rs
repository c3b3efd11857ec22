//! Saved states: after the boot, and after each step of preparation. Every cell starts from one.

use super::{Qemu, machine, with_console};
use crate::cache::digest;
use crate::orders::read_response;
use crate::transport::Transport;
use crate::{Failed, squashfs};
use machine::Machine;
use pocketstone_core::error::Context;
use pocketstone_core::outcome::{Facts, Response};
use pocketstone_core::{Error, Result};
use pocketstone_workload::plan::{Order, Step};
use std::fs;
use std::path::{Path, PathBuf};

/// How often a state is made until it is of the kind that is kept. On a busy host most are not, and each takes seconds
/// at most.
const TRIES: usize = 100;

/// Room that saved states may take in the cache; the least recently used go first.
const LIMIT_BYTES: u64 = 8 << 30;

/// A saved state.
pub struct State {
    /// QEMU's file.
    pub path: PathBuf,
    /// What the board said it is.
    pub facts: Facts,
    /// By how much its clock was moved on, see [`super::clock`].
    moved_on_ns: u64,
}

impl Qemu {
    /// The name of the state after `steps`: a digest of everything that decides it.
    fn state_key(&self, steps: &[Step]) -> Result<String> {
        let read_only = steps.iter().any(|step| step.volume().read_only());
        let steps = serde_json::to_vec(steps).map_err(|e| Error::bug("steps are not valid JSON").because(e))?;
        let arguments = machine::machine_arguments(&self.profile).join("\0");
        let mut parts = vec![self.image.digest.as_bytes(), self.qemu_version.as_bytes(), arguments.as_bytes()];
        // Another version lays files out in another way.
        let tools = if read_only { squashfs::version()? } else { String::new() };
        parts.extend([tools.as_bytes(), steps.as_slice()].into_iter().filter(|part| !part.is_empty()));
        Ok(digest(&parts))
    }

    fn image_fact(&self) -> (String, String) {
        ("image.digest".into(), self.image.digest.clone())
    }

    /// The files of all states that were saved of this image, by their names in the cache.
    pub(super) fn kept_states(&self) -> Result<Vec<PathBuf>> {
        let folder = self.context.cache.folder("states")?;
        let entries = fs::read_dir(&folder).board(|| format!("cannot list {}", folder.display()))?;
        let (name, digest) = self.image_fact();
        let mut files = Vec::new();
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.with_extension("json") == *path) {
            let facts = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Facts>(&text).ok());
            let state = path.with_extension("state");
            if facts.is_some_and(|facts| facts.get(&name) == Some(&digest)) && state.is_file() {
                let names = [path, state].map(|file| Path::new("states").join(file.file_name().unwrap_or_default()));
                files.extend(names);
            }
        }
        Ok(files)
    }

    /// The saved state after `steps`, made from the one before its last step where it is missing.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the board or a step there fails, or the state is not reached; `ErrorKind::User` if the
    /// cache cannot be used; `ErrorKind::Interrupted`.
    pub(super) fn state(&self, steps: &[Step]) -> Result<State, Failed> {
        let folder = self.context.cache.folder("states")?;
        self.state_in(&folder, steps)
    }

    /// As [`Qemu::state`], with the states kept in `folder`.
    pub(super) fn state_in(&self, folder: &Path, steps: &[Step]) -> Result<State, Failed> {
        let key = self.state_key(steps)?;
        let (path, facts_path) = (folder.join(format!("{key}.state")), folder.join(format!("{key}.json")));
        let load = || -> Option<State> {
            let facts = serde_json::from_slice(&fs::read(&facts_path).ok()?).ok()?;
            let file = fs::File::open(&path).ok()?;
            // Marks it as used, for pruning.
            file.set_modified(std::time::SystemTime::now()).ok()?;
            let moved_on_ns = super::clock::moved_on_ns(&file).ok()?;
            Some(State { path: path.clone(), facts, moved_on_ns })
        };
        if let Some(state) = load() {
            return Ok(state);
        }
        let before = match steps {
            [] => None,
            [before @ .., _] => Some(self.state_in(folder, before)?),
        };
        let _lock = self.context.cache.lock(&digest(&[key.as_bytes(), folder.as_os_str().as_encoded_bytes()]))?;
        if let Some(state) = load() {
            return Ok(state);
        }
        let cell = self.folder()?;
        // Returns whether the state is of the kind that is kept.
        let make = || -> Result<bool, Failed> {
            let (machine, facts) = match (&before, steps) {
                (Some(before), [.., step]) => {
                    (self.context.progress)(match step {
                        Step::Format { .. } => "creating the file system on the board",
                        Step::Populate { .. } => "writing the test files on the board",
                        Step::Unpack { .. } => "writing the command's files on the board",
                        Step::Load { .. } => "loading the database on the board",
                        Step::Wear { .. } => "moving the volume to a worn chip on the board",
                    });
                    let start = self.start(Some(&before.path), machine::Console::File);
                    let mut machine = Machine::start(&self.profile, &start, cell.path(), &self.context)?;
                    machine.favour_processor();
                    self.put(Order::Prepare { step: step.clone() }, cell.path())?;
                    machine.run(self.cell_limit())?;
                    let Response::Ready { facts } = read_response(cell.path())? else {
                        return Err(Error::bug("the board's reply to a step is not `ready`").into());
                    };
                    (machine, facts)
                }
                _ => {
                    (self.context.progress)("booting the board");
                    self.boot(cell.path())?
                }
            };
            let temporary = folder.join(format!("{key}.new"));
            let moved_on_ns = machine.save(&temporary)?;
            if moved_on_ns <= before.as_ref().map_or(0, |b| b.moved_on_ns) {
                return Ok(false);
            }
            // By this it is known later which image a state is of.
            let facts: Facts = facts.into_iter().chain([self.image_fact()]).collect();
            let facts = serde_json::to_vec(&facts).map_err(|e| Error::bug("facts are not valid JSON").because(e))?;
            fs::write(&facts_path, facts).board(|| format!("cannot write {}", facts_path.display()))?;
            fs::rename(&temporary, &path).board(|| format!("cannot store {}", path.display()))?;
            Ok(true)
        };
        let mut kept = false;
        for _ in 0..TRIES {
            kept = make().map_err(|failed| with_console(failed, cell.path()))?;
            if kept {
                break;
            }
        }
        if !kept {
            return Err(Error::board(format!("the board did not reach the same state in {TRIES} tries"))
                .hint("the host is very busy: try again with less load")
                .into());
        }
        self.context.cache.prune("states", LIMIT_BYTES);
        load().ok_or_else(|| Error::board(format!("the saved state {} vanished", path.display())).into())
    }
}
