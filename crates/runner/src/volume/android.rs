//! The caches of an Android phone, which it drops for anybody from Android 12 on.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The first API level with the property.
const FIRST_API: u32 = 31;
/// Android sets it to 0 when that is done.
const DROP_CACHES: &str = "perf.drop_caches";
/// What it is set to: pages, names and inodes. AOSP's init.rc heeds no other value (`on property:perf.drop_caches=3`).
const EVERYTHING: &str = "3";
/// How long Android may take: a Pixel 4 needs 0.15 s.
const LIMIT: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// Has Android drop the kernel's caches. Whether it says that it has: other systems, older phones and those of some
/// makers do not.
pub fn drop_caches() -> bool {
    if property("ro.build.version.sdk").and_then(|api| api.parse().ok()).is_none_or(|api: u32| api < FIRST_API) {
        return false;
    }
    let mut set = Command::new("setprop");
    set.args([DROP_CACHES, EVERYTHING]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !set.status().is_ok_and(|status| status.success()) {
        return false;
    }
    let begin = Instant::now();
    while begin.elapsed() < LIMIT {
        if property(DROP_CACHES).is_some_and(|value| value == "0") {
            return true;
        }
        std::thread::sleep(LOOK);
    }
    false
}

/// A property of the phone; `None` where nobody knows of properties.
fn property(name: &str) -> Option<String> {
    let asked = Command::new("getprop").arg(name).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&asked.stdout).trim().to_owned())
}
