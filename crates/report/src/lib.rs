//! The report of one run: a single HTML file that opens from disk, without a network.
//!
//! Everything is drawn here, in Rust: charts and heat maps are inline SVG, readable with scripts
//! switched off, in print, and through the tables below them. The little script in `script.js`
//! only makes tooltips nicer. All text of the model is untrusted and escaped.

mod axis;
mod bars;
mod chain;
mod chart;
mod distribution;
mod explore;
mod format;
mod heatmap;
mod joined;
mod names;
mod page;
pub mod perfetto;
mod stacked;
mod svg;
mod timeline;

use pocketstone_core::{Error, Result};
use pocketstone_study::model::Model;

/// No report is larger than this many bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// How much detail goes into a report; what goes beyond is left out, and the page says so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Points of one series that get a marker of their own.
    pub markers: usize,
    /// Rows of one table.
    pub rows: usize,
    /// Squares of one heat map.
    pub squares_of_one: usize,
    /// Squares, over all heat maps, that get a title of their own.
    pub squares: usize,
    /// Titles of one time line.
    pub areas: usize,
    /// System calls of one query.
    pub calls: usize,
    /// Characters of one console tail, message or paragraph.
    pub text: usize,
    /// Entries of each list (claims, failures, figures and so on).
    pub entries: usize,
    /// How much of what a reader may try out.
    pub explorer: explore::Room,
}

impl Limits {
    /// What ordinary studies never reach.
    pub(crate) const FULL: Limits = Limits {
        markers: 200,
        rows: 400,
        squares_of_one: 8192,
        squares: 2500,
        areas: 1000,
        calls: 60,
        text: 8000,
        entries: 200,
        explorer: explore::Room::Whole,
    };

    fn smaller(self) -> Limits {
        Limits {
            markers: self.markers / 2,
            rows: self.rows / 2,
            squares_of_one: (self.squares_of_one / 2).max(512),
            squares: self.squares / 2,
            areas: self.areas / 2,
            calls: (self.calls / 2).max(4),
            text: self.text / 2,
            entries: (self.entries / 2).max(8),
            explorer: self.explorer.less(),
        }
    }
}

/// Renders the report of one run as one self-contained HTML file.
///
/// The file is at most [`MAX_BYTES`] long: where a model is too large for that, long lists and
/// texts are cut, with a sentence that says so, and long lines of a chart are thinned.
///
/// # Errors
/// When the model cannot be shown within that size even when cut down, or the template is broken.
pub fn html(model: &Model) -> Result<String> {
    let mut limits = Limits::FULL;
    for _ in 0..6 {
        let page = page::render(model, limits)?;
        if page.len() <= MAX_BYTES {
            return Ok(page);
        }
        limits = limits.smaller();
    }
    Err(Error::user(format!("the report would be larger than {MAX_BYTES} bytes"))
        .hint("split the study in several, with fewer figures and cells each"))
}

#[cfg(test)]
mod tests;
