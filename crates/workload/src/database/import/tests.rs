use super::*;
use proptest::prelude::*;

fn read(queries: &str) -> Trace {
    from_sql_log(queries, Vec::new(), None, 1).unwrap()
}

fn statements(trace: &Trace) -> Vec<(u64, &str)> {
    trace.measured().iter().map(|s| (s.pause_ns, trace.statement(s).text.as_str())).collect()
}

fn error(queries: &str) -> String {
    let error = from_sql_log(queries, Vec::new(), None, 1).unwrap_err();
    assert!(error.cure().is_some(), "{}", error.chain());
    error.chain()
}

#[test]
fn a_line_is_a_statement_and_blank_ones_and_comments_are_left_out() {
    let trace =
        read("\u{feff}SELECT 1;\n\n-- a note; not SQL\n  SELECT 2 -- why\r\nSELECT 1\n;;\n/* nothing */\nSELECT 3");
    assert_eq!(statements(&trace), [(0, "SELECT 1"), (0, "SELECT 2"), (0, "SELECT 1"), (0, "SELECT 3")]);
    // The same text is the same statement.
    assert_eq!(trace.statements.len(), 3);
}

#[test]
fn a_line_may_hold_several_statements_and_quotes_hide_their_ends() {
    let trace = read("BEGIN; INSERT INTO t VALUES ('a;b', \"c;\") ;COMMIT;\nSELECT ';' /* ; */ ; SELECT 2 -- ; x");
    let expected = ["BEGIN", "INSERT INTO t VALUES ('a;b', \"c;\")", "COMMIT", "SELECT ';'", "SELECT 2"];
    assert_eq!(statements(&trace).iter().map(|s| s.1).collect::<Vec<_>>(), expected);
}

#[test]
fn open_quotes_and_triggers_go_on_in_the_next_line() {
    let trigger =
        "CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN\n SELECT CASE WHEN 1 THEN 2 END;\n DELETE FROM u;\nEND";
    let trace =
        read(&format!("INSERT INTO t VALUES ('one\n\n-- two''\n')\n{trigger};\nSELECT /* a\nb */ 1\nCREATE TRIGGERS"));
    let expected = ["INSERT INTO t VALUES ('one\n\n-- two''\n')", trigger, "SELECT /* a\nb */ 1", "CREATE TRIGGERS"];
    assert_eq!(statements(&trace).iter().map(|s| s.1).collect::<Vec<_>>(), expected);
}

#[test]
fn times_between_lines_are_pauses() {
    let expected = [(0, "A"), (250_000_000, "B"), (0, "C"), (1_750_000_000, "D")];
    let calendar = "2024-12-31 23:59:59.5 A\n2024-12-31T23:59:59.75Z\tB; C\n2025-01-01 01:00:01.5+01:00|D\n";
    assert_eq!(statements(&read(calendar)), expected);
    assert_eq!(statements(&read("7.5 | A\n-- x\n7.75, B;C\n\n9.5 D")), expected);
    assert_eq!(statements(&read("7500 A\n7750,B;C\n9500\tD")), expected);
    let fixed = from_sql_log("1 A\n2 B;C", Vec::new(), Some(Delay::Fixed { ns: 9 }), 1).unwrap();
    assert_eq!(statements(&fixed), [(0, "A"), (9, "B"), (9, "C")]);
    // A time whose line has no statement leaves the pause to the next one that has.
    assert_eq!(statements(&read("1 A\n3 -- nothing\n7 B")), [(0, "A"), (6_000_000, "B")]);
}

#[test]
fn a_statement_goes_on_where_no_statement_ends_or_begins() {
    let statements_of = |log: &str| {
        let trace = read(log);
        let texts =
            trace.measured().iter().map(|s| trace.statement(s).text.split_whitespace().collect::<Vec<_>>().join(" "));
        texts.collect::<Vec<_>>()
    };
    let log = "CREATE TABLE t (\n  a INTEGER, -- first\n  b TEXT\n)\nINSERT INTO t\nVALUES (1, 'x'),\n (2, 'y')\n\
               SELECT\n a\nFROM t\nWHERE a = 1\n  AND b = 'x'\nWITH x AS (SELECT 1)\nSELECT * FROM x\nSELECT *\n\
               UPDATE t\nSET a = 2\nINSERT INTO t\nSELECT 3, 'z'\nUNION ALL\nSELECT 4, 'w'\nDELETE FROM t\n";
    let expected = [
        "CREATE TABLE t ( a INTEGER, -- first b TEXT )",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
        "SELECT a FROM t WHERE a = 1 AND b = 'x'",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "SELECT *",
        "UPDATE t SET a = 2",
        "INSERT INTO t SELECT 3, 'z' UNION ALL SELECT 4, 'w'",
        "DELETE FROM t",
    ];
    assert_eq!(statements_of(log), expected);
    assert_eq!(statements_of("1 SELECT a\nFROM t\n2 SELECT 2"), ["SELECT a FROM t", "SELECT 2"]);
    // What sqlite3's `.trace --profile` writes.
    assert_eq!(statements_of("SELECT 1; -- 12000 ns\nSELECT\n 2; -- 5 ns\n"), ["SELECT 1", "SELECT 2"]);
}

fn sql(trace: &Trace) -> Vec<(u64, String)> {
    trace.measured().iter().map(|s| (s.pause_ns, trace.sql(s))).collect()
}

#[test]
fn values_of_marks_stand_behind_their_statement() {
    let log =
        "INSERT INTO t VALUES (?, ?); -- [1, 'it''s']\nSELECT * FROM t WHERE a = ? -- args: (1,)\nSELECT 2 -- [3]\n";
    let expected = ["INSERT INTO t VALUES (1, 'it''s')", "SELECT * FROM t WHERE a = 1", "SELECT 2"];
    assert_eq!(sql(&read(log)), expected.map(|text| (0, text.to_owned())));
    assert_eq!(error("SELECT 1\nSELECT ?"), "line 2: it has 1 `?` but 0 values for them");
    assert_eq!(error("SELECT ?; -- [1, 2]"), "line 1: it has 1 `?` but 2 values for them");
    assert_eq!(error("SELECT ?; -- [x]"), "line 1: `x` is not a value");
}

/// Lines as Android's sources format them: `sqliteTraceV2Callback` in android_database_SQLiteConnection.cpp, and
/// `Operation.describe` in SQLiteConnection.java.
#[test]
fn logs_of_android_are_known_by_their_lines() {
    let log = "--------- beginning of main\n\
        05-17 08:30:00.250   812   812 V SQLiteStatements: /data/a/app.db: \"INSERT INTO t VALUES(1,'\"x\"')\"\n\
        05-17 08:30:00.250   812   812 V SQLiteTime: /data/a/app.db: \"INSERT INTO t VALUES(?,?)\" took 0.1 ms\n\
        05-17 08:30:00.260   812   830 D Other: nothing\n\
        05-17 08:30:00.500   812   812 V SQLiteStatements: /data/a/app.db: \"COMMIT;\"\n";
    let expected = [(0, "INSERT INTO t VALUES(1,'\"x\"')".to_owned()), (250_000_000, "COMMIT".to_owned())];
    assert_eq!(sql(&read(log)), expected);
    let brief = "D/SQLiteDatabase(  812): executeForCursorWindow took 1ms - succeeded, \
                 sql=\"SELECT * FROM t WHERE a=? AND b=?\", bindArgs=[\"x, y\", 5]\n\
                 D/SQLiteDatabase(  812): prepare took 0ms - succeeded, sql=\"SELECT ?\"\n\
                 D/SQLiteDatabase(  812): execute took 0ms - succeeded, sql=\"SELECT 1\"\n";
    let expected = [(0, "SELECT * FROM t WHERE a='x, y' AND b=5".to_owned()), (0, "SELECT 1".to_owned())];
    assert_eq!(sql(&read(brief)), expected);
    // What was compiled was not executed.
    let prepared = "    0: [2024-05-17 08:30:01.000] prepare took 0ms - succeeded, sql=\"DELETE FROM t\", path=/a.db\n";
    assert_eq!(error(prepared), "the log has no statement");
    let latest_first = "  Most recently executed operations:\n\
        \x20   0: [2024-05-17 08:30:01.000] execute took 1ms - succeeded, sql=\"COMMIT;\"\n\
        \x20   1: [2024-05-17 08:30:00.750] execute took 1ms - succeeded, sql=\"BEGIN\"\n";
    assert_eq!(sql(&read(latest_first)), [(0, "BEGIN".to_owned()), (250_000_000, "COMMIT".to_owned())]);
    let log = "12-31 23:59:59.900   812   812 V SQLiteStatements: /data/a/app.db: \"SELECT 1\"\n\
        01-01 00:00:00.100   812   812 V SQLiteStatements: /data/a/app.db: \"SELECT 2\"\n\
        12-31 23:59:59.950   812   813 V SQLiteStatements: /data/a/app.db: \"SELECT 3\"\n\
        01-01 00:00:00.300   812   812 V SQLiteStatements: /data/a/app.db: \"SELECT 4\"\n";
    let expected = [(0, "SELECT 1"), (200_000_000, "SELECT 2"), (0, "SELECT 3"), (350_000_000, "SELECT 4")];
    assert_eq!(statements(&read(log)), expected);
    let blob = "D/x: execute took 1ms - succeeded, sql=\"INSERT INTO t VALUES (?)\", bindArgs=[<byte[]>]\n";
    assert_eq!(error(blob), "line 1: `<byte[]>` is not a value");
}

/// As `OperationLog.dump` of SQLiteConnection.java prints what each connection has done.
#[test]
fn lists_of_androids_connections_are_one_log_in_the_order_of_time() {
    let connection = |operations: &[(&str, &str)]| {
        let line = |(n, (ms, sql)): (usize, &(&str, &str))| {
            format!("        {n}: [2024-05-17 08:30:01.{ms}] execute took 0ms - succeeded, sql=\"{sql}\", path=/a.db\n")
        };
        let lines: String = operations.iter().enumerate().map(line).collect();
        format!("    Connection #0:\n      Most recently executed operations:\n{lines}\n")
    };
    let one = [("002", "SELECT count(*)"), ("001", "UPDATE a*2"), ("001", "UPDATE a+1"), ("000", "CREATE")];
    let expected = [(0, "CREATE"), (1_000_000, "UPDATE a+1"), (0, "UPDATE a*2"), (1_000_000, "SELECT count(*)")];
    assert_eq!(statements(&read(&connection(&one))), expected);
    assert_eq!(statements(&read(&connection(&one[1..3]))), [(0, "UPDATE a+1"), (0, "UPDATE a*2")]);
    let two = connection(&[("004", "E"), ("001", "B")]) + &connection(&[("003", "D"), ("001", "C"), ("000", "A")]);
    let expected = [(0, "A"), (1_000_000, "B"), (0, "C"), (2_000_000, "D"), (1_000_000, "E")];
    assert_eq!(statements(&read(&two)), expected);
}

#[test]
fn a_statement_of_androids_may_have_several_lines_and_all_are_of_one_database() {
    let log = "05-17 08:30:00.250   812   812 V SQLiteStatements: /data/a/app.db: \"INSERT INTO \"t\"\n\
        05-17 08:30:00.250   812   813 V SQLiteStatements: /data/a/app.db: \"SELECT 1\"\n\
        05-17 08:30:00.250   812   812 V SQLiteStatements: VALUES('{\"a\": \"b\",\n\
        05-17 08:30:00.251   812   830 D Other: nothing\n\
        05-17 08:30:00.250   812   812 V SQLiteStatements: \n\
        05-17 08:30:00.250   812   812 V SQLiteStatements: c')\"\n\
        05-17 08:30:00.500   812   812 V SQLiteStatements: /data/a/app.db: \"COMMIT;\"\n";
    let insert = "INSERT INTO \"t\"\nVALUES('{\"a\": \"b\",\n\nc')";
    let expected = [(0, insert), (0, "SELECT 1"), (250_000_000, "COMMIT")];
    assert_eq!(statements(&read(log)), expected);
    let timed = "V/SQLiteTime(  812): app.db: \"SELECT\nV/SQLiteTime(  812): 1\" took 0.1 ms\n";
    assert_eq!(statements(&read(timed)), [(0, "SELECT\n1")]);
    let brief = |pid: &str, text: &str| format!("V/SQLiteStatements(  {pid}): {text}\n");
    let whole = brief("812", "app.db: \"SELECT 1\"");
    let cut = whole.clone() + &brief("812", "app.db: \"SELECT");
    assert_eq!(error(&cut), "line 2: its statement is cut off");
    let late = brief("812", "FROM t\"") + &whole;
    assert_eq!(error(&late), "line 1: it goes on with a statement whose beginning is not in the log");
    let two = whole.clone() + &brief("900", "/data/b/other.db: \"SELECT 2\"");
    assert_eq!(error(&two), "the log has statements on several databases: /data/b/other.db, app.db");
}

#[test]
fn what_is_not_understood_is_left_out_when_told() {
    let skip = BTreeMap::from([(5, "no such table: u".to_owned())]);
    let imported =
        import("SELECT 1\nSELECT ?\nSELECT 'x\n2 SELECT\nSELECT * FROM u\nSELECT 2", Vec::new(), None, 1, Some(&skip));
    let imported = imported.unwrap();
    assert_eq!(statements(&imported.trace), [(0, "SELECT 1"), (0, "SELECT 2")]);
    assert_eq!(imported.lines, [1, 6]);
    assert_eq!(imported.skipped.iter().map(|s| s.0).collect::<Vec<_>>(), [2, 3, 4, 5]);
}

/// Each would take minutes, were something looked for anew from every line on.
#[test]
fn long_logs_take_time_by_their_length() {
    let begin = pocketstone_testing::bench::cpu();
    let lines = 100_000;
    let table = format!("CREATE TABLE t (\n{}a)", "-- a comment\n".repeat(lines));
    assert_eq!(read(&table).measured().len(), 1);
    let blank = format!("SELECT 1,{}2\nSELECT 3", "\n".repeat(lines));
    assert_eq!(read(&blank).measured().len(), 2);
    for open in ["x /*\n", "x [\n"] {
        let log = format!("SELECT 1\n{}", open.repeat(lines));
        let imported = import(&log, Vec::new(), None, 1, Some(&BTreeMap::new())).unwrap();
        assert_eq!((imported.lines, imported.skipped.len()), (vec![1], lines));
    }
    // Each goes on to the last line, and nothing is understood there.
    for (open, end) in [("x [\n", "] 'y"), ("x (\n", ") 'y"), ("CREATE TRIGGER a BEGIN x;\n", "")] {
        let log = format!("SELECT 1\n{}{end}\nSELECT 2\n", open.repeat(lines));
        let imported = import(&log, Vec::new(), None, 1, Some(&BTreeMap::new())).unwrap();
        assert_eq!(imported.lines[0], 1);
        assert!(imported.skipped.len() >= lines, "{open}");
    }
    // Of this thread's processor: a busy machine may take longer.
    let took = pocketstone_testing::bench::cpu() - begin;
    assert!(took < std::time::Duration::from_secs(30), "{took:?}");
}

#[test]
fn errors_name_the_line() {
    for (queries, expected) in [
        ("A\n\nB 'x\ny", "line 3: a quote is not closed"),
        ("A\nB /* x\ny", "line 2: a comment is not closed"),
        ("A\nCREATE TRIGGER r BEGIN\nx;", "line 2: a trigger has no END"),
        ("1 A\n\nB", "line 3: it begins with no time, but the first line with a time in milliseconds"),
        ("A\n1 B", "line 2: it begins with a time in milliseconds, but the first line with no time"),
        ("1 A\n1.5 B", "line 2: it begins with a time in seconds, but the first line with a time in milliseconds"),
        ("1.5 A\n1.25 B", "line 2: its time is before that of the previous line"),
        ("2024-05-32 00:00:00 A", "line 1: `2024-05-32 00:00:00 A` does not begin with a calendar time"),
        ("1 A\n2B", "line 2: no separator between a time in milliseconds and the statement"),
        ("0 A\n99999999999999999 B", "line 2: its time is out of range"),
    ] {
        assert_eq!(error(queries), expected);
    }
    for nothing in ["", "\n-- x\n;", "1 \n2 ;"] {
        assert_eq!(error(nothing), "the log has no statement");
    }
}

#[test]
fn a_log_of_which_everything_is_skipped_says_which_lines_and_why() {
    let skip = BTreeMap::from([(1, "no such table: t".to_owned())]);
    let error = import("SELECT * FROM t\nSELECT 'x", Vec::new(), None, 1, Some(&skip)).map(drop).unwrap_err();
    assert_eq!(error.message(), "all 2 statements of the log were skipped");
    assert!(error.chain().contains("line 1: no such table: t") && error.chain().contains("line 2: "), "{error:?}");
}

#[test]
fn the_image_is_an_sqlite_file_or_none() {
    let image = [b"SQLite format 3\0".as_slice(), &[1, 2, 3]].concat();
    let trace = from_sql_log("A", image.clone(), None, 1).unwrap();
    assert_eq!(Trace::decode(&trace.encode()).unwrap().image, image);
    let wrong = from_sql_log("A", b"SQLite format 2\0".to_vec(), None, 1).unwrap_err();
    assert!(wrong.message().contains("not a SQLite file") && wrong.cure().is_some());
}

proptest! {
    /// Statements from parts without quotes of their own, joined in every way that keeps them apart.
    #[test]
    fn statements_come_back_however_they_are_parted(
        parts in prop::collection::vec(
            (prop::sample::select(vec!["SELECT", "'a;b\n--'", "\"q;\"", "x", "[;]", "1,2", "/* ; */ y"]), 0usize..4),
            1..20,
        )
    ) {
        let ends = [";", "\n", ";\n", " -- end; 'x\n"];
        let log: String = parts.iter().map(|(part, end)| format!("S {part}{}", ends[*end])).collect();
        let expected: Vec<String> = parts.iter().map(|(part, _)| format!("S {part}")).collect();
        let trace = from_sql_log(&log, Vec::new(), None, 1).unwrap();
        prop_assert_eq!(statements(&trace).iter().map(|s| s.1).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn no_log_panics(queries in "[-0-9a-zA-Z;'\" \n:.,|*/?]{0,80}") {
        let _ = from_sql_log(&queries, Vec::new(), None, 1);
    }
}
