//! The advice on read-ahead against the board: of every sequence, all settings are tried, and the one that is advised
//! from a single recorded run must be as good as the best of them.

use pocketstone_testing::or_skip;
use pocketstone_tests::command::{board, lab, write};

/// What is advised may be so much slower than the best setting that there is.
const WITHIN: f64 = 0.02;

/// Sequences: the start of a file in order, all of it, at random, and a database's mix of both.
fn study(windows: &str) -> String {
    let reads = |name: &str, pattern: &str, requests: u64, by: &str, windows: &str| {
        format!(
            "[[experiment]]\nname = \"{name}\"\ntraced = \"none\"\n[experiment.factors]\nfile_system = \"jffs2\"\n\
             compression = \"none\"\npattern = \"{pattern}\"\nfile_bytes = \"5MiB\"\nrequests = {requests}\n\
             read_ahead_by = \"{by}\"\nread_ahead_bytes = {windows}\n"
        )
    };
    let mut text = "title = \"t\"\nboard = \"virt-nand\"\nseed = 3\n".to_owned();
    for (name, pattern, requests) in
        [("few", "sequential", 16), ("whole", "sequential", 1280), ("random", "random", 256)]
    {
        text += &reads(name, pattern, requests, "mount", windows);
        text += &reads(&format!("{name}-by-file"), pattern, requests, "file", "0");
    }
    text + &format!(
        "[[experiment]]\nname = \"mix\"\n[experiment.factors]\nfile_system = \"jffs2\"\ncompression = \"none\"\n\
         workload = \"contacts\"\nrecords = 400\npage_bytes = 1024\nfield_bytes = 64\npattern = \"random\"\n\
         operations = 30\npage_cache = \"cold\"\nread_ahead_bytes = {windows}\n"
    )
}

/// Runs the study, asks for advice from one run of each sequence, and compares.
fn compare(windows: &str) {
    or_skip!(board());
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "s.toml", &study(windows));
    lab(folder.path(), &["run", "s.toml", "--output", "r"]).ends_with(0);
    let db = pocketstone_tests::results::read(&folder.path().join("r"));
    let measured = |experiment: &str, window: u64| -> f64 {
        let sql = "SELECT value FROM metric JOIN cells c ON c.id = metric.cell
                   WHERE name = 'total_ns' AND NOT traced AND experiment = ?1 AND read_ahead_bytes = ?2";
        db.query_row(sql, (experiment, window), |r| r.get(0)).unwrap_or_else(|e| panic!("{experiment} {window}: {e}"))
    };
    for experiment in ["few", "whole", "random", "mix"] {
        let only = "read_ahead_bytes = 131072";
        let arguments = ["advise", "readahead", "r", "--experiment", experiment, "--only", only, "--json"];
        let said = lab(folder.path(), &arguments).ends_with(0);
        let answer: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        let of = |candidate: &serde_json::Value| match candidate["by"].as_str() {
            Some("file") => measured(&format!("{experiment}-by-file"), 0),
            _ => measured(experiment, candidate["window_bytes"].as_u64().unwrap()),
        };
        let tried = |candidate: &&serde_json::Value| {
            let bytes = candidate["window_bytes"].as_u64().unwrap();
            candidate["by"] == "file" || windows.contains(&format!("\"{}KiB\"", bytes >> 10))
        };
        let ranked = answer["ranked"].as_array().unwrap();
        let best = ranked.iter().filter(tried).map(of).fold(f64::INFINITY, f64::min);
        let advised = of(&ranked[0]);
        assert!(advised <= best * (1.0 + WITHIN), "{experiment}: advised {advised} ns, best {best} ns");
        // The model knows the run that it learned from.
        let error = answer["modelled_ns"].as_f64().unwrap() / answer["measured_ns"].as_f64().unwrap() - 1.0;
        assert!(error.abs() < 0.03, "{experiment}: {error}");
        // And says in milliseconds what each other setting takes.
        for candidate in ranked.iter().filter(tried) {
            let error = candidate["total_ns"].as_f64().unwrap() / of(candidate) - 1.0;
            assert!(error.abs() < 0.06, "{experiment}: {candidate} is off by {error}");
        }
    }
}

#[test]
fn what_is_advised_is_as_good_as_the_best_setting_there_is() {
    compare(r#"["0KiB", "8KiB", "20KiB", "128KiB"]"#);
}

/// All windows in the kernel's steps: some minutes.
#[test]
#[ignore = "long: make torture"]
fn what_is_advised_is_as_good_as_the_best_of_all_settings() {
    let windows: Vec<String> = (0..=32).map(|pages| format!("\"{}KiB\"", 4 * pages)).collect();
    compare(&format!("[{}]", windows.join(", ")));
}
