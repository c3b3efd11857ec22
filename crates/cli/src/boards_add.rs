//! `pocketstone board add` and `board doctor`.

use crate::arguments::BoardAddArguments;
use crate::boards::{context, own_boards};
use crate::progress;
use pocketstone_board::{Board, Profile, answer};
use pocketstone_core::board::Ability;
use pocketstone_core::database::DatabaseEngine;
use pocketstone_core::error::Context;
use pocketstone_core::volume::Volume;
use pocketstone_core::{Error, Result};
use std::fs;
use std::io::Write;

/// Volumes that a board is asked for.
const VOLUMES: [&str; 8] = ["directory", "jffs2", "ubifs", "yaffs2", "scmfs", "scmfs-fuse", "tmpfs", "ext4"];

/// Tries a board, and writes its profile into the folder of the user's boards.
///
/// # Errors
/// `ErrorKind::User` if there is a board of that name, or the profile cannot be written; `ErrorKind::Board` if the
/// board cannot be reached: nothing is written then.
pub fn add(arguments: &BoardAddArguments) -> Result<u8> {
    let name = &arguments.name;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.is_empty() || !name.chars().all(plain) {
        return Err(Error::user(format!("`{name}` is no name for a board")).hint("use letters, digits, - and _"));
    }
    let folder = own_boards().ok_or_else(|| Error::user("HOME is not set").hint("set HOME or XDG_CONFIG_HOME"))?;
    let path = folder.join(format!("{name}.toml"));
    if (path.exists() || crate::boards::devices()?.join(format!("{name}.toml")).exists()) && !arguments.force {
        return Err(Error::user(format!("there is a board `{name}` already")).hint("choose another name, or --force"));
    }
    let mut profile = toml::Table::new();
    let BoardAddArguments { adb, command, ssh, labgrid, pool, .. } = arguments;
    let (kind, of, key, value) = match (adb, command, ssh, labgrid) {
        (Some(serial), ..) => ("adb", serial.clone(), "serial", Some(serial.as_str().into())),
        (None, Some(words), ..) => ("command", words.clone(), "command", Some(split("command", words)?)),
        (None, None, Some(host), _) => ("ssh", host.clone(), "host", Some(host.as_str().into())),
        (None, None, None, Some(place)) => ("ssh", place.clone(), "host", None),
        (None, None, None, None) => ("pool", pool.join(", "), "boards", Some(pool.clone().into())),
    };
    profile.insert("kind".into(), kind.into());
    profile.insert("description".into(), format!("{of} by {kind}").into());
    value.map(|value: toml::Value| profile.insert(key.into(), value));
    if !arguments.ssh_options.is_empty() {
        profile.insert("options".into(), arguments.ssh_options.clone().into());
    }
    if let Some(folder) = &arguments.folder {
        profile.insert("folder".into(), folder.clone().into());
    }
    if let Some(directory) = &arguments.directory {
        profile.insert("directory".into(), directory.to_string_lossy().into_owned().into());
    }
    if let Some(words) = &arguments.r#become {
        profile.insert("become".into(), split("become", words)?);
    }
    if let Some(place) = &arguments.labgrid {
        profile.insert("labgrid".into(), toml::Table::from_iter([("place".into(), place.clone().into())]).into());
    }
    let text = toml::to_string(&profile).map_err(|e| Error::bug("a profile has no text").because(e))?;
    let failed = || format!("cannot write {}", path.display());
    fs::create_dir_all(&folder).user(failed)?;
    // Tried before anybody else can see it.
    doctor(&Profile::of_text(&crate::boards::devices()?, &path, &text)?)?;
    let mut written = tempfile::NamedTempFile::new_in(&folder).user(failed)?;
    written.write_all(text.as_bytes()).user(failed)?;
    written.persist(&path).map_err(|e| e.error).user(failed)?;
    say!("\nwritten: {}\nuse it: pocketstone run STUDY.toml --board {name}", path.display());
    Ok(0)
}

/// The words of an option as a profile has them.
fn split(option: &str, command: &str) -> Result<toml::Value> {
    if command.trim().is_empty() || command.contains(['"', '\'', '\\', '$', '~', '`']) {
        let hint =
            format!("name words that no shell has to look at; others can be written into the profile: {option} = []");
        return Err(Error::user(format!("--{option} is {command:?}")).hint(hint));
    }
    Ok(command.split_whitespace().map(toml::Value::from).collect::<Vec<_>>().into())
}

/// Says what a board can and cannot do.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be reached.
pub fn doctor(profile: &Profile) -> Result<u8> {
    let board = pocketstone_board::open(profile, false, &context()?)?;
    let abilities = board.abilities();
    progress::clear();
    say!("{}: {}", board.name(), profile.description);
    board.facts().iter().for_each(|(fact, value)| say!("  {fact}: {value}"));
    say!("measures");
    abilities?.iter().for_each(|(what, ability)| tell(what, ability));
    say!("volumes");
    for name in VOLUMES {
        let volume = Volume::named(name)?;
        let erased = !board.capabilities().disposable && volume.on_raw_nand();
        match (erased, profile.flash_may_be_erased()) {
            // The attempt would erase it: a study that is run on it makes it.
            (true, true) => tell(name, &Ability::Unknown),
            _ => tell(name, &Ability::found(&answer(board.offers(&volume))?)),
        }
    }
    say!("databases");
    for engine in DatabaseEngine::ALL {
        tell(engine.name(), &of_engine(&board, engine)?);
    }
    Ok(0)
}

fn of_engine(board: &Board, engine: DatabaseEngine) -> Result<Ability> {
    Ok(Ability::found(&answer(board.engine(engine))?))
}

fn tell(what: &str, ability: &Ability) {
    match ability {
        Ability::Yes => say!("  yes  {what}"),
        Ability::Unknown => say!("  ?    {what}"),
        Ability::No(failure) => {
            say!("  no   {what}: {}", failure.message);
            failure.hint.iter().for_each(|hint| say!("       fix: {hint}"));
        }
    }
}
