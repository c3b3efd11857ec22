use super::*;
use crate::database::{Value, prepare};
use pocketstone_core::database::{DatabaseWorkload, Recipe};
use pocketstone_core::pattern::Pattern;
use proptest::prelude::*;

fn read(json: &str) -> Trace {
    from_published(json.as_bytes(), None, 1).unwrap()
}

fn shown(trace: &Trace) -> Vec<(u64, &str)> {
    trace.measured().iter().map(|s| (s.pause_ns, trace.statement(s).text.as_str())).collect()
}

#[test]
fn breaks_become_pauses_and_texts_statements() {
    let trace = read(
        r#"{"init": [{"sql": "C"}, {"sql": "I"}, {"sql": "I"}], "benchmark": [
            {"op": "break", "delta": 2}, {"op": "query", "sql": "A"},
            {"delta": 0.25, "op": "break"}, {"op": "break", "delta": 1}, {"op": "query", "sql": "B"},
            {"op": "query", "sql": "A", "joined": true}, {"op": "break", "delta": 9}]}"#,
    );
    assert_eq!(shown(&trace), [(2_000_000, "A"), (1_250_000, "B"), (0, "A")]);
    assert_eq!((trace.loading().len(), trace.operations(), trace.statements.len()), (3, 2, 4));
    assert!(trace.statements.iter().all(|s| s.kind == StatementKind::Sql));
    let json = br#"{"init": [], "benchmark": [{"op": "query", "sql": "A"}, {"op": "query", "sql": "A"}]}"#;
    let replaced = from_published(json, Some(Delay::Fixed { ns: 7 }), 1).unwrap();
    assert_eq!(shown(&replaced), [(0, "A"), (7, "A")]);
}

#[test]
fn errors_name_the_element() {
    let of = |init: &str, benchmark: &str| format!(r#"{{"init": [{init}], "benchmark": [{benchmark}]}}"#);
    for (json, expected) in [
        (r#"{"benchmark": []}"#.to_owned(), "not a published workload: it has no list `init`"),
        (r#"{"init": []}"#.to_owned(), "not a published workload: it has no list `benchmark`"),
        (of(r#"{"sql": "C"}, 7"#, ""), "init[1]: it has no `sql`"),
        (of(r#"{"sql": 7}"#, ""), "init[0]: its `sql` is 7, not text"),
        (of(r#"{"sql": " "}"#, ""), "init[0]: its `sql` is empty"),
        (of("", r#"{"sql": "A"}"#), "benchmark[0]: it has no `op`, query or break"),
        (of("", r#"{"op": "wait"}"#), "benchmark[0]: its `op` is `wait`, not query or break"),
        (of("", r#"{"op": "query"}"#), "benchmark[0]: it has no `sql`"),
        (of("", r#"{"op": "query", "sql": "A", "joined": 1}"#), "benchmark[0]: its `joined` is 1, not true or false"),
        (of("", r#"{"op": "break"}"#), "benchmark[0]: it has no `delta`, milliseconds"),
        (of("", r#"{"op": "break", "delta": "1"}"#), "benchmark[0]: its `delta` is \"1\", not a number"),
        (
            of("", r#"{"op": "break", "delta": -1}"#),
            "benchmark[0]: its `delta` is -1: milliseconds are from 0 to 562949953",
        ),
        (
            of("", r#"{"op": "break", "delta": 562949953}, {"op": "break", "delta": 1}"#),
            "benchmark[1]: the pause before it exceeds 562949953 ms",
        ),
    ] {
        let error = from_published(json.as_bytes(), None, 1).unwrap_err();
        assert_eq!(error.chain(), expected);
        assert!(error.cure().is_some(), "{json}");
    }
    let error = from_published(b"{\"init\": [,", None, 1).unwrap_err();
    assert!(error.chain().starts_with("not a published workload: invalid JSON: "), "{}", error.chain());
}

#[test]
fn what_the_form_has_no_place_for_is_refused() {
    let mut trace = Trace::default();
    let statement = trace.add_statement("A", StatementKind::Sql, 0);
    trace.measure(LONGEST_PAUSE_NS + 1, statement, &[], false).unwrap();
    assert!(to_published(&trace).unwrap_err().message().contains("before step 0"));
    let mut trace = Trace::default();
    trace.image = vec![1];
    assert!(to_published(&trace).unwrap_err().cure().is_some());
}

/// What a reader of the exported form gets: the same steps, their values in the text.
fn assert_comes_back(trace: &Trace) {
    let json = to_published(trace).unwrap();
    let back = from_published(json.as_bytes(), None, 1).unwrap();
    let steps = |t: &Trace, steps: &[crate::database::Step]| -> Vec<(u64, bool, String)> {
        steps.iter().map(|s| (s.pause_ns, s.joined, t.sql(s))).collect()
    };
    assert_eq!(steps(&back, back.loading()), steps(trace, trace.loading()));
    assert_eq!(steps(&back, back.measured()), steps(trace, trace.measured()));
    assert_eq!(to_published(&back).unwrap(), json);
}

#[test]
fn prepared_workloads_come_back_from_json() {
    for workload in [DatabaseWorkload::YcsbF, DatabaseWorkload::PocketdataA, DatabaseWorkload::PocketdataE] {
        let delay = Some(Delay::Lognormal { mean_ns: 6_000_000, sigma: 1.0 });
        let recipe = Recipe {
            workload,
            file: None,
            records: 20,
            operations: 60,
            fields: 3,
            field_bytes: 10,
            scan_records: 9,
            pattern: Pattern::Random,
            delay,
        };
        assert_comes_back(&prepare(&recipe, 3).unwrap());
    }
    assert_comes_back(&Trace::default());
}

proptest! {
    #[test]
    fn every_workload_comes_back_from_json(
        steps in prop::collection::vec(
            (0..=LONGEST_PAUSE_NS, any::<bool>(), any::<i64>(), any::<f64>(), "[a'\"\\\\\n?é\u{1}]{0,6}"),
            0..10,
        )
    ) {
        let mut trace = Trace::default();
        let statement = trace.add_statement("X ? '?' ? ?", StatementKind::Sql, 0);
        trace.load(statement, &[]).unwrap();
        for (n, (pause_ns, joined, integer, real, text)) in steps.iter().enumerate() {
            let values = [Value::Integer(*integer), Value::Real(*real), Value::Text(text)];
            trace.measure(*pause_ns, statement, &values, *joined && n > 0).unwrap();
        }
        assert_comes_back(&trace);
    }

    #[test]
    fn no_bytes_panic(bytes in "[\\[\\]{}:,\"a-z0-9.-]{0,60}") {
        let _ = from_published(bytes.as_bytes(), None, 1);
    }
}
