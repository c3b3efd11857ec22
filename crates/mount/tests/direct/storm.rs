//! Many at once: stores that run while what they go to is cut, moved and given to others.

use super::{Both, options, storing};
use crate::ground::close;
use pocketstone_lease::Access;
use pocketstone_media::{MapOptions, Mapped};
use pocketstone_mount::Preload;
use pocketstone_scmfs::check;
use pocketstone_testing::or_skip;
use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BYTES: usize = 64 << 10;

#[test]
fn a_store_never_reaches_another_file() {
    let ground = or_skip!(storing());
    let (mounted, volume) = ground.mount(&options(Preload::Write));
    let path = ground.directory().join("file");
    fs::write(&path, vec![1; BYTES]).unwrap();
    let both = Both::of(&path, Access::Write);
    let (done, stored, read) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|threads| {
        for writer in 0..2_u8 {
            let (both, done, stored, read) = (&both, &done, &stored, &read);
            threads.spawn(move || {
                let data = vec![0xA0 + writer; BYTES / 2];
                while !done.load(Ordering::Relaxed) {
                    if both.write(&data, u64::from(writer) * 100).is_ok() {
                        stored.fetch_add(1, Ordering::Relaxed);
                    }
                    if let Ok(got) = both.read(BYTES, 0) {
                        // Of this file there is nothing but these.
                        let alien = got.iter().find(|byte| ![0, 1, 0xA0, 0xA1].contains(*byte));
                        assert_eq!(alien, None, "bytes of another file");
                        read.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let start = Instant::now();
        let mut round = 0_u64;
        while start.elapsed() < Duration::from_secs(4) {
            round += 1;
            both.kernel.set_len(if round % 3 == 0 { 0 } else { 100 }).unwrap();
            let other = ground.directory().join(format!("other-{}", round % 5));
            fs::write(&other, vec![0x55; BYTES]).unwrap();
            both.kernel.write_all_at(&vec![1; BYTES], 0).unwrap();
            if round % 4 == 0 {
                volume.collect();
            }
            for old in 0..5 {
                if let Ok(content) = fs::read(ground.directory().join(format!("other-{old}"))) {
                    assert!(content.iter().all(|byte| *byte == 0x55), "round {round}: a store reached another file");
                }
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        done.store(true, Ordering::Relaxed);
    });
    let (stored, read) = (stored.load(Ordering::Relaxed), read.load(Ordering::Relaxed));
    assert!(stored > 100 && read > 100, "{stored} stores and {read} reads were direct");
    drop(both);
    mounted.unmount().unwrap();
    close(volume);
    let region = Mapped::open(&ground.region(), &MapOptions::default()).unwrap();
    let report = check(Box::new(region)).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}
