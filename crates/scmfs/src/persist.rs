//! Flushes and fences with a place for a seeded defect; without the feature they are the medium's own.

use crate::defects;
use pocketstone_media::{Dirty, Durable, Flushed, Medium};

/// Starts the write-back of what was stored.
#[inline]
pub(crate) fn flush(medium: &Medium, dirty: Dirty, defect: u32) -> Flushed {
    if defects::on(defect) {
        // Flushes nothing, and says it had.
        return Flushed::nothing();
    }
    medium.flush(dirty)
}

/// Waits until what was flushed is durable.
#[inline]
pub(crate) fn fence(medium: &Medium, flushed: Flushed, defect: u32) -> Durable {
    if defects::on(defect) {
        let _ = flushed;
        return Durable::nothing();
    }
    medium.fence(flushed)
}
