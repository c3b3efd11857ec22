//! A Linux board that ssh reaches.

use super::client::{Client, await_ready, power_cycle};
use super::labgrid::Labgrid;
use crate::profile::SshProfile;
use crate::{BoardContext, Failed};
use pocketstone_core::outcome::Facts;
use pocketstone_core::{Error, Result};
use std::process::{Command, Stdio};

/// ssh itself asks nobody anything, and has a connection of its own: one that is shared ends when its owner wants. It
/// takes the first of several values, so these hold whatever the user's options say.
const FIXED: [&str; 9] =
    ["-T", "-o", "BatchMode=yes", "-o", "ControlMaster=no", "-o", "ControlPath=none", "-o", "ClearAllForwardings=yes"];
/// A connection is for one command, and its input. A client that does not know these options, from before 7.6 and 8.7,
/// has nothing to turn off.
const NEWER: [&str; 3] = ["RemoteCommand=none", "StdinNull=no", "SessionType=default"];
/// It notices a board that is gone within 15 s, unless the user's options say something else.
const USUAL: [&str; 8] =
    ["-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "LogLevel=ERROR"];

/// Whether the client knows an option. It reads no configuration for that, which might run commands.
fn knows(option: &str) -> bool {
    let mut ssh = Command::new("ssh");
    ssh.args(["-F", "/dev/null", "-G", "-o", option, "localhost"]);
    ssh.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The system's ssh.
pub struct Ssh {
    host: String,
    /// Those of [`NEWER`] that it knows.
    newer: Vec<&'static str>,
    options: Vec<String>,
    ready: Option<String>,
    power_cycle: Vec<String>,
    labgrid: Option<Labgrid>,
}

impl Ssh {
    /// The way to the board `name`; its place in labgrid is acquired.
    ///
    /// # Errors
    /// `ErrorKind::User` for a profile that cannot be; as [`Labgrid::acquire`].
    pub fn new(name: &str, profile: &SshProfile, context: &BoardContext) -> Result<Ssh> {
        if profile.host.is_none() && profile.labgrid.is_none() {
            return Err(Error::user(format!("{name} has no `host`")).hint("name a host as ssh_config(5) knows it"));
        }
        if let Some(host) = profile.host.as_ref().filter(|host| host.is_empty() || host.starts_with('-')) {
            let error = Error::user(format!("`host` of {name} is {host:?}"));
            return Err(error.hint("name a host as ssh_config(5) knows it; options of ssh go into `options`"));
        }
        let labgrid = profile.labgrid.as_ref().map(|place| Labgrid::acquire(place, context)).transpose()?;
        let mut options = profile.options.clone();
        let host = match (&profile.host, labgrid.as_ref().and_then(|labgrid| labgrid.service.as_ref())) {
            (Some(host), _) => host.clone(),
            (None, Some(service)) => {
                options.extend(service.port.iter().flat_map(|port| ["-p".into(), port.to_string()]));
                options.extend(service.user.iter().flat_map(|user| ["-l".into(), user.clone()]));
                service.address.clone()
            }
            (None, None) => {
                let place = labgrid.map(|labgrid| labgrid.place).unwrap_or_default();
                return Err(Error::board(format!("labgrid's place {place} has no NetworkService"))
                    .hint("export one for the board, or name its `host` in the profile"));
            }
        };
        let (ready, power_cycle) = (profile.ready.clone(), profile.power_cycle.clone());
        let newer = NEWER.into_iter().filter(|option| knows(option)).collect();
        Ok(Ssh { host, newer, options, ready, power_cycle, labgrid })
    }
}

impl Client for Ssh {
    fn board(&self) -> &str {
        &self.host
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("ssh");
        command
            .args(FIXED)
            .args(self.newer.iter().flat_map(|option| ["-o", option]))
            .args(&self.options)
            .args(USUAL)
            .arg(&self.host)
            .arg(line);
        command
    }

    fn cure(&self) -> &'static str {
        "apt-get install openssh-client"
    }

    fn by_hand(&self) -> String {
        [&["ssh".to_owned()], &self.options[..], &[self.host.clone(), "true".into()]].concat().join(" ")
    }

    fn folder(&self) -> &'static str {
        "/var/tmp/pocketstone-runner"
    }

    fn power_cycle(&self, context: &BoardContext) -> Result<bool> {
        match (power_cycle(&self.power_cycle, context)?, &self.labgrid) {
            (false, Some(labgrid)) => labgrid.power_cycle(context).map(|()| true),
            (done, _) => Ok(done),
        }
    }

    fn await_fitness(&self, context: &BoardContext) -> Result<(), Failed> {
        await_ready(self, self.ready.as_deref(), context)
    }

    fn facts(&self, _context: &BoardContext) -> Result<Facts> {
        let place = self.labgrid.iter().map(|labgrid| ("board.place".to_owned(), labgrid.place.clone()));
        Ok(place.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_may_be_chosen_the_users_options_come_first() {
        let options = ["-o", "ConnectTimeout=60", "-o", "BatchMode=no"].map(str::to_owned).to_vec();
        let newer = vec!["RemoteCommand=none"];
        let ssh = Ssh { host: "board".into(), newer, options, ready: None, power_cycle: Vec::new(), labgrid: None };
        let command = ssh.command("true");
        let words: Vec<&str> = command.get_args().filter_map(|word| word.to_str()).collect();
        let first = |option: &str| words.iter().find(|word| word.starts_with(option)).copied();
        assert_eq!(first("ConnectTimeout="), Some("ConnectTimeout=60"));
        assert_eq!(first("ServerAliveInterval="), Some("ServerAliveInterval=5"));
        assert_eq!(first("BatchMode="), Some("BatchMode=yes"));
        assert_eq!(first("RemoteCommand="), Some("RemoteCommand=none"));
        assert_eq!(words[words.len() - 2..], ["board", "true"]);
    }
}
