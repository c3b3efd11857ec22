//! The commands in README.md and docs/ work when they are pasted, in their order, in a fresh checkout.
//!
//! A block of commands is fenced as `sh`. One that cannot be run here says why behind that word: `sh not-run: it needs
//! an MTD device`. Indented lines right behind a block are what it prints. A fenced block with a file's name behind its
//! language, such as `toml my-study.toml`, is that file.

use pocketstone_testing::{Need, fuse, or_skip, program};
use pocketstone_tests::command::{binary, board};
use pocketstone_tests::project;
use pocketstone_tests::suites::tell;
use pocketstone_workload::table::ON_FILES;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A fenced block.
#[derive(Default)]
struct Block {
    line: usize,
    info: String,
    text: String,
    /// The indented lines right behind it, one empty line between.
    output: Vec<String>,
}

/// The fenced blocks of a Markdown text, and its lines that are in none, each with its number.
fn blocks(text: &str) -> (Vec<Block>, Vec<(usize, &str)>) {
    let (mut found, mut outside) = (Vec::new(), Vec::new());
    let mut open: Option<Block> = None;
    for (n, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some(Block { line: n + 1, info: info.to_owned(), ..Block::default() }),
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => outside.push((n + 1, line)),
        }
    }
    assert!(open.is_none(), "a block never closes");
    for block in &mut found {
        let end = block.line + block.text.lines().count() + 1;
        let mut behind = text.lines().skip(end);
        if behind.next() == Some("") {
            block.output = behind.map_while(|line| Some(line.strip_prefix("    ")?.to_owned())).collect();
        }
    }
    (found, outside)
}

fn documents() -> Vec<PathBuf> {
    let docs = fs::read_dir(project().join("docs")).expect("docs/").flatten().map(|e| e.path());
    let mut docs: Vec<PathBuf> = docs.filter(|p| p.extension().is_some_and(|x| x == "md")).collect();
    // As they are read: the README, then the guide, then whatever one looks up.
    docs.sort_by_key(|path| (!path.ends_with("guide.md"), path.clone()));
    docs.insert(0, project().join("README.md"));
    docs
}

#[test]
fn every_command_stands_in_a_block_that_says_so() {
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document");
        let (blocks, outside) = blocks(&text);
        let commands =
            ["target/release/", "pocketstone ", "scmfs ", "yaffs2 ", "make ", "sqlite3 ", "scripts/", "examples/"];
        for (line, text) in outside {
            let upper = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
            let variable = |t: &str| t.split_once('=').is_some_and(|(name, _)| upper(name));
            let starts = |t: &str| commands.iter().any(|c| t.starts_with(c)) || t.contains("cargo ") || variable(t);
            let is_command = text.strip_prefix("    ").is_some_and(starts);
            assert!(!is_command, "{}:{line}: put it into a block of `sh`: {text}", path.display());
        }
        for block in blocks.iter().filter(|b| b.info == "sh" || b.info.starts_with("sh ")) {
            let why = block.info.strip_prefix("sh").unwrap_or_default().trim();
            let reason = why.strip_prefix("not-run: ").is_some_and(|r| r.split_whitespace().count() > 1);
            assert!(why.is_empty() || reason, "{}:{}: `{why}` is no reason", path.display(), block.line);
        }
    }
}

/// The words in the second column of the row of a table that begins with this one.
fn words_of_row(page: &str, first: &str) -> Vec<String> {
    let text = fs::read_to_string(project().join(page)).expect("a document");
    let mut rows = text.lines().filter_map(|line| line.strip_prefix(&format!("| `{first}` | ")));
    let cell = rows.next().and_then(|rest| rest.split(" |").next()).expect("the row");
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn pages_that_list_the_workloads_have_all_of_them() {
    let mut names: Vec<&str> = ON_FILES.iter().map(|workload| workload.name).collect();
    names.push("command");
    assert_eq!(words_of_row("docs/studies.md", "workload"), names);
    names.push("database");
    assert_eq!(words_of_row("docs/formats.md", "workload.kind"), names);
}

/// Rows of the page are written by a script: none may be missing, nor be of a claim that is no more.
#[test]
fn the_page_of_papers_has_every_claim_that_a_paper_makes() {
    let page = fs::read_to_string(project().join("docs/reproduction.md")).expect("the page");
    let pocketdata = ["saturation", "pocketdata", "pocketdata-emmc", "delays", "governors"];
    let studies = ["readahead"].into_iter().chain(pocketdata).chain(["scmfs", "scmfs-board", "scmfs-today"]);
    let mut wanted = Vec::new();
    for study in studies {
        let text = fs::read_to_string(project().join(format!("studies/{study}.toml"))).expect("a study");
        let parsed: toml::Table = text.parse().expect("TOML");
        let of_papers = parsed["claim"].as_array().expect("claims").iter().filter(|claim| claim.get("paper").is_some());
        let name = |claim: &toml::Value| claim["name"].as_str().expect("a name").to_owned();
        wanted.extend(of_papers.map(|claim| format!("| `{study} / {}` |", name(claim))));
    }
    assert!(wanted.len() > 100, "{}", wanted.len());
    let has: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let missing: Vec<_> = wanted.iter().filter(|row| !has.iter().any(|line| line.starts_with(row.as_str()))).collect();
    assert!(missing.is_empty(), "run scripts/reproduction: {missing:?}");
    assert_eq!(has.len(), wanted.len(), "the page has rows of claims that are no more");
}

#[test]
fn the_page_of_papers_keeps_what_was_measured_whoever_writes_it() {
    or_skip!(program("python3", "python3"));
    let checkout = checkout();
    let page = checkout.path().join("docs/reproduction.md");
    let run = || Command::new(checkout.path().join("scripts/reproduction")).output().expect("it runs");
    let before = fs::read_to_string(&page).expect("the page");
    fs::write(&page, format!("{before}\nto be written anew\n")).expect("it can be written");
    assert!(run().status.success());
    assert!(fs::read_to_string(&page).expect("the page") == before, "every row is as it was");
    // As a shell leaves it that was told to write what is printed there.
    fs::write(&page, "").expect("it can be written");
    let refused = run();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("git checkout docs/reproduction.md"), "{said}");
    assert_eq!(fs::read_to_string(&page).expect("the page"), "");
}

/// A checkout with what was built.
fn checkout() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["README.md", "docs", "studies", "devices", "examples", "scripts"] {
        let copied = Command::new("cp").arg("-r").arg(project().join(name)).arg(folder.path()).status();
        assert!(copied.is_ok_and(|s| s.success()), "{name} is copied");
    }
    let release = binary().parent().and_then(|p| p.canonicalize().ok()).expect("what was built");
    fs::create_dir(folder.path().join("target")).expect("target/");
    std::os::unix::fs::symlink(release, folder.path().join("target/release")).expect("a link");
    folder
}

/// Commands in a mount namespace of their own, with memory of their own where they make and mount volumes.
fn shell(checkout: &Path, text: &str) -> Command {
    let script = format!("mount -t tmpfs none /mnt && mount -t tmpfs none /dev/shm\n{text}");
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        "bash",
        "-euo",
        "pipefail",
        "-c",
        &script,
    ]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(checkout.join("target/release")).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders).expect("a PATH"));
    command.current_dir(checkout).stdin(Stdio::null());
    command
}

#[test]
fn the_commands_of_all_documents_work_when_pasted() {
    let checkout = checkout();
    if !shell(checkout.path(), "true").output().is_ok_and(|o| o.status.success()) {
        return Need::Namespaces.lacks("the documents' commands: no mounts of one's own").end();
    }
    or_skip!(fuse());
    or_skip!(board());
    let (mut run, mut left_out) = (0, 0);
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document");
        for block in blocks(&text).0 {
            let (language, rest) = block.info.split_once(' ').unwrap_or((block.info.as_str(), ""));
            match (language, rest) {
                ("sh", "") => {}
                ("sh", _) => {
                    left_out += 1;
                    continue;
                }
                (_, name) if name.contains('.') => {
                    fs::write(checkout.path().join(name), &block.text).expect("a file of a document");
                    continue;
                }
                _ => continue,
            }
            let begin = std::time::Instant::now();
            let output = shell(checkout.path(), &block.text).output().expect("bash");
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            let place = format!("{}:{}", path.display(), block.line);
            assert!(output.status.success(), "{place}: {}\n{}\n{out}\n{err}", output.status, block.text);
            let printed: Vec<&str> = out.lines().map(str::trim_end).collect();
            assert!(block.output.is_empty() || block.output == printed, "{place}: it prints\n{out}");
            tell(&format!("{place}: {:.1} s", begin.elapsed().as_secs_f64()));
            run += 1;
        }
    }
    assert!(run >= 15 && left_out >= 8, "{run} blocks ran, {left_out} are marked: are they still found?");
}

#[test]
fn a_block_is_what_stands_between_fences() {
    let text = "a\n```sh not-run: a reason\nls\n```\n    b\n```toml x.toml\ny = 1\n```\n\n    1\n      2\n\n    3\n";
    let (found, outside) = blocks(text);
    assert_eq!(
        found.iter().map(|b| (b.line, b.info.as_str(), b.text.as_str())).collect::<Vec<_>>(),
        [(2, "sh not-run: a reason", "ls\n"), (6, "toml x.toml", "y = 1\n")]
    );
    assert_eq!(found.iter().map(|b| b.output.join("\n")).collect::<Vec<_>>(), ["", "1\n  2"]);
    assert_eq!(outside.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1, 5, 9, 10, 11, 12, 13]);
}
