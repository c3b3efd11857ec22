//! The same colour for the same series in every figure of a page.

use pocketstone_study::views::model::{Figure, Series};
use std::collections::BTreeMap;

/// Colours that are told apart: the classes `s0` and so on of the page's style.
pub(crate) const COLOURS: usize = 12;

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
    /// Numbers for what at least two of the figures have, in the order in which they show it. `others` are subjects
    /// of what shows them beside the figures.
    pub(crate) fn of<'a>(figures: impl Iterator<Item = &'a Figure>, others: Vec<String>) -> Palette {
        let together: Vec<Vec<String>> = figures.map(subjects).chain([others]).collect();
        let mut counts: Vec<(&String, usize)> = Vec::new();
        for subjects in &together {
            let mut own: Vec<&String> = Vec::new();
            for name in subjects.iter().filter(|name| !name.is_empty()) {
                if own.contains(&name) {
                    continue;
                }
                own.push(name);
                match counts.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((name, 1)),
                }
            }
        }
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        for (name, _) in counts.into_iter().filter(|(_, count)| *count > 1) {
            // Beyond as many as there are, two that no figure has both of may have one colour.
            let beside = |number: usize| {
                let met =
                    |all: &&Vec<String>| all.contains(name) && all.iter().any(|o| numbers.get(o) == Some(&number));
                together.iter().any(|all| met(&all))
            };
            let free = (0..COLOURS).find(|number| !beside(*number));
            let number = if numbers.len() < COLOURS { numbers.len() } else { free.unwrap_or(numbers.len()) };
            numbers.insert(name.clone(), number);
        }
        Palette(numbers)
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
        let palette = Palette::of(figures.iter(), Vec::new());
        let numbers = |figure: &Figure| palette.numbers(&subjects(figure));
        // b and c are shared: 0 and 1.
        assert_eq!(numbers(&figures[0]), [2, 0, 1]);
        assert_eq!(numbers(&figures[1]), [2, 1, 0]);
        assert_eq!(numbers(&figures[2]), [0, 1]);
    }

    #[test]
    fn twelve_have_a_colour_each_and_a_thirteenth_another_marker() {
        let many: Vec<String> = (0..13).map(|n| format!("s{n}")).collect();
        let names: Vec<&str> = many.iter().map(String::as_str).collect();
        let one = figure(&names);
        let numbers = Palette::of([&one].into_iter(), Vec::new()).numbers(&subjects(&one));
        let colours: Vec<usize> = numbers[..12].iter().map(|n| n % COLOURS).collect();
        assert_eq!(colours, (0..12).collect::<Vec<_>>());
        assert!(!numbers[..12].contains(&numbers[12]), "{numbers:?}");
    }

    #[test]
    fn what_a_figure_and_the_explorer_show_has_one_colour() {
        let governors: Vec<String> = ["a", "b", "powersave", "c"].map(subject).into();
        let one = [figure(&["x", "powersave"])];
        let palette = Palette::of(one.iter(), governors.clone());
        assert_eq!(palette.numbers(&subjects(&one[0])), [1, 0]);
        assert_eq!(palette.numbers(&governors), [1, 2, 0, 3]);
    }

    #[test]
    fn of_more_than_there_are_colours_those_that_never_meet_share_one() {
        let names: Vec<String> = (0..24).map(|n| format!("s{n}")).collect();
        let of = |names: &[String]| figure(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let all = [of(&names[..12]), of(&names[..12]), of(&names[12..]), of(&names[12..])];
        let palette = Palette::of(all.iter(), Vec::new());
        for figure in &all {
            let mut colours = palette.numbers(&subjects(figure));
            colours.sort_unstable();
            assert_eq!(colours, (0..12).collect::<Vec<_>>());
        }
    }

    /// A colour of the style sheet in Oklab (Ottosson, 2020), where distances are about those that are seen.
    fn oklab(colour: &str) -> [f64; 3] {
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        let [r, g, b] = [1, 3, 5].map(part);
        let l = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b).cbrt();
        let m = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b).cbrt();
        let s = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b).cbrt();
        [
            0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
            1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
            0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s,
        ]
    }

    #[test]
    fn the_style_has_as_many_colours_and_all_are_told_apart_light_and_dark() {
        let css = include_str!("style.css");
        let themes: Vec<&str> = css.split(":root {").skip(1).take(2).collect();
        assert_eq!(themes.len(), 2);
        for theme in themes {
            let theme = theme.split('}').next().unwrap();
            let colours: Vec<[f64; 3]> = (0..COLOURS)
                .map(|n| oklab(theme.split_once(&format!("--c{n}: ")).unwrap_or_else(|| panic!("no --c{n}")).1))
                .collect();
            for (n, one) in colours.iter().enumerate() {
                assert!(css.contains(&format!(".s{n} {{ --c: var(--c{n}); }}")), "no class s{n}");
                for other in &colours[..n] {
                    let apart = one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                    // A step of 0.02 is seen where both lie side by side.
                    assert!(apart > 0.07, "{one:?} and {other:?} are {apart:.3} apart");
                }
            }
        }
    }
}
