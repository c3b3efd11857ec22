//! The inodes: which version of each one counts, and what it says that cannot be.

use super::{FindingKind, Subject, Survey};
use crate::Ino;
use crate::format::bytes::get_u64;
use crate::format::extents::{self, Extent};
use crate::format::inode::{Half, Record, newest};

/// What an inode's halves tell.
enum Told {
    Unused,
    /// Both halves are as they should be.
    Whole(Record),
    /// One is whole; the other one is torn, or lost.
    Half(Record, What),
    /// Neither says anything.
    Lost,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Torn,
    Zeroed,
}

fn tell(halves: [Half; 2], is_clean: bool) -> Told {
    match (newest(halves), halves) {
        (_, [Half::Virgin, Half::Virgin]) => Told::Unused,
        (Some((_, record)), _) => Told::Whole(record),
        (None, [Half::Valid(_, record), Half::Torn] | [Half::Torn, Half::Valid(_, record)]) => {
            Told::Half(record, What::Torn)
        }
        (None, [Half::Valid(_, record), Half::Virgin] | [Half::Virgin, Half::Valid(_, record)]) => {
            Told::Half(record, What::Zeroed)
        }
        // The first version of all was torn: the inode is still free.
        (None, [Half::Virgin, Half::Torn]) if !is_clean => Told::Half(Record::default(), What::Torn),
        _ => Told::Lost,
    }
}

impl Survey {
    /// What an inode cannot say, its list included.
    fn nonsense(&self, record: &Record) -> Option<String> {
        let what = record.nonsense(&self.image.layout, self.image.segments());
        if what.is_some() || record.is_free() {
            return what;
        }
        let list_bytes = u64::from(record.list_pages) * self.image.layout.page;
        let is_short = extents::list_bytes(record.list_extents as usize) as u64 > list_bytes && record.list_extents > 0;
        let wrong = !self.is_inside(record.list_start, record.list_pages) || is_short;
        wrong.then(|| "an extent list outside the volume".into())
    }

    /// Whether small pages are in the volume.
    pub(super) fn is_inside(&self, start: u32, pages: u32) -> bool {
        let all = self.image.segments() * self.image.layout.pages_per_segment();
        start.checked_add(pages).is_some_and(|end| end <= all)
    }

    /// Reads all inodes; sets apart the damaged ones, and those without a name that recovery frees.
    pub(super) fn inodes(&mut self) {
        for ino in 1..=self.image.layout.last_inode() {
            let (halves, at) = (self.image.halves(ino), self.image.layout.version_at(ino, 0));
            let is_clean = self.report.clean;
            let (record, half) = match tell(halves, is_clean) {
                Told::Unused => continue,
                Told::Whole(record) => (record, None),
                Told::Half(record, what) => (record, Some(what)),
                Told::Lost => {
                    self.lose(ino, "it is damaged: neither version is valid");
                    continue;
                }
            };
            match half {
                // After a crash that is nothing to wonder at, and recovery mends it.
                Some(What::Torn) if !is_clean => {
                    self.report.torn_versions += 1;
                    self.report.recovered = true;
                }
                Some(What::Torn) => {
                    self.find(
                        at,
                        FindingKind::Inode,
                        "one of its two versions is torn or damaged",
                        Subject::Inode(ino),
                    );
                }
                Some(What::Zeroed) => {
                    self.find(at, FindingKind::Inode, "one of its two versions is lost", Subject::Inode(ino))
                }
                None => {}
            }
            if half.is_some() {
                self.rewritten.insert(ino);
            }
            let record = match self.nonsense(&record) {
                None => record,
                Some(what) => {
                    // An earlier version is better than none.
                    let sane = halves.iter().find_map(|half| match half {
                        Half::Valid(_, other) if *other != record && !other.is_free() => {
                            self.nonsense(other).is_none().then_some(*other)
                        }
                        _ => None,
                    });
                    let Some(sane) = sane else {
                        self.lose(ino, &format!("it has {what}"));
                        continue;
                    };
                    self.find(at, FindingKind::Inode, format!("its newer version has {what}"), Subject::Inode(ino));
                    self.rewritten.insert(ino);
                    sane
                }
            };
            if record.is_free() {
                if half.is_some() {
                    self.freed.insert(ino, record);
                }
            } else if record.links == 0 && !is_clean {
                self.orphans.insert(ino, record);
            } else {
                if half.is_some() {
                    self.doubtful.insert(ino);
                }
                self.records.insert(ino, record);
            }
        }
    }

    /// Gives an inode up.
    pub(super) fn lose(&mut self, ino: Ino, what: &str) {
        self.records.remove(&ino);
        self.rewritten.remove(&ino);
        let size = self.size_of_damaged(ino);
        self.lost.insert(ino, size);
        self.find(self.image.layout.version_at(ino, 0), FindingKind::Inode, what, Subject::Inode(ino));
    }

    /// The size of a damaged inode, where both versions name the same.
    fn size_of_damaged(&self, ino: Ino) -> Option<u64> {
        let mut b = [0; 256];
        self.image.read(self.image.layout.version_at(ino, 0), &mut b);
        let sizes = [get_u64(&b, 24), get_u64(&b, 128 + 24)];
        (sizes[0] == sizes[1] && (1..=self.image.layout.max_file()).contains(&sizes[0])).then_some(sizes[0])
    }

    /// An inode's list of extents; `None` if it is damaged.
    pub(super) fn read_list(&self, ino: Ino, record: &Record) -> Option<Vec<Extent>> {
        if record.list_extents == 0 {
            return Some(Vec::new());
        }
        let mut b = vec![0; extents::list_bytes(record.list_extents as usize)];
        self.image.read(self.image.layout.page_at(record.list_start), &mut b);
        extents::decode(ino, &b)
    }

    /// Changes what an inode is to be.
    pub(super) fn change(&mut self, ino: Ino, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.records.get_mut(&ino) {
            change(record);
            self.rewritten.insert(ino);
        }
    }
}
