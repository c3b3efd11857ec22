//! The power rails of a phone whose kernel's files its user may not read: Android's power statistics, by a session of
//! Perfetto from the rest before a run to its end.

use crate::perfetto::{Rail, has_rails, rails};
use crate::traced::{Session, boot_ns, program};
use pocketstone_core::outcome::{EnergyReading, Scope};
use pocketstone_core::{Error, Result};
use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often they are read: the least that `traced` takes.
const PERIOD: Duration = Duration::from_millis(100);

/// How long the first reading may take.
const FIRST: Duration = Duration::from_secs(3);

/// What is recorded.
const CONFIG: &str = r#"buffers { size_kb: 4096 fill_policy: RING_BUFFER }
data_sources { config { name: "android.power" android_power_config {
  battery_poll_ms: 100
  collect_power_rails: true
} } }
"#;

const NOTE: &str = "Android's power statistics by Perfetto, every 100 ms, interpolated";

/// Whether they are to be tried: Android has them, and a session may be had.
pub(super) fn may_be_had(root: &Path) -> bool {
    root.join("system/bin").is_dir() && program().is_ok()
}

/// Times on CLOCK_BOOTTIME in ns.
type Window = (u64, u64);

/// Rails that are being read.
pub(super) struct Rails {
    session: Session,
    /// What is measured, since its beginning; until its end, once it has one.
    window: Window,
    rest: Option<Window>,
}

impl Rails {
    /// Starts a session that has read them at least once.
    pub fn start() -> Result<Rails> {
        let begin = Instant::now();
        // Where there are none, nothing says so.
        let is_read = |trace| has_rails(trace) || begin.elapsed() > FIRST;
        let session = Session::start(&program()?, "rails", CONFIG, is_read)?;
        std::thread::sleep(2 * PERIOD);
        Ok(Rails { session, window: (boot_ns(), 0), rest: None })
    }

    /// What is measured begins now.
    pub fn begin(&mut self) {
        self.window = (boot_ns(), 0);
    }

    /// It has ended.
    pub fn end(&mut self) {
        self.window.1 = boot_ns();
    }

    /// What has ended was the rest.
    pub fn rested(&mut self) {
        self.rest = Some(self.window);
    }

    /// Whether there are any.
    pub fn attempt() -> Result<()> {
        Rails::start()?.read().map(drop)
    }

    fn read(&mut self) -> Result<BTreeMap<u32, Rail>> {
        let trace = self.session.stop()?;
        let found = rails(BufReader::with_capacity(1 << 16, trace))?;
        match found.is_empty() {
            true => Err(Error::board("this phone has no power rails that Perfetto reads")
                .hint("use a Pixel 6 or newer, or unplug the charger: a battery that feeds the phone counts")),
            false => Ok(found),
        }
    }

    /// What has ended was the run: energy of the rails that used any.
    pub fn finish(mut self) -> Result<Vec<EnergyReading>> {
        // Until they have been read after it.
        std::thread::sleep(3 * PERIOD);
        let found = self.read()?;
        let used: Vec<EnergyReading> = found.values().filter_map(|rail| of_run(rail, self.rest, self.window)).collect();
        match used.is_empty() {
            true => {
                Err(Error::board(format!("none of {} power rails moved in the run", found.len())).hint("a longer run"))
            }
            false => Ok(used),
        }
    }
}

/// A rail's energy in a run; `None` where it was not read before and after it, or used none.
fn of_run(rail: &Rail, rest: Option<Window>, run: Window) -> Option<EnergyReading> {
    let of = |(start_ns, end_ns): Window| Some(energy_uj(rail, end_ns)? - energy_uj(rail, start_ns)?);
    let energy_uj = of(run).filter(|energy_uj| *energy_uj > 0.0)?;
    let at_rest = rest.filter(|(start_ns, end_ns)| end_ns > start_ns);
    // uJ in ns is GW.
    let idle_mw = at_rest.and_then(|rest| Some(of(rest)? / (rest.1 - rest.0) as f64 * 1e6));
    let within = (run.0 / 1_000_000)..=(run.1 / 1_000_000);
    Some(EnergyReading {
        meter: format!("odpm:{}:{}", rail.subsystem, rail.name),
        scope: Scope::Rail,
        energy_uj: energy_uj.round() as u64,
        duration_ns: run.1 - run.0,
        idle_mw,
        samples: rail.readings.range(within).count() as u64,
        note: NOTE.to_owned(),
    })
}

/// Energy at a time, by a straight line between the readings around it; `None` outside of them.
fn energy_uj(rail: &Rail, at_ns: u64) -> Option<f64> {
    let (before, after) = (at_ns / 1_000_000, at_ns.div_ceil(1_000_000));
    let (&start, &first) = rail.readings.range(..=before).next_back()?;
    let (&end, &last) = rail.readings.range(after..).next()?;
    let share = match end - start {
        0 => 0.0,
        ms => (at_ns as f64 / 1e6 - start as f64) / ms as f64,
    };
    Some(first as f64 + (last as f64 - first as f64) * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_that_between_the_ends_of_the_run_and_power_at_rest_beside() {
        // 500 mW until 1000 ms, then 2 W: 500 uJ and 2000 uJ a ms.
        let readings = [(0, 10_000), (400, 210_000), (1000, 510_000), (1500, 1_510_000), (2000, 2_510_000)];
        let rail = Rail { name: "VDD".into(), subsystem: "CPU".into(), readings: readings.into() };
        let ms = |from: u64, to: u64| (from * 1_000_000, to * 1_000_000);
        let found = of_run(&rail, Some(ms(100, 900)), ms(1100, 1900)).unwrap();
        assert_eq!(
            (found.meter.as_str(), found.energy_uj, found.duration_ns),
            ("odpm:CPU:VDD", 1_600_000, 800_000_000)
        );
        assert_eq!((found.idle_mw, found.samples), (Some(500.0), 1));
        // Across the change: 100 ms of each.
        assert_eq!(of_run(&rail, None, ms(900, 1100)).unwrap().energy_uj, 250_000);
        assert_eq!(of_run(&rail, None, ms(1000, 1500)).unwrap().energy_uj, 1_000_000);
        // Not read after the run's end, or before its start; nothing used.
        assert!(of_run(&rail, None, ms(1900, 2001)).is_none());
        assert!(of_run(&Rail { readings: [(5, 1), (9, 4)].into(), ..rail.clone() }, None, ms(4, 8)).is_none());
        assert!(of_run(&Rail { readings: [(0, 7), (9, 7)].into(), ..rail }, None, ms(4, 8)).is_none());
    }
}
