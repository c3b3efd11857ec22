//! The server is killed under load, again and again: what was acknowledged is there afterwards.

use pocketstone_random::Random;
use pocketstone_testing::or_skip;
use pocketstone_testing::wait::{LONG, poll};
use pocketstone_tests::mounted::{MountedVolume, Place};
use pocketstone_tests::suites::tell;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Some bytes, at most so many.
fn bytes(random: &mut Random, most: u64) -> Vec<u8> {
    let mut bytes = vec![0; 1 + random.below(most) as usize];
    random.fill(&mut bytes);
    bytes
}

/// A change to a writer's folder. It is acknowledged when it was synced.
#[derive(Debug, Clone)]
enum Change {
    /// A new file.
    Create(String, Vec<u8>),
    /// Bytes at the end.
    Append(String, Vec<u8>),
    /// Other bytes somewhere.
    Overwrite(String, u64, Vec<u8>),
    /// A new size.
    Truncate(String, u64),
    /// A new name, perhaps that of another file.
    Rename(String, String),
    /// No more.
    Remove(String),
}

type Files = BTreeMap<String, Vec<u8>>;

impl Change {
    /// Something to do in a folder with these files.
    fn of(random: &mut Random, files: &Files) -> Change {
        let new = format!("file-{}", random.below(60));
        let old = files.keys().nth(random.below(files.len().max(1) as u64) as usize).cloned();
        let (Some(old), true) = (old, files.len() > 4) else {
            let name = (0..).map(|n| format!("file-{n}")).find(|name| !files.contains_key(name));
            return Change::Create(name.expect("an unused name"), bytes(random, 100_000));
        };
        let size = files[&old].len() as u64;
        match random.below(12) {
            0..3 if !files.contains_key(&new) => Change::Create(new, bytes(random, 300_000)),
            3..6 if size < 4 << 20 => Change::Append(old, bytes(random, 200_000)),
            6..8 => Change::Overwrite(old, random.below(size.max(1)), bytes(random, 100_000)),
            8 => Change::Truncate(old, random.below(size + 5000)),
            9 | 10 if old != new => Change::Rename(old, new),
            _ => Change::Remove(old),
        }
    }

    /// Does it to a folder, and syncs it.
    fn perform(&self, folder: &Path) -> io::Result<()> {
        let at = |name: &str| folder.join(name);
        let write = |name: &str| OpenOptions::new().write(true).open(at(name));
        match self {
            Change::Create(name, bytes) => {
                let mut file = File::create_new(at(name))?;
                file.write_all(bytes)?;
                file.sync_all()?;
            }
            Change::Append(name, bytes) => {
                let mut file = OpenOptions::new().append(true).open(at(name))?;
                file.write_all(bytes)?;
                file.sync_data()?;
            }
            Change::Overwrite(name, offset, bytes) => {
                let file = write(name)?;
                file.write_all_at(bytes, *offset)?;
                file.sync_all()?;
            }
            Change::Truncate(name, size) => {
                let file = write(name)?;
                file.set_len(*size)?;
                file.sync_all()?;
            }
            Change::Rename(from, to) => fs::rename(at(from), at(to))?,
            Change::Remove(name) => fs::remove_file(at(name))?,
        }
        File::open(folder)?.sync_all()
    }

    /// Does it to what is known of a folder.
    fn apply(&self, files: &mut Files) {
        match self {
            Change::Create(name, bytes) => _ = files.insert(name.clone(), bytes.clone()),
            Change::Append(name, bytes) => files.entry(name.clone()).or_default().extend(bytes),
            Change::Overwrite(name, offset, bytes) => {
                let file = files.entry(name.clone()).or_default();
                let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                file.resize(file.len().max(end), 0);
                file[start..end].copy_from_slice(bytes);
            }
            Change::Truncate(name, size) => files.entry(name.clone()).or_default().resize(*size as usize, 0),
            Change::Rename(from, to) => {
                if let Some(bytes) = files.remove(from) {
                    files.insert(to.clone(), bytes);
                }
            }
            Change::Remove(name) => _ = files.remove(name),
        }
    }

    /// Whether a folder may look like this if it looked like `before` and this change was under way.
    fn may_leave(&self, before: &Files, found: &Files) -> bool {
        let mut after = before.clone();
        self.apply(&mut after);
        if found == before || found == &after {
            return true;
        }
        // A name changes at once; bytes do not. Of a write each byte is the old one or the new one.
        let (Change::Create(name, _) | Change::Append(name, _) | Change::Overwrite(name, ..)) = self else {
            return false;
        };
        let (Some(bytes), Some(new)) = (found.get(name), after.get(name)) else { return false };
        let nothing = Vec::new();
        let old = before.get(name).unwrap_or(&nothing);
        let others = |files: &Files| -> Files { files.clone().into_iter().filter(|(key, _)| key != name).collect() };
        let possible = |(i, byte): (usize, &u8)| Some(byte) == new.get(i) || Some(byte) == old.get(i);
        others(found) == others(before)
            && (old.len()..=new.len()).contains(&bytes.len())
            && bytes.iter().enumerate().all(possible)
    }
}

/// One who changes files of a folder. What it knows is kept here, outside the volume.
struct Writer {
    folder: PathBuf,
    random: Random,
    acknowledged: Files,
    changes: u64,
    under_way: Option<Change>,
}

impl Writer {
    /// Changes files until that fails, as it does when the server dies.
    /// `acknowledged` is how many were.
    fn write(&mut self, acknowledged: &AtomicU64) {
        loop {
            let change = Change::of(&mut self.random, &self.acknowledged);
            let outcome = change.perform(&self.folder);
            match outcome.map_err(|e| e.raw_os_error()) {
                Ok(()) => change.apply(&mut self.acknowledged),
                // ENOTCONN, ECONNABORTED, and EIO for what the kernel was about to write.
                Err(Some(107 | 103 | 5)) => return self.under_way = Some(change),
                Err(other) => panic!("{}: {other:?}: {change:?}", self.folder.display()),
            }
            self.changes += 1;
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Looks at what there is after a recovery.
    fn compare(&mut self) {
        let mut found = Files::new();
        for entry in fs::read_dir(&self.folder).expect("the folder is there") {
            let entry = entry.expect("an entry");
            let bytes = fs::read(entry.path()).expect("a file that can be read");
            found.insert(entry.file_name().into_string().expect("a name of ours"), bytes);
        }
        let change = self.under_way.take().expect("a change was under way");
        if !change.may_leave(&self.acknowledged, &found) {
            let sizes = |files: &Files| files.iter().map(|(k, v)| (k.clone(), v.len())).collect::<Vec<_>>();
            panic!(
                "{}: after {} changes this was acknowledged: {:?}, this was found: {:?}, this was under way: {:.200?}",
                self.folder.display(),
                self.changes,
                sizes(&self.acknowledged),
                sizes(&found),
                format!("{change:?}")
            );
        }
        self.acknowledged = found;
    }
}

fn kills(count: u64, options: &[&str]) {
    const WRITERS: u64 = 3;
    let place = or_skip!(Place::new());
    let mut volume: MountedVolume = place.volume(options);
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|n| {
            let folder = volume.path().join(format!("writer-{n}"));
            fs::create_dir(&folder).expect("a new folder");
            let random = Random::new(0x5eed_0000 + 7 * n + 1);
            Writer { folder, random, acknowledged: Files::new(), changes: 0, under_way: None }
        })
        .collect();
    let mut random = Random::new(0x7173_0000 + count);
    for _ in 0..count {
        let acknowledged = [const { AtomicU64::new(0) }; WRITERS as usize];
        // All writers have met the dead mount before it is mounted again.
        std::thread::scope(|scope| {
            for (writer, acknowledged) in writers.iter_mut().zip(&acknowledged) {
                scope.spawn(|| writer.write(acknowledged));
            }
            std::thread::sleep(Duration::from_millis(100 + random.below(400)));
            // A busy disk may be slow: none is cut off before it got to do anything.
            let enough = || acknowledged.iter().all(|n| n.load(Ordering::Relaxed) > 5).then_some(());
            let _ = poll(LONG, enough);
            volume.kill();
        });
        volume = volume.kill_and_mount_again(options);
        writers.iter_mut().for_each(Writer::compare);
    }
    volume.end();
    let changes: u64 = writers.iter().map(|writer| writer.changes).sum();
    // One that never got to change anything would prove nothing.
    assert!(writers.iter().all(|writer| writer.changes > 5 * count), "only {changes} changes");
    tell(&format!("the server was killed {count} times among {changes} acknowledged changes"));
}

#[test]
fn a_server_is_killed_5_times() {
    kills(5, &[]);
}

#[test]
#[ignore = "takes minutes: make torture"]
fn a_server_is_killed_50_times() {
    kills(50, &[]);
    kills(50, &["-o", "writeback"]);
}

#[test]
fn what_a_kill_may_leave_is_known() {
    let files = |list: &[(&str, &[u8])]| -> Files { list.iter().map(|(k, v)| ((*k).into(), v.to_vec())).collect() };
    let before = files(&[("a", b"one"), ("b", b"two")]);
    let append = Change::Append("a".into(), b"xy".into());
    assert!(append.may_leave(&before, &before));
    assert!(append.may_leave(&before, &files(&[("a", b"onex"), ("b", b"two")])));
    assert!(!append.may_leave(&before, &files(&[("a", b"onez"), ("b", b"two")])));
    assert!(!append.may_leave(&before, &files(&[("a", b"on"), ("b", b"two")])));
    assert!(!append.may_leave(&before, &files(&[("a", b"onex"), ("b", b"twx")])));
    let rename = Change::Rename("a".into(), "b".into());
    assert!(rename.may_leave(&before, &files(&[("b", b"one")])));
    assert!(!rename.may_leave(&before, &files(&[("b", b"two")])));
    assert!(!rename.may_leave(&before, &files(&[("a", b"one"), ("b", b"one")])));
}
