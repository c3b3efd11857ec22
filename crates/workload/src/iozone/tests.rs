use super::*;
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;

fn spec(pass: Passes, file_bytes: u64, record_bytes: u64) -> IozoneSpec {
    IozoneSpec { pass, file_bytes, record_bytes, timed_fsync: false, timed_close: false, data: Data::Random }
}

/// Whether a call writes, its offset and its length.
fn moved(operations: &[Operation]) -> Vec<(bool, u64, u64)> {
    let of = |operation: &Operation| match *operation {
        Operation::Write { offset, bytes, .. } => Some((true, offset, bytes)),
        Operation::Read { offset, bytes, .. } => Some((false, offset, bytes)),
        _ => None,
    };
    operations.iter().filter_map(of).collect()
}

#[test]
fn a_small_run_written_out() {
    let file = 0;
    let bytes = 4096;
    let write = |n: u64| Operation::Write { file, offset: n * 4096, bytes };
    let read = |n: u64| Operation::Read { file, offset: n * 4096, bytes };
    let open = |purpose| Operation::Open { file, purpose };
    let end = [Operation::Sync { file }, Operation::Close { file }];
    // random.Random(0).shuffle([0, 1, 2]) in Python 3.11 gives [0, 2, 1].
    let passes: [&[Operation]; 6] = [
        &[Operation::CreateFile { file }, open(Purpose::Write), end[0], write(0), write(1), write(2)],
        &[open(Purpose::Write), write(0), write(1), write(2)],
        &[open(Purpose::Read), read(0), read(1), read(2)],
        &[open(Purpose::Read), read(0), read(1), read(2)],
        &[open(Purpose::Read), read(0), read(2), read(1)],
        &[open(Purpose::Write), write(0), write(2), write(1)],
    ];
    let expected: Vec<Operation> = passes.iter().flat_map(|pass| [pass, &end[..]].concat()).collect();
    // What is less than a record at the end is never reached.
    assert_eq!(spec(Passes::All, 3 * 4096 + 100, 4096).operations(1).collect::<Vec<_>>(), expected);
}

#[test]
fn each_pass_has_every_record_once_and_the_random_ones_the_same_order() {
    for record_bytes in [4 << 10, 64 << 10, MIB, 16 * MIB] {
        let spec = spec(Passes::All, 100 * MIB, record_bytes);
        let operations: Vec<Operation> = spec.operations(7).collect();
        assert_eq!(operations, spec.operations(8).collect::<Vec<_>>(), "the seed changes nothing");
        let passes = spec.timed_operations();
        let calls: Vec<_> = passes.iter().map(|(_, range)| moved(&operations[range.clone()])).collect();
        for ((pass, _), calls) in passes.iter().zip(&calls) {
            let offsets: BTreeSet<u64> = calls.iter().map(|call| call.1).collect();
            assert_eq!((calls.len() as u64, offsets.len()), (100 * MIB / record_bytes, calls.len()), "{pass:?}");
            assert!(offsets.iter().all(|offset| offset % record_bytes == 0 && offset + record_bytes <= 100 * MIB));
            assert_eq!(calls.iter().map(|call| call.2).sum::<u64>(), spec.pass_bytes());
            assert!(calls.iter().all(|call| call.0 == pass.writes()));
            assert_eq!(calls.iter().is_sorted_by_key(|call| call.1), !pass.is_random(), "{pass:?}");
        }
        let order = |pass: usize| calls[pass].iter().map(|call| call.1).collect::<Vec<_>>();
        assert_eq!(order(4), order(5));
    }
}

/// Misses of a first-level TLB of 32 entries for pages of 2 MiB, 4-way, LRU.
fn huge_page_misses(offsets: impl Iterator<Item = u64>, record_bytes: u64) -> u64 {
    let mut sets: [Vec<u64>; 8] = Default::default();
    let mut misses = 0;
    for page in offsets.flat_map(|offset| offset >> 21..=(offset + record_bytes - 1) >> 21) {
        let set = &mut sets[(page % 8) as usize];
        match set.iter().position(|held| *held == page) {
            Some(at) => drop(set.remove(at)),
            None => misses += 1,
        }
        set.push(page);
        if set.len() > 4 {
            set.remove(0);
        }
    }
    misses
}

#[test]
fn the_random_order_walks_page_tables_as_often_as_a_model_elsewhere() {
    // 100 MiB in pages of 2 MiB, on the TLB of a Nehalem processor: counts of a simulation in Python, of which only the
    // file's page walks are left here, without the buffer's pages and the sixteen others.
    let expected = [(4 << 10, 9306), (64 << 10, 599), (128 << 10, 318), (512 << 10, 123), (MIB, 71)];
    for (record_bytes, walks) in expected {
        let operations: Vec<Operation> = spec(Passes::RandomRead, 100 * MIB, record_bytes).operations(1).collect();
        let offsets = moved(&operations).into_iter().map(|call| call.1);
        assert_eq!(huge_page_misses(offsets, record_bytes), walks, "records of {record_bytes} bytes");
    }
}

#[test]
fn one_pass_is_measured_after_those_before_it() {
    let all: Vec<Operation> = spec(Passes::All, MIB, 4096).operations(1).collect();
    let timed = spec(Passes::All, MIB, 4096).timed_operations();
    for (pass, range) in timed {
        let one = spec(Passes::of_word(pass.word()).unwrap(), MIB, 4096);
        assert_eq!(one.setup().collect::<Vec<_>>(), all[..range.start], "{pass:?}");
        let measured: Vec<Operation> = one.operations(1).collect();
        assert_eq!(measured, all[range], "{pass:?}");
        assert_eq!(one.timed_operations(), [(pass, 0..256)]);
        assert_eq!(moved(&measured).len(), 256);
    }
    assert!(spec(Passes::All, MIB, 4096).setup().next().is_none());
}

#[test]
fn fsync_and_close_are_inside_the_time_or_outside() {
    let file = 0;
    for (timed_fsync, timed_close) in [(false, false), (true, false), (false, true), (true, true)] {
        let spec = IozoneSpec { timed_fsync, timed_close, ..spec(Passes::All, MIB, 4096) };
        let operations: Vec<Operation> = spec.operations(1).collect();
        for (pass, range) in spec.timed_operations() {
            let (inside, all) = (&operations[range.clone()], &operations);
            assert_eq!(inside.contains(&Operation::Sync { file }), timed_fsync, "{pass:?}");
            assert_eq!(inside.contains(&Operation::Close { file }), timed_close, "{pass:?}");
            assert_eq!(moved(inside).len(), 256);
            // Every file that is opened is closed, before the next pass.
            let closed = all[range.start..].iter().position(|o| *o == Operation::Close { file }).unwrap();
            assert!(closed <= range.len() + 1, "{pass:?}");
        }
    }
}

#[test]
fn records_must_fit() {
    let cure = |file_bytes, record_bytes| {
        spec(Passes::All, file_bytes, record_bytes).check().unwrap_err().cure().unwrap().to_owned()
    };
    spec(Passes::All, 4096, 4096).check().unwrap();
    spec(Passes::All, 16 * MIB, 16 * MIB).check().unwrap();
    assert!(cure(MIB, 2048).contains("request_bytes must be from 4096 (4 KiB) to 16777216 (16 MiB)"));
    assert!(cure(64 * MIB, 32 * MIB).contains("request_bytes must be from"));
    assert!(cure(4096, 8192).contains("file_bytes must be at least request_bytes"));
    assert!(cure(1 << 40, 4096).contains("file_bytes must be at most"));
}

#[test]
fn the_longest_file_has_its_lengths_without_its_operations() {
    // 2^24 records: as operations, a pass of them would take hundreds of megabytes. What is asked of them here, none of
    // which makes the random order, is the same arithmetic as that of the short file, which is written out above.
    let whole = IozoneSpec { timed_fsync: true, ..spec(Passes::All, 64 << 30, 4096) };
    whole.check().unwrap();
    let lengths: Vec<_> = whole.timed_operations().into_iter().map(|(_, range)| range).collect();
    let records = 1 << 24;
    // Create, open, sync; then each pass: records and the timed fsync, close, and the next one's open.
    assert_eq!(lengths[0], 3..3 + records + 1);
    assert_eq!(lengths[5].start, 3 + 5 * (records + 3));
    let last = spec(Passes::RandomWrite, 64 << 30, 4096);
    assert_eq!(
        last.setup().nth(2 + records),
        Some(Operation::Write { file: 0, offset: (64 << 30) - 4096, bytes: 4096 })
    );
}

#[test]
fn a_pass_has_the_rate_of_its_own_calls() {
    let spec = |pass, timed_close| IozoneSpec { timed_close, ..spec(pass, 40_960, 4096) };
    let found = |spec: IozoneSpec| {
        // Reads take 1 us, writes 2 us, all else 10 us.
        let latency_ns = |operation: &Operation| match operation {
            Operation::Read { .. } => 1000,
            Operation::Write { .. } => 2000,
            _ => 10_000,
        };
        let calls = crate::testing::took(spec.operations(1).map(|operation| latency_ns(&operation)));
        spec.metrics(&Ran { seed: 1, calls: &calls, filled_bytes: None })
    };
    // 40,960 bytes in 10 us and 20 us; with a close in 20 us and 30 us.
    let [read, written, closed] = [10e3, 20e3, 30e3].map(|ns| Some(40_960.0 * 1e9 / ns));
    let values = |spec| found(spec).into_iter().map(|(_, value)| value).collect::<Vec<_>>();
    assert_eq!(values(spec(Passes::All, false)), [written, written, read, read, read, written]);
    assert_eq!(values(spec(Passes::All, true)), [closed, closed, written, written, written, closed]);
    assert_eq!(found(spec(Passes::RandomRead, false)), [("iozone_random_read_bytes_per_s", read)]);
}
