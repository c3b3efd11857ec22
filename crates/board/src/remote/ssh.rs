//! A Linux board that ssh reaches.

use super::client::Client;
use crate::profile::SshProfile;
use pocketstone_core::{Error, Result};
use std::process::Command;

/// ssh itself asks nobody anything, notices a board that is gone within 15 s, and has a connection of its own: one
/// that is shared ends when its owner wants.
const OPTIONS: [&str; 15] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=3",
    "-o",
    "LogLevel=ERROR",
    "-o",
    "ControlMaster=no",
    "-o",
    "ControlPath=none",
];

/// The system's ssh.
pub struct Ssh {
    host: String,
    options: Vec<String>,
}

impl Ssh {
    /// The way to the board `name`.
    ///
    /// # Errors
    /// `ErrorKind::User` for a profile that cannot be.
    pub fn new(name: &str, profile: &SshProfile) -> Result<Ssh> {
        if profile.host.starts_with('-') {
            let error = Error::user(format!("`host` of {name} is {:?}", profile.host));
            return Err(error.hint("name a host as ssh_config(5) knows it; options of ssh go into `options`"));
        }
        Ok(Ssh { host: profile.host.clone(), options: profile.options.clone() })
    }
}

impl Client for Ssh {
    fn board(&self) -> &str {
        &self.host
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("ssh");
        command.args(OPTIONS).args(&self.options).arg(&self.host).arg(line);
        command
    }

    fn cure(&self) -> &'static str {
        "apt-get install openssh-client"
    }

    fn by_hand(&self) -> String {
        format!("ssh {} true", self.host)
    }

    fn folder(&self) -> &'static str {
        "/var/tmp/pocketstone-runner"
    }
}
