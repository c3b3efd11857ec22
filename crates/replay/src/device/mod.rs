//! Devices: what a processor's frequencies and idle states cost. Profiles are the files `devices/*.toml` of the
//! kind `model`; docs/devices.md describes their form.

mod place;
mod profile;
mod raw;
#[cfg(test)]
mod tests;
mod variant;

use pocketstone_core::error::Context;
use pocketstone_core::words::choices;
use pocketstone_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A device, as its profile describes it. Powers are in milliwatts, of one core where nothing else is said.
/// Written as JSON it is without its text and sources: what a replay needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// The file's name without `.toml`.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Its clusters of cores; the first is the one that runs are replayed on unless another one is named.
    pub clusters: Vec<Cluster>,
    /// Power of everything that is awake as long as any core is: what keeping the device up costs beyond its cores.
    pub awake_mw: f64,
    /// Power of the device asleep, when no core is awake.
    pub asleep_mw: f64,
    /// Power of the memory while a core runs, on top.
    pub memory_mw: f64,
    /// Power of the storage while something is waited for.
    pub storage: Storage,
    /// Part of a core's time at the cluster's highest frequency that does not scale with frequency, 0 to 1: the
    /// default where a run does not know its own.
    pub memory_share: f64,
    /// Cycles of this device for a nanosecond on a core of the machine that recorded a run, where a study does not
    /// calibrate it otherwise.
    pub cycles_per_recorded_ns: f64,
    /// Ticks of its kernel in a second, where known: the grid of the phone era's timers.
    #[serde(default)]
    pub hz: Option<u32>,
    /// Governors' settings that differ from their own defaults: by governor, then by the tunable's name.
    pub tunables: BTreeMap<String, BTreeMap<String, String>>,
    /// Constants of `E = t (P_cpu + P_mem)` for flash file systems, where a publication gives them.
    #[serde(skip)]
    pub flash_energy: Vec<FlashEnergy>,
    /// Where each number is from: by its place in the profile, such as `cluster.krait.points.power_mw`.
    #[serde(skip)]
    pub sources: BTreeMap<String, String>,
    /// The profile's text, which goes into every result.
    #[serde(skip)]
    pub text: String,
}

/// Cores of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Number of cores.
    pub cores: u32,
    /// Whether each core has a frequency of its own; otherwise they share one.
    pub clock_per_core: bool,
    /// Operating points by ascending frequency.
    pub points: Vec<OperatingPoint>,
    /// Idle states from the shallowest; there is at least one.
    pub idle: Vec<IdleState>,
    /// Power of what the cluster's cores share, while any of them is awake.
    pub shared_mw: f64,
    /// From the decision for another frequency until it is in force.
    pub transition_latency_ns: u64,
    /// How long the core stands still meanwhile.
    pub transition_stall_ns: u64,
}

/// An operating point (OPP).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OperatingPoint {
    /// Frequency.
    pub khz: u32,
    /// Power of a core that runs at it.
    pub power_mw: f64,
}

/// An idle state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IdleState {
    /// Its name.
    pub name: String,
    /// Power of a core in it.
    pub power_mw: f64,
    /// From the wake-up until the core runs.
    pub exit_ns: u64,
    /// It is entered when the core is idle for at least so long (the model knows; a kernel guesses).
    pub least_ns: u64,
}

/// Power of the storage while it works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Storage {
    /// While it reads.
    pub read_mw: f64,
    /// While it writes.
    pub write_mw: f64,
    /// While it makes data durable.
    pub sync_mw: f64,
    /// Times of requests on this device, where known: they replace the recorded ones if a study says so.
    pub times: Option<StorageTimes>,
}

/// Mean times of one request to the storage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StorageTimes {
    /// Of a read that waits.
    pub read_ns: u64,
    /// Of a write that waits.
    pub write_ns: u64,
    /// Of a sync.
    pub sync_ns: u64,
}

/// Mean power of reads from raw NAND: the constants of `E = t (P_cpu + P_mem)`.
#[derive(Debug, Clone, PartialEq)]
pub struct FlashEnergy {
    /// `jffs2` or `yaffs2`.
    pub file_system: String,
    /// `read` or `sqlite`.
    pub workload: String,
    /// `sequential` or `random`; `None` stands for both.
    pub pattern: Option<String>,
    /// Whether read-ahead is on.
    pub read_ahead: bool,
    /// Of the processor, above idle.
    pub cpu_mw: f64,
    /// Of memory and flash, above idle.
    pub memory_mw: f64,
}

impl Device {
    /// Reads the text of a profile; `name` is the file's name without `.toml`, which errors repeat.
    ///
    /// # Errors
    /// `ErrorKind::User` if it is not understood, or says what is impossible; the message includes the line, the hint
    /// the fix.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        profile::parse(name, text)
    }

    /// Reads the profile `name`: a file's path that ends in `.toml`, or a name in `folder`. Times in braces behind it
    /// are assumed instead of the profile's: `nexus-6{transition_stall_ns=2000000}`.
    ///
    /// # Errors
    /// `ErrorKind::User` if there is none of that name, or it is not understood.
    pub fn load(folder: &Path, name: &str) -> Result<Self> {
        let whole = name;
        let (name, assumed) = variant::split(whole)?;
        let path = match name.ends_with(".toml") {
            true => PathBuf::from(name),
            false => folder.join(format!("{name}.toml")),
        };
        let text = fs::read_to_string(&path).map_err(|e| {
            let names: Vec<String> = list(folder).unwrap_or_default().into_iter().map(|d| d.name).collect();
            Error::user(format!("unknown device `{name}` ({})", path.display())).because(e).hint(choices(
                name,
                "available devices",
                &names,
            ))
        })?;
        let mut stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        stem += &whole[name.len()..];
        let text = variant::assume(&text, &assumed)?;
        Self::parse(&stem, &text).user(|| format!("{} is not a device profile", path.display()))
    }

    /// The profile of a device, which is all of its name but the times that are assumed.
    pub fn profile_of(name: &str) -> &str {
        name.split_once('{').map_or(name, |(profile, _)| profile)
    }

    /// The highest frequency of the cluster that runs are replayed on, in kHz.
    ///
    /// # Errors
    /// `ErrorKind::User` if it has no operating point.
    pub fn highest_khz(&self) -> Result<u32> {
        let point = self.cluster(None)?.points.last();
        point.map(|p| p.khz).ok_or_else(|| Error::user(format!("the device {} has no operating point", self.name)))
    }

    /// The cluster of that name; without a name, the one that runs are replayed on.
    ///
    /// # Errors
    /// `ErrorKind::User` if there is none; the hint lists the existing ones.
    pub fn cluster(&self, name: Option<&str>) -> Result<&Cluster> {
        let found = self.clusters.iter().find(|c| name.is_none_or(|n| c.name == n));
        found.ok_or_else(|| {
            let names = self.clusters.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
            let asked = name.unwrap_or("first");
            Error::user(format!("the device {} has no cluster `{asked}`", self.name))
                .hint(format!("its clusters: {names}"))
        })
    }
}

/// All devices of a folder, by name. Profiles of boards are passed over; a device's profile that is not understood
/// is an error.
///
/// # Errors
/// `ErrorKind::User` if the folder or one of its device profiles cannot be read.
pub fn list(folder: &Path) -> Result<Vec<Device>> {
    #[derive(serde::Deserialize)]
    struct Head {
        kind: String,
    }
    let entries = fs::read_dir(folder).user(|| format!("cannot list the devices in {}", folder.display()))?;
    let paths = entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|x| x == "toml"));
    let mut devices = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).user(|| format!("cannot read {}", path.display()))?;
        // A file that is no TOML is not passed over if it means to be a device.
        let model = match toml::from_str::<Head>(&text) {
            Ok(head) => head.kind == "model",
            Err(_) => text.lines().any(|line| line.replace(' ', "").starts_with("kind=\"model\"")),
        };
        if model {
            devices.push(Device::load(folder, &path.to_string_lossy())?);
        }
    }
    devices.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(devices)
}
