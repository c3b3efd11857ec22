//! The events that PocketData's phones had beside the kernel's own: one JSON object for each finished call,
//! with its start and duration in nanoseconds on the trace's clock.

use pocketstone_core::events::SystemCall;

/// What an event says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// A call that a log follows.
    Call(Finished),
    /// Another action, by its name.
    Other(String),
    /// Nothing: it is no JSON object, as one with a quote in a path, or lacks what its kind has.
    Nothing,
}

/// A finished call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finished {
    pub call: SystemCall,
    pub start_ns: u64,
    pub end_ns: u64,
    /// Some kernels leave it out: it is the line's.
    pub process: Option<u32>,
    pub fd: Option<i64>,
    pub offset: Option<u64>,
    pub bytes: u64,
    pub result: i64,
    pub path: Option<String>,
}

/// Names of events that phones write as JSON.
pub(super) fn is_one(event: &str) -> bool {
    event.starts_with("plsc_")
}

/// Reads an event. Those that are no calls, and those of later kernels (`plsc_dup`, `plsc_ioprio`), are others.
pub(super) fn read(event: &str, body: &str) -> Said {
    let Ok(object) = serde_json::from_str::<serde_json::Value>(body) else { return Said::Nothing };
    let Some(action) = object.get("action").and_then(serde_json::Value::as_str) else { return Said::Nothing };
    let calls = ["plsc_rw", "plsc_sync", "plsc_open", "plsc_close", "plsc_delete"];
    match super::system_calls::kind(action).filter(|_| calls.contains(&event)) {
        Some(call) => finished(&object, call).map_or(Said::Nothing, Said::Call),
        None => Said::Other(action.to_owned()),
    }
}

fn finished(object: &serde_json::Value, call: SystemCall) -> Option<Finished> {
    let number = |name: &str| object.get(name).and_then(serde_json::Value::as_i64);
    let count = |name: &str| number(name).and_then(|n| u64::try_from(n).ok());
    let start_ns = count("start")?;
    let by_name = matches!(call, SystemCall::Open | SystemCall::Delete);
    let moves = matches!(call, SystemCall::Read | SystemCall::Write);
    Some(Finished {
        call,
        start_ns,
        end_ns: start_ns.checked_add(count("delta")?)?,
        process: number("pid").and_then(|pid| pid.try_into().ok()),
        fd: if by_name { None } else { Some(number("fd")?) },
        offset: if moves { count("offset") } else { None },
        bytes: if moves { count("bytes")? } else { 0 },
        result: number("retval")?,
        path: object.get("path").and_then(serde_json::Value::as_str).map(str::to_owned),
    })
}
