//! The same colour for the same series in every figure of a page.

use pocketstone_study::views::model::{Figure, Series};
use std::collections::BTreeMap;

/// Colours, and markers, that are told apart.
pub(crate) const COLOURS: usize = 8;

/// The numbers of what several figures show.
#[derive(Debug, Default)]
pub(crate) struct Palette(BTreeMap<String, usize>);

/// What a series is about: its name without the words that say who reports it.
pub(crate) fn subject(name: &str) -> String {
    let lower = name.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty());
    words.filter(|w| !["paper", "measured", "the", "reported"].contains(w)).collect::<Vec<_>>().join(" ")
}

/// What tells the colours of a figure apart: its stacks where several stand side by side, else its series.
fn subjects(figure: &Figure) -> Vec<String> {
    let several = figure.stacked && figure.stacks.len() > 1;
    let series = |s: &Series| subject(&s.name);
    match several {
        true => figure.stacks.iter().map(|stack| subject(&stack.name)).collect(),
        false => figure.series.iter().map(series).collect(),
    }
}

impl Palette {
    /// Numbers for what at least two of the figures have, in the order in which they show it.
    pub(crate) fn of<'a>(figures: impl Iterator<Item = &'a Figure>) -> Palette {
        let mut counts: Vec<(String, usize)> = Vec::new();
        for figure in figures {
            let mut own = subjects(figure);
            own.sort();
            own.dedup();
            // In the figure's order.
            for name in subjects(figure) {
                let Ok(at) = own.binary_search(&name) else { continue };
                own.remove(at);
                match counts.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((name, 1)),
                }
            }
        }
        let shared = counts.into_iter().filter(|(name, count)| *count > 1 && !name.is_empty());
        Palette(shared.enumerate().map(|(number, (name, _))| (name, number)).collect())
    }

    /// A number for each subject of one figure: the shared ones, and for the others what those leave. Of two that
    /// would have one colour, the second gets another one.
    pub(crate) fn numbers(&self, subjects: &[String]) -> Vec<usize> {
        let shared: Vec<Option<usize>> = subjects.iter().map(|name| self.0.get(name).copied()).collect();
        let mut numbers: Vec<Option<usize>> = vec![None; subjects.len()];
        let mut used = [false; COLOURS];
        for (place, number) in shared.iter().enumerate() {
            if let Some(number) = number.filter(|number| !used[number % COLOURS]) {
                used[number % COLOURS] = true;
                numbers[place] = Some(number);
            }
        }
        let numbered = numbers.into_iter().enumerate().map(|(place, number)| {
            number.unwrap_or_else(|| {
                // Beyond as many as there are, colours repeat with other markers.
                let free = (0..COLOURS).find(|colour| !used[*colour]);
                let number = free.unwrap_or(place.max(COLOURS));
                used[number % COLOURS] = true;
                number
            })
        });
        numbered.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(names: &[&str]) -> Figure {
        let series = names.iter().map(|name| Series { name: (*name).into(), ..Series::default() });
        Figure { series: series.collect(), ..Figure::default() }
    }

    #[test]
    fn what_two_figures_show_has_one_colour_and_no_figure_has_one_twice() {
        let figures = [figure(&["a", "b", "c"]), figure(&["x", "c", "The paper: b"]), figure(&["y", "z"])];
        let palette = Palette::of(figures.iter());
        let numbers = |figure: &Figure| palette.numbers(&subjects(figure));
        // b and c are shared: 0 and 1.
        assert_eq!(numbers(&figures[0]), [2, 0, 1]);
        assert_eq!(numbers(&figures[1]), [2, 1, 0]);
        assert_eq!(numbers(&figures[2]), [0, 1]);
        let many: Vec<String> = (0..12).map(|n| format!("s{n}")).collect();
        let names: Vec<&str> = many.iter().map(String::as_str).collect();
        let two = [figure(&names), figure(&[names[8], names[0]])];
        let palette = Palette::of(two.iter());
        let first = palette.numbers(&subjects(&two[0]));
        assert_eq!(first[0], 0);
        let colours: Vec<usize> = first[..8].iter().map(|n| n % COLOURS).collect();
        assert!((0..8).all(|c| first.iter().any(|n| n % COLOURS == c)), "{colours:?}");
        assert_eq!(palette.numbers(&subjects(&two[1])), [1, 0]);
    }
}
