//! An image file as a chip: page after page, each followed by its spare area.
//!
//! What a program or an erase changes goes straight into the file. There is no error correction: every read is
//! [`Verdict::Clean`], and bytes for error correction stay 0xFF.

mod blocks;
mod detect;
mod pages;
pub mod tags;
#[cfg(test)]
mod tests;
pub mod yaffs1;

use super::{Access, Fault, Geometry, Nand, Verdict, blocks_of_pages};
use crate::locked::LockedFile;
use crate::{Error, Result};
use pages::Pages;
use pocketstone_vfs::Context;
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are written at a time where a file grows.
const PIECE: usize = 1 << 20;

/// The layout of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLayout {
    /// Bytes of data in a page.
    pub page_bytes: u32,
    /// Bytes of the whole spare area behind each page's data; 0: the image has none.
    pub spare_total_bytes: u32,
    /// Where the free bytes begin in the spare area. From 2 on, the first two bytes of a block's first spare area mark
    /// it bad where they are not 0xFF; below, blocks cannot be marked. Chips with pages of 512 + 16 bytes have their
    /// mark in byte 5.
    pub spare_offset: u32,
    /// How many bytes are free for the chip's user.
    pub spare_free_bytes: u32,
    /// Pages in an erase block.
    pub pages_per_block: u32,
}

impl ImageLayout {
    /// What `nanddump --oob` writes for a page size and Linux' Hamming code over 256 bytes: the spare area is a 32nd of
    /// the page, two bytes mark bad blocks, three bytes of error correction for each 256 bytes of data are at the end.
    /// 2048 bytes have 64 bytes of spare area, of which 2 to 39 are free. `None` where nothing is left.
    pub fn linux(page_bytes: u32, pages_per_block: u32) -> Option<ImageLayout> {
        let layout = Self::with_spare(page_bytes, page_bytes / 32, 2, pages_per_block);
        (layout.spare_free_bytes > 0).then_some(layout)
    }

    /// A layout in which the free bytes go up to those that Linux' Hamming code needs at the end, or to the end where
    /// they do not fit.
    pub fn with_spare(page_bytes: u32, spare_total_bytes: u32, spare_offset: u32, pages_per_block: u32) -> ImageLayout {
        let free = spare_total_bytes.saturating_sub(spare_offset);
        let with_ecc = free.saturating_sub(page_bytes / 256 * 3);
        let spare_free_bytes = if with_ecc >= tags::ECC_BYTES as u32 { with_ecc } else { free };
        ImageLayout { page_bytes, spare_total_bytes, spare_offset, spare_free_bytes, pages_per_block }
    }

    /// Bytes from the start of one page in the image to that of the next.
    pub fn stride(&self) -> u64 {
        u64::from(self.page_bytes) + u64::from(self.spare_total_bytes)
    }

    /// Where in a block's first spare area its mark is, and how long it is.
    fn mark(&self) -> Option<(u32, usize)> {
        if (self.page_bytes, self.spare_total_bytes) == (yaffs1::PAGE_BYTES, yaffs1::SPARE_BYTES) {
            return Some((yaffs1::BLOCK_STATUS as u32, 1));
        }
        (self.spare_offset >= 2).then_some((0, 2))
    }

    fn check(&self) -> Result<()> {
        let spare_ends = self.spare_offset.checked_add(self.spare_free_bytes);
        if self.page_bytes == 0
            || self.pages_per_block == 0
            || spare_ends.is_none_or(|end| end > self.spare_total_bytes)
        {
            return Err(Error::refused(format!("impossible image layout: {self:?}"))
                .hint("page and block sizes must not be 0, and the free spare bytes must lie inside the spare area"));
        }
        Ok(())
    }
}

/// A chip in an image file.
pub struct ImageNand {
    path: String,
    file: LockedFile,
    layout: ImageLayout,
    blocks: u32,
    /// The file's length in whole pages. Pages behind it are erased.
    bytes: u64,
    /// What the file has beyond them.
    cut_bytes: u64,
    read_only: bool,
    /// Something was programmed that the host may not have brought to its disk yet.
    unsynced: bool,
    /// Something was, or was erased or marked: all that a sync is for.
    changed: bool,
    /// How the layout was found; `None` if it was given.
    found: Option<detect::Found>,
    /// Pages in memory, while nobody writes.
    pages: Pages,
}

impl ImageNand {
    /// Opens an image, and detects its layout if none is given.
    ///
    /// # Errors
    /// `Refused` if the file cannot be opened, is locked by a writer, is for writing and not a multiple of the page
    /// size, or its layout cannot be detected.
    pub fn open(path: &Path, access: Access, layout: Option<&ImageLayout>) -> Result<ImageNand> {
        let (name, read_only) = (path.display().to_string(), access == Access::Read);
        let file = File::options().read(true).write(!read_only).open(path).refused(|| format!("cannot open {name}"))?;
        let metadata = file.metadata().refused(|| format!("cannot examine {name}"))?;
        if !metadata.is_file() {
            return Err(Error::refused(format!("{name} is not a file")).hint("specify an image file"));
        }
        let file = lock(file, access, &name)?;
        let bytes = metadata.len();
        let (layout, found) = match layout {
            Some(layout) => (*layout, None),
            None => {
                let found = detect::detect(&file, bytes, read_only)
                    .map_err(|e| e.within(format!("cannot detect the layout of {name}")))?;
                (found.layout, Some(found))
            }
        };
        layout.check()?;
        let stride = layout.stride();
        let cut_bytes = bytes % stride;
        if cut_bytes != 0 && (!read_only || bytes < stride) {
            let what = format!("{name} has {bytes} bytes, not a multiple of the page size {stride}");
            let cure = "specify the image's page size and spare area size; one that was cut off can be read only";
            return Err(Error::refused(what).hint(cure));
        }
        let bytes = bytes - cut_bytes;
        let blocks = (bytes / stride).div_ceil(u64::from(layout.pages_per_block));
        let blocks = block_count(blocks, &layout, &name)?;
        let pages = Pages::default();
        // Who wrote the image before may have been ended before it had it brought to the disk.
        let (unsynced, changed) = (!read_only, !read_only);
        let path = name;
        Ok(ImageNand { path, file, layout, blocks, bytes, cut_bytes, read_only, unsynced, changed, found, pages })
    }

    /// Creates a new image of an erased chip.
    ///
    /// # Errors
    /// `Refused` if the file exists; `Failed` if it cannot be written.
    pub fn create(path: &Path, layout: &ImageLayout, blocks: u32) -> Result<ImageNand> {
        layout.check()?;
        let name = path.display().to_string();
        let blocks = block_count(u64::from(blocks), layout, &name)?;
        let file = File::options().read(true).write(true).create_new(true).open(path);
        let file = lock(file.refused(|| format!("cannot create {name}"))?, Access::Write, &name)?;
        let (layout, read_only, found) = (*layout, false, None);
        let (bytes, cut_bytes) = (0, 0);
        let (unsynced, changed, pages) = (false, true, Pages::default());
        let path = name;
        let mut nand =
            ImageNand { path, file, layout, blocks, bytes, cut_bytes, read_only, unsynced, changed, found, pages };
        let bytes = u64::from(blocks) * u64::from(layout.pages_per_block) * layout.stride();
        nand.grow(bytes).failed(|| format!("cannot write {}", nand.path))?;
        Ok(nand)
    }

    /// The image's layout.
    pub fn layout(&self) -> ImageLayout {
        self.layout
    }

    /// Whether YAFFS2's tags were found at the end of each page's data and not in the spare area; `None` if nobody
    /// looked, because the layout was given.
    pub fn inband_tags(&self) -> Option<bool> {
        self.found.as_ref().map(|found| found.inband_tags)
    }

    /// Whether YAFFS2's tags were found with error correction of their own; `None` if nobody looked.
    pub fn tags_ecc(&self) -> Option<bool> {
        self.found.as_ref().map(|found| found.tags_ecc)
    }

    /// Bytes of a last page that is not whole, as in an image that was cut off. It is left out, as if erased.
    pub fn cut_bytes(&self) -> u64 {
        self.cut_bytes
    }

    /// How many pages the last block has, if that is not whole and the image tells how many pages blocks have: then it
    /// was cut off. What is not there is erased.
    pub fn cut_block(&self) -> Option<u32> {
        let pages = self.bytes / self.layout.stride() % u64::from(self.layout.pages_per_block);
        let told = self.is_block_certain() == Some(true) && self.layout.page_bytes != yaffs1::PAGE_BYTES;
        (told && pages != 0).then_some(pages as u32)
    }

    /// Whether the image itself tells how many pages a block has. If not, a usual number is taken, with which the image
    /// can be read but should not be written. `None` if the layout was given.
    pub fn is_block_certain(&self) -> Option<bool> {
        self.found.as_ref().map(|found| found.blocks_certain)
    }

    /// Whether the image is as a builder has written it: all blocks have the number that builders give them, so none is
    /// part of a checkpoint.
    pub fn is_built(&self) -> bool {
        self.found.as_ref().is_some_and(|found| found.built)
    }

    /// Lengthens the file with erased bytes.
    fn grow(&mut self, bytes: u64) -> std::io::Result<()> {
        let erased = vec![0xff; PIECE];
        while self.bytes < bytes {
            let count = (bytes - self.bytes).min(PIECE as u64);
            self.file.write_all_at(&erased[..count as usize], self.bytes)?;
            self.bytes += count;
        }
        Ok(())
    }

    fn pages(&self) -> u32 {
        self.blocks * self.layout.pages_per_block
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let there = self.bytes.saturating_sub(at).min(into.len() as u64) as usize;
        let (there, missing) = into.split_at_mut(there);
        missing.fill(0xff);
        self.file.read_exact_at(there, at).failed(|| format!("cannot read {}", self.path))
    }

    fn check_block(&self, block: u32) -> Result<()> {
        if block >= self.blocks {
            return Err(Error::bug(format!("block {block} of a chip of {} blocks", self.blocks)));
        }
        Ok(())
    }

    fn check_page(&self, page: u32, data: usize, spare: usize) -> Result<()> {
        let ImageLayout { page_bytes, spare_free_bytes, .. } = self.layout;
        if page >= self.pages() {
            return Err(Error::bug(format!("page {page} of a chip of {} pages", self.pages())));
        }
        if (data != 0 && data != page_bytes as usize) || spare > spare_free_bytes as usize {
            return Err(Error::bug(format!("{data}+{spare} bytes for a page of {page_bytes}+{spare_free_bytes}")));
        }
        Ok(())
    }

    fn check_writable(&self) -> Result<()> {
        if self.read_only { Err(Error::refused(format!("{} is open read-only", self.path))) } else { Ok(()) }
    }

    /// Where the spare area of a block's first page is.
    fn first_spare(&self, block: u32) -> u64 {
        let page = u64::from(block) * u64::from(self.layout.pages_per_block);
        page * self.layout.stride() + u64::from(self.layout.page_bytes)
    }
}

fn lock(file: File, access: Access, name: &str) -> Result<LockedFile> {
    let file = LockedFile::new(file);
    match file.lock(access == Access::Write) {
        // Not every file system has locks: then there is none.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(file),
        Err(Errno::WOULDBLOCK) => {
            Err(Error::in_use(format!("{name} is in use")).hint("unmount it, or stop the command that uses it"))
        }
        Err(e) => Err(Error::failed(format!("cannot lock {name}")).because(e)),
    }
}

/// Checks that all pages can be numbered.
fn block_count(blocks: u64, layout: &ImageLayout, name: &str) -> Result<u32> {
    match blocks.checked_mul(u64::from(layout.pages_per_block)) {
        Some(pages) if pages <= u64::from(u32::MAX) => Ok(blocks as u32),
        _ => Err(Error::refused(format!("{name} has too many pages: {blocks} blocks of {}", layout.pages_per_block))),
    }
}

impl Nand for ImageNand {
    fn geometry(&self) -> Geometry {
        let ImageLayout { page_bytes, spare_free_bytes, pages_per_block, .. } = self.layout;
        Geometry { page_bytes, spare_bytes: spare_free_bytes, pages_per_block, blocks: self.blocks }
    }

    fn read(&mut self, page: u32, data: &mut [u8], spare: &mut [u8]) -> Result<Verdict> {
        self.check_page(page, data.len(), spare.len())?;
        let at = u64::from(page) * self.layout.stride();
        let spare_at = at + u64::from(self.layout.page_bytes) + u64::from(self.layout.spare_offset);
        let spare_end = spare_at + spare.len() as u64;
        if self.read_only && spare_end <= self.bytes {
            let from = if data.is_empty() && !spare.is_empty() { spare_at } else { at };
            let to = if spare.is_empty() { at + data.len() as u64 } else { spare_end };
            let ImageNand { pages, file, layout, bytes, path, .. } = self;
            let held = pages.get(file, layout, *bytes, from..to).failed(|| format!("cannot read {path}"))?;
            data.copy_from_slice(&held[..data.len()]);
            spare.copy_from_slice(&held[held.len() - spare.len()..]);
            return Ok(Verdict::Clean);
        }
        self.read_at(at, data)?;
        self.read_at(spare_at, spare)?;
        Ok(Verdict::Clean)
    }

    fn program(&mut self, page: u32, data: &[u8], spare: &[u8]) -> Result<(), Fault> {
        self.check_writable()?;
        self.check_page(page, data.len(), spare.len())?;
        if data.is_empty() {
            return Err(Error::bug(format!("page {page} programmed without data")).into());
        }
        let at = u64::from(page) * self.layout.stride();
        let mut bytes = vec![0; self.layout.stride() as usize];
        self.read_at(at, &mut bytes)?;
        if bytes.iter().any(|&byte| byte != 0xff) {
            return Err(Error::bug(format!("{}: page {page} is programmed again without an erase", self.path)).into());
        }
        bytes[..data.len()].copy_from_slice(data);
        let spare_at = data.len() + self.layout.spare_offset as usize;
        bytes[spare_at..spare_at + spare.len()].copy_from_slice(spare);
        (self.unsynced, self.changed) = (true, true);
        self.grow(at)
            .and_then(|()| self.file.write_all_at(&bytes, at))
            .failed(|| format!("cannot write {}", self.path))?;
        self.bytes = self.bytes.max(at + bytes.len() as u64);
        Ok(())
    }

    fn erase(&mut self, block: u32) -> Result<(), Fault> {
        self.check_writable()?;
        if self.is_bad(block)? {
            return Err(Error::bug(format!("{}: erase of bad block {block}", self.path)).into());
        }
        // What is erased was copied before: if the host crashes, the copy must not be what is missing.
        if self.unsynced {
            self.sync()?;
        }
        let block_bytes = self.layout.stride() * u64::from(self.layout.pages_per_block);
        let start = (u64::from(block) * block_bytes).min(self.bytes);
        let end = (start + block_bytes).min(self.bytes);
        self.changed = true;
        self.file
            .write_all_at(&vec![0xff; (end - start) as usize], start)
            .failed(|| format!("cannot write {}", self.path))?;
        Ok(())
    }

    fn is_bad(&mut self, block: u32) -> Result<bool> {
        self.check_block(block)?;
        let Some((at, bytes)) = self.layout.mark() else { return Ok(false) };
        let mut mark = [0xff; 2];
        self.read_at(self.first_spare(block) + u64::from(at), &mut mark[..bytes])?;
        Ok(mark != [0xff, 0xff])
    }

    fn mark_bad(&mut self, block: u32) -> Result<()> {
        self.check_writable()?;
        self.check_block(block)?;
        let Some((at, bytes)) = self.layout.mark() else {
            return Err(Error::refused(format!("{} has no space for bad-block marks", self.path))
                .hint("use a layout whose free spare bytes begin at 2"));
        };
        let spare = self.first_spare(block);
        // A file of whole pages stays one.
        let page_ends = spare + u64::from(self.layout.spare_total_bytes);
        self.changed = true;
        self.grow(page_ends)
            .and_then(|()| self.file.write_all_at(&[0, 0][..bytes], spare + u64::from(at)))
            .failed(|| format!("cannot write {}", self.path))
    }

    fn sync(&mut self) -> Result<()> {
        // Files are synchronised whenever they are closed, also those that nobody wrote.
        if !self.changed {
            return Ok(());
        }
        self.file.sync_all().failed(|| format!("cannot write {}", self.path))?;
        (self.unsynced, self.changed) = (false, false);
        Ok(())
    }

    fn describe(&self) -> String {
        let ImageLayout { page_bytes, spare_total_bytes, spare_offset, spare_free_bytes, pages_per_block } =
            self.layout;
        let spare = match spare_total_bytes {
            0 => "no spare area".to_owned(),
            total => format!("{total} of spare area, {spare_free_bytes} of them free from {spare_offset}"),
        };
        let found = self.found.as_ref().map_or("as given", |found| &found.how);
        let blocks = blocks_of_pages(self.blocks, pages_per_block);
        format!("image {}, {blocks} of {page_bytes} bytes, {spare}: {found}", self.path)
    }
}
