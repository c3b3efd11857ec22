//! Replays the inputs of the fuzz targets `workload_trace` and `workload_text`.

mod support;

use pocketstone_testing::corpus;

#[test]
fn workloads_in_the_corpus_are_read_where_they_are_whole() {
    let inputs = corpus("workload_trace");
    assert!(inputs.iter().any(|(name, _)| name == "whole-steps"));
    for (name, data) in inputs {
        assert_eq!(support::trace(&data), name.starts_with("whole"), "{name}");
    }
}

#[test]
fn texts_in_the_corpus_are_read_as_what_they_are() {
    let inputs = corpus("workload_text");
    for kind in ["json-", "log-"] {
        assert!(inputs.iter().any(|(name, _)| name.starts_with(kind)), "{kind}");
    }
    for (name, data) in inputs {
        let (json, log) = support::text(&data);
        assert!(json || !name.starts_with("json-"), "{name}");
        assert!(log || !name.starts_with("log-"), "{name}");
        assert!(!name.starts_with("wrong-") || !(json || log), "{name}");
    }
}
