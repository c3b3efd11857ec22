//! (h) The modules of a crate form no circle, nor do those of any module: what they are follows from their paths
//! through the crate's root, or through that module.

use super::{ROOMS, assert_kept, names_in, root, text};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Crates in layers, by their roots: a module uses only those before it in its crate's list.
const LAYERS: [(&str, &[&str]); 3] = [
    (
        "crates/scmfs/src/lib.rs",
        &[
            "types",
            "defects",
            "format",
            "store",
            "space",
            "inodes",
            "parts",
            "contents",
            "reclaim",
            "operations",
            "recovery",
            "collector",
            "scrub",
            "checkpoint",
            "volume",
            "path",
            "check",
            "repair",
            "upgrade",
            "dump",
        ],
    ),
    (
        "crates/yaffs2/src/lib.rs",
        &[
            "bytes",
            "options",
            "log",
            "tree",
            "checkpoint",
            "files",
            "operations",
            "mount",
            "mounted",
            "volume",
            "check",
            "dump",
            "image",
        ],
    ),
    ("crates/study/src/lib.rs", &["specification", "results", "models", "views", "run"]),
];

/// What the crate's root is called here; its own items are what circles go through.
const CRATE: &str = "(root)";

/// The name that stands for all names of a module.
const ALL: &str = "*";

/// The modules of a crate's root, or of a module, that use others of it, and which; `pub use` there is no use but
/// another name.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The roots of a room's crates: its library and its programs.
fn crate_roots(room: &str) -> Vec<String> {
    let source = if room == "tests" { "tests/src".to_owned() } else { format!("crates/{room}/src") };
    let programs = names_in(&source).into_iter().map(|name| format!("{source}/{name}/main.rs"));
    let usual = ["lib.rs", "main.rs"].map(|name| format!("{source}/{name}"));
    usual.into_iter().chain(programs).filter(|path| root().join(path).is_file()).collect()
}

thread_local! {
    /// Tokens by the text that they are of: a file is looked at once for each module that it lies in.
    static READ: RefCell<HashMap<String, Vec<TokenTree>>> = RefCell::default();
}

/// A source file's tokens; comments are none.
pub(super) fn tokens(path: &str, source: &str) -> Vec<TokenTree> {
    if let Some(tokens) = READ.with_borrow(|read| read.get(source).cloned()) {
        return tokens;
    }
    let stream: TokenStream = source.parse().unwrap_or_else(|e| panic!("{path}: {e}"));
    let tokens = without_tests(stream);
    READ.with_borrow_mut(|read| read.insert(source.to_owned(), tokens.clone()));
    tokens
}

/// Leaves out items that only tests have.
fn without_tests(stream: TokenStream) -> Vec<TokenTree> {
    let mut kept: Vec<TokenTree> = Vec::new();
    let mut tokens = stream.into_iter();
    while let Some(token) = tokens.next() {
        let attribute = matches!(&token, TokenTree::Group(g) if g.delimiter() == Delimiter::Bracket)
            && kept.last().is_some_and(|before| is_punct(before, '#'));
        let condition = token.to_string().replace(' ', "");
        if !attribute || !["[cfg(test)]", "[cfg(all(test,"].iter().any(|test| condition.starts_with(test)) {
            kept.push(token);
            continue;
        }
        kept.pop();
        // The item goes to its semicolon or its braces.
        let ends = |token: &TokenTree| {
            is_punct(token, ';') || matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace)
        };
        tokens.by_ref().find(ends);
    }
    kept
}

fn is_punct(token: &TokenTree, what: char) -> bool {
    matches!(token, TokenTree::Punct(p) if p.as_char() == what)
}

fn word(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

fn braces(token: Option<&TokenTree>) -> Option<TokenStream> {
    match token {
        Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Brace => Some(g.stream()),
        _ => None,
    }
}

/// Whether `::` stands at a place.
fn parts_at(tokens: &[TokenTree], at: usize) -> bool {
    [at, at + 1].iter().all(|at| tokens.get(*at).is_some_and(|token| is_punct(token, ':')))
}

/// Tokens between commas.
fn between_commas(stream: TokenStream) -> Vec<Vec<TokenTree>> {
    let all: Vec<TokenTree> = stream.into_iter().collect();
    all.split(|token| is_punct(token, ',')).filter(|part| !part.is_empty()).map(<[TokenTree]>::to_vec).collect()
}

/// The names that a `use` brings, each with the first word of its path; `here` are words that say no more than where
/// the path begins.
fn brought(tree: &[TokenTree], here: &[&str], first: Option<&str>, names: &mut Vec<(String, String)>) {
    let mut at = 0;
    let mut first = first.map(str::to_owned);
    let mut last = first.clone().unwrap_or_default();
    while at < tree.len() {
        if let Some(group) = braces(tree.get(at)) {
            between_commas(group).iter().for_each(|part| brought(part, here, first.as_deref(), names));
            return;
        }
        if tree.get(at).is_some_and(|token| is_punct(token, '*')) {
            last = ALL.to_owned();
        }
        if let Some(name) = word(tree.get(at)).filter(|name| !here.contains(&name.as_str()) && name != "as") {
            first.get_or_insert_with(|| name.clone());
            last = name;
        }
        at += 1;
    }
    names.push((last, first.unwrap_or_default()));
}

/// What the root of a crate says, or the file of a module that has others.
struct Root {
    /// Its modules; the tokens of those that are written in place.
    modules: BTreeMap<String, Option<TokenStream>>,
    /// Names of what is elsewhere, with the first word of its path.
    names: BTreeMap<String, String>,
    /// Names of its own items.
    own: BTreeSet<String>,
    /// All but its modules, and the names that it gives to what is in them.
    rest: Vec<TokenTree>,
}

impl Root {
    /// Of the module at a place, below the crate's root.
    fn read(tokens: Vec<TokenTree>, place: &[String]) -> Root {
        let begins: &[&str] = if place.is_empty() { &["crate", "self"] } else { &["self"] };
        let mut root =
            Root { modules: BTreeMap::new(), names: BTreeMap::new(), own: BTreeSet::new(), rest: Vec::new() };
        let mut at = 0;
        while at < tokens.len() {
            let here = word(tokens.get(at));
            if let (Some("mod"), Some(name)) = (here.as_deref(), word(tokens.get(at + 1))) {
                root.modules.insert(name, braces(tokens.get(at + 2)));
                at += 3;
                continue;
            }
            if let Some("struct" | "enum" | "trait" | "fn" | "const" | "static" | "type") = here.as_deref() {
                root.own.extend(word(tokens.get(at + 1)));
            }
            // What an `impl Trait` captures, `use<>`, brings nothing.
            if here.as_deref() == Some("use") && !tokens.get(at + 1).is_some_and(|next| is_punct(next, '<')) {
                let end = tokens[at..].iter().position(|token| is_punct(token, ';')).expect("the end of a use") + at;
                let mut names = Vec::new();
                brought(&tokens[at + 1..end], begins, None, &mut names);
                root.names.extend(names);
                // `pub use`, or `pub(crate) use`, as it was put down.
                let of_visibility = match root.rest.last() {
                    Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => 2,
                    last if word(last).as_deref() == Some("pub") => 1,
                    _ => 0,
                };
                match of_visibility {
                    0 => root.rest.extend_from_slice(&tokens[at..end]),
                    more => root.rest.truncate(root.rest.len() - more),
                }
                at = end + 1;
                continue;
            }
            root.rest.push(tokens[at].clone());
            at += 1;
        }
        root
    }

    /// The module that a name of the root is of; `None`: it is of another crate.
    fn module(&self, name: &str) -> Option<&str> {
        if let Some((module, _)) = self.modules.get_key_value(name) {
            return Some(module);
        }
        let of_all = self.names.get(ALL).filter(|_| !self.own.contains(name));
        match self.names.get(name).or(of_all) {
            Some(first) => self.modules.get_key_value(first).map(|(module, _)| module.as_str()),
            None => Some(CRATE),
        }
    }

    /// The modules that the root itself uses.
    fn uses(&self, tokens: &[TokenTree], used: &mut BTreeSet<String>) {
        for (at, token) in tokens.iter().enumerate() {
            if let TokenTree::Group(group) = token {
                self.uses(&group.stream().into_iter().collect::<Vec<_>>(), used);
            }
            let Some(name) = word(Some(token)) else { continue };
            let before = |n: usize| at.checked_sub(n).and_then(|at| tokens.get(at));
            let colon = |n: usize| before(n).is_some_and(|t| is_punct(t, ':'));
            let within = colon(1) && colon(2) && word(before(3)).as_deref() != Some("crate");
            let own = before(1).is_some_and(|t| is_punct(t, '.')) || word(before(1)).as_deref() == Some("fn");
            let module = self.modules.contains_key(&name) && parts_at(tokens, at + 1);
            if !within && !own && (module || self.names.contains_key(&name)) {
                used.extend(self.module(&name).map(str::to_owned));
            }
        }
    }
}

/// The names that stand behind a path which has come to `at`, in the module that is `down` from there.
fn names_behind(tokens: &[TokenTree], at: usize, down: &[String], found: &mut BTreeSet<String>) {
    if !parts_at(tokens, at) {
        return;
    }
    let mut one = |part: &[TokenTree]| match (down.split_first(), word(part.first())) {
        (None, name) => drop(found.insert(name.unwrap_or_else(|| CRATE.to_owned()))),
        (Some((next, rest)), Some(name)) if name == *next => names_behind(part, 1, rest, found),
        _ => {}
    };
    match braces(tokens.get(at + 2)) {
        Some(group) => between_commas(group).iter().for_each(|part| one(part)),
        None => one(&tokens[at + 2..]),
    }
}

/// The names of the module at `place` that are used in a module of it, or a part of one, `depth` modules below it.
fn names_of(place: &[String], tokens: &[TokenTree], depth: usize, found: &mut BTreeSet<String>) {
    let mut at = 0;
    while at < tokens.len() {
        let here = word(tokens.get(at));
        match (&tokens[at], here.as_deref()) {
            (_, Some("mod")) => {
                if let Some(body) = braces(tokens.get(at + 2)) {
                    names_of(place, &without_tests(body), depth + 1, found);
                    at += 2;
                }
            }
            (TokenTree::Group(group), _) => names_of(place, &without_tests(group.stream()), depth, found),
            (_, Some("crate" | "super")) => {
                let mut ups = usize::from(here.as_deref() == Some("super"));
                let mut next = at + 1;
                while ups > 0 && parts_at(tokens, next) && word(tokens.get(next + 2)).as_deref() == Some("super") {
                    (ups, next) = (ups + 1, next + 3);
                }
                let down = match ups {
                    0 => Some(place),
                    ups => ups.checked_sub(depth).and_then(|above| place.get(place.len().checked_sub(above)?..)),
                };
                if let Some(down) = down {
                    names_behind(tokens, next, down, found);
                }
                at = next;
            }
            _ => {}
        }
        at += 1;
    }
}

/// The files of the modules that a file declares, with their names: several where there is one for each processor.
fn declared(path: &str, tokens: &[TokenTree], read: &dyn Fn(&str) -> Option<String>) -> Vec<(String, Vec<String>)> {
    let beside = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_root = ["/lib.rs", "/main.rs", "/mod.rs"].iter().any(|name| path.ends_with(name));
    let folder = if is_root { beside } else { path.strip_suffix(".rs").unwrap_or(path) };
    let mut modules = Vec::new();
    for at in 0..tokens.len() {
        let ends = tokens.get(at + 2).is_some_and(|end| is_punct(end, ';'));
        let (Some("mod"), Some(name), true) = (word(tokens.get(at)).as_deref(), word(tokens.get(at + 1)), ends) else {
            continue;
        };
        let mut files: Vec<String> = named_files(&tokens[..at]).iter().map(|file| format!("{beside}/{file}")).collect();
        if files.is_empty() {
            files.push(file_of(folder, &name, read));
        }
        modules.push((name, files));
    }
    modules
}

/// The names of the module at `place` that a module below it uses: those of its file, and of the files of modules in
/// it.
fn names_of_in_file(
    place: &[String],
    path: &str,
    depth: usize,
    read: &dyn Fn(&str) -> Option<String>,
    found: &mut BTreeSet<String>,
) {
    let source = read(path).unwrap_or_else(|| panic!("there is no {path}"));
    let tokens = tokens(path, &source);
    names_of(place, &tokens, depth, found);
    for (_, files) in declared(path, &tokens, read) {
        files.iter().for_each(|file| names_of_in_file(place, file, depth + 1, read, found));
    }
}

/// The files that the attributes before an item name, one for each processor, say.
fn named_files(before: &[TokenTree]) -> Vec<String> {
    fn named(tokens: TokenStream, files: &mut Vec<String>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            if let TokenTree::Group(group) = token {
                named(group.stream(), files);
            }
            if let (Some("path"), Some(TokenTree::Literal(file))) = (word(Some(token)).as_deref(), tokens.get(at + 2)) {
                files.push(file.to_string().trim_matches('"').to_owned());
            }
        }
    }
    let mut files = Vec::new();
    let brackets = |token: &TokenTree| matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Bracket);
    let of_item = |token: &&TokenTree| brackets(token) || is_punct(token, '#');
    let visibility = before.iter().rev().take_while(|token| word(Some(token)).as_deref() == Some("pub")).count();
    for token in before[..before.len() - visibility].iter().rev().take_while(of_item) {
        if let TokenTree::Group(group) = token {
            named(group.stream(), &mut files);
        }
    }
    files
}

fn file_of(folder: &str, module: &str, read: &dyn Fn(&str) -> Option<String>) -> String {
    let path = format!("{folder}/{module}.rs");
    if read(&path).is_some() { path } else { format!("{folder}/{module}/mod.rs") }
}

/// Which modules of the one at `place`, which is in the file `path`, use which.
fn graph_at(place: &[String], path: &str, read: &dyn Fn(&str) -> Option<String>) -> Graph {
    let source = read(path).unwrap_or_else(|| panic!("there is no {path}"));
    let tokens = tokens(path, &source);
    let files: BTreeMap<String, Vec<String>> = declared(path, &tokens, read).into_iter().collect();
    let root = Root::read(tokens, place);
    let mut graph = Graph::new();
    root.uses(&root.rest, graph.entry(CRATE.to_owned()).or_default());
    for (module, body) in &root.modules {
        let mut names = BTreeSet::new();
        if let Some(body) = body {
            names_of(place, &without_tests(body.clone()), 1, &mut names);
        }
        let files = files.get(module).into_iter().flatten();
        files.for_each(|file| names_of_in_file(place, file, 1, read, &mut names));
        let mut used: BTreeSet<String> = names.iter().filter_map(|n| root.module(n)).map(str::to_owned).collect();
        used.remove(module);
        graph.insert(module.clone(), used);
    }
    graph
}

/// Which top-level modules of the crate with this root use which.
fn graph(root: &str, read: &dyn Fn(&str) -> Option<String>) -> Graph {
    graph_at(&[], root, read)
}

/// The circles among the modules of each module below a file. That they use what their own module has is no circle: it
/// is the room that they share.
fn circles_below(place: &[String], path: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let source = read(path).unwrap_or_else(|| panic!("there is no {path}"));
    let mut faults = Vec::new();
    for (module, files) in declared(path, &tokens(path, &source), read) {
        let place = [place, &[module]].concat();
        for file in files {
            let mut graph = graph_at(&place, &file, read);
            graph.remove(CRATE);
            faults.extend(circles(&file, &graph));
            faults.extend(circles_below(&place, &file, read));
        }
    }
    faults
}

/// A way along uses from one module to another.
fn way(graph: &Graph, from: &str, to: &str) -> Option<Vec<String>> {
    let mut seen = BTreeSet::from([from.to_owned()]);
    let mut ways = std::collections::VecDeque::from([vec![from.to_owned()]]);
    while let Some(way) = ways.pop_front() {
        for next in graph.get(&way[way.len() - 1]).into_iter().flatten() {
            let on = || way.iter().chain([next]).cloned().collect();
            if next == to {
                return Some(on());
            }
            if seen.insert(next.clone()) {
                ways.push_back(on());
            }
        }
    }
    None
}

/// The circles of a crate.
fn circles(name: &str, graph: &Graph) -> Vec<String> {
    let mut faults = Vec::new();
    // The shortest one of each module says enough, and once.
    let mut told = BTreeSet::new();
    for module in graph.keys() {
        let Some(circle) = way(graph, module, module) else { continue };
        let mut members = circle.clone();
        members.sort();
        members.dedup();
        if told.insert(members) {
            faults.push(format!("{name}: {}", circle.join(" > ")));
        }
    }
    faults
}

#[test]
fn modules_form_no_circle() {
    let read = |path: &str| root().join(path).is_file().then(|| text(path));
    let roots: Vec<String> = ROOMS.iter().flat_map(|room| crate_roots(room)).collect();
    let of_one = |path: &String| [circles(path, &graph(path, &read)), circles_below(&[], path, &read)].concat();
    let all: Vec<String> = roots.iter().flat_map(of_one).collect();
    assert_kept("The modules of a crate form no circle: what two of them share goes into a third one.", &all);
}

/// Uses that go up in a list of layers, and modules that have no place in it.
fn against_layers(name: &str, graph: &Graph, layers: &[&str]) -> Vec<String> {
    let place = |module: &str| layers.iter().position(|layer| *layer == module);
    let mut faults = Vec::new();
    for (module, used) in graph.iter().filter(|(module, _)| *module != CRATE) {
        let Some(own) = place(module) else {
            faults.push(format!("{name}: {module} has no place in LAYERS"));
            continue;
        };
        let upward = used.iter().filter(|used| place(used).is_some_and(|place| place >= own));
        faults.extend(upward.map(|used| format!("{name}: {module} uses {used}, which is above it")));
    }
    faults
}

#[test]
fn modules_in_layers_use_those_before_them() {
    let read = |path: &str| root().join(path).is_file().then(|| text(path));
    let of_one = |(path, layers): &(&str, &[&str])| against_layers(path, &graph(path, &read), layers);
    let all: Vec<String> = LAYERS.iter().flat_map(of_one).collect();
    assert_kept("A module uses only those before it in its crate's list of layers.", &all);
    let small =
        sample(&[("s/lib.rs", "mod a; mod b; mod c;"), ("s/a.rs", ""), ("s/b.rs", "use crate::a;"), ("s/c.rs", "")]);
    assert_eq!(
        against_layers("s", &small, &["b", "a"]),
        ["s: b uses a, which is above it", "s: c has no place in LAYERS"]
    );
    assert!(against_layers("s", &small, &["a", "b", "c"]).is_empty());
}

/// The graph of sources that are not there.
fn sample(files: &[(&str, &str)]) -> Graph {
    let read = |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, source)| (*source).to_owned());
    graph("s/lib.rs", &read)
}

#[test]
fn circles_are_found_by_whatever_path() {
    let lib = "//! crate::b\nmod a; mod b; pub mod c { pub fn f() {} }\npub use a::{A, inner::Deep as D};\n";
    let with = |a: &str, b: &str| sample(&[("s/lib.rs", lib), ("s/a.rs", a), ("s/b/mod.rs", b)]);
    for a in [
        "use crate::b::B;",
        "use crate::{c, b::{B, C}};",
        "fn f() { g(|| crate::b::h()) }",
        "use super::b;",
        "mod inner { use super::super::b::B; }",
        "vec![crate::b::x()];",
    ] {
        for b in ["use crate::A;", "use crate::a::X;", "use crate::{D};", "fn f(a: super::A) {}"] {
            assert_eq!(circles("s", &with(a, b)), ["s: a > b > a"], "{a} {b}");
        }
    }
    for a in ["// crate::b", "use super::c;", "#[cfg(test)]\nmod tests { use crate::b::B; }", "use other::b;"] {
        assert!(circles("s", &with(a, "use crate::a::X;")).is_empty(), "{a}");
    }
    let below = [("s/lib.rs", "mod a; mod b;"), ("s/a.rs", "mod in_a;"), ("s/b.rs", "use crate::a;")];
    let below = |inner| sample(&[&below[..], &[("s/a/in_a.rs", inner)]].concat());
    assert_eq!(circles("s", &below("use super::super::b;")), ["s: a > b > a"]);
    assert!(circles("s", &below("use super::b;")).is_empty(), "that is a::b");
}

#[test]
fn circles_within_a_module_are_found_too() {
    let of = |room: &str, a: &str, b: &str| {
        let files = [("s/lib.rs", "mod a; mod room;"), ("s/a.rs", ""), ("s/room/mod.rs", room)];
        let files = [&files[..], &[("s/room/a.rs", a), ("s/room/b.rs", b)]].concat();
        let read = |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, source)| (*source).to_owned());
        circles_below(&[], "s/lib.rs", &read)
    };
    let circle = ["s/room/mod.rs: a > b > a"];
    for a in ["use super::b;", "use crate::room::b::B;", "use crate::{room::{b, x}};", "mod c { use super::super::b; }"]
    {
        for b in
            ["use super::a::A;", "use crate::room::A;", "fn f(_: crate::room::a::A) {}", "use super::super::room::a;"]
        {
            assert_eq!(of("mod a; mod b; pub use a::A;", a, b), circle, "{a} {b}");
        }
    }
    for b in ["use crate::a;", "use super::super::a;", "use super::X;", "use super::B;"] {
        let room = "mod a; mod b; use crate::a::X; pub use b::B;";
        assert!(of(room, "use super::b;", b).is_empty(), "{b} is not of room::a");
    }
}

#[test]
fn the_root_is_a_module_and_its_names_are_not() {
    let of = |lib: &str, a: &str| sample(&[("s/lib.rs", lib), ("s/a.rs", a)]);
    let circle = ["s: (root) > a > (root)"];
    for lib in
        ["mod a; pub struct S; fn f() { a::g() }", "mod a; use a::g; struct S;", "mod a; pub use a::T; fn f(_: T) {}"]
    {
        assert_eq!(circles("s", &of(lib, "use crate::S;")), circle, "{lib}");
        assert!(circles("s", &of(lib, "")).is_empty());
    }
    assert!(circles("s", &of("mod a; pub use a::T; pub struct S;", "use crate::{S, T};")).is_empty());
    let all =
        |b| sample(&[("s/lib.rs", "mod a; mod b; pub(crate) use a::*; fn f() {}"), ("s/a.rs", "use crate::b;"), b]);
    assert_eq!(circles("s", &all(("s/b.rs", "use crate::T;"))), ["s: a > b > a"], "T can only be of a");
    assert!(circles("s", &all(("s/b.rs", "use crate::f;"))).is_empty());
}
