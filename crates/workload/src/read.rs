//! The `read` workload, that of the read-ahead study.

use crate::database::Prepares;
use crate::definition::{Defined, FileWorkload};
use crate::factor::{AnyFactor, Factor, Impossible, Point, wrong};
use crate::factors::{DATA, FILE_BYTES, INTER_ARRIVAL_NS, PATTERN, REQUEST_BYTES, REQUESTS};
use crate::population::{Caches, Population, Sizes};
use crate::{Data, Operation, Prefetch, Purpose};
use pocketstone_core::pattern::Pattern;
use pocketstone_core::random::Random;
use pocketstone_core::{Result, words};
use serde::{Deserialize, Serialize};

/// The `read` workload: one read() per request on a file opened with O_RDONLY, or its pages touched in a mapping; page
/// cache cold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadSpec {
    /// Order of the offsets.
    pub pattern: Pattern,
    /// Number of read() calls.
    pub requests: u64,
    /// Bytes asked for by each.
    pub request_bytes: u64,
    /// Size of the file.
    pub file_bytes: u64,
    /// Pause between the end of one request and the start of the next.
    pub inter_arrival_ns: u64,
    /// What the file holds.
    pub data: Data,
    /// How requests get at the file.
    #[serde(default = "ReadAccess::usual", skip_serializing_if = "ReadAccess::is_usual")]
    pub access: ReadAccess,
    /// What is called before the first request.
    #[serde(default = "Prefetch::none", skip_serializing_if = "Prefetch::is_none")]
    pub prefetch: Prefetch,
}

words! {
    /// How the requests of a `read` workload get at the file.
    ReadAccess {
        /// By read().
        Read = "read",
        /// By touching each page of a mapping of the whole file: a page that is not there is a page fault.
        Mmap = "mmap",
    }
}

impl ReadAccess {
    fn usual() -> Self {
        ReadAccess::Read
    }

    /// Whether it is what it is where nothing is said.
    fn is_usual(&self) -> bool {
        *self == ReadAccess::Read
    }
}

const ACCESS: Factor<ReadAccess> =
    Factor::new("access", "requests by read(), or by touching their pages in a mapping").default("read");
const PREFETCH: Factor<Prefetch> = Factor::new(
    "prefetch",
    "prefetch call for all that will be read, before the first request: readahead(2), POSIX_FADV_WILLNEED or \
        MADV_WILLNEED",
)
.default("none");

impl Defined for ReadSpec {
    const NAME: &'static str = "read";
    const ABOUT: &'static str = "read() on one file with the page cache cold";
    const SMALL: &'static str = "requests = 8\nfile_bytes = '64KiB'";
    const REQUEST: &'static str = "read()";
    const FACTORS: &'static [AnyFactor] = &[
        DATA.any(),
        FILE_BYTES.any(),
        PATTERN.any(),
        REQUEST_BYTES.any(),
        REQUESTS.any(),
        INTER_ARRIVAL_NS.any(),
        ACCESS.any(),
        PREFETCH.any(),
    ];

    fn of_point(point: &Point, _prepares: &mut dyn Prepares) -> Result<Self, Impossible> {
        let spec = ReadSpec {
            pattern: point.of(&PATTERN)?,
            requests: point.of(&REQUESTS)?,
            request_bytes: point.of(&REQUEST_BYTES)?,
            file_bytes: point.of(&FILE_BYTES)?,
            inter_arrival_ns: point.of(&INTER_ARRIVAL_NS)?,
            data: point.of(&DATA)?,
            access: point.of(&ACCESS)?,
            prefetch: point.of(&PREFETCH)?,
        };
        spec.judge().map(|()| spec)
    }
}

impl FileWorkload for ReadSpec {
    fn judge(&self) -> Result<(), Impossible> {
        let (request, file) = (self.request_bytes, self.file_bytes);
        match (1..=file).contains(&request) {
            true => Ok(()),
            false => {
                let why = format!("requests of {request} bytes do not fit a file of {file} bytes");
                Err(wrong(REQUEST_BYTES.name(), why, "from 1 to file_bytes"))
            }
        }
    }

    fn population(&self, seed: u64) -> Population {
        let (sizes, caches) = (Sizes::Target, Caches::ColdPages);
        Population { files: 1, file_bytes: self.file_bytes, data: self.data, seed, sizes, caches }
    }

    fn setup(&self) -> Box<dyn Iterator<Item = Operation>> {
        let open = Operation::Open { file: 0, purpose: Purpose::Read };
        let map = (self.access == ReadAccess::Mmap).then_some(Operation::Map { file: 0 });
        Box::new([open].into_iter().chain(map))
    }

    fn operations(&self, seed: u64) -> Box<dyn Iterator<Item = Operation>> {
        Box::new(read_operations(self, seed))
    }

    fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    fn pauses_ns(&self) -> u64 {
        self.requests.saturating_mul(self.inter_arrival_ns)
    }

    fn writes(&self) -> bool {
        false
    }

    fn maps(&self) -> bool {
        self.access == ReadAccess::Mmap || self.prefetch == Prefetch::Madvise
    }

    fn takes_advice(&self) -> bool {
        true
    }
}

impl ReadSpec {
    /// The published micro-benchmark (EWiLi'14, section 4.1.2): requests of 4 KiB, one after the other, for a file of
    /// 5 MiB that does not compress.
    pub fn new(pattern: Pattern, requests: u64) -> Self {
        ReadSpec {
            pattern,
            requests,
            request_bytes: 4096,
            file_bytes: 5 << 20,
            inter_arrival_ns: 0,
            data: Data::Random,
            access: ReadAccess::Read,
            prefetch: Prefetch::None,
        }
    }

    /// First byte and length of the smallest range that has all requests.
    pub fn range(&self) -> (u64, u64) {
        let slots = (self.file_bytes / self.request_bytes.max(1)).max(1);
        match self.pattern {
            Pattern::Sequential => (0, self.requests.min(slots) * self.request_bytes),
            Pattern::Random => (0, slots * self.request_bytes),
        }
    }
}

/// Operations of a `read` workload: requests at aligned offsets, with a pause between two of them.
///
/// Where the plan has a prefetch, it comes before them, for the smallest range that has them all.
/// Only whole requests are made: a tail of the file that is shorter than a request is never read.
/// A file smaller than one request is asked for in one short read at offset 0.
pub fn read_operations(spec: &ReadSpec, seed: u64) -> impl Iterator<Item = Operation> + use<> {
    let spec = spec.clone();
    let slots = (spec.file_bytes / spec.request_bytes.max(1)).max(1);
    let mut random = Random::labelled(seed, "read offsets");
    let (offset, bytes) = spec.range();
    let prefetch = (!spec.prefetch.is_none()).then_some(Operation::Prefetch { by: spec.prefetch, offset, bytes });
    let requests = (0..spec.requests).flat_map(move |n| {
        let slot = match spec.pattern {
            Pattern::Sequential => n % slots,
            Pattern::Random => random.below(slots),
        };
        let pause = (n > 0 && spec.inter_arrival_ns > 0).then_some(Operation::Pause { ns: spec.inter_arrival_ns });
        let read = Operation::Read { file: 0, offset: slot * spec.request_bytes, bytes: spec.request_bytes };
        pause.into_iter().chain([read])
    });
    prefetch.into_iter().chain(requests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn spec(pattern: Pattern) -> ReadSpec {
        ReadSpec::new(pattern, 1280)
    }

    fn offsets(spec: &ReadSpec, seed: u64) -> Vec<u64> {
        read_operations(spec, seed)
            .filter_map(|o| match o {
                Operation::Read { offset, .. } => Some(offset),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn sequential_reads_cover_the_file_once_and_then_wrap() {
        let mut spec = spec(Pattern::Sequential);
        let expected: Vec<u64> = (0..1280).map(|n| n * 4096).collect();
        assert_eq!(offsets(&spec, 1), expected);
        spec.requests = 1281;
        assert_eq!(*offsets(&spec, 1).last().unwrap(), 0);
    }

    #[test]
    fn random_reads_are_uniform_seeded_and_inside_the_file() {
        let spec = spec(Pattern::Random);
        let got = offsets(&spec, 1);
        assert_eq!(got, offsets(&spec, 1));
        assert_ne!(got, offsets(&spec, 2));
        assert!(got.iter().all(|o| o % 4096 == 0 && o + 4096 <= 5 << 20));
        // n draws with replacement from n slots leave n(1 - 1/e) = 809 distinct on average,
        // with a standard deviation of sqrt(n (1/e)(1 - 2/e)) = 11; five of them are 55.
        let distinct = got.iter().collect::<HashSet<_>>().len();
        assert!((754..=864).contains(&distinct), "{distinct}");
    }

    #[test]
    fn pauses_stand_between_requests_only() {
        let mut spec = spec(Pattern::Sequential);
        spec.requests = 3;
        spec.inter_arrival_ns = 10;
        let got: Vec<Operation> = read_operations(&spec, 1).collect();
        let read = |offset| Operation::Read { file: 0, offset, bytes: 4096 };
        assert_eq!(got, [read(0), Operation::Pause { ns: 10 }, read(4096), Operation::Pause { ns: 10 }, read(8192)]);
    }

    #[test]
    fn a_prefetch_covers_all_requests_and_no_more() {
        let first = |pattern, requests, request_bytes| {
            let spec = ReadSpec { prefetch: Prefetch::Willneed, requests, request_bytes, ..spec(pattern) };
            read_operations(&spec, 1).next().unwrap()
        };
        let of = |bytes| Operation::Prefetch { by: Prefetch::Willneed, offset: 0, bytes };
        assert_eq!(first(Pattern::Sequential, 16, 4096), of(65_536));
        // Wrapping reads the whole file, of which 5,242,880 mod 3,000,000 bytes are no whole request.
        assert_eq!(first(Pattern::Sequential, 9, 3_000_000), of(3_000_000));
        assert_eq!(first(Pattern::Random, 1, 4096), of(5 << 20));
    }
}
