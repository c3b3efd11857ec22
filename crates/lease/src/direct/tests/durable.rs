//! What fdatasync(2) comes to, and what the server does meanwhile.

use super::*;
use pocketstone_media::size_record::{self, Version};

/// Where records of sizes lie, and the one that the file has.
const RECORDS: u64 = 6 * PAGE;
const RECORD: u32 = 3;

fn shows(ground: &Ground, content: Content<'_>) {
    ground.table.begin(ground.index);
    ground.table.end(ground.index, &Content { readable: true, writable: true, pieces: &[(0, 0, PAGE)], ..content });
}

/// A file of 100 bytes, of which version 5 is stored, and whose end is leased.
const LEASED: Content<'_> = Content {
    size: 100,
    readable: true,
    writable: true,
    settled: true,
    sequence: 5,
    record: Some(RECORD),
    pieces: &[],
    leased: PAGE,
};

fn leased() -> Arc<Ground> {
    let ground = Ground::new();
    shows(&ground, LEASED);
    ground.slots.give_lease(ground.index, 100, 1);
    ground
}

fn append(ground: &Ground, bytes: usize) {
    let own = (&*ground.slots, ground.index);
    // SAFETY: the buffer is that long.
    unsafe { ground.direct().append(own, vec![1; bytes].as_ptr(), bytes, None) }.expect("a lease");
}

fn is_durable(ground: &Ground) -> bool {
    ground.direct().make_durable(Some(RECORDS))
}

/// What the record says of the file: version and size.
fn recorded(ground: &Ground) -> Option<(u32, u64)> {
    let bytes = ground.bytes(RECORDS / PAGE);
    let line = &bytes[RECORD as usize * 64..];
    let (version, size) = size_record::read(line[..24].try_into().unwrap())?;
    assert_eq!(version, Version { key: ground.key, sequence: version.sequence });
    Some((version.sequence, size))
}

#[test]
fn what_is_durable_needs_no_fdatasync() {
    let ground = Ground::new();
    let is_durable = |ground: &Ground| ground.direct().make_durable(None);
    assert!(!is_durable(&ground), "nobody serves");
    let _serving = ground.table.serve();
    assert!(is_durable(&ground));
    ground.table.kernel_came(ground.index);
    assert!(!is_durable(&ground), "the kernel may hold what was stored to a mapping");
    assert!(ground.kernel_goes() && is_durable(&ground));
    for (settled, leased, expected) in [(false, 0, false), (true, PAGE, false), (true, 0, true)] {
        ground.table.begin(ground.index);
        assert!(!is_durable(&ground), "it is being changed");
        shows(&ground, Content { size: 9, settled, leased, ..Content::default() });
        assert_eq!(is_durable(&ground), expected, "{settled} {leased}");
    }
    let other = Direct { key: ground.key + 1, ..ground.direct() };
    assert!(!other.make_durable(None), "it is another file");
    ground.table.failed();
    assert!(!is_durable(&ground), "the kernel has an error to tell");
}

#[test]
fn a_size_is_recorded_where_the_file_has_a_record() {
    let ground = leased();
    let _serving = ground.table.serve();
    assert!(is_durable(&ground), "nothing was appended");
    assert_eq!(recorded(&ground), None);
    append(&ground, 7);
    assert!(!ground.direct().make_durable(None) && recorded(&ground).is_none(), "there are no records");
    assert!(is_durable(&ground));
    assert_eq!(recorded(&ground), Some((5, 107)));
    append(&ground, 7);
    shows(&ground, Content { record: None, ..LEASED });
    assert!(!is_durable(&ground), "it has none");
    shows(&ground, Content { record: Some(u32::from(u16::MAX) - 1), ..LEASED });
    assert!(!is_durable(&ground), "it lies outside");
    shows(&ground, Content { settled: false, ..LEASED });
    assert!(!is_durable(&ground), "another size is not stored");
    shows(&ground, LEASED);
    ground.table.pause(true);
    assert!(!is_durable(&ground), "a checkpoint is being made");
    ground.table.pause(false);
    assert_eq!(recorded(&ground), Some((5, 107)));
    assert!(is_durable(&ground));
    assert_eq!(recorded(&ground), Some((5, 114)));
    let marked = Cell::new(false);
    ground.slots.marks(true, &mut |at, _| marked.set(marked.get() || at == RECORDS));
    assert!(marked.get(), "a checkpoint copies it");
}

#[test]
fn a_version_that_is_stored_meanwhile_has_the_size_or_is_what_the_record_is_of() {
    for (at, of) in [(Step::Looked, 6), (Step::Copied, 5)] {
        let ground = leased();
        let _serving = ground.table.serve();
        append(&ground, 7);
        let same = ground.clone();
        // More was appended since it looked at the size; or it is in the version.
        let size = if at == Step::Looked { 101 } else { 107 };
        once(at, move || shows(&same, Content { size, sequence: 6, ..LEASED }));
        assert!(is_durable(&ground));
        assert_eq!(recorded(&ground), Some((of, 107)), "{at:?}");
    }
}

#[test]
fn a_lease_that_is_taken_meanwhile_leaves_it_to_the_server() {
    for at in [Step::Looked, Step::Copied] {
        let ground = leased();
        let _serving = ground.table.serve();
        append(&ground, 7);
        let (same, found) = (ground.clone(), Rc::new(Cell::new(None)));
        let seen = found.clone();
        once(at, move || {
            same.table.begin(same.index);
            seen.set(same.slots.take_lease(same.index).zip(Some(same.stores.running().is_some())));
            shows(&same, Content { size: 107, settled: false, leased: 0, ..LEASED });
        });
        assert!(!is_durable(&ground), "{at:?}");
        // While it stores there, the lease is busy; and whoever asks is told that a store runs.
        assert_eq!(found.get(), Some(((107, at == Step::Copied), true)), "{at:?}");
    }
}
