//! Where a mistake stands in a profile.

use pocketstone_core::Error;
use std::ops::Range;

/// Names the place of an error in a profile.
pub(super) struct Place<'a> {
    /// The file, as errors name it.
    pub file: &'a str,
    /// Its text.
    pub text: &'a str,
}

impl Place<'_> {
    /// `FILE:LINE:COLUMN: what is wrong`, the line itself, and the cure.
    pub fn error(&self, span: Range<usize>, wrong: impl AsRef<str>, cure: impl Into<String>) -> Error {
        // A span from `toml` starts at a character; a made one may not, so nothing is sliced blindly.
        let start = (0..=span.start.min(self.text.len())).rev().find(|i| self.text.is_char_boundary(*i)).unwrap_or(0);
        let before = self.text.get(..start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let shown = self.text.lines().nth(line - 1).unwrap_or_default().trim();
        Error::user(format!("{}:{line}:{column}: {}\n  | {shown}", self.file, wrong.as_ref())).hint(cure)
    }
}
