//! What becomes of an inode when a name of it goes.

use crate::contents;
use crate::inodes::{Node, State};
use crate::parts::Parts;
use crate::store::Transaction;
use std::sync::atomic::Ordering;

/// What a transaction that removed a name does to the inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Other names, or users, are left.
    Stays,
    /// It was freed by the transaction.
    Freed,
    /// It has no name and no user, but more huge pages than one transaction can free.
    Doomed,
}

/// Adds the loss of a name (of a directory: of its only one) to a transaction.
pub(crate) fn stage_unlink(parts: &Parts, tx: &mut Transaction, node: &Node, state: &mut State) -> Fate {
    let left = if state.record.is_directory() { 0 } else { state.record.links.saturating_sub(1) };
    state.record.ctime_ns = parts.store.now();
    state.record.links = left;
    let segments = state.body.extents().len();
    let fate = if left > 0 || node.pins.load(Ordering::Acquire) > 0 {
        Fate::Stays
    } else if segments > parts.store.layout.segments_per_transaction() / 2 {
        Fate::Doomed
    } else {
        Fate::Freed
    };
    if fate == Fate::Freed {
        contents::stage_free(parts, tx, node.ino, state);
    } else {
        let (at, version) = parts.next_version(node.ino, state);
        tx.bytes(at, &version);
    }
    fate
}

/// Does what is left to do when the transaction is durable.
pub(crate) fn finish_unlink(parts: &Parts, node: &Node, state: &mut State, fate: Fate) {
    match fate {
        Fate::Stays => {}
        Fate::Freed => contents::release(parts, node.ino, state),
        Fate::Doomed => contents::free_inode(parts, node.ino, state),
    }
}
