//! What the server and the kernel do just when a call has looked, and just when it has copied.

use super::{Direct, Outcome, Step, Why};
use crate::memory::{self, Memory};
use crate::slots::{Slots, Stores};
use crate::table::{Content, Entry, Table};
use std::cell::{Cell, RefCell};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;

mod append;
mod durable;

type Hook = Box<dyn FnMut(Step)>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

pub(super) fn step(at: Step) {
    // Taken out meanwhile: what it does may call again.
    if let Some(mut hook) = HOOK.take() {
        hook(at);
        HOOK.set(Some(hook));
    }
}

const PAGE: u64 = 4096;

/// A server with one file of a page, and a process.
struct Ground {
    table: Table,
    stores: Stores,
    slots: Arc<Slots>,
    region: Memory,
    index: u32,
    key: u64,
}

impl Ground {
    fn new() -> Arc<Ground> {
        let table = Table::new().unwrap();
        let region = Memory::map(memory::create("region", 8 * PAGE as usize).unwrap().as_fd(), 8 * PAGE as usize, true);
        let (slots, stores) = (Arc::new(Slots::new(8 * PAGE).unwrap().0), Stores::default());
        stores.all().push(slots.clone());
        let (index, key) = table.take(7, 3).unwrap();
        let ground = Ground { table, stores, slots, region: region.unwrap(), index, key };
        ground.lies_at(0, PAGE);
        assert!(ground.kernel_goes());
        Arc::new(ground)
    }

    fn kernel_goes(&self) -> bool {
        self.table.kernel_went(self.index, self.table.kernel(self.index))
    }

    /// The file has this size, and lies at this page.
    fn lies_at(&self, page: u64, size: u64) {
        self.table.begin(self.index);
        let piece = (0, page * PAGE, PAGE);
        let content =
            Content { size, readable: true, writable: true, settled: true, pieces: &[piece], ..Content::default() };
        self.table.end(self.index, &content);
    }

    fn fill(&self, page: u64, byte: u8) {
        let place = self.region.place(page * PAGE, PAGE).unwrap();
        // SAFETY: the page lies in the mapping, and this thread is all there is.
        unsafe { place.write_bytes(byte, PAGE as usize) }
    }

    fn bytes(&self, page: u64) -> Vec<u8> {
        let place = self.region.place(page * PAGE, PAGE).unwrap();
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(place, PAGE as usize) }.to_vec()
    }

    fn direct(&self) -> Direct<'_> {
        let entry = self.table.entry(self.index);
        Direct { entry, key: self.key, region: &self.region, flushed: true, own: Some((&self.slots, self.index)) }
    }

    fn read(&self, bytes: usize) -> (Outcome, Vec<u8>) {
        let mut into = vec![0xEE; bytes];
        // SAFETY: the buffer is that long.
        let outcome = unsafe { self.direct().read(into.as_mut_ptr(), bytes, 0, || self.kernel_goes()) };
        (outcome, into)
    }

    fn write(&self, from: &[u8]) -> Outcome {
        let slots = (&*self.slots, self.index);
        // SAFETY: the buffer is that long.
        unsafe { self.direct().write(slots, from.as_ptr(), from.len(), 0, || self.kernel_goes()) }
    }
}

/// Does something the first time that a call comes to a step.
fn once(at: Step, what: impl FnOnce() + 'static) {
    let mut what = Some(what);
    HOOK.set(Some(Box::new(move |here| {
        if here == at {
            if let Some(what) = what.take() {
                what();
            }
        }
    })));
}

#[test]
fn a_read_of_what_moves_away_is_read_again() {
    for at in [Step::Looked, Step::Copied] {
        let ground = Ground::new();
        let _serving = ground.table.serve();
        ground.fill(0, 1);
        let same = ground.clone();
        once(at, move || {
            // The file moves, and somebody else gets its page.
            same.fill(5, 1);
            same.lies_at(5, PAGE);
            same.fill(0, 9);
        });
        assert_eq!(ground.read(PAGE as usize), (Outcome::Done(PAGE as usize), vec![1; PAGE as usize]), "{at:?}");
    }
}

#[test]
fn a_store_follows_what_it_goes_to() {
    for at in [Step::Looked, Step::Copied] {
        let ground = Ground::new();
        let _serving = ground.table.serve();
        ground.fill(0, 1);
        let (same, held) = (ground.clone(), Rc::new(Cell::new(false)));
        let its_page_is_held = held.clone();
        once(at, move || {
            same.table.begin(same.index);
            same.fill(5, 1);
            // Whoever frees the old page asks this.
            let running = same.stores.running().expect("the slot is taken");
            its_page_is_held.set(running());
            same.lies_at(5, PAGE);
            same.fill(2, 9);
        });
        assert_eq!(ground.write(&[4; 100]), Outcome::Done(100), "{at:?}");
        assert!(held.get());
        assert_eq!(ground.bytes(5), [vec![4; 100], vec![1; PAGE as usize - 100]].concat(), "{at:?}");
        assert!(ground.stores.running().is_none(), "the slot is free");
        assert_eq!(ground.bytes(2), vec![9; PAGE as usize]);
    }
}

#[test]
fn what_a_store_holds_is_free_when_it_has_ended_or_its_process_has() {
    for dies in [false, true] {
        let ground = Ground::new();
        let _serving = ground.table.serve();
        let (same, seen) = (ground.clone(), Rc::new(RefCell::new(None)));
        let running = seen.clone();
        once(Step::Looked, move || {
            *running.borrow_mut() = same.stores.running();
            let runs = running.borrow().as_ref().is_some_and(|runs| runs());
            assert!(runs);
            if dies {
                same.slots.end();
                assert!(!running.borrow().as_ref().is_some_and(|runs| runs()));
            }
        });
        assert_eq!(ground.write(&[4; 100]), Outcome::Done(100));
        // Another store in the same slot is another one.
        let same = seen.clone();
        once(Step::Looked, move || assert!(!same.borrow().as_ref().is_some_and(|runs| runs())));
        assert_eq!(ground.write(&[5; 100]), Outcome::Done(100));
        assert!(!seen.borrow().as_ref().is_some_and(|runs| runs()));
    }
}

#[test]
fn a_store_into_what_was_cut_is_the_kernels() {
    for at in [Step::Looked, Step::Copied] {
        let ground = Ground::new();
        let _serving = ground.table.serve();
        let same = ground.clone();
        once(at, move || same.lies_at(0, 50));
        assert_eq!(ground.write(&[4; 100]), Outcome::Kernel(Why::Growth), "{at:?}");
        assert!(ground.stores.running().is_none());
    }
}

#[test]
fn a_store_that_the_kernel_came_into_is_done_again_when_it_has_gone() {
    let ground = Ground::new();
    let _serving = ground.table.serve();
    ground.fill(0, 1);
    let (same, stale) = (ground.clone(), Cell::new(true));
    // The kernel reads the page as it is before the store, and writes it back when it has to forget it.
    once(Step::Looked, move || same.table.kernel_came(same.index));
    let goes = || {
        if stale.replace(false) {
            ground.fill(0, 1);
        }
        ground.kernel_goes()
    };
    // SAFETY: the buffer is that long.
    let outcome = unsafe { ground.direct().write((&ground.slots, ground.index), [4; 100].as_ptr(), 100, 0, goes) };
    assert_eq!(outcome, Outcome::Done(100));
    assert_eq!(ground.bytes(0)[..101], [vec![4; 100], vec![1]].concat());
}

#[test]
fn a_store_that_the_kernel_came_and_went_in_is_done_again() {
    let ground = Ground::new();
    let _serving = ground.table.serve();
    ground.fill(0, 1);
    let (came, went) = (ground.clone(), ground.clone());
    let (mut comes, mut goes) = (true, true);
    HOOK.set(Some(Box::new(move |here| match here {
        // It reads the page as it was, and somebody stores through a mapping of it.
        Step::Looked if std::mem::take(&mut comes) => came.table.kernel_came(came.index),
        // By another's wish it goes again: it writes the page back, for which it comes once more.
        Step::HalfLooked if std::mem::take(&mut goes) => {
            went.table.kernel_came(went.index);
            went.table.begin(went.index);
            went.fill(0, 1);
            went.lies_at(0, PAGE);
            assert!(went.kernel_goes());
        }
        _ => {}
    })));
    assert_eq!(ground.write(&[4; 100]), Outcome::Done(100));
    assert_eq!(ground.bytes(0)[..101], [vec![4; 100], vec![1]].concat());
}

#[test]
fn whoever_cannot_free_a_file_of_the_kernel_leaves_it_to_it() {
    let ground = Ground::new();
    let _serving = ground.table.serve();
    ground.table.kernel_came(ground.index);
    let mut byte = 0;
    // SAFETY: one byte.
    let outcomes = unsafe {
        [
            ground.direct().read(&mut byte, 1, 0, || false),
            ground.direct().write((&ground.slots, ground.index), &byte, 1, 0, || false),
        ]
    };
    assert_eq!(outcomes, [Outcome::Kernel(Why::KernelPages); 2]);
    // It came again while it was made to go: then it is there. So it is for an inode that is new there.
    let noted = ground.table.kernel(ground.index);
    ground.table.kernel_came(ground.index);
    assert!(!ground.table.kernel_went(ground.index, noted));
    assert!(ground.table.entry(ground.index).has_kernel_pages());
    let noted = ground.table.kernel(ground.index);
    ground.table.give_back(ground.index);
    let (index, _) = ground.table.take(8, 1).unwrap();
    assert_eq!(index, ground.index);
    assert!(!ground.table.kernel_went(index, noted));
}

#[test]
fn a_time_that_the_server_takes_during_a_store_is_noted_again() {
    let ground = Ground::new();
    let _serving = ground.table.serve();
    assert_eq!(ground.write(&[4; 100]), Outcome::Done(100));
    assert!(ground.slots.noted(ground.index).is_some());
    assert_eq!(ground.slots.noted(ground.index), None, "nothing was stored since");
    let (same, taken) = (ground.clone(), Rc::new(Cell::new(None)));
    let seen = taken.clone();
    // Its bytes are not all there yet, as far as the server knows.
    once(Step::Copied, move || seen.set(same.slots.noted(same.index)));
    assert_eq!(ground.write(&[5; 100]), Outcome::Done(100));
    assert!(taken.get().is_some());
    assert!(ground.slots.noted(ground.index) >= taken.get(), "what is stored has a time that is no earlier");
}

#[test]
fn the_kernel_comes_into_a_store_that_is_over() {
    let ground = Ground::new();
    let _serving = ground.table.serve();
    let same = ground.clone();
    once(Step::Copied, move || same.table.kernel_came(same.index));
    // SAFETY: the buffer is that long.
    let outcome = unsafe { ground.direct().write((&ground.slots, ground.index), [4; 9].as_ptr(), 9, 0, || false) };
    assert_eq!(outcome, Outcome::Kernel(Why::KernelPages), "the kernel stores it in its pages, too");
}

#[test]
fn an_entry_of_another_file_is_not_this_ones() {
    let ground = Ground::new();
    let serving = ground.table.serve();
    assert_eq!(ground.read(10).0, Outcome::Done(10));
    let same = ground.clone();
    once(Step::Looked, move || {
        same.table.give_back(same.index);
        // The same number, used anew.
        let (index, key) = same.table.take(7, 4).unwrap();
        assert!(index == same.index && key != same.key);
        same.lies_at(6, PAGE);
    });
    assert_eq!(ground.read(10).0, Outcome::Kernel(Why::Gone));
    assert_eq!(ground.write(&[1]), Outcome::Kernel(Why::Gone));
    drop(serving);
    assert_eq!(ground.read(10).0, Outcome::Kernel(Why::Ended));
    assert_eq!(ground.write(&[1]), Outcome::Kernel(Why::Ended));
}

#[test]
fn a_server_that_was_killed_serves_no_more() {
    let ground = Ground::new();
    let memory = Memory::map(ground.table.share(0).unwrap().as_fd(), crate::table::TABLE_BYTES, false).unwrap();
    let entry = || Entry::of(&memory, 0).unwrap();
    assert!(!entry().is_served(), "nobody said so yet");
    std::thread::scope(|threads| {
        // A thread that ends without a word, as all do when their process is killed.
        let dies = threads.spawn(|| std::mem::forget(ground.table.serve()));
        dies.join().unwrap();
    });
    assert!(!entry().is_served());
}

#[test]
fn parts_lie_where_the_entry_says_and_the_rest_is_a_hole() {
    let ground = Ground::new();
    let _serving = ground.table.serve();
    let piece = |offset, at, bytes| (offset * PAGE, at * PAGE, bytes * PAGE);
    ground.table.begin(ground.index);
    let pieces = [piece(0, 4, 1), piece(1, 2, 1), piece(3, 6, 1)];
    let content = Content {
        size: 4 * PAGE,
        readable: true,
        writable: true,
        settled: true,
        pieces: &pieces,
        ..Content::default()
    };
    ground.table.end(ground.index, &content);
    (0..8).for_each(|page| ground.fill(page, page as u8));
    let both = [vec![4; PAGE as usize], vec![2; PAGE as usize]].concat();
    assert_eq!(ground.read(2 * PAGE as usize), (Outcome::Done(2 * PAGE as usize), both));
    assert_eq!(ground.read(2 * PAGE as usize + 1).0, Outcome::Kernel(Why::Hole));
    assert_eq!(ground.write(&vec![8; 2 * PAGE as usize]), Outcome::Done(2 * PAGE as usize));
    assert_eq!((ground.bytes(4), ground.bytes(2)), (vec![8; PAGE as usize], vec![8; PAGE as usize]));
    assert_eq!(ground.write(&vec![8; 2 * PAGE as usize + 1]), Outcome::Kernel(Why::Hole));
    // Beyond what the process has mapped.
    ground.lies_at(8, PAGE);
    assert_eq!(ground.read(1).0, Outcome::Kernel(Why::Hole));
}

#[test]
fn slots_run_out_and_come_back() {
    let ground = Ground::new();
    let _serving = ground.table.serve();
    let taken: Vec<_> = std::iter::from_fn(|| ground.slots.take(9)).collect();
    assert_eq!(taken.len(), 64);
    assert_eq!(ground.write(&[1]), Outcome::Kernel(Why::Busy));
    assert!(ground.slots.stores_to().all(|index| index == 9));
    drop(taken);
    assert_eq!(ground.write(&[1]), Outcome::Done(1));
}

#[test]
fn what_is_stored_is_marked_and_nothing_is_stored_during_a_checkpoint() {
    let ground = Ground::new();
    let _serving = ground.table.serve();
    ground.lies_at(2, PAGE);
    let marks = |take: bool| {
        let mut marked = Vec::new();
        let note = &mut |at, bytes| marked.push((at, bytes));
        if take {
            ground.stores.take_marks(note)
        } else {
            ground.slots.marks(false, note)
        }
        marked
    };
    assert_eq!(ground.write(&[1; PAGE as usize]), Outcome::Done(PAGE as usize));
    assert_eq!(marks(false), [(2 * PAGE, PAGE)]);
    assert_eq!(marks(true), [(2 * PAGE, PAGE)]);
    assert_eq!(marks(true), []);
    ground.table.pause(true);
    assert_eq!(ground.write(&[2; PAGE as usize]), Outcome::Kernel(Why::Checkpoint));
    assert!(marks(true).is_empty() && ground.stores.running().is_none());
    assert_eq!(ground.bytes(2), [1; PAGE as usize]);
    ground.table.pause(false);
    // Marked before the first byte is stored, and so long as more may come.
    let other = ground.clone();
    HOOK.set(Some(Box::new(move |at| {
        if at == Step::Copied {
            let mut marked = 0;
            other.stores.take_marks(&mut |_, _| marked += 1);
            assert_eq!(marked, 1);
        }
    })));
    assert_eq!(ground.write(&[3; PAGE as usize]), Outcome::Done(PAGE as usize));
    HOOK.set(None);
    assert_eq!(marks(true), [(2 * PAGE, PAGE)]);
}
