//! What single arguments of calls say: places in files, sizes, paths.

use super::line::{field, number};
use crate::operation::MOST_FILE_BYTES;

/// Arguments that a text has not, or in another form.
pub const UNKNOWN: &str = "the call's arguments are not understood";

/// Sizes and places that Linux has not.
pub const TOO_LARGE: &str = "no file has so many bytes";

/// The offset of a call that has one; -1: that of the descriptor.
pub fn offset(argument: &str) -> Result<Option<u64>, &'static str> {
    match argument {
        "-1" => Ok(None),
        offset => place(offset).map(Some),
    }
}

/// The offset that a pointer leads to; NULL: that of the descriptor. An address says nothing.
pub fn pointed(argument: &str) -> Result<Option<u64>, &'static str> {
    match argument {
        "NULL" => Ok(None),
        offset if offset.starts_with('[') => place(offset).map(Some),
        _ => Err(UNKNOWN),
    }
}

/// A place in a file, or its size.
pub fn place(argument: &str) -> Result<u64, &'static str> {
    let bytes = number(argument).ok_or(UNKNOWN)?;
    (bytes <= MOST_FILE_BYTES).then_some(bytes).ok_or(TOO_LARGE)
}

/// The size in what a call says of a file, if it is there.
pub fn size(says: &str) -> Result<Option<u64>, &'static str> {
    match field(says, "_size=").and_then(number) {
        Some(bytes) if bytes > MOST_FILE_BYTES => Err(TOO_LARGE),
        found => Ok(found),
    }
}

/// A path without empty parts, `.` and `..`.
pub fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    match (path.starts_with('/'), parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => format!("./{}", parts.join("/")),
    }
}
