//! The bodies of the fuzz targets; `cargo test` replays their corpora through them.

use super::power::storm;
use super::run::{Restart, Run};
use super::shape::Shape;
use super::subject::{OpenFiles, close, walk};
use pocketstone_fstest::{Op, Pair, apply, drive};
use pocketstone_media::nand::{Nand, SimulatedNand};
use pocketstone_random::Random;
use std::sync::OnceLock;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// Operations with losses of power: the first byte chooses the chip, the next 8 say when the power fails, then 8 bytes
/// are an operation. When they are used up random ones follow until the last loss of power.
pub fn operations(data: &[u8]) {
    let Some((head, words)) = data.split_at_checked(9) else { return };
    let shapes = [
        Shape::new(24, 8, 1024),
        Shape::new(16, 8, 528),
        Shape::new(60, 8, 528),
        Shape::new(24, 8, 1024).with(|shape| {
            (shape.options.tags_ecc, shape.options.cache_chunks) = (false, 0);
            shape.geometry.spare_bytes = 16;
        }),
    ];
    let shape = &shapes[usize::from(head[0]) % shapes.len()];
    let seed = u64::from(word(head, 1)) << 32 | u64::from(word(head, 5));
    let decoder = shape.decoder();
    let next = drive::then_random(words, &decoder);
    let cuts = 1 + words.len() as u64 / 160;
    storm(shape, seed, cuts.min(8), &next).unwrap_or_else(|what| panic!("{}: {what}", shape.describe()));
}

/// Sound volumes to damage.
struct Start {
    shape: Shape,
    image: Vec<u8>,
}

fn starts() -> &'static [Start] {
    static STARTS: OnceLock<Vec<Start>> = OnceLock::new();
    STARTS.get_or_init(|| {
        let shapes = [
            Shape::new(60, 8, 1024),
            Shape::new(60, 8, 528),
            Shape::new(24, 8, 1024),
            Shape::new(20, 8, 1024).with(|shape| {
                (shape.options.tags_ecc, shape.options.summary) = (false, false);
                shape.geometry.spare_bytes = 16;
            }),
        ];
        let make = |(seed, shape): (u64, Shape)| {
            let mut run = Run::new(&shape, seed);
            let (decoder, mut random) = (shape.decoder(), Random::labelled(seed, "start"));
            (0..160).for_each(|_| run.step(&decoder.random(&mut random)).expect("a start is made"));
            let run = run.leave(Restart::Unmount).expect("a start is made");
            Start { image: run.recorder.chip.image(), shape }
        };
        (0..).zip(shapes).map(make).collect()
    })
}

/// Values that checks are about.
const EDGES: [u32; 24] = [
    0,
    1,
    2,
    3,
    4,
    5,
    0x10,
    0x20,
    0x21,
    0x100,
    0x101,
    0x102,
    0x1000,
    0x1001,
    0x3FFFF,
    0x40000,
    0xFFF_FFFF,
    0x1000_0000,
    0x7FFF_FFFF,
    0x8000_0000,
    0x8000_0101,
    0xC000_0004,
    0xEFFF_FEFF,
    0xFFFF_FFFF,
];
/// Words of a header: type, parent, mode, size, target of a link, upper half of the size, shadow, shrinks, records.
const HEADER_WORDS: [usize; 12] = [0, 4, 10, 268, 292, 296, 488, 492, 496, 504, 508, 512];

/// A sound chip with edits of 8 bytes each: what, page (2), where, a value (4). The first byte chooses the chip.
pub fn image(data: &[u8]) {
    let Some((which, edits)) = data.split_first() else { return };
    let start = &starts()[usize::from(*which) % starts().len()];
    let mut pages = Pages::of(start);
    for edit in edits.chunks_exact(8).take(64) {
        pages.edit(edit);
    }
    let chip = start.shape.make(0);
    chip.load(&pages.image).expect("an image of the chip's size");
    examine(&chip, &start.shape);
}

struct Pages {
    image: Vec<u8>,
    data: usize,
    stride: usize,
    count: usize,
    /// Where tags are in a page, and how many bytes with their parities.
    tags: (usize, usize),
}

impl Pages {
    fn of(start: &Start) -> Pages {
        let chip = start.shape.make(0);
        let (layout, geometry) = (chip.layout(), chip.geometry());
        let data = geometry.page_bytes as usize;
        let tags = match (start.shape.options.inband_tags, start.shape.options.tags_ecc) {
            (true, _) => (data - 16, 16),
            (false, true) => (data + 2, 28),
            (false, false) => (data + 2, 16),
        };
        let stride = data + layout.spare_total_bytes as usize;
        Pages { image: start.image.clone(), data, stride, count: geometry.pages() as usize, tags }
    }

    fn page(&mut self, page: usize) -> &mut [u8] {
        let at = page % self.count * self.stride;
        &mut self.image[at..at + self.stride]
    }

    fn edit(&mut self, edit: &[u8]) {
        let page = usize::from(u16::from_le_bytes([edit[1], edit[2]]));
        let (place, value) = (usize::from(edit[3]), word(edit, 4));
        let edge = EDGES[edit[4] as usize % EDGES.len()];
        let (data, (tags, _)) = (self.data, self.tags);
        match edit[0] % 10 {
            // Any byte.
            0 => {
                let stride = self.stride;
                self.page(page)[(place << 8 | usize::from(edit[4])) % stride] = edit[5];
            }
            // A word of the tags, with parities that fit.
            1 | 2 => {
                let at = tags + place % 4 * 4;
                let old = word(self.page(page), at);
                let new = match edit[0] % 10 {
                    1 => edge,
                    _ => old.wrapping_add_signed(i32::from(value as i8)),
                };
                self.page(page)[at..at + 4].copy_from_slice(&new.to_le_bytes());
                self.seal(page);
            }
            // A word of the header.
            3 | 4 => {
                let at = HEADER_WORDS[place % HEADER_WORDS.len()] % (data - 3);
                let new = if edit[0] % 10 == 3 { edge } else { value };
                self.page(page)[at..at + 4].copy_from_slice(&new.to_le_bytes());
            }
            // A page is that of another place.
            5 => {
                let from = self.page(value as usize & 0xFFFF).to_vec();
                self.page(page).copy_from_slice(&from);
            }
            6 => self.page(page).fill(0xFF),
            // Two blocks change places.
            7 => {
                for offset in 0..8 {
                    let (one, other) = (page / 8 * 8 + offset, (value as usize & 0xFFFF) / 8 * 8 + offset);
                    let (first, second) = (self.page(one).to_vec(), self.page(other).to_vec());
                    self.page(one).copy_from_slice(&second);
                    self.page(other).copy_from_slice(&first);
                }
            }
            // A word of the checkpoint, with sums that fit.
            _ => self.edit_checkpoint(page << 8 | place, if edit[0] % 10 == 8 { edge } else { value }),
        }
    }

    /// Tags' parities, as the format has them: of columns, of lines, of lines inverted.
    fn seal(&mut self, page: usize) {
        let (at, bytes) = self.tags;
        if bytes < 28 {
            return;
        }
        let page = self.page(page);
        let tags = page[at..at + 16].to_vec();
        let all = tags.iter().fold(0u8, |all, byte| all ^ byte);
        let odd = |mask: u8| (all & mask).count_ones() as u8 & 1;
        page[at + 16] = [0xF0, 0x0F, 0xCC, 0x33, 0xAA, 0x55].into_iter().fold(0, |bits, mask| bits << 1 | odd(mask));
        let lines = (0u32..).zip(&tags).filter(|(_, byte)| byte.count_ones() % 2 == 1).map(|(line, _)| line);
        let (line, inverse) = lines.fold((0, 0), |(line, inverse), at| (line ^ at, inverse ^ !at));
        page[at + 20..at + 24].copy_from_slice(&line.to_le_bytes());
        page[at + 24..at + 28].copy_from_slice(&inverse.to_le_bytes());
    }

    /// Pages of the checkpoint in order: sequence number 0x21, counted from 1.
    fn edit_checkpoint(&mut self, place: usize, value: u32) {
        let (at, data) = (self.tags.0, self.data.min(self.tags.0));
        let mut found: Vec<(u32, usize)> = Vec::new();
        for page in 0..self.count {
            let bytes = self.page(page);
            if word(bytes, at) == 0x21 {
                found.push((word(bytes, at + 8), page));
            }
        }
        found.sort_unstable();
        let payload = data - 16;
        let words = found.len() * payload / 4;
        if words < 8 {
            return;
        }
        let target = place % words * 4;
        let page = found[target / payload].1;
        self.page(page)[16 + target % payload..][..4].copy_from_slice(&value.to_le_bytes());
        let (mut sum, mut xor, mut last) = (0u32, 0u8, [0; 16]);
        for (_, page) in found {
            let bytes = self.page(page);
            bytes[8..12].copy_from_slice(&sum.to_le_bytes());
            bytes[12..16].copy_from_slice(&u32::from(xor).to_le_bytes());
            for at in (16..data).step_by(4) {
                // The last word of all, after the closing {16, magic, 8, 0}, is the sums of what is before it.
                last.rotate_left(4);
                if (word(&last, 8), word(&last, 12)) == (8, 0) && word(&last, 4) == 0x5941_FF53 {
                    bytes[at..at + 4].copy_from_slice(&(sum << 8 | u32::from(xor)).to_le_bytes());
                }
                last[12..].copy_from_slice(&bytes[at..at + 4]);
                for byte in &bytes[at..at + 4] {
                    sum = sum.wrapping_add(u32::from(*byte));
                    xor ^= byte;
                }
            }
        }
    }
}

/// Mounts and uses a chip of unknown origin. It may be refused; nothing may panic or go on for ever.
fn examine(chip: &SimulatedNand, shape: &Shape) {
    for options in [
        shape.options.clone().read_only(true),
        shape.options.clone().read_only(true).checkpoint_read(false).lazy_loading(false),
        shape.options.clone().empty_lost_and_found(true),
        shape.options.clone(),
        shape.options.clone().checkpoint_read(false),
    ] {
        let copy = chip.snapshot();
        let before = Shape::changes(&copy);
        let Ok(volume) = shape.mount_with(Box::new(copy.clone()), &options) else { continue };
        drop(walk(&volume));
        if options.read_only {
            close(volume).expect("nothing is written");
            assert_eq!(Shape::changes(&copy), before, "a read-only mount changed the chip");
            continue;
        }
        let (decoder, mut random, mut files) = (shape.decoder(), Random::new(1), OpenFiles::default());
        for _ in 0..60 {
            let op = decoder.random(&mut random);
            // A damaged file may end where none can.
            if !matches!(op, Op::Append(..)) {
                drop(apply(&volume, &mut files, &op));
            }
        }
        drop(walk(&volume));
        if close(volume).is_ok() {
            let again = shape.mount(&copy).expect("what could be unmounted can be mounted");
            drop(walk(&again));
        }
    }
}
