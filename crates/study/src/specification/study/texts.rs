//! Numbers in a study's texts. What was measured is never typed: `{value:NAME}` stands for the number of a `[[value]]`
//! or a claim. `{given:20%}` is a number typed on purpose: it was published, or the study itself chose it. What was not
//! measured says so wherever it stands.

use super::Study;
use super::place::Locator;
use pocketstone_core::origin::{MODELLED, Origin};
use pocketstone_core::{Error, Result};
use std::mem::take;
use std::ops::Range;

/// A placeholder in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placeholder<'a> {
    /// The number of that name.
    Value(&'a str),
    /// A number typed on purpose.
    Given(&'a str),
}

/// The placeholders of a text, each with its place there.
pub(crate) fn placeholders(text: &str) -> Vec<(Range<usize>, Placeholder<'_>)> {
    let mut found = Vec::new();
    for (start, _) in text.match_indices('{') {
        let Some(length) = text[start..].find('}') else { continue };
        let inside = &text[start + 1..start + length];
        let placeholder = match inside.split_once(':') {
            Some(("value", name)) => Placeholder::Value(name),
            Some(("given", words)) => Placeholder::Given(words),
            _ => continue,
        };
        found.push((start..start + length + 1, placeholder));
    }
    found
}

/// A number of this run, as texts have it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Number {
    /// With its unit.
    pub text: String,
    /// Where it comes from.
    pub origin: Origin,
}

impl Number {
    /// The number among others that come from elsewhere.
    fn marked(&self) -> String {
        let mark = match self.origin {
            Origin::Measured => "",
            Origin::Modelled => " (modelled)",
            Origin::Both => " (modelled in part)",
        };
        format!("{}{mark}", self.text)
    }
}

/// Gives the number of that name, if this run has it.
type Numbers<'a> = dyn Fn(&str) -> Option<Number> + 'a;

/// Whether a text says of all of its numbers that they are a model's.
fn says_it(text: &str) -> bool {
    text.to_lowercase().contains(MODELLED.trim_end_matches('.').to_lowercase().as_str())
}

/// A text with its placeholders replaced by what `write` makes of the numbers, and the names of those that have none in
/// this run.
fn written(text: &str, numbers: &Numbers<'_>, write: impl Fn(Number) -> String) -> (String, Vec<String>) {
    let (mut whole, mut missing, mut end) = (String::new(), Vec::new(), 0);
    for (place, placeholder) in placeholders(text) {
        whole += &text[end..place.start];
        end = place.end;
        match placeholder {
            Placeholder::Given(words) => whole += words,
            Placeholder::Value(name) => {
                whole += &numbers(name).map(&write).unwrap_or_else(|| {
                    missing.push(name.to_owned());
                    "unavailable".to_owned()
                })
            }
        }
    }
    (whole + &text[end..], missing)
}

/// A short text with its placeholders replaced, and the names of those that have no number in this run. Each number
/// that is a model's says so.
pub(crate) fn filled(text: &str, numbers: &Numbers<'_>) -> (String, Vec<String>) {
    let said = says_it(text);
    written(text, numbers, |number| if said { number.text } else { number.marked() })
}

/// As [`filled`], for sentences: where all numbers are a model's, one more says it of all of them.
fn sentences(text: &str, numbers: &Numbers<'_>) -> (String, Vec<String>) {
    let names = placeholders(text).into_iter().filter_map(|(_, placeholder)| match placeholder {
        Placeholder::Value(name) => numbers(name),
        Placeholder::Given(_) => None,
    });
    if says_it(text) || Origin::of_all(names.map(|number| number.origin)) != Origin::Modelled {
        return filled(text, numbers);
    }
    let (whole, missing) = written(text, numbers, |number| number.text);
    (Origin::Modelled.caption(&whole), missing)
}

/// Checks that every placeholder of a study's file names a number that the study has; what stands at `as_they_are` is
/// no text of the report, and has none.
pub(super) fn check<'a>(
    at: &Locator<'_>,
    as_they_are: Vec<Range<usize>>,
    names: impl Iterator<Item = &'a str>,
) -> Result<()> {
    let names: Vec<&str> = names.collect();
    let in_texts = |place: &Range<usize>| !as_they_are.iter().any(|span| span.contains(&place.start));
    for (place, placeholder) in placeholders(at.text).into_iter().filter(|(place, _)| in_texts(place)) {
        if let Placeholder::Value(name) = placeholder {
            if !names.contains(&name) {
                let error = Error::user(format!("no [[value]] or [[claim]] is named `{name}`"));
                return Err(at.error(place, error.hint(format!("available: {}", names.join(", ")))));
            }
        }
    }
    Ok(())
}

/// A paragraph that is left out because the results have not all of its numbers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Where it stood: a heading, or the study's description.
    pub heading: String,
    /// The numbers.
    pub missing: Vec<String>,
}

/// A study with the numbers in its texts. Paragraphs that lack one are dropped; in shorter texts it is said to be
/// unavailable.
pub(crate) fn with_numbers(study: &Study, numbers: &Numbers<'_>) -> (Study, Vec<Dropped>) {
    let mut study = study.clone();
    let mut dropped = Vec::new();
    let mut keep = |heading: &str, paragraphs: &mut Vec<String>| {
        for paragraph in take(paragraphs) {
            match sentences(&paragraph, numbers) {
                (text, missing) if missing.is_empty() => paragraphs.push(text),
                (_, missing) => dropped.push(Dropped { heading: heading.to_owned(), missing }),
            }
        }
    };
    keep("The study", &mut study.description);
    study.explanations.iter_mut().for_each(|e| keep(&e.heading, &mut e.paragraphs));
    study.explanations.retain(|e| !e.paragraphs.is_empty());
    if let Some(answer) = &mut study.answer {
        let more = take(&mut answer.more).into_iter().filter(|part| filled(part, numbers).1.is_empty());
        match sentences(&answer.text, numbers) {
            (_, missing) if missing.is_empty() => {
                answer.text = sentences(&more.fold(take(&mut answer.text), |all, part| all + &part), numbers).0;
            }
            (_, missing) => {
                dropped.push(Dropped { heading: "The answer".to_owned(), missing });
                study.answer = None;
            }
        }
    }
    for text in short_texts(&mut study) {
        *text = filled(text, numbers).0;
    }
    (study, dropped)
}

/// Titles, captions, and what is said of claims.
fn short_texts(study: &mut Study) -> impl Iterator<Item = &mut String> {
    let figures = study.figures.iter_mut().flat_map(|f| [&mut f.title, &mut f.caption]);
    let charts = study.charts.iter_mut().flat_map(|c| [&mut c.title, &mut c.caption]);
    let frequencies = study.frequencies.iter_mut().flat_map(|f| [&mut f.title, &mut f.caption]);
    let tables = study.tables.iter_mut().flat_map(|t| [&mut t.title, &mut t.caption]);
    let details = study.details.iter_mut().flat_map(|d| [&mut d.title, &mut d.caption]);
    let claims = study
        .claims
        .iter_mut()
        .flat_map(|c| [Some(&mut c.text), c.paper.as_mut(), c.deviation.as_mut()].into_iter().flatten());
    figures.chain(charts).chain(frequencies).chain(tables).chain(details).chain(claims)
}
