//! A process that runs out of mappings. Alone in its file: other tests would run out, too.

use pocketstone_media::{Mapped, Piece, Region};
use pocketstone_testing::Need;

const PAGE: u64 = 4096;

#[test]
fn when_mappings_run_out_there_is_no_window_and_nothing_is_lost() {
    let region = Mapped::anonymous(2 * PAGE).unwrap();
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    if limit > 1_000_000 {
        return Need::Kernel.lacks(format_args!("{limit} mappings are more than a test should make")).end();
    }
    // The same page again and again cannot be joined.
    let pieces = vec![Piece { at: Some(0), bytes: PAGE }; limit + 10];
    assert!(region.window(&pieces).is_none());
    // SAFETY: nobody else uses these bytes.
    unsafe { region.write(0, b"fine") };
    let window = region.window(&pieces[..100]).expect("the mappings were given back");
    // SAFETY: inside the window.
    assert_eq!(unsafe { window.base().add(99 * PAGE as usize).read() }, b'f');
}
