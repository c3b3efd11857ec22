//! What starting an application reads.

use crate::postmark::blocks;
use crate::{Operation, population_files};
use pocketstone_core::plan::{AppStartSpec, LIBRARY_BYTES};
use pocketstone_core::random::Random;

/// A page of a mapping in bytes, the smallest that Linux has.
const PAGE_BYTES: u64 = 4096;

/// One of so many of a library's pages is touched.
const TOUCHED_SHARE: u64 = 4;

/// Operations of an `app-start` workload: all libraries are mapped; then each small file is opened, read whole and
/// closed, in the order of their numbers, and after each of them pages of the libraries are touched, drawn uniformly
/// with replacement. There are as many touches as a quarter of the libraries' pages, evenly spread over the files.
pub fn app_start_operations(spec: &AppStartSpec, seed: u64) -> impl Iterator<Item = Operation> + use<> {
    let files = population_files(&spec.population(seed));
    let (small, libraries) = (spec.files, spec.libraries);
    let block = spec.request_bytes;
    let mut random = Random::labelled(seed, "touched pages");
    let pages = LIBRARY_BYTES / PAGE_BYTES;
    let touches = libraries * pages / TOUCHED_SHARE;
    let maps = (small..small + libraries).map(|n| Operation::Map { file: n as u32 });
    let rest = (0..small).flat_map(move |n| {
        let file = n as u32;
        let mut made = vec![Operation::Open { file, append: false }];
        let size = files[n as usize].bytes;
        made.extend(blocks(size, block).map(|(offset, bytes)| Operation::Read { file, offset, bytes }));
        made.push(Operation::Close { file });
        let due = (n + 1) * touches / small - n * touches / small;
        made.extend((0..due).map(|_| {
            let library = (small + random.below(libraries)) as u32;
            Operation::Touch { file: library, offset: random.below(pages) * PAGE_BYTES }
        }));
        made
    });
    maps.chain(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_core::plan::Data;

    fn spec(files: u64, libraries: u64) -> AppStartSpec {
        AppStartSpec { files, libraries, request_bytes: 4096, data: Data::Random }
    }

    #[test]
    fn every_small_file_is_read_whole_in_order_and_a_quarter_of_the_libraries_is_touched() {
        let spec = spec(100, 3);
        let files = population_files(&spec.population(1));
        let (mut opened, mut touched, mut read) = (0u32, 0, 0);
        let operations: Vec<Operation> = app_start_operations(&spec, 1).collect();
        assert_eq!(operations[..3], [100, 101, 102].map(|file| Operation::Map { file }));
        for operation in &operations[3..] {
            match *operation {
                Operation::Open { file, .. } => {
                    assert_eq!(file, opened);
                    (opened, read) = (opened + 1, 0);
                }
                Operation::Read { file, offset, bytes } => {
                    assert!(file + 1 == opened && offset == read && bytes <= 4096);
                    read += bytes;
                }
                Operation::Close { file } => assert_eq!(read, files[file as usize].bytes),
                Operation::Touch { file, offset } => {
                    assert!((100..103).contains(&file) && offset % 4096 == 0 && offset < 1 << 20);
                    touched += 1;
                }
                other => panic!("{other:?} is no part of it"),
            }
        }
        // Three libraries of 256 pages.
        assert_eq!((opened, touched), (100, 192));
    }

    #[test]
    fn the_stream_of_a_seed_never_changes() {
        let text: String = app_start_operations(&spec(4, 1), 7).map(|o| format!("{o:?};")).collect();
        let digest =
            text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        assert_eq!(digest, 14517588482164862363);
        let without = app_start_operations(&spec(4, 0), 7);
        assert!(without.into_iter().all(|o| !matches!(o, Operation::Touch { .. } | Operation::Map { .. })));
    }
}
