//! The rules of the house, each a test: who may depend on whom, how long a file may be, who may
//! print. Every rule is a function over plain data, and is shown to fail on a bad sample.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use pocketstone_testing::{Need, Skip, or_skip};
use toml::{Table, Value};

#[path = "house/circles.rs"]
mod circles;
#[path = "house/dependencies.rs"]
mod dependencies;
#[path = "house/libraries.rs"]
mod libraries;
#[path = "house/skips.rs"]
mod skips;
#[path = "house/transports.rs"]
mod transports;
#[path = "house/twins.rs"]
mod twins;

/// The rooms, from the bottom up: each may use only those before it.
const ROOMS: [&str; 27] = [
    "random",
    "testing",
    "vfs",
    "fstest",
    "core",
    "process",
    "tlb",
    "tlb-plugin",
    "media",
    "lease",
    "preload",
    "workload",
    "scmfs",
    "scmfs-c",
    "sqlite",
    "sqlite-extension",
    "yaffs2",
    "mount",
    "engine",
    "probe",
    "runner",
    "replay",
    "board",
    "study",
    "report",
    "cli",
    "tests",
];
/// Packages are called this and the room's name.
const PREFIX: &str = "pocketstone-";
/// What counts as source, for the rule on length.
const SOURCE_EXTENSIONS: [&str; 8] = ["rs", "c", "java", "py", "js", "css", "sql", "html"];
const MAX_LINES: usize = 600;
const MAX_COLUMNS: usize = 120;
const MAX_BYTES: u64 = 1 << 20;

// --- what the rules look at ---------------------------------------------------------------------

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is inside the workspace").to_path_buf()
}

fn text(path: &str) -> String {
    let bytes = std::fs::read(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    String::from_utf8(bytes).unwrap_or_else(|e| panic!("{path} is not UTF-8: {e}"))
}

fn names_in(directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(directory)).unwrap_or_else(|e| panic!("{directory}/: {e}"));
    let mut names: Vec<String> =
        entries.map(|e| e.expect("a directory entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The manifests of all rooms and of the tests, by room.
fn manifests() -> BTreeMap<String, Table> {
    let rooms = names_in("crates").into_iter().filter(|room| root().join("crates").join(room).is_dir());
    let mut manifests: BTreeMap<String, Table> =
        rooms.map(|room| (room.clone(), parse(&format!("crates/{room}/Cargo.toml")))).collect();
    assert!(!manifests.is_empty(), "there is no room in crates/");
    manifests.insert("tests".to_owned(), parse("tests/Cargo.toml"));
    manifests
}

fn parse(path: &str) -> Table {
    text(path).parse().unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Every file that is tracked, or would be if it were added now; a counted skip without git.
#[track_caller]
fn files() -> Result<Vec<String>, Skip> {
    let git = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    let why = match git {
        Err(e) => format!("git: {e}"),
        Ok(output) if !output.status.success() => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Ok(output) => {
            let listed = String::from_utf8(output.stdout).expect("file names are UTF-8");
            let mut files: Vec<String> = listed.split_terminator('\0').map(str::to_owned).collect();
            files.retain(|path| root().join(path).is_file());
            assert!(files.iter().any(|path| path == "Cargo.toml"), "git lists no Cargo.toml at the root");
            return Ok(files);
        }
    };
    Err(Need::Git.lacks(format_args!("a rule on files, for they cannot be listed: {why}")))
}

fn extension(path: &str) -> &str {
    Path::new(path).extension().and_then(|e| e.to_str()).unwrap_or("")
}

#[track_caller]
fn assert_kept(rule: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{rule}\n  {}\n", faults.join("\n  "));
}

// --- (a) rooms depend only downward -------------------------------------------------------------

/// The packages that a manifest depends on, in all its sections, by the name they are published as.
fn dependencies(manifest: &Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let places = std::iter::once(manifest).chain(targets.filter_map(Value::as_table));
    let sections = places.flat_map(|place| {
        ["dependencies", "dev-dependencies", "build-dependencies"]
            .into_iter()
            .filter_map(|section| place.get(section).and_then(Value::as_table))
    });
    sections
        .flat_map(|section| {
            section.iter().map(|(key, value)| {
                value.get("package").and_then(Value::as_str).map_or_else(|| key.clone(), str::to_owned)
            })
        })
        .collect()
}

fn upward_dependencies(room: &str, manifest: &Table) -> Vec<String> {
    let Some(height) = ROOMS.iter().position(|known| *known == room) else {
        return vec![format!("crates/{room} is not in the list of rooms (ROOMS, in tests/tests/house.rs)")];
    };
    let mut faults = Vec::new();
    let name = manifest.get("package").and_then(|p| p.get("name")).and_then(Value::as_str).unwrap_or("");
    if name != format!("{PREFIX}{room}") {
        faults.push(format!("the package in crates/{room} is called \"{name}\", not \"{PREFIX}{room}\""));
    }
    for dependency in dependencies(manifest) {
        let Some(other) = dependency.strip_prefix(PREFIX) else { continue };
        match ROOMS.iter().position(|known| *known == other) {
            None => faults.push(format!("{room} depends on {dependency}, which is not in the list of rooms")),
            Some(place) if place >= height => {
                faults.push(format!("{room} depends on {other}, which is not below it"));
            }
            Some(_) => {}
        }
    }
    faults
}

#[test]
fn rooms_depend_only_downward() {
    let faults: Vec<String> = manifests().iter().flat_map(|(room, m)| upward_dependencies(room, m)).collect();
    assert_kept(&format!("A room may use only the rooms below it: {}.", ROOMS.join(" < ")), &faults);
}

#[test]
fn an_upward_dependency_is_found_in_every_section() {
    let sample = |section: &str, line: &str| -> Table {
        format!("[package]\nname = \"pocketstone-engine\"\n[{section}]\nserde = \"1\"\n{line}").parse().unwrap()
    };
    let down = sample("dependencies", "pocketstone-core.workspace = true");
    assert_eq!(upward_dependencies("engine", &down), [""; 0]);
    for section in ["dependencies", "dev-dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"] {
        let up = sample(section, "pocketstone-board.workspace = true");
        assert_eq!(upward_dependencies("engine", &up), ["engine depends on board, which is not below it"]);
    }
    let renamed = sample("dependencies", "b = { package = \"pocketstone-board\", path = \"../board\" }");
    assert_eq!(upward_dependencies("engine", &renamed).len(), 1);
    let itself = sample("dev-dependencies", "pocketstone-engine.workspace = true");
    assert_eq!(upward_dependencies("engine", &itself).len(), 1);
    let unknown = sample("dependencies", "pocketstone-attic.workspace = true");
    assert_eq!(upward_dependencies("engine", &unknown).len(), 1);
    assert_eq!(upward_dependencies("attic", &down).len(), 1, "a room that is not in the list");
    assert_eq!(upward_dependencies("probe", &down).len(), 1, "a package with another room's name");
}

// --- (b) the map shows every room ---------------------------------------------------------------

fn mentions(text: &str, directory: &str) -> bool {
    text.match_indices(directory).any(|(at, found)| {
        let next = text[at + found.len()..].chars().next();
        !next.is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '_')
    })
}

#[test]
fn the_architecture_page_mentions_every_room() {
    let page = text("ARCHITECTURE.md");
    let faults: Vec<String> = manifests()
        .keys()
        .filter(|room| *room != "tests")
        .map(|room| format!("crates/{room}"))
        .filter(|directory| !mentions(&page, directory))
        .map(|directory| format!("{directory} is not mentioned"))
        .collect();
    assert_kept("ARCHITECTURE.md says what each room is for.", &faults);
}

#[test]
fn a_longer_name_is_no_mention() {
    assert!(mentions("`crates/core`: words", "crates/core"));
    assert!(!mentions("`crates/core-extras` and `crates/corel`", "crates/core"));
}

// --- (c) files and lines stay short -------------------------------------------------------------

fn too_long_or_wide(path: &str, content: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let lines = content.lines().count();
    if SOURCE_EXTENSIONS.contains(&extension(path)) && lines > MAX_LINES {
        faults.push(format!("{path} has {lines} lines"));
    }
    if extension(path) == "rs" {
        let widths = content.lines().map(|line| line.chars().count()).zip(1..);
        faults.extend(
            widths.filter(|(width, _)| *width > MAX_COLUMNS).map(|(w, n)| format!("{path}:{n} is {w} columns wide")),
        );
    }
    faults
}

#[test]
fn source_files_and_lines_are_short() {
    let files = or_skip!(files());
    let sources = files.iter().filter(|path| SOURCE_EXTENSIONS.contains(&extension(path)));
    let faults: Vec<String> = sources.flat_map(|path| too_long_or_wide(path, &text(path))).collect();
    assert_kept(&format!("Source has at most {MAX_LINES} lines a file and, in Rust, {MAX_COLUMNS} columns."), &faults);
}

#[test]
fn a_long_file_and_a_wide_line_are_found() {
    let lines = |n: usize| "x\n".repeat(n);
    assert_eq!(too_long_or_wide("a.js", &lines(MAX_LINES)), [""; 0]);
    assert_eq!(too_long_or_wide("a.js", &lines(MAX_LINES + 1)), ["a.js has 601 lines"]);
    assert_eq!(too_long_or_wide("a.md", &lines(MAX_LINES + 1)), [""; 0]);
    assert_eq!(too_long_or_wide("a.rs", &"é".repeat(MAX_COLUMNS)), [""; 0]);
    assert_eq!(too_long_or_wide("a.rs", &format!("\n{}", "é".repeat(121))), ["a.rs:2 is 121 columns wide"]);
}

// --- (d) crates inherit what the workspace decides ----------------------------------------------

fn not_inherited(room: &str, manifest: &Table) -> Vec<String> {
    let inherits =
        |place: Option<&Value>| place.and_then(|p| p.get("workspace")).and_then(Value::as_bool).unwrap_or(false);
    let package = manifest.get("package");
    let mut faults: Vec<String> = ["edition", "rust-version", "license"]
        .into_iter()
        .filter(|key| !inherits(package.and_then(|p| p.get(key))))
        .map(|key| format!("{room}: [package] lacks {key}.workspace = true"))
        .collect();
    if !inherits(manifest.get("lints")) {
        faults.push(format!("{room}: [lints] lacks workspace = true"));
    }
    faults
}

#[test]
fn every_crate_inherits_lints_edition_rust_version_and_licence() {
    let faults: Vec<String> = manifests().iter().flat_map(|(room, m)| not_inherited(room, m)).collect();
    assert_kept("The workspace decides on lints, edition, rust-version and licence for every crate.", &faults);
}

#[test]
fn a_crate_of_its_own_mind_is_found() {
    let good = "[package]\nedition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n\
                [lints]\nworkspace = true\n";
    assert_eq!(not_inherited("x", &good.parse().unwrap()), [""; 0]);
    assert_eq!(
        not_inherited("x", &good.replace("edition.workspace = true", "edition = \"2021\"").parse().unwrap()),
        ["x: [package] lacks edition.workspace = true"]
    );
    assert_eq!(not_inherited("x", &Table::new()).len(), 4);
}

// --- (e) only the command prints ----------------------------------------------------------------

/// Files that may print: the command, the runner's own main, build scripts (they speak to Cargo by
/// printing), and whatever runs under a test runner or by hand.
fn may_print(path: &str) -> bool {
    path.starts_with("crates/cli/")
        || path == "crates/runner/src/main.rs"
        || path.ends_with("/build.rs")
        || path.split('/').any(|part| ["tests", "benches", "examples"].contains(&part))
}

/// The line numbers of the printing macros in Rust source; comments do not count.
fn prints(source: &str) -> Vec<usize> {
    let printing = |line: &str| {
        let code = line.split("//").next().unwrap_or("");
        ["print!", "println!"].iter().any(|name| {
            code.match_indices(name).any(|(at, _)| {
                let before = code[..at].strip_suffix('e').unwrap_or(&code[..at]);
                !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
            })
        })
    };
    source.lines().zip(1..).filter(|(line, _)| printing(line)).map(|(_, n)| n).collect()
}

#[test]
fn only_the_command_prints() {
    let files = or_skip!(files());
    let silent = files.iter().filter(|path| extension(path) == "rs" && !may_print(path));
    let faults: Vec<String> =
        silent.flat_map(|path| prints(&text(path)).into_iter().map(move |n| format!("{path}:{n}"))).collect();
    assert_kept("Only crates/cli, crates/runner/src/main.rs, tests, benches and examples print.", &faults);
}

#[test]
fn printing_is_found_in_code_alone() {
    assert_eq!(prints("println!(\"x\");\nlet x = 1; eprintln!(\"y\")\n  print!{\"z\"}"), [1, 2, 3]);
    assert_eq!(prints("// println!()\n/// eprint!(\nwriteln!(f, \"x\")\nmy_print!()\nfingerprint!()"), [0; 0]);
    assert!(may_print("crates/cli/src/run.rs") && may_print("crates/runner/src/main.rs"));
    assert!(may_print("crates/study/benches/store.rs") && may_print("tests/tests/house.rs"));
    assert!(!may_print("crates/runner/src/lib.rs") && !may_print("crates/board/src/lib.rs"));
}

// --- (f) board profiles and studies are TOML ----------------------------------------------------

#[test]
fn board_profiles_and_studies_are_toml() {
    let mut faults = Vec::new();
    for directory in ["devices", "studies"] {
        let names: Vec<String> = names_in(directory).into_iter().filter(|name| extension(name) == "toml").collect();
        if names.is_empty() {
            faults.push(format!("{directory}/ has no .toml file"));
        }
        for path in names.iter().map(|name| format!("{directory}/{name}")) {
            if let Err(e) = text(&path).parse::<Table>() {
                faults.push(format!("{path}: {}", e.to_string().trim_end().replace('\n', "\n    ")));
            }
        }
    }
    assert_kept("devices/*.toml and studies/*.toml can be parsed.", &faults);
}

// --- (g) nothing that was made, and nothing large, is kept --------------------------------------

fn does_not_belong(path: &str, bytes: u64) -> Option<String> {
    if path.starts_with("target/") || path.starts_with("results/") {
        Some(format!("{path} was made by a build or a run"))
    } else if bytes > MAX_BYTES {
        Some(format!("{path} has {bytes} bytes; the most is {MAX_BYTES}"))
    } else {
        None
    }
}

#[test]
fn nothing_made_and_nothing_large_is_tracked() {
    let files = or_skip!(files());
    let bytes = |path: &String| std::fs::metadata(root().join(path)).map_or(0, |m| m.len());
    let faults: Vec<String> = files.iter().filter_map(|path| does_not_belong(path, bytes(path))).collect();
    assert_kept("What a build or a run made is not tracked, nor is any file over 1 MiB.", &faults);
}

#[test]
fn made_and_large_files_are_found() {
    assert_eq!(does_not_belong("crates/core/src/target/mod.rs", MAX_BYTES), None);
    assert!(does_not_belong("target/release/pocketstone", 1).is_some());
    assert!(does_not_belong("results/pocketstone.db", 1).is_some());
    assert!(does_not_belong("docs/picture.png", MAX_BYTES + 1).is_some());
}
