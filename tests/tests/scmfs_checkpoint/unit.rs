//! The unit of systemd that brings a volume in memory back.

use pocketstone_testing::{or_skip, program};
use pocketstone_tests::command::{binary, run};
use pocketstone_tests::mounted::{MountedVolume, Place, check, make};
use pocketstone_tests::project;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

fn text() -> String {
    fs::read_to_string(project().join("packaging/scmfs@.service")).expect("the unit")
}

/// The command under test is where the package puts it.
fn with_command(text: &str) -> String {
    text.replace("/usr/bin/scmfs", &binary().with_file_name("scmfs").display().to_string())
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let analyze = or_skip!(program("systemd-analyze", "systemd"));
    let home = tempfile::tempdir().expect("a folder");
    let unit = home.path().join("scmfs@volume.service");
    fs::write(&unit, with_command(&text())).expect("a new file");
    let verify = |unit| run(Command::new(&analyze).args(["verify", "--man=no"]).arg(unit));
    assert_eq!(verify(&unit).ends_with(0).err, "");
    // A mistake would be found.
    fs::write(&unit, with_command(&text()).replace("Type=forking", "Type=spooning")).expect("a file");
    verify(&unit).complains(&["spooning"]);
}

/// Runs what systemd would for one of the unit's commands, with the volume's own settings.
fn does(what: &str, settings: &BTreeMap<&str, String>) {
    let text = with_command(&text());
    let command = text.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix('=')).expect("a command");
    let words = command.split(' ').map(|word| {
        settings.iter().fold(word.to_owned(), |word, (name, value)| word.replace(&format!("${{{name}}}"), value))
    });
    let words: Vec<String> = words.collect();
    assert!(!words.iter().any(|word| word.contains(['$', '%'])), "{words:?} has settings that are not given");
    run(Command::new(&words[0]).args(&words[1..])).ends_with(0);
}

#[test]
fn the_units_commands_bring_a_volume_back_after_its_memory_was_lost() {
    let place = or_skip!(Place::new());
    let (region, mount) = (place.path("region"), place.folder("mount"));
    // Those that the unit has values for.
    let text = text();
    let given = text.lines().find_map(|line| line.strip_prefix("Environment=")).expect("settings");
    let mut settings: BTreeMap<&str, String> = given
        .split(' ')
        .filter_map(|setting| setting.split_once('='))
        .map(|(name, value)| (name, value.into()))
        .collect();
    assert_eq!(settings["OPTIONS"], "every=30s");
    for (name, path) in [("REGION", &region), ("DIRECTORY", &mount), ("TARGET", &place.path("target"))] {
        assert!(settings.insert(name, path.display().to_string()).is_some(), "the unit has a value for {name}");
    }
    make(&region, &["--size", "64M"]);
    for boot in 0..3 {
        does("ExecStart", &settings);
        let volume = MountedVolume::mounted(&region, &mount);
        for before in 0..boot {
            assert_eq!(fs::read_to_string(mount.join(before.to_string())).expect("a file"), "before");
        }
        fs::write(mount.join(boot.to_string()), "before").expect("a new file");
        does("ExecStop", &settings);
        check(&region).says(&["closed cleanly"]);
        drop(volume);
        fs::remove_file(&region).expect("the memory is lost");
    }
    // Killed, it is started again, and has everything.
    does("ExecStart", &settings);
    fs::write(mount.join("late"), "after the last checkpoint").expect("a new file");
    MountedVolume::mounted(&region, &mount).kill();
    does("ExecStart", &settings);
    assert_eq!(fs::read_to_string(mount.join("late")).expect("a file"), "after the last checkpoint");
    does("ExecStop", &settings);
}
