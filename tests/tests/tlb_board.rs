//! Misses of data TLBs on a virtual board, counted by a plugin of QEMU.

use pocketstone_board::{Board, Measured};
use pocketstone_core::database::Conditions;
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::FileSystem;
use pocketstone_study::results::store::log_digest;
use pocketstone_testing::{amount, or_skip, program, say};
use pocketstone_tests::command::{lab, run as run_program, write};
use pocketstone_tests::{measure, plan, qemu, virtual_board};
use pocketstone_workload::{CommandSpec, Workload};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

fn cell(board: &Board, trace: bool, processor: Option<&str>) -> Measured {
    let mut plan = plan(FileSystem::Jffs2, Pattern::Random, 16, 128 << 10, 1);
    plan.trace = trace;
    plan.tlb = processor.map(str::to_owned);
    measure(board, &plan)
}

/// The twin with the plugin has the times of the one without, to the bit; its counts are the same each time, and every
/// call's times have their place among the machine's instructions.
#[test]
fn counting_changes_no_time_and_gives_the_same_counts_each_time() {
    let board = or_skip!(virtual_board());
    let plain = cell(&board, false, None);
    assert!(plain.tlb.is_none());
    // The plugin may have to be compiled first.
    cell(&board, false, Some("cortex-a15"));
    let begin = Instant::now();
    cell(&board, false, None);
    let plain_s = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let counted = cell(&board, false, Some("cortex-a15"));
    let (counted_s, tlb) = (begin.elapsed().as_secs_f64(), counted.tlb.clone().expect("counts"));
    assert_eq!(log_digest(&counted), log_digest(&plain));
    assert!(counted_s < 20.0 * plain_s, "{plain_s} s, {counted_s} s");
    let runs = amount(2, 20);
    for run in 0..runs {
        assert_eq!(cell(&board, false, Some("cortex-a15")).tlb, Some(tlb.clone()), "run {run}");
    }
    let ratio = counted_s / plain_s;
    say(&format!("{runs} of {runs} repetitions count the same; a cell takes {ratio:.1} times as long on the host"));
}

/// The kernel's events of a traced twin say which thread had the processor: every switch among them is a switch of the
/// machine, and what its threads missed adds up to what was counted.
#[test]
fn misses_are_split_among_threads_by_the_kernels_switches() {
    let board = or_skip!(virtual_board());
    let mut plan = plan(FileSystem::Jffs2, Pattern::Random, 1, 128 << 10, 1);
    plan.workload = Workload::Command(CommandSpec {
        line: "seq 1000 | sort -n | tail -n 1; for n in 1 2 3; do dd if=/dev/zero of=f$n bs=64k count=4; sync; done"
            .into(),
        files: None,
        cold: false,
        conditions: Conditions::default(),
    });
    plan.trace = true;
    plan.tlb = Some("cortex-a15".into());
    let measured = measure(&board, &plan);
    let (tlb, events) = (measured.tlb.expect("counts"), measured.events.expect("events"));
    let of_command = measured.outcome.command.expect("a command").threads;
    let (own, others) = tlb.by_thread(&of_command, &events).unwrap();
    let mut sum = others;
    own.iter().for_each(|counts| sum.add(counts));
    assert_eq!(sum, tlb.run);
    assert!(own.len() > 3 && own.iter().all(|counts| counts.walks > 0) && others.walks > 0, "{own:?}, {others:?}");
}

/// Goes round by pointers, each in a page of its own: so many pages, so many rounds.
const CHASE: &str = r#"
#include <stdlib.h>
#include <sys/mman.h>

int main(int count, char **words) {
    long pages = atol(words[1]), rounds = atol(words[2]);
    char *memory = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (count != 3 || memory == MAP_FAILED) return 1;
    /* 389 is a prime that divides no number of pages here. */
    for (long n = 0; n < pages; n++)
        *(void **)(memory + n * 389 % pages * 4096) = memory + (n + 1) * 389 % pages * 4096;
    void **at = (void **)memory;
    for (long step = 0; step < pages * rounds; step++) __asm__ volatile("ldr %0, [%0]" : "+r"(at));
    return at != (void **)memory;
}
"#;

/// What more rounds add, by the command: accesses, first-level misses and page walks of each round.
fn of_a_round(home: &Path, pages: u64) -> [f64; 3] {
    const ROUNDS: [u64; 2] = [10, 2010];
    let counts = ROUNDS.map(|rounds| {
        let words = ["tlb", "--json", "--", "./chase", &pages.to_string(), &rounds.to_string()];
        let said = lab(home, &words).ends_with(0);
        let found: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
        assert_eq!(found[0]["processor"], "cortex-a15", "{said}");
        ["accesses", "first_level_misses", "walks"].map(|name| found[0]["counts"][name].as_f64().expect("a count"))
    });
    [0, 1, 2].map(|n| (counts[1][n] - counts[0][n]) / (ROUNDS[1] - ROUNDS[0]) as f64)
}

/// Under Linux as well as on a machine without one: a Cortex-A15 has 32 entries in its first level, and 512 in sets of
/// four. 256 pages miss the first level at every step and walk never again; 1024 walk at every step. The kernel
/// adds its part, by its timer.
#[test]
fn a_chase_of_pointers_on_the_board_misses_what_it_must() {
    or_skip!(qemu());
    let compiler = or_skip!(program("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"));
    let home = tempfile::tempdir().expect("a temporary folder");
    write(home.path(), "chase.c", CHASE);
    let mut compile = Command::new(compiler);
    run_program(compile.args(["-O1", "-static", "-o", "chase", "chase.c"]).current_dir(home.path())).ends_with(0);
    for (pages, walks) in [(256, 0.0), (1024, 1024.0)] {
        let [accesses, misses, walked] = of_a_round(home.path(), pages);
        let steps = pages as f64;
        say(&format!("{pages} pages, a round: {accesses:.1} accesses, {misses:.1} misses, {walked:.1} walks"));
        // The kernel's interrupts access memory of their own, which is in the TLB already.
        for (found, known, more) in [(accesses, steps, 0.1), (misses, steps, 0.01), (walked, walks, 0.01)] {
            let within = (-0.001 * steps..=more * steps).contains(&(found - known));
            assert!(within, "{pages} pages: {found}, not {known}");
        }
    }
}

#[test]
fn what_cannot_be_counted_is_said_with_what_would_help() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let tlb = |words: &[&str]| lab(home.path(), &[&["tlb"][..], words].concat());
    tlb(&[]).ends_with(2).complains(&["COMMAND"]);
    tlb(&["--"]).ends_with(2).complains(&["COMMAND"]);
    tlb(&["--", "./none"]).ends_with(1).complains(&["there is no file ./none", "--files"]);
    tlb(&["--board", "nowhere", "--", "true"]).ends_with(1).complains(&["unknown board `nowhere`", "virt-nand"]);
    tlb(&["--processor", "z80", "--", "true"]).ends_with(1).complains(&["z80", "cortex-a15"]);
    tlb(&["--board", "host", "--", "true"]).ends_with(4).complains(&["cannot be observed", "choose a virtual board"]);
    tlb(&["--set", "file_system=jffs2,ubifs", "--", "true"]).ends_with(1).complains(&["one value for each --set"]);
    tlb(&["--set", "file_system=scmfs", "--", "true"]).ends_with(1).complains(&["a command", "scmfs-fuse"]);
    or_skip!(qemu());
    tlb(&["--", "no-such-program"]).ends_with(4).complains(&["no-such-program", "status 127", "--files"]);
    tlb(&["--", "false"]).ends_with(4).complains(&["status 1"]);
}
