//! Files that programs grow without the kernel: what others see of them, and what is left when somebody is killed.

use crate::report::{Report, storing};
use pocketstone_testing::{or_skip, program};
use pocketstone_tests::command::run;
use pocketstone_tests::mounted::{MountedVolume, make};
use pocketstone_tests::suites::{command, tell};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const OPTIONS: [&str; 2] = ["-o", "preload=append"];
const RECORD: usize = 500;

/// Appends records one after the other, each with its number, and says which one is done, and which ones fsync(2) or
/// fdatasync(2) has made durable.
const WRITER: &str = "
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | (os.O_APPEND if sys.argv[2] == 'append' else 0))
os.lseek(fd, 0, 2)
n = 0
while True:
    n += 1
    os.write(fd, b'%019d\\n' % n * 25)
    if n % 7 == 0:
        (os.fsync if n % 5 == 0 else os.fdatasync)(fd)
        os.write(1, b'synced %d\\n' % n)
    else:
        os.write(1, b'wrote %d\\n' % n)
";

fn writer(mut command: Command, file: &Path, how: &str) -> Child {
    command.args(["-c", WRITER]).arg(file).arg(how).stdout(Stdio::piped()).stdin(Stdio::null());
    command.spawn().expect("python3 starts")
}

/// Reads what a writer says, until it ends; `each` is told how much it has said, and may end it. The last record that
/// it said it wrote, and the last that is synchronised.
fn listen(child: &mut Child, mut each: impl FnMut(&mut Child, usize)) -> (u64, u64) {
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let (mut wrote, mut synced) = (0, 0);
    for (lines, line) in output.lines().enumerate() {
        let line = line.expect("a line");
        let (what, number) = line.split_once(' ').expect("two words");
        wrote = number.parse().expect("a number");
        synced = if what == "synced" { wrote } else { synced };
        each(child, lines + 1);
    }
    child.wait().expect("it ends");
    (wrote, synced)
}

/// The numbers of the records in a file, all of which are whole.
fn records(content: &[u8]) -> Vec<u64> {
    let rest = content.len() % RECORD;
    assert_eq!(rest, 0, "a part of a record: {} of {} bytes: {:?}", rest, content.len(), content.last());
    let number = |line: &[u8]| std::str::from_utf8(line).expect("digits").trim_end().parse().expect("a number");
    let one = |record: &[u8]| {
        let first: u64 = number(&record[..20]);
        assert!(record.chunks(20).all(|line| number(line) == first), "a record is torn");
        first
    };
    content.chunks(RECORD).map(one).collect()
}

/// From 1 on, without a gap; how many.
fn in_order(content: &[u8]) -> u64 {
    let all = records(content);
    assert!(all.iter().zip(1..).all(|(is, should)| *is == should), "{all:?}");
    all.len() as u64
}

/// As [`in_order`], of a file whose writer was killed. A write that goes by the kernel into a page that it does not
/// hold is two requests, between which the writer may end: then that record ends with a page.
fn in_order_but_the_last(content: &[u8]) -> u64 {
    let (whole, part) = content.split_at(content.len() / RECORD * RECORD);
    let there = in_order(whole);
    if !part.is_empty() {
        let next = format!("{:019}\n", there + 1).repeat(25);
        let cut = content.len() % 4096 == 0 && next.as_bytes().starts_with(part);
        assert!(cut, "{} bytes of a record, up to {}: {part:?}", part.len(), content.len());
    }
    there
}

/// Free space, once there is a directory with room for names.
fn free(volume: &MountedVolume) -> u64 {
    let name = volume.path().join("for a moment");
    fs::write(&name, "").and_then(|()| fs::remove_file(&name)).expect("a file");
    rustix::fs::statvfs(volume.path()).expect("the mount").f_bfree
}

#[test]
fn a_program_that_is_killed_while_it_appends_leaves_what_it_said_it_wrote() {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let volume = place.volume(&OPTIONS);
    let report = Report::at(place.path("report"));
    let file = volume.path().join("file");
    let before = free(&volume);
    let mut said_in_all = 0;
    for round in 0..24 {
        fs::write(&file, "").expect("a new file");
        let mut child = writer(report.run(&python), &file, if round % 2 == 0 { "append" } else { "end" });
        let (wrote, _) = listen(&mut child, |child, lines| {
            if lines == 30 + round * 41 {
                let _ = child.kill();
            }
        });
        let left = fs::read(&file).expect("the file");
        let there = in_order_but_the_last(&left);
        assert!((wrote..=wrote + 1).contains(&there), "{wrote} were said to be there, {there} are");
        said_in_all += wrote;
        // What others append comes behind.
        fs::OpenOptions::new()
            .append(true)
            .open(&file)
            .and_then(|mut file| std::io::Write::write_all(&mut file, b"x"))
            .expect("a byte");
        let content = fs::read(&file).expect("the file");
        assert_eq!((content.len(), content.last()), (left.len() + 1, Some(&b'x')));
    }
    fs::remove_file(&file).expect("the file");
    // Nothing is lost of what a process was given.
    pocketstone_testing::wait::until("all space is free again", || free(&volume) + 16 >= before);
    tell(&format!("24 programs killed, {said_in_all} records"));
    volume.end();
}

#[test]
fn what_was_synchronised_survives_the_server_and_the_program() {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let mut volume = place.volume(&OPTIONS);
    let report = Report::at(place.path("report"));
    for round in 0..8 {
        let file = volume.path().join("file");
        fs::write(&file, "").expect("a new file");
        let mut child = writer(report.run(&python), &file, if round % 2 == 0 { "append" } else { "end" });
        let both = round % 4 > 1;
        let (_, synced) = listen(&mut child, |child, lines| {
            if lines == 100 + round * 91 {
                volume.kill();
                if both {
                    let _ = child.kill();
                }
            }
        });
        volume = volume.kill_and_mount_again(&OPTIONS);
        let there = in_order_but_the_last(&fs::read(volume.path().join("file")).expect("the file"));
        assert!(there >= synced, "{synced} were synchronised, {there} are there");
        assert!(synced > 80, "{synced}");
    }
    volume.end();
}

#[test]
fn what_nobody_synchronised_survives_the_server_after_a_while() {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let volume = place.volume(&OPTIONS);
    let file = volume.path().join("file");
    fs::write(&file, "").expect("a new file");
    let script = "
import os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
for n in range(1, 201): os.write(fd, b'%019d\\n' % n * 25)
print('done', flush=True)
sys.stdin.read()
";
    let report = Report::at(place.path("report"));
    let mut child = report.run(&python);
    let mut child = child
        .args(["-c", script])
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("a line").expect("a line"), "done");
    // As docs/preload.md says. Nobody looks at the file meanwhile.
    std::thread::sleep(std::time::Duration::from_secs(6));
    volume.kill();
    drop(child.stdin.take());
    child.wait().expect("it ends");
    let volume = volume.kill_and_mount_again(&OPTIONS);
    assert_eq!(in_order(&fs::read(volume.path().join("file")).expect("the file")), 200);
    assert!(report.direct().1 > 100, "{}", report.text());
    volume.end();
}

#[test]
fn a_file_that_is_cut_while_it_grows_has_whole_records() {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let volume = place.volume(&OPTIONS);
    let report = Report::at(place.path("report"));
    let file = volume.path().join("file");
    fs::write(&file, "").expect("a new file");
    let mut child = writer(report.run(&python), &file, "append");
    let mut cuts = 0;
    let (wrote, _) = listen(&mut child, |child, lines| {
        if lines % 97 == 0 && lines < 3000 {
            cuts += 1;
            if cuts % 2 == 0 {
                drop(fs::File::create(&file).expect("open with O_TRUNC"));
            } else {
                fs::OpenOptions::new().write(true).open(&file).and_then(|file| file.set_len(0)).expect("ftruncate");
            }
        }
        // What it says may lie in the pipe for a while: the last cut may have come after all that it had written.
        if lines >= 3000 && fs::metadata(&file).expect("the file").len() > 0 {
            let _ = child.kill();
        }
    });
    let all = records(&fs::read(&file).expect("the file"));
    assert!(all.windows(2).all(|pair| pair[0] + 1 == pair[1]), "a gap: {all:?}");
    assert!(all.last().is_some_and(|last| (wrote..=wrote + 1).contains(last)), "{wrote}, {:?}", all.last());
    assert!(cuts > 20);
    volume.end();
}

#[test]
fn a_full_volume_and_limits_of_sizes_are_as_on_the_mount() {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let region = place.path("small");
    make(&region, &["--size", "24M"]);
    let volume = MountedVolume::mount(&region, &place.folder("small mount"), &OPTIONS);
    // Says how much fitted, and why no more did.
    let script = "
import errno, os, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = int(sys.argv[2])
if limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
size = 0
try:
    while True: size += os.write(fd, b'y' * 3000)
except OSError as e: print(errno.errorcode[e.errno], os.fstat(fd).st_size == size, size if limit else size > 8000000)
";
    let report = Report::at(place.path("report"));
    let before = free(&volume);
    for limit in ["0", "1000000"] {
        let outcomes = [false, true].map(|direct| {
            let file = volume.path().join(format!("file {direct}"));
            let mut words = if direct { report.run(&python) } else { command(&python) };
            let ran = run(words.args(["-c", script]).arg(&file).arg(limit)).ends_with(0);
            let content = fs::read(&file).expect("the file");
            assert!(content.iter().all(|byte| *byte == b'y'));
            fs::remove_file(&file).expect("the file");
            pocketstone_testing::wait::until("all space is free again", || free(&volume) + 16 >= before);
            ran.out
        });
        assert_eq!(outcomes[0], outcomes[1], "limit {limit}");
        let expected = if limit == "0" { "ENOSPC True True\n" } else { "EFBIG True 1000000\n" };
        assert_eq!(outcomes[1], expected);
    }
    assert!(report.direct().1 > 500, "{}", report.text());
    volume.end();
}

/// The kernel finds the end by the size that it knows when it is told only by a flag of the call to write there.
#[test]
fn an_append_by_a_flag_of_the_call_goes_to_the_end() {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let region = place.path("small");
    make(&region, &["--size", "64M"]);
    let volume = MountedVolume::mount(&region, &place.folder("small mount"), &OPTIONS);
    let report = Report::at(place.path("report"));
    let file = volume.path().join("file");
    let script = "
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
end = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
for n in range(2000): os.write(end, b'a' * 100)
os.pwritev(fd, [b'b' * 60, b'c' * 40], 0, os.RWF_APPEND)
for n in range(20): os.write(end, b'd' * 100)
";
    run(report.run(&python).args(["-c", script]).arg(&file)).ends_with(0);
    let expected = [vec![b'a'; 200_000], vec![b'b'; 60], vec![b'c'; 40], vec![b'd'; 2000]].concat();
    let content = fs::read(&file).expect("the file");
    let zero = content.iter().position(|byte| *byte == 0);
    assert!(content == expected, "{} bytes, a zero at {zero:?}", content.len());
    assert!(report.direct().1 > 500, "{}", report.text());
    volume.end();
}

/// What programs append is seen by others, with the library and without, as it is appended: by the shell's `>>`, by
/// processes that share an open file, by stdio, and by who follows it.
#[test]
fn who_appends_and_who_looks() {
    let bash = or_skip!(program("bash", "bash"));
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let volume = place.volume(&OPTIONS);
    let script = "
set -e
for i in $(seq 300); do echo line $i; done >> a; wc -c a; (for i in $(seq 200); do echo one $i >> a; done) &
(exec 5>> a; for i in $(seq 200); do echo two $i >&5; done) & wait
sort a | sha256sum; wc -lc a; tail -n 1 a | wc -l; rm a
exec 6>> b; for i in $(seq 100); do echo parent $i >&6; (echo child $i >&6); done; exec 6>&-
sha256sum b; stat -c %s b
PYTHON -c 'f = open(\"c\", \"a\")
for i in range(3000):
  f.write(\"record %d\\n\" % i)
  (i % 500 == 0) and (f.flush(), print(f.tell(), len(open(\"c\").read())))
f.close()'; cksum < c; dd if=/dev/zero bs=777 count=500 status=none | tr '\\0' z >> c
cksum < c; cp c d; cmp c d
seq 50000 | tee e >> f; cmp e f; seq 1000 | while read n; do echo $n; done >> f
tail -c 12 f; head -c 100000 f >> e; wc -c e
: > g; (seq 20000; sleep 0.1; seq 20000) >> g & while [ $(wc -l < g) -lt 40000 ]; do :; done
wait; cksum < g
";
    let script = script.replace("PYTHON", &python.display().to_string());
    let report = Report::at(place.path("report"));
    let ways: [(&str, &Path, bool); 3] =
        [("tmpfs", &place.path(""), false), ("mount", volume.path(), false), ("direct", volume.path(), true)];
    let outcomes = ways.map(|(way, folder, direct)| {
        let home = folder.join(format!("appends on {way}"));
        fs::create_dir(&home).expect("a new folder");
        let mut words = if direct { report.run(&bash) } else { command(&bash) };
        let ran = run(words.args(["-c", &script]).current_dir(&home)).ends_with(0);
        assert_eq!(ran.err, "", "on {way}");
        (ran.out, crate::report::tree(&home))
    });
    assert_eq!(outcomes[0], outcomes[1], "tmpfs and the mount");
    assert_eq!(outcomes[0], outcomes[2], "tmpfs and without the kernel");
    let (reads, writes) = report.direct();
    tell(&format!("{reads} reads and {writes} writes without the kernel"));
    assert!(writes > 300, "{}", report.text());
    volume.end();
}

/// A follower without the library and one with it see each record once it was said to be written.
#[test]
fn what_a_program_said_it_appended_is_there_for_all() {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let volume = place.volume(&OPTIONS);
    let report = Report::at(place.path("report"));
    let file = volume.path().join("file");
    fs::write(&file, "").expect("a new file");
    // Says the length that it finds by reading from where it was, whenever it is asked.
    let follower = "
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
at = 0
for line in sys.stdin:
    while got := os.read(fd, 5000): at += len(got)
    print(at, flush=True)
";
    let mut followers = [report.run(&python), Command::new(&python)].map(|mut command| {
        command.args(["-c", follower]).arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3")
    });
    let mut answers: Vec<_> =
        followers.iter_mut().map(|child| BufReader::new(child.stdout.take().expect("a pipe")).lines()).collect();
    let writer = "
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
n = 0
for line in sys.stdin:
    for i in range(int(line)): n += os.write(fd, b'%019d\\n' % i * 25)
    print(n, flush=True)
";
    let mut child = report.run(&python);
    let mut child = child
        .args(["-c", writer])
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let tell_to = |child: &mut Child, text: &str| {
        std::io::Write::write_all(child.stdin.as_mut().expect("a pipe"), text.as_bytes()).expect("it listens");
    };
    let number = |line: Option<std::io::Result<String>>| -> usize {
        line.expect("a line").expect("a line").parse().expect("a number")
    };
    for round in 0..250 {
        if round % 2 == 0 {
            // Nobody gets the end while the kernel may be reading.
            std::thread::sleep(std::time::Duration::from_millis(8));
        }
        tell_to(&mut child, &format!("{}\n", 1 + round * 7 % 23));
        let there = number(said.next());
        let who = round % 3;
        for (follower, answers) in followers.iter_mut().zip(&mut answers).skip(who / 2).take(2 - who % 2) {
            tell_to(follower, "?\n");
            assert_eq!(number(answers.next()), there, "round {round}");
        }
    }
    for mut child in followers.into_iter().chain([child]) {
        drop(child.stdin.take());
        assert!(child.wait().expect("it ends").success());
    }
    assert!(report.direct().1 > 500, "{}", report.text());
    volume.end();
}

/// Appends for some seconds, with pauses in which others may have the end.
const LOGGER: &str = "
import os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
end = time.monotonic() + 4
n = 0
while time.monotonic() < end:
    os.write(fd, b'%07d\\n' % (n % 10 ** 7) * 37)
    n += 1
    if n % 10 == 0:
        time.sleep(0.0005)
";

#[test]
fn a_program_that_reads_a_file_while_it_grows_finds_no_zeros() {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let volume = place.volume(&OPTIONS);
    let report = Report::at(place.path("report"));
    let file = volume.path().join("file");
    fs::write(&file, "").expect("a new file");
    let mut writer = report.run(&python).args(["-c", LOGGER]).arg(&file).spawn().expect("python3 starts");
    let (mut passes, mut most) = (0, 0);
    let mut memory = vec![0; 64 << 10];
    while writer.try_wait().expect("a child").is_none() {
        let mut reader = fs::File::open(&file).expect("the file");
        let mut at = 0;
        loop {
            let bytes = std::io::Read::read(&mut reader, &mut memory).expect("it can be read");
            if bytes == 0 || at > 1 << 20 {
                break;
            }
            let zero = memory[..bytes].iter().position(|byte| *byte == 0);
            assert!(zero.is_none(), "pass {passes}: a zero at {:?}, read from {at}", zero.map(|zero| at + zero));
            at += bytes;
        }
        passes += 1;
        most = most.max(at);
        if passes % 10 == 0 {
            // Or nobody would append directly.
            std::thread::sleep(std::time::Duration::from_millis(15));
        }
    }
    assert!(passes > 50 && most > 100_000, "{passes} passes, {most} bytes");
    assert!(report.direct().1 > 500, "{}", report.text());
    volume.end();
}
