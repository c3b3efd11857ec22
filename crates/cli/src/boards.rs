//! Opening boards, and the commands on them.

use crate::progress;
use pocketstone_board::{Cache, Console, Profile, ProfileKind, Surroundings, VirtualBoard};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of board profiles: `devices` here, else the one of the sources.
pub fn devices() -> PathBuf {
    let here = PathBuf::from("devices");
    match here.is_dir() {
        true => here,
        false => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices"),
    }
}

/// The user's cache, a progress line, and Ctrl-C.
pub fn surroundings() -> Result<Surroundings> {
    let cancelled = Arc::default();
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second one ends the command at once.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&cancelled))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&cancelled)))
            .board(|| "cannot listen to signals".into())?;
    }
    Ok(Surroundings { cache: Cache::of_user()?, progress: progress::stage_line(), cancelled })
}

fn virtual_board(name: &str) -> Result<VirtualBoard> {
    let profile = Profile::load(&devices(), name)?;
    match &profile.kind {
        ProfileKind::Virtual(machine) => VirtualBoard::open(&profile.name, machine, &surroundings()?),
        ProfileKind::Host(_) => Err(Error::user(format!("{name} is this machine, there is nothing to build or start"))
            .hint("name a virtual board: pocketstone board list")),
    }
}

/// `board list`.
pub fn list() -> Result<u8> {
    for profile in pocketstone_board::list(&devices())? {
        let kind = match profile.kind {
            ProfileKind::Host(_) => "host",
            ProfileKind::Virtual(_) => "virtual",
        };
        say!("{:<12} {kind:<8} {}", profile.name, profile.description);
    }
    Ok(0)
}

/// `board build`.
pub fn build(name: &str) -> Result<u8> {
    let board = virtual_board(name)?;
    progress::clear();
    for (fact, value) in pocketstone_board::Board::facts(&board) {
        say!("{fact}: {value}");
    }
    Ok(0)
}

/// `board exec`.
pub fn exec(name: &str, command: &[String]) -> Result<u8> {
    let (output, status) = virtual_board(name)?.exec(command).map_err(Error::from)?;
    progress::clear();
    let _ = std::io::stdout().write_all(&output);
    Ok(status as u8)
}

/// `board start`.
pub fn start(name: &str) -> Result<u8> {
    let board = virtual_board(name)?;
    progress::clear();
    let begin = std::time::Instant::now();
    board.console(Console::Boot, std::io::empty(), std::io::stdout()).map_err(Error::from)?;
    say!("{name} is ready, {:.1} s after power-on on this host's clock", begin.elapsed().as_secs_f64());
    Ok(0)
}

/// `board shell`.
pub fn shell(name: &str) -> Result<u8> {
    let board = virtual_board(name)?;
    progress::clear();
    eprintln!("a shell on {name}; leave it with `exit`. Nothing done here is kept.");
    let raw = RawTerminal::enter();
    let result = board.console(Console::Shell, std::io::stdin(), std::io::stdout());
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
