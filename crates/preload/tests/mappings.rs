//! The table of mappings while one thread changes it and others look: what is found is one mapping, not parts of two.

#[path = "../src/mappings.rs"]
mod mappings;

use mappings::{MOST, Mappings, Part, WORDS};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const PAGE: usize = 4096;

/// The mapping with a number: all that it is follows from that.
fn numbered(number: usize) -> Part {
    let start = (1 + number * 40) * PAGE;
    Part { start, end: start + (1 + number % 30) * PAGE, what: [number as u64; WORDS] }
}

fn all(mappings: &Mappings) -> Vec<Part> {
    let mut parts: Vec<Part> = mappings.within(0, usize::MAX).collect();
    parts.sort_by_key(|part| part.start);
    parts
}

#[test]
fn what_is_found_is_of_one_mapping() {
    let mappings = Mappings::new();
    let done = AtomicBool::new(false);
    // One that stays, between those that come and go below and above it.
    let stays = numbered(1000);
    assert!(mappings.add(&stays));
    let look = || {
        let mut looks = 0_u64;
        while !done.load(Ordering::Relaxed) {
            for part in mappings.within(0, usize::MAX) {
                assert_eq!(part, numbered(part.what[0] as usize), "parts of two mappings");
            }
            let between = mappings.within(stays.start, stays.end).collect::<Vec<_>>();
            assert_eq!(between, [stays]);
            looks += 1;
        }
        looks
    };
    let looks: u64 = std::thread::scope(|threads| {
        let looking: Vec<_> = (0..3).map(|_| threads.spawn(look)).collect();
        // The place that one leaves is the next one's.
        for turn in 0..1_000_000 {
            let part = numbered(if turn % 2 == 0 { turn % 900 } else { 1100 + turn % 900 });
            assert!(mappings.add(&part));
            mappings.remove(part.start, part.end);
        }
        done.store(true, Ordering::Relaxed);
        looking.into_iter().map(|thread| thread.join().expect("it found none")).sum()
    });
    assert!(looks > 1000, "{looks} looks");
    assert_eq!(all(&mappings), [stays]);
}

#[test]
fn the_rest_of_a_mapping_that_is_cut_in_two_is_known_throughout() {
    let mappings = Mappings::new();
    // While this is odd there is a mapping that reaches from the page 90 on.
    let phase = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    let page = |number: usize| number * PAGE;
    let look = || {
        let mut looks = 0_u64;
        while !done.load(Ordering::Relaxed) {
            let before = phase.load(Ordering::SeqCst);
            let is_any = mappings.is_any(page(90), page(95));
            if before % 2 == 1 && phase.load(Ordering::SeqCst) == before {
                assert!(is_any, "it was not seen");
                looks += 1;
            }
        }
        looks
    };
    let looks: u64 = std::thread::scope(|threads| {
        let looking: Vec<_> = (0..3).map(|_| threads.spawn(look)).collect();
        for turn in 0..300_000 {
            // Its second part gets a place before it, or behind it.
            let before = Part { start: page(1), end: page(2), what: [1; WORDS] };
            if turn % 2 == 0 {
                assert!(mappings.add(&before));
            }
            assert!(mappings.add(&Part { start: page(50), end: page(100), what: [7; WORDS] }));
            mappings.remove(before.start, before.end);
            phase.fetch_add(1, Ordering::SeqCst);
            mappings.remove(page(60), page(70));
            mappings.remove(page(50), page(60));
            phase.fetch_add(1, Ordering::SeqCst);
            mappings.remove(page(70), page(100));
        }
        done.store(true, Ordering::Relaxed);
        looking.into_iter().map(|thread| thread.join().expect("it was seen")).sum()
    });
    assert!(looks > 1000, "{looks} looks");
    assert_eq!(all(&mappings), []);
}

#[test]
fn what_is_left_of_a_mapping_stays_known() {
    let mappings = Mappings::new();
    let what = [7; WORDS];
    let (at, page) = (100 * PAGE, |number: usize| (100 + number) * PAGE);
    assert!(mappings.add(&Part { start: at, end: page(10), what }));
    mappings.remove(0, page(1));
    mappings.remove(page(9), page(50));
    mappings.remove(page(4), page(5));
    let expected = [(1, 4), (5, 9)].map(|(from, to)| Part { start: page(from), end: page(to), what });
    assert_eq!(all(&mappings), expected);
    let found: Vec<Part> = mappings.within(page(3), page(6)).collect();
    assert_eq!(
        found.iter().map(|part| (part.start, part.end)).collect::<Vec<_>>(),
        [(page(3), page(4)), (page(5), page(6)),]
    );
    mappings.remove(page(1), page(9));
    assert_eq!(all(&mappings), []);
}

#[test]
fn where_there_is_no_room_more_stays_known_than_is_mapped() {
    let mappings = Mappings::new();
    for number in 0..MOST {
        assert!(mappings.has_room(1));
        assert!(mappings.add(&numbered(number)));
    }
    assert!(!mappings.has_room(1) && !mappings.add(&numbered(MOST)));
    let part = numbered(29);
    assert_eq!(part.end - part.start, 30 * PAGE);
    mappings.remove(part.start + PAGE, part.end - PAGE);
    assert_eq!(mappings.within(part.start, part.end).collect::<Vec<_>>(), [part]);
    // What is smaller needs no room.
    mappings.remove(part.start, part.end - PAGE);
    mappings.remove(numbered(28).start, numbered(28).end);
    assert_eq!(all(&mappings).len(), MOST - 1);
    assert!(mappings.has_room(1) && !mappings.has_room(2));
}
