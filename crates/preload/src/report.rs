//! What went which way, counted if it is asked for, and written at the end of the process.

use crate::process::{State, state};
use crate::raw::is_stopped;
use crate::ways::{Count, Counts, Direction, REASONS, Way};
use crate::{mounts, raw, trust};
use core::ffi::{CStr, c_int};
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use pocketstone_lease::Why;

/// A path, or 2 for the descriptor; empty: nothing is counted.
struct Target {
    fd: AtomicI32,
    path: core::cell::UnsafeCell<[u8; 4096]>,
}

// SAFETY: written once, before `WANTED` is set.
unsafe impl Sync for Target {}

static TARGET: Target = Target { fd: AtomicI32::new(-1), path: core::cell::UnsafeCell::new([0; 4096]) };
static WANTED: AtomicBool = AtomicBool::new(false);
/// Functions of libc that were replaced.
pub static REPLACED: AtomicU32 = AtomicU32::new(0);

/// From now on calls are counted, for a file of this name.
pub fn begin(target: &CStr) {
    let text = target.to_bytes_with_nul();
    if text == b"1\0" || text == b"stderr\0" {
        TARGET.fd.store(2, Ordering::Relaxed);
    } else if text.len() > 1 && text.len() <= 4096 {
        // SAFETY: there is one thread, and nobody reads before `WANTED` is set.
        unsafe { (&mut *TARGET.path.get())[..text.len()].copy_from_slice(text) };
    } else {
        return;
    }
    WANTED.store(true, Ordering::Release);
}

/// Counts a call of so many bytes.
#[inline]
pub fn count(direction: Direction, way: Way, bytes: usize) {
    count_among(way, bytes, |counts| match direction {
        Direction::Read => &counts.reads,
        Direction::Write => &counts.writes,
    });
}

/// Counts a mapping of so many bytes.
pub fn count_mapping(way: Way, bytes: usize) {
    count_among(way, bytes, |counts| &counts.maps);
}

/// Counts a fdatasync(2).
pub fn count_sync(way: Way) {
    count_among(way, 0, |counts| &counts.syncs);
}

#[inline]
fn count_among(way: Way, bytes: usize, among: impl FnOnce(&Counts) -> &[Count]) {
    if !WANTED.load(Ordering::Relaxed) {
        return;
    }
    let Some(state) = state() else { return };
    let counts = among(&state.counts);
    let place = match way {
        Way::Direct => 0,
        Way::Kernel(reason) => 1 + reason as usize,
        Way::Mount(why) => 1 + REASONS.len() + why.index(),
    };
    if let Some(count) = counts.get(place) {
        count.calls.fetch_add(1, Ordering::Relaxed);
        count.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Text in place: what does not fit is left out.
struct Text {
    bytes: [u8; 8192],
    length: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.length + text.len();
        let Some(place) = self.bytes.get_mut(self.length..end) else { return Err(core::fmt::Error) };
        place.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Writes the report, once in a process; not for a child that has its parent's memory.
pub fn write() {
    if !WANTED.load(Ordering::Acquire) || is_stopped() || !mounts::is_owner() {
        return;
    }
    let Some(state) = state() else { return };
    if state.counts.written.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut text = Text { bytes: [0; 8192], length: 0 };
    // What does not fit is the end.
    let _ = lines(&mut text, state);
    let written = &text.bytes[..text.length];
    let fd = TARGET.fd.load(Ordering::Relaxed);
    if fd >= 0 {
        let _ = raw::write(fd, written);
        return;
    }
    // SAFETY: written before `WANTED` was set, and not any more.
    let path = unsafe { &*TARGET.path.get() };
    if let Some(fd) = CStr::from_bytes_until_nul(path).ok().and_then(|path| raw::append(path).ok()) {
        // One write: other processes append, too.
        let _ = raw::write(fd, written);
        raw::close(fd);
    }
}

fn lines(text: &mut Text, state: &State) -> core::fmt::Result {
    let (counts, has_met) = (&state.counts, state.mounts.has_met());
    let pid: c_int = raw::pid();
    let name = raw::name();
    let name = CStr::from_bytes_until_nul(&name).ok().and_then(|name| name.to_str().ok()).unwrap_or("?");
    let replaced = REPLACED.load(Ordering::Relaxed);
    let met = if has_met { "" } else { "; no file of a mount was used long enough" };
    writeln!(text, "scmfs-preload {pid} {name}: functions of libc replaced: {replaced}{met}")?;
    if !has_met {
        return Ok(());
    }
    let (is_trusted, reason, object) = trust::verdict();
    let object = object.and_then(|name| core::str::from_utf8(name).ok());
    let (colon, object) = object.map_or(("", ""), |object| (": ", object));
    write!(text, "scmfs-preload {pid} {name}: descriptors: ")?;
    match is_trusted {
        true => write!(text, "trusted")?,
        false => write!(text, "not trusted, {reason}{colon}{object}")?,
    }
    writeln!(text, "; looked at in {} calls", state.watch.asked.load(Ordering::Relaxed))?;
    for refusal in state.mounts.refusals() {
        writeln!(text, "scmfs-preload {pid} {name}: a mount refused: {refusal}")?;
    }
    let all = [("reads", &counts.reads), ("writes", &counts.writes), ("maps", &counts.maps), ("syncs", &counts.syncs)];
    for (what, counts) in all {
        let reasons = REASONS.iter().copied().chain(Why::ALL.iter().map(|why| why.name()));
        let ways = core::iter::once("").chain(reasons);
        for (count, way) in counts.iter().zip(ways) {
            let (calls, bytes) = (count.calls.load(Ordering::Relaxed), count.bytes.load(Ordering::Relaxed));
            if calls == 0 {
                continue;
            }
            let (how, colon) = if way.is_empty() { ("direct", "") } else { ("by the kernel", ", ") };
            writeln!(text, "scmfs-preload {pid} {name}: {what} {how}{colon}{way}: {calls} calls, {bytes} bytes")?;
        }
    }
    Ok(())
}
