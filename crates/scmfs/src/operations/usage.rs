//! How much space there is, and where.

use crate::format::extents::{EXTENTS_MAX, list_bytes};
use crate::format::layout::SLOT_BYTES;
use crate::parts::Parts;
use crate::{Ino, Statfs, Usage};

/// Space and inode counts for statfs. Null files count as free, preallocated space as used. Free inodes include those
/// that free huge pages could provide.
pub(crate) fn statfs(parts: &Parts) -> Statfs {
    let nulls = parts.space.nulls();
    let alloc = parts.space.alloc();
    let (layout, pages) = (&parts.store.layout, u64::from(parts.store.layout.pages_per_segment()));
    let (per_chunk, used) = (layout.inodes_per_chunk(), alloc.inodes.used_in_chunks());
    // The last chunks of the inode table, if they hold null files at most: they come back when asked for.
    let mut idle = 0;
    while idle < used.len() {
        let chunks = used.len() - idle - 1;
        let before = layout.inodes + chunks as u32 * per_chunk;
        let busy: u32 = used[chunks..].iter().sum();
        if busy as usize != nulls.after(before) {
            break;
        }
        idle += 1;
    }
    let (idle, nulls) = (idle as u64, nulls.len() as u64);
    let huge = u64::from(alloc.free_segments()) + idle;
    let free_blocks = alloc.free_pages() + huge * pages + nulls;
    let could_be = free_blocks / pages * u64::from(per_chunk);
    let could_be = could_be.min(u64::from(u32::MAX - 2 - layout.last_inode()));
    let there = u64::from(layout.last_inode()) - idle * u64::from(per_chunk);
    let in_use = u64::from(layout.last_inode() - alloc.inodes.free_count()) - nulls;
    let runs = alloc.free_run_count();
    Statfs::new(layout.page as u32)
        .blocks(u64::from(alloc.segment_count()) * pages)
        .free_blocks(free_blocks)
        .available_blocks(available(parts, free_blocks, huge, runs, there - in_use))
        .inodes(there + could_be)
        .free_inodes(there - in_use + could_be)
}

/// Space usage.
pub(crate) fn usage(parts: &Parts) -> Usage {
    let volume_bytes = parts.store.superblock().bytes;
    let listed_files = listed_files(parts);
    let (collections, collected_bytes) = parts.space.effort.collected();
    let nulls = parts.space.nulls();
    let alloc = parts.space.alloc();
    let free_runs = alloc.free_runs(0..alloc.segment_count() * parts.store.layout.pages_per_segment());
    let longest = free_runs.iter().map(|(_, pages)| *pages).max().unwrap_or(0);
    let null_files = nulls.len() as u32;
    let (page, huge) = (parts.store.layout.page, parts.store.layout.huge);
    let chunks = parts.store.layout.chunks.count();
    let files = alloc.segment_count() - alloc.free_segments() - alloc.small_segments() - chunks;
    Usage {
        volume_bytes,
        max_bytes: parts.store.layout.max_bytes,
        metadata_bytes: parts.store.layout.data_at + u64::from(chunks) * huge,
        small_zone_bytes: u64::from(alloc.small_segments()) * huge,
        small_free_bytes: alloc.free_pages() * page,
        small_free_runs: free_runs.len() as u64,
        small_longest_run_bytes: u64::from(longest) * page,
        listed_files,
        huge_used_bytes: u64::from(files) * huge,
        huge_free_bytes: u64::from(alloc.free_segments()) * huge,
        null_bytes: u64::from(null_files) * page,
        null_files,
        inodes_used: parts.store.layout.last_inode() - alloc.inodes.free_count() - null_files,
        inodes: parts.store.layout.last_inode(),
        windows: parts.windows.count(),
        collected_bytes,
        collections,
        threshold: parts.store.threshold,
        checksums: parts.store.layout.checks_at.is_some(),
        persistence: parts.store.medium.persistence(),
    }
}

/// Small pages that the contents of new files can have, be it one file or as many as there are pages, with
/// names of at most 48 bytes in one directory. The lesser of two:
///
/// * One file may need a list of all that is free in pieces, and the list is written anew beside the old one:
///   free - 2 x list(runs).
/// * n files of one page need, beside these, their names (64 bytes each) and a page that is not filled up, the
///   list of that directory twice, and huge pages for the inodes that are missing. Where no huge page is free,
///   small ones have to move out of one, and each may need a page for a list: the largest n with
///   n + names + 2 x list(names) + inodes + moves <= free.
fn available(parts: &Parts, free: u64, huge: u64, runs: u64, inodes: u64) -> u64 {
    let list = |extents: u64| parts.store.layout.pages(list_bytes((extents as usize).min(EXTENTS_MAX)) as u64);
    let one = free.saturating_sub(2 * list(runs + 1));
    let (pages, per_chunk) =
        (u64::from(parts.store.layout.pages_per_segment()), u64::from(parts.store.layout.inodes_per_chunk()));
    let needed = |files: u64| {
        let names = parts.store.layout.pages(files * SLOT_BYTES) + 1;
        let chunks = files.saturating_sub(inodes).div_ceil(per_chunk);
        let moves = chunks.saturating_sub(huge) * pages;
        files + names + 2 * list(names) + chunks * pages + moves
    };
    let (mut low, mut high) = (0, one);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if needed(middle) <= free { low = middle } else { high = middle - 1 }
    }
    low
}

/// Files with a list of extents, as far as it is stored.
fn listed_files(parts: &Parts) -> u32 {
    let used: Vec<Ino> = parts.space.alloc().inodes.used().collect();
    let stored = used.iter().filter_map(|ino| parts.inodes.stored(&parts.store, *ino));
    stored.filter(|record| record.list_extents > 0).count() as u32
}
