//! Places in a study's file.

use pocketstone_core::Error;
use std::ops::Range;

/// Names the place of an error in a file.
pub(super) struct Locator<'a> {
    /// The file's name.
    pub file: &'a str,
    /// Its text.
    pub text: &'a str,
}

impl Locator<'_> {
    /// The error with the line that it is about, and that line.
    pub fn error(&self, span: Range<usize>, error: Error) -> Error {
        let start = span.start.min(self.text.len());
        let line_start = self.text[..start].rfind('\n').map_or(0, |n| n + 1);
        let line = self.text[..start].matches('\n').count() + 1;
        let shown = self.text[line_start..].lines().next().unwrap_or_default();
        let column = self.text[line_start..start].chars().count();
        let width = self.text[start..span.end.min(self.text.len())].lines().next().unwrap_or_default().chars().count();
        let gutter = line.to_string();
        let pad = " ".repeat(gutter.len());
        let place = format!(
            "{}:{line}:{}\n{pad} |\n{gutter} | {shown}\n{pad} | {}{}",
            self.file,
            column + 1,
            " ".repeat(column),
            "^".repeat(width.max(1))
        );
        let hint = error.cure().map(str::to_owned);
        let placed = Error::user(format!("{}\n{place}", error.chain()));
        match hint {
            Some(hint) => placed.hint(hint),
            None => placed,
        }
    }
}
