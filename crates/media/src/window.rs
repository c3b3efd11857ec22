//! Windows: scattered parts of a file at consecutive addresses.

use crate::space::Space;
use crate::{Piece, Window};
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::BorrowedFd;

/// How the parts are mapped: as the region itself is.
#[derive(Clone, Copy)]
pub(crate) struct How<'a> {
    pub(crate) file: BorrowedFd<'a>,
    pub(crate) prot: ProtFlags,
    pub(crate) flags: MapFlags,
    pub(crate) map_bytes: u64,
}

struct Mapping(Space);

// SAFETY: the mapping is this value's own, and stays at its place until it is dropped. It is of the region's file,
// which the region's stores alone change.
unsafe impl Window for Mapping {
    fn base(&self) -> *const u8 {
        self.0.base()
    }
}

/// Windows of at least this size start where a huge page may.
const HUGE: u64 = 2 << 20;

/// Maps the pieces, or nothing at all: `None` when addresses or mappings have run out.
pub(crate) fn open(pieces: &[Piece], how: How<'_>) -> Option<Box<dyn Window>> {
    let total = pieces.iter().try_fold(0u64, |sum, piece| sum.checked_add(piece.bytes))?;
    if total == 0 {
        return None;
    }
    let align = if total >= HUGE { how.map_bytes.max(HUGE) } else { how.map_bytes };
    let space = Space::reserve(usize::try_from(total).ok()?, usize::try_from(align).ok()?).ok()?;
    let mut at = 0;
    for piece in merged(pieces) {
        // Both fit: the total does.
        let (start, bytes) = (at as usize, piece.bytes as usize);
        match piece.at {
            Some(offset) => space.map(start, bytes, how.prot, how.flags, how.file, offset).ok()?,
            None => space.map_zeros(start, bytes).ok()?,
        }
        at += piece.bytes;
    }
    Some(Box::new(Mapping(space)))
}

/// The pieces with those that continue each other joined: every one costs a mapping, of which a
/// process has about 65530.
fn merged(pieces: &[Piece]) -> Vec<Piece> {
    let mut all: Vec<Piece> = Vec::with_capacity(pieces.len());
    for &piece in pieces.iter().filter(|piece| piece.bytes > 0) {
        match all.last_mut() {
            Some(last) if last.at.map(|at| at + last.bytes) == piece.at => last.bytes += piece.bytes,
            _ => all.push(piece),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_continues_is_joined() {
        let piece = |at, bytes| Piece { at, bytes };
        let pieces =
            [piece(Some(0), 10), piece(Some(10), 5), piece(None, 7), piece(None, 0), piece(None, 1), piece(Some(8), 2)];
        assert_eq!(merged(&pieces), [piece(Some(0), 15), piece(None, 8), piece(Some(8), 2)]);
    }
}
