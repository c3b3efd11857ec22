//! One run of a database from its operations down to the flash, for the report and for viewers of traces.

use crate::results::layers::Layers;
use crate::views::model::{
    Chain, ChainBlock, ChainCall, ChainFlash, ChainMiss, ChainQuery, ChainSum, Distribution, Lane, LaneContent,
    Quantiles, Span, Timeline,
};
use pocketstone_core::events::{Event, EventKind, SystemCall};
use pocketstone_core::log::{Call, FlashKind};
use std::collections::BTreeMap;

/// Calls of one query that a report shows.
const MOST_CALLS: usize = 60;
/// Queries of each kind that a report shows: the slowest ones, and the first of each kind of statement.
const SLOWEST: usize = 8;

impl Layers {
    /// The events within an operation, by index into the log.
    fn within(&self, call: &Call) -> &[Event] {
        let events = &self.events.events;
        let from = events.partition_point(|e| e.time_ns < call.start_ns);
        let to = events.partition_point(|e| e.time_ns <= call.start_ns + call.latency_ns);
        &events[from..to.max(from)]
    }

    fn file(&self, file: Option<u16>) -> String {
        file.and_then(|f| self.events.files.get(usize::from(f))).map(|f| base_name(f)).unwrap_or_default()
    }

    /// An operation with everything that it caused.
    fn query(&self, number: usize, label: &str, on_core: &[(u64, u64)]) -> ChainQuery {
        let call = self.calls[number];
        let end = call.start_ns + call.latency_ns;
        let mut query = ChainQuery {
            number: number as u64,
            label: label.to_owned(),
            sql: self.sql.get(number).cloned().unwrap_or_default(),
            start_ns: call.start_ns,
            service_ns: call.latency_ns,
            response_ns: call.response_ns(),
            on_core_ns: (!on_core.is_empty()).then(|| overlap(on_core, call.start_ns, end)),
            ..ChainQuery::default()
        };
        let mut open: Option<ChainCall> = None;
        for event in self.within(&call) {
            match event.kind {
                EventKind::Enter { call, file, offset, bytes } if event.pid == self.thread => {
                    query.calls.extend(open.take());
                    open = Some(ChainCall {
                        name: call.name().to_owned(),
                        file: self.file(file),
                        offset,
                        bytes: (bytes > 0).then_some(bytes),
                        start_ns: event.time_ns,
                        ..ChainCall::default()
                    });
                }
                EventKind::Exit { result, .. } if event.pid == self.thread => {
                    if let Some(mut call) = open.take() {
                        call.duration_ns = Some(event.time_ns - call.start_ns);
                        call.result = Some(result);
                        call.on_core_ns = (!on_core.is_empty()).then(|| overlap(on_core, call.start_ns, event.time_ns));
                        query.calls.push(call);
                    }
                }
                EventKind::CacheMiss { file, page, pages } => {
                    let miss = ChainMiss { file: self.file(file), first_page: page, pages: u64::from(pages) };
                    let misses = open.as_mut().map_or(&mut query.misses, |c| &mut c.misses);
                    match misses.last_mut() {
                        Some(last) if last.file == miss.file && last.first_page + last.pages == miss.first_page => {
                            last.pages += miss.pages;
                        }
                        _ => misses.push(miss),
                    }
                }
                EventKind::BlockIssue { device, write, sector, sectors } => {
                    let block = ChainBlock {
                        device: format!("{}:{}", device >> 20, device & 0xf_ffff),
                        write,
                        first_sector: sector,
                        sectors: u64::from(sectors),
                        issue_ns: event.time_ns,
                        duration_ns: self.completed(event, device, sector),
                    };
                    open.as_mut().map_or(&mut query.blocks, |c| &mut c.blocks).push(block);
                }
                _ => {}
            }
        }
        query.calls.extend(open);
        self.add_flash(&mut query, end);
        let more = query.calls.split_off(query.calls.len().min(MOST_CALLS));
        query.more_calls = more.len() as u64;
        query.more = sums(&more);
        query
    }

    /// Time until a block request was done.
    fn completed(&self, issued: &Event, device: u32, sector: u64) -> Option<u64> {
        let events = &self.events.events;
        let from = events.partition_point(|e| e.time_ns < issued.time_ns);
        let done = events[from..].iter().find(
            |e| matches!(e.kind, EventKind::BlockComplete { device: d, sector: s, .. } if d == device && s == sector),
        );
        done.map(|e| e.time_ns - issued.time_ns)
    }

    /// Gives flash operations of the worker to the call within which they happened.
    fn add_flash(&self, query: &mut ChainQuery, end_ns: u64) {
        // The tracer of flash operations has a resolution of 1 us.
        let from = self.flash.ops.partition_point(|o| o.time_ns + 1000 <= query.start_ns);
        for op in self.flash.ops[from..].iter().take_while(|o| o.time_ns <= end_ns) {
            let counted = matches!(op.kind, FlashKind::Sense | FlashKind::Program | FlashKind::Erase);
            if !counted || op.pid != self.thread {
                continue;
            }
            let flash = ChainFlash { kind: op.kind.name().to_owned(), page: u64::from(op.page), time_ns: op.time_ns };
            let holds = |c: &&mut ChainCall| {
                c.start_ns <= op.time_ns + 1000 && op.time_ns <= c.start_ns + c.duration_ns.unwrap_or(0)
            };
            query.calls.iter_mut().find(holds).map_or(&mut query.flash, |c| &mut c.flash).push(flash);
        }
    }
}

/// The times of calls by their name, so that a query's time is split by all of them, shown or not.
fn sums(calls: &[ChainCall]) -> Vec<ChainSum> {
    let mut sums: BTreeMap<&str, (u64, Option<u64>)> = BTreeMap::new();
    for call in calls {
        let (duration, on_core) = sums.entry(&call.name).or_insert((0, Some(0)));
        *duration += call.duration_ns.unwrap_or(0);
        *on_core = on_core.zip(call.on_core_ns).map(|(sum, own)| sum + own);
    }
    let sum =
        |(name, (duration_ns, on_core_ns)): (&str, _)| ChainSum { name: name.to_owned(), duration_ns, on_core_ns };
    sums.into_iter().map(sum).collect()
}

fn base_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// How much of `from..to` the spans, which ascend, cover.
fn overlap(spans: &[(u64, u64)], from: u64, to: u64) -> u64 {
    let first = spans.partition_point(|s| s.1 <= from);
    let covered = spans[first..].iter().take_while(|s| s.0 < to);
    covered.map(|s| s.1.min(to).saturating_sub(s.0.max(from))).sum()
}

/// How the latencies of a run are distributed.
pub(crate) fn distribution(calls: &[Call], id: &str, title: &str, caption: &str) -> Distribution {
    let values = |of: fn(&Call) -> u64| calls.iter().map(of).collect::<Vec<u64>>();
    Distribution {
        id: format!("{id}-latencies"),
        title: format!("{title}: latencies"),
        caption: format!(
            "{caption} The two lines diverge where operations started late: after a slow one, or because the machine \
                woke up late."
        ),
        series: vec![
            Quantiles::of("service time", &values(|c| c.latency_ns)),
            Quantiles::of("time since the intended start", &values(Call::response_ns)),
        ],
    }
}

/// Two views of a run: when what ran, and what queries caused.
pub(crate) fn views(layers: &Layers, id: &str, title: &str, caption: &str) -> (Timeline, Option<Chain>) {
    let on_core = layers.on_core();
    let chain = (!layers.events.events.is_empty() || !layers.flash.ops.is_empty()).then(|| Chain {
        id: format!("{id}-chain"),
        title: format!("{title}: effects of its queries"),
        caption: format!(
            "{caption} Select a query: below it are its system calls, below those the pages that were not in the page \
                cache{}. Shown are the slowest queries, the median one, and the first of each kind.",
            below_the_cache(layers)
        ),
        queries: picked(layers).into_iter().map(|(n, label)| layers.query(n, &label, &on_core)).collect(),
    });
    (timeline(layers, id, title, caption, &on_core), chain)
}

/// What a chain shows below the page cache: what the run has of it.
fn below_the_cache(layers: &Layers) -> &'static str {
    let block = |e: &Event| matches!(e.kind, EventKind::BlockIssue { .. });
    match (layers.flash.ops.is_empty(), layers.events.events.iter().any(block)) {
        (false, false) => ", and the flash operations",
        (false, true) => ", the requests to block devices, and the flash operations",
        (true, true) => ", and the requests to block devices",
        (true, false) => "",
    }
}

/// Which queries to show, and why.
fn picked(layers: &Layers) -> Vec<(usize, String)> {
    let mut by_time: Vec<usize> = (0..layers.calls.len()).collect();
    by_time.sort_by_key(|n| layers.calls[*n].latency_ns);
    let mut picked: Vec<(usize, String)> = Vec::new();
    let mut add = |n: usize, label: String| {
        if !picked.iter().any(|(p, _)| *p == n) {
            picked.push((n, label));
        }
    };
    by_time.iter().rev().take(SLOWEST).enumerate().for_each(|(rank, n)| {
        add(*n, if rank == 0 { "slowest".into() } else { format!("slowest, {}", rank + 1) });
    });
    if let Some(n) = by_time.get(by_time.len() / 2) {
        add(*n, "median".into());
    }
    let mut seen: Vec<&str> = Vec::new();
    for (n, sql) in layers.sql.iter().enumerate().take(layers.calls.len()) {
        let word = sql.split_whitespace().next().unwrap_or_default();
        if !seen.contains(&word) && seen.len() < SLOWEST {
            seen.push(word);
            add(n, format!("first {word}"));
        }
    }
    picked
}

fn timeline(layers: &Layers, id: &str, title: &str, caption: &str, on_core: &[(u64, u64)]) -> Timeline {
    let kinds =
        ["query", "on core", "read", "write", "sync", "other call", "flash read", "flash program", "flash erase"];
    let kind = |name: &str| kinds.iter().position(|k| *k == name).unwrap_or(0);
    let (start_ns, end_ns) = match (layers.calls.first(), layers.calls.last()) {
        (Some(first), Some(last)) => (first.start_ns, last.start_ns + last.latency_ns),
        _ => (0, 0),
    };
    let queries = layers.calls.iter().enumerate().map(|(n, c)| Span {
        start_ns: c.start_ns,
        end_ns: c.start_ns + c.latency_ns,
        kind: kind("query"),
        label: layers.sql.get(n).map(|s| s.chars().take(60).collect()).unwrap_or_default(),
    });
    let mut lanes = vec![Lane { name: "queries".into(), content: LaneContent::Spans(queries.collect()) }];
    let mut add = |name: &str, spans: Vec<Span>| {
        if !spans.is_empty() {
            lanes.push(Lane { name: name.to_owned(), content: LaneContent::Spans(spans) });
        }
    };
    let running = on_core.iter().filter(|s| s.1 > start_ns && s.0 < end_ns);
    let running = running.map(|s| Span {
        start_ns: s.0.max(start_ns),
        end_ns: s.1.min(end_ns),
        kind: kind("on core"),
        label: String::new(),
    });
    add("on core", running.collect());
    let mut calls = Vec::new();
    let mut open: Option<Span> = None;
    for event in layers.events.events.iter().filter(|e| e.pid == layers.thread) {
        match event.kind {
            EventKind::Enter { call, file, bytes, .. } => {
                let name = match call {
                    SystemCall::Read => "read",
                    SystemCall::Write => "write",
                    SystemCall::Sync => "sync",
                    _ => "other call",
                };
                let label = format!("{} {} bytes", layers.file(file), bytes);
                open = Some(Span { start_ns: event.time_ns, end_ns: event.time_ns, kind: kind(name), label });
            }
            EventKind::Exit { .. } => {
                calls.extend(open.take().map(|s| Span { end_ns: event.time_ns, ..s }));
            }
            _ => {}
        }
    }
    calls.retain(|s| s.end_ns >= start_ns && s.start_ns <= end_ns);
    add("system calls", calls);
    let flash = layers.flash.ops.iter().filter_map(|op| {
        let name = match op.kind {
            FlashKind::Sense => "flash read",
            FlashKind::Program => "flash program",
            FlashKind::Erase => "flash erase",
            FlashKind::Read | FlashKind::ColumnChange => return None,
        };
        Some(Span { start_ns: op.time_ns, end_ns: op.time_ns, kind: kind(name), label: format!("page {}", op.page) })
    });
    add("flash", flash.filter(|s| s.end_ns >= start_ns && s.start_ns <= end_ns).collect());
    let mut frequencies: BTreeMap<u16, Vec<(u64, Option<f64>)>> = BTreeMap::new();
    for event in &layers.events.events {
        if let EventKind::Frequency { cpu, khz } = event.kind {
            frequencies.entry(cpu).or_default().push((event.time_ns, Some(f64::from(khz) / 1000.0)));
        }
    }
    for (cpu, steps) in frequencies {
        lanes.push(Lane { name: format!("CPU {cpu}"), content: LaneContent::Steps { unit: "MHz".into(), steps } });
    }
    let kinds = keep_used(&kinds, &mut lanes);
    Timeline {
        id: format!("{id}-time"),
        title: format!("{title}: timeline"),
        caption: caption.to_owned(),
        start_ns,
        end_ns,
        kinds,
        lanes,
    }
}

/// The kinds that spans have, and the spans numbered by them: a legend without what is not there.
fn keep_used(kinds: &[&str], lanes: &mut [Lane]) -> Vec<String> {
    let spans = |lane: &mut Lane| match &mut lane.content {
        LaneContent::Spans(spans) => std::mem::take(spans),
        LaneContent::Steps { .. } => Vec::new(),
    };
    let mut taken: Vec<Vec<Span>> = lanes.iter_mut().map(spans).collect();
    let used: Vec<usize> = (0..kinds.len()).filter(|k| taken.iter().flatten().any(|s| s.kind == *k)).collect();
    for (lane, mut own) in lanes.iter_mut().zip(taken.drain(..)) {
        own.iter_mut().for_each(|s| s.kind = used.iter().position(|k| *k == s.kind).unwrap_or(0));
        if let LaneContent::Spans(spans) = &mut lane.content {
            *spans = own;
        }
    }
    used.into_iter().map(|k| kinds[k].to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::layers::worker;
    use pocketstone_core::events::EventLog;
    use pocketstone_core::log::FlashLog;

    const MS: u64 = 1_000_000;

    fn event(time_ns: u64, pid: u32, kind: EventKind) -> Event {
        Event { time_ns, cpu: 0, pid, kind }
    }

    /// Two queries of thread 8 in process 7; the first reads a page that is not cached and waits for it.
    fn layers() -> Layers {
        let switch = |prev, next, state| EventKind::Switch { prev, state, next };
        let enter = EventKind::Enter { call: SystemCall::Read, file: Some(0), offset: Some(4096), bytes: 100 };
        let exit = EventKind::Exit { call: SystemCall::Read, result: 100 };
        let block = EventKind::BlockIssue { device: 8 << 20 | 1, write: false, sector: 64, sectors: 8 };
        let done = EventKind::BlockComplete { device: 8 << 20 | 1, write: false, sector: 64, sectors: 8 };
        let events = vec![
            event(0, 0, switch(0, 8, b'S')),
            event(MS, 8, enter),
            event(MS + 1, 8, EventKind::CacheMiss { file: Some(0), page: 1, pages: 1 }),
            event(MS + 2, 8, EventKind::CacheMiss { file: Some(0), page: 2, pages: 2 }),
            event(MS + 3, 8, block),
            event(2 * MS, 8, switch(8, 0, b'D')),
            event(4 * MS, 0, done),
            event(5 * MS, 0, switch(0, 8, b'R')),
            event(6 * MS, 8, exit),
            event(12 * MS, 8, switch(8, 0, b'S')),
        ];
        let call = |start_ns, latency_ns| Call { start_ns, latency_ns, intended_ns: start_ns - MS / 2 };
        let flash = vec![pocketstone_core::log::FlashOp {
            time_ns: 3 * MS,
            kind: FlashKind::Sense,
            page: 77,
            pages: 1,
            pid: 8,
            task: 0,
        }];
        let log = EventLog { files: vec!["/mnt/data.sqlite".into()], events, ..EventLog::default() };
        let calls = vec![call(MS / 2, 7 * MS), call(9 * MS, MS)];
        let thread = worker(&log, &calls, 7);
        Layers {
            sql: vec!["SELECT 1".into(), "UPDATE t".into()],
            calls,
            events: log,
            flash: FlashLog { tasks: vec!["engine".into()], ops: flash },
            pid: 7,
            thread,
            threads: vec![8],
        }
    }

    #[test]
    fn a_query_has_its_calls_misses_blocks_and_flash_operations() {
        let layers = layers();
        assert_eq!(layers.thread, 8);
        let on_core = layers.on_core();
        assert_eq!(on_core, [(0, 2 * MS), (5 * MS, 12 * MS)]);
        let query = layers.query(0, "slowest", &on_core);
        // 0.5 to 2 ms and 5 to 7.5 ms.
        assert_eq!((query.on_core_ns, query.response_ns), (Some(4 * MS), 7 * MS + MS / 2));
        let [call] = &query.calls[..] else { panic!("one call: {:?}", query.calls) };
        assert_eq!((call.name.as_str(), call.file.as_str(), call.offset), ("read", "data.sqlite", Some(4096)));
        assert_eq!((call.duration_ns, call.on_core_ns, call.result), (Some(5 * MS), Some(2 * MS), Some(100)));
        let [miss] = &call.misses[..] else { panic!("pages 1 to 3 are one stretch: {:?}", call.misses) };
        assert_eq!((miss.first_page, miss.pages), (1, 3));
        assert_eq!((call.blocks[0].device.as_str(), call.blocks[0].duration_ns), ("8:1", Some(3 * MS - 3)));
        assert_eq!((call.flash[0].page, call.flash.len()), (77, 1));
        let second = layers.query(1, "", &on_core);
        assert_eq!((second.calls.len(), second.on_core_ns), (0, Some(MS)));
    }

    #[test]
    fn calls_that_are_not_shown_are_summed_up_by_name() {
        // 60 reads, then two syncs of 2 ms and one write of 1 ms, one behind the other; all on a core for the first ms.
        let mut layers = layers();
        let mut events = vec![event(0, 0, EventKind::Switch { prev: 0, state: b'S', next: 8 })];
        let mut at = MS;
        let kinds = [(SystemCall::Read, 1); 60].into_iter();
        for (call, ms) in kinds.chain([(SystemCall::Sync, 2), (SystemCall::Write, 1), (SystemCall::Sync, 2)]) {
            events.push(event(at, 8, EventKind::Enter { call, file: None, offset: None, bytes: 0 }));
            let off = EventKind::Switch { prev: 8, state: b'D', next: 0 };
            let on = EventKind::Switch { prev: 0, state: b'R', next: 8 };
            events.extend([event(at + MS / 4, 8, off), event(at + ms * MS - MS / 4, 0, on)]);
            at += ms * MS;
            events.push(event(at, 8, EventKind::Exit { call, result: 0 }));
        }
        (layers.events.events, layers.calls[0].latency_ns) = (events, 100 * MS);
        let query = layers.query(0, "", &layers.on_core());
        assert_eq!((query.calls.len(), query.more_calls), (60, 3));
        let sum = |name: &str, ms, on_core_ns| ChainSum { name: name.into(), duration_ns: ms * MS, on_core_ns };
        assert_eq!(query.more, [sum("sync", 4, Some(MS)), sum("write", 1, Some(MS / 2))]);
        // Without switches nothing is known of the time on a core.
        assert_eq!(layers.query(0, "", &[]).more[0], sum("sync", 4, None));
    }

    #[test]
    fn a_chain_speaks_of_flash_where_there_is_some() {
        let caption = |layers: &Layers| views(layers, "id", "title", "caption").1.unwrap().caption;
        let mut layers = layers();
        assert!(caption(&layers).contains("requests to block devices, and the flash operations"));
        layers.flash.ops.clear();
        assert!(caption(&layers).contains("and the requests to block devices.") && !caption(&layers).contains("flash"));
    }

    #[test]
    fn the_legend_has_what_is_drawn_and_every_kind_of_statement_is_picked() {
        let layers = layers();
        let (timeline, chain) = views(&layers, "id", "title", "caption");
        assert_eq!(timeline.kinds, ["query", "on core", "read", "flash read"]);
        let LaneContent::Spans(flash) = &timeline.lanes.last().unwrap().content else { panic!("spans") };
        assert_eq!(timeline.kinds[flash[0].kind], "flash read");
        let labels: Vec<String> = chain.unwrap().queries.into_iter().map(|q| q.label).collect();
        assert_eq!(labels, ["slowest", "slowest, 2"]);
    }
}
