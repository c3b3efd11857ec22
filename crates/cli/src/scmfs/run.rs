//! `run`: a program with the library that reaches files of mounted volumes without the kernel.

use crate::arguments::{Direct, RunArguments};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_mount::{library, loaded_first};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Becomes the program.
pub fn run(arguments: &RunArguments) -> Result<u8> {
    let library = library()?;
    let Some((program, rest)) = arguments.program.split_first() else {
        return Err(Error::user("no program was given").hint("scmfs run PROGRAM ARGUMENTS"));
    };
    let mut command = Command::new(program);
    command.args(rest).env("LD_PRELOAD", loaded_first(library, std::env::var_os("LD_PRELOAD")));
    if let Some(direct) = arguments.preload {
        let word = match direct {
            Direct::Off => "off",
            Direct::Read => "read",
            Direct::Write => "write",
            Direct::Append => "append",
            Direct::Map => "map",
        };
        command.env("SCMFS_PRELOAD", word);
    }
    if let Some(report) = &arguments.report {
        let absolute = std::path::absolute(report).user(|| format!("cannot find {}", report.display()))?;
        // Said now, and not by every process at its end.
        std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&absolute)
            .user(|| format!("cannot write {}", absolute.display()))?;
        command.env("SCMFS_PRELOAD_REPORT", absolute);
    }
    let error = command.exec();
    Err(Error::user(format!("cannot run {}", Path::new(program).display())).because(error))
}
