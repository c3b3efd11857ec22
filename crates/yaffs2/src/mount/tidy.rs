//! Putting in order what a loss of power left behind.

use super::MountedBy;
use super::scan::Growing;
use crate::files::Files;
use crate::log::blocks::State;
use crate::log::chip::Block;
use crate::tree::objects::{DELETED_ID, LOST_ID, UNLINKED_ID, is_fixed};
use pocketstone_vfs::{Error, Result};

/// Puts in order what a loss of power left behind, and what lies where nothing leads to.
pub fn tidy(files: &mut Files, mounted_by: MountedBy, unfinished: &Growing) -> Result<()> {
    let mounted_by_scan = mounted_by == MountedBy::Scan;
    let rooted = files.tree.rooted();
    let lost = files.tree.objects.ids().into_iter().filter(|id| !is_fixed(*id) && !rooted.contains(id));
    let lost: Vec<u32> = lost.collect();
    lost.into_iter().for_each(|id| files.tree.lose(id));
    for &id in &unfinished.deleted {
        files.tree.forget_deleted(id);
    }
    let mut gone = if mounted_by_scan { stand_ins(files) } else { Vec::new() };
    if files.options.read_only {
        for id in gone {
            if let Some(link) = files.tree.objects.remove(id) {
                files.tree.forget_link(link.value as u32, id);
            }
        }
        return Ok(());
    }
    let dirty: Vec<Block> =
        files.tree.log.blocks.all().filter(|&b| files.tree.log.blocks.get(b).state == State::Dirty).collect();
    for directory in [UNLINKED_ID, DELETED_ID] {
        gone.extend(files.tree.objects.children(directory));
    }
    if files.options.empty_lost_and_found && mounted_by_scan && !unfinished.damaged {
        files.tree.list_tree(LOST_ID, &mut gone);
    }
    if !dirty.is_empty() || !gone.is_empty() {
        files.tree.log.erase_checkpoint()?;
    }
    for block in dirty {
        files.tree.log.erase(block)?;
    }
    // Collecting would write what is behind a file's end once more, as if it were new.
    for &(id, chunk, size) in &unfinished.untrimmed {
        files.trim_chunk(id, chunk, size)?;
    }
    files.unfilled = unfinished.longer.iter().copied().collect();
    // Collecting would take the mark of replacement away, before there is a header that says that they are gone.
    files.collector.paused = true;
    let deleted = unfinished.replaced.iter().try_for_each(|&id| match files.tree.objects.get(id) {
        Some(object) if object.parent == UNLINKED_ID => files.delete_object(id),
        _ => Ok(()),
    });
    files.collector.paused = false;
    deleted?;
    for id in gone {
        if files.tree.objects.get(id).is_none() {
            continue;
        }
        match files.delete_object(id) {
            // It stays where nobody sees it, until a mount finds space.
            Err(Error::NoSpace) => break,
            deleted => deleted?,
        }
    }
    for (id, _) in &unfinished.longer {
        files.fill_lost_chunks(*id)?;
    }
    Ok(())
}

/// Hard links that have the very name of what they name: a rename that was cut short has left them.
fn stand_ins(files: &mut Files) -> Vec<u32> {
    let pairs = files.tree.links.iter().flat_map(|(&target, links)| links.iter().map(move |&link| (target, link)));
    let parent = |id: u32| files.tree.objects.get(id).map(|object| object.parent);
    let beside: Vec<(u32, u32)> = pairs.filter(|&(target, link)| parent(target) == parent(link)).collect();
    let mut name = |id: u32| files.tree.load(id).map(|detail| detail.name.clone()).ok();
    beside
        .into_iter()
        .filter(|&(target, link)| name(link).is_some_and(|n| name(target) == Some(n)))
        .map(|(_, link)| link)
        .collect()
}
