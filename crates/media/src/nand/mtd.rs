//! A chip behind Linux' MTD: the character device `/dev/mtdN`.
//!
//! Reads are MEMREAD requests (Linux 6.1): data, free spare bytes and what error correction did, in one page sense.
//! Older kernels have no such request. There the data is read by pread(2), the whole spare area by MEMREADOOB64, which
//! is a second page sense, and the verdict is the difference of ECCGETSTATS before and after: a read by somebody else
//! in between is taken for this one's.

mod requests;
#[cfg(test)]
mod tests;

use super::{Access, Fault, Geometry, Nand, RawChip, RawGeometry, Verdict, blocks_of_pages};
use crate::{Error, Result};
use pocketstone_vfs::Context;
use requests::{AUTO_OOB, Info, Layout, OobRequest, RAW, ReadRequest, Stats, WriteRequest};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// An MTD device of NAND flash.
pub struct MtdNand {
    path: String,
    name: String,
    file: File,
    geometry: Geometry,
    /// Of the whole spare area, where free bytes and error correction lie together.
    oob_bytes: u32,
    /// Runs of free bytes in it, where the kernel says.
    free: Option<Vec<(u32, u32)>>,
    /// So many corrected bits in a step of error correction ask for the block to be renewed.
    bitflip_threshold: u32,
    has_memread: bool,
}

impl MtdNand {
    /// Opens a device such as `/dev/mtd0`.
    ///
    /// # Errors
    /// `Refused` if it is not an MTD character device, or not NAND flash; `Failed` if it cannot be opened.
    pub fn open(path: &Path, access: Access) -> Result<MtdNand> {
        let name = path.display().to_string();
        let file = File::options()
            .read(true)
            .write(access == Access::Write)
            .open(path)
            .failed(|| format!("cannot open {name}"))?;
        let stranger = |error: Error| error.hint("specify an MTD character device, such as /dev/mtd0; see /proc/mtd");
        let kind = file.metadata().failed(|| format!("cannot examine {name}"))?;
        if !kind.file_type().is_char_device() {
            return Err(stranger(Error::refused(format!("{name} is not a character device"))));
        }
        let info = requests::info(&file).refused(|| format!("{name} is not an MTD device")).map_err(stranger)?;
        if ![Info::NAND, Info::MLC_NAND].contains(&info.kind) || info.write_bytes == 0 || info.erase_bytes == 0 {
            return Err(stranger(Error::refused(format!("{name} is not NAND flash"))));
        }
        // Two minors for each device, the second one read-only.
        let sysfs = PathBuf::from(format!("/sys/class/mtd/mtd{}", rustix::fs::minor(kind.rdev()) / 2));
        let layout = requests::layout(&file).ok();
        let free = layout.map(|layout| free_runs(&layout));
        let spare_bytes = number(&sysfs.join("oobavail"))
            .or_else(|| Some(free.as_ref()?.iter().map(|&(_, bytes)| u64::from(bytes)).sum()))
            .unwrap_or(0);
        // The request has 32 bits for the size; sysfs has more.
        let bytes = number(&sysfs.join("size")).unwrap_or(u64::from(info.bytes));
        let too_large = |_| Error::failed(format!("{name} is too large: {bytes} bytes"));
        let geometry = Geometry {
            page_bytes: info.write_bytes,
            spare_bytes: (spare_bytes as u32).min(info.oob_bytes),
            pages_per_block: info.erase_bytes / info.write_bytes,
            blocks: u32::try_from(bytes / u64::from(info.erase_bytes)).map_err(too_large)?,
        };
        u32::try_from(u64::from(geometry.blocks) * u64::from(geometry.pages_per_block)).map_err(too_large)?;
        Ok(MtdNand {
            name: fs::read_to_string(sysfs.join("name")).map(|text| text.trim().to_owned()).unwrap_or_default(),
            path: name,
            geometry,
            oob_bytes: info.oob_bytes,
            free,
            bitflip_threshold: number(&sysfs.join("bitflip_threshold")).map_or(1, |bits| bits.max(1) as u32),
            has_memread: requests::knows_read(&file),
            file,
        })
    }

    /// Programs bytes of a page's spare area and leaves its data erased: what markers of erased blocks need. Chips that
    /// allow a page to be programmed only once take no data for it afterwards.
    ///
    /// # Errors
    /// [`Fault::Failed`] if the chip reports failure.
    pub fn program_spare(&mut self, page: u32, spare: &[u8]) -> Result<(), Fault> {
        self.write(page, &[], spare, AUTO_OOB)
    }

    /// The chip's sizes, with the whole spare area.
    pub fn raw_geometry(&self) -> RawGeometry {
        let Geometry { page_bytes, pages_per_block, blocks, .. } = self.geometry;
        RawGeometry { page_bytes, oob_bytes: self.oob_bytes, pages_per_block, blocks }
    }

    /// Reads the whole chip as it is, without error correction.
    ///
    /// # Errors
    /// `Failed` if the kernel has no MEMREAD (before Linux 6.1), or a block cannot be read.
    pub fn read_raw(&self) -> Result<RawChip> {
        let geometry = self.raw_geometry();
        let (pages, page_bytes, oob_bytes) =
            (geometry.pages_per_block as usize, geometry.page_bytes as usize, geometry.oob_bytes as usize);
        let mut chip = RawChip::new(geometry);
        let (mut data, mut oob) = (vec![0; pages * page_bytes], vec![0; pages * oob_bytes]);
        let mut whole = Vec::with_capacity(pages * geometry.whole_page());
        for block in 0..geometry.blocks {
            let mut request = ReadRequest {
                start: self.block_start(block),
                length: data.len() as u64,
                oob_length: oob.len() as u64,
                data: address_mut(&mut data),
                oob: address_mut(&mut oob),
                mode: RAW,
                ..ReadRequest::default()
            };
            // SAFETY: the request's addresses and lengths are those of `data` and `oob`, borrowed for writing.
            unsafe { requests::read_into(&self.file, &mut request) }
                .failed(|| format!("{}: cannot read block {block} without error correction", self.path))?;
            whole.clear();
            for (data, oob) in data.chunks(page_bytes).zip(oob.chunks(oob_bytes)) {
                whole.extend(data);
                whole.extend(oob);
            }
            chip.put(block * geometry.pages_per_block, &whole)?;
        }
        Ok(chip)
    }

    /// Programs a page and its whole spare area as they are, error correction's bytes among them.
    ///
    /// # Errors
    /// [`Fault::Failed`] if the chip reports failure.
    pub fn program_raw(&mut self, page: u32, data: &[u8], oob: &[u8]) -> Result<(), Fault> {
        self.write(page, data, oob, RAW)
    }

    fn start(&self, page: u32) -> u64 {
        u64::from(page) * u64::from(self.geometry.page_bytes)
    }

    fn write(&mut self, page: u32, data: &[u8], spare: &[u8], mode: u8) -> Result<(), Fault> {
        let request = WriteRequest {
            start: self.start(page),
            length: data.len() as u64,
            oob_length: spare.len() as u64,
            data: address(data),
            oob: address(spare),
            mode,
            padding: [0; 7],
        };
        // SAFETY: the request's addresses and lengths are those of `data` and `spare`.
        let done = unsafe { requests::write(&self.file, request) };
        self.fault(done, || format!("cannot program page {page}"))
    }

    /// What an errno of a program or an erase means. EIO is the chip's word, or that of the kernel for a block that
    /// is marked bad.
    fn fault(&self, done: rustix::io::Result<()>, what: impl FnOnce() -> String) -> Result<(), Fault> {
        match done {
            Ok(()) => Ok(()),
            Err(Errno::IO) => Err(Fault::Failed),
            Err(e) => {
                let error = Error::failed(format!("{}: {}", self.path, what())).because(e);
                Err(Fault::Medium(match e {
                    Errno::NOTTY | Errno::OPNOTSUPP => error.hint("writing requires Linux 3.2 or newer"),
                    Errno::PERM | Errno::BADF | Errno::ROFS | Errno::ACCESS => {
                        error.hint("the device is read-only, or was opened read-only")
                    }
                    _ => error,
                }))
            }
        }
    }

    fn read_at_once(&mut self, page: u32, data: &mut [u8], spare: &mut [u8]) -> Result<Verdict> {
        let mut request = ReadRequest {
            start: self.start(page),
            length: data.len() as u64,
            oob_length: spare.len() as u64,
            data: address_mut(data),
            oob: address_mut(spare),
            mode: AUTO_OOB,
            ..ReadRequest::default()
        };
        // SAFETY: the request's addresses and lengths are those of `data` and `spare`, borrowed for writing.
        let done = unsafe { requests::read_into(&self.file, &mut request) };
        match done {
            // The data is handed out with both; EUCLEAN is said for a single bit already.
            Ok(()) | Err(Errno::UCLEAN | Errno::BADMSG) if data.is_empty() => Ok(Verdict::Clean),
            Err(Errno::BADMSG) => Ok(Verdict::Uncorrectable),
            Ok(()) | Err(Errno::UCLEAN) => {
                Ok(verdict(request.uncorrectable, request.most_bitflips, self.bitflip_threshold))
            }
            Err(e) => Err(self.unread(page, e)),
        }
    }

    fn read_in_parts(&mut self, page: u32, data: &mut [u8], spare: &mut [u8]) -> Result<Verdict> {
        let mut said = Verdict::Clean;
        if !data.is_empty() {
            let before = self.stats(page)?;
            self.file.read_exact_at(data, self.start(page)).map_err(|e| self.unread(page, e))?;
            let after = self.stats(page)?;
            let flips = after.corrected.wrapping_sub(before.corrected);
            // How the flips are spread over the steps of error correction is not told: all may be in one.
            said = verdict(after.failed.wrapping_sub(before.failed), flips, self.bitflip_threshold);
        }
        if !spare.is_empty() {
            let Some(free) = &self.free else {
                let what = format!("{}: the kernel does not report which spare bytes are free", self.path);
                return Err(Error::failed(what).hint("use Linux 6.1 or newer, or in-band tags"));
            };
            let mut raw = vec![0; self.oob_bytes as usize];
            let start = self.start(page);
            let request =
                OobRequest { start, padding: 0, length: self.oob_bytes, pointer: raw.as_mut_ptr() as usize as u64 };
            // SAFETY: the request's address and length are those of `raw`, borrowed for writing.
            unsafe { requests::read_oob(&self.file, request) }.map_err(|e| self.unread(page, e))?;
            gather(free, &raw, spare);
        }
        Ok(said)
    }

    fn stats(&self, page: u32) -> Result<Stats> {
        requests::stats(&self.file).map_err(|e| self.unread(page, e))
    }

    fn unread(&self, page: u32, why: impl Into<std::io::Error>) -> Error {
        Error::failed(format!("{}: cannot read page {page}", self.path)).because(why.into())
    }

    fn block_start(&self, block: u32) -> u64 {
        u64::from(block) * self.geometry.block_bytes()
    }
}

/// A buffer's address as MTD wants it; 0 where there is none.
fn address(bytes: &[u8]) -> u64 {
    if bytes.is_empty() { 0 } else { bytes.as_ptr() as usize as u64 }
}

fn address_mut(bytes: &mut [u8]) -> u64 {
    if bytes.is_empty() { 0 } else { bytes.as_mut_ptr() as usize as u64 }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The kernel's own rule (`mtd_read`): corrected bits below the threshold are everyday life.
fn verdict(uncorrectable: u32, bitflips: u32, threshold: u32) -> Verdict {
    if uncorrectable > 0 {
        Verdict::Uncorrectable
    } else if bitflips >= threshold {
        Verdict::Corrected
    } else {
        Verdict::Clean
    }
}

/// Offset and length of each run of free bytes; the first one without length ends the list.
fn free_runs(layout: &Layout) -> Vec<(u32, u32)> {
    layout.free.iter().map(|run| (run.offset, run.length)).take_while(|&(_, length)| length > 0).collect()
}

/// The free bytes of a spare area in their order, as MTD's "auto" placement has them.
fn gather(free: &[(u32, u32)], raw: &[u8], spare: &mut [u8]) {
    let bytes = free.iter().flat_map(|&(offset, length)| raw.iter().skip(offset as usize).take(length as usize));
    spare.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
}

impl Nand for MtdNand {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&mut self, page: u32, data: &mut [u8], spare: &mut [u8]) -> Result<Verdict> {
        let Geometry { page_bytes, spare_bytes, .. } = self.geometry;
        if (!data.is_empty() && data.len() != page_bytes as usize) || spare.len() > spare_bytes as usize {
            let what = format!("{}+{} bytes for a page of {page_bytes}+{spare_bytes}", data.len(), spare.len());
            return Err(Error::bug(what));
        }
        if self.has_memread { self.read_at_once(page, data, spare) } else { self.read_in_parts(page, data, spare) }
    }

    fn program(&mut self, page: u32, data: &[u8], spare: &[u8]) -> Result<(), Fault> {
        self.write(page, data, spare, AUTO_OOB)
    }

    fn erase(&mut self, block: u32) -> Result<(), Fault> {
        let done = requests::erase(&self.file, self.block_start(block), self.geometry.block_bytes());
        self.fault(done, || format!("cannot erase block {block}"))
    }

    fn is_bad(&mut self, block: u32) -> Result<bool> {
        match requests::is_bad(&self.file, self.block_start(block)) {
            Ok(answer) => Ok(answer > 0),
            // Chips without bad blocks have no such request.
            Err(Errno::OPNOTSUPP) => Ok(false),
            Err(e) => {
                Err(Error::failed(format!("{}: cannot determine whether block {block} is bad", self.path)).because(e))
            }
        }
    }

    fn mark_bad(&mut self, block: u32) -> Result<()> {
        requests::mark_bad(&self.file, self.block_start(block))
            .failed(|| format!("{}: cannot mark block {block} bad", self.path))
    }

    fn describe(&self) -> String {
        let Geometry { page_bytes, spare_bytes, pages_per_block, blocks } = self.geometry;
        let (path, name, blocks) = (&self.path, &self.name, blocks_of_pages(blocks, pages_per_block));
        let how = if self.has_memread { "" } else { ", read in two steps" };
        format!("{path} ({name}), {blocks} of {page_bytes}+{spare_bytes} bytes{how}")
    }
}
