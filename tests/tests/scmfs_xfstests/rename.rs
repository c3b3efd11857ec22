//! rename(2) and renameat2(2).

use crate::cases;
use crate::ground::*;
use crate::groups::Case;
use pocketstone_testing::wait::LONG;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const CASES: &[Case] = cases![
    generic_023_plain,
    generic_024_without_replacing,
    generic_025_exchange,
    generic_028_working_directory,
    generic_035_replaced_while_open,
    generic_078_whiteout,
    generic_109_in_directories_of_many_sizes,
    generic_245_onto_a_full_directory,
    generic_309_times_of_both_directories,
    generic_585_whiteout_after_whiteout,
];

const KINDS: [&str; 5] = ["none", "file", "link", "empty", "tree"];

fn make(path: &Path, kind: &str) -> std::io::Result<()> {
    match kind {
        "file" => fs::write(path, b"file"),
        "link" => symlink("nowhere", path),
        "empty" => fs::create_dir(path),
        "tree" => fs::create_dir(path).and_then(|()| fs::write(path.join("inner"), b"inner")),
        _ => Ok(()),
    }
}

fn kind(path: &Path) -> &'static str {
    match of(path) {
        Err(_) => "none",
        Ok(found) if found.is_file() => "file",
        Ok(found) if found.is_symlink() => "link",
        Ok(_) if path.join("inner").exists() => "tree",
        Ok(_) => "empty",
    }
}

/// Every kind of object onto every other, in one directory and across two. `judge` says what is due.
fn matrix(g: &Ground, flags: RenameFlags, judge: fn(&str, &str) -> Result<(), Errno>) -> Done {
    for across in [false, true] {
        for from in KINDS {
            for to in KINDS {
                let place = g.directory(&format!("{across}-{from}-{to}"))?;
                fs::create_dir(place.join("other"))?;
                let source = place.join("source");
                let target = if across { place.join("other/target") } else { place.join("target") };
                make(&source, from)?;
                make(&target, to)?;
                let before = (of(&source).map(|f| f.ino()).ok(), of(&target).map(|f| f.ino()).ok());
                let outcome = renameat_with(CWD, &source, CWD, &target, flags);
                assert_eq!(outcome, judge(from, to), "{from} to {to}, across: {across}");
                let after = (of(&source).map(|f| f.ino()).ok(), of(&target).map(|f| f.ino()).ok());
                let (now, wanted) = match (outcome, flags == RenameFlags::EXCHANGE) {
                    (Err(_), _) => ((kind(&source), kind(&target)), (from, to)),
                    (Ok(()), true) => ((kind(&source), kind(&target)), (to, from)),
                    (Ok(()), false) => ((kind(&source), kind(&target)), ("none", from)),
                };
                assert_eq!(now, wanted, "{from} to {to}, across: {across}");
                let wanted = match (outcome, flags == RenameFlags::EXCHANGE) {
                    (Err(_), _) => before,
                    (Ok(()), true) => (before.1, before.0),
                    (Ok(()), false) => (None, before.0),
                };
                assert_eq!(after, wanted, "the inodes: {from} to {to}, across: {across}");
            }
        }
    }
    Ok(())
}

fn is_directory(kind: &str) -> bool {
    matches!(kind, "empty" | "tree")
}

/// All kinds onto all kinds.
fn generic_023_plain(g: &Ground) -> Done {
    matrix(g, RenameFlags::empty(), |from, to| match (from, to) {
        ("none", _) => Err(Errno::NOENT),
        (_, "none") => Ok(()),
        _ if is_directory(from) && !is_directory(to) => Err(Errno::NOTDIR),
        _ if !is_directory(from) && is_directory(to) => Err(Errno::ISDIR),
        (_, "tree") => Err(Errno::NOTEMPTY),
        _ => Ok(()),
    })
}

/// What exists is not replaced.
fn generic_024_without_replacing(g: &Ground) -> Done {
    matrix(g, RenameFlags::NOREPLACE, |from, to| match (from, to) {
        ("none", _) => Err(Errno::NOENT),
        (_, "none") => Ok(()),
        _ => Err(Errno::EXIST),
    })
}

/// Two names change places.
fn generic_025_exchange(g: &Ground) -> Done {
    matrix(
        g,
        RenameFlags::EXCHANGE,
        |from, to| {
            if from == "none" || to == "none" { Err(Errno::NOENT) } else { Ok(()) }
        },
    )?;
    let both = RenameFlags::EXCHANGE | RenameFlags::NOREPLACE;
    fails(renameat_with(CWD, g.at("a"), CWD, g.at("b"), both), Errno::INVAL);
    fs::create_dir_all(g.at("up/down"))?;
    fails(renameat_with(CWD, g.at("up"), CWD, g.at("up/down"), RenameFlags::EXCHANGE), Errno::INVAL);
    fails(fs::rename(g.at("up"), g.at("up/down/up")), Errno::INVAL);
    Ok(())
}

/// getcwd(2) tells one of the names while the directory is renamed to and fro.
fn generic_028_working_directory(g: &Ground) -> Done {
    let (a, b) = (g.directory("a")?, g.at("b"));
    let directory = fs::File::open(&a)?;
    let (stop, count) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let renames = scope.spawn(|| -> std::io::Result<()> {
            while !stop.load(Ordering::Relaxed) {
                fs::rename(&a, &b)?;
                fs::rename(&b, &a)?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        let looked = alone(|| -> std::io::Result<()> {
            rustix::process::fchdir(&directory)?;
            let begin = Instant::now();
            // Until both have done enough, however the processor is shared among them.
            for looks in 0.. {
                let enough = looks > 1000 && count.load(Ordering::Relaxed) > 20;
                if (enough && begin.elapsed() > Duration::from_millis(300)) || begin.elapsed() > LONG {
                    break;
                }
                let here = std::env::current_dir()?;
                assert!(here == a || here == b, "{}", here.display());
            }
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        renames.join().expect("no panic")?;
        assert!(count.load(Ordering::Relaxed) > 20);
        looked
    })?;
    Ok(())
}

/// A file or directory that is open while another takes its name has no link any more.
fn generic_035_replaced_while_open(g: &Ground) -> Done {
    let old = g.file("old", b"old")?;
    fs::write(g.at("new"), b"new")?;
    fs::rename(g.at("new"), g.at("old"))?;
    assert_eq!((old.metadata()?.nlink(), old.metadata()?.len()), (0, 3));
    fs::create_dir(g.at("below"))?;
    let below = fs::File::open(g.at("below"))?;
    fs::create_dir(g.at("above"))?;
    fs::rename(g.at("above"), g.at("below"))?;
    assert_eq!(below.metadata()?.nlink(), 0);
    Ok(())
}

fn is_whiteout(path: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::FileTypeExt;
    let found = of(path)?;
    Ok(found.file_type().is_char_device() && found.rdev() == 0)
}

/// What was renamed leaves a whiteout, a device of number 0.
fn generic_078_whiteout(g: &Ground) -> Done {
    for (n, kind_of_source) in KINDS.iter().enumerate().skip(1) {
        let (from, to) = (g.at(&format!("from{n}")), g.at(&format!("to{n}")));
        make(&from, kind_of_source)?;
        renameat_with(CWD, &from, CWD, &to, RenameFlags::WHITEOUT)?;
        assert!(is_whiteout(&from)?);
        assert_eq!(kind(&to), *kind_of_source);
    }
    fs::write(g.at("a"), b"a")?;
    let both = RenameFlags::WHITEOUT | RenameFlags::NOREPLACE;
    fails(renameat_with(CWD, g.at("a"), CWD, g.at("to1"), both), Errno::EXIST);
    renameat_with(CWD, g.at("a"), CWD, g.at("b"), both)?;
    assert!(is_whiteout(&g.at("a"))?);
    let exchange = RenameFlags::WHITEOUT | RenameFlags::EXCHANGE;
    fails(renameat_with(CWD, g.at("b"), CWD, g.at("to1"), exchange), Errno::INVAL);
    Ok(())
}

/// Files and links onto files, links and new names, in directories of many sizes.
fn generic_109_in_directories_of_many_sizes(g: &Ground) -> Done {
    for size in [1, 2, 3, 5, 8, 18, 40, 90, 202, 454, 1020] {
        let folder = g.directory(&size.to_string())?;
        for n in 0..size {
            fs::write(folder.join(format!("filler{n}")), b"")?;
        }
        for (n, (from, to)) in ["file", "link"].iter().flat_map(|f| KINDS[..3].iter().map(move |t| (f, t))).enumerate()
        {
            let (source, target) = (folder.join(format!("s{n}")), folder.join(format!("t{n}")));
            make(&source, from)?;
            make(&target, to)?;
            fs::rename(&source, &target)?;
            assert_eq!((kind(&source), kind(&target)), ("none", *from));
        }
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            // What the listing says and what is there agree.
            assert_eq!(entry.file_type()?, of(&entry.path())?.file_type());
        }
        assert_eq!(names(&folder)?.len(), size + 6);
    }
    Ok(())
}

/// A directory that is not empty is not replaced.
fn generic_245_onto_a_full_directory(g: &Ground) -> Done {
    make(&g.at("full"), "tree")?;
    make(&g.at("other"), "tree")?;
    fails(fs::rename(g.at("full"), g.at("other")), Errno::NOTEMPTY);
    assert_eq!((kind(&g.at("full")), kind(&g.at("other"))), ("tree", "tree"));
    Ok(())
}

/// A file renamed onto another one changes the times of both directories, and its own ctime.
fn generic_309_times_of_both_directories(g: &Ground) -> Done {
    let (a, b) = (g.directory("a")?, g.directory("b")?);
    fs::write(b.join("file"), b"")?;
    for name in ["file", "new"] {
        fs::write(a.join(name), b"")?;
        let times = |path: &Path| of(path).map(|f| ((f.mtime(), f.mtime_nsec()), (f.ctime(), f.ctime_nsec())));
        let before = (times(&a)?, times(&b)?, times(&a.join(name))?);
        tick();
        fs::rename(a.join(name), b.join(name))?;
        let after = (times(&a)?, times(&b)?, times(&b.join(name))?);
        assert!(after.0.0 > before.0.0 && after.0.1 > before.0.1, "the first directory");
        assert!(after.1.0 > before.1.0 && after.1.1 > before.1.1, "the second directory");
        assert!(after.2.1 > before.2.1 && after.2.0 == before.2.0, "the {name}");
    }
    Ok(())
}

/// Renames with whiteouts to and fro, each over the whiteout of the one before it.
fn generic_585_whiteout_after_whiteout(g: &Ground) -> Done {
    fs::write(g.at("a"), b"text")?;
    for n in 0..200 {
        let (from, to) = if n % 2 == 0 { ("a", "b") } else { ("b", "a") };
        renameat_with(CWD, g.at(from), CWD, g.at(to), RenameFlags::WHITEOUT)?;
        assert!(is_whiteout(&g.at(from))?);
        holds(&g.at(to), b"text");
    }
    assert_eq!(names(&g.folder)?, ["a", "b"]);
    Ok(())
}
