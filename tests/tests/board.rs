//! The virtual board, for real.

use pocketstone_core::plan::{FileSystem, Pattern};
use pocketstone_tests::{plan, virtual_board};

#[test]
fn a_first_cell() {
    let Some(board) = virtual_board() else { return };
    let steps = plan(FileSystem::Jffs2, Pattern::Sequential, 16, 0, 1).steps();
    for c in ["true", "cat /proc/uptime", "echo 3 > /proc/sys/vm/drop_caches", "cat /proc/uptime; echo 3 > /proc/sys/vm/drop_caches; cat /proc/uptime; head -c 65536 /mnt/target > /dev/null; cat /proc/uptime", "cat /proc/uptime; pocketstone-runner version; cat /proc/uptime"] {
        let t = std::time::Instant::now();
        let (o, _) = board.exec_after(&steps, &["/bin/sh".into(), "-c".into(), c.into()]).map_err(|f| f.error).unwrap();
        println!("{c}: {:?} {}", t.elapsed(), String::from_utf8_lossy(&o));
    }
}
