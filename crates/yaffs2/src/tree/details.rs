//! What headers say, of the objects that were asked for last.

use super::Tree;
use super::header::Header;
use super::objects::{DELETED_ID, LOST_ID, Mark, ROOT_ID, UNLINKED_ID};
use crate::log::tags::Kind;
use pocketstone_vfs::{Error, Result};
use std::collections::BTreeMap;

/// Headers that are kept though nobody needs them now.
const KEPT: usize = 24;
/// Objects whose new times wait to be written, at most.
const LATE: usize = 512;

/// What an object's header says, beside what is in memory of it anyway.
#[derive(Debug, Clone)]
pub struct Detail {
    pub name: Vec<u8>,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub atime_s: i64,
    pub mtime_s: i64,
    pub ctime_s: i64,
    pub rdev: u32,
    pub target: Vec<u8>,
    /// Whether the header's page holds extended attributes.
    pub has_xattrs: bool,
    used_at: u64,
}

impl Detail {
    pub fn new(name: &[u8], mode: u32, uid: u32, gid: u32, now_s: i64) -> Detail {
        Detail {
            name: name.to_vec(),
            mode,
            uid,
            gid,
            atime_s: now_s,
            mtime_s: now_s,
            ctime_s: now_s,
            rdev: 0,
            target: Vec::new(),
            has_xattrs: false,
            used_at: 0,
        }
    }

    /// What an object's header says, which is in a page.
    fn of(id: u32, header: Header, page: &[u8]) -> Detail {
        let name = match (id, header.name.is_empty()) {
            (LOST_ID, _) => b"lost+found".to_vec(),
            (ROOT_ID, _) | (_, false) => header.name,
            (_, true) => format!("obj{id}").into_bytes(),
        };
        Detail {
            name,
            mode: header.mode,
            uid: header.uid,
            gid: header.gid,
            atime_s: header.atime_s,
            mtime_s: header.mtime_s,
            ctime_s: header.ctime_s,
            rdev: header.rdev,
            target: header.target,
            has_xattrs: super::xattrs::any(page),
            used_at: 0,
        }
    }
}

/// Details by object.
#[derive(Default)]
pub struct Details {
    /// How many that a scan has come across are kept.
    from_scan: usize,
    by_id: BTreeMap<u32, Detail>,
    /// When objects were changed whose headers on the chip do not say so yet, in seconds since 1970.
    late: BTreeMap<u32, i64>,
    clock: u64,
}

impl Details {
    /// Of so many objects what a scan finds is kept.
    pub fn new(from_scan: usize) -> Details {
        Details { from_scan, ..Details::default() }
    }

    pub fn get(&self, id: u32) -> Option<&Detail> {
        self.by_id.get(&id)
    }

    pub fn get_mut(&mut self, id: u32) -> Option<&mut Detail> {
        self.clock += 1;
        let detail = self.by_id.get_mut(&id)?;
        detail.used_at = self.clock;
        Some(detail)
    }

    pub fn insert(&mut self, id: u32, mut detail: Detail) {
        self.clock += 1;
        detail.used_at = self.clock;
        self.by_id.insert(id, detail);
        let kept = self.from_scan.max(KEPT);
        if self.by_id.len() >= 2 * kept {
            let mut by_use: Vec<(u64, u32)> = self.by_id.iter().map(|(&id, d)| (d.used_at, id)).collect();
            by_use.sort_unstable();
            by_use[..by_use.len() - kept].iter().for_each(|(_, id)| {
                self.by_id.remove(id);
            });
        }
    }

    /// Keeps what a scan has read of an object, if there is room for it.
    pub fn scanned(&mut self, id: u32, header: &Header, page: &[u8]) {
        if self.by_id.len() < self.from_scan {
            self.insert(id, Detail::of(id, header.clone(), page));
        }
    }

    /// An object's content was changed. Its header says so later.
    pub fn changed(&mut self, id: u32, now_s: i64) {
        self.late.insert(id, now_s);
        if let Some(detail) = self.by_id.get_mut(&id) {
            (detail.mtime_s, detail.ctime_s) = (now_s, now_s);
        }
    }

    /// An object's header on the chip says what there is to say.
    pub fn written(&mut self, id: u32) {
        self.late.remove(&id);
    }

    pub fn remove(&mut self, id: u32) {
        self.by_id.remove(&id);
        self.late.remove(&id);
    }

    pub fn is_dirty(&self, id: u32) -> bool {
        self.late.contains_key(&id)
    }

    /// Objects whose headers have to be written, from the lowest number.
    pub fn dirty(&self) -> Vec<u32> {
        let mut dirty: Vec<u32> = self.late.keys().copied().collect();
        dirty.sort_unstable();
        dirty
    }

    /// The objects that wait longest, if too many do.
    pub fn overdue(&self) -> Vec<u32> {
        if self.late.len() <= LATE {
            return Vec::new();
        }
        let mut by_time: Vec<(i64, u32)> = self.late.iter().map(|(&id, &time)| (time, id)).collect();
        by_time.sort_unstable();
        by_time[..LATE / 4].iter().map(|&(_, id)| id).collect()
    }

    pub fn bytes(&self) -> usize {
        self.by_id.len() * (size_of::<Detail>() + 32) + self.late.len() * 20
    }
}

impl Tree {
    /// What an object's header says; read if it is not known.
    pub(crate) fn load(&mut self, id: u32) -> Result<&mut Detail> {
        if self.details.get(id).is_none() {
            let mut detail = self.read_detail(id)?;
            if let Some(&time_s) = self.details.late.get(&id) {
                (detail.mtime_s, detail.ctime_s) = (time_s, time_s);
            }
            if id != ROOT_ID && !self.objects.get(id).is_some_and(|object| object.has(Mark::Named)) {
                self.objects.name(id, &detail.name);
            }
            self.details.insert(id, detail);
        }
        self.details.get_mut(id).ok_or(Error::NotFound)
    }

    fn read_detail(&mut self, id: u32) -> Result<Detail> {
        let object = self.objects.get(id).ok_or(Error::NotFound)?;
        let (chunk, kind) = (object.header, object.kind);
        if chunk == 0 {
            // One of the four that are always there, or one whose header is lost.
            let name = match id {
                ROOT_ID | UNLINKED_ID | DELETED_ID => Vec::new(),
                LOST_ID => b"lost+found".to_vec(),
                _ => format!("obj{id}").into_bytes(),
            };
            let mode = match (id, kind) {
                (LOST_ID, _) => 0o40_700,
                (_, Kind::Directory) => 0o40_755,
                _ => 0o100_600,
            };
            return Ok(Detail::new(&name, mode, 0, 0, self.now_s()));
        }
        let mut page = vec![0; self.log.chip.data_bytes()];
        self.log.read_chunk(chunk, &mut page)?;
        Ok(Detail::of(id, self.header_of(id, &page)?, &page))
    }

    /// The header in a page that is an object's.
    pub(crate) fn header_of(&self, id: u32, page: &[u8]) -> Result<Header> {
        let object = self.objects.get(id).ok_or(Error::NotFound)?;
        match Header::decode(page, self.log.chip.inband) {
            Some(header) if header.kind == object.kind => Ok(header),
            _ => Err(Error::damaged(self.log.chip.at(object.header), format!("no header of object {id}"))),
        }
    }

    /// Makes sure that all names of a directory are in the index.
    pub(crate) fn name_all(&mut self, directory: u32) -> Result<()> {
        if self.objects.get(directory).is_some_and(|object| object.has(Mark::AllNamed)) {
            return Ok(());
        }
        let nameless = |id: &u32| self.objects.get(*id).is_some_and(|object| !object.has(Mark::Named));
        let children: Vec<u32> = self.objects.children(directory).filter(nameless).collect();
        for id in children {
            match self.load(id) {
                // Its name is not known; it can still be found by the number that a listing gives it.
                Err(Error::Damaged(_)) => self.objects.name(id, format!("obj{id}").as_bytes()),
                other => {
                    other?;
                }
            }
        }
        if let Some(object) = self.objects.get_mut(directory) {
            object.set(Mark::AllNamed, true);
        }
        Ok(())
    }
}
