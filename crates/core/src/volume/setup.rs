//! How a volume in memory is made, where that differs from the usual.

use super::{FileSystem, Medium, Volume};
use crate::{Error, Result, words};
use serde::{Deserialize, Serialize};

/// What is unusual about a volume in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// Its size in bytes; `None`: what the machine's memory suggests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// SCMFS: when files move to huge pages; `None`: its own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Threshold>,
    /// SCMFS: null files that it keeps ready; `None`: its own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub null_files: Option<u32>,
    /// SCMFS: whether the collector has a thread of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub collector: bool,
    /// ext4: whether what can go past the page cache does, by O_DIRECT.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub direct: bool,
    /// ext4: whether it is mounted without barriers, which keep the order of its writes on the disk.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_barriers: bool,
    /// Phase change memory: nanoseconds to read a line of 64 bytes; `None`: what the medium has by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcm_read_ns: Option<u64>,
    /// Phase change memory: nanoseconds to write a line of 64 bytes; `None`: what the medium has by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcm_write_ns: Option<u64>,
}

/// Slowest phase change memory that is simulated, in nanoseconds a line.
pub const MOST_PCM_NS: u64 = 1_000_000;

words! {
    /// The size beyond which a file of SCMFS moves to huge pages.
    Threshold {
        /// It never does.
        Never = "never",
        /// 128 KiB.
        Kib128 = "128KiB",
        /// 512 KiB.
        Kib512 = "512KiB",
        /// 2 MiB.
        Mib2 = "2MiB",
    }
}

impl Threshold {
    /// The size in bytes; `None`: never.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Threshold::Never => None,
            Threshold::Kib128 => Some(128 << 10),
            Threshold::Kib512 => Some(512 << 10),
            Threshold::Mib2 => Some(2 << 20),
        }
    }
}

impl Setup {
    /// Whether nothing is unusual.
    pub fn is_usual(&self) -> bool {
        *self == Setup::default()
    }

    /// Checks that the volume can be made so.
    ///
    /// # Errors
    /// `ErrorKind::User` if it is not in memory, is no SCMFS or ext4 where only that can, is to have a size and has
    /// none, or is not on phase change memory where only that has times, which have a limit.
    pub(super) fn check(&self, volume: &Volume) -> Result<()> {
        let name = volume.name();
        if !self.is_usual() && !volume.volatile() {
            let error = Error::user(format!("{name} is not made for the cell: it is as it is"));
            let hint =
                "omit volume_bytes, threshold, null_files, collector, pcm_read, pcm_write, direct and barriers for it";
            return Err(error.hint(hint));
        }
        if (self.direct || self.no_barriers) && volume.file_system != FileSystem::Ext4 {
            let error = Error::user(format!("{name} has neither O_DIRECT nor barriers of its own here"));
            return Err(error.hint("omit direct and barriers for it, or set file_system = \"ext4\""));
        }
        if self.bytes.is_some() && volume.file_system == FileSystem::Ramfs {
            let error = Error::user("ramfs has no size: it takes memory as long as there is any");
            return Err(error.hint("omit volume_bytes for it, or set file_system = \"tmpfs\""));
        }
        let line_ns = [self.pcm_read_ns, self.pcm_write_ns];
        if line_ns.iter().any(Option::is_some) && volume.medium != Medium::Pcm {
            let error = Error::user(format!("{name} is not on phase change memory, whose times are set"));
            return Err(error.hint("omit pcm_read and pcm_write for it, or set medium = \"pcm\""));
        }
        if let Some(ns) = line_ns.into_iter().flatten().find(|ns| *ns > MOST_PCM_NS) {
            let error = Error::user(format!("{ns} ns for a line of phase change memory are not simulated"));
            return Err(error.hint(format!("pcm_read and pcm_write must be at most {MOST_PCM_NS} ns")));
        }
        let of_scmfs = Setup { bytes: None, direct: false, no_barriers: false, ..self.clone() };
        if !of_scmfs.is_usual() && volume.file_system != FileSystem::Scmfs {
            let error = Error::user(format!("{name} has no threshold, null files or collector"));
            return Err(error.hint("omit threshold, null_files and collector for it"));
        }
        Ok(())
    }
}
