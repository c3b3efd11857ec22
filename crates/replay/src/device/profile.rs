//! Reads a profile: what a TOML file says becomes a [`Device`], or an error with line and cure.

use super::place::Place;
use super::raw::{self, At, Column, Scalar};
use super::{Cluster, Device, FlashEnergy, IdleState, OperatingPoint, Storage, StorageTimes};
use pocketstone_core::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;

/// No part of a device takes more: a kilowatt.
const MOST_MW: f64 = 1e6;
/// No latency of a processor or time of a request is longer: a minute.
const MOST_NS: i64 = 60_000_000_000;
const SOURCE_CURE: &str = "add the number's source, as in { value = 3.2, source = \"...\" }, or \"assumed: why\"";
const FORM_CURE: &str = "a number is written { value = 3.2, source = \"...\" }, a column { values = [1, 2], source = \
                         \"...\" }; docs/devices.md lists all keys";

/// Reads the text of the profile `name`.
pub(super) fn parse(name: &str, text: &str) -> Result<Device> {
    let file = format!("{name}.toml");
    let mut reader = Reader { at: Place { file: &file, text }, named: BTreeMap::new(), sources: BTreeMap::new() };
    // A board's profile is told from a wrong one before its keys are looked at.
    if let Ok(head) = toml::from_str::<Head>(text) {
        reader.kind(&head.kind)?;
    }
    let raw: raw::Profile = toml::from_str(text).map_err(|e| {
        let wrong = format!("not a valid device profile: {}", e.message());
        reader.at.error(e.span().unwrap_or(0..0), wrong, FORM_CURE)
    })?;
    reader.kind(&raw.kind)?;
    reader.named = raw.sources.clone();
    reader.device(name, raw)
}

#[derive(serde::Deserialize)]
struct Head {
    kind: Spanned<String>,
}

struct Reader<'a> {
    at: Place<'a>,
    /// The profile's own texts of sources, by their short names.
    named: BTreeMap<String, Spanned<String>>,
    /// What was found so far: by key, the source's text.
    sources: BTreeMap<String, String>,
}

impl Reader<'_> {
    fn kind(&self, kind: &Spanned<String>) -> Result<()> {
        if kind.get_ref() == "model" {
            return Ok(());
        }
        let wrong = format!("kind `{}` is not a device model", kind.get_ref());
        let cure = "device profiles have kind = \"model\"; the other kinds are boards, on which runs are measured";
        Err(self.at.error(kind.span(), wrong, cure))
    }

    fn device(mut self, name: &str, raw: raw::Profile) -> Result<Device> {
        if raw.cluster.is_empty() {
            let error = Error::user(format!("{}: no [[cluster]]", self.at.file));
            return Err(error.hint("add a [[cluster]] with its cores, points and idle states"));
        }
        let mut clusters: Vec<Cluster> = Vec::new();
        for cluster in raw.cluster {
            let name = cluster.get_ref().name.clone();
            if clusters.iter().any(|c| c.name == *name.get_ref()) {
                let wrong = format!("duplicate cluster `{}`", name.get_ref());
                return Err(self.at.error(name.span(), wrong, "give each cluster a unique name"));
            }
            clusters.push(self.cluster(cluster)?);
        }
        let times = match &raw.storage.times {
            None => None,
            Some(times) => Some(StorageTimes {
                read_ns: self.time("storage.times.read_ns", &times.read_ns)?,
                write_ns: self.time("storage.times.write_ns", &times.write_ns)?,
                sync_ns: self.time("storage.times.sync_ns", &times.sync_ns)?,
            }),
        };
        let storage = Storage {
            read_mw: self.power("storage.read_mw", &raw.storage.read_mw)?,
            write_mw: self.power("storage.write_mw", &raw.storage.write_mw)?,
            sync_mw: self.power("storage.sync_mw", &raw.storage.sync_mw)?,
            times,
        };
        let awake_mw = self.power("awake_mw", &raw.awake_mw)?;
        let asleep_mw = self.power("asleep_mw", &raw.asleep_mw)?;
        if asleep_mw > awake_mw {
            let wrong = format!("asleep, the device takes more ({asleep_mw} mW) than awake ({awake_mw} mW)");
            return Err(self.at.error(raw.asleep_mw.span(), wrong, "set asleep_mw to at most awake_mw"));
        }
        let mut tunables = BTreeMap::new();
        for (governor, raw) in raw.governor {
            let of: &mut BTreeMap<String, String> = tunables.entry(governor.clone()).or_default();
            for (tunable, value) in raw {
                self.source(&format!("governor.{governor}.{tunable}"), value.span(), &value.get_ref().source)?;
                of.insert(tunable, value.into_inner().value.into_inner());
            }
        }
        let hz = raw.hz.as_ref().map(|hz| self.ticks(hz)).transpose()?;
        let mut flash_energy: Vec<FlashEnergy> = Vec::new();
        for row in raw.flash_energy {
            flash_energy.push(self.flash_energy(row, &flash_energy)?);
        }
        Ok(Device {
            name: name.to_owned(),
            description: raw.description,
            clusters,
            awake_mw,
            asleep_mw,
            memory_mw: self.power("memory_mw", &raw.memory_mw)?,
            storage,
            memory_share: self.number("memory_share", &raw.memory_share, 0.0..=1.0)?,
            cycles_per_recorded_ns: self.number("cycles_per_recorded_ns", &raw.cycles_per_recorded_ns, 1e-3..=1e3)?,
            hz,
            tunables,
            flash_energy,
            sources: self.sources,
            text: self.at.text.to_owned(),
        })
    }

    fn ticks(&mut self, raw: &At<Scalar<i64>>) -> Result<u32> {
        let hz = raw.get_ref().value.get_ref();
        let Some(ticks) = u32::try_from(*hz).ok().filter(|n| (1..=10_000).contains(n)) else {
            let wrong = format!("a kernel cannot have {hz} ticks a second");
            return Err(self.at.error(raw.span(), wrong, "give its CONFIG_HZ, from 1 to 10000"));
        };
        self.source("hz", raw.span(), &raw.get_ref().source)?;
        Ok(ticks)
    }

    fn cluster(&mut self, raw: At<raw::Cluster>) -> Result<Cluster> {
        let raw = raw.into_inner();
        let name = raw.name.into_inner();
        let key = |part: &str| format!("cluster.{name}.{part}");
        let cores = raw.cores.get_ref().value.get_ref();
        let Some(cores) = u32::try_from(*cores).ok().filter(|n| (1..=1024).contains(n)) else {
            let wrong = format!("a cluster cannot have {cores} cores");
            return Err(self.at.error(raw.cores.span(), wrong, "give the number of cores, from 1 to 1024"));
        };
        self.source(&key("cores"), raw.cores.span(), &raw.cores.get_ref().source)?;
        self.source(&key("clock_per_core"), raw.clock_per_core.span(), &raw.clock_per_core.get_ref().source)?;
        Ok(Cluster {
            cores,
            clock_per_core: *raw.clock_per_core.get_ref().value.get_ref(),
            points: self.points(&key("points"), &raw.points)?,
            idle: self.idle(&key("idle"), &raw.idle)?,
            shared_mw: self.power(&key("shared_mw"), &raw.shared_mw)?,
            transition_latency_ns: self.time(&key("transition_latency_ns"), &raw.transition_latency_ns)?,
            transition_stall_ns: self.time(&key("transition_stall_ns"), &raw.transition_stall_ns)?,
            name,
        })
    }

    fn points(&mut self, key: &str, raw: &At<raw::Points>) -> Result<Vec<OperatingPoint>> {
        let khz = self.column(key, "khz", raw, &raw.get_ref().khz)?;
        let power = self.column(key, "power_mw", raw, &raw.get_ref().power_mw)?;
        self.same_length("power_mw", power, "khz", khz.get_ref().len())?;
        let mut points: Vec<OperatingPoint> = Vec::new();
        for (khz, power) in khz.get_ref().iter().zip(power.get_ref()) {
            let Some(f) = u32::try_from(*khz.get_ref()).ok().filter(|f| *f > 0) else {
                let wrong = format!("{} kHz is not a valid frequency", khz.get_ref());
                return Err(self.at.error(khz.span(), wrong, "give frequencies in kHz, above 0"));
            };
            match points.last() {
                Some(last) if last.khz == f => {
                    let wrong = format!("{f} kHz is listed twice");
                    return Err(self.at.error(khz.span(), wrong, "remove one of the two operating points"));
                }
                Some(last) if last.khz > f => {
                    let wrong = format!("the table is not sorted: {f} kHz comes after {} kHz", last.khz);
                    let cure = "sort the operating points by frequency, lowest first, and the other columns with them";
                    return Err(self.at.error(khz.span(), wrong, cure));
                }
                _ => {}
            }
            let power_mw = *power.get_ref();
            self.in_range(power.span(), power_mw, 0.0..=MOST_MW, "mW")?;
            if power_mw == 0.0 {
                let cure = "specify the power of one running core at this frequency, in mW";
                return Err(self.at.error(power.span(), format!("a core running at {f} kHz must take power"), cure));
            }
            points.push(OperatingPoint { khz: f, power_mw });
        }
        Ok(points)
    }

    fn idle(&mut self, key: &str, raw: &At<raw::Idle>) -> Result<Vec<IdleState>> {
        let Some(names) = &raw.get_ref().name else {
            return Err(self.missing(raw.span(), "name"));
        };
        self.not_empty("name", names)?;
        let n = names.get_ref().len();
        let power = self.column(key, "power_mw", raw, &raw.get_ref().power_mw)?;
        let exit = self.column(key, "exit_ns", raw, &raw.get_ref().exit_ns)?;
        let least = self.column(key, "least_ns", raw, &raw.get_ref().least_ns)?;
        self.same_length("power_mw", power, "name", n)?;
        self.same_length("exit_ns", exit, "name", n)?;
        self.same_length("least_ns", least, "name", n)?;
        let mut states: Vec<IdleState> = Vec::new();
        for (i, name) in names.get_ref().iter().enumerate() {
            let (power, exit, least) = (&power.get_ref()[i], &exit.get_ref()[i], &least.get_ref()[i]);
            let state = IdleState {
                name: name.get_ref().clone(),
                power_mw: self.in_range(power.span(), *power.get_ref(), 0.0..=MOST_MW, "mW")?,
                exit_ns: self.nanoseconds(exit)?,
                least_ns: self.nanoseconds(least)?,
            };
            if let Some(last) = states.last() {
                let cure = "order idle states from the shallowest: power falls, exit_ns and least_ns rise";
                if state.power_mw > last.power_mw {
                    let wrong = format!("`{}` takes more power than `{}` before it", state.name, last.name);
                    return Err(self.at.error(power.span(), wrong, cure));
                }
                if state.exit_ns < last.exit_ns {
                    let wrong = format!("`{}` is left faster than `{}` before it", state.name, last.name);
                    return Err(self.at.error(exit.span(), wrong, cure));
                }
                if state.least_ns < last.least_ns {
                    let wrong = format!("`{}` is entered sooner than `{}` before it", state.name, last.name);
                    return Err(self.at.error(least.span(), wrong, cure));
                }
            }
            states.push(state);
        }
        Ok(states)
    }

    fn flash_energy(&mut self, row: At<raw::FlashEnergy>, before: &[FlashEnergy]) -> Result<FlashEnergy> {
        let span = row.span();
        let row = row.into_inner();
        let pattern = row.pattern.as_ref().map(|p| p.get_ref().as_str());
        self.one_of(&row.file_system, &["jffs2", "yaffs2"])?;
        self.one_of(&row.workload, &["read", "sqlite"])?;
        if let Some(pattern) = &row.pattern {
            self.one_of(pattern, &["sequential", "random"])?;
        }
        let (file_system, workload) = (row.file_system.get_ref(), row.workload.get_ref());
        let same = |f: &FlashEnergy| {
            let same_pattern = f.pattern.is_none() || pattern.is_none() || f.pattern.as_deref() == pattern;
            f.file_system == *file_system && f.workload == *workload && same_pattern && f.read_ahead == row.read_ahead
        };
        if before.iter().any(same) {
            let wrong = "two rows of flash_energy cover the same reads";
            return Err(self.at.error(span, wrong, "remove one of them, or give them different patterns"));
        }
        let ahead = if row.read_ahead { "read-ahead" } else { "no-read-ahead" };
        let key = format!("flash_energy.{file_system}.{workload}.{}.{ahead}", pattern.unwrap_or("any"));
        Ok(FlashEnergy {
            cpu_mw: self.power(&format!("{key}.cpu_mw"), &row.cpu_mw)?,
            memory_mw: self.power(&format!("{key}.memory_mw"), &row.memory_mw)?,
            pattern: pattern.map(str::to_owned),
            read_ahead: row.read_ahead,
            file_system: row.file_system.into_inner(),
            workload: row.workload.into_inner(),
        })
    }

    fn one_of(&self, value: &Spanned<String>, known: &[&str]) -> Result<()> {
        match known.contains(&value.get_ref().as_str()) {
            true => Ok(()),
            false => {
                let wrong = format!("unknown key `{}`", value.get_ref());
                Err(self.at.error(value.span(), wrong, format!("use one of: {}", known.join(", "))))
            }
        }
    }

    fn source(&mut self, key: &str, span: Range<usize>, source: &Option<Spanned<String>>) -> Result<()> {
        let Some(source) = source else {
            return Err(self.at.error(span, format!("`{key}` has no source"), SOURCE_CURE));
        };
        let source = self.named.get(source.get_ref()).unwrap_or(source);
        let text = source.get_ref().trim();
        let assumed_without_reason =
            text.strip_prefix("assumed").is_some_and(|why| !why.chars().any(char::is_alphanumeric));
        if !text.is_empty() && !assumed_without_reason && !text.contains(char::is_whitespace) {
            let wrong = format!("`{key}` names the source `{text}`, which is not in [sources]");
            let cure = "add it to the table [sources], or write the source out in more than one word";
            return Err(self.at.error(source.span(), wrong, cure));
        }
        if text.is_empty() || assumed_without_reason {
            return Err(self.at.error(source.span(), format!("the source of `{key}` is empty"), SOURCE_CURE));
        }
        self.sources.insert(key.to_owned(), text.to_owned());
        Ok(())
    }

    fn number(&mut self, key: &str, raw: &At<Scalar<f64>>, range: std::ops::RangeInclusive<f64>) -> Result<f64> {
        self.source(key, raw.span(), &raw.get_ref().source)?;
        let value = &raw.get_ref().value;
        self.in_range(value.span(), *value.get_ref(), range, "")
    }

    fn power(&mut self, key: &str, raw: &At<Scalar<f64>>) -> Result<f64> {
        self.number(key, raw, 0.0..=MOST_MW)
    }

    fn time(&mut self, key: &str, raw: &At<Scalar<i64>>) -> Result<u64> {
        self.source(key, raw.span(), &raw.get_ref().source)?;
        self.nanoseconds(&raw.get_ref().value)
    }

    fn nanoseconds(&self, value: &Spanned<i64>) -> Result<u64> {
        let ns = *value.get_ref();
        match u64::try_from(ns) {
            Ok(time) if ns <= MOST_NS => Ok(time),
            _ => {
                let wrong = format!("{ns} ns is out of range");
                Err(self.at.error(value.span(), wrong, format!("give a time in nanoseconds from 0 to {MOST_NS}")))
            }
        }
    }

    fn in_range(
        &self,
        span: Range<usize>,
        value: f64,
        range: std::ops::RangeInclusive<f64>,
        unit: &str,
    ) -> Result<f64> {
        if range.contains(&value) {
            return Ok(value + 0.0); // -0 becomes 0
        }
        let wrong = match value.is_nan() {
            true => "nan is not a number".to_owned(),
            false => format!("{value} {unit} is out of range").replace("  ", " "),
        };
        Err(self.at.error(span, wrong, format!("give a number from {} to {}", range.start(), range.end())))
    }

    fn column<'t, T, P>(
        &mut self,
        key: &str,
        name: &str,
        table: &At<P>,
        column: &'t Option<At<Column<T>>>,
    ) -> Result<&'t Spanned<Vec<Spanned<T>>>> {
        let Some(column) = column else {
            return Err(self.missing(table.span(), name));
        };
        self.source(&format!("{key}.{name}"), column.span(), &column.get_ref().source)?;
        let values = &column.get_ref().values;
        self.not_empty(name, values)?;
        Ok(values)
    }

    fn missing(&self, table: Range<usize>, name: &str) -> Error {
        let cure = format!("add {name} = {{ values = [...], source = \"...\" }} with one value for each row");
        let cure =
            if name == "name" { "add name = [\"wfi\", ...], from the shallowest state".to_owned() } else { cure };
        self.at.error(table, format!("this table has no `{name}`"), cure)
    }

    fn not_empty<T>(&self, name: &str, values: &Spanned<Vec<T>>) -> Result<()> {
        match values.get_ref().is_empty() {
            true => Err(self.at.error(values.span(), format!("`{name}` is empty"), "give the table at least one row")),
            false => Ok(()),
        }
    }

    fn same_length<T>(&self, name: &str, values: &Spanned<Vec<T>>, other: &str, length: usize) -> Result<()> {
        let own = values.get_ref().len();
        if own == length {
            return Ok(());
        }
        let wrong = format!("`{name}` has {own} values and `{other}` has {length}");
        Err(self.at.error(values.span(), wrong, "give each row of the table a value in each column"))
    }
}
