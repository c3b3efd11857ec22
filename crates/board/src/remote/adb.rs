//! An Android phone that adb reaches.

use super::client::{Client, ask, await_fit, run};
use crate::profile::{AdbProfile, Charging, Screen};
use crate::{BoardContext, Failed};
use pocketstone_core::outcome::Facts;
use pocketstone_core::{Error, Result};
use std::process::Command;
use std::time::Duration;

/// How long adb's own server may take to answer.
const SERVER_LIMIT: Duration = Duration::from_secs(20);
/// What is asked of the phone, and the fact that it becomes.
const PROPERTIES: [(&str, &str); 6] = [
    ("ro.product.manufacturer", "android.manufacturer"),
    ("ro.product.model", "android.model"),
    ("ro.build.version.release", "android.release"),
    ("ro.build.version.sdk", "android.api"),
    ("ro.build.fingerprint", "android.fingerprint"),
    ("ro.build.type", "android.build"),
];
const CURE: &str = "apt-get install adb";

/// The system's adb.
pub struct Adb {
    profile: AdbProfile,
}

impl Adb {
    /// The way to the phone `name`.
    ///
    /// # Errors
    /// `ErrorKind::User` for a profile that cannot be.
    pub fn new(name: &str, profile: &AdbProfile) -> Result<Adb> {
        if profile.serial.is_empty() || profile.serial.starts_with('-') {
            let error = Error::user(format!("`serial` of {name} is {:?}", profile.serial));
            return Err(error.hint("name the phone as `adb devices` does"));
        }
        if (profile.screen, profile.charging) == (Some(Screen::On), Some(Charging::Suspended)) {
            let error = Error::user(format!("the screen of {name} does not stay on where its charging is suspended"));
            return Err(error.hint("Android keeps it on by a cable that feeds the phone: set screen = \"off\""));
        }
        Ok(Adb { profile: profile.clone() })
    }

    /// The battery, as `dumpsys battery` has it. A phone that does not say has none.
    fn battery(&self, context: &BoardContext) -> Result<Battery, Failed> {
        Ok(Battery::parse(&ask(self, "dumpsys battery 2>/dev/null || true", None, context)?))
    }

    /// How much the phone is throttled, as it says: 0 not at all.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it does not answer.
    fn thermal_status(&self, context: &BoardContext) -> Result<Option<u32>, Failed> {
        let said = ask(self, "dumpsys thermalservice 2>/dev/null || true", None, context)?;
        Ok(value(&said, "Thermal Status").and_then(|status| status.parse().ok()))
    }

    /// Why the phone is not fit to be measured now, if it is not.
    fn unfit(&self, battery: &Battery, thermal: Option<u32>) -> Option<String> {
        let (least, most) = (self.profile.battery_least_percent, self.profile.temperature_most_c);
        match (self.profile.thermal_status_most, thermal) {
            (Some(most), Some(now)) if now > most => return Some(format!("its thermal status is {now}")),
            (Some(_), None) => return Some("it does not tell whether it is throttled".into()),
            _ => {}
        }
        match (battery.level_percent, battery.temperature_c) {
            (Some(level), _) if least.is_some_and(|least| level < least) => {
                Some(format!("its battery is at {level} %"))
            }
            (_, Some(now)) if most.is_some_and(|most| now > most) => Some(format!("it is {now} °C warm")),
            (None, _) if least.is_some() => Some("it does not tell how full its battery is".into()),
            (_, None) if most.is_some() => Some("it does not tell how warm it is".into()),
            _ => None,
        }
    }
}

impl Client for Adb {
    fn board(&self) -> &str {
        &self.profile.serial
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("adb");
        command.args(["-s", &self.profile.serial, "shell", "-T", line]);
        command
    }

    fn cure(&self) -> &'static str {
        CURE
    }

    fn by_hand(&self) -> String {
        format!("adb -s {} shell true", self.profile.serial)
    }

    fn folder(&self) -> &'static str {
        // In what alone adb's user may write to and run programs from.
        "/data/local/tmp/pocketstone-runner"
    }

    fn prepare(&self, context: &BoardContext) -> Result<()> {
        let adb = |arguments: &[&str]| {
            let mut command = Command::new("adb");
            command.args(arguments);
            run(command, None, SERVER_LIMIT, CURE, context).map(drop)
        };
        // Not by the first command itself: a server that hangs is told apart.
        adb(&["start-server"])?;
        if self.profile.serial.contains(':') {
            // By the network: a connection that has gone stale would stay so.
            adb(&["disconnect", &self.profile.serial])?;
            adb(&["connect", &self.profile.serial])?;
        }
        Ok(())
    }

    fn await_fitness(&self, context: &BoardContext) -> Result<(), Failed> {
        let AdbProfile { battery_least_percent, temperature_most_c, thermal_status_most, .. } = &self.profile;
        if battery_least_percent.is_none() && temperature_most_c.is_none() && thermal_status_most.is_none() {
            return Ok(());
        }
        let cure = "charge it, let it cool, or change `battery_least_percent`, `temperature_most_c` and \
                    `thermal_status_most` in its profile";
        await_fit(self, context, cure, || {
            let thermal = thermal_status_most.map(|_| self.thermal_status(context)).transpose()?.flatten();
            Ok(self.unfit(&self.battery(context)?, thermal))
        })
    }

    fn facts(&self, context: &BoardContext) -> Result<Facts> {
        let line: Vec<String> = PROPERTIES.iter().map(|(name, _)| format!("echo \"$(getprop {name})\"")).collect();
        let said = ask(self, &line.join("; "), None, context)?;
        Ok(properties(&said))
    }

    fn conditions(&self, context: &BoardContext) -> Result<Facts> {
        let battery = self.battery(context)?;
        let values = [
            ("battery.level_percent", battery.level_percent.map(|percent| percent.to_string())),
            ("battery.temperature_c", battery.temperature_c.map(|c| c.to_string())),
            ("battery.charging", battery.charging.map(|charging| charging.to_string())),
            ("thermal.status", self.thermal_status(context)?.map(|status| status.to_string())),
        ];
        Ok(values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
    }
}

/// The facts that the last lines are, one for each property; a shell may say something before.
fn properties(said: &str) -> Facts {
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    let values = lines[lines.len().saturating_sub(PROPERTIES.len())..].iter();
    let facts = values.zip(PROPERTIES).filter(|(value, _)| !value.is_empty());
    facts.map(|(value, (_, fact))| (fact.to_owned(), (*value).to_owned())).collect()
}

/// What a phone says of its battery.
#[derive(Debug, Default, PartialEq)]
struct Battery {
    level_percent: Option<u32>,
    temperature_c: Option<f64>,
    charging: Option<bool>,
}

impl Battery {
    /// Source of the form: BatteryService.java of AOSP; the temperature is in tenths of a degree, and a status of 2 is
    /// BatteryManager's BATTERY_STATUS_CHARGING.
    fn parse(text: &str) -> Battery {
        Battery {
            level_percent: value(text, "level").and_then(|level| level.parse().ok()),
            temperature_c: value(text, "temperature").and_then(|t| t.parse::<i32>().ok()).map(|t| f64::from(t) / 10.0),
            charging: value(text, "status").map(|status| status == "2"),
        }
    }
}

/// The value of the first line `NAME: VALUE`.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.trim().split_once(':'));
    lines.find(|(found, _)| *found == name).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the form in which Android 13 says it, with the lines that might mislead.
    const BATTERY: &str = "Current Battery Service state:\n  AC powered: false\n  USB powered: true\n  \
         Max charging current: 500000\n  status: 2\n  health: 2\n  present: true\n  level: 85\n  scale: 100\n  \
         voltage: 4301\n  temperature: 281\n  technology: Li-ion\n";

    #[test]
    fn what_a_shell_says_before_a_phones_properties_is_none_of_them() {
        let said = "Google\nPixel 6\n13\n33\n\nuser\n";
        let facts = properties(said);
        assert_eq!((facts.len(), facts["android.manufacturer"].as_str()), (5, "Google"));
        assert_eq!(facts["android.build"], "user");
        assert_eq!(properties(&format!("welcome\n\n{said}")), facts);
    }

    #[test]
    fn a_battery_is_read_and_what_it_does_not_say_is_unknown() {
        let read = Battery { level_percent: Some(85), temperature_c: Some(28.1), charging: Some(true) };
        assert_eq!(Battery::parse(BATTERY), read);
        assert_eq!(Battery::parse(&BATTERY.replace("status: 2", "status: 3")).charging, Some(false));
        assert_eq!(Battery::parse("Can't find service: battery\n"), Battery::default());
        assert_eq!(value("Thermal Status: 1\nCached temperatures:\n", "Thermal Status"), Some("1"));
    }

    #[test]
    fn a_phone_is_fit_within_what_its_profile_allows() {
        let text = "kind = \"adb\"\nserial = \"x\"\nbattery_least_percent = 30\ntemperature_most_c = 30\n";
        let adb = Adb::new("x", &toml::from_str(text).unwrap()).unwrap();
        let fit = |level_percent, temperature_c| {
            let battery = Battery { level_percent, temperature_c, charging: None };
            adb.unfit(&battery, None).is_none()
        };
        assert!(fit(Some(30), Some(30.0)));
        assert!(!fit(Some(29), Some(25.0)) && !fit(Some(80), Some(30.1)));
        assert!(!fit(None, Some(25.0)) && !fit(Some(80), None));
        let both = format!("{text}screen = \"on\"\ncharging = \"suspended\"\n");
        assert!(Adb::new("x", &toml::from_str(&both).unwrap()).is_err());
        let free = Adb::new("x", &toml::from_str("kind = \"adb\"\nserial = \"x\"\n").unwrap()).unwrap();
        assert_eq!(free.unfit(&Battery::default(), Some(3)), None);
        let cool = Adb::new("x", &toml::from_str("kind = \"adb\"\nserial = \"x\"\nthermal_status_most = 1\n").unwrap());
        let fit = |status| cool.as_ref().unwrap().unfit(&Battery::default(), status).is_none();
        assert!(fit(Some(0)) && fit(Some(1)) && !fit(Some(2)) && !fit(None));
    }
}
