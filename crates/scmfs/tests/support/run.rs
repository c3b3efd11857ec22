//! A volume and its model, side by side.

use super::region::Shared;
use super::shape::{Shape, expect_sound};
use super::subject::{OpenFiles, apply_both, walk};
use pocketstone_fstest::{Model, Op, Pair, differences};
use pocketstone_scmfs::Volume;

pub struct Run {
    pub shape: Shape,
    pub shared: Shared,
    pub volume: Volume,
    pub files: OpenFiles,
    pub model: Model,
}

impl Run {
    pub fn new(shape: &Shape) -> Run {
        let (shared, volume, model) = shape.start();
        Run { shape: shape.clone(), shared, volume, files: OpenFiles::default(), model }
    }

    /// An operation that must not fail for want of space.
    pub fn step_with_room(&mut self, op: &Op) -> Result<(), String> {
        apply_both(&self.volume, &mut self.files, &mut self.model, op, false)
    }
}

impl Pair for Run {
    fn step(&mut self, op: &Op) -> Result<(), String> {
        apply_both(&self.volume, &mut self.files, &mut self.model, op, self.shape.tight)
    }

    fn compare(&mut self) -> Result<(), String> {
        let got = walk(&self.volume).map_err(|broken| format!("{broken:?}"))?;
        let lines = differences(&got, &self.model.tree());
        if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
    }

    /// With a clean close, or without.
    fn restart(mut self, way: u8) -> Result<Run, String> {
        drop(std::mem::take(&mut self.files));
        if way % 2 == 0 {
            self.volume.close().map_err(|error| format!("close: {error}"))?;
            let report = expect_sound(&self.shared);
            if !report.clean {
                return Err("fsck says that a closed volume was not closed".into());
            }
        } else {
            self.volume.abandon();
        }
        self.volume = Volume::open(self.shared.region(), &self.shape.open).map_err(|error| format!("open: {error}"))?;
        self.model.restart();
        self.compare()?;
        Ok(self)
    }

    fn finish(mut self) -> Result<(), String> {
        drop(std::mem::take(&mut self.files));
        self.model.restart();
        self.compare()?;
        self.volume.close().map_err(|error| format!("close: {error}"))?;
        let report = expect_sound(&self.shared);
        // What fsck counted, the model knows.
        let tree = self.model.tree();
        let directories = tree.values().filter(|leaf| leaf.kind == pocketstone_scmfs::FileType::Directory).count();
        if report.directories as usize != directories {
            return Err(format!("fsck counted {} directories of {directories}", report.directories));
        }
        Ok(())
    }
}
