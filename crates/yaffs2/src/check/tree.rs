//! Every object: its header, its name, its place in the tree, its size.

use super::{Place, Report, Severity, word};
use crate::header::Header;
use crate::names::check_name;
use crate::objects::{DELETED_ID, LOST_ID, ROOT_ID, UNLINKED_ID};
use crate::tags::Kind;
use crate::volume::Volume;
use pocketstone_core::inode::Result;
use pocketstone_media::nand::Verdict;
use std::collections::HashMap;

pub(super) fn check(volume: &mut Volume, report: &mut Report) -> Result<()> {
    let mut names: HashMap<(u32, Vec<u8>), u32> = HashMap::new();
    names.insert((ROOT_ID, b"lost+found".to_vec()), LOST_ID);
    for id in volume.objects.ids() {
        if matches!(id, UNLINKED_ID | DELETED_ID) {
            continue;
        }
        count(volume, id, report);
        if !Volume::is_fixed(id) {
            check_object(volume, id, &mut names, report)?;
        }
    }
    Ok(())
}

/// Whether an object is on its way out.
fn is_going(volume: &Volume, id: u32) -> bool {
    let mut at = id;
    // No tree is deeper than it has objects; a scan has broken all loops.
    for _ in 0..volume.objects.count() {
        match volume.objects.get(at).map_or(0, |object| object.parent) {
            UNLINKED_ID | DELETED_ID => return true,
            0 => return false,
            parent => at = parent,
        }
    }
    false
}

fn count(volume: &Volume, id: u32, report: &mut Report) {
    let Some(object) = volume.objects.get(id).filter(|_| !is_going(volume, id)) else { return };
    let counted = match object.kind {
        Kind::File => {
            report.file_bytes += object.value;
            &mut report.objects.files
        }
        Kind::Directory => &mut report.objects.directories,
        Kind::Symlink => &mut report.objects.symlinks,
        Kind::HardLink => &mut report.objects.hard_links,
        Kind::Special | Kind::Unknown => &mut report.objects.specials,
    };
    *counted += 1;
}

fn check_object(
    volume: &mut Volume,
    id: u32,
    names: &mut HashMap<(u32, Vec<u8>), u32>,
    report: &mut Report,
) -> Result<()> {
    let Some(object) = volume.objects.get(id) else { return Ok(()) };
    let (kind, parent, chunk) = (object.kind, object.parent, object.header);
    let mut found: Vec<(Severity, &'static str, String)> = Vec::new();
    let header = read_header(volume, id)?;
    if is_going(volume, id) {
        let what = format!("object {id}, a {}, has no name any more; the next mount deletes it", kind.word());
        found.push((Severity::Tidy, "deletion not finished", what));
    } else if chunk == 0 {
        let what = match kind {
            Kind::Directory => format!("directory {id}, which others say they are in, has no header"),
            _ => format!("there is data of object {id}, but no header: mounts put it into lost+found"),
        };
        found.push((Severity::Error, "object without header", what));
    } else if let Some(header) = header {
        found.extend(check_place(volume, id, parent, &header));
        found.extend(check_header(volume, id, &header));
        let name = String::from_utf8_lossy(&header.name).into_owned();
        if check_name(&header.name).is_err() {
            let what = format!("object {id} has the name `{name}`, which is none");
            found.push((Severity::Error, "name that cannot be", what));
        } else if let Some(other) = names.insert((parent, header.name), id) {
            let what = format!("objects {other} and {id} in directory {parent} are both called `{name}`");
            found.push((Severity::Error, "duplicate name", what));
        }
    }
    found.extend(check_size(volume, id));
    for (severity, kind, what) in found {
        let place = Place { chip: &volume.chip, chunk: Some(chunk), object: Some(id) };
        report.find(place.finding(severity, kind, what));
    }
    Ok(())
}

/// An object's header, if it has one that can be read. What is wrong with its page is told with the pages.
fn read_header(volume: &mut Volume, id: u32) -> Result<Option<Header>> {
    let Some(object) = volume.objects.get(id).filter(|object| object.header != 0) else { return Ok(None) };
    let (chunk, kind) = (object.header, object.kind);
    let mut page = vec![0; volume.chip.data_bytes()];
    let whole = volume.chip.read(chunk, &mut page)?;
    let header = Header::decode(&page, volume.chip.inband);
    Ok(header.filter(|header| whole.verdict != Verdict::Uncorrectable && header.kind == kind))
}

/// Whether it is where its header says.
fn check_place(volume: &Volume, id: u32, parent: u32, header: &Header) -> Option<(Severity, &'static str, String)> {
    let wanted = header.parent;
    if wanted == parent {
        return None;
    }
    let error = |kind, what| Some((Severity::Error, kind, what));
    match volume.objects.get(wanted) {
        None => error("orphan", format!("object {id} is said to be in directory {wanted}, which is not there")),
        Some(other) if other.kind != Kind::Directory => {
            let what = format!("object {id} is said to be in {wanted}, which is a {}", word(&volume.objects, wanted));
            error("orphan", what)
        }
        // A scan has put all that are in a loop into lost+found. Otherwise the tags have said something else.
        Some(other) if other.parent != LOST_ID || parent != LOST_ID => None,
        Some(_) => error("directory loop", format!("object {id} is in directory {wanted}, which nothing leads to")),
    }
}

fn check_header(volume: &Volume, id: u32, header: &Header) -> Option<(Severity, &'static str, String)> {
    let error = |kind, what| Some((Severity::Error, kind, what));
    match header.kind {
        Kind::HardLink => {
            let target = header.equivalent;
            match volume.objects.get(target).map(|object| object.kind) {
                None => {
                    error("dangling hard link", format!("object {id} links to object {target}, which is not there"))
                }
                Some(Kind::HardLink | Kind::Directory) => {
                    let kind = word(&volume.objects, target);
                    error("dangling hard link", format!("object {id} links to object {target}, which is a {kind}"))
                }
                Some(_) if is_going(volume, target) => {
                    error("dangling hard link", format!("object {id} links to object {target}, which is deleted"))
                }
                Some(_) => None,
            }
        }
        Kind::Symlink if header.target.is_empty() => {
            error("symbolic link without target", format!("object {id} is a symbolic link to nothing"))
        }
        _ => None,
    }
}

fn check_size(volume: &Volume, id: u32) -> Option<(Severity, &'static str, String)> {
    let object = volume.objects.get(id).filter(|object| object.kind == Kind::File)?;
    let bytes = volume.chip.data_bytes() as u64;
    let (slot, _) = object.map.chunks(volume.width).find(|&(slot, _)| u64::from(slot) * bytes >= object.value)?;
    let what = format!("object {id} has {} bytes, and a chunk {} that lies behind them", object.value, slot + 1);
    Some((Severity::Error, "chunk beyond the size", what))
}
