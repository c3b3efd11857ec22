//! The `read` workload's plans under the rules.

use super::{Advice, MapAdvice, Observed, PAGE_BYTES, Reader, Request, Rules, Setting, Work};
use pocketstone_core::outcome::ReadAheadInForce;
use pocketstone_core::volume::FileSystem;
use pocketstone_workload::{Operation, ReadAccess, ReadSpec, read_operations};

/// What matters of a file system and its medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Medium {
    /// The backing device's best transfer in pages.
    pub io_pages: u64,
    /// Entries of a node of the file system's index, where that is read from the medium, too.
    pub fan_out: Option<u64>,
}

/// What a plan's calls make the file system do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanWork {
    /// The call before the first request, if any.
    pub prefetch: Work,
    /// The requests.
    pub calls: Vec<Work>,
    /// All pages that are read from the medium, in order, where all reads are of one file.
    pub pages: Vec<u64>,
}

impl PlanWork {
    /// What the requests do together.
    pub fn in_calls(&self) -> Work {
        self.calls.iter().copied().sum()
    }

    /// All of it.
    pub fn total(&self) -> Work {
        self.prefetch + self.in_calls()
    }

    /// The pages that the requests read.
    pub fn pages_in_calls(&self) -> &[u64] {
        self.pages.get(self.prefetch.pages as usize..).unwrap_or_default()
    }

    /// Each request with what it cost.
    pub fn observed(&self, values: impl IntoIterator<Item = f64>) -> Vec<Observed> {
        let mut pages = self.pages_in_calls().iter().copied();
        let calls = self.calls.iter().zip(values).map(|(&work, value)| {
            let read = pages.by_ref().take(work.pages as usize);
            let page = read.last().filter(|_| work.pages == 1);
            Observed { work, page, value }
        });
        calls.collect()
    }
}

impl Medium {
    /// That of a file system whose page reads are served one by one, inside the call; `None` for all others, of
    /// which the model says nothing.
    ///
    /// JFFS2 and UBIFS set the best transfer of their backing device to 0. JFFS2 has its index in memory, UBIFS on
    /// the chip in nodes of 8 (its default fan-out).
    pub fn of(file_system: FileSystem) -> Option<Medium> {
        match file_system {
            FileSystem::Jffs2 => Some(Medium { io_pages: 0, fan_out: None }),
            FileSystem::Ubifs => Some(Medium { io_pages: 0, fan_out: Some(8) }),
            _ => None,
        }
    }

    /// The setting that was in force in a run; `None` where it is not known.
    pub fn setting(&self, in_force: &ReadAheadInForce) -> Option<Setting> {
        let advice = if in_force.advice == "random" { Advice::Random } else { Advice::Normal };
        Some(Setting { mount_pages: in_force.bytes? / PAGE_BYTES, io_pages: self.io_pages, advice })
    }

    /// What a `read` workload's calls do under rules and a setting.
    pub fn work(&self, spec: &ReadSpec, seed: u64, rules: Rules, setting: Setting) -> PlanWork {
        let mut reader = Reader::cold(rules, setting, spec.file_bytes, self.fan_out);
        // A mapping gets its advice by madvise(), which says nothing to the open file.
        let mut mapping = (spec.access == ReadAccess::Mmap).then(|| match setting.advice {
            Advice::Random => reader.map(MapAdvice::Random),
            Advice::Normal | Advice::Sequential => reader.map(MapAdvice::Normal),
        });
        let (mut prefetch, mut calls) = (Work::default(), Vec::with_capacity(spec.requests as usize));
        let mut pages = Vec::new();
        let take = &mut |page| pages.push(page);
        for operation in read_operations(spec, seed) {
            match operation {
                Operation::Read { offset, bytes, .. } => {
                    let request = Request { offset, bytes };
                    calls.push(match &mut mapping {
                        Some(mapping) => reader.touch(mapping, request, take),
                        None => reader.read_pages(request, take),
                    });
                }
                Operation::Prefetch { offset, bytes, .. } => {
                    prefetch += reader.will_need(Request { offset, bytes }, take);
                }
                _ => {}
            }
        }
        PlanWork { prefetch, calls, pages }
    }
}
