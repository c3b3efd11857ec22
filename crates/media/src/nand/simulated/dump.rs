//! A simulated chip's contents as one image, and back.

use super::chip::Chip;
use super::{Geometry, ImageLayout};
use crate::{Error, Result};
use std::sync::Arc;

pub(super) fn layout(geometry: &Geometry) -> ImageLayout {
    let Geometry { page_bytes, spare_bytes, pages_per_block, .. } = *geometry;
    ImageLayout {
        page_bytes,
        spare_total_bytes: (page_bytes / 32).max(spare_bytes + 2),
        spare_offset: 2,
        spare_free_bytes: spare_bytes,
        pages_per_block,
    }
}

pub(super) fn image(chip: &Chip) -> Vec<u8> {
    let layout = layout(&chip.geometry);
    let mut image = vec![0xff; layout.stride() as usize * chip.geometry.pages() as usize];
    for (page, bytes) in (0..).zip(image.chunks_exact_mut(layout.stride() as usize)) {
        let (data, spare) = bytes.split_at_mut(layout.page_bytes as usize);
        let (marks, spare) = spare.split_at_mut(2);
        chip.peek(page, data, &mut spare[..layout.spare_free_bytes as usize]);
        let block = page / layout.pages_per_block;
        if page % layout.pages_per_block == 0 && chip.blocks[block as usize].bad {
            marks.fill(0);
        }
    }
    image
}

pub(super) fn load(chip: &mut Chip, image: &[u8]) -> Result<()> {
    let layout = layout(&chip.geometry);
    let stride = layout.stride() as usize;
    let pages = chip.geometry.pages() as usize;
    if image.len() % stride != 0 || image.len() / stride > pages {
        let bytes = image.len();
        return Err(Error::refused(format!("an image of {bytes} bytes is not up to {pages} pages of {stride} bytes")));
    }
    chip.clear();
    for (page, bytes) in (0u32..).zip(image.chunks_exact(stride)) {
        let (data, spare) = bytes.split_at(layout.page_bytes as usize);
        let (marks, spare) = spare.split_at(2);
        let spare = &spare[..layout.spare_free_bytes as usize];
        if data.iter().chain(spare).any(|&byte| byte != 0xff) {
            chip.store(page, data, spare);
        }
        if page % layout.pages_per_block == 0 && marks != [0xff, 0xff] {
            Arc::make_mut(&mut chip.blocks[(page / layout.pages_per_block) as usize]).bad = true;
        }
    }
    Ok(())
}
