use super::*;
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn devices() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices")
}

fn processor(name: &str) -> Processor {
    Processor::load(&devices(), name).unwrap()
}

fn load(address: u64, page_bits: u32) -> Access {
    Access { address, space: 0, page_bits, store: false }
}

/// A chase through more pages than a level holds misses it at every step, one through as many never again.
#[test]
fn a_chase_misses_exactly_when_its_pages_outnumber_the_entries() {
    let chase = |name, pages: u64, page_bits, store, rounds: u64| {
        let mut tlb = Tlb::new(&processor(name));
        for n in 0..pages * rounds {
            tlb.access(Access { store, ..load((n % pages) << page_bits, page_bits) });
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

/// Four levels for 48 bits, three for a page of 2 MiB, three for the 32 bits of a Cortex-A15.
#[test]
fn a_walk_reads_an_entry_of_every_level_that_no_cache_covers() {
    let loads = |name, page_bits, addresses: &[u64]| {
        let mut tlb = Tlb::new(&processor(name));
        addresses.iter().for_each(|a| tlb.access(load(*a, page_bits)));
        tlb.counts().walk_loads
    };
    assert_eq!(loads("i5-750", SMALL_PAGE_BITS, &[0]), 4);
    assert_eq!(loads("i5-750", HUGE_PAGE_BITS, &[0]), 3);
    assert_eq!(loads("cortex-a15", SMALL_PAGE_BITS, &[0]), 3);
    // The second page lies under the same table, whose place the walk cache holds; the third under another one.
    assert_eq!(loads("cortex-a55", SMALL_PAGE_BITS, &[0, 4096]), 4 + 1);
    assert_eq!(loads("cortex-a55", SMALL_PAGE_BITS, &[0, 4096, 1 << 21]), 4 + 1 + 4);
    assert_eq!(loads("cortex-a55", HUGE_PAGE_BITS, &[0, 1 << 21]), 3 + 3);
    // Tables of a kernel without LPAE: a section of 1 MiB is an entry of the first one.
    let mut of_kernel = processor("cortex-a15");
    of_kernel.table_bits = vec![20, 12];
    let mut short = Tlb::new(&of_kernel);
    short.access(load(0, 20));
    assert_eq!(short.counts().walk_loads, 1);
    short.access(load(1 << 30, 12));
    assert_eq!(short.counts().walk_loads, 1 + 2);
}

/// Of a Cortex-A15's sections of 1 MiB, the first level holds pieces of 4 KiB, the second whole ones.
#[test]
fn a_level_that_splits_large_pages_misses_once_for_each_piece() {
    let mut tlb = Tlb::new(&processor("cortex-a15"));
    (0..64).for_each(|n| tlb.access(load(n << 12, 20)));
    assert_eq!((tlb.counts().first_level_misses, tlb.counts().walks), (64, 1));
    // 1 MiB is no size of Nehalem's pages: there the same addresses are 4 KiB pages in both levels.
    let mut tlb = Tlb::new(&processor("i5-750"));
    (0..64).for_each(|n| tlb.access(load(n << 12, 20)));
    assert_eq!(tlb.counts().walks, 64);
}

#[test]
fn the_same_address_in_another_space_is_another_page() {
    let mut tlb = Tlb::new(&processor("cortex-a76"));
    for space in [1, 2, 1, 2] {
        tlb.access(Access { space, ..load(0x8000, SMALL_PAGE_BITS) });
    }
    assert_eq!((tlb.counts().accesses, tlb.counts().walks), (4, 2));
}

#[test]
fn a_copy_touches_both_sides_by_turns_and_every_page_of_them() {
    let mut tlb = Tlb::new(&processor("cortex-a76"));
    // Two pages and a half, both sides begin in the middle of a page: three pieces.
    tlb.copy(0x1_0800, 0x8_0800, 0x2000 + 0x400, |_| SMALL_PAGE_BITS);
    assert_eq!((tlb.counts().accesses, tlb.counts().walks), (6, 6));
    // Ends at different places: 0x400 bytes to the one's end, 0x800 to the other's, and so on.
    tlb.copy(0x1_0c00, 0x8_0800, 0x1000, |_| SMALL_PAGE_BITS);
    assert_eq!((tlb.counts().accesses, tlb.counts().walks), (6 + 6, 6));
    tlb.touch(0x4f_fff0, 0x20, true, |_| SMALL_PAGE_BITS);
    assert_eq!((tlb.counts().accesses, tlb.counts().walks), (12 + 2, 6 + 2));
    tlb.copy(0x1_0000, 0x8_0000, 0, |_| SMALL_PAGE_BITS);
    assert_eq!(tlb.counts().accesses, 14);
}

/// By hand: after a, b, c, d and a again the tree points to the other half, and there to the way used longer ago: c.
#[test]
fn a_tree_of_bits_gives_up_the_way_it_points_to() {
    let mut tree = Entries::new(4, 4, Replacement::Tree);
    let mut exact = Entries::new(4, 4, Replacement::LeastRecentlyUsed);
    let tag = |number| Tag { number, bits: 12, space: 0 };
    for entries in [&mut tree, &mut exact] {
        (0..4).for_each(|number| entries.fill(tag(number)));
        assert!(entries.holds(tag(0)));
        entries.fill(tag(9));
        assert!(entries.holds(tag(9)) && entries.holds(tag(0)) && entries.holds(tag(3)));
    }
    assert!(tree.holds(tag(1)) && !tree.holds(tag(2)));
    assert!(exact.holds(tag(2)) && !exact.holds(tag(1)));
}

#[test]
fn every_shipped_processor_is_understood_names_its_sources_and_is_written_as_it_was_read() {
    let all = list(&devices()).unwrap();
    let names: Vec<&str> = all.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["cortex-a15", "cortex-a55", "cortex-a76", "golden-cove", "i5-750", "zen-4"]);
    for processor in all {
        let sources = processor.levels.iter().flat_map(|l| &l.arrays).map(|a| &a.source);
        assert!(sources.chain(processor.walk_caches.iter().map(|c| &c.source)).all(|s| s.len() > 20));
        assert_eq!(Processor::parse(&processor.name, &processor.to_text().unwrap()).unwrap(), processor);
    }
}

const GOOD: &str = "kind = \"tlb\"\ndescription = \"x\"\ntable_bits = [20, 12]\n[[level]]\n[[level.array]]\n\
    entries = 8\nways = 2\npage_bytes = [4096]\nsource = \"made up\"\n";

#[test]
fn a_mistake_in_a_profile_is_named() {
    assert!(Processor::parse("x", GOOD).is_ok());
    for (from, to, said) in [
        ("kind = \"tlb\"", "kind = \"model\"", "kind `model`"),
        ("entries = 8", "entries = 9", "sets of 2 ways"),
        ("ways = 2", "ways = 0", "sets of 0 ways"),
        ("[20, 12]", "[12, 20]", "table_bits"),
        ("[4096]", "[4095]", "page_bytes"),
        ("source = \"made up\"\n", "", "source"),
        ("ways = 2", "way = 2", "way"),
        ("ways = 2", "ways = 8\nreplacement = \"tree\"\naccesses = \"some\"", "some"),
        ("entries = 8\nways = 2", "entries = 6\nways = 6\nreplacement = \"tree\"", "a tree"),
    ] {
        let error = Processor::parse("x", &GOOD.replace(from, to)).unwrap_err();
        assert!(error.chain().contains(said), "{to}: {}", error.chain());
    }
    let error = Processor::load(&devices(), "z80").unwrap_err();
    assert!(error.cure().unwrap().contains("golden-cove"), "{}", error.chain());
}

/// A TLB as one would explain it: every array remembers its pages with the time of their last use, and what is asked
/// is searched among all of them.
struct Naive {
    processor: Processor,
    arrays: Vec<Vec<Vec<Held>>>,
    caches: Vec<Vec<Held>>,
    time: u64,
    counts: Counts,
}

struct Held {
    page: (u64, u32, u64),
    used: u64,
}

impl Naive {
    fn new(processor: &Processor) -> Self {
        let arrays = |l: &Level| l.arrays.iter().map(|_| Vec::new()).collect();
        Naive {
            processor: processor.clone(),
            arrays: processor.levels.iter().map(arrays).collect(),
            caches: processor.walk_caches.iter().map(|_| Vec::new()).collect(),
            time: 0,
            counts: Counts::default(),
        }
    }

    /// Whether the page is there; afterwards it is.
    fn ask(held: &mut Vec<Held>, (entries, ways): (usize, usize), page: (u64, u32, u64), time: u64) -> bool {
        if let Some(held) = held.iter_mut().find(|h| h.page == page) {
            held.used = time;
            return true;
        }
        let sets = (entries / ways) as u64;
        let same = |h: &Held| h.page.0 % sets == page.0 % sets;
        if held.iter().filter(|h| same(h)).count() == ways {
            let oldest = held.iter().filter(|h| same(h)).map(|h| h.used).min().unwrap();
            held.retain(|h| h.used != oldest);
        }
        held.push(Held { page, used: time });
        false
    }

    fn access(&mut self, access: Access) {
        self.time += 1;
        self.counts.accesses += 1;
        let mut answered = None;
        for (n, level) in self.processor.levels.iter().enumerate() {
            for (m, array) in level.arrays.iter().enumerate() {
                let size = 1u64 << access.page_bits;
                let asked = match array.accesses {
                    Accesses::All => true,
                    Accesses::Loads => !access.store,
                    Accesses::Stores => access.store,
                };
                let held = match array.page_bytes.contains(&size) {
                    true => size,
                    false if array.splits => array.page_bytes.iter().copied().filter(|s| *s < size).max().unwrap_or(0),
                    false => 0,
                };
                if !asked || held == 0 {
                    continue;
                }
                let page = (access.address / held, held.ilog2(), access.space);
                if Self::ask(&mut self.arrays[n][m], (array.entries, array.ways), page, self.time) {
                    answered = Some(n);
                }
                break;
            }
            if answered.is_some() {
                break;
            }
        }
        self.counts.first_level_misses += u64::from(answered != Some(0));
        if answered.is_none() {
            self.counts.walks += 1;
            let mut levels: Vec<u32> = self.processor.table_bits.clone();
            let last = levels.iter().position(|b| *b <= access.page_bits).map_or(levels.len(), |p| p + 1);
            levels.truncate(last);
            for (cache, held) in self.processor.walk_caches.iter().zip(&mut self.caches) {
                let page = (access.address >> cache.covers_bits, 0, 0);
                if cache.covers_bits > access.page_bits && Self::ask(held, (cache.entries, cache.ways), page, self.time)
                {
                    levels.retain(|b| *b < cache.covers_bits);
                }
            }
            self.counts.walk_loads += levels.len() as u64;
        }
    }
}

fn arrays() -> impl Strategy<Value = Array> {
    let sizes = prop_oneof![Just(vec![4096]), Just(vec![4096, 1 << 21]), Just(vec![1 << 21])];
    let accesses = prop_oneof![Just(Accesses::All), Just(Accesses::Loads), Just(Accesses::Stores)];
    (1..5usize, 1..5usize, sizes, any::<bool>(), accesses).prop_map(|(sets, ways, page_bytes, splits, accesses)| {
        let (entries, replacement, source) = (sets * ways, Replacement::LeastRecentlyUsed, String::new());
        Array { entries, ways, page_bytes, splits, accesses, replacement, source }
    })
}

fn processors() -> impl Strategy<Value = Processor> {
    let caches = prop_oneof![Just(vec![21]), Just(vec![30, 21]), Just(vec![])];
    let levels = prop::collection::vec(prop::collection::vec(arrays(), 1..3), 1..4);
    (levels, caches).prop_map(|(levels, caches)| {
        let mut processor = Processor::parse("x", GOOD).unwrap();
        processor.levels = levels.into_iter().map(|arrays| Level { arrays }).collect();
        // So that both sizes of pages are held somewhere.
        let both = Array { page_bytes: vec![4096, 1 << 21], ..processor.levels[0].arrays[0].clone() };
        processor.levels[0].arrays.push(both);
        let cache = |covers_bits| WalkCache { covers_bits, entries: 4, ways: 2, source: String::new() };
        processor.walk_caches = caches.into_iter().map(cache).collect();
        processor.table_bits = vec![39, 30, 21, 12];
        processor
    })
}

proptest! {
    #[test]
    fn counts_are_those_of_a_naive_model(
        processor in processors(),
        stream in prop::collection::vec((0..40u64, 0..3u64, any::<bool>(), 0..4u64), 1..400),
    ) {
        let (mut tlb, mut naive) = (Tlb::new(&processor), Naive::new(&processor));
        for (page, huge, store, space) in stream {
            let page_bits = if huge == 0 { HUGE_PAGE_BITS } else { SMALL_PAGE_BITS };
            let address = (page << page_bits) + (huge << 33);
            let access = Access { address, space: space / 3, page_bits, store };
            tlb.access(access);
            naive.access(access);
            prop_assert_eq!(tlb.counts(), naive.counts);
        }
    }
}
