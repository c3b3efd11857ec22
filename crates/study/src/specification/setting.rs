//! Levers of a replay as a study writes them and the store keeps them.

use pocketstone_core::database::Delay;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_replay::device::Device;
use pocketstone_replay::levers::Levers;

/// A lever of a study.
#[derive(Debug, Clone, Copy)]
pub struct Lever {
    /// Its name in studies, and the column's in results.
    pub name: &'static str,
    /// The value where a study says nothing.
    pub default: &'static str,
    /// What its values are.
    pub values: &'static str,
}

/// Every lever; a [`Setting`] has their values in this order.
pub const LEVERS: [Lever; 8] = [
    Lever { name: "cluster", default: "default", values: "\"default\" or the name of one of the device's clusters" },
    Lever {
        name: "delay",
        default: "recorded",
        values: "\"recorded\" or a delay, such as \"none\" or \"lognormal:6ms\"",
    },
    Lever { name: "cores", default: "all", values: "\"all\" or a number of at least 1" },
    Lever { name: "waiting", default: "sleep", values: "\"sleep\" or \"busy\"" },
    Lever { name: "batch", default: "1", values: "a number of at least 1" },
    Lever { name: "storage", default: "recorded", values: "\"recorded\" or \"device\"" },
    Lever { name: "memory_share", default: "default", values: "\"default\" or a number from 0 to 1" },
    Lever {
        name: "power_scale",
        default: "1",
        values: "a factor, or factors of parts such as \"active:0.8 awake:1.2\"",
    },
];

/// The columns of results that have the levers, each with a prefix.
pub(crate) fn lever_columns(prefix: &str) -> String {
    LEVERS.map(|l| format!("{prefix}{}", l.name)).join(", ")
}

/// Parts of a device's power that a factor can be given of.
const PARTS: [&str; 6] = ["active", "lowest", "highest", "idle", "awake", "memory"];
/// The seventh one.
const STORAGE: &str = "storage";

impl Lever {
    /// Reads a value as a study writes it; as text it has one form.
    ///
    /// # Errors
    /// `ErrorKind::User` if the value is invalid for this lever.
    pub fn read(&self, value: &toml::Value) -> Result<String> {
        let wrong = || Error::user(format!("`{}` takes {}, not {value}", self.name, self.values));
        let text = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(n) => n.to_string(),
            toml::Value::Float(x) => x.to_string(),
            _ => return Err(wrong()),
        };
        let share = |x: &f64| (0.0..=1.0).contains(x);
        let read = match self.name {
            "cluster" => Some(text),
            "delay" if text == self.default => Some(text),
            "delay" => return text.parse::<Delay>().map(|d| d.to_string()),
            "waiting" => Some(text).filter(|t| ["sleep", "busy"].contains(&t.as_str())),
            "storage" => Some(text).filter(|t| ["recorded", "device"].contains(&t.as_str())),
            "cores" | "memory_share" if text == self.default => Some(text),
            "cores" | "batch" => text.parse::<u32>().ok().filter(|n| *n > 0).map(|n| n.to_string()),
            "memory_share" => text.parse::<f64>().ok().filter(share).map(|x| x.to_string()),
            _ => return factors(&text).map(|_| text.trim().to_owned()),
        };
        read.ok_or_else(wrong)
    }
}

/// Factors of the parts of a device's power.
fn factors(text: &str) -> Result<Vec<(&str, f64)>> {
    let wrong = || {
        Error::user(format!("`{text}` is not a power_scale")).hint(format!(
            "use one factor for all powers, such as 0.8, or factors of parts: \"active:0.8 awake:1.2\"; parts: {}, {}",
            PARTS.join(", "),
            STORAGE
        ))
    };
    let factor = |t: &str| t.parse::<f64>().ok().filter(|x| x.is_finite() && *x > 0.0).ok_or_else(wrong);
    if !text.contains(':') {
        let all = factor(text.trim())?;
        return Ok(["active", "idle", "awake", "memory", STORAGE].map(|part| (part, all)).to_vec());
    }
    let part = |word| {
        let (part, value) = str::split_once(word, ':').ok_or_else(wrong)?;
        let known = PARTS.contains(&part) || part == STORAGE;
        Ok((part, known.then(|| factor(value)).ok_or_else(wrong)??))
    };
    text.split_whitespace().map(part).collect()
}

/// One value of every lever, in the order of [`LEVERS`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting(pub Vec<String>);

impl Default for Setting {
    fn default() -> Self {
        Setting(LEVERS.iter().map(|l| l.default.to_owned()).collect())
    }
}

impl Setting {
    /// The same with another value of the lever of that number.
    pub fn with(&self, number: usize, value: &str) -> Setting {
        let mut values = self.0.clone();
        value.clone_into(&mut values[number]);
        Setting(values)
    }

    /// The value of a lever.
    pub fn value(&self, lever: &str) -> &str {
        let at = LEVERS.iter().position(|l| l.name == lever);
        at.and_then(|n| self.0.get(n)).map_or("", String::as_str)
    }

    /// What the replay is told. `cycles_scale` is what a calibration gives, 1 without one.
    ///
    /// # Errors
    /// `ErrorKind::User` if a value is invalid for its lever, as in a damaged store.
    pub fn levers(&self, seed: u64, cycles_scale: f64) -> Result<Levers> {
        let given = |lever: &str, default: &str| Some(self.value(lever)).filter(|v| *v != default);
        let wrong = |lever: &'static str| move || format!("a stored replay has a damaged `{lever}`");
        Ok(Levers {
            cluster: given("cluster", "default").map(str::to_owned),
            cores: given("cores", "all").map(str::parse).transpose().user(wrong("cores"))?,
            busy_waiting: self.value("waiting") == "busy",
            batch: self.value("batch").parse().user(wrong("batch"))?,
            delay: given("delay", "recorded").map(str::parse).transpose()?,
            seed,
            device_storage: self.value("storage") == "device",
            memory_share: given("memory_share", "default").map(str::parse).transpose().user(wrong("memory_share"))?,
            cycles_scale,
        })
    }

    /// The device with its powers scaled. `lowest` and `highest` are of cores at their lowest and highest
    /// operating point; those between them get a factor between, by frequency.
    ///
    /// # Errors
    /// `ErrorKind::User` if the value is not a power_scale.
    pub fn scaled(&self, device: &Device) -> Result<Device> {
        let mut device = device.clone();
        let (mut low, mut high) = (1.0, 1.0);
        for (part, factor) in factors(self.value("power_scale"))? {
            match part {
                "active" => (low, high) = (low * factor, high * factor),
                "lowest" => low *= factor,
                "highest" => high *= factor,
                "awake" => {
                    device.awake_mw *= factor;
                    device.clusters.iter_mut().for_each(|c| c.shared_mw *= factor);
                }
                "memory" => device.memory_mw *= factor,
                STORAGE => {
                    let s = &mut device.storage;
                    (s.read_mw, s.write_mw, s.sync_mw) = (s.read_mw * factor, s.write_mw * factor, s.sync_mw * factor);
                }
                _ => {
                    device.asleep_mw *= factor;
                    device.clusters.iter_mut().flat_map(|c| &mut c.idle).for_each(|i| i.power_mw *= factor);
                }
            }
        }
        for cluster in &mut device.clusters {
            let (Some(first), Some(last)) = (cluster.points.first(), cluster.points.last()) else { continue };
            let (first, span) = (first.khz, f64::from(last.khz - first.khz).max(1.0));
            for point in &mut cluster.points {
                point.power_mw *= low + (high - low) * f64::from(point.khz - first) / span;
            }
        }
        Ok(device)
    }
}
