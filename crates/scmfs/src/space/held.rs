//! Space that nobody has any more, but where stores that began before may still go, or that somebody still reads: it is
//! free once they have ended.

use super::Alloc;
use super::readers::Readers;
use crate::store::lock;
use crate::{Ino, OutsideStores, Running};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// What was let go.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Freed {
    /// Small pages: the first and how many.
    Pages(u32, u32),
    /// A huge page.
    Segment(u32),
}

impl Freed {
    fn give_to(self, alloc: &mut Alloc) {
        match self {
            Freed::Pages(start, pages) => alloc.free_page_run(start, pages),
            Freed::Segment(segment) => alloc.free_segment(segment),
        }
    }
}

/// What waits for stores and readers to end. Its lock is taken after that of the free space, or alone.
#[derive(Default)]
pub(crate) struct Held {
    stores: OnceLock<Arc<dyn OutsideStores>>,
    pub readers: Readers,
    any: AtomicBool,
    waiting: Mutex<VecDeque<(Running, Vec<Freed>)>>,
    /// Held while what grew outside is asked for and stored: whoever comes second finds all of it stored. Its lock is
    /// taken before those of inodes.
    sizes: Mutex<()>,
}

impl Held {
    /// From now on these may store to what files have; false: others may already.
    pub fn guard(&self, stores: Arc<dyn OutsideStores>) -> bool {
        self.stores.set(stores).is_ok()
    }

    /// Who may store beside the volume.
    pub fn stores(&self) -> Option<&Arc<dyn OutsideStores>> {
        self.stores.get()
    }

    /// Calls `store` for each file whose size may not be stored. Returns when those of all others who do the same are.
    pub fn each_grown(&self, store: impl FnMut(Ino)) {
        let Some(stores) = self.stores.get() else { return };
        let _alone = lock(&self.sizes);
        stores.take_grown().into_iter().for_each(store);
    }

    /// The stores that run now, and who reads in place.
    pub fn running(&self) -> Option<Running> {
        let stores = self.stores.get().and_then(|stores| stores.running());
        match (stores, self.readers.running()) {
            (Some(stores), Some(readers)) => Some(Box::new(move || stores() || readers())),
            (stores, readers) => stores.or(readers),
        }
    }

    /// Keeps what was let go until they have ended.
    pub fn keep(&self, running: Running, freed: Vec<Freed>) {
        lock(&self.waiting).push_back((running, freed));
        self.any.store(true, Ordering::Release);
    }

    /// Gives what is free by now to the free space. `all`: nobody stores any more, whatever they say.
    pub fn settle(&self, alloc: &mut Alloc, all: bool) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut waiting = lock(&self.waiting);
        // In order: what waits behind a store that is stuck mostly waits for it, too, and is not looked at each time.
        while waiting.front().is_some_and(|(running, _)| all || !running()) {
            let freed = waiting.pop_front().map_or_else(Vec::new, |(_, freed)| freed);
            freed.into_iter().for_each(|freed| freed.give_to(alloc));
        }
        self.any.store(!waiting.is_empty(), Ordering::Release);
    }
}
