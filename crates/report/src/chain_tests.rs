use super::*;

fn a_call(name: &str, start_ns: u64, duration_ns: u64, on_core_ns: Option<u64>) -> ChainCall {
    let (file, bytes) = ("orders.db".into(), Some(4096));
    let duration_ns = Some(duration_ns);
    ChainCall { name: name.into(), file, bytes, start_ns, duration_ns, on_core_ns, ..ChainCall::default() }
}

fn a_query(on_core_ns: Option<u64>, calls: Vec<ChainCall>) -> ChainQuery {
    let (start_ns, service_ns, response_ns) = (1_000_000, 10_000_000, 12_000_000);
    let sql = "SELECT *\n  FROM t".into();
    ChainQuery { number: 7, sql, start_ns, service_ns, response_ns, on_core_ns, calls, ..ChainQuery::default() }
}

fn ms(parts: &[(Place, u64)]) -> Vec<f64> {
    parts.iter().map(|p| p.1 as f64 / 1e6).collect()
}

#[test]
fn time_is_split_in_core_and_blocked_where_both_are_known() {
    // 10 ms: 2 on a core, 0.5 of them in the read of 3 ms and 0.1 in the sync of 4 ms.
    let calls =
        vec![a_call("read", 1_000_000, 3_000_000, Some(500_000)), a_call("sync", 5_000_000, 4_000_000, Some(100_000))];
    let query = a_query(Some(2_000_000), calls);
    assert_eq!(ms(&parts(&query)), [2.0, 2.5, 0.0, 3.9, 0.0, 1.6]);
    let shown = super::query(&query, 9, 99);
    assert_eq!(
        shown.parts,
        "2 ms on a core, 2.50 ms blocked in read, 3.90 ms blocked in sync, 1.60 ms waiting elsewhere"
    );
    // A fifth of 600 on a core.
    assert!(shown.bar.contains("d=\"M0 0h120v14h-120z\""), "{}", shown.bar);
}

#[test]
fn time_on_a_core_is_not_guessed_where_a_call_does_not_say_it() {
    let query = a_query(Some(2_000_000), vec![a_call("read", 1_000_000, 3_000_000, None)]);
    assert_eq!(ms(&parts(&query)), [0.0, 3.0, 0.0, 0.0, 0.0, 7.0]);
    let shown = super::query(&query, 9, 99);
    assert_eq!(shown.parts, "3 ms in read, 7 ms outside of calls");
    assert_eq!(shown.on_core.as_deref(), Some("2 ms"));
    // More than there is: a trace's clock may be coarser.
    assert_eq!(ms(&parts(&a_query(None, vec![a_call("write", 0, 99_000_000, None)]))), [0.0, 0.0, 10.0, 0.0, 0.0, 0.0]);
}

#[test]
fn calls_that_are_not_shown_are_part_of_the_time() {
    use pocketstone_study::views::model::ChainSum;
    // 10 ms: 2 on a core, 0.5 of them in the read of 3 ms; 40 more writes took 4 ms, with 0.8 on a core.
    let sum = |on_core_ns| ChainSum { name: "write".into(), duration_ns: 4_000_000, on_core_ns };
    let query = |on_core_ns| ChainQuery {
        more_calls: 40,
        more: vec![sum(on_core_ns)],
        ..a_query(Some(2_000_000), vec![a_call("read", 1_000_000, 3_000_000, Some(500_000))])
    };
    assert_eq!(ms(&parts(&query(Some(800_000)))), [2.0, 2.5, 3.2, 0.0, 0.0, 2.3]);
    assert_eq!(ms(&parts(&query(None))), [0.0, 3.0, 4.0, 0.0, 0.0, 3.0]);
}

#[test]
fn what_lies_side_by_side_is_one_line() {
    let miss = |first_page, pages| ChainMiss { file: "orders.db".into(), first_page, pages };
    assert_eq!(
        misses_joined(&[miss(4, 1), miss(5, 3), miss(20, 1)]),
        ["orders.db, pages 4 to 7 (4)", "orders.db, page 20"]
    );
    let query = a_query(None, vec![]);
    let op = |kind: &str, page, time_ns| ChainFlash { kind: kind.into(), page, time_ns };
    let ops = [op("sense", 70, 1_100_000), op("sense", 71, 1_200_000), op("column_change", 71, 1_200_000)];
    assert_eq!(
        flash_joined(&query, &ops),
        ["sense: pages 70 to 71 (2), +100 µs to +200 µs", "column change: page 71, +200 µs"]
    );
    let request = ChainBlock {
        device: "8:0".into(),
        write: false,
        first_sector: 2048,
        sectors: 16,
        issue_ns: 1_050_000,
        duration_ns: None,
    };
    assert_eq!(block(&query, &request), "read 8 KiB at sector 2048 of 8:0, +50 µs, end not seen");
    let flush = ChainBlock { write: true, first_sector: 0, sectors: 0, ..request };
    assert_eq!(block(&query, &flush), "flush of 8:0, +50 µs, end not seen");
}

#[test]
fn a_call_says_what_it_returned_only_where_that_is_news() {
    let query = a_query(None, vec![]);
    let with = |result| call(&query, &ChainCall { result, ..a_call("read", 900_000, 1000, None) });
    assert_eq!(with(Some(4096)).result, None);
    assert_eq!(with(Some(100)).result.as_deref(), Some("returned 100"));
    assert_eq!(with(Some(-5)).result.as_deref(), Some("failed: error 5"));
    assert_eq!(with(None).at, "\u{2212}100 µs");
    assert_eq!(with(None).what, "orders.db, 4 KiB");
}

#[test]
fn long_lists_are_cut_and_say_so() {
    let misses = (0..50).map(|n| ChainMiss { file: String::new(), first_page: n * 10, pages: 1 }).collect();
    let call = ChainCall { misses, ..a_call("read", 1_000_000, 10, None) };
    let query = ChainQuery { more_calls: 5, ..a_query(None, vec![call; 30]) };
    let shown = super::query(&query, 20, 99);
    assert_eq!((shown.calls.len(), shown.more), (20, 15));
    assert_eq!(shown.calls[0].below.misses.len(), 12);
    assert_eq!(shown.calls[0].below.misses[11], "and 39 more");
    assert_eq!(shown.head, "SELECT * FROM t");
}
