//! The fuzzers' corpora, replayed: each input once, as the fuzzer would.

use crate::support::fuzz;
use pocketstone_testing::replay;

#[test]
fn scmfs_operations() {
    replay("scmfs_operations", |_, data| fuzz::operations(data));
}

#[test]
fn scmfs_image() {
    replay("scmfs_image", |_, data| fuzz::image(data));
}

#[test]
fn scmfs_checkpoint() {
    replay("scmfs_checkpoint", |_, data| fuzz::checkpoint(data));
}
