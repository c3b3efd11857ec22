//! Records of sizes ([`size_record`](pocketstone_media::size_record)), each of one file at a time: of one that is
//! synchronised again and again while it grows by a lease.

use pocketstone_scmfs::Running;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Those of a volume.
#[derive(Default)]
pub(super) struct Records(Mutex<State>);

#[derive(Default)]
struct State {
    free: Vec<u32>,
    /// No file's any more; as long as that is true, somebody may still store there.
    freed: Vec<(u32, Option<Running>)>,
}

impl Records {
    /// So many.
    pub fn new(count: u32) -> Records {
        Records(Mutex::new(State { free: (0..count).rev().collect(), freed: Vec::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that is nobody's.
    pub fn take(&self) -> Option<u32> {
        self.state().free.pop()
    }

    /// One that is no file's any more, while these stores run.
    pub fn give_back(&self, record: u32, running: Option<Running>) {
        self.state().freed.push((record, running));
    }

    /// Clears those that nobody stores to any more.
    pub fn settle(&self, clear: impl Fn(u32)) {
        let mut state = self.state();
        let (later, now) = std::mem::take(&mut state.freed)
            .into_iter()
            .partition(|(_, running)| running.as_ref().is_some_and(|running| running()));
        state.freed = later;
        // Clearing waits for a checkpoint that begins just now.
        drop(state);
        let cleared: Vec<u32> = now.into_iter().map(|(record, _)| record).collect();
        cleared.iter().for_each(|record| clear(*record));
        self.state().free.extend(cleared);
    }
}

/// Which one a file has. Changed under the inode's exclusive lock, or while the file has none.
#[derive(Debug, Default)]
pub(super) struct Record {
    number: Option<u32>,
    /// It is shown to nobody any more, and given back once the size is stored.
    retired: bool,
    /// How often the file was synchronised.
    syncs: u32,
    /// The size when this was looked at last.
    size: Option<u64>,
}

/// One that is synchronised so often gets one: most files are once, when they are whole.
const SYNCS: u32 = 2;

impl Record {
    /// The file is synchronised while its end is leased. Whether it is to get one.
    pub fn synced(&mut self) -> bool {
        self.syncs = self.syncs.saturating_add(1);
        self.syncs >= SYNCS && self.number.is_none()
    }

    /// It gets this one, or gives back the one that it has no use for.
    pub fn give(&mut self, number: u32) -> Option<u32> {
        if self.number.is_some() { Some(number) } else { self.number.replace(number) }
    }

    /// Nobody is to store there any more.
    pub fn retire(&mut self) {
        self.retired = self.number.is_some();
    }

    /// The one that the holder of the lease stores to.
    pub fn shown(&self) -> Option<u32> {
        self.number.filter(|_| !self.retired)
    }

    /// The one that nobody is to store to any more, if the size is stored.
    pub fn take_retired(&mut self) -> Option<u32> {
        if self.retired { self.take() } else { None }
    }

    /// The one that the file has, which has none then.
    pub fn take(&mut self) -> Option<u32> {
        std::mem::take(self).number
    }

    /// Whether it has one, and has not grown since this was asked last; `None`: its end is leased to nobody.
    pub fn is_idle(&mut self, size: Option<u64>) -> bool {
        self.shown().is_some() && std::mem::replace(&mut self.size, size) == size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_record_is_nobodys_while_somebody_may_store_there() {
        let (records, runs) = (Records::new(1), Arc::new(AtomicBool::new(true)));
        assert_eq!((records.take(), records.take()), (Some(0), None));
        let running = runs.clone();
        records.give_back(0, Some(Box::new(move || running.load(Ordering::SeqCst))));
        let cleared = Mutex::new(Vec::new());
        let clear = |record| cleared.lock().unwrap().push(record);
        records.settle(clear);
        assert_eq!((records.take(), cleared.lock().unwrap().len()), (None, 0));
        runs.store(false, Ordering::SeqCst);
        records.settle(clear);
        assert_eq!((records.take(), cleared.lock().unwrap().as_slice()), (Some(0), [0].as_slice()));
    }

    #[test]
    fn a_file_gets_one_when_it_is_synchronised_again_and_keeps_it_until_it_is_idle() {
        let mut record = Record::default();
        assert_eq!((record.synced(), record.synced()), (false, true));
        assert_eq!((record.shown(), record.give(4), record.give(5)), (None, None, Some(5)));
        assert_eq!((record.synced(), record.shown(), record.take_retired()), (false, Some(4), None));
        assert!(!record.is_idle(Some(10)) && record.is_idle(Some(10)) && !record.is_idle(Some(11)));
        assert!(!record.is_idle(None) && record.is_idle(None));
        record.retire();
        assert_eq!((record.shown(), record.is_idle(None)), (None, false));
        assert_eq!((record.take_retired(), record.take()), (Some(4), None));
    }
}
