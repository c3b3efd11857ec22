//! Files that grow by 4 KiB at a time: by the library in process, by programs that know nothing of SCMFS with the
//! library that spares them the kernel, by the mount alone, and on tmpfs and ext4. They take turns.

use crate::ground::{Ground, compiled, volume};
use crate::measure::{bar, nanoseconds};
use crate::{OnFuse, PAGE, output, say};
use pocketstone_core::median::median;
use pocketstone_mount::{MountOptions, Preload};
use pocketstone_scmfs::{Meta, Operations, ROOT};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const ROUNDS: usize = 9;
/// A file of 16 MiB.
const APPENDS: usize = 4096;

/// The mean time of an append, in ns: whatever comes seldom counts, too.
fn time(append: &mut dyn FnMut(&[u8])) -> f64 {
    let page = vec![7_u8; PAGE];
    let start = Instant::now();
    (0..APPENDS).for_each(|_| append(&page));
    start.elapsed().as_nanos() as f64 / APPENDS as f64
}

/// The same by the program that is measured.
fn measured(subject: &Path, path: &Path, preload: Option<&Path>) -> f64 {
    let mut command = Command::new(subject);
    command.arg(path);
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    output(&mut command).trim().parse().expect("a number")
}

/// Appends of 4 KiB.
pub fn appended(ground: &Ground) {
    let Some(subject) = compiled(ground, "appends", include_str!("appends.c")) else { return };
    let library = pocketstone_testing::library("libscmfs_preload.so");
    let options = MountOptions { preload: Preload::Append, ..MountOptions::default() };
    let fuse = OnFuse::new(ground, "appended", 256 << 20, &options);
    let own = volume(&ground.tmpfs.join("appended.own"), 256 << 20, false, None);
    let in_process = || {
        let file = own.create_file(ROOT, b"file", &Meta::file(0o644)).expect("a new file");
        let ns = time(&mut |from| _ = file.append(from).expect("it fits"));
        drop(file);
        own.unlink(ROOT, b"file").expect("the file");
        ns
    };
    let (on_mount, on_tmpfs) = (fuse.path.join("file"), ground.tmpfs.join("appended.file"));
    let on_ext4 = ground.ext4.as_ref().map(|path| path.join("appended.file"));
    let mut all = [const { Vec::new() }; 5];
    for round in 0..=ROUNDS {
        let times = [
            in_process(),
            measured(&subject, &on_mount, Some(&library)),
            measured(&subject, &on_mount, None),
            measured(&subject, &on_tmpfs, None),
            on_ext4.as_ref().map_or(f64::NAN, |path| measured(&subject, path, None)),
        ];
        if round > 0 {
            all.iter_mut().zip(times).for_each(|(all, time)| all.push(time));
        }
    }
    let [library, direct, mount, tmpfs, ext4] = all.map(|times| median(times).expect("rounds"));
    let [l, d, m, t, e] = [library, direct, mount, tmpfs, ext4].map(nanoseconds);
    let e = if ground.ext4.is_some() { e } else { "left out".into() };
    say(&format!("  append of 4 KiB: library {l}, preloaded {d}, mount {m}, tmpfs {t}, ext4 {e}"));
    bar("preloaded 4 KiB append over tmpfs", Some(direct / tmpfs), Some(1.0), None);
}
