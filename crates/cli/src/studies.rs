//! Studies and runs as the commands read and write them.

use crate::{boards, progress};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_study::Study;
use pocketstone_study::results::store::Store;
use std::path::{Path, PathBuf};

/// The folder that paths in a study count from.
pub fn study_folder(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// Reads a study's file.
pub fn read_study(file: &Path) -> Result<Study> {
    let text = std::fs::read_to_string(file).user(|| format!("cannot read the study {}", file.display()))?;
    Study::parse(&file.display().to_string(), &text)
}

/// The study that a run's results hold.
pub fn study_of(store: &Store) -> Result<Study> {
    let fact = |name: &str| {
        let missing = || Error::user(format!("the results in {} have no {name}", store.folder().display()));
        store.fact(name)?.ok_or_else(missing)
    };
    Study::parse(&format!("{}.toml", fact("study.name")?), &fact("study")?)
}

/// Writes a run's report and returns its path.
pub fn write_report(store: &Store, study: &Study) -> Result<PathBuf> {
    let mut model = pocketstone_study::views::report_model::model(store, study)?;
    if !study.replays.is_empty() {
        let tell = progress::stage_line();
        let module = || pocketstone_study::views::explorer::module(&pocketstone_board::Cache::of_user()?, &*tell);
        pocketstone_study::views::explorer::add(&mut model, store, study, &boards::devices(), module);
        progress::clear();
    }
    let path = store.folder().join("report.html");
    let html = pocketstone_report::html(&model)?;
    let temporary = path.with_extension("html.new");
    std::fs::write(&temporary, html).user(|| format!("cannot write {}", temporary.display()))?;
    std::fs::rename(&temporary, &path).user(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Whether an error is the board's, so that another board may do.
pub fn is_boards(error: &Error) -> bool {
    error.kind() == ErrorKind::Board
}
