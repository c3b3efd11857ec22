//! Text and tables as wide as the terminal that they are for.

use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};
use std::io::IsTerminal;

/// Columns that output may take, and all that it takes where there is no terminal.
const WIDTH: usize = 100;
/// Columns of a terminal that a column of a table needs, so that most words fit.
const COLUMN: usize = 11;

/// How wide the terminal is that a stream goes to; `None` where it goes elsewhere.
fn terminal(stream: &(impl IsTerminal + std::os::fd::AsFd)) -> Option<usize> {
    let size = stream.is_terminal().then(|| rustix::termios::tcgetwinsize(stream).ok())??;
    Some(usize::from(size.ws_col)).filter(|width| *width >= 20)
}

/// A text whose lines end at words, for a terminal on standard output; lines that follow are indented by `indent`.
pub fn lines(text: &str, indent: usize) -> String {
    terminal(&std::io::stdout()).map_or_else(|| text.to_owned(), |width| wrapped(text, width, indent))
}

fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if !out.is_empty() {
            out.push('\n');
        }
        let words = line.trim_start_matches(' ');
        out.push_str(&line[..line.len() - words.len()]);
        let mut used = line.len() - words.len();
        for (place, word) in words.split(' ').enumerate() {
            let length = word.chars().count();
            if place > 0 && used + 1 + length > width {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', indent));
                used = indent;
            } else if place > 0 {
                out.push(' ');
                used += 1;
            }
            out.push_str(word);
            used += length;
        }
    }
    out
}

/// A table as text: numbers to the right in its last `numbers` columns, `ruled` with a line below each row. Where the
/// terminal is too narrow for its columns, each row is a list of them.
pub fn table(head: &[String], rows: &[Vec<String>], numbers: usize, ruled: bool) -> String {
    let width = terminal(&std::io::stdout()).unwrap_or(WIDTH).min(WIDTH);
    if head.len() * COLUMN > width {
        return list(head, rows, width);
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width as u16).set_header(head);
    if !ruled {
        table.remove_style(TableComponent::HorizontalLines).remove_style(TableComponent::MiddleIntersections);
        table.remove_style(TableComponent::LeftBorderIntersections);
        table.remove_style(TableComponent::RightBorderIntersections);
    }
    for row in rows {
        table.add_row(row);
    }
    table.column_iter_mut().skip(head.len().saturating_sub(numbers)).for_each(|c| {
        c.set_cell_alignment(CellAlignment::Right);
    });
    table.to_string()
}

/// What a word means, which a terminal shows by its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it should be.
    Good,
    /// Not so, for a reason that is known.
    Known,
    /// Not so.
    Bad,
    /// Nothing of it.
    Plain,
}

impl Tone {
    /// The number of its colour among the eight that every terminal has.
    fn colour(self) -> Option<u8> {
        match self {
            Tone::Good => Some(32),
            Tone::Known => Some(33),
            Tone::Bad => Some(31),
            Tone::Plain => None,
        }
    }
}

/// Paragraphs, and the word beside the first of them.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The word.
    pub word: &'a str,
    /// What it means.
    pub tone: Tone,
    /// The paragraphs.
    pub paragraphs: Vec<String>,
}

/// Paragraphs with a word beside the first of each list of them. Where the terminal is too narrow for two columns, the
/// word stands before it. Words have colours on a terminal, unless `NO_COLOR` (no-color.org) or `TERM=dumb` is set.
pub fn beside(entries: &[Entry<'_>]) -> String {
    let terminal = terminal(&std::io::stdout());
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let coloured = terminal.is_some() && !is_set("NO_COLOR") && !dumb;
    two_columns(entries, terminal.unwrap_or(WIDTH).min(WIDTH), coloured)
}

fn two_columns(entries: &[Entry<'_>], width: usize, coloured: bool) -> String {
    let column = entries.iter().map(|entry| entry.word.chars().count()).max().unwrap_or(0) + 4;
    let narrow = column + 3 * COLUMN > width;
    let entry = |Entry { word, tone, paragraphs }: &Entry<'_>| {
        let line = |(n, text): (usize, &String)| match (narrow, n) {
            (true, 0) => wrapped(&format!("  {word}: {text}"), width, 4),
            (true, _) => wrapped(&format!("    {text}"), width, 4),
            (false, 0) => wrapped(&format!("  {word:<0$}{text}", column - 2), width, column),
            (false, _) => wrapped(&format!("{:column$}{text}", ""), width, column),
        };
        let text = paragraphs.iter().enumerate().map(line).collect::<Vec<_>>().join("\n");
        // Behind the wrapping: a colour takes no column.
        match tone.colour().filter(|_| coloured) {
            Some(colour) => text.replacen(word, &format!("\x1b[{colour}m{word}\x1b[0m"), 1),
            None => text,
        }
    };
    entries.iter().map(entry).collect::<Vec<_>>().join(if narrow { "\n\n" } else { "\n" })
}

/// Each row as lines `head: value`, and an empty line between two rows.
fn list(head: &[String], rows: &[Vec<String>], width: usize) -> String {
    let line = |(head, value): (&String, &String)| match head.is_empty() {
        true => format!("  {value}"),
        false => wrapped(&format!("  {head}: {value}"), width, 4),
    };
    let there = |(_, value): &(&String, &String)| !value.is_empty();
    let row = |row: &Vec<String>| head.iter().zip(row).filter(there).map(line).collect::<Vec<_>>().join("\n");
    rows.iter().map(row).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_words_and_lose_none() {
        let text = "a few words, and averyveryverylongone at the end\n  indented";
        let narrow = wrapped(text, 12, 2);
        assert_eq!(narrow, "a few words,\n  and\n  averyveryverylongone\n  at the end\n  indented");
        assert_eq!(wrapped("short", 40, 2), "short");
    }

    #[test]
    fn what_stands_beside_a_word_stays_beside_it_at_80_columns_and_goes_below_it_at_40() {
        let why = "why not: a rule of the kernel has changed since the numbers were published, on 32 bits";
        let entry = |word, tone, paragraphs: &[&str]| Entry {
            word,
            tone,
            paragraphs: paragraphs.iter().map(|&text| text.to_owned()).collect(),
        };
        let entries = [
            entry("holds", Tone::Good, &["reads take time", "5 ms"]),
            entry("does not hold", Tone::Known, &["off is faster", "saves 3 %; claimed: at least 50 %", why]),
        ];
        let wide = two_columns(&entries, 80, false);
        let expected = [
            "  holds          reads take time",
            "                 5 ms",
            "  does not hold  off is faster",
            "                 saves 3 %; claimed: at least 50 %",
            "                 why not: a rule of the kernel has changed since the numbers",
            "                 were published, on 32 bits",
        ];
        assert_eq!(wide.lines().collect::<Vec<_>>(), expected);
        let narrow = two_columns(&entries, 40, false);
        let expected = ["  holds: reads take time", "    5 ms", "", "  does not hold: off is faster"];
        assert_eq!(narrow.lines().take(4).collect::<Vec<_>>(), expected);
        for (text, width) in [(&wide, 80), (&narrow, 40)] {
            assert!(text.lines().all(|l| l.chars().count() <= width), "{text}");
        }
        let coloured = two_columns(&entries, 80, true);
        assert!(coloured.starts_with("  \x1b[32mholds\x1b[0m          reads take time\n"), "{coloured}");
        assert!(coloured.contains("  \x1b[33mdoes not hold\x1b[0m  off is faster\n"), "{coloured}");
        assert_eq!(
            ["\x1b[32m", "\x1b[33m", "\x1b[0m"].iter().fold(coloured, |text, code| text.replace(code, "")),
            wide
        );
    }

    #[test]
    fn a_row_in_a_narrow_terminal_is_a_list_of_its_columns() {
        let head = ["pattern", "saved", ""].map(str::to_owned);
        let rows =
            [vec!["random".to_owned(), "18.4 %".into(), String::new()], vec!["x".into(), "y".into(), "slow".into()]];
        assert_eq!(list(&head, &rows, 40), "  pattern: random\n  saved: 18.4 %\n\n  pattern: x\n  saved: y\n  slow");
    }
}
