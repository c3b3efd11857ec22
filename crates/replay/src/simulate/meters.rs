//! What is summed up during a replay: whole nanoseconds in each state. Powers come in at the end, each once, in a
//! fixed order, so that the energy does not depend on how a span was cut.

use crate::device::{Cluster, Device};
use crate::outcome::{Energy, Residency};

/// 1 mW for 1 ns in mJ.
const MJ_PER_MW_NS: f64 = 1e-9;

#[derive(Debug, Clone)]
pub(super) struct Meters {
    /// Time of cores that were busy, by operating point; two cores count twice.
    pub(super) core_busy_ns: Vec<u64>,
    /// Time of cores in each idle state.
    pub(super) core_idle_ns: Vec<u64>,
    /// Time of cores that were waking up.
    pub(super) core_waking_ns: u64,
    /// Time of threads that count on cores.
    pub(super) counted_busy_ns: u64,
    /// Time of domains at each operating point, in all and while any of their cores was busy.
    pub(super) residency_ns: Vec<(u64, u64)>,
    /// Time while any core was awake.
    pub(super) awake_ns: u64,
    /// Time while any core was busy.
    pub(super) running_ns: u64,
    /// Time by what the storage was asked for: bit 0 reads, bit 1 writes, bit 2 syncs.
    pub(super) storage_ns: [u64; 8],
}

impl Meters {
    pub(super) fn new(cluster: &Cluster) -> Self {
        Meters {
            core_busy_ns: vec![0; cluster.points.len()],
            core_idle_ns: vec![0; cluster.idle.len()],
            core_waking_ns: 0,
            counted_busy_ns: 0,
            residency_ns: vec![(0, 0); cluster.points.len()],
            awake_ns: 0,
            running_ns: 0,
            storage_ns: [0; 8],
        }
    }

    /// `E = sum of P t`, with each state's power. What idle cores use is the state's power; awake are the cluster's
    /// shared part and the rest of the device.
    pub(super) fn energy(&self, device: &Device, cluster: &Cluster, run_ns: u64) -> Energy {
        let mj = |power_mw: f64, ns: u64| power_mw * (ns as f64) * MJ_PER_MW_NS;
        let active = cluster.points.iter().zip(&self.core_busy_ns).map(|(p, ns)| mj(p.power_mw, *ns));
        let idle = cluster.idle.iter().zip(&self.core_idle_ns).map(|(s, ns)| mj(s.power_mw, *ns));
        let waking = cluster.idle.first().map_or(0.0, |s| mj(s.power_mw, self.core_waking_ns));
        let storage = [device.storage.read_mw, device.storage.write_mw, device.storage.sync_mw];
        let flash = self.storage_ns.iter().enumerate().map(|(asked, ns)| {
            let powers = storage.iter().enumerate().filter(|(kind, _)| asked >> kind & 1 == 1).map(|(_, p)| *p);
            mj(powers.fold(0.0, f64::max), *ns)
        });
        Energy {
            active_mj: active.sum(),
            idle_mj: idle.sum::<f64>() + waking,
            awake_mj: mj(cluster.shared_mw, self.awake_ns)
                + mj(device.awake_mw, self.awake_ns)
                + mj(device.asleep_mw, run_ns - self.awake_ns),
            memory_mj: mj(device.memory_mw, self.running_ns),
            flash_mj: flash.sum(),
        }
    }

    /// The frequencies that were in force at all.
    pub(super) fn residency(&self, frequencies_khz: &[u32]) -> Vec<Residency> {
        let all = frequencies_khz.iter().zip(&self.residency_ns);
        let used = all.filter(|(_, (total_ns, _))| *total_ns > 0);
        used.map(|(khz, (total_ns, busy_ns))| Residency { khz: *khz, busy_ns: *busy_ns, total_ns: *total_ns }).collect()
    }
}
