//! Series whose points are not joined by straight lines: scatter plots and steps.

use crate::format;
use crate::picture::{Picture, full_name, interval};
use crate::svg::{Svg, num};
use pocketstone_study::views::model::{Beside, Figure, Point, Series};

/// What a point has beside its place.
pub(crate) fn beside<'a>(figure: &'a Figure, series: &Series, point: &Point) -> Option<&'a Beside> {
    let number = figure.series.iter().position(|s| std::ptr::eq(s, series))?;
    let at = series.points.iter().position(|p| std::ptr::eq(p, point))?;
    figure.beside.iter().find(|b| b.series == number && b.point == at)
}

/// The path of steps: each value holds until the next point.
pub(crate) fn steps(places: &[Option<(f64, f64)>]) -> String {
    let (mut path, mut pen) = (String::new(), false);
    for place in places {
        match (place, pen) {
            (None, _) => pen = false,
            (Some((x, y)), true) => path += &format!("H{}V{}", num(*x), num(*y)),
            (Some((x, y)), false) => {
                path += &format!("M{} {}", num(*x), num(*y));
                pen = true;
            }
        }
    }
    path
}

impl Picture<'_> {
    /// A horizontal line from one end of the interval of x to the other, with a cap at each.
    pub(crate) fn whisker_across(&self, beside: &Beside, (x, y): (f64, f64)) -> Option<String> {
        let end = |value: Option<f64>| value.and_then(|v| self.x.place(v)).map(|at| self.across(at));
        let (low, high) = (end(beside.x_low), end(beside.x_high));
        low.or(high)?;
        let cap = |end: Option<f64>| match end {
            Some(end) => format!("M{} {}v7", num(end), num(y - 3.5)),
            None => String::new(),
        };
        let line = format!("M{} {}H{}", num(low.unwrap_or(x)), num(y), num(high.unwrap_or(x)));
        Some(line + &cap(low) + &cap(high))
    }

    /// The label of a point, on the side of it where there is room.
    pub(crate) fn label(&self, svg: &mut Svg, beside: &Beside, (x, y): (f64, f64)) {
        if beside.label.is_empty() {
            return;
        }
        let left = x > (self.across(0.0) + self.across(1.0)) / 2.0;
        let (x, anchor) = if left { (x - 8.0, "end") } else { (x + 8.0, "start") };
        let (x, y) = (num(x), num(y - 7.0));
        svg.leaf("text", &[("class", "pl"), ("x", &x), ("y", &y), ("text-anchor", anchor)], &beside.label);
    }
}

/// A scatter plot as a table: a row for each point.
pub(crate) fn table(figure: &Figure) -> (Vec<String>, Vec<Vec<String>>) {
    let labels = figure.beside.iter().any(|b| !b.label.is_empty());
    let mut columns = vec!["series".to_owned()];
    columns.extend(labels.then(|| "point".to_owned()));
    columns.extend([figure.x.label.clone(), figure.y.label.clone()]);
    let mut rows = Vec::new();
    for series in &figure.series {
        for point in &series.points {
            let beside = beside(figure, series, point);
            let mut row = vec![full_name(series)];
            row.extend(labels.then(|| beside.map(|b| b.label.clone()).unwrap_or_default()));
            let with = |text: String, interval: Option<String>| match interval {
                Some(interval) => format!("{text} ({interval})"),
                None => text,
            };
            let across = beside.and_then(|b| interval(&figure.x.scale, b.x_low, b.x_high));
            row.push(with(format::value(figure.x.scale, point.x), across));
            let down = interval(&figure.y.scale, point.low, point.high);
            row.push(with(format::value(figure.y.scale, point.y), down));
            rows.push(row);
        }
    }
    (columns, rows)
}
