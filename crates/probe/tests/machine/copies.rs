//! A lab's copy of a journal, of real processes that are killed.

use crate::{go, hold, journals, kill_watchdog, line_of, value};
use pocketstone_probe::LabCopy;
use pocketstone_probe::lab_copy::{NOTED, Said};
use pocketstone_probe::settings::{forget_restored, restore_copy, restore_left};
use pocketstone_testing::Skip;
use pocketstone_testing::wait::until;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The same with a lab at the socket that is standard error: its input is for the end.
pub fn hold_copied(folder: &Path) {
    hold(folder, Some(LabCopy::by(std::io::stderr().as_fd().try_clone_to_owned().unwrap())));
}

/// The lab of a process that holds settings: it notes what it is told.
struct CopyingLab {
    folder: tempfile::TempDir,
    child: Child,
    told: BufReader<UnixStream>,
    /// The journal, and its lines.
    copy: (String, String),
}

impl CopyingLab {
    fn new() -> CopyingLab {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "old\n").unwrap();
        fs::write(folder.path().join("b"), "on\n").unwrap();
        let (own, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["hold-copied", folder.path().to_str().unwrap()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.stderr(OwnedFd::from(theirs)).spawn().unwrap();
        CopyingLab { folder, child, told: BufReader::new(own), copy: Default::default() }
    }

    /// What the process says next; it is not noted yet.
    fn hear(&mut self) -> Said {
        let mut line = String::new();
        self.told.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// Notes the setting that is said next.
    fn note(&mut self) {
        let Said::Setting { journal, line } = self.hear() else { panic!("no setting") };
        self.copy = (journal, format!("{}{line}\n", self.copy.1));
        self.told.get_mut().write_all(&[NOTED]).unwrap();
    }

    fn values(&self) -> (String, String) {
        (value(self.folder.path(), "a"), value(self.folder.path(), "b"))
    }

    fn restore_copy(&self) {
        restore_copy(self.folder.path(), &self.copy.0, &self.copy.1).unwrap();
    }

    /// What else is in the folder than the two settings.
    fn rest(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).filter(|name| name.len() > 1).collect()
    }

    /// Kills the watchdog, then the process.
    fn kill_all(&mut self) {
        kill_watchdog(&self.child);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

pub fn a_lab_has_noted_a_setting_before_it_is_made() -> Result<(), Skip> {
    let mut lab = CopyingLab::new();
    for before in [("old", "on"), ("new", "on"), ("new", "off")] {
        let Said::Setting { journal, line } = lab.hear() else { panic!("no setting") };
        // As long as the lab has not, the process waits.
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(lab.values(), (before.0.into(), before.1.into()));
        let own = fs::read_to_string(lab.folder.path().join(&journal)).unwrap();
        lab.copy = (journal, format!("{}{line}\n", lab.copy.1));
        assert_eq!(own, lab.copy.1, "the copy is the journal");
        lab.told.get_mut().write_all(&[NOTED]).unwrap();
    }
    assert_eq!(line_of(&mut lab.child), "set");
    // At its end the lab hears that all is put back, and nothing is left when it has noted that.
    go(&mut lab.child);
    assert_eq!(lab.hear(), Said::PutBack { journal: lab.copy.0.clone() });
    assert_eq!(lab.values(), ("old".into(), "on".into()));
    lab.told.get_mut().write_all(&[NOTED]).unwrap();
    assert!(lab.child.wait().unwrap().success());
    assert_eq!(lab.rest(), [""; 0]);

    // One that is gone notes nothing: no setting is made.
    let mut lab = CopyingLab::new();
    lab.note();
    lab.hear();
    lab.told.get_mut().shutdown(Shutdown::Both).unwrap();
    assert!(!lab.child.wait().unwrap().success());
    until("the first setting is back", || journals(lab.folder.path()).is_empty());
    assert_eq!(lab.values(), ("old".into(), "on".into()));
    Ok(())
}

pub fn a_copy_puts_back_what_a_lost_journal_cannot() -> Result<(), Skip> {
    let mut lab = CopyingLab::new();
    (0..3).for_each(|_| lab.note());
    assert_eq!(line_of(&mut lab.child), "set");
    lab.kill_all();
    fs::remove_file(lab.folder.path().join(&lab.copy.0)).unwrap();
    assert_eq!((restore_left(lab.folder.path()).unwrap(), lab.values()), (0, ("newer".into(), "off".into())));
    lab.restore_copy();
    assert_eq!(lab.values(), ("old".into(), "on".into()));
    // Until the lab knows it, it may ask again: what was set since then stays.
    fs::write(lab.folder.path().join("a"), "else\n").unwrap();
    lab.restore_copy();
    assert_eq!(value(lab.folder.path(), "a"), "else");
    forget_restored(&lab.folder.path().join(&lab.copy.0));
    assert_eq!(lab.rest(), [""; 0]);
    // A damaged one says so, and names that are no journal's are refused.
    let of = |name: &str, text: &str| restore_copy(lab.folder.path(), name, text).unwrap_err().chain();
    assert!(of(&lab.copy.0, "nonsense\n").contains("line 1 of the journal"));
    assert!(of("1.journal", "").contains("no journal that a lab has a copy of"));
    assert!(of("lab-1.sh", "").contains("no journal that a lab has a copy of"));
    Ok(())
}

pub fn what_is_put_back_already_is_not_put_back_by_a_copy() -> Result<(), Skip> {
    // By the watchdog, then by another runner that finds the journal, then by the copy with the journal there.
    for by in ["watchdog", "runner", "copy"] {
        let mut lab = CopyingLab::new();
        (0..3).for_each(|_| lab.note());
        assert_eq!(line_of(&mut lab.child), "set");
        match by {
            "watchdog" => {
                lab.child.kill().unwrap();
                lab.child.wait().unwrap();
                until("the settings are back", || journals(lab.folder.path()).is_empty());
            }
            "runner" => {
                lab.kill_all();
                until("the journal is nobody's", || restore_left(lab.folder.path()).unwrap() == 1);
            }
            _ => {
                lab.kill_all();
                lab.restore_copy();
            }
        }
        assert_eq!(lab.values(), ("old".into(), "on".into()), "{by}");
        fs::write(lab.folder.path().join("a"), "else\n").unwrap();
        lab.restore_copy();
        assert_eq!(lab.values(), ("else".into(), "on".into()), "{by}");
        forget_restored(&lab.folder.path().join(&lab.copy.0));
        assert_eq!(lab.rest(), [""; 0], "{by}");
    }
    // A lab that never asks: the folder does not grow for ever.
    let folder = tempfile::tempdir().unwrap();
    for n in 0..40 {
        fs::write(folder.path().join(format!("lab-1{n:02}-7.restored")), "").unwrap();
    }
    restore_left(folder.path()).unwrap();
    let left = |n: u32| folder.path().join(format!("lab-1{n:02}-7.restored")).exists();
    assert_eq!((left(7), left(8), left(39)), (false, true, true));
    Ok(())
}
