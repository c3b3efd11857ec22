//! (i) SCMFS and YAFFS2 as libraries are used alike: what both crates, both `Volume`s or both `File`s have by one name
//! takes the same arguments in the same order and gives the same. What they do by inode numbers is one trait,
//! `Operations`.

use super::circles::tokens;
use super::{assert_kept, extension, files, text};
use pocketstone_testing::or_skip;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeMap;

/// What may differ, and why.
const DIFFERENT: [(&str, &str); 4] = [
    ("Volume::create", "a chip is erased: there is nothing to choose, and its owner still has it"),
    ("File::attributes", "an open inode of SCMFS is in memory; that of YAFFS2 may have to be read from the chip"),
    ("check", "nothing on a chip says how its tags are stored"),
    ("dump", "as for a check; and a chip's is too long for a string"),
];
/// Types whose functions are compared.
const TYPES: [&str; 2] = ["Volume", "File"];

/// Public functions, by name, from their arguments to what they return. The two media are one.
type Functions = BTreeMap<String, String>;

fn word(token: Option<&TokenTree>) -> String {
    match token {
        Some(TokenTree::Ident(ident)) => ident.to_string(),
        _ => String::new(),
    }
}

fn braces(token: Option<&TokenTree>) -> Option<TokenStream> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => Some(group.stream()),
        _ => None,
    }
}

/// The functions of a file's root, or of a type, of whose names `before` stands in front.
fn collect(tokens: &[TokenTree], before: &str, found: &mut Functions) {
    for at in 0..tokens.len() {
        let is = |more: usize, what: &str| word(tokens.get(at + more)) == what;
        if is(0, "pub") && is(1, "fn") {
            let signature: TokenStream =
                tokens[at + 3..].iter().take_while(|token| braces(Some(token)).is_none()).cloned().collect();
            let mut signature = signature.to_string();
            for (medium, name) in [("Region", "region"), ("Nand", "nand")] {
                signature = signature.replace(&format!("dyn {medium}"), "dyn Medium").replace(name, "medium");
            }
            // What a function does with what it has been given is its own affair.
            let signature = signature.replace("(mut self", "(self");
            found.insert(format!("{before}{}", word(tokens.get(at + 2))), signature);
        }
        let of = TYPES.iter().find(|name| is(0, "impl") && is(1, name));
        if let Some((of, body)) = of.zip(braces(tokens.get(at + 2))) {
            collect(&body.into_iter().collect::<Vec<_>>(), &format!("{of}::"), found);
        }
    }
}

/// The functions that a crate offers.
fn offered(files: &[String], room: &str) -> Functions {
    let folder = format!("crates/{room}/src/");
    let root = text(&format!("{folder}lib.rs"));
    let mut found = Functions::new();
    for path in files.iter().filter(|path| path.starts_with(&folder) && extension(path) == "rs") {
        collect(&tokens(path, &text(path)), "", &mut found);
    }
    let words: Vec<&str> = root.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    found.retain(|name, _| name.contains("::") || words.contains(&name.as_str()));
    found
}

fn differences(one: &Functions, other: &Functions, different: &[(&str, &str)]) -> Vec<String> {
    let both = one.iter().filter_map(|(name, first)| Some((name, first, other.get(name)?)));
    let (unlike, alike): (Vec<_>, Vec<_>) = both.partition(|(_, first, second)| first != second);
    let may = |name: &str| different.iter().any(|(known, _)| *known == name);
    let mut faults: Vec<String> = unlike
        .iter()
        .filter(|(name, ..)| !may(name))
        .map(|(name, first, second)| format!("{name}: {first}, but {second}"))
        .collect();
    let still = |name: &str| unlike.iter().any(|(unlike, ..)| *unlike == name);
    faults.extend(different.iter().filter(|(name, _)| !still(name)).map(|(name, _)| format!("{name} does not differ")));
    if alike.is_empty() {
        faults.push("they have nothing in common".to_owned());
    }
    faults
}

#[test]
fn what_both_file_systems_have_is_used_alike() {
    let files = or_skip!(files());
    let faults = differences(&offered(&files, "scmfs"), &offered(&files, "yaffs2"), &DIFFERENT);
    assert_kept("Functions of one name in crates/scmfs and crates/yaffs2 are alike, but for DIFFERENT.", &faults);
}

#[test]
fn a_function_that_is_not_like_its_twin_is_found() {
    let of = |source: &str| {
        let mut found = Functions::new();
        collect(&tokens("sample", source), "", &mut found);
        found
    };
    let one =
        of("impl Volume { pub fn open(region: Box<dyn Region>, a: u8) -> u8 { 0 } pub fn f(&self) {} fn g() {} }");
    let same =
        of("impl Volume { pub fn open(nand: Box<dyn Nand>, a: u8) -> u8 { 1 } pub fn f(&self) {} fn g(a: u8) {} }");
    assert_eq!(differences(&one, &same, &[]), [""; 0]);
    assert_eq!(differences(&one, &same, &[("Volume::f", "")]), ["Volume::f does not differ"]);
    for other in ["pub fn f(&mut self) {}", "pub fn f(&self, a: u8) {}", "pub fn f(&self) -> u8 { 0 }"] {
        let other = of(&format!("impl Volume {{ {other} pub fn open(nand: Box<dyn Nand>, a: u8) -> u8 {{ 1 }} }}"));
        assert_eq!(differences(&one, &other, &[]).len(), 1);
        assert_eq!(differences(&one, &other, &[("Volume::f", "it may")]), [""; 0]);
    }
    assert_eq!(differences(&one, &of("pub fn open() {} impl Watch for Volume { pub fn f() {} }"), &[]).len(), 1);
}
