//! The command `yaffs2`, which is `mount.yaffs2`, too, when it is called that.

// The one room that prints.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate pocketstone_cli;

mod arguments;
mod chip;
mod extract;
mod image;
mod inspect;
mod make;
mod paths;
mod serve;
mod unfinished;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use pocketstone_core::Result;
use std::process::ExitCode;

fn main() -> ExitCode {
    let as_helper = |given| serve::mount(&serve::arguments(given));
    if let Some(code) = pocketstone_cli::mounts::as_helper("yaffs2", "CHIP", as_helper) {
        return code;
    }
    pocketstone_cli::complete(Arguments::command);
    pocketstone_cli::finish(dispatch(Arguments::parse().command))
}

fn dispatch(command: Command) -> Result<u8> {
    match command {
        Command::Mkfs(arguments) => make::mkfs(&arguments),
        Command::Mount(arguments) => serve::mount(&arguments),
        Command::Umount { directory, lazy } => {
            pocketstone_cli::mounts::umount(&directory, pocketstone_mount::YAFFS2_KIND, lazy).map(|_| 0)
        }
        Command::Fsck { chip, json } => inspect::fsck(&chip, json),
        Command::Image(arguments) => image::image(&arguments),
        Command::Extract { chip, folder } => extract::extract(&chip, &folder),
        Command::Ls { chip, long, path } => inspect::ls(&chip, long, &path),
        Command::Stat { chip, path, json } => inspect::stat(&chip, path.as_deref(), json),
        Command::Dump { chip, block, summary } => inspect::dump(&chip, block, summary),
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
