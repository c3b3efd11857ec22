//! A volume and its model, side by side.

use super::apply::{Slots, apply, file};
use super::model::{ENOSPC, Model};
use super::op::{Answer, Op};
use super::recorder::Recorder;
use super::shape::Shape;
use super::tree::{compare, walk};
use pocketstone_media::nand::SimulatedNand;
use pocketstone_yaffs2::Volume;

pub struct Run {
    pub shape: Shape,
    pub recorder: Recorder,
    pub volume: Volume,
    pub slots: Slots,
    pub model: Model,
    /// Operations that found no space.
    pub refused: u64,
}

/// How a volume is left, and mounted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// Unmounted; by a checkpoint, if there is one.
    Unmount,
    /// Unmounted, and scanned.
    Scan,
    /// Synced and dropped.
    Drop,
}

impl Run {
    pub fn new(shape: &Shape, seed: u64) -> Run {
        Run::of(shape, shape.make(seed), Model::new(shape))
    }

    /// A volume that is on a chip already.
    pub fn of(shape: &Shape, chip: SimulatedNand, model: Model) -> Run {
        let recorder = Recorder::new(chip);
        let volume = recorder.mount(shape).expect("an erased chip is a volume, and so is a used one");
        let slots = Slots::default();
        Run { shape: shape.clone(), recorder, volume, slots, model, refused: 0 }
    }

    /// Executes an operation on both.
    ///
    /// # Errors
    /// How the answers differ.
    pub fn step(&mut self, op: &Op) -> Result<(), String> {
        let before = self.model.clone();
        let want = self.model.apply(op);
        let got = apply(&mut self.volume, &mut self.slots, op);
        if got == want {
            self.model.settle(op);
            return Ok(());
        }
        let cut_short = matches!((&got, &want), (Ok(Answer::Number(got)), Ok(Answer::Number(want))) if got < want);
        if !(cut_short || got == Err(ENOSPC) && want.is_ok() && may_lack_space(op, &before)) {
            return Err(format!("{op:?}: {got:?}, should be {want:?}"));
        }
        self.refused += 1;
        let chunk = self.shape.chunk_bytes();
        // Space may be short only where there is little: the operation's own, what a gap takes, a header.
        let asked = match op {
            Op::Write(_, _, bytes, _) => bytes / chunk + 8,
            _ => 8,
        };
        let free = self.volume.statfs().free_blocks;
        if free > asked {
            return Err(format!("{op:?}: no space, with {free} free chunks"));
        }
        self.model = before;
        if let Op::Write(target, ..) | Op::Truncate(target, _) = op {
            return self.adopt(target, op);
        }
        Ok(())
    }

    /// A write that found no space on its way left some of its chunks.
    fn adopt(&mut self, target: &super::op::Target, op: &Op) -> Result<(), String> {
        let failed = |error| format!("{op:?}, after no space: {error}");
        let Some(attr) = file(&mut self.volume, &self.slots, target).map_err(failed)? else { return Ok(()) };
        let mut content = vec![0; attr.size as usize];
        let got = self.volume.read(attr.ino, 0, &mut content).map_err(failed)?;
        let Ok(Some(id)) = self.model.file(target) else { return Err(format!("{op:?}: a file of one alone")) };
        let mut full = self.model.clone();
        let _ = full.apply(op);
        let (old, new) = (self.model.node(id).content.clone(), full.node(id).content.clone());
        let between = (old.len().min(new.len())..=old.len().max(new.len())).contains(&got);
        let is_of = |at: usize| {
            let byte = |from: &[u8]| from.get(at).copied().unwrap_or(0);
            content[at] == byte(&old) || content[at] == byte(&new)
        };
        if got != content.len() || !between || !(0..got).all(is_of) {
            return Err(format!("{op:?}: {got} bytes after no space, of {} and {}", old.len(), new.len()));
        }
        let times = [attr.atime_ns, attr.mtime_ns, attr.ctime_ns].map(|ns| ns.div_euclid(1_000_000_000));
        let (sizes, versions) = (full.node(id).sizes.clone(), full.node(id).versions.clone());
        let node = self.model.node_mut(id);
        (node.sizes, node.versions) = (sizes, versions);
        node.adopt(content);
        node.times = times;
        node.times_since.push(times);
        Ok(())
    }

    /// # Errors
    /// The first difference.
    pub fn compare(&mut self) -> Result<(), String> {
        compare(&walk(&mut self.volume)?, &self.model, false)
    }

    /// Leaves the volume, mounts it again and compares.
    ///
    /// # Errors
    /// The first difference.
    pub fn restart(mut self, how: Restart) -> Result<Run, String> {
        self.compare().map_err(|what| format!("before {how:?}: {what}"))?;
        let failed = |error| format!("{how:?}: {error}");
        match how {
            Restart::Unmount | Restart::Scan => self.volume.unmount().map_err(failed)?,
            Restart::Drop => {
                self.volume.sync().map_err(failed)?;
                self.volume.abandon();
            }
        }
        self.model.restart();
        self.model.nodes.values_mut().for_each(super::model::Node::settle);
        self.slots = Slots::default();
        self.volume = match how {
            Restart::Scan => self.shape.mount_by_scan(&self.recorder.chip),
            _ => self.recorder.mount(&self.shape),
        }
        .map_err(failed)?;
        self.compare().map_err(|what| format!("after {how:?}: {what}"))?;
        Ok(self)
    }
}

/// Taking away must always be possible.
fn may_lack_space(op: &Op, before: &Model) -> bool {
    match op {
        Op::Unlink(_) | Op::Rmdir(_) | Op::Sync | Op::SyncFile(_) | Op::Close(_) | Op::Open(..) | Op::Background => {
            false
        }
        Op::Truncate(target, size) => {
            let file = before.file(target).ok().flatten();
            file.is_some_and(|id| before.node(id).content.len() as u64 <= *size)
        }
        _ => true,
    }
}
