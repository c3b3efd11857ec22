//! The logs of a cell, row by row.

use super::file_cost;
use pocketstone_board::Measured;
use pocketstone_core::log::Call;
use pocketstone_core::outcome::Quantity;
use pocketstone_probe::analysis::Analysis;
use rusqlite::{Connection, params};

/// What each operation and each file cost in a traced cell. A kind of event that could not be had is NULL.
pub(super) fn put_costs(db: &Connection, cell: i64, measured: &Measured, analysis: &Analysis) -> rusqlite::Result<()> {
    let has = |quantity: Quantity| measured.outcome.has(&quantity);
    let frequencies = has(Quantity::FrequencyChanges) && has(Quantity::Frequencies);
    let [switches, idle, calls, misses, blocks] = [
        Quantity::ContextSwitches,
        Quantity::IdleStates,
        Quantity::SystemCalls,
        Quantity::PageCacheMisses,
        Quantity::BlockRequests,
    ]
    .map(has);
    let mut insert =
        db.prepare_cached("INSERT INTO operation_cost VALUES (?,?, ?,?,?,?,?,?,?, ?,?, ?,?,?,?,?,?,?,?, ?, ?,?,?)")?;
    for (number, c) in analysis.operations.iter().enumerate() {
        let when = |there: bool, n: u64| there.then_some(n as i64);
        let of_switches =
            [c.on_core_ns, c.off_core_ns, c.waiting_ns, c.sleeping_ns, c.blocked_ns, c.switches, c.wakeups];
        let of_calls = [c.reads, c.read_bytes, c.read_ns, c.writes, c.written_bytes, c.write_ns, c.syncs, c.sync_ns];
        let mut row: Vec<Option<i64>> = vec![Some(cell), Some(number as i64)];
        row.extend(of_switches.map(|n| when(switches, n)));
        row.extend([when(frequencies, c.frequency_changes), when(idle, c.idle_entries)]);
        row.extend(of_calls.map(|n| when(calls, n)));
        row.push(when(misses, c.cache_misses));
        row.extend([c.block_reads, c.block_writes, c.block_ns].map(|n| when(blocks, n)));
        insert.execute(rusqlite::params_from_iter(row))?;
    }
    for f in analysis.files.iter().filter(|_| calls) {
        file_cost::put(db, cell, f, misses)?;
    }
    Ok(())
}

/// Every call of a cell, and every flash operation of a traced one.
pub(super) fn put(db: &Connection, cell: i64, measured: &Measured) -> rusqlite::Result<()> {
    let mut insert = db.prepare_cached("INSERT INTO call VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (number, call) in measured.calls.iter().enumerate() {
        let times = [call.start_ns, call.latency_ns, call.intended_ns].map(|ns| ns as i64);
        insert.execute(params![cell, number as i64, times[0], times[1], times[2]])?;
    }
    let mut insert = db.prepare_cached("INSERT INTO flash_op VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    if let Some(log) = &measured.flash {
        for (number, op) in log.ops.iter().enumerate() {
            let kind = op.kind.name();
            let task = log.task(op);
            insert.execute(params![cell, number as i64, op.time_ns as i64, kind, op.page, op.pages, op.pid, task])?;
        }
    }
    put_block(db, cell, measured)
}

fn put_block(db: &Connection, cell: i64, measured: &Measured) -> rusqlite::Result<()> {
    let Some(log) = &measured.block else { return Ok(()) };
    let sql = "INSERT INTO block_request VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let mut insert = db.prepare_cached(sql)?;
    for (number, request) in log.requests.iter().enumerate() {
        let (op, task, call) = (request.op.name(), log.task(request), call_at(&measured.calls, request.time_ns));
        let (time_ns, sector) = (request.time_ns as i64, request.sector as i64);
        let row = params![cell, number as i64, time_ns, op, sector, request.bytes, request.pid, task, call];
        insert.execute(row)?;
    }
    Ok(())
}

/// The number of the call that is made at a time of the tracer's, which it gives in whole microseconds.
fn call_at(calls: &[Call], time_ns: u64) -> Option<i64> {
    let begun = calls.partition_point(|call| call.start_ns <= time_ns + 999);
    let number = begun.checked_sub(1)?;
    (time_ns <= calls[number].start_ns + calls[number].latency_ns).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_belongs_to_the_call_that_is_made_at_its_time() {
        let call = |start_ns, latency_ns| Call { start_ns, latency_ns, intended_ns: start_ns };
        let calls = [call(10_000, 5_000), call(20_400, 3_000)];
        let number = |time_ns| call_at(&calls, time_ns);
        assert_eq!([number(9_000), number(10_000), number(15_000)], [None, Some(0), Some(0)]);
        assert_eq!([number(16_000), number(23_000), number(24_000)], [None, Some(1), None]);
        // 20.4 us is 20 for the tracer.
        assert_eq!(number(20_000), Some(1));
        assert_eq!(call_at(&[], 5), None);
    }
}
