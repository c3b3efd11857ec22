//! Appends, with the server doing something just when one has looked, and just when it has copied.

use super::{Ground, HOOK, PAGE, once};
use crate::direct::{Outcome, Step, Why};
use crate::table::Content;
use std::cell::Cell;
use std::rc::Rc;

impl Ground {
    /// The file has this size, at its first page, and its end is leased to the process up to that of the page.
    fn leases(&self, size: u64) {
        self.shows(size, PAGE);
        self.slots.give_lease(self.index, size, 7);
    }

    fn shows(&self, size: u64, leased: u64) {
        self.table.begin(self.index);
        let content = Content {
            size,
            readable: true,
            writable: true,
            settled: true,
            pieces: &[(0, 0, PAGE)],
            leased,
            ..Content::default()
        };
        self.table.end(self.index, &content);
    }

    fn append(&self, from: &[u8], at: Option<u64>) -> Result<u64, Why> {
        // SAFETY: the buffer is that long.
        unsafe { self.direct().append((&self.slots, self.index), from.as_ptr(), from.len(), at) }
    }

    fn size(&self) -> Option<u64> {
        self.slots.leased_size(self.index)
    }
}

#[test]
fn what_is_appended_is_behind_the_end_and_the_server_is_told_when_it_asks() {
    let ground = Ground::new();
    let _serving = ground.table.serve();
    ground.fill(0, 9);
    assert_eq!(ground.append(&[1; 10], None), Err(Why::Growth), "without a lease");
    ground.leases(100);
    assert_eq!(ground.append(&[1; 10], None), Ok(100));
    assert_eq!(ground.append(&[2; 10], Some(100)), Err(Why::Growth), "the end is elsewhere");
    assert_eq!(ground.append(&[2; 10], Some(110)), Ok(110));
    assert_eq!(ground.bytes(0)[99..121], [vec![9], vec![1; 10], vec![2; 10], vec![9]].concat());
    // It reads what it has appended, and overwrites it, though the table says nothing of it yet.
    assert_eq!(ground.read(200).0, Outcome::Done(120));
    assert_eq!(ground.append(&vec![3; PAGE as usize - 119], None), Err(Why::Growth), "beyond the lease");
    assert_eq!(ground.append(&vec![3; PAGE as usize - 120], None), Ok(120));
    assert_eq!((ground.size(), ground.stores.running().is_none()), (Some(PAGE), true));
    assert_eq!(ground.slots.take_lease(ground.index), Some((PAGE, false)));
    assert_eq!((ground.size(), ground.slots.take_lease(ground.index)), (None, None));
    ground.table.withdraw(ground.index);
    assert_eq!(ground.append(&[1], None), Err(Why::Gone));
}

#[test]
fn an_append_whose_lease_is_taken_meanwhile_is_the_kernels() {
    for at in [Step::Looked, Step::Copied] {
        let ground = Ground::new();
        let _serving = ground.table.serve();
        ground.leases(100);
        let (same, held) = (ground.clone(), Rc::new(Cell::new(false)));
        let its_page_is_held = held.clone();
        once(at, move || {
            assert_eq!(same.slots.take_lease(same.index), Some((100, true)), "it is under way");
            its_page_is_held.set(same.stores.running().is_some_and(|runs| runs()));
            // The next lease, of the same size, is another one.
            same.slots.give_lease(same.index, 100, 8);
        });
        assert_eq!(ground.append(&[1; 10], None), Err(Why::Growth), "{at:?}");
        assert!(held.get() && ground.stores.running().is_none());
        assert_eq!(ground.size(), Some(100), "{at:?}: nothing counts as appended");
        assert_eq!(ground.append(&[1; 10], None), Ok(100));
    }
}

#[test]
fn a_size_that_is_taken_over_is_of_whole_appends_and_keeps_nobody_from_more() {
    let ground = Ground::new();
    let _serving = ground.table.serve();
    ground.leases(100);
    assert_eq!(ground.append(&[1; 10], None), Ok(100));
    for at in [Step::Looked, Step::Copied] {
        let (same, before) = (ground.clone(), ground.size());
        once(at, move || {
            // As by an fsync(2): the server shows the size, and leaves the lease.
            assert_eq!(same.size(), before);
            same.shows(before.expect("there is a lease"), PAGE);
        });
        assert_eq!(ground.append(&[2; 10], None), Ok(before.unwrap()), "{at:?}");
    }
    assert_eq!(ground.size(), Some(130));
}

#[test]
fn two_that_append_at_once_do_not_share_a_place() {
    let ground = Ground::new();
    let _serving = ground.table.serve();
    ground.leases(100);
    let same = ground.clone();
    // A signal handler appends while the program does.
    once(Step::Looked, move || assert_eq!(same.append(&[1; 10], None), Err(Why::Leased)));
    assert_eq!(ground.append(&[2; 10], None), Ok(100));
    assert_eq!((ground.size(), ground.bytes(0)[100..110].to_vec()), (Some(110), vec![2; 10]));
}

#[test]
fn what_is_appended_is_marked_before_it_is_stored_and_nothing_is_during_a_checkpoint() {
    let ground = Ground::new();
    let _serving = ground.table.serve();
    ground.fill(0, 9);
    ground.leases(100);
    ground.table.pause(true);
    assert_eq!(ground.append(&[1; 10], None), Err(Why::Checkpoint));
    let mut marked = Vec::new();
    ground.stores.take_marks(&mut |at, bytes| marked.push((at, bytes)));
    assert!(marked.is_empty() && ground.stores.running().is_none());
    assert_eq!((ground.bytes(0)[100], ground.size()), (9, Some(100)));
    ground.table.pause(false);
    let (same, seen) = (ground.clone(), Rc::new(Cell::new(0)));
    let count = seen.clone();
    once(Step::Copied, move || same.stores.take_marks(&mut |at, bytes| count.set(count.get() + at + bytes)));
    assert_eq!(ground.append(&[1; 10], None), Ok(100));
    assert_eq!(seen.get(), PAGE);
    // The process may have stored more until its slot was free: the mark stays.
    ground.stores.take_marks(&mut |at, bytes| marked.push((at, bytes)));
    assert_eq!(marked, [(0, PAGE)]);
    HOOK.set(None);
}

#[test]
fn who_has_no_lease_does_not_take_the_size_in_the_table_for_the_end() {
    let ground = Ground::new();
    let _serving = ground.table.serve();
    ground.shows(100, PAGE);
    assert_eq!(ground.read(50).0, Outcome::Done(50));
    assert_eq!(ground.read(101).0, Outcome::Kernel(Why::Leased));
    ground.shows(100, 0);
    assert_eq!(ground.read(101).0, Outcome::Done(100));
}

#[test]
fn a_file_that_must_not_be_stored_to_is_not_appended_to() {
    let ground = Ground::new();
    let _serving = ground.table.serve();
    ground.leases(100);
    ground.table.begin(ground.index);
    let content = Content {
        size: 100,
        readable: true,
        writable: false,
        settled: true,
        pieces: &[(0, 0, PAGE)],
        leased: PAGE,
        ..Content::default()
    };
    ground.table.end(ground.index, &content);
    assert_eq!(ground.append(&[1; 10], None), Err(Why::Refused));
    ground.table.begin(ground.index);
    let content = Content {
        size: 100,
        readable: true,
        writable: true,
        settled: true,
        pieces: &[(0, 0, 105)],
        leased: PAGE,
        ..Content::default()
    };
    ground.table.end(ground.index, &content);
    assert_eq!(ground.append(&[1; 10], None), Err(Why::Hole));
    ground.table.begin(ground.index);
    assert_eq!(ground.append(&[1; 10], None), Err(Why::Changing));
    ground.leases(100);
    assert_eq!(ground.append(&[1; 10], None), Ok(100), "an append that was not made is not under way");
}
