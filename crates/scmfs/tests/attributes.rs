//! Extended attributes and their namespaces, lists of access rights, and what protects an inode.
//!
//! What must come out is what Linux answers for ext4 and tmpfs; for users of a mount the suite `carry` holds both
//! against each other.

use crate::support::region::Shared;
use crate::support::shape::{Shape, expect_sound};
use crate::support::subject::walk;
use pocketstone_fstest::acl;
use pocketstone_scmfs::{
    ACL_ACCESS, ACL_DEFAULT, Allocate, Error, FileBatch, FileType, Ino, Meta, Operations, Protection, ROOT, Rename,
    Result, SetAttr, SetXattr, Volume,
};

const EPERM: i32 = 1;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const ERANGE: i32 = 34;
const ENODATA: i32 = 61;
const EOPNOTSUPP: i32 = 95;

fn start() -> (Shared, Volume) {
    let (shared, volume, _) = Shape::roomy().start();
    (shared, volume)
}

fn file(volume: &Volume, name: &[u8], permissions: u16) -> Ino {
    volume.create_file(ROOT, name, &Meta::file(permissions)).expect("a new file").ino()
}

fn errno<T: std::fmt::Debug>(outcome: Result<T>) -> i32 {
    outcome.expect_err("it is refused").errno()
}

fn set(volume: &Volume, ino: Ino, name: &[u8]) -> Result<()> {
    volume.set_xattr(ino, name, b"value", SetXattr::Any)
}

fn permissions(volume: &Volume, ino: Ino) -> u16 {
    volume.attributes(ino).expect("attributes").permissions
}

#[test]
fn names_belong_to_namespaces() {
    let (shared, volume) = start();
    let plain = file(&volume, b"file", 0o644);
    let folder = volume.create_directory(ROOT, b"folder", &Meta::directory(0o755)).expect("a directory").ino;
    let link = volume.create_symlink(ROOT, b"link", b"file", 0, 0).expect("a link").ino;
    let fifo = Meta::file(0o600).kind(FileType::Fifo);
    let fifo = volume.create_file(ROOT, b"fifo", &fifo).expect("a fifo").ino();
    for name in [&b"trusted.a"[..], b"security.capability", b"user.a"] {
        for ino in [plain, folder, link, fifo] {
            if name == b"user.a" && (ino == link || ino == fifo) {
                assert_eq!(errno(set(&volume, ino, name)), EPERM);
                assert_eq!(errno(volume.remove_xattr(ino, name)), EPERM);
            } else {
                set(&volume, ino, name).expect("it is set");
                assert_eq!(volume.get_xattr(ino, name).expect("it is there"), b"value");
                volume.remove_xattr(ino, name).expect("it is removed");
                assert_eq!(errno(volume.remove_xattr(ino, name)), ENODATA);
            }
            assert_eq!(errno(volume.get_xattr(ino, name)), ENODATA);
        }
    }
    for name in [&b"system.other"[..], b"other.a", b"bare", b"system.", b"users.a"] {
        assert_eq!(errno(set(&volume, plain, name)), EOPNOTSUPP);
        assert_eq!(errno(volume.get_xattr(plain, name)), EOPNOTSUPP);
        assert_eq!(errno(volume.remove_xattr(plain, name)), EOPNOTSUPP);
    }
    assert_eq!(errno(set(&volume, plain, b"user.")), EINVAL);
    assert_eq!(errno(set(&volume, plain, b"user.a\0b")), EINVAL);
    assert_eq!(errno(set(&volume, plain, b"")), ERANGE);
    assert_eq!(errno(set(&volume, plain, &[&b"user."[..], &[b'x'; 251]].concat())), ERANGE);
    set(&volume, plain, &[&b"user."[..], &[b'x'; 250]].concat()).expect("255 bytes are a name");
    assert_eq!(errno(volume.set_xattr(plain, b"user.a", &[1; 65 << 10], SetXattr::Any)), ENOSPC);
    volume.close().expect("it closes");
    expect_sound(&shared);
}

#[test]
fn a_list_that_a_mode_can_say_becomes_the_mode() {
    let (_, volume) = start();
    let ino = file(&volume, b"file", 0o4600);
    // u::rw-,g::r--,o::r--: what `cp -p` sets for a file of mode 644.
    let minimal = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x04\0\x04\0\xff\xff\xff\xff\x20\0\x04\0\xff\xff\xff\xff";
    set_acl(&volume, ino, ACL_ACCESS, minimal).expect("it is set");
    assert_eq!(permissions(&volume, ino), 0o4644);
    assert_eq!(errno(volume.get_xattr(ino, ACL_ACCESS)), ENODATA);
    assert_eq!(volume.list_xattrs(ino).expect("a list"), Vec::<Vec<u8>>::new());
    // One that says more is there until one that does not replaces it; the mask is the group of the mode.
    set_acl(&volume, ino, ACL_ACCESS, &acl::value(0o670, 7)).expect("it is set");
    set_acl(&volume, ino, ACL_ACCESS, b"").expect("it is removed");
    assert!(matches!(volume.get_xattr(ino, ACL_ACCESS), Err(Error::NoAttribute)));
    set_acl(&volume, ino, ACL_ACCESS, &acl::value(0o670, 7)).expect("it is set");
    assert_eq!(permissions(&volume, ino), 0o4670);
    assert_eq!(volume.list_xattrs(ino).expect("a list"), [ACL_ACCESS]);
    let change = SetAttr::default().permissions(Some(0o2604));
    volume.set_attributes(ino, &change).expect("chmod");
    assert_eq!(volume.get_xattr(ino, ACL_ACCESS).expect("a list"), acl::value(0o604, 7));
    volume.set_acl(ino, ACL_ACCESS, &acl::value(0o775, 7), true).expect("it is set");
    assert_eq!(permissions(&volume, ino), 0o775, "somebody who is not in the group loses it the bit");
    set_acl(&volume, ino, ACL_ACCESS, minimal).expect("it is set");
    assert_eq!(volume.list_xattrs(ino).expect("a list"), Vec::<Vec<u8>>::new());
    // As on ext4: to take away what is not there succeeds, and the mode stays.
    volume.remove_xattr(ino, ACL_ACCESS).expect("nothing to remove");
    assert_eq!(permissions(&volume, ino), 0o644);
}

fn set_acl(volume: &Volume, ino: Ino, name: &[u8], value: &[u8]) -> Result<()> {
    volume.set_xattr(ino, name, value, SetXattr::Any)
}

#[test]
fn lists_are_refused_where_there_can_be_none() {
    let (_, volume) = start();
    let ino = file(&volume, b"file", 0o600);
    let link = volume.create_symlink(ROOT, b"link", b"file", 0, 0).expect("a link").ino;
    assert_eq!(errno(set_acl(&volume, ino, ACL_DEFAULT, &acl::value(0o777, 7))), EACCES);
    assert_eq!(errno(set_acl(&volume, link, ACL_ACCESS, &acl::value(0o777, 7))), EOPNOTSUPP);
    assert_eq!(errno(volume.get_xattr(link, ACL_ACCESS)), EOPNOTSUPP);
    assert_eq!(errno(set_acl(&volume, ino, ACL_ACCESS, b"\x02\0\0\0\x01")), EINVAL);
    assert_eq!(errno(set_acl(&volume, ino, ACL_ACCESS, b"\x01\0\0\0")), EOPNOTSUPP);
    assert_eq!(permissions(&volume, ino), 0o600);
}

#[test]
fn the_umask_counts_unless_a_directory_says_what_is_made_in_it() {
    let (shared, volume) = start();
    let folder = volume.create_directory(ROOT, b"folder", &Meta::directory(0o777)).expect("a directory").ino;
    let masked = |permissions| Meta::file(permissions).umask(0o027);
    let plain = volume.create_file(folder, b"plain", &masked(0o4666)).expect("a file").attributes();
    assert_eq!(plain.permissions, 0o4640);
    set_acl(&volume, folder, ACL_DEFAULT, &acl::value(0o752, 5)).expect("it is set");
    let heir = volume.create_file(folder, b"heir", &masked(0o4666)).expect("a file").attributes();
    assert_eq!(heir.permissions, 0o4642);
    assert_eq!(volume.get_xattr(heir.ino, ACL_ACCESS).expect("a list"), acl::value(0o642, 5));
    let temporary = volume.temporary_file_in(folder, &masked(0o600)).expect("a file");
    assert_eq!(volume.get_xattr(temporary.ino(), ACL_ACCESS).expect("a list"), acl::value(0o600, 5));
    assert_eq!(temporary.attributes().permissions, 0o600);
    drop(temporary);
    assert_eq!(volume.temporary_file(&masked(0o666)).expect("a file").attributes().permissions, 0o666);
    volume.close().expect("it closes");
    expect_sound(&shared);
}

#[test]
fn capabilities_are_dropped_once() {
    let (_, volume) = start();
    let ino = file(&volume, b"program", 0o755);
    assert!(!volume.drop_capability(ino).expect("nothing to drop"));
    for _ in 0..2 {
        set(&volume, ino, b"security.capability").expect("it is set");
        set(&volume, ino, b"user.a").expect("it is set");
        assert!(volume.drop_capability(ino).expect("it is dropped"));
        assert!(!volume.drop_capability(ino).expect("nothing to drop"));
        assert_eq!(volume.list_xattrs(ino).expect("a list"), [b"user.a"]);
    }
    set(&volume, ino, b"security.capability").expect("it is set");
    volume.protect(ino, Protection { append_only: false, immutable: true }).expect("it is protected");
    assert!(!volume.drop_capability(ino).expect("nothing changes it"));
    volume.get_xattr(ino, b"security.capability").expect("it is still there");
}

type Change = fn(&Volume) -> Result<()>;

fn at(volume: &Volume, path: &str) -> Ino {
    volume.resolve(path).expect("it is there")
}

fn attributes(volume: &Volume, change: SetAttr) -> Result<()> {
    volume.set_attributes(at(volume, "/d/f"), &change).map(drop)
}

fn open<T>(volume: &Volume, act: impl FnOnce(&pocketstone_scmfs::File) -> Result<T>) -> Result<()> {
    act(&volume.open(at(volume, "/d/f"))?).map(drop)
}

fn in_a_batch(volume: &Volume, offset: u64) -> Result<()> {
    open(volume, |file| volume.write_batch(&[FileBatch { file, writes: &[(offset, b"x")], size: None }]))
}

/// Changes of `/d/f`, and whether it takes them if it is append-only.
const OF_A_FILE: [(&str, bool, Change); 27] = [
    ("write", false, |v| open(v, |f| f.write_at(b"x", 0))),
    ("write at the end", true, |v| open(v, |f| f.write_at(b"x", 5))),
    ("write atomically", false, |v| open(v, |f| f.write_atomic(b"x", 4))),
    ("write in a batch", false, |v| in_a_batch(v, 0)),
    ("write at the end in a batch", true, |v| in_a_batch(v, 5)),
    ("append", true, |v| open(v, |f| f.append(b"x"))),
    ("open to write", false, |v| open(v, |f| f.may_write(false))),
    ("open to append", true, |v| open(v, |f| f.may_write(true))),
    ("shorten", false, |v| open(v, |f| f.truncate(0))),
    ("lengthen", false, |v| open(v, |f| f.truncate(99))),
    ("set the size", false, |v| attributes(v, SetAttr::default().size(Some(1)))),
    ("reserve", true, |v| open(v, |f| f.allocate(Allocate::Extend, 0, 900))),
    ("reserve and keep the size", true, |v| open(v, |f| f.allocate(Allocate::KeepSize, 0, 2900))),
    ("punch", false, |v| open(v, |f| f.allocate(Allocate::PunchHole, 0, 2))),
    ("zero", false, |v| open(v, |f| f.allocate(Allocate::Zero, 0, 2))),
    ("chmod", false, |v| attributes(v, SetAttr::default().permissions(Some(0)))),
    ("chown", false, |v| attributes(v, SetAttr::default().uid(Some(3)))),
    ("chgrp", false, |v| attributes(v, SetAttr::default().gid(Some(3)))),
    ("set times", false, |v| attributes(v, SetAttr::default().mtime_ns(Some(3)))),
    ("touch", true, |v| attributes(v, SetAttr::default().mtime_ns(Some(3)).implied(true))),
    ("set an attribute", false, |v| set(v, at(v, "/d/f"), b"user.b")),
    ("remove an attribute", false, |v| v.remove_xattr(at(v, "/d/f"), b"user.a")),
    ("set a list", false, |v| set_acl(v, at(v, "/d/f"), ACL_ACCESS, &acl::value(0o777, 7))),
    ("link", false, |v| v.link(at(v, "/d/f"), ROOT, b"n").map(drop)),
    ("unlink", false, |v| v.unlink(at(v, "/d"), b"f")),
    ("rename", false, |v| v.rename(at(v, "/d"), b"f", ROOT, b"n", Rename::Replace)),
    ("replace", false, |v| v.rename(ROOT, b"o", at(v, "/d"), b"f", Rename::Replace)),
];

/// Changes of names in `/d`, and whether it takes them if it is append-only.
const OF_A_DIRECTORY: [(&str, bool, Change); 14] = [
    ("create", true, |v| v.create_file(at(v, "/d"), b"n", &Meta::file(0o600)).map(drop)),
    ("mkdir", true, |v| v.create_directory(at(v, "/d"), b"n", &Meta::directory(0o700)).map(drop)),
    ("symlink", true, |v| v.create_symlink(at(v, "/d"), b"n", b"x", 0, 0).map(drop)),
    ("link into", true, |v| v.link(at(v, "/o"), at(v, "/d"), b"n").map(drop)),
    ("unlink", false, |v| v.unlink(at(v, "/d"), b"f")),
    ("rmdir", false, |v| v.remove_directory(at(v, "/d"), b"e")),
    ("rename within", false, |v| v.rename(at(v, "/d"), b"f", at(v, "/d"), b"n", Rename::NoReplace)),
    ("rename out of", false, |v| v.rename(at(v, "/d"), b"f", ROOT, b"n", Rename::Replace)),
    ("rename into", true, |v| v.rename(ROOT, b"o", at(v, "/d"), b"n", Rename::Replace)),
    ("replace in", false, |v| v.rename(ROOT, b"o", at(v, "/d"), b"f", Rename::Replace)),
    ("exchange", false, |v| v.rename(ROOT, b"o", at(v, "/d"), b"f", Rename::Exchange)),
    ("leave a whiteout in", false, |v| {
        v.rename(at(v, "/d"), b"f", ROOT, b"n", Rename::Whiteout { replace: false, uid: 0, gid: 0 })
    }),
    ("rename it", false, |v| v.rename(ROOT, b"d", ROOT, b"n", Rename::Replace)),
    ("set its default list", false, |v| set_acl(v, at(v, "/d"), ACL_DEFAULT, &acl::value(0o777, 7))),
];

#[test]
fn what_is_protected_does_not_change() {
    for (path, changes) in [("/d/f", &OF_A_FILE[..]), ("/d", &OF_A_DIRECTORY[..])] {
        for (what, takes_more, change) in changes {
            for protection in [
                Protection::default(),
                Protection { append_only: true, immutable: false },
                Protection { append_only: false, immutable: true },
            ] {
                let (shared, volume) = start();
                let folder = volume.create_directory(ROOT, b"d", &Meta::directory(0o755)).expect("a directory").ino;
                volume.create_directory(folder, b"e", &Meta::directory(0o755)).expect("a directory");
                volume.create_file(folder, b"f", &Meta::file(0o644)).expect("a file").append(b"12345").expect("bytes");
                set(&volume, at(&volume, "/d/f"), b"user.a").expect("an attribute");
                file(&volume, b"o", 0o644);
                volume.protect(at(&volume, path), protection).expect("it is protected");
                // Nothing of it is only in memory.
                volume.close().expect("it closes");
                let volume = Shape::roomy().open(&shared);
                assert_eq!(volume.protection(at(&volume, path)).expect("its protection"), protection);
                let before = walk(&volume).expect("it can be read");
                let outcome = change(&volume);
                let allowed = !protection.immutable && (*takes_more || !protection.append_only);
                let text = format!("{what}, {protection:?}: {outcome:?}");
                match outcome {
                    Ok(()) => assert!(allowed, "{text}"),
                    Err(error) => {
                        assert!(!allowed && error.errno() == EPERM, "{text}");
                        assert!(walk(&volume).expect("it can be read") == before, "{text}, and something changed");
                    }
                }
                volume.close().expect("it closes");
                expect_sound(&shared);
            }
        }
    }
}

#[test]
fn what_was_written_before_a_file_was_protected_can_still_be_stored() {
    let (_, volume) = start();
    let ino = file(&volume, b"file", 0o644);
    let open = volume.open(ino).expect("it opens");
    open.append(b"12345").expect("it grows");
    volume.protect(ino, Protection { append_only: true, immutable: true }).expect("it is protected");
    assert!(matches!(open.append(b"6"), Err(Error::NotPermitted)));
    open.write_back(b"abc", 1).expect("it is stored");
    let mut bytes = [0; 9];
    assert_eq!(open.read_at(&mut bytes, 0).expect("it can be read"), 5);
    assert_eq!(&bytes[..5], b"1abc5");
    let fifo = Meta::file(0o600).kind(FileType::Fifo);
    let fifo = volume.create_file(ROOT, b"fifo", &fifo).expect("a fifo").ino();
    assert_eq!(errno(volume.protect(fifo, Protection::default())), EOPNOTSUPP);
}
