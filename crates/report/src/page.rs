//! The page around charts, tables and heat maps: prepares what the template shows.

use crate::chain::{self, Links};
use crate::chart::{self, Chart, Style};
use crate::distribution;
use crate::explore::{self, Part, Room};
use crate::format;
use crate::heatmap::{self, Grid};
use crate::limits::Limits;
use crate::palette::{Palette, subject};
use crate::svg;
use crate::timeline::{self, Drawing};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};
use pocketstone_core::words::{counted, noun};
use pocketstone_core::{Error, Result};
use pocketstone_study::views::model::{
    Chain, ClaimResult, Distribution, FailedCell, Figure, LeftOut, Model, Table, Verdict,
};
use serde::Serialize;

#[derive(Serialize)]
struct Page<'a> {
    css: String,
    js: String,
    explore: Option<Part>,
    model: Words<'a>,
    tally: Vec<Tally>,
    claims: Vec<Claim<'a>>,
    /// The finding in a sentence.
    answer: Option<String>,
    /// The figure that shows it.
    opening: Option<Drawn<'a, Chart>>,
    figures: Vec<Drawn<'a, Chart>>,
    timelines: Vec<Drawn<'a, Drawing>>,
    chains: Vec<Drawn<'a, Links>>,
    tables: Vec<TableView<'a>>,
    heat_maps: Vec<Drawn<'a, Grid>>,
    left_out: Vec<LeftOutGroup<'a>>,
    failures: Vec<Failure>,
    /// Whether there is anything to say of one run: a page may be about several.
    run: bool,
    /// What this page leaves out for its size.
    cut: Vec<String>,
}

/// The parts of the model that are text and shown as they are.
#[derive(Serialize)]
struct Words<'a> {
    title: &'a str,
    summary: &'a str,
    description: Vec<String>,
    command: &'a str,
    facts: &'a [(String, String)],
    caveats: Vec<String>,
    explanations: Vec<(&'a str, Vec<String>)>,
}

/// How many claims have one verdict.
#[derive(Serialize)]
struct Tally {
    class: &'static str,
    count: usize,
    text: &'static str,
}

#[derive(Serialize)]
struct Claim<'a> {
    class: &'static str,
    word: &'static str,
    /// Why it does not hold, in a line, and what more there is to say.
    reason: Option<(&'a str, &'a str)>,
    #[serde(flatten)]
    claim: &'a ClaimResult,
}

/// A title and a caption with a picture.
#[derive(Serialize)]
struct Drawn<'a, T> {
    id: &'a str,
    title: &'a str,
    caption: &'a str,
    unit: String,
    picture: T,
}

#[derive(Serialize)]
struct TableView<'a> {
    id: &'a str,
    title: &'a str,
    caption: &'a str,
    columns: Vec<Column<'a>>,
    rows: &'a [Vec<String>],
    more: usize,
}

#[derive(Serialize)]
struct Column<'a> {
    head: &'a str,
    /// `n`: numbers; `short`: names that stand in one line.
    class: &'static str,
}

/// Things left out for the same reason, with the same cure.
#[derive(Serialize)]
struct LeftOutGroup<'a> {
    what: Vec<&'a str>,
    why: &'a str,
    cure: &'a str,
}

#[derive(Serialize)]
struct Failure {
    cell: String,
    message: String,
    hint: Option<String>,
    console: Option<String>,
}

/// Renders the page with at most the detail that `limits` allow.
pub(crate) fn render(model: &Model, limits: Limits) -> Result<String> {
    let broken = |e: minijinja::Error| Error::bug("cannot render the report's template").because(e);
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    // Texts that may be a program's or a command's stay as they are.
    environment.add_filter("prose", |text: &str| Value::from_safe_string(prose(text, str::to_owned)));
    environment.add_filter("numbers", |text: &str| Value::from_safe_string(prose(text, format::printed)));
    environment.add_filter("counted", |number: u64, one: &str| counted(number, one));
    environment.add_filter("cell", |text: &str| if holds_number(text) { format::printed(text) } else { text.into() });
    environment.add_filter("urlencode", |text: &str| Value::from_safe_string(percent_encoded(text)));
    environment.add_template("figure.html", include_str!("figure.html")).map_err(broken)?;
    environment.add_template("below.html", include_str!("below.html")).map_err(broken)?;
    environment.add_template("explore.html", include_str!("explore/explore.html")).map_err(broken)?;
    environment.add_template("report.html", include_str!("report.html")).map_err(broken)?;
    let template = environment.get_template("report.html").map_err(broken)?;
    template.render(page(model, limits)?).map_err(broken)
}

fn page(model: &Model, limits: Limits) -> Result<Page<'_>> {
    let mut cut = Vec::new();
    let explorer = model.explorer.as_ref();
    let palette = palette(model, limits);
    let explore = explorer.map(|e| explore::part(e, limits.explorer, &palette)).transpose()?.flatten();
    if explorer.is_some() && limits.explorer == Room::Nothing {
        cut.push("the interactive replays".to_owned());
    }
    // Pages without that part do not carry its style and scripts.
    let more = |own: &str, parts: &[&str]| match explore {
        Some(_) => [&[own], parts].concat().join("\n"),
        None => own.to_owned(),
    };
    let zoom = if model.timelines.is_empty() { "" } else { include_str!("zoom.js") };
    let script = [include_str!("script.js"), include_str!("figures.js"), zoom].concat();
    let heat_maps = first(&model.heat_maps, limits.entries, "heat map", &mut cut);
    let several = squares_to_a_title(heat_maps.iter().map(heatmap::touched).sum(), limits.squares);
    let mut figures = figures(model, limits, palette, &mut cut);
    let answer = model.answer.as_ref();
    let shown = answer.and_then(|answer| figures.iter().position(|f| Some(f.id) == answer.figure.as_deref()));
    let opening = shown.map(|at| figures.remove(at));
    Ok(Page {
        css: more(include_str!("style.css"), &[explore::CSS]),
        js: more(&script, &explore::JS),
        explore,
        model: Words {
            title: &model.title,
            summary: &model.summary,
            description: paragraphs(&model.description, limits, &mut cut),
            command: &model.command,
            facts: first(&model.facts, limits.entries, "fact", &mut cut),
            caveats: paragraphs(&model.caveats, limits, &mut cut),
            explanations: first(&model.explanations, limits.entries, "explanation", &mut cut)
                .iter()
                .map(|e| (e.heading.as_str(), paragraphs(&e.paragraphs, limits, &mut Vec::new())))
                .collect(),
        },
        tally: tally(&model.claims),
        claims: first(&model.claims, limits.entries, "claim", &mut cut).iter().map(claim).collect(),
        answer: answer.map(|answer| head(&unbroken(&answer.text), limits.text)),
        opening,
        figures,
        timelines: first(&model.timelines, limits.entries, "timeline", &mut cut)
            .iter()
            .map(|t| drawn(&t.id, &t.title, &t.caption, timeline::draw(t, limits.areas, limits.spans)))
            .collect(),
        chains: first(&model.chains, limits.entries, "chain", &mut cut)
            .iter()
            .map(|c| drawn(&c.id, &c.title, &c.caption, chain(c, limits, &mut cut)))
            .collect(),
        tables: first(&model.tables, limits.entries, "table", &mut cut).iter().map(|t| table(t, limits.rows)).collect(),
        heat_maps: heat_maps
            .iter()
            .map(|h| Drawn {
                id: &h.id,
                title: &h.title,
                caption: &h.caption,
                unit: noun(false, &h.unit),
                picture: heatmap::draw(h, several, limits.squares_of_one),
            })
            .collect(),
        left_out: left_out(first(&model.left_out, limits.entries * 4, "left-out entry", &mut cut)),
        failures: first(&model.failures, limits.entries, "failure", &mut cut)
            .iter()
            .map(|f| failure(f, limits.text))
            .collect(),
        run: !(model.command.is_empty() && model.facts.is_empty() && model.caveats.is_empty() && cut.is_empty()),
        cut,
    })
}

fn drawn<'a, T>(id: &'a str, title: &'a str, caption: &'a str, picture: T) -> Drawn<'a, T> {
    Drawn { id, title, caption, unit: String::new(), picture }
}

/// The colours of all that the page shows: its figures, its distributions, and the explorer's governors.
fn palette(model: &Model, limits: Limits) -> Palette {
    let figures = || model.figures.iter().take(limits.entries);
    let distributions: Vec<Figure> =
        model.distributions.iter().take(limits.entries).map(distribution::figure).collect();
    let governors = model.explorer.iter().flat_map(|e| &e.governors).map(|g| subject(&g.spec)).collect();
    Palette::of(figures().chain(&distributions), governors)
}

/// The figures, and behind them the distributions. Those side by side that show the same have the same scale.
fn figures<'a>(model: &'a Model, limits: Limits, palette: Palette, cut: &mut Vec<String>) -> Vec<Drawn<'a, Chart>> {
    let figures = first(&model.figures, limits.entries, "figure", cut);
    let distributions: Vec<(&Distribution, Figure)> = first(&model.distributions, limits.entries, "distribution", cut)
        .iter()
        .map(|d| (d, distribution::figure(d)))
        .collect();
    let all = || figures.iter().chain(distributions.iter().map(|(_, figure)| figure));
    let Limits { markers, rows, both_axes: both, .. } = limits;
    let style = Style { markers, rows, both, palette };
    let draw = |figure: &Figure| chart::draw(figure, &style, &shared_range(figure, all()));
    let mut drawn: Vec<_> = figures.iter().map(|f| self::drawn(&f.id, &f.title, &f.caption, draw(f))).collect();
    drawn.extend(distributions.iter().map(|(d, f)| self::drawn(&d.id, &d.title, &d.caption, draw(f))));
    drawn
}

/// What part of the common range a figure's own values have to take for it to be drawn on that range.
const READABLE: f64 = 0.2;

/// The ends of what a figure shows together with the others of the same axes; nothing where it would shrink to a line.
fn shared_range<'a>(figure: &Figure, all: impl Iterator<Item = &'a Figure>) -> Vec<f64> {
    if figure.stacked {
        return Vec::new();
    }
    let same = |other: &&Figure| {
        let axes = |f: &Figure| (f.y.label.clone(), f.y.scale, f.x.label.clone(), f.stacked);
        axes(other) == axes(figure)
    };
    let ends = |values: Vec<f64>| {
        values.into_iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)))
    };
    let own = ends(chart::heights(figure));
    let (low, high) = all
        .filter(same)
        .map(|other| ends(chart::heights(other)))
        .filter(|other| {
            // Ranges from zero, as linear axes have them.
            let (ours, theirs) = (own.1 - own.0.min(0.0), other.1 - other.0.min(0.0));
            ours >= READABLE * theirs && theirs >= READABLE * ours
        })
        .fold(own, |(a, b), (low, high)| (a.min(low), b.max(high)));
    if low.is_finite() && high.is_finite() { vec![low, high] } else { Vec::new() }
}

fn chain(chain: &Chain, limits: Limits, cut: &mut Vec<String>) -> Links {
    let queries = first(&chain.queries, limits.entries, "query", cut);
    chain::links(queries, limits.calls, limits.text)
}

/// The first `limit` entries; notes how many more there are, by what one of them is called.
fn first<'a, T>(entries: &'a [T], limit: usize, what: &str, cut: &mut Vec<String>) -> &'a [T] {
    if entries.len() > limit {
        cut.push(counted(entries.len() - limit, &format!("more {what}")));
    }
    &entries[..entries.len().min(limit)]
}

fn paragraphs(texts: &[String], limits: Limits, cut: &mut Vec<String>) -> Vec<String> {
    first(texts, limits.entries, "paragraph", cut).iter().map(|t| head(t, limits.text)).collect()
}

/// One title for each square while the squares are few, then for four and more at once.
fn squares_to_a_title(squares: usize, limit: usize) -> usize {
    match squares {
        n if n <= limit => 1,
        n => (n * 2 / limit.max(1)).next_power_of_two().max(4),
    }
}

fn tally(claims: &[ClaimResult]) -> Vec<Tally> {
    let of = |verdict| claims.iter().filter(|c| c.verdict == verdict).count();
    let tally = |verdict: Verdict, one, many| {
        let count = of(verdict);
        Tally { class: class(verdict), count, text: if count == 1 { one } else { many } }
    };
    let all = [
        tally(Verdict::Holds, "claim holds", "claims hold"),
        tally(Verdict::Explained, "claim does not hold, explained", "claims do not hold, explained"),
        tally(Verdict::Unexplained, "claim does not hold, unexplained", "claims do not hold, unexplained"),
        tally(Verdict::CannotTell, "claim cannot be judged", "claims cannot be judged"),
        tally(Verdict::Unavailable, "claim unavailable", "claims unavailable"),
    ];
    all.into_iter().filter(|t| t.count > 0).collect()
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Explained => "explained",
        Verdict::Unexplained => "fails",
        Verdict::CannotTell | Verdict::Unavailable => "unavailable",
    }
}

fn claim(claim: &ClaimResult) -> Claim<'_> {
    Claim { class: class(claim.verdict), word: claim.verdict.word(), reason: claim.reason(), claim }
}

fn table(table: &Table, limit: usize) -> TableView<'_> {
    let columns = table.columns.iter().enumerate().map(|(i, head)| {
        let cells = || table.rows.iter().filter_map(|row| row.get(i)).map(|c| c.trim());
        let numbers = cells().filter(|c| is_number(c)).count();
        let class = if numbers > 0 && cells().all(|c| is_number(c) || is_blank(c)) {
            "n"
        } else if cells().all(|c| c.chars().count() <= SHORT) {
            "short"
        } else {
            ""
        };
        Column { head, class }
    });
    TableView {
        id: &table.id,
        title: &table.title,
        caption: &table.caption,
        columns: columns.collect(),
        rows: &table.rows[..table.rows.len().min(limit)],
        more: table.rows.len().saturating_sub(limit),
    }
}

/// Characters of names that do not wrap.
const SHORT: usize = 28;

/// A text in which a number stands in one line with its unit.
fn unbroken(text: &str) -> String {
    let ends_in_digit = |word: &str| word.ends_with(|c: char| c.is_ascii_digit());
    let is_unit = |word: &str| UNITS.contains(&word.trim_end_matches(['.', ',', ';', ':', ')']));
    let mut words = text.split(' ');
    let mut all = words.next().unwrap_or_default().to_owned();
    for word in words {
        all.push(if ends_in_digit(&all) && is_unit(word) { '\u{a0}' } else { ' ' });
        all.push_str(word);
    }
    all
}

/// Cells that say that there is no value.
fn is_blank(cell: &str) -> bool {
    ["", "-", "–", "—", "n/a", "none", "unavailable"].contains(&cell)
}

/// Units of numbers in texts and tables, and what stands between numbers.
const UNITS: [&str; 29] = [
    "%", "ns", "us", "µs", "ms", "s", "min", "B", "KiB", "MiB", "GiB", "kB", "MB", "GB", "×", "x", "to", "pp", "pages",
    "nJ", "uJ", "mJ", "J", "mW", "W", "kHz", "MHz", "GHz", "times",
];

/// Numbers with at most a unit each: `12`, `1.5 ms`, `12% (10% to 14%)`, `4 KiB ± 1`; no `4 KiB random`.
fn is_number(cell: &str) -> bool {
    let separator = |c: char| c.is_whitespace() || "±()[],;–…/".contains(c);
    let words = || cell.split(separator).filter(|w| !w.is_empty());
    let word = |w: &str| {
        let w = w.trim_start_matches(['+', '-', '\u{2212}', '<', '>', '≤', '≥', '~', '≈', '×']);
        let rest = w.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '_');
        rest.is_empty() || UNITS.contains(&rest)
    };
    cell.contains(|c: char| c.is_ascii_digit()) && words().all(word)
}

/// Whether a cell is what tables write of a number: `1.5 ms to 2 ms (range of 3)`.
fn holds_number(cell: &str) -> bool {
    is_number(cell.split_once(" (").map_or(cell, |(number, _)| number))
}

fn left_out(entries: &[LeftOut]) -> Vec<LeftOutGroup<'_>> {
    let mut groups: Vec<LeftOutGroup<'_>> = Vec::new();
    for entry in entries {
        match groups.iter_mut().find(|g| g.why == entry.why && g.cure == entry.cure) {
            Some(group) => group.what.push(&entry.what),
            None => groups.push(LeftOutGroup { what: vec![&entry.what], why: &entry.why, cure: &entry.cure }),
        }
    }
    groups
}

fn failure(failure: &FailedCell, limit: usize) -> Failure {
    Failure {
        cell: head(&failure.cell, limit),
        message: head(&plain(&head(&failure.message, limit * 4)), limit),
        hint: failure
            .hint
            .as_deref()
            .filter(|h| !h.trim().is_empty())
            .map(|h| head(&plain(&head(h, limit * 4)), limit)),
        console: failure
            .console
            .as_deref()
            .map(|c| tail(plain(&tail(c, limit * 4)).trim_end(), limit))
            .filter(|c| !c.is_empty()),
    }
}

/// The first characters, with an ellipsis where there are more.
fn head(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// The last characters, from a line's start where possible.
fn tail(text: &str, limit: usize) -> String {
    let excess = text.chars().count().saturating_sub(limit);
    let Some((start, _)) = text.char_indices().nth(excess).filter(|_| excess > 0) else { return text.to_string() };
    let rest = &text[start..];
    format!("…\n{}", rest.split_once('\n').map_or(rest, |(_, lines)| lines))
}

/// A console's text without its terminal control sequences.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // A control sequence ends with its first letter-like character; other escapes are one long.
            if chars.next_if_eq(&'[').is_some() {
                while chars.next().is_some_and(|c| !('\u{40}'..='\u{7e}').contains(&c)) {}
            } else {
                chars.next();
            }
        } else if c == '\n' || c == '\t' || !c.is_control() {
            out.push(c);
        }
    }
    out
}

/// Text for a URL: all but letters, digits and what has no meaning there is written by its bytes.
fn percent_encoded(text: &str) -> String {
    let byte = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b',' => char::from(b).to_string(),
        _ => format!("%{b:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Escaped text in which `code` between backticks is marked up as such; `write` is how the rest is written.
fn prose(text: &str, write: impl Fn(&str) -> String) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len() % 2 == 0 {
        return svg::escape(&write(text));
    }
    let part = |(i, part): (usize, &&str)| match i % 2 {
        0 => svg::escape(&write(part)),
        _ => format!("<code>{}</code>", svg::escape(part)),
    };
    parts.iter().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_words() {
        for number in ["12", "1.5 ms", "12% (10% to 14%)", "-3", "4 KiB ± 1 KiB", "12/14", "3×", "~ 7", "12 MiB/s"] {
            assert!(is_number(number), "{number}");
        }
        for word in ["4 KiB random", "off", "", "–", "ext4", "2 of them", "1a"] {
            assert!(!is_number(word), "{word}");
        }
    }

    #[test]
    fn what_a_program_said_is_no_number() {
        for number in ["3 us", "3 us to 1.2 ms (range of 3)", "12.3 us -> 13.1 us (+6.5 %, worse)"] {
            assert!(holds_number(number), "{number}");
        }
        for words in ["took 3 us", "app --wait 3 us", "3 us after that (it ended)", "off (3 us)"] {
            assert!(!holds_number(words), "{words}");
        }
    }

    #[test]
    fn a_number_of_the_answer_stands_in_one_line_with_its_unit() {
        assert_eq!(unbroken("40.8 ms waiting, 3 of 12 %."), "40.8\u{a0}ms waiting, 3 of 12\u{a0}%.");
        assert_eq!(unbroken(""), "");
    }

    #[test]
    fn a_column_is_right_aligned_when_all_its_values_are_numbers() {
        let rows = vec![vec!["ext4".into(), "1 ms".into(), "3".into()], vec!["4".into(), "–".into(), "off".into()]];
        let columns = ["a", "b", "c"].map(String::from).to_vec();
        let (id, title, caption) = (String::new(), String::new(), String::new());
        let table = Table { id, title, caption, columns, rows, origin: Default::default() };
        let classes: Vec<_> = super::table(&table, 9).columns.iter().map(|c| c.class).collect();
        assert_eq!(classes, ["short", "n", "short"]);
    }

    #[test]
    fn code_is_marked_and_everything_escaped() {
        assert_eq!(prose("set `a<b` & go", str::to_owned), "set <code>a&lt;b</code> &amp; go");
        assert_eq!(prose("a ` b", str::to_owned), "a ` b");
        let numbers = prose("`app --wait 3 us` takes 3\u{a0}us & 5 us", format::printed);
        assert_eq!(numbers, "<code>app --wait 3 us</code> takes 3\u{a0}µs &amp; 5 µs");
    }

    #[test]
    fn a_console_is_shown_from_its_end_without_control_sequences() {
        assert_eq!(plain("\u{1b}[1;31mred\u{1b}[0m\r\n\u{1b}Mx\u{7}"), "red\nx");
        assert_eq!(tail("one\ntwo\nthree", 9), "…\nthree");
        assert_eq!(tail("one", 9), "one");
        assert_eq!(head("äöü", 2), "äö…");
    }

    #[test]
    fn what_was_left_out_for_one_reason_is_one_entry() {
        let entry = |what: &str, why: &str| LeftOut { what: what.into(), why: why.into(), cure: String::new() };
        let entries = [entry("f2fs", "no module"), entry("ext4", "too old"), entry("btrfs", "no module")];
        let groups = left_out(&entries);
        assert_eq!(groups.iter().map(|g| g.what.len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(groups[0].what, ["f2fs", "btrfs"]);
    }
}
