//! Creating, removing, renaming and looking up.

use crate::measure::{Times, breakdown, each, interleave, side};
use crate::volume;
use pocketstone_random::Random;
use pocketstone_scmfs::{Ino, Meta, Operations, ROOT, Rename, Volume};
use std::fs;
use std::hint::black_box;
use std::path::Path;

/// Names that are there before.
const FILES: u64 = 10_000;
/// Names that are made and removed in each round.
const ROUND: u64 = 4_000;

fn name(i: u64) -> String {
    format!("file-{i:07}")
}

fn full(v: &Volume, count: u64) -> Ino {
    let directory = v.create_directory(ROOT, format!("d{count}").as_bytes(), &Meta::directory(0o755)).expect("new").ino;
    (0..count).for_each(|i| drop(v.create_file(directory, name(i).as_bytes(), &Meta::file(0o644)).expect("space")));
    directory
}

/// create and close, rename, unlink.
pub fn change(home: &Path) {
    let v = volume(&home.join("volume"), 256 << 20, false, None);
    let w = volume(&home.join("durable"), 256 << 20, true, None);
    let (d, e, folder) = (full(&v, FILES), full(&w, FILES), home.join("d"));
    fs::create_dir(&folder).expect("a new folder");
    (0..FILES).for_each(|i| drop(fs::File::create(folder.join(name(i))).expect("space")));
    let new: Vec<String> = (0..ROUND).map(|i| format!("new-{i}")).collect();
    let old: Vec<String> = (0..ROUND).map(|i| format!("old-{i}")).collect();
    let (new, old) = (|i: u64| new[i as usize].as_str(), |i: u64| old[i as usize].as_str());
    let mut times = [Times::default(), Times::default(), Times::default()];
    for round in 0..16 {
        let mut add = |name: &'static str, ns: [f64; 3]| {
            // The first round does not count.
            times.iter_mut().zip(ns).filter(|_| round > 0).for_each(|(times, ns)| times.add(name, ns));
        };
        for (label, v, d) in [("scmfs", &v, d), ("scmfs, durable", &w, e)] {
            add(
                label,
                [
                    each(ROUND, |i| drop(v.create_file(d, new(i).as_bytes(), &Meta::file(0o644)).expect("space"))),
                    each(ROUND, |i| {
                        v.rename(d, new(i).as_bytes(), d, old(i).as_bytes(), Rename::Replace).expect("it is there");
                    }),
                    each(ROUND, |i| v.unlink(d, old(i).as_bytes()).expect("it is there")),
                ],
            );
        }
        add(
            "tmpfs",
            [
                each(ROUND, |i| drop(fs::File::create(folder.join(new(i))).expect("space"))),
                each(ROUND, |i| fs::rename(folder.join(new(i)), folder.join(old(i))).expect("it is there")),
                each(ROUND, |i| fs::remove_file(folder.join(old(i))).expect("it is there")),
            ],
        );
    }
    for (what, times) in ["create and close", "rename", "unlink"].into_iter().zip(&times) {
        times.at_least(3.0, what, "tmpfs", "scmfs");
        times.at_least(3.0, what, "tmpfs", "scmfs, durable");
        times.say(what);
        let (whole, plain) = (times.ns("scmfs, durable"), times.ns("scmfs"));
        breakdown(&format!("{what}, durable"), whole, &[("everything else", plain), ("persistence", whole - plain)]);
    }
}

/// Looking up in 1,000,000 names beside 1,000.
pub fn look_up(home: &Path) {
    let v = volume(&home.join("volume"), 1 << 30, false, Some(1_010_000));
    let (small, large) = (full(&v, 1000), full(&v, 1_000_000));
    let mut random = Random::labelled(1, "names");
    let mut chosen = |count: u64| -> Vec<u64> { (0..20_000).map(|_| random.below(count)).collect() };
    let chosen = [chosen(1000), chosen(1_000_000)];
    let names = chosen.each_ref().map(|list| list.iter().map(|i| name(*i)).collect::<Vec<_>>());
    let absent: Vec<String> = (0..20_000).map(|i| format!("none-{i:07}")).collect();
    let inodes = [(small, 0), (large, 1)].map(|(directory, of)| {
        let ino = |name: &String| v.lookup(directory, name.as_bytes()).expect("it is there").ino;
        names[of].iter().map(ino).collect::<Vec<_>>()
    });
    let find = |directory: Ino, names: &[String]| {
        each(20_000, |i| _ = black_box(v.lookup(directory, names[i as usize].as_bytes())))
    };
    let stat = |inodes: &[Ino]| each(20_000, |i| _ = black_box(v.attributes(inodes[i as usize])));
    let times = interleave(
        15,
        vec![
            side("1,000", || find(small, &names[0])),
            side("1,000,000", || find(large, &names[1])),
            side("1,000, absent", || find(small, &absent)),
            side("1,000,000, absent", || find(large, &absent)),
            side("1,000, inode", || stat(&inodes[0])),
            side("1,000,000, inode", || stat(&inodes[1])),
        ],
    );
    times.at_most(1.5, "look-up", "1,000,000", "1,000");
    times.say("look-up");
    for (many, absent, inode) in
        [("1,000", "1,000, absent", "1,000, inode"), ("1,000,000", "1,000,000, absent", "1,000,000, inode")]
    {
        let parts = [("index", times.ns(absent)), ("inode", times.ns(inode))];
        breakdown(&format!("look-up in {many}"), times.ns(many), &parts);
    }
}
