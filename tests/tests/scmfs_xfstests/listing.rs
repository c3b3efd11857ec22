//! Directories that are listed while they change, and offsets in them.

use crate::cases;
use crate::ground::*;
use crate::groups::Case;
use crate::system::{Listed, list_once};
use rustix::fs::{SeekFrom, seek};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::Path;

pub const CASES: &[Case] = cases![
    generic_089_a_file_rewritten_under_a_lock,
    generic_257_offsets_stay,
    generic_310_listed_while_busy,
    generic_471_without_waiting,
    generic_676_random_offsets,
    generic_736_listed_while_renaming,
];

fn rest(directory: &File, room: usize) -> io::Result<Vec<Listed>> {
    let mut all = Vec::new();
    loop {
        let some = list_once(directory, room)?;
        if some.is_empty() {
            return Ok(all);
        }
        all.extend(some);
    }
}

fn fill(folder: &Path, count: usize) -> io::Result<()> {
    (0..count).try_for_each(|n| File::create_new(folder.join(format!("name-{n}"))).map(drop))
}

/// From every entry's offset the listing goes on with the same next entry, also after others are gone.
fn generic_257_offsets_stay(g: &Ground) -> Done {
    fill(&g.folder, 160)?;
    let directory = File::open(&g.folder)?;
    let all = rest(&directory, 1024)?;
    assert_eq!(all.len(), 162);
    let offsets: BTreeSet<i64> = all.iter().map(|entry| entry.next).collect();
    assert_eq!(offsets.len(), all.len(), "no offset is there twice");
    for (n, entry) in all.iter().enumerate().rev() {
        seek(&directory, SeekFrom::Start(entry.next as u64))?;
        assert_eq!(list_once(&directory, 256)?.first(), all.get(n + 1), "after entry {n}, {}", entry.name);
    }
    // Entries that are gone take the offsets of others nowhere. Linux asks for no such thing, SCMFS promises it.
    if g.kind == Kind::Ext4 {
        return Ok(());
    }
    for entry in all.iter().filter(|entry| entry.name.starts_with("name-")).step_by(3) {
        fs::remove_file(g.at(&entry.name))?;
    }
    let left: BTreeSet<String> = names(&g.folder)?.into_iter().collect();
    for (n, entry) in all.iter().enumerate().filter(|(_, entry)| left.contains(&entry.name)) {
        seek(&directory, SeekFrom::Start(entry.next as u64))?;
        let next = all[n + 1..].iter().find(|later| left.contains(&later.name));
        assert_eq!(list_once(&directory, 256)?.first().map(|e| &e.name), next.map(|e| &e.name), "{}", entry.name);
    }
    Ok(())
}

/// Listings beside threads that make and remove names: what stays is seen once in each, and the inodes are right.
fn generic_310_listed_while_busy(g: &Ground) -> Done {
    fill(&g.folder, 200)?;
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let busy = |thread: usize| {
            let stop = &stop;
            move || -> io::Result<usize> {
                let mut n = 0;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let path = g.at(&format!("busy-{thread}-{}", n % 50));
                    if n % 100 < 50 {
                        fs::write(&path, b"")?
                    } else {
                        fs::remove_file(&path)?
                    }
                    n += 1;
                }
                Ok(n)
            }
        };
        let threads: Vec<_> = (0..2).map(|thread| scope.spawn(busy(thread))).collect();
        let begun = || g.at("busy-0-40").exists() && g.at("busy-1-40").exists();
        while !begun() && !threads.iter().all(|thread| thread.is_finished()) {
            std::thread::yield_now();
        }
        let listings = (0..25).try_for_each(|_| -> io::Result<()> {
            let listed = rest(&File::open(&g.folder)?, 2048)?;
            let stay = listed.iter().filter(|entry| entry.name.starts_with("name-"));
            let mut counts = BTreeMap::new();
            stay.for_each(|entry| *counts.entry(&entry.name).or_insert(0) += 1);
            assert_eq!(counts.len(), 200, "all that stay are seen");
            assert!(counts.values().all(|count| *count == 1), "none is seen twice");
            assert!(listed.iter().all(|entry| entry.ino != 0));
            Ok(())
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for thread in threads {
            assert!(thread.join().expect("no panic")? > 40);
        }
        listings
    })?;
    Ok(())
}

/// A write that must not wait either does not, and is whole, or says so.
fn generic_471_without_waiting(g: &Ground) -> Done {
    use rustix::io::{Errno, ReadWriteFlags};
    const NOWAIT: ReadWriteFlags = ReadWriteFlags::NOWAIT;
    let file = direct(&g.at("file"))?;
    let text = crate::system::Map::holding(&bytes(471, 16 * PAGE))?;
    let known = text.read(0, 16 * PAGE);
    let wrote = |offset: u64| rustix::io::pwritev2(&file, &[io::IoSlice::new(&known)], offset, NOWAIT);
    for offset in [0, 64 << 10] {
        match wrote(offset) {
            // Unaligned memory is refused by some.
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INVAL) => {
                assert_eq!(text.write_to(0, 16 * PAGE, &file, offset)?, 16 * PAGE);
            }
            Ok(wrote) => assert!(wrote > 0 && wrote <= known.len()),
            Err(error) => return Err(error.into()),
        }
        let found = fs::read(g.at("file"))?;
        same(&found[offset as usize..][..PAGE], &known[..PAGE]);
    }
    Ok(())
}

/// Offsets of a larger directory in random order, and numbers that are none, which must do no harm.
fn generic_676_random_offsets(g: &Ground) -> Done {
    fill(&g.folder, 1200)?;
    let directory = File::open(&g.folder)?;
    let all = rest(&directory, 32 << 10)?;
    assert_eq!(all.len(), 1202);
    let mut numbers = Numbers::new(676);
    for _ in 0..400 {
        let n = numbers.below(all.len());
        seek(&directory, SeekFrom::Start(all[n].next as u64))?;
        assert_eq!(list_once(&directory, 512)?.first().map(|e| &e.name), all.get(n + 1).map(|e| &e.name));
        let known = |entry: &Listed| all.iter().any(|other| other.name == entry.name);
        let invalid = numbers.next() >> (1 + numbers.below(50));
        if seek(&directory, SeekFrom::Start(invalid)).is_ok() {
            let found = list_once(&directory, 512).unwrap_or_default();
            assert!(found.iter().all(known), "what is listed from {invalid} exists");
        }
    }
    seek(&directory, SeekFrom::Start(0))?;
    assert_eq!(rest(&directory, 777)?, all);
    Ok(())
}

/// Every file that is listed is renamed at once; the listing ends all the same.
fn generic_736_listed_while_renaming(g: &Ground) -> Done {
    fill(&g.folder, 700)?;
    let directory = File::open(&g.folder)?;
    let mut seen = 0;
    loop {
        let some = list_once(&directory, 512)?;
        if some.is_empty() {
            break;
        }
        for entry in some.iter().filter(|entry| !entry.name.starts_with('.')) {
            seen += 1;
            assert!(seen < 20_000, "the listing does not end");
            fs::rename(g.at(&entry.name), g.at("temporary"))?;
            fs::rename(g.at("temporary"), g.at(&entry.name))?;
        }
    }
    assert!(seen >= 700, "only {seen} entries were listed");
    assert_eq!(names(&g.folder)?.len(), 700);
    Ok(())
}

/// Processes add and take away lines of one file, by a new one that replaces it, with a lock that is a link.
fn generic_089_a_file_rewritten_under_a_lock(g: &Ground) -> Done {
    fs::write(g.at("table"), b"")?;
    std::thread::scope(|scope| {
        let busy = |thread: usize| {
            move || -> io::Result<()> {
                let own = g.at(&format!("lock-{thread}"));
                fs::write(&own, b"")?;
                for n in 0..40 {
                    while fs::hard_link(&own, g.at("lock")).is_err() {
                        std::thread::yield_now();
                    }
                    let text = fs::read_to_string(g.at("table"))?;
                    let new = g.at(&format!("new-{thread}"));
                    fs::write(&new, format!("{text}{thread} {n}\n"))?;
                    fs::rename(&new, g.at("table"))?;
                    fs::remove_file(g.at("lock"))?;
                }
                fs::remove_file(own)
            }
        };
        let threads: Vec<_> = (0..3).map(|thread| scope.spawn(busy(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let text = fs::read_to_string(g.at("table"))?;
    let lines: BTreeSet<&str> = text.lines().collect();
    assert_eq!((lines.len(), text.lines().count()), (120, 120));
    assert_eq!(names(&g.folder)?, ["table"]);
    Ok(())
}
