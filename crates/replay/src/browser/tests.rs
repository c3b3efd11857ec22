use super::*;
use crate::outcome::OperationTimes;

fn change(time_ns: u64, domain: u16, khz: u32) -> FrequencyChange {
    FrequencyChange { time_ns, domain, khz }
}

#[test]
fn an_answer_has_mean_and_nearest_rank_and_the_sum_of_all_energy() {
    let times = |latency_ns| OperationTimes { start_ns: 0, latency_ns, response_ns: latency_ns + 4 };
    let energy = Energy { active_mj: 1.0, idle_mj: 2.0, awake_mj: 4.0, memory_mj: 8.0, flash_mj: 16.0 };
    // 200 latencies of 200, 199, .. 1 ns: their mean is 100.5, and 198 of them, 99%, do not exceed 198.
    let operations = (1..=200).rev().map(times).collect();
    let answer = Answer::of(&Replayed { operations, energy, run_ns: 7, ..Replayed::default() }, None, 10);
    assert_eq!(
        (answer.mean_latency_ns, answer.p99_latency_ns, answer.mean_response_ns),
        (Some(100.5), Some(198), Some(104.5))
    );
    assert_eq!((answer.operations, answer.total_mj, answer.run_ns), (200, 31.0, 7));
    let none = Answer::of(&Replayed::default(), None, 10);
    assert_eq!((none.mean_latency_ns, none.p99_latency_ns, none.mean_response_ns), (None, None, None));
}

#[test]
fn a_window_starts_with_what_is_in_force_and_each_domain_has_its_line() {
    let changes = [change(0, 1, 300), change(0, 0, 300), change(10, 0, 600), change(20, 0, 900), change(40, 0, 300)];
    let (all, thinned) = lines(&changes, (15, 30), 100);
    assert_eq!(all, [(0, vec![(15, 600), (20, 900)]), (1, vec![(15, 300)])]);
    assert!(!thinned);
}

#[test]
fn a_line_of_many_changes_keeps_its_lowest_its_highest_and_its_end() {
    let mut changes: Vec<FrequencyChange> = (0..100_000).map(|t| change(t * 10, 0, 1000 + (t % 7) as u32)).collect();
    changes[54_321].khz = 5;
    changes[77_777].khz = 9999;
    let (all, thinned) = lines(&changes, (0, 1_000_000), 2000);
    let line = &all[0].1;
    assert!(thinned && line.len() <= 2000 && line.len() > 1500, "{}", line.len());
    assert!(line.contains(&(543_210, 5)) && line.contains(&(777_770, 9999)));
    assert_eq!((line[0], *line.last().unwrap()), ((0, 1000), (999_990, 1000 + 99_999 % 7)));
    assert!(line.windows(2).all(|w| w[0].0 < w[1].0), "in order, each once");
}

#[test]
fn a_wrong_request_is_answered_with_what_is_wrong() {
    let ask = |request: &str| Held::default().answer(request);
    for (request, said) in [
        ("{", "a request cannot be read"),
        (r#"{"do":"dance"}"#, "dance"),
        (r#"{"do":"hold","devices":[],"activities":["%"]}"#, "not base64"),
        (r#"{"do":"hold","devices":[{"name":"x"}],"activities":[]}"#, "a device cannot be read"),
        (r#"{"do":"replay","device":"x","activity":0,"governor":"powersave"}"#, "unknown device `x`"),
        (r#"{"do":"replay","device":"x","activity":0,"governor":"unheard-of"}"#, "unheard-of"),
    ] {
        let answer: Value = serde_json::from_str(&ask(request)).unwrap();
        assert!(answer["error"].as_str().unwrap().contains(said), "{request}: {answer}");
    }
    assert_eq!(ask(r#"{"do":"hold","devices":[],"activities":[]}"#), r#"{"ok":null}"#);
}

#[test]
fn levers_that_are_left_out_have_their_defaults_and_unknown_ones_are_errors() {
    assert_eq!(levers(Value::Null).unwrap(), Levers::default());
    let given = levers(json!({ "batch": 4, "delay": "6ms" })).unwrap();
    assert_eq!(given, Levers { batch: 4, delay: Some("6ms".parse().unwrap()), ..Levers::default() });
    let error = levers(json!({ "bach": 4 })).unwrap_err();
    assert!(error.message().contains("`bach`") && error.cure().unwrap().contains("batch"), "{error:?}");
    assert!(levers(json!({ "batch": "many" })).is_err() && levers(json!([])).is_err());
}
