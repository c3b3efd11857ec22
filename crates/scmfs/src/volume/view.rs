//! A file's bytes at one address. A file in one piece is where it is; a scattered one gets a window: its
//! huge pages mapped once more, one after the other.

use crate::contents::{self, sums};
use crate::inodes::{Node, State};
use crate::parts::Parts;
use crate::{Error, Result};
use pocketstone_media::{Piece, Window};
use std::ops::Deref;
use std::sync::{Arc, RwLockReadGuard};

/// A file's bytes, without a copy; only of a scattered file on a medium that has no second mapping (or no
/// more of them) it is one. Holds the inode's shared lock: until it is dropped the file can be read, but not
/// changed, moved or collected; a thread that holds a view and writes to the same file waits forever.
pub struct View<'a> {
    _state: RwLockReadGuard<'a, State>,
    _window: Option<Arc<dyn Window>>,
    _copy: Vec<u8>,
    base: *const u8,
    bytes: usize,
}

// SAFETY: a view is shared bytes that nobody changes while it lives. (It is not Send: a lock is
// released by the thread that took it.)
unsafe impl Sync for View<'_> {}

impl<'a> View<'a> {
    pub(crate) fn new(parts: &Parts, node: &'a Node) -> Result<View<'a>> {
        let state = node.read();
        let size = state.record.size;
        let bytes = usize::try_from(size).map_err(|_| Error::TooLarge)?;
        if let Some(sums) = sums(&parts.store, &state.record) {
            // What is read through a view is not verified any more: so all of it is now.
            sums.demand(node.ino, &state, 0..size)?;
        }
        if size <= state.body.piece_bytes() {
            let at = if size == 0 { 0 } else { state.body.piece_at() };
            // SAFETY: the piece lies inside the region.
            let base = unsafe { parts.store.medium.base().add(at as usize) };
            return Ok(View { _state: state, _window: None, _copy: Vec::new(), base, bytes });
        }
        let unit = if state.body.is_huge() { parts.store.layout.huge } else { parts.store.layout.page };
        let mut pieces: Vec<Piece> = Vec::new();
        let end = size.next_multiple_of(unit);
        state.body.spans(0, end, |at, part| {
            let bytes = part.len() as u64;
            match pieces.last_mut() {
                Some(Piece { at: Some(last), bytes: length }) if at == Some(*last + *length) => *length += bytes,
                Some(Piece { at: None, bytes: length }) if at.is_none() => *length += bytes,
                _ => pieces.push(Piece { at, bytes }),
            }
        });
        let unit = parts.store.medium.region().map_bytes();
        let fits = |piece: &Piece| piece.at.unwrap_or(0) % unit == 0 && piece.bytes % unit == 0;
        let mappable = pieces.iter().all(fits);
        if let Some(window) = mappable.then(|| parts.windows.get(&parts.store.medium, pieces)).flatten() {
            let base = window.base();
            return Ok(View { _state: state, _window: Some(window), _copy: Vec::new(), base, bytes });
        }
        let mut copy = vec![0; bytes];
        contents::read(parts, node.ino, &state, &mut copy, 0)?;
        Ok(View { _state: state, _window: None, base: copy.as_ptr(), _copy: copy, bytes })
    }
}

impl Deref for View<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `base` is valid for `bytes` as long as the region and the window live, which `self`
        // sees to; every store to the file needs the lock that `self` holds shared.
        unsafe { std::slice::from_raw_parts(self.base, self.bytes) }
    }
}
