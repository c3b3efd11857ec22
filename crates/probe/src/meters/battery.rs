//! The battery's gauge (`Documentation/ABI/testing/sysfs-class-power`): `power_now` in uW, `current_now` in uA with
//! `voltage_now` in uV, `energy_now` in uWh, `charge_now` in uAh. Only a battery that is not charged measures
//! the machine. Gauges renew their values about each second or less often, and count in coarse steps.

use super::{Found, Reading, folders, last, number, read, text};
use pocketstone_core::outcome::Scope;
use pocketstone_core::{Error, Result};
use std::path::{Path, PathBuf};

/// uJ of a uWh.
const UJ_PER_UWH: f64 = 3600.0;

/// What Android calls a phone's battery.
const PHONES: &str = "battery";
/// What a phone that is awake may take.
const PHONE_UW: std::ops::RangeInclusive<f64> = 5e3..=50e6;

struct Gauge {
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
    let mut batteries: Vec<PathBuf> = folders(&class, "").into_iter().filter(is_battery).collect();
    let is_phone = root.join("system/bin").is_dir();
    // The gauges that a phone's battery is made of are batteries of this class, too (Pixel's maxfg).
    if is_phone && batteries.iter().any(|folder| last(folder) == PHONES) {
        batteries.retain(|folder| last(folder) == PHONES);
    }
    if batteries.is_empty() {
        found.lacks(&class, format!("no battery in {}", class.display()));
    }
    for folder in batteries {
        match discharging(&folder).and_then(|()| way(&folder)) {
            Ok(way) => {
                let (name, gauge) = (format!("battery:{}", last(&folder)), Gauge { folder, way });
                if let Err(error) = gauge.is_plausible(is_phone) {
                    found.failed(&error);
                    continue;
                }
                found.try_add(name, Scope::Machine, way.note(), move || gauge.read());
            }
            Err(error) => found.failed(&error),
        }
    }
}

/// Whether a battery feeds the machine, and nothing else does.
fn discharging(folder: &Path) -> Result<()> {
    let status = read(&folder.join("status"))?;
    match status.trim() {
        "Discharging" => Ok(()),
        status => {
            let name = last(folder);
            let why = format!("the battery {name} is `{status}`, so its power is not the machine's");
            Err(Error::board(why).hint("unplug the charger"))
        }
    }
}

/// How a gauge tells what it gives. A driver that has no value now answers with an error.
fn way(folder: &Path) -> Result<Way> {
    let [power, current, voltage, energy, charge] =
        ["power_now", "current_now", "voltage_now", "energy_now", "charge_now"].map(|f| number(&folder.join(f)));
    Ok(match (&voltage, &charge) {
        _ if power.is_ok() => Way::Power,
        (Ok(_), _) if current.is_ok() => Way::Current,
        _ if energy.is_ok() => Way::Energy,
        (Ok(voltage), Ok(_)) => Way::Charge(voltage / 1e6),
        _ => {
            // What may not be read is another matter than what is not there: it has a cure.
            let denied = [power, current, voltage, energy, charge].into_iter().filter_map(Result::err);
            let nothing = || {
                let name = last(folder);
                Error::board(format!("the battery {name} reports neither power, current, energy nor charge"))
            };
            return Err(denied.into_iter().find(|e| e.cure().is_some()).unwrap_or_else(nothing));
        }
    })
}

impl Way {
    fn note(self) -> &'static str {
        match self {
            Way::Power => "coarse: the gauge's power, updated about once a second or less often, integrated",
            Way::Current => "coarse: the gauge's current times voltage, updated about once a second or less often",
            Way::Energy => "coarse: the gauge's remaining energy, in its steps (often 10 mWh, or 36 J)",
            Way::Charge(_) => "coarse: the gauge's remaining charge, in its steps, times the voltage at the start",
        }
    }
}

impl Gauge {
    /// Whether the power that it tells can be a phone's: some makers have units of their own (Samsung's `current_now`
    /// is in mA, and its `power_now` may be a current).
    fn is_plausible(&self, is_phone: bool) -> Result<()> {
        match self.read() {
            Ok(Reading::PowerUw(power_uw)) if is_phone && !PHONE_UW.contains(&power_uw) => {
                let name = last(&self.folder);
                let why = format!("the battery {name} tells {:.2} mW, which no phone takes", power_uw / 1e3);
                Err(Error::board(why).hint("its units are not the kernel's: use power rails or a bench meter"))
            }
            _ => Ok(()),
        }
    }

    fn read(&self) -> Result<Reading> {
        // Who plugs the charger in ends the measurement.
        discharging(&self.folder)?;
        let value = |file: &str| number(&self.folder.join(file));
        Ok(match self.way {
            // Drivers differ in the sign of what flows out.
            Way::Power => Reading::PowerUw(value("power_now")?.abs()),
            // uA times uV is pW.
            Way::Current => Reading::PowerUw((value("current_now")? * value("voltage_now")?).abs() / 1e6),
            Way::Energy => Reading::SteppedUj(-value("energy_now")? * UJ_PER_UWH),
            Way::Charge(volts) => Reading::SteppedUj(-value("charge_now")? * UJ_PER_UWH * volts),
        })
    }
}
