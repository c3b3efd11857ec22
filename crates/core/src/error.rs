//! One error type for all rooms: what kind it is, what happened, why, and what cures it.

use std::fmt;

/// What a command's exit code will be; one kind per code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The user's input or configuration is wrong (exit code 1).
    User,
    /// A threshold or a claim was missed (exit code 3).
    Threshold,
    /// The board or the machine cannot do what was asked (exit code 4).
    Board,
    /// A fault of pocketstone itself (exit code 70).
    Bug,
    /// The user stopped it (exit code 130, as shells have it: 128 + SIGINT).
    Interrupted,
}

impl ErrorKind {
    /// The process exit code of this kind (2, usage, belongs to the command-line parser).
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

/// An error with its kind, its cause chain and, where one is known, the cure.
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
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), hint: None, source: None }
    }

    /// Wrong input or configuration.
    pub fn user(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::User, message)
    }

    /// The board or the machine failed or lacks something.
    pub fn board(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Board, message)
    }

    /// Something that cannot happen did.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Bug, message)
    }

    /// Adds what the user can do about it.
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

    /// The cure nearest to the top of the cause chain.
    pub fn cure(&self) -> Option<&str> {
        if self.hint.is_some() {
            return self.hint.as_deref();
        }
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            if let Some(hint) = error.downcast_ref::<Error>().and_then(|e| e.hint.as_deref()) {
                return Some(hint);
            }
            cause = error.source();
        }
        None
    }

    /// The message and all its causes, on one line.
    pub fn chain(&self) -> String {
        let mut text = self.message.clone();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
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

/// Turns any error into [`Error`] with a sentence that says what was being done.
pub trait Context<T> {
    /// Wraps an error as the cause of a user error.
    fn user(self, message: impl FnOnce() -> String) -> Result<T>;
    /// Wraps an error as the cause of a board error.
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
}
