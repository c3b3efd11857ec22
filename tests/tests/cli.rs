//! The command on this machine: what it says, how it ends, what it leaves behind.

use pocketstone_testing::Need;
use pocketstone_tests::command::{binary, changed, lab, pocketstone, run, write};
use pocketstone_tests::project;
use pocketstone_tests::results::value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two points that take a moment on any machine.
const SMALL: &str = r#"title = "Read-ahead of a small file"
board = "virt-nand"
seed = 1

[[experiment]]
name = "small"
[experiment.factors]
file_system = "jffs2"
compression = "none"
file_bytes = "5MiB"
requests = 8
read_ahead_bytes = ["128KiB", 0]
[experiment.compare]
factor = "read_ahead_bytes"
baseline = "128KiB"
candidate = 0
[experiment.on.host]
file_system = "directory"
compression = "default"
file_bytes = "1MiB"
read_ahead_by = "file"

[[figure]]
name = "time"
title = "Total time"
caption = "Of eight requests."
experiment = "small"
metric = "total_ns"
show = "value"
x = "requests"
series = ["read_ahead_bytes"]

[[claim]]
name = "time-passes"
text = "Eight reads take time"
value = "SELECT min(median) FROM summary WHERE metric = 'total_ns'"
unit = "nanoseconds"
at_least = 1
required = true
"#;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.as_ref().display()))
}

fn shipped_studies() -> Vec<PathBuf> {
    let entries = fs::read_dir(project().join("studies")).expect("studies/").flatten().map(|e| e.path());
    let studies: Vec<PathBuf> = entries.filter(|p| p.extension().is_some_and(|x| x == "toml")).collect();
    assert!(!studies.is_empty(), "there is no study in studies/");
    studies
}

/// Runs a study's text on the host board; results go to `results`, files under test to `files`.
fn on_host(folder: &Path, study: &str, results: &str) -> pocketstone_tests::command::Ran {
    lab(folder, &["run", study, "--board", "host", "--directory", "files", "--output", results])
}

// --- studies ------------------------------------------------------------------------------------

#[test]
fn the_shipped_studies_are_sound() {
    for study in shipped_studies() {
        let path = study.to_str().expect("a path in UTF-8");
        lab(&project(), &["study", "check", path]).ends_with(0).says(&["cells on a virtual board", ": ok, "]);
    }
}

#[test]
fn a_mistake_in_a_study_is_shown_where_it_stands() {
    let folder = folder();
    let check = |from: &str, to: &str| {
        write(folder.path(), "bad.toml", &changed(SMALL, from, to));
        lab(folder.path(), &["study", "check", "bad.toml"]).ends_with(1)
    };
    // A value that the factor does not have: the line, and a mark under the value.
    check("requests = 8", "requests = \"many\"").complains(&[
        "bad.toml:11:12",
        "11 | requests = \"many\"\n   |            ^^^^^^",
        "a number of at least 1",
    ]);
    // A factor that there is not: the line, and what there is.
    check("requests = 8", "requets = 8").complains(&[
        "bad.toml:11:1",
        "11 | requets = 8\n   | ^^^^^^^",
        "unknown factor `requets`",
        "hint: ",
        "data, file_bytes, request_bytes, requests,",
    ]);
    // No TOML at all.
    check("board = \"virt-nand\"", "board = virt-nand\"")
        .complains(&["bad.toml:2:9", "2 | board = virt-nand\"\n  |         ^"]);
    // A claim that is no SQL, and one that asks for what is not in the tables.
    check("SELECT min(median) FROM", "SELEKT min(median) FROM").complains(&["bad.toml:36", "`time-passes`", "SELEKT"]);
    check("metric = 'total_ns'\"", "metrik = 'total_ns'\"").complains(&["bad.toml:36", "no such column: metrik"]);
    // A figure of an experiment that there is not.
    check("experiment = \"small\"", "experiment = \"smal\"").complains(&[
        "bad.toml:27:14",
        "27 | experiment = \"smal\"",
        "^^^^^^",
        "unknown experiment `smal`",
    ]);
}

#[test]
fn study_check_tells_each_thing_that_an_engine_cannot_run_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let workload = r#"{"init": [{"sql": "CREATE TABLE t (k int)"}, {"sql": "INSERT INTO t VALUES (1)"}],
                       "benchmark": [{"op": "query", "sql": "SELECT * FROM t"}]}"#;
    std::fs::write(folder.path().join("w.json"), workload).expect("a workload");
    let factors = "[experiment.factors]\nfile_system = \"directory\"\nengine = [\"sqlite\", \"lmdb\", \"h2\"]\n";
    let study = format!(
        "title = \"t\"\nboard = \"host\"\n[[experiment]]\nname = \"e\"\n{factors}workload = \"prepared\"\n\
         workload_file = \"w.json\"\ndelay = [\"none\", \"1ms\"]\n[[experiment]]\nname = \"j\"\n{factors}\
         workload = \"pocketdata-c\"\njournal_mode = [\"default\", \"wal\"]\n"
    );
    std::fs::write(folder.path().join("s.toml"), study).expect("a study");
    let checked = lab(folder.path(), &["study", "check", "s.toml"]);
    // 2 of 3 engines run the file with 2 delays; of 6 cells with a journal mode or none, 4 are left. Each traced, too.
    let checked = checked.ends_with(0).says(&[
        "left out: cells with lmdb and w.json; why: lmdb supports only key-value operations",
        "left out: some cells with lmdb; why: lmdb has no journal_mode; fix: omit journal_mode",
        "left out: some cells with h2; why: h2 has no journal_mode",
    ]);
    assert_eq!(checked.out.matches("left out:").count(), 3, "{}", checked.out);
}

#[test]
fn a_study_that_is_not_there_is_named() {
    lab(&project(), &["study", "check", "studies/nothing.toml"])
        .ends_with(1)
        .complains(&["studies/nothing.toml", "No such file"]);
}

// --- dry runs and selection ---------------------------------------------------------------------

#[test]
fn a_dry_run_lists_cells_and_boots_nothing() {
    let folder = folder();
    let study = project().join("studies/readahead-quick.toml");
    let study = study.to_str().expect("a path in UTF-8");
    let dry = |only: &[&str]| {
        let mut command = pocketstone(folder.path(), &[&["run", study, "--dry-run"], only].concat());
        run(command.env("POCKETSTONE_CACHE", folder.path().join("cache")))
    };
    let all = dry(&[]).ends_with(0).says(&["requests: ", "inter-arrival: ", "traced", "cells on the board virt-nand"]);
    let filtered = dry(&["--only", "requests = 16 AND traced = 0"]).ends_with(0);
    let cells: Vec<&str> = filtered.out.lines().filter(|l| l.contains("file_system=")).collect();
    // Two patterns, two settings of read-ahead, five seeds.
    assert_eq!(cells.len(), 20, "the cells of {filtered}");
    assert!(cells.iter().all(|c| c.contains("requests=16 ") && !c.ends_with("traced")), "the cells of {filtered}");
    assert!(cells.iter().all(|c| all.out.contains(c)), "the filtered cells are among all cells");
    assert!(filtered.out.contains("20 cells on the board virt-nand"), "the count of {filtered}");
    let left: Vec<_> = fs::read_dir(folder.path()).expect("the folder").flatten().map(|e| e.path()).collect();
    assert!(left.is_empty(), "a dry run left {left:?}");
}

#[test]
fn a_condition_that_is_wrong_or_selects_nothing_is_an_error() {
    let folder = folder();
    write(folder.path(), "small.toml", SMALL);
    let only = |condition: &str| lab(folder.path(), &["run", "small.toml", "--dry-run", "--only", condition]);
    only("requsts = 8").ends_with(1).complains(&[
        "`requsts = 8`",
        "no such column: requsts",
        "hint: ",
        "read_ahead_by",
    ]);
    only("requests = ").ends_with(1).complains(&["`requests = `", "hint: "]);
    only("requests = 77").ends_with(1).complains(&["no cell of small matches `requests = 77`", "--dry-run"]);
    let left = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 1, "only the study is in the folder");
}

// --- usage --------------------------------------------------------------------------------------

#[test]
fn wrong_usage_ends_with_2_and_shows_the_right_one() {
    let folder = folder();
    for arguments in [&["run"][..], &[], &["rnu"], &["run", "--jsn"], &["compare", "one"], &["board", "exec", "x"]] {
        lab(folder.path(), arguments).ends_with(2).complains(&["Usage: pocketstone"]);
    }
    lab(folder.path(), &["run", "s.toml", "--resume", "a", "--output", "b"])
        .ends_with(2)
        .complains(&["'--resume <DIR>' cannot be used with '--output <DIR>'"]);
    for no_percent in ["nan", "inf", "-1"] {
        lab(folder.path(), &["compare", "a", "b", "--max-regression", no_percent]).ends_with(2);
    }
    // What is for programs alone is no silent wish for a study.
    for wish in [["--set", "file_system=tmpfs"], ["--repetitions", "1"], ["--files", "."]] {
        lab(folder.path(), &[&["run", "androsh"][..], &wish].concat()).ends_with(2).complains(&["cannot be used with"]);
    }
}

#[test]
fn a_board_that_is_not_there_is_answered_with_those_that_are() {
    let folder = folder();
    write(folder.path(), "small.toml", SMALL);
    lab(folder.path(), &["run", "small.toml", "--board", "raspberry-9"]).ends_with(1).complains(&[
        "unknown board `raspberry-9`",
        "available boards: ",
        "host",
        "virt-nand",
    ]);
    lab(folder.path(), &["board", "list"]).ends_with(0).says(&["host ", "virt-nand ", " virtual "]);
    // This machine is there already; it has no console to show.
    lab(folder.path(), &["board", "build", "host"]).ends_with(0).says(&["kernel.release: "]);
    lab(folder.path(), &["board", "exec", "host", "echo", "here"]).ends_with(0).says(&["here"]);
    for command in ["start", "shell"] {
        lab(folder.path(), &["board", command, "host"])
            .ends_with(1)
            .complains(&["no console", "pocketstone board list"]);
    }
}

/// The commands that a help text lists.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    lines.map(|line| line.split_whitespace().next().expect("a command's name").to_owned()).collect()
}

/// Asks for the help of a command and of all those below it, and returns them all.
fn every_help(program: &str, words: &[&str]) -> Vec<String> {
    let ask = |words: &[&str]| {
        let mut command = Command::new(binary().with_file_name(program));
        run(command.current_dir(project()).args(words)).ends_with(0).says(&[&format!("Usage: {program}"), "-h, --help"])
    };
    ask(&[words, &["--help"]].concat());
    let help = ask(&[&["help"], words].concat());
    // Between its words a command may have arguments, such as <REGION>.
    let usage = help.out.lines().find_map(|line| line.strip_prefix("Usage: ")).expect("a line on usage").to_owned();
    let mut shown = usage.split(' ').skip(1);
    assert!(words.iter().all(|word| shown.any(|s| s == *word)), "{words:?} are not in the usage of {help}");
    let below = listed(&help.out);
    let mut all = vec![[&[program], words].concat().join(" ")];
    for name in below.iter().filter(|name| *name != "help") {
        all.extend(every_help(program, &[words, &[name]].concat()));
    }
    all
}

#[test]
fn every_command_has_help() {
    // The lists are made by clap, which knows them all; a few of each are named in case none is found.
    for (program, some) in [
        ("pocketstone", &["advise readahead", "board exec", "energy", "import", "workload show"][..]),
        ("scmfs", &["dump", "mkfs"]),
        ("yaffs2", &["extract", "fsck"]),
    ] {
        let all = every_help(program, &[]);
        for name in some {
            assert!(all.contains(&format!("{program} {name}")), "{name} is not in {all:?}");
        }
        let folder = folder();
        let man = run(Command::new(binary().with_file_name(program)).current_dir(folder.path()).args(["man", "m"]));
        man.ends_with(0);
        let mut pages: Vec<String> = fs::read_dir(folder.path().join("m"))
            .expect("the man pages")
            .flatten()
            .map(|page| page.file_name().to_string_lossy().replace(".1", "").replace('-', " "))
            .collect();
        pages.retain(|page| page.split(' ').all(|word| word != "help"));
        let mut named: Vec<String> = all.iter().map(|path| path.replace('-', " ")).collect();
        pages.sort();
        named.sort();
        assert_eq!(pages, named, "the help and the man pages of {program} have different commands");
    }
    lab(&project(), &["--help"]).says(&["Exit status: 0 success; 1 ", " 2 ", " 3 ", " 4 ", " 70 "]);
    lab(&project(), &["--version"]).ends_with(0).says(&["pocketstone 0.", "revision "]);
}

#[test]
fn completions_are_scripts_that_shells_read() {
    let folder = folder();
    for shell in ["bash", "zsh", "fish"] {
        lab(folder.path(), &["completions", shell]).ends_with(0).says(&["POCKETSTONE_COMPLETE", "pocketstone"]);
    }
    // What the scripts ask, in the form that is the simplest to ask without a shell.
    for (words, offered) in [
        ("run --dry", "--dry-run"),
        ("flash", "flashmon"),
        ("compare --max", "--max-regression"),
        ("run --set page_cache=co", "page_cache=cold"),
        ("run --set file_system=jffs2,scmfs-f", "file_system=jffs2,scmfs-fuse"),
    ] {
        let asked: Vec<&str> = ["--", "pocketstone"].into_iter().chain(words.split(' ')).collect();
        run(pocketstone(folder.path(), &asked).env("POCKETSTONE_COMPLETE", "fish")).ends_with(0).says(&[offered]);
    }
    let script = lab(folder.path(), &["completions", "bash"]).out;
    let path = write(folder.path(), "pocketstone.bash", &script);
    match Command::new("bash").args(["-n", &path]).output() {
        Ok(output) => assert!(output.status.success(), "bash -n: {}", String::from_utf8_lossy(&output.stderr)),
        Err(e) => _ = Need::Programs.lacks(format_args!("reading the completions with bash: {e}")),
    }
    lab(folder.path(), &["completions", "csh"]).ends_with(2).complains(&["bash", "zsh"]);
}

#[test]
fn man_pages_are_pages_that_man_reads() {
    let folder = folder();
    lab(folder.path(), &["man", "pages/here"]).ends_with(0).says(&["pages/here/pocketstone.1"]);
    let entries = fs::read_dir(folder.path().join("pages/here")).expect("the pages").flatten();
    let pages: Vec<String> = entries.map(|e| e.path().to_str().expect("a path in UTF-8").to_owned()).collect();
    assert!(pages.iter().any(|p| p.ends_with("/pocketstone-board-exec.1")), "a page for each command: {pages:?}");
    let readers = [&["groff", "-man", "-Tutf8", "-ww"][..], &["mandoc", "-Tutf8"], &["man", "-l"]];
    let mut read = false;
    for page in &pages {
        for reader in readers {
            let Ok(output) = Command::new(reader[0]).args(&reader[1..]).arg(page).env("MANPAGER", "cat").output()
            else {
                continue;
            };
            read = true;
            let (shown, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success() && said.is_empty(), "{reader:?} on {page}: {said}");
            assert!(shown.contains("pocketstone"), "{reader:?} shows of {page}:\n{shown}");
            break;
        }
    }
    if !read {
        let _ = Need::Programs.lacks("reading the man pages: sudo apt-get install groff, mandoc or man-db");
    }
}

// --- a run on this machine ----------------------------------------------------------------------

#[test]
fn thresholds_for_huge_pages_are_compared() {
    let arguments = ["advise", "huge-pages", "--processor", "i5-750", "--record", "4KiB", "--json"];
    let folder = folder();
    let ran = lab(folder.path(), &arguments).ends_with(0);
    let rows: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    // Of 100 MiB in pages of 4 KiB each is walked to once, as are the buffer and 16 others.
    assert_eq!((&rows[0]["walks"], &rows[0]["threshold_bytes"]), (&(25_600 + 17).into(), &serde_json::Value::Null));
    // 32 small pages until 128 KiB, then 50 huge ones.
    assert_eq!((&rows[1]["walks"], &rows[1]["threshold_bytes"]), (&(32 + 50 + 17).into(), &(128 << 10).into()));
    for (wrong, cure) in [
        (["--processor", "z80"], "golden-cove, i5-750, "),
        (["--record", "5000"], "--record takes multiples of 4 KiB"),
        (["--file", "1K"], "--file takes 4 KiB to 4 GiB"),
    ] {
        lab(folder.path(), &[&["advise", "huge-pages"], &wrong[..]].concat()).ends_with(1).complains(&[cure]);
    }
}

#[test]
fn a_run_on_this_machine_from_study_to_report() {
    let folder = folder();
    write(folder.path(), "small.toml", SMALL);
    let results = folder.path().join("out");
    on_host(folder.path(), "small.toml", "out").ends_with(0).says(&[
        "Read-ahead of a small file",
        "2 cells measured on the board host; 1 of 1 claims hold.",
        "left out: flash operations: this machine has no raw NAND",
        "  fix: ",
        "left out: cells on jffs2: ",
        "--board virt-nand",
        "results: out\n",
        "report:  out/report.html",
    ]);
    let report = text(results.join("report.html"));
    assert!(report.contains("Read-ahead of a small file"), "the report has the study's title");
    assert!(report.contains("flash operations") && report.contains("Eight reads take time"), "the report is whole");
    assert_eq!(text(results.join("study.toml")), SMALL, "the results hold the study");
    let left: Vec<_> = fs::read_dir(folder.path().join("files")).expect("files/").flatten().collect();
    assert!(left.is_empty(), "files under test were left: {left:?}");

    // One line of SQL reads the numbers.
    let median = "SELECT median FROM summary WHERE metric = 'total_ns' AND read_ahead_bytes = ";
    let with = value::<f64>(&results, &format!("{median} 131072"));
    let without = value::<f64>(&results, &format!("{median} 0"));
    assert!(with > 0.0 && without > 0.0, "{with} ns with read-ahead, {without} ns without");
    let saved = value::<f64>(&results, "SELECT median FROM improvement WHERE metric = 'total_ns' AND requests = 8");
    assert!((saved - (1.0 - without / with)).abs() < 1e-9, "saved {saved} of {with} with {without}");
    assert_eq!(value::<f64>(&results, "SELECT count(*) FROM cells WHERE status = 'done' AND requests = 8"), 2.0);

    lab(folder.path(), &["report", "out"]).ends_with(0).says(&["out/report.html"]);
    assert!(text(results.join("report.html")) == report, "the report made again is another one");

    // Its results stay what they are.
    on_host(folder.path(), "small.toml", "out").ends_with(1).complains(&["already exists", "--resume out"]);
    assert!(text(results.join("report.html")) == report, "a refused run changed the report");
    let took = || value::<String>(&results, "SELECT group_concat(id || ': ' || host_ms) FROM cell");
    let first = took();
    lab(folder.path(), &["run", "--resume", "out", "--directory", "files"]).ends_with(0).says(&["2 cells measured"]);
    assert_eq!(took(), first, "a run that is whole measures nothing more");
}

#[test]
fn a_directory_of_ones_own_is_the_only_one_that_is_written_to() {
    let folder = folder();
    write(folder.path(), "small.toml", SMALL);
    let profile = "kind = \"host\"\ndirectory = \"/proc/not-to-be-made\"\n";
    let profile = write(folder.path(), "nowhere.toml", profile);
    let run = ["run", "small.toml", "--board", &profile, "--output", "out"];
    lab(folder.path(), &[&run[..], &["--directory", "files"]].concat())
        .ends_with(0)
        .says(&["2 cells measured on the board nowhere"]);
    fs::remove_dir_all(folder.path().join("out")).expect("the results");
    let without = lab(folder.path(), &run).ends_with(4);
    assert!(format!("{without}").contains("cannot create /proc/not-to-be-made"), "{without}");
}

#[test]
fn a_runs_outcome_is_json_when_asked() {
    let folder = folder();
    write(folder.path(), "small.toml", SMALL);
    let arguments = ["run", "small.toml", "--board", "host", "--directory", "files", "--output", "out", "--json"];
    let ran = lab(folder.path(), &arguments).ends_with(0);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e} in {ran}"));
    assert_eq!(json["folder"], "out");
    assert_eq!(json["report"], "out/report.html");
    let claim = &json["claims"][0];
    assert!(claim["name"] == "time-passes" && claim["holds"] == true && claim["required"] == true, "{claim}");
    let left_out = json["left_out"].as_array().expect("a list of what was left out");
    let flash = left_out.iter().find(|l| l["what"] == "flash operations").expect("flash operations are left out");
    assert!(flash["cure"].as_str().is_some_and(|c| !c.is_empty()), "a cure: {flash}");
    assert_eq!(json["failures"], serde_json::json!([]));
}

#[test]
fn a_required_claim_that_does_not_hold_ends_with_3() {
    let folder = folder();
    write(folder.path(), "missed.toml", &changed(SMALL, "at_least = 1\n", "at_most = 0\n"));
    let missed = on_host(folder.path(), "missed.toml", "missed");
    let words = ["0 of 1 claims hold", "does not hold, unexplained  Eight reads take time", "claimed: at most 0 ns"];
    missed.ends_with(3).says(&words);
    let optional = changed(SMALL, "at_least = 1\nrequired = true\n", "at_most = 0\n");
    write(folder.path(), "optional.toml", &optional);
    on_host(folder.path(), "optional.toml", "optional").ends_with(0).says(&["0 of 1 claims hold", "does not hold"]);
}

#[test]
fn runs_are_held_against_each_other_only_when_they_are_of_a_kind() {
    let folder = folder();
    write(folder.path(), "small.toml", SMALL);
    write(folder.path(), "other.toml", SMALL);
    on_host(folder.path(), "small.toml", "a").ends_with(0);
    on_host(folder.path(), "other.toml", "b").ends_with(0);
    let compare = |words: &[&str]| lab(folder.path(), &[&["compare"], words].concat());
    compare(&["a", "a"]).ends_with(0).says(&["identical: ", "all 2 common cells"]);
    compare(&["a", "b"]).ends_with(1).complains(&["study.name: small and other", "--force"]);
    compare(&["a", "b", "--force"]).ends_with(0).says(&["2 of 2 common cells differ", "small: "]);
    compare(&["a", "files"]).ends_with(1).complains(&["files holds no results"]);
    lab(folder.path(), &["report", "files"]).ends_with(1).complains(&["files holds no results", "hint: "]);
}

#[test]
fn a_wrong_resume_is_refused() {
    let folder = folder();
    write(folder.path(), "small.toml", SMALL);
    write(folder.path(), "other.toml", &changed(SMALL, "requests = 8", "requests = 16"));
    on_host(folder.path(), "small.toml", "out").ends_with(0);
    let resume = |words: &[&str]| lab(folder.path(), &[words, &["--resume", "out", "--directory", "files"]].concat());
    resume(&["run", "other.toml"]).ends_with(1).complains(&["other.toml", "not the study", "out", "hint: "]);
    resume(&["run", "small.toml"]).ends_with(0);
    lab(folder.path(), &["run", "--resume", "nowhere"]).ends_with(1).complains(&["nowhere holds no results", "hint: "]);
}

// --- machines that lack something ---------------------------------------------------------------

/// A folder to use as PATH that has a few common programs and no QEMU.
fn path_without_qemu(folder: &Path) -> PathBuf {
    let bin = folder.join("bin");
    fs::create_dir(&bin).expect("a new folder");
    let path = std::env::var_os("PATH").expect("a PATH");
    for program in ["sh", "cat", "true", "unshare"] {
        if let Some(found) = std::env::split_paths(&path).map(|p| p.join(program)).find(|p| p.exists()) {
            std::os::unix::fs::symlink(found, bin.join(program)).expect("a link");
        }
    }
    bin
}

#[test]
fn without_qemu_a_study_runs_on_this_machine_and_says_so() {
    let folder = folder();
    let bin = path_without_qemu(folder.path());
    let study = project().join("studies/readahead-quick.toml");
    let study = study.to_str().expect("a path in UTF-8");
    let here = |more: &[&str]| {
        let words = ["run", study, "--only", "requests <= 16", "--directory", "files", "--output", "out"];
        run(pocketstone(folder.path(), &[&words, more].concat()).env("PATH", &bin))
    };
    here(&["--board", "virt-nand"])
        .ends_with(4)
        .complains(&["qemu-system-arm is not installed", "apt-get install qemu-system-arm"]);
    assert!(!folder.path().join("out").exists(), "a board that cannot be opened leaves no results");
    here(&[]).ends_with(0).says(&[
        "measured on the board host",
        "left out: the board virt-nand: qemu-system-arm is not installed",
        "  fix: apt-get install qemu-system-arm",
        "left out: flash operations",
    ]);
    let report = text(folder.path().join("out/report.html"));
    assert!(report.contains("apt-get install qemu-system-arm"), "the report has the cure too");
    // Where this machine can do nothing of a study, why it is not on the study's own board is what counts.
    let kept = SMALL.split("[experiment.on.host]").next().expect("a first part");
    write(folder.path(), "flash.toml", kept);
    run(pocketstone(folder.path(), &["run", "flash.toml", "--output", "flash"]).env("PATH", &bin))
        .ends_with(4)
        .complains(&["qemu-system-arm is not installed", "apt-get install qemu-system-arm"]);
    // Also where a condition selects cells of that board alone.
    write(folder.path(), "small.toml", SMALL);
    let only = |condition: &str| {
        let words = ["run", "small.toml", "--only", condition, "--output", "only"];
        run(pocketstone(folder.path(), &words).env("PATH", &bin))
    };
    only("file_system = 'jffs2'").ends_with(4).complains(&[
        "no cell of small matches",
        "qemu-system-arm is not installed",
        "apt-get install qemu-system-arm",
    ]);
    // One that selects nothing anywhere is the condition's fault.
    let none = only("file_system = 'yaffs2'").ends_with(1).complains(&["no cell of", "--dry-run"]);
    assert!(!none.err.contains("qemu"), "{none}");
}

#[test]
fn without_raw_nand_flashmon_says_what_would_help() {
    if Path::new("/sys/class/mtd/mtd0").exists() {
        return Need::Kernel.lacks("flashmon without raw NAND: this machine has MTD devices").end();
    }
    let folder = folder();
    lab(folder.path(), &["flashmon", "--", "true"]).ends_with(4).complains(&["no raw NAND", "hint: ", "nandsim"]);
    lab(folder.path(), &["flashmon"]).ends_with(2).complains(&["COMMAND"]);
}

/// A small disk, unmounted when it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf, size: &str) -> Option<Self> {
        fs::create_dir(&at).expect("a new folder");
        let size = format!("size={size}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&at).output().ok()?;
        mount.status.success().then_some(SmallDisk(at))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_an_error_and_what_was_stored_stays() {
    let folder = folder();
    let Some(disk) = SmallDisk::mount(folder.path().join("disk"), "256k") else {
        return Need::Root.lacks("a full disk: a small one cannot be mounted").end();
    };
    // The first cell fits, the log of a later one does not.
    let study = changed(SMALL, "requests = 8", "requests = [8, 20000]");
    write(folder.path(), "large.toml", &study);
    let full = on_host(folder.path(), "large.toml", "disk/out").ends_with(1);
    let full = full.complains(&["error: ", "disk/out", "disk is full"]);
    let results = disk.0.join("out");
    let done = value::<f64>(&results, "SELECT count(*) FROM cell WHERE status = 'done'");
    assert!((1.0..4.0).contains(&done), "{done} cells are stored, after {full}");
    assert_eq!(value::<f64>(&results, "SELECT count(*) FROM cell"), done, "a full disk is no cell's failure");
    assert_eq!(value::<f64>(&results, "SELECT count(*) FROM call"), 8.0 * done, "a stored cell is stored whole");
    let left: Vec<_> = fs::read_dir(folder.path().join("files")).expect("files/").flatten().collect();
    assert!(left.is_empty(), "files under test were left: {left:?}");
    // What is too small for anything is said as well.
    let none = SmallDisk::mount(folder.path().join("tiny"), "8k").expect("a second small disk");
    on_host(folder.path(), "large.toml", "tiny/out").ends_with(1).complains(&["error: ", "tiny/out", "full"]);
    drop(none);
}

#[test]
fn a_processor_that_is_not_known_is_told_before_a_board_is_booted() {
    let home = folder();
    let mut command = pocketstone(home.path(), &["tlb", "--processor", "z80", "--", "true"]);
    let ran = run(command.env("POCKETSTONE_CACHE", home.path().join("cache"))).ends_with(1);
    let ran = ran.complains(&["z80", "cortex-a15"]);
    assert!(!ran.err.contains("booting"), "{ran}");
}
