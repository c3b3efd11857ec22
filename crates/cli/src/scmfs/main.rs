//! The command `scmfs`, which is `mount.scmfs`, too, when it is called that.

// The one room that prints.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate pocketstone_cli;

mod arguments;
mod checkpoint;
mod helper;
mod inspect;
mod make;
mod region;
mod run;
mod scrub;
mod serve;
mod target;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use pocketstone_core::Result;
use pocketstone_mount::guard;
use std::process::ExitCode;

fn main() -> ExitCode {
    if guard::is_guard() {
        return pocketstone_cli::finish(guard::watch().map(|()| 0));
    }
    let as_helper = |given| serve::mount(&helper::arguments(given));
    if let Some(code) = pocketstone_cli::mounts::as_helper("scmfs", "REGION", as_helper) {
        return code;
    }
    pocketstone_cli::complete(Arguments::command);
    pocketstone_cli::finish(dispatch(Arguments::parse().command))
}

fn dispatch(command: Command) -> Result<u8> {
    match command {
        Command::Mkfs(arguments) => make::mkfs(&arguments),
        Command::Mount(arguments) => serve::mount(&arguments),
        Command::Umount { directory, lazy } => checkpoint::umount(&directory, lazy),
        Command::Fsck { region, upgrade: true, json, .. } => inspect::upgrade(&region, json),
        Command::Fsck { region, repair, json, .. } => inspect::fsck(&region, repair, json),
        Command::Scrub { target, json } => scrub::scrub(&target, json),
        Command::Df { target, json } => inspect::df(&target, json),
        Command::Stat { target, path, json } => inspect::stat(&target, &path, json),
        Command::Dump { region, what } => inspect::dump(&region, what),
        Command::Resize { target, size } => target::resize(&target, size),
        Command::Gc { target } => target::gc(&target),
        Command::Checkpoint(arguments) => checkpoint::checkpoint(&arguments),
        Command::Restore(arguments) => checkpoint::restore(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Completions { shell } => {
            pocketstone_cli::completions(&Arguments::command(), shell)?;
            Ok(0)
        }
        Command::Man { folder } => {
            say!("{}", pocketstone_cli::man(Arguments::command(), &folder)?.display());
            Ok(0)
        }
    }
}
