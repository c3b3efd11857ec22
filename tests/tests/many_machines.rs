//! A study on several machines: what its shards give together is what one process gives, or nothing.

use pocketstone_testing::wait::until;
use pocketstone_testing::{Need, Skip, amount, or_skip, program};
use pocketstone_tests::command::{Process, Ran, binary, lab, pocketstone, run, write};
use pocketstone_tests::kubernetes::expanded;
use pocketstone_tests::results::{change, finished, value};
use pocketstone_tests::suites::{command, tell};
use pocketstone_tests::{context, project, qemu};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Two points of three seeds, each traced where there is something to trace: 12 cells on a virtual board.
const STUDY: &str = r#"title = "Read-ahead of a small file"
board = "virt-nand"
repetitions = 3
seed = 1

[[experiment]]
name = "small"
[experiment.factors]
file_system = "jffs2"
compression = "none"
file_bytes = "1MiB"
requests = 8
read_ahead_bytes = ["128KiB", 0]
[experiment.compare]
factor = "read_ahead_bytes"
baseline = "128KiB"
candidate = 0
[experiment.on.host]
file_system = "directory"
compression = "default"
read_ahead_by = "file"

[[claim]]
name = "time-passes"
text = "Eight reads take time"
value = "SELECT min(median) FROM summary WHERE metric = 'total_ns'"
unit = "nanoseconds"
at_least = 1
required = true
"#;

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a folder");
    write(home.path(), "study.toml", STUDY);
    home
}

/// Runs shards of the study on this machine, into folders of their index.
fn shards(home: &Path, of: u32, indices: &[u32], more: &[&str]) {
    for index in indices {
        let (shard, folder) = (format!("{index}/{of}"), index.to_string());
        let words = ["run", "study.toml", "--shard", &shard, "--output", &folder];
        lab(home, &[&words, more].concat()).ends_with(0).says(&[&format!("shard {shard}: ")]);
    }
}

const ON_HOST: [&str; 2] = ["--board", "host"];

fn merge(home: &Path, folders: &[&str]) -> Ran {
    lab(home, &[&["merge"], folders, &["-o", "merged"]].concat())
}

/// All tables of a run but what is another in every run: when it was, how long it took, and where.
fn tables(home: &Path, run: &str) -> Vec<(String, String)> {
    let folder = format!("{run}.csv");
    lab(home, &["export", run, "--csv", &folder]).ends_with(0);
    let entries = fs::read_dir(home.join(folder)).expect("tables").flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.collect();
    files.sort();
    let own = ["command,", "options,", "started_utc,", "shards,", "shards.", "shard."];
    let table = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(path).expect("a table");
        // In the table of cells it is the last column.
        let line = |line: &str| match name.as_str() {
            "cells.csv" => line.rsplit_once(',').expect("columns").0.to_owned(),
            _ => line.to_owned(),
        };
        let kept = text.lines().filter(|line| name != "run.csv" || !own.iter().any(|fact| line.starts_with(fact)));
        (name.clone(), kept.map(line).collect::<Vec<_>>().join("\n"))
    };
    files.iter().map(table).collect()
}

#[test]
fn shards_that_are_merged_equal_one_process() {
    or_skip!(qemu());
    let home = home();
    let home = home.path();
    lab(home, &["run", "study.toml", "--output", "one"]).ends_with(0);
    // Of twelve cells, two are measured by another shard as well.
    shards(home, 3, &[1, 2, 3], &["--verify-fraction", "0.1"]);
    let before: Vec<Vec<u8>> = ["1", "2", "3"].map(|f| fs::read(home.join(f).join("results.sqlite")).unwrap()).into();
    merge(home, &["3", "1", "2"]).ends_with(0).says(&[
        "2 cells were measured by two shards, with identical logs",
        "12 cells measured on the board virt-nand; 1 of 1 claims hold.",
    ]);
    for (folder, before) in ["1", "2", "3"].iter().zip(before) {
        assert!(fs::read(home.join(folder).join("results.sqlite")).unwrap() == before, "shard {folder} has changed");
        let names: Vec<_> = fs::read_dir(home.join(folder)).unwrap().flatten().map(|e| e.file_name()).collect();
        assert!(!names.iter().any(|name| name.to_string_lossy().contains("in-use")), "{names:?}");
    }
    lab(home, &["compare", "one", "merged"]).ends_with(0).says(&["identical: the logs of all 12 common cells"]);
    for ((name, one), (_, merged)) in tables(home, "one").into_iter().zip(tables(home, "merged")) {
        assert!(!one.is_empty(), "{name}");
        assert_eq!(one, merged, "{name}");
    }
    // The whole is a run like others: it can be made again, and gone on with.
    let command: String = value(&home.join("merged"), "SELECT value FROM run WHERE name = 'command'");
    assert!(command.ends_with("study.toml --board virt-nand"), "{command}");
    lab(home, &["run", "--resume", "merged"]).ends_with(0).says(&["12 cells measured"]);

    // A result that another machine does not give is refused, and says which cell it is of.
    let twice = "SELECT id FROM other.cell WHERE id IN (SELECT id FROM main.cell) LIMIT 1";
    let mut changed = 0;
    for (shard, other) in [("2", "1"), ("3", "1"), ("3", "2")] {
        let db = change(&home.join(shard));
        db.execute("ATTACH ?1 AS other", [home.join(other).join("results.sqlite").to_str().unwrap()]).unwrap();
        changed += db.execute(&format!("UPDATE main.cell SET digest = 'other' WHERE id = ({twice})"), []).unwrap();
    }
    assert!(changed > 0);
    fs::rename(home.join("merged"), home.join("first")).unwrap();
    merge(home, &["1", "2", "3"]).ends_with(1).complains(&["of 2 repeated cells differ", "small: "]);
    assert!(!home.join("merged").exists());
}

#[test]
fn what_is_not_one_run_is_refused_with_what_to_do() {
    let home = home();
    let home = home.path();
    shards(home, 3, &[1, 2, 3], &ON_HOST);
    merge(home, &["1", "3"]).ends_with(1).complains(&["shard 2/3 is missing", "study.toml --board host --shard 2/3"]);
    merge(home, &["1"]).ends_with(1).complains(&["shards 2/3, 3/3 are missing"]);
    merge(home, &["1", "2", "3", "2"]).ends_with(1).complains(&["shard 2/3 is there twice: 2 and 2"]);
    // One that was not finished, and goes on.
    fs::rename(home.join("2"), home.join("whole")).unwrap();
    run(command("cp").arg("-r").arg(home.join("whole")).arg(home.join("2"))).ends_with(0);
    change(&home.join("2")).execute("DELETE FROM cell WHERE id = (SELECT max(id) FROM cell)", []).unwrap();
    merge(home, &["1", "2", "3"]).ends_with(1).complains(&["2/3 (2) has 1 of 2 cells", "run --resume 2"]);
    lab(home, &["run", "--resume", "2", "--only", "1"]).ends_with(1).complains(&["cells are fixed"]);
    lab(home, &["run", "--resume", "2"]).ends_with(0).says(&["shard 2/3: 2 cells, 0 of them failed"]);
    // Of other runs: another number of shards, other cells, another study, another machine, a whole run.
    for (folder, more) in [("only", &["--shard", "2/3", "--only", "seed < 3"][..]), ("half", &["--shard", "2/2"])] {
        let words = ["run", "study.toml", "--board", "host", "--output", folder];
        lab(home, &[&words, more].concat()).ends_with(0);
    }
    merge(home, &["1", "half", "3"]).ends_with(1).complains(&["not of one run: their numbers of shards differ"]);
    merge(home, &["1", "only", "3"]).ends_with(1).complains(&["not of one run: their cells differ"]);
    for (fact, words) in [("study", "`study` differs"), ("fact.cpu", "`fact.cpu` is "), ("git.revision", "and other")] {
        change(&home.join("whole")).execute("UPDATE run SET value = 'other' WHERE name = ?1", [fact]).unwrap();
        let refused = merge(home, &["1", "whole", "3"]).ends_with(1);
        refused.complains(&["shard 1/3 (1) and shard 2/3 (whole) are not of one run"]).complains(&[words]);
        run(command("cp").arg(home.join("2/results.sqlite")).arg(home.join("whole/"))).ends_with(0);
    }
    damage(&home.join("whole"), "cell");
    merge(home, &["1", "whole", "3"]).ends_with(1).complains(&["shard 2/3 (whole) is damaged", "run that shard again"]);
    lab(home, &["run", "study.toml", "--board", "host", "--output", "one"]).ends_with(0);
    merge(home, &["1", "one", "3"]).ends_with(1).complains(&["one is no shard of a run"]);
    // Repeating a cell says nothing on a machine that varies.
    let again = ["run", "study.toml", "--board", "host", "--shard", "1/3", "--verify-fraction", "0.5"];
    lab(home, &again).ends_with(1).complains(&["does not repeat a cell to the bit"]);
    assert!(!home.join("merged").exists());
    merge(home, &["1", "2", "3"]).ends_with(0).says(&["6 cells measured on the board host"]);
    merge(home, &["1", "2", "3"]).ends_with(1).complains(&["merged", "already exists"]);

    let into = |output: &str| lab(home, &["merge", "1", "2", "3", "-o", output]);
    into("1/deep/inner").ends_with(1).complains(&["1/deep/inner is in the shard 1", "choose a folder elsewhere"]);
    assert!(!home.join("1/deep").exists());
    symlink("nowhere", home.join("link")).expect("a link");
    into("link").ends_with(1).complains(&["link is a link that leads nowhere"]);
    fs::create_dir(home.join("nowhere")).expect("a folder");
    into("link/").ends_with(0).says(&["6 cells measured on the board host"]);
    assert!(home.join("link").is_symlink() && home.join("nowhere/report.html").exists());
}

/// Writes over the first page of a table.
fn damage(folder: &Path, table: &str) {
    let page: i64 = value(folder, &format!("SELECT rootpage FROM sqlite_schema WHERE name = '{table}'"));
    let bytes: i64 = value(folder, "SELECT page_size FROM pragma_page_size");
    let file = fs::OpenOptions::new().write(true).open(folder.join("results.sqlite")).expect("the database");
    file.write_all_at(&vec![0xff; bytes as usize], ((page - 1) * bytes) as u64).expect("damage");
}

/// A name that SQLite takes for a URI, and one that is no text.
#[test]
fn folders_of_results_may_have_any_name() {
    let home = home();
    let home = home.path();
    let names = [OsStr::new("file:1?mode=memory"), OsStr::from_bytes(b"2-\xff")];
    for (name, shard) in names.iter().zip(["1/2", "2/2"]) {
        let words = ["run", "study.toml", "--board", "host", "--shard", shard, "--output"];
        run(pocketstone(home, &words).arg(name)).ends_with(0);
        assert!(home.join(name).join("results.sqlite").exists());
        run(pocketstone(home, &["run", "--resume"]).arg(name)).ends_with(0);
    }
    let merge = pocketstone(home, &["merge", "-o", "file:merged?"]).args(names).output().expect("it runs");
    assert!(merge.status.success(), "{merge:?}");
    assert_eq!(value::<i64>(&home.join("file:merged?"), "SELECT count(*) FROM cell"), 6);
}

#[test]
fn results_are_merged_whole_or_not_at_all_whenever_it_is_killed() {
    let home = home();
    let home = home.path();
    shards(home, 2, &[1, 2], &ON_HOST);
    merge(home, &["1", "2"]).ends_with(0);
    let expected = tables(home, "merged");
    let (mut absent, mut whole) = (0, 0);
    for kill in 0..amount(12, 60) {
        fs::remove_dir_all(home.join("merged")).expect("removed");
        let mut child = pocketstone(home, &["merge", "1", "2", "-o", "merged"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a merge");
        std::thread::sleep(std::time::Duration::from_millis(kill * 120 / amount(12, 60)));
        // Whether it has ended by itself meanwhile is all the same.
        let _ = child.kill();
        child.wait().expect("its end");
        match home.join("merged").exists() {
            true => whole += 1,
            false => {
                absent += 1;
                merge(home, &["1", "2"]).ends_with(0);
            }
        }
        assert_eq!(tables(home, "merged"), expected, "after kill {kill}");
        let left: Vec<_> = fs::read_dir(home).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".merging")), "{left:?}");
    }
    tell(&format!("merges killed: {absent} left nothing, {whole} were whole"));
    assert!(absent > 0, "no kill came early enough");
}

#[test]
fn the_shares_are_the_same_wherever_they_are_asked_for() {
    let home = home();
    let home = home.path();
    let plan = |folder: &Path| -> serde_json::Value {
        let mut command = pocketstone(folder, &["study", "plan", "study.toml", "--shards", "3", "--json"]);
        let ran = run(command.env("POCKETSTONE_CACHE", folder.join("cache"))).ends_with(0);
        serde_json::from_str(&ran.out).expect("JSON")
    };
    let other = self::home();
    let (here, there) = (plan(home), plan(other.path()));
    assert_eq!(here, there);
    let cells = here["shards"].as_array().expect("shards").iter().flat_map(|s| s["cells"].as_array().expect("cells"));
    let mut numbers: Vec<u64> = cells.map(|n| n.as_u64().expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=12).collect::<Vec<u64>>());
    let shown = lab(home, &["study", "plan", "study.toml", "--shards", "3"]).ends_with(0);
    shown.says(&["shard 3: 4 cells from 1 state,", "--shard I/3 --output shard-I", "merge shard-* -o DIR"]);
}

/// What runs jobs: packages that are unpacked and not installed.
fn packages() -> Result<PathBuf, Skip> {
    let packages = project().join(".cache/cluster/slurm");
    match packages.is_dir() {
        true => Ok(packages),
        false => Err(Need::Programs.lacks("there is no slurm: scripts/cluster slurm")),
    }
}

/// What `tests/cluster/slurm.py` needs.
fn slurm() -> Result<PathBuf, Skip> {
    pocketstone_testing::root()?;
    qemu()?;
    program("ip", "iproute2")?;
    packages()
}

/// Runs a study in three shards on two nodes of Slurm, twice: the second time one of them is killed.
#[track_caller]
fn two_nodes_of_slurm_give_what_one_process_gives(study: &Path) {
    let packages = or_skip!(slurm());
    let python = or_skip!(program("python3", "python3"));
    let cache = context().cache.folder("").expect("the cache");
    let mut script = command(python);
    script.arg(project().join("tests/cluster/slurm.py")).arg(packages).arg(binary()).arg(project()).arg(cache);
    let ran = run(script.arg(study));
    if ran.status == Some(77) {
        let why = ran.out.lines().find_map(|line| line.strip_prefix("skip: kernel: "));
        or_skip!(Err::<(), _>(
            Need::Kernel.lacks(why.unwrap_or_else(|| panic!("a skip that does not say why: {ran}")))
        ));
    }
    tell(ran.ends_with(0).out.trim_end());
}

#[test]
#[ignore = "takes a minute: make torture"]
fn nodes_of_slurm_give_what_one_process_gives_and_so_they_do_after_one_is_killed() {
    two_nodes_of_slurm_give_what_one_process_gives(&home().path().join("study.toml"));
}

#[test]
#[ignore = "takes minutes: make torture"]
fn nodes_of_slurm_give_the_quick_study_as_one_process_does() {
    two_nodes_of_slurm_give_what_one_process_gives(&project().join("studies/readahead-quick.toml"));
}

#[test]
fn a_command_is_expanded_as_kubernetes_says() {
    for (word, made) in [
        ("kill -0 $$", "kill -0 $"),
        ("kill -0 $$$$", "kill -0 $$"),
        ("$x ${y} $", "$x ${y} $"),
        ("$(cat $$) $$(cat $$) $(", "$(cat $$) $(cat $) $("),
    ] {
        assert_eq!(expanded(word), made);
    }
}

#[test]
fn scripts_for_other_engines_run_the_same_shards() {
    let home = home();
    let home = home.path();
    let shares = ["study.toml", "--shards", "2", "--board", "host"];
    let words = ["cluster", "kubernetes", "--image", "registry/pocketstone", "--claim", "results"];
    let ran = lab(home, &[&words, &shares[..]].concat()).ends_with(0);
    let job: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let spec = &job["spec"];
    assert_eq!((&job["apiVersion"], &job["kind"]), (&"batch/v1".into(), &"Job".into()));
    assert_eq!((&spec["completionMode"], &spec["completions"]), (&"Indexed".into(), &2.into()));
    let container = &spec["template"]["spec"]["containers"][0];
    let script = &expanded(container["command"][2].as_str().expect("a script"));
    assert!(script.contains("while kill -0 $$ && kill -0 \"$run\"; do"), "{script}");
    assert!(script.contains("pocketstone run /shared/study.toml --board host --shard \"$index/2\""), "{script}");
    // Shards of a study that has changed are others than those that are there.
    let place = |script: &str| script.lines().find(|line| line.starts_with("shards=")).expect("a place").to_owned();
    write(home, "study.toml", &STUDY.replace("requests = 8", "requests = 9"));
    let changed = lab(home, &[&words, &shares[..]].concat()).ends_with(0);
    let changed: serde_json::Value = serde_json::from_str(&changed.out).expect("JSON");
    let (name, other) = (&job["metadata"]["name"], &changed["metadata"]["name"]);
    assert!(
        name.as_str().is_some_and(|name| name.starts_with("pocketstone-study-")) && name != other,
        "{name} {other}"
    );
    let changed = changed["spec"]["template"]["spec"]["containers"][0]["command"][2].as_str().expect("a script");
    assert!(place(script).starts_with("shards=/shared/study-") && place(script) != place(changed), "{changed}");
    write(home, "study.toml", STUDY);
    // A board of one's own is in the claim, as such a study is.
    write(home, "own.toml", &fs::read_to_string(project().join("devices/host.toml")).expect("a profile"));
    let of_own = ["study.toml", "--shards", "2", "--board", "./own.toml"];
    lab(home, &[&words, &of_own[..]].concat()).ends_with(0).says(&["/shared/study.toml --board /shared/own.toml "]);
    let elsewhere = ["--cache", "/home/me/board.tar.gz"];
    let refused = lab(home, &[&words, &shares[..], &elsewhere].concat()).ends_with(1);
    refused.complains(&["/home/me/board.tar.gz is no file of the claim", "--cache /shared/FILE"]);

    let dry = lab(home, &[&["cluster", "slurm", "--dry-run", "-o", "merged"], &shares[..]].concat()).ends_with(0);
    dry.says(&["--array=1-2", "--dependency=afterany:ARRAY", "merge.sh", "shard.sh"]);
    slurm_takes_the_options_as_they_are_meant(home, &shares);
    assert!(!home.join("merged.shards").exists());

    let lines = lab(home, &[&["cluster", "parallel", "-o", "merged"], &shares[..]].concat()).ends_with(0).out;
    assert!(lines.starts_with("parallel --jobs 1 --joblog "), "{lines}");
    // One after the other, as a shell runs them; then one that is there is gone on with.
    let shell = |line: &str| run(command("sh").current_dir(home).args(["-c", line]));
    let script = home.join("merged.shards/shard.sh").to_str().expect("a path").to_owned();
    for index in [1, 2, 1] {
        let said = format!("moved to {}: ", home.join(format!("merged.shards/{index}")).display());
        shell(&format!("{script} {index}")).ends_with(0).says(&[&said]);
    }
    // What the script replaces is not gone on with beside it, and what a writer has left there is not mixed.
    let copy = "merged.shards/1";
    lab(home, &["run", "--resume", copy]).ends_with(1).complains(&[copy, "is a copy", "merged.shards/shard.sh 1"]);
    write(home, "merged.shards/1/results.sqlite-journal", "another writer's");
    shell(&format!("TMPDIR=. {script} 1")).ends_with(1).complains(&["cannot copy the results to"]);
    fs::remove_file(home.join("merged.shards/1/results.sqlite-journal")).expect("a file");
    shell(lines.lines().last().expect("the merge")).ends_with(0).says(&["6 cells measured on the board host"]);
    // The place of results is that of one study.
    write(home, "other.toml", &STUDY.replace("requests = 8", "requests = 16"));
    let other = ["cluster", "slurm", "-o", "merged", "other.toml", "--shards", "2", "--board", "host"];
    lab(home, &other).ends_with(1).complains(&["merged holds results of study", "another --output"]);
    // Nor is it that of other cells, or of results that were not merged from shards.
    let same = ["cluster", "slurm", "-o", "merged", "study.toml", "--shards", "2", "--board", "host"];
    for more in [["--only", "seed < 3"], ["--board", "virt-nand"]] {
        let all = same.iter().filter(|word| more[0] != "--board" || !["--board", "host"].contains(word)).copied();
        let other: Vec<&str> = all.chain(more).collect();
        lab(home, &other).ends_with(1).complains(&["merged holds results of study", "another plan or board"]);
    }
    lab(home, &["run", "study.toml", "--board", "host", "--output", "alone"]).ends_with(0);
    let alone = same.map(|word| if word == "merged" { "alone" } else { word });
    lab(home, &alone).ends_with(1).complains(&["alone holds results of study", "another --output"]);
    lab(home, &same).ends_with(0).says(&["6 cells measured on the board host"]);
    lab(home, &["cluster", "parallel", "-o", "merged", "study.toml", "--shards", "3", "--board", "host"])
        .ends_with(1)
        .complains(&["merged.shards has shards of another plan"]);
}

/// What sbatch is told of the user's options, and of a path in which it replaces what begins with `%`.
fn slurm_takes_the_options_as_they_are_meant(home: &Path, shares: &[&str]) {
    let dry = |more: &[&str]| lab(home, &[&["cluster", "slurm", "--dry-run"], shares, more].concat());
    let ran = dry(&["-o", "50%a", "--sbatch=--dependency=afterok:7"]).ends_with(0);
    let (array, merge) = ran.out.trim_end().rsplit_once('\n').expect("two commands");
    let array = array.rsplit_once('\n').expect("a command").1;
    assert!(array.contains("/50%%a.shards/logs/%a.log") && array.contains("afterok:7"), "{array}");
    let [users, own] = ["--dependency=afterok:7", "--dependency=afterany:ARRAY"].map(|option| merge.find(option));
    assert!(users < own, "the last one counts: {merge}");
    dry(&["-o", "a\\b"]).ends_with(1).complains(&["a\\b", "choose another --output"]);
    for option in ["--array=1-20%4", "-a1-20", "--clusters=x", "-Mx"] {
        dry(&["-o", "merged", &format!("--sbatch={option}")]).ends_with(1).complains(&[option, "hint"]);
    }
}

/// A shard that ends early: it is told to, as by an engine whose time limit is over, or its machine dies, and with it
/// what was on its disk. The next attempt goes on with what had been kept.
fn a_shard_is_gone_on_with(machine_dies: bool) {
    let home = home();
    let home = home.path();
    write(home, "study.toml", &STUDY.replace("repetitions = 3", "repetitions = 20"));
    let words = ["cluster", "parallel", "-o", "merged", "study.toml", "--shards", "1", "--board", "host"];
    let lines = lab(home, &words).ends_with(0).out;
    let machine = home.join("machine");
    let shard = || {
        fs::create_dir(&machine).expect("a folder");
        let mut shard = command(home.join("merged.shards/shard.sh"));
        shard.arg("1").env("TMPDIR", &machine).env("POCKETSTONE_KEEP_S", if machine_dies { "0.1" } else { "60" });
        shard
    };
    let on_machine = || {
        let mut folders = fs::read_dir(&machine).expect("the folder").flatten();
        folders.find_map(|folder| folder.path().join("results/results.sqlite").exists().then(|| folder.path()))
    };
    let shared = home.join("merged.shards/1");
    let mut first = shard().stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the shard begins");
    let script = Process::of(first.id()).expect("the script");
    if machine_dies {
        until("cells are kept", || finished(&shared).len() > 2);
        let with_it = Process::descendants(first.id());
        script.kill();
        with_it.iter().for_each(Process::kill);
    } else {
        until("cells are measured", || on_machine().is_some_and(|of| finished(&of.join("results")).len() > 2));
        script.signal(Signal::TERM);
    }
    assert!(!first.wait().expect("it ends").success());
    assert_eq!(on_machine().is_some(), machine_dies, "what is told to end leaves nothing");
    fs::remove_dir_all(&machine).expect("the machine's disk is gone");
    let kept = finished(&shared);
    assert!((3..40).contains(&kept.len()), "{} of 40 cells", kept.len());

    run(&mut shard()).ends_with(0);
    let all = finished(&shared);
    assert_eq!(all.len(), 40);
    assert!(kept.iter().all(|(id, cell)| all.get(id) == Some(cell)), "a finished cell was measured again");
    let merge = lines.lines().last().expect("the merge");
    run(command("sh").current_dir(home).args(["-c", merge])).ends_with(0).says(&["40 cells measured"]);
}

#[test]
fn a_shard_that_is_told_to_end_keeps_what_it_has_and_is_gone_on_with() {
    a_shard_is_gone_on_with(false);
}

#[test]
fn a_shard_whose_machine_died_is_gone_on_with() {
    a_shard_is_gone_on_with(true);
}

#[test]
fn gnu_parallel_runs_the_shards() {
    let parallel = or_skip!(packages()).join("usr/bin/parallel");
    let perl = or_skip!(program("perl", "perl"));
    let home = home();
    let home = &home.path().join("a b's {}");
    fs::create_dir(home).expect("a folder");
    write(home, "study.toml", STUDY);
    let words = ["cluster", "parallel", "-o", "merged", "study.toml", "--shards", "2", "--board", "host"];
    let lines = lab(home, &words).ends_with(0).out;
    let unpacked = format!("{} {}", perl.display(), parallel.display());
    let (line, merge) = lines.split_once('\n').expect("two lines");
    for line in [&line.replacen("parallel", &unpacked, 1), merge] {
        run(command("sh").current_dir(home).args(["-c", line])).ends_with(0);
    }
    let cells: i64 = value(&home.join("merged"), "SELECT count(*) FROM cell WHERE status = 'done'");
    assert_eq!(cells, 6);
}
