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
fn errors_name_the_line() {
    for (queries, expected) in [
        ("A\n\nB 'x\ny", "line 3: a quote begins that never closes"),
        ("A\nB /* x\ny", "line 2: a comment begins that never closes"),
        ("A\nCREATE TRIGGER r BEGIN\nx;", "line 2: a trigger begins that has no END"),
        ("1 A\n\nB", "line 3: it begins with no time, the first line with a time in milliseconds"),
        ("A\n1 B", "line 2: it begins with a time in milliseconds, the first line with no time"),
        ("1 A\n1.5 B", "line 2: it begins with a time in seconds, the first line with a time in milliseconds"),
        ("1.5 A\n1.25 B", "line 2: its time is before that of the line above"),
        ("2024-05-32 00:00:00 A", "line 1: `2024-05-32 00:00:00 A` does not begin with a calendar time"),
        ("1 A\n2B", "line 2: nothing parts a time in milliseconds from the statement"),
        ("0 A\n99999999999999999 B", "line 2: its time is too far"),
    ] {
        assert_eq!(error(queries), expected);
    }
    for nothing in ["", "\n-- x\n;", "1 \n2 ;"] {
        assert_eq!(error(nothing), "the log has no statement");
    }
}

#[test]
fn the_image_is_an_sqlite_file_or_none() {
    let image = [b"SQLite format 3\0".as_slice(), &[1, 2, 3]].concat();
    let trace = from_sql_log("A", image.clone(), None, 1).unwrap();
    assert_eq!(Trace::decode(&trace.encode()).unwrap().image, image);
    let wrong = from_sql_log("A", b"SQLite format 2\0".to_vec(), None, 1).unwrap_err();
    assert!(wrong.message().contains("no SQLite file") && wrong.cure().is_some());
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
