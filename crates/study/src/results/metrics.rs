//! The numbers that a cell is summed up in. docs/results.md says what each is.

mod beside;

use beside::{of_cuts, of_tlb, of_worn};
use pocketstone_board::Measured;
use pocketstone_core::events::Window;
use pocketstone_core::log::Call;
use pocketstone_core::outcome::{
    BlockCounts, BlockTotals, EnergyReading, FlashCounts, Outcome, Prefetched, Quantity, Translated, widest,
};
use pocketstone_probe::analysis::{Analysis, OperationCost, analyse};
use pocketstone_workload::plan::Plan;
use pocketstone_workload::postmark::program::totals;
use pocketstone_workload::{FileWorkload, Operation, Pass, Purpose, Workload};
use rusqlite::{Connection, params};
use std::collections::BTreeSet;
use std::ops::Range;

/// Stores a cell's metrics. Those that could not be had have no row.
pub(crate) fn put_metrics(
    db: &Connection,
    cell: i64,
    traced: bool,
    plan: &Plan,
    measured: &Measured,
    analysis: Option<&Analysis>,
) -> rusqlite::Result<()> {
    let mut metrics = match traced {
        true => of_traced(measured, analysis),
        false => {
            let programs =
                [of_postmark, of_iozone, of_androsh, of_filebench].into_iter().flat_map(|of| of(plan, &measured.calls));
            let filled = of_capacity(plan, &measured.outcome);
            let worn = measured.outcome.worn.iter().flat_map(of_worn);
            of_plain(measured).into_iter().chain(programs).chain(filled).chain(worn).collect()
        }
    };
    metrics.extend(of_tlb(measured));
    metrics.extend(of_cuts(&measured.outcome.cuts));
    let others_load = if traced { "traced_others_load" } else { "others_load" };
    metrics.push((others_load, measured.outcome.others.and_then(|others| others.load())));
    metrics.retain(|(_, value)| value.is_some());
    let mut insert = db.prepare_cached("INSERT INTO main.metric VALUES (?1, ?2, ?3)")?;
    for (name, value) in metrics {
        insert.execute(params![cell, name, value])?;
    }
    Ok(())
}

type Metrics = Vec<(&'static str, Option<f64>)>;

fn total(calls: &[Call]) -> f64 {
    calls.iter().map(|c| c.latency_ns as f64).sum()
}

fn of_plain(measured: &Measured) -> Metrics {
    let mut metrics = Metrics::new();
    let calls = &measured.calls;
    if let (Some(first), Some(last)) = (calls.first(), calls.iter().map(|c| c.start_ns + c.latency_ns).max()) {
        let sorted = |value: fn(&Call) -> u64| {
            let mut all: Vec<f64> = calls.iter().map(|c| value(c) as f64).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let (mut latencies, responses) = (sorted(|c| c.latency_ns), sorted(Call::response_ns));
        let (number, total) = (calls.len() as f64, total(calls));
        let run_ns = (last - first.start_ns) as f64;
        let p99 = |sorted: &[f64]| Some(crate::results::stats::percentile(sorted, 0.99));
        metrics.extend([
            ("total_ns", Some(total)),
            ("mean_ns", Some(total / number)),
            ("median_ns", Some(crate::results::stats::median(&mut latencies))),
            ("p99_ns", p99(&latencies)),
            ("max_ns", latencies.last().copied()),
            ("response_mean_ns", Some(responses.iter().sum::<f64>() / number)),
            ("response_p99_ns", p99(&responses)),
            ("late_p99_ns", p99(&sorted(Call::late_ns))),
            ("run_ns", Some(run_ns)),
            ("operations_per_s", (run_ns > 0.0).then(|| number * 1e9 / run_ns)),
        ]);
    }
    if let Some(Prefetched { latency_ns, resident_pages }) = measured.outcome.prefetched {
        metrics.push(("prefetch_ns", Some(latency_ns as f64)));
        metrics.push(("prefetched_pages", resident_pages.map(|pages| pages as f64)));
    }
    metrics.extend(of_volume(&measured.outcome));
    metrics.extend(of_process(&measured.outcome));
    metrics.extend(of_energy(&measured.outcome));
    metrics.extend(measured.outcome.counted.iter().map(|(what, count)| (what.name(), Some(*count as f64))));
    metrics
}

/// What a volume that was made for the cell is like after it.
fn of_volume(outcome: &Outcome) -> Metrics {
    let fact = |name: &str| outcome.facts.get(name).and_then(|text| text.parse::<f64>().ok());
    let space = outcome.space;
    vec![
        ("used_bytes", space.map(|space| space.used_bytes as f64)),
        ("stored_bytes", space.map(|space| space.stored_bytes as f64)),
        ("wasted_share", space.and_then(|space| space.wasted_share())),
        ("fragmented_files", space.and_then(|space| space.fragmented_files).map(|files| files as f64)),
        ("pcm_line_writes", fact("volume.pcm_lines_written")),
        ("pcm_hottest_line_writes", fact("volume.pcm_hottest_line_writes")),
    ]
}

/// Energy by the machine's own meters of the widest scope.
fn of_energy(outcome: &Outcome) -> Metrics {
    let readings = widest(&outcome.energy);
    if readings.is_empty() {
        return Metrics::new();
    }
    let sum = |value: fn(&EnergyReading) -> Option<f64>| readings.iter().map(|r| value(r)).sum::<Option<f64>>();
    vec![
        ("energy_uj", sum(|r| Some(r.energy_uj as f64))),
        ("active_energy_uj", sum(EnergyReading::active_uj)),
        ("idle_mw", sum(|r| r.idle_mw)),
    ]
}

fn of_process(outcome: &Outcome) -> Metrics {
    let Some(process) = outcome.process() else { return Metrics::new() };
    let number = |n: Option<u64>| n.map(|n| n as f64);
    let used = process.usage;
    // Of several threads, the run's time less that of all of them says nothing.
    let alone = used.on_core_ns.filter(|_| process.alone);
    let off_core = alone.map(|on| (outcome.end_ns - outcome.start_ns).saturating_sub(on));
    let mut metrics = vec![
        ("on_core_ns", number(used.on_core_ns)),
        ("off_core_ns", number(off_core)),
        ("kernel_ns", number(used.kernel_ns)),
        ("voluntary_switches", number(used.voluntary_switches)),
        ("involuntary_switches", number(used.involuntary_switches)),
        ("read_calls", number(used.read_calls)),
        ("write_calls", number(used.write_calls)),
        ("device_read_bytes", number(used.device_read_bytes)),
        ("device_write_bytes", number(used.device_write_bytes)),
        ("major_faults", number(used.major_faults)),
    ];
    if let Some(database) = &outcome.database {
        metrics.push(("startup_ns", number(database.startup_ns)));
        metrics.push(("process_ns", number(database.process_ns)));
        metrics.push(("rows", Some(database.rows as f64)));
    }
    metrics.extend(outcome.command.as_ref().map(|command| ("output_bytes", Some(command.output_bytes as f64))));
    metrics
}

/// Mean throughput of read() over all files that were read, when a share of each has been read: bytes over time in the
/// calls up to the first one that reaches it, as the read-ahead paper's table 1 has it; and transactions over the time
/// in all calls. Of a whole run, transactions over the time in theirs, and bytes over the time in all, as the program
/// reports them.
fn of_postmark(plan: &Plan, calls: &[Call]) -> Metrics {
    let Workload::Postmark(spec) = &plan.workload else { return Metrics::new() };
    let operations = spec.operations(plan.seed).filter(Operation::is_logged);
    // The requests of each file that is read: bytes, and time.
    let mut files: Vec<Vec<(u64, u64)>> = Vec::new();
    for (operation, call) in operations.zip(calls) {
        match operation {
            Operation::Open { purpose: Purpose::Read, .. } => files.push(Vec::new()),
            Operation::Read { bytes, .. } => {
                if let Some(requests) = files.last_mut() {
                    requests.push((bytes, call.latency_ns));
                }
            }
            _ => {}
        }
    }
    let until = |share: f64| {
        let throughputs: Vec<f64> = files.iter().filter_map(|requests| throughput(requests, share)).collect();
        (!throughputs.is_empty()).then(|| throughputs.iter().sum::<f64>() / throughputs.len() as f64)
    };
    let per_s = |number: u64, calls: &[Call]| Some(number as f64 * 1e9 / total(calls)).filter(|rate| rate.is_finite());
    let mut metrics = vec![
        ("read_25_bytes_per_s", until(0.25)),
        ("read_50_bytes_per_s", until(0.5)),
        ("read_100_bytes_per_s", until(1.0)),
    ];
    match &spec.program {
        None => metrics.push(("transactions_per_s", per_s(spec.transactions, calls))),
        Some(program) => {
            let of_run = totals(spec, program, plan.seed);
            let first = of_run.pool_operations as usize;
            let theirs = calls.get(first..first + of_run.transaction_operations as usize);
            metrics.extend([
                ("transactions_per_s", theirs.and_then(|theirs| per_s(of_run.transactions, theirs))),
                ("run_read_bytes_per_s", per_s(of_run.read_bytes, calls)),
                ("run_written_bytes_per_s", per_s(of_run.written_bytes, calls)),
            ]);
        }
    }
    metrics
}

/// Bytes of each measured pass over the time of its calls, as IOZONE reports them, but in bytes for KiB.
fn of_iozone(plan: &Plan, calls: &[Call]) -> Metrics {
    let Workload::Iozone(spec) = &plan.workload else { return Metrics::new() };
    let rate = |(pass, timed): (Pass, Range<usize>)| {
        let name = match pass {
            Pass::Write => "iozone_write_bytes_per_s",
            Pass::Rewrite => "iozone_rewrite_bytes_per_s",
            Pass::Read => "iozone_read_bytes_per_s",
            Pass::Reread => "iozone_reread_bytes_per_s",
            Pass::RandomRead => "iozone_random_read_bytes_per_s",
            Pass::RandomWrite => "iozone_random_write_bytes_per_s",
        };
        let ns = calls.get(timed).map(total).filter(|ns| *ns > 0.0);
        (name, ns.map(|ns| spec.pass_bytes() as f64 * 1e9 / ns))
    };
    spec.timed_operations().into_iter().map(rate).collect()
}

/// Bytes that a script moves over the time in its calls; the deletion of what an earlier round left is not part of it.
fn of_androsh(plan: &Plan, calls: &[Call]) -> Metrics {
    let Workload::Androsh(spec) = &plan.workload else { return Metrics::new() };
    let operations = spec.operations(plan.seed).filter(Operation::is_logged);
    let of_data = operations.zip(calls).filter(|(operation, _)| !matches!(operation, Operation::Delete { .. }));
    let ns: f64 = of_data.map(|(_, call)| call.latency_ns as f64).sum();
    let bytes = spec.throughput_bytes(plan.seed).filter(|_| ns > 0.0);
    vec![("moved_bytes_per_s", bytes.map(|bytes| bytes as f64 * 1e9 / ns))]
}

/// Bytes that a server's threads read and write over the run's time, as Filebench reports them.
fn of_filebench(plan: &Plan, calls: &[Call]) -> Metrics {
    let Workload::Filebench(spec) = &plan.workload else { return Metrics::new() };
    let start_ns = calls.iter().map(|call| call.start_ns).min();
    let end_ns = calls.iter().map(|call| call.start_ns + call.latency_ns).max();
    let run_ns = start_ns.zip(end_ns).map(|(start, end)| end - start).filter(|ns| *ns > 0);
    let totals = spec.totals(plan.seed);
    let bytes = (totals.read_bytes + totals.written_bytes) as f64;
    vec![("moved_bytes_per_s", run_ns.map(|ns| bytes * 1e9 / ns as f64))]
}

/// Bytes that fitted, and the whole files they are: the last file may have a part of its size.
fn of_capacity(plan: &Plan, outcome: &Outcome) -> Metrics {
    let (Workload::Capacity(spec), Some(bytes)) = (&plan.workload, outcome.filled_bytes) else { return Metrics::new() };
    let files = bytes / spec.file_bytes;
    vec![("filled_bytes", Some(bytes as f64)), ("filled_files", Some(files as f64))]
}

/// Bytes per second of a file's requests (bytes, ns) up to the one that reaches a share of all bytes.
fn throughput(requests: &[(u64, u64)], share: f64) -> Option<f64> {
    let wanted = share * requests.iter().map(|(bytes, _)| *bytes as f64).sum::<f64>();
    let (mut read, mut ns) = (0, 0);
    for (bytes, latency_ns) in requests {
        (read, ns) = (read + bytes, ns + latency_ns);
        if read as f64 >= wanted {
            break;
        }
    }
    (ns > 0).then(|| read as f64 * 1e9 / ns as f64)
}

fn of_traced(measured: &Measured, analysis: Option<&Analysis>) -> Metrics {
    let mut metrics = vec![("traced_total_ns", Some(total(&measured.calls)))];
    metrics.extend(measured.outcome.flash.iter().flat_map(of_flash));
    metrics.extend(measured.outcome.block.iter().flat_map(of_block));
    metrics.extend(measured.outcome.translation.iter().flat_map(of_translation));
    if let Some(analysis) = analysis {
        metrics.extend(of_events(&measured.outcome, &analysis.total));
    }
    metrics
}

/// What the kernel's events say about a traced cell.
pub(crate) fn analysis(measured: &Measured) -> Option<Analysis> {
    let (events, process) = (measured.events.as_ref()?, measured.outcome.process()?);
    let window = Window { start_ns: measured.outcome.start_ns, end_ns: measured.outcome.end_ns };
    let threads: BTreeSet<u32> = process.threads.iter().copied().collect();
    let workers = if process.alone { 1 } else { 2 };
    Some(analyse(events, window, &threads, &measured.calls, workers))
}

fn of_events(outcome: &Outcome, total: &OperationCost) -> Metrics {
    use Quantity::{BlockRequests, ContextSwitches, IdleStates, PageCacheMisses, SystemCalls};
    let [switches, calls, misses] = [ContextSwitches, SystemCalls, PageCacheMisses].map(|q| outcome.has(&q));
    let [blocks, idle] = [BlockRequests, IdleStates].map(|q| outcome.has(&q));
    let frequencies = outcome.has(&Quantity::FrequencyChanges) && outcome.has(&Quantity::Frequencies);
    let when = |there: bool, n: u64| there.then_some(n as f64);
    let io_ns = total.read_ns + total.write_ns + total.sync_ns;
    let run_ns = outcome.end_ns - outcome.start_ns;
    vec![
        ("traced_on_core_ns", when(switches, total.on_core_ns)),
        ("traced_off_core_ns", when(switches, total.off_core_ns)),
        ("runnable_ns", when(switches, total.waiting_ns)),
        ("switches", when(switches, total.switches)),
        ("wakeups", when(switches, total.wakeups)),
        ("frequency_changes", when(frequencies, total.frequency_changes)),
        ("idle_entries", when(idle, total.idle_entries)),
        ("reads", when(calls, total.reads)),
        ("read_bytes", when(calls, total.read_bytes)),
        ("writes", when(calls, total.writes)),
        ("written_bytes", when(calls, total.written_bytes)),
        ("syncs", when(calls, total.syncs)),
        ("io_ns", when(calls, io_ns)),
        ("rest_ns", when(calls, run_ns.saturating_sub(io_ns))),
        ("cache_misses", when(misses, total.cache_misses)),
        ("block_reads", when(blocks, total.block_reads)),
        ("block_writes", when(blocks, total.block_writes)),
        ("block_ns", when(blocks, total.block_ns)),
    ]
}

/// Of everybody's requests: those of others do what the workload left to them, and the device is theirs alone.
fn of_block(counts: &BlockCounts) -> Metrics {
    let BlockCounts { workload, background } = counts;
    let both = |of: fn(&BlockTotals) -> u64| Some((of(workload) + of(background)) as f64);
    vec![
        ("device_reads", both(|totals| totals.reads)),
        ("device_read_request_bytes", both(|totals| totals.read_bytes)),
        ("device_writes", both(|totals| totals.writes)),
        ("device_written_request_bytes", both(|totals| totals.written_bytes)),
        ("device_flushes", both(|totals| totals.flushes)),
        ("device_discards", both(|totals| totals.discards)),
        ("background_device_writes", Some(background.writes as f64)),
    ]
}

/// What the device's own chip had to do for all of them.
fn of_translation(translated: &Translated) -> Metrics {
    let Translated { page_bytes, counts } = translated;
    let number = |n: u64| Some(n as f64);
    vec![
        ("device_page_reads", number(counts.chip.reads)),
        ("device_page_programs", number(counts.chip.programs)),
        ("device_block_erases", number(counts.chip.erases)),
        ("device_moved_pages", number(counts.moved_pages)),
        ("device_discarded_pages", number(counts.discarded_pages)),
        ("write_amplification", counts.write_amplification(*page_bytes)),
    ]
}

fn of_flash(flash: &FlashCounts) -> Metrics {
    let number = |n: u64| Some(n as f64);
    let of_workload = &flash.workload;
    vec![
        ("page_senses", number(of_workload.page_senses)),
        ("column_changes", number(of_workload.column_changes)),
        ("page_reads", of_workload.page_reads.and_then(number)),
        ("page_programs", number(of_workload.programs)),
        ("block_erases", number(of_workload.erases)),
        ("background_page_senses", number(flash.background.page_senses)),
    ]
}

#[cfg(test)]
mod tests;
