//! The volume of a point: its factors, and what they say together.

use pocketstone_core::volume::{Access, FileSystem, Medium, Threshold, Volume};
use pocketstone_core::{Error, words};
use pocketstone_workload::factor::{
    AnyFactor, Bytes, CountOrNone, Factor, Flag, Impossible, Nanoseconds, OrDefault, Point, Text, VolumeName, blame,
};

words! {
    /// Compressors that file systems have.
    Compression {
        /// None.
        None = "none",
        /// LZO.
        Lzo = "lzo",
        /// zlib.
        Zlib = "zlib",
        /// zstd.
        Zstd = "zstd",
    }
}

/// The volume, by its name.
pub const FILE_SYSTEM: Factor<VolumeName> =
    Factor::new("file_system", "file system under test; a full volume name includes medium and access");
/// Another medium than the name says.
pub const MEDIUM: Factor<OrDefault<Medium>> =
    Factor::new("medium", "the file system's medium; default is its usual one").default("default").quiet();
/// Another access than the name says.
pub const VOLUME_ACCESS: Factor<OrDefault<Access>> =
    Factor::new("volume_access", "how programs access the volume; default is the usual way").default("default").quiet();
/// The compressor.
pub const COMPRESSION: Factor<OrDefault<Compression>> = Factor::new(
    "compression",
    "the file system's compressor (mount option compr); default leaves it to the file system",
)
.default("default");
/// UBIFS's own read-ahead.
pub const BULK_READ: Factor<Flag> =
    Factor::new("bulk_read", "UBIFS's own read-ahead (mount option bulk_read); other file systems support only false")
        .default("false");
/// The size of a volume in memory.
pub const VOLUME_BYTES: Factor<OrDefault<Bytes>> =
    Factor::new("volume_bytes", "size of a volume in memory; default is 256 MiB, or less where memory is short")
        .default("default")
        .quiet()
        .checked(|bytes| match bytes {
            0 => Err(Error::user("a volume of 0 bytes holds nothing").hint("set volume_bytes = \"1GiB\", or omit it")),
            _ => Ok(()),
        });
/// When SCMFS's files move to huge pages.
pub const THRESHOLD: Factor<OrDefault<Threshold>> =
    Factor::new("threshold", "size beyond which a file of SCMFS moves to huge pages; other file systems have none")
        .default("default")
        .quiet();
/// SCMFS's null files.
pub const NULL_FILES: Factor<OrDefault<CountOrNone>> =
    Factor::new("null_files", "null files that SCMFS keeps ready; other file systems have none")
        .default("default")
        .quiet();
/// SCMFS's collector.
pub const COLLECTOR: Factor<Flag> =
    Factor::new("collector", "whether SCMFS collects garbage in a thread of its own; other file systems do not")
        .default("false")
        .quiet();
/// Those that only SCMFS has.
pub const OF_SCMFS: [AnyFactor; 3] = [THRESHOLD.any(), NULL_FILES.any(), COLLECTOR.any()];
/// Whether calls go past the page cache.
pub const DIRECT: Factor<Flag> =
    Factor::new("direct", "whether ext4's files are opened with O_DIRECT; other file systems support only false")
        .default("false")
        .quiet();
/// Whether ext4 keeps the order of its writes.
pub const BARRIERS: Factor<Flag> =
    Factor::new("barriers", "whether ext4 is mounted with barriers; other file systems support only true")
        .default("true")
        .quiet();
/// Those that only ext4 has.
pub const OF_EXT4: [AnyFactor; 2] = [DIRECT.any(), BARRIERS.any()];
/// How long phase change memory takes to read.
pub const PCM_READ: Factor<OrDefault<Nanoseconds>> =
    Factor::new("pcm_read", "time to read a line of 64 bytes of simulated phase change memory; other media have none")
        .default("default")
        .quiet();
/// How long phase change memory takes to write.
pub const PCM_WRITE: Factor<OrDefault<Nanoseconds>> = Factor::new(
    "pcm_write",
    "time to write a line of 64 bytes of simulated phase change memory; other media have none",
)
.default("default")
.quiet();
/// Those that only phase change memory has.
pub const OF_PCM: [AnyFactor; 2] = [PCM_READ.any(), PCM_WRITE.any()];
/// How the volume is mounted.
pub const MOUNT_OPTIONS: Factor<OrDefault<Text>> =
    Factor::new("mount_options", "options of the mount, as mount -o takes them; default passes none")
        .default("default")
        .quiet();

/// The volume of a point, with its mount options.
///
/// # Errors
/// `Impossible` if its parts contradict each other, naming the factor at fault.
pub fn of_point(point: &Point) -> Result<Volume, Impossible> {
    let mut volume = with_medium_and_access(point)?;
    volume.options = mount_options(point, &volume)?;
    set_up(point, &mut volume)?;
    Ok(volume)
}

/// The volume of that name, on another medium and accessed in another way where those factors say so.
fn with_medium_and_access(point: &Point) -> Result<Volume, Impossible> {
    let named = Volume::named(&point.of(&FILE_SYSTEM)?).map_err(blame(FILE_SYSTEM.name()))?;
    let usual = Volume::usual(named.file_system);
    let mut volume = named.clone();
    if let Some(medium) = point.of(&MEDIUM)? {
        if named.medium != usual.medium && named.medium != medium {
            let error =
                format!("file_system specifies the medium {}, but medium is {}", named.medium.name(), medium.name());
            return Err(blame(MEDIUM.name())(Error::user(error).hint("omit one of them")));
        }
        volume.medium = medium;
        volume.check().map_err(blame(MEDIUM.name()))?;
    }
    if let Some(access) = point.of(&VOLUME_ACCESS)? {
        if named.access != usual.access && named.access != access {
            let (by_name, access) = (named.access.name(), access.name());
            let error = format!("file_system specifies the access {by_name}, but volume_access is {access}");
            return Err(blame(VOLUME_ACCESS.name())(Error::user(error).hint("omit one of them")));
        }
        volume.access = access;
        volume.check().map_err(blame(VOLUME_ACCESS.name()))?;
    }
    Ok(volume)
}

/// The options that a volume is mounted with.
fn mount_options(point: &Point, volume: &Volume) -> Result<Vec<String>, Impossible> {
    let mut all = volume.options.clone();
    all.extend(compression(point, volume)?.map(|compression| format!("compr={}", compression.name())));
    if point.of(&BULK_READ)? {
        all.push("bulk_read".to_owned());
    }
    if let Some(options) = point.of(&MOUNT_OPTIONS)? {
        if !volume.takes_options() {
            let error = Error::user(format!("{} is not mounted with options of its own", volume.name()));
            return Err(blame(MOUNT_OPTIONS.name())(error.hint("omit mount_options for it")));
        }
        all.extend(options.split(',').map(str::to_owned));
    }
    Ok(all)
}

/// The compressor that a mount is told.
fn compression(point: &Point, volume: &Volume) -> Result<Option<Compression>, Impossible> {
    let compression = point.of(&COMPRESSION)?;
    // They never compress: what others have to be told is how they are.
    let uncompressed = matches!(volume.file_system, FileSystem::Yaffs2 | FileSystem::Null);
    let (error, hint) = match compression {
        Some(Compression::None) if uncompressed => return Ok(None),
        Some(_) if uncompressed => {
            (format!("{} does not support compression", volume.name()), "set compression = \"none\" for it")
        }
        Some(_) if volume.volatile() => (
            format!("{} in memory does not support compression", volume.name()),
            "omit compression, or set it in [experiment.on.KIND]",
        ),
        told => return Ok(told),
    };
    Err(blame(COMPRESSION.name())(Error::user(error).hint(hint)))
}

/// What the file system and its medium are set to. Each factor is checked by itself, so that the one at fault is named.
fn set_up(point: &Point, volume: &mut Volume) -> Result<(), Impossible> {
    volume.setup.bytes = point.of(&VOLUME_BYTES)?;
    volume.check().map_err(blame(VOLUME_BYTES.name()))?;
    volume.setup.threshold = point.of(&THRESHOLD)?;
    volume.check().map_err(blame(THRESHOLD.name()))?;
    let null_files = point.of(&NULL_FILES)?.map(u32::try_from).transpose();
    let many = |e| Error::user("so many null files are not supported").because(e).hint("null_files = 64 is usual");
    volume.setup.null_files = null_files.map_err(many).map_err(blame(NULL_FILES.name()))?;
    volume.check().map_err(blame(NULL_FILES.name()))?;
    volume.setup.collector = point.of(&COLLECTOR)?;
    volume.check().map_err(blame(COLLECTOR.name()))?;
    volume.setup.direct = point.of(&DIRECT)?;
    volume.check().map_err(blame(DIRECT.name()))?;
    volume.setup.no_barriers = !point.of(&BARRIERS)?;
    volume.check().map_err(blame(BARRIERS.name()))?;
    volume.setup.pcm_read_ns = point.of(&PCM_READ)?;
    volume.check().map_err(blame(PCM_READ.name()))?;
    volume.setup.pcm_write_ns = point.of(&PCM_WRITE)?;
    volume.check().map_err(blame(PCM_WRITE.name()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_what_its_name_and_its_factors_say() {
        let of = |values: &[(&str, &str)]| {
            of_point(&values.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect())
        };
        let name = |values: &[(&str, &str)]| of(values).map(|v| v.name()).map_err(|i| (i.factor, i.error.chain()));
        assert_eq!(name(&[("file_system", "scmfs"), ("volume_access", "fuse")]).unwrap(), "scmfs-fuse");
        let both = [("file_system", "scmfs-fuse"), ("medium", "hugetlbfs")];
        assert_eq!(name(&both).unwrap(), "scmfs-hugetlbfs-fuse");
        assert_eq!(name(&[("file_system", "squashfs-ubiblock")]).unwrap(), "squashfs-ubi");
        let (factor, error) = name(&[("file_system", "scmfs-pcm"), ("medium", "tmpfs")]).unwrap_err();
        assert!(factor == "medium" && error.contains("specifies the medium pcm"), "{error}");
        let (factor, error) = name(&[("file_system", "jffs2"), ("medium", "ubi")]).unwrap_err();
        assert!(factor == "medium" && error.contains("jffs2 is unsupported on ubi"), "{error}");
        assert_eq!(name(&[("file_system", "tmpfs"), ("volume_access", "fuse")]).unwrap_err().0, "volume_access");
        assert_eq!(of(&[("file_system", "jffs2"), ("compression", "none")]).unwrap().options, ["compr=none"]);
        assert!(of(&[("file_system", "yaffs2"), ("compression", "none")]).unwrap().options.is_empty());
        let setup = of(&[("file_system", "scmfs"), ("threshold", "never"), ("null_files", "none")]).unwrap().setup;
        assert_eq!((setup.threshold, setup.null_files, setup.bytes), (Some(Threshold::Never), Some(0), None));
    }
}
