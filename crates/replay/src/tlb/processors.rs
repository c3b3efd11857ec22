//! Data TLBs of processors.

use super::{Accesses, Array, HUGE_PAGE_BITS, Level, Processor, Replacement, SMALL_PAGE_BITS, WalkCache};

const SMALL: &[u32] = &[SMALL_PAGE_BITS];
const HUGE: &[u32] = &[HUGE_PAGE_BITS];
const BOTH: &[u32] = &[SMALL_PAGE_BITS, HUGE_PAGE_BITS];

const fn array(entries: usize, ways: usize, page_bits: &'static [u32]) -> Array {
    Array { entries, ways, page_bits, accesses: Accesses::All, replacement: Replacement::LeastRecentlyUsed }
}

const fn only(accesses: Accesses, array: Array) -> Array {
    Array { accesses, ..array }
}

/// Processors whose data TLB is known. Where a publication does not name the replacement, it is taken for least
/// recently used.
pub const PROCESSORS: &[Processor] = &[
    Processor {
        name: "i5-750",
        description: "Intel Core i5-750 (Nehalem, 2009)",
        source: "Intel 64 and IA-32 Architectures Optimization Reference Manual, Nehalem: cache and TLB parameters",
        levels: &[Level(&[array(64, 4, SMALL), array(32, 4, HUGE)]), Level(&[array(512, 4, SMALL)])],
        walk_caches: &[],
        address_bits: 48,
    },
    Processor {
        name: "cortex-a15",
        description: "Arm Cortex-A15 (2012)",
        source: "Cortex-A15 MPCore Technical Reference Manual (DDI 0438), 5.2 TLB organization: separate 32-entry \
                 fully associative arrays for loads and stores, 4 KiB entries; unified 512-entry 4-way second level",
        levels: &[
            Level(&[only(Accesses::Loads, array(32, 32, BOTH)), only(Accesses::Stores, array(32, 32, BOTH))]),
            Level(&[array(512, 4, BOTH)]),
        ],
        walk_caches: &[],
        address_bits: 39,
    },
    Processor {
        name: "cortex-a76",
        description: "Arm Cortex-A76 (2018)",
        source: "Cortex-A76 Technical Reference Manual (100798), A5.2: 48-entry fully associative data TLB, \
                 1280-entry 5-way second level, both for 4 KiB and 2 MiB",
        levels: &[Level(&[array(48, 48, BOTH)]), Level(&[array(1280, 5, BOTH)])],
        walk_caches: &[],
        address_bits: 48,
    },
    Processor {
        name: "cortex-a55",
        description: "Arm Cortex-A55 (2017)",
        source: "Agilex 5 Hard Processor System Technical Reference Manual (814346), 3.6.3.4: 16-entry fully \
                 associative data TLB, 1024-entry 4-way second level, walk cache of 64 entries in 4 ways",
        levels: &[Level(&[array(16, 16, BOTH)]), Level(&[array(1024, 4, BOTH)])],
        walk_caches: &[WalkCache { covers_bits: HUGE_PAGE_BITS, entries: 64, ways: 4 }],
        address_bits: 48,
    },
    Processor {
        name: "zen-4",
        description: "AMD Zen 4 (2022)",
        source: "Software Optimization Guide for the AMD Zen4 Microarchitecture (57647), 2.7, and CPUID functions \
                 8000_0005h and 8000_0006h: 72-entry fully associative data TLB, 3072-entry second level in 24 ways",
        levels: &[Level(&[array(72, 72, BOTH)]), Level(&[array(3072, 24, BOTH)])],
        walk_caches: &[],
        address_bits: 48,
    },
    Processor {
        name: "golden-cove",
        description: "Intel Golden Cove (2021)",
        source: "Intel 64 and IA-32 Architectures Optimization Reference Manual, Golden Cove: loads 96 entries in \
                 6 ways for 4 KiB and 32 in 4 for 2 MiB, stores 16 fully associative, 2048 shared in 16 ways",
        levels: &[
            Level(&[
                only(Accesses::Loads, array(96, 6, SMALL)),
                only(Accesses::Loads, array(32, 4, HUGE)),
                only(Accesses::Stores, array(16, 16, BOTH)),
            ]),
            Level(&[array(2048, 16, BOTH)]),
        ],
        walk_caches: &[],
        address_bits: 48,
    },
];
