//! The files that a workload starts with: their names and sizes, from a seed.

use crate::database::Lognormal;
use crate::file_name;
use pocketstone_core::plan::{LIBRARY_BYTES, Population, SMALL_FILE_BYTES, Sizes};
use pocketstone_core::random::Random;

/// Mean of the log-normal sizes of an application's small files in bytes, before those outside the bounds are drawn
/// again, and the standard deviation of their logarithms.
const SMALL_FILE_MEAN_BYTES: u64 = 12 << 10;
const SMALL_FILE_SIGMA: f64 = 1.0;

/// Small files of an application that lie in one folder.
const FOLDER_FILES: u64 = 32;

/// A file of a population.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Its name; a folder's name stands before a slash.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The files of a population, in the order of their numbers.
pub fn population_files(population: &Population) -> Vec<NewFile> {
    let mut random = Random::labelled(population.seed, "file sizes");
    let named = |number: u64, bytes| NewFile { name: file_name(number as u32), bytes };
    let numbers = 0..population.files;
    match population.sizes {
        Sizes::Same => numbers.map(|n| named(n, population.file_bytes)).collect(),
        Sizes::Uniform { least_bytes } => {
            let choices = population.file_bytes - least_bytes + 1;
            numbers.map(|n| named(n, least_bytes + random.below(choices))).collect()
        }
        Sizes::Application { libraries } => {
            let sizes = Lognormal::new(SMALL_FILE_MEAN_BYTES, SMALL_FILE_SIGMA);
            let (least, most) = SMALL_FILE_BYTES;
            let mut size = || loop {
                let bytes = sizes.draw(&mut random);
                if (least..=most).contains(&bytes) {
                    return bytes;
                }
            };
            let small = numbers.map(|n| NewFile { name: in_folder(n), bytes: size() });
            let library = |n| NewFile { name: format!("lib/library-{n:02}"), bytes: LIBRARY_BYTES };
            let mut files: Vec<NewFile> = small.collect();
            files.extend((0..libraries).map(library));
            files
        }
    }
}

fn in_folder(number: u64) -> String {
    format!("part-{:04}/{}", number / FOLDER_FILES, file_name(number as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_core::plan::Data;

    fn population(files: u64, sizes: Sizes) -> Population {
        Population { files, file_bytes: 10_000, data: Data::Random, seed: 3, sizes }
    }

    #[test]
    fn uniform_sizes_have_both_bounds_and_the_mean_between_them() {
        let files = population_files(&population(2000, Sizes::Uniform { least_bytes: 500 }));
        let sizes: Vec<u64> = files.iter().map(|f| f.bytes).collect();
        assert!(sizes.iter().all(|s| (500..=10_000).contains(s)));
        // Mean (500 + 10000) / 2 = 5250; standard deviation of the mean 9500 / sqrt(12 * 2000) = 61; five of them.
        let mean = sizes.iter().sum::<u64>() / 2000;
        assert!((4943..=5557).contains(&mean), "{mean}");
        let two = population(200, Sizes::Uniform { least_bytes: 9_999 });
        assert!([9_999, 10_000].iter().all(|s| population_files(&two).iter().any(|f| f.bytes == *s)));
    }

    #[test]
    fn an_application_has_small_files_in_folders_and_libraries() {
        let files = population_files(&population(2000, Sizes::Application { libraries: 2 }));
        assert_eq!(files.len(), 2002);
        assert_eq!(
            (files[31].name.as_str(), files[32].name.as_str()),
            ("part-0000/file-00000031", "part-0001/file-00000032")
        );
        assert_eq!(files[2001], NewFile { name: "lib/library-01".into(), bytes: 1 << 20 });
        let mut small: Vec<u64> = files[..2000].iter().map(|f| f.bytes).collect();
        small.sort_unstable();
        assert!(small[0] >= 1 << 10 && small[1999] <= 64 << 10);
        // A mean of 12 KiB and sigma 1: the median is 12288 / exp(0.5) = 7453. Cut at 1 and 64 KiB, which are 1.985
        // sigma below and 2.174 above it, the mass 0.0236 and 0.0149 falls away: the median moves to the quantile
        // 0.0236 + 0.9615 / 2 = 0.5044, 7453 exp(0.0109) = 7535. Its standard deviation in 2,000 is
        // 7535 sqrt(pi / 2 / 2000) = 211; five of them.
        assert!((6480..=8590).contains(&small[1000]), "{}", small[1000]);
    }

    #[test]
    fn sizes_come_from_the_seed_and_more_files_do_not_change_the_first() {
        let some = population_files(&population(10, Sizes::Application { libraries: 1 }));
        let more = population_files(&population(20, Sizes::Application { libraries: 1 }));
        assert_eq!(some[..10], more[..10]);
        let other = Population { seed: 4, ..population(10, Sizes::Application { libraries: 1 }) };
        assert_ne!(some, population_files(&other));
        let same = population_files(&population(2, Sizes::Same));
        assert_eq!(same[1], NewFile { name: "file-00000001".into(), bytes: 10_000 });
    }
}
