//! Bytes of a file where they lie, while the file goes on.

use super::File;
use crate::Result;
use crate::contents::sums;
use crate::inodes::live;
use crate::space::Reading;
use std::cell::Cell;
use std::sync::Arc;

/// Gives bytes of a file where they lie. Unlike a [`View`](crate::View) it holds no lock: the file can be changed, and
/// a write is seen by whoever looks at the bytes in that moment. But what the file loses, as it is truncated, moved or
/// collected, is given to nobody else as long as bytes are out: they are stale then, and nothing else.
pub struct InPlace {
    file: File,
    reading: Arc<Reading>,
    out: Cell<u64>,
}

impl File {
    /// See [`InPlace`].
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid` if not a regular file.
    pub fn in_place(&self) -> Result<InPlace> {
        self.check_regular()?;
        let reading = self.parts.space.held.readers.add();
        Ok(InPlace { file: self.clone(), reading, out: Cell::new(0) })
    }
}

impl InPlace {
    /// The address of so many bytes at an offset, which are valid for reads until [`InPlace::give_back`] was called as
    /// often as this gave some. `None`: the file ends before their end, they lie apart, or in a hole, or the volume has
    /// checksums, which reading looks at.
    pub fn take(&self, offset: u64, bytes: u64) -> Option<*const u8> {
        if self.out.get() == 0 {
            self.reading.turn();
        }
        let found = self.find(offset, bytes);
        match found {
            Some(_) => self.out.set(self.out.get() + 1),
            None if self.out.get() == 0 => self.reading.turn(),
            None => {}
        }
        found
    }

    fn find(&self, offset: u64, bytes: u64) -> Option<*const u8> {
        let (parts, node) = (&self.file.parts, &self.file.node);
        let state = node.read();
        live(&state.record).ok()?;
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= state.record.size);
        if !inside || sums(&parts.store, &state.record).is_some() {
            return None;
        }
        let (at, piece) = state.body.locate(offset);
        let at = at.filter(|_| bytes <= piece)?;
        node.note_read(&state, &parts.store);
        // SAFETY: the piece lies inside the region.
        Some(unsafe { parts.store.medium.base().add(at as usize) })
    }

    /// Bytes that [`InPlace::take`] gave are not used any more.
    pub fn give_back(&self) {
        let left = self.out.get().saturating_sub(1);
        if self.out.replace(left) == 1 {
            self.reading.turn();
        }
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        if self.out.get() > 0 {
            self.reading.turn();
        }
    }
}
