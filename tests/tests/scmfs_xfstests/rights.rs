//! Who may do what: users, groups, set-id bits, capabilities.

use crate::attributes::{CAPABILITY, acl_entries, capability};
use crate::cases;
use crate::ground::*;
use crate::groups::Case;
use crate::system::Map;
use pocketstone_testing::Need;
use rustix::fs::{Access, AtFlags, CWD, FallocateFlags, Mode, OFlags, XattrFlags, fallocate};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, chown, symlink};
use std::path::Path;

pub const CASES: &[Case] = cases![
    generic_087_times_and_owners_of_others,
    generic_088_root_reads_what_nobody_may,
    generic_093_capabilities_go_with_a_write,
    generic_123_files_of_others,
    generic_126_access,
    generic_193_changed_by_their_owner,
    generic_237_rights_of_others_stay,
    generic_314_group_of_new_directories,
    generic_355_direct_writes_drop_bits,
    generic_375_lists_drop_the_group_bit,
    generic_378_links_to_what_is_not_theirs,
    generic_444_mask_and_group,
    generic_597_protected_links,
    generic_598_protected_files,
    generic_683_allocating_drops_bits,
    generic_684_punching_drops_bits,
    generic_685_zeroing_drops_bits,
    generic_688_allocating_drops_capabilities,
    generic_696_mask_and_group_of_nameless_files,
    generic_020_owner_and_new_attributes,
];

fn mode(path: &Path) -> std::io::Result<u32> {
    Ok(of(path)?.mode() & 0o7777)
}

/// Only the owner sets times to numbers and changes modes; who may write sets them to now.
fn generic_087_times_and_owners_of_others(g: &Ground) -> Done {
    fs::write(g.at("theirs"), b"")?;
    chown(g.at("theirs"), Some(NOBODY), Some(NOBODY))?;
    fs::write(g.at("shared"), b"")?;
    chmod(&g.at("shared"), 0o666)?;
    let times = |path: &Path, when: i64| {
        let time = rustix::fs::Timespec { tv_sec: 1000, tv_nsec: when };
        let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, path, &times, AtFlags::empty())
    };
    const NOW: i64 = rustix::fs::UTIME_NOW;
    as_user(NOBODY, || {
        times(&g.at("theirs"), 5)?;
        times(&g.at("shared"), NOW)?;
        fails(times(&g.at("shared"), 5), Errno::PERM);
        chmod(&g.at("theirs"), 0o600)?;
        fails(chmod(&g.at("shared"), 0o600), Errno::PERM);
        fails(chown(g.at("theirs"), Some(DAEMON), None), Errno::PERM);
        fails(chown(g.at("theirs"), None, Some(DAEMON)), Errno::PERM);
        chown(g.at("theirs"), None, Some(NOBODY))
    })?;
    chmod(&g.at("shared"), 0o644)?;
    as_user(NOBODY, || fails(times(&g.at("shared"), NOW), Errno::ACCESS));
    assert_eq!((of(&g.at("theirs"))?.mtime(), of(&g.at("theirs"))?.mtime_nsec()), (1000, 5));
    Ok(())
}

/// Root opens what has no permissions at all; others do not.
fn generic_088_root_reads_what_nobody_may(g: &Ground) -> Done {
    fs::write(g.at("closed"), b"text")?;
    chown(g.at("closed"), Some(NOBODY), Some(NOBODY))?;
    chmod(&g.at("closed"), 0)?;
    holds(&g.at("closed"), b"text");
    as_user(NOBODY, || fails(rw(&g.at("closed")), Errno::ACCESS));
    rustix::fs::access(g.at("closed"), Access::READ_OK | Access::WRITE_OK)?;
    fails(rustix::fs::access(g.at("closed"), Access::EXEC_OK), Errno::ACCESS);
    Ok(())
}

fn capable(path: &Path) -> Result<(), Fault> {
    rustix::fs::setxattr(path, CAPABILITY, &capability(), XattrFlags::empty())?;
    Ok(assert_eq!(rustix::fs::getxattr_query(path, CAPABILITY)?, capability().len()))
}

/// File capabilities are gone when the file is written, whoever does it.
fn generic_093_capabilities_go_with_a_write(g: &Ground) -> Done {
    let file = g.file("program", b"text")?;
    capable(&g.at("program"))?;
    file.write_all_at(b"T", 0)?;
    fails(rustix::fs::getxattr_query(g.at("program"), CAPABILITY), Errno::NODATA);
    capable(&g.at("program"))?;
    file.set_len(2)?;
    fails(rustix::fs::getxattr_query(g.at("program"), CAPABILITY), Errno::NODATA);
    capable(&g.at("program"))?;
    chown(g.at("program"), Some(DAEMON), None)?;
    fails(rustix::fs::getxattr_query(g.at("program"), CAPABILITY), Errno::NODATA);
    Ok(())
}

/// A user neither changes nor removes nor renames what is root's in root's directory.
fn generic_123_files_of_others(g: &Ground) -> Done {
    let folder = g.directory("roots")?;
    chmod(&folder, 0o755)?;
    fs::write(folder.join("file"), b"text")?;
    as_user(NOBODY, || {
        let file = folder.join("file");
        holds(&file, b"text");
        fails(rw(&file), Errno::ACCESS);
        fails(open(&file, OFlags::WRONLY | OFlags::APPEND), Errno::ACCESS);
        fails(open(&file, OFlags::RDONLY | OFlags::TRUNC), Errno::ACCESS);
        fails(fs::remove_file(&file), Errno::ACCESS);
        fails(fs::rename(&file, folder.join("other")), Errno::ACCESS);
        fails(fs::write(folder.join("new"), b""), Errno::ACCESS);
        fails(fs::create_dir(folder.join("new")), Errno::ACCESS);
        fails(symlink("x", folder.join("new")), Errno::ACCESS);
    });
    holds(&folder.join("file"), b"text");
    Ok(())
}

/// Every mode, for owner, group and others: what open(2) allows.
fn generic_126_access(g: &Ground) -> Done {
    for bits in 0..8u32 {
        for (shift, owner, group) in [(6, NOBODY, DAEMON), (3, DAEMON, NOBODY), (0, DAEMON, DAEMON)] {
            let path = g.at(&format!("{bits}-{shift}"));
            fs::write(&path, b"text")?;
            chown(&path, Some(owner), Some(group))?;
            chmod(&path, bits << shift)?;
            let allowed = as_user(NOBODY, || {
                let opens = |flags| open(&path, flags).is_ok();
                // access(2) asks for the real user, which is the same here.
                let runs = rustix::fs::access(&path, Access::EXEC_OK).is_ok();
                [opens(OFlags::RDONLY), opens(OFlags::WRONLY), runs]
            });
            assert_eq!(allowed, [bits & 4 != 0, bits & 2 != 0, bits & 1 != 0], "{bits} at {shift}");
        }
    }
    Ok(())
}

/// What becomes of set-id bits when an owner without privileges changes group, content and size.
fn generic_193_changed_by_their_owner(g: &Ground) -> Done {
    let fresh = |bits: u32| -> std::io::Result<std::path::PathBuf> {
        let path = g.at("file");
        let _ = fs::remove_file(&path);
        fs::write(&path, b"text")?;
        chown(&path, Some(NOBODY), Some(NOBODY))?;
        chmod(&path, bits)?;
        Ok(path)
    };
    // Without the right of the group to run it, the group bit is no set-id bit, and stays.
    for (bits, left) in [(0o6777, 0o777), (0o6767, 0o2767), (0o4666, 0o666), (0o2775, 0o775)] {
        let path = fresh(bits)?;
        as_user(NOBODY, || chown(&path, None, Some(NOBODY)))?;
        assert_eq!(mode(&path)?, left, "{bits:o} after chown");
        let path = fresh(bits)?;
        as_user(NOBODY, || rustix::fs::ftruncate(open(&path, OFlags::WRONLY)?, 2).map_err(std::io::Error::from))?;
        assert_eq!(mode(&path)?, left, "{bits:o} after ftruncate");
        let path = fresh(bits)?;
        as_user(NOBODY, || open(&path, OFlags::WRONLY)?.write_all_at(b"T", 0))?;
        assert_eq!(mode(&path)?, left, "{bits:o} after write");
        let path = fresh(bits)?;
        open(&path, OFlags::WRONLY)?.write_all_at(b"T", 0)?;
        assert_eq!(mode(&path)?, bits, "{bits:o} after a write by root");
    }
    // Who is not in the group cannot set the group's bit.
    let path = fresh(0o644)?;
    chown(&path, None, Some(DAEMON))?;
    as_user(NOBODY, || chmod(&path, 0o2755))?;
    assert_eq!(mode(&path)?, 0o755);
    Ok(())
}

/// One user cannot change the list of rights of another's file.
fn generic_237_rights_of_others_stay(g: &Ground) -> Done {
    fs::write(g.at("theirs"), b"")?;
    chown(g.at("theirs"), Some(DAEMON), Some(DAEMON))?;
    let list = acl_entries(&[(1, 7, 0), (2, 7, NOBODY), (4, 5, 0), (16, 7, 0), (32, 5, 0)]);
    let set = || rustix::fs::setxattr(g.at("theirs"), "system.posix_acl_access", &list, XattrFlags::empty());
    as_user(NOBODY, || fails(set(), Errno::PERM));
    as_user(DAEMON, set)?;
    Ok(())
}

/// In a directory with the group bit everything new has its group, and directories the bit.
fn generic_314_group_of_new_directories(g: &Ground) -> Done {
    let folder = g.directory("shared")?;
    chown(&folder, Some(NOBODY), Some(DAEMON))?;
    chmod(&folder, 0o2777)?;
    as_user(NOBODY, || -> std::io::Result<()> {
        fs::create_dir(folder.join("new"))?;
        fs::write(folder.join("file"), b"")?;
        symlink("x", folder.join("link"))
    })?;
    assert_eq!(mode(&folder.join("new"))? & 0o2000, 0o2000);
    for name in ["new", "file", "link"] {
        assert_eq!(of(&folder.join(name))?.gid(), DAEMON, "{name}");
    }
    assert_eq!(mode(&folder.join("file"))? & 0o2000, 0);
    Ok(())
}

fn bits_go(g: &Ground, act: impl Fn(&Path) -> std::io::Result<()> + Sync) -> Done {
    for (bits, left) in [(0o4666, 0o666), (0o6777, 0o777), (0o2777, 0o777), (0o2767, 0o2767), (0o1666, 0o1666)] {
        let path = g.at(&format!("{bits:o}"));
        fs::write(&path, bytes(1, 4 * PAGE))?;
        chown(&path, Some(NOBODY), Some(NOBODY))?;
        chmod(&path, bits)?;
        act(&path)?;
        assert_eq!(mode(&path)?, bits, "root does it to {bits:o}");
        as_user(NOBODY, || act(&path))?;
        assert_eq!(mode(&path)?, left, "the owner does it to {bits:o}");
    }
    Ok(())
}

/// A write past the page cache drops set-id bits, too.
fn generic_355_direct_writes_drop_bits(g: &Ground) -> Done {
    bits_go(g, |path| {
        let wrote =
            Map::holding(&bytes(2, PAGE))?.write_to(0, PAGE, open(path, OFlags::WRONLY | OFlags::DIRECT)?, 0)?;
        Ok(assert_eq!(wrote, PAGE))
    })
}

fn allocates(path: &Path, mode: FallocateFlags) -> std::io::Result<()> {
    Ok(fallocate(rw(path)?, mode, 0, 2 * PAGE as u64)?)
}

/// Allocating space drops set-id bits.
fn generic_683_allocating_drops_bits(g: &Ground) -> Done {
    bits_go(g, |path| allocates(path, FallocateFlags::empty()))
}

/// Punching a hole drops set-id bits.
fn generic_684_punching_drops_bits(g: &Ground) -> Done {
    bits_go(g, |path| allocates(path, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE))
}

/// Zeroing a range drops set-id bits.
fn generic_685_zeroing_drops_bits(g: &Ground) -> Done {
    bits_go(g, |path| allocates(path, FallocateFlags::ZERO_RANGE))
}

/// Allocating space drops capabilities.
fn generic_688_allocating_drops_capabilities(g: &Ground) -> Done {
    fs::write(g.at("program"), bytes(1, PAGE))?;
    chmod(&g.at("program"), 0o777)?;
    capable(&g.at("program"))?;
    as_user(NOBODY, || allocates(&g.at("program"), FallocateFlags::empty()))?;
    fails(rustix::fs::getxattr_query(g.at("program"), CAPABILITY), Errno::NODATA);
    Ok(())
}

/// A new list of rights takes the group bit away when who sets it is not in the group.
fn generic_375_lists_drop_the_group_bit(g: &Ground) -> Done {
    let list = acl_entries(&[(1, 7, 0), (2, 7, DAEMON), (4, 5, 0), (16, 7, 0), (32, 5, 0)]);
    for (group, left) in [(NOBODY, 0o2000), (DAEMON, 0)] {
        let path = g.at(&format!("of-{group}"));
        fs::write(&path, b"")?;
        chown(&path, Some(NOBODY), Some(group))?;
        chmod(&path, 0o2755)?;
        as_user(NOBODY, || rustix::fs::setxattr(&path, "system.posix_acl_access", &list, XattrFlags::empty()))?;
        assert_eq!(mode(&path)? & 0o2000, left, "the file's group is {group}");
    }
    Ok(())
}

/// A link to another's file does not make it one's own.
fn generic_378_links_to_what_is_not_theirs(g: &Ground) -> Done {
    fs::write(g.at("theirs"), b"text")?;
    chmod(&g.at("theirs"), 0o600)?;
    fs::hard_link(g.at("theirs"), g.at("link"))?;
    as_user(NOBODY, || {
        fails(rw(&g.at("link")), Errno::ACCESS);
        fails(chmod(&g.at("link"), 0o666), Errno::PERM);
    });
    chmod(&g.at("link"), 0o644)?;
    as_user(NOBODY, || holds(&g.at("theirs"), b"text"));
    Ok(())
}

/// The mask takes bits away from what is created, and does not touch the group bit of directories.
fn generic_444_mask_and_group(g: &Ground) -> Done {
    let folder = g.directory("shared")?;
    chown(&folder, Some(NOBODY), Some(NOBODY))?;
    chmod(&folder, 0o2777)?;
    for mask in [0o000, 0o022, 0o077, 0o777] {
        as_user(NOBODY, || {
            rustix::process::umask(Mode::from_raw_mode(mask));
            let all = Mode::from_raw_mode(0o777);
            rustix::fs::mkdirat(CWD, folder.join(format!("d{mask:o}")), all)?;
            rustix::fs::openat(CWD, folder.join(format!("f{mask:o}")), OFlags::CREATE | OFlags::RDWR, all).map(drop)
        })?;
        assert_eq!(mode(&folder.join(format!("d{mask:o}")))?, 0o2777 & !mask);
        assert_eq!(mode(&folder.join(format!("f{mask:o}")))?, 0o777 & !mask);
    }
    Ok(())
}

/// A file without a name follows the mask and the group bit as a named one does.
fn generic_696_mask_and_group_of_nameless_files(g: &Ground) -> Done {
    let folder = g.directory("shared")?;
    chown(&folder, Some(NOBODY), Some(DAEMON))?;
    chmod(&folder, 0o2777)?;
    for mask in [0o000, 0o027] {
        let found = as_user(NOBODY, || {
            rustix::process::umask(Mode::from_raw_mode(mask));
            let flags = OFlags::TMPFILE | OFlags::RDWR;
            let file = rustix::fs::openat(CWD, &folder, flags, Mode::from_raw_mode(0o2777))?;
            rustix::fs::fstat(&file)
        })?;
        // Who is not in the directory's group gets a file without the bit.
        assert_eq!((found.st_mode & 0o7777, found.st_gid), (0o777 & !mask, DAEMON));
    }
    Ok(())
}

fn setting(name: &str) -> Option<u32> {
    fs::read_to_string(format!("/proc/sys/fs/{name}")).ok()?.trim().parse().ok()
}

/// In a sticky directory of all, links of others are not followed; what one may not write gets no link.
fn generic_597_protected_links(g: &Ground) -> Done {
    let (Some(links), Some(hard)) = (setting("protected_symlinks"), setting("protected_hardlinks")) else {
        return g.skip(Need::Kernel, "this kernel has no such settings");
    };
    let folder = g.directory("sticky")?;
    fs::write(g.at("target"), b"text")?;
    chown(g.at("target"), Some(DAEMON), Some(DAEMON))?;
    chmod(&folder, 0o1777)?;
    symlink(g.at("target"), folder.join("link"))?;
    rustix::fs::chownat(
        CWD,
        folder.join("link"),
        Some(rustix::fs::Uid::from_raw(DAEMON)),
        None,
        AtFlags::SYMLINK_NOFOLLOW,
    )?;
    let followed = as_user(NOBODY, || fs::read(folder.join("link")).is_ok());
    assert_eq!(followed, links == 0);
    assert!(as_user(DAEMON, || fs::read(folder.join("link")).is_ok()));
    chmod(&g.at("target"), 0o600)?;
    let linked = as_user(NOBODY, || fs::hard_link(g.at("target"), folder.join("hard")).is_ok());
    assert_eq!(linked, hard == 0);
    // And nobody but the owner removes a name there.
    as_user(NOBODY, || fails(fs::remove_file(folder.join("link")), Errno::PERM));
    as_user(DAEMON, || fs::remove_file(folder.join("link")))?;
    Ok(())
}

/// In a sticky directory of all, O_CREAT does not open files of others.
fn generic_598_protected_files(g: &Ground) -> Done {
    let Some(level) = setting("protected_regular") else {
        return g.skip(Need::Kernel, "this kernel has no such setting");
    };
    let folder = g.directory("sticky")?;
    chmod(&folder, 0o1777)?;
    fs::write(folder.join("file"), b"")?;
    chown(folder.join("file"), Some(DAEMON), Some(DAEMON))?;
    chmod(&folder.join("file"), 0o666)?;
    let opened = as_user(NOBODY, || open(&folder.join("file"), OFlags::CREATE | OFlags::WRONLY).is_ok());
    assert_eq!(opened, level == 0);
    assert!(as_user(NOBODY, || open(&folder.join("file"), OFlags::WRONLY).is_ok()));
    Ok(())
}

/// Attributes of the user follow the permissions of the file.
fn generic_020_owner_and_new_attributes(g: &Ground) -> Done {
    fs::write(g.at("file"), b"")?;
    let set = |name: &str| rustix::fs::setxattr(g.at("file"), name, b"value", XattrFlags::empty());
    set("user.roots")?;
    as_user(NOBODY, || {
        fails(set("user.theirs"), Errno::ACCESS);
        fails(rustix::fs::removexattr(g.at("file"), "user.roots"), Errno::ACCESS);
        assert_eq!(rustix::fs::getxattr_query(g.at("file"), "user.roots"), Ok(5));
    });
    chmod(&g.at("file"), 0o666)?;
    as_user(NOBODY, || set("user.theirs"))?;
    chmod(&g.at("file"), 0o600)?;
    as_user(NOBODY, || fails(rustix::fs::getxattr_query(g.at("file"), "user.roots"), Errno::ACCESS));
    symlink("file", g.at("link"))?;
    let on_link = rustix::fs::lsetxattr(g.at("link"), "user.a", b"value", XattrFlags::empty());
    fails(on_link, Errno::PERM);
    Ok(())
}
