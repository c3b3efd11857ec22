//! A volume and its model, side by side.

use super::model::Model;
use super::on_volume::{OpenFiles, apply_both};
use super::op::Op;
use super::region::Shared;
use super::shape::{Shape, expect_sound};
use super::tree::{differences, walk};
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

    /// Executes an operation on both; `Err` says how the answers differ.
    pub fn step(&mut self, op: &Op) -> Result<(), String> {
        apply_both(&self.volume, &mut self.files, &mut self.model, op, self.shape.tight)
    }

    /// An operation that must not fail for want of space.
    pub fn step_with_room(&mut self, op: &Op) -> Result<(), String> {
        apply_both(&self.volume, &mut self.files, &mut self.model, op, false)
    }

    pub fn compare(&self) -> Result<(), String> {
        let got = walk(&self.volume).map_err(|broken| format!("{broken:?}"))?;
        let lines = differences(&got, &self.model.tree());
        if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
    }

    /// Stops with or without a clean close, and starts again.
    pub fn restart(mut self, clean: bool) -> Result<Run, String> {
        drop(std::mem::take(&mut self.files));
        if clean {
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

    /// Compares, closes, and lets fsck look.
    pub fn finish(mut self) -> Result<(), String> {
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
