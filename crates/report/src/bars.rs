//! Bars: a group for each name on the horizontal axis, a bar in it for each series.

use crate::numbers::{GROUP, WIDEST, number};
use crate::picture::{Look, Picture};
use crate::svg::{Svg, num};
use pocketstone_study::views::model::Point;

/// The part of a bar's room that it takes.
const BAR: f64 = 0.86;

impl Picture<'_> {
    /// Draws the bars, their intervals and their numbers.
    pub(crate) fn bars(&self, svg: &mut Svg, looks: &[Look]) {
        let room = (self.across(1.0) - self.across(0.0)) / self.figure.names.len() as f64 * GROUP;
        let step = room / looks.len().max(1) as f64;
        for (place, (series, look)) in self.figure.series.iter().zip(looks).enumerate() {
            svg.open("g", &[("class", &look.class())]);
            let shift = (place as f64 + 0.5) * step - room / 2.0;
            for point in &series.points {
                let (Some(x), Some(y)) = (self.x.place(point.x), self.y.place(point.y)) else { continue };
                let (x, y) = (self.across(x) + shift, self.down(y));
                let base = self.down(self.y.place(0.0).unwrap_or(0.0));
                let half = (step * BAR).min(WIDEST) / 2.0;
                let outline = format!("M{} {}V{}h{}V{}z", num(x - half), num(base), num(y), num(2.0 * half), num(base));
                svg.open("g", &[("class", "pt")]);
                svg.leaf("title", &[], &self.describe(series, point));
                svg.empty("path", &[("class", "bar"), ("d", &outline)]);
                svg.close("g");
                let end = self.bar_whisker(svg, point, x);
                number(svg, &self.y.describe(point.y), (x, y), end, step);
            }
            svg.close("g");
        }
    }

    /// A line over the interval; where its upper end lies.
    pub(crate) fn bar_whisker(&self, svg: &mut Svg, point: &Point, x: f64) -> Option<f64> {
        let (low, high) = (self.end(point.low)?, self.end(point.high)?);
        let line = format!("M{} {}V{}", num(x), num(low), num(high));
        svg.empty("path", &[("class", "whisker on-bar"), ("d", &line)]);
        Some(high)
    }
}
