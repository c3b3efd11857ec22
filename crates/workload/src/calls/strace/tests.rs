use super::*;
use crate::calls::text::{decode, encode};
use crate::content::NewFile;
use crate::{Operation, Purpose};

fn of(text: &str, below: &str, pauses: bool) -> Result<Calls> {
    calls(text, "app.strace", &Selection { below: below.into(), pauses })
}

/// What is replayed of a text, as a file of calls has it, without its head.
fn replayed(text: &str) -> String {
    let made = of(text, "", false).unwrap();
    let encoded = encode(&made);
    assert_eq!(decode(&encoded, "its own").unwrap(), made, "a file of calls is read as what was written");
    encoded.lines().skip(2).filter(|line| !line.starts_with("left-out")).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_journal_is_made_written_and_removed_beside_its_database() {
    // SQLite's calls of one transaction, as strace 6.1 writes them with -f -T -ttt -y -o.
    let text = include_str!("journal.strace");
    let expected = "file 8192 t.db; name t.db-journal; open 0 write; read 0 0 100; open 1 new; write 1 0 512; \
                    sync-data 1; sync-folder; write 0 8192 4096; sync 0; close 1; delete 1; close 0";
    assert_eq!(replayed(text), expected);
    let made = of(text, "/d", true).unwrap();
    let pauses: Vec<u64> = made
        .operations
        .iter()
        .filter_map(|operation| match operation {
            Operation::Pause { ns } => Some(*ns),
            _ => None,
        })
        .collect();
    // From the end of each call to the start of the next that is replayed: 150 to 200 us, 210 to 500, and so on. The
    // folder's open is a part of sync-folder's pause, from 900 to 1000.
    let expected = [50, 290, 50, 90, 100, 160, 90, 100, 90, 300];
    assert_eq!(pauses[..9], expected.map(|us| us * 1000)[..9]);
    assert_eq!(made.left_out["calls that failed"], 1);
}

#[test]
fn lines_that_other_threads_cut_are_put_together() {
    let text = "[pid 11] 10:00:00.000000 openat(AT_FDCWD, \"/d/a\", O_RDONLY <unfinished ...>\n\
                [pid 12] 10:00:00.000010 openat(AT_FDCWD, \"/d/b\", O_RDONLY) = 3 <0.000002>\n\
                [pid 11] 10:00:00.000020 <... openat resumed>) = 4 <0.000020>\n\
                [pid 12] 10:00:00.000030 read(3,  <unfinished ...>\n\
                [pid 11] 10:00:00.000040 read(4, \"y\", 4096) = 700 <0.000002>\n\
                [pid 12] 10:00:00.000050 <... read resumed>\"x\", 4096) = 4096 <0.000020>\n\
                [pid 12] 10:00:00.000060 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---\n\
                [pid 12] 10:00:00.000070 read(3, \"\", 4096) = 0 <0.000002>\n";
    let expected = "file 4096 b; file 700 a; open 0 read; open 1 read; read 1 0 700; read 0 0 4096; read 0 4096 0";
    assert_eq!(replayed(text), expected);
}

#[test]
fn descriptors_are_doubled_inherited_shared_and_closed_by_exec() {
    let text = "1 openat(AT_FDCWD, \"/d/log\", O_WRONLY|O_CREAT|O_APPEND|O_CLOEXEC, 0600) = 3\n\
                1 openat(AT_FDCWD, \"/d/x\", O_RDWR|O_CREAT|O_TRUNC, 0600) = 4\n\
                1 dup2(4, 4) = 4\n\
                1 dup2(4, 9) = 9\n\
                1 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7f) = 2\n\
                1 close(4) = 0\n\
                2 write(9, \"1234\", 4) = 4\n\
                1 write(9, \"567\", 3) = 3\n\
                2 lseek(4, 1, SEEK_SET) = 1\n\
                2 read(4, \"234567\", 100) = 6\n\
                2 execve(\"/bin/true\", [\"true\"], 0x7f /* 3 vars */) = 0\n\
                1 write(3, \"line\", 4) = 4\n\
                2 write(3, \"gone\", 4) = -1 EBADF (Bad file descriptor)\n\
                2 +++ exited with 0 +++\n\
                1 close(9) = 0\n\
                1 rename(\"/d/x\", \"/d/y\") = 0\n\
                1 unlink(\"/d/log\") = 0\n";
    let expected = "name log; name x; name y; create 0; open 1 new; write 1 0 4; write 1 4 3; read 1 1 6; append 0 4; \
                    close 1; rename 1 2; delete 0";
    assert_eq!(replayed(text), expected);
}

#[test]
fn threads_share_descriptors_and_what_is_relative_has_its_folder() {
    let text = "7 chdir(\"/d/in\") = 0\n\
                7 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, child_tid=0x7f} <unfinished ...>\n\
                8 openat(AT_FDCWD, \"../a\\40b\\\"\", O_RDWR) = 5\n\
                7 <... clone3 resumed> => {parent_tid=[8]}, 88) = 8\n\
                7 pwritev(5, [{iov_base=\"a\", iov_len=10}, {iov_base=\"b\", iov_len=20}], 2, 100) = 30\n\
                7 stat(\"other\", {st_mode=S_IFREG|0600, st_size=77, ...}) = 0\n\
                7 stat(\"folder\", {st_mode=S_IFDIR|0700, st_size=4096, ...}) = 0\n\
                7 stat(\"null\", {st_mode=S_IFCHR|0666, st_rdev=makedev(0x1, 0x3), ...}) = 0\n";
    let expected = "file 0 a b\"; file 77 in%other; open 0 write; write 0 100 30; look-up 1";
    assert_eq!(replayed(text), expected);
}

#[test]
fn a_thread_and_a_process_that_end_before_the_call_that_started_them_returns_keep_nothing_open() {
    for (flags, used) in [("CLONE_VM|CLONE_FILES|CLONE_THREAD", 9), ("SIGCHLD", 8)] {
        let text = format!(
            "7 openat(AT_FDCWD, \"/d/f\", O_RDWR) = 5\n\
             7 clone3({{flags={flags}}} <unfinished ...>\n\
             8 pwrite64(5, \"x\", 10, 0) = 10\n\
             8 +++ exited with 0 +++\n\
             7 <... clone3 resumed>, 88) = 8\n\
             7 read(5, \"x\", 4) = 4\n\
             7 clone3({{flags={flags}}}, 88) = {used}\n\
             {used} pwrite64(5, \"x\", 20, 0) = 20\n\
             {used} +++ exited with 0 +++\n\
             7 +++ exited with 0 +++\n"
        );
        // The number may be another's later.
        let expected = "file 0 f; open 0 write; write 0 0 10; read 0 0 4; write 0 0 20; close 0";
        assert_eq!(replayed(&text), expected, "{flags}");
    }
}

#[test]
fn a_path_without_a_folder_starts_where_other_calls_say_that_the_process_is() {
    let text = "openat(AT_FDCWD</d/in>, \"new\", O_RDWR|O_CREAT, 0600) = 3</d/in/new>\nclose(3</d/in/new>) = 0\n\
                rename(\"new\", \"../other\") = 0\nunlink(\"/d/other\") = 0\n";
    assert_eq!(replayed(text), "name in%new; name other; open 0 new; close 0; rename 0 1; delete 1");
}

#[test]
fn names_are_the_same_in_arguments_and_behind_descriptors() {
    // As strace 6.1 writes `café.db`, `x > y`, `"q"` and `a[b`.
    for (name, replayed_name) in
        [("caf\\303\\251.db", "café.db"), ("x \\76 y", "x > y"), ("\\\"q\\\"", "\"q\""), ("a[b", "a[b"), ("a]b", "a]b")]
    {
        let text = format!(
            "openat(AT_FDCWD</d/{name}>, \"{name}\", O_RDWR|O_CREAT, 0600) = 3</d/{name}/{name}>\n\
             write(3</d/{name}/{name}>, \"x\", 1) = 1\n\
             read(7</d/{name}/z>, \"x\", 1) = 1\n\
             close(3</d/{name}/{name}>) = 0\n\
             unlink(\"/d/{name}/{name}\") = 0\n"
        );
        let expected = format!(
            "file 1 z; name {replayed_name}; open 1 new; write 1 0 1; open 0 write; read 0 0 1; close 1; delete 1"
        );
        assert_eq!(replayed(&text), expected);
    }
    // What is no path has brackets in pairs, with arrows in them.
    let text = "open(\"/d/f\", O_RDONLY) = 3\nread(4<TCP:[127.0.0.1:1->127.0.0.1:2]>, \"\", 9) = 9\nclose(3) = 0\n";
    assert_eq!(replayed(text), "file 0 f; open 0 read; close 0");
}

#[test]
fn descriptors_may_be_closed_by_the_next_exec() {
    let text = "1 openat(AT_FDCWD, \"/d/f\", O_RDWR) = 3\n\
                1 close_range(3, 4294967295, CLOSE_RANGE_CLOEXEC) = 0\n\
                1 write(3, \"1234\", 4) = 4\n\
                1 execve(\"/bin/true\", [\"true\"], 0x7f /* 3 vars */) = 0\n\
                1 write(3, \"12\", 2) = 2\n";
    assert_eq!(replayed(text), "file 0 f; open 0 write; write 0 0 4; close 0");
    let closed = text.replace("CLOSE_RANGE_CLOEXEC", "0");
    assert_eq!(replayed(&closed), "file 0 f; open 0 write; close 0");
}

#[test]
fn folders_behind_symbolic_links_are_where_they_lead() {
    // /d/current is a link to /d/v1, and /d/one/a to /d/two/a, which /d/one/b shows.
    let text = "openat(AT_FDCWD</>, \"/d/current/f\", O_RDWR|O_CREAT, 0600) = 3</d/v1/f>\n\
                rename(\"/d/current/f\", \"/d/current/g\") = 0\n\
                openat(AT_FDCWD</>, \"/d/v1/g\", O_RDONLY) = 4</d/v1/g>\n\
                unlink(\"/d/current/g\") = 0\n\
                openat(AT_FDCWD</>, \"/d/one/a\", O_RDWR) = 5</d/two/a>\n\
                openat(AT_FDCWD</>, \"/d/one/b\", O_RDWR) = 6</d/one/b>\n\
                unlink(\"/d/one/b\") = 0\n";
    let expected = "file 0 two%a; file 0 one%b; name v1%f; name v1%g; open 2 new; rename 2 3; open 3 read; delete 3; \
                    open 0 write; open 1 write; delete 1";
    assert_eq!(replayed(text), expected);
    // /run is where /var/run leads to, and /var is no link.
    let text = "openat(AT_FDCWD</>, \"/var/run\", O_RDONLY|O_DIRECTORY) = 3</run>\n\
                openat(AT_FDCWD</>, \"/var/f\", O_RDWR|O_CREAT|O_EXCL, 0600) = 4</var/f>\n\
                unlink(\"/var/f\") = 0\n\
                unlink(\"/var/run/g\") = 0\n";
    assert_eq!(replayed(text), "name f; open 0 new; delete 0");
}

#[test]
fn files_without_a_name_and_with_room_made_for_them_are_replayed() {
    let calls = "write(3, \"\", 10) = 10\nfsync(3) = 0\nclose(3) = 0\n";
    let text = format!("open(\"/d/f\", O_RDONLY) = 9\nopen(\"/d\", O_RDWR|O_TMPFILE, 0600) = 3\n{calls}");
    let expected = "file 0 f; name #1; open 0 read; open 1 new; write 1 0 10; sync 1; close 1";
    assert_eq!(replayed(&text), expected);
    let text = "open(\"/d/f\", O_RDWR|O_CREAT|O_EXCL, 0600) = 3\nfallocate(3, 0, 4096, 61440) = 0\n\
                pread64(3, \"\", 10, 50000) = 10\nfallocate(3, 0, 0, 4096) = 0\n\
                fallocate(3, FALLOC_FL_KEEP_SIZE, 0, 99999) = 0\n";
    assert_eq!(replayed(text), "name f; open 0 new; truncate 0 65536; read 0 50000 10");
    assert_eq!(of(text, "", false).unwrap().left_out["fallocate"], 1);
    // Nothing recorded says how the bytes came there.
    let text = "open(\"/d/f\", O_RDWR|O_CREAT|O_EXCL, 0600) = 3\npread64(3, \"\", 10, 5) = 10\n";
    let left_out = of(text, "", false).unwrap().left_out;
    assert_eq!(left_out["bytes read behind where no recorded call made the file end"], 1);
}

#[test]
fn sizes_are_those_that_nothing_in_the_trace_made() {
    let one = |lines: &str| {
        let text = format!("open(\"/d/f\", O_RDWR) = 3\n{lines}");
        of(&text, "", false).unwrap().files[0].bytes
    };
    assert_eq!(one("pread64(3, \"\", 10, 990) = 10\n"), 1000);
    assert_eq!(one("lseek(3, 0, SEEK_END) = 5000\n"), 5000);
    assert_eq!(one("fstat(3, {st_mode=S_IFREG|0644, st_size=123, ...}) = 0\n"), 123);
    // What was written first was not there.
    assert_eq!(one("pwrite64(3, \"\", 100, 0) = 100\npread64(3, \"\", 50, 0) = 50\n"), 0);
    assert_eq!(one("pwrite64(3, \"\", 100, 0) = 100\npread64(3, \"\", 100, 50) = 100\n"), 150);
    assert_eq!(one("ftruncate(3, 10) = 0\nfstat(3, {st_mode=S_IFREG|0644, st_size=10, ...}) = 0\n"), 0);
    // Open for creation alone does not say whether there is a file; a size does.
    let open = "open(\"/d/f\", O_RDWR|O_CREAT, 0600) = 3\n";
    let with = |lines: &str| replayed(&format!("{open}{lines}"));
    assert_eq!(with("read(3, \"\", 10) = 0\n"), "name f; open 0 new; read 0 0 0");
    assert_eq!(with("read(3, \"\", 10) = 10\n"), "file 10 f; open 0 write; read 0 0 10");
}

#[test]
fn the_systems_files_are_left_out_and_a_folder_can_be_chosen() {
    let text = "openat(AT_FDCWD, \"/etc/ld.so.cache\", O_RDONLY|O_CLOEXEC) = 3\nread(3, \"\", 9) = 9\nclose(3) = 0\n\
                openat(AT_FDCWD, \"/home/a/f\", O_RDONLY) = 3\nread(3, \"\", 8) = 8\nclose(3) = 0\n\
                openat(AT_FDCWD, \"/home/ab/f\", O_RDONLY) = 3\nread(3, \"\", 7) = 7\n";
    let names = |below: &str| {
        let calls = of(text, below, false)?;
        Ok::<_, Error>(
            calls.files.into_iter().map(|NewFile { name, bytes }| format!("{name} {bytes}")).collect::<Vec<_>>(),
        )
    };
    assert_eq!(names("").unwrap(), ["a%f 8", "ab%f 7"]);
    assert_eq!(names("/home/a").unwrap(), ["f 8"]);
    assert_eq!(names("/etc").unwrap(), ["ld.so.cache 9"]);
    let relative = format!("{text}open(\"g\", O_RDONLY) = 9\nread(9, \"\", 6) = 6\n");
    let files = of(&relative, "", false).unwrap().files.into_iter().map(|file| file.name);
    assert_eq!(files.collect::<Vec<_>>(), ["home%a%f", "home%ab%f", ".%g"]);
    let error = names("/srv").unwrap_err();
    assert!(error.chain().contains("no recorded call is on a file below /srv"), "{}", error.chain());
}

#[test]
fn a_file_that_is_open_twice_has_two_numbers() {
    let text = "open(\"/d/f\", O_RDWR) = 3\nopen(\"/d/f\", O_RDONLY) = 4\nwrite(3, \"\", 10) = 10\n\
                read(4, \"\", 10) = 10\nclose(3) = 0\nopen(\"/d/f\", O_RDONLY) = 3\nread(3, \"\", 5) = 5\n";
    let expected = "file 0 f; name f; open 0 write; open 1 read; write 0 0 10; read 1 0 10; close 0; open 0 read; \
                    read 0 0 5";
    assert_eq!(replayed(text), expected);
}

#[test]
fn what_is_wrong_is_named_by_file_and_line() {
    let good = "open(\"/d/f\", O_RDONLY) = 3\n";
    for (wrong, why) in [
        ("this is a text\n", "app.strace line 2: not a system call"),
        ("read(3, \"abc\n", "app.strace line 2: a text has no end"),
        ("read(3, \"abc\", 3) 3\n", "app.strace line 2: the call has no result"),
        ("read(3, \"abc\", 3) = three\n", "app.strace line 2: the result is not understood"),
        ("open(\"/d/very\"..., O_RDONLY) = 4\n", "app.strace line 2: a path is cut off"),
        (
            "0.000100 close(3) = 0\n0.000020 read(4, \"\", 3) = 0\n",
            "app.strace line 3: the time is since the line before",
        ),
        ("12:00:00.12x read(3, \"abc\", 3) = 3\n", "app.strace line 2: the time is not understood"),
    ] {
        let error = of(&format!("{good}{wrong}{good}"), "", true).unwrap_err();
        assert!(error.chain().contains(why) && error.cure().is_some_and(|c| c.contains("-ttt")), "{}", error.chain());
    }
    // The recorder was killed.
    assert_eq!(replayed(&format!("{good}read(3, \"abc\", 3) = 3\nread(3, \"ab")), "file 3 f; open 0 read; read 0 0 3");
    assert!(of("", "", true).unwrap_err().message().contains("line 1"));
}

#[test]
fn times_of_day_go_on_after_midnight_and_without_times_there_are_no_pauses() {
    let text = "23:59:59.999000 open(\"/d/f\", O_RDONLY) = 3 <0.000100>\n00:00:00.001000 close(3) = 0 <0.000010>\n";
    let operations = of(text, "", true).unwrap().operations;
    assert_eq!(operations[1], Operation::Pause { ns: 1_900_000 });
    let untimed = of("open(\"/d/f\", O_RDONLY) = 3 <0.000100>\nclose(3) = 0 <0.000010>\n", "", true).unwrap();
    let expected = [Operation::Open { file: 0, purpose: Purpose::Read }, Operation::Close { file: 0 }];
    assert_eq!(untimed.operations, expected);
}

#[test]
fn bytes_that_the_kernel_moves_are_at_the_places_that_the_call_was_given() {
    // As strace 6.1 writes them: what the pointer led to before the call, and after it.
    let open = "open(\"/d/a\", O_RDONLY) = 3\nopen(\"/d/b\", O_WRONLY|O_CREAT|O_EXCL, 0600) = 4\n";
    let with = |line: &str| replayed(&format!("{open}{line}\n"));
    let expected = "file 36864 a; name b; open 0 read; open 1 new; read 0 32768 4096; write 1 0 4096";
    assert_eq!(with("sendfile(4, 3, [32768] => [36864], 4096) = 4096"), expected);
    assert_eq!(with("sendfile(4, 3, [32768 => 36864], 4096) = 4096"), expected);
    assert_eq!(with("copy_file_range(3, [32768], 4, NULL, 4096, 0) = 4096"), expected);
    let placed = expected.replace("write 1 0", "write 1 512");
    assert_eq!(with("copy_file_range(3, [32768] => [36864], 4, [512] => [4608], 4096, 0) = 4096"), placed);
    let current = expected.replace("36864", "4096").replace("32768", "0");
    assert_eq!(with("sendfile(4, 3, NULL, 4096) = 4096"), current);
    // An address says nothing of the place.
    let error = of(&format!("{open}sendfile(4, 3, 0x7ffc1234, 4096) = 4096\n"), "", false).unwrap_err();
    assert!(error.chain().contains("line 3: the call's arguments are not understood"), "{}", error.chain());
}

#[test]
fn sizes_and_times_that_no_machine_has_are_refused_with_their_line() {
    let open = "open(\"/d/f\", O_RDWR) = 3\n";
    for (line, why) in [
        ("pread64(3, \"\", 5, 18446744073709551615) = 5", "no file has so many bytes"),
        ("pwrite64(3, \"\", 5, 9223372036854775805) = 5", "no file has so many bytes"),
        ("ftruncate(3, 9223372036854775808) = 0", "no file has so many bytes"),
        ("fstat(3, {st_mode=S_IFREG|0644, st_size=9223372036854775808, ...}) = 0", "no file has so many bytes"),
        ("0:18446744073 read(3, \"\", 5) = 5", "the time is not understood"),
        ("4611686018.5 read(3, \"\", 5) = 5", "the time is not understood"),
    ] {
        let error = of(&format!("{open}{line}\n"), "", true).unwrap_err();
        assert!(error.chain().contains(&format!("app.strace line 2: {why}")), "{line}: {}", error.chain());
    }
    // The last place that there is.
    let last = format!("{open}pread64(3, \"\", 5, 9223372036854775802) = 5\n");
    assert_eq!(replayed(&last), "file 9223372036854775807 f; open 0 write; read 0 9223372036854775802 5");
}
