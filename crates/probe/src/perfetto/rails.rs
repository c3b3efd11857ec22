//! The energy of a phone's power rails in a trace.

use super::messages::PowerRails;
use super::wire::{Stream, field};
use super::{MOST_CONTENT_BYTES, NOT_UNDERSTOOD, decoded};
use pocketstone_core::{Error, Result};
use std::collections::BTreeMap;
use std::io::BufRead;

/// The most rails of a phone: `traced` has room for 32.
const MOST_RAILS: usize = 64;

/// The most readings of one rail: an hour of ten a second.
const MOST_READINGS: usize = 36_000 + 1000;

/// A power rail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rail {
    /// Its name, such as `S2M_VDD_CPUCL2`; empty where the trace does not say it.
    pub name: String,
    /// The part of the phone that it feeds, such as `CPU(BIG)`.
    pub subsystem: String,
    /// Energy since boot in uJ, by the time in ms on CLOCK_BOOTTIME.
    pub readings: BTreeMap<u64, u64>,
}

/// The rails in a trace, by their numbers there.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be read, ends within a packet, or has more rails or readings than a session makes.
pub fn rails(trace: impl BufRead) -> Result<BTreeMap<u32, Rail>> {
    let (mut stream, mut found) = (Stream::new(trace), BTreeMap::new());
    while !stream.is_at_end()? {
        let start = stream.position();
        let named = stream
            .packet_with(field::PACKET_POWER_RAILS, MOST_CONTENT_BYTES, |content| add(decoded(content)?, &mut found));
        named.map_err(|e| {
            let error = Error::board(format!("{NOT_UNDERSTOOD} at byte {start}")).because(e);
            error.hint("it may be cut off or damaged; measure again")
        })?;
    }
    Ok(found)
}

fn add(rails: PowerRails, found: &mut BTreeMap<u32, Rail>) -> Result<()> {
    for descriptor in rails.rail_descriptor {
        let rail = found.entry(descriptor.index.unwrap_or_default()).or_default();
        rail.name = descriptor.rail_name.unwrap_or_default();
        rail.subsystem = descriptor.subsys_name.unwrap_or_default();
    }
    for data in rails.energy_data {
        // A number that the format leaves out is 0.
        let rail = found.entry(data.index.unwrap_or_default()).or_default();
        rail.readings.insert(data.timestamp_ms.unwrap_or_default(), data.energy.unwrap_or_default());
        if rail.readings.len() > MOST_READINGS {
            return Err(Error::board("a rail has more readings than a session makes"));
        }
    }
    match found.len() <= MOST_RAILS {
        true => Ok(()),
        false => Err(Error::board(format!("the trace has more than {MOST_RAILS} power rails"))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages::{EnergyData, PACKET_TAG, RailDescriptor};
    use super::*;
    use prost::Message;

    /// A packet with a time, rails, and a number that is not read.
    fn packet_of(rails: &PowerRails) -> Vec<u8> {
        let content = rails.encode_to_vec();
        // `timestamp`, `power_rails`, `sequence_flags`: protos/perfetto/trace/trace_packet.proto.
        let packet = [&[0x40, 0x07, 0xc2, 0x02, content.len() as u8][..], &content, &[0x68, 0x02]].concat();
        [&[PACKET_TAG, packet.len() as u8][..], &packet].concat()
    }

    fn data(index: u32, timestamp_ms: u64, energy: u64) -> EnergyData {
        EnergyData { index: Some(index), timestamp_ms: Some(timestamp_ms), energy: Some(energy) }
    }

    #[test]
    fn rails_have_their_names_and_readings_in_the_order_of_their_times() {
        let named = RailDescriptor {
            index: Some(3),
            rail_name: Some("S2M_VDD_CPUCL2".into()),
            subsys_name: Some("CPU(BIG)".into()),
        };
        let first = PowerRails { rail_descriptor: vec![named], energy_data: vec![data(3, 200, 70), data(0, 201, 5)] };
        let second = PowerRails { rail_descriptor: vec![], energy_data: vec![data(3, 100, 50)] };
        let other = [0x0a, 0x02, 0x50, 0x01];
        let trace = [packet_of(&first), other.into(), packet_of(&second)].concat();
        let found = rails(&trace[..]).unwrap();
        let expected = Rail {
            name: "S2M_VDD_CPUCL2".into(),
            subsystem: "CPU(BIG)".into(),
            readings: [(100, 50), (200, 70)].into(),
        };
        assert_eq!(found[&3], expected);
        assert_eq!(found[&0], Rail { readings: [(201, 5)].into(), ..Rail::default() });
        // Cut anywhere it is no trace, or one of fewer packets.
        for end in 0..trace.len() {
            assert!(rails(&trace[..end]).is_ok_and(|rails| rails != found) || rails(&trace[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn more_than_a_session_makes_is_refused() {
        let many = (0..=MOST_RAILS as u32).map(|index| data(index, 1, 1));
        let found: Vec<u8> =
            many.flat_map(|data| packet_of(&PowerRails { energy_data: vec![data], ..Default::default() })).collect();
        assert!(rails(&found[..]).unwrap_err().chain().contains("power rails"));
    }
}
