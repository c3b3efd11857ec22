//! Losses of power: what may be there afterwards, and whether the volume can be used on.

use super::durable::{Durable, changed};
use super::run::is_cut_short;
use super::shape::Shape;
use super::subject::{OpenFiles, abandon, close, walk};
use pocketstone_fstest::errno::ENOSPC;
use pocketstone_fstest::{Op, Outcome, Walked, apply, differences, pattern};
use pocketstone_media::nand::{SimulatedNand, Tear};
use pocketstone_random::Random;
use pocketstone_vfs::{Error, FileType, Meta, Operations, ROOT};
use pocketstone_yaffs2::{Severity, Volume, check};

/// Every kind of interruption.
pub const TEARS: [Tear; 6] =
    [Tear::Nothing, Tear::Part(1), Tear::Part(2), Tear::DataAlone, Tear::SpareAlone, Tear::Whole];

/// What may be there when the power failed in an operation: it is done, or not.
pub fn candidates(before: &Durable, op: &Op) -> Vec<Durable> {
    let mut all = vec![before.clone()];
    let mut after = before.clone();
    if !matches!(after.apply(op), Outcome::Failed(_) | Outcome::Skipped) {
        // Shorter: either whole. Longer, and written: chunk by chunk.
        let cuts = match op {
            Op::Truncate(_, size) | Op::SetSize(_, size) => {
                before.file(changed(op).as_ref()).is_some_and(|id| *size < before.content(id).size())
            }
            _ => false,
        };
        if cuts {
            after.settle(op);
        }
        all.push(after);
    }
    all.iter_mut().for_each(Durable::restart);
    all
}

/// A volume after a loss of power.
pub struct Recovered {
    pub volume: Volume,
    pub walked: Walked,
    /// Which of the candidates it is.
    pub model: Durable,
}

/// fsck finds no errors in what a mount has put in order.
fn must_be_sound(chip: &SimulatedNand, shape: &Shape) -> Result<(), String> {
    let report = check(Box::new(chip.snapshot()), &shape.options).map_err(|error| format!("fsck: {error}"))?;
    let errors = report.findings.iter().filter(|finding| finding.severity == Severity::Error);
    match report.errors {
        0 => Ok(()),
        _ => Err(format!("fsck: {:#?}", errors.collect::<Vec<_>>())),
    }
}

/// Mounts a chip and compares it with what may be there.
///
/// # Errors
/// A `String` with what fails, or how the volume differs from each candidate.
pub fn recover(chip: &SimulatedNand, shape: &Shape, candidates: &[Durable]) -> Result<Recovered, String> {
    let volume = shape.mount(chip).map_err(|error| format!("mount: {error}"))?;
    let walked = walk(&volume)?;
    let mut whys = Vec::new();
    for model in candidates {
        match model.compare_after_loss(&walked.tree) {
            Ok(()) => {
                must_be_sound(chip, shape)?;
                // A mount that looks at every page once more finds the same.
                let again = shape.mount_by_scan(&chip.snapshot()).map_err(|error| format!("scan: {error}"))?;
                let other = walk(&again)?;
                if other != walked {
                    let lines = differences(&other.tree, &walked.tree).join("\n");
                    return Err(format!("a second mount differs: {lines}\n{:?}, {:?}", walked.numbers, other.numbers));
                }
                let mut model = model.clone();
                model.adopt(&walked.tree);
                return Ok(Recovered { volume, walked, model });
            }
            Err(why) => whys.push(why),
        }
    }
    Err(format!("neither of: {}", whys.join("; ")))
}

/// Cuts the power in every program and erase of a recovery, too.
///
/// # Errors
/// The `String` of [`recover`], with the place of the cut.
pub fn recover_with_cuts(chip: &SimulatedNand, shape: &Shape, candidates: &[Durable]) -> Result<Recovered, String> {
    chip.power_on();
    let start = chip.snapshot();
    let before = Shape::changes(chip);
    let recovered = recover(chip, shape, candidates)?;
    for at in 1..=Shape::changes(chip) - before {
        let chip = start.snapshot();
        chip.cut_at(at, TEARS[at as usize % TEARS.len()]);
        drop(shape.mount(&chip));
        chip.power_on();
        let what = |what| format!("cut at change {at} of the recovery: {what}");
        drop(recover(&chip, shape, candidates).map_err(what)?);
    }
    Ok(recovered)
}

/// A volume can be used: something is written and deleted, and a scan finds the rest as it was.
///
/// # Errors
/// A `String` with what fails or differs.
pub fn use_a_little(recovered: Recovered, chip: &SimulatedNand, shape: &Shape) -> Result<(), String> {
    let Recovered { volume, walked, .. } = recovered;
    let failed = |error: Error| format!("use after recovery: {error}");
    let made = volume.create_file(ROOT, b"used", &Meta::file(0o600)).and_then(|file| {
        let written = volume.write_at(&file, &pattern(9, 0, 2 * shape.chunk_bytes() + 5), 0);
        volume.release(file);
        written.and_then(|_| volume.sync_all())
    });
    match made {
        Ok(()) => volume.unlink(ROOT, b"used").map_err(failed)?,
        Err(Error::NoSpace) => match volume.unlink(ROOT, b"used") {
            Ok(()) | Err(Error::NotFound) => {}
            Err(error) => return Err(failed(error)),
        },
        Err(error) => return Err(failed(error)),
    }
    close(volume).map_err(failed)?;
    let volume = shape.mount_by_scan(chip).map_err(failed)?;
    let mut after = walk(&volume)?;
    // Something was made in the root.
    let root = "/".to_string();
    after.tree.insert(root.clone(), walked.tree[&root].clone());
    if after == walked { Ok(()) } else { Err(format!("after use: {after:?}\nbefore: {walked:?}")) }
}

/// Fills a volume, deletes everything, fills it again; each time as much fits as the volume says.
///
/// # Errors
/// A `String` with what fails or differs.
pub fn use_it_all(volume: Volume, chip: &SimulatedNand, shape: &Shape) -> Result<(), String> {
    let said = |what: &'static str| move |error: Error| format!("{what}: {error}");
    fill(&volume, shape, "first")?;
    volume.sync_all().map_err(said("sync of a full volume"))?;
    empty(&volume, ROOT)?;
    let good = volume.statfs().map_err(said("statfs"))?;
    let written = fill(&volume, shape, "second")?;
    // Headers, a chunk in a block that is being filled, and half-filled blocks of bad pages take some.
    if written < good.free_blocks * 3 / 4 {
        return Err(format!("{written} chunks fitted into an empty volume of {good:?}"));
    }
    let before = walk(&volume)?;
    close(volume).map_err(said("unmount of a full volume"))?;
    let volume = shape.mount_by_scan(chip).map_err(said("mount of a full volume"))?;
    if walk(&volume)? != before {
        return Err("a full volume changed by a scan".into());
    }
    empty(&volume, ROOT)
}

/// How many chunks of data fitted.
fn fill(volume: &Volume, shape: &Shape, prefix: &str) -> Result<u64, String> {
    let chunk = shape.chunk_bytes();
    let mut written = 0;
    for number in 0..10_000u32 {
        let name = format!("{prefix} {number}");
        let file = match volume.create_file(ROOT, name.as_bytes(), &Meta::file(0o600)) {
            Ok(file) => file,
            Err(Error::NoSpace) => return Ok(written),
            Err(error) => return Err(format!("filling: {error}")),
        };
        let wrote = volume.write_at(&file, &pattern(number as u8, 0, 7 * chunk), 0);
        volume.release(file);
        match wrote {
            Ok(bytes) => written += bytes as u64 / chunk,
            Err(Error::NoSpace) => return Ok(written),
            Err(error) => return Err(format!("filling: {error}")),
        }
    }
    Err("a volume without end".into())
}

fn empty(volume: &Volume, directory: u32) -> Result<(), String> {
    let mut entries = Vec::new();
    let failed = |error: Error| format!("deleting everything: {error}");
    volume
        .read_directory(directory, 0, &mut |entry| {
            entries.push(entry.clone());
            true
        })
        .map_err(failed)?;
    for entry in entries.into_iter().filter(|entry| entry.name != b"lost+found") {
        if entry.kind == FileType::Directory {
            empty(volume, entry.ino)?;
            volume.remove_directory(directory, &entry.name).map_err(failed)?;
        } else {
            volume.unlink(directory, &entry.name).map_err(failed)?;
        }
    }
    Ok(())
}

/// Random operations with random losses of power on one chip, one after the other.
///
/// # Errors
/// A `String` with what was lost, or fails, with the operation and the cut.
pub fn storm(shape: &Shape, seed: u64, cuts: u64, decode: &dyn Fn(&mut Random) -> Op) -> Result<(), String> {
    let chip = shape.make(seed);
    let mut random = Random::labelled(seed, "storm");
    let mut volume = shape.mount(&chip).map_err(|error| format!("mount: {error}"))?;
    let (mut model, mut files) = (Durable::new(shape), OpenFiles::default());
    for cut in 0..cuts {
        let range = [3, 30, 300][random.below(3) as usize];
        let (at, tear) = (1 + random.below(range), Tear::Seeded(random.next_u64()));
        chip.cut_at(at, tear);
        let mut history = Vec::new();
        let may_be = loop {
            if random.below(60) == 0 {
                history.push("unmount".to_string());
                let left = close(volume);
                model.restart();
                files = OpenFiles::default();
                if !chip.is_on() {
                    volume = shape.mount(&shape.make(0)).map_err(|error| error.to_string())?;
                    break candidates(&model, &Op::Background);
                }
                left.map_err(|error| format!("cut {cut}: unmount: {error}"))?;
                model.settle_all();
                match shape.mount(&chip) {
                    Ok(mounted) => volume = mounted,
                    Err(_) if !chip.is_on() => {
                        volume = shape.mount(&shape.make(0)).map_err(|error| error.to_string())?;
                        break candidates(&model, &Op::Background);
                    }
                    Err(error) => return Err(format!("cut {cut}: mount: {error}")),
                }
                continue;
            }
            let op = decode(&mut random);
            history.push(format!("{op:?}"));
            let before = model.clone();
            let want = model.apply(&op);
            let got = apply(&volume, &mut files, &op);
            if !chip.is_on() {
                break candidates(&before, &op);
            }
            let got = got.map_err(|error| format!("cut {cut}: {op:?}: {error}"))?;
            if got == want {
                model.settle(&op);
                continue;
            }
            if got != Outcome::Failed(ENOSPC) && !is_cut_short(&got, &want) {
                return Err(format!("cut {cut}: {op:?}: {got:?}, should be {want:?}"));
            }
            // No space. What a write left is for other tests; here the volume says it.
            let (mut as_before, mut full) = (before.clone(), before);
            let _ = full.apply(&op);
            let synced = volume.sync_all();
            if !chip.is_on() {
                let mut all = candidates(&as_before, &op);
                full.restart();
                all.push(full);
                break all;
            }
            synced.map_err(|error| format!("sync: {error}"))?;
            let tree = walk(&volume)?.tree;
            if as_before.compare_after_loss(&tree).is_err() {
                let differs = full.compare_after_loss(&tree);
                differs.map_err(|what| format!("cut {cut}: {op:?} found no space: {what}"))?;
                as_before = full;
            }
            as_before.adopt(&tree);
            model = as_before;
        };
        abandon(volume);
        let what = |what| {
            let last = history.len().saturating_sub(12);
            format!("cut {cut} at {at} with {tear:?}, after {:#?}: {what}", &history[last..])
        };
        chip.power_on();
        // The power may fail again and again while it recovers.
        while random.below(3) == 0 {
            chip.cut_at(1 + random.below(4), Tear::Seeded(random.next_u64()));
            drop(shape.mount(&chip));
            chip.power_on();
        }
        let recovered = recover(&chip, shape, &may_be).map_err(what)?;
        if cut % 16 == 15 {
            let copy = chip.snapshot();
            let copied = shape.mount(&copy).map_err(|error| format!("copy: {error}"))?;
            use_it_all(copied, &copy, shape).map_err(|what| format!("cut {cut} at {at} with {tear:?}: {what}"))?;
        }
        (volume, model, files) = (recovered.volume, recovered.model, OpenFiles::default());
    }
    Ok(())
}
