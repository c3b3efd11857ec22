//! What the tests share: the library as it was built, volumes as the Rust library sees them, and calls without
//! `unsafe`.

use pocketstone_media::{MapOptions, Mapped, Region};
use pocketstone_scmfs::{FileSystem, OpenOptions, Volume, check};
pub use pocketstone_testing::library;
use pocketstone_testing::wait;
use scmfs::error::scmfs_last_error;
use scmfs::file::{OpenFile, scmfs_open};
use scmfs::volume::{OpenVolume, scmfs_volume_in_memory};
use std::ffi::{CStr, CString};
use std::path::Path;
use std::process::Command;
use std::ptr::{null, null_mut};

/// Runs a command that has to succeed, and returns what it printed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8(output.stdout).expect("it prints text")
}

/// A region that no process has open any more: one that another test has just started holds what is open here until it
/// runs its program.
fn region(path: &Path) -> Box<dyn Region> {
    let busy = |error: &pocketstone_media::Error| error.message().contains("in use");
    Box::new(wait::retry(busy, || Mapped::open(path, &MapOptions::default())).expect("the region opens"))
}

/// The files of a volume, as the Rust library sees them.
pub fn opened(path: &Path) -> FileSystem<Volume> {
    Volume::open(region(path), &OpenOptions::default()).expect("the volume opens").into_file_system()
}

/// That a volume is in order: it is recovered, closed and checked.
pub fn assert_clean(path: &Path) {
    opened(path).into_volume().close().expect("it closes");
    let findings = check(region(path)).expect("it can be checked").findings;
    assert!(findings.is_empty(), "{findings:?}");
}

/// A call as C makes it.
macro_rules! call {
    ($call:expr) => {
        // SAFETY: the arguments are what the header asks for, or what it says is refused.
        unsafe { $call }
    };
}
pub(crate) use call;

/// A text for C.
pub fn text(text: &str) -> CString {
    CString::new(text).expect("no zero byte")
}

/// What the last failure in this thread had to say.
pub fn message() -> String {
    call!(CStr::from_ptr(scmfs_last_error())).to_str().expect("UTF-8").to_owned()
}

/// A volume in memory, of 16 MiB.
pub fn volume() -> *mut OpenVolume {
    let mut volume = null_mut();
    assert_eq!(call!(scmfs_volume_in_memory(16 << 20, null(), &mut volume)), 0, "{}", message());
    volume
}

/// A file of an open volume.
pub fn file(volume: *const OpenVolume, path: &str, flags: u32) -> *mut OpenFile {
    let mut file = null_mut();
    let result = call!(scmfs_open(volume, text(path).as_ptr(), flags, 0o640, &mut file));
    assert_eq!(result, 0, "{}", message());
    file
}
