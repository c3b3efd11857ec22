//! The end of an inode: when its last name goes, and its last user.

use crate::Ino;
use crate::journal::Transaction;
use crate::node::{Node, State};
use crate::volume::Inner;
use pocketstone_media::Durable;
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

impl Inner {
    /// Adds the loss of a name (of a directory: of its only one) to a transaction.
    pub fn stage_unlink(&self, tx: &mut Transaction, node: &Node, state: &mut State) -> Fate {
        let left = if state.record.is_directory() { 0 } else { state.record.links.saturating_sub(1) };
        state.record.ctime_ns = self.now();
        state.record.links = left;
        let segments = state.body.extents().len();
        let fate = if left > 0 || node.pins.load(Ordering::Acquire) > 0 {
            Fate::Stays
        } else if segments > self.segments_per_transaction() / 2 {
            Fate::Doomed
        } else {
            Fate::Freed
        };
        if fate == Fate::Freed {
            self.stage_free(tx, node.ino, state);
        } else {
            let (at, version) = self.next_version(node.ino, state);
            tx.bytes(at, &version);
        }
        fate
    }

    /// Adds the freeing of an inode, huge pages included. The record is kept for `release`.
    fn stage_free(&self, tx: &mut Transaction, ino: Ino, state: &mut State) {
        let gone: Vec<u32> = state.body.extents().iter().map(|(_, segment)| *segment).collect();
        self.unmap_segments(tx, &gone);
        let record = state.record;
        state.record = record.freed();
        let (at, version) = self.next_version(ino, state);
        tx.bytes(at, &version);
        state.record = record;
    }

    /// Does what is left to do when the transaction is durable.
    pub fn finish_unlink(&self, node: &Node, state: &mut State, fate: Fate) {
        match fate {
            Fate::Stays => {}
            Fate::Freed => self.release(node.ino, state),
            Fate::Doomed => self.free_inode(node.ino, state),
        }
    }

    /// Frees an inode that has no name and no user.
    pub fn free_inode(&self, ino: Ino, state: &mut State) {
        let limit = self.segments_per_transaction() / 2;
        while state.body.extents().len() > limit {
            let from = state.body.extents()[state.body.extents().len() - limit].0;
            self.drop_segments(ino, state, state.record, from..u32::MAX);
        }
        let mut tx = Transaction::new();
        self.stage_free(&mut tx, ino, state);
        self.commit(tx, Durable::nothing()).done();
        self.release(ino, state);
    }

    /// Gives the space and number of an inode back that the medium says is free.
    fn release(&self, ino: Ino, state: &mut State) {
        let record = state.record;
        let segments: Vec<u32> = state.body.take_extents().into_iter().map(|(_, segment)| segment).collect();
        self.free_segments(&segments);
        state.body.set_run(0, 0);
        state.index = None;
        state.stale = false;
        state.record = record.freed();
        // Forgotten before its number can be given out again.
        self.drop_node(ino);
        self.free_xattr_pages(record.xattr_start, record.xattr_pages);
        self.retire(ino, record.run_start, record.run_pages);
    }
}
