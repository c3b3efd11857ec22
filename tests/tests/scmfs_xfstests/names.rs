//! Names: files, links, symbolic links, special files, and names that are gone while open.

use crate::cases;
use crate::ground::*;
use crate::groups::Case;
use crate::system;
use pocketstone_testing::wait::LONG;
use pocketstone_tests::handles;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, symlink};
use std::path::Path;

pub const CASES: &[Case] = cases![
    generic_001_copies,
    generic_002_link_count,
    generic_004_temporary_file,
    generic_005_symlink_loops,
    generic_006_many_names,
    generic_007_create_look_up_remove,
    generic_011_busy_directories,
    generic_084_open_and_unlinked,
    generic_100_a_tree_is_copied,
    generic_184_special_files,
    generic_320_many_removed_at_once,
    generic_339_many_alike,
    generic_360_long_symlinks,
    generic_401_kinds_in_listings,
    generic_453_bytes_of_names,
    generic_477_handles_of_what_is_gone,
    generic_488_many_unlinked,
    generic_530_temporary_files_vanish,
    generic_531_many_temporary_files,
    generic_707_a_moved_directory,
    generic_637_listing_after_changes,
];

/// A chain of copies in several directories, each of the one before it, with random bytes in between.
fn generic_001_copies(g: &Ground) -> Done {
    let mut numbers = Numbers::new(1);
    let mut known = Vec::new();
    for n in 0..120 {
        let folder = g.at(&format!("d{}", n % 5));
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("f{n}"));
        if n == 0 || numbers.below(4) == 0 {
            let bytes = bytes(n, 1 + numbers.below(30_000));
            fs::write(&path, &bytes)?;
            known.push((path, bytes));
        } else {
            let (from, bytes): (_, Vec<u8>) = known[numbers.below(known.len())].clone();
            assert_eq!(fs::copy(&from, &path)?, bytes.len() as u64);
            known.push((path, bytes));
        }
        if numbers.below(3) == 0 {
            let (gone, _) = known.swap_remove(numbers.below(known.len()));
            fs::remove_file(gone)?;
        }
        if known.is_empty() {
            let path = g.at(&format!("again{n}"));
            fs::write(&path, b"again")?;
            known.push((path, b"again".to_vec()));
        }
    }
    known.iter().for_each(|(path, bytes)| holds(path, bytes));
    Ok(())
}

/// The count of links goes up and down with the names.
fn generic_002_link_count(g: &Ground) -> Done {
    let file = g.file("0", b"x")?;
    for n in 1..40 {
        fs::hard_link(g.at("0"), g.at(&n.to_string()))?;
        assert_eq!((of(&g.at("0"))?.nlink(), file.metadata()?.nlink()), (n + 1, n + 1));
    }
    for n in (0..40).rev() {
        fs::remove_file(g.at(&n.to_string()))?;
        assert_eq!(file.metadata()?.nlink(), n);
    }
    Ok(())
}

fn temporary(folder: &Path, more: OFlags) -> std::io::Result<File> {
    open(folder, OFlags::TMPFILE | OFlags::RDWR | more)
}

fn give_name(file: &File, path: &Path) -> rustix::io::Result<()> {
    use std::os::fd::AsRawFd;
    let own = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)
}

/// A file without a name is written, and gets one; with O_EXCL it gets none.
fn generic_004_temporary_file(g: &Ground) -> Done {
    let file = temporary(&g.folder, OFlags::empty())?;
    file.write_all_at(b"nameless", 0)?;
    assert_eq!((file.metadata()?.nlink(), names(&g.folder)?.len()), (0, 0));
    give_name(&file, &g.at("named"))?;
    assert_eq!(file.metadata()?.nlink(), 1);
    holds(&g.at("named"), b"nameless");
    let never = temporary(&g.folder, OFlags::EXCL)?;
    fails(give_name(&never, &g.at("never")), Errno::NOENT);
    Ok(())
}

/// Symbolic links that lead to themselves, round, and along too many others.
fn generic_005_symlink_loops(g: &Ground) -> Done {
    symlink("self", g.at("self"))?;
    symlink("b", g.at("a"))?;
    symlink("a", g.at("b"))?;
    for name in ["self", "a", "b"] {
        fails(File::open(g.at(name)), Errno::LOOP);
        assert_eq!(of(&g.at(name))?.len(), fs::read_link(g.at(name))?.as_os_str().len() as u64);
    }
    fs::write(g.at("0"), b"end")?;
    for n in 1..=41 {
        symlink((n - 1).to_string(), g.at(&n.to_string()))?;
    }
    // Linux follows 40.
    holds(&g.at("40"), b"end");
    fails(File::open(g.at("41")), Errno::LOOP);
    Ok(())
}

/// All names of four letters out of six, each created once and only once.
fn generic_006_many_names(g: &Ground) -> Done {
    let mut wanted: Vec<String> = Vec::new();
    for n in 0..6usize.pow(4) {
        let letter = |place: u32| (b'a' + (n / 6usize.pow(place) % 6) as u8) as char;
        wanted.push((0..4).map(letter).collect());
    }
    for name in &wanted {
        File::create_new(g.at(name))?;
    }
    fails(File::create_new(g.at("abcd")), Errno::EXIST);
    wanted.sort();
    assert_eq!(names(&g.folder)?, wanted);
    for name in wanted {
        fs::remove_file(g.at(&name))?;
    }
    assert!(names(&g.folder)?.is_empty());
    Ok(())
}

/// Names are created, looked up and removed at random; the answers are those of a set.
fn generic_007_create_look_up_remove(g: &Ground) -> Done {
    let mut numbers = Numbers::new(7);
    let mut known = std::collections::BTreeMap::new();
    for n in 0..3000u64 {
        let name = format!("name-{}", numbers.below(200));
        let path = g.at(&name);
        match numbers.below(3) {
            0 => match File::create_new(&path) {
                Ok(file) => assert!(known.insert(name, file.metadata()?.ino()).is_none()),
                Err(error) => assert!(known.contains_key(&name), "{n}: {name}: {error}"),
            },
            1 => assert_eq!(fs::remove_file(&path).is_ok(), known.remove(&name).is_some(), "{n}: {name}"),
            _ => assert_eq!(of(&path).ok().map(|found| found.ino()), known.get(&name).copied(), "{n}: {name}"),
        }
    }
    assert_eq!(names(&g.folder)?, known.into_keys().collect::<Vec<_>>());
    Ok(())
}

/// Some threads make, list and remove directories and files beside each other.
fn generic_011_busy_directories(g: &Ground) -> Done {
    std::thread::scope(|scope| {
        let busy = |thread: usize| {
            move || -> std::io::Result<()> {
                for round in 0..10 {
                    let folder = g.at(&format!("t{thread}-{round}"));
                    fs::create_dir(&folder)?;
                    for n in 0..20 {
                        let kind = if n % 5 == 0 { FileType::Fifo } else { FileType::RegularFile };
                        let path = folder.join(n.to_string());
                        rustix::fs::mknodat(CWD, &path, kind, Mode::from_raw_mode(0o600), 0)?;
                    }
                    assert_eq!(names(&folder)?.len(), 20);
                    let _ = names(&g.folder)?;
                    fails(fs::remove_dir(&folder), Errno::NOTEMPTY);
                    for n in 0..20 {
                        fs::remove_file(folder.join(n.to_string()))?;
                    }
                    fs::remove_dir(&folder)?;
                }
                Ok(())
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(busy(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    assert!(names(&g.folder)?.is_empty());
    Ok(())
}

/// What is open can be used after its last name is gone, and its space comes back.
fn generic_084_open_and_unlinked(g: &Ground) -> Done {
    let free = || rustix::fs::statvfs(g.top).map(|found| found.f_bfree);
    let mut file = g.file("a", &bytes(84, 8 << 20))?;
    file.sync_all()?;
    let used = free()?;
    fs::remove_file(g.at("a"))?;
    file.set_len(9 << 20)?;
    let mut found = Vec::new();
    file.read_to_end(&mut found)?;
    assert_eq!(found.len(), 9 << 20);
    same(&found[..8 << 20], &bytes(84, 8 << 20));
    drop(file);
    let back =
        pocketstone_tests::command::poll(LONG, || free().ok().filter(|now| *now >= used + (7 << 20) / PAGE as u64));
    assert!(back.is_some(), "{used} blocks were free, and are {:?}", free());
    Ok(())
}

/// A tree with all kinds of objects, copied by cp and compared by diff.
fn generic_100_a_tree_is_copied(g: &Ground) -> Done {
    let from = g.elsewhere.join("tree");
    for n in 0..12u64 {
        let folder = from.join(format!("a{}/b{n}", n % 3));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("file"), bytes(n, 5000 * n as usize))?;
        symlink("file", folder.join("link"))?;
        fs::hard_link(folder.join("file"), folder.join("other"))?;
    }
    let run = |program: &str, words: &[&Path]| {
        let mut command = pocketstone_tests::suites::command(program);
        command.arg(if program == "cp" { "-a" } else { "-r" }).args(words);
        pocketstone_tests::command::run(&mut command).ends_with(0)
    };
    run("cp", &[&from, &g.at("tree")]);
    run("diff", &[&from, &g.at("tree")]);
    assert_eq!(of(&g.at("tree/a1/b4/file"))?.nlink(), 2);
    assert_eq!(of(&g.at("tree/a1/b4/file"))?.mtime(), of(&from.join("a1/b4/file"))?.mtime());
    Ok(())
}

/// Devices keep their numbers; a pipe with a name is one.
fn generic_184_special_files(g: &Ground) -> Done {
    let device = rustix::fs::makedev(1, 3);
    for (name, kind) in [("char", FileType::CharacterDevice), ("block", FileType::BlockDevice)] {
        rustix::fs::mknodat(CWD, g.at(name), kind, Mode::from_raw_mode(0o640), device)?;
        let found = of(&g.at(name))?;
        assert_eq!((found.rdev(), found.mode() & 0o7777), (device, 0o640));
    }
    assert!(of(&g.at("char"))?.file_type().is_char_device() && of(&g.at("block"))?.file_type().is_block_device());
    rustix::fs::mknodat(CWD, g.at("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
    let mut both = rw(&g.at("pipe"))?;
    both.write_all(b"through")?;
    let mut found = [0; 7];
    both.read_exact(&mut found)?;
    assert_eq!(&found, b"through");
    std::os::unix::net::UnixListener::bind(g.at("socket"))?;
    assert!(of(&g.at("socket"))?.file_type().is_socket());
    Ok(())
}

/// Many directories whose names are alike, and their links counted; then trees of copies are removed at once.
fn generic_339_many_alike(g: &Ground) -> Done {
    let wide = g.directory("wide")?;
    for n in 0..800 {
        fs::create_dir(wide.join(format!("{}{n:04}", "x".repeat(n % 200))))?;
    }
    assert_eq!((of(&wide)?.nlink(), names(&wide)?.len()), (802, 800));
    for n in (0..800).rev() {
        fs::remove_dir(wide.join(format!("{}{n:04}", "x".repeat(n % 200))))?;
    }
    assert_eq!(of(&wide)?.nlink(), 2);
    Ok(())
}

/// Threads copy a folder of files, and remove their copies.
fn generic_320_many_removed_at_once(g: &Ground) -> Done {
    let origin = g.directory("origin")?;
    for n in 0..25u64 {
        fs::write(origin.join(n.to_string()), bytes(n, 2 * PAGE))?;
    }
    std::thread::scope(|scope| {
        let busy = |thread: usize| {
            let origin = &origin;
            move || -> std::io::Result<()> {
                for round in 0..2 {
                    let folder = g.at(&format!("copy{thread}-{round}"));
                    fs::create_dir(&folder)?;
                    for name in names(origin)? {
                        fs::copy(origin.join(&name), folder.join(&name))?;
                    }
                    holds(&folder.join("7"), &bytes(7, 2 * PAGE));
                    fs::remove_dir_all(&folder)?;
                }
                Ok(())
            }
        };
        let threads: Vec<_> = (0..6).map(|thread| scope.spawn(busy(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    assert_eq!(names(&g.folder)?, ["origin"]);
    Ok(())
}

/// Targets of symbolic links of every length up to the longest path.
fn generic_360_long_symlinks(g: &Ground) -> Done {
    for len in [1, 59, 60, 61, 255, 1023, 1024, 4000, 4094, 4095] {
        let target: String = bytes(len, len as usize).iter().map(|byte| (b'a' + byte % 26) as char).collect();
        let path = g.at(&len.to_string());
        symlink(&target, &path)?;
        assert_eq!(fs::read_link(&path)?.to_str(), Some(target.as_str()));
        assert_eq!(of(&path)?.len(), len);
    }
    fails(symlink("x".repeat(4096), g.at("too-long")), Errno::NAMETOOLONG);
    fails(symlink("", g.at("empty")), Errno::NOENT);
    Ok(())
}

/// A listing says of what kind an entry is.
fn generic_401_kinds_in_listings(g: &Ground) -> Done {
    fs::create_dir(g.at("directory"))?;
    fs::write(g.at("file"), b"")?;
    symlink("nowhere", g.at("link"))?;
    let make = |name: &str, kind| rustix::fs::mknodat(CWD, g.at(name), kind, Mode::from_raw_mode(0o600), 0);
    make("pipe", FileType::Fifo)?;
    make("char", FileType::CharacterDevice)?;
    make("block", FileType::BlockDevice)?;
    make("socket", FileType::Socket)?;
    let mut found: Vec<(String, u8)> = Vec::new();
    let directory = File::open(&g.folder)?;
    loop {
        let some = system::list_once(&directory, 4096)?;
        if some.is_empty() {
            break;
        }
        found.extend(some.into_iter().map(|entry| (entry.name, entry.kind)));
    }
    found.sort();
    let wanted = [
        (".", libc::DT_DIR),
        ("..", libc::DT_DIR),
        ("block", libc::DT_BLK),
        ("char", libc::DT_CHR),
        ("directory", libc::DT_DIR),
        ("file", libc::DT_REG),
        ("link", libc::DT_LNK),
        ("pipe", libc::DT_FIFO),
        ("socket", libc::DT_SOCK),
    ];
    assert_eq!(found, wanted.map(|(name, kind)| (name.to_owned(), kind)));
    Ok(())
}

/// A name is bytes: forms of one letter are different names, and so are bytes that are no UTF-8.
fn generic_453_bytes_of_names(g: &Ground) -> Done {
    use std::os::unix::ffi::OsStrExt;
    let longest = "\u{1f300}".repeat(63) + "abc";
    let all: [&[u8]; 9] = [
        "caf\u{e9}".as_bytes(),
        "cafe\u{301}".as_bytes(),
        "\u{212b}".as_bytes(),
        "\u{c5}".as_bytes(),
        "moo\u{202e}gnp.txt".as_bytes(),
        b"\xff\xfe",
        b"a\nb\tc\\",
        b" ",
        longest.as_bytes(),
    ];
    let path = |name: &[u8]| g.folder.join(std::ffi::OsStr::from_bytes(name));
    for name in all {
        let mut file = File::create_new(path(name))?;
        file.write_all(name)?;
    }
    all.iter().for_each(|name| holds(&path(name), name));
    assert_eq!(fs::read_dir(&g.folder)?.count(), all.len());
    fails(File::create_new(path(&[b'x'; 256])), Errno::NAMETOOLONG);
    fails(of(&path(&[b'x'; 256])), Errno::NAMETOOLONG);
    fs::write(path(&[b'x'; 255]), b"")?;
    Ok(())
}

/// A handle opens what has another name now or is still open, and nothing else.
fn generic_477_handles_of_what_is_gone(g: &Ground) -> Done {
    let top = File::open(g.top)?;
    let held = g.file("held", b"held")?;
    fs::write(g.at("moved"), b"moved")?;
    fs::write(g.at("gone"), b"gone")?;
    let handle = |name: &str| handles::handle_of(&g.at(name));
    let handles = match (handle("held"), handle("moved"), handle("gone")) {
        (Ok(held), Ok(moved), Ok(gone)) => [held, moved, gone],
        (Err(error), ..) => return Err(error.into()),
        _ => panic!("some have handles, some have none"),
    };
    fs::remove_file(g.at("held"))?;
    fs::rename(g.at("moved"), g.at("new"))?;
    fs::remove_file(g.at("gone"))?;
    let mut text = String::new();
    handles::open_handle(&top, &handles[0], libc::O_RDONLY)?.read_to_string(&mut text)?;
    handles::open_handle(&top, &handles[1], libc::O_RDONLY)?.read_to_string(&mut text)?;
    assert_eq!(text, "heldmoved");
    fails(handles::open_handle(&top, &handles[2], libc::O_RDONLY), Errno::STALE);
    drop(held);
    Ok(())
}

/// Many files are open, and lose their names; then all are closed at once.
fn generic_488_many_unlinked(g: &Ground) -> Done {
    let mut files = Vec::new();
    for n in 0..700u64 {
        let file = g.file(&n.to_string(), &n.to_le_bytes())?;
        fs::remove_file(g.at(&n.to_string()))?;
        files.push(file);
    }
    assert!(names(&g.folder)?.is_empty());
    for (n, file) in files.iter().enumerate() {
        let mut found = [0; 8];
        file.read_exact_at(&mut found, 0)?;
        assert_eq!((u64::from_le_bytes(found), file.metadata()?.nlink()), (n as u64, 0));
    }
    Ok(())
}

/// Files without names take inodes while they are open, and give them back.
fn generic_530_temporary_files_vanish(g: &Ground) -> Done {
    let free = || rustix::fs::statvfs(g.top).map(|found| found.f_ffree);
    let before = free()?;
    let files = (0..200).map(|_| temporary(&g.folder, OFlags::empty())).collect::<Result<Vec<_>, _>>()?;
    files[0].write_all_at(&bytes(530, 100_000), 0)?;
    assert!(free()? <= before - 100, "{before} and {}", free()?);
    drop(files);
    let back = pocketstone_tests::command::poll(LONG, || free().ok().filter(|now| *now + 100 > before));
    assert!(back.is_some() && names(&g.folder)?.is_empty());
    Ok(())
}

/// Threads make many files without names at once, write to them and close them.
fn generic_531_many_temporary_files(g: &Ground) -> Done {
    std::thread::scope(|scope| {
        let busy = |thread: u64| {
            move || -> std::io::Result<()> {
                let files = (0..150).map(|_| temporary(&g.folder, OFlags::empty())).collect::<Result<Vec<_>, _>>()?;
                for (n, file) in files.iter().enumerate() {
                    file.write_all_at(&bytes(thread, 100 + n), 0)?;
                    assert_eq!(file.metadata()?.len(), 100 + n as u64);
                }
                Ok(())
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(busy(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    Ok(())
}

/// Whoever is in a directory finds the new parent by ".." when it is moved.
fn generic_707_a_moved_directory(g: &Ground) -> Done {
    for name in ["a", "b", "a/child"] {
        g.directory(name)?;
    }
    let child = File::open(g.at("a/child"))?;
    let parent = || rustix::fs::statat(&child, "..", AtFlags::empty()).map(|found| found.st_ino);
    for n in 0..20 {
        let (from, to) = if n % 2 == 0 { ("a", "b") } else { ("b", "a") };
        fs::rename(g.at(from).join("child"), g.at(to).join("child"))?;
        assert_eq!(parent()?, of(&g.at(to))?.ino());
        assert_eq!((of(&g.at(from))?.nlink(), of(&g.at(to))?.nlink()), (2, 3));
        let listed = File::open(g.at(to).join("child"))?;
        let entries = system::list_once(&listed, 4096)?;
        let above = entries.iter().find(|entry| entry.name == "..").map(|entry| entry.ino);
        assert_eq!(above, Some(of(&g.at(to))?.ino()), "what the listing says of ..");
    }
    Ok(())
}

/// A directory opened before a change and read afterwards shows the change.
fn generic_637_listing_after_changes(g: &Ground) -> Done {
    let listed = |directory: &File| -> std::io::Result<Vec<String>> {
        rustix::fs::seek(directory, rustix::fs::SeekFrom::Start(0))?;
        let mut found = Vec::new();
        loop {
            let some = system::list_once(directory, 200)?;
            if some.is_empty() {
                break;
            }
            found.extend(some.into_iter().map(|entry| entry.name).filter(|name| !name.starts_with('.')));
        }
        found.sort();
        Ok(found)
    };
    let open = File::open(&g.folder)?;
    assert!(listed(&open)?.is_empty());
    fs::write(g.at("new"), b"")?;
    assert_eq!(listed(&open)?, ["new"]);
    for n in 0..100 {
        fs::write(g.at(&format!("n{n:02}")), b"")?;
    }
    assert_eq!(listed(&open)?.len(), 101);
    for n in (0..100).step_by(10) {
        fs::remove_file(g.at(&format!("n{n:02}")))?;
        let now = listed(&open)?;
        assert!(!now.contains(&format!("n{n:02}")) && now.len() == 100 - n / 10);
    }
    Ok(())
}
