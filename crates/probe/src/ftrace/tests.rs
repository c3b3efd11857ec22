use super::threads::{LONGEST_THREAD_BYTES, MOST_THREADS};
use super::*;
use std::collections::BTreeMap;

fn reads(text: &str) -> Reading {
    read(text.as_bytes(), &Context::default()).unwrap()
}

fn kinds(text: &str) -> Vec<EventKind> {
    reads(text).log.events.into_iter().map(|e| e.kind).collect()
}

/// Lines as Linux 6.18 writes them with `record-tgid`, shortened to one task.
const MODERN: &str = include_str!("../../tests/data/linux-6.18.ftrace");

#[test]
fn a_modern_kernels_text_becomes_events() {
    let context = Context {
        numbers: vec![FileNumber { device: 254 << 20, inode: 0xf2305, name: "/d/a b".into() }],
        ..Context::default()
    };
    let reading = read(MODERN.as_bytes(), &context).unwrap();
    let log = &reading.log;
    assert_eq!(log.files, ["/d/a b"]);
    assert_eq!(log.marks, ["hello"]);
    let tasks = [(7, "bash"), (58, "kworker/1:1H"), (29946, "python3"), (29947, "python3")];
    assert_eq!(log.tasks, tasks.map(|(pid, name)| (pid, name.to_owned())));
    assert_eq!(reading.processes, BTreeMap::from([(7, 7), (29946, 29946), (29947, 29946)]));
    use EventKind::*;
    let (file, device) = (Some(0), 254 << 20);
    let request = |done: bool| match done {
        true => BlockComplete { device, write: true, sector: 342_424_064, sectors: 16 },
        false => BlockIssue { device, write: true, sector: 342_424_064, sectors: 16 },
    };
    let expected = [
        Enter { call: SystemCall::Open, file: None, offset: None, bytes: 0 },
        Exit { call: SystemCall::Open, result: 3 },
        Enter { call: SystemCall::Write, file, offset: Some(100), bytes: 5000 },
        CacheMiss { file, page: 2, pages: 4 },
        Exit { call: SystemCall::Write, result: 5000 },
        Enter { call: SystemCall::Sync, file, offset: None, bytes: 0 },
        request(false),
        Switch { prev: 29946, state: b'D', next: 58 },
        request(true),
        Wake { pid: 29946 },
        Exit { call: SystemCall::Sync, result: 0 },
        Enter { call: SystemCall::Read, file, offset: Some(7), bytes: 7 },
        Exit { call: SystemCall::Read, result: -5 },
        Enter { call: SystemCall::Close, file, offset: None, bytes: 0 },
        Exit { call: SystemCall::Close, result: 0 },
        Idle { cpu: 1, state: Some(1) },
        Idle { cpu: 1, state: None },
        Frequency { cpu: 2, khz: 1_497_600 },
        Mark { text: 0 },
    ];
    assert_eq!(log.events.iter().map(|e| e.kind).collect::<Vec<_>>(), expected);
    assert_eq!(log.events[11], Event { time_ns: 24_486_531_630_000, cpu: 1, pid: 29947, kind: expected[11] });
    let left_out: Vec<(&str, u64)> = reading.left_out.iter().map(|(r, n)| (r.as_str(), *n)).collect();
    let expected = [
        ("comment", 2),
        ("event not used: sched_wakeup", 1),
        ("event not used: sys_fcntl", 1),
        ("event not used: sys_fcntl returned", 1),
        ("name of an opened file: pocketstone_open", 1),
    ];
    assert_eq!(left_out, expected);
    assert_eq!(reading.lines, reading.used + left_out.iter().map(|(_, n)| n).sum::<u64>());
}

/// Lines as PocketData's phones wrote them (Linux 3.4 and 3.10), with values of our own.
const PHONE: &str = include_str!("../../tests/data/phone.ftrace");

#[test]
fn a_phones_calls_begin_when_they_began() {
    use EventKind::*;
    let reading = reads(PHONE);
    let device = 179 << 20;
    let expected = [
        (9_000_010_000, Enter { call: SystemCall::Open, file: Some(0), offset: None, bytes: 0 }),
        (9_000_030_000, Exit { call: SystemCall::Open, result: 26 }),
        (9_000_090_000, Enter { call: SystemCall::Read, file: Some(0), offset: Some(4096), bytes: 100 }),
        (9_000_120_000, Exit { call: SystemCall::Read, result: 50 }),
        (9_000_210_000, Enter { call: SystemCall::Sync, file: Some(0), offset: None, bytes: 0 }),
        (9_000_210_005, Exit { call: SystemCall::Sync, result: 0 }),
        (9_000_600_000, Mark { text: 0 }),
        (9_000_700_000, BlockIssue { device, write: true, sector: 8, sectors: 16 }),
        (9_000_800_000, BlockComplete { device, write: true, sector: 8, sectors: 16 }),
    ];
    assert_eq!(reading.log.events.iter().map(|e| (e.time_ns, e.kind)).collect::<Vec<_>>(), expected);
    assert_eq!(reading.left_out["blank line"], 1);
    assert_eq!(reading.left_out["event not used: plsc_lseek llseek"], 1);
    assert_eq!(reading.left_out["event not used: plsc_delete mkdirat"], 1);
}

#[test]
fn names_with_everything_in_them() {
    let line = "a ==> next_comm=b-1 [000] .... 1.0: sched_switch: prev_comm=x prev_pid=9 prev_pid=1 prev_prio=1 \
        prev_state=R+ ==> next_comm=y next_pid=2 next_pid=3 next_prio=1\n";
    assert_eq!(kinds(line), [EventKind::Switch { prev: 1, state: b'R', next: 3 }]);
    assert_eq!(reads(line).log.task(3), Some("y next_pid=2"));
}

#[test]
fn what_is_not_understood_is_an_error_with_its_line() {
    let fails = |text: &str| read(text.as_bytes(), &Context::default()).unwrap_err();
    for end in ["", "\n"] {
        let lost = fails(&format!("# x\nCPU:1 [LOST 12 EVENTS]{end}"));
        assert!(lost.message().contains("LOST 12") && lost.message().contains("line 2"), "{lost}");
        assert!(lost.cure().unwrap().contains("larger buffer"));
    }
    for (text, line) in [
        ("nonsense\n", "line 1"),
        ("# x\na-1 [000] .... 1.0: sched_switch: prev_comm=x\n", "line 2"),
        ("a-1 [000] .... 1.0: sys_read(fd: 1\n", "line 1"),
        ("a-1 [000] .... 1.0: block_rq_issue: 8,0 R\n", "line 1"),
        ("a-1 [000] .... 1.0: no event\n", "line 1"),
    ] {
        assert!(fails(text).message().contains(line), "{text}");
    }
    assert_eq!(reads("a-1 [000] .... 1.0: new_event: x\n").left_out["event not used: new_event"], 1);
    assert_eq!(reads("a-1 [000] .... 1.0: print: 0: x\nmore of it\n").left_out["continuation of a mark"], 1);
}

#[test]
fn an_insertion_counts_only_where_there_is_no_issue_and_a_discard_never() {
    let line = |event: &str, kind: &str| format!("a-1 [000] .... 1.0: {event}: 8,0 {kind} 0 () 1 + 2 [a]\n");
    assert_eq!(kinds(&line("block_rq_insert", "R")).len(), 1);
    let both = line("block_rq_insert", "R") + &line("block_rq_issue", "R");
    assert_eq!(kinds(&both).len(), 1);
    assert_eq!(reads(&both).left_out["event not used: block_rq_insert"], 1);
    assert!(kinds(&line("block_rq_issue", "DS")).is_empty());
}

/// Its text may hold anything between its quotes, and later kernels have more kinds.
#[test]
fn a_phones_events_that_are_not_understood_are_left_out() {
    for (event, reason) in [
        (r#"plsc_dup: {"action":"dup2", "oldfd":3, "newfd":4, "flags":0}"#, "event not used: plsc_dup dup2"),
        (r#"plsc_ioprio: {"action":"ioprio_set", "which":1}"#, "event not used: plsc_ioprio ioprio_set"),
        ("plsc_new: of no known form", "event not understood: plsc_new"),
        (r#"plsc_rw: {"action":"read", "start":1}"#, "event not understood: plsc_rw"),
        (r#"plsc_open: {"action":"open", "path":"/a"b", "start":1}"#, "event not understood: plsc_open"),
        ("cpufreq_interactive_target: cpu=0 load=5", "event not used: cpufreq_interactive_target"),
    ] {
        let reading = reads(&format!("a-1 [000] .... 1.0: {event}\n"));
        assert_eq!((reading.left_out.get(reason), reading.used), (Some(&1), 0), "{event}: {:?}", reading.left_out);
    }
    // A kernel that does not write the process.
    let short =
        r#"plsc_rw: {"action":"read", "start":5, "delta":2, "retval":1, "session":0, "fd":3, "bytes":9, "offset":0}"#;
    assert_eq!(kinds(&format!("a-1 [000] .... 1.0: {short}\n")).len(), 2);
}

/// A shell that writes to a file: a child gets it, opens it, and puts it in the place of its output.
#[test]
fn descriptors_follow_starts_and_redirections() {
    let lines = [
        "sh-10 (10) [000] .... 1.0: sched_process_fork: comm=sh pid=10 child_comm=sh child_pid=11",
        "sh-11 (11) [000] .... 1.1: sys_openat(dfd: 0xffffff9c, filename: 0x7f \"/out\", flags: 0x241, mode: 0x1b6)",
        "sh-11 (11) [000] .... 1.2: sys_openat -> 0x3",
        "sh-11 (11) [000] .... 1.3: sys_dup2(oldfd: 3, newfd: 1)",
        "sh-11 (11) [000] .... 1.4: sys_dup2 -> 0x1",
        "sh-11 (11) [000] .... 1.5: sys_write(fd: 1, buf: 0x7f, count: 0x10)",
        "sh-11 (11) [000] .... 1.6: sys_write -> 0x10",
        "sh-11 (11) [000] .... 1.7: sys_write(fd: 2, buf: 0x7f, count: 1)",
        "sh-11 (11) [000] .... 1.8: sys_write -> 1",
        // It fails: descriptor 2 is what it was.
        "sh-11 (11) [000] .... 1.9: sys_dup2(oldfd: 9, newfd: 2)",
        "sh-11 (11) [000] .... 2.0: sys_dup2 -> 0xfffffffffffffff7",
        "sh-11 (11) [000] .... 2.1: sys_write(fd: 2, buf: 0x7f, count: 2)",
        "sh-10 (10) [000] .... 2.2: sys_write(fd: 1, buf: 0x7f, count: 4)",
    ];
    let open = |fd, name: &str| OpenFile { process: 10, fd, name: name.to_owned() };
    let context = Context { open: vec![open(1, "/terminal"), open(2, "/errors")], ..Context::default() };
    let reading = read(format!("{}\n", lines.join("\n")).as_bytes(), &context).unwrap();
    let log = &reading.log;
    let writes: Vec<(u64, &str)> = log
        .events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Enter { call: SystemCall::Write, file, bytes, .. } => {
                Some((bytes, log.files[usize::from(file.unwrap())].as_str()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(writes, [(16, "/out"), (1, "/errors"), (2, "/errors"), (4, "/terminal")]);
    assert_eq!(reading.started, [(10, 11)]);
}

/// As cat and cp copy: the kernel moves the bytes, and the program never has them.
#[test]
fn calls_that_copy_read_one_file_and_write_another() {
    let lines = [
        "cat-10 (10) [000] .... 1.0: sys_sendfile64(out_fd: 1, in_fd: 3, offset: 0, count: 0x1000000)",
        "cat-10 (10) [000] .... 1.1: sys_sendfile64 -> 0x10000",
        "cp-10 (10) [000] .... 1.2: sys_copy_file_range(fd_in: 3, off_in: 0, fd_out: 1, off_out: 0, len: 20, flags: 0)",
        "cp-10 (10) [000] .... 1.3: sys_copy_file_range -> 0x20",
        // From a pipe.
        "cp-10 (10) [000] .... 1.4: sys_splice(fd_in: 5, off_in: 0, fd_out: 1, off_out: 0x7f, len: 7, flags: 0)",
        "cp-10 (10) [000] .... 1.5: sys_splice -> 6",
        // It fails: nothing is written.
        "cp-10 (10) [000] .... 1.6: sys_copy_file_range(fd_in: 3, off_in: 0, fd_out: 1, off_out: 0, len: 9, flags: 0)",
        "cp-10 (10) [000] .... 1.7: sys_copy_file_range -> 0xffffffffffffffee",
    ];
    let open = |fd, name: &str| OpenFile { process: 10, fd, name: name.to_owned() };
    let context = Context { open: vec![open(3, "/from"), open(1, "/to")], ..Context::default() };
    let reading = read(format!("{}\n", lines.join("\n")).as_bytes(), &context).unwrap();
    assert_eq!(reading.log.files, ["/from", "/to"]);
    use EventKind::{Enter, Exit};
    use SystemCall::{Read, Write};
    let enter = |call, file, bytes| Enter { call, file, offset: None, bytes };
    let exit = |call, result| Exit { call, result };
    let expected = [
        (1_000_000_000, enter(Read, Some(0), 1 << 24)),
        (1_100_000_000, exit(Read, 1 << 16)),
        (1_100_000_000, enter(Write, Some(1), 1 << 16)),
        (1_100_000_000, exit(Write, 1 << 16)),
        (1_200_000_000, enter(Read, Some(0), 32)),
        (1_300_000_000, exit(Read, 32)),
        (1_300_000_000, enter(Write, Some(1), 32)),
        (1_300_000_000, exit(Write, 32)),
        (1_400_000_000, enter(Read, None, 7)),
        (1_500_000_000, exit(Read, 6)),
        (1_500_000_000, enter(Write, Some(1), 6)),
        (1_500_000_000, exit(Write, 6)),
        (1_600_000_000, enter(Read, Some(0), 9)),
        (1_700_000_000, exit(Read, -18)),
    ];
    assert_eq!(reading.log.events.iter().map(|e| (e.time_ns, e.kind)).collect::<Vec<_>>(), expected);
}

/// Names start from the folder that a call names or the process is in, as far as the kernel says which that is.
#[test]
fn names_start_from_the_folders_of_their_calls_and_processes() {
    let open = |pid: u32, dfd: &str, name: &str, fd: u32| {
        [
            format!(
                "a-{pid} ({pid}) [000] .... 1.0: sys_openat(dfd: {dfd}, filename: 0x7f \"{name}\", flags: 0, mode: 0)"
            ),
            format!("a-{pid} ({pid}) [000] .... 1.0: sys_openat -> {fd}"),
        ]
    };
    let line = |pid: u32, what: &str| [format!("a-{pid} ({pid}) [000] .... 1.0: {what}"), String::new()];
    let here = "0xffffff9c";
    let lines = [
        open(10, here, "./one", 3),
        open(10, here, "sub", 4),
        open(10, "4", "two", 5),
        // Of a folder that nobody knows.
        open(10, "9", "three", 5),
        line(10, "sys_fchdir(fd: 4)"),
        line(10, "sys_fchdir -> 0"),
        open(10, here, "four", 5),
        line(10, "sched_process_fork: comm=a pid=10 child_comm=a child_pid=11"),
        line(10, "sys_chdir(filename: 0x5607cc952000)"),
        line(10, "sys_chdir -> 0xfffffffffffffffe"),
        open(10, here, "five", 5),
        line(10, "sys_chdir(filename: 0x5607cc952000)"),
        line(10, "sys_chdir -> 0"),
        open(10, here, "six", 5),
        line(11, "sys_chdir(filename: 0x7f \"in\")"),
        line(11, "sys_chdir -> 0"),
        open(11, here, "seven", 5),
        open(12, here, "eight", 5),
    ];
    let text: String = lines.concat().into_iter().map(|line| line + "\n").collect();
    let context = Context { folder: Some("/d".into()), ..Context::default() };
    let files = read(text.as_bytes(), &context).unwrap().log.files;
    let expected = [
        "/d/one",
        "/d/sub",
        "/d/sub/two",
        "three",
        "/d/sub/four",
        "/d/sub/five",
        "six",
        "/d/sub/in",
        "/d/sub/in/seven",
        "/d/eight",
    ];
    assert_eq!(files, expected);
}

#[test]
fn a_log_may_have_line_ends_of_a_terminal_and_be_cut_off() {
    let text = "# x\r\na-1 [000] .... 1.0: cpu_idle: state=1 cpu_id=0\r\n\r\na-1 [000] .... 1.5: sched_switch: prev_co";
    let reading = reads(text);
    assert_eq!(reading.log.events.len(), 1);
    assert_eq!((reading.lines, reading.left_out["cut off"], reading.left_out["blank line"]), (4, 1, 1));
    let long = format!("# x\n{}", "a".repeat(1 << 20));
    assert!(read(long.as_bytes(), &Context::default()).unwrap_err().message().contains("line 2"));
}

/// What a sink is told is what a log has, but for order and twins.
#[test]
fn events_may_be_taken_while_a_text_is_read() {
    struct All(Vec<(Event, Twin)>, Vec<String>);
    impl Sink for All {
        fn event(&mut self, event: Event, twin: Twin) {
            self.0.push((event, twin));
        }
        fn mark(&mut self, event: Event, text: &str) {
            self.0.push((event, Twin::None));
            self.1.push(text.to_owned());
        }
    }
    for text in [MODERN, PHONE] {
        let mut all = All(Vec::new(), Vec::new());
        let reading = read_from(text.as_bytes(), &Context::default(), &mut all).unwrap();
        let whole = reads(text);
        let mut events: Vec<Event> = all.0.into_iter().filter(|(_, t)| *t != Twin::Wakeup).map(|(e, _)| e).collect();
        events.sort_by_key(|e| e.time_ns);
        assert_eq!(events, whole.log.events);
        assert_eq!((all.1, reading.left_out, reading.used), (whole.log.marks, whole.left_out, whole.used));
        assert!(reading.log.events.is_empty());
    }
}

/// Threads without end, and events whose names are: what is beyond the bounds is not known by its name.
#[test]
fn what_is_kept_of_threads_and_reasons_is_bounded() {
    struct Nothing;
    impl Sink for Nothing {
        fn event(&mut self, _: Event, _: Twin) {}
        fn mark(&mut self, _: Event, _: &str) {}
    }
    let mut text = format!("a-1 [000] .... 1.0: {}: x\n", "e".repeat(200));
    text += &format!("{}-2 [000] .... 1.0: cpu_idle: state=1 cpu_id=0\n", "n".repeat(LONGEST_THREAD_BYTES + 1));
    for n in 3..MOST_THREADS + 100 {
        text += &format!("t-{n} ({n}) [000] .... 1.0: sched_process_fork: comm=t pid={n} child_comm=t child_pid={n}\n");
    }
    let reading = read_from(text.as_bytes(), &Context::default(), &mut Nothing).unwrap();
    assert_eq!((reading.log.tasks.len(), reading.log.task(2)), (MOST_THREADS, None));
    assert_eq!((reading.processes.len(), reading.started.len()), (MOST_THREADS, MOST_THREADS));
    assert_eq!(reading.left_out["event not used: others"], 1);
    assert_eq!(reading.left_out[&format!("too many starts of threads and processes: {START}")], 97);
}
