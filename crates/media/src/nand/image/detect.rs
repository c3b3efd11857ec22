//! Finds out how an image is laid out: tries every layout that its length allows, and looks where in the pages it has
//! YAFFS2's tags.

use super::ImageLayout;
use super::blocks::{FEWEST, USUAL, pages_per_block};
use super::tags::{ECC_BYTES, FIRST_SEQUENCE, Order, PLAIN_BYTES, is_root, parity_holds, sequence};
use super::yaffs1::{self, Yaffs1Found};
use crate::{Error, Result};
use pocketstone_vfs::Context;
use std::fs::File;
use std::os::unix::fs::FileExt;

const PAGES: [u32; 6] = [512, 1024, 2048, 4096, 8192, 16384];
/// Spare areas that chips have, beside a 32nd of the page.
const SPARES: [u32; 18] = [16, 32, 64, 112, 128, 208, 218, 224, 232, 256, 376, 436, 440, 448, 512, 640, 744, 1024];
/// Where free bytes begin in most spare areas: behind the marks of bad blocks, or at the start.
const OFFSETS: [u32; 2] = [2, 0];
/// How much of the image is looked at in all layouts, in pieces that are not erased.
const PIECE_BYTES: u64 = 64 << 10;
const PIECES: usize = 64;
/// How many pieces are looked at for tags in places that few spare areas have them in.
const RARE_PIECES: usize = 8;

/// A layout, and how it was found.
pub(super) struct Found {
    pub layout: ImageLayout,
    pub inband_tags: bool,
    pub tags_ecc: bool,
    /// Whether the image tells how many pages a block has.
    pub blocks_certain: bool,
    /// Whether it was built, and nothing has been written to it since: all its blocks have one number.
    pub built: bool,
    /// For people.
    pub how: String,
}

/// What tags a page may have.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// YAFFS2's, in the spare area.
    Spare,
    /// YAFFS2's, at the end of the data.
    Inband,
    /// YAFFS1's, in the spare area.
    Yaffs1,
}

/// Where the tags of a page may be.
#[derive(Clone, Copy, PartialEq)]
struct Candidate {
    layout: ImageLayout,
    form: Form,
    order: Order,
}

impl Candidate {
    fn tags_at(&self) -> u64 {
        let ImageLayout { page_bytes, spare_offset, .. } = self.layout;
        u64::from(if self.form == Form::Inband { page_bytes - PLAIN_BYTES as u32 } else { page_bytes + spare_offset })
    }

    fn tag_bytes(&self) -> usize {
        let free = self.layout.spare_free_bytes;
        match self.form {
            Form::Yaffs1 => free as usize,
            // Where there is no room for the error correction, there is none.
            Form::Spare if free >= ECC_BYTES as u32 => ECC_BYTES,
            Form::Spare | Form::Inband => PLAIN_BYTES,
        }
    }

    fn page_bytes(&self) -> u32 {
        self.layout.page_bytes
    }

    fn chunk_bytes(&self) -> u32 {
        let inside = if self.form == Form::Inband { PLAIN_BYTES as u32 } else { 0 };
        self.layout.page_bytes - inside
    }

    /// Adds what a page's tags say of this.
    fn judge(&self, raw: &[u8], score: &mut Score) {
        if self.form == Form::Yaffs1 {
            match Yaffs1Found::decode(raw, self.order == Order::Big) {
                // What was deleted says nothing.
                Yaffs1Found::Unused | Yaffs1Found::Deleted | Yaffs1Found::Bad => {}
                Yaffs1Found::Broken => score.used += 1,
                Yaffs1Found::Tags(tags) => {
                    score.used += 1;
                    score.sane += 1;
                    score.proven += u32::from(!tags.corrected);
                }
            }
            return;
        }
        if raw[..PLAIN_BYTES].iter().all(|&byte| byte == 0xff) {
            return;
        }
        score.used += 1;
        if self.sequence(raw).is_some() {
            score.sane += 1;
            score.proven += u32::from(raw.len() == ECC_BYTES && parity_holds(raw, self.order));
        }
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
    /// An error correction that is right by chance in one of thousands.
    weak: bool,
}

impl Score {
    /// How sure it is, and how many pages say so: tags with error correction on half the pages are no accident. Without
    /// it nine in ten must be sane.
    fn rank(&self) -> Option<(u32, u32)> {
        if self.weak && (self.sane < 2 || self.sane * 10 < self.used * 9) {
            None
        } else if self.proven > 0 && self.proven * 2 >= self.used {
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
    let (usual, rare) = (candidates(), rare_candidates());
    let few = &sample[..sample.len().min(RARE_PIECES)];
    let divides = |c: &&Candidate| bytes > 0 && bytes % c.layout.stride() == 0;
    // Where the length says nothing, it takes two pages and their error correction to tell tags from noise.
    let fits = |c: &&Candidate| cut && bytes >= 2 * c.layout.stride();
    let proven = |found: Option<Likely>| found.filter(|((sure, _), _)| *sure == 2);
    let whole = best(usual.iter().filter(divides), &sample);
    let found = proven(whole)
        .or_else(|| proven(best(rare.iter().filter(divides), few)))
        .or(whole)
        .or_else(|| proven(best(usual.iter().filter(fits), &sample)))
        .or_else(|| proven(best(rare.iter().filter(fits), few)))
        .or_else(|| of_one_page(usual.iter().filter(|_| cut), bytes, &sample));
    let Some(((sure, _), mut candidate)) = found else { return Err(unknown(bytes, sample.is_empty())) };
    let yaffs1 = candidate.form == Form::Yaffs1;
    // One page of each block tells whether an image was built: those need not be read twice.
    let built = !yaffs1 && is_built(&every(FEWEST, file, bytes, &candidate)?);
    let (pages, certain) = match (yaffs1, built) {
        (true, _) => (yaffs1::PAGES_PER_BLOCK, true),
        (false, true) => (USUAL, false),
        (false, false) => pages_per_block(&every(1, file, bytes, &candidate)?),
    };
    candidate.layout.pages_per_block = pages;
    let version = if yaffs1 { "YAFFS1" } else { "YAFFS2" };
    let place = if candidate.form == Form::Inband { "inband" } else { "in the spare area" };
    let proof = if sure == 2 { "by their error correction" } else { "by their values" };
    let order = if candidate.order == Order::Big { ", big-endian" } else { "" };
    let blocks = if certain { "" } else { "; pages per block assumed" };
    let how = format!("{version} tags {place}, found {proof}{order}{blocks}");
    Ok(Found {
        layout: candidate.layout,
        inband_tags: candidate.form == Form::Inband,
        tags_ecc: sure == 2,
        blocks_certain: certain,
        built,
        how,
    })
}

/// A layout, how sure it is, and how many pages say so.
type Likely = ((u32, u32), Candidate);

/// The likeliest of some layouts, and how likely it is.
fn best<'a>(candidates: impl Iterator<Item = &'a Candidate>, sample: &[(u64, Vec<u8>)]) -> Option<Likely> {
    let mut best: Option<Likely> = None;
    for &candidate in candidates {
        let Some(rank) = score(&candidate, sample).rank() else { continue };
        // Of inband tags, too large a page sees a part. Too small a page sees no more than there are, and sees them all
        // where the first half of every page ends in erased bytes: of the same number, the larger page is right.
        if best.is_none_or(|(others, other)| (rank, candidate.page_bytes()) > (others, other.page_bytes())) {
            best = Some((rank, candidate));
        }
    }
    best
}

/// The layout of an image of which one page is left: that of a root directory, as built images begin with it, with the
/// right error correction.
fn of_one_page<'a>(
    mut candidates: impl Iterator<Item = &'a Candidate>,
    bytes: u64,
    sample: &[(u64, Vec<u8>)],
) -> Option<Likely> {
    let (0, piece) = sample.first()? else { return None };
    candidates.find_map(|&candidate| {
        let stride = candidate.layout.stride();
        if !(stride..2 * stride).contains(&bytes) || candidate.tag_bytes() != ECC_BYTES {
            return None;
        }
        let raw = piece.get(candidate.tags_at() as usize..)?.get(..ECC_BYTES)?;
        let root = is_root(raw, candidate.order) && candidate.sequence(raw) == Some(FIRST_SEQUENCE);
        (root && parity_holds(raw, candidate.order)).then_some(((2, 1), candidate))
    })
}

fn unknown(bytes: u64, erased: bool) -> Error {
    let what = match (bytes, erased) {
        (0, _) => "the image is empty".to_owned(),
        (_, true) => "the image is erased, so its layout cannot be detected".to_owned(),
        _ => format!("no YAFFS2 tags found in the image of {bytes} bytes, in any layout that divides it"),
    };
    Error::unknown_layout(what).hint(
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

/// Every layout that images usually have.
fn candidates() -> Vec<Candidate> {
    let mut all = Vec::new();
    for page in PAGES {
        for spare in spares(page) {
            OFFSETS.into_iter().for_each(|offset| in_spare(page, spare, offset, &mut all));
        }
        for spare in std::iter::once(0).chain(spares(page)) {
            let layout = ImageLayout::with_spare(page, spare, spare.min(2), 1);
            all.extend(both(layout, Form::Inband));
        }
    }
    for offset in [0, yaffs1::PACKED_AT] {
        let layout = ImageLayout {
            page_bytes: yaffs1::PAGE_BYTES,
            spare_total_bytes: yaffs1::SPARE_BYTES,
            spare_offset: offset,
            spare_free_bytes: yaffs1::SPARE_BYTES - offset,
            pages_per_block: yaffs1::PAGES_PER_BLOCK,
        };
        all.extend(both(layout, Form::Yaffs1));
    }
    all
}

/// Layouts with tags anywhere else in the spare area, as drivers place them that have error correction in front.
fn rare_candidates() -> Vec<Candidate> {
    let mut all = Vec::new();
    for page in PAGES {
        for spare in spares(page) {
            let last = spare.saturating_sub(ECC_BYTES as u32);
            (4..=last).step_by(2).for_each(|offset| in_spare(page, spare, offset, &mut all));
        }
    }
    all
}

/// The sizes of spare areas that chips with pages of so many bytes have.
fn spares(page: u32) -> impl Iterator<Item = u32> {
    let others = SPARES.into_iter().filter(move |&spare| spare != page / 32 && spare <= page / 4);
    std::iter::once(page / 32).chain(others)
}

fn in_spare(page: u32, spare: u32, offset: u32, all: &mut Vec<Candidate>) {
    let layout = ImageLayout::with_spare(page, spare, offset, 1);
    if layout.spare_free_bytes >= PLAIN_BYTES as u32 {
        all.extend(both(layout, Form::Spare));
    }
}

fn both(layout: ImageLayout, form: Form) -> [Candidate; 2] {
    [Order::Little, Order::Big].map(|order| Candidate { layout, form, order })
}

fn score(candidate: &Candidate, sample: &[(u64, Vec<u8>)]) -> Score {
    let (stride, tags_at) = (candidate.layout.stride(), candidate.tags_at());
    let mut score = Score { weak: candidate.form == Form::Yaffs1, ..Score::default() };
    for (start, piece) in sample {
        let end = start + piece.len() as u64;
        let mut at = start.saturating_sub(tags_at).div_ceil(stride) * stride + tags_at;
        while at + candidate.tag_bytes() as u64 <= end {
            let raw = &piece[(at - start) as usize..][..candidate.tag_bytes()];
            at += stride;
            candidate.judge(raw, &mut score);
        }
    }
    score
}

/// Whether the first page has the number of built images, and no other page has another one.
fn is_built(sequences: &[Option<u32>]) -> bool {
    sequences.first() == Some(&Some(FIRST_SEQUENCE)) && sequences.iter().flatten().all(|&is| is == FIRST_SEQUENCE)
}

/// The sequence number of every `step`-th page, if it has tags.
fn every(step: u64, file: &File, bytes: u64, candidate: &Candidate) -> Result<Vec<Option<u32>>> {
    let mut raw = [0; PLAIN_BYTES];
    let stride = candidate.layout.stride();
    (0..bytes / stride)
        .step_by(step as usize)
        .map(|page| {
            file.read_exact_at(&mut raw, page * stride + candidate.tags_at())
                .failed(|| "cannot read the image".to_owned())?;
            Ok(candidate.sequence(&raw))
        })
        .collect()
}
