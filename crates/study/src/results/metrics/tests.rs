use super::*;
use crate::testing::nothing;
use pocketstone_core::outcome::{Scope, Space};

#[test]
fn a_volume_says_what_its_files_take_and_what_it_does_not_know_has_no_value() {
    let mut outcome = crate::testing::nothing(0, 1);
    assert!(of_volume(&outcome).iter().all(|(_, value)| value.is_none()));
    outcome.space = Some(Space { used_bytes: 2 << 20, stored_bytes: 3 << 19, fragmented_files: Some(2) });
    outcome.facts.insert("volume.pcm_lines_written".into(), "77".into());
    let found: Vec<_> = of_volume(&outcome).into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let expected = [
        ("used_bytes", 2_097_152.0),
        ("stored_bytes", 1_572_864.0),
        ("wasted_share", 0.25),
        ("fragmented_files", 2.0),
        ("pcm_line_writes", 77.0),
    ];
    assert_eq!(found, expected);
    outcome.space = Some(Space { used_bytes: 0, stored_bytes: 0, fragmented_files: None });
    assert_eq!(of_volume(&outcome)[2], ("wasted_share", None));
}

#[test]
fn energy_is_that_of_the_widest_meters_and_absent_without() {
    let reading = |meter: &str, scope, energy_uj, idle_mw| {
        let (duration_ns, samples) = (1_000_000_000, 2);
        EnergyReading { meter: meter.into(), scope, energy_uj, duration_ns, idle_mw, samples, note: String::new() }
    };
    let mut outcome = nothing(0, 0);
    assert!(of_energy(&outcome).is_empty());
    outcome.energy = vec![
        reading("rapl:package-0", Scope::Package, 9_000_000, Some(4000.0)),
        reading("rapl:package-1", Scope::Package, 6_000_000, Some(3000.0)),
        reading("rapl:dram-0", Scope::Memory, 2_000_000, Some(1000.0)),
    ];
    // Two packages: 15 J in a second, at rest 7 W.
    let expected = [("energy_uj", 15e6), ("active_energy_uj", 8e6), ("idle_mw", 7000.0)];
    assert_eq!(of_energy(&outcome), expected.map(|(name, value)| (name, Some(value))));
    outcome.energy[1].idle_mw = None;
    assert_eq!(of_energy(&outcome)[1], ("active_energy_uj", None));
}
