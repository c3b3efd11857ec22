//! Many files cost few mappings and little memory. `benches/million.rs` has the figures of a million.
//!
//! A program of its own, and one test at a time: the memory is that of the whole process.

mod support;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use support::many::Many;
use support::say;

static ALONE: Mutex<()> = Mutex::new(());

/// Memory, if there is a file system of it.
fn place() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.into() } else { std::env::temp_dir() }
}

#[test]
fn twenty_thousand_files() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let many = Many::measure(&place(), 20_000, 100);
    say(&format!("{many:?}"));
    assert!(many.mappings >= 1 && many.mappings <= 1000, "{many:?}");
    // 200 bytes a file, and what a volume keeps however many there are: 16,384 inodes and some null files.
    assert!(many.memory < 20_000 * 200 + (6 << 20), "{many:?}");
    assert_eq!(many.files, 20_000);
}

#[test]
#[ignore = "long, and needs 5 GiB of memory: a million files"]
fn torture_a_million_files() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let many = Many::measure(&place(), 1_000_000, 1000);
    say(&format!("{many:?}"));
    assert!(many.mappings >= 1 && many.mappings <= 1000, "{many:?}");
    assert!(many.memory_per_file() <= 200.0, "{many:?}");
    assert!(many.open_clean.as_millis() <= 100, "{many:?}");
    assert!(many.recover.as_secs_f64() <= 2.0, "{many:?}");
}
