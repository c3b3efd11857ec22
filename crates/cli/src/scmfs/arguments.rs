//! The command line; help, man pages and completions come from these definitions.

use clap::{Args, Parser, Subcommand, ValueEnum};
use pocketstone_cli::LONG_VERSION;
use pocketstone_cli::mounts::options_help;
use pocketstone_core::units::parse_bytes;
use pocketstone_scmfs::{Ino, Threshold};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXIT_STATUS: &str = "Exit status: 0 success; 1 invalid input, or a region or directory in use; 2 usage error; 3 \
    fsck leaves findings, or scrub finds damage; 4 the machine lacks something required; 70 internal error.\n\nREGION \
    is a file, preferably on a DAX file system, hugetlbfs or tmpfs, or a memory device such as /dev/dax0.0. DIR is \
    the mount point of a volume. Sizes take the suffixes K, M, G and T, powers of 1024, and KB, \
    MB, GB and TB, powers of 1000.";

/// Mount options of SCMFS.
pub const MOUNT_OPTIONS: &str = "direct_io, strict_open, writeback, atomic, persistent, \
    preload=off|read|write|append|map, threads=N, busy_poll_us=N, checkpoint=TARGET, every=TIME, keep=N, restore";

/// SCMFS: a file system for storage class memory, in user space.
#[derive(Debug, Parser)]
#[command(name = "scmfs", version, long_version = LONG_VERSION, max_term_width = 100, after_help = EXIT_STATUS)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a volume
    Mkfs(MkfsArguments),
    /// Mount a volume on a directory; returns when it is ready
    Mount(MountArguments),
    /// Unmount a directory, and wait until the volume is closed
    Umount {
        /// The directory
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// Detach it even if it is in use
        #[arg(long, short = 'l')]
        lazy: bool,
    },
    /// Check a volume that is not mounted
    Fsck {
        /// The region
        #[arg(value_name = "REGION")]
        region: PathBuf,
        /// Repair the volume. Exit status 0 then means that no findings are left
        #[arg(long)]
        repair: bool,
        /// Convert a format 1 volume to the current format in place, without moving files
        #[arg(long, conflicts_with = "repair")]
        upgrade: bool,
        /// Print the outcome as JSON
        #[arg(long)]
        json: bool,
    },
    /// Verify a volume, mounted or not, while it is in use. Exit status 3: damage found
    Scrub {
        /// The region or its mount point
        #[arg(value_name = "DIR|REGION")]
        target: PathBuf,
        /// Print the outcome as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show space usage: zones, null files, reclaimable space
    Df {
        /// The region or its mount point
        #[arg(value_name = "DIR|REGION")]
        target: PathBuf,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a file's attributes and extents
    Stat {
        /// The region or its mount point
        #[arg(value_name = "DIR|REGION")]
        target: PathBuf,
        /// The file's path in the volume
        path: PathBuf,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a region's raw structures
    Dump {
        /// The region
        #[arg(value_name = "REGION")]
        region: PathBuf,
        /// What to print; defaults to the superblock
        #[command(subcommand)]
        what: Option<DumpWhat>,
    },
    /// Grow a volume, mounted or not
    Resize {
        /// The region or its mount point
        #[arg(value_name = "DIR|REGION")]
        target: PathBuf,
        /// The new size
        #[arg(value_parser = parse_bytes)]
        size: u64,
    },
    /// Run garbage collection now
    Gc {
        /// The region or its mount point
        #[arg(value_name = "DIR|REGION")]
        target: PathBuf,
    },
    /// Take a consistent image of a volume, mounted or not, while it is in use; or verify a target
    Checkpoint(CheckpointArguments),
    /// Restore a volume from a checkpoint
    Restore(RestoreArguments),
    /// Run a program whose reads, and with preload=write or append whose writes, of mounted volumes need no kernel
    Run(RunArguments),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: pocketstone_cli::Shell,
    },
    /// Write man pages
    Man {
        /// Destination folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// Arguments of `mkfs`.
#[derive(Debug, Args)]
pub struct MkfsArguments {
    /// The file or memory device to create it in
    #[arg(value_name = "REGION")]
    pub region: PathBuf,
    /// Its size; optional for a device or an existing file
    #[arg(long, value_parser = parse_bytes, allow_negative_numbers = true)]
    pub size: Option<u64>,
    /// Maximum size for `resize`; defaults to 16 times the size
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub max_size: Option<u64>,
    /// Size of the small-page zone; defaults to an eighth of the data area. It grows when full
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub small_zone: Option<u64>,
    /// Number of inodes; defaults to one per 16 KiB
    #[arg(long, value_name = "N")]
    pub inodes: Option<u32>,
    /// A file that grows beyond this size moves to huge pages; `never` keeps all files on small ones
    #[arg(long, value_name = "SIZE|never", default_value = "128K", value_parser = parse_threshold)]
    pub threshold: Threshold,
    /// Volume label, at most 32 bytes
    #[arg(long, default_value = "", hide_default_value = true)]
    pub label: String,
    /// Keep data checksums: every read, and `scrub`, detects damage. Slows down each write and read
    #[arg(long)]
    pub checksums: bool,
    /// Destroy existing contents of the region
    #[arg(long)]
    pub force: bool,
}

fn parse_threshold(text: &str) -> Result<Threshold, String> {
    match text {
        "never" => Ok(Threshold::Never),
        size => parse_bytes(size).map(Threshold::Bytes).map_err(|e| e.message().to_owned()),
    }
}

/// Reads a time such as `30s`, `500ms`, `5m` or `1h`.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let wrong = || format!("`{text}` is not a time: use one such as 30s, 500ms, 5m or 1h");
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    if digits == text.len() {
        return Err(format!("add a unit, such as {text}s or {text}m"));
    }
    let ms = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(ms).filter(|ms| *ms >= 10).map(Duration::from_millis).ok_or_else(wrong)
}

/// Arguments of `checkpoint`.
#[derive(Debug, Args)]
pub struct CheckpointArguments {
    /// The region or its mount point
    #[arg(value_name = "DIR|REGION", required_unless_present = "verify")]
    pub source: Option<PathBuf>,
    /// The folder for the images, on another file system; created if missing
    #[arg(value_name = "TARGET", required_unless_present = "verify")]
    pub target: Option<PathBuf>,
    /// Take one every so often, until interrupted; only of a mounted volume. Later ones store what has changed
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub every: Option<Duration>,
    /// How many of the newest to keep; defaults to as many as the target's last series
    #[arg(long, value_name = "N")]
    pub keep: Option<u32>,
    /// Read all images in this target and report what is whole. Exit status 3: some are damaged
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["source", "target", "every"])]
    pub verify: Option<PathBuf>,
    /// Print the outcome as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `restore`.
#[derive(Debug, Args)]
pub struct RestoreArguments {
    /// The folder with the images
    #[arg(value_name = "TARGET")]
    pub target: PathBuf,
    /// The file or memory device to restore to
    #[arg(value_name = "REGION")]
    pub region: PathBuf,
    /// Which one; defaults to the newest. `checkpoint --verify` lists them
    #[arg(long, value_name = "N")]
    pub generation: Option<u64>,
    /// Destroy existing contents of the region
    #[arg(long)]
    pub force: bool,
    /// Print the outcome as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// What may bypass the kernel; defaults to all that the mount allows
    #[arg(long, value_enum, value_name = "WHAT")]
    pub preload: Option<Direct>,
    /// Append to this file, when a process ends, how many of its calls went which way, and why
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// What a program may do without the kernel.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Direct {
    /// Nothing
    Off,
    /// Read
    Read,
    /// Read and overwrite
    Write,
    /// Read, overwrite and append
    Append,
    /// All of these, and map files
    Map,
}

/// Arguments of `mount`.
#[derive(Debug, Clone, Default, Args)]
pub struct MountArguments {
    /// The region
    #[arg(value_name = "REGION")]
    pub region: PathBuf,
    /// The directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Mount options
    #[arg(short = 'o', value_name = "OPTIONS", help = options_help(MOUNT_OPTIONS))]
    pub options: Vec<String>,
    /// Stay in the foreground and unmount when interrupted
    #[arg(long, short = 'f')]
    pub foreground: bool,
    /// Declare that the memory behind the region survives power loss, though the kernel does not report it
    #[arg(long)]
    pub persistent: bool,
    /// Server threads; defaults to one per processor
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Bypass the kernel's page cache
    #[arg(long)]
    pub direct_io: bool,
    /// Mount read-only
    #[arg(long, short = 'r')]
    pub read_only: bool,
    /// File to append errors to while in the background, instead of the system log
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Folder for checkpoints of the volume
    #[arg(skip)]
    pub checkpoint: Option<PathBuf>,
    /// How often one is taken
    #[arg(skip)]
    pub every: Option<Duration>,
    /// How many are kept
    #[arg(skip)]
    pub keep: Option<u32>,
    /// Restore a region that is missing or empty
    #[arg(skip)]
    pub restore: bool,
    /// Accept unknown mount options
    #[arg(skip)]
    pub sloppy: bool,
    /// Check whether it could be mounted without mounting it
    #[arg(skip)]
    pub fake: bool,
    /// Remount with different options
    #[arg(skip)]
    pub remount: bool,
}

/// What to dump.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum DumpWhat {
    /// The superblock
    Superblock,
    /// The journal
    Journal,
    /// The mapping table
    Mapping,
    /// An inode
    Inode {
        /// Its number
        number: Ino,
    },
    /// A directory
    Directory {
        /// Its inode number; 1 is the root
        number: Ino,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn times_are_read() {
        for (text, ms) in [("30s", 30_000), ("7s", 7000), ("500ms", 500), ("5m", 300_000), ("1h", 3_600_000)] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse_time("5"), Err("add a unit, such as 5s or 5m".into()));
        for wrong in ["", "s", "0s", "1d", "-1s", "1.5s", "99999999999999999999s", "18446744073709551615h"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn thresholds_are_sizes_or_never() {
        assert_eq!(parse_threshold("never"), Ok(Threshold::Never));
        assert_eq!(parse_threshold("512K"), Ok(Threshold::Bytes(512 << 10)));
        assert!(parse_threshold("soon").is_err());
    }
}
