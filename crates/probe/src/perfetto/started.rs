//! Whether a trace that is still being written has what its session is to record.

use super::messages::PowerRails;
use super::wire::{Fields, Stream, field};
use super::{MOST_CONTENT_BYTES, decoded};
use std::io::BufRead;

/// Whether the kernel's events have come.
pub fn has_events(trace: impl BufRead) -> bool {
    has(trace, field::PACKET_FTRACE_EVENTS, |bundle| {
        let mut fields = Fields::of(bundle).flatten();
        fields.any(|(number, _)| [field::BUNDLE_EVENT, field::BUNDLE_COMPACT_SCHED].contains(&number))
    })
}

/// Whether power rails were read.
pub fn has_rails(trace: impl BufRead) -> bool {
    has(trace, field::PACKET_POWER_RAILS, |content| {
        decoded::<PowerRails>(content).is_ok_and(|rails| !rails.energy_data.is_empty())
    })
}

/// Whether a packet has this field with such a content. The last packet may not be whole yet: it counts when it is.
fn has(trace: impl BufRead, wanted: u32, is_it: impl Fn(&[u8]) -> bool) -> bool {
    let mut stream = Stream::new(trace);
    loop {
        let mut found = false;
        let here = stream.packet_with(wanted, MOST_CONTENT_BYTES, |content| {
            found |= is_it(content);
            Ok(())
        });
        // Where it is cut off it ends for now.
        if found || here.is_err() {
            return found && here.is_ok();
        }
    }
}
