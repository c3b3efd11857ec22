//! Rules for the texts of the studies in `studies/`.

use super::Study;
use super::texts::{Number, filled, placeholders};
use pocketstone_core::origin::Origin;
use std::path::Path;

/// Each study that is shipped.
fn studies() -> Vec<Study> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
    files.sort();
    let parse = |f: &std::path::PathBuf| Study::parse(&f.to_string_lossy(), &std::fs::read_to_string(f).unwrap());
    files.iter().map(|f| parse(f).unwrap_or_else(|e| panic!("{}", e.chain()))).collect()
}

/// Every text in which something is said of results. What claims say has their bounds in it, and their `paper` what
/// was published.
fn texts(study: &Study) -> Vec<&str> {
    let figures = study.figures.iter().flat_map(|f| [&f.title, &f.caption]);
    let charts = study.charts.iter().flat_map(|c| [&c.title, &c.caption]);
    let frequencies = study.frequencies.iter().flat_map(|f| [&f.title, &f.caption]);
    let tables = study.tables.iter().flat_map(|t| [&t.title, &t.caption]);
    let details = study.details.iter().flat_map(|d| [&d.title, &d.caption]);
    let explanations = study.explanations.iter().flat_map(|e| &e.paragraphs);
    let all = figures.chain(charts).chain(frequencies).chain(tables).chain(details).chain(&study.description);
    let answer = study.answer.iter().flat_map(|answer| [&answer.text].into_iter().chain(&answer.more));
    let deviations = study.claims.iter().filter_map(|c| c.deviation.as_ref());
    all.chain(explanations).chain(answer).chain(deviations).map(String::as_str).collect()
}

/// What of a text was typed: all but its placeholders.
fn typed(text: &str) -> String {
    let (mut rest, mut end) = (String::new(), 0);
    for (place, _) in placeholders(text) {
        rest += &text[end..place.start];
        end = place.end;
    }
    rest + &text[end..]
}

/// The shares that are typed in a text: `56 to 59%`, `3 per cent`, `2 points`.
fn shares(text: &str) -> Vec<String> {
    let typed = typed(text).replace('%', " % ").replace("per cent", " % ").replace(" points", " % ");
    let words: Vec<&str> = typed.split_whitespace().collect();
    let number = |w: &str| w.starts_with(|c: char| c.is_ascii_digit()) || ["one", "two", "three", "half"].contains(&w);
    words.windows(2).filter(|w| w[1] == "%" && number(w[0])).map(|w| format!("{} %", w[0])).collect()
}

#[test]
fn shares_are_found_where_they_are_typed() {
    assert_eq!(shares("random requests save 56 to 59%. Under those of 2.6.37 it is up to 65%: x"), ["59 %", "65 %"]);
    assert_eq!(shares("within one per cent, by 3 points"), ["one %", "3 %"]);
    assert!(shares("save {value:a} to {value:b}, {given:20%} of 64 requests of 4 KiB").is_empty());
}

#[test]
fn no_share_that_was_measured_is_typed() {
    let mut typed = Vec::new();
    for study in studies() {
        let with = texts(&study).into_iter().filter(|text| !shares(text).is_empty());
        typed.extend(with.map(|text| format!("{}.toml: {:?}: {text}", study.name, shares(text))));
    }
    assert!(typed.is_empty(), "write {{value:NAME}}, or {{given:20%}}:\n{}", typed.join("\n"));
}

/// What a text names in quotes after these words is a heading of the report.
const NAMED: [&str; 6] = ["chart \"", "table \"", "figure \"", "See \"", "see \"", "The table \""];
/// Tables that every report of its kind has.
const BUILT_IN: [&str; 1] = ["Read-ahead in force"];

#[test]
fn texts_name_what_they_mean_and_it_is_there() {
    let mut wrong = Vec::new();
    for study in studies() {
        let titles: Vec<&str> = study.figures.iter().map(|f| f.title.as_str()).collect();
        let explained = study.explanations.iter().map(|e| e.heading.as_str());
        let charts = study.charts.iter().map(|c| c.title.as_str()).chain(study.tables.iter().map(|t| t.title.as_str()));
        let there: Vec<&str> = titles.into_iter().chain(explained).chain(charts).chain(BUILT_IN).collect();
        for text in texts(&study) {
            for way in ["below", "above"] {
                let words = ["table", "chart", "figure", "explanation", "see", "See", "time"];
                let place = words.map(|word| format!("{word} {way}"));
                let found = place.iter().find(|place| text.contains(place.as_str()));
                wrong
                    .extend(found.map(|_| format!("{}.toml: where that is depends on the report: {text}", study.name)));
            }
            for named in NAMED {
                for (at, _) in text.match_indices(named) {
                    let name = text[at + named.len()..].split('"').next().unwrap_or_default();
                    if !there.contains(&name) {
                        wrong.push(format!("{}.toml: there is no `{name}`: {text}", study.name));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_claim_about_any_machine_says_why_it_may_not_hold() {
    let studies = studies();
    let mut without = Vec::new();
    for study in studies.iter().filter(|s| s.board == "host" && !UNEXPLAINED.contains(&s.name.as_str())) {
        let claims = study.claims.iter().filter(|claim| claim.deviation.is_none());
        without.extend(claims.map(|claim| format!("{}.toml: claim `{}`", study.name, claim.name)));
    }
    assert!(without.is_empty(), "no deviation:\n{}", without.join("\n"));
    // The one that the virtual board does not bear out, whose reason is known.
    let read_ahead = studies.iter().find(|s| s.name == "readahead-quick").unwrap();
    let random = read_ahead.claims.iter().find(|c| c.name == "random").unwrap();
    assert!(random.deviation.as_ref().is_some_and(|d| d.contains("Linux 3.13")));
}

/// Studies some of whose claims would be reported as unexplained.
const UNEXPLAINED: [&str; 2] = ["scmfs", "scmfs-today"];

/// What fits a line of a report.
const LINE: usize = 220;

#[test]
fn a_verdict_says_what_its_number_is_and_its_reason_in_a_line() {
    for study in studies() {
        for claim in &study.claims {
            let place = format!("{}.toml: claim `{}`", study.name, claim.name);
            let found = claim.found.as_ref().unwrap_or_else(|| panic!("{place} has no words for its number"));
            assert!(found.get_ref().replace("{}", "").contains(char::is_alphabetic), "{place}: {}", found.get_ref());
            let Some(deviation) = &claim.deviation else { continue };
            assert!(!deviation.starts_with("See ") && deviation != "unexplained", "{place}: that is no reason");
            let line = deviation.split(". ").next().unwrap_or_default();
            assert!(line.len() <= LINE, "{place}: its reason is no line, {} long: {line}", line.len());
        }
    }
}

#[test]
fn words_of_a_claim_have_room_for_its_number_once() {
    let study = |found: &str| {
        let text = "title = \"t\"\nboard = \"b\"\n[[experiment]]\nname = \"e\"\n[experiment.factors]\n\
                    file_system = \"jffs2\"\nfile_bytes = 4096\nrequests = 1\n[[claim]]\nname = \"c\"\ntext = \"x\"\n\
                    value = \"SELECT 1\"\nat_least = 1\n";
        Study::parse("s.toml", &format!("{text}found = \"{found}\"\n"))
    };
    assert!(study("saves {}").is_ok());
    for found in ["saves", "{} of {}"] {
        let error = study(found).unwrap_err().chain();
        assert!(error.contains("s.toml:14:9") && error.contains("claim `c` has to have {} once"), "{error}");
    }
}

#[test]
fn scmfs_claims_what_holds_on_any_processor() {
    let studies = studies();
    let scmfs = studies.iter().find(|s| s.name == "scmfs-quick").unwrap();
    for claim in &scmfs.claims {
        assert_eq!((claim.at_least, claim.at_most), (Some(1.0), None), "a ratio is for a figure: {}", claim.name);
        // One that names two file systems is of both: ext4 needs root.
        let value = claim.value.get_ref();
        let both =
            ["iif(count(*) = 2, ", "iif(count(DISTINCT file_system) = 3, "].iter().any(|all| value.contains(all));
        assert_eq!(both, claim.text.contains("on tmpfs and on ext4"), "{}", claim.name);
    }
    assert!(scmfs.charts.iter().any(|c| c.query.get_ref().contains("o.median / s.median AS y")));
}

#[test]
fn a_number_that_is_not_there_is_shown_where_it_is_asked_for() {
    let text = "title = \"t\"\nboard = \"b\"\ndescription = [\"x {value:gone}\"]\n[[experiment]]\nname = \"e\"\n\
                [experiment.factors]\nfile_system = \"jffs2\"\nfile_bytes = 4096\nrequests = 1\n";
    let error = Study::parse("s.toml", text).unwrap_err().chain();
    assert!(error.contains("s.toml:3:19") && error.contains("gone"), "{error}");
    let known = |name: &str| (name == "a").then(|| Number { text: "61.2 %".to_owned(), origin: Origin::Measured });
    let filled = filled("{value:a} {b} {given:7%} {value:c}", &known);
    assert_eq!(filled, ("61.2 % {b} 7% unavailable".into(), vec!["c".into()]));
}
