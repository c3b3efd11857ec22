//! Creating, removing and renaming.

use crate::ground::{Ground, volume};
use crate::measure::{bar, nanoseconds};
use crate::say;
use pocketstone_core::median::median;
use pocketstone_scmfs::{Ino, Meta, Operations, ROOT, Rename, Volume};
use std::fs;
use std::path::Path;

const FILES: u64 = 100_000;
/// Names that are made and removed in each round.
const ROUND: u64 = 2_000;

fn name(i: u64) -> String {
    format!("file-{i:07}")
}

fn full_directory(v: &Volume, count: u64) -> Ino {
    let directory = v.create_directory(ROOT, format!("d{count}").as_bytes(), &Meta::directory(0o755)).expect("new").ino;
    for i in 0..count {
        drop(v.create_file(directory, name(i).as_bytes(), &Meta::file(0o644)).expect("space"));
    }
    directory
}

/// create and close, rename, unlink in a directory of 100,000.
pub fn change(ground: &Ground) {
    let make = |name: &str, persistent| volume(&ground.tmpfs.join(name), 1 << 30, persistent, Some(120_000));
    let (v, w) = (make("names", false), make("names-durable", true));
    let (d, e) = (full_directory(&v, FILES), full_directory(&w, FILES));
    let mut hosts: Vec<(&'static str, &Path)> = vec![("tmpfs", ground.tmpfs.as_path())];
    hosts.extend(ground.ext4.as_deref().map(|path| ("ext4", path)));
    for (_, folder) in &hosts {
        fs::create_dir(folder.join("d")).expect("a new folder");
        for i in 0..FILES {
            fs::File::create(folder.join("d").join(name(i))).expect("space");
        }
    }
    let new = |i: u64| format!("new-{i}");
    for what in ["create + close", "rename", "unlink"] {
        // The other two steps run outside the clock: each round needs names to work on.
        let mut samples: Vec<(&'static str, Vec<f64>)> = Vec::new();
        for _ in 0..16 {
            let mut time = |label: &'static str, steps: [&mut dyn FnMut(u64); 3]| {
                for (step, run) in ["create + close", "rename", "unlink"].into_iter().zip(steps) {
                    let start = std::time::Instant::now();
                    (0..ROUND).for_each(run);
                    if step == what {
                        let ns = start.elapsed().as_nanos() as f64 / ROUND as f64;
                        match samples.iter_mut().find(|(known, _)| *known == label) {
                            Some((_, list)) => list.push(ns),
                            None => samples.push((label, Vec::new())), // the first round does not count
                        }
                    }
                }
            };
            for (label, v, d) in [("scmfs", &v, d), ("scmfs durable", &w, e)] {
                time(
                    label,
                    [
                        &mut |i| drop(v.create_file(d, new(i).as_bytes(), &Meta::file(0o644)).expect("space")),
                        &mut |i| {
                            v.rename(d, new(i).as_bytes(), d, format!("old-{i}").as_bytes(), Rename::Replace)
                                .expect("there");
                        },
                        &mut |i| v.unlink(d, format!("old-{i}").as_bytes()).expect("it is there"),
                    ],
                );
            }
            for (label, folder) in &hosts {
                let folder = folder.join("d");
                time(
                    label,
                    [
                        &mut |i| drop(fs::File::create(folder.join(new(i))).expect("space")),
                        &mut |i| fs::rename(folder.join(new(i)), folder.join(format!("old-{i}"))).expect("it is there"),
                        &mut |i| fs::remove_file(folder.join(format!("old-{i}"))).expect("it is there"),
                    ],
                );
            }
        }
        report(what, samples);
    }
}

fn report(what: &str, samples: Vec<(&'static str, Vec<f64>)>) {
    let line: Vec<String> =
        samples.iter().map(|(n, list)| format!("{n} {}", nanoseconds(median(list.clone()).expect("rounds")))).collect();
    say(&format!("  {what}: {}", line.join(", ")));
    let of = |name: &str| samples.iter().find(|(known, _)| *known == name).map(|(_, list)| list);
    for name in ["scmfs", "scmfs durable"] {
        let (Some(tmpfs), Some(scmfs)) = (of("tmpfs"), of(name)) else { continue };
        let ratios: Vec<f64> = tmpfs.iter().zip(scmfs).map(|(a, b)| a / b).collect();
        bar(&format!("{what}: tmpfs over {name}"), median(ratios), None, Some(3.0));
    }
}
