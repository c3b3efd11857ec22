//! Whether a trace that is still being written has what its session is to record.

use super::messages::PowerRails;
use super::wire::{Coming, Fields, Stream, field};
use super::{MOST_CONTENT_BYTES, decoded};
use pocketstone_core::Result;
use std::io::BufRead;

/// Whether the kernel's events have come.
pub fn has_events(trace: impl BufRead) -> bool {
    has(trace, field::PACKET_FTRACE_EVENTS, |bundle| {
        let numbers = Fields::of(bundle).flatten().map(|(number, _)| number);
        numbers.into_iter().any(|number| [field::BUNDLE_EVENT, field::BUNDLE_COMPACT_SCHED].contains(&number))
    })
}

/// Whether power rails were read.
pub fn has_rails(trace: impl BufRead) -> bool {
    has(trace, field::PACKET_POWER_RAILS, |content| {
        decoded::<PowerRails>(content).is_ok_and(|rails| !rails.energy_data.is_empty())
    })
}

/// Whether a packet has this field with such a content. The last packet may not be whole yet.
fn has(trace: impl BufRead, wanted: u32, is_it: impl Fn(&[u8]) -> bool) -> bool {
    let mut stream = Stream::new(trace);
    let mut next = || -> Result<bool> {
        let Some(end) = stream.packet()? else { return Ok(false) };
        let mut found = false;
        while stream.position() < end {
            match stream.field()? {
                (number, Coming::Bytes(length)) if number == wanted => {
                    found |= is_it(&stream.take(length, MOST_CONTENT_BYTES)?);
                }
                (_, Coming::Bytes(length)) => stream.skip(length)?,
                (_, Coming::Number(_)) => {}
            }
        }
        Ok(found)
    };
    loop {
        match next() {
            Ok(false) => {}
            Ok(true) => return true,
            // Cut off: it ends here for now.
            Err(_) => return false,
        }
    }
}
