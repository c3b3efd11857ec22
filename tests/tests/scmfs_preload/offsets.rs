//! Offsets that several threads or processes share: nobody finds one that belongs to a call which is only half done.

use crate::report::{Report, compiled, storing};
use pocketstone_testing::{or_skip, program};
use pocketstone_tests::command::run;
use pocketstone_tests::suites::tell;
use std::collections::BTreeSet;
use std::fs;

/// One reads at the end of the file, over and over, while another one writes there.
#[test]
fn what_is_written_at_an_offset_that_others_read_at_is_whole() {
    let python = or_skip!(program("python3", "python3"));
    let records: String = (0..100).map(|n| format!("{n:096}\n")).collect();
    for preload in ["read", "append"] {
        let place = or_skip!(storing());
        let volume = place.volume(&["-o", &format!("preload={preload}")]);
        let (file, script) = (volume.path().join("file"), place.path("offsets.py"));
        fs::write(&script, include_str!("offsets.py")).expect("a new file");
        for how in ["thread", "child", "program", "program without the library"] {
            let report = Report::at(place.path(&format!("report of {how} {preload}")));
            run(report.run(&python).arg(&script).arg(&file).arg(how)).ends_with(0);
            // Whoever starts the program has read directly before, where it is trusted.
            let text = report.text();
            let was_direct = !text.contains("descriptors: trusted") || report.direct().0 > 0;
            assert!(!how.starts_with("program") || was_direct, "{how}, {preload}: {text}");
            let found = fs::read(&file).expect("the file");
            assert_eq!(found.len(), records.len(), "{how}, {preload}");
            assert!(found == records.as_bytes(), "{how}, {preload}");
        }
        volume.end();
    }
}

/// Writes blocks to its standard output for longer than anybody waits, but never more than the volume holds.
const BLOCKS: &str = "
import os, time
block = b'B' * (4 << 20)
for _ in range(64): os.write(1, block)
time.sleep(600)
";

/// A shell's redirection is shared with what comes after the program.
#[test]
fn what_follows_a_program_that_is_killed_lies_right_behind_what_it_wrote() {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let volume = place.volume(&["-o", "preload=append"]);
    let file = volume.path().join("file");
    let mut bytes = 0;
    for round in 0..8 {
        let report = Report::at(place.path("report"));
        let script = "(\"$2\" -c \"$3\" & until [ -s \"$0\" ]; do sleep 0.01; done; sleep $1; kill -9 $!; wait; \
                      echo END) > \"$0\"";
        let mut shell = report.run("sh");
        run(shell.args(["-c", script]).arg(&file).arg(format!("0.{round:02}7")).arg(&python).arg(BLOCKS)).ends_with(0);
        let found = fs::read(&file).expect("the file");
        let (blocks, end) = found.split_at(found.len() - 4);
        assert_eq!(end, b"END\n");
        assert!(!blocks.is_empty());
        assert!(blocks.iter().all(|byte| *byte == b'B'), "a gap among {} bytes", found.len());
        bytes += found.len();
    }
    tell(&format!("8 programs killed, {bytes} bytes"));
    volume.end();
}

/// A program that is alone with what it has opened pays for no round trip.
#[test]
fn a_program_alone_with_its_file_reads_and_writes_at_its_offset_without_the_kernel() {
    let python = or_skip!(program("python3", "python3"));
    let place = or_skip!(storing());
    let volume = place.volume(&["-o", "preload=append"]);
    let script = "
import os
fd = os.open('file', os.O_RDWR | os.O_CREAT)
for n in range(3000): os.write(fd, b'%096d\\n' % n)
assert os.read(fd, 10) == b'' and os.lseek(fd, 0, os.SEEK_CUR) == 97 * 3000
os.lseek(fd, 0, os.SEEK_SET)
for n in range(3000): assert os.read(fd, 97) == b'%096d\\n' % n
assert os.read(fd, 97) == b''
os.lseek(fd, -50, os.SEEK_END)
assert len(os.read(fd, 97)) == 50 and os.lseek(fd, 0, os.SEEK_CUR) == 97 * 3000
assert os.read(fd, 97) == b''
";
    let report = Report::at(place.path("report"));
    run(report.run(&python).args(["-c", script]).current_dir(volume.path())).ends_with(0);
    let (reads, writes) = report.direct();
    let trusts = report.text().contains("descriptors: trusted");
    assert!(!trusts || reads > 2900 && writes > 2800, "{}", report.text());
    volume.end();
}

/// The one call moves the offset. Wherever the program has put it in between, it reads from there.
#[test]
fn a_read_at_the_offset_is_one_call_of_the_kernel() {
    let python = or_skip!(program("python3", "python3"));
    let strace = or_skip!(program("strace", "strace"));
    let place = or_skip!(storing());
    let volume = place.volume(&["-o", "preload=append"]);
    let script = "
import os
data = b''.join(b'%09d\\n' % n for n in range(40_000))
open('file', 'wb').write(data)
fd = os.open('file', os.O_RDONLY)
def move(to):
    if to % 4 == 0: os.lseek(fd, to, os.SEEK_SET)
    elif to % 4 == 1: os.lseek(fd, to - len(data), os.SEEK_END)
    elif to % 4 == 2: os.lseek(fd, to - os.lseek(fd, 0, os.SEEK_CUR), os.SEEK_CUR)
    else:
        other = os.dup(fd)
        os.lseek(other, to - 8, os.SEEK_SET)
        os.readv(other, [bytearray(3), bytearray(5)])
        os.close(other)
for n in range(4000): assert os.read(fd, 97) == data[n * 97:][:97], n
for n in range(1000):
    at = (n * 7919) % (len(data) - 8) + 8
    move(at)
    for bytes in 50, 97, 1, 4096:
        assert os.read(fd, bytes) == data[at:][:bytes], (n, at)
        at = min(at + bytes, len(data))
    if n % 3 == 0: assert os.read(fd, 200_000) == data[at:][:200_000], (n, at)
os.close(fd)
fd = os.open('file', os.O_RDONLY)
print('NOW', flush=True)
for n in range(4000): assert os.read(fd, 97) == data[n * 97:][:97], n
print('DONE', flush=True)
";
    let (report, log) = (Report::at(place.path("report")), place.path("calls"));
    let mut traced = report.run(&strace);
    traced.args(["-f", "-o"]).arg(&log).arg(&python).args(["-c", script]);
    run(traced.current_dir(volume.path())).ends_with(0);
    let calls = fs::read_to_string(log).expect("a log");
    let (_, reading) = calls.split_once("NOW").expect("a mark");
    let (reading, _) = reading.split_once("DONE").expect("a mark");
    let seeks = reading.lines().filter(|line| line.contains("lseek(")).count();
    if report.text().contains("descriptors: trusted") {
        assert!((3900..4010).contains(&seeks), "{seeks} of 4000 reads: {}", report.text());
    }
    volume.end();
}

/// Threads of one process use one offset in all ways that libc has, directly and by the kernel, while the file is
/// shared, copied, or others are opened and closed.
#[test]
fn threads_take_turns_at_an_offset() {
    let compiler = or_skip!(program("cc", "gcc"));
    let place = or_skip!(storing());
    let built = compiled(&compiler, &place, "offsets", include_str!("offsets.c"), &["-Wall", "-Werror", "-pthread"]);
    let volume = place.volume(&["-o", "preload=append"]);
    for way in ["alone", "closes", "dup", "far", "message", "fork"] {
        let report = Report::at(place.path(&format!("report of {way}")));
        let mut program = report.run(&built);
        let ran = run(program.args(["file", way]).current_dir(volume.path())).ends_with(0);
        let found = fs::read_to_string(volume.path().join("file")).expect("text, and no zeros");
        let lines: BTreeSet<&str> = found.lines().collect();
        assert!(lines.iter().all(|line| line.len() == 63), "{way}: a record is not whole");
        assert_eq!((format!("{}\n", lines.len()), found.len()), (ran.out, lines.len() * 64), "{way}");
        let (text, (_, direct)) = (report.text(), report.direct());
        // More than those before there were threads.
        let was_direct = !text.contains("descriptors: trusted") || direct > 4100;
        assert!(was_direct || !["alone", "closes"].contains(&way), "{way}: {text}");
        tell(&format!("{way}: {direct} of {} writes direct", lines.len() + 4000));
    }
    volume.end();
}
