//! What `cargo test` makes of a library: its examples, which are compiled and run crate by crate, and its own tests. A
//! library without any says so: to look for examples costs as much as compiling it again, and a program without a test
//! is compiled and linked all the same.

use super::{assert_kept, extension, files, manifests, text};
use pocketstone_testing::or_skip;
use toml::{Table, Value};

/// How a block of code begins that is compiled: rustdoc takes one without a word for Rust.
const COMPILED: [&str; 5] = ["", "rust", "no_run", "should_panic", "compile_fail"];
/// How a crate's documentation takes in the README beside it.
const README: &str = "#![doc = include_str!(\"../README.md\")]";

/// Whether lines of Markdown have a block that is compiled.
fn has_example<'a>(lines: impl Iterator<Item = &'a str>) -> bool {
    let mut inside = false;
    lines.filter_map(|line| line.trim().strip_prefix("```")).any(|kind| {
        inside = !inside;
        let first = kind.split([',', ' ']).next().unwrap_or_default();
        inside && COMPILED.contains(&first)
    })
}

/// The documentation in a source file, without the marks of comments.
fn documentation(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or(line.strip_prefix("//!"))
    })
}

/// What is wrong with what a room says of its examples (`doctest`) or tests (`test`).
fn fault(room: &str, manifest: &Table, key: &str, has_any: bool) -> Option<String> {
    let says = manifest.get("lib").and_then(|lib| lib.get(key)).and_then(Value::as_bool).unwrap_or(true);
    match (says, has_any) {
        (true, false) => Some(format!("{room}: its library has none: [lib] {key} = false")),
        (false, true) => Some(format!("{room}: its library's are not run: remove {key} = false")),
        _ => None,
    }
}

#[test]
fn a_library_says_whether_it_has_examples_and_tests() {
    let files = or_skip!(files());
    let mut faults = Vec::new();
    for (room, manifest) in manifests() {
        let folder = if room == "tests" { "tests/src/".to_owned() } else { format!("crates/{room}/src/") };
        let rust: Vec<&String> =
            files.iter().filter(|path| path.starts_with(&folder) && extension(path) == "rs").collect();
        if !rust.iter().any(|path| **path == format!("{folder}lib.rs")) {
            continue;
        }
        let sources: Vec<String> = rust.into_iter().map(|path| text(path)).collect();
        let readme =
            |source: &String| source.contains(README) && has_example(text(&format!("crates/{room}/README.md")).lines());
        let examples = sources.iter().any(|source| has_example(documentation(source)) || readme(source));
        let tests = sources.iter().any(|source| source.lines().any(|line| line.trim() == "#[test]"));
        faults.extend(fault(&room, &manifest, "doctest", examples));
        faults.extend(fault(&room, &manifest, "test", tests));
    }
    assert_kept(
        "A library without examples says doctest = false, one without tests test = false, and no other.",
        &faults,
    );
}

#[test]
fn examples_are_told_from_other_blocks() {
    for source in ["/// ```\n/// f();\n/// ```", "//! ```rust\n//! ```", "    /// ```no_run\n    /// ```"] {
        assert!(has_example(documentation(source)), "{source}");
    }
    for source in ["/// ```text\n/// f();\n/// ```", "// ```\n// ```", "//! ```sh\n//! ```\n/// `f()`", "f();"] {
        assert!(!has_example(documentation(source)), "{source}");
    }
    let quiet: Table = "[lib]\ndoctest = false\n".parse().unwrap();
    assert!(fault("x", &quiet, "doctest", true).is_some() && fault("x", &Table::new(), "doctest", false).is_some());
    assert!(fault("x", &quiet, "doctest", false).is_none() && fault("x", &Table::new(), "test", true).is_none());
}
