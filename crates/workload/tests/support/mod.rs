//! What the fuzz targets check; the corpus test replays it.

use pocketstone_workload::calls::{self, Selection, read};
use pocketstone_workload::database::{Trace, from_file, from_published, from_sql_log, to_published};
use pocketstone_workload::{Data, FileWorkload, FioSpec, Operation, Purpose};
use sha2::{Digest, Sha256};
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

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

/// Recorded calls: what is read comes back from its file, and every call is on a file that has a name and is open,
/// within what the file has. Returns whether it was read.
pub fn calls(data: &[u8]) -> bool {
    let selection = Selection { below: String::new(), pauses: true };
    let Ok(calls) = read(data, "fuzz", &selection) else { return false };
    let again = calls::text::decode(&calls::text::encode(&calls), "its file").expect("it reads what it writes");
    assert_eq!(again, calls);
    if data.starts_with(calls::text::HEAD.as_bytes()) {
        // People may write what cannot be executed; a recording makes nothing of that kind.
        return true;
    }
    let mut names: Vec<String> = calls.files.iter().map(|file| file.name.clone()).collect();
    names.extend(calls.names.iter().cloned());
    let mut sizes: HashMap<String, Rc<Cell<u64>>> =
        calls.files.iter().map(|file| (file.name.clone(), Rc::new(Cell::new(file.bytes)))).collect();
    let mut open: HashMap<u32, Rc<Cell<u64>>> = HashMap::new();
    for operation in &calls.operations {
        match *operation {
            Operation::Open { file, purpose: Purpose::New } | Operation::Create { file } => {
                let made = Rc::new(Cell::new(0));
                assert!(sizes.insert(names[file as usize].clone(), made.clone()).is_none(), "it is there already");
                open.insert(file, made);
            }
            Operation::Open { file, .. } => _ = open.insert(file, sizes[&names[file as usize]].clone()),
            Operation::Close { file } => _ = open.remove(&file).expect("it is open"),
            Operation::Read { file, offset, bytes } => {
                assert!(bytes == 0 || offset + bytes <= open[&file].get(), "it has so many bytes");
            }
            Operation::Write { file, offset, bytes } => {
                let size = &open[&file];
                size.set(size.get().max(offset.saturating_add(bytes)));
            }
            Operation::Append { file, bytes } => open[&file].set(open[&file].get().saturating_add(bytes)),
            Operation::Truncate { file, bytes } => open[&file].set(bytes),
            Operation::Sync { file } | Operation::SyncData { file } => assert!(open.contains_key(&file)),
            Operation::Delete { file } => _ = sizes.remove(&names[file as usize]).expect("it is there"),
            Operation::LookUp { file } => assert!(sizes.contains_key(&names[file as usize])),
            Operation::Rename { file, to } => {
                let moved = sizes.remove(&names[file as usize]).expect("it is there");
                sizes.insert(names[to as usize].clone(), moved);
            }
            _ => {}
        }
    }
    true
}

/// A job file of fio: what is accepted can be begun, and its first requests are inside its files. Returns whether it
/// was accepted.
pub fn fio_job(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let Ok(spec) = FioSpec::read(text, "fuzz", "", Data::Random) else { return false };
    spec.check().expect("what is accepted is valid");
    let names = spec.names(1);
    let mut sizes: HashMap<u32, u64> =
        (0..).zip(spec.population(1).list()).map(|(number, file)| (number, file.bytes)).collect();
    for operation in spec.setup() {
        match operation {
            Operation::Truncate { file, bytes } | Operation::Allocate { file, bytes } => _ = sizes.insert(file, bytes),
            Operation::Open { file, .. } => assert!((file as usize) < names.len()),
            other => panic!("{other:?} does not set up a job"),
        }
    }
    // A job may have millions of places; the first random request needs them all.
    if spec.jobs.iter().any(|job| job.file_bytes / job.block_bytes * job.files.len() as u64 > 1 << 20) {
        return true;
    }
    for operation in spec.operations(1).take(10_000) {
        match operation {
            Operation::Read { file, offset, bytes } => {
                assert!(bytes > 0 && offset + bytes <= sizes[&file], "it is inside its file");
            }
            Operation::Write { file, offset, bytes } => {
                let most = spec.jobs.iter().filter(|job| job.files.contains(&names[file as usize]));
                let most = most.map(|job| job.file_bytes).max().expect("it is a job's file");
                assert!(bytes > 0 && offset + bytes <= most, "it is inside what the file may have");
            }
            Operation::Sync { file } | Operation::SyncData { file } => assert!(sizes.contains_key(&file)),
            Operation::Turn { thread } => assert!(thread < spec.threads()),
            Operation::Invalidate { file } => assert!(sizes.contains_key(&file)),
            Operation::Pause { .. } => {}
            other => panic!("{other:?} is none of fio's"),
        }
    }
    true
}
