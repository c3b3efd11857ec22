//! Every object: its header, its name, its place in the tree, its size.

use super::{Place, Report, Severity, word};
use crate::log::tags::Kind;
use crate::tree::Tree;
use crate::tree::header::Header;
use crate::tree::names::check_name;
use crate::tree::objects::{DELETED_ID, LOST_ID, ROOT_ID, UNLINKED_ID, is_fixed};
use pocketstone_media::nand::Verdict;
use pocketstone_vfs::Result;
use std::collections::HashMap;

pub(super) fn check(tree: &mut Tree, report: &mut Report) -> Result<()> {
    let mut names: HashMap<(u32, Vec<u8>), u32> = HashMap::new();
    names.insert((ROOT_ID, b"lost+found".to_vec()), LOST_ID);
    for id in tree.objects.ids() {
        if matches!(id, UNLINKED_ID | DELETED_ID) {
            continue;
        }
        count(tree, id, report);
        if !is_fixed(id) {
            check_object(tree, id, &mut names, report)?;
        }
    }
    Ok(())
}

/// Whether an object is on its way out.
fn is_going(tree: &Tree, id: u32) -> bool {
    let mut at = id;
    // No tree is deeper than it has objects; a scan has broken all loops.
    for _ in 0..tree.objects.count() {
        match tree.objects.get(at).map_or(0, |object| object.parent) {
            UNLINKED_ID | DELETED_ID => return true,
            0 => return false,
            parent => at = parent,
        }
    }
    false
}

fn count(tree: &Tree, id: u32, report: &mut Report) {
    let Some(object) = tree.objects.get(id).filter(|_| !is_going(tree, id)) else { return };
    let counted = match object.kind {
        Kind::File => {
            report.file_bytes = report.file_bytes.saturating_add(object.value);
            &mut report.objects.files
        }
        Kind::Directory => &mut report.objects.directories,
        Kind::Symlink => &mut report.objects.symlinks,
        Kind::HardLink => &mut report.objects.hard_links,
        Kind::Special | Kind::Unknown => &mut report.objects.specials,
    };
    *counted += 1;
}

fn check_object(tree: &mut Tree, id: u32, names: &mut HashMap<(u32, Vec<u8>), u32>, report: &mut Report) -> Result<()> {
    let Some(object) = tree.objects.get(id) else { return Ok(()) };
    let (kind, parent, chunk) = (object.kind, object.parent, object.header);
    let mut found: Vec<(Severity, &'static str, String)> = Vec::new();
    let header = read_header(tree, id)?;
    if is_going(tree, id) {
        let what = format!("object {id}, a {}, no longer has a name; the next mount deletes it", kind.word());
        found.push((Severity::Tidy, "deletion not finished", what));
    } else if chunk == 0 {
        let what = match kind {
            Kind::Directory => format!("directory {id}, the parent of other objects, has no header"),
            _ => format!("object {id} has data but no header: mounts put it into lost+found"),
        };
        found.push((Severity::Error, "object without header", what));
    } else if let Some(header) = header {
        found.extend(check_place(tree, id, parent, &header));
        found.extend(check_header(tree, id, &header));
        let name = String::from_utf8_lossy(&header.name).into_owned();
        if check_name(&header.name).is_err() {
            let what = format!("object {id} has the invalid name `{name}`");
            found.push((Severity::Error, "name that cannot be", what));
        } else if let Some(other) = names.insert((parent, header.name), id) {
            let what = format!("objects {other} and {id} in directory {parent} are both named `{name}`");
            found.push((Severity::Error, "duplicate name", what));
        }
    }
    found.extend(check_size(tree, id));
    let missing = tree.missing_chunks(id);
    if missing > 0 {
        let what = format!("object {id} lacks {missing} of its chunks, of which builders of images write all");
        found.push((Severity::Error, "pages missing", what));
    }
    for (severity, kind, what) in found {
        let place = Place { chip: &tree.log.chip, chunk: Some(chunk), object: Some(id) };
        report.find(place.finding(severity, kind, what));
    }
    Ok(())
}

/// An object's header, if it has one that can be read. What is wrong with its page is told with the pages.
fn read_header(tree: &mut Tree, id: u32) -> Result<Option<Header>> {
    let Some(object) = tree.objects.get(id).filter(|object| object.header != 0) else { return Ok(None) };
    let (chunk, kind) = (object.header, object.kind);
    let mut page = vec![0; tree.log.chip.data_bytes()];
    let whole = tree.log.chip.read(chunk, &mut page)?;
    let header = Header::decode(&page, tree.log.chip.inband);
    Ok(header.filter(|header| whole.verdict != Verdict::Uncorrectable && header.kind == kind))
}

/// Whether it is where its header says.
fn check_place(tree: &Tree, id: u32, parent: u32, header: &Header) -> Option<(Severity, &'static str, String)> {
    let wanted = header.parent;
    if wanted == parent {
        return None;
    }
    let error = |kind, what| Some((Severity::Error, kind, what));
    match tree.objects.get(wanted) {
        None => error("orphan", format!("object {id} has the parent {wanted}, which does not exist")),
        Some(other) if other.kind != Kind::Directory => {
            let what = format!("object {id} has the parent {wanted}, which is a {}", word(&tree.objects, wanted));
            error("orphan", what)
        }
        // A scan has put all that are in a loop into lost+found. Otherwise the tags have said something else.
        Some(other) if other.parent != LOST_ID || parent != LOST_ID => None,
        Some(_) => error("directory loop", format!("object {id} is in directory {wanted}, which is unreachable")),
    }
}

fn check_header(tree: &Tree, id: u32, header: &Header) -> Option<(Severity, &'static str, String)> {
    let error = |kind, what| Some((Severity::Error, kind, what));
    match header.kind {
        Kind::HardLink => {
            let target = header.equivalent;
            match tree.objects.get(target).map(|object| object.kind) {
                None => {
                    error("dangling hard link", format!("object {id} links to object {target}, which does not exist"))
                }
                Some(Kind::HardLink | Kind::Directory) => {
                    let kind = word(&tree.objects, target);
                    error("dangling hard link", format!("object {id} links to object {target}, which is a {kind}"))
                }
                Some(_) if is_going(tree, target) => {
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

fn check_size(tree: &Tree, id: u32) -> Option<(Severity, &'static str, String)> {
    let object = tree.objects.get(id).filter(|object| object.kind == Kind::File)?;
    let bytes = tree.log.chip.data_bytes() as u64;
    let (slot, _) = object.map.chunks(tree.width).find(|&(slot, _)| u64::from(slot) * bytes >= object.value)?;
    let what = format!("object {id} has {} bytes, and a chunk {} beyond them", object.value, slot + 1);
    Some((Severity::Error, "chunk beyond the size", what))
}
