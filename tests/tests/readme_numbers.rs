//! The numbers that README quotes are those of a fresh run on the virtual board, to the digit. It repeats to the bit,
//! with one program on one kernel. A program that was changed, or made by another compiler, takes other instructions,
//! which moves savings by some hundredths of a point: README rounds them to what does not move. What README's example
//! prints is held against a fresh run in tests/documents.rs.

use pocketstone_study::Study;
use pocketstone_testing::or_skip;
use pocketstone_tests::command::{board, lab};
use pocketstone_tests::project;
use rusqlite::Connection;
use std::path::Path;

fn document(name: &str) -> String {
    std::fs::read_to_string(project().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn readme() -> String {
    document("README.md")
}

fn study(name: &str) -> Study {
    let text = std::fs::read_to_string(project().join("studies").join(name)).expect("a study");
    Study::parse(name, &text).unwrap_or_else(|e| panic!("{}", e.chain()))
}

/// The part of a document under a heading.
fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let from = document.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("there is no {heading}")).1;
    from.split("\n## ").next().unwrap_or_default()
}

/// The study that the guide shows as an example.
fn example(guide: &str) -> &str {
    let block = section(guide, "Your own study").split_once("```toml").expect("a study").1;
    let block = block.split_once('\n').expect("its first line").1;
    block.split_once("```").expect("its end").0
}

/// Cells of a study on the virtual board, and combinations of its first experiment.
fn counts(study: &Study) -> (usize, usize) {
    let points = |e: &pocketstone_study::specification::study::Experiment| e.points("virtual").len();
    let cells =
        study.experiments.iter().map(|e| 2 * points(e) * e.repetitions.unwrap_or(study.repetitions) as usize).sum();
    (cells, points(&study.experiments[0]))
}

#[test]
fn readme_counts_cells_and_claims_as_they_are() {
    let readme = readme();
    let (cells, _) = counts(&study("readahead-quick.toml"));
    assert!(readme.contains(&format!("measures {cells} cells")), "{cells} cells");
    let claims = study("readahead.toml").claims.len();
    assert!(readme.contains(&format!("\n{claims} claims,")), "{claims} claims");
    assert!(readme.lines().count() <= 120, "a page that is read whole");
    let guide = document("docs/guide.md");
    let (cells, points) = counts(&Study::parse("my-study.toml", example(&guide)).expect("the example"));
    assert!(guide.contains(&format!("These are {cells} cells: {points} combinations")), "{cells}, {points}");
}

/// Runs the untraced cells of a study on the virtual board; what was counted in traced ones is not looked at.
fn run(folder: &Path, study: &str, only: &str) -> Connection {
    let results = folder.join("results");
    let only = format!("NOT traced AND ({only})");
    lab(folder, &["run", study, "--only", &only, "--output", results.to_str().expect("UTF-8")]).ends_with(0);
    pocketstone_tests::results::read(&results)
}

#[test]
fn the_first_findings_are_found() {
    or_skip!(board());
    let readme = readme();
    let folder = tempfile::tempdir().expect("a folder");
    let file = project().join("studies/readahead-quick.toml");
    let db = run(folder.path(), file.to_str().expect("UTF-8"), "experiment = 'requests' AND requests <= 256");
    let mut compared = 0;
    for line in section(&readme, "First findings").lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [requests, shown @ ..] = &cells[..] else { continue };
        let Ok(requests) = requests.parse::<u64>() else { continue };
        for (pattern, shown) in ["sequential", "random"].into_iter().zip(shown) {
            let sql =
                "SELECT 100 * median FROM improvement WHERE metric = 'total_ns' AND pattern = ?1 AND requests = ?2";
            let found: f64 = db.query_row(sql, (pattern, requests), |r| r.get(0)).expect("a saving");
            let words = format!("{pattern}, {requests} requests: README says {shown}, a fresh run {found}");
            let (bound, said) = (shown.strip_prefix("under "), shown.strip_prefix("under ").unwrap_or(shown));
            let said = said.strip_suffix(" %").unwrap_or_else(|| panic!("{words}"));
            match bound {
                Some(_) => assert!(found < said.parse().expect("a bound"), "{words}"),
                None => {
                    let decimals = said.split_once('.').map_or(0, |(_, decimals)| decimals.len());
                    assert_eq!(said, format!("{found:.decimals$}"), "{words}");
                }
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 6);
}
