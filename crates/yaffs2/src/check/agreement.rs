//! Whether a checkpoint says what a scan finds.

use super::{Place, Report, Severity};
use crate::log::blocks::{Blocks, State};
use crate::log::tags::Kind;
use crate::tree::Tree;
use crate::tree::objects::Objects;

/// The state that a scan found.
pub(super) struct Scanned {
    pub blocks: Blocks,
    pub objects: Objects,
    pub sequence: u32,
}

/// Compares them. What the format leaves open may differ: whether a summary's pages count as in use.
pub(super) fn check(said: &Tree, scanned: &Scanned, report: &mut Report) {
    let mut differ = |object: Option<u32>, what: String| {
        let place = Place { chip: &said.log.chip, chunk: None, object };
        report.find(place.finding(Severity::Error, "checkpoint disagrees with scan", what));
    };
    let mut longer: Vec<(u32, String)> = Vec::new();
    if said.log.head.sequence < scanned.sequence {
        let (says, found) = (said.log.head.sequence, scanned.sequence);
        differ(None, format!("the checkpoint's newest block is {says:#x}, a scan finds {found:#x}"));
    }
    let mut ids = said.objects.ids();
    ids.extend(scanned.objects.ids());
    ids.sort_unstable();
    ids.dedup();
    for id in ids {
        let (says, found) = match (said.objects.get(id), scanned.objects.get(id)) {
            (Some(says), Some(found)) => (says, found),
            (Some(_), None) => {
                differ(Some(id), format!("the checkpoint has object {id}, a scan does not"));
                continue;
            }
            _ => {
                differ(Some(id), format!("a scan finds object {id}, the checkpoint does not"));
                continue;
            }
        };
        let mut compare = |what: &str, says: u64, found: u64| {
            if says != found {
                differ(Some(id), format!("{what} of object {id}: the checkpoint says {says}, a scan finds {found}"));
            }
        };
        compare("the kind", says.kind as u64, found.kind as u64);
        compare("the directory", says.parent.into(), found.parent.into());
        compare("the header's place", says.header.into(), found.header.into());
        let mut chunks = said_chunks(said, id).zip(found.map.chunks(said.width));
        let same = found.map.chunks(said.width).count() == says.map.chunks(said.width).count()
            && chunks.all(|(says, found)| says == found);
        let grown = says.kind == Kind::File && same && says.header == found.header && says.value > found.value;
        if !grown && matches!(says.kind, Kind::File | Kind::HardLink) && says.kind == found.kind {
            compare("the size or target", says.value, found.value);
        }
        if grown {
            let (size, before) = (says.value, found.value);
            let what = format!(
                "object {id} was made longer by zeros, from {before} to {size} bytes, after its last header; a mount \
                    without the checkpoint loses them"
            );
            longer.push((id, what));
        }
        if !same {
            differ(Some(id), format!("the checkpoint and a scan differ in the chunks of object {id}"));
        }
    }
    for (id, what) in longer {
        let place = Place { chip: &said.log.chip, chunk: None, object: Some(id) };
        report.find(place.finding(Severity::Note, "size known to the checkpoint alone", what));
    }
    for block in said.log.blocks.all() {
        let (says, found) = (said.log.blocks.get(block), scanned.blocks.get(block));
        let pages = (0..said.log.shape.entries).map(|page| said.log.chip.chunk(block, page));
        let differs = pages.filter(|&chunk| said.log.blocks.is_used(chunk) != scanned.blocks.is_used(chunk)).count();
        let dead = (says.state == State::Dead) != (found.state == State::Dead);
        if differs > 0 || dead {
            let place = Place { chip: &said.log.chip, chunk: Some(said.log.chip.chunk(block, 0)), object: None };
            let what = match dead {
                true => "the checkpoint and the chip differ in whether the block is bad".to_owned(),
                false => format!("the checkpoint and a scan differ in whether {differs} pages are in use"),
            };
            report.find(place.finding(Severity::Error, "checkpoint disagrees with scan", what));
        }
    }
}

fn said_chunks(said: &Tree, id: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
    said.objects.get(id).into_iter().flat_map(|object| object.map.chunks(said.width))
}
