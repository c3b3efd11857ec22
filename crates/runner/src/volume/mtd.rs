//! Raw flash: erasing it, and writing an image to it.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_media::nand::{Access, Fault, MtdNand, Nand};
use std::fs;
use std::path::Path;

/// Opens a device file for reading and writing.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be opened.
pub fn device(path: &str) -> Result<fs::File> {
    fs::File::options().read(true).write(true).open(path).board(|| format!("cannot open {path}"))
}

/// The marker by which JFFS2 knows an erased block on NAND: magic, node type CLEANMARKER, length 8.
fn clean_marker() -> [u8; 8] {
    let mut marker = [0; 8];
    marker[..2].copy_from_slice(&0x1985u16.to_ne_bytes());
    marker[2..4].copy_from_slice(&0x2003u16.to_ne_bytes());
    marker[4..].copy_from_slice(&8u32.to_ne_bytes());
    marker
}

/// The device file of an MTD device.
pub fn device_path(mtd: u32) -> String {
    format!("/dev/mtd{mtd}")
}

/// Erases a whole MTD device.
///
/// # Errors
/// `ErrorKind::Board` if there is no such chip, or it cannot be reached; a block that fails is marked bad.
pub fn erase(mtd: u32) -> Result<()> {
    erase_then(mtd, |_, _| Ok(()))
}

/// Erases it and leaves JFFS2's clean markers, as `flash_erase --jffs2` does. Without them JFFS2
/// would erase and read back every block in the background for half a minute after the mount.
///
/// # Errors
/// `ErrorKind::Board` if there is no such chip, or it cannot be reached; a block that fails is marked bad.
pub fn erase_for_jffs2(mtd: u32) -> Result<()> {
    let marker = clean_marker();
    erase_then(mtd, |nand, page| nand.program_spare(page, &marker))
}

/// Opens an MTD device as a chip.
///
/// # Errors
/// `ErrorKind::Board` if there is none, or it is not raw NAND.
pub fn chip(mtd: u32) -> Result<MtdNand> {
    MtdNand::open(Path::new(&device_path(mtd)), Access::Write)
        .board(|| format!("the board has no MTD device {mtd}"))
        .map_err(|e| e.hint("check that the board's profile loads the module `nandsim`"))
}

fn erase_then(mtd: u32, after: impl Fn(&mut MtdNand, u32) -> Result<(), Fault>) -> Result<()> {
    erase_chip(&mut chip(mtd)?, after)
}

/// Erases every block that is not bad, and does `after` to its first page. A block for which the chip reports failure
/// is worn out: it is marked bad, as `flash_erase` and `ubiformat` do, and left out from then on.
fn erase_chip<N: Nand>(nand: &mut N, after: impl Fn(&mut N, u32) -> Result<(), Fault>) -> Result<()> {
    let geometry = nand.geometry();
    for block in 0..geometry.blocks {
        if nand.is_bad(block)? {
            continue;
        }
        match nand.erase(block).and_then(|()| after(nand, block * geometry.pages_per_block)) {
            Ok(()) => {}
            Err(Fault::Failed) => nand.mark_bad(block).board(|| format!("cannot mark the worn block {block} bad"))?,
            Err(fault) => return Err(Error::board(format!("cannot erase block {block}: {fault}"))),
        }
    }
    Ok(())
}

/// Programs an MTD device, which is erased, from its start on; the last page is filled up with ones.
///
/// # Errors
/// `ErrorKind::Board` if there is no such chip, the bytes do not fit, a block among them is bad (a block device on the
/// chip would not skip it), or the chip reports failure.
pub fn write_from_start(mtd: u32, bytes: &[u8]) -> Result<()> {
    let mut nand = chip(mtd)?;
    let geometry = nand.geometry();
    if bytes.len() as u64 > geometry.bytes() {
        return Err(Error::board(format!("{} bytes do not fit a chip of {}", bytes.len(), geometry.bytes())));
    }
    for (part, page) in bytes.chunks(geometry.page_bytes as usize).zip(0..) {
        let block = page / geometry.pages_per_block;
        if page % geometry.pages_per_block == 0 && nand.is_bad(block)? {
            return Err(Error::board(format!("block {block} is bad, and an image cannot skip it"))
                .hint("use UBI: medium = \"ubi\""));
        }
        let mut data = part.to_vec();
        data.resize(geometry.page_bytes as usize, 0xff);
        nand.program(page, &data, &[]).map_err(|fault| Error::board(format!("cannot program page {page}: {fault}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_media::nand::{Geometry, SimulatedNand, SimulatedOptions};

    fn simulated(factory_bad: Vec<u32>) -> SimulatedNand {
        let geometry = Geometry { page_bytes: 512, spare_bytes: 38, pages_per_block: 4, blocks: 8 };
        SimulatedNand::new(geometry, SimulatedOptions::default().factory_bad(factory_bad))
    }

    fn bad(nand: &mut SimulatedNand) -> Vec<u32> {
        (0..nand.geometry().blocks).filter(|&block| nand.is_bad(block).unwrap()).collect()
    }

    #[test]
    fn a_block_that_fails_is_marked_bad_and_all_others_are_erased_and_marked() {
        let mut nand = simulated(vec![1]);
        nand.program(9, &[0; 512], &[]).unwrap();
        nand.fail_erase(3);
        nand.fail_program(5 * 4);
        erase_chip(&mut nand, |nand, page| {
            let data = vec![0xff; nand.geometry().page_bytes as usize];
            nand.program(page, &data, &clean_marker())
        })
        .unwrap();
        assert_eq!(bad(&mut nand), [1, 3, 5]);
        let (mut data, mut spare) = (vec![0; 512], vec![0; 8]);
        nand.read(9, &mut data, &mut []).unwrap();
        assert!(data.iter().all(|&byte| byte == 0xff), "what was programmed before is gone");
        for block in [0, 2, 4, 6, 7] {
            nand.read(block * 4, &mut [], &mut spare).unwrap();
            assert_eq!(spare, clean_marker(), "block {block}");
        }
    }

    #[test]
    fn a_chip_that_cannot_be_reached_is_no_worn_block() {
        let mut nand = simulated(Vec::new());
        nand.cut_at(1, pocketstone_media::nand::Tear::Whole);
        assert!(erase_chip(&mut nand, |_, _| Ok(())).unwrap_err().to_string().contains("cannot erase block 0"));
        nand.power_on();
        assert!(bad(&mut nand).is_empty());
    }
}
