//! The blocks of a chip as a grid of squares, coloured by the logarithm of their count.

use crate::format::{count, grouped};
use crate::svg::{Svg, num};
use pocketstone_core::words::noun;
use pocketstone_study::views::model::HeatMap;
use serde::Serialize;

/// Shades for counts other than zero.
const LEVELS: usize = 9;
/// Side of a square, in the picture's units.
const SIDE: usize = 10;
/// Room for the block numbers on the left.
const LEFT: usize = 74;
/// Room above and below the grid.
const TOP: usize = 4;
/// More counts than this in one title help nobody.
const MAX_COUNTS: usize = 64;
/// Blocks in the table of the busiest.
const BUSIEST: usize = 12;

/// What the page shows of a heat map.
#[derive(Debug, Serialize)]
pub(crate) struct Grid {
    /// The picture; empty where the chip has no blocks.
    pub svg: String,
    /// How many blocks were touched, and how often.
    pub summary: String,
    /// How to read the picture.
    pub reading: String,
    /// Lowest count of each shade that occurs on the scale, low to high; empty where all is zero.
    pub shades: Vec<Shade>,
    /// Smallest and largest count drawn.
    pub range: (String, String),
    /// The busiest blocks and their counts.
    pub busiest: Vec<(String, String)>,
}

/// A colour of the scale.
#[derive(Debug, Serialize)]
pub(crate) struct Shade {
    number: usize,
    title: String,
}

/// Squares that `draw` will want to give a title of their own.
pub(crate) fn touched(map: &HeatMap) -> usize {
    map.blocks.iter().filter(|&&c| c > 0).count()
}

/// Draws a heat map. With `several` above one, so many neighbouring squares share a title, which
/// keeps a picture small in which most blocks have counts. A chip of more than `most` blocks has
/// several blocks to a square.
pub(crate) fn draw(map: &HeatMap, several: usize, most: usize) -> Grid {
    let group = map.blocks.len().div_ceil(most.max(1)).max(1);
    let squares: Vec<u64> =
        map.blocks.chunks(group).map(|c| c.iter().fold(0, |sum: u64, &n| sum.saturating_add(n))).collect();
    let scale = Levels::new(&squares);
    Grid {
        svg: if squares.is_empty() { String::new() } else { picture(map, &squares, group, several.max(1), scale) },
        summary: summary(map),
        reading: match group {
            1 => format!("One square is one block; block 0 is at the top left, {} blocks to a row.", columns(&squares)),
            _ => format!("One square is {group} blocks; block 0 is at the top left."),
        } + if several > MAX_COUNTS { " Counts of single squares are omitted from this page." } else { "" },
        shades: scale.map_or_else(Vec::new, |s| s.shades(&map.unit)),
        range: scale.map_or_else(Default::default, |s| (count(s.low), count(s.high))),
        busiest: busiest(map),
    }
}

/// Shades evenly spaced by the logarithm of the count, from the smallest to the largest.
#[derive(Debug, Clone, Copy)]
struct Levels {
    low: u64,
    high: u64,
}

impl Levels {
    fn new(squares: &[u64]) -> Option<Levels> {
        let touched = || squares.iter().copied().filter(|&c| c > 0);
        Some(Levels { low: touched().min()?, high: touched().max()? })
    }

    fn of(self, count: u64) -> usize {
        if self.low == self.high {
            return LEVELS / 2;
        }
        (0..LEVELS).rev().find(|&level| self.bound(level) <= count).unwrap_or(0)
    }

    /// Smallest count of a shade.
    fn bound(self, level: usize) -> u64 {
        let ratio = self.high as f64 / self.low as f64;
        // What is a whole number but for rounding is one.
        (self.low as f64 * ratio.powf(level as f64 / LEVELS as f64) * (1.0 - 1e-12)).ceil() as u64
    }

    fn shades(self, unit: &str) -> Vec<Shade> {
        if self.low == self.high {
            return vec![Shade { number: LEVELS / 2, title: grouped(self.low, unit) }];
        }
        let title = |level| {
            let last = if level + 1 == LEVELS { self.high } else { self.bound(level + 1).saturating_sub(1) };
            match (self.bound(level), last) {
                (first, last) if first > last => format!("no whole number of {}", noun(false, unit)),
                (first, last) if first == last => grouped(first, unit),
                (first, last) => format!("{} to {}", count(first), grouped(last, unit)),
            }
        };
        (0..LEVELS).map(|number| Shade { number, title: title(number) }).collect()
    }
}

fn columns(squares: &[u64]) -> usize {
    match squares.len() {
        n if n <= 64 => n.max(1),
        n if n <= 4096 => 64,
        _ => 128,
    }
}

fn picture(map: &HeatMap, squares: &[u64], group: usize, several: usize, scale: Option<Levels>) -> String {
    let columns = columns(squares);
    let rows = squares.len().div_ceil(columns);
    // A small chip keeps the squares of a large one: the page does not blow them up.
    let width = LEFT + columns.max(64) * SIDE;
    let view = format!("0 0 {width} {}", rows * SIDE + 2 * TOP);
    let label = format!("{}. Grid of the chip's blocks by {}. {}", map.title, noun(false, &map.unit), summary(map));
    let mut svg = Svg::default();
    svg.open("svg", &[("class", "heat"), ("role", "img"), ("aria-label", &label), ("viewBox", &view)]);
    let every = (rows / 4).next_power_of_two().max(1);
    for row in (0..rows).step_by(every) {
        let y = num((row * SIDE + TOP) as f64 + SIDE as f64 / 2.0);
        let number = count((row * columns * group) as u64);
        svg.leaf("text", &[("class", "ty"), ("x", &(LEFT - 10).to_string()), ("y", &y), ("dy", ".35em")], &number);
    }
    svg.open("g", &[("transform", &format!("translate({LEFT},{TOP}) scale({SIDE})"))]);
    // All squares at once, as dashes of one line to a row.
    let background: String =
        (0..rows).map(|row| format!("M0 {row}.5h{}", columns.min(squares.len() - row * columns))).collect();
    svg.empty("path", &[("class", "none"), ("d", &background), ("stroke-dasharray", ".9 .1")]);
    if let Some(scale) = scale {
        colours(&mut svg, map, squares, Layout { columns, group, several }, scale);
    }
    svg.close("g");
    svg.close("svg");
    svg.finish()
}

#[derive(Clone, Copy)]
struct Layout {
    columns: usize,
    group: usize,
    several: usize,
}

fn colours(svg: &mut Svg, map: &HeatMap, squares: &[u64], layout: Layout, scale: Levels) {
    let Layout { columns, group, several } = layout;
    let place = |i: usize| format!("M{} {}.5h.9", i % columns, i / columns);
    for level in 0..LEVELS {
        let of_level: Vec<usize> =
            (0..squares.len()).filter(|&i| squares[i] > 0 && scale.of(squares[i]) == level).collect();
        if of_level.is_empty() {
            continue;
        }
        svg.open("g", &[("class", &format!("h{level}"))]);
        if several > 1 {
            svg.empty("path", &[("d", &of_level.iter().map(|&i| place(i)).collect::<String>())]);
        } else {
            for i in of_level {
                svg.open("path", &[("d", &place(i))]);
                let name = blocks(i * group, ((i + 1) * group).min(map.blocks.len()) - 1);
                svg.leaf("title", &[], &format!("{name}: {}", grouped(squares[i], &map.unit)));
                svg.close("path");
            }
        }
        svg.close("g");
    }
    if several > 1 && several <= MAX_COUNTS {
        svg.open("g", &[("class", "areas")]);
        let several = several.min(columns);
        for first in (0..squares.len()).step_by(several) {
            let last = (first + several).min(squares.len());
            if squares[first..last].iter().all(|&c| c == 0) {
                continue;
            }
            let counts: Vec<_> = squares[first..last].iter().map(|&c| count(c)).collect();
            let name = blocks(first * group, (last * group).min(map.blocks.len()) - 1);
            svg.open("path", &[("d", &format!("M{} {}.5h{}", first % columns, first / columns, last - first))]);
            svg.leaf("title", &[], &format!("{name}: {} {}", counts.join(", "), noun(false, &map.unit)));
            svg.close("path");
        }
        svg.close("g");
    }
}

fn blocks(first: usize, last: usize) -> String {
    match first == last {
        true => format!("block {first}"),
        false => format!("blocks {first} to {last}"),
    }
}

fn summary(map: &HeatMap) -> String {
    let touched = map.blocks.iter().filter(|&&c| c > 0).count();
    let total = map.blocks.iter().fold(0u64, |sum, &c| sum.saturating_add(c));
    if total == 0 {
        let blocks = grouped(map.blocks.len() as u64, "block");
        return format!("No {} in any of {blocks}.", noun(false, &map.unit));
    }
    let (all, of) = (grouped(total, &map.unit), grouped(map.blocks.len() as u64, "block"));
    format!("{all} in {} of {of}.", count(touched as u64))
}

fn busiest(map: &HeatMap) -> Vec<(String, String)> {
    let mut order: Vec<usize> = (0..map.blocks.len()).filter(|&i| map.blocks[i] > 0).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(map.blocks[i]), i));
    order.into_iter().take(BUSIEST).map(|i| (i.to_string(), count(map.blocks[i]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(blocks: Vec<u64>) -> HeatMap {
        HeatMap { id: "h".into(), title: "T".into(), caption: String::new(), unit: "page sense".into(), blocks }
    }

    #[test]
    fn each_block_with_a_count_has_its_title_and_place_and_the_others_have_none() {
        let mut blocks = vec![0; 2048];
        (blocks[17], blocks[64], blocks[2047]) = (230, 1, 12_345);
        let grid = draw(&map(blocks), 1, 8192);
        assert!(grid.svg.contains("<path d=\"M17 0.5h.9\"><title>block 17: 230 page senses</title></path>"));
        assert!(grid.svg.contains("<path d=\"M0 1.5h.9\"><title>block 64: 1 page sense</title></path>"));
        assert!(
            grid.svg.contains("<path d=\"M63 31.5h.9\"><title>block 2047: 12\u{202f}345 page senses</title></path>")
        );
        assert_eq!(grid.svg.matches("<title>").count(), 3);
        assert!(grid.svg.len() < 2500, "{}", grid.svg.len());
        assert_eq!(grid.range, ("1".into(), "12\u{202f}345".into()));
        assert_eq!(grid.busiest[0], ("2047".into(), "12\u{202f}345".into()));
        assert_eq!(grid.summary, "12\u{202f}576 page senses in 3 of 2048 blocks.");
    }

    #[test]
    fn shades_follow_the_logarithm() {
        let levels = Levels::new(&[1, 0, 512]).unwrap();
        // 512 is two to the ninth and there are nine shades: one for each doubling.
        for (count, level) in [(1, 0), (3, 1), (5, 2), (100, 6), (300, 8), (512, 8)] {
            assert_eq!(levels.of(count), level, "{count}");
        }
        for level in 0..LEVELS {
            let (first, last) = (1 << level, (2 << level) - 1);
            assert_eq!((levels.of(first), levels.of(last)), (level, level), "{first} to {last}");
        }
        let titles: Vec<String> = levels.shades("page").into_iter().map(|shade| shade.title).collect();
        assert_eq!((titles.len(), &titles[5][..], &titles[8][..]), (9, "32 to 63 pages", "256 to 512 pages"));
    }

    #[test]
    fn odd_chips() {
        assert_eq!(draw(&map(vec![]), 1, 8192).svg, "");
        let zero = draw(&map(vec![0; 100]), 1, 8192);
        assert!(zero.shades.is_empty() && !zero.svg.contains("<title>"));
        assert!(zero.svg.contains("M0 0.5h64M0 1.5h36"), "the last row has 36 blocks");
        assert_eq!(draw(&map(vec![7; 3]), 1, 8192).shades.len(), 1);
        let extreme = draw(&map(vec![1, u64::MAX, u64::MAX]), 1, 8192);
        assert!(extreme.svg.contains("h8") && extreme.svg.contains("h0"));
    }

    #[test]
    fn a_full_chip_stays_small_and_every_count_can_still_be_read() {
        let full = map((0..2048).map(|i| 10_000 + i).collect());
        let grid = draw(&full, 4, 8192);
        assert!(
            grid.svg
                .contains("blocks 16 to 19: 10\u{202f}016, 10\u{202f}017, 10\u{202f}018, 10\u{202f}019 page senses")
        );
        assert!(grid.svg.len() < 100_000, "{}", grid.svg.len());
        let large = draw(&map(vec![3; 1 << 17]), 8, 8192);
        assert!(large.svg.contains("blocks 0 to 127: 48, 48, 48, 48, 48, 48, 48, 48 page senses"));
        assert!(large.svg.len() < 300_000, "{}", large.svg.len());
    }
}
