//! The model against Linux: what volumes are compared with must itself be right.

use pocketstone_fstest::drive::by_kernel;
use pocketstone_fstest::host::is_usable;
use pocketstone_fstest::{Decoder, Has, Model};
use pocketstone_testing::{Need, amount, say, seed};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[test]
fn the_model_does_what_linux_does() {
    let seed = seed(1);
    // tmpfs has all that is compared; other file systems may count links in another way.
    let parent =
        Some(Path::new("/dev/shm")).filter(|path| path.is_dir()).map_or_else(std::env::temp_dir, Path::to_path_buf);
    let directory = tempfile::tempdir_in(parent).expect("a directory can be made");
    if !is_usable(directory.path()).expect("a directory can be used") {
        return Need::Kernel.lacks("the model against Linux: mount a tmpfs on /dev/shm").end();
    }
    let meta = directory.path().metadata().expect("it has attributes");
    let mut model = Model::new(Has::all(), (meta.mode() & 0o7777) as u16, 0, 0);
    let (compared, left_out) =
        by_kernel(directory.path(), &mut model, &Decoder::of_kernel(Has::all()), seed, amount(20_000, 500_000));
    say(&format!("{compared} operations compared, {left_out} left out"));
    assert!(compared > 10 * left_out, "hardly anything could be compared");
}
