//! What one can ask of a mounted volume besides files: extended attributes of its root directory that
//! are not stored anywhere.

use crate::caller;
use crate::mountable::Waits;
use pocketstone_scmfs::checkpoint::Schedule;
use pocketstone_scmfs::{Error, Operations, ROOT, Result, ScrubState, Statfs, Usage, Volume};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Reading it gives [`State`] as JSON.
pub const USAGE: &str = "user.scmfs.usage";
/// Setting it, to anything, collects garbage.
pub const COLLECT: &str = "user.scmfs.collect";
/// Setting it to a number of bytes, in decimal, grows the volume.
pub const RESIZE: &str = "user.scmfs.resize";

/// Setting it to `start` looks through the volume for damage, in the background; to `stop` ends that. Reading it gives
/// how far the last one has come, and what it found, as JSON: `pocketstone_scmfs::ScrubState`.
pub const SCRUB: &str = "user.scmfs.scrub";

/// Setting it to a [`CheckpointRequest`] as JSON takes a checkpoint, in the background. Reading it gives how that
/// goes, as JSON: `pocketstone_scmfs::checkpoint::CheckpointState`. For root and the user of the server alone, in whose
/// name files are written.
pub const CHECKPOINT: &str = "user.scmfs.checkpoint";

/// An extended attribute has at most 64 KiB.
const VALUE_BYTES: usize = 60 << 10;

/// A volume, and who serves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The process that serves it, if it is mounted.
    pub pid: Option<u32>,
    /// The region's path.
    pub source: String,
    /// The volume's label; a server of an older version says none.
    #[serde(default)]
    pub label: String,
    /// Where the space is.
    pub usage: Usage,
    /// What `df` sees.
    pub statfs: Statfs,
}

/// The state of a volume that nobody serves.
///
/// # Errors
/// As [`Operations::statfs`].
pub fn state(volume: &Volume, source: &str) -> Result<State> {
    let statfs = volume.statfs()?;
    Ok(State { pid: None, source: source.to_owned(), label: volume.label(), usage: volume.usage(), statfs })
}

pub(crate) fn get(volume: &Volume, source: &str, uid: u32, name: &[u8]) -> Option<Result<Vec<u8>>> {
    if name == USAGE.as_bytes() {
        let served = |state| State { pid: Some(std::process::id()), ..state };
        let json = |state| serde_json::to_vec(&served(state)).map_err(|_| Error::NotSupported);
        return Some(state(volume, source).and_then(json));
    }
    if name == CHECKPOINT.as_bytes() {
        return Some(trusted(uid).and_then(|()| checkpoint_state(volume)));
    }
    // It names files.
    (name == SCRUB.as_bytes()).then(|| allowed(volume, uid).and_then(|()| scrub_state(volume)))
}

fn scrub_state(volume: &Volume) -> Result<Vec<u8>> {
    shortened(volume.scrub_state().ok_or(Error::NoAttribute)?, VALUE_BYTES)
}

/// A state as JSON of at most `most` bytes; of a longer one, the end of the list of damage is left out.
fn shortened(mut state: ScrubState, most: usize) -> Result<Vec<u8>> {
    loop {
        let json = serde_json::to_vec(&state).map_err(|_| Error::NotSupported)?;
        match state.report.as_mut().map(|report| &mut report.damaged) {
            Some(damaged) if json.len() > most && !damaged.is_empty() => damaged.truncate(damaged.len() / 2),
            _ => return Ok(json),
        }
    }
}

fn checkpoint_state(volume: &Volume) -> Result<Vec<u8>> {
    let state = volume.checkpoint_state().ok_or(Error::NoAttribute)?;
    serde_json::to_vec(&state).map_err(|_| Error::NotSupported)
}

/// What a checkpoint is asked for by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointRequest {
    /// The folder, as an absolute path.
    pub target: PathBuf,
    /// How many checkpoints are kept there; `None`: as many as are there.
    pub keep: Option<u32>,
    /// By which the answer is known.
    pub word: String,
}

fn ask_for_checkpoint(volume: &Volume, value: &[u8], arrived: Waits) -> Result<()> {
    let request: CheckpointRequest = serde_json::from_slice(value).map_err(|_| Error::Invalid)?;
    if !request.target.is_absolute() {
        return Err(Error::Invalid);
    }
    let known = volume.checkpoint_state();
    let same = known.as_ref().is_some_and(|known| known.target == request.target);
    match known {
        Some(known) if same && (known.every_s.is_some() || known.keep == request.keep) => {}
        // Those of the mount itself go on, and so does one that is being taken.
        Some(known) if known.every_s.is_some() || known.waiting > 0 => return Err(Error::Busy),
        // Who asks has had the kernel write back what it held, and is told.
        _ => {
            volume.schedule_checkpoints(&Schedule::new(request.target).keep(request.keep).before(move || arrived()))?
        }
    }
    volume.ask_for_checkpoint(&request.word)
}

fn trusted(uid: u32) -> Result<()> {
    if caller::is_trusted(uid) { Ok(()) } else { Err(Error::NotPermitted) }
}

/// Does what setting an attribute asks for; `None` if it is an ordinary one.
pub(crate) fn set(volume: &Volume, uid: u32, name: &[u8], value: &[u8], arrived: Waits) -> Option<Result<()>> {
    if name == CHECKPOINT.as_bytes() {
        return Some(trusted(uid).and_then(|()| ask_for_checkpoint(volume, value, arrived)));
    }
    if ![USAGE, COLLECT, RESIZE, SCRUB].iter().any(|known| name == known.as_bytes()) {
        return None;
    }
    Some(allowed(volume, uid).and_then(|()| act(volume, name, value)))
}

fn allowed(volume: &Volume, uid: u32) -> Result<()> {
    if uid == 0 || uid == volume.attributes(ROOT)?.uid { Ok(()) } else { Err(Error::NotPermitted) }
}

fn act(volume: &Volume, name: &[u8], value: &[u8]) -> Result<()> {
    if name == COLLECT.as_bytes() {
        volume.collect();
        Ok(())
    } else if name == RESIZE.as_bytes() {
        let bytes = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
        volume.resize(bytes.ok_or(Error::Invalid)?)
    } else if name == SCRUB.as_bytes() {
        match value {
            b"start" => volume.start_scrub(),
            b"stop" => {
                volume.stop_scrub();
                Ok(())
            }
            _ => Err(Error::Invalid),
        }
    } else {
        Err(Error::NotPermitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_scmfs::checkpoint::CheckpointState;
    use pocketstone_scmfs::{CreateOptions, DamageOf, OpenOptions, ScrubDamage, ScrubReport};

    #[test]
    fn a_long_list_of_damage_is_shortened_and_its_length_kept() {
        let damage = ScrubDamage {
            of: DamageOf::Contents,
            ino: 7,
            path: Some("/a/rather/long/path".into()),
            offset: 4096,
            bytes: 4096,
            what: "bytes with a wrong checksum".into(),
        };
        let (mut state, mut report) = (ScrubState::default(), ScrubReport::default());
        (report.damaged_places, report.damaged) = (5000, vec![damage; 5000]);
        state.report = Some(report);
        let json = shortened(state, VALUE_BYTES).unwrap();
        assert!((VALUE_BYTES / 4..=VALUE_BYTES).contains(&json.len()), "{}", json.len());
        let report = serde_json::from_slice::<ScrubState>(&json).unwrap().report.unwrap();
        assert_eq!(report.damaged_places, 5000);
        assert_eq!(report.damaged[0].path.as_deref(), Some("/a/rather/long/path"));
    }

    #[test]
    fn answers_are_read_back_as_they_were_given() {
        let (memory, _) = pocketstone_media::Pcm::new(16 << 20, &Default::default());
        Volume::create(Box::new(memory.region().unwrap()), &CreateOptions::default()).unwrap();
        let volume = Volume::open(Box::new(memory.region().unwrap()), &OpenOptions::default()).unwrap();
        let answer = get(&volume, "region", 0, USAGE.as_bytes()).unwrap().unwrap();
        let read: State = serde_json::from_slice(&answer).unwrap();
        assert_eq!(read, State { pid: Some(std::process::id()), ..state(&volume, "region").unwrap() });
        let report = volume.scrub(&mut |_| true);
        let json = serde_json::to_vec(&report).unwrap();
        assert_eq!(serde_json::from_slice::<ScrubReport>(&json).unwrap(), report);
        let state = CheckpointState::default();
        let json = serde_json::to_vec(&state).unwrap();
        assert_eq!(serde_json::from_slice::<CheckpointState>(&json).unwrap(), state);
    }

    #[test]
    fn an_answer_without_what_a_verdict_hangs_on_is_not_read() {
        let mut json = serde_json::to_value(ScrubReport::default()).unwrap();
        json.as_object_mut().unwrap().remove("damaged_places");
        assert!(serde_json::from_value::<ScrubReport>(json).is_err());
    }
}
