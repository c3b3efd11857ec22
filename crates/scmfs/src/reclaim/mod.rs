//! Making space where there is none: what was given ahead of need comes back, and what is in the way moves.

mod merge;
mod mover;
mod take;

pub(crate) use merge::merge_lists;
pub(crate) use mover::empty_segment;
pub(crate) use take::{take_free_run, take_inode, take_list, take_run, take_segments, take_small};

use crate::contents;
use crate::format::extents::EXTENTS_MAX;
use crate::inodes::{Body, State};
use crate::parts::Parts;
use crate::{Error, Ino, TimeNs};

/// Others move out of a huge page for a large file if they have not more than this part of it.
pub(crate) const CHEAP: u32 = 8;

/// Gives back at least `goal` bytes if it can: surplus null files first, then what was preallocated
/// for files beyond their ends, that of the least recently modified ones first; last, huge pages that
/// serve the small-page zone beyond its reserve and hold nothing. The bytes given back.
pub(crate) fn collect(parts: &Parts, goal: u64) -> u64 {
    if parts.store.read_only() {
        return 0;
    }
    let effort = &parts.space.effort;
    effort.begun();
    let mut freed = parts.space.release_nulls(0);
    let changes = effort.changes();
    if freed < goal && !effort.tails.failed_at(changes) {
        let before = freed;
        let mut tails = tails(parts);
        tails.sort_unstable();
        for (_, ino) in tails {
            freed += cut_tail(parts, ino);
            if freed >= goal {
                break;
            }
        }
        if freed == before {
            effort.tails.fail(changes);
        }
    }
    parts.space.return_idle(&parts.store);
    effort.gave_back(freed);
    freed
}

/// Files with preallocated space, and when they were last modified. Only what is stored is looked
/// at: good enough to choose by.
fn tails(parts: &Parts) -> Vec<(TimeNs, Ino)> {
    let used: Vec<Ino> = parts.space.alloc().inodes.used().collect();
    let has_tail = |ino: &Ino| {
        let record = parts.inodes.stored(&parts.store, *ino)?;
        let space = u64::from(record.run_pages) * parts.store.layout.page
            + u64::from(record.segments) * parts.store.layout.huge;
        let has_tail = record.list_extents > 0 || space >= record.size.saturating_add(parts.store.layout.page);
        (has_tail && !record.is_free() && !record.reserved).then_some((record.mtime_ns, *ino))
    };
    used.iter().filter_map(has_tail).collect()
}

/// Cuts a file's space down to its size; the bytes given back. Files in use right now are left alone.
fn cut_tail(parts: &Parts, ino: Ino) -> u64 {
    let Ok(node) = parts.node(ino) else { return 0 };
    let Some(mut state) = node.try_write() else { return 0 };
    let record = state.record;
    if record.is_free() || record.reserved || record.is_directory() && state.record.size > 0 {
        return 0;
    }
    if !state.body.list().is_empty() {
        let mut beyond = false;
        state.body.each_piece(|offset, _, bytes| {
            let unit = if bytes == parts.store.layout.huge { parts.store.layout.huge } else { parts.store.layout.page };
            beyond |= offset + bytes > record.size.next_multiple_of(unit);
        });
        return if beyond { contents::cut(parts, ino, &mut state, record) } else { 0 };
    }
    if state.body.is_huge() {
        let first = record.size.div_ceil(parts.store.layout.huge) as u32;
        let gone = state.body.extents().iter().filter(|(index, _)| *index >= first).count() as u64;
        if gone > 0 {
            contents::drop_segments(parts, ino, &mut state, record, first..u32::MAX);
        }
        return gone * parts.store.layout.huge + split_tail(parts, ino, &mut state);
    }
    let keep = parts.store.layout.pages(record.size).min(u64::from(record.run_pages)) as u32;
    if keep < record.run_pages {
        let (start, pages) = contents::shorten_run(parts, ino, &mut state, record, keep);
        parts.space.free_pages(start, pages);
    }
    u64::from(record.run_pages - keep) * parts.store.layout.page
}

/// Gives back the small pages of a file's last huge page that its size does not reach; the bytes.
fn split_tail(parts: &Parts, ino: Ino, state: &mut State) -> u64 {
    let (before, pages) = (state.body.extents().len(), u64::from(parts.store.layout.pages_per_segment()));
    let content = parts.store.layout.pages(state.record.size);
    let end = content.next_multiple_of(pages);
    // Whoever finds no page for a list collects: here that would go round.
    let list = |old: &Body, new: &Body| match contents::list_pages(parts, old, new) {
        0 => Ok((0, 0)),
        _ if new.list().len() > EXTENTS_MAX => Err(Error::NoSpace),
        pages => parts.space.alloc().take_pages(pages).map(|start| (start, pages)).ok_or(Error::NoSpace),
    };
    contents::drop_small(parts, ino, state, &(content..end), list);
    if state.body.extents().len() < before { (end - content) * parts.store.layout.page } else { 0 }
}
