//! Factors that several workloads have.

use crate::Data;
use crate::factor::{Bytes, Count, Factor, Nanoseconds};
use pocketstone_core::Error;
use pocketstone_core::pattern::Pattern;

/// The contents of files.
pub const DATA: Factor<Data> = Factor::new("data", "file content").default("random");

/// How many files.
pub const FILES: Factor<Count> = Factor::new("files", "number of files").default("1");

/// Size of a file.
pub const FILE_BYTES: Factor<Bytes> = Factor::new("file_bytes", "size of a file");

/// The order of requests.
pub const PATTERN: Factor<Pattern> = Factor::new("pattern", "order of offsets").default("sequential");

/// Size of a request.
pub const REQUEST_BYTES: Factor<Bytes> =
    Factor::new("request_bytes", "bytes per request").default("4096").checked(|bytes| match bytes {
        0 => Err(Error::user("`request_bytes` cannot be 0").hint("request_bytes must be 1 or more")),
        _ => Ok(()),
    });

/// How many requests.
pub const REQUESTS: Factor<Count> = Factor::new("requests", "number of requests");

/// The pause between two requests.
pub const INTER_ARRIVAL_NS: Factor<Nanoseconds> =
    Factor::new("inter_arrival_ns", "pause between two requests").default("0");

/// How many threads.
pub const THREADS: Factor<Count> = Factor::new("threads", "threads that share the requests").default("1").quiet();
