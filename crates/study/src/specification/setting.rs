//! Levers of a replay as a study writes them and the store keeps them.

use pocketstone_core::database::Delay;
use pocketstone_core::error::Context;
use pocketstone_core::words::Word;
use pocketstone_core::{Error, Result, words};
use pocketstone_replay::device::Device;
use pocketstone_replay::levers::Levers;

words! {
    /// A lever of a study; its name is also the column's in results. A [`Setting`] has the values in this order.
    Lever {
        /// The cluster that runs everything.
        Cluster = "cluster",
        /// Delays instead of the recorded ones.
        Delay = "delay",
        /// Cores on-line.
        Cores = "cores",
        /// What threads do during delays.
        Waiting = "waiting",
        /// Operations that are handed over together.
        Batch = "batch",
        /// Whose times waits for storage take.
        Storage = "storage",
        /// The part of the computing time that is spent waiting for memory.
        MemoryShare = "memory_share",
        /// Factors on the device's powers.
        PowerScale = "power_scale",
    }
}

words! {
    /// What threads do during delays.
    Waiting {
        /// They sleep.
        Sleep = "sleep",
        /// They look at the clock.
        Busy = "busy",
    }
}

words! {
    /// Whose times waits for storage take.
    StorageTimes {
        /// Those that were recorded.
        Recorded = "recorded",
        /// Those of the device's profile.
        Device = "device",
    }
}

words! {
    /// A part of a device's power that a factor can be given of.
    Part {
        /// Cores that compute.
        Active = "active",
        /// Cores that compute at their lowest operating point.
        Lowest = "lowest",
        /// Cores that compute at their highest operating point.
        Highest = "highest",
        /// Cores that do not compute, and the device asleep.
        Idle = "idle",
        /// What is shared while the device is awake.
        Awake = "awake",
        /// The memory.
        Memory = "memory",
        /// The storage.
        Storage = "storage",
    }
}

/// The columns of results that have the levers, each with a prefix.
pub(crate) fn lever_columns(prefix: &str) -> String {
    Lever::ALL.map(|lever| format!("{prefix}{}", lever.name())).join(", ")
}

impl Lever {
    /// The value where a study says nothing.
    pub const fn default_value(self) -> &'static str {
        match self {
            Lever::Cluster | Lever::MemoryShare => "default",
            Lever::Delay => "recorded",
            Lever::Storage => StorageTimes::Recorded.name(),
            Lever::Cores => "all",
            Lever::Waiting => Waiting::Sleep.name(),
            Lever::Batch | Lever::PowerScale => "1",
        }
    }

    /// What its values are.
    const fn values(self) -> &'static str {
        match self {
            Lever::Cluster => "\"default\" or the name of one of the device's clusters",
            Lever::Delay => "\"recorded\" or a delay, such as \"none\" or \"lognormal:6ms\"",
            Lever::Cores => "\"all\" or a number of at least 1",
            Lever::Waiting => "\"sleep\" or \"busy\"",
            Lever::Batch => "a number of at least 1",
            Lever::Storage => "\"recorded\" or \"device\"",
            Lever::MemoryShare => "\"default\" or a number from 0 to 1",
            Lever::PowerScale => "a factor, or factors of parts such as \"active:0.8 awake:1.2\"",
        }
    }

    /// Reads a value as a study writes it; as text it has one form.
    ///
    /// # Errors
    /// `ErrorKind::User` if the value is invalid for this lever.
    pub fn read(self, value: &toml::Value) -> Result<String> {
        let wrong = || Error::user(format!("`{}` takes {}, not {value}", self.name(), self.values()));
        let text = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(n) => n.to_string(),
            toml::Value::Float(x) => x.to_string(),
            _ => return Err(wrong()),
        };
        if text == self.default_value() {
            return Ok(text);
        }
        let share = |x: &f64| (0.0..=1.0).contains(x);
        let read = match self {
            Lever::Cluster => Some(text),
            Lever::Delay => return text.parse::<Delay>().map(|d| d.to_string()),
            Lever::Waiting => Waiting::of_word(&text).map(|word| word.name().to_owned()),
            Lever::Storage => StorageTimes::of_word(&text).map(|word| word.name().to_owned()),
            Lever::Cores | Lever::Batch => text.parse::<u32>().ok().filter(|n| *n > 0).map(|n| n.to_string()),
            Lever::MemoryShare => text.parse::<f64>().ok().filter(share).map(|x| x.to_string()),
            Lever::PowerScale => return factors(&text).map(|_| text.trim().to_owned()),
        };
        read.ok_or_else(wrong)
    }
}

/// Factors of the parts of a device's power.
fn factors(text: &str) -> Result<Vec<(Part, f64)>> {
    let wrong = || {
        Error::user(format!("`{text}` is not a power_scale")).hint(format!(
            "use one factor for all powers, such as 0.8, or factors of parts: \"active:0.8 awake:1.2\"; parts: {}",
            Part::WORDS.join(", "),
        ))
    };
    let factor = |t: &str| t.parse::<f64>().ok().filter(|x| x.is_finite() && *x > 0.0).ok_or_else(wrong);
    if !text.contains(':') {
        let all = factor(text.trim())?;
        return Ok([Part::Active, Part::Idle, Part::Awake, Part::Memory, Part::Storage]
            .map(|part| (part, all))
            .to_vec());
    }
    let part = |word| {
        let (part, value) = str::split_once(word, ':').ok_or_else(wrong)?;
        Ok((Part::of_word(part).ok_or_else(wrong)?, factor(value)?))
    };
    text.split_whitespace().map(part).collect()
}

/// One value of every lever, in the order of [`Lever::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting(pub Vec<String>);

impl Default for Setting {
    fn default() -> Self {
        Setting(Lever::ALL.map(|lever| lever.default_value().to_owned()).to_vec())
    }
}

impl Setting {
    /// The same with another value of a lever.
    pub fn with(&self, lever: Lever, value: &str) -> Setting {
        let mut values = self.0.clone();
        value.clone_into(&mut values[lever as usize]);
        Setting(values)
    }

    /// The value of a lever.
    pub fn value(&self, lever: Lever) -> &str {
        self.0.get(lever as usize).map_or("", String::as_str)
    }

    /// The value of a lever that is not at its default.
    pub(crate) fn chosen(&self, lever: Lever) -> Option<&str> {
        Some(self.value(lever)).filter(|value| *value != lever.default_value())
    }

    /// The levers that are not at their defaults, each as `name=value`.
    pub(crate) fn changes(&self) -> impl Iterator<Item = String> {
        let change = |lever: Lever| Some(format!("{}={}", lever.name(), self.chosen(lever)?));
        Lever::ALL.into_iter().filter_map(change)
    }

    /// What the replay is told. `cycles_scale` is what a calibration gives, 1 without one.
    ///
    /// # Errors
    /// `ErrorKind::User` if a value is invalid for its lever, as in a damaged store.
    pub fn levers(&self, seed: u64, cycles_scale: f64) -> Result<Levers> {
        let damaged = |lever: Lever| format!("a stored replay has a damaged `{}`", lever.name());
        let waiting = Waiting::of_word(self.value(Lever::Waiting));
        let storage = StorageTimes::of_word(self.value(Lever::Storage));
        let share = self.chosen(Lever::MemoryShare).map(str::parse).transpose();
        Ok(Levers {
            cluster: self.chosen(Lever::Cluster).map(str::to_owned),
            cores: self.chosen(Lever::Cores).map(str::parse).transpose().user(|| damaged(Lever::Cores))?,
            busy_waiting: waiting.ok_or_else(|| Error::user(damaged(Lever::Waiting)))? == Waiting::Busy,
            batch: self.value(Lever::Batch).parse().user(|| damaged(Lever::Batch))?,
            delay: self.chosen(Lever::Delay).map(str::parse).transpose()?,
            seed,
            device_storage: storage.ok_or_else(|| Error::user(damaged(Lever::Storage)))? == StorageTimes::Device,
            memory_share: share.user(|| damaged(Lever::MemoryShare))?,
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
        for (part, factor) in factors(self.value(Lever::PowerScale))? {
            match part {
                Part::Active => (low, high) = (low * factor, high * factor),
                Part::Lowest => low *= factor,
                Part::Highest => high *= factor,
                Part::Awake => {
                    device.awake_mw *= factor;
                    device.clusters.iter_mut().for_each(|c| c.shared_mw *= factor);
                }
                Part::Memory => device.memory_mw *= factor,
                Part::Storage => {
                    let s = &mut device.storage;
                    (s.read_mw, s.write_mw, s.sync_mw) = (s.read_mw * factor, s.write_mw * factor, s.sync_mw * factor);
                }
                Part::Idle => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lever_has_its_default_and_no_unknown_word_is_taken_for_another() {
        for lever in Lever::ALL {
            let default = lever.default_value();
            assert_eq!(lever.read(&default.into()).unwrap(), default, "{}", lever.name());
            let is_text = lever == Lever::Cluster;
            assert_eq!(lever.read(&"another".into()).is_ok(), is_text, "{}", lever.name());
            let (damaged, sound) = (Setting::default().with(lever, "another"), Setting::default());
            let scaled = lever == Lever::PowerScale;
            assert_eq!(damaged.levers(0, 1.0).is_ok(), is_text || scaled, "{}", lever.name());
            assert_eq!(
                (sound.changes().count(), damaged.changes().next()),
                (0, Some(lever.name().to_owned() + "=another"))
            );
        }
        assert_eq!(Setting::default().levers(0, 1.0).unwrap(), Levers::default());
    }
}
