//! How much a report shows.

use crate::explore::Room;

/// How much detail goes into a report; what goes beyond is left out, and the page says so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Points of one series that get a marker of their own.
    pub markers: usize,
    /// Rows of one table.
    pub rows: usize,
    /// Whether figures are drawn on linear and logarithmic axes.
    pub both_axes: bool,
    /// Squares of one heat map.
    pub squares_of_one: usize,
    /// Squares, over all heat maps, that get a title of their own.
    pub squares: usize,
    /// Titles of one time line.
    pub areas: usize,
    /// Spans of one time line that a reader can zoom in on.
    pub spans: usize,
    /// System calls of one query.
    pub calls: usize,
    /// Characters of one console tail, message or paragraph.
    pub text: usize,
    /// Entries of each list (claims, failures, figures and so on).
    pub entries: usize,
    /// How much of what a reader may try out.
    pub explorer: Room,
}

impl Limits {
    /// What ordinary studies never reach.
    pub(crate) const FULL: Limits = Limits {
        markers: 200,
        rows: 400,
        both_axes: true,
        squares_of_one: 8192,
        squares: 2500,
        areas: 1000,
        spans: 5000,
        calls: 60,
        text: 8000,
        entries: 200,
        explorer: Room::Whole,
    };

    /// Less of everything, but for what a page is worth nothing without.
    pub(crate) fn smaller(self) -> Limits {
        Limits {
            markers: self.markers / 2,
            rows: self.rows / 2,
            both_axes: false,
            squares_of_one: (self.squares_of_one / 2).max(512),
            squares: self.squares / 2,
            areas: self.areas / 2,
            spans: self.spans / 2,
            calls: (self.calls / 2).max(4),
            text: self.text / 2,
            entries: (self.entries / 2).max(8),
            explorer: self.explorer.less(),
        }
    }
}
