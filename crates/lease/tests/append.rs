//! A model of appends without the kernel: one client at a time has a file's end, by a lease, and settles with the
//! server what is appended by one word that both change. All orders in which steps can happen are gone through; then
//! rules are broken one by one, to see that each is needed and that the model notices.
//!
//! **The word** holds the size, whether the lease is valid and which one it is, and whether an append is under way. A
//! client makes it busy, stores behind the size if it still has the lease once it knows where that is, and replaces it
//! by one with the new size, if it is still what it was. The server takes a lease back by taking the word: what has
//! been settled counts, what has not is the kernel's to do.
//!
//! **Nobody waits.** Whoever was busy may go on storing behind the end, for who knows how long. So the file does not go
//! on growing in that page: it gets another one, and the old one is free once the store has ended.
//!
//! **The kernel** takes the file to be as long as the lease may make it. So it asks the server for what it might miss:
//! a short answer tells it the end. Whatever else tells it the end takes the lease back. Its own appends, which it puts
//! behind the end that it knows, arrive at the server's end; what it holds at the wrong place it forgets before
//! write(2) returns.
//!
//! Not here: what a direct read and overwrite inside the file need (`protocol.rs`), and that Linux fills the rest of
//! what it asked for with zeros if another answer told it an end meanwhile.

#[path = "append/model.rs"]
mod model;
#[path = "support/pages.rs"]
mod pages;
mod support;

use model::Op::*;
use model::{Fault, Invariant, Model, Op};
use support::{FIRST, breaks, holds};

const APPENDS: &[Op] = &[Append, Append];

#[test]
fn one_appends_and_the_kernel_reads() {
    for op in [KernelRead, Splice, Stat] {
        holds(&Model::new(&[APPENDS, &[op, op]]));
        holds(&Model { clients_stand_still: true, ..Model::new(&[&[Append], &[op], &[TakeForOther]]) });
    }
    holds(&Model::new(&[&[Append], &[KernelRead], &[Stat]]));
    holds(&Model::new(&[&[Append], &[Splice], &[Stat]]));
}

#[test]
fn two_append_without_the_kernel() {
    holds(&Model::new(&[APPENDS, APPENDS]));
    holds(&Model { clients_stand_still: true, ..Model::new(&[&[Append], &[Append], &[TakeForOther]]) });
}

#[test]
fn two_threads_append() {
    holds(&Model { threads: true, ..Model::new(&[APPENDS, APPENDS]) });
}

#[test]
fn programs_without_the_library_append_too() {
    holds(&Model::new(&[APPENDS, &[KernelAppend, KernelAppend]]));
    holds(&Model::new(&[&[Append], &[KernelAppend], &[KernelRead]]));
    holds(&Model { clients_stand_still: true, ..Model::new(&[&[Append], &[KernelAppend], &[Stat]]) });
}

#[test]
fn the_file_is_cut() {
    holds(&Model::new(&[&[Append], &[Truncate], &[KernelAppend]]));
    holds(&Model::new(&[APPENDS, &[Truncate, KernelRead], &[TakeForOther]]));
}

#[test]
fn another_one_reads_without_the_kernel() {
    holds(&Model::new(&[APPENDS, &[DirectRead]]));
    holds(&Model::new(&[&[Append], &[DirectRead, DirectRead]]));
}

#[test]
fn what_is_synchronised_is_there_if_the_server_dies() {
    holds(&Model::new(&[&[Append, Sync], &[KernelRead]]));
    holds(&Model::new(&[&[Append, Sync], &[Append, Sync]]));
    holds(&Model::new(&[&[Append], &[Sync, Sync], &[KernelAppend]]));
}

#[test]
fn a_client_dies_while_it_appends() {
    for ops in [[KernelAppend, KernelRead], [Stat, Splice], [Truncate, Stat]] {
        holds(&Model { mortal: FIRST, ..Model::new(&[APPENDS, &ops, &[TakeForOther]]) });
    }
    holds(&Model { mortal: FIRST | 2, ..Model::new(&[&[Append, Sync], &[Append, Sync]]) });
}

#[test]
fn a_size_that_is_stored_blindly_undoes_what_others_did() {
    breaks(Fault::PublishedBlindly, Invariant::Content, Model::new(&[&[Append], &[KernelAppend]]));
}

#[test]
fn a_size_that_is_seen_early_shows_what_is_not_there() {
    breaks(Fault::PublishedEarly, Invariant::Content, Model::new(&[&[Append], &[Stat]]));
}

#[test]
fn a_place_that_is_looked_up_after_the_lease_was_lost_is_overwritten() {
    breaks(Fault::PlaceNotSettled, Invariant::Content, Model::new(&[&[Append], &[KernelAppend]]));
}

#[test]
fn an_append_by_a_lease_that_was_lost_is_not_one_by_the_next() {
    let model = Model { threads: true, ..Model::new(&[&[Append], &[Append]]) };
    breaks(Fault::LeaseNotNumbered, Invariant::Content, model);
}

#[test]
fn two_threads_that_are_not_kept_apart_store_to_the_same_place() {
    let model = Model { threads: true, ..Model::new(&[&[Append], &[Append]]) };
    breaks(Fault::NotBusy, Invariant::Content, model);
}

#[test]
fn a_file_that_grows_where_a_store_still_runs_is_overwritten() {
    breaks(Fault::NotMoved, Invariant::Content, Model::new(&[&[Append], &[KernelAppend]]));
}

#[test]
fn a_page_that_a_store_still_runs_in_is_not_free() {
    let model = || Model::new(&[&[Append], &[Stat], &[TakeForOther]]);
    breaks(Fault::NoQuarantine, Invariant::Reuse, model());
    breaks(Fault::SlotNotSet, Invariant::Reuse, model());
}

#[test]
fn a_kernel_that_knows_a_size_does_not_ask_for_more() {
    breaks(Fault::ToldWithoutTaking, Invariant::Read, Model::new(&[APPENDS, &[Stat, Splice]]));
    breaks(Fault::NotRaised, Invariant::Read, Model::new(&[&[Append], &[Splice]]));
    breaks(Fault::GivenBlindly, Invariant::Read, Model::new(&[&[Append], &[Stat, Splice]]));
}

#[test]
fn what_the_kernel_holds_at_the_wrong_place_is_read_there() {
    let model = Model::new(&[&[Append], &[KernelAppend, KernelAppend], &[Splice, Splice]]);
    breaks(Fault::MisplacedKept, Invariant::Read, model);
}

#[test]
fn a_direct_read_that_knows_of_no_lease_ends_too_early() {
    breaks(Fault::LeaseNotLookedAt, Invariant::Read, Model::new(&[&[Append], &[DirectRead]]));
}

#[test]
fn an_fsync_that_takes_nothing_over_keeps_nothing() {
    breaks(Fault::SyncWithoutTaking, Invariant::Durable, Model::new(&[&[Append, Sync], &[Stat]]));
}

#[test]
fn a_server_that_waits_for_an_append_waits_for_clients() {
    let model = Model { clients_stand_still: true, ..Model::new(&[&[Append], &[Stat]]) };
    breaks(Fault::WaitsForBusy, Invariant::ServerWaits, model);
}
