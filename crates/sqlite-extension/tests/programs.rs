//! The loadable extension, in programs that know nothing of it: Debian's python3 and sqlite3.

use pocketstone_media::{MapOptions, Mapped};
use pocketstone_scmfs::{CreateOptions, OpenOptions, Operations, ROOT, Volume, check};
use pocketstone_testing::{Need, Skip, library, or_skip, program};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn extension() -> PathBuf {
    library("libscmfs_sqlite.so")
}

fn volume(folder: &Path) -> PathBuf {
    let path = folder.join("volume.scmfs");
    let region = Mapped::create(&path, 32 << 20, &MapOptions::default()).unwrap();
    Volume::create(Box::new(region), &CreateOptions::default()).unwrap();
    path
}

/// The names in a volume's root, after it was found sound.
fn names(path: &Path) -> Vec<String> {
    let open = || Box::new(Mapped::open(path, &MapOptions::default()).unwrap());
    // Recovers it, if nobody closed it.
    Volume::open(open(), &OpenOptions::default()).unwrap().close().unwrap();
    let report = check(open()).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let volume = Volume::open(open(), &OpenOptions::default()).unwrap();
    let mut names = Vec::new();
    let mut take = |entry: &pocketstone_scmfs::Entry| {
        names.push(String::from_utf8_lossy(&entry.name).into_owned());
        true
    };
    volume.read_directory(ROOT, 0, &mut take).unwrap();
    names
}

/// Debian's Python: others may be built without extensions.
fn python() -> Result<PathBuf, Skip> {
    let python = PathBuf::from("/usr/bin/python3");
    let asks = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)";
    let able = Command::new(&python).args(["-c", asks]).stderr(Stdio::null()).status();
    match able {
        Ok(status) if status.success() => Ok(python),
        _ => Err(Need::Programs.lacks("there is no /usr/bin/python3 whose sqlite3 loads extensions")),
    }
}

const PYTHON: &str = "
import sqlite3, sys
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension(sys.argv[1])
loader.close()
db = sqlite3.connect(f'file:/notes.db?vfs=scmfs&volume={sys.argv[2]}', uri=True)
";

#[test]
fn python_and_sqlite3_share_a_database_in_a_volume() {
    let python = or_skip!(python());
    let shell = or_skip!(program("sqlite3", "sqlite3"));
    let folder = tempfile::tempdir().unwrap();
    let volume = volume(folder.path());
    let script = format!(
        "{PYTHON}
db.execute('CREATE TABLE note (text)')
with db:
    db.executemany('INSERT INTO note VALUES (?)', [(f'note {{n}}',) for n in range(100)])
print(db.execute('PRAGMA integrity_check').fetchone()[0], db.execute('SELECT count(*) FROM note').fetchone()[0])
"
    );
    let output = Command::new(python).args(["-c", &script]).arg(extension()).arg(&volume).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok 100\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(names(&volume), ["notes.db"]);
    let commands = format!(
        ".load {}\n.open file:/notes.db?vfs=scmfs&volume={}\n\
         DELETE FROM note WHERE rowid > 10;\nSELECT count(*) FROM note;\n",
        extension().display(),
        volume.display()
    );
    let script = folder.path().join("commands.sql");
    std::fs::write(&script, commands).unwrap();
    let output = Command::new(shell).stdin(std::fs::File::open(script).unwrap()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "10\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(names(&volume), ["notes.db"]);
}

#[test]
fn what_a_killed_program_committed_is_there() {
    let python = or_skip!(python());
    let folder = tempfile::tempdir().unwrap();
    let volume = volume(folder.path());
    let script = format!(
        "{PYTHON}
db.execute('CREATE TABLE IF NOT EXISTS note (number INTEGER PRIMARY KEY, text)')
found = db.execute('SELECT count(*), max(number) FROM note').fetchone()
print('found', found[0], found[1] or 0, db.execute('PRAGMA integrity_check').fetchone()[0], flush=True)
number = found[1] or 0
while True:
    number += 1
    with db:
        db.execute('INSERT INTO note VALUES (?, ?)', (number, 'x' * (number * 37 % 9000)))
    print(number, flush=True)
"
    );
    let mut acknowledged = 0;
    for round in 0..10 {
        let mut child = Command::new(&python)
            .args(["-c", &script])
            .arg(extension())
            .arg(&volume)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let found = lines.next().unwrap().unwrap();
        let words: Vec<&str> = found.split(' ').collect();
        let (count, last) = (words[1].parse::<u64>().unwrap(), words[2].parse::<u64>().unwrap());
        assert_eq!((words[3], count), ("ok", last), "{found}");
        // The last one may have been committed and not yet told.
        assert!(last == acknowledged || last == acknowledged + 1, "{acknowledged} were acknowledged: {found}");
        for _ in 0..20 + round * 7 {
            acknowledged = lines.next().unwrap().unwrap().parse().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it told before it died.
        acknowledged = lines.map_while(Result::ok).filter_map(|line| line.parse().ok()).last().unwrap_or(acknowledged);
    }
    assert_eq!(names(&volume), ["notes.db"]);
}

#[test]
fn a_volume_in_use_and_one_that_is_not_there_are_refused() {
    let python = or_skip!(python());
    let folder = tempfile::tempdir().unwrap();
    let volume = volume(folder.path());
    let held = Mapped::open(&volume, &MapOptions::default()).unwrap();
    for (name, path) in [("in use", volume.clone()), ("missing", folder.path().join("none.scmfs"))] {
        let output = Command::new(&python).args(["-c", PYTHON]).arg(extension()).arg(path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("unable to open database file"), "{name}: {said}");
    }
    drop(held);
}
