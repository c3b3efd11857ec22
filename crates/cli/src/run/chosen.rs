//! The board that a study runs on, and the cells that it measures there.

use super::intent::Intent;
use crate::boards::devices;
use crate::studies::is_boards;
use pocketstone_board::{Board, BoardContext, HOST, Profile};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_study::run::{Selected, select_cells};
use pocketstone_study::specification::traces::Traces;
use pocketstone_study::views::model::LeftOut;

/// A board that is ready.
pub(super) struct Chosen {
    pub(super) profile: Profile,
    pub(super) board: Board,
    /// The study's own board, where that was wanting and this machine took its place.
    replaced: Option<Replaced>,
}

struct Replaced {
    kind: &'static str,
    why: LeftOut,
}

impl Chosen {
    /// Opens the board of this profile. Without the virtual board that the study is meant for, this machine still has
    /// something to say.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it cannot be used, and is no virtual one, or the user or a shard's plan has named it.
    pub(super) fn open(intent: &Intent, profile: Profile, context: &BoardContext) -> Result<Chosen> {
        let error = match pocketstone_board::open(&profile, intent.cold, context) {
            Ok(board) => return Ok(Chosen { profile, board, replaced: None }),
            Err(error) => error,
        };
        let is_named = intent.forced.is_some() || intent.asked.is_some();
        if is_named || !is_boards(&error) || !profile.may_be_replaced() {
            return Err(error);
        }
        context.check()?;
        let why = LeftOut::new(format!("the board {}", intent.board()), &error);
        let host = Profile::load(&devices()?, HOST.usual)?;
        let board = pocketstone_board::open(&host, false, context)?;
        Ok(Chosen { profile: host, board, replaced: Some(Replaced { kind: profile.kind().name, why }) })
    }

    /// The cells that it can measure, and what is left out.
    ///
    /// # Errors
    /// As [`select_cells`].
    pub(super) fn select(&self, intent: &Intent, own: &Profile, traces: &mut Traces) -> Result<Selected> {
        let request = intent.request(own);
        let selected = select_cells(&request, self.profile.kind().name, Some(&self.board), traces);
        let Some(Replaced { kind, why }) = &self.replaced else { return selected };
        selected.map_err(|error| {
            // Why it is not the board that the study is meant for matters more than what this one lacks, or that a
            // condition selects none of the cells that it would measure.
            match is_boards(&error) || select_cells(&request, kind, None, traces).is_ok() {
                true => Error::board(format!("{}; skipping {}: {}", error.message(), why.what, why.why))
                    .hint(why.cure.clone()),
                false => error,
            }
        })
    }

    /// Why it is not the study's own board, where it is not.
    pub(super) fn instead_of(&self) -> Option<&LeftOut> {
        self.replaced.as_ref().map(|replaced| &replaced.why)
    }

    /// Its name, or its profile's file from the root, where that was named.
    ///
    /// # Errors
    /// `ErrorKind::User` if this directory is gone.
    pub(super) fn name(&self, intent: &Intent) -> Result<String> {
        let name = intent.board();
        match name.ends_with(".toml") && self.replaced.is_none() {
            true => {
                let file = std::path::absolute(name).user(|| format!("cannot resolve {name}"))?;
                Ok(file.to_string_lossy().into_owned())
            }
            false => Ok(self.profile.name.clone()),
        }
    }
}
