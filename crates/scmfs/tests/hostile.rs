//! Damage of every kind to metadata: repair always ends in a sound volume, and what was not on the damaged page is
//! all there.

use crate::support::hostile::{Base, Damage, Held, Hostile, bases, options};
use crate::support::region::Shared;
use crate::support::{say, seed};
use pocketstone_media::{MapOptions, Mapped, Region};
use pocketstone_random::Random;
use pocketstone_scmfs::{Ino, Report, Volume, check, repair};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long fsck, repair and everything that follows may take for one small image.
const MOST: Duration = Duration::from_secs(60);

/// What became of an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Everything is there that was not on a damaged page.
    Kept,
    /// Something else is gone.
    Lost(Vec<(Ino, String)>),
    /// No superblock was left.
    NoVolume,
    Failed(String),
}

fn memory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.into() } else { std::env::temp_dir() }
}

fn repaired(region: impl Fn() -> Box<dyn Region>) -> Result<(Report, Held), String> {
    let report = repair(region()).map_err(|error| format!("repair: {error}"))?;
    let again = check(region()).map_err(|error| format!("fsck after repair: {error}"))?;
    if !again.clean || !again.findings.is_empty() {
        return Err(format!("fsck after repair found {:#?}\nafter {:#?}", again.findings, report.findings));
    }
    let volume = Volume::open(region(), &options()).map_err(|error| format!("opening after repair: {error}"))?;
    let held = Held::of(&volume).map_err(|what| format!("after repair: {what}"))?;
    volume.close().map_err(|error| format!("closing after repair: {error}"))?;
    Ok((report, held))
}

fn judge(base: &Base, hostile: &Hostile, how: Damage) -> Outcome {
    // These may fail; they must not panic.
    drop(check(Shared::from_image(&hostile.image).region()));
    if let Ok(volume) = Volume::open(Shared::from_image(&hostile.image).region(), &options()) {
        drop(Held::of(&volume));
        volume.abandon();
    }
    let repaired = if how == Damage::Cut {
        // A region that can grow.
        let file = tempfile::NamedTempFile::new_in(memory()).expect("a file");
        std::fs::write(file.path(), &hostile.image).expect("the file can be written");
        // So short, it would not reserve addresses for all of the volume.
        let map = MapOptions::default().reserve_bytes(base.image.len() as u64);
        let open = || Mapped::open(file.path(), &map).expect("the file can be mapped");
        repaired(|| Box::new(open()))
    } else {
        let shared = Shared::from_image(&hostile.image);
        repaired(|| shared.region())
    };
    match repaired {
        Err(what) if base.is_beheaded(hostile) && what.starts_with("repair: ") => Outcome::NoVolume,
        Err(what) => Outcome::Failed(what),
        Ok((report, held)) => {
            let mut missing = base.missing(hostile, &held);
            if how == Damage::Cut {
                // Contents are lost with the end of the region; but it is said whose.
                let is_named = |ino: Ino| {
                    let (name, text) = (format!("#{ino}"), format!("file {ino}, "));
                    report.findings.iter().any(|finding| finding.what.contains(&text) || finding.what.contains(&name))
                };
                missing.retain(|(ino, _)| !is_named(*ino));
            }
            if missing.is_empty() { Outcome::Kept } else { Outcome::Lost(missing) }
        }
    }
}

fn damage_everything(count: u64, seed: u64) {
    let bases: Vec<Arc<Base>> = bases(seed).into_iter().map(Arc::new).collect();
    let kinds = [Damage::Flipped, Damage::Zeroed, Damage::Overwritten, Damage::Swapped, Damage::Many, Damage::Cut];
    let mut random = Random::labelled(seed, "hostile");
    let mut counts: BTreeMap<(Damage, String), u64> = BTreeMap::new();
    let (mut single, mut kept, mut failures) = (0, 0, Vec::new());
    for round in 0..count {
        let base = bases[round as usize % bases.len()].clone();
        let how = kinds[(round as usize / bases.len()) % kinds.len()];
        let hostile = base.damaged(how, &mut random);
        let pages = hostile.pages.clone();
        let (send, receive) = mpsc::channel();
        let (send, judged) = (Mutex::new(send), base.clone());
        let thread = std::thread::spawn(move || {
            let outcome = judge(&judged, &hostile, how);
            drop(send.lock().expect("nobody else has it").send(outcome));
        });
        let outcome = match receive.recv_timeout(MOST) {
            Ok(outcome) => outcome,
            Err(mpsc::RecvTimeoutError::Timeout) => Outcome::Failed("it does not end".into()),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Outcome::Failed(format!("a panic: {}", thread.join().is_err()))
            }
        };
        let place = format!("round {round}, {}, {how:?} at {pages:?}", base.name);
        let shown = match &outcome {
            Outcome::Kept => "kept",
            Outcome::Lost(missing) => {
                say(&format!("{place}: lost {missing:?}"));
                "lost more"
            }
            Outcome::NoVolume => "no superblock",
            Outcome::Failed(what) => {
                failures.push(format!("{place}: {what}"));
                "failed"
            }
        };
        if matches!(how, Damage::Flipped | Damage::Zeroed | Damage::Overwritten) {
            single += 1;
            kept += u64::from(outcome == Outcome::Kept);
        }
        *counts.entry((how, shown.into())).or_default() += 1;
    }
    say(&format!("seed {seed}: {count} images: {counts:?}; one damaged page: nothing else lost in {kept} of {single}"));
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures[..failures.len().min(3)].join("\n"));
    assert!(kept * 100 >= single * 99, "more than the damaged page was lost in {} of {single}", single - kept);
}

#[test]
fn a_hundred_hostile_images() {
    damage_everything(100, seed(1));
}

#[test]
#[ignore = "long"]
fn torture_hostile_images() {
    damage_everything(1_000, seed(2));
}
