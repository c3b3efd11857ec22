//! `pocketstone history`, over copies of a run in which values are changed by hand.

use pocketstone_tests::command::{lab, write};
use pocketstone_tests::results;
use std::fs;
use std::path::Path;

const STUDY: &str = r#"title = "A small file"
board = "host"
seed = 1
judged_metrics = ["total_ns", "operations_per_s"]

[[experiment]]
name = "small"
[experiment.factors]
file_system = "directory"
file_bytes = "1MiB"
requests = [8, 16]
read_ahead_bytes = 0
read_ahead_by = "file"
"#;

/// A run, and copies of it whose first point took as long as `times_ns` say; the third one is of another revision.
fn runs(folder: &Path, times_ns: &[f64], exact: bool) {
    write(folder, "small.toml", STUDY);
    lab(folder, &["run", "small.toml", "--directory", "files", "--output", "one"]).ends_with(0);
    fs::create_dir(folder.join("nightly")).expect("a folder");
    for (number, time) in times_ns.iter().enumerate() {
        // Not in the order of their names.
        let copy = folder.join(format!("nightly/run-{}", (number * 7) % times_ns.len()));
        fs::create_dir(&copy).expect("a folder");
        fs::copy(folder.join("one/results.sqlite"), copy.join("results.sqlite")).expect("a copy");
        let db = results::change(&copy);
        let day = format!("2026-01-{:02} 03:00:00", number + 1);
        db.execute("UPDATE run SET value = ?1 WHERE name = 'started_utc'", [&day]).expect("a day");
        let change = |sql: &str| db.execute(sql, [time]).expect("a value");
        change("UPDATE statistic SET median = ?1 WHERE metric = 'total_ns' AND point LIKE '%\"requests\":8%'");
        let rest = "UPDATE statistic SET median = 5e6 WHERE metric <> 'total_ns' OR point NOT LIKE '%\"requests\":8%'";
        db.execute(rest, []).expect("values");
        let revision = if number < 2 { "before" } else { "after" };
        db.execute("UPDATE run SET value = ?1 WHERE name = 'git.revision'", [revision]).expect("a revision");
        let word = if exact { "yes" } else { "no" };
        db.execute("UPDATE run SET value = ?1 WHERE name = 'board.repeats_to_the_bit'", [word]).expect("a word");
    }
}

#[test]
fn one_per_cent_is_a_change_on_a_board_that_repeats_to_the_bit() {
    let folder = tempfile::tempdir().expect("a folder");
    runs(folder.path(), &[2e6, 2e6, 2.02e6], true);
    lab(folder.path(), &["history", "nightly", "-o", "history.html"]).ends_with(0).says(&[
        "3 runs of small on the board host: 1 of 4 series changed, 1 of them for the worse at last.",
        "small: requests=8 total_ns  ▁▁█",
        "run 3: 2 ms -> 2.02 ms (+1.0 %, worse); changed with it: git.revision",
        "git.revision: before -> after",
        "history: history.html",
    ]);
    let page = fs::read_to_string(folder.path().join("history.html")).expect("the page");
    for words in ["<h1>History of small</h1>", "Run 3: 2 ms -&gt; 2.02 ms (+1.0 %, worse).", "What else changed"] {
        assert!(page.contains(words), "{words}");
    }
    let json = lab(folder.path(), &["history", "nightly", "--json"]).ends_with(0);
    let json: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    let series = json["series"].as_array().expect("series");
    let changed: Vec<_> = series.iter().filter(|s| s["changes"] != serde_json::json!([])).collect();
    assert_eq!((series.len(), changed.len()), (4, 1));
    assert_eq!(changed[0]["changes"][0]["run"], 3);
    assert_eq!(changed[0]["values"], serde_json::json!([2e6, 2e6, 2.02e6]));
}

#[test]
fn on_a_noisy_board_a_step_is_found_among_twelve_runs_and_none_among_three() {
    let folder = tempfile::tempdir().expect("a folder");
    // The times of a machine with noise of some per cent, and a step of 20 % from the seventh run on.
    let noise = [0.3, -1.1, 0.8, -0.4, 1.3, -0.9, 0.2, -0.6, 1.0, -1.2, 0.5, 0.1];
    let times: Vec<f64> = (0..12).map(|n| 2e6 * if n < 6 { 1.0 } else { 1.2 } * (1.0 + noise[n] / 100.0)).collect();
    runs(folder.path(), &times, false);
    let words = ["12 runs of small", "1 of 4 series changed", "E-divisive", "  worse  small: requests=8 total_ns"];
    let found = lab(folder.path(), &["history", "nightly"]).ends_with(0).says(&words);
    assert_eq!(found.out.matches("run 7: ").count(), 1, "{found}");
    assert!(!found.out.contains("changed with it"), "no fact changed there: {found}");
    assert_eq!(found.out, lab(folder.path(), &["history", "nightly"]).out, "the same again");

    let three = ["nightly/run-0", "nightly/run-1", "nightly/run-2"];
    let few = lab(folder.path(), &[&["history"][..], &three].concat()).ends_with(0);
    few.says(&["changes cannot be told from noise in fewer than 10 values on this board"]);
}

#[test]
fn what_makes_no_history_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    runs(folder.path(), &[1.0, 1.0], false);
    let history = |words: &[&str]| lab(folder.path(), &[&["history"], words].concat());
    history(&["one"]).ends_with(1).complains(&["there is one run of small on host", "two runs at least"]);
    history(&["files"]).ends_with(1).complains(&["there are no results in files"]);
    history(&["nowhere"]).ends_with(1).complains(&["cannot list nowhere"]);
    history(&["nightly", "--study", "other"]).ends_with(1).complains(&["no runs of other; there are: small ("]);
    history(&["nightly", "--metric", "speed"]).ends_with(1).complains(&["unknown metric `speed`"]);
    let other = results::change(&folder.path().join("nightly/run-1"));
    other.execute("UPDATE run SET value = 'other' WHERE name = 'study.name'", []).expect("another study");
    drop(other);
    history(&["nightly"]).ends_with(1).complains(&["several studies: other (nightly/run-1), small (", "--study NAME"]);
    fs::write(folder.path().join("nightly/run-0/results.sqlite"), "not a database").expect("a file");
    history(&["nightly"]).ends_with(1).complains(&["cannot read the run in nightly/run-0"]);
}
