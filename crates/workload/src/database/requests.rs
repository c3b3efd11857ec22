//! Which requests YCSB's workloads make of which records.

use super::distribution::{ScrambledZipfian, SkewedLatest};
use pocketstone_core::random::Random;

/// A workload of YCSB, by its letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Letter {
    A,
    B,
    C,
    D,
    E,
    F,
}

/// One operation. Records are numbered from 0 in the order in which they are inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Read { record: u64 },
    Update { record: u64 },
    ReadModifyWrite { record: u64 },
    Insert { record: u64 },
    Scan { record: u64, records: u64 },
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Read,
    Update,
    ReadModifyWrite,
    Insert,
    Scan,
}

impl Letter {
    /// The kind that most operations are, the other one and its share in percent, as in YCSB's
    /// files `workloads/workload[a-f]`.
    fn mix(self) -> (Kind, Kind, u64) {
        match self {
            Letter::A => (Kind::Read, Kind::Update, 50),
            Letter::B => (Kind::Read, Kind::Update, 5),
            Letter::C => (Kind::Read, Kind::Read, 0),
            Letter::D => (Kind::Read, Kind::Insert, 5),
            Letter::E => (Kind::Scan, Kind::Insert, 5),
            Letter::F => (Kind::Read, Kind::ReadModifyWrite, 50),
        }
    }
}

enum Popularity {
    Scattered(ScrambledZipfian),
    Latest(SkewedLatest),
}

/// The requests of a workload, without end.
pub(super) struct Requests {
    letter: Letter,
    popularity: Popularity,
    /// Records that there are.
    records: u64,
    longest_scan: u64,
    kinds: Random,
    keys: Random,
    lengths: Random,
}

impl Requests {
    /// `records`, at least 1, are there before the first request; `operations` are going to be made.
    pub(super) fn new(letter: Letter, records: u64, operations: u64, longest_scan: u64, seed: u64) -> Self {
        let (_, other, percent) = letter.mix();
        let popularity = match (letter, other) {
            (Letter::D, _) => Popularity::Latest(SkewedLatest::new(records - 1)),
            // YCSB scatters over twice the records that will probably come, and over one more; it
            // draws again where it meets one that is not there yet.
            (_, Kind::Insert) => {
                Popularity::Scattered(ScrambledZipfian::new(records + 2 * operations * percent / 100 + 1))
            }
            _ => Popularity::Scattered(ScrambledZipfian::new(records + 1)),
        };
        Requests {
            letter,
            popularity,
            records,
            longest_scan,
            kinds: Random::labelled(seed, "database operations"),
            keys: Random::labelled(seed, "database keys"),
            lengths: Random::labelled(seed, "database scan lengths"),
        }
    }

    fn record(&mut self) -> u64 {
        match &mut self.popularity {
            Popularity::Latest(latest) => latest.draw(self.records - 1, &mut self.keys),
            Popularity::Scattered(zipfian) => loop {
                let record = zipfian.draw(&mut self.keys);
                if record < self.records {
                    return record;
                }
            },
        }
    }
}

impl Iterator for Requests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let (most, other, percent) = self.letter.mix();
        let kind = if self.kinds.below(100) < percent { other } else { most };
        if let Kind::Insert = kind {
            self.records += 1;
            return Some(Request::Insert { record: self.records - 1 });
        }
        let record = self.record();
        Some(match kind {
            Kind::Read | Kind::Insert => Request::Read { record },
            Kind::Update => Request::Update { record },
            Kind::ReadModifyWrite => Request::ReadModifyWrite { record },
            Kind::Scan => Request::Scan { record, records: 1 + self.lengths.below(self.longest_scan) },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPERATIONS: usize = 20_000;

    fn requests(letter: Letter) -> Vec<Request> {
        Requests::new(letter, 1000, OPERATIONS as u64, 100, 5).take(OPERATIONS).collect()
    }

    fn share(requests: &[Request], of: impl Fn(&Request) -> bool) -> f64 {
        requests.iter().filter(|r| of(r)).count() as f64 / requests.len() as f64
    }

    /// Shares of reads, updates, read-modify-writes, inserts and scans from YCSB's files; five standard
    /// deviations of 20,000 draws are at most 5 sqrt(0.25 / 20000) = 0.018.
    #[test]
    fn proportions_are_those_of_ycsbs_files() {
        let expected = [
            (Letter::A, [0.5, 0.5, 0.0, 0.0, 0.0]),
            (Letter::B, [0.95, 0.05, 0.0, 0.0, 0.0]),
            (Letter::C, [1.0, 0.0, 0.0, 0.0, 0.0]),
            (Letter::D, [0.95, 0.0, 0.0, 0.05, 0.0]),
            (Letter::E, [0.0, 0.0, 0.0, 0.05, 0.95]),
            (Letter::F, [0.5, 0.0, 0.5, 0.0, 0.0]),
        ];
        for (letter, shares) in expected {
            let requests = requests(letter);
            let got = [
                share(&requests, |r| matches!(r, Request::Read { .. })),
                share(&requests, |r| matches!(r, Request::Update { .. })),
                share(&requests, |r| matches!(r, Request::ReadModifyWrite { .. })),
                share(&requests, |r| matches!(r, Request::Insert { .. })),
                share(&requests, |r| matches!(r, Request::Scan { .. })),
            ];
            for (got, expected) in got.into_iter().zip(shares) {
                let room = if expected == 0.0 || expected == 1.0 { 0.0 } else { 0.018 };
                assert!((got - expected).abs() <= room, "{letter:?}: {got} for {expected}");
            }
        }
    }

    /// Worked out by a Python program of xoshiro256++, FNV-1a and Gray's formula, with Python's own powers,
    /// from the text of docs/workload-format.md and of `pocketstone_core::random`.
    #[test]
    fn the_first_requests_are_those_of_another_program() {
        let updates = |n: usize| [0, 1, 4, 5, 6, 8, 10].contains(&n);
        let records = [144, 889, 728, 610, 736, 88, 646, 537, 821, 179, 452, 100];
        for (n, (got, record)) in requests(Letter::A).into_iter().zip(records).enumerate() {
            let expected = if updates(n) { Request::Update { record } } else { Request::Read { record } };
            assert_eq!(got, expected, "{n}");
        }
        let scans = [(479, 65), (367, 76), (419, 37), (831, 39), (741, 18), (547, 21), (89, 8), (410, 85)];
        for (got, (record, records)) in requests(Letter::E).into_iter().zip(scans) {
            assert_eq!(got, Request::Scan { record, records });
        }
    }

    #[test]
    fn no_request_is_for_a_record_that_is_not_there_yet() {
        for letter in [Letter::A, Letter::B, Letter::C, Letter::D, Letter::E, Letter::F] {
            let mut there = 1000;
            for request in requests(letter) {
                match request {
                    Request::Insert { record } => {
                        assert_eq!(record, there);
                        there += 1;
                    }
                    Request::Scan { record, records } => assert!(record < there && (1..=100).contains(&records)),
                    Request::Read { record } | Request::Update { record } | Request::ReadModifyWrite { record } => {
                        assert!(record < there);
                    }
                }
            }
        }
    }

    #[test]
    fn inserted_records_are_asked_for_too() {
        for letter in [Letter::D, Letter::E] {
            let new = share(&requests(letter), |r| match r {
                Request::Read { record } | Request::Scan { record, .. } => *record >= 1000,
                _ => false,
            });
            // About a thousand come to the thousand that were there: under E, which is even over all records
            // but for the few popular ones, a third at the end's pace; under D most.
            assert!(new > 0.15, "{letter:?}: {new}");
        }
    }

    #[test]
    fn lengths_of_scans_are_uniform() {
        let mut counts = [0u32; 101];
        for request in requests(Letter::E) {
            if let Request::Scan { records, .. } = request {
                counts[records as usize] += 1;
            }
        }
        // 190 of each expected, standard deviation 14.
        assert!(counts[0] == 0 && counts[1..].iter().all(|c| (120..260).contains(c)), "{counts:?}");
    }

    #[test]
    fn one_record_is_enough() {
        let only = Requests::new(Letter::D, 1, 10, 1, 1).find_map(|r| match r {
            Request::Read { record } => Some(record),
            _ => None,
        });
        assert_eq!(only, Some(0));
        assert!(
            Requests::new(Letter::A, 1, 100, 1, 1)
                .take(100)
                .all(|r| matches!(r, Request::Read { record: 0 } | Request::Update { record: 0 }))
        );
    }
}
