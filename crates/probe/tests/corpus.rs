//! What the fuzzers of traces and of meters' files started from and found, replayed.

mod support;

/// Runs `target` on each file of its corpus, all of which can be read.
fn replay(name: &str, target: fn(&[u8]) -> bool) {
    pocketstone_testing::replay(name, |file, data| {
        assert!(target(data), "{file} is refused");
        // Cut short it may be refused, but nothing panics.
        for end in (0..data.len()).step_by(data.len() / 64 + 1) {
            target(&data[..end]);
        }
    });
}

#[test]
fn traces() {
    replay("ftrace_text", support::ftrace_text);
}

#[test]
fn perfetto_traces() {
    replay("perfetto_trace", support::perfetto_trace);
}

#[test]
fn meter_files() {
    replay("meter_file", support::meter_file);
}
