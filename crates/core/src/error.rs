//! The error type of all crates: kind, message, cause and fix.

use pocketstone_vfs::{MediumError, MediumErrorKind};
use std::fmt;

/// The kind of an error, one per exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Invalid input or configuration (exit status 1).
    User,
    /// A threshold or a claim was missed (exit status 3).
    Threshold,
    /// The board or the machine lacks something required (exit status 4).
    Board,
    /// An internal error of pocketstone (exit status 70).
    Bug,
    /// Interrupted by the user (exit status 130: 128 + SIGINT).
    Interrupted,
}

impl ErrorKind {
    /// The exit status of this kind (2, usage errors, belongs to the command-line parser).
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::User => 1,
            ErrorKind::Threshold => 3,
            ErrorKind::Board => 4,
            ErrorKind::Bug => 70,
            ErrorKind::Interrupted => 130,
        }
    }
}

/// An error with its kind, its chain of causes and, if known, a fix.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` with a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), hint: None, source: None }
    }

    /// Invalid input or configuration.
    pub fn user(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::User, message)
    }

    /// The board or the machine failed or lacks something.
    pub fn board(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Board, message)
    }

    /// An internal error.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Bug, message)
    }

    /// Adds a suggested fix.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the error that caused this one.
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message of this error alone, without its causes.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The outermost fix in the chain of causes.
    pub fn cure(&self) -> Option<&str> {
        pocketstone_vfs::causes(self).find_map(|error| {
            let own = || error.downcast_ref::<Error>().and_then(|e| e.hint.as_deref());
            let medium = || error.downcast_ref::<MediumError>().and_then(MediumError::cure);
            let volume = || error.downcast_ref::<pocketstone_vfs::Error>().and_then(pocketstone_vfs::Error::cure);
            own().or_else(medium).or_else(volume)
        })
    }

    /// The message and all its causes, on one line.
    pub fn chain(&self) -> String {
        pocketstone_vfs::chain(self)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}

impl From<MediumError> for Error {
    fn from(error: MediumError) -> Error {
        let kind = match error.kind() {
            MediumErrorKind::Refused | MediumErrorKind::InUse | MediumErrorKind::UnknownLayout => ErrorKind::User,
            MediumErrorKind::Bug => ErrorKind::Bug,
            _ => ErrorKind::Board,
        };
        let (message, hint, source) = error.into_parts();
        Error { kind, message, hint, source }
    }
}

impl From<pocketstone_vfs::Error> for Error {
    fn from(error: pocketstone_vfs::Error) -> Error {
        match error {
            pocketstone_vfs::Error::Medium(inner) => Error::from(*inner),
            other => Error { hint: other.cure().map(str::to_owned), ..Error::user(other.to_string()) },
        }
    }
}

/// Converts any error into an [`Error`] with a message that says what was being done.
pub trait Context<T> {
    /// Wraps an error as the cause of a user error.
    ///
    /// # Errors
    /// `ErrorKind::User` where there was an error.
    fn user(self, message: impl FnOnce() -> String) -> Result<T>;
    /// Wraps an error as the cause of a board error.
    ///
    /// # Errors
    /// `ErrorKind::Board` where there was an error.
    fn board(self, message: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Box<dyn std::error::Error + Send + Sync>>> Context<T> for std::result::Result<T, E> {
    fn user(self, message: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| Error::user(message()).because(e))
    }
    fn board(self, message: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| Error::board(message()).because(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_names_every_cause_and_the_nearest_cure() {
        let inner = Error::board("no such module").hint("install it");
        let outer = Error::user("cannot boot").because(inner);
        assert_eq!(outer.chain(), "cannot boot: no such module");
        assert_eq!(outer.cure(), Some("install it"));
        assert_eq!(outer.kind().exit_code(), 1);
    }

    #[test]
    fn errors_of_media_and_file_systems_keep_what_they_say() {
        let medium = || MediumError::failed("cannot lock the chip").hint("unmount it").because(Error::bug("no lock"));
        let kept = |error: Error| (error.kind(), error.chain(), error.cure().map(str::to_owned));
        let expected = (ErrorKind::Board, "cannot lock the chip: no lock".to_owned(), Some("unmount it".to_owned()));
        assert_eq!(kept(medium().into()), expected);
        assert_eq!(kept(pocketstone_vfs::Error::from(medium()).into()), expected);
        assert_eq!(Error::user("cannot mount").because(medium()).cure(), Some("unmount it"));
        assert_eq!(Error::from(MediumError::refused("x")).kind(), ErrorKind::User);
        assert_eq!(Error::from(MediumError::bug("x")).kind(), ErrorKind::Bug);
        assert_eq!(Error::from(pocketstone_vfs::Error::NotFound).kind(), ErrorKind::User);
    }
}
