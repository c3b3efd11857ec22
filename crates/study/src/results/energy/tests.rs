use super::*;
use crate::specification::cell::{Cell, cells};
use crate::specification::traces::Traces;
use crate::testing::nothing;
use pocketstone_board::Measured;
use std::path::Path;

const STUDY: &str = "title='t'\nboard='host'\n[[experiment]]\nname='e'\ntraced='none'\n[experiment.factors]\n\
    file_system='directory'\nworkload=['ycsb-c', 'null']\nrecords=5\noperations=5\nenergy=true\n";

/// When the cells ran in s of the board's clock. The meter's first sample is at 1000 s.
const RAN: [(f64, f64); 2] = [(1002.0, 1004.0), (1006.0, 1006.5)];

fn stored(text: &str, ran: &[(f64, f64)]) -> (tempfile::TempDir, Store, Study) {
    let folder = tempfile::tempdir().unwrap();
    let study = Study::parse("s.toml", text).unwrap();
    let made: Vec<Cell> = cells(&study, "host", None, false, &mut Traces::new(folder.path(), Path::new("."))).unwrap();
    let mut store = Store::create(&folder.path().join("run"), []).unwrap();
    for (cell, (from, to)) in made.iter().zip(ran) {
        let outcome = nothing((from * 1e9) as u64, (to * 1e9) as u64);
        let measured = Measured::of(outcome);
        store.put(cell, &Ok(measured), 1.0).unwrap();
    }
    (folder, store, study)
}

/// A sample each 10 ms: 200 mW at rest, 1000 mW while loading (1 s to 0.5 s before the first rest), in the first cell
/// 700 mW, in the second 400 mW.
fn meter(seconds: f64) -> MeterFile {
    let mut text = String::from("time (ms),power (mW)\n");
    for n in 0..(seconds * 100.0) as u32 {
        let time = f64::from(n) / 100.0;
        let mw = match time {
            t if (2.0..4.0).contains(&t) => 700,
            t if (6.0..6.5).contains(&t) => 400,
            t if t < 0.9 => 1000,
            _ => 200,
        };
        text += &format!("{},{mw}\n", n * 10);
    }
    MeterFile::parse("m.csv", text.as_bytes()).unwrap()
}

fn metrics(store: &Store, sql: &str) -> Vec<(String, f64)> {
    store.rows(sql, [], |r| Ok((r.get(0)?, r.get(1)?))).unwrap()
}

// Between two samples 10 ms apart the power falls evenly: cells lose up to 1 %.
#[track_caller]
fn close(found: &[(String, f64)], expected: &[(&str, f64)]) {
    let same = |(f, e): (&(String, f64), &(&str, f64))| f.0 == e.0 && (f.1 - e.1).abs() < 0.02 * e.1;
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(same), "{found:?}, not {expected:?}");
}

#[test]
fn a_cells_energy_is_stored_net_of_rest_and_of_the_null_workload() {
    let (_folder, mut store, study) = stored(STUDY, &RAN);
    let offset = Alignment::Offset { first_ns: 2_000_000_000 };
    let added = add(&mut store, &study, &meter(8.0), offset).unwrap();
    assert_eq!(added.cells.len(), 2);
    assert_eq!(added.cells[0].cell, "e: workload=ycsb-c seed=0");
    // 2 s at 700 mW are 1.4 J, of which 0.4 J at rest; the null workload takes 0.2 J, 0.1 J at rest.
    let of = |store: &Store, cell: i64| {
        metrics(store, &format!("SELECT name, value FROM metric WHERE cell = {cell} ORDER BY name"))
    };
    let names = ["bench_active_energy_uj", "bench_energy_uj", "bench_idle_mw"];
    let with = |values: [f64; 3]| names.into_iter().zip(values).collect::<Vec<_>>();
    close(&of(&store, 1), &with([1e6, 1.4e6, 200.0]));
    close(&of(&store, 2), &with([0.1e6, 0.2e6, 200.0]));
    let net = "SELECT workload, median FROM summary WHERE metric = 'bench_net_energy_uj'";
    close(&metrics(&store, net), &[("ycsb-c", 0.9e6)]);
    assert_eq!(store.fact("bench_meter.file").unwrap().as_deref(), Some("m.csv"));
    // A second file takes the first one's place.
    add(&mut store, &study, &meter(8.0), offset).unwrap();
    assert_eq!(of(&store, 1).len(), 3);
}

#[test]
fn power_at_rest_is_absent_where_nothing_rested() {
    let (_folder, mut store, study) = stored(&STUDY.replace("energy=true", "energy=false"), &RAN);
    let added = add(&mut store, &study, &meter(8.0), Alignment::Offset { first_ns: 2_000_000_000 }).unwrap();
    assert!(added.cells.iter().all(|c| c.idle_mw.is_none() && c.active_uj().is_none()));
    let names = metrics(&store, "SELECT name, count(*) FROM metric WHERE name LIKE 'bench%' GROUP BY name");
    assert_eq!(names, [("bench_energy_uj".to_owned(), 2.0)]);
}

#[test]
fn a_file_that_does_not_hold_the_run_changes_nothing() {
    let (_folder, mut store, study) = stored(STUDY, &RAN);
    let offset = Alignment::Offset { first_ns: 2_000_000_000 };
    add(&mut store, &study, &meter(8.0), offset).unwrap();
    let before = metrics(&store, "SELECT name, value FROM metric ORDER BY cell, name");
    let error = add(&mut store, &study, &meter(5.0), offset).unwrap_err();
    assert!(error.message().starts_with("m.csv:501: the measurement ends 4.990 s"), "{error}");
    assert_eq!(metrics(&store, "SELECT name, value FROM metric ORDER BY cell, name"), before);
    store.set_facts([("board.repeats_to_the_bit", "yes")]).unwrap();
    assert!(add(&mut store, &study, &meter(8.0), offset).unwrap_err().message().contains("virtual"));
}

#[test]
fn a_floor_counts_in_the_same_conditions_alone() {
    let text = STUDY.replace("energy=true", "energy=true\ngovernor=['performance', 'powersave']");
    let ran = [RAN[0], (1004.5, 1005.0), RAN[1], (1007.0, 1007.5)];
    let (_folder, mut store, study) = stored(&text, &ran);
    // Performance's null cell is taken away: only powersave has a floor.
    store
        .db
        .execute(
            "DELETE FROM cell WHERE point ->> '$.governor' = 'performance' AND point ->> '$.workload' = 'null'",
            [],
        )
        .unwrap();
    add(&mut store, &study, &meter(8.0), Alignment::Offset { first_ns: 2_000_000_000 }).unwrap();
    let net = metrics(&store, "SELECT governor, median FROM summary WHERE metric = 'bench_net_energy_uj'");
    assert_eq!(net.iter().map(|n| n.0.as_str()).collect::<Vec<_>>(), ["powersave"]);
}
