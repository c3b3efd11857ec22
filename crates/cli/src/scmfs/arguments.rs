//! The command line; help, man pages and completions come from these definitions.

use clap::{Args, Parser, Subcommand};
use pocketstone_cli::{LONG_VERSION, parse_bytes};
use pocketstone_scmfs::{Ino, Threshold};
use std::path::PathBuf;

const EXIT_STATUS: &str = "Exit status: 0 ok; 1 wrong input, or a region or directory in use; 2 wrong usage; 3 fsck \
    leaves findings; 4 the machine cannot; 70 a fault of scmfs.\n\nREGION is a file, best on a DAX file system, \
    hugetlbfs or tmpfs, or a memory device such as /dev/dax0.0. DIR is a directory that a volume is mounted at. Sizes \
    take the suffixes K, M, G and T, powers of 1024.";

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
    /// Make a volume
    Mkfs(MkfsArguments),
    /// Mount a volume at a directory; returns when it can be used
    Mount(MountArguments),
    /// Unmount a directory, and wait until the volume is closed
    Umount {
        /// The directory
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// Take it out of sight even if it is in use
        #[arg(long, short = 'l')]
        lazy: bool,
    },
    /// Check a volume that is not mounted
    Fsck {
        /// The region
        #[arg(value_name = "REGION")]
        region: PathBuf,
        /// Repair what can be repaired. Exit status 0 then means: nothing is left
        #[arg(long)]
        repair: bool,
        /// Print the outcome as JSON
        #[arg(long)]
        json: bool,
    },
    /// Say where the space is: zones, null files, what collection could give back
    Df {
        /// The region, or where it is mounted
        #[arg(value_name = "DIR|REGION")]
        target: PathBuf,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a file's attributes and extents
    Stat {
        /// The region, or where it is mounted
        #[arg(value_name = "DIR|REGION")]
        target: PathBuf,
        /// The file's path in the volume
        path: PathBuf,
    },
    /// Print what a region holds, for people
    Dump {
        /// The region
        #[arg(value_name = "REGION")]
        region: PathBuf,
        /// What of it; the superblock if nothing is said
        #[command(subcommand)]
        what: Option<DumpWhat>,
    },
    /// Grow a volume, mounted or not
    Resize {
        /// The region, or where it is mounted
        #[arg(value_name = "DIR|REGION")]
        target: PathBuf,
        /// The new size
        #[arg(value_parser = parse_bytes)]
        size: u64,
    },
    /// Collect garbage now
    Gc {
        /// The region, or where it is mounted
        #[arg(value_name = "DIR|REGION")]
        target: PathBuf,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write man pages
    Man {
        /// The folder to write them to
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// Arguments of `mkfs`.
#[derive(Debug, Args)]
pub struct MkfsArguments {
    /// The file or memory device to make it in
    #[arg(value_name = "REGION")]
    pub region: PathBuf,
    /// Its size; not needed for a device, or a file that has its length already
    #[arg(long, value_parser = parse_bytes)]
    pub size: Option<u64>,
    /// How far `resize` may ever grow it, instead of 16 times its size
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub max_size: Option<u64>,
    /// Size of the zone of small pages, instead of an eighth of the data area. It grows when it is full
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub small_zone: Option<u64>,
    /// Number of inodes, instead of one for each 16 KiB
    #[arg(long, value_name = "N")]
    pub inodes: Option<u32>,
    /// A file that grows beyond this size moves to huge pages; `never` keeps all files on small ones
    #[arg(long, value_name = "128K|512K|2M|never", default_value = "128K", value_parser = parse_threshold)]
    pub threshold: Threshold,
    /// A name for the volume, at most 32 bytes
    #[arg(long, default_value = "", hide_default_value = true)]
    pub label: String,
    /// Destroy what the region holds
    #[arg(long)]
    pub force: bool,
}

fn parse_threshold(text: &str) -> Result<Threshold, String> {
    match text {
        "never" => Ok(Threshold::Never),
        size => parse_bytes(size).map(Threshold::Bytes).map_err(|e| e.message().to_owned()),
    }
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
    /// Mount options, separated by commas: ro, noatime, nodev, nosuid, noexec, allow_other, direct_io,
    /// writeback, persistent, threads=N, log=FILE; generic ones of mount(8) are accepted
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// Stay in the foreground and unmount when interrupted
    #[arg(long, short = 'f')]
    pub foreground: bool,
    /// The memory behind the region outlives a loss of power, though the kernel does not say so
    #[arg(long)]
    pub persistent: bool,
    /// Threads that serve, instead of one for each processor
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Keep nothing in the kernel's page cache
    #[arg(long)]
    pub direct_io: bool,
    /// Refuse changes
    #[arg(long, short = 'r')]
    pub read_only: bool,
    /// File to append errors to, once in the background, instead of the system's log
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Accept mount options that are not known
    #[arg(skip)]
    pub sloppy: bool,
    /// Find out whether it could be mounted, and do not do it
    #[arg(skip)]
    pub fake: bool,
    /// Change how it is mounted already
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
    fn thresholds_are_sizes_or_never() {
        assert_eq!(parse_threshold("never"), Ok(Threshold::Never));
        assert_eq!(parse_threshold("512K"), Ok(Threshold::Bytes(512 << 10)));
        assert!(parse_threshold("soon").is_err());
    }
}
