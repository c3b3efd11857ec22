//! Boards: machines that execute plans. A [`Board`] uses a [`transport`]: to this machine, to one in
//! QEMU, or to one that ssh, adb or another command reaches.

mod board;
mod cache;
mod child;
mod compiled;
mod context;
mod copies;
pub mod exchange;
mod here;
mod measured;
mod members;
mod modelled;
mod orders;
mod power;
mod profile;
mod qemu;
mod remote;
mod scratch;
mod squashfs;
pub mod transport;
mod wire;

pub use board::{Board, COMPARABLE, SAME_MACHINE};
pub use cache::{Cache, digest_of_file};
pub use compiled::{Compiled, compiler_for};
pub use context::BoardContext;
pub use measured::{Console, Failed, Measured, answer};
pub use members::another_kind;
pub use orders::{TRACES, archive_file, trace_file};
pub use power::{BlockRecorded, Record, Recorded};
pub use profile::{
    AdbProfile, Architecture, Erase, FlashProfile, HOST, HostProfile, KINDS, Kind, LabgridProfile, NandProfile,
    Profile, ProfileKind, SshProfile, VirtualProfile, list,
};
pub use qemu::{architectures as runner_architectures, runner_compiler, static_runner};
pub use scratch::temporary_folder;

use here::Here;
use pocketstone_core::{Error, Result};
use qemu::Qemu;
use remote::Remote;
use transport::Transport;

/// Opens the board of a profile. With `cold`, every state is recreated from a boot.
///
/// # Errors
/// `ErrorKind::Board` if the machine lacks something that the board requires; the hint says how to get it.
pub fn open(profile: &Profile, cold: bool, context: &BoardContext) -> Result<Board> {
    let transports = match &profile.kind {
        ProfileKind::Pool(boards) => boards.iter().map(|board| transport(board, cold, context)).collect(),
        _ => transport(profile, cold, context).map(|transport| vec![transport]),
    };
    Board::new(&profile.name, transports?, context)
}

/// The way to the one machine of a profile.
fn transport(profile: &Profile, cold: bool, context: &BoardContext) -> Result<Box<dyn Transport>> {
    Ok(match &profile.kind {
        ProfileKind::Host(host) => Box::new(Here::open(host, context)?),
        ProfileKind::Ssh(board) => Box::new(Remote::by_ssh(&profile.name, board, context)?),
        ProfileKind::Adb(phone) => Box::new(Remote::by_adb(&profile.name, phone, context)?),
        ProfileKind::Command(board) => Box::new(Remote::by_command(&profile.name, board, context)?),
        ProfileKind::Virtual(machine) => Box::new(Qemu::open(&profile.name, machine, cold, context)?),
        ProfileKind::Pool(_) => return Err(Error::bug("a pool in a pool")),
    })
}
