//! What studies and reports are made of does not know the way to a board.

use super::{assert_kept, extension, files, text};
use pocketstone_testing::or_skip;
use proc_macro2::{TokenStream, TokenTree};

/// Crates for which every board is the same.
const KNOW_NO_WAY: [&str; 2] = ["crates/study/src/", "crates/report/src/"];
/// Words of one way, or of what is at its end.
const WORDS: [&str; 9] = ["qemu", "icount", "qmp", "semihosting", "nandsim", "ssh", "adb", "labgrid", "docker"];

/// The lines of Rust source with a word of one way, in a name or a text; comments do not count.
fn of_one_way(source: &str) -> Vec<(usize, String)> {
    fn walk(stream: TokenStream, found: &mut Vec<(usize, String)>) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let is = |at: usize, sign: char| matches!(trees.get(at), Some(TokenTree::Punct(p)) if p.as_char() == sign);
        for (at, tree) in trees.iter().enumerate() {
            match tree {
                // `/// x` is `#[doc = " x"]`, and `//! x` is `#![doc = " x"]`.
                TokenTree::Group(inner) => {
                    let after_sign = at > 0 && (is(at - 1, '#') || at > 1 && is(at - 1, '!') && is(at - 2, '#'));
                    if !(after_sign && inner.stream().to_string().starts_with("doc =")) {
                        walk(inner.stream(), found);
                    }
                }
                TokenTree::Ident(_) | TokenTree::Literal(_) => {
                    let line = tree.span().start().line;
                    found.extend(words(&tree.to_string()).filter(|w| WORDS.contains(&&**w)).map(|w| (line, w)));
                }
                TokenTree::Punct(_) => {}
            }
        }
    }
    let mut found = Vec::new();
    walk(source.parse().expect("Rust"), &mut found);
    found
}

/// The words in a name or a text, small: `OpenSsh`, `OPEN_SSH` and `open-ssh` are two each.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut apart = String::new();
    let mut small = false;
    for c in text.chars() {
        if c.is_uppercase() && small {
            apart.push(' ');
        }
        small = c.is_lowercase();
        apart.extend(if c.is_alphanumeric() { c.to_lowercase().next() } else { Some(' ') });
    }
    apart.split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

#[test]
fn studies_and_reports_know_no_way_to_a_board() {
    let files = or_skip!(files());
    let theirs = files
        .iter()
        .filter(|path| extension(path) == "rs" && KNOW_NO_WAY.iter().any(|folder| path.starts_with(folder)));
    let faults: Vec<String> = theirs
        .flat_map(|path| of_one_way(&text(path)).into_iter().map(move |(line, word)| format!("{path}:{line}: {word}")))
        .collect();
    assert_kept("Studies and reports ask the board, and name no way to one.", &faults);
}

#[test]
fn a_word_of_one_way_is_found_in_names_and_texts_alone() {
    let found = |source: &str| of_one_way(source).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
    assert_eq!(
        found("const A: &str = \"fact.qemu.arguments\";\nfn by_ssh() {}\nstruct AdbBoard;\nconst QMP: u8 = 1;"),
        [1, 2, 3, 4]
    );
    assert_eq!(found("//! ssh\n/// qemu\nfn f() {\n// adb\nlet x = \"dashed\"; }"), [0; 0]);
}
