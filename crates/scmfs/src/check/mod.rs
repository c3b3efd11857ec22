//! fsck: everything in a volume against everything else. What each thing is to be is decided here, without a change;
//! repair stores what was decided.

mod claims;
mod image;
mod inodes;
mod names;
mod tables;

pub(crate) use image::Image;

use crate::format::extents::Extent;
use crate::format::inode::Record;
use crate::format::mapping::{INODE_TABLE, Mapping, SMALL_ZONE};
use crate::format::superblock::Superblock;
use crate::space::Alloc;
use crate::{Error, FileType, Ino, Result};
use names::{Tree, grouped};
use pocketstone_media::{Medium, Region};
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The result of fsck.
#[non_exhaustive]
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// The volume was closed cleanly.
    pub clean: bool,
    /// The newest journal record was not applied yet, or inodes were torn; opening recovers both.
    pub recovered: bool,
    /// Torn halves of inode versions. In an unclean volume they are not findings, since a crash leaves them.
    pub torn_versions: u32,
    /// The findings.
    pub findings: Vec<Finding>,
    /// Inodes in use.
    pub inodes_used: u32,
    /// Directories among them.
    pub directories: u32,
    /// Regular files among them.
    pub files: u32,
    /// Bytes of the data area that inodes hold.
    pub bytes_used: u64,
}

/// One finding.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Where, in bytes from the start of the volume.
    pub at: u64,
    /// The kind of finding, whose names are stable.
    pub kind: FindingKind,
    /// A description, starting with the path and size of the affected object, if known.
    pub what: String,
    /// The path of the affected object.
    pub path: Option<String>,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// Whether it was repaired.
    pub repaired: bool,
}

/// What is wrong.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FindingKind {
    /// A superblock.
    Superblock,
    /// The region was cut short.
    Cut,
    /// A version of an inode, or what it says of its huge pages.
    Inode,
    /// An entry of the mapping table.
    Mapping,
    /// Pages that two inodes have.
    Page,
    /// Extended attributes.
    Xattr,
    /// A list of extents.
    List,
    /// A link count.
    Links,
    /// The parent of a directory.
    Parent,
    /// The root directory.
    Root,
    /// An inode without a name.
    Nameless,
    /// A directory with a hole.
    Hole,
    /// An entry of a directory.
    Entry,
    /// The map of free pages.
    FreeMap,
}

impl FindingKind {
    /// Its short, stable name.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Superblock => "superblock",
            FindingKind::Cut => "cut",
            FindingKind::Inode => "inode",
            FindingKind::Mapping => "mapping",
            FindingKind::Page => "page",
            FindingKind::Xattr => "xattr",
            FindingKind::List => "list",
            FindingKind::Links => "links",
            FindingKind::Parent => "parent",
            FindingKind::Root => "root",
            FindingKind::Nameless => "nameless",
            FindingKind::Hole => "hole",
            FindingKind::Entry => "entry",
            FindingKind::FreeMap => "free-map",
        }
    }
}

impl Serialize for FindingKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    None,
    Inode(Ino),
    /// A name, which the text starts with; the size of what it led to.
    Text(Option<u64>),
}

/// Pages to be copied to free ones.
pub(crate) struct PageCopy {
    /// Number of the first page that is copied.
    pub from: u32,
    /// Number of the first page that it is copied to.
    pub to: u32,
    /// How many.
    pub pages: u32,
    /// Whether they are the content of a regular file.
    pub content: bool,
    /// Numbers of those that another inode has, in order: whose they are is known, and what was there before is not.
    pub foreign: Vec<u32>,
}

/// What a volume holds, and what it is to hold.
pub(crate) struct Survey {
    pub image: Image,
    pub report: Report,
    subjects_of: Vec<Subject>,
    /// Inodes that something is said about.
    subjects: HashSet<Ino>,
    /// What each huge page is to be.
    pub segments: Vec<Mapping>,
    /// Entries of the mapping table to be stored anew.
    pub entries: BTreeMap<u32, Mapping>,
    is_chunk: HashMap<u32, u32>,
    /// Huge pages that become empty parts of the inode table.
    pub empty_chunks: Vec<u32>,
    /// The inodes in use, as they are to be.
    pub records: BTreeMap<Ino, Record>,
    /// Those to be stored anew.
    pub rewritten: BTreeSet<Ino>,
    /// Inodes to be freed, as they are to be then.
    pub freed: BTreeMap<Ino, Record>,
    /// Inodes that are damaged beyond repair, and their sizes.
    pub lost: BTreeMap<Ino, Option<u64>>,
    /// Inodes with a half that is damaged: the other half may be out of date.
    doubtful: HashSet<Ino>,
    /// Inodes without a name in a volume that was not closed.
    orphans: BTreeMap<Ino, Record>,
    huge: HashMap<Ino, Vec<(u32, u32)>>,
    lists: HashMap<Ino, Vec<Extent>>,
    relisted: BTreeSet<Ino>,
    pub copies: Vec<PageCopy>,
    /// Bytes to be stored in free pages.
    pub texts: Vec<(u64, Vec<u8>)>,
    /// Slots of directories to be cleared: where, and how many bytes.
    pub cleared: Vec<(u64, u64)>,
    /// Directories that lack space.
    pub holes: Vec<Ino>,
    /// Inodes that are to have a name in lost+found.
    pub nameless: BTreeSet<Ino>,
    /// Where the region was cut off, if it was.
    cut_from: Option<u64>,
}

/// The recorded size of the volume in a region, which may be truncated.
///
/// # Errors
/// `Medium` if the region is not a volume, or one of an unsupported format.
pub fn volume_bytes(region: Box<dyn Region>) -> Result<u64> {
    Superblock::find(&Medium::new(region)).map(|(found, _)| found.bytes)
}

/// Checks a volume without changing it. An unclean one is checked as it would be after recovery.
///
/// ```
/// use pocketstone_scmfs::{CreateOptions, Volume, check};
///
/// # fn main() -> pocketstone_scmfs::Result<()> {
/// # let (memory, _) = pocketstone_media::Pcm::new(16 << 20, &Default::default());
/// Volume::create(Box::new(memory.region()?), &CreateOptions::default())?;
/// let report = check(Box::new(memory.region()?))?;
/// assert!(report.clean && report.findings.is_empty());
/// assert_eq!((report.directories, report.files), (1, 0));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Medium` if the region is not a volume, or one of an unsupported format; also if it is truncated.
pub fn check(region: Box<dyn Region>) -> Result<Report> {
    look(Medium::new(region), None).map(|survey| survey.report)
}

/// Looks at a volume without changing it. What lies beyond `cut_from` was lost with the region's end.
pub(crate) fn look(medium: Medium, cut_from: Option<u64>) -> Result<Survey> {
    let (superblock, faults) = Superblock::read(&medium)?;
    Ok(survey(Image::new(medium, superblock), faults, cut_from))
}

/// Looks at an image; `faults` are those of its superblocks.
pub(crate) fn survey(image: Image, faults: Vec<Error>, cut_from: Option<u64>) -> Survey {
    let mut survey = Survey {
        report: Report { clean: image.superblock.clean, ..Report::default() },
        image,
        subjects_of: Vec::new(),
        subjects: HashSet::new(),
        segments: Vec::new(),
        entries: BTreeMap::new(),
        is_chunk: HashMap::new(),
        empty_chunks: Vec::new(),
        records: BTreeMap::new(),
        rewritten: BTreeSet::new(),
        freed: BTreeMap::new(),
        lost: BTreeMap::new(),
        doubtful: HashSet::new(),
        orphans: BTreeMap::new(),
        huge: HashMap::new(),
        lists: HashMap::new(),
        relisted: BTreeSet::new(),
        copies: Vec::new(),
        texts: Vec::new(),
        cleared: Vec::new(),
        holes: Vec::new(),
        nameless: BTreeSet::new(),
        cut_from,
    };
    for fault in faults {
        if let Error::Damaged(damage) = fault {
            survey.find(damage.at, FindingKind::Superblock, damage.found, Subject::None);
        }
    }
    survey.inode_table();
    survey.inodes();
    survey.mapping_table();
    survey.huge_pages();
    survey.orphans();
    survey.claims();
    let tree = survey.tree();
    survey.free_map();
    survey.tell_of(&tree);
    survey.count();
    survey
}

impl Survey {
    fn find(&mut self, at: u64, kind: FindingKind, what: impl Into<String>, subject: Subject) {
        let (path, size) = (None, None);
        self.report.findings.push(Finding { at, kind, what: what.into(), path, size, repaired: false });
        self.subjects_of.push(subject);
        if let Subject::Inode(ino) = subject {
            self.subjects.insert(ino);
        }
    }

    /// Completes the findings by paths and sizes.
    fn tell_of(&mut self, tree: &Tree) {
        for (finding, subject) in self.report.findings.iter_mut().zip(&self.subjects_of) {
            match *subject {
                Subject::None => {}
                Subject::Text(size) => {
                    finding.path = finding.what.split(": ").next().map(str::to_owned);
                    finding.size = size;
                }
                Subject::Inode(ino) => {
                    let record = self.records.get(&ino);
                    finding.path = tree.path_of(ino);
                    finding.size = record.map(|record| record.size).or(self.lost.get(&ino).copied().flatten());
                    let kind = record.map_or("inode", |record| match record.kind() {
                        FileType::Directory => "directory",
                        FileType::Regular => "file",
                        FileType::Symlink => "symbolic link",
                        _ => "special file",
                    });
                    let name = finding.path.as_ref().map_or(String::new(), |path| format!("{path}, "));
                    let bytes = finding.size.map_or(String::new(), |size| format!(", {} bytes", grouped(size)));
                    finding.what = format!("{name}{kind} {ino}{bytes}: {}", finding.what);
                }
            }
        }
    }

    fn count(&mut self) {
        let layout = &self.image.layout;
        for (ino, record) in &self.records {
            self.report.inodes_used += 1;
            self.report.directories += u32::from(record.is_directory());
            self.report.files += u32::from(record.kind() == FileType::Regular);
            let extents = self.lists.get(ino).into_iter().flatten().map(|extent| u64::from(extent.pages)).sum::<u64>();
            let runs = [record.run_pages, record.xattr_pages, record.list_pages].map(u64::from);
            let huge = u64::from(record.segments) * layout.huge;
            self.report.bytes_used += (runs.into_iter().sum::<u64>() + extents) * layout.page + huge;
        }
    }

    /// A clean volume's free map against what was counted.
    fn free_map(&mut self) {
        if !self.report.clean || !self.report.findings.is_empty() {
            return;
        }
        let layout = self.image.layout.clone();
        let mut alloc = Alloc::new(&layout, self.segments.len() as u32);
        for (segment, entry) in (0..).zip(&self.segments) {
            match *entry {
                Mapping::SmallZone => alloc.claim_segment(segment, SMALL_ZONE),
                Mapping::Inodes { .. } => alloc.claim_segment(segment, INODE_TABLE),
                Mapping::File { owner, .. } => alloc.claim_segment(segment, owner),
                Mapping::Free => continue,
            };
        }
        for (ino, record) in &self.records {
            if *ino <= layout.inodes {
                alloc.inodes.claim(*ino);
            }
            alloc.take_pages_at(record.run_start, record.run_pages);
            alloc.take_pages_at(record.xattr_start, record.xattr_pages);
            alloc.take_pages_at(record.list_start, record.list_pages);
            for extent in self.lists.get(ino).into_iter().flatten() {
                alloc.take_pages_at(extent.start, extent.pages);
            }
        }
        let mut map = vec![0; alloc.free_map_bytes() as usize];
        self.image.read(layout.free_map_at, &mut map);
        let is_right = crc32c::crc32c(&map) == self.image.superblock.free_map_crc;
        if map != alloc.free_map() || !is_right {
            let wrong = if is_right { "content" } else { "checksum" };
            self.find(
                layout.free_map_at,
                FindingKind::FreeMap,
                format!("the free map has a wrong {wrong}"),
                Subject::None,
            );
        }
    }
}
