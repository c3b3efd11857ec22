use super::*;
use crate::{Data, FileWorkload};
use std::collections::BTreeMap;

fn spec(files: u64, transactions: u64, sizes: (u64, u64)) -> PostmarkSpec {
    let (least_file_bytes, file_bytes) = sizes;
    let program =
        ProgramSpec { write_bytes: 512, bias_read: Some(5), bias_create: Some(5), subdirectories: 1, buffered: false };
    let (request_bytes, data) = (512, Data::Random);
    PostmarkSpec { files, least_file_bytes, file_bytes, transactions, request_bytes, data, program: Some(program) }
}

fn program(spec: &PostmarkSpec) -> &ProgramSpec {
    spec.program.as_ref().unwrap()
}

fn with(spec: &PostmarkSpec, change: impl Fn(&mut ProgramSpec)) -> PostmarkSpec {
    let mut changed = spec.clone();
    change(changed.program.as_mut().unwrap());
    changed
}

/// Plays operations on a table of sizes, counts what they do, and holds them against the rules.
fn play(spec: &PostmarkSpec, seed: u64) -> Totals {
    let most = if program(spec).buffered { BUFFER_BYTES } else { spec.request_bytes.max(program(spec).write_bytes) };
    let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
    let mut found = Totals::default();
    let (mut open, mut moved) = (None, 0);
    let room = 2 * spec.files as usize;
    for operation in spec.operations(seed) {
        match operation {
            Operation::Create { file } => {
                assert!(open.is_none() && u64::from(file) == found.created && sizes.insert(file, 0).is_none());
                assert!(sizes.len() <= room);
                (open, moved) = (Some(file), 0);
                found.created += 1;
            }
            Operation::Open { file, purpose } => {
                assert!(open.is_none() && sizes.contains_key(&file));
                (open, moved) = (Some(file), 0);
                let counter = if purpose == Purpose::Append { &mut found.appended } else { &mut found.read };
                *counter += 1;
            }
            Operation::Append { file, bytes } => {
                assert!(open == Some(file) && bytes <= most);
                moved += bytes;
                *sizes.get_mut(&file).unwrap() += bytes;
                found.written_bytes += bytes;
            }
            Operation::Read { file, offset, bytes } => {
                assert!(open == Some(file) && offset == moved && bytes <= most);
                moved += bytes;
                found.read_bytes += bytes;
                assert!(moved <= sizes[&file]);
            }
            Operation::Attributes { file } | Operation::SeekEnd { file } => {
                assert!(program(spec).buffered && open == Some(file) && moved == 0);
            }
            Operation::Close { file } => {
                assert_eq!(open.take(), Some(file));
                assert!((spec.least_file_bytes..=spec.file_bytes).contains(&sizes[&file]));
            }
            Operation::Delete { file } => {
                assert!(open.is_none() && sizes.remove(&file).is_some());
                found.deleted += 1;
            }
            other => panic!("{other:?} is none of PostMark's"),
        }
    }
    assert!(sizes.is_empty(), "nothing is left at the end");
    found
}

#[test]
fn a_whole_run_is_what_its_totals_say() {
    for (seed, buffered) in [(1, false), (2, true), (3, true)] {
        let spec = with(&spec(40, 500, (500, 10_000)), |p| p.buffered = buffered);
        let (found, totals) = (play(&spec, seed), totals(&spec, program(&spec), seed));
        let counted = Totals {
            pool_bytes: totals.pool_bytes,
            transactions: 500,
            left: totals.left,
            pool_operations: totals.pool_operations,
            transaction_operations: totals.transaction_operations,
            ..found
        };
        assert_eq!(counted, totals);
        assert_eq!(totals.created, totals.deleted);
        let operations = spec.operations(seed).count() as u64;
        assert_eq!(operations, totals.pool_operations + totals.transaction_operations + totals.left);
        assert_eq!(spec.names(seed).len() as u64, totals.created);
    }
}

#[test]
fn the_report_of_the_program_for_seed_42() {
    // What PostMark 1.51 reports of `set number 6`, `set size 10 30`, `set transactions 12`, `set seed 42`.
    let totals = totals(&spec(6, 12, (10, 30)), program(&spec(6, 12, (10, 30))), 42);
    let Totals { created, read, appended, deleted, left, .. } = totals;
    assert_eq!((created, read, appended, deleted, left), (10, 7, 5, 10, 2));
    assert_eq!((totals.read_bytes, totals.written_bytes), (180, 256), "0.18 and 0.25 KiB");
}

#[test]
fn the_report_of_the_program_for_large_files() {
    // What PostMark 1.51 reports of 200 files of 4 KiB to 2 MiB, 4,000 transactions, seed 42; bytes are those that
    // its calls moved.
    let spec = spec(200, 4000, (4096, 2 << 20));
    let totals = totals(&spec, program(&spec), 42);
    let Totals { created, deleted, left, read, appended, .. } = totals;
    assert_eq!((created, deleted - left, read, appended, left), (2243, 1957, 1981, 2016, 286));
    let Totals { read_bytes, written_bytes, pool_bytes, .. } = totals;
    assert_eq!((read_bytes, written_bytes, pool_bytes), (2_603_815_962, 3_042_709_534, 214_129_359));
}

#[test]
fn the_first_operations_of_seed_42() {
    // As strace shows PostMark 1.51, with blocks of 8 bytes and without buffers.
    let mut small = with(&spec(6, 12, (10, 30)), |p| p.write_bytes = 8);
    small.request_bytes = 8;
    let text: String = small
        .operations(42)
        .map(|o| match o {
            Operation::Create { file } => format!(" c{file}"),
            Operation::Open { file, purpose: Purpose::Append } => format!(" a{file}"),
            Operation::Open { file, .. } => format!(" r{file}"),
            Operation::Append { bytes, .. } | Operation::Read { bytes, .. } => format!("+{bytes}"),
            Operation::Close { .. } => ".".into(),
            Operation::Delete { file } => format!(" d{file}"),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = " c0+8+8+8+5. c1+8+8+8+5. c2+8+7. c3+8+3. c4+8+8+3. c5+8+7. a2+8+7. d1 a5+8+4. c6+8+8+8+0. a6+4. d4 \
                    a3+8+6. d5 r6+8+8+8+4. d2 r0+8+8+8+5. c7+8+8+8+0.";
    assert_eq!(text[..expected.len()], *expected);
}

#[test]
fn biases_choose_and_the_pool_runs_dry_or_full() {
    let base = spec(10, 200, (500, 10_000));
    let of = |change: &dyn Fn(&mut ProgramSpec)| {
        let changed = with(&base, change);
        (play(&changed, 5), totals(&changed, program(&changed), 5))
    };
    let (found, _) = of(&|p| (p.bias_read, p.bias_create) = (Some(10), None));
    assert_eq!((found.read, found.appended, found.created), (200, 0, 10));
    let (found, _) = of(&|p| p.bias_read = None);
    assert_eq!((found.read, found.appended), (0, 0));
    // Each transaction deletes one: after ten there is none left to read.
    let (found, totals) = of(&|p| p.bias_create = Some(0));
    assert_eq!((totals.transactions, found.created, found.deleted, totals.left), (10, 10, 10, 0));
    // There is room for 20.
    let (found, totals) = of(&|p| p.bias_create = Some(10));
    assert_eq!((totals.transactions, found.created, totals.left), (200, 20, 20));
}

#[test]
fn subdirectories_have_every_file_and_are_made_first() {
    let spread = with(&spec(50, 50, (500, 1000)), |p| p.subdirectories = 3);
    assert_eq!(spread.setup().count(), 3);
    let names = spread.names(42);
    // `s0/1`, `s1/2`, `s0/3`, `s2/4` in PostMark 1.51, for other sizes: only which folder is drawn before the size.
    assert!(names.iter().all(|name| name.starts_with("directory-0000000")), "{names:?}");
    assert!((0..3).all(|n| names.iter().any(|name| name.starts_with(&format!("directory-0000000{n}/")))));
    assert!(spec(50, 50, (500, 1000)).setup().next().is_none());
    assert_eq!(spec(5, 5, (500, 1000)).names(1)[..2], ["1", "2"]);
}

#[test]
fn what_the_program_cannot_is_refused_with_what_it_can() {
    let good = spec(5, 5, (500, 1000));
    good.check().unwrap();
    let cure = |spec: &PostmarkSpec| spec.check().unwrap_err().cure().unwrap().to_owned();
    let refused = |change: &dyn Fn(&mut ProgramSpec)| cure(&with(&good, change));
    assert!(refused(&|p| p.bias_read = Some(11)).contains("bias_read must be from 0 to 10"));
    assert!(refused(&|p| p.bias_create = Some(11)).contains("bias_create must be from 0 to 10"));
    assert!(refused(&|p| p.write_bytes = 0).contains("write_bytes"));
    assert!(refused(&|p| p.subdirectories = 0).contains("subdirectories must be from 1"));
    assert!(refused(&|p| (p.write_bytes, p.buffered) = (4097, true)).contains("at most 4096"));
    assert!(cure(&PostmarkSpec { file_bytes: 1 << 30, ..good.clone() }).contains("file_bytes"));
    assert!(cure(&PostmarkSpec { files: 1 << 25, ..good }).contains("files"));
}

#[test]
fn a_whole_run_has_the_rates_that_the_program_reports() {
    let spec = with(&spec(6, 12, (10, 30)), |program| program.buffered = true);
    let operations: Vec<crate::Operation> = spec.operations(42).collect();
    // A millisecond for each call of the six files of the pool, and of the deletion; 10 ms for the others.
    let pool = operations.iter().position(|o| matches!(o, crate::Operation::Open { .. })).unwrap();
    let left = operations.len() - 2;
    let ms = |n: usize| if (pool..left).contains(&n) { 10 } else { 1 };
    let calls = crate::testing::took((0..operations.len()).map(|n| ms(n) * 1_000_000));
    let found = spec.metrics(&crate::metrics::Ran { seed: 42, calls: &calls, filled_bytes: None });
    let (theirs_s, all_s) = ((left - pool) as f64 * 0.01, (left - pool) as f64 * 0.01 + (pool + 2) as f64 * 0.001);
    // PostMark 1.51 reports 12 transactions, and 180 and 256 bytes.
    for (number, expected) in [12.0 / theirs_s, 180.0 / all_s, 256.0 / all_s].into_iter().enumerate() {
        let (name, value) = found[3 + number];
        assert!((value.unwrap() / expected - 1.0).abs() < 1e-9, "{name}: {value:?} is not {expected}");
    }
}
