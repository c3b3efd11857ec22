//! A machine, or a part of one, that a command reaches: a container, a root folder, this machine itself.

use super::client::{Client, await_ready, power_cycle, quoted};
use crate::profile::CommandProfile;
use crate::{BoardContext, Failed};
use pocketstone_core::{Error, Result};
use std::process::Command;

/// The words of a profile in front of a shell.
pub struct Words {
    /// As a user would type them.
    shown: String,
    words: Vec<String>,
    ready: Option<String>,
    power_cycle: Vec<String>,
}

impl Words {
    /// The way to the board `name`.
    ///
    /// # Errors
    /// `ErrorKind::User` for a profile that cannot be.
    pub fn new(name: &str, profile: &CommandProfile) -> Result<Words> {
        if profile.command.iter().any(|word| word.trim().is_empty()) {
            let error = Error::user(format!("`command` of {name} is {:?}", profile.command));
            return Err(error.hint("name a program and its words; [] is this machine"));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:=,".contains(c);
        let word = |word: &String| match word.chars().all(plain) {
            true => word.clone(),
            false => quoted(word),
        };
        let shown = profile.command.iter().map(word).collect::<Vec<_>>().join(" ");
        let (ready, power_cycle) = (profile.ready.clone(), profile.power_cycle.clone());
        Ok(Words { shown, words: profile.command.clone(), ready, power_cycle })
    }
}

impl Client for Words {
    fn board(&self) -> &str {
        if self.shown.is_empty() { "this machine" } else { &self.shown }
    }

    fn command(&self, line: &str) -> Command {
        let mut words = self.words.iter().map(String::as_str).chain(["sh", "-c", line]);
        let mut command = Command::new(words.next().unwrap_or("sh"));
        command.args(words);
        command
    }

    fn cure(&self) -> &'static str {
        "correct `command` in its profile: it has to pass its words and its input on as they are, without a terminal"
    }

    fn by_hand(&self) -> String {
        format!("{} sh -c true", self.shown).trim_start().to_owned()
    }

    fn folder(&self) -> &'static str {
        "/var/tmp/pocketstone-runner"
    }

    fn power_cycle(&self, context: &BoardContext) -> Result<bool> {
        power_cycle(&self.power_cycle, context)
    }

    fn await_fitness(&self, context: &BoardContext) -> Result<(), Failed> {
        await_ready(self, self.ready.as_deref(), context)
    }
}
