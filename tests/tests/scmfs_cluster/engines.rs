//! The scripts of `tests/cluster`.

use pocketstone_testing::{Need, Skip, or_skip, program, seed};
use pocketstone_tests::command::{binary, run};
use pocketstone_tests::project;
use pocketstone_tests::suites::{command, tell};

/// The script's words for what is missing.
const SKIPPED: Option<i32> = Some(77);

/// Runs a script on an engine, with these arguments after the common ones, to its good end.
#[track_caller]
fn runs(script: &str, engine: &str, more: &[&str]) -> Result<(), Skip> {
    runs_with(script, (&format!("cluster/{engine}"), &format!("scripts/cluster {engine}")), more)
}

/// The same, with packages of any folder of the cache, and what fetches them.
#[track_caller]
fn runs_with(script: &str, (folder, fetch): (&str, &str), more: &[&str]) -> Result<(), Skip> {
    pocketstone_testing::fuse()?;
    let python = program("python3", "python3")?;
    program("ip", "iproute2")?;
    let packages = project().join(".cache").join(folder);
    if !packages.is_dir() {
        return Err(Need::Programs.lacks(format_args!("there is no {}: {fetch}", packages.display())));
    }
    let mut command = command(python);
    command.arg(project().join("tests/cluster").join(script)).arg(packages).arg(binary().with_file_name("scmfs"));
    let ran = run(command.args(more));
    if ran.status == SKIPPED {
        let why = ran.out.lines().find_map(|line| line.strip_prefix("skip: kernel: "));
        return Err(Need::Kernel.lacks(why.unwrap_or_else(|| panic!("a skip that does not say why: {ran}"))));
    }
    tell(ran.ends_with(0).out.trim_end());
    Ok(())
}

fn failover(deaths: u32) -> Result<(), Skip> {
    program("rsync", "rsync")?;
    program("ssh-keygen", "openssh-client")?;
    let sshd = ("sshd", "scripts/ssh-servers");
    runs_with("failover.py", sshd, &[&seed(1).to_string(), &deaths.to_string()])
}

#[test]
fn a_second_machine_goes_on_with_a_database() {
    or_skip!(failover(2));
}

#[test]
#[ignore = "takes minutes: make torture"]
fn a_second_machine_goes_on_with_a_database_after_twenty_deaths() {
    or_skip!(failover(20));
}

fn nfs(kills: u32) -> Result<(), Skip> {
    runs("nfs.py", "nfs", &[&seed(1).to_string(), &kills.to_string()])
}

#[test]
fn clients_of_nfs_go_on_after_the_server_of_the_volume_was_killed() {
    or_skip!(nfs(2));
}

#[test]
#[ignore = "takes minutes: make torture"]
fn clients_of_nfs_go_on_after_twenty_kills() {
    or_skip!(nfs(20));
}

#[test]
#[ignore = "takes minutes: make torture"]
fn three_bricks_are_equal_after_kills_and_a_cut_link() {
    for name in ["git", "fio", "postmark"] {
        or_skip!(program(name, name));
    }
    or_skip!(runs("gluster.py", "gluster", &[&seed(1).to_string(), "20"]));
}
