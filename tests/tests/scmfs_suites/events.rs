//! What inotify(7) tells of changes through a mount is what it tells of the same changes on a tmpfs.

use pocketstone_testing::wait::LONG;
use pocketstone_testing::{or_skip, program};
use pocketstone_tests::command::poll;
use pocketstone_tests::mounted::Place;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Something that programs do in a folder, with `$0` in which there is a file `kept`.
const CHANGES: &str = r#"
set -e
cd "$0"
: >new; echo text >>new; chmod 600 new; touch new; mv new moved; ln moved linked; rm moved linked
mkdir folder; rmdir folder; ln -s nowhere link; rm link
cat kept; truncate -s 3 kept; setfattr -n user.a -v 1 kept || true
exec 3<kept; rm kept; exec 3<&-
: >last
"#;

/// What is told of a folder and of a file in it.
fn told(folder: &Path) -> Vec<String> {
    fs::write(folder.join("kept"), "something").expect("a file");
    let (log, ready) = (folder.with_extension("events"), folder.with_extension("ready"));
    let mut command = Command::new("inotifywait");
    command.args(["-m", "--format", "%w %e %f", "-o"]).arg(&log).arg(".").arg("kept").current_dir(folder);
    command.stdout(Stdio::null()).stderr(fs::File::create(&ready).expect("a file"));
    let mut watcher = command.spawn().expect("it starts");
    let has = |path: &Path, text: &str| fs::read_to_string(path).is_ok_and(|s| s.contains(text)).then_some(());
    assert!(poll(LONG, || has(&ready, "established")).is_some(), "it watches");
    let mut changes = Command::new("sh");
    changes.args(["-c", CHANGES]).arg(folder).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(changes.status().expect("a shell").success());
    assert!(poll(LONG, || has(&log, "CLOSE_WRITE,CLOSE last")).is_some(), "the last event");
    let _ = watcher.kill();
    let _ = watcher.wait();
    fs::read_to_string(&log).expect("events").lines().map(str::to_owned).collect()
}

#[test]
fn watchers_are_told_what_they_are_told_elsewhere() {
    or_skip!(program("inotifywait", "inotify-tools"));
    let place = or_skip!(Place::new());
    let expected = told(&place.folder("plain"));
    for event in ["CREATE new", "MODIFY new", "ATTRIB new", "MOVED_TO moved", "DELETE moved", "kept DELETE_SELF"] {
        assert!(expected.iter().any(|line| line.contains(event)), "{event}: {expected:#?}");
    }
    let volume = place.volume(&[]);
    let folder = volume.path().join("watched");
    fs::create_dir(&folder).expect("a folder");
    assert_eq!(told(&folder), expected);
    volume.end();
}
