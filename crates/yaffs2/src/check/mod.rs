//! Checking a volume that is not mounted. Reads only.
//!
//! The state that a scan finds is held against every page's own tags and data, against the headers of its objects,
//! against the summaries of blocks, and against a checkpoint.

mod agreement;
mod pages;
mod tree;

use crate::log::Log;
use crate::log::chip::{Chip, Chunk};
use crate::mount::{MountedBy, mount};
use crate::options::{ByteOrder, OpenOptions};
use crate::tree::Tree;
use crate::tree::objects::{DELETED_ID, Objects};
use pocketstone_media::nand::Nand;
use pocketstone_vfs::Result;
use serde::Serialize;

/// So many findings are told; of more only the number.
const MOST_FINDINGS: usize = 1000;

/// How much a finding means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Severity {
    /// Something is wrong: damage, or a writer at fault.
    Error,
    /// A loss of power leaves such things; the next mount for writing tidies them up, and nothing is lost.
    Tidy,
    /// Worth knowing.
    Note,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// How much it means.
    pub severity: Severity,
    /// What kind of finding: a few words that never change.
    pub kind: &'static str,
    /// The block where it is, from 0.
    pub block: Option<u32>,
    /// The page in that block, from 0.
    pub page: Option<u32>,
    /// The object that it is about: its inode number.
    pub object: Option<u32>,
    /// All of it, for people.
    pub what: String,
}

/// Objects that can be reached from the root, by kind; the root itself and lost+found count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Kinds {
    /// Regular files.
    pub files: u32,
    /// Directories.
    pub directories: u32,
    /// Symbolic links.
    pub symlinks: u32,
    /// Further names of other objects.
    pub hard_links: u32,
    /// Pipes, sockets, devices.
    pub specials: u32,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The chip or image.
    pub chip: String,
    /// What was found, at most 1000 of it.
    pub findings: Vec<Finding>,
    /// How many findings more there are.
    pub findings_left_out: u64,
    /// How many findings are errors, those left out included.
    pub errors: u64,
    /// Blocks of the chip.
    pub blocks: u32,
    /// Blocks marked bad.
    pub bad_blocks: u32,
    /// Blocks of which every page is erased.
    pub erased_blocks: u32,
    /// Blocks of a checkpoint.
    pub checkpoint_blocks: u32,
    /// Blocks with a summary.
    pub summarised_blocks: u32,
    /// Pages that hold what objects are now.
    pub used_pages: u64,
    /// Pages that are written and of no use any more, without those of summaries and checkpoints.
    pub garbage_pages: u64,
    /// Erased pages, in erased blocks and others.
    pub erased_pages: u64,
    /// Pages of which bits had to be put right, in data or tags.
    pub corrected_pages: u64,
    /// Sequence numbers of the oldest and the newest block; `None`: nothing is written.
    pub sequences: Option<(u32, u32)>,
    /// Objects by kind.
    pub objects: Kinds,
    /// Sum of the files' sizes in bytes.
    pub file_bytes: u64,
    /// Whether a checkpoint is there that the next mount can use.
    pub checkpoint: bool,
}

impl Report {
    fn new(chip: &Chip) -> Report {
        Report {
            chip: chip.describe(),
            findings: Vec::new(),
            findings_left_out: 0,
            errors: 0,
            blocks: chip.blocks(),
            bad_blocks: 0,
            erased_blocks: 0,
            checkpoint_blocks: 0,
            summarised_blocks: 0,
            used_pages: 0,
            garbage_pages: 0,
            erased_pages: 0,
            corrected_pages: 0,
            sequences: None,
            objects: Kinds::default(),
            file_bytes: 0,
            checkpoint: false,
        }
    }

    fn find(&mut self, finding: Finding) {
        self.errors += u64::from(finding.severity == Severity::Error);
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(finding);
        } else {
            self.findings_left_out += 1;
        }
    }
}

/// Checks a volume without changing it. Of `options`, those count that say how tags and summaries are stored.
///
/// ```
/// use pocketstone_yaffs2::{Meta, OpenOptions, Operations, ROOT, Volume, check};
///
/// # fn main() -> pocketstone_yaffs2::Result<()> {
/// # use pocketstone_media::nand::{Geometry, SimulatedNand, SimulatedOptions};
/// # let geometry = Geometry { page_bytes: 2048, spare_bytes: 64, pages_per_block: 64, blocks: 64 };
/// # let chip = SimulatedNand::new(geometry, SimulatedOptions::default());
/// // Clones are handles of the same chip.
/// let volume = Volume::open(Box::new(chip.clone()), &OpenOptions::default())?;
/// volume.create_file(ROOT, b"file", &Meta::file(0o644))?;
/// volume.close()?;
/// let report = check(Box::new(chip), &OpenOptions::default())?;
/// assert_eq!((report.errors, report.objects.files, report.checkpoint), (0, 1, true));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Medium` if the chip cannot be read, or is not a YAFFS2 volume.
pub fn check(nand: Box<dyn Nand>, options: &OpenOptions) -> Result<Report> {
    let looking = OpenOptions { read_only: true, checkpoint_read: false, lazy_loading: true, ..options.clone() };
    let mut scanned = mount(nand, &looking)?.0.tree;
    forget_deleted(&mut scanned);
    let mut report = Report::new(&scanned.log.chip);
    pages::check(&mut scanned, &mut report)?;
    tree::check(&mut scanned, &mut report)?;
    let Tree { log, objects, .. } = scanned;
    let Log { chip, blocks, head, checkpoint, .. } = log;
    if !checkpoint.is_empty() && chip.order == ByteOrder::Little {
        let looking = OpenOptions { checkpoint_read: true, ..looking };
        let (said, mounted_by) = mount(chip.into_nand(), &looking)?;
        if mounted_by == MountedBy::Checkpoint {
            report.checkpoint = true;
            let scanned = agreement::Scanned { blocks, objects, sequence: head.sequence };
            agreement::check(&said.tree, &scanned, &mut report);
        } else {
            let block = Some(checkpoint[0] - 1);
            report.find(Finding {
                severity: Severity::Tidy,
                kind: "checkpoint not valid",
                block,
                page: None,
                object: None,
                what: "a checkpoint is incomplete or outdated; mounts scan, and the next read-write mount erases it"
                    .to_owned(),
            });
        }
    }
    report.findings.sort_by_key(|finding| finding.severity);
    Ok(report)
}

/// Takes out what was deleted. Its last header stays on the chip until its block is collected, and says so to every
/// scan.
fn forget_deleted(tree: &mut Tree) {
    let mut gone = Vec::new();
    tree.list_tree(DELETED_ID, &mut gone);
    for id in gone {
        let Some(object) = tree.objects.remove(id) else { continue };
        for (_, chunk) in object.map.chunks(tree.width) {
            tree.log.blocks.clear(chunk);
        }
        if object.header != 0 {
            tree.log.blocks.clear(object.header);
        }
    }
}

/// Where findings are made: turns chunks into blocks and pages as people count them.
struct Place<'a> {
    chip: &'a Chip,
    chunk: Option<Chunk>,
    object: Option<u32>,
}

impl Place<'_> {
    fn finding(&self, severity: Severity, kind: &'static str, what: String) -> Finding {
        let pages = self.chip.pages_per_block();
        let chunk = self.chunk.filter(|&chunk| chunk >= pages);
        Finding {
            severity,
            kind,
            block: chunk.map(|chunk| chunk / pages - 1),
            page: chunk.map(|chunk| chunk % pages),
            object: self.object,
            what,
        }
    }
}

/// An object's kind in words.
fn word(objects: &Objects, id: u32) -> &'static str {
    objects.get(id).map_or("nothing", |object| object.kind.word())
}
