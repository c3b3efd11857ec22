//! What durability costs here: medians of copies and stores with and without it.

use pocketstone_core::median::median;
use pocketstone_media::{MapOptions, Mapped, Region, persist};
use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

const PAGE: u64 = 4096;
const REGION: u64 = 64 << 20;

/// What is copied. At the start of a page: how long a copy takes depends on how its two sides lie in their lines and
/// pages, which is not to be the heap's choice.
#[repr(align(4096))]
struct Page([u8; PAGE as usize]);

/// Median nanoseconds of one call, over batches long enough for the clock. Each call gets the offset
/// of another page.
fn median_ns(mut call: impl FnMut(u64)) -> f64 {
    let (batches, calls) = (401, 64);
    let mut at = 0;
    let times: Vec<f64> = (0..batches)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..calls {
                // A stride of some pages and a line, so that neither order nor sets repeat soon.
                at = (at + 37 * PAGE) % REGION;
                call(at);
            }
            start.elapsed().as_nanos() as f64 / f64::from(calls)
        })
        .collect();
    median(times).expect("batches")
}

fn main() {
    let mut out = std::io::stdout().lock();
    let directory = if std::path::Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
    let home = tempfile::tempdir_in(directory).expect("a directory for the region");
    let options = MapOptions::default().persistent(persist::available());
    let region = Mapped::create(&home.path().join("region"), REGION, &options).expect("a region");
    region.touch(0, REGION);
    let Page(page) = &Page([7; PAGE as usize]);
    let raw = |at: u64| {
        assert!(at + PAGE <= REGION);
        // SAFETY: a page inside the region, which nobody else uses.
        unsafe { region.base().add(at as usize) }.cast_mut()
    };
    let chosen = persist::instructions();
    writeln!(out, "{}; write-back {}, {}", region.describe(), chosen.write_back, chosen.stream).expect("output");
    let mut line = |name: &str, ns: f64| writeln!(out, "{name:<44} {ns:>9.1} ns").expect("output");
    line(
        "memcpy 4 KiB",
        // SAFETY: both are a page long.
        median_ns(|at| unsafe { std::ptr::copy_nonoverlapping(black_box(page.as_ptr()), raw(at), page.len()) }),
    );
    line(
        "raw stream 4 KiB + fence",
        median_ns(|at| {
            // SAFETY: both are a page long.
            unsafe { persist::stream(raw(at), black_box(page.as_ptr()), page.len()) };
            persist::fence();
        }),
    );
    let region: &dyn Region = black_box(&region);
    line(
        "region: stream 4 KiB + fence",
        median_ns(|at| {
            // SAFETY: nobody else uses the region.
            unsafe { region.stream(at, black_box(page)) };
            region.fence();
        }),
    );
    line(
        "region: write + flush 4 KiB + fence",
        median_ns(|at| {
            // SAFETY: nobody else uses the region.
            unsafe { region.write(at, black_box(page)) };
            region.flush(at, PAGE);
            region.fence();
        }),
    );
    line(
        "region: zero 4 KiB + fence",
        median_ns(|at| {
            // SAFETY: nobody else uses the region.
            unsafe { region.zero(at, PAGE) };
            region.fence();
        }),
    );
    line(
        "region: 64 bytes write + flush + fence",
        median_ns(|at| {
            // SAFETY: nobody else uses the region.
            unsafe { region.write(at, black_box(&page[..64])) };
            region.flush(at, 64);
            region.fence();
        }),
    );
    line(
        "region: 8-byte store + flush + fence",
        median_ns(|at| {
            // SAFETY: nobody else uses the region.
            unsafe { region.store_u64(at, black_box(7)) };
            region.flush(at, 8);
            region.fence();
        }),
    );
}
