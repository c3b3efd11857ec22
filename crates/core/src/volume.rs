//! Volumes: which file system, on which medium, and by which way programs get at it.

mod setup;

pub use setup::{MOST_PCM_NS, Setup, Threshold};

use crate::database::DatabaseEngine;
use crate::words::choices;
use crate::{Error, Result, words};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A volume under test: file system, medium and access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Volume {
    /// Which file system.
    pub file_system: FileSystem,
    /// Its medium.
    pub medium: Medium,
    /// How programs get at it.
    pub access: Access,
    /// Mount options, as `mount -o` takes them.
    pub options: Vec<String>,
    /// The directory to work in, on [`Medium::Directory`].
    pub directory: Option<PathBuf>,
    /// How it is made, where that differs from the usual.
    #[serde(skip_serializing_if = "Setup::is_usual")]
    pub setup: Setup,
}

words! {
    /// File systems that a volume can have.
    FileSystem {
        /// Any, on whatever a directory is on.
        Directory = "directory",
        /// JFFS2.
        Jffs2 = "jffs2",
        /// UBIFS.
        Ubifs = "ubifs",
        /// YAFFS2, by this project's library.
        Yaffs2 = "yaffs2",
        /// No content at all, to measure the cost of the access path: one file that reads as zeros, or in memory names
        /// and sizes.
        Null = "null",
        /// SquashFS, read-only.
        Squashfs = "squashfs",
        /// SCMFS, by this project's library.
        Scmfs = "scmfs",
        /// tmpfs.
        Tmpfs = "tmpfs",
        /// ramfs: as tmpfs, without a size, and never swapped.
        Ramfs = "ramfs",
        /// ext2, by the kernel's ext4 driver.
        Ext2 = "ext2",
        /// ext3, by the kernel's ext4 driver.
        Ext3 = "ext3",
        /// ext4.
        Ext4 = "ext4",
        /// F2FS.
        F2fs = "f2fs",
        /// btrfs.
        Btrfs = "btrfs",
        /// exFAT.
        Exfat = "exfat",
    }
}

words! {
    /// The medium of a file system.
    Medium {
        /// A directory that is there already.
        Directory = "directory",
        /// Nothing at all.
        None = "none",
        /// Raw NAND flash: an MTD device. A block device on it is mtdblock.
        Mtd = "mtd",
        /// A UBI volume that fills an MTD device. A block device on it is ubiblock.
        Ubi = "ubi",
        /// A block device of the board: managed flash.
        Block = "block",
        /// A block device in memory: a loop device on a file in a tmpfs.
        RamDisk = "ram-disk",
        /// A file in a tmpfs, with huge pages if the kernel supports them.
        Tmpfs = "tmpfs",
        /// A tmpfs with small pages alone, as it is mounted usually.
        SmallPages = "small-pages",
        /// The kernel's page cache alone.
        PageCache = "page-cache",
        /// A file in a hugetlbfs.
        Hugetlbfs = "hugetlbfs",
        /// Memory of the process that serves it. For raw NAND: a simulated chip in it.
        Anonymous = "anonymous",
        /// Simulated phase change memory: each line read or written takes its time, and its wear is counted.
        Pcm = "pcm",
    }
}

words! {
    /// How programs get at a volume.
    Access {
        /// By the kernel's own file system.
        Kernel = "kernel",
        /// By a FUSE mount.
        Fuse = "fuse",
        /// By a FUSE mount, with a library that is loaded before programs and reaches what files contain without the
        /// kernel.
        Preload = "preload",
        /// By calls of the library, in the process that measures.
        InProcess = "in-process",
    }
}

impl Medium {
    /// Whether its contents live only as long as the process that created it.
    pub fn volatile(self) -> bool {
        match self {
            Medium::Directory | Medium::None | Medium::Mtd | Medium::Ubi | Medium::Block => false,
            Medium::RamDisk | Medium::Tmpfs | Medium::SmallPages | Medium::PageCache => true,
            Medium::Hugetlbfs | Medium::Anonymous | Medium::Pcm => true,
        }
    }
}

impl FileSystem {
    /// Whether it reserves space for a file that is to be written, by fallocate(2) where the kernel has it.
    pub fn reserves_space(self) -> bool {
        match self {
            FileSystem::Directory | FileSystem::Ext4 | FileSystem::F2fs | FileSystem::Btrfs => true,
            FileSystem::Scmfs | FileSystem::Tmpfs => true,
            FileSystem::Jffs2 | FileSystem::Ubifs | FileSystem::Yaffs2 | FileSystem::Exfat => false,
            FileSystem::Ext2 | FileSystem::Ext3 | FileSystem::Squashfs => false,
            FileSystem::Ramfs | FileSystem::Null => false,
        }
    }

    /// The media that it can lie on, the usual one first.
    pub fn media(self) -> &'static [Medium] {
        match self {
            FileSystem::Directory => &[Medium::Directory],
            FileSystem::Jffs2 => &[Medium::Mtd],
            FileSystem::Ubifs => &[Medium::Ubi],
            FileSystem::Yaffs2 => &[Medium::Mtd, Medium::Anonymous],
            FileSystem::Null => &[Medium::None, Medium::Anonymous],
            FileSystem::Squashfs => &[Medium::Mtd, Medium::Ubi],
            FileSystem::Scmfs => &[Medium::Tmpfs, Medium::Hugetlbfs, Medium::Anonymous, Medium::Pcm],
            FileSystem::Tmpfs => &[Medium::Tmpfs, Medium::SmallPages],
            FileSystem::Ramfs => &[Medium::PageCache],
            FileSystem::Ext2 | FileSystem::Ext3 => &[Medium::RamDisk],
            FileSystem::Ext4 => &[Medium::RamDisk, Medium::Block],
            FileSystem::F2fs | FileSystem::Btrfs | FileSystem::Exfat => &[Medium::Block],
        }
    }

    /// The ways that programs can get at it, the usual one first.
    pub fn accesses(self) -> &'static [Access] {
        match self {
            FileSystem::Directory | FileSystem::Jffs2 | FileSystem::Ubifs => &[Access::Kernel],
            FileSystem::Squashfs | FileSystem::Tmpfs | FileSystem::Ramfs => &[Access::Kernel],
            FileSystem::Ext2 | FileSystem::Ext3 | FileSystem::Ext4 => &[Access::Kernel],
            FileSystem::F2fs | FileSystem::Btrfs | FileSystem::Exfat => &[Access::Kernel],
            FileSystem::Yaffs2 => &[Access::Fuse, Access::InProcess],
            FileSystem::Null => &[Access::Fuse],
            FileSystem::Scmfs => &[Access::InProcess, Access::Fuse, Access::Preload],
        }
    }
}

/// Names of volumes that earlier versions had, and what they are called now.
const FORMER: [(&str, &str); 3] =
    [("null-fuse", "null"), ("squashfs-mtdblock", "squashfs"), ("squashfs-ubiblock", "squashfs-ubi")];

impl Volume {
    /// A file system on its usual medium, reached in its usual way.
    pub fn usual(file_system: FileSystem) -> Volume {
        let (medium, access) = (file_system.media()[0], file_system.accesses()[0]);
        Volume { file_system, medium, access, options: Vec::new(), directory: None, setup: Setup::default() }
    }

    /// Every volume that can be, without options, in the order they are shown.
    pub fn all() -> Vec<Volume> {
        let of = |file_system: FileSystem| {
            file_system.accesses().iter().flat_map(move |&access| {
                let on = move |&medium| Volume { medium, access, ..Volume::usual(file_system) };
                file_system.media().iter().map(on)
            })
        };
        FileSystem::ALL.into_iter().flat_map(of).filter(|volume| volume.check().is_ok()).collect()
    }

    /// Its name: the file system, followed by medium and access if they are not the defaults: `scmfs-pcm`,
    /// `scmfs-hugetlbfs-fuse`.
    pub fn name(&self) -> String {
        let Volume { file_system, medium, access, .. } = self;
        let mut name = file_system.name().to_owned();
        for (word, usual) in
            [(medium.name(), file_system.media()[0].name()), (access.name(), file_system.accesses()[0].name())]
        {
            if word != usual {
                name += "-";
                name += word;
            }
        }
        name
    }

    /// The volume of that name; names of earlier versions are understood.
    ///
    /// # Errors
    /// `ErrorKind::User` for an unknown name; the hint lists the known ones.
    pub fn named(name: &str) -> Result<Volume> {
        let now = FORMER.iter().find(|(former, _)| *former == name).map_or(name, |(_, now)| now);
        let all = Volume::all();
        all.iter().find(|volume| volume.name() == now).cloned().ok_or_else(|| {
            let names: Vec<String> = all.iter().map(Volume::name).collect();
            Error::user(format!("unknown volume `{name}`")).hint(choices(name, "volumes", &names))
        })
    }

    /// Checks that its parts are compatible.
    ///
    /// # Errors
    /// `ErrorKind::User` if the file system does not support the medium or the access; the hint lists the supported
    /// ones.
    pub fn check(&self) -> Result<()> {
        let Volume { file_system, medium, access, .. } = *self;
        let name = file_system.name();
        if !file_system.media().contains(&medium) {
            let media: Vec<_> = file_system.media().iter().map(|m| format!("\"{}\"", m.name())).collect();
            let error = Error::user(format!("{name} is unsupported on {}", medium.name()));
            return Err(error.hint(format!("set medium = {}", media.join(" or "))));
        }
        if !file_system.accesses().contains(&access) {
            let ways: Vec<_> = file_system.accesses().iter().map(|a| format!("\"{}\"", a.name())).collect();
            let error = Error::user(format!("{name} does not support the access `{}`", access.name()));
            return Err(error.hint(format!("set volume_access = {}", ways.join(" or "))));
        }
        if access == Access::Preload && !matches!(medium, Medium::Tmpfs | Medium::Hugetlbfs) {
            let error = Error::user(format!("programs cannot map a region on {}", medium.name()));
            return Err(error.hint("set medium = \"tmpfs\" or \"hugetlbfs\", or volume_access = \"fuse\""));
        }
        self.setup.check(self)
    }

    /// Whether it is made for one cell by the process that measures, and gone with it.
    pub fn volatile(&self) -> bool {
        self.medium.volatile()
    }

    /// Whether its files lie on a flash chip of the board that nothing manages but the file system.
    pub fn on_raw_nand(&self) -> bool {
        matches!(self.medium, Medium::Mtd | Medium::Ubi)
    }

    /// Whether it needs flash of the board, raw or managed: it is neither in a directory nor in memory.
    pub fn on_flash(&self) -> bool {
        self.medium != Medium::Directory && !self.volatile()
    }

    /// Whether it is made, mounted with options of one's own, and kept: on a medium of the board.
    pub fn takes_options(&self) -> bool {
        let of_board = matches!(self.medium, Medium::Mtd | Medium::Ubi | Medium::Block);
        of_board && self.access == Access::Kernel && !self.read_only()
    }

    /// Whether nothing can be written to it: its files come in an image.
    pub fn read_only(&self) -> bool {
        self.file_system == FileSystem::Squashfs
    }

    /// Whether the kernel caches its files' pages, so that cold caches and read-ahead apply.
    pub fn page_cached(&self) -> bool {
        !self.volatile() && self.access != Access::InProcess
    }

    /// Whether the kernel knows its files: programs other than the one that measures can open them.
    pub fn has_paths(&self) -> bool {
        self.access != Access::InProcess
    }

    /// Whether the process of a database's engine can open it as a library: it is in a file, and SQLite's VFS for it
    /// is all that the engine needs.
    pub fn opens_for(&self, engine: DatabaseEngine) -> bool {
        let in_file = matches!(self.medium, Medium::Tmpfs | Medium::Hugetlbfs);
        self.file_system == FileSystem::Scmfs && in_file && engine == DatabaseEngine::Sqlite
    }
}

/// A volume as it is stored: results of earlier versions have neither medium nor access, and name both in
/// `file_system`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    file_system: String,
    medium: Option<Medium>,
    access: Option<Access>,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    directory: Option<PathBuf>,
    #[serde(default)]
    setup: Setup,
}

impl TryFrom<Stored> for Volume {
    type Error = String;

    fn try_from(stored: Stored) -> std::result::Result<Volume, String> {
        let named = Volume::named(&stored.file_system).map_err(|e| e.chain())?;
        let Stored { medium, access, options, directory, setup, .. } = stored;
        let (medium, access) = (medium.unwrap_or(named.medium), access.unwrap_or(named.access));
        let volume = Volume { file_system: named.file_system, medium, access, options, directory, setup };
        volume.check().map(|()| volume).map_err(|e| e.chain())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_volume_has_a_name_of_its_own_and_can_be() {
        let all = Volume::all();
        let names: BTreeSet<String> = all.iter().map(Volume::name).collect();
        assert_eq!(names.len(), all.len());
        for volume in &all {
            volume.check().unwrap();
            assert_eq!(&Volume::named(&volume.name()).unwrap(), volume);
            let text = serde_json::to_string(volume).unwrap();
            assert_eq!(&serde_json::from_str::<Volume>(&text).unwrap(), volume);
        }
        for name in
            ["scmfs-pcm", "scmfs-hugetlbfs-fuse", "yaffs2-anonymous-in-process", "null-anonymous", "ext4-block", "f2fs"]
                .into_iter()
                .chain(["scmfs-preload", "scmfs-hugetlbfs-preload", "tmpfs-small-pages", "ramfs", "ext2", "ext3"])
        {
            assert!(names.contains(name), "{name}: {names:?}");
        }
        assert!(Volume::named("ntfs").unwrap_err().cure().unwrap().contains("squashfs-ubi"));
    }

    #[test]
    fn results_of_earlier_versions_are_read() {
        let read = |name: &str| {
            serde_json::from_str::<Volume>(&format!(r#"{{"file_system":"{name}","options":[],"directory":null}}"#))
        };
        let of = |file_system, medium, access| Volume { medium, access, ..Volume::usual(file_system) };
        // What each of them was, by the documentation of the time.
        let former = [
            ("directory", of(FileSystem::Directory, Medium::Directory, Access::Kernel)),
            ("jffs2", of(FileSystem::Jffs2, Medium::Mtd, Access::Kernel)),
            ("ubifs", of(FileSystem::Ubifs, Medium::Ubi, Access::Kernel)),
            ("yaffs2", of(FileSystem::Yaffs2, Medium::Mtd, Access::Fuse)),
            ("null-fuse", of(FileSystem::Null, Medium::None, Access::Fuse)),
            ("squashfs-mtdblock", of(FileSystem::Squashfs, Medium::Mtd, Access::Kernel)),
            ("squashfs-ubiblock", of(FileSystem::Squashfs, Medium::Ubi, Access::Kernel)),
            ("scmfs", of(FileSystem::Scmfs, Medium::Tmpfs, Access::InProcess)),
            ("scmfs-pcm", of(FileSystem::Scmfs, Medium::Pcm, Access::InProcess)),
            ("scmfs-fuse", of(FileSystem::Scmfs, Medium::Tmpfs, Access::Fuse)),
            ("tmpfs", of(FileSystem::Tmpfs, Medium::Tmpfs, Access::Kernel)),
            ("ext4", of(FileSystem::Ext4, Medium::RamDisk, Access::Kernel)),
        ];
        former.iter().for_each(|(name, volume)| assert_eq!(&read(name).unwrap(), volume));
        assert!(read("ntfs").unwrap_err().to_string().contains("unknown volume"));
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_what_does() {
        let cure = |volume: Volume| volume.check().unwrap_err().cure().unwrap().to_owned();
        let of = Volume::usual;
        assert!(cure(Volume { medium: Medium::Ubi, ..of(FileSystem::Jffs2) }).contains("medium = \"mtd\""));
        assert!(
            cure(Volume { access: Access::Kernel, ..of(FileSystem::Scmfs) }).contains("\"in-process\" or \"fuse\"")
        );
        assert!(cure(Volume { access: Access::Fuse, ..of(FileSystem::Tmpfs) }).contains("volume_access = \"kernel\""));
        let of_pcm = Volume { medium: Medium::Pcm, access: Access::Preload, ..of(FileSystem::Scmfs) };
        assert!(cure(of_pcm).contains("\"hugetlbfs\", or volume_access = \"fuse\""));
        let large = Setup { bytes: Some(1 << 30), ..Setup::default() };
        assert!(cure(Volume { setup: large.clone(), ..of(FileSystem::Ramfs) }).contains("omit volume_bytes"));
        assert!(cure(Volume { setup: large.clone(), ..of(FileSystem::Jffs2) }).contains("omit volume_bytes"));
        let never = Setup { threshold: Some(Threshold::Never), ..large.clone() };
        assert!(cure(Volume { setup: never.clone(), ..of(FileSystem::Ext4) }).contains("omit threshold"));
        let past_the_cache = Setup { direct: true, no_barriers: true, ..Setup::default() };
        for file_system in [FileSystem::Scmfs, FileSystem::Tmpfs, FileSystem::Jffs2] {
            let cure = cure(Volume { setup: past_the_cache.clone(), ..of(file_system) });
            assert!(cure.contains("direct and barriers for it"), "{cure}");
        }
        let slow = Setup { pcm_read_ns: Some(0), pcm_write_ns: Some(MOST_PCM_NS), ..Setup::default() };
        assert!(cure(Volume { setup: slow.clone(), ..of(FileSystem::Scmfs) }).contains("medium = \"pcm\""));
        assert!(cure(Volume { setup: slow.clone(), ..of(FileSystem::Jffs2) }).contains("omit"));
        let on_pcm = |setup| Volume { medium: Medium::Pcm, setup, ..of(FileSystem::Scmfs) };
        let too_slow = Setup { pcm_read_ns: Some(MOST_PCM_NS + 1), ..slow.clone() };
        assert!(cure(on_pcm(too_slow)).contains("at most 1000000 ns"));
        for volume in [
            on_pcm(slow),
            Volume { setup: large, ..of(FileSystem::Ext4) },
            Volume { setup: past_the_cache, ..of(FileSystem::Ext4) },
            Volume { setup: never, ..of(FileSystem::Scmfs) },
        ] {
            volume.check().unwrap();
            let text = serde_json::to_string(&volume).unwrap();
            assert_eq!(serde_json::from_str::<Volume>(&text).unwrap(), volume);
        }
    }
}
