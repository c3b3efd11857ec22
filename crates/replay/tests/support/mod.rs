//! What the fuzz target `device_profile` checks, for it and for the test that replays its corpus.

use pocketstone_replay::device::Device;

/// A profile of any text: nothing panics, what is refused has a cure, and what is taken keeps what models count on.
/// Whether it was taken.
pub fn device_profile(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let device = match Device::parse("fuzzed", text) {
        Ok(device) => device,
        Err(error) => {
            assert!(error.cure().is_some(), "{}", error.chain());
            return false;
        }
    };
    assert!(!device.clusters.is_empty());
    for cluster in &device.clusters {
        assert!(cluster.cores > 0 && !cluster.points.is_empty() && !cluster.idle.is_empty());
        assert!(cluster.points.windows(2).all(|w| w[0].khz < w[1].khz));
        assert!(cluster.points.iter().all(|p| p.khz > 0 && p.power_mw.is_finite() && p.power_mw > 0.0));
        assert!(cluster.idle.iter().all(|s| s.power_mw.is_finite() && s.power_mw >= 0.0));
    }
    assert!(device.sources.values().all(|s| !s.trim().is_empty()));
    true
}
