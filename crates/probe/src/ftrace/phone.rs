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
}

/// A finished call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finished {
    pub call: SystemCall,
    pub start_ns: u64,
    pub end_ns: u64,
    pub process: u32,
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

/// Reads an event.
///
/// # Errors
/// `Err(())` when it is no JSON object, or lacks what its kind must have.
pub(super) fn read(event: &str, body: &str) -> Result<Said, ()> {
    let object: serde_json::Value = serde_json::from_str(body).map_err(|_| ())?;
    let number = |name: &str| object.get(name).and_then(serde_json::Value::as_i64);
    let must = |name: &str| number(name).ok_or(());
    let count = |name: &str| must(name).and_then(|n| u64::try_from(n).map_err(|_| ()));
    let action = object.get("action").and_then(serde_json::Value::as_str).ok_or(())?;
    let call = match (event, action) {
        ("plsc_rw" | "plsc_sync" | "plsc_open" | "plsc_close" | "plsc_delete", name) => super::system_calls::kind(name),
        ("plsc_mmap" | "plsc_fork" | "plsc_lseek" | "plsc_exec", _) => None,
        _ => return Err(()),
    };
    let Some(call) = call else { return Ok(Said::Other(action.to_owned())) };
    let start_ns = count("start")?;
    let by_name = matches!(call, SystemCall::Open | SystemCall::Delete);
    let moves = matches!(call, SystemCall::Read | SystemCall::Write);
    Ok(Said::Call(Finished {
        call,
        start_ns,
        end_ns: start_ns.checked_add(count("delta")?).ok_or(())?,
        process: must("pid")?.try_into().map_err(|_| ())?,
        fd: if by_name { None } else { Some(must("fd")?) },
        offset: if moves { number("offset").and_then(|o| o.try_into().ok()) } else { None },
        bytes: if moves { count("bytes")? } else { 0 },
        result: must("retval")?,
        path: object.get("path").and_then(serde_json::Value::as_str).map(str::to_owned),
    }))
}
