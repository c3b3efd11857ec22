//! How many pages an image's blocks have, by the sequence numbers of its pages.

use super::tags::{CHECKPOINT_SEQUENCE, FIRST_SEQUENCE};
use std::cmp::Ordering;

/// What is taken where nothing can be told: that of the large-page chips that images are mostly made for.
pub(super) const USUAL: u32 = 64;
/// The fewest pages that a block has.
pub(super) const FEWEST: u64 = 16;
const MOST: u64 = 512;

/// Pages per block, and whether the image tells it. `sequences` has a number for every page that has tags.
///
/// All pages of a block have one sequence number, which no other block has, and the first of them is the block's first
/// page. So the block is at least as long as the longest run of a number, and divides every place where a run begins.
pub(super) fn pages_per_block(sequences: &[Option<u32>]) -> (u32, bool) {
    let mut divisor = 0;
    let mut longest = 0;
    // How many runs are as long as the longest.
    let mut as_long = 0;
    let mut run: Option<(u32, u64)> = None;
    for (page, sequence) in (0u64..).zip(sequences) {
        let Some(sequence) = *sequence else { continue };
        let begins = match run {
            Some((number, begins)) if number == sequence => begins,
            _ => {
                divisor = gcd(divisor, page);
                page
            }
        };
        run = Some((sequence, begins));
        // Checkpoints and built images give many blocks one number.
        if sequence != CHECKPOINT_SEQUENCE && sequence != FIRST_SEQUENCE {
            let length = page + 1 - begins;
            match length.cmp(&longest) {
                Ordering::Greater => (longest, as_long) = (length, 1),
                Ordering::Equal => as_long += 1,
                Ordering::Less => {}
            }
        }
    }
    let least = longest.next_power_of_two().max(FEWEST);
    let most = if divisor == 0 { MOST } else { (1 << divisor.trailing_zeros()).min(MOST) };
    if least > most {
        return (mostly(sequences, least).unwrap_or(USUAL), false);
    }
    // Runs of a power of two are most likely whole blocks. A single one may be the block that was written last.
    if least == most || longest == least && as_long > 1 {
        return (least as u32, true);
    }
    (u64::from(USUAL).clamp(least, most) as u32, false)
}

/// The largest number of pages with which blocks have one sequence number each, but for a few: pages whose programming
/// failed, or whose tags are worn, let numbers begin anywhere. `None` if nothing speaks against the largest of all.
fn mostly(sequences: &[Option<u32>], least: u64) -> Option<u32> {
    let fits = |pages: u64| {
        let (mut blocks, mut mixed) = (0, 0);
        for block in sequences.chunks(pages as usize) {
            let mut numbers = block.iter().flatten();
            let Some(first) = numbers.next() else { continue };
            blocks += 1;
            mixed += u64::from(numbers.any(|number| number != first));
        }
        mixed * 4 <= blocks
    };
    let sizes = std::iter::successors(Some(MOST), |pages| Some(pages / 2));
    let found = sizes.take_while(|&pages| pages >= least.max(FEWEST)).find(|&pages| fits(pages))?;
    (found < MOST).then_some(found as u32)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of blocks, each given by its number and how many pages are used.
    fn image(pages: usize, blocks: &[(u32, usize)]) -> Vec<Option<u32>> {
        let used = |&(number, used): &(u32, usize)| (0..pages).map(move |page| (page < used).then_some(number));
        blocks.iter().flat_map(used).collect()
    }

    #[test]
    fn full_blocks_tell_their_length() {
        for pages in [16, 32, 64, 128, 256, 512] {
            let sequences = image(pages, &[(0x1001, pages), (0x1005, pages), (0, 0), (0x1002, 3)]);
            assert_eq!(pages_per_block(&sequences), (pages as u32, true));
        }
    }

    #[test]
    fn a_block_that_is_being_filled_tells_nothing() {
        for used in [16, 32] {
            assert_eq!(pages_per_block(&image(64, &[(0, 0), (0x1001, used)])), (64, false), "{used} pages");
            assert_eq!(pages_per_block(&image(64, &[(0x1001, 5), (0, 0), (0x1002, used)])), (64, false));
        }
    }

    #[test]
    fn neighbours_that_begin_and_run_far_enough_tell_it_too() {
        assert_eq!(pages_per_block(&image(128, &[(0x1001, 100), (0x1002, 70)])), (128, true));
        assert_eq!(pages_per_block(&image(32, &[(0x1001, 20), (0x21, 32), (0x21, 32)])), (32, true));
    }

    #[test]
    fn what_cannot_be_told_is_the_usual_within_what_can() {
        assert_eq!(pages_per_block(&[]), (64, false));
        assert_eq!(pages_per_block(&image(64, &[(0x1000, 64), (0x1000, 64), (0x1000, 9)])), (64, false));
        assert_eq!(pages_per_block(&image(256, &[(0x1001, 70), (0, 0), (0x1003, 80)])), (128, false));
        assert_eq!(pages_per_block(&image(32, &[(0x1001, 5), (0x1003, 6)])), (32, false));
        // A first page that failed, in one of many blocks.
        let mut failed = image(32, &(0..30).map(|number| (0x1001 + number, 31)).collect::<Vec<_>>());
        failed[5 * 32] = None;
        failed[9 * 32] = None;
        failed[9 * 32 + 1] = None;
        assert_eq!(pages_per_block(&failed), (32, false));
        // Numbers that begin anywhere and run on for ever are no blocks.
        assert_eq!(pages_per_block(&[vec![Some(0x1001); 7], vec![Some(0x1002); 900]].concat()), (64, false));
    }
}
