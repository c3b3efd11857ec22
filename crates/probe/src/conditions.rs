//! Conditions of a trial: governor and bounds of the processors' frequency, cores on-line, power source. They are
//! set where the machine lets them be; what was in force is said in any case.

use crate::settings::Settings;
use pocketstone_core::database::{Condition, Conditions, Frequency};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Where a machine's settings are: its root folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    root: PathBuf,
}

impl Default for Machine {
    fn default() -> Self {
        Self::at(Path::new("/"))
    }
}

impl Machine {
    /// A machine whose `sys` is in `root`: `/`, or a tree made for a test.
    pub fn at(root: &Path) -> Machine {
        Machine { root: root.to_owned() }
    }

    /// Sets what is asked for and says what is in force, for each condition that is asked for.
    pub fn apply(&self, asked: &Conditions, settings: &mut Settings) -> Vec<Condition> {
        let mut all = Vec::new();
        let mut put = |name: &str, asked: String, set: Result<()>, in_force: Option<String>| {
            let why = set.err().map(|e| e.chain()).unwrap_or_default();
            all.push(Condition { name: name.into(), asked, in_force, why });
        };
        if let Some(governor) = &asked.governor {
            let set = self.set_governor(governor, settings);
            put("governor", governor.clone(), set, self.governor());
        }
        if let Some(frequency) = &asked.frequency {
            let set = self.set_frequency(*frequency, settings);
            put("frequency", frequency.to_string(), set, self.frequency());
        }
        if let Some(cores) = asked.cores {
            let set = self.set_cores(cores, settings);
            put("cores", cores.to_string(), set, self.cores_online().ok().map(|n| n.to_string()));
        }
        if let Some(power) = &asked.power {
            let source = self.power();
            let set = match &source {
                Some(source) if source == power => Ok(()),
                Some(source) => Err(Error::board(format!("the power source is {source}; software cannot change it"))),
                None => Err(Error::board(format!(
                    "this machine does not report its power source in {}",
                    self.power_supplies().display()
                ))),
            };
            put("power", power.clone(), set, source);
        }
        all
    }

    fn processors(&self) -> PathBuf {
        self.root.join("sys/devices/system/cpu")
    }

    fn power_supplies(&self) -> PathBuf {
        self.root.join("sys/class/power_supply")
    }

    /// Folders of the processors, by number: those that are present.
    fn cores(&self) -> Result<Vec<(u32, PathBuf)>> {
        let mut cores = numbered(&self.processors(), "cpu")?;
        cores.sort();
        match cores.is_empty() {
            true => Err(Error::board(format!("there is no processor in {}", self.processors().display()))),
            false => Ok(cores),
        }
    }

    /// Frequency policies: each sets the frequency of one or more processors.
    fn policies(&self) -> Result<Vec<PathBuf>> {
        let missing = || {
            let file = self.processors().join("cpu0/cpufreq");
            Error::board(format!("this machine has no cpufreq: {} is missing", file.display()))
                .hint("use a machine with kernel frequency scaling (CONFIG_CPU_FREQ)")
        };
        let mut policies = numbered(&self.processors().join("cpufreq"), "policy").unwrap_or_default();
        policies.retain(|(_, p)| p.join("scaling_governor").exists());
        policies.sort();
        match policies.is_empty() {
            true => Err(missing()),
            false => Ok(policies.into_iter().map(|(_, path)| path).collect()),
        }
    }

    /// The governor in force; several, parted by commas, where policies differ. `None` without cpufreq.
    pub fn governor(&self) -> Option<String> {
        let mut names = Vec::new();
        for policy in self.policies().ok()? {
            let name = fs::read_to_string(policy.join("scaling_governor")).ok()?.trim().to_owned();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Some(names.join(", "))
    }

    fn set_governor(&self, governor: &str, settings: &mut Settings) -> Result<()> {
        for policy in self.policies()? {
            if let Ok(offered) = fs::read_to_string(policy.join("scaling_available_governors")) {
                if !offered.split_whitespace().any(|o| o == governor) {
                    return Err(Error::board(format!(
                        "this machine has no governor `{governor}`: {} offers {}",
                        policy.display(),
                        offered.trim()
                    )));
                }
            }
            settings.set(&policy.join("scaling_governor"), governor)?;
        }
        Ok(())
    }

    /// The frequency's bounds in force in kHz, `LOW-HIGH`; several, parted by commas, where policies differ. `None`
    /// without cpufreq.
    pub fn frequency(&self) -> Option<String> {
        let mut bounds = Vec::new();
        for policy in self.policies().ok()? {
            let low = khz(&policy.join("scaling_min_freq")).ok()?;
            let text = format!("{low}-{}", khz(&policy.join("scaling_max_freq")).ok()?);
            if !bounds.contains(&text) {
                bounds.push(text);
            }
        }
        Some(bounds.join(", "))
    }

    fn set_frequency(&self, wanted: Frequency, settings: &mut Settings) -> Result<()> {
        for policy in self.policies()? {
            let limits = (khz(&policy.join("cpuinfo_min_freq"))?, khz(&policy.join("cpuinfo_max_freq"))?);
            let listed = fs::read_to_string(policy.join("scaling_available_frequencies")).unwrap_or_default();
            let points: Vec<u32> = listed.split_whitespace().filter_map(|t| t.parse().ok()).collect();
            let (low, high) = wanted.within(limits, &points).ok_or_else(|| {
                let (name, (low, high)) = (policy.display(), limits);
                Error::board(format!("{name} has no frequency in {wanted}: its processors have {low} to {high} kHz"))
            })?;
            let [min, max] = ["scaling_min_freq", "scaling_max_freq"].map(|name| policy.join(name));
            for bound in order((khz(&min)?, khz(&max)?), (low, high)) {
                match bound {
                    Bound::Low(khz) => settings.set(&min, &khz.to_string())?,
                    Bound::High(khz) => settings.set(&max, &khz.to_string())?,
                };
            }
            // That governor stays at the frequency it was told last, as far as the bounds let it.
            let governor = fs::read_to_string(policy.join("scaling_governor")).unwrap_or_default();
            if low == high && governor.trim() == "userspace" {
                settings.set(&policy.join("scaling_setspeed"), &low.to_string())?;
            }
        }
        Ok(())
    }

    /// Frequency of each processor now, in kHz, by its number; those without cpufreq are left out.
    pub fn frequencies_khz(&self) -> Vec<(u16, u32)> {
        let frequency = |(n, path): (u32, PathBuf)| {
            let text = fs::read_to_string(path.join("cpufreq/scaling_cur_freq")).ok()?;
            Some((u16::try_from(n).ok()?, text.trim().parse().ok()?))
        };
        self.cores().unwrap_or_default().into_iter().filter_map(frequency).collect()
    }

    /// Whether a core is on-line; one without the switch (often the first one) always is.
    fn online(core: &Path) -> Result<bool> {
        let file = core.join("online");
        match file.exists() {
            true => {
                let text = fs::read_to_string(&file).board(|| format!("cannot read {}", file.display()))?;
                Ok(text.trim() == "1")
            }
            false => Ok(true),
        }
    }

    /// Number of cores on-line.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the machine does not report it.
    pub fn cores_online(&self) -> Result<u32> {
        let mut count = 0;
        for (_, core) in self.cores()? {
            count += u32::from(Self::online(&core)?);
        }
        Ok(count)
    }

    fn set_cores(&self, wanted: u32, settings: &mut Settings) -> Result<()> {
        let cores = self.cores()?;
        let present = cores.len() as u32;
        if wanted == 0 || wanted > present {
            return Err(Error::board(format!("{wanted} cores cannot be online: this machine supports 1 to {present}")));
        }
        let mut online = self.cores_online()?;
        // The first core stays; others go from the last one on, and come from the first one on.
        for (_, core) in cores.iter().skip(1).rev().filter(|(_, c)| c.join("online").exists()) {
            if online > wanted && Self::online(core)? {
                settings.set(&core.join("online"), "0")?;
                online -= 1;
            }
        }
        for (_, core) in cores.iter().filter(|(_, c)| c.join("online").exists()) {
            if online < wanted && !Self::online(core)? {
                settings.set(&core.join("online"), "1")?;
                online += 1;
            }
        }
        match online == wanted {
            true => Ok(()),
            false => Err(Error::board(format!("{online} cores stay online: they cannot be taken offline"))),
        }
    }

    /// `mains` or `battery`; `None` where the machine does not tell.
    pub fn power(&self) -> Option<String> {
        let supplies = fs::read_dir(self.power_supplies()).ok()?.flatten();
        let attribute = |folder: &Path, name: &str| {
            fs::read_to_string(folder.join(name)).map(|t| t.trim().to_owned()).unwrap_or_default()
        };
        let mut source = None;
        for folder in supplies.map(|e| e.path()) {
            let (kind, status) = (attribute(&folder, "type"), attribute(&folder, "status"));
            // A mouse's battery says nothing about the machine.
            if attribute(&folder, "scope") == "Device" {
                continue;
            }
            let mains = match kind.as_str() {
                "Battery" => matches!(status.as_str(), "Charging" | "Full" | "Not charging"),
                _ => attribute(&folder, "online") == "1",
            };
            if mains {
                return Some("mains".into());
            }
            if kind == "Battery" && status == "Discharging" {
                source = Some("battery".to_owned());
            }
        }
        source
    }
}

/// A frequency in a file, in kHz.
fn khz(file: &Path) -> Result<u32> {
    let text = fs::read_to_string(file).board(|| format!("cannot read {}", file.display()))?;
    text.trim().parse().board(|| format!("{} does not contain a frequency: `{}`", file.display(), text.trim()))
}

/// A bound to write, in kHz.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Low(u32),
    High(u32),
}

/// In which order to write two bounds so that the lower one is never above the upper one, which kernels refuse.
/// Putting back goes through the same steps backwards, so it is in order, too.
fn order(now: (u32, u32), wanted: (u32, u32)) -> [Bound; 2] {
    match wanted.0 <= now.1 {
        true => [Bound::Low(wanted.0), Bound::High(wanted.1)],
        false => [Bound::High(wanted.1), Bound::Low(wanted.0)],
    }
}

/// Entries `PREFIXnumber` of a folder, by number.
fn numbered(folder: &Path, prefix: &str) -> Result<Vec<(u32, PathBuf)>> {
    let entries = fs::read_dir(folder).board(|| format!("cannot list {}", folder.display()))?;
    let number = |e: fs::DirEntry| Some((e.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?, e.path()));
    Ok(entries.flatten().filter_map(number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn get(root: &Path, file: &str) -> String {
        fs::read_to_string(root.join(file)).unwrap().trim().to_owned()
    }

    fn phone() -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path();
        fs::create_dir_all(root.join("sys/devices/system/cpu/cpu0")).unwrap();
        for n in 1..4 {
            put(root, &format!("sys/devices/system/cpu/cpu{n}/online"), if n == 3 { "0" } else { "1" });
        }
        for n in [0, 2] {
            let policy = format!("sys/devices/system/cpu/cpufreq/policy{n}");
            put(root, &format!("{policy}/scaling_governor"), "ondemand");
            put(root, &format!("{policy}/scaling_available_governors"), "ondemand performance userspace");
            put(root, &format!("{policy}/scaling_available_frequencies"), "300000 1267200 1497600 2649600");
            for (name, khz) in [("cpuinfo_min", 300_000), ("cpuinfo_max", 2_649_600), ("scaling_min", 300_000)] {
                put(root, &format!("{policy}/{name}_freq"), &khz.to_string());
            }
            put(root, &format!("{policy}/scaling_max_freq"), "1497600");
            put(root, &format!("{policy}/scaling_setspeed"), "300000");
        }
        put(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "300000");
        put(root, "sys/class/power_supply/battery/type", "Battery");
        put(root, "sys/class/power_supply/battery/status", "Discharging");
        put(root, "sys/class/power_supply/usb/type", "USB");
        put(root, "sys/class/power_supply/usb/online", "0");
        tree
    }

    fn condition(name: &str, asked: &str, in_force: Option<&str>, why: &str) -> Condition {
        Condition { name: name.into(), asked: asked.into(), in_force: in_force.map(Into::into), why: why.into() }
    }

    #[test]
    fn a_machine_that_lets_itself_be_set_is_set_and_put_back() {
        let tree = phone();
        let (root, machine) = (tree.path(), Machine::at(tree.path()));
        let mut settings = Settings::unguarded();
        let asked = Conditions {
            governor: Some("performance".into()),
            cores: Some(1),
            power: Some("battery".into()),
            ..Conditions::default()
        };
        let expected = [
            condition("governor", "performance", Some("performance"), ""),
            condition("cores", "1", Some("1"), ""),
            condition("power", "battery", Some("battery"), ""),
        ];
        assert_eq!(machine.apply(&asked, &mut settings), expected);
        assert_eq!(get(root, "sys/devices/system/cpu/cpufreq/policy2/scaling_governor"), "performance");
        assert_eq!(get(root, "sys/devices/system/cpu/cpu1/online"), "0");
        settings.restore().unwrap();
        assert_eq!(machine.governor().unwrap(), "ondemand");
        assert_eq!([1, 2, 3].map(|n| get(root, &format!("sys/devices/system/cpu/cpu{n}/online"))), ["1", "1", "0"]);
        let mut settings = Settings::unguarded();
        let all = Conditions { cores: Some(4), ..Conditions::default() };
        assert_eq!(machine.apply(&all, &mut settings), [condition("cores", "4", Some("4"), "")]);
        assert_eq!(machine.frequencies_khz(), [(0, 300_000)]);
    }

    #[test]
    fn what_cannot_be_set_is_said_with_what_is_in_force() {
        let tree = phone();
        let machine = Machine::at(tree.path());
        put(tree.path(), "sys/class/power_supply/usb/online", "1");
        let asked = Conditions {
            governor: Some("schedutil".into()),
            cores: Some(5),
            power: Some("battery".into()),
            ..Conditions::default()
        };
        let got = machine.apply(&asked, &mut Settings::unguarded());
        assert_eq!(got[0].in_force.as_deref(), Some("ondemand"));
        assert!(got[0].why.contains("offers ondemand performance userspace"), "{}", got[0].why);
        let expected = condition("cores", "5", Some("3"), "5 cores cannot be online: this machine supports 1 to 4");
        assert_eq!(got[1], expected);
        assert_eq!(got[2].in_force.as_deref(), Some("mains"));
        let bare = tempfile::tempdir().unwrap();
        let got = Machine::at(bare.path()).apply(&asked, &mut Settings::unguarded());
        assert!(got.iter().all(|c| c.in_force.is_none() && !c.why.is_empty()));
        assert!(got[0].why.ends_with("sys/devices/system/cpu/cpu0/cpufreq is missing"), "{}", got[0].why);
    }

    #[test]
    fn bounds_are_never_crossed_on_the_way_there_and_back() {
        let all = (1..5).flat_map(|low| (low..5).map(move |high| (low, high)));
        for (now, wanted) in all.clone().flat_map(|now| all.clone().map(move |wanted| (now, wanted))) {
            // What a strict kernel would see.
            let mut states = vec![now];
            for bound in order(now, wanted) {
                let (low, high) = states[states.len() - 1];
                states.push(match bound {
                    Bound::Low(khz) => (khz, high),
                    Bound::High(khz) => (low, khz),
                });
            }
            assert_eq!(states.last(), Some(&wanted));
            assert!(states.iter().all(|(low, high)| low <= high), "{states:?}");
        }
    }

    #[test]
    fn a_frequency_is_held_and_its_bounds_are_put_back() {
        let tree = phone();
        let (root, machine) = (tree.path(), Machine::at(tree.path()));
        let file = |name: &str| get(root, &format!("sys/devices/system/cpu/cpufreq/policy2/scaling_{name}"));
        // 2649600 kHz is above the upper bound as it is: that one goes first.
        for (asked, in_force) in [
            ("fixed:50", "1267200-1267200"),
            ("fixed:100", "2649600-2649600"),
            ("fixed:1497600kHz", "1497600-1497600"),
            ("300000-1267200", "300000-1267200"),
            ("100-400000", "300000-400000"),
        ] {
            let mut settings = Settings::unguarded();
            let conditions = Conditions { frequency: Some(asked.parse().unwrap()), ..Conditions::default() };
            let expected = [condition("frequency", asked, Some(in_force), "")];
            assert_eq!(machine.apply(&conditions, &mut settings), expected);
            assert_eq!(file("setspeed"), "300000", "the governor is not `userspace`");
            settings.restore().unwrap();
            assert_eq!(machine.frequency().unwrap(), "300000-1497600");
        }
        let mut settings = Settings::unguarded();
        let conditions = Conditions {
            governor: Some("userspace".into()),
            frequency: Some("fixed:50".parse().unwrap()),
            ..Conditions::default()
        };
        assert!(machine.apply(&conditions, &mut settings).iter().all(|c| c.why.is_empty()));
        assert_eq!([file("governor"), file("setspeed")], ["userspace", "1267200"]);
        settings.restore().unwrap();
        assert_eq!([file("governor"), file("setspeed")], ["ondemand", "300000"]);
    }

    #[test]
    fn a_frequency_that_no_processor_has_is_refused() {
        let tree = phone();
        let machine = Machine::at(tree.path());
        let asked = Conditions { frequency: Some("3000000-4000000".parse().unwrap()), ..Conditions::default() };
        let got = machine.apply(&asked, &mut Settings::unguarded());
        assert!(got[0].why.contains("its processors have 300000 to 2649600 kHz"), "{}", got[0].why);
        assert_eq!(got[0].in_force.as_deref(), Some("300000-1497600"));
        let bare = tempfile::tempdir().unwrap();
        let got = Machine::at(bare.path()).apply(&asked, &mut Settings::unguarded());
        assert!(got[0].in_force.is_none() && got[0].why.contains("no cpufreq"), "{}", got[0].why);
    }
}
