//! The mapping table: what each huge page is to be, from both copies of its entry and from what inodes say.

use super::{FindingKind, Subject, Survey};
use crate::Ino;
use crate::format::mapping::Mapping;

impl Survey {
    /// Finds the parts of the inode table. One that is lost is replaced by an empty one, for the later ones' sake.
    pub(super) fn inode_table(&mut self) {
        let chunks = self.image.chunks();
        let taken: Vec<u32> = chunks.iter().flatten().copied().collect();
        let is_free = |survey: &Survey, segment: u32| {
            !taken.contains(&segment) && survey.image.entries(segment) == [Some(Mapping::Free); 2]
        };
        let mut from = self.image.segments();
        for (index, chunk) in chunks.iter().enumerate() {
            let at = self.image.layout.mapping_at;
            let segment = chunk.or_else(|| {
                from = (0..from).rev().find(|segment| is_free(self, *segment))?;
                self.empty_chunks.push(from);
                Some(from)
            });
            if chunk.is_none() {
                let what = format!("part {index} of the inode table beyond the first is lost, with the inodes in it");
                self.find(at, FindingKind::Mapping, what, Subject::None);
            }
            let Some(segment) = segment else { break };
            self.image.layout.chunks.push(segment);
            self.is_chunk.insert(segment, index as u32);
        }
    }

    /// Huge pages that hold small pages of inodes.
    fn zone_in_use(&self) -> Vec<bool> {
        let (count, unit) = (self.image.segments(), self.image.layout.pages_per_segment());
        let mut used = vec![false; count as usize];
        let mut mark = |start: u32, pages: u32| {
            if pages > 0 {
                (start / unit..=(start + pages - 1) / unit).for_each(|segment| used[segment as usize] = true);
            }
        };
        for (ino, record) in self.records.iter().chain(&self.orphans) {
            for (start, pages) in [
                (record.run_start, record.run_pages),
                (record.xattr_start, record.xattr_pages),
                (record.list_start, record.list_pages),
            ] {
                mark(start, pages);
            }
            for extent in self.read_list(*ino, record).unwrap_or_default() {
                if self.is_inside(extent.start, extent.pages) {
                    mark(extent.start, extent.pages);
                }
            }
        }
        used
    }

    /// Decides what each huge page is, and notes the entries that say something else.
    pub(super) fn mapping_table(&mut self) {
        let zone_in_use = self.zone_in_use();
        let mut faults: Vec<(u32, &str)> = Vec::new();
        for segment in 0..self.image.layout.max_segments {
            let copies = self.image.entries(segment);
            let decided = if segment < self.image.segments() {
                let decided = self.decide(segment, copies, zone_in_use[segment as usize]);
                self.segments.push(decided);
                decided
            } else {
                // Beyond the volume's end, for when it grows.
                Mapping::Free
            };
            if copies == [Some(decided); 2] {
                continue;
            }
            self.entries.insert(segment, decided);
            faults.push((
                segment,
                match copies {
                    [None, None] => "damaged in both tables",
                    [None, Some(_)] => "damaged in the first table",
                    [Some(_), None] => "damaged in the second table",
                    [Some(a), Some(b)] if a != b => "different in the two tables",
                    _ if segment >= self.image.segments() => "in use beyond the volume's end",
                    _ => "against what inodes say",
                },
            ));
        }
        let mut from = 0;
        for i in 1..=faults.len() {
            if i < faults.len() && faults[i].1 == faults[from].1 && faults[i].0 == faults[i - 1].0 + 1 {
                continue;
            }
            let (first, last, fault) = (faults[from].0, faults[i - 1].0, faults[from].1);
            let which =
                if first == last { format!("entry {first} is") } else { format!("entries {first} to {last} are") };
            let at = self.image.layout.mapping_entry_at(first);
            let at = if fault.contains("second") { self.image.layout.mirrored(at) } else { at };
            self.find(at, FindingKind::Mapping, format!("{which} {fault}"), Subject::None);
            from = i;
        }
    }

    fn decide(&self, segment: u32, copies: [Option<Mapping>; 2], zone_in_use: bool) -> Mapping {
        if let Some(index) = self.is_chunk.get(&segment) {
            return Mapping::Inodes { index: *index };
        }
        let said = || copies.into_iter().flatten();
        let agrees = |entry: &Mapping| match entry {
            Mapping::File { owner, generation, .. } => self
                .records
                .get(owner)
                .or_else(|| self.orphans.get(owner))
                .is_some_and(|record| record.huge && record.generation == *generation),
            _ => false,
        };
        let is_zone = zone_in_use || said().any(|entry| entry == Mapping::SmallZone);
        // What no inode agrees with is judged, and told of, by its owner.
        let same = match copies {
            [Some(a), Some(b)] => a == b,
            [a, b] => a.is_some() || b.is_some(),
        };
        match said().find(agrees) {
            Some(entry) => entry,
            None if is_zone => Mapping::SmallZone,
            None => said().find(|entry| same && matches!(entry, Mapping::File { .. })).unwrap_or(Mapping::Free),
        }
    }

    /// Gives files the huge pages that the mapping table says are theirs; says which lack some.
    pub(super) fn huge_pages(&mut self) {
        let layout = self.image.layout.clone();
        for segment in 0..self.segments.len() as u32 {
            let Mapping::File { owner, index, generation } = self.segments[segment as usize] else { continue };
            let known = self.records.get(&owner).or_else(|| self.orphans.get(&owner));
            let what = match known {
                Some(record) if !record.huge => {
                    Some(format!("entry {segment} of inode {owner}, which has small pages"))
                }
                Some(record) if record.generation != generation => {
                    Some(format!("entry {segment} of an earlier inode {owner}"))
                }
                None => Some(format!("entry {segment} of inode {owner}, which is not in use")),
                Some(_) => {
                    self.huge.entry(owner).or_default().push((index, segment));
                    None
                }
            };
            if let Some(what) = what {
                let subject = if self.lost.contains_key(&owner) { None } else { Some(what) };
                self.clear_entry(segment, subject);
            }
        }
        let mut twice = Vec::new();
        for (owner, list) in &mut self.huge {
            list.sort_unstable();
            list.dedup_by(|next, first| {
                let same = next.0 == first.0;
                if same {
                    twice.push((
                        next.1,
                        format!("entry {} for page {} of inode {owner}, which has one", next.1, next.0),
                    ));
                }
                same
            });
        }
        for (segment, what) in twice {
            self.clear_entry(segment, Some(what));
        }
        let wrong: Vec<(Ino, u32, u32)> = self
            .records
            .iter()
            .map(|(ino, record)| (*ino, record.segments, self.huge.get(ino).map_or(0, Vec::len) as u32))
            .filter(|(_, should, are)| should != are)
            .collect();
        for (ino, should, are) in wrong {
            let what = match should > are {
                true => format!("{} of its {should} huge pages are lost{}", should - are, self.gaps(ino, should - are)),
                false => format!("it should have {should} huge pages, the mapping table has {are}"),
            };
            self.find(layout.version_at(ino, 0), FindingKind::Inode, what, Subject::Inode(ino));
            self.change(ino, |record| (record.segments, record.huge) = (are, record.huge && are > 0));
        }
    }

    /// Frees a huge page; `what` is wrong with its entry, unless that was told otherwise.
    pub(super) fn clear_entry(&mut self, segment: u32, what: Option<String>) {
        self.segments[segment as usize] = Mapping::Free;
        self.entries.insert(segment, Mapping::Free);
        if let Some(what) = what {
            self.find(self.image.layout.mapping_entry_at(segment), FindingKind::Mapping, what, Subject::None);
        }
    }

    /// Which bytes those are, if that can be told: there are as many gaps as pages are lost.
    fn gaps(&self, ino: Ino, lost: u32) -> String {
        let huge = self.image.layout.huge;
        let size = self.records.get(&ino).map_or(0, |record| record.size);
        let there: &[(u32, u32)] = self.huge.get(&ino).map_or(&[], Vec::as_slice);
        let (mut gaps, mut next) = (Vec::new(), 0);
        for index in there.iter().map(|(index, _)| u64::from(*index)).chain([size.div_ceil(huge)]) {
            if index > next {
                gaps.push((next, index));
            }
            next = index + 1;
        }
        if gaps.iter().map(|(from, to)| to - from).sum::<u64>() != u64::from(lost) {
            return ": there are holes now".into();
        }
        let ranges = gaps.iter().map(|(from, to)| format!("bytes {}..{}", from * huge, (to * huge).min(size)));
        format!(": {} are lost", ranges.collect::<Vec<_>>().join(", "))
    }
}
