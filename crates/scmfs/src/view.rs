//! A file's bytes at one address. A file in one piece is where it is; a scattered one gets a window: its
//! huge pages mapped once more, one after the other.

use crate::Error;
use crate::Result;
use crate::node::{Node, State, lock};
use crate::volume::Inner;
use pocketstone_media::{Piece, Window};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex, RwLockReadGuard};

/// Mappings that all windows together may take: the kernel allows a process 65,530, and most of those
/// belong to the program that uses the volume.
const MAPPINGS_MAX: usize = 900;

/// One file's window, and what it showed when it was made.
struct Held {
    pieces: Vec<Piece>,
    window: Arc<dyn Window>,
}

/// The windows in use and those used last.
#[derive(Default)]
pub(crate) struct Windows(Mutex<VecDeque<Held>>);

impl Windows {
    pub fn count(&self) -> u32 {
        lock(&self.0).len() as u32
    }

    fn get(&self, inner: &Inner, pieces: Vec<Piece>) -> Option<Arc<dyn Window>> {
        let mut held = lock(&self.0);
        if let Some(known) = held.iter().position(|held| held.pieces == pieces) {
            let found = held.remove(known)?;
            let window = found.window.clone();
            held.push_back(found);
            return Some(window);
        }
        if pieces.len() > MAPPINGS_MAX {
            return None;
        }
        while held.iter().map(|held| held.pieces.len()).sum::<usize>() + pieces.len() > MAPPINGS_MAX {
            // The least recently used that nobody looks through.
            let idle = held.iter().position(|held| Arc::strong_count(&held.window) == 1)?;
            held.remove(idle);
        }
        let window: Arc<dyn Window> = Arc::from(inner.medium.window(&pieces)?);
        held.push_back(Held { pieces, window: window.clone() });
        Some(window)
    }
}

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
    pub(crate) fn new(inner: &Inner, node: &'a Node) -> Result<View<'a>> {
        let state = node.read();
        let size = state.record.size;
        let bytes = usize::try_from(size).map_err(|_| Error::TooLarge)?;
        if size <= state.body.piece_bytes() {
            let at = if size == 0 { 0 } else { state.body.piece_at() };
            // SAFETY: the piece lies inside the region.
            let base = unsafe { inner.medium.base().add(at as usize) }.cast_const();
            return Ok(View { _state: state, _window: None, _copy: Vec::new(), base, bytes });
        }
        let unit = if state.body.is_huge() { inner.layout.huge } else { inner.layout.page };
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
        let unit = inner.medium.region().map_bytes();
        let fits = |piece: &Piece| piece.at.unwrap_or(0) % unit == 0 && piece.bytes % unit == 0;
        let mappable = pieces.iter().all(fits);
        if let Some(window) = mappable.then(|| inner.windows.get(inner, pieces)).flatten() {
            let base = window.base().cast_const();
            return Ok(View { _state: state, _window: Some(window), _copy: Vec::new(), base, bytes });
        }
        let mut copy = vec![0; bytes];
        inner.read(&state, &mut copy, 0);
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
