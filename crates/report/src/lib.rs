//! The report of one run: a single HTML file that opens from disk, without a network.
//!
//! Everything is drawn here, in Rust: charts and heat maps are inline SVG, readable with scripts
//! switched off, in print, and through the tables below them. The little script in `script.js` makes tooltips nicer,
//! switches between axes and saves pictures, the one in `zoom.js` draws parts of a time line. All text of the model is
//! untrusted and escaped.

mod area;
mod axis;
mod bars;
mod chain;
mod chart;
mod distribution;
mod explore;
mod format;
mod heatmap;
mod joined;
mod limits;
mod names;
mod numbers;
mod page;
mod palette;
pub mod perfetto;
mod picture;
mod shades;
mod stacked;
mod svg;
mod timeline;
mod zoom;

use limits::Limits;
use pocketstone_core::{Error, Result};
use pocketstone_study::views::model::Model;

/// No report is larger than this many bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// Renders the report of one run as one self-contained HTML file.
///
/// The file is at most [`MAX_BYTES`] long: where a model is too large for that, long lists and
/// texts are cut, with a sentence that says so, and long lines of a chart are thinned.
///
/// # Errors
/// `ErrorKind::User` if the page would exceed [`MAX_BYTES`] even when cut down; `ErrorKind::Bug` if the template is
/// broken.
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
