//! `pocketstone board export` and `board import`.

use crate::boards::{context, devices, own_boards, profile};
use crate::progress;
use pocketstone_board::exchange::{self, Manifest};
use pocketstone_cli::note;
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use std::fs;
use std::path::Path;

/// Writes a board's archive.
///
/// # Errors
/// As [`profile`] and [`exchange::export`]; `ErrorKind::Board` also if signals cannot be handled.
pub fn export(name: &str, file: &Path) -> Result<u8> {
    let written = exchange::export(&profile(name)?, file, &context()?);
    progress::clear();
    let manifest = written?;
    let bytes = fs::metadata(file).user(|| format!("cannot read {}", file.display()))?.len();
    let (file, states, size) =
        (file.display(), states(&manifest), pocketstone_core::units::format_bytes_rounded(bytes));
    say!("{file}: the packages of {name} and {states}, {size}");
    say!("on another machine: pocketstone board import {file}");
    Ok(0)
}

/// Puts an archive's files into the cache, and its profile to the user's boards if there is no board of that name.
///
/// # Errors
/// As [`exchange::import`] and [`profile`]; `ErrorKind::User` also if the profile cannot be written.
pub fn import(file: &Path) -> Result<u8> {
    let context = context()?;
    let manifest = exchange::import(file, &context.cache)?;
    let name = &manifest.board;
    say!("{name}: imported, with {}", states(&manifest));
    let own = own_boards().map(|folder| folder.join(format!("{name}.toml")));
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let known = devices()?.join(format!("{name}.toml")).exists() || own.as_ref().is_some_and(|own| own.exists());
    if let (false, true, Some(own)) = (known, plain, own) {
        let failed = || format!("cannot write {}", own.display());
        fs::create_dir_all(own.parent().unwrap_or(Path::new("/"))).user(failed)?;
        fs::write(&own, &manifest.profile).user(failed)?;
        say!("its profile: {}", own.display());
    }
    let difference = exchange::difference(&profile(name)?, &manifest, &context);
    progress::clear();
    match difference {
        Ok(None) => {}
        Ok(Some(why)) => note("warning", &format!("the saved states will be made again: {why}")),
        // It is in the cache, for when the machine has what it lacks now.
        Err(error) => pocketstone_cli::explain("warning", &error),
    }
    Ok(0)
}

fn states(manifest: &Manifest) -> String {
    match manifest.states() {
        1 => "1 saved state".to_owned(),
        number => format!("{number} saved states"),
    }
}
