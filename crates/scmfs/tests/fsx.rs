//! One file, many random operations, compared with a vector of bytes.

use crate::support::fsx::Fsx;
use crate::support::shape::Shape;
use crate::support::{amount, seed};

fn tiny_pages(seed: u64, operations: u64) -> Fsx {
    let mut shape = Shape::tiny(256 << 10);
    shape.tight = false;
    Fsx { shape, most_bytes: 16 << 10, most_at_once: 3000, seed, operations }
}

fn default_pages(seed: u64, operations: u64) -> Fsx {
    Fsx { shape: Shape::normal(), most_bytes: 5 << 20, most_at_once: 300 << 10, seed, operations }
}

#[test]
fn tiny_pages_bounded() {
    let first = seed(1);
    (first..first + amount(2, 5)).for_each(|seed| tiny_pages(seed, amount(20_000, 1_000_000)).run());
}

#[test]
fn tiny_pages_with_checksums_bounded() {
    let mut fsx = tiny_pages(seed(7), amount(20_000, 1_000_000));
    fsx.shape = fsx.shape.with_checksums();
    fsx.run();
}

#[test]
fn default_pages_bounded() {
    default_pages(seed(11), amount(1_000, 20_000)).run();
}

#[test]
#[ignore = "long: a million operations with each of five seeds"]
fn torture_fsx() {
    let first = seed(21);
    (first..first + 5).for_each(|seed| tiny_pages(seed, 1_000_000).run());
    default_pages(seed(31), 20_000).run();
}
