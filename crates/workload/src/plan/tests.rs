use super::*;
use crate::{Data, FileOperation, FilesSpec, Prefetch, ReadAccess, ReadSpec, Sync};
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::FileSystem;

fn read() -> ReadSpec {
    ReadSpec::new(Pattern::Random, 16)
}

fn plan(read: ReadSpec) -> Plan {
    let volume = Volume { options: vec!["compr=none".into()], ..Volume::usual(FileSystem::Jffs2) };
    let read_ahead = Some(ReadAhead { by: ReadAheadBy::Mount, bytes: 0 });
    Plan { read_ahead, ..Plan::new(7, volume, Workload::Read(read)) }
}

#[test]
fn a_plan_survives_its_json_and_unknown_fields_are_refused() {
    let order = Order::Measure { plan: Box::new(plan(read())) };
    let text = serde_json::to_string(&order).unwrap();
    assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order);
    let changed = text.replace("\"seed\"", "\"sead\"");
    assert!(serde_json::from_str::<Order>(&changed).unwrap_err().to_string().contains("sead"));
}

#[test]
fn a_plan_of_an_earlier_version_is_read() {
    // As commit eb29e77 wrote it.
    let text = r#"{"format":2,"seed":7,"volume":{"file_system":"jffs2","options":["compr=none"],"directory":null},
        "workload":{"kind":"read","pattern":"random","requests":16,"request_bytes":4096,"file_bytes":5242880,
        "inter_arrival_ns":0,"data":"random"},"read_ahead":{"by":"mount","bytes":0},"trace":false}"#;
    assert_eq!(serde_json::from_str::<Plan>(text).unwrap(), Plan { format: 2, ..plan(read()) });
}

#[test]
fn what_is_measured_does_not_change_what_is_prepared() {
    let a = plan(read());
    let other = ReadSpec {
        requests: 1024,
        pattern: Pattern::Sequential,
        access: ReadAccess::Mmap,
        prefetch: Prefetch::Madvise,
        ..read()
    };
    let mut b = Plan { trace: true, read_ahead: None, ..plan(other) };
    assert_eq!(a.steps(), b.steps());
    b.seed = 8;
    assert_ne!(a.steps(), b.steps());
}

#[test]
fn a_volatile_volume_is_prepared_by_who_measures_it() {
    let spec = FilesSpec {
        operation: FileOperation::Read,
        pattern: Pattern::Sequential,
        requests: 8,
        request_bytes: 4096,
        files: 8,
        file_bytes: 4096,
        inter_arrival_ns: 0,
        data: Data::Random,
        sync: Sync::None,
        threads: 1,
    };
    for volume in Volume::all() {
        let plan = Plan { volume: volume.clone(), workload: Workload::Files(spec.clone()), ..plan(read()) };
        match plan.steps()[..] {
            [] => assert!(volume.volatile()),
            [Step::Format { .. }, Step::Populate { .. }] => assert!(!volume.volatile()),
            ref other => panic!("{other:?}"),
        }
    }
}
