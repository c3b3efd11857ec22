//! What does not go together in a cell, and why.

use crate::specification::factor::{FAULTS, POWER_CUTS, READ_AHEAD_BY, READ_AHEAD_BYTES, TLB};
use crate::specification::volume::DIRECT;
use pocketstone_core::Error;
use pocketstone_core::database::{DatabaseEngine, DatabaseSpec};
use pocketstone_core::faults::Faults;
use pocketstone_core::volume::{Access, FileSystem, Volume};
use pocketstone_workload::database::JournalMode;
use pocketstone_workload::factor::{Impossible, Point, blame};
use pocketstone_workload::plan::{ReadAhead, ReadAheadBy};
use pocketstone_workload::{ReadSpec, Workload};

/// Refuses a workload that a volume cannot carry.
pub(super) fn refuse_what_cannot_be(volume: &Volume, workload: &Workload) -> Result<(), Impossible> {
    let name = volume.name();
    let refuse = |why: String, cure: &str| Err(blame("file_system")(Error::user(why).hint(cure)));
    refuse_direct(volume, workload)?;
    refuse_atomic(volume, workload)?;
    let Some(files) = workload.on_files() else {
        let engine = workload.database().map(|spec| spec.engine);
        let (who, what) = match engine {
            Some(engine) => (engine.name(), "a database"),
            None => ("a command", "a command"),
        };
        if !volume.has_paths() && !engine.is_some_and(|engine| volume.opens_for(engine)) {
            let why = format!("{who} needs files visible to the kernel; {name} is accessed in process here");
            return refuse(why, &format!("set file_system = \"{}-fuse\"", volume.file_system.name()));
        }
        return match (volume.read_only(), volume.file_system) {
            (true, _) => refuse(format!("{name} is read-only, but {what} writes"), "leave it out"),
            (_, FileSystem::Null) => refuse(format!("{name} keeps no content, and {what} needs its own"), "omit it"),
            _ => Ok(()),
        };
    };
    if volume.file_system == FileSystem::Null && !volume.volatile() && !matches!(workload, Workload::Read(_)) {
        return refuse_null();
    }
    if volume.file_system == FileSystem::Ramfs && matches!(workload, Workload::Capacity(_)) {
        return refuse("ramfs has no size that this workload could fill".into(), "set file_system = \"tmpfs\"");
    }
    if volume.read_only() && files.writes() {
        let cure = "set workload = \"read\" or \"app-start\" for it, or omit it";
        return refuse(format!("{name} is read-only, but this workload writes"), cure);
    }
    if volume.access == Access::InProcess && volume.file_system == FileSystem::Yaffs2 && files.maps() {
        return refuse(format!("a mapping is unsupported on {name}"), "set volume_access = \"fuse\" for it");
    }
    match workload {
        Workload::Read(ReadSpec { prefetch, .. }) if !prefetch.is_none() && volume.access == Access::InProcess => {
            let why = format!("prefetch is unsupported on {name} in process: the kernel's page cache is not involved");
            Err(blame("prefetch")(Error::user(why).hint("set prefetch = \"none\" for it")))
        }
        _ => Ok(()),
    }
}

/// Refuses O_DIRECT where files are not opened by the lab, are mapped, or say themselves how they are opened.
fn refuse_direct(volume: &Volume, workload: &Workload) -> Result<(), Impossible> {
    let why = match workload {
        _ if !volume.setup.direct => return Ok(()),
        Workload::Read(ReadSpec { prefetch, .. }) if !prefetch.is_none() => "prefetch fills the page cache",
        Workload::Fio(_) => "a job file says itself what is direct",
        Workload::Calls(_) => "recorded calls have their own flags",
        Workload::Database(_) | Workload::Command(_) => "a program opens its files by itself",
        _ if workload.on_files().is_some_and(|files| files.maps()) => "a mapping goes through the page cache",
        _ => return Ok(()),
    };
    Err(blame(DIRECT.name())(Error::user(format!("{why}: O_DIRECT cannot be set for it")).hint("omit direct for it")))
}

/// Refuses SQLite's atomic writes where neither the file system nor the engine has them. What a directory of a kernel
/// lies on is known only to SQLite.
fn refuse_atomic(volume: &Volume, workload: &Workload) -> Result<(), Impossible> {
    let atomic = |spec: &&DatabaseSpec| spec.configuration.journal_mode.as_deref() == Some(JournalMode::Atomic.name());
    let Some(spec) = workload.database().filter(atomic) else { return Ok(()) };
    if spec.configuration.synchronous.as_deref() == Some("off") {
        let error = Error::user("SQLite makes no atomic writes with synchronous = \"off\"");
        return Err(blame("journal_mode")(error.hint("set synchronous = \"full\" for it, or another journal_mode")));
    }
    let (why, cure) = match (spec.engine, volume.file_system) {
        (DatabaseEngine::Sqlite, FileSystem::F2fs | FileSystem::Directory) => return Ok(()),
        (DatabaseEngine::Sqlite, _) => (volume.name(), "set file_system = \"f2fs\""),
        (engine, _) => (engine.name().to_owned(), "set engine = \"sqlite\""),
    };
    let error = Error::user(format!("{why} has no atomic writes of several pages"));
    Err(blame("journal_mode")(error.hint(format!("{cure} for it, or another journal_mode"))))
}

/// Refuses cuts of the power where nobody knows what the workload was promised.
pub(super) fn refuse_cuts(point: &Point, volume: &Volume, workload: &Workload) -> Result<(), Impossible> {
    if point.of(&POWER_CUTS)? == 0 {
        return Ok(());
    }
    match what_it_leaves_is_unknown(volume, workload) {
        Some((why, cure)) => {
            Err(blame(POWER_CUTS.name())(Error::user(why).hint(format!("{cure}, or omit power_cuts"))))
        }
        None => Ok(()),
    }
}

/// Faults of the chip of a point's volume. Refuses them where nobody simulates the chip, or knows what the volume
/// should hold.
pub(super) fn faults_of(point: &Point, volume: &Volume, workload: &Workload) -> Result<Option<Faults>, Impossible> {
    let text = point.of(&FAULTS)?;
    if text == "none" {
        return Ok(None);
    }
    let refuse = |why: String, cure: &str| Err(blame(FAULTS.name())(Error::user(why).hint(cure)));
    let faults = text.parse().map_err(blame(FAULTS.name()))?;
    if !volume.on_raw_nand() {
        let why = format!("{} is not on raw NAND, and faults are of a chip that is simulated", volume.name());
        return refuse(why, "omit faults for it, or set file_system = \"jffs2\", \"ubifs\" or \"yaffs2\"");
    }
    if volume.read_only() {
        return refuse(
            format!("{} is read-only, and is not moved to a chip with faults", volume.name()),
            "omit faults",
        );
    }
    if point.of(&POWER_CUTS)? > 0 {
        return refuse("a record of what was done to a chip does not have its faults".into(), "omit power_cuts");
    }
    if point.of(&TLB)?.is_some() {
        return refuse("misses of a modelled data TLB are not counted on a chip with faults".into(), "omit tlb");
    }
    match what_it_leaves_is_unknown(volume, workload) {
        Some((why, cure)) => refuse(why.into(), &format!("{cure}, or omit faults")),
        None => Ok(Some(faults)),
    }
}

/// Why nobody knows what a workload leaves on a volume, and what would help.
fn what_it_leaves_is_unknown(volume: &Volume, workload: &Workload) -> Option<(&'static str, &'static str)> {
    let threads = |files: &dyn pocketstone_workload::FileWorkload| files.threads();
    Some(match (workload.database(), workload.on_files()) {
        _ if volume.access == Access::InProcess => ("a volume in process has no mount", "set volume_access = \"fuse\""),
        (Some(spec), _)
            if !matches!(spec.engine, DatabaseEngine::Sqlite | DatabaseEngine::Lmdb | DatabaseEngine::Redb) =>
        {
            ("only databases of SQLite, LMDB and redb are looked at afterwards", "set engine = \"sqlite\"")
        }
        (Some(spec), _) if spec.threads != 1 => {
            ("the order of several threads' operations is not known", "set threads = 1")
        }
        (None, Some(files)) if threads(files) != 1 => {
            ("the order of several threads' writes is not known", "set threads = 1")
        }
        (None, None) => ("nobody knows what a command was promised", "choose a workload on files or on SQLite"),
        (None, Some(_)) if workload.calls().is_some() => {
            ("recorded calls are not known before the board has them", "choose another workload")
        }
        _ => return None,
    })
}

fn refuse_null() -> Result<(), Impossible> {
    let error = Error::user("null supports only reading its one file");
    Err(blame("file_system")(error.hint("set workload = \"read\" for it, or medium = \"anonymous\"")))
}

/// Refuses read-ahead where there is none, or nobody to advise.
pub(super) fn refuse_read_ahead(
    volume: &Volume,
    workload: &Workload,
    read_ahead: Option<ReadAhead>,
) -> Result<(), Impossible> {
    let Some(read_ahead) = read_ahead else { return Ok(()) };
    if !volume.page_cached() {
        let name = volume.name();
        let error = Error::user(format!("{name} in memory does not support read-ahead")).hint("omit read_ahead_bytes");
        return Err(blame(READ_AHEAD_BYTES.name())(error));
    }
    let why = match workload.on_files() {
        _ if read_ahead.by == ReadAheadBy::Mount => return Ok(()),
        Some(files) if files.takes_advice() => return Ok(()),
        Some(_) => "the workload opens many files without giving advice",
        None => "the program opens its own files, and nobody gives advice for them",
    };
    Err(blame(READ_AHEAD_BY.name())(Error::user(why).hint("set read_ahead_by = \"mount\"")))
}
