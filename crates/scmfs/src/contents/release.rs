//! The end of an inode: its space and its number come back.

use super::drop_segments;
use crate::Ino;
use crate::inodes::State;
use crate::parts::Parts;
use crate::store::Transaction;
use pocketstone_media::Durable;

/// Frees an inode that has no name and no user.
pub(crate) fn free_inode(parts: &Parts, ino: Ino, state: &mut State) {
    let limit = parts.store.layout.segments_per_transaction() / 2;
    while state.body.extents().len() > limit {
        let from = state.body.extents()[state.body.extents().len() - limit].0;
        drop_segments(parts, ino, state, state.record, from..u32::MAX);
    }
    let mut tx = Transaction::new();
    stage_free(parts, &mut tx, ino, state);
    parts.store.commit(tx, Durable::nothing_new()).done();
    release(parts, ino, state);
}

/// Adds the freeing of an inode, huge pages included. The record is kept for `release`.
pub(crate) fn stage_free(parts: &Parts, tx: &mut Transaction, ino: Ino, state: &mut State) {
    let gone: Vec<u32> = state.body.extents().iter().map(|(_, segment)| *segment).collect();
    tx.unmap(&parts.store.layout, &gone);
    let record = state.record;
    state.record = record.freed();
    let (at, version) = parts.next_version(ino, state);
    tx.bytes(at, &version);
    state.record = record;
}

/// Gives the space and number of an inode back that the medium says is free.
pub(crate) fn release(parts: &Parts, ino: Ino, state: &mut State) {
    let record = state.record;
    let segments: Vec<u32> = state.body.take_extents().into_iter().map(|(_, segment)| segment).collect();
    parts.space.free_segments(&segments);
    let list = state.body.list().to_vec();
    state.body.set_run(0, 0);
    state.index = None;
    state.stale = false;
    state.grown = false;
    state.record = record.freed();
    // Forgotten before its number can be given out again.
    parts.inodes.forget(ino);
    let content = list.iter().map(|extent| (extent.start, extent.pages));
    let rest = [(record.xattr_start, record.xattr_pages), (record.list_start, record.list_pages)];
    parts.space.free_runs(content.chain(rest));
    parts.space.retire(ino, record.run_start, record.run_pages);
}
