//! Examples in the documentation are compiled and run by `cargo test`, crate by crate; a crate without any says so, for
//! looking for them costs as much as compiling it again.

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

/// What is wrong with what a room says of its examples.
fn fault(room: &str, manifest: &Table, has_examples: bool) -> Option<String> {
    let says = manifest.get("lib").and_then(|lib| lib.get("doctest")).and_then(Value::as_bool).unwrap_or(true);
    match (says, has_examples) {
        (true, false) => Some(format!("{room}: no example in its documentation: [lib] doctest = false")),
        (false, true) => Some(format!("{room}: its examples are not run: remove doctest = false")),
        _ => None,
    }
}

#[test]
fn examples_are_run_where_there_are_any() {
    let files = or_skip!(files());
    let of_room = |room: &str| {
        let folder = if room == "tests" { "tests/src/".to_owned() } else { format!("crates/{room}/src/") };
        let sources: Vec<&String> =
            files.iter().filter(|path| path.starts_with(&folder) && extension(path) == "rs").collect();
        let is_library = sources.iter().any(|path| **path == format!("{folder}lib.rs"));
        let has_examples = sources.iter().any(|path| {
            let source = text(path);
            let readme = || has_example(text(&format!("crates/{room}/README.md")).lines());
            has_example(documentation(&source)) || source.contains(README) && readme()
        });
        is_library.then_some(has_examples)
    };
    let faults: Vec<String> = manifests()
        .iter()
        .filter_map(|(room, manifest)| of_room(room).and_then(|examples| fault(room, manifest, examples)))
        .collect();
    assert_kept("A crate whose documentation has no example says doctest = false, and no other does.", &faults);
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
    assert!(fault("x", &quiet, true).is_some() && fault("x", &Table::new(), false).is_some());
    assert!(fault("x", &quiet, false).is_none() && fault("x", &Table::new(), true).is_none());
}
