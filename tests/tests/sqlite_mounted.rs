//! Debian's Python with the extension for SQLite on a mount that changes files atomically, beside one without it; and
//! with a SQLite that was built to use atomic writes, which needs no extension.

use pocketstone_testing::{Need, Skip, library, program};
use pocketstone_tests::mounted::Place;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

const ATOMIC: &[&str] = &["-o", "atomic"];

/// Debian's Python: others may be built without extensions.
fn python() -> Result<PathBuf, Skip> {
    let python = PathBuf::from("/usr/bin/python3");
    let asks = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)";
    match Command::new(&python).args(["-c", asks]).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(python),
        _ => Err(Need::Programs.lacks("there is no /usr/bin/python3 whose sqlite3 loads extensions")),
    }
}

/// A script about the database `path`, by the extension as `vfs` or, as an empty string, without.
fn script(python: &Path, vfs: &str, path: &Path, text: &str) -> Command {
    const BEGIN: &str = "
import os, random, sqlite3, sys
library, vfs, path = sys.argv[1:4]
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension(library)
def connect(path, vfs=vfs):
    uri = f'file:{path}?vfs={vfs}' if vfs else f'file:{path}'
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=60)
";
    let library = library("libscmfs_sqlite.so");
    let mut command = Command::new(python);
    command.args(["-c", &format!("{BEGIN}{text}")]).arg(library).arg(vfs).arg(path);
    command
}

#[track_caller]
fn says(command: &mut Command) -> String {
    let output = command.output().expect("python3 starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    out.into_owned()
}

/// SQLite as its authors publish it, built with atomic writes: a folder with the library that Debian's Python loads.
/// Its source is the one that this workspace's own is built from.
fn sqlite_with_atomic_writes(place: &Place) -> Result<PathBuf, Skip> {
    let cc = program("cc", "gcc")?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let folders = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let sources = home.into_iter().flat_map(|home| folders(home.join("registry/src"))).flat_map(folders);
    let is_sqlite =
        |path: &PathBuf| path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"libsqlite3-sys-"));
    let source = sources.filter(is_sqlite).map(|path| path.join("sqlite3/sqlite3.c")).find(|path| path.exists());
    let Some(source) = source else {
        return Err(Need::Programs.lacks("the source of libsqlite3-sys is not below CARGO_HOME"));
    };
    let folder = place.folder("sqlite");
    let options =
        ["-O1", "-w", "-fPIC", "-shared", "-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE", "-DSQLITE_ENABLE_COLUMN_METADATA"];
    let library = folder.join("libsqlite3.so.0");
    let mut build = Command::new(cc);
    let built = build.args(options).arg("-o").arg(library).arg(source).args(["-lm", "-lpthread", "-ldl"]).output();
    let built = built.expect("cc starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Ok(folder)
}

/// Statements of every kind, the same in memory and on the mount; what else is in the directory meanwhile.
const WORK: &str = "
def work(db, seen):
    db.execute('CREATE TABLE t (id INTEGER PRIMARY KEY, value TEXT)')
    db.execute('CREATE INDEX i ON t (value)')
    for id in range(60):
        db.execute('INSERT INTO t VALUES (?, ?)', (id, f'value {id}' * 20))
    db.execute(\"UPDATE t SET value = 'changed' WHERE id % 7 = 0\")
    db.execute('BEGIN')
    db.execute('DELETE FROM t WHERE id < 30')
    seen()
    db.execute('ROLLBACK')
    db.execute('BEGIN')
    db.execute('DELETE FROM t WHERE id BETWEEN 40 AND 45')
    db.execute('SAVEPOINT s')
    db.execute('DELETE FROM t')
    db.execute('ROLLBACK TO s')
    db.execute('COMMIT')
    db.execute('BEGIN')
    for id in range(1000, 1700):
        db.execute('INSERT INTO t VALUES (?, ?)', (id, f'{id}' * 100))
    db.execute('COMMIT')
    for statement in ['DELETE FROM t WHERE id % 3 = 0', 'VACUUM', 'REINDEX', 'DELETE FROM t WHERE id > 1050', 'VACUUM']:
        db.execute(statement)
    return db.execute('SELECT * FROM t ORDER BY id').fetchall()
expected = work(sqlite3.connect(':memory:', isolation_level=None), lambda: None)
for locking in ['normal', 'exclusive']:
    for journal in ['delete', 'truncate', 'persist', 'wal', 'memory']:
        for page in [512, 4096, 65536] if locking == 'normal' and not os.environ.get('JOURNALS') else [4096]:
            name = f'{path}-{locking}-{journal}-{page}'
            db = connect(name)
            db.execute(f'PRAGMA page_size = {page}')
            db.execute(f'PRAGMA locking_mode = {locking}')
            assert db.execute(f'PRAGMA journal_mode = {journal}').fetchone()[0] == journal
            beside = []
            def size(path):
                return os.path.getsize(path) if os.path.exists(path) else 0
            assert work(db, lambda: beside.append(size(name + '-journal') > 0)) == expected, name
            # One that stays from the first transaction, of an empty database, says nothing.
            if (locking, journal) == ('normal', 'delete') or vfs:
                assert beside == [bool(os.environ.get('JOURNALS')) and journal not in ['wal', 'memory']], name
            assert db.execute('PRAGMA integrity_check').fetchone()[0] == 'ok', name
            # Both or none of two databases.
            db.execute('ATTACH ? AS other', (name + '.other',))
            db.execute('CREATE TABLE other.u (value)')
            for end in ['ROLLBACK', 'COMMIT']:
                db.execute('BEGIN')
                db.execute('INSERT INTO other.u SELECT value FROM t')
                db.execute(\"UPDATE t SET value = value || '!'\")
                db.execute(end)
            db.execute('UPDATE t SET value = substr(value, 1, length(value) - 1)')
            assert sorted(db.execute('SELECT value FROM other.u')) == sorted(db.execute('SELECT value FROM t')), name
            db.close()
            os.remove(name + '.other')
            # Without the extension it is a database like any other.
            db = connect(name, '')
            assert db.execute('PRAGMA integrity_check').fetchone()[0] == 'ok', name
            assert db.execute('SELECT * FROM t ORDER BY id').fetchall() == expected, name
            db.close()
            os.remove(name)
print('same')
";

#[test]
fn every_journal_mode_leaves_what_a_database_in_memory_has() -> Result<(), Skip> {
    let (place, python) = (Place::new()?, python()?);
    let mounted = place.volume(ATOMIC);
    assert_eq!(says(&mut script(&python, "scmfs", &mounted.path().join("a.db"), WORK)), "same\n");
    // What the same statements do where nothing is changed at once, with journal files.
    let mounted = mounted.again(&[]);
    let mut plain = script(&python, "scmfs", &mounted.path().join("a.db"), WORK);
    assert_eq!(says(plain.env("JOURNALS", "1")), "same\n");
    mounted.end();
    Ok(())
}

#[test]
fn sqlite_that_was_built_with_atomic_writes_needs_no_journal() -> Result<(), Skip> {
    let (place, python) = (Place::new()?, python()?);
    let library = sqlite_with_atomic_writes(&place)?;
    let mounted = place.volume(ATOMIC);
    let mut command = script(&python, "", &mounted.path().join("a.db"), WORK);
    assert_eq!(says(command.env("LD_LIBRARY_PATH", &library)), "same\n");
    let mounted = mounted.again(&[]);
    let mut command = script(&python, "", &mounted.path().join("a.db"), WORK);
    assert_eq!(says(command.env("LD_LIBRARY_PATH", &library).env("JOURNALS", "1")), "same\n");
    mounted.end();
    Ok(())
}

/// A transaction that needs a journal file, which no name is left for; and one of a writer that was killed in front of
/// a connection which keeps its journal open.
const JOURNALS: &str = r#"
name = os.path.join(os.path.dirname(path), 'n' * 250)
db = connect(name)
db.execute('CREATE TABLE t (v)')
db.execute('PRAGMA cache_size = 10')
db.execute('BEGIN')
failed = 0
for n in range(400):
    try:
        db.execute('INSERT INTO t VALUES (randomblob(3000))')
    except sqlite3.OperationalError as error:
        failed += 1
        break
print(failed, db.in_transaction, db.execute('SELECT count(*) FROM t').fetchone())
db.execute('INSERT INTO t VALUES (1)')
print(connect(name).execute('SELECT count(*) FROM t').fetchone())

for mode in ['persist', 'truncate']:
    name = f'{path}-{mode}'
    db = connect(name)
    db.execute(f'PRAGMA journal_mode = {mode}')
    db.execute('CREATE TABLE t (v)')
    db.execute("INSERT INTO t VALUES ('old'), ('older')")
    reading = db.cursor()
    reading.execute('SELECT v FROM t')
    reading.fetchone()
    db.execute("INSERT INTO t VALUES ('a')")
    child = os.fork()
    if child == 0:
        other = connect(name, '')
        other.execute('PRAGMA synchronous = OFF')
        other.execute('BEGIN IMMEDIATE')
        other.execute("UPDATE t SET v = 'new'")
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    for n in range(8):
        db.execute('INSERT INTO t VALUES (hex(zeroblob(2000)))')
    reading.close()
    db.close()
    db = connect(name)
    print(db.execute('SELECT count(*) FROM t').fetchone(), db.execute('PRAGMA integrity_check').fetchone())
"#;

#[test]
fn journals_that_cannot_be_made_or_are_left_cost_no_commit() -> Result<(), Skip> {
    let (place, python) = (Place::new()?, python()?);
    let mounted = place.volume(ATOMIC);
    let expected = "1 False (0,)\n(1,)\n(11,) ('ok',)\n(11,) ('ok',)\n";
    assert_eq!(says(&mut script(&python, "scmfs", &mounted.path().join("a.db"), JOURNALS)), expected);
    mounted.end();
    Ok(())
}

/// A journal mode that cannot be had while another connection reads; whether a third one can read then.
const THIRD: &str = "
def failed(statement):
    try:
        connection = connect(path)
        connection.execute('PRAGMA busy_timeout = 0')
        connections.append(connection)
        connection.execute(statement).fetchall()
    except sqlite3.OperationalError as error:
        return str(error)
connections = []
assert not failed('PRAGMA journal_mode = wal') and not failed('CREATE TABLE t (x)')
connections[0].execute('SELECT * FROM t').fetchall()
try:
    connections[0].execute('PRAGMA journal_mode = delete')
except sqlite3.OperationalError as error:
    print(error)
print(failed('SELECT * FROM t'))
";

/// SQLite's own VFS writes by the right that the process had when it opened the database.
#[test]
fn a_process_that_lost_its_right_after_opening_goes_on_with_a_journal() -> Result<(), Skip> {
    let (place, python) = (Place::new()?, python()?);
    let mounted = place.volume(&["-o", "atomic,allow_other"]);
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    std::fs::set_permissions(mounted.path(), all).expect("a directory for all");
    const LOST: &str = "
db = connect(path)
db.execute('CREATE TABLE t (value)')
db.execute('INSERT INTO t VALUES (1)')
# The database is root's.
os.setgid(65534)
os.setuid(65534)
db.execute('INSERT INTO t VALUES (2)')
db.execute('PRAGMA cache_size = 10')
db.execute('BEGIN')
for value in range(3, 2000):
    db.execute('INSERT INTO t VALUES (?)', (value,))
db.execute('COMMIT')
own = connect(path + '-own')
own.execute('CREATE TABLE t (value)')
os.chmod(path + '-own', 0o444)
own.execute('INSERT INTO t VALUES (1)')
os.chmod(path + '-own', 0o644)
own.execute('INSERT INTO t VALUES (2)')
for db, sum in [(db, 1999000), (own, 3)]:
    assert db.execute('PRAGMA integrity_check').fetchone()[0] == 'ok'
    print(db.execute('SELECT sum(value) FROM t').fetchone()[0] == sum)
";
    for vfs in ["scmfs", ""] {
        let path = mounted.path().join(format!("a{vfs}.db"));
        assert_eq!(says(&mut script(&python, vfs, &path, LOST)), "True\nTrue\n", "{vfs}");
    }
    Ok(())
}

#[test]
fn a_wal_that_cannot_be_ended_keeps_nobody_out() -> Result<(), Skip> {
    let (place, python) = (Place::new()?, python()?);
    let mounted = place.volume(ATOMIC);
    for vfs in ["", "scmfs"] {
        let path = mounted.path().join(format!("{vfs}.db"));
        assert_eq!(says(&mut script(&python, vfs, &path, THIRD)), "database is locked\nNone\n", "{vfs}");
    }
    mounted.end();
    Ok(())
}

/// One process writes a WAL, and another one reads it that may not write to its index.
const READER: &str = "
here, there = os.pipe()
again, back = os.pipe()
if os.fork() == 0:
    db = connect(path)
    db.execute('PRAGMA journal_mode = wal')
    db.execute('CREATE TABLE t (x)')
    db.execute('INSERT INTO t VALUES (7)')
    os.write(there, b'!')
    os.read(again, 1)
    os._exit(0)
os.read(here, 1)
db = sqlite3.connect(f'file:{path}?readonly_shm=1' + (f'&vfs={vfs}' if vfs else ''), uri=True)
try:
    print(db.execute('SELECT * FROM t').fetchall())
finally:
    os.write(back, b'!')
    os.wait()
";

#[test]
fn a_wal_whose_index_may_only_be_read_can_be_read() -> Result<(), Skip> {
    let (place, python) = (Place::new()?, python()?);
    let mounted = place.volume(ATOMIC);
    for vfs in ["", "scmfs"] {
        let path = mounted.path().join(format!("{vfs}.db"));
        assert_eq!(says(&mut script(&python, vfs, &path, READER)), "[(7,)]\n", "{vfs}");
    }
    mounted.end();
    Ok(())
}

/// Moves an amount from one row to another, far away, again and again; one time in eight all rows change.
const TRANSFER: &str = "
worker, seed = sys.argv[4:6]
random.seed(seed)
db = connect(path)
number = db.execute('SELECT coalesce(max(n), 0) FROM done WHERE worker = ?', (worker,)).fetchone()[0]
print('ready', number, flush=True)
while True:
    number += 1
    db.execute('BEGIN IMMEDIATE')
    some = random.sample(range(400), 2)
    db.execute('UPDATE account SET value = value - 1 WHERE id = ?', (some[0],))
    db.execute('UPDATE account SET value = value + 1 WHERE id = ?', (some[1],))
    if number % 8 == 0:
        db.execute('UPDATE account SET filler = ?', ('x' * random.randrange(1, 600),))
    db.execute('INSERT OR REPLACE INTO done VALUES (?, ?)', (worker, number))
    if number % 11 == 0:
        db.execute('ROLLBACK')
        number -= 1
        db.execute('BEGIN IMMEDIATE')
        db.execute('UPDATE done SET n = ? WHERE worker = ?', (number := number + 1, worker))
    db.execute('COMMIT')
    print(number, flush=True)
";

const PREPARE: &str = "
db = connect(path)
db.execute('CREATE TABLE account (id INTEGER PRIMARY KEY, value INTEGER, filler TEXT)')
db.execute('CREATE TABLE done (worker TEXT PRIMARY KEY, n INTEGER)')
db.execute('BEGIN')
db.executemany('INSERT INTO account VALUES (?, 100, ?)', [(id, 'y' * 500) for id in range(400)])
for worker in ['a', 'b', 'c']:
    db.execute('INSERT INTO done VALUES (?, 0)', (worker,))
db.execute('COMMIT')
";

const LOOK: &str = "
db = connect(path)
print(db.execute('PRAGMA integrity_check').fetchone()[0])
print(*db.execute('SELECT sum(value), count(*), count(DISTINCT filler) FROM account').fetchone())
print(*[row[0] for row in db.execute('SELECT n FROM done ORDER BY worker')])
";

struct Worker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    acknowledged: u64,
}

impl Worker {
    fn start(python: &Path, vfs: &str, path: &Path, name: &str, seed: u64) -> Worker {
        let mut command = script(python, vfs, path, TRANSFER);
        command.args([name, &seed.to_string()]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("python3 starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let ready = lines.next().expect("a line").expect("a line");
        let acknowledged = ready.strip_prefix("ready ").and_then(|n| n.parse().ok()).expect("its last number");
        Worker { child, lines, acknowledged }
    }

    fn work(&mut self, transactions: usize) {
        for _ in 0..transactions {
            let line = self.lines.next().expect("a line").expect("a line");
            self.acknowledged = line.parse().expect("a number");
        }
    }

    /// Kills it; what it said last.
    fn kill(mut self) -> u64 {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let rest = self.lines.map_while(Result::ok).filter_map(|line| line.parse().ok());
        rest.last().unwrap_or(self.acknowledged)
    }
}

#[test]
fn what_killed_programs_committed_is_there_and_whole() -> Result<(), Skip> {
    let (place, python) = (Place::new()?, python()?);
    program("sqlite3", "sqlite3")?;
    let mut mounted = place.volume(ATOMIC);
    let path = mounted.path().join("accounts.db");
    says(&mut script(&python, "scmfs", &path, PREPARE));
    for round in 0..8_u64 {
        // Two with the extension, and one that has its journal as ever.
        let workers = [("a", "scmfs"), ("b", "scmfs"), ("c", "")];
        let mut workers =
            workers.map(|(name, vfs)| Worker::start(&python, vfs, &path, name, round * 31 + name.as_bytes()[0] as u64));
        workers[(round % 3) as usize].work(5 + round as usize);
        let server_too = round % 4 == 3;
        if server_too {
            mounted.kill();
        }
        let acknowledged = workers.map(Worker::kill);
        if server_too {
            mounted = mounted.kill_and_mount_again(ATOMIC);
        }
        let said = says(&mut script(&python, if round % 2 == 0 { "" } else { "scmfs" }, &path, LOOK));
        let words: Vec<&str> = said.split_whitespace().collect();
        assert_eq!(words[..4], ["ok", "40000", "400", "1"], "round {round}: {said}");
        for (known, there) in acknowledged.iter().zip(&words[4..]) {
            let there: u64 = there.parse().expect("a number");
            // The last one may have been committed and not yet told.
            assert!(there == *known || there == known + 1, "round {round}: {acknowledged:?} were told: {said}");
        }
    }
    mounted.end();
    Ok(())
}
