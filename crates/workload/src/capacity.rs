//! What fits a volume.

use crate::database::Prepares;
use crate::definition::{Defined, FileWorkload};
use crate::factor::{AnyFactor, Impossible, Point, wrong};
use crate::factors::{DATA, FILE_BYTES, FILES, REQUEST_BYTES};
use crate::metrics::{Ran, Values};
use crate::population::{Caches, Population, Sizes};
use crate::{Data, Operation, Purpose};
use pocketstone_core::Result;
use pocketstone_core::metric::{Better, Metric, Source, Unit, metric};
use serde::{Deserialize, Serialize};

/// The `capacity` workload: fills a volume with files of one size, until it has no room or all files have theirs. They
/// are there from the start, empty, so that nothing but their content is missing at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacitySpec {
    /// Most files.
    pub files: u64,
    /// Size of each in bytes.
    pub file_bytes: u64,
    /// Bytes of a call.
    pub request_bytes: u64,
    /// What is written.
    pub data: Data,
}

const FILLED_BYTES: Metric =
    metric("filled_bytes", Unit::Bytes, Better::More, Source::Calls, "bytes that fit the volume");
const FILLED_FILES: Metric =
    metric("filled_files", Unit::Count, Better::More, Source::Calls, "whole files that fit the volume");

impl Defined for CapacitySpec {
    const NAME: &'static str = "capacity";
    const ABOUT: &'static str = "files of one size, as many as fit the volume";
    const SMALL: &'static str = "files = 4\nfile_bytes = '64KiB'";
    const MAY_BE_COLD: bool = false;
    const METRICS: &'static [Metric] = &[FILLED_BYTES, FILLED_FILES];
    const FACTORS: &'static [AnyFactor] = &[DATA.any(), FILES.any(), FILE_BYTES.any(), REQUEST_BYTES.any()];

    fn of_point(point: &Point, _prepares: &mut dyn Prepares) -> Result<Self, Impossible> {
        let spec = CapacitySpec {
            files: point.of(&FILES)?,
            file_bytes: point.of(&FILE_BYTES)?,
            request_bytes: point.of(&REQUEST_BYTES)?,
            data: point.of(&DATA)?,
        };
        spec.judge().map(|()| spec)
    }
}

impl FileWorkload for CapacitySpec {
    fn judge(&self) -> Result<(), Impossible> {
        let CapacitySpec { files, file_bytes, request_bytes, .. } = *self;
        for (factor, bytes) in [(FILE_BYTES.name(), file_bytes), (REQUEST_BYTES.name(), request_bytes)] {
            if bytes == 0 {
                return Err(wrong(factor, format!("`{factor}` of 0 fills nothing"), "1 or more"));
            }
        }
        match (1..=10_000_000).contains(&files) {
            true => Ok(()),
            false => Err(wrong(FILES.name(), format!("{files} files are not supported"), "from 1 to 10000000")),
        }
    }

    fn population(&self, seed: u64) -> Population {
        let (sizes, caches) = (Sizes::Same, Caches::Warm);
        Population { files: self.files, file_bytes: 0, data: self.data, seed, sizes, caches }
    }

    fn operations(&self, _seed: u64) -> Box<dyn Iterator<Item = Operation>> {
        let bytes = self.file_bytes;
        let of_file = move |file| {
            let open = Operation::Open { file, purpose: Purpose::Append };
            [open, Operation::Fill { file, bytes }, Operation::Close { file }]
        };
        Box::new((0..self.files as u32).flat_map(of_file))
    }

    fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    /// Bytes that fitted, and the whole files they are: the last file may have a part of its size.
    fn metrics(&self, ran: &Ran<'_>) -> Values {
        let Some(bytes) = ran.filled_bytes else { return Values::new() };
        let files = bytes / self.file_bytes;
        vec![(FILLED_BYTES.name, Some(bytes as f64)), (FILLED_FILES.name, Some(files as f64))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_filled_once() {
        let spec = CapacitySpec { files: 2, file_bytes: 2 << 20, request_bytes: 4096, data: Data::Random };
        let of = |file| {
            let open = Operation::Open { file, purpose: Purpose::Append };
            [open, Operation::Fill { file, bytes: 2 << 20 }, Operation::Close { file }]
        };
        assert_eq!(spec.operations(1).collect::<Vec<_>>(), [of(0), of(1)].concat());
        assert_eq!((spec.population(1).files, spec.population(1).bytes()), (2, 0));
        let cure = |spec: CapacitySpec| spec.check().unwrap_err().cure().unwrap().to_owned();
        assert!(cure(CapacitySpec { file_bytes: 0, ..spec.clone() }).contains("1 or more"));
        assert!(cure(CapacitySpec { files: 10_000_001, ..spec }).contains("from 1 to 10000000"));
    }

    #[test]
    fn what_fits_is_counted_in_whole_files() {
        let spec = CapacitySpec { files: 9, file_bytes: 1000, request_bytes: 100, data: Data::Random };
        let found = |filled_bytes| spec.metrics(&Ran { seed: 1, calls: &[], filled_bytes });
        assert_eq!(found(Some(3999)), [("filled_bytes", Some(3999.0)), ("filled_files", Some(3.0))]);
        assert!(found(None).is_empty());
    }
}
