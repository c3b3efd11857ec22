//! The battery's gauge (`Documentation/ABI/testing/sysfs-class-power`): `power_now` in uW, `current_now` in uA with
//! `voltage_now` in uV, `energy_now` in uWh, `charge_now` in uAh. Only a battery that is not charged measures
//! the machine. Gauges renew their values about each second or less often, and count in coarse steps.

use super::{Found, Meter, Missing, Reading, folders, last, number, text};
use pocketstone_core::Result;
use pocketstone_core::outcome::Scope;
use std::path::{Path, PathBuf};

/// uJ of a uWh.
const UJ_PER_UWH: f64 = 3600.0;

struct Gauge {
    name: String,
    folder: PathBuf,
    way: Way,
}

#[derive(Clone, Copy)]
enum Way {
    Power,
    Current,
    Energy,
    /// With the voltage in V when it was found.
    Charge(f64),
}

pub(super) fn find(root: &Path, found: &mut Found) {
    let class = root.join("sys/class/power_supply");
    let attribute = |folder: &Path, name: &str| text(&folder.join(name)).unwrap_or_default();
    let is_battery = |f: &PathBuf| attribute(f, "type") == "Battery" && attribute(f, "scope") != "Device";
    let batteries: Vec<PathBuf> = folders(&class, "").into_iter().filter(is_battery).collect();
    if batteries.is_empty() {
        found.lacks(format!("no battery in {}", class.display()));
    }
    for folder in batteries {
        let (name, status) = (last(&folder), attribute(&folder, "status"));
        if status != "Discharging" {
            let why = format!("the battery {name} is `{status}`: what it gives is not what the machine takes");
            found.missing.push(Missing { why, cure: "unplug the charger".into() });
            continue;
        }
        let has = |file: &str| number(&folder.join(file)).ok();
        let way = match (has("voltage_now"), has("charge_now")) {
            _ if has("power_now").is_some() => Way::Power,
            (Some(_), _) if has("current_now").is_some() => Way::Current,
            _ if has("energy_now").is_some() => Way::Energy,
            (Some(voltage), Some(_)) => Way::Charge(voltage / 1e6),
            _ => {
                found.lacks(format!("the battery {name} tells neither power, current, energy nor charge"));
                continue;
            }
        };
        found.try_add(Gauge { name: format!("battery:{name}"), folder, way });
    }
}

impl Meter for Gauge {
    fn name(&self) -> &str {
        &self.name
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    fn note(&self) -> &str {
        match self.way {
            Way::Power => "coarse: the gauge's power, renewed about each second or less often, integrated",
            Way::Current => "coarse: the gauge's current times voltage, renewed about each second or less often",
            Way::Energy => "coarse: the gauge's remaining energy, in its steps (often 10 mWh, which are 36 J)",
            Way::Charge(_) => "coarse: the gauge's remaining charge, in its steps, times the voltage at the start",
        }
    }

    fn read(&mut self) -> Result<Reading> {
        let value = |file: &str| number(&self.folder.join(file));
        Ok(match self.way {
            // Drivers differ in the sign of what flows out.
            Way::Power => Reading::PowerUw(value("power_now")?.abs()),
            // uA times uV is pW.
            Way::Current => Reading::PowerUw((value("current_now")? * value("voltage_now")?).abs() / 1e6),
            Way::Energy => Reading::TotalUj(-value("energy_now")? * UJ_PER_UWH),
            Way::Charge(volts) => Reading::TotalUj(-value("charge_now")? * UJ_PER_UWH * volts),
        })
    }
}
