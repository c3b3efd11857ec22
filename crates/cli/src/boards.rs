//! Opening boards, and the commands on them.

use crate::progress;
use pocketstone_board::{Board, BoardContext, Cache, Console, Profile};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_engine::installed;
use pocketstone_study::Study;
use pocketstone_study::models::replay::REFERENCE;
use pocketstone_study::results::store::Store;
use pocketstone_study::run::{Observer, Sources};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

/// The folder of board profiles: `devices` here, else the one that came with the command.
///
/// # Errors
/// `ErrorKind::Board` if there is none.
pub fn devices() -> Result<PathBuf> {
    let here = PathBuf::from("devices");
    match here.is_dir() {
        true => Ok(here),
        false => installed::data("devices"),
    }
}

/// Brings a run's models up to date, with the profiles of [`devices`] and the published tables that the user names.
pub fn replay(study: &Study, store: &mut Store, context: &BoardContext, observer: &mut dyn Observer) -> Result<()> {
    let tables = std::env::var_os(REFERENCE).map(PathBuf::from);
    let sources = Sources { devices: &devices()?, tables: tables.as_deref() };
    pocketstone_study::run::replay(study, sources, store, context, observer)
}

/// The user's cache, a progress line, and Ctrl-C.
pub fn context() -> Result<BoardContext> {
    let failed = || "cannot handle signals".to_owned();
    let cancelled = Arc::default();
    let (wakes, wake) = UnixStream::pair().board(failed)?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second one ends the command at once. Who is woken finds the flag set: they are done in this order.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&cancelled))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&cancelled)))
            .and_then(|_| signal_hook::low_level::pipe::register(signal, wake.try_clone()?))
            .board(failed)?;
    }
    let wakes = Some(Arc::new(wakes.into()));
    Ok(BoardContext {
        cache: Cache::of_user()?,
        devices: devices()?,
        progress: progress::stage_line(),
        cancelled,
        wakes,
    })
}

/// How many cells this machine can run at once.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Where it is kept what cells have cost on this machine; `None` where nothing can be kept.
pub fn costs_file(cache: &Cache) -> Option<PathBuf> {
    Some(cache.folder("costs").ok()?.join("cells.json"))
}

/// The folder of the user's own boards: `pocketstone/boards` in `$XDG_CONFIG_HOME` or `~/.config`; `None` without a
/// home.
pub fn own_boards() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let config = variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")));
    config.map(|config| config.join("pocketstone/boards"))
}

/// The profile of a board: a file's path, a name in [`devices`], or one in [`own_boards`].
///
/// # Errors
/// As [`Profile::load`].
pub fn profile(name: &str) -> Result<Profile> {
    let own = own_boards().map(|folder| folder.join(format!("{name}.toml")));
    let devices = devices()?;
    match own.filter(|own| own.is_file() && !devices.join(format!("{name}.toml")).exists()) {
        Some(own) => Profile::load(&devices, &own.to_string_lossy()),
        None => Profile::load(&devices, name),
    }
}

fn open(name: &str) -> Result<Board> {
    pocketstone_board::open(&profile(name)?, false, &context()?)
}

/// `board list`.
pub fn list() -> Result<u8> {
    let own =
        own_boards().filter(|folder| folder.is_dir()).map(|folder| pocketstone_board::list(&folder)).transpose()?;
    let all: Vec<_> = pocketstone_board::list(&devices()?)?.into_iter().chain(own.unwrap_or_default()).collect();
    let width = all.iter().flatten().map(|profile| profile.name.chars().count()).max().unwrap_or(0);
    for profile in all {
        match profile {
            Ok(profile) => say!("{:<width$} {:<8} {}", profile.name, profile.way(), profile.description),
            Err(error) => pocketstone_cli::explain("warning", &error),
        }
    }
    Ok(0)
}

/// `board build`.
pub fn build(name: &str) -> Result<u8> {
    let board = open(name)?;
    progress::clear();
    for (fact, value) in board.facts() {
        say!("{fact}: {value}");
    }
    for (what, ability) in board.capabilities().abilities() {
        say!("{what}: {ability}");
    }
    Ok(0)
}

/// `board exec`.
pub fn exec(name: &str, command: &[String]) -> Result<u8> {
    let (output, status) = open(name)?.exec(command).map_err(Error::from)?;
    progress::clear();
    pocketstone_cli::written(std::io::stdout().write_all(&output));
    Ok(status as u8)
}

/// `board start`.
pub fn start(name: &str) -> Result<u8> {
    let board = open(name)?;
    progress::clear();
    let begin = std::time::Instant::now();
    board.console(Console::Boot, Box::new(std::io::empty()), Box::new(std::io::stdout())).map_err(Error::from)?;
    say!("{name} is ready, {:.1} s after power-on on this host's clock", begin.elapsed().as_secs_f64());
    Ok(0)
}

/// `board shell`.
pub fn shell(name: &str) -> Result<u8> {
    let board = open(name)?;
    progress::clear();
    pocketstone_cli::tell(&format!("a shell on {name}; leave it with `exit`. Changes are discarded."));
    let raw = RawTerminal::enter();
    let result = board.console(Console::Shell, Box::new(std::io::stdin()), Box::new(std::io::stdout()));
    drop(raw);
    result.map_err(Error::from)?;
    Ok(0)
}

/// The terminal handing every key to the board, until this is dropped.
struct RawTerminal(Option<rustix::termios::Termios>);

impl RawTerminal {
    fn enter() -> Self {
        let terminal = rustix::stdio::stdin();
        let before = rustix::termios::tcgetattr(terminal).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.make_raw();
            let _ = rustix::termios::tcsetattr(terminal, rustix::termios::OptionalActions::Now, &raw);
        }
        RawTerminal(before)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let now = rustix::termios::OptionalActions::Now;
            let _ = rustix::termios::tcsetattr(rustix::stdio::stdin(), now, before);
        }
    }
}
