//! RAPL: counters of a processor's energy, by the kernel's powercap (`Documentation/power/powercap`): zones with
//! `name`, `energy_uj` and `max_energy_range_uj`, after which the counter starts again.

use super::{Found, Reading, folders, last, number, text};
use pocketstone_core::Result;
use pocketstone_core::outcome::Scope;
use std::path::{Path, PathBuf};

const NOTE: &str = "a processor counter, updated about every ms; some processors model it instead of measuring";

struct Zone {
    counter: PathBuf,
    range_uj: f64,
    /// Counter at the last reading, and the sum of all steps.
    last_uj: Option<f64>,
    total_uj: f64,
}

pub(super) fn find(root: &Path, found: &mut Found) {
    let class = root.join("sys/class/powercap");
    let (mut zones, mapped): (Vec<PathBuf>, Vec<PathBuf>) = folders(&class, "")
        .into_iter()
        .filter(|z| z.join("energy_uj").exists())
        .partition(|z| !last(z).contains("mmio"));
    if zones.is_empty() {
        // The same counters by another way.
        zones = mapped;
    }
    if zones.is_empty() {
        return found.lacks(&class, format!("no RAPL ({} has no zone with energy_uj)", class.display()));
    }
    for folder in zones {
        let (id, name) = (last(&folder), text(&folder.join("name")).unwrap_or_default());
        // A package's name has its number; those of zones in it have not: intel-rapl:0:1 is in package 0.
        let scope = match name.as_str() {
            "psys" => Scope::Machine,
            "dram" => Scope::Memory,
            n if n.starts_with("package") => Scope::Package,
            "core" | "uncore" => Scope::Core,
            _ => Scope::Rail,
        };
        // Graphics and what else is no core.
        let scope = if name == "uncore" { Scope::Rail } else { scope };
        let name = match id.split(':').collect::<Vec<_>>()[..] {
            [_, package, _] => format!("rapl:{name}-{package}"),
            _ => format!("rapl:{name}"),
        };
        let range_uj = number(&folder.join("max_energy_range_uj")).unwrap_or(f64::INFINITY);
        let mut zone = Zone { counter: folder.join("energy_uj"), range_uj, last_uj: None, total_uj: 0.0 };
        found.try_add(name, scope, NOTE, move || zone.read());
    }
}

impl Zone {
    fn read(&mut self) -> Result<Reading> {
        let now = number(&self.counter)?;
        if let Some(before) = self.last_uj.replace(now) {
            let step = now - before;
            self.total_uj += if step < 0.0 && self.range_uj.is_finite() { step + self.range_uj } else { step.max(0.0) };
        }
        Ok(Reading::TotalUj(self.total_uj))
    }
}
