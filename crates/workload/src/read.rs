//! The read workload of the read-ahead study.

use crate::Operation;
use pocketstone_core::plan::{Pattern, ReadSpec};
use pocketstone_core::random::Random;

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
    let prefetch = (!spec.prefetch.is_none()).then_some(Operation::Prefetch { offset, bytes });
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
    use pocketstone_core::plan::{Access, Data, Prefetch};
    use std::collections::HashSet;

    fn spec(pattern: Pattern) -> ReadSpec {
        ReadSpec {
            pattern,
            requests: 1280,
            request_bytes: 4096,
            file_bytes: 5 << 20,
            inter_arrival_ns: 0,
            data: Data::Random,
            access: Access::Read,
            prefetch: Prefetch::None,
        }
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
        let of = |bytes| Operation::Prefetch { offset: 0, bytes };
        assert_eq!(first(Pattern::Sequential, 16, 4096), of(65_536));
        // Wrapping reads the whole file, of which 5,242,880 mod 3,000,000 bytes are no whole request.
        assert_eq!(first(Pattern::Sequential, 9, 3_000_000), of(3_000_000));
        assert_eq!(first(Pattern::Random, 1, 4096), of(5 << 20));
    }
}
