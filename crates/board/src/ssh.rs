//! A Linux board that ssh reaches.

use crate::here::runner_beside_command;
use crate::orders::{OURS, introduced, introduction, put, read_response};
use crate::profile::SshProfile;
use crate::transport::{Offer, Transport};
use crate::wire::Connection;
use crate::{BoardContext, Cache, Failed, qemu};
use pocketstone_core::board::{Ability, Board as Description, Capabilities, Places};
use pocketstone_core::error::Context;
use pocketstone_core::frame::{BEAT, SILENCE};
use pocketstone_core::outcome::{Facts, Response};
use pocketstone_core::volume::{Medium, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_workload::plan::{Order, Plan, Request, Step};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

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

/// The way to a board.
pub struct Ssh {
    name: String,
    profile: SshProfile,
    context: BoardContext,
    /// The runner's path there.
    runner: String,
    connection: Mutex<Kept>,
}

/// The connection that the next order takes.
#[derive(Default)]
struct Kept {
    open: Option<Connection>,
    /// The last one was lost: its runner may be there yet.
    lost: bool,
}

impl Ssh {
    /// The way to a board: puts the runner there, if it is not there yet.
    ///
    /// # Errors
    /// `ErrorKind::User` for a profile that cannot be; `ErrorKind::Board` if the board cannot be reached, or the runner
    /// cannot run there.
    pub fn open(name: &str, profile: &SshProfile, context: &BoardContext) -> Result<Ssh> {
        let folder = &profile.folder;
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
        if !folder.starts_with('/') || !folder.chars().all(plain) {
            return Err(Error::user(format!("`folder` of {name} is {folder:?}"))
                .hint("name a folder on the board from its root, of letters, digits and ./_-+@ only"));
        }
        if profile.host.starts_with('-') {
            let error = Error::user(format!("`host` of {name} is {:?}", profile.host));
            return Err(error.hint("name a host as ssh_config(5) knows it; options of ssh go into `options`"));
        }
        let mut ssh = Ssh {
            name: name.to_owned(),
            profile: profile.clone(),
            context: context.clone(),
            runner: String::new(),
            connection: Mutex::default(),
        };
        ssh.runner = ssh.place()?;
        Ok(ssh)
    }

    /// A command on the board; `line` is for its shell.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("ssh");
        command.args(OPTIONS).args(&self.profile.options).arg(&self.profile.host).arg(line);
        command
    }

    /// Runs a command on the board; its output.
    fn ask(&self, line: &str, input: Stdio) -> Result<String> {
        let output = self.command(line).stdin(input).output();
        let output =
            output.board(|| "cannot start ssh".into()).map_err(|e| e.hint("apt-get install openssh-client"))?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        match (output.status.success(), output.status.code()) {
            (true, _) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            // What ssh itself fails with.
            (false, Some(255)) => Err(Error::board(format!("cannot reach {}: {said}", self.profile.host))
                .hint(format!("try it by hand: ssh {} true", self.profile.host))),
            (false, _) => Err(Error::board(format!("a command on {} failed: {said}", self.profile.host))),
        }
    }

    /// Puts a runner on the board that runs there; its path.
    fn place(&self) -> Result<String> {
        (self.context.progress)(&format!("connecting to {}", self.profile.host));
        // A shell may say something before: the last line counts.
        let said = self.ask("uname -m", Stdio::null())?;
        let machine = said.lines().last().unwrap_or_default().trim().to_owned();
        // The one beside this command saves a compilation, where it runs.
        if machine == std::env::consts::ARCH {
            let path = self.push(&runner_beside_command()?)?;
            if self.runs(&path).is_ok() {
                return Ok(path);
            }
        }
        let path = self.push(&qemu::static_runner(&machine, &self.context.cache, &self.context)?)?;
        self.runs(&path).map(|()| path)
    }

    fn runs(&self, path: &str) -> Result<()> {
        let folder = &self.profile.folder;
        self.ask(&format!("{path} version"), Stdio::null()).map(drop).map_err(|e| {
            Error::board(format!("the runner does not run in {folder} on {}", self.profile.host))
                .because(e)
                .hint("the folder's file system may be mounted noexec: set `folder` in the board's profile")
        })
    }

    /// Puts a program on the board, by its digest, unless it is there.
    fn push(&self, program: &Path) -> Result<String> {
        let bytes = fs::read(program).board(|| format!("cannot read {}", program.display()))?;
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let folder = &self.profile.folder;
        let path = format!("{folder}/runner-{digest}");
        // It is obeyed by whoever runs it: nobody else may have put it there, nor be able to.
        let line = format!(
            "umask 077; mkdir -p {folder} && test -O {folder} && \
             case \"$(ls -ld {folder})\" in d????-??-*) ;; *) echo 'others may write to it' >&2; exit 1;; esac && \
             if echo '{digest}  {path}' | sha256sum -c > /dev/null 2>&1; then echo there; fi"
        );
        let there = self.ask(&line, Stdio::null()).map_err(|e| {
            e.hint(format!(
                "{folder} must be a folder of the user that logs in, which nobody else may write to; set `folder` in \
                 the board's profile"
            ))
        })?;
        if there.lines().last() != Some("there") {
            (self.context.progress)(&format!("copying the runner to {}", self.profile.host));
            let line = format!(
                "cat > {path}.$$ && echo \"{digest}  {path}.$$\" | sha256sum -c > /dev/null && chmod 700 {path}.$$ && \
                 mv {path}.$$ {path} || {{ rm -f {path}.$$; exit 1; }}"
            );
            let input = File::open(program).board(|| format!("cannot read {}", program.display()))?;
            self.ask(&line, input.into()).map_err(|e| {
                e.hint(format!(
                    "{folder} on the board must be writable and have {} MB left; set `folder` in its profile",
                    (bytes.len() >> 20) + 1
                ))
            })?;
        }
        Ok(path)
    }

    /// Has a runner serve, which waits for the end of another one for so long.
    fn connect(&self, patience: Duration) -> Result<Connection, Failed> {
        let words: Vec<String> = self.profile.r#become.iter().map(|word| quoted(word)).collect();
        let serve = format!("{} serve {} {}", self.runner, self.profile.folder, patience.as_secs());
        let line = format!("exec {} {serve}", words.join(" "));
        Connection::open(self.command(&line), &self.context)
    }

    /// Carries out an order that needs nothing beside it, and reads the reply.
    fn simple(&self, order: Order) -> Result<Response> {
        let folder = self.folder()?;
        put(&Request { board: self.describe(), order }, folder.path(), self.cache())?;
        self.carry_out(&[], folder.path()).map_err(Error::from)?;
        read_response(folder.path())
    }
}

impl Transport for Ssh {
    fn describe(&self) -> Description {
        let capabilities = Capabilities {
            disposable: false,
            deterministic: false,
            // Two cells at once would measure each other.
            parallel: 1,
            flash_counters: Ability::Unknown,
            tracing: Ability::Unknown,
            power_meters: Ability::Unknown,
            processor_counters: Ability::Unknown,
        };
        Description { capabilities, places: Places::default() }
    }

    fn facts(&self) -> Result<Facts> {
        let mut facts = introduced(self.simple(introduction(Path::new(&self.profile.folder).join("empty")))?)?;
        let beat = BEAT.as_secs().to_string();
        let own = [("board.name", &self.name), ("board.host", &self.profile.host), ("board.heartbeat_s", &beat)];
        facts.extend(own.map(|(name, value)| (name.to_owned(), value.clone())));
        Ok(facts)
    }

    fn offers(&self, volume: &Volume) -> Result<Offer> {
        match volume.medium {
            Medium::Directory => Ok(Offer::Sure),
            _ if volume.volatile() => Ok(Offer::Try),
            _ => Err(Error::board(format!("{} is not measured on boards that ssh reaches", volume.name()))
                .hint("mount it on the board and name its folder in the profile: directory = \"/mnt/flash\"")),
        }
    }

    fn cache(&self) -> &Cache {
        &self.context.cache
    }

    fn folder(&self) -> Result<TempDir> {
        tempfile::tempdir().board(|| "cannot create a temporary folder".into())
    }

    fn carry_out(&self, _after: &[Step], folder: &Path) -> Result<(), Failed> {
        self.context.check()?;
        let mut kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        // The runner of a connection that was cut takes this lab for gone by then.
        let patience = if kept.lost { SILENCE + BEAT } else { Duration::ZERO };
        let done = match kept.open.take() {
            Some(connection) => Ok(connection),
            None => self.connect(patience),
        }
        .and_then(|mut connection| connection.order(folder, &self.context).map(|()| connection));
        // Whatever went wrong, nobody knows what the other side still says of it.
        kept.lost = done.as_ref().is_err_and(|failed| failed.lost);
        kept.open = Some(done?);
        Ok(())
    }

    fn resolve(&self, volume: &Volume) -> Result<Volume> {
        if volume.medium != Medium::Directory {
            return Ok(volume.clone());
        }
        let usual = || Path::new(&self.profile.folder).join("volume");
        let named = volume.directory.clone().or_else(|| self.profile.directory.clone());
        Ok(Volume { directory: Some(named.unwrap_or_else(usual)), ..volume.clone() })
    }

    fn lost(&self, attempt: u32, error: &Error) {
        (self.context.progress)(&format!("{} was lost ({attempt}): {}; trying again", self.name, error.message()));
        // A board that restarts is not there at once; a user who wants to stop does not wait for it.
        let (begin, wait) = (Instant::now(), if attempt == 1 { BEAT } else { SILENCE });
        while begin.elapsed() < wait && self.context.check().is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn clean(&self, plan: &Plan) {
        let Some(directory) = &plan.volume.directory else { return };
        let ours = OURS.map(|name| directory.join(name));
        let argv = ["rm", "-rf", "--"].into_iter().map(PathBuf::from).chain(ours);
        let argv = argv.map(|word| word.to_string_lossy().into_owned()).collect();
        // The next cell's preparation would do it as well.
        let _ = self.simple(Order::Exec { argv });
    }
}

/// A word as the board's shell takes it as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
