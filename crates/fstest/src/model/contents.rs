//! The reference's files.

use super::{Answer, Id, Model};
use crate::content::{Content, pattern};
use crate::errno::EINVAL;
use crate::op::{BatchPart, Op, Outcome, Target};
use pocketstone_vfs::Allocate;

impl Model {
    pub(super) fn on_content(&mut self, id: Id, op: &Op) -> Answer {
        let (now, page_bytes) = (self.now(), self.has.page_bytes);
        let object = self.object_mut(id);
        let answer = change(&mut object.content, op, page_bytes)?;
        if !matches!(op, Op::Read(..) | Op::View(_) | Op::SyncFile(_)) {
            (object.times[1], object.times[2]) = (now, now);
        }
        Ok(answer)
    }
}

impl Model {
    /// Several writes to several files, of which nothing or all is done.
    pub(super) fn on_batch(&mut self, parts: &[BatchPart]) -> Answer {
        let mut files = Vec::new();
        for part in parts {
            match self.file(&Target::Path(part.path.clone()))? {
                Some(id) => files.push(id),
                None => return Ok(Outcome::Skipped),
            }
        }
        let twice = (1..files.len()).any(|n| files[..n].contains(&files[n]));
        if twice || parts.iter().any(BatchPart::is_too_small) {
            return Err(EINVAL);
        }
        let now = self.now();
        for (part, id) in parts.iter().zip(files) {
            let object = self.object_mut(id);
            for (offset, bytes, fill) in &part.writes {
                object.content.write(*offset, &pattern(*fill, *offset, *bytes));
            }
            part.size.into_iter().for_each(|size| object.content.resize(size));
            (object.times[1], object.times[2]) = (now, now);
        }
        Ok(Outcome::Done)
    }
}

fn change(content: &mut Content, op: &Op, page_bytes: u64) -> Answer {
    match op {
        Op::Write(_, offset, bytes, fill) => {
            content.write(*offset, &pattern(*fill, *offset, *bytes));
            Ok(Outcome::Number(*bytes))
        }
        Op::WriteAtomic(_, offset, bytes, fill) => {
            content.write(*offset, &pattern(*fill, *offset, *bytes));
            Ok(Outcome::Done)
        }
        Op::Append(_, bytes, fill) => {
            let end = content.size();
            content.write(end, &pattern(*fill, end, *bytes));
            Ok(Outcome::Number(content.size()))
        }
        Op::Truncate(_, size) => {
            content.resize(*size);
            Ok(Outcome::Done)
        }
        Op::Allocate(_, how, offset, bytes) => allocate(content, *how, *offset, *bytes, page_bytes),
        Op::Read(_, offset, bytes) => Ok(Outcome::Bytes(content.read(*offset, *bytes))),
        Op::View(_) => Ok(Outcome::Bytes(content.read(0, content.size()))),
        _ => Ok(Outcome::Done),
    }
}

/// As fallocate(2) has it.
fn allocate(content: &mut Content, how: Allocate, offset: u64, bytes: u64, page_bytes: u64) -> Answer {
    if bytes == 0 {
        return Err(EINVAL);
    }
    if matches!(how, Allocate::Collapse | Allocate::Insert) {
        let is_whole = offset % page_bytes == 0 && bytes % page_bytes == 0;
        let reach = if how == Allocate::Collapse { offset + bytes } else { offset };
        if !is_whole || reach >= content.size() {
            return Err(EINVAL);
        }
        match how {
            Allocate::Collapse => content.collapse(offset, bytes),
            _ => content.insert(offset, bytes),
        }
        return Ok(Outcome::Done);
    }
    if how != Allocate::Extend && how != Allocate::KeepSize {
        content.zero(offset, bytes);
    }
    if how == Allocate::Extend || how == Allocate::Zero {
        content.resize(content.size().max(offset + bytes));
    }
    Ok(Outcome::Done)
}
