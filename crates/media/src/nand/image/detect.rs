//! Finds out how an image is laid out: tries every layout that its length allows, and looks where in the pages it has
//! YAFFS2's tags.

use super::ImageLayout;
use super::blocks::pages_per_block;
use super::tags::{ECC_BYTES, Order, PLAIN_BYTES, parity_holds, sequence};
use crate::{Error, Result};
use pocketstone_vfs::Context;
use std::fs::File;
use std::os::unix::fs::FileExt;

const PAGES: [u32; 6] = [512, 1024, 2048, 4096, 8192, 16384];
/// Spare areas that chips have, beside a 32nd of the page.
const SPARES: [u32; 8] = [16, 32, 64, 128, 218, 224, 256, 512];
/// How much of the image is looked at in all layouts, in pieces that are not erased.
const PIECE_BYTES: u64 = 64 << 10;
const PIECES: usize = 64;

/// A layout, and how it was found.
pub(super) struct Found {
    pub layout: ImageLayout,
    pub inband_tags: bool,
    pub tags_ecc: bool,
    /// Whether the image tells how many pages a block has.
    pub blocks_certain: bool,
    /// For people.
    pub how: String,
}

/// Where the tags of a page may be.
#[derive(Clone, Copy, PartialEq)]
struct Candidate {
    layout: ImageLayout,
    inband: bool,
    order: Order,
}

impl Candidate {
    fn tags_at(&self) -> u64 {
        let ImageLayout { page_bytes, spare_offset, .. } = self.layout;
        u64::from(if self.inband { page_bytes - PLAIN_BYTES as u32 } else { page_bytes + spare_offset })
    }

    fn tag_bytes(&self) -> usize {
        // Where there is no room for the error correction, there is none.
        if self.inband || self.layout.spare_free_bytes < ECC_BYTES as u32 { PLAIN_BYTES } else { ECC_BYTES }
    }

    fn page_bytes(&self) -> u32 {
        self.layout.page_bytes
    }

    fn chunk_bytes(&self) -> u32 {
        if self.inband { self.layout.page_bytes - PLAIN_BYTES as u32 } else { self.layout.page_bytes }
    }

    fn sequence(&self, raw: &[u8]) -> Option<u32> {
        sequence(raw, self.order, self.chunk_bytes())
    }
}

/// What the pages of a sample say of a candidate.
#[derive(Default)]
struct Score {
    /// Pages with anything where their tags should be.
    used: u32,
    /// Of them, those that can be tags.
    sane: u32,
    /// Of these, those with the right error correction.
    proven: u32,
}

impl Score {
    /// How sure it is, and how many pages say so: tags with error correction on half the pages are no accident. Without
    /// it nine in ten must be sane.
    fn rank(&self) -> Option<(u32, u32)> {
        if self.proven > 0 && self.proven * 2 >= self.used {
            Some((2, self.proven))
        } else if self.sane > 0 && self.sane * 10 >= self.used * 9 {
            Some((1, self.sane))
        } else {
            None
        }
    }
}

/// Finds the layout of an image of `bytes` bytes: one that divides it, or, if `cut` is allowed and there is none, any.
///
/// # Errors
/// `Failed` if it cannot be read; `Refused` if the layout cannot be detected, with a hint on what to specify.
pub(super) fn detect(file: &File, bytes: u64, cut: bool) -> Result<Found> {
    let sample = sample(file, bytes)?;
    let whole = best(candidates().into_iter().filter(|c| bytes > 0 && bytes % c.layout.stride() == 0), &sample);
    let any = || match cut {
        // Where the length says nothing, it takes two pages and their error correction to tell tags from noise.
        true => best(candidates().into_iter().filter(|c| bytes >= 2 * c.layout.stride()), &sample)
            .filter(|((sure, _), _)| *sure == 2),
        false => None,
    };
    let Some(((sure, _), mut candidate)) = whole.or_else(any) else { return Err(unknown(bytes, sample.is_empty())) };
    let (pages, certain) = pages_per_block(&sequences(file, bytes, &candidate)?);
    candidate.layout.pages_per_block = pages;
    let place = if candidate.inband { "inband" } else { "in the spare area" };
    let proof = if sure == 2 { "by their error correction" } else { "by their values" };
    let order = if candidate.order == Order::Big { ", big-endian" } else { "" };
    let blocks = if certain { "" } else { "; pages per block assumed" };
    let how = format!("YAFFS2 tags {place}, found {proof}{order}{blocks}");
    Ok(Found {
        layout: candidate.layout,
        inband_tags: candidate.inband,
        tags_ecc: sure == 2,
        blocks_certain: certain,
        how,
    })
}

/// The likeliest of some layouts, and how likely it is.
fn best(candidates: impl Iterator<Item = Candidate>, sample: &[(u64, Vec<u8>)]) -> Option<((u32, u32), Candidate)> {
    let mut best: Option<((u32, u32), Candidate)> = None;
    for candidate in candidates {
        let Some(rank) = score(&candidate, sample).rank() else { continue };
        // Of inband tags, too large a page sees a part. Too small a page sees no more than there are, and sees them all
        // where the first half of every page ends in erased bytes: of the same number, the larger page is right.
        if best.is_none_or(|(others, other)| (rank, candidate.page_bytes()) > (others, other.page_bytes())) {
            best = Some((rank, candidate));
        }
    }
    best
}

fn unknown(bytes: u64, erased: bool) -> Error {
    let what = match (bytes, erased) {
        (0, _) => "the image is empty".to_owned(),
        (_, true) => "the image is erased, so its layout cannot be detected".to_owned(),
        _ => format!("no YAFFS2 tags found in the image of {bytes} bytes, in any layout that divides it"),
    };
    Error::refused(what).hint(
        "specify the layout: page size, spare area size (0 if the image has none), offset of its free bytes (2 for \
            nanddump and yaffs2utils, 0 for mkyaffs2image), how many are free, and pages per block",
    )
}

/// The first pieces that are not erased, with where they are.
fn sample(file: &File, bytes: u64) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < bytes && pieces.len() < PIECES {
        let mut piece = vec![0; (bytes - at).min(PIECE_BYTES) as usize];
        file.read_exact_at(&mut piece, at).failed(|| "cannot read the image".to_owned())?;
        let length = piece.len() as u64;
        if piece.iter().any(|&byte| byte != 0xff) {
            pieces.push((at, piece));
        }
        at += length;
    }
    Ok(pieces)
}

/// Every layout that images have.
fn candidates() -> Vec<Candidate> {
    let mut all = Vec::new();
    for page in PAGES {
        let mut spares = vec![page / 32];
        spares.extend(SPARES.into_iter().filter(|&spare| spare != page / 32 && spare <= page / 4));
        let outside = spares.iter().flat_map(|&spare| [(spare, 2, false), (spare, 0, false)]);
        let inside = spares.iter().map(|&spare| (spare, 2, true));
        for (spare, offset, inband) in outside.chain([(0, 0, true)]).chain(inside) {
            let layout = ImageLayout::with_spare(page, spare, offset, 1);
            let room = inband || layout.spare_free_bytes >= PLAIN_BYTES as u32;
            if room {
                all.extend([Order::Little, Order::Big].map(|order| Candidate { layout, inband, order }));
            }
        }
    }
    all
}

fn score(candidate: &Candidate, sample: &[(u64, Vec<u8>)]) -> Score {
    let (stride, tags_at) = (candidate.layout.stride(), candidate.tags_at());
    let mut score = Score::default();
    for (start, piece) in sample {
        let end = start + piece.len() as u64;
        let mut at = start.saturating_sub(tags_at).div_ceil(stride) * stride + tags_at;
        while at + candidate.tag_bytes() as u64 <= end {
            let raw = &piece[(at - start) as usize..][..candidate.tag_bytes()];
            at += stride;
            if raw[..PLAIN_BYTES].iter().all(|&byte| byte == 0xff) {
                continue;
            }
            score.used += 1;
            if candidate.sequence(raw).is_some() {
                score.sane += 1;
                score.proven += u32::from(raw.len() == ECC_BYTES && parity_holds(raw, candidate.order));
            }
        }
    }
    score
}

/// The sequence number of every page that has tags.
fn sequences(file: &File, bytes: u64, candidate: &Candidate) -> Result<Vec<Option<u32>>> {
    let mut raw = [0; PLAIN_BYTES];
    let stride = candidate.layout.stride();
    (0..bytes / stride)
        .map(|page| {
            file.read_exact_at(&mut raw, page * stride + candidate.tags_at())
                .failed(|| "cannot read the image".to_owned())?;
            Ok(candidate.sequence(&raw))
        })
        .collect()
}
