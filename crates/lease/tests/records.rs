//! A model of records of sizes: a client that has a file's end by a lease makes the size durable that it has given the
//! file, by a record in the region, while the server stores sizes, takes leases, gives them to others, cuts the file,
//! and gives the record to another file. All orders in which steps can happen are gone through; then rules are broken
//! one by one, to see that each is needed and that the model notices.
//!
//! **A record counts** if it is of the version of the inode that is stored. So whatever stores a version voids it, and
//! has the size in it: the server makes the table's sequence odd before it looks at the lease, and the client goes by
//! what it saw of both while that was even.
//!
//! **A record is one process's** at a time: its threads come one after the other by the lease, which is busy meanwhile.
//! Whoever was busy when the lease was taken may go on storing to the record: so the next one gets another, and this
//! one is no file's before the size is stored and the store has ended.
//!
//! Not here: words that a crash tears (`size_record.rs` in `media`), and what appends need (`append.rs`).

#[path = "records/model.rs"]
mod model;
#[path = "support/pages.rs"]
mod pages;
mod support;

use model::Op::*;
use model::{Fault, Invariant, Model, Op};
use support::{FIRST, breaks, holds};

const APPEND_AND_SYNC: &[Op] = &[Append, Sync, Append, Sync];
const TWICE: &[Op] = &[Append, Sync];

#[test]
fn one_synchronises_while_the_server_changes_the_inode() {
    for op in [Store, Take, Cut, Idle] {
        holds(&Model::new(&[APPEND_AND_SYNC, &[op, op]]));
        holds(&Model::new(&[TWICE, &[op], &[Store]]));
        holds(&Model { clients_stand_still: true, ..Model::new(&[TWICE, &[op], &[Store]]) });
    }
    holds(&Model::new(&[TWICE, &[Take, Idle], &[OtherTakes]]));
}

#[test]
fn two_have_the_end_one_after_the_other() {
    holds(&Model::new(&[APPEND_AND_SYNC, TWICE]));
    holds(&Model::new(&[TWICE, TWICE, &[Store], &[OtherTakes]]));
    holds(&Model::new(&[TWICE, TWICE, &[Take, Cut]]));
}

#[test]
fn two_threads_synchronise() {
    holds(&Model { threads: true, ..Model::new(&[APPEND_AND_SYNC, TWICE]) });
    holds(&Model { threads: true, ..Model::new(&[TWICE, TWICE, &[Store, Take]]) });
}

#[test]
fn a_client_dies_while_it_records() {
    holds(&Model { mortal: FIRST, ..Model::new(&[APPEND_AND_SYNC, TWICE, &[OtherTakes]]) });
    holds(&Model { mortal: FIRST, ..Model::new(&[APPEND_AND_SYNC, &[Take, Idle], &[OtherTakes]]) });
}

#[test]
fn a_version_whose_size_was_looked_at_too_early_voids_what_was_recorded() {
    breaks(Fault::SizeLookedAtFirst, Invariant::Durable, Model::new(&[TWICE, &[Store]]));
}

#[test]
fn a_record_that_counts_with_any_version_undoes_what_was_cut() {
    breaks(Fault::AnyVersion, Invariant::Longer, Model::new(&[TWICE, &[Cut]]));
}

#[test]
fn a_head_that_changes_under_a_size_takes_it_along() {
    let longer_before = &[Append, Append, Sync, Append, Sync];
    breaks(Fault::SizeKept, Invariant::Longer, Model::new(&[longer_before, &[Cut]]));
}

#[test]
fn threads_that_are_not_kept_apart_undo_what_the_other_recorded() {
    let model = Model { threads: true, ..Model::new(&[APPEND_AND_SYNC, TWICE]) };
    breaks(Fault::NotBusy, Invariant::Durable, model);
}

#[test]
fn a_record_that_somebody_stores_to_is_not_the_next_ones() {
    breaks(Fault::NotRetired, Invariant::Durable, Model::new(&[APPEND_AND_SYNC, TWICE, &[Store]]));
}

#[test]
fn a_record_is_given_to_another_file_only_once_the_size_is_stored_and_nobody_stores_there() {
    let model = || Model::new(&[TWICE, &[Take, Idle], &[OtherTakes]]);
    let taken_while_busy = Model::new(&[APPEND_AND_SYNC, &[Take], &[OtherTakes]]);
    breaks(Fault::GivenBackUnstored, Invariant::Durable, taken_while_busy);
    breaks(Fault::NoQuarantine, Invariant::Reuse, model());
    breaks(Fault::SlotNotSet, Invariant::Reuse, model());
}
