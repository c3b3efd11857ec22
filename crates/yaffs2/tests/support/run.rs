//! A volume and its model, side by side.

use super::durable::{Durable, changed};
use super::recorder::Recorder;
use super::shape::Shape;
use super::subject::{OpenFiles, Yaffs2, abandon, close, walk};
use pocketstone_fstest::errno::ENOSPC;
use pocketstone_fstest::volume::inode_of;
use pocketstone_fstest::{Op, Outcome, Pair, Subject, Target, apply};
use pocketstone_media::nand::SimulatedNand;
use pocketstone_vfs::Operations;
use pocketstone_yaffs2::Volume;

pub struct Run {
    pub shape: Shape,
    pub recorder: Recorder,
    pub volume: Volume,
    pub files: OpenFiles,
    pub model: Durable,
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
        Run::of(shape, shape.make(seed), Durable::new(shape))
    }

    /// A volume that is on a chip already.
    pub fn of(shape: &Shape, chip: SimulatedNand, model: Durable) -> Run {
        let recorder = Recorder::new(chip);
        let volume = recorder.mount(shape).expect("an erased chip is a volume, and so is a used one");
        let files = OpenFiles::default();
        Run { shape: shape.clone(), recorder, volume, files, model, refused: 0 }
    }

    /// What an operation that found no space, or not enough, may have done.
    fn refused(&mut self, op: &Op, before: Durable, got: &Outcome, want: &Outcome) -> Result<(), String> {
        let no_space = *got == Outcome::Failed(ENOSPC) && !matches!(want, Outcome::Failed(_) | Outcome::Skipped);
        if !(is_cut_short(got, want) || no_space && may_lack_space(op, &before)) {
            return Err(format!("{op:?}: {got:?}, should be {want:?}"));
        }
        self.refused += 1;
        let chunk = self.shape.chunk_bytes();
        // Space may be short only where there is little: the operation's own, what a gap takes, a header.
        let asked = match op {
            Op::Write(_, _, bytes, _) | Op::Append(_, bytes, _) => bytes / chunk + 8,
            _ => 8,
        };
        let free = self.volume.statfs().map_err(|error| error.to_string())?.free_blocks;
        if free > asked {
            return Err(format!("{op:?}: no space, with {free} free chunks"));
        }
        self.model = before;
        match changed(op) {
            Some(target) => self.adopt(&target, op),
            None => Ok(()),
        }
    }

    /// A write that found no space on its way left some of its chunks.
    fn adopt(&mut self, target: &Target, op: &Op) -> Result<(), String> {
        let failed = |error: pocketstone_vfs::Error| format!("{op:?}, after no space: {error}");
        let Some(id) = self.model.file(Some(target)) else { return Err(format!("{op:?}: a file of one alone")) };
        let ino = inode_of(&self.volume, &self.files, target).map_err(failed)?.ok_or("an open file of one alone")?;
        let attr = self.volume.attributes(ino).map_err(failed)?;
        let content =
            Yaffs2::content(&self.volume, "the file", &attr).map_err(|broken| format!("{op:?}: {broken:?}"))?;
        let mut full = self.model.clone();
        let _ = full.apply(op);
        let (old, new, got) = (self.model.content(id), full.content(id), content.size());
        let between = (old.size().min(new.size())..=old.size().max(new.size())).contains(&got);
        let is_of = |at: u64| content.byte(at) == old.byte(at) || content.byte(at) == new.byte(at);
        if !between || !(0..got).all(is_of) {
            return Err(format!("{op:?}: {got} bytes after no space, of {} and {}", old.size(), new.size()));
        }
        let times = [attr.atime_ns, attr.mtime_ns, attr.ctime_ns].map(|ns| ns.div_euclid(1_000_000_000));
        self.model.adopt_file(id, &full, content, times);
        Ok(())
    }

    /// Leaves the volume, mounts it again and compares.
    ///
    /// # Errors
    /// A `String` with what fails, or with the differences, and whether that is before or after.
    pub fn leave(mut self, how: Restart) -> Result<Run, String> {
        self.compare().map_err(|what| format!("before {how:?}: {what}"))?;
        let failed = |error| format!("{how:?}: {error}");
        match how {
            Restart::Unmount | Restart::Scan => close(self.volume).map_err(failed)?,
            Restart::Drop => {
                self.volume.sync_all().map_err(failed)?;
                abandon(self.volume);
            }
        }
        self.model.restart();
        self.model.settle_all();
        self.files = OpenFiles::default();
        self.volume = match how {
            Restart::Scan => self.shape.mount_by_scan(&self.recorder.chip),
            _ => self.recorder.mount(&self.shape),
        }
        .map_err(failed)?;
        self.compare().map_err(|what| format!("after {how:?}: {what}"))?;
        Ok(self)
    }
}

impl Pair for Run {
    fn step(&mut self, op: &Op) -> Result<(), String> {
        let before = self.model.clone();
        let want = self.model.apply(op);
        let got = apply(&self.volume, &mut self.files, op).map_err(|error| format!("{op:?}: {error}"))?;
        if got == want {
            self.model.settle(op);
            return Ok(());
        }
        self.refused(op, before, &got, &want)
    }

    fn compare(&mut self) -> Result<(), String> {
        self.model.compare(&walk(&self.volume)?.tree)
    }

    fn restart(self, way: u8) -> Result<Run, String> {
        self.leave([Restart::Unmount, Restart::Scan, Restart::Drop][usize::from(way) % 3])
    }

    fn finish(self) -> Result<(), String> {
        self.leave(Restart::Unmount).map(drop)
    }
}

/// Some of what was to be written was.
pub fn is_cut_short(got: &Outcome, want: &Outcome) -> bool {
    matches!((got, want), (Outcome::Number(got), Outcome::Number(want)) if got < want)
}

/// Taking away must always be possible, and so must looking.
fn may_lack_space(op: &Op, before: &Durable) -> bool {
    match op {
        Op::Unlink(_) | Op::Rmdir(_) | Op::Sync | Op::SyncFile(_) | Op::Close(_) | Op::Open(..) | Op::Background => {
            false
        }
        Op::Read(..) | Op::Stat(_) | Op::ReadLink(_) | Op::GetXattr(..) | Op::ListXattrs(_) | Op::List(_) => false,
        Op::Truncate(_, size) | Op::SetSize(_, size) => {
            before.file(changed(op).as_ref()).is_some_and(|id| before.content(id).size() <= *size)
        }
        _ => true,
    }
}
