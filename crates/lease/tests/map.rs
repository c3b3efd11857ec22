//! A model of mapped files: a client maps a file's page and stores to it without looking at anything, beside the
//! server, which changes the file and gives pages to others, and the kernel, which reads and writes for programs
//! without the library. All orders in which steps can happen are gone through, with death at each step; then rules are
//! broken one by one, to see that each is needed and that the model notices.
//!
//! **The mark** is made before the client is told where the page lies, and under the lock by which sweeps go. It is
//! there as long as anybody has the page mapped, or may still map it: who asked, or his child. The kernel sees to that.
//!
//! **Lying still.** Whoever changes the file has its lock, and looks for the mark: the page is neither moved nor taken
//! away. What is to be zeros is zeroed in place, and cutting the file fails. So that it is known that there is a mark
//! to look for, the inode stays in memory, and in use, until a sweep finds no mark.
//!
//! **The kernel** keeps no page: each read and write of a program without the library is a request. (A mapping that a
//! process has alone keeps pages; what those show is nobody's promise.)
//!
//! **The end of the server.** Mappings outlive it. No other one opens the volume as long as there is a mark.
//!
//! Not here: what direct reads and overwrites need beside changes of the file (`protocol.rs`). They are one step.

#[path = "map/model.rs"]
mod model;
mod support;

use model::Op::*;
use model::{Fault, Invariant, Model, Op};
use support::{FIRST, breaks, holds};

const MAPS: &[Op] = &[Map, Store, Load];

#[test]
fn a_mapped_store_is_seen_by_all_others() {
    holds(&Model::new(&[MAPS, &[KernelRead, KernelRead], &[DirectRead, DirectWrite]]));
    holds(&Model::new(&[MAPS, &[KernelWrite, KernelRead], &[Map, Store, Unmap]]));
    holds(&Model { hole: true, ..Model::new(&[MAPS, &[KernelWrite, KernelRead], &[DirectRead]]) });
}

#[test]
fn a_mapped_file_is_moved_and_cut_by_nobody() {
    for change in [Move, Truncate, Punch] {
        holds(&Model { clients_stand_still: true, ..Model::new(&[MAPS, &[change], &[TakeForOther]]) });
        holds(&Model { mortal: FIRST, ..Model::new(&[MAPS, &[change, change], &[TakeForOther], &[Sweep]]) });
        holds(&Model { hole: true, ..Model::new(&[&[Map, Store], &[change], &[KernelRead], &[Evict]]) });
    }
    holds(&Model::new(&[&[Map, Store, Unmap], &[Truncate], &[Sweep, Evict], &[TakeForOther]]));
}

#[test]
fn a_file_without_a_name_lives_as_long_as_it_is_mapped() {
    let model = Model::new(&[MAPS, &[Unlink], &[Sweep, Sweep], &[TakeForOther, TakeForOther]]);
    holds(&Model { mortal: FIRST, ..model });
}

#[test]
fn a_child_has_what_its_parent_mapped() {
    for change in [Move, Truncate, Unlink] {
        let programs: &[&[Op]] =
            &[&[Map, Fork, Store], &[Inherited, Store, Load], &[change], &[Sweep], &[TakeForOther]];
        holds(&Model { mortal: FIRST, ..Model::new(programs) });
    }
}

#[test]
fn a_mapping_outlives_the_server() {
    for change in [Move, Unlink] {
        let programs: &[&[Op]] = &[MAPS, &[change], &[Restart, Restart], &[TakeForOther]];
        holds(&Model { mortal: FIRST, ..Model::new(programs) });
    }
    holds(&Model::new(&[&[Map, Fork, Unmap], &[Inherited, Store, Load], &[Restart, Move], &[TakeForOther]]));
}

#[test]
fn all_pages_come_back() {
    let model = Model { full: true, mortal: FIRST, ..Model::new(&[&[Map, Store], &[Unlink], &[MustTake], &[Sweeps]]) };
    // As long as somebody has the page mapped, whoever wants it waits.
    breaks(Fault::MarksOutliveProcesses, Invariant::Deadlock, model);
}

#[test]
fn a_server_that_waits_for_the_end_of_mappings_waits_for_clients() {
    let model = Model { clients_stand_still: true, ..Model::new(&[&[Map, Store, Unmap], &[Truncate]]) };
    breaks(Fault::ServerWaits, Invariant::ServerWaits, model);
}

#[test]
fn what_moves_leaves_the_mapping_behind() {
    breaks(Fault::MovesMarked, Invariant::Reuse, Model::new(&[&[Map, Store], &[Move]]));
}

#[test]
fn what_is_cut_off_would_be_others() {
    breaks(Fault::CutsMarked, Invariant::Reuse, Model::new(&[&[Map, Store], &[Truncate], &[TakeForOther]]));
    breaks(Fault::CutsMarked, Invariant::Reuse, Model::new(&[&[Map, Store], &[Punch], &[TakeForOther]]));
}

#[test]
fn an_inode_that_is_not_kept_forgets_that_it_is_mapped() {
    let moved = Model::new(&[&[Map, Store], &[Evict], &[Move]]);
    breaks(Fault::InodeNotKept, Invariant::Reuse, moved);
    let unlinked = Model::new(&[&[Map, Store], &[Unlink], &[TakeForOther]]);
    breaks(Fault::InodeNotKept, Invariant::Reuse, unlinked);
}

#[test]
fn a_mark_that_comes_after_the_look_comes_too_late() {
    breaks(Fault::MarkedAfterLook, Invariant::Reuse, Model::new(&[&[Map, Store], &[Move]]));
}

#[test]
fn a_mark_of_one_process_forgets_its_children() {
    let programs: &[&[Op]] = &[&[Map, Fork], &[Inherited, Store], &[Unlink], &[Sweep], &[TakeForOther]];
    breaks(Fault::MarkOfProcess, Invariant::Reuse, Model { mortal: FIRST, ..Model::new(programs) });
}

#[test]
fn pages_that_the_kernel_keeps_are_old() {
    breaks(Fault::KernelKeepsPages, Invariant::Coherence, Model::new(&[&[Map, Store], &[KernelRead, KernelRead]]));
}

#[test]
fn a_new_server_that_ignores_marks_gives_pages_away() {
    let programs: &[&[Op]] = &[&[Map, Store], &[Unlink], &[Restart], &[TakeForOther]];
    breaks(Fault::RestartIgnoresMarks, Invariant::Reuse, Model::new(programs));
}

#[test]
fn a_sweep_that_looks_without_the_lock_forgets_a_new_mapping() {
    let programs: &[&[Op]] = &[&[Map, Unmap], &[Map, Store], &[Sweep, Evict], &[Move]];
    breaks(Fault::SweepWithoutLock, Invariant::Reuse, Model::new(programs));
}
