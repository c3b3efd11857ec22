//! Stacked bars: at each place one bar for each stack, made of its parts from the bottom up.

use crate::axis::drawable;
use crate::numbers::{GROUP, WIDEST, number};
use crate::picture::{Look, Picture};
use crate::svg::{Svg, num};
use pocketstone_study::views::model::{Figure, Point, Scale, Stack};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The part of a bar's room that it takes, where there are few of them and where there are many.
const BAR: f64 = 0.86;
const NARROW_BAR: f64 = 0.96;

/// Where the bars of a stacked figure stand, and of what they are made.
#[derive(Debug)]
pub(crate) struct Layout<'a> {
    /// What stands below each place.
    pub names: Vec<String>,
    /// The horizontal value of each place.
    xs: Vec<f64>,
    pub stacks: Cow<'a, [Stack]>,
    /// One place of so many is drawn.
    pub every: usize,
}

/// Numbers as keys; -0 is 0.
fn key(x: f64) -> u64 {
    (x + 0.0).to_bits()
}

/// Whether a part has a place in a bar.
pub(crate) fn placed(figure: &Figure, point: &Point) -> bool {
    point.x.is_finite()
        && point.y >= 0.0
        && drawable(Scale::Linear, point.y)
        && (figure.names.is_empty() || (point.x >= 0.0 && point.x < figure.names.len() as f64))
}

/// The places at which a stack lacks a part, so that what is drawn there is no total.
fn lacking(figure: &Figure, stack: &Stack) -> BTreeSet<u64> {
    let points = stack.series.iter().filter_map(|&s| figure.series.get(s)).flat_map(|series| &series.points);
    points.filter(|p| !placed(figure, p)).map(|p| key(p.x)).collect()
}

/// The height of a stack's bar at each place.
fn totals(figure: &Figure, stack: &Stack) -> BTreeMap<u64, f64> {
    let mut totals: BTreeMap<u64, f64> = BTreeMap::new();
    for series in stack.series.iter().filter_map(|&s| figure.series.get(s)) {
        for point in series.points.iter().filter(|p| placed(figure, p)) {
            *totals.entry(key(point.x)).or_default() += point.y;
        }
    }
    totals
}

impl<'a> Layout<'a> {
    /// The places of a figure, of which at most about `most` bars are drawn; none where it has no values.
    pub(crate) fn new(figure: &'a Figure, most: usize) -> Option<Layout<'a>> {
        let stacks: Cow<'a, [Stack]> = match figure.stacks.is_empty() {
            true => vec![Stack { series: (0..figure.series.len()).collect(), ..Stack::default() }].into(),
            false => figure.stacks.as_slice().into(),
        };
        let mut xs: Vec<f64> =
            figure.series.iter().flat_map(|s| &s.points).filter(|p| placed(figure, p)).map(|p| p.x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup_by_key(|x| key(*x));
        if xs.is_empty() {
            return None;
        }
        if !figure.names.is_empty() {
            xs = (0..figure.names.len()).map(|n| n as f64).collect();
        }
        let every = (xs.len() * stacks.len()).div_ceil(most.max(1)).max(1);
        let xs: Vec<f64> = xs.into_iter().step_by(every).collect();
        let names = xs.iter().map(|&x| crate::picture::x_text(figure, x)).collect();
        Some(Layout { names, xs, stacks, every })
    }

    /// How a series is coloured, as stack and part, where there are several stacks.
    pub(crate) fn part(stacks: &[Stack], series: usize) -> Option<(usize, usize)> {
        let part = |stack: &Stack| stack.series.iter().position(|&s| s == series);
        stacks.iter().enumerate().find_map(|(n, stack)| Some((n, part(stack)?)))
    }

    /// Whether bars may be wide enough for a number above them.
    pub(crate) fn has_numbers(&self) -> bool {
        self.xs.len() * self.stacks.len() <= 40
    }

    /// The heights of all bars, and the upper ends of their intervals.
    pub(crate) fn heights(&self, figure: &Figure) -> Vec<f64> {
        let mut heights: Vec<f64> = Vec::new();
        for stack in self.stacks.iter() {
            heights.extend(totals(figure, stack).values());
            heights.extend(stack.totals.iter().filter_map(|p| p.high));
        }
        heights
    }
}

impl Picture<'_> {
    /// Draws the bars, the whiskers of their totals and the totals as numbers where they have room.
    pub(crate) fn stacked_bars(&self, svg: &mut Svg, looks: &[Look], layout: &Layout<'_>) {
        let room = (self.across(1.0) - self.across(0.0)) / layout.xs.len() as f64;
        let step = room * GROUP / layout.stacks.len() as f64;
        let width = (step * if step < 8.0 { NARROW_BAR } else { BAR }).min(WIDEST);
        let places: BTreeMap<u64, usize> = layout.xs.iter().enumerate().map(|(i, x)| (key(*x), i)).collect();
        for (at, stack) in layout.stacks.iter().enumerate() {
            let shift = (at as f64 + 0.5) * step - room * GROUP / 2.0;
            let mut totals = totals(self.figure, stack);
            let lacking = lacking(self.figure, stack);
            totals.retain(|x, _| !lacking.contains(x));
            let mut reached: BTreeMap<u64, f64> = BTreeMap::new();
            for series in stack.series.iter().copied() {
                let (Some(series), Some(look)) = (self.figure.series.get(series), looks.get(series)) else { continue };
                svg.open("g", &[("class", &look.class())]);
                for point in series.points.iter().filter(|p| placed(self.figure, p)) {
                    let Some(&place) = places.get(&key(point.x)) else { continue };
                    let from = reached.entry(key(point.x)).or_default();
                    let ends = (self.y.place(*from), self.y.place(*from + point.y));
                    *from += point.y;
                    let (Some(low), Some(high)) = ends else { continue };
                    let x = self.column(place, layout.xs.len()) + shift - width / 2.0;
                    let (low, high) = (self.down(low), self.down(high));
                    let outline = format!("M{} {}V{}h{}V{}z", num(x), num(low), num(high), num(width), num(low));
                    svg.open("g", &[("class", "pt")]);
                    let total = totals.get(&key(point.x)).map(|total| self.y.describe(*total));
                    let total = total.map_or(String::new(), |total| format!("; all parts add up to {total}"));
                    svg.leaf("title", &[], &(self.describe(series, point) + &total));
                    svg.empty("path", &[("class", "bar"), ("d", &outline)]);
                    svg.close("g");
                }
                svg.close("g");
            }
            self.tops(svg, stack, &totals, |x| Some(self.column(*places.get(&key(x))?, layout.xs.len()) + shift), step);
        }
    }

    fn column(&self, place: usize, places: usize) -> f64 {
        self.across((place as f64 + 0.5) / places as f64)
    }

    /// What stands above the bars of a stack.
    fn tops(
        &self,
        svg: &mut Svg,
        stack: &Stack,
        totals: &BTreeMap<u64, f64>,
        middle: impl Fn(f64) -> Option<f64>,
        step: f64,
    ) {
        for (&bits, &total) in totals {
            let (Some(x), Some(y)) = (middle(f64::from_bits(bits)), self.y.place(total)) else { continue };
            let interval = stack.totals.iter().find(|p| key(p.x) == bits);
            let end = interval.and_then(|point| self.bar_whisker(svg, point, x));
            number(svg, &self.y.describe(total), (x, self.down(y)), end, step);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::chart::{Chart, Style};
    use pocketstone_study::views::model::{Axis, Figure, Point, Scale, Series, Stack};

    fn draw(figure: &Figure) -> Chart {
        crate::chart::draw(figure, &Style { markers: 200, rows: 9, ..Style::default() }, &[])
    }

    fn part(name: &str, values: &[(f64, f64)]) -> Series {
        let point = |&(x, y): &(f64, f64)| Point { x, y, ..Point::default() };
        Series { name: name.into(), points: values.iter().map(point).collect(), ..Series::default() }
    }

    fn figure(series: Vec<Series>) -> Figure {
        let y = Axis { label: "Time".into(), scale: Scale::Linear };
        Figure { y, series, stacked: true, ..Figure::default() }
    }

    /// Left, bottom, top and width of each bar, in the order drawn.
    fn bars(svg: &str) -> Vec<[f64; 4]> {
        let bar = |d: &str| {
            let numbers: Vec<f64> = d
                .split(|c: char| "MVhz \"".contains(c))
                .filter(|n| !n.is_empty())
                .map(|n| n.parse().unwrap())
                .collect();
            [numbers[0], numbers[1], numbers[2], numbers[3]]
        };
        svg.split("class=\"bar\" d=\"").skip(1).map(|rest| bar(rest.split('"').next().unwrap())).collect()
    }

    #[test]
    fn parts_lie_upon_each_other_and_their_heights_are_their_values() {
        let chart = draw(&figure(vec![part("a", &[(1.0, 2.0), (5.0, 1.0)]), part("b", &[(1.0, 4.0), (5.0, 3.0)])]));
        let bars = bars(&chart.svg);
        // Totals are 6 and 4; with room for numbers the axis goes to 8, over 250 units: 31.25 for one.
        let heights: Vec<f64> = bars.iter().map(|b| ((b[1] - b[2]) / 31.25 * 10.0).round() / 10.0).collect();
        assert_eq!(heights, [2.0, 1.0, 4.0, 3.0]);
        assert_eq!((bars[0][2], bars[1][2]), (bars[2][1], bars[3][1]), "b begins where a ends");
        assert_eq!((bars[0][0], bars[1][0]), (bars[2][0], bars[3][0]));
        assert!(chart.svg.contains("<title>b: 4 at 1; all parts add up to 6</title>"), "{}", chart.svg);
        assert!(chart.svg.contains(">6</text>") && chart.svg.contains("Stacked bar chart"));
        assert_eq!(chart.rows, [["1", "2", "4"], ["5", "1", "3"]]);
    }

    #[test]
    fn stacks_stand_side_by_side_with_a_whisker_over_their_total() {
        let mut figure = figure(["a", "b", "c", "d"].map(|n| part(n, &[(0.0, 1.0)])).into());
        let totals = vec![Point { x: 0.0, y: 2.0, low: Some(1.5), high: Some(2.5), n: Some(5) }];
        let stack = |name: &str, series: [usize; 2], totals| Stack { name: name.into(), series: series.into(), totals };
        figure.stacks = vec![stack("x", [0, 1], totals), stack("y", [2, 3], vec![])];
        figure.names = vec!["here".into()];
        let chart = draw(&figure);
        let bars = bars(&chart.svg);
        assert!(bars[0][0] == bars[1][0] && bars[2][0] == bars[3][0] && bars[0][0] + bars[0][3] < bars[2][0]);
        assert_eq!(chart.svg.matches("whisker").count(), 1);
        assert_eq!(chart.whiskers.as_deref(), Some("93.7% interval"));
        for class in ["class=\"s0\"", "class=\"s0 p1\"", "class=\"s1\"", "class=\"s1 p1\""] {
            assert!(chart.svg.contains(class), "{class}");
        }
    }

    #[test]
    fn of_very_many_bars_some_are_drawn_and_the_page_says_so() {
        let runs: Vec<(f64, f64)> = (1..=5000).map(|n| (f64::from(n), 1.0)).collect();
        let chart = draw(&figure(vec![part("a", &runs), part("b", &runs)]));
        // At most 400 bars: every 13th of 5000 leaves 385.
        assert_eq!((chart.every, bars(&chart.svg).len()), (13, 2 * 385));
        assert!(chart.svg.len() < 200_000, "{}", chart.svg.len());
    }

    #[test]
    fn a_bar_that_lacks_a_part_has_no_total() {
        let all = [(0.0, 3.0), (1.0, 4.0)];
        let mut figure = figure(vec![part("a", &all), part("b", &[(0.0, f64::NAN), (1.0, 8.0)])]);
        figure.names = vec!["lacks".into(), "whole".into()];
        let chart = draw(&figure);
        assert_eq!((bars(&chart.svg).len(), chart.undrawn), (3, 1));
        assert_eq!(chart.svg.matches("all parts add up to").count(), 2, "{}", chart.svg);
        assert_eq!(chart.svg.matches("class=\"tb").count(), 1, "{}", chart.svg);
        assert!(chart.csv.contains("\"b\",\"lacks\",,,"), "{}", chart.csv);
    }

    #[test]
    fn what_cannot_be_stacked_is_left_out_and_said() {
        let chart = draw(&figure(vec![part("a", &[(0.0, -1.0), (1.0, f64::NAN), (f64::NAN, 1.0), (2.0, 3.0)])]));
        assert_eq!((chart.undrawn, bars(&chart.svg).len()), (3, 1));
        assert!(!chart.svg.contains("NaN"));
        assert_eq!(draw(&figure(vec![part("a", &[])])).svg, "");
        let mut unknown = figure(vec![part("a", &[(0.0, 1.0)])]);
        unknown.stacks = vec![Stack { series: vec![7, 0], ..Stack::default() }];
        assert_eq!(bars(&draw(&unknown).svg).len(), 1);
    }
}
