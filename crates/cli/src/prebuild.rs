//! What packages carry for other processors: `scripts/deb` and `scripts/static` ask for it.

use crate::boards::context;
use crate::progress;
use pocketstone_board::{BoardContext, runner_architectures, static_runner};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Compiles the runners for boards and the replay for browsers into `folder`, which is `lib/pocketstone` of a package.
/// What cannot be compiled here is said, and the rest goes on.
///
/// # Errors
/// `ErrorKind::User` if the folder cannot be written to; `ErrorKind::Board` if nothing can be compiled.
pub fn prebuild(folder: &Path) -> Result<u8> {
    let context = context()?;
    let runners = folder.join("runners");
    fs::create_dir_all(&runners).user(|| format!("cannot create {}", runners.display()))?;
    let mut number = 0;
    for (triple, architecture) in runner_architectures() {
        let place = runners.join(triple);
        let made = static_runner(architecture, &context).and_then(|from| copy(&from, &place, 0o755));
        number += usize::from(said(&format!("the runner for {architecture}"), made));
    }
    let made = module(&context, &folder.join("replay.wasm"));
    number += usize::from(said("the replay for browsers", made));
    match number {
        0 => Err(Error::board("nothing could be compiled").hint("the lines above say what each requires")),
        _ => Ok(0),
    }
}

fn module(context: &BoardContext, place: &Path) -> Result<()> {
    let bytes = pocketstone_study::views::explorer::module(context)?;
    fs::write(place, bytes).user(|| format!("cannot write {}", place.display()))
}

fn copy(from: &Path, place: &Path, mode: u32) -> Result<()> {
    let failed = || format!("cannot write {}", place.display());
    fs::copy(from, place).user(failed)?;
    fs::set_permissions(place, Permissions::from_mode(mode)).user(failed)
}

fn said(what: &str, made: Result<()>) -> bool {
    progress::clear();
    if let Err(error) = &made {
        let cure = error.cure().unwrap_or("none is known");
        pocketstone_cli::tell(&format!("left out: {what}; why: {}; fix: {cure}", error.chain()));
    }
    made.is_ok()
}
