//! `pocketstone tlb -- COMMAND`: misses of a data TLB on a virtual board.

use crate::arguments::{RunArguments, TlbArguments};
use crate::{boards, own_program, progress, screen};
use pocketstone_board::{Board, Measured, TRACES};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_study::specification::cell::cells;
use pocketstone_study::specification::traces::Traces;
use pocketstone_tlb::{Counts, Processor};
use pocketstone_workload::plan::Plan;

/// Runs the command once for each processor and prints what its data TLB would have missed.
///
/// # Errors
/// `ErrorKind::User` for an unknown processor, board or factor; `ErrorKind::Board` if the board cannot be watched or
/// the command fails.
pub fn tlb(arguments: &TlbArguments) -> Result<u8> {
    let study = own_program::study(&run_arguments(arguments))?;
    let context = boards::context()?;
    // A board takes long to boot: a name that is none is told before.
    arguments.processor.iter().try_for_each(|processor| Processor::load(&context.devices, processor).map(drop))?;
    let here = std::path::absolute(".").user(|| "cannot find the current folder".into())?;
    let mut traces = Traces::new(&context.cache.folder(TRACES)?, &here);
    let profile = boards::profile(&arguments.board)?;
    let cells = cells(&study, profile.kind().name, None, true, &mut traces)?;
    let wanted: Vec<&Plan> =
        cells.iter().map(|cell| &cell.plan).filter(|plan| plan.trace == arguments.threads).collect();
    let [plan] = wanted[..] else {
        return Err(Error::user("TLB misses are counted of one run").hint("give one value for each --set"));
    };
    let board = pocketstone_board::open(&profile, false, &context)?;
    let mut results = Vec::new();
    for processor in &arguments.processor {
        let plan = Plan { tlb: Some(processor.clone()), ..(*plan).clone() };
        board.models(&plan)?;
        results.push((processor.as_str(), count(&board, &plan)?));
    }
    progress::clear();
    match arguments.json {
        true => json(&results)?,
        false => print(arguments, &results),
    }
    Ok(0)
}

/// What was counted of one processor's TLB.
struct Counted {
    run: Counts,
    /// By thread: its name, or what is known of it.
    threads: Vec<(String, Counts)>,
    output: String,
}

fn count(board: &Board, plan: &Plan) -> Result<Counted> {
    let Measured { outcome, tlb, events, .. } = board.measure(plan).map_err(Error::from)?;
    let tlb = tlb.ok_or_else(|| Error::bug("a board that watches counted nothing"))?;
    let command = outcome.command.ok_or_else(|| Error::bug("a command was not run"))?;
    let mut threads = Vec::new();
    if let Some(events) = events {
        let (own, others) = tlb.by_thread(&command.threads, &events)?;
        let name = |thread: &u32| format!("{thread} {}", events.task(*thread).unwrap_or_default());
        threads = command.threads.iter().map(name).zip(own).collect();
        threads.sort_by_key(|(_, counted)| std::cmp::Reverse(counted.walks));
        threads.push(("others, and the kernel's".into(), others));
    }
    Ok(Counted { run: tlb.run, threads, output: command.output })
}

fn json(results: &[(&str, Counted)]) -> Result<()> {
    let of = |(processor, counted): &(&str, Counted)| {
        let threads: Vec<_> = counted
            .threads
            .iter()
            .map(|(thread, counts)| serde_json::json!({ "thread": thread, "counts": counts }))
            .collect();
        serde_json::json!({ "processor": processor, "counts": counted.run, "threads": threads })
    };
    pocketstone_cli::print_json(&results.iter().map(of).collect::<Vec<_>>())
}

fn print(arguments: &TlbArguments, results: &[(&str, Counted)]) {
    if let Some((_, counted)) = results.first() {
        say!("{}", counted.output.trim_end());
    }
    let head = ["", "accesses", "first-level misses", "page walks", "their loads"].map(str::to_owned);
    let row = |name: &str, c: Counts| {
        let numbers = [c.accesses, c.first_level_misses, c.walks, c.walk_loads].map(|n| n.to_string());
        std::iter::once(name.to_owned()).chain(numbers).collect()
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (processor, counted) in results {
        rows.push(row(processor, counted.run));
        rows.extend(counted.threads.iter().map(|(thread, counts)| row(&format!("  {thread}"), *counts)));
    }
    say!("{}", screen::table(&head, &rows, head.len() - 1, false));
    say!("data accesses of programs and kernel on {}, from the command's start to its end;", arguments.board);
    say!("misses are modelled, not measured (docs/tlb.md)");
}

/// The arguments of `run` for the same command.
fn run_arguments(arguments: &TlbArguments) -> RunArguments {
    RunArguments {
        study: None,
        board: Some(arguments.board.clone()),
        resume: None,
        dry_run: false,
        json: false,
        many_cells: false,
        only: None,
        cold: false,
        directory: None,
        output: None,
        shard: None,
        verify_fraction: None,
        files: arguments.files.clone(),
        set: arguments.set.clone(),
        repetitions: Some(1),
        program: arguments.program.clone(),
    }
}
