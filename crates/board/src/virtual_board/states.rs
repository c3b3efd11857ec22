//! Saved states: after the boot, and after each step of preparation. Every cell starts from one.

use super::{VirtualBoard, give, qemu, with_console};
use crate::cache::digest;
use crate::{Failed, read_reply};
use pocketstone_core::error::Context;
use pocketstone_core::outcome::{Facts, Reply};
use pocketstone_core::plan::{Order, Step};
use pocketstone_core::{Error, Result};
use qemu::Machine;
use std::fs;
use std::path::PathBuf;

/// Room that saved states may take in the cache; the least recently used go first.
const LIMIT_BYTES: u64 = 8 << 30;

/// A saved state.
pub struct State {
    /// QEMU's file.
    pub path: PathBuf,
    /// What the board said it is.
    pub facts: Facts,
}

impl VirtualBoard {
    /// The name of the state after `steps`: a digest of everything that decides it.
    fn state_key(&self, steps: &[Step]) -> Result<String> {
        let steps = serde_json::to_vec(steps).map_err(|e| Error::bug("steps are no JSON").because(e))?;
        let arguments = qemu::machine_arguments(&self.profile).join("\0");
        Ok(digest(&[self.image.digest.as_bytes(), self.qemu_version.as_bytes(), arguments.as_bytes(), &steps]))
    }

    /// The saved state after `steps`, made from the one before its last step where it is missing.
    ///
    /// # Errors
    /// When the board fails on the way.
    pub(super) fn state(&self, steps: &[Step]) -> Result<State, Failed> {
        let key = self.state_key(steps)?;
        let folder = self.surroundings.cache.folder("states")?;
        let (path, facts_path) = (folder.join(format!("{key}.state")), folder.join(format!("{key}.json")));
        let load = || -> Option<State> {
            let facts = serde_json::from_slice(&fs::read(&facts_path).ok()?).ok()?;
            // Marks it as used, for pruning.
            fs::File::open(&path).ok()?.set_modified(std::time::SystemTime::now()).ok()?;
            Some(State { path: path.clone(), facts })
        };
        if let Some(state) = load() {
            return Ok(state);
        }
        let before = match steps {
            [] => None,
            [before @ .., _] => Some(self.state(before)?),
        };
        let _lock = self.surroundings.cache.lock(&key)?;
        if let Some(state) = load() {
            return Ok(state);
        }
        let cell = self.cell_folder()?;
        let make = || -> Result<(), Failed> {
            let (machine, facts) = match (&before, steps) {
                (Some(before), [.., step]) => {
                    (self.surroundings.progress)(match step {
                        Step::Format { .. } => "making the file system on the board",
                        Step::Fill { .. } => "writing the test file on the board",
                    });
                    let start = self.start(Some(&before.path), qemu::Console::File);
                    let mut machine = Machine::start(&self.profile, &start, cell.path(), &self.surroundings)?;
                    give(&mut machine, cell.path(), &Order::Prepare { step: step.clone() }, self.cell_limit())?;
                    let Reply::Ready { facts } = read_reply(cell.path())? else {
                        return Err(Error::bug("the board's reply to a step is not `ready`").into());
                    };
                    (machine, facts)
                }
                _ => {
                    (self.surroundings.progress)("booting the board");
                    self.boot(cell.path())?
                }
            };
            let temporary = folder.join(format!("{key}.new"));
            machine.save(&temporary)?;
            let facts = serde_json::to_vec(&facts).map_err(|e| Error::bug("facts are no JSON").because(e))?;
            fs::write(&facts_path, facts).board(|| format!("cannot write {}", facts_path.display()))?;
            fs::rename(&temporary, &path).board(|| format!("cannot keep {}", path.display()))?;
            Ok(())
        };
        make().map_err(|failed| with_console(failed, cell.path()))?;
        self.surroundings.cache.prune("states", LIMIT_BYTES);
        load().ok_or_else(|| Error::board(format!("the saved state {} vanished", path.display())).into())
    }
}
