//! What a loss of power leaves of a file on an ordinary file system.

use super::states::Pattern;
use super::{CrashState, Event, Explored, Trace};
use pocketstone_random::Random;
use std::ops::ControlFlow;

impl Trace {
    /// Shows `visit` up to `count` images, drawn at random, of a medium that writes whole pages back
    /// when it likes, and for certain only at [`Event::Sync`]: after some event, every page is as it
    /// was at the last sync, or as it was after any event since. Fences mean nothing to it.
    ///
    /// # Panics
    /// When `page_bytes` is 0.
    pub fn page_states(
        &self,
        page_bytes: usize,
        seed: u64,
        count: usize,
        visit: &mut dyn FnMut(&CrashState) -> ControlFlow<()>,
    ) -> Explored {
        assert!(page_bytes > 0, "a page has at least one byte");
        let mut random = Random::labelled(seed, "pages");
        // In order, so that the synced image only ever moves forward.
        let mut moments: Vec<usize> = (0..count).map(|_| random.below(self.events.len() as u64 + 1) as usize).collect();
        moments.sort_unstable();
        let mut synced = self.image.clone();
        let (mut synced_at, mut synced_mark) = (0, None);
        let mut image = synced.clone();
        let mut until = vec![0; self.image.len().div_ceil(page_bytes)];
        let mut explored = Explored::default();
        for moment in moments {
            if let Some(sync) = self.events[synced_at..moment].iter().rposition(|e| *e == Event::Sync) {
                let events = &self.events[synced_at..synced_at + sync];
                events.iter().for_each(|event| apply(event, &mut synced, page_bytes, &|_| true));
                synced_mark = last_mark(events).or(synced_mark);
                synced_at += sync + 1;
            }
            let events = &self.events[synced_at..moment];
            image.copy_from_slice(&synced);
            // The two ends are the most telling, so they are drawn more often.
            let mut older = 0;
            for page in &mut until {
                *page = match random.below(4) {
                    0 => 0,
                    1 => events.len(),
                    _ => random.below(events.len() as u64 + 1) as usize,
                };
                older += usize::from(*page < events.len());
            }
            for (index, event) in events.iter().enumerate() {
                apply(event, &mut image, page_bytes, &|page| index < until[page]);
            }
            explored.moments += 1;
            explored.states += 1;
            let state = CrashState {
                image: &image,
                fence: self.events[..moment].iter().filter(|event| **event == Event::Fence).count(),
                last_mark: last_mark(events).or(synced_mark),
                synced_mark,
                pattern: Pattern::Pages { bytes: page_bytes, event: moment, older },
            };
            if visit(&state).is_break() {
                break;
            }
        }
        explored
    }
}

fn last_mark(events: &[Event]) -> Option<u64> {
    events.iter().rev().find_map(|event| match event {
        Event::Mark(label) => Some(*label),
        _ => None,
    })
}

/// Stores what an event stored, on the pages that `wanted` names.
fn apply(event: &Event, image: &mut [u8], page_bytes: usize, wanted: &dyn Fn(usize) -> bool) {
    let Event::Store { at, bytes, .. } = event else { return };
    let mut start = *at as usize;
    let end = start + bytes.len();
    while start < end {
        let page = start / page_bytes;
        let stop = end.min((page + 1) * page_bytes);
        if wanted(page) {
            image[start..stop].copy_from_slice(&bytes[start - *at as usize..stop - *at as usize]);
        }
        start = stop;
    }
}
