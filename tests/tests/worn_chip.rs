//! A simulated chip with worn blocks and bit errors: every file system for raw flash is made on it and read.

use pocketstone_core::board::Places;
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::FileSystem;
use pocketstone_testing::or_skip;
use pocketstone_tests::{measure, plan, virtual_board_with};

/// Reads the files from the chip, often enough that bits flip, and prints counters of the kernel's MTD layer.
const SCRIPT: &str = "for i in 1 2 3 4 5 6 7 8 9 10; do
        echo 3 > /proc/sys/vm/drop_caches; cat MOUNT/* > /dev/null || exit 1
    done
    cd /sys/class/mtd/mtd0; cat bad_blocks corrected_bits ecc_failures";

#[test]
fn a_worn_chip_has_its_blocks_marked_and_its_bits_corrected() {
    let board = or_skip!(virtual_board_with(|machine| {
        // Erasing blocks 5 and 900 fails; one bit at a time is flipped in some reads.
        let faults = "weakblocks=5:0,900:0 bitflips=1";
        machine.modules.parameters.insert("nandsim".into(), faults.into());
    }));
    for file_system in [FileSystem::Jffs2, FileSystem::Ubifs, FileSystem::Yaffs2] {
        let plan = plan(file_system, Pattern::Random, 64, 0, 1);
        // A read that fails, or is short, fails the cell.
        assert_eq!(measure(&board, &plan).calls.len(), 64, "{file_system:?}");
        let mount_point = Places::default().mount_point.display().to_string();
        let argv = ["sh".to_owned(), "-c".to_owned(), SCRIPT.replace("MOUNT", &mount_point)];
        let (output, status) = board.exec_after(&plan.steps(), &argv).map_err(|f| f.error.chain()).expect("the shell");
        let text = String::from_utf8_lossy(&output).into_owned();
        let counters: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let [bad_blocks, corrected_bits, ecc_failures] = counters[..] else { panic!("{status}: {text}") };
        assert_eq!((status, bad_blocks, ecc_failures), (0, 2, 0), "{file_system:?}");
        assert!(corrected_bits > 0, "{file_system:?}: no read had a flipped bit");
    }
}
