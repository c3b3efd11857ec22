//! What the fuzz targets check; the corpus test replays it.

use pocketstone_workload::database::{Trace, from_file, from_published, from_sql_log, to_published};
use sha2::{Digest, Sha256};

/// Prepared workloads: whatever is read is written as the same bytes. `data` is a file without its magic,
/// format and digest, which nothing made at random would get past; returns whether it was read.
pub fn trace(data: &[u8]) -> bool {
    let _ = Trace::decode(data);
    let mut file = b"PKTTRACE\x01\0\0\0".to_vec();
    file.extend(data);
    let digest = Sha256::digest(&file);
    file.extend(digest);
    let Ok(trace) = Trace::decode(&file) else { return false };
    assert!(trace.encode() == file, "it reads as another workload");
    assert_eq!(trace.summary().steps, trace.measured().len() as u64);
    if let Ok(json) = to_published(&trace) {
        // It may have a statement without any text, which JSON is refused for.
        let _ = from_published(json.as_bytes(), None, 1);
    }
    true
}

/// Published JSON and logs of SQL statements: what is read makes a workload that comes back from JSON and
/// from its file. Returns whether it was read as JSON and as a log.
pub fn text(data: &[u8]) -> (bool, bool) {
    let _ = from_file(data, "fuzz", None, 1);
    let published = from_published(data, None, 1);
    if let Ok(trace) = &published {
        let json = to_published(trace).expect("what was JSON can be JSON");
        assert_eq!(from_published(json.as_bytes(), None, 1).expect("it reads what it writes"), *trace);
    }
    let log = std::str::from_utf8(data).ok().and_then(|text| from_sql_log(text, Vec::new(), None, 1).ok());
    if let Some(trace) = &log {
        assert!(trace.operations() > 0);
        assert!(Trace::decode(&trace.encode()).is_ok_and(|read| read == *trace), "its file reads as another workload");
    }
    (published.is_ok(), log.is_some())
}
