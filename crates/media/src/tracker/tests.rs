use super::*;
use crate::{Durable, Heap, Medium, Region, Tracked};
use std::sync::Arc;

const PAGE: usize = TRACKED_BYTES as usize;
const LONG: Duration = Duration::from_secs(60);

fn medium(bytes: usize) -> (Medium, Arc<Tracker>) {
    let region = Tracked::new(Heap::new(bytes), 0);
    let tracker = region.tracker().unwrap().clone();
    (Medium::new(Box::new(region)), tracker)
}

fn fill(medium: &Medium, page: u64, value: u8) {
    // SAFETY: who reads a page meanwhile does it under the tracker's rules.
    let _ = unsafe { medium.write(page * TRACKED_BYTES, &[value; PAGE], Durable::repeatable()) };
}

/// The pages of a snapshot and the first byte of each.
fn content(medium: &Medium, snapshot: &Snapshot<'_>) -> Vec<(u64, u8)> {
    let mut page = [0; PAGE];
    snapshot
        .pages()
        .map(|number| {
            snapshot.read(number, &mut page, |at, into| medium.read(at, into));
            assert!(page.iter().all(|byte| *byte == page[0]));
            (number, page[0])
        })
        .collect()
}

#[test]
fn the_first_snapshot_has_all_and_the_next_what_was_stored_since() {
    let (medium, tracker) = medium(70 * PAGE + 100);
    fill(&medium, 3, 7);
    let first = tracker.snapshot(|| medium.bytes(), LONG).unwrap();
    assert!(first.is_complete());
    assert_eq!((first.count(), first.pages().last(), first.bytes()), (71, Some(70), 70 * 4096 + 100));
    assert_eq!(first.read(70, &mut [0; PAGE], |at, into| medium.read(at, into)), 100);
    assert_eq!(tracker.snapshot(|| medium.bytes(), LONG).err(), Some(NoSnapshot::Taken));
    first.keep();
    // Over the edge of a page, and the last word of another.
    // SAFETY: one thread.
    unsafe {
        let _ = medium.write(2 * TRACKED_BYTES - 1, &[1, 1], Durable::repeatable());
        let _ = medium.store_u64(66 * TRACKED_BYTES + 4088, 1, Durable::repeatable());
        let _ = medium.zero(68 * TRACKED_BYTES, 0, Durable::repeatable());
    }
    tracker.note(69 * TRACKED_BYTES, 1);
    let second = tracker.snapshot(|| medium.bytes(), LONG).unwrap();
    assert_eq!(second.pages().collect::<Vec<_>>(), [1, 2, 66, 69]);
    assert!(!second.is_complete());
    drop(second);
    // It was not kept.
    fill(&medium, 5, 1);
    assert_eq!(tracker.snapshot(|| medium.bytes(), LONG).unwrap().pages().collect::<Vec<_>>(), [1, 2, 5, 66, 69]);
    tracker.forget();
    assert!(tracker.snapshot(|| medium.bytes(), LONG).unwrap().is_complete());
}

#[test]
fn pages_that_are_noted_while_a_snapshot_is_read_are_saved_as_others_and_in_the_next_one() {
    let (medium, tracker) = medium(8 * PAGE);
    (0..8).for_each(|page| fill(&medium, page, 1));
    let snapshot = tracker.snapshot(|| medium.bytes(), LONG).unwrap();
    tracker.note(3 * TRACKED_BYTES, 1);
    tracker.note(5 * TRACKED_BYTES, 1);
    fill(&medium, 3, 2);
    assert!(content(&medium, &snapshot).iter().all(|(_, value)| *value == 1));
    snapshot.keep();
    let next = tracker.snapshot(|| medium.bytes(), LONG).unwrap();
    assert_eq!(content(&medium, &next), [(3, 2), (5, 1)]);
}

#[test]
fn a_snapshot_is_what_was_there_whatever_is_stored_meanwhile() {
    let (medium, tracker) = medium(8 * PAGE);
    (0..8).for_each(|page| fill(&medium, page, 1));
    tracker.snapshot(|| medium.bytes(), LONG).unwrap().keep();
    (2..6).for_each(|page| fill(&medium, page, 2));
    let snapshot = tracker.snapshot(|| medium.bytes(), LONG).unwrap();
    (0..4).for_each(|page| fill(&medium, page, 3));
    (0..4).for_each(|page| fill(&medium, page, 4));
    assert_eq!(content(&medium, &snapshot), [(2, 2), (3, 2), (4, 2), (5, 2)]);
    // After it was read, too.
    fill(&medium, 5, 5);
    snapshot.keep();
    let next = tracker.snapshot(|| medium.bytes(), LONG).unwrap();
    assert_eq!(content(&medium, &next), [(0, 4), (1, 4), (2, 4), (3, 4), (5, 5)]);
    // What an abandoned one had saved is not taken for the next one's.
    fill(&medium, 0, 6);
    drop(next);
    fill(&medium, 0, 7);
    assert_eq!(
        content(&medium, &tracker.snapshot(|| medium.bytes(), LONG).unwrap()),
        [(0, 7), (1, 4), (2, 4), (3, 4), (5, 5)]
    );
}

#[test]
fn snapshots_among_threads_cut_no_operation() {
    const THREADS: u64 = 3;
    // Each thread writes the same value to four pages of its own in one operation.
    let (medium, tracker) = medium(4 * THREADS as usize * PAGE);
    let stop = AtomicBool::new(false);
    let mut image = vec![0; 4 * THREADS as usize];
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (medium, tracker, stop) = (&medium, &tracker, &stop);
            scope.spawn(move || {
                for value in (1..=250).cycle() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let _operation = tracker.operation();
                    (0..4).for_each(|page| fill(medium, thread + THREADS * page, value));
                }
            });
        }
        for round in 0..300 {
            let snapshot = tracker.snapshot(|| medium.bytes(), LONG).unwrap();
            let found = content(&medium, &snapshot);
            // Every third is abandoned, and loses nothing.
            if round % 3 != 0 {
                found.iter().for_each(|(page, value)| image[*page as usize] = *value);
                snapshot.keep();
                for thread in 0..THREADS as usize {
                    let own: Vec<u8> = (0..4).map(|page| image[thread + THREADS as usize * page]).collect();
                    assert!(own.iter().all(|value| *value == own[0]), "round {round}: {own:?}");
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(tracker.strays(), 0);
    fill(&medium, 0, 1);
    assert_eq!(tracker.strays(), 1);
}

#[test]
fn an_operation_that_does_not_end_means_no_snapshot() {
    let (medium, tracker) = medium(PAGE);
    let operation = tracker.operation();
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| tracker.snapshot(|| medium.bytes(), Duration::from_millis(1)).err());
        assert_eq!(busy.join().unwrap(), Some(NoSnapshot::Busy));
    });
    drop(operation);
    assert!(tracker.snapshot(|| medium.bytes(), LONG).unwrap().is_complete());
}
