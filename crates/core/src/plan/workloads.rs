//! Workloads on many files of different sizes, and how a file's requests are made.

use super::{Data, Population};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Libraries of an application have this many bytes each.
pub const LIBRARY_BYTES: u64 = 1 << 20;

/// Smallest and largest of an application's small files, in bytes.
pub const SMALL_FILE_BYTES: (u64, u64) = (1 << 10, 64 << 10);

/// How the requests of a `read` workload get at the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// By read().
    #[default]
    Read,
    /// By touching each page of a mapping of the whole file: a page that is not there is a page fault.
    Mmap,
}

impl Access {
    /// Whether it is what it is where nothing is said.
    pub fn is_default(&self) -> bool {
        *self == Access::Read
    }
}

/// Which call asks the kernel, before the first request, for all that the requests will read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefetch {
    /// None.
    #[default]
    None,
    /// readahead(2).
    Readahead,
    /// posix_fadvise(POSIX_FADV_WILLNEED).
    Willneed,
    /// madvise(MADV_WILLNEED) on a mapping.
    Madvise,
}

impl Prefetch {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        *self == Prefetch::None
    }
}

/// Sizes of the files of a population.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "sizes", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Sizes {
    /// All have `file_bytes`.
    #[default]
    Same,
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
}

impl Sizes {
    /// Whether all files have the same size.
    pub fn is_same(&self) -> bool {
        *self == Sizes::Same
    }
}

/// The `postmark` workload: the transactions of PostMark (Katcher, "PostMark: a new file system benchmark", TR3022,
/// Network Appliance, 1997) as version 1.5 makes them. Each is two operations: one file is read whole or appended to,
/// then one is created or deleted. Every file that is read is read from the medium: the page cache has nothing of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostmarkSpec {
    /// Files before the first transaction.
    pub files: u64,
    /// Smallest size of a file in bytes.
    pub least_file_bytes: u64,
    /// Largest size of a file in bytes.
    pub file_bytes: u64,
    /// Number of transactions.
    pub transactions: u64,
    /// Bytes that one read() or write() moves.
    pub request_bytes: u64,
    /// What the files hold.
    pub data: Data,
}

impl PostmarkSpec {
    /// The files that there are before the first transaction.
    pub fn population(&self, seed: u64) -> Population {
        let sizes = Sizes::Uniform { least_bytes: self.least_file_bytes };
        Population { files: self.files, file_bytes: self.file_bytes, data: self.data, seed, sizes }
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// When sizes contradict each other or numbers are too large.
    pub fn check(&self) -> Result<()> {
        let PostmarkSpec { files, least_file_bytes, file_bytes, transactions, request_bytes, .. } = *self;
        if !(1..=file_bytes).contains(&least_file_bytes) {
            return Err(Error::user(format!("no file has from {least_file_bytes} to {file_bytes} bytes"))
                .hint("least_file_bytes must be from 1 to file_bytes"));
        }
        if request_bytes == 0 {
            return Err(Error::user("reading 0 bytes does nothing").hint("request_bytes must be 1 or more"));
        }
        if files == 0 || files.saturating_add(transactions) > u64::from(u32::MAX) {
            return Err(Error::user(format!("{files} files and {transactions} transactions cannot be"))
                .hint("files must be 1 or more, and both together below 4,294,967,296"));
        }
        Ok(())
    }
}

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
    /// What the files hold.
    pub data: Data,
}

impl AppStartSpec {
    /// The application's files.
    pub fn population(&self, seed: u64) -> Population {
        let sizes = Sizes::Application { libraries: self.libraries };
        Population { files: self.files, file_bytes: SMALL_FILE_BYTES.1, data: self.data, seed, sizes }
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// When there is nothing to read.
    pub fn check(&self) -> Result<()> {
        if self.request_bytes == 0 {
            return Err(Error::user("reading 0 bytes does nothing").hint("request_bytes must be 1 or more"));
        }
        if self.files.saturating_add(self.libraries) > u64::from(u32::MAX) {
            return Err(Error::user(format!("{} files are too many", self.files)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_postmark_must_fit_each_other() {
        let good = PostmarkSpec {
            files: 5,
            least_file_bytes: 500,
            file_bytes: 10_000,
            transactions: 5,
            request_bytes: 512,
            data: Data::Random,
        };
        good.check().unwrap();
        let cure = |spec: PostmarkSpec| spec.check().unwrap_err().cure().unwrap().to_owned();
        assert!(cure(PostmarkSpec { least_file_bytes: 10_001, ..good.clone() }).contains("least_file_bytes"));
        assert!(cure(PostmarkSpec { least_file_bytes: 0, ..good.clone() }).contains("from 1"));
        assert!(cure(PostmarkSpec { request_bytes: 0, ..good.clone() }).contains("request_bytes"));
        assert!(cure(PostmarkSpec { files: u64::MAX, ..good }).contains("files"));
        let start = AppStartSpec { files: 3, libraries: 0, request_bytes: 0, data: Data::Random };
        assert!(start.check().unwrap_err().cure().unwrap().contains("request_bytes"));
        AppStartSpec { request_bytes: 1, ..start }.check().unwrap();
    }
}
