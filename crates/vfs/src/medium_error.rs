//! Errors of media, and of opening volumes: a message, with the cause and, if known, a fix.

use std::fmt;

/// The category of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MediumErrorKind {
    /// The request is invalid: a wrong path, length or option, or a medium with other contents.
    Refused,
    /// Somebody else has the medium.
    InUse,
    /// How a medium's contents are laid out cannot be told, and must be said.
    UnknownLayout,
    /// The device failed, or the machine lacks something required.
    Failed,
    /// The caller violated the interface, for example the order of page programs.
    Bug,
}

/// The error that caused another one.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// An error message, with its cause and, if known, a fix.
#[derive(Debug)]
pub struct MediumError {
    kind: MediumErrorKind,
    message: String,
    hint: Option<String>,
    source: Option<Source>,
}

impl MediumError {
    fn new(kind: MediumErrorKind, message: impl Into<String>) -> MediumError {
        MediumError { kind, message: message.into(), hint: None, source: None }
    }

    /// An error of the kind [`MediumErrorKind::Refused`].
    pub fn refused(message: impl Into<String>) -> MediumError {
        Self::new(MediumErrorKind::Refused, message)
    }

    /// An error of the kind [`MediumErrorKind::InUse`].
    pub fn in_use(message: impl Into<String>) -> MediumError {
        Self::new(MediumErrorKind::InUse, message)
    }

    /// An error of the kind [`MediumErrorKind::UnknownLayout`].
    pub fn unknown_layout(message: impl Into<String>) -> MediumError {
        Self::new(MediumErrorKind::UnknownLayout, message)
    }

    /// An error of the kind [`MediumErrorKind::Failed`].
    pub fn failed(message: impl Into<String>) -> MediumError {
        Self::new(MediumErrorKind::Failed, message)
    }

    /// An error of the kind [`MediumErrorKind::Bug`].
    pub fn bug(message: impl Into<String>) -> MediumError {
        Self::new(MediumErrorKind::Bug, message)
    }

    /// Adds a suggested fix.
    pub fn hint(mut self, hint: impl Into<String>) -> MediumError {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the error that caused this one.
    pub fn because(mut self, source: impl Into<Source>) -> MediumError {
        self.source = Some(source.into());
        self
    }

    /// As the cause of an error of its kind, whose message says what was being done.
    #[must_use]
    pub fn within(self, message: impl Into<String>) -> MediumError {
        Self::new(self.kind, message).because(self)
    }

    /// The message, the cure and the cause.
    pub fn into_parts(self) -> (String, Option<String>, Option<Source>) {
        (self.message, self.hint, self.source)
    }

    /// The category.
    pub fn kind(&self) -> MediumErrorKind {
        self.kind
    }

    /// The message of this error alone, without its causes.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The outermost fix in the chain of causes.
    pub fn cure(&self) -> Option<&str> {
        crate::causes(self).find_map(|error| error.downcast_ref::<MediumError>()?.hint.as_deref())
    }

    /// The message and all its causes, on one line.
    pub fn chain(&self) -> String {
        crate::chain(self)
    }
}

impl fmt::Display for MediumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for MediumError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}

/// Converts any error into a [`MediumError`] with a message that says what was being done.
pub trait Context<T> {
    /// Wraps an error as the cause of a [`MediumErrorKind::Refused`].
    ///
    /// # Errors
    /// The error as the cause of a [`MediumErrorKind::Refused`].
    fn refused(self, message: impl FnOnce() -> String) -> Result<T, MediumError>;
    /// Wraps an error as the cause of a [`MediumErrorKind::Failed`].
    ///
    /// # Errors
    /// The error as the cause of a [`MediumErrorKind::Failed`].
    fn failed(self, message: impl FnOnce() -> String) -> Result<T, MediumError>;
}

impl<T, E: Into<Source>> Context<T> for Result<T, E> {
    fn refused(self, message: impl FnOnce() -> String) -> Result<T, MediumError> {
        self.map_err(|e| MediumError::refused(message()).because(e))
    }
    fn failed(self, message: impl FnOnce() -> String) -> Result<T, MediumError> {
        self.map_err(|e| MediumError::failed(message()).because(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_names_every_cause_and_the_nearest_cure() {
        let inner = MediumError::failed("no such file").hint("create it");
        let outer = MediumError::refused("cannot open the volume").because(inner);
        assert_eq!(outer.chain(), "cannot open the volume: no such file");
        assert_eq!((outer.message(), outer.to_string().as_str()), ("cannot open the volume", "cannot open the volume"));
        assert_eq!(outer.cure(), Some("create it"));
        assert_eq!(outer.kind(), MediumErrorKind::Refused);
        assert_eq!(outer.hint("look at it").cure(), Some("look at it"));
        assert_eq!(MediumError::bug("x").because(std::io::Error::other("y")).cure(), None);
    }
}
