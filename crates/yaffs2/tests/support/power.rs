//! Losses of power: what may be there afterwards, and whether the volume can be used on.

use super::apply::{Slots, apply};
use super::model::Model;
use super::op::{Op, pattern};
use super::shape::Shape;
use super::tree::{Tree, adopt, compare, walk};
use pocketstone_core::inode::{Error, FileType, Meta, ROOT};
use pocketstone_core::random::Random;
use pocketstone_media::nand::{SimulatedNand, Tear};
use pocketstone_yaffs2::{Severity, Volume, check};

/// Every kind of interruption.
pub const TEARS: [Tear; 6] =
    [Tear::Nothing, Tear::Part(1), Tear::Part(2), Tear::DataAlone, Tear::SpareAlone, Tear::Whole];

/// What may be there when the power failed in an operation: it is done, or not.
pub fn candidates(before: &Model, op: &Op) -> Vec<Model> {
    let mut all = vec![before.clone()];
    let mut after = before.clone();
    if after.apply(op).is_ok() {
        // Shorter: either whole. Longer, and written: chunk by chunk.
        let cuts = match op {
            Op::Truncate(target, size) => {
                let file = before.file(target).ok().flatten();
                file.is_some_and(|id| *size < before.node(id).content.len() as u64)
            }
            _ => false,
        };
        if cuts {
            after.settle(op);
        }
        all.push(after);
    }
    all.iter_mut().for_each(Model::restart);
    all
}

/// A volume after a loss of power.
pub struct Recovered {
    pub volume: Volume,
    pub tree: Tree,
    /// Which of the candidates it is.
    pub model: Model,
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
/// When it is none of that.
pub fn recover(chip: &SimulatedNand, shape: &Shape, candidates: &[Model]) -> Result<Recovered, String> {
    let mut volume = shape.mount(chip).map_err(|error| format!("mount: {error}"))?;
    let tree = walk(&mut volume)?;
    let mut whys = Vec::new();
    for model in candidates {
        match compare(&tree, model, true) {
            Ok(()) => {
                must_be_sound(chip, shape)?;
                // A mount that looks at every page once more finds the same.
                let mut again = shape.mount_by_scan(&chip.snapshot()).map_err(|error| format!("scan: {error}"))?;
                let other = walk(&mut again)?;
                if other != tree {
                    let path = tree.keys().chain(other.keys()).find(|path| tree.get(*path) != other.get(*path));
                    let path = path.map_or("", String::as_str);
                    let (was, is) = (tree.get(path), other.get(path));
                    return Err(format!("a second mount differs at {path}: {was:?}, {is:?}"));
                }
                let mut model = model.clone();
                adopt(&tree, &mut model);
                return Ok(Recovered { volume, tree, model });
            }
            Err(why) => whys.push(why),
        }
    }
    Err(format!("neither of: {}", whys.join("; ")))
}

/// Cuts the power in every program and erase of a recovery, too.
///
/// # Errors
/// When what is there then is none of what may be there.
pub fn recover_with_cuts(chip: &SimulatedNand, shape: &Shape, candidates: &[Model]) -> Result<Recovered, String> {
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
/// When it cannot.
pub fn use_a_little(recovered: Recovered, chip: &SimulatedNand, shape: &Shape) -> Result<(), String> {
    let Recovered { mut volume, tree, mut model } = recovered;
    let failed = |error: Error| format!("use after recovery: {error}");
    let made = volume.create(ROOT, b"used", &Meta::file(0o600)).and_then(|attr| {
        volume.write(attr.ino, 0, &pattern(9, 0, 2 * shape.chunk_bytes() + 5))?;
        volume.sync()
    });
    match made {
        Ok(()) => volume.unlink(ROOT, b"used").map_err(failed)?,
        Err(Error::NoSpace) => match volume.unlink(ROOT, b"used") {
            Ok(()) | Err(Error::NotFound) => {}
            Err(error) => return Err(failed(error)),
        },
        Err(error) => return Err(failed(error)),
    }
    model.node_mut(super::model::ROOT).changed();
    volume.unmount().map_err(failed)?;
    let mut volume = shape.mount_by_scan(chip).map_err(failed)?;
    let after = walk(&mut volume)?;
    let same = after.len() == tree.len()
        && tree.iter().all(|(path, leaf)| {
            let other = after.get(path);
            other.is_some_and(|other| path == "/" || other == leaf)
        });
    if same { Ok(()) } else { Err(format!("after use: {after:?}\nbefore: {tree:?}")) }
}

/// Fills a volume, deletes everything, fills it again; each time as much fits as the volume says.
///
/// # Errors
/// When that does not work.
pub fn use_it_all(mut volume: Volume, chip: &SimulatedNand, shape: &Shape) -> Result<(), String> {
    let said = |what: &'static str| move |error: Error| format!("{what}: {error}");
    fill(&mut volume, shape, "first")?;
    volume.sync().map_err(said("sync of a full volume"))?;
    empty(&mut volume, ROOT)?;
    let good = volume.statfs();
    let written = fill(&mut volume, shape, "second")?;
    // Headers, a chunk in a block that is being filled, and half-filled blocks of bad pages take some.
    if written < good.free_blocks * 3 / 4 {
        return Err(format!("{written} chunks fitted into an empty volume of {good:?}"));
    }
    let before = walk(&mut volume)?;
    volume.unmount().map_err(said("unmount of a full volume"))?;
    let mut volume = shape.mount_by_scan(chip).map_err(said("mount of a full volume"))?;
    if walk(&mut volume)? != before {
        return Err("a full volume changed by a scan".into());
    }
    empty(&mut volume, ROOT)
}

/// How many chunks of data fitted.
fn fill(volume: &mut Volume, shape: &Shape, prefix: &str) -> Result<u64, String> {
    let chunk = shape.chunk_bytes();
    let mut written = 0;
    for number in 0..10_000u32 {
        let name = format!("{prefix} {number}");
        let ino = match volume.create(ROOT, name.as_bytes(), &Meta::file(0o600)) {
            Ok(attr) => attr.ino,
            Err(Error::NoSpace) => return Ok(written),
            Err(error) => return Err(format!("filling: {error}")),
        };
        match volume.write(ino, 0, &pattern(number as u8, 0, 7 * chunk)) {
            Ok(bytes) => written += bytes as u64 / chunk,
            Err(Error::NoSpace) => return Ok(written),
            Err(error) => return Err(format!("filling: {error}")),
        }
    }
    Err("a volume without end".into())
}

fn empty(volume: &mut Volume, directory: u32) -> Result<(), String> {
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
/// What was lost, with the operation and the cut.
pub fn storm(shape: &Shape, seed: u64, cuts: u64, decode: &dyn Fn(&mut Random) -> Op) -> Result<(), String> {
    let chip = shape.make(seed);
    let mut random = Random::labelled(seed, "storm");
    let mut volume = shape.mount(&chip).map_err(|error| format!("mount: {error}"))?;
    let (mut model, mut slots) = (Model::new(shape), Slots::default());
    for cut in 0..cuts {
        let range = [3, 30, 300][random.below(3) as usize];
        let (at, tear) = (1 + random.below(range), Tear::Seeded(random.next_u64()));
        chip.cut_at(at, tear);
        let mut history = Vec::new();
        let may_be = loop {
            if random.below(60) == 0 {
                history.push("unmount".to_string());
                let left = volume.unmount();
                model.restart();
                slots = Slots::default();
                if !chip.is_on() {
                    volume = shape.mount(&shape.make(0)).map_err(|error| error.to_string())?;
                    break candidates(&model, &Op::Background);
                }
                left.map_err(|error| format!("cut {cut}: unmount: {error}"))?;
                model.nodes.values_mut().for_each(super::model::Node::settle);
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
            let got = apply(&mut volume, &mut slots, &op);
            if !chip.is_on() {
                break candidates(&before, &op);
            }
            if got == want {
                model.settle(&op);
            } else {
                if got != Err(super::model::ENOSPC) && !matches!((&got, &want), (Ok(_), Ok(_))) {
                    return Err(format!("cut {cut}: {op:?}: {got:?}, should be {want:?}"));
                }
                // No space. What a write left is for other tests; here the volume says it.
                model = before;
                volume.sync().map_err(|error| format!("sync: {error}")).or_else(|what| match chip.is_on() {
                    true => Err(what),
                    false => Ok(()),
                })?;
                if !chip.is_on() {
                    let mut after = model.clone();
                    let _ = after.apply(&op);
                    let mut all = candidates(&model, &op);
                    after.restart();
                    all.push(after);
                    break all;
                }
                let tree = walk(&mut volume)?;
                let mut full = model.clone();
                let _ = full.apply(&op);
                let open = std::mem::take(&mut model.slots);
                let mut now = if compare(&tree, &model, true).is_ok() { model } else { full };
                compare(&tree, &now, true).map_err(|what| format!("cut {cut}: {op:?} found no space: {what}"))?;
                let kept = now.nodes.clone();
                adopt(&tree, &mut now);
                // What is open and has no name is not in the tree.
                kept.into_iter().filter(|(_, node)| node.links == 0).for_each(|(id, mut node)| {
                    node.settle();
                    now.nodes.insert(id, node);
                });
                now.slots = open;
                model = now;
            }
        };
        volume.abandon();
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
        (volume, model, slots) = (recovered.volume, recovered.model, Slots::default());
    }
    Ok(())
}
