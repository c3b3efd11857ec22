//! What checksums of contents cost.

use crate::ground::Ground;
use crate::measure::{Side, interleave, side};
use crate::say;
use pocketstone_core::random::Random;
use pocketstone_scmfs::{File, Meta, Operations, ROOT, Volume};

const MIB: u64 = 1 << 20;
const PAGE: usize = 4096;
/// Within the caches of a processor: what is measured is the checksums, not the memory.
const HOT_BYTES: u64 = 16 * MIB;
const PLAIN: &str = "plain";
const CHECKED: &str = "checksums";

fn filled(volume: &Volume) -> File {
    let file = volume.create_file(ROOT, b"a", &Meta::file(0o644)).expect("a new file");
    let part = vec![0x5a; MIB as usize];
    for at in (0..HOT_BYTES).step_by(MIB as usize) {
        file.write_at(&part, at).expect("space");
    }
    file
}

fn offsets() -> Vec<u64> {
    let mut random = Random::labelled(1, "offsets");
    (0..10_000).map(|_| random.below(HOT_BYTES / PAGE as u64) * PAGE as u64).collect()
}

/// Every work with and without checksums, on media that are flushed and fenced.
pub fn cost(ground: &Ground) {
    let plain = ground.volume("sums-without", 256 * MIB, true);
    let checked = ground.volume_with_checksums("sums-with", 256 * MIB, true);
    let files = [filled(&plain), filled(&checked)];
    let (at, page, large) = (&offsets(), &vec![7_u8; PAGE], &vec![9_u8; MIB as usize]);
    let reads = |file: &File, bytes: usize| {
        let mut buffer = vec![0_u8; bytes];
        let at = at.iter().take(if bytes == PAGE { usize::MAX } else { 0 });
        let whole = (0..HOT_BYTES).step_by(bytes).take(if bytes == PAGE { 0 } else { usize::MAX });
        let mut done = 0;
        for offset in at.copied().chain(whole) {
            file.read_at(&mut buffer, offset).expect("a read");
            std::hint::black_box(&buffer);
            done += 1;
        }
        done
    };
    let overwrites = |file: &File| {
        at.iter().for_each(|offset| _ = file.write_at(page, *offset).expect("a write"));
        at.len() as u64
    };
    let large_writes = |file: &File| {
        let offsets = (0..HOT_BYTES).step_by(MIB as usize);
        offsets.map(|offset| file.write_at(large, offset).expect("a write").min(1) as u64).sum()
    };
    let appends = |volume: &Volume, bytes: usize| {
        let file = volume.create_file(ROOT, b"log", &Meta::file(0o644)).expect("a new file");
        (0..4096).for_each(|_| _ = file.append(&page[..bytes]).expect("space"));
        drop(file);
        volume.unlink(ROOT, b"log").expect("it is there");
        4096
    };
    let works: [(&str, [Side<'_>; 2]); 6] = [
        ("4 KiB read", [side(PLAIN, || reads(&files[0], PAGE)), side(CHECKED, || reads(&files[1], PAGE))]),
        ("4 KiB overwrite", [side(PLAIN, || overwrites(&files[0])), side(CHECKED, || overwrites(&files[1]))]),
        ("4 KiB append", [side(PLAIN, || appends(&plain, PAGE)), side(CHECKED, || appends(&checked, PAGE))]),
        ("100 bytes append", [side(PLAIN, || appends(&plain, 100)), side(CHECKED, || appends(&checked, 100))]),
        (
            "1 MiB read",
            [side(PLAIN, || reads(&files[0], MIB as usize)), side(CHECKED, || reads(&files[1], MIB as usize))],
        ),
        ("1 MiB write", [side(PLAIN, || large_writes(&files[0])), side(CHECKED, || large_writes(&files[1]))]),
    ];
    for (what, sides) in works {
        let times = interleave(15, sides.into());
        let ratio = times.ratio(CHECKED, PLAIN).unwrap_or(f64::NAN);
        say(&format!("  {what}: {}; with checksums over without: {ratio:.2}", times.line()));
    }
}
