//! Flushes and fences with a place for a seeded defect; without the feature they are the medium's own.

use crate::defects;
use pocketstone_media::{Dirty, Durable, Flushed, Medium};

/// Starts writing back stored bytes.
#[inline]
pub(crate) fn flush(medium: &Medium, dirty: Dirty, defect: u32) -> Flushed {
    if defects::on(defect) {
        return dirty.pretend_flushed();
    }
    medium.flush(dirty)
}

/// Waits until flushed bytes are durable.
#[inline]
pub(crate) fn fence(medium: &Medium, flushed: Flushed, defect: u32) -> Durable {
    if defects::on(defect) {
        return flushed.pretend_durable();
    }
    medium.fence(flushed)
}
