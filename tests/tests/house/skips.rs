//! A test that is skipped is counted: it ends early by way of `crates/testing`, and says so by no way of its own.

use super::{assert_kept, extension, files, root, text};
use pocketstone_testing::or_skip;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::process::Command;

/// The file that counts skips, and says so.
const COUNTER: &str = "crates/testing/src/needs.rs";
/// What prints a text.
const PRINTS: [&str; 6] = ["write", "writeln", "print", "println", "eprint", "eprintln"];
/// How a text begins that tells of a skip.
const TELLS: [&str; 2] = ["\"skipped:", "\"left out:"];

fn is_word(tree: Option<&TokenTree>, word: &str) -> bool {
    matches!(tree, Some(TokenTree::Ident(found)) if found == word)
}

fn is_sign(tree: Option<&TokenTree>, sign: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(found)) if found.as_char() == sign)
}

fn group(tree: Option<&TokenTree>, delimiter: Delimiter) -> Option<TokenStream> {
    match tree {
        Some(TokenTree::Group(found)) if found.delimiter() == delimiter => Some(found.stream()),
        _ => None,
    }
}

/// The lines on which something returns without a value.
fn bare_returns(body: TokenStream) -> Vec<usize> {
    let trees: Vec<TokenTree> = body.into_iter().collect();
    let mut lines = Vec::new();
    for (at, tree) in trees.iter().enumerate() {
        let next = trees.get(at + 1);
        if is_word(Some(tree), "return") && (next.is_none() || is_sign(next, ';') || is_sign(next, ',')) {
            lines.push(tree.span().start().line);
        }
        if let TokenTree::Group(inner) = tree {
            lines.extend(bare_returns(inner.stream()));
        }
    }
    lines
}

/// Whether these tokens, which follow one another, begin with a text that tells of a skip.
fn tells(inner: TokenStream) -> bool {
    inner.into_iter().any(|tree| match tree {
        TokenTree::Literal(literal) => TELLS.iter().any(|start| literal.to_string().starts_with(start)),
        TokenTree::Group(inner) => tells(inner.stream()),
        _ => false,
    })
}

/// The faults of a file: tests that end early without a skip that was counted, and skips that are only told.
fn uncounted(path: &str, source: &str) -> Vec<String> {
    fn walk(path: &str, stream: TokenStream, faults: &mut Vec<String>) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut of_test = false;
        for (at, tree) in trees.iter().enumerate() {
            let next = trees.get(at + 1);
            if is_sign(Some(tree), '#') && group(next, Delimiter::Bracket).is_some_and(|a| a.to_string() == "test") {
                of_test = true;
            }
            if let Some(body) = group(Some(tree), Delimiter::Brace).filter(|_| of_test) {
                of_test = false;
                faults.extend(bare_returns(body).into_iter().map(|n| format!("{path}:{n}: a test returns early")));
            }
            let prints = |tree: &TokenTree| PRINTS.iter().any(|name| is_word(Some(tree), name));
            if prints(tree) && is_sign(next, '!') {
                if let Some(TokenTree::Group(words)) = trees.get(at + 2).filter(|_| path != COUNTER) {
                    if tells(words.stream()) {
                        faults.push(format!("{path}:{}: a skip is told, not counted", tree.span().start().line));
                    }
                }
            }
            if let TokenTree::Group(inner) = tree {
                walk(path, inner.stream(), faults);
            }
        }
    }
    let stream: TokenStream = source.parse().unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut faults = Vec::new();
    walk(path, stream, &mut faults);
    faults
}

#[test]
fn a_test_that_is_skipped_is_counted() {
    let files = or_skip!(files());
    // Benchmarks and the commands name what they leave out: they are no tests.
    let of_tests = |path: &&String| {
        let beside =
            path.starts_with("tests/benches/") || path.contains("/benches/") || path.starts_with("crates/cli/src");
        extension(path) == "rs" && !beside
    };
    let faults: Vec<String> = files.iter().filter(of_tests).flat_map(|path| uncounted(path, &text(path))).collect();
    let rule = "A test ends early by `or_skip!`, or by `Need::lacks(...).end()`: crates/testing counts it.";
    assert_kept(rule, &faults);
}

#[test]
fn ways_around_the_count_are_found() {
    let counted = "#[test] fn a() { let x = or_skip!(y()); if z { return Need::Git.lacks(1).end() } f(|| return) }\n\
                   fn helper() { return; }";
    assert_eq!(uncounted("t.rs", counted), ["t.rs:1: a test returns early"; 1], "a closure's bare return, too");
    let silent = "#[test]\n#[ignore = \"x\"]\nfn a() {\n let Some(b) = c() else { return };\n if d { return; }\n}";
    assert_eq!(uncounted("t.rs", silent), ["t.rs:4: a test returns early", "t.rs:5: a test returns early"]);
    let told = "fn f() { let _ = writeln!(std::io::stderr(), \"skipped: {why}\"); }";
    assert_eq!(uncounted("t.rs", told), ["t.rs:1: a skip is told, not counted"]);
    assert_eq!(uncounted(COUNTER, told), [""; 0]);
    assert_eq!(uncounted("t.rs", "fn f() { say(\"left out: x\"); assert!(x.contains(\"skipped\")) }"), [""; 0]);
}

#[test]
fn what_could_not_be_made_ready_is_in_the_sum_once_and_with_its_own_cure() {
    let folder = tempfile::tempdir().unwrap();
    let skipped = |arguments: &[&str], require: &str| {
        let mut command = Command::new(root().join("scripts/skipped"));
        command.args(arguments).env("REQUIRE", require).env("POCKETSTONE_SKIPPED", folder.path().join("new/list"));
        command.output().expect("bash")
    };
    let add = |what: &str, cure: &str| skipped(&["add", "setup", what, "not there", cure], "root");
    for (what, cure) in [("fio", "get fio"), ("zsh", "get zsh"), ("fio", "get fio")] {
        let added = add(what, cure);
        let told = format!("left out: {what}; why: not there; fix: {cure}\n");
        assert!(added.status.success() && added.stderr == told.as_bytes(), "{added:?}");
    }
    let sum = String::from_utf8(skipped(&["sum"], "").stdout).unwrap();
    let lines = "  2 lacking setup; fix: get fio\n      fio: not there\n      zsh: not there; fix: get zsh\n";
    assert_eq!(sum, format!("skipped: 2 tests and preparations\n{lines}"));
    assert!(!skipped(&["add", "setup", "zsh", "not there", "get zsh"], "all").status.success());
}

/// Scripts say that something is left out by way of the one that counts it.
#[test]
fn what_scripts_that_prepare_tests_leave_out_is_counted() {
    let scripts =
        ["setup", "suites", "phone", "ssh-servers", "python-modules", "cluster", "deny", "miri", "oldest-rust"];
    let faults: Vec<String> = scripts
        .into_iter()
        .chain(["sqlite-suite"])
        .map(|name| format!("scripts/{name}"))
        .filter(|path| text(path).lines().any(|line| !line.starts_with('#') && line.contains("left out: ")))
        .collect();
    assert_kept("Scripts leave out by `scripts/skipped add`.", &faults);
}
