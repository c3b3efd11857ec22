//! The reads of a starting application.

use crate::database::Prepares;
use crate::definition::{Defined, FileWorkload};
use crate::factor::{AnyFactor, Count, Factor, Impossible, Point, wrong};
use crate::factors::{DATA, FILES, REQUEST_BYTES};
use crate::population::{Caches, LIBRARY_BYTES, Population, SMALL_FILE_BYTES, Sizes};
use crate::postmark::blocks;
use crate::{Data, Operation, Purpose};
use pocketstone_core::Result;
use pocketstone_core::random::Random;
use serde::{Deserialize, Serialize};

/// The `app-start` workload: what starting an application reads. Its libraries are mapped, its small files are opened
/// and read whole one after the other, and between them pages of the libraries are touched at random. All caches are
/// cold, those of names and inodes too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppStartSpec {
    /// Number of small files.
    pub files: u64,
    /// Number of libraries.
    pub libraries: u64,
    /// Bytes that one read() asks for.
    pub request_bytes: u64,
    /// The files' contents.
    pub data: Data,
}

const LIBRARIES: Factor<Count> =
    Factor::new("libraries", "number of 1 MiB libraries that the application maps").default("4");

impl Defined for AppStartSpec {
    const NAME: &'static str = "app-start";
    const ABOUT: &'static str = "the start of an application";
    const SMALL: &'static str = "libraries = 1";
    const FACTORS: &'static [AnyFactor] = &[DATA.any(), FILES.any(), LIBRARIES.any(), REQUEST_BYTES.any()];

    fn of_point(point: &Point, _prepares: &mut dyn Prepares) -> Result<Self, Impossible> {
        let spec = AppStartSpec {
            files: point.of(&FILES)?,
            libraries: point.of(&LIBRARIES)?,
            request_bytes: point.of(&REQUEST_BYTES)?,
            data: point.of(&DATA)?,
        };
        spec.judge().map(|()| spec)
    }
}

impl FileWorkload for AppStartSpec {
    fn judge(&self) -> Result<(), Impossible> {
        if self.request_bytes == 0 {
            return Err(wrong(REQUEST_BYTES.name(), "reading 0 bytes does nothing".into(), "1 or more"));
        }
        if self.files.saturating_add(self.libraries) > u64::from(u32::MAX) {
            let why = format!("{} files are too many", self.files);
            return Err(wrong(FILES.name(), why, "below 4,294,967,296, with libraries"));
        }
        Ok(())
    }

    fn population(&self, seed: u64) -> Population {
        let (sizes, caches) = (Sizes::Application { libraries: self.libraries }, Caches::Cold);
        Population { files: self.files, file_bytes: SMALL_FILE_BYTES.1, data: self.data, seed, sizes, caches }
    }

    fn operations(&self, seed: u64) -> Box<dyn Iterator<Item = Operation>> {
        Box::new(app_start_operations(self, seed))
    }

    fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    fn writes(&self) -> bool {
        false
    }

    fn maps(&self) -> bool {
        self.libraries > 0
    }
}

/// A page of a mapping in bytes, the smallest that Linux has.
const PAGE_BYTES: u64 = 4096;

/// One of so many of a library's pages is touched.
const TOUCHED_SHARE: u64 = 4;

/// Operations of an `app-start` workload: all libraries are mapped; then each small file is opened, read whole and
/// closed, in the order of their numbers, and after each of them pages of the libraries are touched, drawn uniformly
/// with replacement. There are as many touches as a quarter of the libraries' pages, evenly spread over the files.
pub fn app_start_operations(spec: &AppStartSpec, seed: u64) -> impl Iterator<Item = Operation> + use<> {
    let files = spec.population(seed).list();
    let (small, libraries) = (spec.files, spec.libraries);
    let block = spec.request_bytes;
    let mut random = Random::labelled(seed, "touched pages");
    let pages = LIBRARY_BYTES / PAGE_BYTES;
    let touches = libraries * pages / TOUCHED_SHARE;
    let maps = (small..small + libraries).map(|n| Operation::Map { file: n as u32 });
    let rest = (0..small).flat_map(move |n| {
        let file = n as u32;
        let mut made = vec![Operation::Open { file, purpose: Purpose::Read }];
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

    fn spec(files: u64, libraries: u64) -> AppStartSpec {
        AppStartSpec { files, libraries, request_bytes: 4096, data: Data::Random }
    }

    #[test]
    fn every_small_file_is_read_whole_in_order_and_a_quarter_of_the_libraries_is_touched() {
        let spec = spec(100, 3);
        let files = spec.population(1).list();
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
        let text: String = app_start_operations(&spec(4, 1), 7).map(|o| crate::testing::text(&o)).collect();
        let digest =
            text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        assert_eq!(digest, 14517588482164862363);
        let without = app_start_operations(&spec(4, 0), 7);
        assert!(without.into_iter().all(|o| !matches!(o, Operation::Touch { .. } | Operation::Map { .. })));
    }

    #[test]
    fn reading_nothing_is_refused() {
        let start = AppStartSpec { request_bytes: 0, ..spec(3, 0) };
        assert!(start.check().unwrap_err().cure().unwrap().contains("request_bytes"));
        spec(3, 0).check().unwrap();
    }
}
