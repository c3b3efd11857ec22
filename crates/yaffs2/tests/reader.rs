//! What we write, read by a reader that knows nothing of us; what a writer that knows nothing of us writes, mounted.

use crate::support::rows::{Reader, differences, of_document, rows, tool};
use crate::support::run::Run;
use crate::support::shape::Shape;
use crate::support::subject::{abandon, close};
use crate::support::{amount, say, seed};
use pocketstone_fstest::{Op, Pair};
use pocketstone_media::nand::{Geometry, SimulatedNand, SimulatedOptions};
use pocketstone_random::Random;
use pocketstone_testing::{or_skip, program};
use pocketstone_yaffs2::{MountedBy, OpenOptions, Volume};
use serde_json::Value;
use std::process::Command;

fn agree(reader: &mut Reader, run: &mut Run, checkpoint: bool) -> Result<Value, String> {
    let document = reader.read(&run.recorder.chip, &run.shape.options, checkpoint);
    let differences = differences(&rows(&run.volume)?, &of_document(&document));
    let odd = document["odd"].as_array().map_or(0, Vec::len);
    match differences.is_empty() && odd == 0 {
        true => Ok(document),
        false => Err(format!("{differences:#?}, odd: {}", document["odd"])),
    }
}

/// Whether there was a checkpoint.
fn sequence(reader: &mut Reader, shape: &Shape, seed: u64) -> Result<bool, String> {
    let mut run = Run::new(shape, seed);
    let (decoder, mut random) = (shape.decoder(), Random::labelled(seed, "reader"));
    let steps = 20 + random.below(250);
    let middle = random.below(steps);
    for number in 0..steps {
        run.step(&decoder.random(&mut random))?;
        if number == middle {
            run.step(&Op::Sync)?;
            agree(reader, &mut run, false).map_err(|what| format!("live, after {number}: {what}"))?;
        }
    }
    run.step(&Op::Sync)?;
    let Run { shape, recorder, volume, .. } = run;
    let unmounts = random.below(2) == 0;
    if unmounts {
        close(volume).map_err(|error| format!("unmount: {error}"))?;
    } else {
        abandon(volume);
    }
    let document = reader.read(&recorder.chip, &shape.options, true);
    let options = shape.options.clone().read_only(true);
    let volume = shape.mount_with(Box::new(recorder.chip.clone()), &options).map_err(|error| error.to_string())?;
    let lines = differences(&rows(&volume)?, &of_document(&document));
    let by_checkpoint = volume.usage().mounted_by == MountedBy::Checkpoint;
    let checkpoint = &document["checkpoint"];
    let expected = unmounts && shape.geometry.blocks >= 60 && shape.options.checkpoint_write;
    let right = match by_checkpoint {
        true => checkpoint["valid"] == true && checkpoint["differences"] == Value::Array(Vec::new()),
        false => checkpoint.is_null(),
    };
    if !lines.is_empty() || document["odd"] != Value::Array(Vec::new()) || !right || by_checkpoint && !expected {
        return Err(format!("unmounted {unmounts}: {lines:#?}, odd {}, checkpoint {checkpoint}", document["odd"]));
    }
    Ok(by_checkpoint)
}

#[test]
fn an_independent_reader_finds_what_we_wrote() {
    or_skip!(program("python3", "python3"));
    let shapes = [
        Shape::new(24, 8, 1024),
        Shape::new(60, 8, 528),
        Shape::new(60, 8, 1024).with(|shape| shape.options.cache_chunks = 2),
        Shape::new(24, 16, 2048).with(|shape| shape.chip.factory_bad = vec![0, 5]),
        Shape::new(32, 8, 1024).with(|shape| {
            (shape.options.tags_ecc, shape.options.summary) = (false, false);
            shape.geometry.spare_bytes = 16;
        }),
    ];
    let (first, all) = (seed(1), amount(600, 20_000));
    let run = |half: u64| {
        let mut reader = Reader::start();
        let mut checkpoints = 0u64;
        for seed in (first..first + all).filter(|seed| seed % 2 == half) {
            let shape = &shapes[seed as usize / 2 % shapes.len()];
            let by_checkpoint = sequence(&mut reader, shape, seed);
            checkpoints += u64::from(by_checkpoint.unwrap_or_else(|what| {
                panic!("seed {seed}, {}: {what}", shape.describe());
            }));
        }
        checkpoints
    };
    let checkpoints = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(0));
        run(1) + other.join().expect("both halves agree")
    });
    say(&format!("{all} sequences, {checkpoints} with a checkpoint"));
    assert!(checkpoints > all / 20);
}

/// An image by the independent writer; its chip, and the tree to expect.
fn written(arguments: &[&str], geometry: Geometry) -> (SimulatedNand, Value) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let mut command = Command::new("python3");
    command.arg(tool("writer.py")).args(&arguments[..1]);
    match arguments[0] {
        "plain" => command.arg("-").arg(at("image")),
        _ => command.arg(at("image")).arg("--uncorrectable").arg(at("uncorrectable")),
    };
    command.args(&arguments[1..]).args(["--spare", "64", "--spare-offset", "2"]).arg("--expect").arg(at("expected"));
    let output = command.output().expect("the writer runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let json = |name: &str| -> Option<Value> {
        serde_json::from_slice(&std::fs::read(at(name)).ok()?).expect("the writer writes JSON")
    };
    let chip = SimulatedNand::new(geometry, SimulatedOptions::default());
    chip.load(&std::fs::read(at("image")).expect("there is an image")).expect("it fits the chip");
    for page in json("uncorrectable").iter().flat_map(|pages| pages.as_array()).flatten() {
        chip.flip_data(page.as_u64().expect("a number") as u32, 60, 1);
    }
    (chip, json("expected").expect("there is a tree to expect"))
}

fn geometry(pages_per_block: u32, inband: bool) -> Geometry {
    Geometry { page_bytes: 2048, spare_bytes: if inband { 0 } else { 38 }, pages_per_block, blocks: 64 }
}

#[test]
fn images_of_an_independent_writer_are_mounted() {
    or_skip!(program("python3", "python3"));
    let variants: [&[&str]; 12] = [
        &["plain"],
        &["plain", "--inband"],
        &["live"],
        &["live", "--inband"],
        &["live", "--no-tags-ecc"],
        &["live", "--no-summary"],
        &["live", "--ending", "torn"],
        &["live", "--ending", "shadow"],
        &["live", "--checkpoint", "4"],
        &["live", "--checkpoint", "8", "--hint-next"],
        &["live", "--bad", "0,3,40", "--garbage", "0.01"],
        &["live", "--flips", "20"],
    ];
    for variant in variants {
        for seed in 1..=if variant[0] == "plain" { 1 } else { amount(2, 100) } {
            let text = seed.to_string();
            let mut arguments = variant.to_vec();
            if variant[0] == "live" {
                arguments.extend(["--seed", &text]);
            }
            let inband_tags = variant.contains(&"--inband");
            let (chip, expected) =
                written(&arguments, geometry(if variant[0] == "plain" { 64 } else { 32 }, inband_tags));
            let expected = of_document(&expected);
            let tags_ecc = !variant.contains(&"--no-tags-ecc");
            let options = OpenOptions::default().inband_tags(inband_tags).tags_ecc(tags_ecc);
            // Read-only; for writing, which deletes what was unlinked and writes a checkpoint; after that.
            for (number, read_only) in [true, false, true].into_iter().enumerate() {
                let options = options.clone().read_only(read_only);
                let fail = |what: &dyn std::fmt::Debug| -> ! { panic!("{arguments:?}, mount {number}: {what:#?}") };
                let volume = Volume::open(Box::new(chip.clone()), &options).unwrap_or_else(|error| fail(&error));
                let found = rows(&volume).unwrap_or_else(|what| fail(&what));
                let lines = differences(&found, &expected);
                if !lines.is_empty() {
                    fail(&lines);
                }
                let by = volume.usage().mounted_by;
                if number == 0 && variant.contains(&"--checkpoint") != (by == MountedBy::Checkpoint) {
                    fail(&by);
                }
                close(volume).unwrap_or_else(|error| fail(&error));
            }
        }
    }
}

#[test]
fn an_image_of_a_big_endian_machine_is_refused_and_says_why() {
    or_skip!(program("python3", "python3"));
    let (chip, _) = written(&["plain", "--big-endian"], geometry(64, false));
    let before = chip.image();
    match Volume::open(Box::new(chip.clone()), &OpenOptions::default()) {
        Err(error) => assert!(error.to_string().contains("big-endian"), "{error}"),
        Ok(_) => panic!("it was mounted"),
    }
    assert!(chip.image() == before, "what is refused is not changed");
}
