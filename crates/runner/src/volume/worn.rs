//! A volume on a chip that has aged: the chip is taken away under it, and its contents are put onto one with faults.
//!
//! nandsim reads its faults as it is loaded, and counts from then on. So a volume is made and filled on a chip without
//! any, and none is spent on that.

use super::{kept, mtd, recovered, ubi};
use crate::modules;
use pocketstone_core::board::BoardDescription;
use pocketstone_core::chip::Found;
use pocketstone_core::database::DatabaseEngine;
use pocketstone_core::error::Context;
use pocketstone_core::faults::{FaultCounts, Faults};
use pocketstone_core::volume::{Medium, Volume};
use pocketstone_core::{Error, Result};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

/// The simulator's module.
const MODULE: &str = "nandsim";

/// Takes a volume's chip away, and gives its contents to one with faults that the seed chooses; the volume is mounted
/// on that.
///
/// # Errors
/// `ErrorKind::Board` if the chip is not nandsim's, is in use, or cannot be programmed or mounted; `ErrorKind::User` if
/// there are more faults than the kernel can be told.
pub fn wear(volume: &Volume, board: &BoardDescription, faults: &Faults, seed: u64) -> Result<()> {
    if !board.capabilities.disposable {
        return Err(Error::bug("a chip was to be taken away from a board that goes on with its own"));
    }
    let_go(volume, board)?;
    let contents = mtd::chip(board.places.mtd)?.read_raw().board(|| "cannot read the chip".into())?;
    let geometry = contents.geometry();
    let parameters = faults.parameters(geometry.blocks, geometry.pages_per_block, seed)?;
    let removed = Command::new("/bin/busybox").args(["rmmod", MODULE]).output();
    let removed = removed.board(|| format!("cannot remove the module {MODULE}"))?;
    if !removed.status.success() {
        let said = String::from_utf8_lossy(&removed.stderr).trim().to_owned();
        return Err(Error::board(format!("cannot remove the module {MODULE}: {said}"))
            .hint("faults are for chips that nandsim simulates as a module"));
    }
    modules::load_again(MODULE, &parameters)?;
    recovered::load(&contents, board)?;
    if volume.medium == Medium::Ubi {
        ubi::attach(board.places.mtd)?;
    }
    kept::attach(volume, board)?;
    kept::quiet(board)
}

/// Unmounts the volume, so that nobody has its chip.
fn let_go(volume: &Volume, board: &BoardDescription) -> Result<()> {
    kept::unmount(volume, board)?;
    if volume.medium == Medium::Ubi {
        ubi::detach_ours()?;
    }
    Ok(())
}

/// What the kernel says of faults from a moment on. It is no probe, for it watches for longer: directories that are
/// looked up before probes begin are read from the chip, and what a server writes at the last close goes there.
pub struct Watch {
    messages: OwnedFd,
    statistics: [u64; 3],
    mtd: u32,
}

impl Watch {
    /// From now on.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel's messages or counters cannot be read.
    pub fn begin(board: &BoardDescription) -> Result<Watch> {
        let failed = || "cannot read the kernel's messages".to_owned();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let messages = rustix::fs::open("/dev/kmsg", flags, Mode::empty()).board(failed)?;
        rustix::fs::seek(&messages, SeekFrom::End(0)).board(failed)?;
        let mtd = board.places.mtd;
        Ok(Watch { messages, statistics: statistics(mtd)?, mtd })
    }

    /// What was seen since then.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel said more than it keeps, or its counters cannot be read.
    pub fn end(self) -> Result<FaultCounts> {
        let mut counts = FaultCounts::default();
        let mut record = [0; 8192];
        loop {
            match rustix::io::read(&self.messages, &mut record) {
                Ok(bytes) => count(&String::from_utf8_lossy(&record[..bytes]), &mut counts),
                Err(Errno::AGAIN) => break,
                Err(error) => {
                    let lost = Error::board("the kernel said more of faults than it keeps").because(error);
                    return Err(lost.hint("fewer faults, for example bitflips=1, or fewer requests"));
                }
            }
        }
        let [corrected, failed, bad] = statistics(self.mtd)?;
        let [corrected_before, failed_before, bad_before] = self.statistics;
        counts.corrected_bits = corrected - corrected_before;
        counts.failed_corrections = failed - failed_before;
        counts.bad_blocks = bad - bad_before;
        Ok(counts)
    }
}

/// Counts what nandsim says of one fault, in its own words.
fn count(message: &str, counts: &mut FaultCounts) {
    let number = match () {
        () if message.contains("read_page: flipping bit") => &mut counts.flipped_bits,
        () if message.contains("simulating read error in page") => &mut counts.unread_pages,
        () if message.contains("simulating write failure in page") => &mut counts.unprogrammed_pages,
        () if message.contains("simulating erase failure in erase block") => &mut counts.unerased_blocks,
        () => return,
    };
    *number += 1;
}

/// The kernel's counters of a chip: bits that were corrected, reads that could not be, and bad blocks.
fn statistics(mtd: u32) -> Result<[u64; 3]> {
    let read = |name: &str| {
        let path = format!("/sys/class/mtd/mtd{mtd}/{name}");
        let text = fs::read_to_string(&path).board(|| format!("cannot read {path}"))?;
        text.trim().parse::<u64>().board(|| format!("{path} holds `{}`", text.trim()))
    };
    Ok([read("corrected_bits")?, read("ecc_failures")?, read("bad_blocks")?])
}

/// Mounts the volume anew after a run, reads all of it, and leaves that in `folder`.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be unmounted. What the file system refuses is a finding.
pub fn look(volume: &Volume, engine: Option<DatabaseEngine>, board: &BoardDescription, folder: &Path) -> Result<Found> {
    rustix::fs::sync();
    let_go(volume, board)?;
    recovered::mount_and_look(volume, engine, board, folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulators_words_are_counted() {
        let mut counts = FaultCounts::default();
        // As drivers/mtd/nand/raw/nandsim.c of Linux 6.1 has them, behind the head of /dev/kmsg.
        for message in [
            "4,901,1234,-;[nandsim] warning: read_page: flipping bit 7 in page 3 reading from 0 ecc: corrected=0",
            "4,902,1235,-;[nandsim] warning: simulating read error in page 9",
            "4,903,1236,-;[nandsim] warning: simulating write failure in page 10",
            "4,904,1237,-;[nandsim] warning: simulating erase failure in erase block 4",
            "4,905,1238,-;[nandsim] warning: simulating erase failure in erase block 5",
            "6,906,1239,-;ubi0: attached mtd0",
        ] {
            count(message, &mut counts);
        }
        let expected = FaultCounts {
            flipped_bits: 1,
            unread_pages: 1,
            unprogrammed_pages: 1,
            unerased_blocks: 2,
            ..FaultCounts::default()
        };
        assert_eq!(counts, expected);
    }
}
