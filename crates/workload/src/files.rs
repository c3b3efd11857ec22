//! The files workload: one kind of operation on a folder of files.

use crate::Operation;
use pocketstone_core::plan::{FileOperation, FilesSpec, Pattern};
use pocketstone_core::random::Random;

/// Name of a file in the folder.
pub fn file_name(file: u32) -> String {
    format!("file-{file:08}")
}

/// Operations of a `files` workload, with a pause between two of them.
///
/// Reads and writes go to aligned offsets of the files that exist: sequential ones through one file after
/// the other, then from the first again; random ones uniformly over all of them, with replacement. Appends
/// and look-ups choose files in the same ways. What is created gets the names behind those that exist, what
/// is deleted is deleted once: random means in random order there.
pub fn file_operations(spec: &FilesSpec, seed: u64) -> impl Iterator<Item = Operation> + use<> {
    let spec = spec.clone();
    let mut random = Random::labelled(seed, "file requests");
    let slots_per_file = match spec.operation {
        FileOperation::Read | FileOperation::Write => (spec.file_bytes / spec.request_bytes.max(1)).max(1),
        _ => 1,
    };
    let slots = spec.files.max(1) * slots_per_file;
    let mut order = Order::new(&spec, &mut random);
    (0..spec.requests).flat_map(move |n| {
        let slot = match (&mut order, spec.pattern) {
            (Order::Once(files), _) => u64::from(files[n as usize]),
            (Order::Any, Pattern::Sequential) => n % slots,
            (Order::Any, Pattern::Random) => random.below(slots),
        };
        let (file, offset) = ((slot / slots_per_file) as u32, slot % slots_per_file * spec.request_bytes);
        let bytes = spec.request_bytes;
        let operation = match spec.operation {
            FileOperation::Read => Operation::Read { file, offset, bytes },
            FileOperation::Write => Operation::Write { file, offset, bytes },
            FileOperation::Append => Operation::Append { file, bytes },
            FileOperation::Create => Operation::Create { file },
            FileOperation::Delete => Operation::Delete { file },
            FileOperation::LookUp => Operation::LookUp { file },
        };
        let pause = (n > 0 && spec.inter_arrival_ns > 0).then_some(Operation::Pause { ns: spec.inter_arrival_ns });
        pause.into_iter().chain([operation])
    })
}

/// How often a file's turn comes.
enum Order {
    /// As often as it is chosen.
    Any,
    /// Once, in this order.
    Once(Vec<u32>),
}

impl Order {
    fn new(spec: &FilesSpec, random: &mut Random) -> Order {
        let first = match spec.operation {
            FileOperation::Create => spec.files,
            FileOperation::Delete => 0,
            _ => return Order::Any,
        };
        // What is deleted is drawn from all files that there are.
        let last = if spec.operation == FileOperation::Delete { spec.files } else { first + spec.requests };
        let mut files: Vec<u32> = (first..last).map(|file| file as u32).collect();
        if spec.pattern == Pattern::Random {
            // Fisher and Yates, as Durstenfeld wrote it down.
            for last in (1..files.len()).rev() {
                files.swap(last, random.below(last as u64 + 1) as usize);
            }
        }
        Order::Once(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_core::plan::{Data, Sync};
    use std::collections::BTreeSet;

    const ALL: [FileOperation; 6] = [
        FileOperation::Read,
        FileOperation::Write,
        FileOperation::Append,
        FileOperation::Create,
        FileOperation::Delete,
        FileOperation::LookUp,
    ];

    fn spec(operation: FileOperation, pattern: Pattern) -> FilesSpec {
        FilesSpec {
            operation,
            pattern,
            requests: 6,
            request_bytes: 4096,
            files: 6,
            file_bytes: 10_000,
            inter_arrival_ns: 0,
            data: Data::Random,
            sync: Sync::None,
        }
    }

    /// FNV-1a over the operations as text: any change of the stream shows.
    fn digest(spec: &FilesSpec, seed: u64) -> u64 {
        let text: String = file_operations(spec, seed).map(|o| format!("{o:?};")).collect();
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
    }

    #[test]
    fn a_short_sequence_of_each_kind() {
        let list = |operation| file_operations(&spec(operation, Pattern::Sequential), 1).collect::<Vec<_>>();
        let at = |n: u32| (n / 2, u64::from(n % 2) * 4096, 4096);
        let six = |make: &dyn Fn(u32) -> Operation| (0..6).map(make).collect::<Vec<_>>();
        let read = |n| {
            let (file, offset, bytes) = at(n);
            Operation::Read { file, offset, bytes }
        };
        let write = |n| {
            let (file, offset, bytes) = at(n);
            Operation::Write { file, offset, bytes }
        };
        assert_eq!(list(FileOperation::Read), six(&read));
        assert_eq!(list(FileOperation::Write), six(&write));
        assert_eq!(list(FileOperation::Append), six(&|file| Operation::Append { file, bytes: 4096 }));
        assert_eq!(list(FileOperation::Create), six(&|n| Operation::Create { file: 6 + n }));
        assert_eq!(list(FileOperation::Delete), six(&|file| Operation::Delete { file }));
        assert_eq!(list(FileOperation::LookUp), six(&|file| Operation::LookUp { file }));
    }

    #[test]
    fn random_requests_are_seeded_and_inside_their_files() {
        for operation in ALL {
            let spec = FilesSpec { requests: 2000, files: 2000, ..spec(operation, Pattern::Random) };
            let got: Vec<Operation> = file_operations(&spec, 1).collect();
            assert_eq!(got, file_operations(&spec, 1).collect::<Vec<_>>());
            assert_ne!(got, file_operations(&spec, 2).collect::<Vec<_>>());
            let mut files = BTreeSet::new();
            for operation in got {
                match operation {
                    Operation::Read { file, offset, bytes } | Operation::Write { file, offset, bytes } => {
                        assert!(offset % bytes == 0 && offset + bytes <= 10_000);
                        files.insert(file)
                    }
                    Operation::Append { file, .. }
                    | Operation::Create { file }
                    | Operation::Delete { file }
                    | Operation::LookUp { file } => files.insert(file),
                    other => panic!("{other:?} is none of them"),
                };
            }
            // n draws with replacement leave n (1 - 1/e) = 1264 distinct on average, with a standard
            // deviation of 22 at most; once each means all of them.
            match operation {
                FileOperation::Create => assert_eq!(files, (2000..4000).collect()),
                FileOperation::Delete => assert_eq!(files, (0..2000).collect()),
                _ => assert!((1180..=1350).contains(&files.len()), "{operation:?}: {}", files.len()),
            }
        }
    }

    #[test]
    fn the_stream_of_a_seed_never_changes() {
        let got = ALL.map(|operation| digest(&FilesSpec { requests: 5, ..spec(operation, Pattern::Random) }, 7));
        let expected = [
            16440555848046695104,
            13217934157425807223,
            3261637414603363291,
            1363418113751787941,
            5948508902779577888,
            14027159434541411733,
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn pauses_stand_between_requests_only() {
        let spec = FilesSpec { requests: 2, inter_arrival_ns: 5, ..spec(FileOperation::LookUp, Pattern::Sequential) };
        let got: Vec<Operation> = file_operations(&spec, 1).collect();
        assert_eq!(got, [Operation::LookUp { file: 0 }, Operation::Pause { ns: 5 }, Operation::LookUp { file: 1 }]);
    }
}
