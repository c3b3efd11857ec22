//! Several writes, to one file or to several, of which a crash leaves all or nothing: what they store where the content
//! lies is one record of the journal, with the files' new sizes.

use super::tail;
use super::write::{self, Change, without};
use crate::contents::{self, Written, sums, with_the_next_fence};
use crate::format::layout::VERSION_BYTES;
use crate::inodes::{Body, State};
use crate::parts::Parts;
use crate::store::{RECORD_OVERHEAD_BYTES, Transaction, item_bytes};
use crate::{Error, Ino, Result, TimeNs, defects};
use pocketstone_media::{Durable, Flushed};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

/// What a batch does to one file, which is locked.
pub(crate) struct Part<'a> {
    pub ino: Ino,
    pub state: &'a mut State,
    /// Offsets and bytes; where they overlap, the last one counts.
    pub writes: &'a [(u64, &'a [u8])],
    /// The size after it; `None`: as the writes leave it.
    pub size: Option<u64>,
}

impl Part<'_> {
    /// The size after it, which all writes must lie in.
    fn size_after(&self, parts: &Parts) -> Result<u64> {
        let layout = &parts.store.layout;
        let mut ends = self.writes.iter().map(|(offset, data)| layout.end_of(*offset, data.len() as u64));
        let end = ends.try_fold(0, |last, end| Ok::<_, Error>(end?.max(last)))?;
        let size = self.size.unwrap_or(self.state.record.size.max(end));
        if size < end { Err(Error::Invalid) } else { layout.end_of(size, 0) }
    }
}

/// What goes where, in whole words, in order.
type Stores<'a> = Vec<(u64, Cow<'a, [u8]>)>;

/// A part that has space for all it writes. Nothing can be seen of it yet.
pub(crate) struct Prepared<'a> {
    stores: Stores<'a>,
    /// What gets other bytes.
    touched: Vec<Range<u64>>,
    old_size: u64,
    size: u64,
    /// What lies between the old end and the new one, where nothing is written.
    zeroed: Flushed,
}

impl Prepared<'_> {
    fn bytes(&self) -> u64 {
        item_bytes(VERSION_BYTES) + self.stores.iter().map(|(_, words)| item_bytes(words.len())).sum::<u64>()
    }

    /// What was stored already, for who does the rest in another way.
    pub fn into_zeroed(self) -> Flushed {
        self.zeroed
    }
}

/// What one record takes of parts.
pub(crate) fn max(parts: &Parts) -> u64 {
    parts.store.layout.max_record() - RECORD_OVERHEAD_BYTES
}

/// Whether one record takes all of it.
pub(crate) fn fits(parts: &Parts, prepared: &[Prepared<'_>]) -> bool {
    prepared.iter().map(Prepared::bytes).sum::<u64>() <= max(parts)
}

/// Does all of it, or nothing: after a crash too.
pub(crate) fn write_batch(parts: &Parts, batch: &mut [Part<'_>]) -> Result<()> {
    batch.iter().try_for_each(|part| part.size_after(parts).map(drop))?;
    let given: usize = batch.iter().flat_map(|part| part.writes).map(|(_, data)| data.len()).sum();
    if given as u64 > max(parts) {
        return Err(Error::TooLarge);
    }
    let mut prepared = Vec::with_capacity(batch.len());
    let mut outcome = Ok(());
    for part in &mut *batch {
        match prepare(parts, part) {
            Ok(ready) => prepared.push(ready),
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    if outcome.is_ok() && !fits(parts, &prepared) {
        outcome = Err(Error::TooLarge);
    }
    match outcome {
        Ok(()) => commit(parts, batch, prepared, parts.store.now()),
        Err(error) => {
            batch.iter().zip(prepared).for_each(|(part, prepared)| give_up(parts, part, prepared));
            Err(error)
        }
    }
}

/// Leaves a file as it is: pages that lost their checksums get them back.
fn give_up(parts: &Parts, part: &Part<'_>, prepared: Prepared<'_>) {
    let mut flushed = prepared.zeroed;
    if let Some(sums) = sums(&parts.store, &part.state.record) {
        for range in prepared.touched {
            let content = range.start..range.end.min(part.state.record.size.max(range.start));
            flushed.join(sums.give_unknown(&part.state.body, content));
        }
    }
    parts.store.medium.fence(flushed).done();
}

/// Takes the space that a part needs, and says what it stores where.
pub(crate) fn prepare<'a>(parts: &Parts, part: &mut Part<'a>) -> Result<Prepared<'a>> {
    let (ino, old_size) = (part.ino, part.state.record.size);
    let size = part.size_after(parts)?;
    match size.cmp(&old_size) {
        Ordering::Less => part.state.must_not_be_mapped()?,
        Ordering::Equal => {}
        Ordering::Greater => tail::clear(parts, ino, part.state)?,
    }
    let mut touched: Vec<Range<u64>> =
        part.writes.iter().map(|(offset, data)| *offset..*offset + data.len() as u64).collect();
    touched.push(old_size..size.max(old_size));
    touched.retain(|range| !range.is_empty());
    if let Some(sums) = sums(&parts.store, &part.state.record) {
        touched.iter().try_for_each(|range| sums.demand_edges(ino, part.state, range))?;
    }
    // First the space, which changes nothing that can be seen.
    for (offset, data) in part.writes.iter().filter(|(_, data)| !data.is_empty()) {
        let range = *offset..*offset + data.len() as u64;
        if !part.state.body.has_space(range.start, range.end) {
            write::change(parts, ino, part.state, &Change { range, data: &[], size: old_size, now: None })?;
        }
    }
    if let Some(sums) = sums(&parts.store, &part.state.record) {
        // Of the pages beyond the end, too: the record makes them content.
        touched.iter().for_each(|range| sums.forget(&part.state.body, range.clone(), |_| true));
    }
    let mut gaps: Vec<Range<u64>> = std::iter::once(old_size..size.max(old_size)).collect();
    for (offset, data) in part.writes {
        let written = *offset..*offset + data.len() as u64;
        gaps = gaps.iter().flat_map(|gap| without(gap, &written)).collect();
    }
    let zeros = gaps.into_iter().map(|gap| contents::zero(parts, &part.state.body, gap));
    let zeroed = zeros.fold(Flushed::nothing(), Flushed::and);
    let mut stores = Vec::with_capacity(part.writes.len());
    let known = comparable(parts, part.writes, old_size);
    for (offset, data) in part.writes {
        if offset + data.len() as u64 > known {
            add_stores(parts, &part.state.body, data, *offset, &mut stores);
        } else {
            add_differences(parts, &part.state.body, data, *offset, &mut stores);
        }
    }
    Ok(Prepared { stores, touched, old_size, size, zeroed })
}

/// Up to where writes are compared with what the file has: what is the same already need not be stored.
fn comparable(parts: &Parts, writes: &[(u64, &[u8])], old_size: u64) -> u64 {
    let ends = |(offset, data): &(u64, &[u8])| offset + data.len() as u64;
    // The last one of two that overlap counts, also where it gives back what was there. And what others store beside
    // the volume is there before it is durable.
    let apart = writes.windows(2).all(|pair| ends(&pair[0]) <= pair[1].0);
    if apart && parts.space.held.stores().is_none() { old_size } else { 0 }
}

/// So many bytes must be the same, for what is behind them to be stored by itself.
const LINE: usize = 64;
/// So many are compared at once.
const CHUNK: usize = 8 * LINE;

/// Adds what of a write differs from what lies there.
fn add_differences<'a>(parts: &Parts, body: &Body, from: &'a [u8], offset: u64, stores: &mut Stores<'a>) {
    let mut add = |run: Range<usize>| add_stores(parts, body, &from[run.clone()], offset + run.start as u64, stores);
    body.spans(offset, offset + from.len() as u64, |at, part| {
        let Some(at) = at else { return };
        let differs =
            |of: &Range<usize>| !parts.store.medium.holds(at + (of.start - part.start) as u64, &from[of.clone()]);
        let pieces =
            |of: Range<usize>, bytes| of.clone().step_by(bytes).map(move |start| start..of.end.min(start + bytes));
        let chunks = pieces(part.clone(), CHUNK).filter(differs);
        let mut lines = chunks.flat_map(|chunk| pieces(chunk, LINE)).filter(differs);
        let Some(mut run) = lines.next() else { return };
        for line in lines {
            if line.start - run.end > LINE {
                add(std::mem::replace(&mut run, line));
            } else {
                run.end = line.end;
            }
        }
        add(run);
    });
}

/// Adds what a write stores where the content lies.
pub(crate) fn add_stores<'a>(parts: &Parts, body: &Body, from: &'a [u8], offset: u64, stores: &mut Stores<'a>) {
    body.spans(offset, offset + from.len() as u64, |at, part| {
        let Some(at) = at else { return };
        // The journal stores whole words: what surrounds the range comes along as it is then.
        let (first, last) = (at & !7, (at + part.len() as u64).next_multiple_of(8));
        if last - first == part.len() as u64 {
            stores.push((first, Cow::Borrowed(&from[part])));
            return;
        }
        let mut words = vec![0; (last - first) as usize];
        if at != first {
            words[..8].copy_from_slice(&word(parts, stores, first));
        }
        if at + part.len() as u64 != last {
            let start = words.len() - 8;
            words[start..].copy_from_slice(&word(parts, stores, last - 8));
        }
        words[(at - first) as usize..][..part.len()].copy_from_slice(&from[part]);
        stores.push((first, Cow::Owned(words)));
    });
}

/// A word as it will be after some stores.
fn word(parts: &Parts, stores: &Stores<'_>, at: u64) -> [u8; 8] {
    let holds = |(first, words): &&(u64, Cow<'_, [u8]>)| (*first..*first + words.len() as u64).contains(&at);
    let stored = stores.iter().rev().find(holds);
    let stored = stored.and_then(|(first, words)| words[(at - first) as usize..].first_chunk().copied());
    stored.unwrap_or_else(|| {
        let mut word = [0; 8];
        parts.store.medium.read(at, &mut word);
        word
    })
}

/// Makes parts that were prepared true, at once.
pub(crate) fn commit(parts: &Parts, batch: &mut [Part<'_>], prepared: Vec<Prepared<'_>>, now: TimeNs) -> Result<()> {
    let bytes = RECORD_OVERHEAD_BYTES + prepared.iter().map(Prepared::bytes).sum::<u64>();
    let (mut tx, mut zeroed) = (Transaction::of(bytes), Flushed::nothing());
    let mut done = Vec::with_capacity(prepared.len());
    for (part, prepared) in batch.iter_mut().zip(prepared) {
        prepared.stores.iter().for_each(|(at, words)| tx.bytes(*at, words));
        part.state.record.size = prepared.size;
        (part.state.record.mtime_ns, part.state.record.ctime_ns) = (now, now);
        let (at, version) = parts.next_version(part.ino, part.state);
        tx.bytes(at, &version);
        zeroed.join(prepared.zeroed);
        done.push((prepared.touched, prepared.size < prepared.old_size));
        if defects::on(defects::BATCH_APART) {
            parts.store.commit(std::mem::replace(&mut tx, Transaction::new()), Durable::nothing_new()).done();
        }
    }
    let mut applied = parts.store.commit(tx, parts.store.medium.fence(zeroed));
    for (part, (touched, _)) in batch.iter().zip(&done) {
        let Some(sums) = sums(&parts.store, &part.state.record) else { continue };
        // Of several writes a later one may have changed what an earlier one wrote.
        let written = match part.writes {
            [(offset, data)] => Written { data, offset: *offset },
            _ => Written::nothing(),
        };
        for range in touched {
            let (content, rest) = applied.twice();
            applied = rest;
            with_the_next_fence(sums.give(&part.state.body, range.clone(), written, |_| true, content));
        }
    }
    // The ranges may be overwritten in place after this: their record must not be the newest then.
    parts.store.commit(Transaction::new(), applied).done();
    // What lies beyond a new end is free.
    for (part, (_, shorter)) in batch.iter_mut().zip(done) {
        if shorter {
            write::resize_file(parts, part.ino, part.state, part.state.record.size)?;
        }
    }
    Ok(())
}
