//! What one can ask of a mounted volume besides files: extended attributes of its root directory that
//! are not stored anywhere.

use pocketstone_scmfs::{Error, ROOT, Result, Statfs, Usage, Volume};
use serde::Serialize;

/// Reading it gives [`State`] as JSON.
pub const USAGE: &str = "user.scmfs.usage";
/// Setting it, to anything, collects garbage.
pub const COLLECT: &str = "user.scmfs.collect";
/// Setting it to a number of bytes, in decimal, grows the volume.
pub const RESIZE: &str = "user.scmfs.resize";

/// A mounted volume, and who serves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct State {
    /// The process that serves it.
    pub pid: u32,
    /// The region's path.
    pub source: String,
    /// Where the space is.
    pub usage: Usage,
    /// What `df` sees.
    pub statfs: Statfs,
}

/// A volume's state.
pub fn state(volume: &Volume, source: &str) -> State {
    State { pid: std::process::id(), source: source.to_owned(), usage: volume.usage(), statfs: volume.statfs() }
}

pub(crate) fn get(volume: &Volume, source: &str, name: &[u8]) -> Option<Result<Vec<u8>>> {
    let json = || serde_json::to_vec(&state(volume, source)).map_err(|_| Error::NotSupported);
    (name == USAGE.as_bytes()).then(json)
}

/// Does what setting an attribute asks for; `None` if it is an ordinary one.
pub(crate) fn set(volume: &Volume, uid: u32, name: &[u8], value: &[u8]) -> Option<Result<()>> {
    if ![USAGE, COLLECT, RESIZE].iter().any(|known| name == known.as_bytes()) {
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
    } else {
        Err(Error::NotPermitted)
    }
}
