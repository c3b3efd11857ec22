//! A place in a labgrid lab, by labgrid's own command: its protocol is not stable between its versions.

use super::client::{Ran, quoted, run};
use crate::BoardContext;
use crate::profile::LabgridProfile;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use yaml_rust2::{Yaml, YamlLoader};

const PROGRAM: &str = "labgrid-client";
const CURE: &str = "pipx install labgrid";
/// How long the coordinator may take to answer: the start of its client alone takes seconds.
const LIMIT: Duration = Duration::from_secs(120);
/// How often a place is asked for that others have, and how long altogether.
const LOOK: Duration = Duration::from_secs(10);
const WAIT_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// A place that is this lab's until this is dropped.
pub struct Labgrid {
    /// Its name.
    pub place: String,
    /// Where ssh reaches its board, if labgrid knows.
    pub service: Option<Service>,
    coordinator: Vec<String>,
    guard: Option<Guard>,
}

/// Where ssh reaches a board.
#[derive(Debug, Default, PartialEq)]
pub struct Service {
    pub address: String,
    pub port: Option<i64>,
    pub user: Option<String>,
}

/// A process that gives a place back when this one ends, however it does: labgrid's locks do not expire.
struct Guard {
    child: Child,
    progress: Arc<dyn Fn(&str) + Send + Sync>,
    /// What the user is told to do if it cannot.
    by_hand: String,
}

impl Labgrid {
    /// Waits for a place and acquires it. A place that the user has acquired by hand is used, and left to them.
    ///
    /// # Errors
    /// `ErrorKind::User` for a profile that cannot be; `ErrorKind::Board` if labgrid does not answer or knows no such
    /// place; `ErrorKind::Interrupted`.
    pub fn acquire(profile: &LabgridProfile, context: &BoardContext) -> Result<Labgrid> {
        let coordinator: Vec<String> =
            profile.coordinator.iter().flat_map(|address| ["-x".into(), address.clone()]).collect();
        let mut labgrid = Labgrid { place: String::new(), service: None, coordinator, guard: None };
        let filters = match (&profile.place, &profile.filter[..]) {
            (Some(place), []) => {
                labgrid.place.clone_from(place);
                // A reservation of a place that is not there would wait for ever.
                labgrid.call(None, &["-p", place, "show"], context)?;
                // It is told of those alone that are this user's.
                let ran = labgrid.run(None, &["-p", place, "env"], context)?;
                if ran.success {
                    labgrid.service = service(&ran.output)?;
                    return Ok(labgrid);
                }
                vec![format!("name={place}")]
            }
            (None, filters @ [_, ..]) => filters.to_vec(),
            _ => {
                let error = Error::user("`labgrid` has neither `place` nor `filter`, or both");
                return Err(error.hint("name a place of `labgrid-client places`, or tags such as [\"board=omap\"]"));
            }
        };
        let words: Vec<&str> = ["reserve", "--shell"].into_iter().chain(filters.iter().map(String::as_str)).collect();
        let said = labgrid.call(None, &words, context)?;
        let token = said.trim().strip_prefix("export LG_TOKEN=").map(str::to_owned);
        let token = token.ok_or_else(|| Error::board(format!("`{PROGRAM} reserve` said {:?}", said.trim())))?;
        let reserved = labgrid.take(&token, &filters.join(" "), context);
        if reserved.is_err() && labgrid.guard.is_none() {
            // A reservation that nobody asks for again ends by itself, too.
            let _ = labgrid.run(None, &["cancel-reservation", &token], context);
        }
        reserved.map(|()| labgrid)
    }

    /// Acquires the place of a reservation once it is its turn.
    fn take(&mut self, token: &str, wanted: &str, context: &BoardContext) -> Result<()> {
        let begin = Instant::now();
        self.place = loop {
            if let Some(place) = place_of(&self.call(None, &["reservations"], context)?, token) {
                break place;
            }
            if begin.elapsed() >= WAIT_LIMIT {
                return Err(Error::board(format!("labgrid has had no free place for {wanted} for a day"))
                    .hint("see who has it: labgrid-client who"));
            }
            (context.progress)(&format!("waiting for a place in labgrid: {wanted} (labgrid-client who)"));
            // It tells the coordinator, too, that somebody waits.
            let waited = run(self.command(None, &["wait", token]), None, LOOK, CURE, context);
            context.check()?;
            if let Ok(Ran { success: false, errors, .. }) = waited {
                return Err(Error::board(format!("labgrid gives no place for {wanted}: {}", errors.trim())));
            }
        };
        // Before it is acquired: from then on nobody else would give it back.
        self.guard = Some(Guard::new(&self.coordinator, &self.place, token, &context.progress)?);
        self.call(Some(token), &["-p", "+", "acquire"], context)?;
        self.service = service(&self.call(Some(token), &["-p", "+", "env"], context)?)?;
        Ok(())
    }

    /// Turns the place's power off and on again.
    ///
    /// # Errors
    /// `ErrorKind::Board` if labgrid cannot.
    pub fn power_cycle(&self, context: &BoardContext) -> Result<()> {
        self.call(None, &["-p", &self.place, "power", "cycle"], context).map(drop)
    }

    fn command(&self, token: Option<&str>, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(&self.coordinator).args(words).envs(token.map(|token| ("LG_TOKEN", token)));
        command
    }

    fn run(&self, token: Option<&str>, words: &[&str], context: &BoardContext) -> Result<Ran> {
        run(self.command(token, words), None, LIMIT, CURE, context)
    }

    fn call(&self, token: Option<&str>, words: &[&str], context: &BoardContext) -> Result<String> {
        let ran = self.run(token, words, context)?;
        if ran.success {
            return Ok(ran.output);
        }
        let (line, why) = ([&[PROGRAM], words].concat().join(" "), ran.errors.trim().to_owned());
        Err(Error::board(format!("`{line}` failed: {why}")).hint("try it by hand"))
    }
}

impl Guard {
    fn new(
        coordinator: &[String],
        place: &str,
        token: &str,
        progress: &Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Guard> {
        let client = [&[PROGRAM.to_owned()], coordinator].concat();
        let client = client.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        // The reservation holds the place, too: it ends whether or not the place was acquired.
        let line = format!("cat; {client} -p + release; status=$?; {client} cancel-reservation {token}; exit $status");
        // In a session of its own: what ends this process must not end it.
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", &line]).env("LG_TOKEN", token);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().board(|| "cannot start the process that gives the place back".into())?;
        let by_hand = format!("{PROGRAM} -p {place} release");
        Ok(Guard { child, progress: progress.clone(), by_hand })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if !self.child.wait().is_ok_and(|status| status.success()) {
            (self.progress)(&format!("labgrid's place was not given back; do it by hand: {}", self.by_hand));
        }
    }
}

/// The place that a reservation has got, from what `labgrid-client reservations` says of all.
fn place_of(said: &str, token: &str) -> Option<String> {
    let mut lines = said.lines().skip_while(|line| *line != format!("Reservation '{token}':")).skip(1);
    let of_it: Vec<&str> = lines.by_ref().take_while(|line| line.starts_with(' ')).map(str::trim).collect();
    let at = of_it.iter().position(|line| *line == "allocations:")?;
    of_it.get(at + 1)?.split_once(": ").map(|(_, place)| place.to_owned())
}

/// Where ssh reaches the board, from what `labgrid-client env` says.
fn service(said: &str) -> Result<Option<Service>> {
    let documents = YamlLoader::load_from_str(said).board(|| format!("`{PROGRAM} env` is not YAML"))?;
    let targets = documents.first().and_then(|document| document["targets"].as_hash());
    let resources = targets.into_iter().flatten().filter_map(|(_, target)| target["resources"].as_vec()).flatten();
    let found = resources.map(|resource| &resource["NetworkService"]).find(|service| !service.is_badvalue());
    let text = |service: &Yaml, name: &str| service[name].as_str().map(str::to_owned);
    Ok(found.and_then(|service| {
        let address = text(service, "address")?;
        Some(Service { address, port: service["port"].as_i64(), user: text(service, "username") })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As labgrid 26.0 says it.
    const ENVIRONMENT: &str = "targets:\n  b1:\n    resources:\n    - NetworkPowerPort:\n        host: \
         http://127.0.0.1:28080/{index}\n        index: 1\n        model: rest\n    - NetworkService:\n        port: \
         2222\n        address: 127.0.0.1\n        username: root\n";
    const RESERVATIONS: &str = "Reservation 'WGWBWRRLZA':\n  owner: vm/root\n  token: WGWBWRRLZA\n  state: expired\n  \
         filters:\n    main: name=b1\n  created: 2026-11-26 00:20:22.747971\nReservation 'EJ5QN083U0':\n  owner: \
         vm/bob\n  token: EJ5QN083U0\n  state: allocated\n  filters:\n    main: name=b1\n  allocations:\n    main: b1\n\
         \x20 created: 2026-11-26 00:21:54.292392\n";

    #[test]
    fn what_labgrid_says_of_a_place_is_read() {
        let expected = Service { address: "127.0.0.1".into(), port: Some(2222), user: Some("root".into()) };
        assert_eq!(service(ENVIRONMENT).unwrap(), Some(expected));
        assert_eq!(service("targets: {b1: {resources: []}}").unwrap(), None);
        assert!(service("targets: [").is_err());
        assert_eq!(place_of(RESERVATIONS, "EJ5QN083U0"), Some("b1".into()));
        assert_eq!(place_of(RESERVATIONS, "WGWBWRRLZA"), None);
        assert_eq!(place_of(RESERVATIONS, "ANOTHER"), None);
    }
}
