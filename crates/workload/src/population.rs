//! The files that a workload starts with: their names, sizes and contents, from a seed.

use crate::content::{Content, Data, NewFile, filler_bytes};
use crate::database::Lognormal;
use crate::fileset::FileSet;
use crate::tree::Tree;
use pocketstone_core::random::Random;
use serde::{Deserialize, Serialize};

/// Libraries of an application have this many bytes each.
pub const LIBRARY_BYTES: u64 = 1 << 20;

/// Smallest and largest of an application's small files, in bytes.
pub const SMALL_FILE_BYTES: (u64, u64) = (1 << 10, 64 << 10);

/// Mean of the log-normal sizes of an application's small files in bytes, before those outside the bounds are drawn
/// again, and the standard deviation of their logarithms.
const SMALL_FILE_MEAN_BYTES: u64 = 12 << 10;
const SMALL_FILE_SIGMA: f64 = 1.0;

/// Small files of an application that lie in one folder.
const FOLDER_FILES: u64 = 32;

/// Name of the file of [`Sizes::Target`], in the volume's root directory.
pub const TARGET_FILE: &str = "target";

/// Name of the file that is written before it, so that it does not begin at the medium's first byte.
pub const FILLER_FILE: &str = "filler";

/// Name of the folder that all other populations have for themselves, in the volume's root directory.
pub const FILES_FOLDER: &str = "pocketstone-files";

/// Name of a file in the folder.
pub fn file_name(file: u32) -> String {
    format!("file-{file:08}")
}

/// Name of a directory that a workload makes in the folder.
pub fn directory_name(directory: u32) -> String {
    format!("directory-{directory:08}")
}

/// Files to prepare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Population {
    /// How many; an application's libraries are not counted.
    pub files: u64,
    /// Size of each in bytes, or the largest one.
    pub file_bytes: u64,
    /// Their contents.
    pub data: Data,
    /// Seed of their sizes and content.
    pub seed: u64,
    /// Whether and how their sizes differ.
    #[serde(default)]
    pub sizes: Sizes,
    /// The state of the kernel's caches before the first operation.
    pub caches: Caches,
}

/// Sizes of the files of a population.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "sizes", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Sizes {
    /// All have `file_bytes`.
    #[default]
    Same,
    /// One file of `file_bytes`, [`TARGET_FILE`], behind a filler of random size.
    Target,
    /// Uniform from `least_bytes` to `file_bytes`, both included.
    Uniform {
        /// Smallest size in bytes.
        least_bytes: u64,
    },
    /// An application's: small files in folders, log-normal between the bounds [`SMALL_FILE_BYTES`], and libraries
    /// of [`LIBRARY_BYTES`] bytes.
    Application {
        /// Number of libraries, after the small files.
        libraries: u64,
    },
    /// As an application's small files, but in one folder, and divided by a number.
    Small {
        /// The number.
        divided_by: u64,
    },
    /// The files of a set that are there: `files` is how many the set has in all, `file_bytes` their mean size.
    Set(FileSet),
    /// All have `file_bytes` and lie in the folders of a tree, which are all there, with files or without.
    Tree {
        /// The tree.
        tree: Tree,
    },
    /// Each its own name and size.
    Listed {
        /// The files, as many as `files` says.
        list: Vec<NewFile>,
    },
}

pocketstone_core::words! {
    /// The state of the kernel's caches before the first operation.
    Caches {
        /// Everything: names, inodes and pages.
        Warm = "warm",
        /// Names and inodes, but no page.
        ColdPages = "cold-pages",
        /// Nothing, as after the machine's start.
        Cold = "cold",
    }
}

impl Population {
    /// The folder that they lie in, within the volume; `None`: its root directory.
    pub fn folder(&self) -> Option<&'static str> {
        (self.sizes != Sizes::Target).then_some(FILES_FOLDER)
    }

    /// The file that is written before all others, with its content.
    pub fn filler(&self) -> Option<(NewFile, Content)> {
        let filler = || NewFile { name: FILLER_FILE.into(), bytes: filler_bytes(self.seed) };
        (self.sizes == Sizes::Target).then(|| (filler(), Content::new(Data::Random, self.seed ^ 1)))
    }

    /// The contents of the files, in the order of their numbers.
    pub fn contents(&self) -> impl Iterator<Item = Content> + use<> {
        // One stream for each file: the number of files does not change what the first of them hold.
        let mut seeds = Random::labelled(self.seed, "population");
        let (data, own) = (self.data, (self.sizes == Sizes::Target).then_some(self.seed));
        std::iter::repeat_with(move || Content::new(data, own.unwrap_or_else(|| seeds.next_u64())))
    }

    /// Bytes of one write that makes a file, and whether each file is made durable before the next is begun.
    pub fn writing(&self) -> (usize, bool) {
        if self.sizes == Sizes::Target { (64 << 10, true) } else { (1 << 20, false) }
    }

    /// The files, in the order of their numbers.
    pub fn list(&self) -> Vec<NewFile> {
        let mut random = Random::labelled(self.seed, "file sizes");
        let named = |number: u64, bytes| NewFile { name: file_name(number as u32), bytes };
        let numbers = 0..self.files;
        match &self.sizes {
            Sizes::Same => numbers.map(|n| named(n, self.file_bytes)).collect(),
            Sizes::Target => vec![NewFile { name: TARGET_FILE.into(), bytes: self.file_bytes }],
            Sizes::Tree { tree } => {
                let path = |n| tree.path(n, &file_name(n as u32));
                numbers.map(|n| NewFile { name: path(n), bytes: self.file_bytes }).collect()
            }
            Sizes::Uniform { least_bytes } => {
                let choices = self.file_bytes - *least_bytes + 1;
                numbers.map(|n| named(n, *least_bytes + random.below(choices))).collect()
            }
            Sizes::Set(set) => set.made(self.files, self.file_bytes, self.seed).there(),
            Sizes::Small { divided_by } => numbers.map(|n| named(n, small_size(&mut random) / divided_by)).collect(),
            Sizes::Application { libraries } => {
                let small = numbers.map(|n| NewFile { name: in_folder(n), bytes: small_size(&mut random) });
                let library = |n| NewFile { name: format!("lib/library-{n:02}"), bytes: LIBRARY_BYTES };
                let mut files: Vec<NewFile> = small.collect();
                files.extend((0..*libraries).map(library));
                files
            }
            Sizes::Listed { list } => list.clone(),
        }
    }

    /// Folders that are there whether files lie in them or not; others are there for their files.
    pub fn folders(&self) -> Vec<String> {
        match self.sizes {
            Sizes::Tree { tree } => tree.folders().collect(),
            Sizes::Set(set) => set.made(self.files, self.file_bytes, self.seed).folders,
            Sizes::Same | Sizes::Target | Sizes::Uniform { .. } => Vec::new(),
            Sizes::Application { .. } | Sizes::Small { .. } | Sizes::Listed { .. } => Vec::new(),
        }
    }

    /// Bytes of all files together.
    pub fn bytes(&self) -> u64 {
        match self.sizes {
            Sizes::Same | Sizes::Target | Sizes::Tree { .. } => self.files.saturating_mul(self.file_bytes),
            Sizes::Uniform { .. }
            | Sizes::Application { .. }
            | Sizes::Small { .. }
            | Sizes::Set(_)
            | Sizes::Listed { .. } => self.list().iter().fold(0, |sum: u64, file| sum.saturating_add(file.bytes)),
        }
    }
}

/// Size of one of an application's small files in bytes.
fn small_size(random: &mut Random) -> u64 {
    let sizes = Lognormal::new(SMALL_FILE_MEAN_BYTES, SMALL_FILE_SIGMA);
    let (least, most) = SMALL_FILE_BYTES;
    loop {
        let bytes = sizes.draw(random);
        if (least..=most).contains(&bytes) {
            return bytes;
        }
    }
}

fn in_folder(number: u64) -> String {
    format!("part-{:04}/{}", number / FOLDER_FILES, file_name(number as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn population(files: u64, sizes: Sizes) -> Population {
        Population { files, file_bytes: 10_000, data: Data::Random, seed: 3, sizes, caches: Caches::Warm }
    }

    #[test]
    fn uniform_sizes_have_both_bounds_and_the_mean_between_them() {
        let files = population(2000, Sizes::Uniform { least_bytes: 500 }).list();
        let sizes: Vec<u64> = files.iter().map(|f| f.bytes).collect();
        assert!(sizes.iter().all(|s| (500..=10_000).contains(s)));
        // Mean (500 + 10000) / 2 = 5250; standard deviation of the mean 9500 / sqrt(12 * 2000) = 61; five of them.
        let mean = sizes.iter().sum::<u64>() / 2000;
        assert!((4943..=5557).contains(&mean), "{mean}");
        let two = population(200, Sizes::Uniform { least_bytes: 9_999 });
        assert!([9_999, 10_000].iter().all(|s| two.list().iter().any(|f| f.bytes == *s)));
    }

    #[test]
    fn an_application_has_small_files_in_folders_and_libraries() {
        let files = population(2000, Sizes::Application { libraries: 2 }).list();
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
        let some = population(10, Sizes::Application { libraries: 1 }).list();
        let more = population(20, Sizes::Application { libraries: 1 }).list();
        assert_eq!(some[..10], more[..10]);
        let other = Population { seed: 4, ..population(10, Sizes::Application { libraries: 1 }) };
        assert_ne!(some, other.list());
        let same = population(2, Sizes::Same).list();
        assert_eq!(same[1], NewFile { name: "file-00000001".into(), bytes: 10_000 });
    }
}
