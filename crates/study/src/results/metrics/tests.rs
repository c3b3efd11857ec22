use super::*;
use crate::testing::nothing;
use pocketstone_core::outcome::{Scope, Space};
use pocketstone_core::volume::{FileSystem, Volume};
use pocketstone_workload::*;

/// A plain cell with nothing but a workload.
#[test]
fn a_volume_says_what_its_files_take_and_what_it_does_not_know_has_no_value() {
    let mut outcome = crate::testing::nothing(0, 1);
    assert!(of_volume(&outcome).iter().all(|(_, value)| value.is_none()));
    outcome.space = Some(Space { used_bytes: 2 << 20, stored_bytes: 3 << 19, fragmented_files: Some(2) });
    outcome.facts.insert("volume.pcm_lines_written".into(), "77".into());
    let found: Vec<_> = of_volume(&outcome).into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let expected = [
        ("used_bytes", 2_097_152.0),
        ("stored_bytes", 1_572_864.0),
        ("wasted_share", 0.25),
        ("fragmented_files", 2.0),
        ("pcm_line_writes", 77.0),
    ];
    assert_eq!(found, expected);
    outcome.space = Some(Space { used_bytes: 0, stored_bytes: 0, fragmented_files: None });
    assert_eq!(of_volume(&outcome)[2], ("wasted_share", None));
}

#[test]
fn throughput_counts_up_to_the_request_that_reaches_the_share() {
    // Four blocks of 1000 bytes and one of 500: a quarter is 1125 bytes, a half 2250. 2000 bytes in 4 us are
    // 5e8 per second, 3000 in 6 us, all 4500 in 12 us 3.75e8.
    let requests = [(1000, 3000), (1000, 1000), (1000, 2000), (1000, 2000), (500, 4000)];
    assert_eq!([0.25, 0.5, 1.0].map(|share| throughput(&requests, share)), [5e8, 5e8, 3.75e8].map(Some));
    assert_eq!(throughput(&[], 0.5), None);
}

#[test]
fn every_file_read_counts_as_much_as_any_other() {
    let (least_file_bytes, file_bytes, request_bytes) = (1000, 2000, 1000);
    let (transactions, data) = (40, Data::Random);
    let spec =
        PostmarkSpec { files: 9, least_file_bytes, file_bytes, transactions, request_bytes, data, program: None };
    let plan = Plan::new(1, Volume::usual(FileSystem::Jffs2), Workload::Postmark(spec));
    // A byte takes a nanosecond in read(), any other call a microsecond: each file has 1e9 bytes per second.
    let operations = plan.workload.files().unwrap().operations(1).filter(Operation::is_logged);
    let latency = |o| if let Operation::Read { bytes, .. } = o { bytes } else { 1000 };
    let calls: Vec<Call> = operations.map(|o| Call { start_ns: 0, latency_ns: latency(o), intended_ns: 0 }).collect();
    let found = of_postmark(&plan, &calls);
    assert!(found[..3].iter().all(|(_, value)| *value == Some(1e9)), "{found:?}");
    let total: u64 = calls.iter().map(|c| c.latency_ns).sum();
    assert_eq!(found[3], ("transactions_per_s", Some(40e9 / total as f64)));
}

#[test]
fn a_whole_run_has_the_rates_that_the_program_reports() {
    use pocketstone_workload::postmark::program::ProgramSpec;
    let (files, transactions, least_file_bytes, file_bytes) = (6, 12, 10, 30);
    let (bias_read, bias_create, subdirectories, buffered) = (Some(5), Some(5), 1, true);
    let program = Some(ProgramSpec { write_bytes: 512, bias_read, bias_create, subdirectories, buffered });
    let (request_bytes, data) = (512, Data::Random);
    let spec = PostmarkSpec { files, least_file_bytes, file_bytes, transactions, request_bytes, data, program };
    let operations: Vec<Operation> = spec.operations(42).collect();
    // A millisecond for each call of the six files of the pool, and of the deletion; 10 ms for the others.
    let pool = operations.iter().position(|o| matches!(o, Operation::Open { .. })).unwrap();
    let left = operations.len() - 2;
    let ms = |n: usize| if (pool..left).contains(&n) { 10 } else { 1 };
    let call = |n| Call { start_ns: 0, latency_ns: ms(n) * 1_000_000, intended_ns: 0 };
    let calls: Vec<Call> = (0..operations.len()).map(call).collect();
    let plan = Plan::new(42, Volume::usual(FileSystem::Jffs2), Workload::Postmark(spec));
    let found = of_postmark(&plan, &calls);
    let (theirs_s, all_s) = ((left - pool) as f64 * 0.01, (left - pool) as f64 * 0.01 + (pool + 2) as f64 * 0.001);
    // PostMark 1.51 reports 12 transactions, and 180 and 256 bytes.
    for (number, expected) in [12.0 / theirs_s, 180.0 / all_s, 256.0 / all_s].into_iter().enumerate() {
        let (name, value) = found[3 + number];
        assert!((value.unwrap() / expected - 1.0).abs() < 1e-9, "{name}: {value:?} is not {expected}");
    }
}

#[test]
fn a_pass_has_the_rate_of_its_own_calls() {
    let spec = |pass, timed_close| {
        let (file_bytes, record_bytes, timed_fsync, data) = (40_960, 4096, false, Data::Random);
        IozoneSpec { pass, file_bytes, record_bytes, timed_fsync, timed_close, data }
    };
    let found = |spec: IozoneSpec| {
        // Reads take 1 us, writes 2 us, all else 10 us.
        let latency_ns = |operation: &Operation| match operation {
            Operation::Read { .. } => 1000,
            Operation::Write { .. } => 2000,
            _ => 10_000,
        };
        let calls: Vec<Call> =
            spec.operations(1).map(|o| Call { start_ns: 0, latency_ns: latency_ns(&o), intended_ns: 0 }).collect();
        let plan = Plan::new(1, Volume::usual(FileSystem::Jffs2), Workload::Iozone(spec));
        of_iozone(&plan, &calls)
    };
    // 40,960 bytes in 10 us and 20 us; with a close in 20 us and 30 us.
    let [read, written, closed] = [10e3, 20e3, 30e3].map(|ns| Some(40_960.0 * 1e9 / ns));
    let values = |spec| found(spec).into_iter().map(|(_, value)| value).collect::<Vec<_>>();
    assert_eq!(values(spec(Passes::All, false)), [written, written, read, read, read, written]);
    assert_eq!(values(spec(Passes::All, true)), [closed, closed, written, written, written, closed]);
    assert_eq!(found(spec(Passes::RandomRead, false)), [("iozone_random_read_bytes_per_s", read)]);
}

#[test]
fn a_script_has_the_rate_of_all_calls_but_deletions() {
    use pocketstone_workload::androsh::{Media, Script};
    let found = |script| {
        let spec = AndroshSpec {
            script,
            media: Media::Video,
            tree: tree::Tree::Root,
            tree_file_bytes: 4096,
            names_are: NamesAre::Cached,
            rounds: Some(2),
            scale: 100,
            request_bytes: 1 << 20,
            data: Data::Random,
        };
        let call = |operation: &Operation| Call {
            start_ns: 0,
            latency_ns: if matches!(operation, Operation::Delete { .. }) { 1_000_000 } else { 250 },
            intended_ns: 0,
        };
        let calls: Vec<Call> = spec.operations(1).map(|operation| call(&operation)).collect();
        let plan = Plan::new(1, Volume::usual(FileSystem::Scmfs), Workload::Androsh(spec));
        of_androsh(&plan, &calls)
    };
    // Twice 1 MiB: creating, opening (a copy is open from its creation), a call and closing, 250 ns each.
    assert_eq!(found(Script::SequentialWrite), [("moved_bytes_per_s", Some(2_097_152.0 * 1e9 / 2000.0))]);
    assert_eq!(found(Script::Copy), [("moved_bytes_per_s", Some(2_097_152.0 * 1e9 / 1500.0))]);
    assert_eq!(found(Script::CompressOne), [("moved_bytes_per_s", None)], "its result is a time");
}

#[test]
fn a_server_has_the_rate_of_its_run() {
    use pocketstone_workload::filebench::{Personality, Picks};
    let spec = FilebenchSpec {
        personality: Personality::Webserver,
        files: 10,
        file_bytes: 1000,
        distribution: fileset::Distribution::Gamma,
        directory_width: 20,
        threads: 2,
        picks: Picks::Rotating,
        loops: 1,
        request_bytes: 1 << 20,
        data: Data::Random,
    };
    let operations: Vec<Operation> = spec.operations(1).collect();
    // A file has the same size whenever it is read; the log's appends are in the operations. The second thread may
    // not have finished its loop.
    let numbers: Vec<u64> = spec.population(1).list().iter().map(|file| file.bytes).collect();
    let bytes = |operation: &Operation| match operation {
        Operation::ReadOpen { file } => numbers[*file as usize],
        other => other.bytes(),
    };
    let moved: u64 = operations.iter().map(bytes).sum();
    let plan = Plan::new(1, Volume::usual(FileSystem::Scmfs), Workload::Filebench(spec));
    let call = |start_ns, latency_ns| Call { start_ns, latency_ns, intended_ns: start_ns };
    // Two threads at once: the run takes 3 us.
    let found = of_filebench(&plan, &[call(1000, 2500), call(1200, 10), call(2000, 2000)]);
    assert_eq!(found, [("moved_bytes_per_s", Some(moved as f64 * 1e9 / 3000.0))]);
}

#[test]
fn what_fits_is_counted_in_whole_files() {
    let spec = CapacitySpec { files: 9, file_bytes: 1000, request_bytes: 100, data: Data::Random };
    let plan = Plan::new(1, Volume::usual(FileSystem::Scmfs), Workload::Capacity(spec));
    let outcome = Outcome { filled_bytes: Some(3999), ..crate::testing::nothing(0, 1) };
    assert_eq!(of_capacity(&plan, &outcome), [("filled_bytes", Some(3999.0)), ("filled_files", Some(3.0))]);
}

#[test]
fn energy_is_that_of_the_widest_meters_and_absent_without() {
    let reading = |meter: &str, scope, energy_uj, idle_mw| {
        let (duration_ns, samples) = (1_000_000_000, 2);
        EnergyReading { meter: meter.into(), scope, energy_uj, duration_ns, idle_mw, samples, note: String::new() }
    };
    let mut outcome = nothing(0, 0);
    assert!(of_energy(&outcome).is_empty());
    outcome.energy = vec![
        reading("rapl:package-0", Scope::Package, 9_000_000, Some(4000.0)),
        reading("rapl:package-1", Scope::Package, 6_000_000, Some(3000.0)),
        reading("rapl:dram-0", Scope::Memory, 2_000_000, Some(1000.0)),
    ];
    // Two packages: 15 J in a second, at rest 7 W.
    let expected = [("energy_uj", 15e6), ("active_energy_uj", 8e6), ("idle_mw", 7000.0)];
    assert_eq!(of_energy(&outcome), expected.map(|(name, value)| (name, Some(value))));
    outcome.energy[1].idle_mw = None;
    assert_eq!(of_energy(&outcome)[1], ("active_energy_uj", None));
}
