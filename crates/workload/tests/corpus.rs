//! Replays the inputs of the fuzz targets `workload_trace`, `workload_text`, `recorded_calls` and `fio_job`.

mod support;

use pocketstone_testing::corpus;
use proptest::collection::vec;
use proptest::proptest;

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

#[test]
fn recorded_calls_in_the_corpus_can_be_executed() {
    let inputs = corpus("recorded_calls");
    for kind in ["strace-", "calls-", "wrong-"] {
        assert!(inputs.iter().any(|(name, _)| name.starts_with(kind)), "{kind}");
    }
    for (name, data) in inputs {
        assert_eq!(support::calls(&data), !name.starts_with("wrong-"), "{name}");
    }
}

#[test]
fn job_files_in_the_corpus_are_followed_or_refused() {
    let inputs = corpus("fio_job");
    for kind in ["job-", "wrong-"] {
        assert!(inputs.iter().any(|(name, _)| name.starts_with(kind)), "{kind}");
    }
    for (name, data) in inputs {
        assert_eq!(support::fio_job(&data), name.starts_with("job-"), "{name}");
    }
}

proptest! {
    /// Lines of job files in any order are another job file, or none.
    #[test]
    fn lines_of_job_files_in_any_order_are_followed_or_refused(chosen in vec(0usize..200, 0..30)) {
        let texts = corpus("fio_job");
        let lines: Vec<&[u8]> =
            texts.iter().flat_map(|(_, data)| data.split_inclusive(|byte| *byte == b'\n')).collect();
        support::fio_job(&chosen.iter().flat_map(|line| lines[line % lines.len()].to_vec()).collect::<Vec<u8>>());
    }

    /// Lines lost, said twice and in another order are another recording, which can be executed, too.
    #[test]
    fn lines_of_recordings_in_any_order_can_be_executed(chosen in vec((0usize..400, 0usize..4), 0..60)) {
        let texts = corpus("recorded_calls");
        let texts = texts.iter().filter(|(name, _)| name.starts_with("strace-"));
        let lines: Vec<Vec<u8>> =
            texts.flat_map(|(_, data)| data.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec)).collect();
        let mut text = Vec::new();
        for (line, times) in chosen {
            for _ in 0..times {
                text.extend(&lines[line % lines.len()]);
            }
        }
        support::calls(&text);
    }
}
