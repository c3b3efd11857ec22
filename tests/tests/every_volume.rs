//! Every workload on files runs on every volume, and asks the same of each.

use pocketstone_core::volume::{Access, FileSystem, Medium, Volume};
use pocketstone_testing::or_skip;
use pocketstone_tests::command::{lab, write};
use pocketstone_tests::{qemu, results};
use pocketstone_workload::table::{Definition, ON_FILES};
use std::fmt::Write;
use std::path::Path;

/// A file is read, another one made of it, and renamed over it.
const CALLS: &str = r#"7 1700000000.000100 openat(AT_FDCWD, "there", O_RDONLY) = 3 <0.000010>
7 1700000000.000200 read(3, ""..., 5000) = 5000 <0.000010>
7 1700000000.000300 openat(AT_FDCWD, "new", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 4 <0.000010>
7 1700000000.000400 write(4, ""..., 5000) = 5000 <0.000010>
7 1700000000.000500 fsync(4) = 0 <0.000010>
7 1700000000.000600 close(4) = 0 <0.000010>
7 1700000000.000700 close(3) = 0 <0.000010>
7 1700000000.000800 rename("new", "there") = 0 <0.000010>
7 1700000000.000900 exit_group(0) = ?
"#;

/// Two kinds of jobs, three threads.
const JOBS: &str = "[global]\nbs=4k\nsize=64k\n[a]\nrw=randread\nnumjobs=2\n[b]\nrw=randwrite\nfsync=4\n";

/// Whether a workload cannot be on a volume: nothing maps a file of YAFFS2 in process, and nothing fills a volume
/// without a size.
fn impossible(workload: &str, volume: &Volume) -> bool {
    match workload {
        "app-start" => volume.file_system == FileSystem::Yaffs2 && volume.access == Access::InProcess,
        "capacity" => volume.file_system == FileSystem::Ramfs,
        _ => false,
    }
}

/// Runs every workload on these volumes of a board; each measured what the others did.
#[track_caller]
fn every_workload_on(board: &str, volumes: &[Volume]) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut study = format!("title = 't'\nboard = '{board}'\nrepetitions = 1\n");
    for Definition { name, small, .. } in &ON_FILES {
        let on: Vec<String> = volumes.iter().filter(|v| !impossible(name, v)).map(Volume::name).collect();
        let _ = writeln!(study, "[[experiment]]\nname = '{name}'\ntraced = 'none'\n[experiment.factors]");
        let _ = writeln!(study, "workload = '{name}'\nfile_system = {on:?}\n{small}");
    }
    write(home.path(), "study.toml", &study);
    write(home.path(), "app.strace", CALLS);
    write(home.path(), "jobs.fio", JOBS);
    let ran = lab(home.path(), &["run", "study.toml", "--output", "out"]).ends_with(0);
    let out = home.path().join("out");
    let count = |sql: &str| results::value::<u64>(&out, sql);
    assert_eq!(count("SELECT count(*) FROM cell WHERE status <> 'done'"), 0);
    for volume in volumes {
        let name = volume.name();
        let measured = "SELECT count(DISTINCT workload) FROM cells WHERE file_system";
        let workloads = ON_FILES.iter().filter(|workload| !impossible(workload.name, volume)).count() as u64;
        match ran.out.contains(&format!("left out: cells on {name}:")) {
            true => assert_eq!(count(&format!("{measured} = '{name}'")), 0, "{name} is left out"),
            false => assert_eq!(count(&format!("{measured} = '{name}'")), workloads, "on {name}"),
        }
    }
    // As many measured calls of a point, whatever it is on.
    let differ = "SELECT count(*) FROM (SELECT json_remove(point, '$.file_system') AS rest FROM cell \
                  GROUP BY experiment, rest \
                  HAVING count(DISTINCT (SELECT count(*) FROM call WHERE cell = cell.id)) > 1)";
    assert_eq!(count(differ), 0, "{}", differing(&out));
}

/// The numbers of calls, for a failure's message.
fn differing(out: &Path) -> String {
    results::value(
        out,
        "SELECT group_concat(line, char(10)) FROM (SELECT experiment || ' on ' || (point ->> '$.file_system') || \
         ': ' || (SELECT count(*) FROM call WHERE cell = cell.id) AS line FROM cell ORDER BY 1)",
    )
}

/// The volumes to which something can be written, of which nothing knows one file alone.
fn volumes(select: impl Fn(&Volume) -> bool) -> Vec<Volume> {
    let whole = |volume: &Volume| !volume.read_only() && volume.medium != Medium::None;
    Volume::all().into_iter().filter(|volume| whole(volume) && select(volume)).collect()
}

fn of_machine(volume: &Volume) -> bool {
    volume.volatile() || volume.medium == Medium::Directory
}

#[test]
fn every_workload_runs_in_every_way_on_this_machine() {
    // Of each file system and way to it, on one medium.
    let mut seen = Vec::new();
    let mut first = |volume: &Volume| {
        let new = !seen.contains(&(volume.file_system, volume.access));
        seen.push((volume.file_system, volume.access));
        new
    };
    let mut all = volumes(of_machine);
    all.retain(|volume| first(volume));
    every_workload_on("host", &all);
}

#[test]
#[ignore = "long: make torture"]
fn every_workload_runs_on_every_volume() {
    every_workload_on("host", &volumes(of_machine));
    or_skip!(qemu());
    every_workload_on("virt-nand", &volumes(Volume::on_raw_nand));
    every_workload_on("virt-emmc", &volumes(|volume| volume.medium == Medium::Block));
}
