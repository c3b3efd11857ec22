//! Extended attributes, lists of rights, flags of inodes.

use crate::cases;
use crate::ground::*;
use crate::groups::Case;
use pocketstone_tests::mounted::{MountedVolume, make, open_to_all};
use rustix::fs::{CWD, FileType, IFlags, Mode, OFlags, StatxFlags, XattrFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::Path;

pub const CASES: &[Case] = cases![
    generic_026_long_lists_of_rights,
    generic_037_replaced_at_once,
    generic_062_on_all_kinds,
    generic_070_beside_other_changes,
    generic_079_append_only_and_immutable,
    generic_097_trusted_and_user,
    generic_099_lists_and_modes,
    generic_105_rights_to_pass,
    generic_117_of_many_sizes,
    generic_319_default_lists,
    generic_337_listed_all,
    generic_377_buffers_too_small,
    generic_389_default_lists_and_nameless_files,
    generic_403_listed_while_changing,
    generic_424_flags_in_statx,
    generic_449_lists_and_full_attributes,
    generic_454_bytes_of_names,
    generic_486_replaced_by_larger,
    generic_523_names_with_a_slash,
    generic_529_empty_lists,
    generic_532_flags_that_are_known,
    generic_533_small_ones,
    generic_545_flags_are_for_root,
    generic_611_a_name_of_one_letter,
    generic_618_many_values_at_once,
];

/// File capabilities.
pub const CAPABILITY: &str = "security.capability";
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// Capabilities of a file in the kernel's form, revision 2: CAP_CHOWN, permitted and effective.
pub fn capability() -> Vec<u8> {
    [0x0200_0001u32, 1, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A list of rights in the kernel's form. Tags: owner 1, user 2, group 4, a group 8, mask 16, others 32.
pub fn acl_entries(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, rights, who) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        // Only a user and a group have a number.
        list.extend(if matches!(tag, 2 | 8) { *who } else { u32::MAX }.to_le_bytes());
    }
    list
}

fn set(path: &Path, name: &str, value: &[u8]) -> rustix::io::Result<()> {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty())
}

fn get(path: &Path, name: &str) -> rustix::io::Result<Vec<u8>> {
    let mut value = vec![0; 70_000];
    let len = rustix::fs::lgetxattr(path, name, &mut value[..])?;
    value.truncate(len);
    Ok(value)
}

fn remove(path: &Path, name: &str) -> rustix::io::Result<()> {
    rustix::fs::lremovexattr(path, name)
}

/// The names, sorted.
fn list(path: &Path) -> rustix::io::Result<Vec<String>> {
    let mut text = vec![0; 70_000];
    let len = rustix::fs::llistxattr(path, &mut text[..])?;
    let names = text[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut names: Vec<String> = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    names.sort();
    Ok(names)
}

/// A list with many entries, as many as fit a page.
fn generic_026_long_lists_of_rights(g: &Ground) -> Done {
    fs::write(g.at("file"), b"")?;
    let long = |users: u32| {
        let mut entries = vec![(1, 6, 0)];
        entries.extend((0..users).map(|n| (2, 4, 1000 + n)));
        entries.extend([(4, 4, 0), (16, 6, 0), (32, 4, 0)]);
        acl_entries(&entries)
    };
    for users in [1, 20, 200, 350] {
        set(&g.at("file"), ACCESS, &long(users))?;
        assert_eq!(get(&g.at("file"), ACCESS)?, long(users), "{users} users");
    }
    Ok(())
}

/// A value that is replaced is the old one or the new one for whoever reads it.
fn generic_037_replaced_at_once(g: &Ground) -> Done {
    fs::write(g.at("file"), b"")?;
    let values = [vec![b'a'; 30], vec![b'b'; 900]];
    set(&g.at("file"), "user.a", &values[0])?;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..400).try_for_each(|n| set(&g.at("file"), "user.a", &values[n % 2])));
        let mut looks = 0;
        while !writer.is_finished() || looks < 50 {
            let found = get(&g.at("file"), "user.a").expect("it is always there");
            assert!(values.contains(&found), "a value of {} bytes", found.len());
            looks += 1;
        }
        writer.join().expect("no panic")
    })?;
    Ok(())
}

/// What each kind of object takes: attributes of the user on files and directories alone.
fn generic_062_on_all_kinds(g: &Ground) -> Done {
    fs::write(g.at("file"), b"")?;
    fs::create_dir(g.at("directory"))?;
    symlink("file", g.at("link"))?;
    for (name, kind) in
        [("pipe", FileType::Fifo), ("char", FileType::CharacterDevice), ("block", FileType::BlockDevice)]
    {
        rustix::fs::mknodat(CWD, g.at(name), kind, Mode::from_raw_mode(0o600), 0x102)?;
    }
    for name in ["file", "directory", "link", "pipe", "char", "block"] {
        let path = g.at(name);
        set(&path, "trusted.a", name.as_bytes())?;
        assert_eq!(get(&path, "trusted.a")?, name.as_bytes());
        if matches!(name, "file" | "directory") {
            set(&path, "user.a", name.as_bytes())?;
            assert_eq!(list(&path)?, ["trusted.a", "user.a"], "{name}");
            remove(&path, "user.a")?;
        } else {
            fails(set(&path, "user.a", b"x"), Errno::PERM);
        }
        assert_eq!(list(&path)?, ["trusted.a"], "{name}");
        remove(&path, "trusted.a")?;
        assert_eq!(list(&path)?, [""; 0], "{name}");
    }
    Ok(())
}

/// Threads change attributes, names and contents of the same files.
fn generic_070_beside_other_changes(g: &Ground) -> Done {
    for n in 0..8 {
        fs::write(g.at(&n.to_string()), b"text")?;
    }
    std::thread::scope(|scope| {
        let busy = |thread: u64| {
            move || -> std::io::Result<()> {
                let mut numbers = Numbers::new(thread);
                for n in 0..250 {
                    let path = g.at(&numbers.below(8).to_string());
                    let name = format!("user.{}", numbers.below(4));
                    match numbers.below(4) {
                        0 => set(&path, &name, &vec![n as u8; numbers.below(300)])?,
                        1 => _ = remove(&path, &name),
                        2 => fs::write(&path, vec![1; numbers.below(5000)])?,
                        _ => chmod(&path, 0o600 + numbers.below(64) as u32)?,
                    }
                }
                Ok(())
            }
        };
        let threads: Vec<_> = (0..3).map(|thread| scope.spawn(busy(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    for n in 0..8 {
        for name in list(&g.at(&n.to_string()))?.iter().filter(|name| name.starts_with("user.")) {
            let value = get(&g.at(&n.to_string()), name)?;
            assert!(value.windows(2).all(|pair| pair[0] == pair[1]), "a value is of one write");
        }
    }
    Ok(())
}

/// Does something on a volume that is asked at every open(2), as a kernel's file system is.
fn asked_at_open(g: &Ground, act: fn(&Ground) -> Done) -> Done {
    if g.kind == Kind::Ext4 {
        return act(g);
    }
    let (region, top) = (g.elsewhere.join("strict.scm"), g.elsewhere.join("strict"));
    fs::create_dir(&top)?;
    make(&region, &["--size", "64M"]);
    let volume = MountedVolume::mount(&region, &top, &["-o", "strict_open"]);
    let folder = top.join("case");
    fs::create_dir(&folder)?;
    open_to_all(&folder);
    let outcome = act(&Ground { folder, top: &top, elsewhere: g.elsewhere.clone(), kind: g.kind });
    volume.end();
    outcome
}

/// Files that only grow, and files that do not change at all.
fn generic_079_append_only_and_immutable(g: &Ground) -> Done {
    asked_at_open(g, append_only_and_immutable)
}

fn append_only_and_immutable(g: &Ground) -> Done {
    let file = g.file("file", b"text")?;
    let path = g.at("file");
    let before = ioctl_getflags(&file)?;
    ioctl_setflags(&file, before | IFlags::APPEND)?;
    let appended = || -> Done {
        fails(rw(&path), Errno::PERM);
        fails(open(&path, OFlags::WRONLY | OFlags::APPEND | OFlags::TRUNC), Errno::PERM);
        std::io::Write::write_all(&mut open(&path, OFlags::WRONLY | OFlags::APPEND)?, b" more")?;
        fails(fs::remove_file(&path), Errno::PERM);
        fails(fs::rename(&path, g.at("other")), Errno::PERM);
        fails(chmod(&path, 0o600), Errno::PERM);
        holds(&path, b"text more");
        Ok(())
    };
    let outcome = appended();
    ioctl_setflags(&file, before)?;
    outcome?;
    ioctl_setflags(&file, before | IFlags::IMMUTABLE)?;
    let immutable = || -> Done {
        fails(open(&path, OFlags::WRONLY | OFlags::APPEND), Errno::PERM);
        fails(fs::remove_file(&path), Errno::PERM);
        fails(fs::hard_link(&path, g.at("link")), Errno::PERM);
        fails(chown(&path, Some(1), None), Errno::PERM);
        fails(set(&path, "user.a", b"x"), Errno::PERM);
        holds(&path, b"text more");
        Ok(())
    };
    let outcome = immutable();
    ioctl_setflags(&file, before)?;
    outcome?;
    fs::remove_file(&path)?;
    Ok(())
}

/// The flags of an inode are shown by statx, too.
fn generic_424_flags_in_statx(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    let before = ioctl_getflags(&file)?;
    let seen = || rustix::fs::statx(CWD, g.at("file"), rustix::fs::AtFlags::empty(), StatxFlags::BASIC_STATS);
    for (flag, bit) in [(IFlags::APPEND, 0x20), (IFlags::IMMUTABLE, 0x10), (IFlags::NODUMP, 0x40)] {
        ioctl_setflags(&file, before | flag)?;
        let with = seen().map(|found| found.stx_attributes.bits() & bit);
        ioctl_setflags(&file, before)?;
        assert_eq!((with?, seen()?.stx_attributes.bits() & bit), (bit, 0), "{flag:?}");
    }
    Ok(())
}

/// statx says which flags the file system knows.
fn generic_532_flags_that_are_known(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    let found = rustix::fs::statx(&file, "", rustix::fs::AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    let known = found.stx_attributes_mask.bits();
    assert_eq!(known & 0x30, 0x30, "append-only and immutable are known: {known:#x}");
    Ok(())
}

/// Without the capability nobody sets or clears the flags.
fn generic_545_flags_are_for_root(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    chown(g.at("file"), Some(NOBODY), Some(NOBODY))?;
    let before = ioctl_getflags(&file)?;
    as_user(NOBODY, || {
        let theirs = rw(&g.at("file")).expect("it is theirs");
        fails(ioctl_setflags(&theirs, before | IFlags::IMMUTABLE), Errno::PERM);
        fails(ioctl_setflags(&theirs, before | IFlags::APPEND), Errno::PERM);
    });
    ioctl_setflags(&file, before | IFlags::APPEND)?;
    let cleared =
        as_user(NOBODY, || ioctl_setflags(fs::File::open(g.at("file"))?, before).map_err(std::io::Error::from));
    ioctl_setflags(&file, before)?;
    fails(cleared, Errno::PERM);
    Ok(())
}

/// Attributes of root's own name space, which users neither see nor set, and such of the user.
fn generic_097_trusted_and_user(g: &Ground) -> Done {
    fs::write(g.at("file"), b"")?;
    chmod(&g.at("file"), 0o666)?;
    for space in ["user", "trusted"] {
        let name = |n: &str| format!("{space}.{n}");
        set(&g.at("file"), &name("noise"), b"woof")?;
        set(&g.at("file"), &name("colour"), b"blue")?;
        set(&g.at("file"), &name("empty"), b"")?;
        assert_eq!(get(&g.at("file"), &name("empty"))?, b"");
        assert_eq!(get(&g.at("file"), &name("noise"))?, b"woof");
        remove(&g.at("file"), &name("colour"))?;
        fails(remove(&g.at("file"), &name("colour")), Errno::NODATA);
        fails(get(&g.at("file"), &name("colour")), Errno::NODATA);
    }
    as_user(NOBODY, || {
        assert_eq!(list(&g.at("file")).expect("a list"), ["user.empty", "user.noise"]);
        fails(get(&g.at("file"), "trusted.noise"), Errno::NODATA);
        fails(set(&g.at("file"), "trusted.theirs", b"x"), Errno::PERM);
    });
    fails(set(&g.at("file"), "unknown.space", b"x"), Errno::OPNOTSUPP);
    fails(set(&g.at("file"), "user.", b"x"), Errno::INVAL);
    Ok(())
}

/// The mode follows the list, the list follows chmod, and the list decides.
fn generic_099_lists_and_modes(g: &Ground) -> Done {
    let path = g.at("file");
    fs::write(&path, b"text")?;
    chmod(&path, 0o640)?;
    fails(get(&path, ACCESS), Errno::NODATA);
    set(&path, ACCESS, &acl_entries(&[(1, 6, 0), (2, 6, NOBODY), (4, 0, 0), (16, 7, 0), (32, 0, 0)]))?;
    // The mask shows where the group's rights are else.
    assert_eq!(of(&path)?.mode() & 0o777, 0o670);
    as_user(NOBODY, || rw(&path))?;
    as_user(DAEMON, || fails(fs::File::open(&path), Errno::ACCESS));
    chmod(&path, 0o640)?;
    assert_eq!(get(&path, ACCESS)?, acl_entries(&[(1, 6, 0), (2, 6, NOBODY), (4, 0, 0), (16, 4, 0), (32, 0, 0)]));
    as_user(NOBODY, || fails(rw(&path), Errno::ACCESS));
    as_user(NOBODY, || fs::File::open(&path))?;
    // One that says no more than a mode is none.
    set(&path, ACCESS, &acl_entries(&[(1, 6, 0), (4, 4, 0), (32, 4, 0)]))?;
    fails(get(&path, ACCESS), Errno::NODATA);
    assert_eq!(of(&path)?.mode() & 0o777, 0o644);
    fails(set(&path, ACCESS, &acl_entries(&[(1, 6, 0), (2, 6, NOBODY), (4, 4, 0), (32, 4, 0)])), Errno::INVAL);
    fails(set(&path, ACCESS, b"nonsense"), Errno::OPNOTSUPP);
    Ok(())
}

/// A list that takes the right to pass a directory away from one user.
fn generic_105_rights_to_pass(g: &Ground) -> Done {
    let folder = g.directory("directory")?;
    fs::write(folder.join("file"), b"text")?;
    chmod(&folder, 0o755)?;
    set(&folder, ACCESS, &acl_entries(&[(1, 7, 0), (2, 4, NOBODY), (4, 5, 0), (16, 7, 0), (32, 5, 0)]))?;
    as_user(NOBODY, || {
        assert_eq!(names(&folder).expect("a list"), ["file"]);
        fails(fs::File::open(folder.join("file")), Errno::ACCESS);
    });
    as_user(DAEMON, || holds(&folder.join("file"), b"text"));
    Ok(())
}

/// What is made in a directory with a default list gets it, less what it was not made with.
fn generic_319_default_lists(g: &Ground) -> Done {
    let folder = g.directory("directory")?;
    let given = acl_entries(&[(1, 7, 0), (2, 7, NOBODY), (4, 5, 0), (16, 7, 0), (32, 5, 0)]);
    set(&folder, DEFAULT, &given)?;
    fs::create_dir(folder.join("new"))?;
    assert_eq!(get(&folder.join("new"), DEFAULT)?, given);
    fs::write(folder.join("file"), b"")?;
    fails(get(&folder.join("file"), DEFAULT), Errno::NODATA);
    let wanted = acl_entries(&[(1, 6, 0), (2, 7, NOBODY), (4, 5, 0), (16, 6, 0), (32, 4, 0)]);
    assert_eq!(get(&folder.join("file"), ACCESS)?, wanted);
    // The mask of the process has no say here.
    assert_eq!(of(&folder.join("file"))?.mode() & 0o777, 0o664);
    fails(set(&folder.join("file"), DEFAULT, &given), Errno::ACCESS);
    Ok(())
}

/// A file without a name gets the default list, too.
fn generic_389_default_lists_and_nameless_files(g: &Ground) -> Done {
    let folder = g.directory("directory")?;
    set(&folder, DEFAULT, &acl_entries(&[(1, 7, 0), (2, 7, NOBODY), (4, 5, 0), (16, 7, 0), (32, 5, 0)]))?;
    let file = open(&folder, OFlags::TMPFILE | OFlags::RDWR)?;
    let mut found = [0; 200];
    let len = rustix::fs::fgetxattr(&file, ACCESS, &mut found[..])?;
    let wanted = acl_entries(&[(1, 6, 0), (2, 7, NOBODY), (4, 5, 0), (16, 4, 0), (32, 4, 0)]);
    assert_eq!(found[..len], wanted[..]);
    Ok(())
}

/// An empty list takes the list away; the list of names fits its buffer or is refused, whatever its size.
fn generic_529_empty_lists(g: &Ground) -> Done {
    let folder = g.directory("directory")?;
    set(&folder, DEFAULT, &acl_entries(&[(1, 7, 0), (2, 7, NOBODY), (4, 5, 0), (16, 7, 0), (32, 5, 0)]))?;
    set(&folder, DEFAULT, &acl_entries(&[]))?;
    fails(get(&folder, DEFAULT), Errno::NODATA);
    let list = acl_entries(&[(1, 7, 0), (2, 7, NOBODY), (4, 7, 0), (16, 7, 0), (32, 7, 0)]);
    set(&folder, ACCESS, &list)?;
    set(&folder, "user.a", b"")?;
    let wanted = rustix::fs::listxattr_query(&folder)?;
    for room in 1..wanted + 9 {
        match rustix::fs::listxattr(&folder, &mut vec![0; room][..]) {
            Ok(got) => assert!(got == wanted && room >= wanted),
            Err(error) => assert!(error == Errno::RANGE && room < wanted, "{error} with {room} of {wanted} bytes"),
        }
    }
    remove(&folder, ACCESS)?;
    fails(get(&folder, ACCESS), Errno::NODATA);
    Ok(())
}

/// Values up to the largest that Linux takes, where the file system takes them, and none beyond.
fn generic_117_of_many_sizes(g: &Ground) -> Done {
    fs::write(g.at("file"), b"")?;
    for size in [0, 1, 100, 255, 256, 1000, 2000, 3500] {
        let value = bytes(size, size as usize);
        set(&g.at("file"), "user.a", &value)?;
        assert_eq!(get(&g.at("file"), "user.a")?, value);
        assert_eq!(rustix::fs::getxattr_query(g.at("file"), "user.a")?, size as usize);
    }
    fails(set(&g.at("file"), "user.a", &[0; 65_537]), Errno::TOOBIG);
    fails(set(&g.at("file"), &format!("user.{}", "x".repeat(251)), b""), Errno::RANGE);
    assert_eq!(get(&g.at("file"), "user.a")?.len(), 3500);
    Ok(())
}

/// Names come and go in a random order; the list is that of a map.
fn generic_337_listed_all(g: &Ground) -> Done {
    fs::write(g.at("file"), b"")?;
    let mut numbers = Numbers::new(337);
    let mut known = std::collections::BTreeMap::new();
    for n in 0..400u64 {
        let name = format!("user.name-{}", numbers.below(25));
        if numbers.below(3) == 0 {
            assert_eq!(remove(&g.at("file"), &name).is_ok(), known.remove(&name).is_some());
        } else {
            let value = bytes(n, numbers.below(60));
            set(&g.at("file"), &name, &value)?;
            known.insert(name, value);
        }
        if n % 10 == 0 {
            assert_eq!(list(&g.at("file"))?, known.keys().cloned().collect::<Vec<_>>());
        }
    }
    for (name, value) in known {
        assert_eq!(get(&g.at("file"), &name)?, value);
    }
    Ok(())
}

/// Buffers that are too small are refused, and empty ones are asked for sizes.
fn generic_377_buffers_too_small(g: &Ground) -> Done {
    let path = g.at("file");
    fs::write(&path, b"")?;
    set(&path, "user.foo", b"value")?;
    set(&path, "user.bar", b"value")?;
    let wanted = "user.foo\0user.bar\0".len();
    assert_eq!(rustix::fs::listxattr_query(&path)?, wanted);
    fails(rustix::fs::listxattr(&path, &mut [0; 1][..]), Errno::RANGE);
    fails(rustix::fs::listxattr(&path, &mut vec![0; wanted - 1][..]), Errno::RANGE);
    assert_eq!(rustix::fs::listxattr(&path, &mut vec![0; wanted][..])?, wanted);
    fails(rustix::fs::getxattr(&path, "user.foo", &mut [0; 4][..]), Errno::RANGE);
    assert_eq!(rustix::fs::getxattr(&path, "user.foo", &mut [0; 5][..])?, 5);
    Ok(())
}

/// Listing and reading beside a thread that sets and removes.
fn generic_403_listed_while_changing(g: &Ground) -> Done {
    let path = g.at("file");
    fs::write(&path, b"")?;
    set(&path, "user.stays", b"here")?;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            (0..300).try_for_each(|n| {
                if n % 2 == 0 { set(&path, "user.goes", &[7; 50]) } else { remove(&path, "user.goes") }
            })
        });
        while !writer.is_finished() {
            let names = list(&path).expect("a list");
            assert!(names.contains(&"user.stays".to_owned()));
            match get(&path, "user.goes") {
                Ok(value) => assert_eq!(value, [7; 50]),
                Err(error) => assert_eq!(error, Errno::NODATA),
            }
        }
        writer.join().expect("no panic")
    })?;
    Ok(())
}

/// Lists of rights where attributes fill the room there is for them: refused, or there.
fn generic_449_lists_and_full_attributes(g: &Ground) -> Done {
    let path = g.at("file");
    fs::write(&path, b"")?;
    let mut count = 0;
    while count < 200 && set(&path, &format!("user.filler-{count}"), &[1; 400]).is_ok() {
        count += 1;
    }
    assert!(count > 3);
    let before = of(&path)?.mode();
    let list = acl_entries(&[(1, 7, 0), (2, 7, NOBODY), (4, 7, 0), (16, 7, 0), (32, 7, 0)]);
    match set(&path, ACCESS, &list) {
        Ok(()) => assert_eq!(get(&path, ACCESS)?, list),
        Err(Errno::NOSPC | Errno::TOOBIG) => assert_eq!(of(&path)?.mode(), before, "refused, and nothing changed"),
        Err(error) => return Err(error.into()),
    }
    assert_eq!(get(&path, "user.filler-0")?, [1; 400]);
    Ok(())
}

/// Names of attributes are bytes.
fn generic_454_bytes_of_names(g: &Ground) -> Done {
    fs::write(g.at("file"), b"")?;
    let all = ["user.caf\u{e9}", "user.cafe\u{301}", "user.\u{212b}", "user.\u{c5}", "user.\u{1f300}", "user. "];
    for name in all {
        set(&g.at("file"), name, name.as_bytes())?;
    }
    let mut wanted = all.map(str::to_owned).to_vec();
    wanted.sort();
    assert_eq!(list(&g.at("file"))?, wanted);
    for name in all {
        assert_eq!(get(&g.at("file"), name)?, name.as_bytes());
    }
    Ok(())
}

/// A small value replaced by a large one, and the reverse, with XATTR_REPLACE.
fn generic_486_replaced_by_larger(g: &Ground) -> Done {
    let path = g.at("file");
    fs::write(&path, b"")?;
    let replace = |value: &[u8]| rustix::fs::setxattr(&path, "user.world", value, XattrFlags::REPLACE);
    let create = || rustix::fs::setxattr(&path, "user.world", b"new", XattrFlags::CREATE);
    fails(replace(b"x"), Errno::NODATA);
    create()?;
    fails(create(), Errno::EXIST);
    for size in [50, 3000, 2, 3000, 300] {
        replace(&bytes(486, size))?;
        assert_eq!(get(&path, "user.world")?, bytes(486, size));
    }
    Ok(())
}

/// A slash in a name is a byte like others.
fn generic_523_names_with_a_slash(g: &Ground) -> Done {
    fs::write(g.at("file"), b"")?;
    set(&g.at("file"), "user.boo/hoo", b"woof")?;
    set(&g.at("file"), "user./", b"slash")?;
    assert_eq!(list(&g.at("file"))?, ["user./", "user.boo/hoo"]);
    assert_eq!(get(&g.at("file"), "user.boo/hoo")?, b"woof");
    Ok(())
}

/// Three small attributes of the user: set, listed, changed, removed, one by one.
fn generic_533_small_ones(g: &Ground) -> Done {
    let path = g.at("file");
    fs::write(&path, b"")?;
    assert_eq!(list(&path)?, [""; 0]);
    for (name, value) in [("user.noise", "woof"), ("user.colour", "blue"), ("user.size", "small")] {
        set(&path, name, value.as_bytes())?;
    }
    assert_eq!(list(&path)?, ["user.colour", "user.noise", "user.size"]);
    remove(&path, "user.colour")?;
    set(&path, "user.size", b"huge")?;
    assert_eq!((get(&path, "user.size")?, list(&path)?.len()), (b"huge".to_vec(), 2));
    fails(get(&path, "user.colour"), Errno::NODATA);
    fails(remove(&path, "user.colour"), Errno::NODATA);
    remove(&path, "user.size")?;
    remove(&path, "user.noise")?;
    assert_eq!(list(&path)?, [""; 0]);
    Ok(())
}

/// The shortest name.
fn generic_611_a_name_of_one_letter(g: &Ground) -> Done {
    fs::write(g.at("file"), b"")?;
    set(&g.at("file"), "user.a", b"")?;
    assert_eq!(get(&g.at("file"), "user.a")?, b"");
    assert_eq!(list(&g.at("file"))?, ["user.a"]);
    Ok(())
}

/// Many attributes of different sizes on one file, until there is no room, and none is damaged.
fn generic_618_many_values_at_once(g: &Ground) -> Done {
    let path = g.at("file");
    fs::write(&path, b"")?;
    let mut there = Vec::new();
    for n in 0..300u64 {
        let (name, value) = (format!("user.n{n}"), bytes(n, (n as usize * 37) % 120));
        match set(&path, &name, &value) {
            Ok(()) => there.push((name, value)),
            Err(Errno::NOSPC | Errno::TOOBIG) => {}
            Err(error) => return Err(error.into()),
        }
    }
    assert!(there.len() >= 25, "only {} fit", there.len());
    for (name, value) in &there {
        assert_eq!(&get(&path, name)?, value, "{name}");
    }
    assert_eq!(list(&path)?.len(), there.len());
    Ok(())
}
