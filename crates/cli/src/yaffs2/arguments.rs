//! The command line; help, man pages and completions come from these definitions.

use clap::{Args, Parser, Subcommand, ValueEnum};
use pocketstone_cli::LONG_VERSION;
use pocketstone_cli::mounts::options_help;
use pocketstone_core::units::parse_bytes;
use std::ops::RangeInclusive;
use std::path::PathBuf;

const EXIT_STATUS: &str = "Exit status: 0 success; 1 invalid input, or a chip or directory in use; 2 usage error; 3 \
    fsck found errors, or extract skipped something; 4 the machine lacks something required; 70 internal \
    error.\n\nCHIP is an MTD character device such as /dev/mtd3, or an image file of mkyaffs2image, nanddump with \
    out-of-band data, yaffs2utils or this command. An image's layout is detected by default. Sizes take the suffixes \
    K, M, G and T, powers of 1024, and KB, MB, GB and TB, powers of 1000.";

/// Mount options of the kernel's YAFFS2, and those that describe an image.
pub const MOUNT_OPTIONS: &str = "inband-tags, tags-ecc-on, tags-ecc-off, no-checkpoint, no-checkpoint-read, \
    no-checkpoint-write, disable-summary, no-cache, lazy-loading-on, lazy-loading-off, empty-lost-and-found-on, \
    empty-lost-and-found-off, page=SIZE, spare=SIZE, spare-offset=BYTE, pages-per-block=N";

/// How many pages an erase block may have.
pub const PAGES_PER_BLOCK: RangeInclusive<i64> = 2..=1 << 16;

/// YAFFS2: the file system for raw NAND flash, in user space.
#[derive(Debug, Parser)]
#[command(name = "yaffs2", version, long_version = LONG_VERSION, max_term_width = 100, after_help = EXIT_STATUS)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create an empty volume: erase an MTD device, or create an image file
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
    /// Check a volume that is not mounted; changes nothing
    Fsck {
        /// The chip
        #[command(flatten)]
        chip: ChipArguments,
        /// Print the outcome as JSON
        #[arg(long)]
        json: bool,
    },
    /// Build an image from a folder, in the format of mkyaffs2image
    Image(ImageArguments),
    /// Extract the files of a chip or image
    Extract {
        /// The chip
        #[command(flatten)]
        chip: ChipArguments,
        /// Destination folder, new or empty
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// List a directory of a volume that is not mounted
    Ls {
        /// The chip
        #[command(flatten)]
        chip: ChipArguments,
        /// Show modes, links, owners, sizes and times (UTC)
        #[arg(long, short = 'l')]
        long: bool,
        /// The path in the volume
        #[arg(value_name = "PATH", default_value = "/")]
        path: PathBuf,
    },
    /// Show a volume's space usage, or a file's attributes
    Stat {
        /// The chip
        #[command(flatten)]
        chip: ChipArguments,
        /// The path in the volume; defaults to the volume itself
        #[arg(value_name = "PATH")]
        path: Option<PathBuf>,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a chip's contents page by page: tags, headers, the checkpoint
    Dump {
        /// The chip
        #[command(flatten)]
        chip: ChipArguments,
        /// Only this block, from 0
        #[arg(long, value_name = "N")]
        block: Option<u32>,
        /// Include the entries of block summaries
        #[arg(long)]
        summary: bool,
    },
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

/// A chip, and the properties of its layout that cannot be detected.
#[derive(Debug, Clone, Default, Args)]
pub struct ChipArguments {
    /// An MTD character device or an image file
    #[arg(id = "chip", value_name = "CHIP")]
    pub path: PathBuf,
    /// Layout of an image
    #[command(flatten)]
    pub layout: LayoutArguments,
    /// Tags are at the end of every page instead of in its spare area
    #[arg(long)]
    pub inband_tags: bool,
    /// Tags have no ECC of their own
    #[arg(long)]
    pub no_tags_ecc: bool,
}

/// Layout of an image.
#[derive(Debug, Clone, Default, Args)]
pub struct LayoutArguments {
    /// Data bytes per page; only for images, like the other sizes. By default the layout is detected
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub page: Option<u64>,
    /// Spare area bytes per page; defaults to a 32nd of the page; 0: the image has none
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub spare: Option<u64>,
    /// Offset of the spare area's free bytes: 2 in Linux's layout, 0 in that of mkyaffs2image
    #[arg(long, value_name = "BYTE")]
    pub spare_offset: Option<u32>,
    /// Pages per erase block
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(PAGES_PER_BLOCK))]
    pub pages_per_block: Option<u32>,
}

impl LayoutArguments {
    /// Whether anything was given.
    pub fn is_given(&self) -> bool {
        let LayoutArguments { page, spare, spare_offset, pages_per_block } = self;
        page.is_some() || spare.is_some() || spare_offset.is_some() || pages_per_block.is_some()
    }
}

/// Arguments of `mkfs`.
#[derive(Debug, Args)]
pub struct MkfsArguments {
    /// An MTD character device, whose good blocks are erased, or a new image file in Linux's layout
    #[arg(value_name = "DEVICE|FILE")]
    pub path: PathBuf,
    /// Data size of a new image
    #[arg(long, value_parser = parse_bytes, allow_negative_numbers = true)]
    pub size: Option<u64>,
    /// Layout of a new image; defaults to pages of 2048 bytes, 64 per block
    #[command(flatten)]
    pub layout: LayoutArguments,
    /// Store tags at the end of every page of the image instead of in its spare area
    #[arg(long)]
    pub inband_tags: bool,
    /// Destroy existing contents of the device or file
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `mount`.
#[derive(Debug, Clone, Default, Args)]
pub struct MountArguments {
    /// The chip
    #[command(flatten)]
    pub chip: ChipArguments,
    /// The directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Mount options
    #[arg(short = 'o', value_name = "OPTIONS", help = options_help(MOUNT_OPTIONS))]
    pub options: Vec<String>,
    /// Stay in the foreground and unmount when interrupted
    #[arg(long, short = 'f')]
    pub foreground: bool,
    /// Mount read-only
    #[arg(long, short = 'r')]
    pub read_only: bool,
    /// File to append errors to while in the background, instead of the system log
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
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

/// Arguments of `image`.
#[derive(Debug, Args)]
pub struct ImageArguments {
    /// The folder to build the image from
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// The image to write; it must not exist
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Data bytes per page
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "2048")]
    pub page: u64,
    /// Spare area bytes per page; defaults to a 32nd of the page
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub spare: Option<u64>,
    /// Pages per erase block, for --spare-layout linux
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(PAGES_PER_BLOCK))]
    pub pages_per_block: u32,
    /// Position of the tags in the spare area
    #[arg(long, value_enum, default_value_t = SpareLayout::Mkyaffs2image)]
    pub spare_layout: SpareLayout,
    /// Store tags at the end of every page; the image has no spare areas
    #[arg(long, conflicts_with_all = ["spare", "spare_layout"])]
    pub inband_tags: bool,
    /// Omit the tags' own ECC
    #[arg(long)]
    pub no_tags_ecc: bool,
    /// File timestamps: keep them, or set all to the same value ($SOURCE_DATE_EPOCH, else 1970), so that the image
    /// depends only on names and contents
    #[arg(long, value_enum, default_value_t = Times::Keep)]
    pub times: Times,
    /// Set the owner of everything to user 0 and group 0
    #[arg(long)]
    pub root_owned: bool,
    /// Overwrite the image if it exists
    #[arg(long)]
    pub force: bool,
}

/// Position of the tags in the spare area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SpareLayout {
    /// From its first byte, to be written with nandwrite -a -o
    Mkyaffs2image,
    /// From byte 2, padded to whole blocks: the format of nanddump
    Linux,
    /// From byte 2
    Yaffs2utils,
}

/// Times of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Times {
    /// As in the folder
    Keep,
    /// All the same
    Fixed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_sound() {
        Arguments::command().debug_assert();
    }
}
