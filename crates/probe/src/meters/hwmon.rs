//! Power and energy sensors of hwmon (`Documentation/hwmon/sysfs-interface`): `energyN_input` in uJ,
//! `powerN_average` and `powerN_input` in uW; where there is neither, `inN_input` in mV times `currN_input` in mA.

use super::{Found, Reading, SAMPLED_POWER, SAMPLED_PRODUCT, folders, last, names, number, text};
use pocketstone_core::Result;
use pocketstone_core::outcome::Scope;
use std::path::{Path, PathBuf};

enum Sensor {
    Energy(PathBuf),
    Power(PathBuf),
    Product(PathBuf, PathBuf),
}

pub(super) fn find(root: &Path, found: &mut Found) {
    let class = root.join("sys/class/hwmon");
    let mut any = false;
    for folder in folders(&class, "hwmon") {
        let device = text(&folder.join("name")).unwrap_or_else(|| last(&folder));
        for (label, sensor) in sensors(&folder) {
            any = true;
            let label = text(&folder.join(format!("{label}_label"))).unwrap_or(label);
            let name = format!("hwmon:{device}:{label}");
            found.try_add(name, scope(&device, &label), sensor.note(), move || sensor.read());
        }
    }
    if !any {
        found.lacks(&class, format!("no power sensor in {}", class.display()));
    }
}

/// The sensors of a device with what names their labels' files. Energy is better than power, and an average
/// better than a value of now.
fn sensors(folder: &Path) -> Vec<(String, Sensor)> {
    let names = names(folder);
    let all = |kind: &str, ending: &str| -> Vec<String> {
        let number = |n: &&String| {
            let middle = n.strip_prefix(kind).and_then(|n| n.strip_suffix(ending));
            middle.is_some_and(|m| !m.is_empty() && m.bytes().all(|b| b.is_ascii_digit()))
        };
        names.iter().filter(number).map(|n| n[..n.len() - ending.len()].to_owned()).collect()
    };
    let energy = all("energy", "_input");
    if !energy.is_empty() {
        return energy.into_iter().map(|c| (c.clone(), Sensor::Energy(folder.join(format!("{c}_input"))))).collect();
    }
    let mut power = all("power", "_average");
    power.extend(all("power", "_input"));
    power.sort();
    power.dedup();
    if !power.is_empty() {
        let best = |c: &String| {
            let average = folder.join(format!("{c}_average"));
            if average.exists() { average } else { folder.join(format!("{c}_input")) }
        };
        return power.into_iter().map(|c| (c.clone(), Sensor::Power(best(&c)))).collect();
    }
    let pair = |current: String| {
        let volts = format!("in{}", &current["curr".len()..]);
        let product = Sensor::Product(folder.join(format!("{volts}_input")), folder.join(format!("{current}_input")));
        names.contains(&format!("{volts}_input")).then_some((volts, product))
    };
    all("curr", "_input").into_iter().filter_map(pair).collect()
}

/// What is known of a few sensors: ACPI's power meter is the machine's, Jetson boards name their input rail, and
/// AMD's driver names sockets and cores.
fn scope(device: &str, label: &str) -> Scope {
    match (device, label) {
        ("power_meter", _) | (_, "VDD_IN" | "POM_5V_IN") => Scope::Machine,
        ("amd_energy", l) if l.starts_with("Esocket") => Scope::Package,
        ("amd_energy", l) if l.starts_with("Ecore") => Scope::Core,
        _ => Scope::Rail,
    }
}

impl Sensor {
    fn note(&self) -> &'static str {
        match self {
            Sensor::Energy(_) => "a counter of the sensor",
            Sensor::Power(_) => SAMPLED_POWER,
            Sensor::Product(..) => SAMPLED_PRODUCT,
        }
    }

    fn read(&self) -> Result<Reading> {
        Ok(match self {
            Sensor::Energy(file) => Reading::TotalUj(number(file)?),
            Sensor::Power(file) => Reading::PowerUw(number(file)?),
            // mV times mA is uW.
            Sensor::Product(volts, amperes) => Reading::PowerUw(number(volts)? * number(amperes)?),
        })
    }
}
