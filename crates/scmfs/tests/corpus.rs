//! The fuzzers' corpora, replayed: each input once, as the fuzzer would.

mod support;

use std::path::{Path, PathBuf};
use support::{fuzz, say};

fn replay(target: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a corpus can be listed").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    for path in &paths {
        let data = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if let Err(panic) = std::panic::catch_unwind(|| body(&data)) {
            say(&format!("while replaying {}", path.display()));
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn scmfs_operations() {
    replay("scmfs_operations", fuzz::operations);
}

#[test]
fn scmfs_image() {
    replay("scmfs_image", fuzz::image);
}
