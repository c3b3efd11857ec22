//! What is to run: what the arguments ask for, and what the run that they go on with was begun with.

use crate::again::{Options, Program};
use crate::arguments::RunArguments;
use crate::studies::{self, most_cells, read_study, study_of};
use crate::{boards, own_program, shards};
use pocketstone_board::Profile;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_study::Study;
use pocketstone_study::results::store::Store;
use pocketstone_study::run::Request;
use pocketstone_study::specification::shares::Asked;
use std::path::{Path, PathBuf};

/// What is asked of a run.
pub(super) struct Intent {
    pub(super) study: Study,
    /// The folder that the study's paths count from.
    pub(super) base: PathBuf,
    /// The board that the user names, or has named when the run began; the study's own without it.
    pub(super) forced: Option<String>,
    /// Whether each cell begins with a boot.
    pub(super) cold: bool,
    /// The share of the cells; all without it.
    pub(super) asked: Option<Asked>,
    only: Option<String>,
    directory: Option<PathBuf>,
    many_cells: bool,
    begun: Option<Options>,
}

impl Intent {
    /// # Errors
    /// `ErrorKind::User` for an invalid study, or arguments that do not fit the results that they go on with.
    pub(super) fn of(arguments: &RunArguments, store: Option<&Store>) -> Result<Intent> {
        let study = study(arguments, store)?;
        pocketstone_study::views::check::check_queries(&study)?;
        let stored_board = match store {
            Some(store) => store.fact("board.file")?.or(store.fact("board")?),
            None => None,
        };
        let begun = store.map(Options::of).transpose()?.flatten();
        let directory = arguments.directory.as_deref().map(std::path::absolute).transpose();
        let directory = directory.user(|| "cannot resolve --directory".into())?;
        let asked = shards::asked(arguments, store)?;
        Ok(Intent {
            base: study_base(arguments, store)?,
            study,
            forced: arguments.board.clone().or(stored_board),
            cold: arguments.cold || begun.as_ref().is_some_and(|b| b.cold),
            // The cells of a shard are what they are.
            only: match (&begun, asked) {
                (Some(begun), Some(_)) => begun.only.clone(),
                _ => arguments.only.clone(),
            },
            asked,
            // A run that goes on does so where it began.
            directory: directory.or_else(|| begun.as_ref()?.directory.clone()),
            many_cells: arguments.many_cells || begun.as_ref().is_some_and(|b| b.many_cells),
            begun,
        })
    }

    /// The board's name, or its profile's file.
    pub(super) fn board(&self) -> &str {
        self.forced.as_deref().unwrap_or(&self.study.board)
    }

    /// # Errors
    /// `ErrorKind::User` if there is no such board, with the place in the study that names it.
    pub(super) fn profile(&self) -> Result<Profile> {
        boards::profile(self.board()).map_err(|e| match self.forced {
            Some(_) => e,
            None => self.study.error_at(self.study.board_place.clone(), e),
        })
    }

    /// Which cells are wanted of a board.
    pub(super) fn request(&self, profile: &Profile) -> Request<'_> {
        Request {
            study: &self.study,
            only: self.only.as_deref(),
            directory: self.directory.as_deref(),
            chip_bytes: profile.chip_bytes(),
            most_cells: most_cells(self.many_cells),
            asked: self.asked,
        }
    }

    /// What the results keep of it, for the command that makes the same run again; `board` as [`Options::board`] has
    /// it.
    ///
    /// # Errors
    /// As [`Program::of`].
    pub(super) fn options(&self, arguments: &RunArguments, board: String) -> Result<Options> {
        if let Some(begun) = &self.begun {
            return Ok(begun.clone().and(arguments));
        }
        Ok(Options {
            study: study_file(arguments, &self.study, &self.base),
            board,
            // Of what an earlier version began it is not known what was asked.
            only: arguments.only.clone().filter(|_| arguments.resume.is_none()),
            cold: self.cold,
            directory: self.directory.clone(),
            many_cells: arguments.many_cells,
            asked: self.asked,
            program: Program::of(arguments)?,
        })
    }
}

/// The study's file, from the root.
fn study_file(arguments: &RunArguments, study: &Study, base: &Path) -> PathBuf {
    let named = arguments.study.as_deref().and_then(Path::file_name);
    base.join(named.unwrap_or(format!("{}.toml", study.name).as_ref()))
}

fn study(arguments: &RunArguments, store: Option<&Store>) -> Result<Study> {
    let Some(store) = store else {
        if !arguments.program.is_empty() {
            return own_program::study(arguments);
        }
        let file = arguments.study.as_deref().ok_or_else(|| Error::user("no study given"))?;
        return read_study(file);
    };
    let stored = study_of(store)?;
    if let Some(file) = &arguments.study {
        if read_study(file)?.text != stored.text {
            let folder = store.folder().display();
            return Err(Error::user(format!("{} is not the study that {folder} was run with", file.display()))
                .hint("omit the file to resume with the stored study, or start a new run"));
        }
    }
    Ok(stored)
}

/// The folder that paths in the study count from: its file's, also when its text comes from the results.
fn study_base(arguments: &RunArguments, store: Option<&Store>) -> Result<PathBuf> {
    if let Some(folder) = store.map(|s| s.fact("study.folder")).transpose()?.flatten() {
        return Ok(folder.into());
    }
    studies::study_base(arguments.study.as_deref().unwrap_or(Path::new("")))
}
