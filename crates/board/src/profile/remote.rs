//! Profiles of boards behind a program that reaches them.

use pocketstone_core::board::{Setting, WAS};
use serde::Deserialize;
use std::path::PathBuf;

/// Settings of a board that ssh reaches.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SshProfile {
    #[serde(rename = "kind", skip_serializing)]
    _kind: String,
    #[serde(rename = "description", default, skip_serializing)]
    _description: String,
    /// The host, as ssh_config has it; `None`: labgrid says where its place is.
    #[serde(default)]
    pub host: Option<String>,
    /// Options for ssh in front of it, such as `["-F", "/home/me/lab.config"]`.
    #[serde(default)]
    pub options: Vec<String>,
    /// The folder on the board for the runner and its files; `None`: one in /var/tmp.
    #[serde(default)]
    pub folder: Option<String>,
    /// What the runner is started with to have more rights, such as `["sudo", "-n"]`.
    #[serde(default)]
    pub r#become: Vec<String>,
    /// Directory on the board of target files; `None`: a folder in `folder`.
    #[serde(default)]
    pub directory: Option<PathBuf>,
    /// Raw flash of the board that may be measured.
    #[serde(default)]
    pub flash: Option<FlashProfile>,
    /// What is set on the board while a cell is measured.
    #[serde(default)]
    pub settings: Vec<Setting>,
    /// A line for the board's shell; cells wait until it succeeds.
    #[serde(default)]
    pub ready: Option<String>,
    /// A command on this machine that turns the board's power off and on again: the last resort when it is lost.
    #[serde(default)]
    pub power_cycle: Vec<String>,
    /// The place in a labgrid lab that is acquired while the board is in use.
    #[serde(default)]
    pub labgrid: Option<LabgridProfile>,
}

/// Settings of a machine, or a part of one, that a command reaches, such as a container.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandProfile {
    #[serde(rename = "kind", skip_serializing)]
    _kind: String,
    #[serde(rename = "description", default, skip_serializing)]
    _description: String,
    /// The words in front of `sh -c LINE`, such as `["docker", "exec", "-i", "box"]`; none: this machine itself.
    pub command: Vec<String>,
    /// The folder there for the runner and its files; `None`: one in /var/tmp.
    #[serde(default)]
    pub folder: Option<String>,
    /// What the runner is started with to have more rights, such as `["sudo", "-n"]`.
    #[serde(default)]
    pub r#become: Vec<String>,
    /// Directory there of target files; `None`: a folder in `folder`.
    #[serde(default)]
    pub directory: Option<PathBuf>,
    /// Raw flash there that may be measured.
    #[serde(default)]
    pub flash: Option<FlashProfile>,
    /// What is set there while a cell is measured.
    #[serde(default)]
    pub settings: Vec<Setting>,
    /// A line for the shell there; cells wait until it succeeds.
    #[serde(default)]
    pub ready: Option<String>,
    /// A command on this machine that starts it anew: the last resort when it is lost.
    #[serde(default)]
    pub power_cycle: Vec<String>,
}

/// A place in a labgrid lab.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabgridProfile {
    /// Its name; either this or `filter`.
    #[serde(default)]
    pub place: Option<String>,
    /// Tags of the places of which any will do, such as `["board=omap"]`.
    #[serde(default)]
    pub filter: Vec<String>,
    /// The coordinator, as HOST:PORT; `None`: what labgrid-client takes by itself.
    #[serde(default)]
    pub coordinator: Option<String>,
}

/// Raw flash of a board that is not thrown away.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashProfile {
    /// Name of the MTD device that volumes take whole, as /proc/mtd on the board has it.
    pub partition: String,
    /// Whether it may be erased. There is no default: what is on it cannot be had back.
    pub erase: Erase,
}

impl FlashProfile {
    /// Whether its partition may be erased.
    pub fn may_be_erased(&self) -> bool {
        self.erase == Erase::Allowed
    }
}

/// Whether a partition may be erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Erase {
    /// Each cell on raw flash erases it.
    Allowed,
    /// It is left alone, and cells on raw flash are left out.
    Forbidden,
}

/// Settings of a phone that adb reaches.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdbProfile {
    #[serde(rename = "kind", skip_serializing)]
    _kind: String,
    #[serde(rename = "description", default, skip_serializing)]
    _description: String,
    /// The phone, as `adb devices` has it, or HOST:PORT of one that is reached by the network.
    pub serial: String,
    /// The folder on the phone for the runner and its files; `None`: one in /data/local/tmp.
    #[serde(default)]
    pub folder: Option<String>,
    /// What the runner is started with to have more rights: `["su", "-c"]` for Magisk and KernelSU, `["su", "0"]` for
    /// AOSP's own.
    #[serde(default)]
    pub r#become: Vec<String>,
    /// Directory on the phone of target files; `None`: a folder in `folder`.
    #[serde(default)]
    pub directory: Option<PathBuf>,
    /// What is set on the phone while a cell is measured.
    #[serde(default)]
    pub settings: Vec<Setting>,
    /// Cells wait until the battery is at least so full.
    #[serde(default)]
    pub battery_least_percent: Option<u32>,
    /// Cells wait until the battery is at most so warm.
    #[serde(default)]
    pub temperature_most_c: Option<f64>,
    /// Cells wait until the phone is throttled at most so much: its thermal status, 0 to 6.
    #[serde(default)]
    pub thermal_status_most: Option<u32>,
    /// What its screen does while a cell is measured; `None`: what it does.
    #[serde(default)]
    pub screen: Option<Screen>,
    /// What its charger does while a cell is measured; `None`: what it does.
    #[serde(default)]
    pub charging: Option<Charging>,
}

/// What a phone's screen does while a cell is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Screen {
    /// It is woken and stays on, as long as a cable feeds the phone.
    On,
    /// It is put to sleep, and woken afterwards.
    Off,
}

impl Screen {
    /// How that is set and undone. Source: the commands `svc`, `settings` and `input` of AOSP, and what its
    /// PowerManagerService says in `dumpsys power`. `svc` by its path: the shell of BusyBox, which rooted phones may
    /// have, takes it for its own command of that name, of runit.
    fn setting(self) -> Setting {
        match self {
            Screen::On => command("/system/bin/svc power stayon true", PUT_STAY_ON, GET_STAY_ON),
            Screen::Off => command("input keyevent KEYCODE_SLEEP", WAKE, WAKEFULNESS),
        }
    }
}

const GET_STAY_ON: &str = "settings get global stay_on_while_plugged_in 2>/dev/null || true";
/// What was never set is `null`.
const PUT_STAY_ON: &str = "case \"$1\" in
    ''|null) /system/bin/svc power stayon false;;
    *) settings put global stay_on_while_plugged_in \"$1\";;
esac";
const WAKEFULNESS: &str = "dumpsys power 2>/dev/null | sed -n 's/^ *mWakefulness=//p'";
/// One that slept before sleeps on.
const WAKE: &str = "case \"$1\" in Asleep|Dozing) ;; *) input keyevent KEYCODE_WAKEUP;; esac";

/// What a phone's charger does while a cell is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Charging {
    /// It is kept from charging, so that the battery's counters say what the phone takes, on phones that allow that.
    Suspended,
}

const SUSPEND: &str = "setprop power.battery_input.suspended true || exit 1; n=0
    while grep -qE '^(Charging|Full)' /sys/class/power_supply/battery/status 2>/dev/null; do
        n=$((n + 1)); sleep 0.1
        [ $n -lt 100 ] || { echo 'it goes on charging: suspend that by a file of its own' >&2; exit 1; }
    done";

impl Charging {
    /// How that is set and undone. Source of the property: PowerMetric of androidx.benchmark. It is set before the
    /// charger has heard of it, and on phones that do not know it, too: so its end is waited for, for 10 s.
    fn setting(self) -> Setting {
        match self {
            Charging::Suspended => command(SUSPEND, RESUME, "getprop power.battery_input.suspended"),
        }
    }
}

/// What was never set is empty, and nobody charges again because of that.
const RESUME: &str = "setprop power.battery_input.suspended \"${1:-false}\"";

/// Lines of a phone's shell as a setting: `undo` has what `read` says as its first argument.
fn command(set: &str, undo: &str, read: &str) -> Setting {
    let line = |line: &str| ["sh", "-c", line].map(str::to_owned).to_vec();
    let undo = [line(undo), ["sh", WAS].map(str::to_owned).to_vec()].concat();
    Setting::Command { set: line(set), undo, read: Some(line(read)) }
}

/// Where the files are on a board that a program reaches, and with which rights they are used.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The folder for the runner and its files; `None`: the usual one.
    pub folder: Option<String>,
    /// What the runner is started with to have more rights.
    pub r#become: Vec<String>,
    /// Directory of target files; `None`: a folder in that folder.
    pub directory: Option<PathBuf>,
    /// Its raw flash.
    pub flash: Option<FlashProfile>,
    /// What is set while a cell is measured.
    pub settings: Vec<Setting>,
}

impl SshProfile {
    /// Where its files are.
    pub fn place(&self) -> Place {
        Place {
            folder: self.folder.clone(),
            r#become: self.r#become.clone(),
            directory: self.directory.clone(),
            flash: self.flash.clone(),
            settings: self.settings.clone(),
        }
    }
}

impl CommandProfile {
    /// Where its files are.
    pub fn place(&self) -> Place {
        Place {
            folder: self.folder.clone(),
            r#become: self.r#become.clone(),
            directory: self.directory.clone(),
            flash: self.flash.clone(),
            settings: self.settings.clone(),
        }
    }
}

impl AdbProfile {
    /// Where its files are.
    pub fn place(&self) -> Place {
        let of_its_own = [self.screen.map(Screen::setting), self.charging.map(Charging::setting)];
        let settings = of_its_own.into_iter().flatten().chain(self.settings.iter().cloned()).collect();
        Place {
            folder: self.folder.clone(),
            r#become: self.r#become.clone(),
            directory: self.directory.clone(),
            flash: None,
            settings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phones_screen_and_charger_are_settings_before_others() {
        let text = "kind = \"adb\"\nserial = \"x\"\nscreen = \"off\"\ncharging = \"suspended\"\n\
                    settings = [{ file = \"/x\", value = \"1\" }]\n";
        let settings = toml::from_str::<AdbProfile>(text).unwrap().place().settings;
        let lines = |setting: &Setting| match setting {
            Setting::Command { set, undo, read } => {
                [set[2].clone(), undo[2..].join(" "), read.clone().unwrap()[2].clone()]
            }
            Setting::File { file, value } => [file.display().to_string(), value.clone(), String::new()],
        };
        let expected = [
            ["input keyevent KEYCODE_SLEEP", &format!("{WAKE} sh {{}}"), WAKEFULNESS],
            [SUSPEND, &format!("{RESUME} sh {{}}"), "getprop power.battery_input.suspended"],
            ["/x", "1", ""],
        ];
        assert_eq!(settings.iter().map(lines).collect::<Vec<_>>(), expected);
        assert!(SUSPEND.starts_with("setprop power.battery_input.suspended true || exit 1;"));
        assert_eq!(lines(&Screen::On.setting())[0], "/system/bin/svc power stayon true");
        assert!(toml::from_str::<AdbProfile>(&text.replace("suspended", "off")).is_err());
    }
}
