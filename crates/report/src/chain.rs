//! A query and what it caused in every layer below: calls, pages that came into the page cache, flash
//! operations and block requests, as lists that open without a script.

use crate::format::{self, count};
use crate::svg::{Svg, num};
use pocketstone_study::views::model::{ChainBlock, ChainCall, ChainFlash, ChainMiss, ChainQuery, Scale};
use serde::Serialize;

/// Width of a bar, in its own units.
const WIDTH: f64 = 600.0;
/// Letters of a statement beside its number.
const SQL: usize = 90;

/// What the page shows of a chain.
#[derive(Debug, Serialize)]
pub(crate) struct Links {
    queries: Vec<Query>,
    /// What the bars' colours mean: name and class.
    legend: Vec<(&'static str, &'static str)>,
    /// Whether time on a core could not be told from time in calls everywhere.
    mixed: bool,
}

#[derive(Debug, Serialize)]
struct Query {
    number: String,
    label: String,
    head: String,
    sql: String,
    service: String,
    response: String,
    on_core: Option<String>,
    bar: String,
    /// The bar's parts in words.
    parts: String,
    calls: Vec<Call>,
    more: u64,
    below: Below,
}

#[derive(Debug, Serialize)]
struct Call {
    at: String,
    name: String,
    class: &'static str,
    what: String,
    took: String,
    /// What it returned, where that is no number of bytes asked for.
    result: Option<String>,
    below: Below,
}

/// What happened below a call, a line each.
#[derive(Debug, Serialize)]
struct Below {
    misses: Vec<String>,
    flash: Vec<String>,
    blocks: Vec<String>,
}

/// Where a query's time goes, in the order of the bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Core,
    Read,
    Write,
    Sync,
    OtherCall,
    Elsewhere,
}

impl Place {
    const ALL: [Place; 6] = [Place::Core, Place::Read, Place::Write, Place::Sync, Place::OtherCall, Place::Elsewhere];

    fn of_call(name: &str) -> Place {
        match name {
            "read" => Place::Read,
            "write" => Place::Write,
            "sync" => Place::Sync,
            _ => Place::OtherCall,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Place::Core => "s2",
            Place::Read => "s0",
            Place::Write => "s1",
            Place::Sync => "s4",
            Place::OtherCall => "s3",
            Place::Elsewhere => "rest",
        }
    }

    /// Its name where calls are told apart from the time on a core within them (`split`), and where not.
    fn name(self, split: bool) -> &'static str {
        match (self, split) {
            (Place::Core, _) => "on a core",
            (Place::Read, true) => "blocked in read",
            (Place::Write, true) => "blocked in write",
            (Place::Sync, true) => "blocked in sync",
            (Place::OtherCall, true) => "blocked in other calls",
            (Place::Elsewhere, true) => "waiting elsewhere",
            (Place::Read, false) => "in read",
            (Place::Write, false) => "in write",
            (Place::Sync, false) => "in sync",
            (Place::OtherCall, false) => "in other calls",
            (Place::Elsewhere, false) => "outside of calls",
        }
    }
}

/// Prepares a chain's queries, with at most `calls` calls of each and `text` letters of its statement.
pub(crate) fn links(shown: &[ChainQuery], calls: usize, text: usize) -> Links {
    let splits: Vec<bool> = shown.iter().map(|q| split(q).is_some()).collect();
    let used = |place: &Place| shown.iter().any(|q| parts(q).iter().any(|p| p.0 == *place && p.1 > 0));
    let all_split = splits.iter().all(|s| *s);
    let legend = Place::ALL.into_iter().filter(used).map(|p| {
        let name = match (p, all_split) {
            (Place::Read, false) => "read",
            (Place::Write, false) => "write",
            (Place::Sync, false) => "sync",
            (Place::OtherCall, false) => "other calls",
            (Place::Elsewhere, false) => "the rest",
            _ => p.name(true),
        };
        (name, p.class())
    });
    Links {
        legend: legend.collect(),
        mixed: !all_split,
        queries: shown.iter().map(|q| query(q, calls, text)).collect(),
    }
}

/// The time on a core outside of calls and within each of them, where all of it is known.
fn split(query: &ChainQuery) -> Option<u64> {
    let on_core = query.on_core_ns?;
    let shown = query.calls.iter().all(|c| c.on_core_ns.is_some() && c.duration_ns.is_some());
    let more = query.more.iter().all(|sum| sum.on_core_ns.is_some());
    (shown && more).then_some(on_core)
}

/// The parts of a query's service time. They never sum up to more than it.
fn parts(query: &ChainQuery) -> Vec<(Place, u64)> {
    let mut left = query.service_ns;
    let mut take = |ns: u64| {
        let taken = ns.min(left);
        left -= taken;
        taken
    };
    let on_core = split(query);
    let mut parts = vec![(Place::Core, take(on_core.unwrap_or(0)))];
    for place in [Place::Read, Place::Write, Place::Sync, Place::OtherCall] {
        let shown = query.calls.iter().map(|c| (&c.name, c.duration_ns.unwrap_or(0), c.on_core_ns));
        let all = shown.chain(query.more.iter().map(|sum| (&sum.name, sum.duration_ns, sum.on_core_ns)));
        let blocked = |(_, ns, core): (&String, u64, Option<u64>)| {
            ns.saturating_sub(core.filter(|_| on_core.is_some()).unwrap_or(0))
        };
        parts.push((place, take(all.filter(|c| Place::of_call(c.0) == place).map(blocked).sum())));
    }
    parts.push((Place::Elsewhere, left));
    parts
}

fn duration(ns: u64) -> String {
    format::value(Scale::Duration, ns as f64)
}

fn query(query: &ChainQuery, calls: usize, text: usize) -> Query {
    let parts = parts(query);
    let split = split(query).is_some();
    let words = |(place, ns): &(Place, u64)| format!("{} {}", duration(*ns), place.name(split));
    let sql: String = query.sql.chars().take(text).collect();
    let line = query.sql.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut head: String = line.chars().take(SQL).collect();
    if head.len() < line.len() {
        head.push('…');
    }
    let words: Vec<String> = parts.iter().filter(|p| p.1 > 0).map(words).collect();
    Query {
        number: count(query.number),
        label: query.label.clone(),
        head,
        sql: if sql.len() < query.sql.len() { sql + "…" } else { sql },
        service: duration(query.service_ns),
        response: duration(query.response_ns),
        on_core: query.on_core_ns.map(duration),
        bar: bar(query, &parts, split),
        parts: words.join(", "),
        calls: query.calls.iter().take(calls).map(|c| call(query, c)).collect(),
        more: query.more_calls + query.calls.len().saturating_sub(calls) as u64,
        below: below(query, &query.misses, &query.flash, &query.blocks),
    }
}

fn bar(query: &ChainQuery, parts: &[(Place, u64)], split: bool) -> String {
    if query.service_ns == 0 {
        return String::new();
    }
    let mut svg = Svg::default();
    let view = format!("0 0 {WIDTH} 14");
    svg.open(
        "svg",
        &[("class", "where"), ("viewBox", &view), ("preserveAspectRatio", "none"), ("aria-hidden", "true")],
    );
    let mut at = 0.0;
    for (place, ns) in parts.iter().filter(|p| p.1 > 0) {
        let width = *ns as f64 / query.service_ns as f64 * WIDTH;
        svg.open("g", &[("class", place.class())]);
        svg.open("path", &[("class", "bar"), ("d", &format!("M{} 0h{}v14h-{}z", num(at), num(width), num(width)))]);
        svg.leaf("title", &[], &format!("{} {}", duration(*ns), place.name(split)));
        svg.close("path");
        svg.close("g");
        at += width;
    }
    svg.close("svg");
    svg.finish()
}

/// A time within a query.
fn at(query: &ChainQuery, time_ns: u64) -> String {
    match time_ns.checked_sub(query.start_ns) {
        Some(ns) => format!("+{}", duration(ns)),
        None => format!("\u{2212}{}", duration(query.start_ns - time_ns)),
    }
}

fn call(query: &ChainQuery, call: &ChainCall) -> Call {
    let mut what = vec![];
    if !call.file.is_empty() {
        what.push(call.file.clone());
    }
    if let Some(bytes) = call.bytes {
        what.push(format::value(Scale::Bytes, bytes as f64));
    }
    if let Some(offset) = call.offset {
        what.push(format!("at {}", count(offset)));
    }
    let result = match call.result {
        Some(error @ ..0) => Some(format!("failed: error {}", error.unsigned_abs())),
        Some(n) if call.bytes.is_some_and(|bytes| bytes != n as u64) => Some(format!("returned {}", count(n as u64))),
        _ => None,
    };
    Call {
        at: at(query, call.start_ns),
        name: call.name.clone(),
        class: Place::of_call(&call.name).class(),
        what: what.join(", "),
        took: call.duration_ns.map_or("return not seen".into(), duration),
        result,
        below: below(query, &call.misses, &call.flash, &call.blocks),
    }
}

/// Lines of one list below a call.
const LINES: usize = 12;

fn below(query: &ChainQuery, misses: &[ChainMiss], flash: &[ChainFlash], blocks: &[ChainBlock]) -> Below {
    Below {
        misses: lines(misses_joined(misses)),
        flash: lines(flash_joined(query, flash)),
        blocks: lines(blocks.iter().map(|b| block(query, b)).collect()),
    }
}

fn lines(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > LINES {
        let more = lines.len() - LINES + 1;
        lines.truncate(LINES - 1);
        lines.push(format!("and {more} more"));
    }
    lines
}

fn pages(first: u64, pages: u64) -> String {
    match pages {
        0 | 1 => format!("page {}", count(first)),
        n => format!("pages {} to {} ({})", count(first), count(first + (n - 1)), count(n)),
    }
}

/// Misses one behind the other in a file are one line.
fn misses_joined(misses: &[ChainMiss]) -> Vec<String> {
    let mut joined: Vec<ChainMiss> = Vec::new();
    for miss in misses {
        match joined.last_mut() {
            Some(last)
                if last.file == miss.file && last.first_page.checked_add(last.pages) == Some(miss.first_page) =>
            {
                last.pages += miss.pages;
            }
            _ => joined.push(miss.clone()),
        }
    }
    let file = |m: &ChainMiss| if m.file.is_empty() { "file unknown".to_owned() } else { m.file.clone() };
    joined.iter().map(|m| format!("{}, {}", file(m), pages(m.first_page, m.pages))).collect()
}

/// Flash operations of one kind on pages one behind the other are one line.
fn flash_joined(query: &ChainQuery, flash: &[ChainFlash]) -> Vec<String> {
    // Kind, first page, pages, first time, last time.
    let mut joined: Vec<(&str, u64, u64, u64, u64)> = Vec::new();
    for op in flash {
        match joined.last_mut() {
            Some(run) if run.0 == op.kind && run.1.checked_add(run.2) == Some(op.page) => {
                run.2 += 1;
                run.4 = op.time_ns;
            }
            _ => joined.push((&op.kind, op.page, 1, op.time_ns, op.time_ns)),
        }
    }
    let text = |&(kind, first, n, from, to): &(&str, u64, u64, u64, u64)| {
        let to = if to > from { format!(" to {}", at(query, to)) } else { String::new() };
        format!("{}: {}, {}{to}", kind.replace('_', " "), pages(first, n), at(query, from))
    };
    joined.iter().map(text).collect()
}

fn block(query: &ChainQuery, block: &ChainBlock) -> String {
    let took = block.duration_ns.map_or("end not seen".to_owned(), duration);
    let (device, sector, at) = (&block.device, count(block.first_sector), at(query, block.issue_ns));
    // The kernel's trace has a flush as a write of nothing.
    if block.write && block.sectors == 0 {
        return format!("flush of {device}, {at}, {took}");
    }
    let verb = if block.write { "write" } else { "read" };
    let bytes = format::value(Scale::Bytes, block.sectors as f64 * 512.0);
    format!("{verb} {bytes} at sector {sector} of {device}, {at}, {took}")
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
