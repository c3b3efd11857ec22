//! Names below bars: broken into lines, or left out between others, so that none runs into the next.

use crate::axis::Tick;

/// Width of a letter at the size used on phones, on the average.
const CHAR: f64 = 9.6;
/// Lines of one name.
const LINES: usize = 3;

/// The lines below each tick that has `room` units. Of numbers (`thin`) some are left out where they have
/// too little, names are broken and cut.
pub(crate) fn below(ticks: &[Tick], room: f64, thin: bool) -> Vec<Vec<String>> {
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
        return ticks.iter().enumerate().map(label).collect();
    }
    let most = ((room / CHAR).floor() as usize).max(3);
    ticks.iter().map(|tick| lines(&tick.label, most)).collect()
}

/// The next number of 1, 2, 5, 10 and so on.
fn every(least: usize) -> usize {
    (0..).flat_map(|e| [1, 2, 5].map(|d| d * 10usize.pow(e))).find(|&n| n >= least.max(1)).unwrap_or(1)
}

/// A name in lines of at most so many letters, broken behind spaces, hyphens and commas where it has any.
fn lines(name: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split_inclusive([' ', '-', ',', '/', '_']) {
        let count = |text: &str| text.trim_end().chars().count();
        match lines.last_mut() {
            Some(line) if count(&format!("{line}{word}")) <= most => line.push_str(word),
            // What fits in no line is broken anywhere.
            _ if count(word) > most => {
                let letters: Vec<char> = word.chars().collect();
                lines.extend(letters.chunks(most).map(|part| part.iter().collect::<String>()));
            }
            _ => lines.push(word.to_owned()),
        }
    }
    let more = lines.len() > LINES;
    lines.truncate(LINES);
    let last = lines.len().saturating_sub(1);
    for (n, line) in lines.iter_mut().enumerate() {
        let cut = n == last && more;
        *line = line.trim_end().to_owned();
        if line.chars().count() + usize::from(cut) > most || cut {
            *line = line.chars().take(most - 1).chain(['…']).collect();
        }
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
    fn names_are_broken_where_they_have_joints_and_cut_where_not() {
        let named = |room: f64| below(&ticks(&["ycsb-a on sqlite", "null"]), room, false);
        assert_eq!(named(200.0), [vec!["ycsb-a on sqlite"], vec!["null"]]);
        assert_eq!(named(96.0), [vec!["ycsb-a on", "sqlite"], vec!["null"]]);
        assert_eq!(named(50.0)[0], ["ycsb-", "a on", "sqli…"], "a fourth line would hold the rest");
        assert_eq!(below(&ticks(&["pocketdata"]), 70.0, false), [["pocketd", "ata"]]);
        for line in named(30.0).concat() {
            assert!(line.chars().count() <= 3, "{line}");
        }
    }

    #[test]
    fn of_many_numbers_some_are_written() {
        let labels: Vec<String> = (1..=100).map(|n| n.to_string()).collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        // Four letters of 9.6 units over 5 units a bar: every eighth at the least, so every tenth.
        let shown = below(&ticks(&labels), 5.0, true);
        let written: Vec<usize> = (0..100).filter(|&i| !shown[i].is_empty()).collect();
        assert_eq!(written, (9..100).step_by(10).collect::<Vec<_>>(), "10, 20, 30 and so on");
        assert!(below(&ticks(&["1", "2"]), 100.0, true).iter().all(|l| l.len() == 1));
    }
}
