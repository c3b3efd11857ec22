//! Sensors of IIO (`Documentation/ABI/testing/sysfs-bus-iio`): power in mW, voltage in mV, current in mA, each
//! `(raw + offset) * scale`; and the power rails of Pixel phones (ODPM): `energy_value`, lines such as
//! `CH3(T=349894)[S4M_VDD_CPUCL0], 5578756` with ms since boot and uJ.

use super::{Found, Reading, SAMPLED_POWER, SAMPLED_PRODUCT, folders, last, names, number, read, text};
use pocketstone_core::outcome::Scope;
use pocketstone_core::{Error, Result};
use std::path::{Path, PathBuf};

const RAIL: &str = "a counter of the power-management chip";

pub(super) fn find(root: &Path, found: &mut Found) {
    let bus = root.join("sys/bus/iio/devices");
    let mut any = false;
    for folder in folders(&bus, "iio:device") {
        let rails = folder.join("energy_value");
        if rails.exists() {
            any = true;
            match rails_of(&rails) {
                Ok(all) => {
                    let device = text(&folder.join("name")).unwrap_or_else(|| last(&folder));
                    for (rail, _) in all {
                        let (name, file) = (format!("odpm:{device}:{rail}"), rails.clone());
                        found.try_add(name, Scope::Rail, RAIL, move || rail_of(&file, &rail));
                    }
                }
                Err(error) => found.failed(&error),
            }
        }
        for channel in channels(&folder) {
            any = true;
            let note = if channel.current.is_some() { SAMPLED_PRODUCT } else { SAMPLED_POWER };
            found.try_add(channel.name.clone(), Scope::Rail, note, move || channel.read());
        }
    }
    if !any {
        found.lacks(&bus, format!("no power sensor in {}", bus.display()));
    }
}

/// A quantity of a device: `in_power2`, with its scale and offset.
struct Quantity {
    value: PathBuf,
    scale: Option<PathBuf>,
    offset: Option<PathBuf>,
}

impl Quantity {
    /// `channel` is such as `in_power2`; `None` where it has no value.
    fn of(folder: &Path, channel: &str) -> Option<Quantity> {
        let input = folder.join(format!("{channel}_input"));
        if input.exists() {
            return Some(Quantity { value: input, scale: None, offset: None });
        }
        let kind = channel.trim_end_matches(|c: char| c.is_ascii_digit());
        let shared = |what: &str| {
            let both = [format!("{channel}_{what}"), format!("{kind}_{what}")];
            both.iter().map(|name| folder.join(name)).find(|p| p.exists())
        };
        let value = folder.join(format!("{channel}_raw"));
        let (scale, offset) = (shared("scale"), shared("offset"));
        value.exists().then_some(Quantity { value, scale, offset })
    }

    fn read(&self) -> Result<f64> {
        let optional = |file: &Option<PathBuf>, none| file.as_deref().map_or(Ok(none), number);
        Ok((number(&self.value)? + optional(&self.offset, 0.0)?) * optional(&self.scale, 1.0)?)
    }
}

/// Power, or voltage with current.
struct Channel {
    name: String,
    first: Quantity,
    current: Option<Quantity>,
}

fn channels(folder: &Path) -> Vec<Channel> {
    let device = ["label", "name"].iter().find_map(|f| text(&folder.join(f))).unwrap_or_else(|| last(folder));
    let mut all: Vec<String> = Vec::new();
    for name in names(folder) {
        let channel = ["_raw", "_input"].iter().find_map(|ending| name.strip_suffix(ending));
        all.extend(channel.map(str::to_owned));
    }
    let of = |kind: &str| -> Vec<String> {
        let number = |c: &&String| c.strip_prefix(kind).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
        all.iter().filter(number).cloned().collect()
    };
    let label = |channel: &str| text(&folder.join(format!("{channel}_label"))).unwrap_or_else(|| channel.to_owned());
    let make = |channel: &str, current: Option<&str>| {
        let current = match current {
            Some(current) => Some(Quantity::of(folder, current)?),
            None => None,
        };
        let name = format!("iio:{device}:{}", label(channel));
        Some(Channel { name, first: Quantity::of(folder, channel)?, current })
    };
    let power = of("in_power");
    if !power.is_empty() {
        return power.iter().filter_map(|c| make(c, None)).collect();
    }
    let (volts, currents) = (of("in_voltage"), of("in_current"));
    if let ([volt], [current]) = (&volts[..], &currents[..]) {
        return make(volt, Some(current)).into_iter().collect();
    }
    // The same number is the same line.
    let pair = |volt: &String| {
        let current = volt.replace("in_voltage", "in_current");
        currents.contains(&current).then(|| make(volt, Some(&current)))?
    };
    volts.iter().filter_map(pair).collect()
}

impl Channel {
    fn read(&self) -> Result<Reading> {
        let first = self.first.read()?;
        Ok(Reading::PowerUw(match &self.current {
            // mW; mV times mA is uW.
            None => first * 1000.0,
            Some(current) => first * current.read()?,
        }))
    }
}

/// Rails and their energies in uJ.
fn rails_of(file: &Path) -> Result<Vec<(String, f64)>> {
    let text = read(file)?;
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        // The head says when; each line says so, too.
        if line.starts_with("t=") {
            continue;
        }
        let rail = || {
            let (head, energy) = line.rsplit_once(',')?;
            let rail = head.strip_prefix("CH")?.split_once('[')?.1.strip_suffix(']')?;
            Some((rail.to_owned(), energy.trim().parse::<u64>().ok()? as f64))
        };
        all.push(rail().ok_or_else(|| {
            Error::board(format!("{}:{}: `{line}` is not a rail's energy", file.display(), number + 1))
        })?);
    }
    match all.is_empty() {
        true => Err(Error::board(format!("{} has no rail", file.display()))),
        false => Ok(all),
    }
}

/// Energy of one rail.
fn rail_of(file: &Path, rail: &str) -> Result<Reading> {
    let energy = rails_of(file)?.into_iter().find(|(name, _)| name == rail);
    let missing = || Error::board(format!("{} no longer has a rail {rail}", file.display()));
    Ok(Reading::TotalUj(energy.ok_or_else(missing)?.1))
}
