//! A board behind a program that runs commands there: ssh, adb, or one that its profile names.

mod adb;
mod client;
mod command;
mod flash;
mod labgrid;
mod ssh;

use crate::cache::digest_of_file;
use crate::here::runner_beside_command;
use crate::orders::{OUR_FOLDERS, introduced, introduction, our_files, put, read_response};
use crate::profile::{AdbProfile, CommandProfile, Place, SshProfile};
use crate::scratch::{remove_left_temporary, temporary_folder};
use crate::transport::{Offer, Transport, Undisturbed, of_a_real_machine, refuse_preload};
use crate::wire::Connection;
use crate::{BoardContext, Cache, Failed, qemu};
use client::{Client, ask, cured, pause, quoted};
use pocketstone_core::board::{BoardDescription, MOUNT_FOLDER, OWN_MOUNTS, Places};
use pocketstone_core::bytes::hexadecimal;
use pocketstone_core::error::Context;
use pocketstone_core::frame::{BEAT, SILENCE};
use pocketstone_core::outcome::{Facts, Response};
use pocketstone_core::volume::{Medium, Volume};
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_probe::settings::JOURNALS;
use pocketstone_workload::plan::{Order, Plan, Request, Step};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a board may take to start.
const START_LIMIT: Duration = Duration::from_secs(180);
/// How long a lab that was cut off waits for who measures on its board meanwhile: for a long cell.
const CELL_LIMIT: Duration = Duration::from_secs(1800);

/// What a board's shell says where nothing can be made beside the runner's folder.
const NOT_BESIDE: &str = "not-beside";

/// The way to a board.
pub struct Remote {
    name: String,
    client: Box<dyn Client>,
    /// Its folder for the runner and its files.
    folder: String,
    place: Place,
    context: BoardContext,
    /// The runner's path there.
    runner: String,
    /// The folder there for what runners note to put back.
    notes: String,
    connection: Mutex<Kept>,
}

/// The connection that the next order takes.
#[derive(Default)]
struct Kept {
    open: Option<Connection>,
    /// The last one was lost: its runner may be there yet.
    lost: bool,
    /// The serial number of the board that has answered first, if it has one.
    serial: Option<String>,
    /// Nobody else is to measure on the board, whatever becomes of the connection.
    alone: bool,
}

impl Kept {
    /// Refuses another board than that which has answered before: what it measures would be taken for the first one's.
    fn known(&mut self, connection: Connection, client: &dyn Client) -> Result<Connection, Failed> {
        match (&self.serial, connection.serial()) {
            (Some(first), Some(now)) if first != now => {
                let error = format!("another board answers at {} now: its serial number is {now}", client.board());
                Err(Error::board(format!("{error}, not {first}"))
                    .hint(
                        "connect the first one, or begin a new run for the other one; a board whose number is its \
                         /etc/machine-id must keep that when it boots",
                    )
                    .into())
            }
            (None, Some(now)) => {
                self.serial = Some(now.to_owned());
                Ok(connection)
            }
            _ => Ok(connection),
        }
    }
}

impl Remote {
    /// A Linux board that ssh reaches.
    ///
    /// # Errors
    /// As [`Remote::open`].
    pub fn by_ssh(name: &str, profile: &SshProfile, context: &BoardContext) -> Result<Remote> {
        Remote::open(name, Box::new(ssh::Ssh::new(name, profile, context)?), profile.place(), context)
    }

    /// An Android phone that adb reaches.
    ///
    /// # Errors
    /// As [`Remote::open`].
    pub fn by_adb(name: &str, profile: &AdbProfile, context: &BoardContext) -> Result<Remote> {
        Remote::open(name, Box::new(adb::Adb::new(name, profile)?), profile.place(), context)
    }

    /// A machine, or a part of one, that a command reaches.
    ///
    /// # Errors
    /// As [`Remote::open`].
    pub fn by_command(name: &str, profile: &CommandProfile, context: &BoardContext) -> Result<Remote> {
        Remote::open(name, Box::new(command::Words::new(name, profile)?), profile.place(), context)
    }

    /// The way to a board: puts the runner there, if it is not there yet.
    ///
    /// # Errors
    /// `ErrorKind::User` for a profile that cannot be; `ErrorKind::Board` if the board cannot be reached, or the runner
    /// cannot run there.
    fn open(name: &str, client: Box<dyn Client>, place: Place, context: &BoardContext) -> Result<Remote> {
        remove_left_temporary();
        let folder = place.folder.clone().unwrap_or_else(|| client.folder().to_owned());
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
        if !folder.starts_with('/') || !folder.chars().all(plain) {
            return Err(Error::user(format!("`folder` of {name} is {folder:?}"))
                .hint("name a folder on the board from its root, of letters, digits and ./_-+@ only"));
        }
        let mut remote = Remote {
            name: name.to_owned(),
            client,
            folder,
            place,
            context: context.clone(),
            runner: String::new(),
            notes: String::new(),
            connection: Mutex::default(),
        };
        remote.runner = remote.put_runner()?;
        remote.notes = remote.notes()?;
        Ok(remote)
    }

    /// Where runners note what is to be put back: beside the runner's folder, which may be another one the next time.
    /// What a dead runner has left is found then, also after a reboot. Where its user may have that one folder alone,
    /// it is in there.
    fn notes(&self) -> Result<String> {
        let beside = Path::new(&self.folder).parent().unwrap_or(Path::new("/")).display().to_string();
        // Who becomes another user may write there.
        if !self.place.r#become.is_empty() {
            return Ok(beside);
        }
        let asked =
            format!("test -w {beside} || ls -d {beside}/{JOURNALS}-$(id -u) >/dev/null 2>&1 || echo {NOT_BESIDE}");
        let said = self.ask(&asked, None)?;
        Ok(if last_line(&said) == NOT_BESIDE { self.folder.clone() } else { beside })
    }

    /// Runs a line in the board's shell; its output.
    fn ask(&self, line: &str, input: Option<File>) -> Result<String> {
        Ok(ask(&*self.client, line, input, &self.context)?)
    }

    /// Puts a runner on the board that runs there; its path.
    fn put_runner(&self) -> Result<String> {
        (self.context.progress)(&format!("connecting to {}", self.client.board()));
        self.client.prepare(&self.context)?;
        let said = self.ask("uname -m", None)?;
        let machine = last_line(&said);
        // The one beside this command saves a compilation, where it runs.
        let beside = match machine == std::env::consts::ARCH {
            true => self.put_dynamic(&runner_beside_command()?)?,
            false => None,
        };
        let (path, version) = match beside {
            Some(put) => put,
            None => {
                let path = self.push(&qemu::static_runner(machine, &self.context)?)?;
                let version = self.runs(&path)?;
                (path, version)
            }
        };
        self.becomes(&path, &version).map(|()| path)
    }

    /// Puts a runner on the board that needs libraries there; its path and version. `None`: it lacks them, which a file
    /// there says from then on, so that it is not copied again.
    fn put_dynamic(&self, program: &Path) -> Result<Option<(String, String)>> {
        let lacks = format!("{}/not-{}", self.folder, digest_of_file(program)?);
        if last_line(&self.ask(&format!("ls {lacks} 2>/dev/null || true"), None)?) == lacks {
            return Ok(None);
        }
        let path = self.push(program)?;
        match self.runs(&path) {
            Ok(version) => Ok(Some((path, version))),
            Err(failed) if failed.lost || failed.error.kind() == ErrorKind::Interrupted => Err(failed.into()),
            // A shell says with 126 that it has found a program that it may not run: no other one would be, either.
            Err(failed) if self.ask(&format!("{path} version >/dev/null 2>&1; test $? = 126"), None).is_ok() => {
                Err(failed.into())
            }
            Err(_) => {
                self.ask(&format!("rm -f {}/not-*; : > {lacks}", self.folder), None)?;
                Ok(None)
            }
        }
    }

    /// Refuses what has not run the program that it is to give more rights, but a shell, which would obey what is sent
    /// to the runner. What cannot run at all says why by itself later.
    fn becomes(&self, path: &str, version: &str) -> Result<()> {
        let words = self.r#become();
        if words.is_empty() {
            return Ok(());
        }
        match self.ask(&format!("{words} {path} version </dev/null"), None) {
            // A shell may say something before, and not always the same: the last line counts.
            Ok(said) if last_line(&said) != last_line(version) => {
                let board = self.client.board();
                let error = Error::board(format!("`{words}` does not run the program that follows it on {board}"));
                Err(error.hint(
                    "set `become` in its profile: of phones with Magisk or KernelSU [\"su\", \"-c\"], with AOSP's su \
                     [\"su\", \"0\"]",
                ))
            }
            _ => Ok(()),
        }
    }

    /// What the runner is started with to have more rights, as a shell takes it.
    fn r#become(&self) -> String {
        let words: Vec<String> = self.place.r#become.iter().map(|word| quoted(word)).collect();
        words.join(" ")
    }

    /// What it says of its version.
    fn runs(&self, path: &str) -> Result<String, Failed> {
        let folder = &self.folder;
        ask(&*self.client, &format!("{path} version"), None, &self.context).map_err(|failed| {
            if failed.error.kind() == ErrorKind::Interrupted {
                return failed;
            }
            let cure = || "the folder's file system may be mounted noexec: set `folder` in its profile".into();
            let error = Error::board(format!("the runner does not run in {folder} on {}", self.client.board()));
            Failed { error: error.because(cured(failed.error, cure)), ..failed }
        })
    }

    /// Puts a program on the board, by its digest, unless it is there.
    fn push(&self, program: &Path) -> Result<String> {
        let bytes = fs::read(program).board(|| format!("cannot read {}", program.display()))?;
        let digest = hexadecimal(&Sha256::digest(&bytes));
        let folder = &self.folder;
        let path = format!("{folder}/runner-{digest}");
        // It is obeyed by whoever runs it: nobody else may have put it there, nor be able to.
        let line = format!(
            "umask 077; mkdir -p {folder} && test -O {folder} && \
             case \"$(ls -ld {folder})\" in d????-??-*) ;; *) echo 'others may write to it' >&2; exit 1;; esac && \
             case \"$(sha256sum < {path} 2>/dev/null)\" in {digest}*) echo there;; esac"
        );
        let there = self.ask(&line, None).map_err(|e| {
            cured(e, || {
                format!(
                    "{folder} must be a folder of the user that logs in, which nobody else may write to; set `folder` \
                     in the board's profile"
                )
            })
        })?;
        if there.lines().last() != Some("there") {
            (self.context.progress)(&format!("copying the runner to {}", self.client.board()));
            let line = format!(
                "cat > {path}.$$; case \"$(sha256sum < {path}.$$)\" in {digest}*) chmod 700 {path}.$$ && \
                 mv {path}.$$ {path};; *) rm -f {path}.$$; exit 1;; esac"
            );
            let copy = || -> Result<String, Failed> {
                let input = File::open(program).board(|| format!("cannot read {}", program.display()))?;
                ask(&*self.client, &line, input.into(), &self.context)
            };
            let copied = match copy() {
                // Another one that is not needed any more may have taken the room.
                Err(failed) if !failed.lost && failed.error.kind() == ErrorKind::Board => {
                    self.make_room().map_err(Failed::from).and_then(|()| copy())
                }
                copied => copied,
            };
            copied.map_err(|failed| {
                let mb = (bytes.len() >> 20) + 1;
                cured(failed.into(), || {
                    format!("{folder} on the board must be writable and have {mb} MB left; set `folder` in its profile")
                })
            })?;
        }
        Ok(path)
    }

    /// Removes all runners but those that run, or are being copied by a shell whose number is behind a point.
    fn make_room(&self) -> Result<()> {
        let line = format!(
            "used=$(ls -l /proc/[0-9]*/exe 2>/dev/null); for old in {}/runner-*; do case \"$used\" in *\"$old\"*) ;; \
             *) test -d \"/proc/${{old##*.}}\" || rm -f \"$old\";; esac; done",
            self.folder
        );
        self.ask(&line, None).map(drop)
    }

    /// Waits until the board answers that was turned on, at most as long as a start takes.
    fn await_start(&self) -> Result<()> {
        let begin = Instant::now();
        pause(BEAT, &self.context)?;
        while begin.elapsed() < START_LIMIT && self.ask("true", None).is_err() {
            pause(BEAT, &self.context)?;
        }
        Ok(())
    }

    /// Has a runner serve, which waits for the end of another one for so long.
    fn connect(&self, patience: Duration, context: &BoardContext) -> Result<Connection, Failed> {
        if patience > Duration::ZERO {
            // It is a board that was there, so what does not answer now is the way to it. A reboot may have emptied its
            // folder.
            let gone = |error: Error| Failed { lost: error.kind() == ErrorKind::Board, ..error.into() };
            self.put_runner().map_err(gone)?;
        }
        let own_mounts = if self.place.flash.is_some() { OWN_MOUNTS } else { "" };
        let serve = format!(
            "env TMPDIR={} {} serve {} {} {own_mounts}",
            self.notes,
            self.runner,
            self.folder,
            patience.as_secs()
        );
        let line = format!("exec {} {serve}", self.r#become());
        Connection::open(self.client.command(&line), &self.client.by_hand(), context)
    }

    /// Carries out an order that needs nothing beside it, and reads the reply.
    fn simple(&self, order: Order, context: &BoardContext) -> Result<Response, Failed> {
        let folder = self.folder()?;
        put(Request { board: self.describe(), order }, folder.path(), self.cache())?;
        self.carry_out_as(folder.path(), context)?;
        Ok(read_response(folder.path())?)
    }

    /// Carries out the order in a folder.
    fn carry_out_as(&self, folder: &Path, context: &BoardContext) -> Result<(), Failed> {
        self.by_connection(context, |connection| connection.order(folder, context))
    }

    /// Does something by the open connection or a new one, once nobody else measures on the board if that is to be.
    fn by_connection(
        &self,
        context: &BoardContext,
        act: impl FnOnce(&mut Connection) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        context.check()?;
        let mut kept = self.kept();
        // The runner of a connection that was cut takes this lab for gone soon; who measures on that machine by then
        // has a cell's time.
        let patience = if kept.lost { CELL_LIMIT } else { Duration::ZERO };
        let connection = match kept.open.take() {
            Some(connection) => Ok(connection),
            None => self.connect(patience, context).and_then(|connection| kept.known(connection, &*self.client)),
        };
        let done = connection.and_then(|mut connection| {
            if kept.alone {
                connection.take(context)?;
            }
            act(&mut connection).map(|()| connection)
        });
        // Whatever went wrong, nobody knows what the other side still says of it.
        kept.lost = done.as_ref().is_err_and(|failed| failed.lost);
        kept.open = Some(done?);
        Ok(())
    }

    /// Lets others measure on the board again. A connection over which that cannot be said is ended, which says it.
    fn release(&self) {
        let mut kept = self.kept();
        kept.alone = false;
        let open = kept.open.take();
        kept.open = open.and_then(|mut connection| connection.release(&self.context).ok().map(|()| connection));
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a command has said; the shell may have said something before.
fn last_line(said: &str) -> &str {
    said.trim_end().lines().last().unwrap_or_default().trim()
}

impl Transport for Remote {
    fn describe(&self) -> BoardDescription {
        let allowed = self.place.flash.as_ref().filter(|flash| flash.may_be_erased());
        let mount_point = Path::new(&self.folder).join(MOUNT_FOLDER);
        let mtd_name = allowed.map(|flash| flash.partition.clone());
        let places = Places { mtd_name, mount_point, notes: self.folder.clone().into(), ..Places::default() };
        BoardDescription { capabilities: of_a_real_machine(), places, settings: self.place.settings.clone() }
    }

    fn facts(&self) -> Result<Facts, Failed> {
        let mut facts = introduced(self.simple(introduction(Path::new(&self.folder).join("empty")), &self.context)?)?;
        let beat = BEAT.as_secs().to_string();
        let own = [("board.name", &*self.name), ("board.host", self.client.board()), ("board.heartbeat_s", &beat)];
        facts.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let kept = self.kept();
        let serial = kept.open.as_ref().and_then(Connection::serial);
        facts.extend(serial.map(|serial| ("board.serial".to_owned(), serial.to_owned())));
        drop(kept);
        facts.extend(self.client.facts(&self.context)?);
        Ok(facts)
    }

    fn offers(&self, volume: &Volume) -> Result<Offer> {
        refuse_preload(volume)?;
        match volume.medium {
            Medium::Directory => Ok(Offer::Sure),
            _ if volume.volatile() => Ok(Offer::Try),
            _ if volume.on_raw_nand() => flash::check(self.place.flash.as_ref(), volume).map(|()| Offer::Try),
            _ => Err(Error::board(format!("{} is not measured on boards of kind ssh, adb or command", volume.name()))
                .hint("mount it on the board and name its folder in the profile: directory = \"/mnt/flash\"")),
        }
    }

    fn cache(&self) -> &Cache {
        &self.context.cache
    }

    fn folder(&self) -> Result<TempDir> {
        temporary_folder()
    }

    fn carry_out(&self, _after: &[Step], folder: &Path) -> Result<(), Failed> {
        self.carry_out_as(folder, &self.context)
    }

    fn alone(&self) -> Result<Undisturbed<'_>> {
        self.kept().alone = true;
        let undisturbed = Undisturbed::until(|| self.release());
        match self.by_connection(&self.context, |_| Ok(())) {
            Err(failed) if !failed.lost => Err(failed.into()),
            _ => Ok(undisturbed),
        }
    }

    fn await_fitness(&self) -> Result<(), Failed> {
        self.client.await_fitness(&self.context)
    }

    fn conditions(&self) -> Facts {
        // What a board says beside its results is worth no result.
        self.client.conditions(&self.context).unwrap_or_default()
    }

    fn resolve(&self, volume: &Volume) -> Result<Volume> {
        if volume.medium != Medium::Directory {
            return Ok(volume.clone());
        }
        let usual = || Path::new(&self.folder).join("volume");
        let named = volume.directory.clone().or_else(|| self.place.directory.clone());
        Ok(Volume { directory: Some(named.unwrap_or_else(usual)), ..volume.clone() })
    }

    fn lost(&self, attempt: u32, error: &Error) -> Result<()> {
        let say = |what: &str| (self.context.progress)(&format!("{} {what}", self.name));
        say(&format!("was lost ({attempt}): {}; trying again", error.message()));
        if attempt == 1 {
            return pause(BEAT, &self.context);
        }
        match self.client.power_cycle(&self.context) {
            // A board that restarts is not there at once.
            Ok(false) => pause(SILENCE, &self.context),
            Ok(true) => {
                say("was turned off and on again");
                self.await_start()
            }
            Err(error) => {
                self.context.check()?;
                // What became of the cell is said anyway.
                say(&format!("could not be turned off and on again: {}", error.message()));
                pause(SILENCE, &self.context)
            }
        }
    }

    fn clean(&self, plan: &Plan) {
        let Some(directory) = &plan.volume.directory else { return };
        let mut kept = self.kept();
        if kept.lost {
            // The next cell's preparation does it, should the board come back.
            return;
        }
        // By a new connection it is done at once: whoever interrupts a cell does not wait for those of others.
        kept.alone &= kept.open.is_some();
        drop(kept);
        // Not as the run is: what the user interrupts leaves nothing, either.
        let context = BoardContext { cancelled: Arc::default(), wakes: None, ..self.context.clone() };
        let paths = |names: &[&str]| -> String {
            names.iter().map(|name| quoted(&directory.join(name).to_string_lossy()) + " ").collect()
        };
        let line = format!("rm -f -- {}; rm -rf -- {}", paths(our_files(plan)), paths(&OUR_FOLDERS));
        // The next cell's preparation would do it as well.
        let _ = self.simple(Order::Exec { argv: vec!["sh".into(), "-c".into(), line] }, &context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_says_before_a_program_does_is_not_the_programs() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("program"), "date +%N\necho pocketstone-runner 1\n").unwrap();
        let program = format!("sh {}/program", home.path().display());
        let context = BoardContext::uninterrupted(Cache::at(home.path()).unwrap(), "/nowhere".into(), Arc::new(|_| {}));
        let becomes = |word: &str| {
            let text = format!("kind = \"command\"\ncommand = []\nbecome = [\"{word}\"]\n");
            let profile: CommandProfile = toml::from_str(&text).unwrap();
            let remote = Remote {
                name: "here".into(),
                client: Box::new(command::Words::new("here", &profile).unwrap()),
                folder: "/nowhere".into(),
                place: profile.place(),
                context: context.clone(),
                runner: String::new(),
                notes: String::new(),
                connection: Mutex::default(),
            };
            let version = remote.runs(&program).unwrap();
            remote.becomes(&program, &version)
        };
        becomes("env").unwrap();
        assert!(becomes("echo").unwrap_err().cure().is_some_and(|cure| cure.contains("`become`")));
    }
}
