//! Sets of files as Filebench makes them: sizes and folders drawn once, some of the files there.

use crate::content::NewFile;
use crate::database::{Lognormal, gamma};
use pocketstone_core::random::Random;
use pocketstone_core::words;
use serde::{Deserialize, Serialize};

/// Shape of Filebench's gamma distributions: of sizes, and of the widths and depths of folders.
const SHAPE: f64 = 1.5;

/// Standard deviation of the logarithm of log-normal sizes, and the largest of them in bytes.
const SIGMA: f64 = 1.6;
const MOST_BYTES: u64 = 1 << 20;

words! {
    /// Distributions of sizes about their mean.
    Distribution {
        /// Gamma with the shape 1.5, Filebench's own.
        Gamma = "gamma",
        /// Log-normal with a standard deviation of the logarithm of 1.6, which has more large files; those above 1 MiB
        /// are drawn again.
        Lognormal = "lognormal",
    }
}

/// How a set of files is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSet {
    /// Distribution of sizes.
    pub distribution: Distribution,
    /// Mean number of files, or folders, of a folder; with as many as there are files, all lie in one folder.
    pub width: u64,
    /// Chance of a file to be there at the start, in per cent.
    pub present_per_cent: u64,
    /// Whether a log is beside them, which is always there.
    pub log: bool,
}

/// A set that is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The files by their numbers in the set, without the log.
    pub files: Vec<NewFile>,
    /// Whether each is there at the start.
    pub present: Vec<bool>,
    /// The log.
    pub log: Option<NewFile>,
    /// The folders that files lie in.
    pub folders: Vec<String>,
}

impl FileSet {
    /// The set of so many files of that mean size, in bytes.
    pub fn made(&self, files: u64, mean_bytes: u64, seed: u64) -> Made {
        let mut random = Random::labelled(seed, "file set");
        let (paths, folders) = self.paths(files, &mut random);
        let size = |random: &mut Random| self.size(mean_bytes, random);
        let files: Vec<NewFile> = paths.into_iter().map(|name| NewFile { name, bytes: size(&mut random) }).collect();
        let present = files.iter().map(|_| random.below(100) < self.present_per_cent).collect();
        let log = self.log.then(|| NewFile { name: "log".into(), bytes: size(&mut random) });
        Made { files, present, log, folders }
    }

    fn size(&self, mean_bytes: u64, random: &mut Random) -> u64 {
        match self.distribution {
            Distribution::Gamma => libm::round(gamma(mean_bytes as f64, SHAPE, random)) as u64,
            Distribution::Lognormal => {
                let sizes = Lognormal::new(mean_bytes, SIGMA);
                loop {
                    let bytes = sizes.draw(random);
                    if bytes <= MOST_BYTES {
                        return bytes;
                    }
                }
            }
        }
    }

    /// The files' paths and their folders. As in Filebench, the tree has a mean depth of ln(files) / ln(width); each
    /// folder draws its own greatest depth and its width, and has files where it lies as deep as that, otherwise
    /// folders. The root, at depth 1, has as many folders as it takes.
    fn paths(&self, files: u64, random: &mut Random) -> (Vec<String>, Vec<String>) {
        let files = files as usize;
        let (mut paths, mut folders) = (Vec::with_capacity(files), Vec::new());
        if self.width >= files as u64 {
            paths.extend((1..=files).map(|n| format!("set/{n:08}")));
            return (paths, vec!["set".into()]);
        }
        let (width, depth) = (self.width as f64, libm::log(files as f64) / libm::log(self.width as f64));
        let mut roots = 0;
        while paths.len() < files {
            roots += 1;
            // Folders that are still to be filled, with their depths.
            let mut open = vec![(format!("{roots:08}"), 2.0)];
            while let Some((folder, at)) = open.pop() {
                if paths.len() == files {
                    break;
                }
                let greatest = libm::floor(gamma(depth, SHAPE, random));
                let width = libm::round(gamma(width, SHAPE, random)).max(1.0) as usize;
                if at < greatest {
                    open.extend((1..=width).rev().map(|n| (format!("{folder}/{n:08}"), at + 1.0)));
                    continue;
                }
                let there = width.min(files - paths.len());
                paths.extend((1..=there).map(|n| format!("{folder}/{n:08}")));
                folders.push(folder);
            }
        }
        (paths, folders)
    }
}

impl Made {
    /// The numbers in the set of all files, those that are there first.
    pub fn order(&self) -> Vec<usize> {
        let those = |present: bool| (0..self.files.len()).filter(move |n| self.present[*n] == present);
        those(true).chain(those(false)).collect()
    }

    /// The files that are there, and the log behind them.
    pub fn there(&self) -> Vec<NewFile> {
        let present = self.order().into_iter().filter(|n| self.present[*n]);
        present.map(|n| self.files[n].clone()).chain(self.log.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(width: u64) -> FileSet {
        FileSet { distribution: Distribution::Gamma, width, present_per_cent: 80, log: false }
    }

    #[test]
    fn a_thousand_files_at_width_20_lie_in_some_fifty_folders() {
        let (mut folders, mut deep) = (0, 0);
        for seed in 0..200 {
            let made = set(20).made(1000, 16_384, seed);
            assert_eq!(made.files.len(), 1000);
            folders += made.folders.len();
            deep += made.files.iter().map(|file| file.name.matches('/').count()).sum::<usize>();
            let of = |file: &NewFile| file.name.rsplit_once('/').unwrap().0.to_owned();
            let those: std::collections::BTreeSet<String> = made.files.iter().map(of).collect();
            assert_eq!(those, made.folders.into_iter().collect());
        }
        // 20 in a folder on average, a little more as none has 0; the reference says "some 50".
        assert!((45..=53).contains(&(folders / 200)), "{}", folders / 200);
        // Seven of ten folders lie at depth 2, as their own greatest depth is below 3. A deep one has many beside it.
        let depth = deep as f64 / 200_000.0;
        assert!((1.5..3.5).contains(&depth), "mean number of folders above a file: {depth}");
        let flat = set(1_000_000).made(1000, 16_384, 1);
        assert_eq!((flat.folders, &flat.files[999].name[..]), (vec!["set".to_owned()], "set/00001000"));
    }

    #[test]
    fn four_of_five_are_there_and_have_the_first_numbers() {
        let made = FileSet { log: true, ..set(20) }.made(10_000, 16_384, 3);
        let there = made.there();
        // Standard deviation 40; five of them.
        assert!((there.len() as i64 - 8001).abs() <= 200, "{}", there.len());
        assert_eq!(there.last(), made.log.as_ref());
        let order = made.order();
        assert!(order.iter().zip(&there[..there.len() - 1]).all(|(number, file)| made.files[*number] == *file));
        assert_eq!(order.len(), 10_000);
    }

    #[test]
    fn log_normal_sizes_have_a_heavier_tail() {
        let sizes = |distribution| -> Vec<u64> {
            let made = FileSet { distribution, ..set(1 << 20) }.made(20_000, 16_384, 1);
            made.files.iter().map(|file| file.bytes).collect()
        };
        let above = |sizes: &[u64]| sizes.iter().filter(|bytes| **bytes > 131_072).count();
        let (gamma, lognormal) = (sizes(Distribution::Gamma), sizes(Distribution::Lognormal));
        // The reference: at most 0.05 %, and about 2 %.
        assert!(above(&gamma) <= 10 && (280..=440).contains(&above(&lognormal)), "{}", above(&lognormal));
        assert!(lognormal.iter().all(|bytes| *bytes <= 1 << 20));
    }
}
