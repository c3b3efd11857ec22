use super::*;
use pocketstone_core::events::{Event, EventKind, EventLog, SystemCall};

fn selection() -> Selection {
    Selection { below: String::new(), pauses: true }
}

const TEXT: &str = "pocketstone-calls 1\nthreads 2\nfile 100 a\nname b\nleft-out 3 mmap\nopen 0 read\nread 0 10 20\n\
                    pause 500\nopen 1 new\nwrite 1 0 30\nclose 1\nrename 1 0\nlook-up 0\nlist\nmake-folder 0\n";

#[test]
fn a_file_of_calls_makes_a_workload_and_comes_back() {
    let calls = read(TEXT.as_bytes(), "f.calls", &selection()).unwrap();
    assert_eq!(text::encode(&calls), TEXT);
    let spec = CallsSpec::new(&calls, "digest".into(), Data::Random, false);
    assert_eq!((spec.request_bytes, spec.writes, spec.threads), (30, true, 2));
    assert!(spec.check().is_err(), "it has no operations yet");
    let with = spec.with(TEXT.as_bytes()).unwrap();
    assert_eq!((spec.pauses_ns(), with.pauses_ns()), (250, 250), "500 ns of two threads");
    with.check().unwrap();
    assert_eq!(FileWorkload::operations(&with, 1).collect::<Vec<_>>(), calls.operations);
    assert_eq!(with.names(1), ["a", "b"]);
    let population = with.population(1);
    assert_eq!((population.list(), population.bytes()), (vec![NewFile { name: "a".into(), bytes: 100 }], 100));
    // A plan has the files, and not the operations.
    let json = serde_json::to_string(&with).unwrap();
    assert!(json.contains("\"a\"") && !json.contains("operations"));
    let quick = read(TEXT.as_bytes(), "f.calls", &Selection { pauses: false, ..selection() }).unwrap();
    assert_eq!(quick.operations.len() + 1, calls.operations.len());
    let reads = read(b"pocketstone-calls 1\nfile 9 a\nopen 0 write\nread 0 0 9\n", "f", &selection()).unwrap();
    assert!(!CallsSpec::new(&reads, String::new(), Data::Random, true).writes);
}

#[test]
fn a_wrong_file_of_calls_is_refused_with_its_line() {
    for (line, why) in [
        ("read 5 0 1", "has a file that has no name"),
        ("read 0 0", "has no bytes"),
        ("read 0 0 1 2", "has words behind it"),
        ("read 0 0 4294967296", "moves more than one call can"),
        ("open 0 both", "is not for read, write, append or new"),
        ("jump 0", "is no call"),
        ("threads 0", "is not from 1 to 1024 threads"),
        ("file 0 a/b", "has no name of a file"),
        ("file 0 ..", "has no name of a file"),
        ("file 20 a", "has the name of another file"),
        ("file 9223372036854775808 b", "is beyond what a file can have"),
        ("read 0 0 10", "needs an open number"),
        ("close 0", "closes a number that is not open"),
        ("pause 4611686018427387904", "lasts longer than 146 years"),
        ("read 0 9223372036854775807 1", "is beyond what a file can have"),
        ("truncate 0 9223372036854775808", "is beyond what a file can have"),
    ] {
        let text = format!("pocketstone-calls 1\nfile 9 a\n{line}\n");
        let error = read(text.as_bytes(), "my.calls", &selection()).unwrap_err();
        let said = error.message();
        assert!(said.starts_with("my.calls line 3: ") && said.contains(why), "{said}");
    }
    for (lines, why) in [
        ("open 0 read\nopen 0 read", "line 4: `open 0 read` opens a number that is open"),
        ("open 0 read\nclose 0\nclose 0", "line 5: `close 0` closes a number that is not open"),
        ("open 0 write\nclose 0\nsync 0", "line 5: `sync 0` needs an open number"),
        ("open 0 direct\nread 0 0 100", "line 4: `read 0 0 100` is direct and not of whole sectors of 512 bytes"),
        ("open 0 direct\nwrite 0 100 512", "line 4: `write 0 100 512` is direct and not of whole sectors"),
        ("open 0 direct\nappend 0 9", "line 4: `append 0 9` is direct and not of whole sectors"),
        ("open 0 direct\nclose 0\nopen 0 read\nread 0 0 9\nlist 1", "line 7: `list 1` has words behind it"),
        ("open 0 read\nthreads 2", "line 4: `threads 2` comes after the first call"),
    ] {
        let text = format!("pocketstone-calls 1\nfile 9 a\n{lines}\n");
        let said = read(text.as_bytes(), "my.calls", &selection()).unwrap_err().message().to_owned();
        assert!(said.contains(why), "{said}");
    }
    // The second thread opens for itself; the first has closed by then, or not.
    let threads = b"pocketstone-calls 1\nthreads 2\nfile 9 a\nopen 0 read\nopen 0 read\nclose 0\nread 0 0 9\n";
    assert_eq!(read(threads, "my.calls", &selection()).unwrap().operations.len(), 4);
    let late = read(b"pocketstone-calls 1\nlist\nfile 0 a\n", "f", &selection()).unwrap_err();
    assert!(late.message().contains("after the first call"), "{}", late.message());
    let later = read(b"pocketstone-calls 2\nopen 0 read\n", "f", &selection()).unwrap_err();
    assert!(later.message().contains("line 1: it is not `pocketstone-calls 1`"), "{}", later.message());
    let below = read(TEXT.as_bytes(), "f", &Selection { below: "/d".into(), ..selection() }).unwrap_err();
    assert!(below.cure().is_some_and(|cure| cure.contains("calls_below")));
}

fn log(events: &[(u64, EventKind)]) -> EventLog {
    let events = events.iter().map(|(time_ns, kind)| Event { time_ns: *time_ns, cpu: 0, pid: 5, kind: *kind });
    EventLog { files: vec!["/d/db".into(), "/d/db-journal".into()], events: events.collect(), ..EventLog::default() }
}

fn enter(call: SystemCall, file: Option<u16>, offset: Option<u64>) -> EventKind {
    EventKind::Enter { call, file, offset, bytes: 4096 }
}

fn exit(call: SystemCall, result: i64) -> EventKind {
    EventKind::Exit { call, result }
}

#[test]
fn the_labs_own_recording_is_replayed_with_its_pauses() {
    use SystemCall::{Close, Delete, Open, Read, Sync, Write};
    let events = [
        (100, enter(Open, None, None)),
        (110, exit(Open, 3)),
        (200, enter(Read, Some(0), Some(8192))),
        (230, exit(Read, 4096)),
        (300, enter(Write, Some(1), Some(0))),
        (310, exit(Write, 512)),
        (320, enter(Sync, Some(1), None)),
        (900, exit(Sync, 0)),
        (1000, enter(Close, Some(1), None)),
        (1001, exit(Close, 0)),
        (1002, enter(Delete, Some(1), None)),
        (1003, exit(Delete, 0)),
        (1004, enter(Read, Some(0), Some(0))),
        (1005, exit(Read, -5)),
    ];
    let calls = events::calls(&log(&events), &selection()).unwrap();
    let lines = "pocketstone-calls 1\nthreads 1\nfile 12288 db\nname db-journal\nleft-out 1 calls that failed\n\
                 open 0 write\nread 0 8192 4096\nopen 1 new\npause 70\nwrite 1 0 512\npause 10\nsync 1\npause 100\n\
                 close 1\npause 1\ndelete 1\n";
    assert_eq!(text::encode(&calls), lines);
    // A kernel of 32 bits tells no positions.
    let narrow = [(100, enter(Read, Some(0), None)), (110, exit(Read, 4096))];
    let error = events::calls(&log(&narrow), &selection()).unwrap_err();
    assert!(error.cure().is_some_and(|cure| cure.contains("strace")), "{}", error.chain());
}

#[test]
fn a_recording_may_begin_with_a_byte_order_mark() {
    let (text, selection) = (include_str!("strace/journal.strace"), Selection { below: "/d".into(), pauses: true });
    let marked = format!("\u{feff}{text}");
    let [plain, marked] = [text, &marked].map(|text| super::read(text.as_bytes(), "a.strace", &selection).unwrap());
    assert_eq!(plain, marked);
}
