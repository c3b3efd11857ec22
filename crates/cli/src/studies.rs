//! Studies and runs as the commands read and write them.

use crate::{boards, progress};
use pocketstone_board::BoardContext;
use pocketstone_core::error::Context;
use pocketstone_core::words::choices;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_engine::installed;
use pocketstone_study::Study;
use pocketstone_study::results::store::Store;
use pocketstone_study::specification::cell::Cell;
use std::path::{Path, PathBuf};

/// The folder that paths in a study count from.
pub fn study_folder(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// That folder from the root.
///
/// # Errors
/// `ErrorKind::User` if there is no current directory.
pub fn study_base(file: &Path) -> Result<PathBuf> {
    let folder = study_folder(file);
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    std::path::absolute(folder).user(|| "cannot resolve the study's folder".into())
}

/// The file of a study that the user names: a path, or the name of one that came with the command.
///
/// # Errors
/// `ErrorKind::User` if there is neither; the hint names those that there are.
pub fn find(named: &Path) -> Result<PathBuf> {
    if named.exists() || named.components().count() != 1 {
        return Ok(named.to_owned());
    }
    let shipped = shipped()?;
    let stem = named.file_stem().filter(|_| named.extension().is_none_or(|extension| extension == "toml"));
    match shipped.iter().find(|path| path.file_stem() == stem) {
        Some(path) => Ok(path.clone()),
        None => {
            let names: Vec<_> = shipped.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
            Err(Error::user(format!(
                "no study `{0}`: there is no such file here, and none came with pocketstone",
                named.display()
            ))
            .hint(choices(&stem.unwrap_or_default().to_string_lossy(), "the studies that did", &names)))
        }
    }
}

/// The studies that came with the command, by name.
///
/// # Errors
/// `ErrorKind::Board` if their folder is missing.
pub fn shipped() -> Result<Vec<PathBuf>> {
    let folder = installed::data("studies")?;
    let entries = std::fs::read_dir(&folder).board(|| format!("cannot list {}", folder.display()))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    Ok(files)
}

/// `study list`: names and titles.
pub fn list() -> Result<u8> {
    for file in shipped()? {
        let study = read_study(&file)?;
        say!("{:<20} {}", file.file_stem().unwrap_or_default().to_string_lossy(), study.title);
    }
    Ok(0)
}

/// Reads a study's file.
pub fn read_study(file: &Path) -> Result<Study> {
    let text = std::fs::read_to_string(file).user(|| format!("cannot read the study {}", file.display()))?;
    Study::parse(&file.display().to_string(), &text)
}

/// Most cells of a study that nobody asked for.
pub fn most_cells(many: bool) -> u64 {
    if many { u64::MAX } else { 100_000 }
}

/// The study that a run's results hold.
pub fn study_of(store: &Store) -> Result<Study> {
    let fact = |name: &str| {
        let missing = || Error::user(format!("the results in {} have no {name}", store.folder().display()));
        store.fact(name)?.ok_or_else(missing)
    };
    let place = format!("the study of {}", store.folder().display());
    Study::parse_as(&fact("study.name")?, &place, &fact("study")?)
}

/// Writes a run's report and returns its path.
pub fn write_report(store: &Store, study: &Study) -> Result<PathBuf> {
    let mut model = pocketstone_study::views::report_model::model(store, study)?;
    if !study.replays.is_empty() {
        let module = || {
            let (cache, devices) = (pocketstone_board::Cache::of_user()?, boards::devices()?);
            let context = BoardContext::uninterrupted(cache, devices, progress::stage_line());
            pocketstone_study::views::explorer::module(&context)
        };
        pocketstone_study::views::explorer::add(&mut model, store, study, &boards::devices()?, module);
        progress::clear();
    }
    let path = store.folder().join("report.html");
    let html = pocketstone_report::html(&model)?;
    let temporary = path.with_extension("html.new");
    std::fs::write(&temporary, html).user(|| format!("cannot write {}", temporary.display()))?;
    std::fs::rename(&temporary, &path).user(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// What is known, without trying anything, of the cells of a host board that this machine cannot run.
pub fn not_here(cells: &[Cell]) -> String {
    let all = cells.len();
    match cells.iter().filter(|cell| cell.plan.volume.on_flash()).count() {
        0 => String::new(),
        some => format!("; {some} of {all} cannot run on this machine, which offers no flash"),
    }
}

/// Whether an error is the board's, so that another board may do.
pub fn is_boards(error: &Error) -> bool {
    error.kind() == ErrorKind::Board
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_study::specification::cell::cells;
    use pocketstone_study::specification::traces::Traces;

    #[test]
    fn errors_of_a_stored_study_name_the_results_as_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let text = "title = 't'\nboard = 'host'\n[[experiment]]\nname = 'e'\n[experiment.factors]\n\
                    workload = 'command'\ncommand = 'true'\nfile_system = 'directory'\n";
        let store = Store::create(folder.path(), [("study.name", "mine"), ("study", text)]).unwrap();
        let study = study_of(&store).unwrap();
        let error = study.error_at(0..0, Error::user("no")).chain();
        assert_eq!(study.name, "mine");
        assert!(error.contains(&format!("the study of {}:1:1\n", folder.path().display())), "{error}");
    }

    #[test]
    fn of_cells_on_flash_it_is_known_that_this_machine_cannot_run_them() {
        let of = |file_systems: &str| {
            let text = format!(
                "title = 't'\nboard = 'host'\n[[experiment]]\nname = 'e'\ntraced = 'none'\n[experiment.factors]\n\
                 workload = 'command'\ncommand = 'true'\nfile_system = {file_systems}\n"
            );
            let study = Study::parse("s.toml", &text).unwrap();
            not_here(&cells(&study, "host", None, true, &mut Traces::checked(Path::new("."))).unwrap())
        };
        assert_eq!(of("['directory', 'tmpfs', 'scmfs-fuse']"), "");
        let some = "; 2 of 3 cannot run on this machine, which offers no flash";
        assert_eq!(of("['directory', 'jffs2', 'f2fs']"), some);
    }
}
