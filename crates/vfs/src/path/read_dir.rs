use crate::{Entry, Ino, Operations, Result};
use std::collections::VecDeque;

/// Entries that are read at a time.
const BATCH: usize = 64;

/// The entries of a directory, without `.` and `..`. Entries added or removed meanwhile may or may not be included.
pub struct ReadDir<'a, V: Operations> {
    volume: &'a V,
    directory: Ino,
    ready: VecDeque<Entry>,
    cookie: u64,
    ended: bool,
}

impl<V: Operations> std::fmt::Debug for ReadDir<'_, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadDir").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl<'a, V: Operations> ReadDir<'a, V> {
    pub(super) fn new(volume: &'a V, directory: Ino) -> ReadDir<'a, V> {
        ReadDir { volume, directory, ready: VecDeque::new(), cookie: 0, ended: false }
    }

    fn refill(&mut self) -> Result<()> {
        let ready = &mut self.ready;
        self.volume.read_directory(self.directory, self.cookie, &mut |entry| {
            let takes = ready.len() < BATCH;
            if takes {
                ready.push_back(entry.clone());
            }
            takes
        })?;
        match self.ready.back() {
            Some(last) => self.cookie = last.cookie,
            None => self.ended = true,
        }
        Ok(())
    }
}

impl<V: Operations> Iterator for ReadDir<'_, V> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        if self.ready.is_empty() && !self.ended {
            if let Err(error) = self.refill() {
                self.ended = true;
                return Some(Err(error));
            }
        }
        self.ready.pop_front().map(Ok)
    }
}
