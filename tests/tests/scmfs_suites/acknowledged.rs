//! Programs of others under load on a mount whose server is killed: what a program had acknowledged is there
//! afterwards, the volume is sound, and so is what the program itself checks.

use pocketstone_random::Random;
use pocketstone_testing::or_skip;
use pocketstone_tests::command::{Process, poll, run};
use pocketstone_tests::mounted::{Place, kill, open_to_all};
use pocketstone_tests::suites::{command, tell};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A program, how it is loaded, and how what it left is checked.
pub trait Program {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Makes what it needs in a folder of the mount, once.
    fn prepare(&self, folder: &Path);

    /// What loads it. It prints one line for each number that is acknowledged, counting on from `first`.
    fn load(&self, folder: &Path, first: u64) -> Load;

    /// Checks what is there after the kill, where numbers up to `last` were acknowledged, and says how many are
    /// there: what was under way, or told to nobody yet, may be.
    fn check(&self, folder: &Path, last: u64) -> u64;
}

/// A client that acknowledges, what is written to it, and servers that it needs.
pub struct Load {
    /// Its lines are counted.
    pub client: Command,
    /// What is written to it for each number.
    pub words: Option<Box<dyn Fn(u64) -> String + Send>>,
    /// Which of its lines count.
    pub counts: fn(&str) -> bool,
    /// What has to end with it.
    pub servers: Vec<Child>,
}

/// A child in a group of its own, which ends with what it started.
struct Group(Child);

impl Group {
    fn end(&mut self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// The seed of a run: `$SEED`, or the time, and it is told.
fn seed() -> u64 {
    let given = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs()))
}

/// Loads a program, kills the server at a moment that the seed says, and checks; so many times.
pub fn trial(program: &dyn Program, kills: u64, least: Duration, most: Duration, options: &[&str]) {
    let place = or_skip!(Place::new());
    // Users of servers get through to the mount.
    open_to_all(&place.path(""));
    let mut volume = place.volume(options);
    let folder = volume.path().join("data");
    std::fs::create_dir(&folder).expect("a new folder");
    open_to_all(&folder);
    program.prepare(&folder);
    let seed = seed();
    let mut random = Random::new(seed);
    let mut there = 0;
    for round in 0..kills {
        let wait = least + Duration::from_millis(random.below(1 + (most - least).as_millis() as u64));
        let what = format!("{} (SEED={seed}, kill {round} after {wait:?})", program.name());
        let last = loaded(program, &folder, there, wait, || volume.kill());
        assert!(last > there, "{what}: nothing was acknowledged");
        volume = volume.kill_and_mount_again(options);
        let found = program.check(&folder, last);
        assert!(found >= last, "{what}: {last} were acknowledged, {found} are there");
        there = found;
    }
    volume.end();
    tell(&format!("{}: the server was killed {kills} times among {there} acknowledged changes", program.name()));
}

/// Loads a program for a while, kills, ends all that is left of the load, and says what was acknowledged last.
fn loaded(program: &dyn Program, folder: &Path, there: u64, wait: Duration, kill_it: impl FnOnce()) -> u64 {
    let Load { mut client, words, counts, mut servers } = program.load(folder, there + 1);
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut client = Group(client.spawn().expect("the client starts"));
    let acknowledged = Arc::new(AtomicU64::new(there));
    std::thread::scope(|scope| {
        let (mut stdin, stdout) = (client.0.stdin.take().expect("a pipe"), client.0.stdout.take().expect("a pipe"));
        if let Some(words) = words {
            // It ends when nobody reads any more.
            scope.spawn(move || (there + 1..).try_for_each(|n| stdin.write_all(words(n).as_bytes())));
        }
        let count = Arc::clone(&acknowledged);
        scope.spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.filter(|line| counts(line)).for_each(|_| _ = count.fetch_add(1, Ordering::Relaxed));
        });
        // The clock starts when there is something to lose.
        let begun = || (acknowledged.load(Ordering::Relaxed) > there).then_some(());
        poll(Duration::from_secs(60), begun);
        std::thread::sleep(wait);
        kill_it();
        for server in &servers {
            if let Some(process) = Process::of(server.id()) {
                kill(&process, rustix::process::Signal::KILL);
            }
        }
        client.end();
    });
    for server in &mut servers {
        let _ = server.wait();
    }
    acknowledged.load(Ordering::Relaxed)
}

/// SQLite, one row a transaction, with the journal that is given.
pub struct Sqlite {
    /// The shell.
    pub shell: PathBuf,
    /// `delete` or `wal`.
    pub journal: &'static str,
}

impl Sqlite {
    fn ask(&self, folder: &Path, words: &str) -> String {
        run(command(&self.shell).args(["-batch", "-bail"]).arg(folder.join("database")).arg(words)).ends_with(0).out
    }
}

impl Program for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite3"
    }

    fn prepare(&self, folder: &Path) {
        let journal = self.journal;
        self.ask(folder, &format!("PRAGMA journal_mode={journal}; CREATE TABLE t(n INTEGER PRIMARY KEY, x BLOB)"));
    }

    fn load(&self, folder: &Path, _: u64) -> Load {
        let mut client = Command::new(&self.shell);
        client.args(["-batch", "-bail"]).arg(folder.join("database"));
        let words = |n| format!("INSERT INTO t VALUES({n}, randomblob({})); SELECT 'done {n}';\n", 100 + n % 3000);
        let counts = |line: &str| line.starts_with("done ");
        Load { client, words: Some(Box::new(words)), counts, servers: Vec::new() }
    }

    fn check(&self, folder: &Path, last: u64) -> u64 {
        assert_eq!(self.ask(folder, "PRAGMA integrity_check"), "ok\n");
        let found = self.ask(folder, &format!("SELECT sum(n <= {last}), max(n) FROM t"));
        let numbers: Vec<u64> = found.trim().split('|').filter_map(|word| word.parse().ok()).collect();
        assert_eq!(numbers[0], last, "all that was acknowledged");
        numbers[1]
    }
}

/// Debian's Python, which finds Debian's modules.
pub const PYTHON: &str = "/usr/bin/python3";

/// LMDB, one key a transaction, by its binding for Python.
pub struct Lmdb;

const LMDB_LOAD: &str = "import lmdb, sys\n\
    first = int(sys.argv[2])\n\
    env = lmdb.open(sys.argv[1], map_size=1 << 29)\n\
    while True:\n\
    \x20   with env.begin(write=True) as change:\n\
    \x20       change.put(b'%012d' % first, b'%d' % first * 50)\n\
    \x20   print(first, flush=True)\n\
    \x20   first += 1\n";
const LMDB_CHECK: &str = "import lmdb, sys\n\
    env = lmdb.open(sys.argv[1], map_size=1 << 29)\n\
    with env.begin() as look:\n\
    \x20   n = 0\n\
    \x20   for key, value in look.cursor():\n\
    \x20       n += 1\n\
    \x20       assert key == b'%012d' % n and value == b'%d' % n * 50, (n, key)\n\
    \x20   assert look.stat()['entries'] == n\n\
    print(n)\n";

impl Program for Lmdb {
    fn name(&self) -> &'static str {
        "lmdb"
    }

    fn prepare(&self, _: &Path) {}

    fn load(&self, folder: &Path, first: u64) -> Load {
        let mut client = Command::new(PYTHON);
        client.args(["-c", LMDB_LOAD]).arg(folder.join("lmdb")).arg(first.to_string());
        Load { client, words: None, counts: |_| true, servers: Vec::new() }
    }

    fn check(&self, folder: &Path, _: u64) -> u64 {
        let ran = run(command(PYTHON).args(["-c", LMDB_CHECK]).arg(folder.join("lmdb"))).ends_with(0);
        ran.out.trim().parse().expect("a number")
    }
}

/// RocksDB, one key a process, by its tool.
pub struct RocksDb {
    /// `ldb`.
    pub tool: PathBuf,
}

impl Program for RocksDb {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn prepare(&self, _: &Path) {}

    fn load(&self, folder: &Path, first: u64) -> Load {
        let script = "n=$2; while \"$0\" --db=\"$1\" --create_if_missing put $(printf %012d $n) value-$n >/dev/null; \
                      do echo $n; n=$((n + 1)); done";
        let mut client = Command::new("sh");
        client.args(["-c", script]).arg(&self.tool).arg(folder.join("rocksdb")).arg(first.to_string());
        Load { client, words: None, counts: |_| true, servers: Vec::new() }
    }

    fn check(&self, folder: &Path, _: u64) -> u64 {
        let database = format!("--db={}", folder.join("rocksdb").display());
        run(command(&self.tool).args([&database, "checkconsistency"])).ends_with(0).says(&["OK"]);
        let found = run(command(&self.tool).args([&database, "scan"])).ends_with(0).out;
        let lines: Vec<&str> = found.lines().filter(|line| line.contains(" : ")).collect();
        for (n, line) in (1..).zip(&lines) {
            assert_eq!(*line, format!("{n:012} : value-{n}"));
        }
        lines.len() as u64
    }
}

/// Redis, which syncs its log for every command.
pub struct Redis {
    /// `redis-server`.
    pub server: PathBuf,
    /// Where its socket is, outside the mount.
    pub socket: PathBuf,
}

impl Redis {
    fn start(&self, folder: &Path) -> Child {
        let _ = std::fs::remove_file(&self.socket);
        let mut words = command(&self.server);
        words.args(["--port", "0", "--appendonly", "yes", "--appendfsync", "always", "--save", ""]);
        words.arg("--unixsocket").arg(&self.socket).arg("--dir").arg(folder);
        let child = words.stdout(Stdio::null()).spawn().expect("redis-server starts");
        let up = || run(self.client().arg("ping")).out.contains("PONG").then_some(());
        assert!(poll(Duration::from_secs(30), up).is_some(), "redis-server answers");
        child
    }

    fn client(&self) -> Command {
        let mut words = command("redis-cli");
        words.arg("-s").arg(&self.socket);
        words
    }
}

impl Program for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn prepare(&self, _: &Path) {}

    fn load(&self, folder: &Path, _: u64) -> Load {
        let servers = vec![self.start(folder)];
        let words = |n| format!("SET key-{n} value-{n}\n");
        Load { client: self.client(), words: Some(Box::new(words)), counts: |line| line == "OK", servers }
    }

    fn check(&self, folder: &Path, last: u64) -> u64 {
        let mut server = self.start(folder);
        let found = run(self.client().arg("dbsize")).ends_with(0).out.trim().parse().expect("a number");
        let script = "local n = 0 for i = 1, ARGV[1] do if redis.call('get', 'key-' .. i) == 'value-' .. i then \
                      n = n + 1 end end return n";
        let right = run(self.client().args(["eval", script, "0", &last.to_string()])).ends_with(0).out;
        run(self.client().arg("shutdown"));
        server.wait().expect("it is ours");
        assert_eq!(right.trim(), last.to_string(), "all that was acknowledged");
        found
    }
}

/// PostgreSQL, one row a transaction, run by its own user, with pgbench beside it.
pub struct Postgres {
    /// Where its programs are.
    pub programs: PathBuf,
    /// Where its socket is, outside the mount.
    pub socket: PathBuf,
}

impl Postgres {
    fn program(&self, name: &str) -> Command {
        let mut words = command("setpriv");
        words.args(["--reuid", "postgres", "--regid", "postgres", "--init-groups", "--"]).arg(self.programs.join(name));
        words.env("PGHOST", &self.socket).env("PGUSER", "postgres").env("LC_ALL", "C").current_dir("/");
        words
    }

    fn ask(&self, words: &str) -> String {
        run(self.program("psql").args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", words])).ends_with(0).out
    }

    fn start(&self, folder: &Path) -> Child {
        let mut words = self.program("postgres");
        words.arg("-D").arg(folder.join("postgres")).arg("-k").arg(&self.socket).args(["-c", "listen_addresses="]);
        let child = words.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("postgres starts");
        let up = || (run(self.program("pg_isready").arg("-q")).status == Some(0)).then_some(());
        assert!(poll(Duration::from_secs(60), up).is_some(), "postgres answers");
        child
    }

    fn stop(&self, mut server: Child) {
        if let Some(pid) = rustix::process::Pid::from_raw(server.id() as i32) {
            // What they call a fast shutdown.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
        server.wait().expect("it is ours");
    }
}

impl Program for Postgres {
    fn name(&self) -> &'static str {
        "postgresql"
    }

    fn prepare(&self, folder: &Path) {
        run(self.program("initdb").args(["-A", "trust", "-N"]).arg("-D").arg(folder.join("postgres"))).ends_with(0);
        let server = self.start(folder);
        self.ask("CREATE TABLE t(n bigint PRIMARY KEY, x text); CREATE EXTENSION amcheck");
        run(self.program("pgbench").args(["-i", "-q", "-s", "1", "postgres"])).ends_with(0);
        self.stop(server);
    }

    fn load(&self, folder: &Path, _: u64) -> Load {
        let server = self.start(folder);
        let mut bench = self.program("pgbench");
        let bench = bench.args(["-n", "-c", "2", "-T", "600", "postgres"]).stdout(Stdio::null()).stderr(Stdio::null());
        let servers = vec![bench.spawn().expect("pgbench starts"), server];
        let mut client = self.program("psql");
        client.args(["-X", "-v", "ON_ERROR_STOP=1"]);
        let words = |n| format!("INSERT INTO t VALUES({n}, repeat('x', {}));\n", n % 900);
        Load { client, words: Some(Box::new(words)), counts: |line| line == "INSERT 0 1", servers }
    }

    fn check(&self, folder: &Path, last: u64) -> u64 {
        // What its processes still hold after the postmaster was killed must be gone before another one starts.
        let alone =
            || (run(command("pgrep").args(["-u", "postgres", "-f", "^postgres:"])).status != Some(0)).then_some(());
        poll(Duration::from_secs(20), alone);
        let server = self.start(folder);
        let found = self.ask(&format!("SELECT count(*) FILTER (WHERE n <= {last}), max(n) FROM t"));
        run(self.program("pg_amcheck").args(["--heapallindexed", "-d", "postgres"])).ends_with(0);
        let sums = "SELECT count(DISTINCT s) FROM (SELECT sum(abalance) s FROM pgbench_accounts UNION ALL \
                    SELECT sum(tbalance) FROM pgbench_tellers UNION ALL SELECT sum(bbalance) FROM pgbench_branches \
                    UNION ALL SELECT coalesce(sum(delta), 0) FROM pgbench_history) sums";
        assert_eq!(self.ask(sums).trim(), "1", "the sums of all balances are equal");
        self.stop(server);
        let numbers: Vec<u64> = found.trim().split('|').filter_map(|word| word.parse().ok()).collect();
        assert_eq!(numbers[0], last, "all that was acknowledged");
        numbers[1]
    }
}

/// One of Filebench's personalities, each change of whose threads names itself in what it writes.
pub struct Personality(pub &'static str);

impl Personality {
    fn deed(&self, deed: &str, folder: &Path) -> Command {
        let mut words = command(PYTHON);
        words.args(["-c", include_str!("personality.py"), deed, self.0]).arg(folder);
        words
    }
}

impl Program for Personality {
    fn name(&self) -> &'static str {
        self.0
    }

    fn prepare(&self, _: &Path) {}

    fn load(&self, folder: &Path, _: u64) -> Load {
        Load { client: self.deed("load", folder), words: None, counts: |_| true, servers: Vec::new() }
    }

    fn check(&self, folder: &Path, _: u64) -> u64 {
        let changes = run(&mut self.deed("check", folder)).ends_with(0).out;
        // What was there and is not what was written is seen, too.
        let changed = folder.join("thread-0/00000/00000000");
        if let Some(right) = std::fs::read(&changed).ok().filter(|right| !right.is_empty()) {
            let wrong: Vec<u8> = std::iter::once(b'?').chain(right[1..].iter().copied()).collect();
            std::fs::write(&changed, wrong).expect("writable");
            let damaged = run(&mut self.deed("check", folder));
            std::fs::write(&changed, right).expect("writable");
            assert_ne!(damaged.status, Some(0), "a file with a wrong byte was taken");
        }
        changes.trim().parse().expect("a number")
    }
}
