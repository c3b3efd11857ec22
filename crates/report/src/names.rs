//! Names below bars: broken into lines, turned, or left out between others, so that none runs into the next.

use crate::axis::Tick;

/// Width of a letter at the size used on phones, on the average.
const CHAR: f64 = 9.6;
/// Lines of one name.
const LINES: usize = 3;

/// What stands below the ticks of an axis.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Names {
    /// The lines of each; empty where ticks have numbers.
    pub lines: Vec<Vec<String>>,
    /// By how many degrees they are turned, so that they end below their ticks.
    pub turned: u32,
}

impl Names {
    /// What they take beyond one line of `line` units.
    pub(crate) fn height(&self, line: f64) -> f64 {
        let longest = || self.lines.iter().flatten().map(|l| l.chars().count()).max().unwrap_or(0) as f64 * CHAR;
        match self.turned {
            0 => self.lines.iter().map(Vec::len).max().unwrap_or(1).saturating_sub(1) as f64 * line,
            degrees => (longest() * f64::from(degrees).to_radians().sin() - line / 2.0).max(0.0),
        }
    }
}

/// What is below ticks that have `room` units each, of which the first is `left` units from the picture's side. Of
/// numbers (`thin`) some are left out where they have too little. Names are broken between their words, and turned
/// where one of their words is too long for a line.
pub(crate) fn below(ticks: &[Tick], room: f64, left: f64, thin: bool) -> Names {
    if thin {
        let longest = ticks.iter().map(|t| t.label.chars().count()).max().unwrap_or(0);
        let every = every(((longest as f64 + 1.0) * CHAR / room).ceil() as usize);
        // Numbers one after the other are written where they are round.
        let first = ticks
            .first()
            .and_then(|t| t.label.parse::<usize>().ok())
            .filter(|first| ticks.iter().enumerate().all(|(i, t)| t.label.parse() == Ok(first + i)));
        let shown = |i: usize| (first.unwrap_or(0) + i) % every == 0;
        let label = |(i, tick): (usize, &Tick)| if shown(i) { vec![tick.label.clone()] } else { Vec::new() };
        return Names { lines: ticks.iter().enumerate().map(label).collect(), turned: 0 };
    }
    let most = (room / CHAR).floor() as usize;
    if ticks.iter().all(|tick| words(&tick.label).all(|word| width(word) <= most)) {
        return Names { lines: ticks.iter().map(|tick| lines(&tick.label, most)).collect(), turned: 0 };
    }
    let cut: Vec<Vec<String>> = ticks.iter().map(|tick| vec![short(&tick.label, TURNED)]).collect();
    let longest = cut.iter().flatten().map(|l| l.chars().count()).max().unwrap_or(0) as f64 * CHAR;
    // Slanted ones are read more easily, upright ones take less room.
    let turned = if room >= SLANTED && longest * std::f64::consts::FRAC_1_SQRT_2 <= left { 45 } else { 90 };
    Names { lines: cut, turned }
}

/// Letters of a name that is turned.
const TURNED: usize = 20;
/// Room at which slanted names do not run into each other.
const SLANTED: f64 = 28.0;

/// The parts of a name that are not broken.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split_inclusive([' ', '-', ',', '/', '_'])
}

fn width(text: &str) -> usize {
    text.trim_end().chars().count()
}

/// A text of at most so many letters.
fn short(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// The next number of 1, 2, 5, 10 and so on.
fn every(least: usize) -> usize {
    (0..).flat_map(|e| [1, 2, 5].map(|d| d * 10usize.pow(e))).find(|&n| n >= least.max(1)).unwrap_or(1)
}

/// A name in lines of at most so many letters, broken behind spaces, hyphens and commas; no word is longer.
fn lines(name: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words(name) {
        match lines.last_mut() {
            Some(line) if width(&format!("{line}{word}")) <= most => line.push_str(word),
            _ => lines.push(word.to_owned()),
        }
    }
    let more = lines.len() > LINES;
    lines.truncate(LINES);
    for line in &mut lines {
        *line = line.trim_end().to_owned();
    }
    if let Some(last) = lines.last_mut().filter(|_| more) {
        *last = format!("{}…", last.chars().take(most.saturating_sub(1)).collect::<String>());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(labels: &[&str]) -> Vec<Tick> {
        labels.iter().map(|l| Tick { at: 0.0, value: 0.0, label: (*l).to_owned() }).collect()
    }

    #[test]
    fn names_are_broken_where_they_have_joints_and_turned_where_not() {
        let named = |room: f64| below(&ticks(&["ycsb-a on sqlite", "null"]), room, 100.0, false);
        assert_eq!(named(200.0).lines, [vec!["ycsb-a on sqlite"], vec!["null"]]);
        assert_eq!(named(96.0).lines, [vec!["ycsb-a on", "sqlite"], vec!["null"]]);
        let small = below(&ticks(&["a lot of it on it at", "null"]), 50.0, 100.0, false);
        assert_eq!(small.lines[0], ["a lot", "of it", "on i…"], "a fourth line would hold the rest");
        // Eleven letters of 9.6 units have no room in 100, and on the slant they take 75.
        let turned = |left| below(&ticks(&["pocketdata-a", "x"]), 100.0, left, false);
        assert_eq!(
            (turned(100.0).lines, turned(100.0).turned),
            (vec![vec!["pocketdata-a".to_owned()], vec!["x".into()]], 45)
        );
        assert_eq!(turned(60.0).turned, 90, "on the slant it would leave the picture");
    }

    #[test]
    fn a_short_name_is_whole_among_twelve() {
        // 12 places in a picture of 560 units, of which 100 are beside them.
        let labels = ["none", "1ms", "2ms", "4ms", "8ms", "6ms", "7ms", "9ms", "3ms", "5ms", "16ms", "lognormal:6ms"];
        let names = below(&ticks(&labels), 35.0, 100.0, false);
        assert_eq!(names.lines.iter().flatten().collect::<Vec<_>>(), labels.iter().collect::<Vec<_>>());
        assert_eq!(names.turned, 45);
        assert!(names.height(20.0) > 70.0);
        assert_eq!(below(&ticks(&labels), 20.0, 100.0, false).turned, 90, "slanted they would run into each other");
    }

    #[test]
    fn of_many_numbers_some_are_written() {
        let labels: Vec<String> = (1..=100).map(|n| n.to_string()).collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        // Four letters of 9.6 units over 5 units a bar: every eighth at the least, so every tenth.
        let shown = below(&ticks(&labels), 5.0, 50.0, true).lines;
        let written: Vec<usize> = (0..100).filter(|&i| !shown[i].is_empty()).collect();
        assert_eq!(written, (9..100).step_by(10).collect::<Vec<_>>(), "10, 20, 30 and so on");
        assert!(below(&ticks(&["1", "2"]), 100.0, 50.0, true).lines.iter().all(|l| l.len() == 1));
    }
}
