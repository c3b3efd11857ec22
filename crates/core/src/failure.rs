//! Failures that travel from a board.

use serde::{Deserialize, Serialize};

/// A failure, in a form that travels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The message and its causes.
    pub message: String,
    /// The fix, if known.
    pub hint: Option<String>,
}

impl From<&crate::Error> for Failure {
    fn from(error: &crate::Error) -> Self {
        Failure { message: error.chain(), hint: error.cure().map(str::to_owned) }
    }
}

impl From<Failure> for crate::Error {
    fn from(failure: Failure) -> Self {
        let error = crate::Error::board(failure.message);
        match failure.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}
