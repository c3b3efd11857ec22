//! Makes damaged metadata pass its checksum again, so that damage reaches the checks behind it. Written from
//! the format's description, not from the library.

use std::ops::Range;

/// Where the parts of a volume lie, as its superblock says before it is damaged.
#[derive(Debug, Clone)]
pub struct Seal {
    page: usize,
    huge: usize,
    inodes: usize,
    journal: (usize, usize),
    pub inodes_at: usize,
    mapping_at: usize,
    mirror_at: usize,
    free_map_at: usize,
    pub data_at: usize,
    segments: usize,
    uuid: [u8; 16],
}

const SUPERBLOCK_BYTES: usize = 256;
const VERSION_BYTES: usize = 128;
const MODE_TYPE: u16 = 0o170_000;
const MODE_DIRECTORY: u16 = 0o040_000;
const MODE_LINK: u16 = 0o120_000;

fn word(image: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(image[at..at + 4].try_into().expect("4 bytes"))
}

fn long(image: &[u8], at: usize) -> usize {
    u64::from_le_bytes(image[at..at + 8].try_into().expect("8 bytes")) as usize
}

fn set(image: &mut [u8], at: usize, value: u32) {
    image[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// A checksum that goes on from another, over several pieces.
fn crc(seed: u32, pieces: &[&[u8]]) -> u32 {
    pieces.iter().fold(seed, |crc, piece| crc32c::crc32c_append(crc, piece))
}

/// An inode's newest version: what of it leads to other checksums.
struct Inode {
    at: usize,
    mode: u16,
    is_huge: bool,
    size: usize,
    run: (usize, usize),
    xattrs: (usize, usize),
}

impl Seal {
    /// For a sound image.
    pub fn of(image: &[u8]) -> Seal {
        let data_at = long(image, 80);
        let huge = word(image, 16) as usize;
        Seal {
            page: word(image, 12) as usize,
            huge,
            inodes: word(image, 20) as usize,
            journal: (long(image, 40), long(image, 48)),
            inodes_at: long(image, 56),
            mapping_at: long(image, 64),
            mirror_at: long(image, 192),
            free_map_at: long(image, 72),
            data_at,
            segments: (long(image, 24) - data_at) / huge,
            uuid: image[120..136].try_into().expect("16 bytes"),
        }
    }

    /// Corrects the checksum over a byte, if one is there. What is all zeros is not in use, and stays so.
    pub fn seal(&self, image: &mut [u8], at: usize) {
        let tables = [self.mapping_at, self.mirror_at];
        let table = tables.into_iter().find(|table| (*table..*table + self.segments * 16).contains(&at));
        let copy = self.superblocks().into_iter().find(|copy| (*copy..*copy + SUPERBLOCK_BYTES).contains(&at));
        if let Some(copy) = copy {
            self.superblock(image, copy);
        } else if at < self.journal.0 {
            // Nothing lies there.
        } else if at < self.inodes_at {
            self.record(image, at);
        } else if at < self.inodes_at + self.inodes * 2 * VERSION_BYTES {
            self.version(image, (at - self.inodes_at) / VERSION_BYTES);
        } else if let Some(table) = table {
            let entry = (at - table) / 16;
            let from = table + entry * 16;
            let right = crc(entry as u32 + 1, &[&image[from..from + 12]]);
            set(image, from + 12, right);
        } else if at >= self.data_at {
            (1..=self.inodes).for_each(|ino| self.content(image, ino, at));
        }
    }

    /// Bytes of a small page.
    pub fn page(&self) -> usize {
        self.page
    }

    /// Where an inode lies.
    pub fn inode_at(&self, ino: usize) -> usize {
        self.inodes_at + (ino - 1) * 2 * VERSION_BYTES
    }

    /// The inodes that the inode table has in a range of bytes.
    pub fn inodes_in(&self, range: &Range<usize>) -> Range<usize> {
        let number = |at: usize| at.saturating_sub(self.inodes_at).div_ceil(2 * VERSION_BYTES).min(self.inodes) + 1;
        let first = range.start.saturating_sub(self.inodes_at) / (2 * VERSION_BYTES) + 1;
        first..number(range.end).max(first)
    }

    /// Where inodes have metadata in the data area, one small page at a time: directories, links, attributes.
    pub fn metadata_in_data(&self, image: &[u8]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        for ino in 1..=self.inodes {
            let inode = self.inode(image, ino);
            let mut add = |(start, bytes): (usize, usize)| {
                found.extend((start..start + bytes).step_by(self.page).map(|at| (ino, at)));
            };
            if inode.xattrs.1 > 0 {
                add(inode.xattrs);
            }
            if matches!(inode.mode & MODE_TYPE, MODE_DIRECTORY | MODE_LINK) && !inode.is_huge {
                add(inode.run);
            }
            if inode.mode & MODE_TYPE == MODE_DIRECTORY && inode.is_huge {
                for segment in 0..self.segments {
                    if word(image, self.mapping_at + segment * 16) as usize == ino {
                        add((self.data_at + segment * self.huge, self.huge));
                    }
                }
            }
        }
        found
    }

    /// Where the two superblocks lie.
    pub fn superblocks(&self) -> [usize; 2] {
        [0, self.data_at - self.page]
    }

    fn superblock(&self, image: &mut [u8], at: usize) {
        let right = crc(0, &[&image[at..at + 252]]);
        set(image, at + SUPERBLOCK_BYTES - 4, right);
    }

    /// The record of the journal that a byte is in: the last header at or before it.
    fn record(&self, image: &mut [u8], at: usize) {
        let (first, bytes) = self.journal;
        let lines = (first..=at / 64 * 64).rev().step_by(64);
        let Some(from) = lines.into_iter().find(|line| image[*line..line + 4] == *b"SCMJ") else { return };
        let length = word(image, from + 4) as usize;
        if length < 64 || length > first + bytes - from {
            return;
        }
        let position = ((from - first) as u64).to_le_bytes();
        let (head, rest) = (&image[from..from + 16], &image[from + 20..from + length]);
        let right = crc(crc(0, &[&self.uuid]), &[&position, head, rest]);
        set(image, from + 16, right);
    }

    fn version(&self, image: &mut [u8], half: usize) {
        let (ino, at) = (half as u32 / 2 + 1, self.inodes_at + half * VERSION_BYTES);
        if image[at..at + VERSION_BYTES].iter().all(|byte| *byte == 0) {
            return;
        }
        let right = crc(ino, &[&image[at..at + 4], &image[at + 8..at + VERSION_BYTES]]);
        set(image, at + 4, right);
    }

    /// Corrects the free map's checksum. Not a part of [`Seal::seal`]: a lie in a whole free map can be told
    /// only by counting everything, which a clean volume is opened without.
    pub fn free_map(&self, image: &mut [u8]) {
        let pages = (self.segments * (self.huge / self.page)).div_ceil(64);
        let bytes = (pages + (self.inodes + 1).div_ceil(64)) * 8;
        let right = crc(0, &[&image[self.free_map_at..self.free_map_at + bytes]]);
        for copy in self.superblocks() {
            set(image, copy + 136, right);
            self.superblock(image, copy);
        }
    }

    /// Where the free map has its bits for inodes, of which number 0 is the first; how many inodes there are.
    pub fn inode_bits(&self) -> (usize, usize) {
        let pages = (self.segments * (self.huge / self.page)).div_ceil(64);
        (self.free_map_at + pages * 8, self.inodes)
    }

    fn inode(&self, image: &[u8], ino: usize) -> Inode {
        let at = self.inodes_at + (ino - 1) * 2 * VERSION_BYTES;
        let is_newer = word(image, at + VERSION_BYTES).wrapping_sub(word(image, at)) as i32 > 0;
        let at = at + if is_newer { VERSION_BYTES } else { 0 };
        // A damaged number may lead beyond the addresses of a 32-bit machine: beyond the image, in any case.
        let pages = |start: usize| (word(image, start) as usize).saturating_mul(self.page);
        let place = |start: usize| pages(start).saturating_add(self.data_at);
        Inode {
            at,
            mode: u16::from_le_bytes([image[at + 8], image[at + 9]]),
            is_huge: image[at + 10] & 1 != 0,
            size: long(image, at + 24),
            run: (place(at + 64), pages(at + 68)),
            xattrs: (place(at + 72), word(image, at + 80) as usize),
        }
    }

    /// What an inode has there, if it has: an entry of a directory, a link's target, attributes.
    fn content(&self, image: &mut [u8], ino: usize, at: usize) {
        let inode = self.inode(image, ino);
        let inside = |(start, bytes): (usize, usize)| {
            (start..start.saturating_add(bytes)).contains(&at) && start.saturating_add(bytes) <= image.len()
        };
        if inside(inode.xattrs) && inode.xattrs.1 > 8 {
            let (start, bytes) = inode.xattrs;
            let right = crc(ino as u32, &[&image[start + 4..start + bytes]]);
            return set(image, start, right);
        }
        let offset = match inode.is_huge {
            false if inside(inode.run) => at - inode.run.0,
            true => {
                let segment = (at - self.data_at) / self.huge;
                let entry = self.mapping_at + segment * 16;
                if segment >= self.segments || word(image, entry) as usize != ino {
                    return;
                }
                let before = (word(image, entry + 4) as usize).saturating_mul(self.huge);
                before.saturating_add((at - self.data_at) % self.huge)
            }
            _ => return,
        };
        match inode.mode & MODE_TYPE {
            MODE_LINK if !inode.is_huge && inode.size <= inode.run.1 => {
                let right = crc(0, &[&image[inode.run.0..inode.run.0 + inode.size]]);
                set(image, inode.at + 100, right);
                self.version(image, (inode.at - self.inodes_at) / VERSION_BYTES);
            }
            MODE_DIRECTORY => self.entry(image, ino as u32, offset / 64, at / 64 * 64),
            _ => {}
        }
    }

    /// The entry that a slot begins or, if it does not look like it, one that began up to four slots before.
    fn entry(&self, image: &mut [u8], directory: u32, slot: usize, at: usize) {
        let begins = |back: usize| {
            let from = at - back * 64;
            let length = usize::from(image[from + 12]);
            word(image, from) != 0 && (16 + length).div_ceil(64) > back && from + 16 + length <= image.len()
        };
        let Some(back) = (0..5.min(slot + 1)).find(|back| begins(*back)) else { return };
        let (slot, from) = ((slot - back) as u32, at - back * 64);
        let end = from + 16 + usize::from(image[from + 12]);
        let name = crc(0, &[&image[from + 16..end]]);
        set(image, from + 8, name);
        let right = crc(directory, &[&slot.to_le_bytes(), &image[from..from + 4], &image[from + 8..end]]);
        set(image, from + 4, right);
    }
}
