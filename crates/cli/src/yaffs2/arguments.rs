//! The command line; help, man pages and completions come from these definitions.

use clap::{Args, Parser, Subcommand, ValueEnum};
use pocketstone_cli::{LONG_VERSION, parse_bytes};
use std::path::PathBuf;

const EXIT_STATUS: &str = "Exit status: 0 ok; 1 wrong input, or a chip or directory in use; 2 wrong usage; 3 fsck \
    found errors, or extract left something out; 4 the machine cannot; 70 a fault of yaffs2.\n\nCHIP is an MTD \
    character device such as /dev/mtd3, or an image file: of mkyaffs2image, of nanddump with out-of-band data, of \
    yaffs2utils, of this command. How an image is laid out is found out, if nothing is said. Sizes take the suffixes \
    K, M and G, powers of 1024.";

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
    /// Make an empty volume: erase an MTD device, or create an image file
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
    /// Check a volume that is not mounted; changes nothing
    Fsck {
        /// The chip
        #[command(flatten)]
        chip: ChipArguments,
        /// Print the outcome as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make an image from a folder, in the form of mkyaffs2image
    Image(ImageArguments),
    /// Take the files out of a chip or image
    Extract {
        /// The chip
        #[command(flatten)]
        chip: ChipArguments,
        /// The folder to put them in, new or empty
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// List a directory of a volume that is not mounted
    Ls {
        /// The chip
        #[command(flatten)]
        chip: ChipArguments,
        /// Modes, links, owners, sizes and times (UTC), too
        #[arg(long, short = 'l')]
        long: bool,
        /// The path in the volume
        #[arg(value_name = "PATH", default_value = "/")]
        path: PathBuf,
    },
    /// Say where a volume's space is, or what is known of a file
    Stat {
        /// The chip
        #[command(flatten)]
        chip: ChipArguments,
        /// The path in the volume; without it, the volume
        #[arg(value_name = "PATH")]
        path: Option<PathBuf>,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what lies on a chip, page by page: tags, headers, the checkpoint
    Dump {
        /// The chip
        #[command(flatten)]
        chip: ChipArguments,
        /// This block alone, from 0
        #[arg(long, value_name = "N")]
        block: Option<u32>,
        /// The entries of block summaries, too
        #[arg(long)]
        summary: bool,
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

/// A chip, and what cannot be seen of how it was written.
#[derive(Debug, Clone, Default, Args)]
pub struct ChipArguments {
    /// An MTD character device or an image file
    #[arg(id = "chip", value_name = "CHIP")]
    pub path: PathBuf,
    /// How an image is laid out
    #[command(flatten)]
    pub layout: LayoutArguments,
    /// Tags are at the end of every page and not in its spare area
    #[arg(long)]
    pub inband_tags: bool,
    /// Tags have no error correction of their own
    #[arg(long)]
    pub no_tags_ecc: bool,
}

/// How an image is laid out.
#[derive(Debug, Clone, Default, Args)]
pub struct LayoutArguments {
    /// Bytes of data in a page; only for images, like the other sizes. Without it the layout is found out
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub page: Option<u64>,
    /// Bytes of the spare area behind each page, instead of a 32nd of the page; 0: the image has none
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub spare: Option<u64>,
    /// Where the spare area's free bytes begin: 2 in Linux' layout, 0 in that of mkyaffs2image
    #[arg(long, value_name = "BYTE")]
    pub spare_offset: Option<u32>,
    /// Pages in an erase block
    #[arg(long, value_name = "N")]
    pub pages_per_block: Option<u32>,
}

/// Arguments of `mkfs`.
#[derive(Debug, Args)]
pub struct MkfsArguments {
    /// An MTD character device, whose good blocks are erased, or a new image file in Linux' layout
    #[arg(value_name = "DEVICE|FILE")]
    pub path: PathBuf,
    /// Size of the data of a new image
    #[arg(long, value_parser = parse_bytes)]
    pub size: Option<u64>,
    /// How a new image is laid out: pages of 2048 bytes, 64 in a block, if nothing is said
    #[command(flatten)]
    pub layout: LayoutArguments,
    /// Tags go to the end of every page of the image and not into its spare area
    #[arg(long)]
    pub inband_tags: bool,
    /// Destroy what the device or file holds
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
    /// Mount options, separated by commas: ro, noatime, nodev, nosuid, noexec, allow_other, log=FILE, and those of the
    /// kernel's YAFFS2: inband-tags, tags-ecc-on, tags-ecc-off, no-checkpoint, no-checkpoint-read,
    /// no-checkpoint-write, disable-summary, no-cache, lazy-loading-on, lazy-loading-off, empty-lost-and-found-on,
    /// empty-lost-and-found-off; generic ones of mount(8) are accepted
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// Stay in the foreground and unmount when interrupted
    #[arg(long, short = 'f')]
    pub foreground: bool,
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

/// Arguments of `image`.
#[derive(Debug, Args)]
pub struct ImageArguments {
    /// The folder whose content becomes the volume's
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// The image to write; it must not exist
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Bytes of data in a page
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "2048")]
    pub page: u64,
    /// Bytes of the spare area behind each page, instead of a 32nd of the page
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub spare: Option<u64>,
    /// Pages in an erase block, for --spare-layout linux
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub pages_per_block: u32,
    /// Where tags are in the spare area
    #[arg(long, value_enum, default_value_t = SpareLayout::Mkyaffs2image)]
    pub spare_layout: SpareLayout,
    /// Tags go to the end of every page, and the image has no spare areas
    #[arg(long, conflicts_with_all = ["spare", "spare_layout"])]
    pub inband_tags: bool,
    /// Leave the tags' own error correction out
    #[arg(long)]
    pub no_tags_ecc: bool,
    /// Times of files: as they are, or the same for all ($SOURCE_DATE_EPOCH, else 1970), so that the image depends on
    /// names and contents alone
    #[arg(long, value_enum, default_value_t = Times::Keep)]
    pub times: Times,
    /// Everything belongs to user 0 and group 0
    #[arg(long)]
    pub root_owned: bool,
    /// Overwrite the image if it exists
    #[arg(long)]
    pub force: bool,
}

/// Where tags are in the spare area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SpareLayout {
    /// From its first byte on, to be written with nandwrite -a -o
    Mkyaffs2image,
    /// From byte 2 on, filled up to whole blocks: what nanddump reads from a chip
    Linux,
    /// From byte 2 on
    Yaffs2utils,
}

/// Times of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Times {
    /// As they are in the folder
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
