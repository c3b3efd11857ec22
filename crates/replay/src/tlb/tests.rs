use super::*;

const MIB: u64 = 1 << 20;
const RECORDS_KIB: [u64; 8] = [4, 64, 128, 512, 1024, 2048, 4096, 16384];

fn processor(name: &str) -> &'static Processor {
    Processor::named(name).unwrap()
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
        copies.count(processor("i5-750"), order(&copies)).walks
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

/// A chase through more pages than a level holds misses it at every step, one through as many never again.
#[test]
fn a_chase_misses_exactly_when_its_pages_outnumber_the_entries() {
    let chase = |name, pages: u64, page_bits, store, rounds: u64| {
        let mut tlb = Tlb::new(processor(name));
        for n in 0..pages * rounds {
            tlb.access(Access { address: (n % pages) << page_bits, page_bits, store });
        }
        tlb.counts()
    };
    for (name, first, all, store) in [
        ("i5-750", 64, 512, false),
        ("cortex-a15", 32, 512, false),
        ("cortex-a76", 48, 1280, false),
        ("cortex-a55", 16, 1024, false),
        ("zen-4", 72, 3072, false),
        ("golden-cove", 96, 2048, false),
        ("golden-cove", 16, 2048, true),
    ] {
        let bits = SMALL_PAGE_BITS;
        assert_eq!(chase(name, first, bits, store, 10).first_level_misses, first, "{name}");
        assert_eq!(chase(name, all, bits, store, 3).walks, all, "{name}");
        // Twice as many fill every set twice over.
        assert_eq!(chase(name, 2 * first, bits, store, 10).first_level_misses, 20 * first, "{name}");
        assert_eq!(chase(name, 2 * all, bits, store, 3).walks, 6 * all, "{name}");
    }
    // Nehalem's second level holds no huge pages.
    assert_eq!(chase("i5-750", 64, HUGE_PAGE_BITS, false, 3).walks, 192);
    assert_eq!(chase("zen-4", 64, HUGE_PAGE_BITS, false, 3).walks, 64);
}

/// Tables of 4 KiB with 8-byte entries: four levels for 48 bits, three for a page of 2 MiB, three for 39 bits.
#[test]
fn a_walk_reads_an_entry_of_every_level_that_no_cache_covers() {
    let loads = |name, page_bits, addresses: &[u64]| {
        let mut tlb = Tlb::new(processor(name));
        addresses.iter().for_each(|a| tlb.access(Access { address: *a, page_bits, store: false }));
        tlb.counts().walk_loads
    };
    assert_eq!(loads("i5-750", SMALL_PAGE_BITS, &[0]), 4);
    assert_eq!(loads("i5-750", HUGE_PAGE_BITS, &[0]), 3);
    assert_eq!(loads("cortex-a15", SMALL_PAGE_BITS, &[0]), 3);
    // The second page lies under the same table, whose place the walk cache holds; the third under another one.
    assert_eq!(loads("cortex-a55", SMALL_PAGE_BITS, &[0, 4096]), 4 + 1);
    assert_eq!(loads("cortex-a55", SMALL_PAGE_BITS, &[0, 4096, 1 << 21]), 4 + 1 + 4);
    assert_eq!(loads("cortex-a55", HUGE_PAGE_BITS, &[0, 1 << 21]), 3 + 3);
}

/// By hand: after a, b, c, d and a again the tree points to the other half, and there to the way used longer ago: c.
#[test]
fn a_tree_of_bits_gives_up_the_way_it_points_to() {
    let mut tree = Entries::new(4, 4, Replacement::Tree);
    let mut exact = Entries::new(4, 4, Replacement::LeastRecentlyUsed);
    for entries in [&mut tree, &mut exact] {
        (0..4).for_each(|tag| entries.fill(0, tag));
        assert!(entries.holds(0, 0));
        entries.fill(0, 9);
        assert!(entries.holds(0, 9) && entries.holds(0, 0) && entries.holds(0, 3));
    }
    assert!(tree.holds(0, 1) && !tree.holds(0, 2));
    assert!(exact.holds(0, 2) && !exact.holds(0, 1));
}

#[test]
fn every_array_of_every_processor_can_be_built() {
    for processor in PROCESSORS {
        for array in processor.levels.iter().flat_map(|l| l.0) {
            assert_eq!(array.entries % array.ways, 0, "{}", processor.name);
            let tree = array.replacement == Replacement::Tree;
            assert!(!tree || array.ways.is_power_of_two() && array.ways <= 64, "{}", processor.name);
        }
        assert!(processor.levels[0].0.iter().any(|a| a.page_bits.contains(&HUGE_PAGE_BITS)), "{}", processor.name);
    }
}
