//! The numbers that a cell is summed up in. docs/results.md says what each is.

mod beside;

use beside::{of_cuts, of_tlb, of_worn};
use pocketstone_board::Measured;
use pocketstone_core::events::Window;
use pocketstone_core::log::Call;
use pocketstone_core::median::median;
use pocketstone_core::outcome::{
    BlockCounts, BlockTotals, EnergyReading, FlashCounts, Outcome, Prefetched, Quantity, Translated, widest,
};
use pocketstone_probe::analysis::{Analysis, OperationCost, analyse};
use pocketstone_workload::metrics::{Ran, Values};
use pocketstone_workload::plan::Plan;
use rusqlite::{Connection, params};
use std::collections::BTreeSet;

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
            let Measured { calls, outcome, .. } = measured;
            let ran = Ran { seed: plan.seed, calls, filled_bytes: outcome.filled_bytes };
            let own = plan.workload.on_files().map(|workload| workload.metrics(&ran)).unwrap_or_default();
            of_plain(measured).into_iter().chain(own).chain(outcome.worn.iter().flat_map(of_worn)).collect()
        }
    };
    metrics.extend(of_tlb(traced, measured));
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

fn total(calls: &[Call]) -> f64 {
    calls.iter().map(|c| c.latency_ns as f64).sum()
}

fn of_plain(measured: &Measured) -> Values {
    let mut metrics = Values::new();
    let calls = &measured.calls;
    // The calls of several threads are in the order of the plan, not in that of their times.
    let first = calls.iter().map(|c| c.start_ns).min();
    if let (Some(first_ns), Some(last)) = (first, calls.iter().map(|c| c.start_ns + c.latency_ns).max()) {
        let sorted = |value: fn(&Call) -> u64| {
            let mut all: Vec<f64> = calls.iter().map(|c| value(c) as f64).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let (mut latencies, responses) = (sorted(|c| c.latency_ns), sorted(Call::response_ns));
        let (number, total) = (calls.len() as f64, total(calls));
        let run_ns = (last - first_ns) as f64;
        let p99 = |sorted: &[f64]| Some(crate::results::stats::percentile(sorted, 0.99));
        metrics.extend([
            ("total_ns", Some(total)),
            ("mean_ns", Some(total / number)),
            ("median_ns", median(&mut latencies)),
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
fn of_volume(outcome: &Outcome) -> Values {
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
fn of_energy(outcome: &Outcome) -> Values {
    let readings = widest(&outcome.energy);
    if readings.is_empty() {
        return Values::new();
    }
    let sum = |value: fn(&EnergyReading) -> Option<f64>| readings.iter().map(|r| value(r)).sum::<Option<f64>>();
    vec![
        ("energy_uj", sum(|r| Some(r.energy_uj as f64))),
        ("active_energy_uj", sum(EnergyReading::active_uj)),
        ("idle_mw", sum(|r| r.idle_mw)),
    ]
}

fn of_process(outcome: &Outcome) -> Values {
    let Some(process) = outcome.process() else { return Values::new() };
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

fn of_traced(measured: &Measured, analysis: Option<&Analysis>) -> Values {
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

fn of_events(outcome: &Outcome, total: &OperationCost) -> Values {
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
fn of_block(counts: &BlockCounts) -> Values {
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
fn of_translation(translated: &Translated) -> Values {
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

fn of_flash(flash: &FlashCounts) -> Values {
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
