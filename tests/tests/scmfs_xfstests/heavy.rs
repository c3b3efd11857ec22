//! Cases that take long, for `make torture`.

use crate::cases;
use crate::ground::*;
use crate::groups::Case;
use crate::model::{Files, Tree};
use std::fs;
use std::time::{Duration, Instant};

pub const CASES: &[Case] = cases![
    generic_127_one_file_for_long,
    generic_521_many_operations_on_one_file,
    generic_476_all_operations,
    generic_701_many_names,
];

pub const SPACE: &[Case] = cases![generic_083_random_operations_when_full];

/// Threads with random operations on trees of their own, each compared with a model.
fn random(g: &Ground, threads: u64, operations: u64) -> Done {
    std::thread::scope(|scope| {
        let busy = |thread: u64| {
            move || -> Done {
                let folder = g.directory(&format!("tree-{thread}"))?;
                let mut tree = Tree::new(folder, thread);
                (0..operations).try_for_each(|_| tree.step())?;
                tree.compare()
            }
        };
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(busy(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

/// Eight threads, each on a tree of its own.
fn generic_476_all_operations(g: &Ground) -> Done {
    random(g, 8, 10_000)
}

/// Files that are written, read, mapped, truncated, punched, zeroed, past the cache and by it.
fn generic_127_one_file_for_long(g: &Ground) -> Done {
    (0..4).try_for_each(|seed| Files::new(g, seed, 256 << 10)?.run(5000))
}

/// The same on one larger file, for longer.
fn generic_521_many_operations_on_one_file(g: &Ground) -> Done {
    Files::new(g, 521, 1 << 20)?.run(40_000)
}

/// Very many names in one directory.
fn generic_701_many_names(g: &Ground) -> Done {
    const COUNT: usize = 20_000;
    for n in 0..COUNT {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            g.at(&format!("file-{n}")),
            rustix::fs::FileType::RegularFile,
            rustix::fs::Mode::from_raw_mode(0o644),
            0,
        )?;
    }
    assert_eq!(names(&g.folder)?.len(), COUNT);
    for n in (0..COUNT).step_by(2) {
        fs::remove_file(g.at(&format!("file-{n}")))?;
    }
    assert_eq!(names(&g.folder)?.len(), COUNT / 2);
    Ok(())
}

/// Random operations beside a file that takes all space and gives it back.
fn generic_083_random_operations_when_full(g: &Ground) -> Done {
    let end = Instant::now() + Duration::from_secs(20);
    std::thread::scope(|scope| {
        let filler = scope.spawn(|| -> Done {
            while Instant::now() < end {
                let _ = fs::write(g.at("filler"), vec![1; 200 << 20]);
                let _ = fs::remove_file(g.at("filler"));
            }
            Ok(())
        });
        let folder = g.directory("tree")?;
        let mut tree = Tree::new(folder, 83);
        while Instant::now() < end {
            tree.step_when_full()?;
        }
        filler.join().expect("no panic")?;
        tree.compare()
    })
}
