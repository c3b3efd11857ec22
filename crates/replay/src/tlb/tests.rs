use super::*;
use pocketstone_tlb::Processor;
use pocketstone_workload::{AppStartSpec, Data, IozoneSpec, Passes};
use std::path::Path;

const MIB: u64 = 1 << 20;
const RECORDS_KIB: [u64; 8] = [4, 64, 128, 512, 1024, 2048, 4096, 16384];

fn processor(name: &str) -> Processor {
    Processor::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices"), name).unwrap()
}

fn copies(record_kib: u64, threshold_kib: Option<u64>, calls: Calls) -> Copies {
    Copies {
        file_bytes: 100 * MIB,
        record_bytes: record_kib << 10,
        threshold_bytes: threshold_kib.map(|t| t << 10),
        calls,
    }
}

/// Walks of Nehalem for every length of records.
fn walks(threshold_kib: Option<u64>, calls: Calls, order: impl Fn(&Copies) -> Vec<u64>) -> Vec<u64> {
    let count = |record: &u64| {
        let copies = copies(*record, threshold_kib, calls);
        copies.count(&processor("i5-750"), order(&copies)).walks
    };
    RECORDS_KIB.iter().map(count).collect()
}

/// A table computed by others from the same description: 100 MiB, Nehalem, least recently used.
#[test]
fn passes_in_order_come_to_the_walks_that_were_computed_elsewhere() {
    let walks = |threshold, calls| walks(threshold, calls, |copies| copies.in_order().collect());
    let small = [25_617, 25_632, 25_648, 25_744, 30_624, 52_000, 51_600, 49_248];
    assert_eq!(walks(None, Calls::WriteNew), small);
    assert_eq!(walks(None, Calls::Read), small);
    assert_eq!(walks(Some(128), Calls::WriteNew), [99, 114, 130, 194, 322, 4_498, 26_050, 24_720]);
    assert_eq!(walks(Some(512), Calls::WriteNew), [195, 210, 226, 322, 322, 4_498, 26_050, 24_720]);
    assert_eq!(walks(Some(2048), Calls::WriteNew), [596, 626, 827, 1_234, 1_538, 5_842, 26_050, 24_720]);
    for threshold in [128, 512, 2048] {
        assert_eq!(walks(Some(threshold), Calls::Read), [67, 82, 98, 194, 322, 4_498, 26_050, 24_720]);
    }
}

/// The same table's random passes, in the order of Python's `Random(0).shuffle(list(range(records)))`.
#[test]
fn random_passes_come_to_the_walks_that_were_computed_elsewhere() {
    let small = [25_617, 25_632, 25_648, 25_744, 30_624, 52_000, 51_600, 49_248];
    assert_eq!(walks(None, Calls::Read, Copies::permuted), small);
    assert_eq!(walks(None, Calls::Overwrite, Copies::permuted), small);
    let huge = [9_323, 631, 366, 267, 343, 4_498, 26_050, 24_720];
    assert_eq!(walks(Some(128), Calls::Read, Copies::permuted), huge);
    assert_eq!(walks(Some(2048), Calls::Overwrite, Copies::permuted), huge);
}

/// The thesis's formula, for 100 MiB.
#[test]
fn accumulated_entries_are_those_of_the_formula() {
    let entries = |threshold| copies(4, threshold, Calls::WriteNew).accumulated_entries();
    assert_eq!([None, Some(128), Some(512), Some(2048)].map(entries), [25_600, 82, 178, 562]);
}

/// The same table once more, from the operations of the workload itself.
#[test]
fn operations_of_the_workload_come_to_the_same_walks() {
    let of = |pass, threshold_kib: Option<u64>, record_kib: u64| {
        let iozone = IozoneSpec {
            pass,
            file_bytes: 100 * MIB,
            record_bytes: record_kib << 10,
            timed_fsync: false,
            timed_close: false,
            data: Data::Random,
        };
        count_operations(&processor("i5-750"), &iozone, 0, threshold_kib.map(|kib| kib << 10)).unwrap().walks
    };
    assert_eq!([64, 1024, 4096].map(|record| of(Passes::Write, None, record)), [25_632, 30_624, 51_600]);
    assert_eq!([4, 512, 2048].map(|record| of(Passes::Write, Some(2048), record)), [596, 1_234, 5_842]);
    assert_eq!([64, 1024, 4096].map(|record| of(Passes::Read, Some(128), record)), [82, 322, 26_050]);
    assert_eq!([4, 64].map(|record| of(Passes::RandomWrite, Some(128), record)), [9_323, 631]);
    assert_eq!(of(Passes::RandomRead, None, 1024), 30_624);
}

#[test]
fn what_the_model_cannot_follow_is_refused_with_what_to_do() {
    let maps = AppStartSpec { files: 2, libraries: 1, request_bytes: 4096, data: Data::Random };
    let refused = count_operations(&processor("i5-750"), &maps, 7, None).unwrap_err();
    assert!(refused.cure().unwrap().contains("omit tlb"));
}
