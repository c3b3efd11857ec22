//! The mount itself: read-only and other options, handles of files, statfs, name spaces, swap.

use crate::cases;
use crate::ground::*;
use crate::groups::Case;
use pocketstone_testing::Need;
use pocketstone_testing::wait::retry;
use pocketstone_tests::command::copy_program;
use pocketstone_tests::handles::{handle_of, open_handle};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

pub const CASES: &[Case] = cases![
    generic_050_read_only,
    generic_067_mounts_that_fail,
    generic_120_without_access_times,
    generic_128_without_set_ids,
    generic_294_what_exists_when_read_only,
    generic_306_devices_when_read_only,
    generic_409_bound_elsewhere,
    generic_426_handles,
    generic_467_handles_of_directories,
    generic_472_swap,
    generic_599_remounted_while_busy,
    generic_632_bound_and_taken_away,
    generic_317_other_users_numbers,
];

/// Does something with the file system mounted otherwise, and puts it back.
fn remounted(g: &Ground, flags: MountFlags, act: impl FnOnce() -> Done) -> Done {
    // What another group has just started holds what was closed here until it runs its program.
    let set = |flags| retry(|error| *error == Errno::BUSY, || mount_remount(g.top, flags, ""));
    set(flags)?;
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
    // Without a word on access times they would stay as they are.
    set(MountFlags::RELATIME)?;
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A file system that is mounted to read only is read, and not changed in any way.
fn generic_050_read_only(g: &Ground) -> Done {
    fs::write(g.at("file"), b"text")?;
    fs::create_dir(g.at("directory"))?;
    remounted(g, MountFlags::RDONLY, || {
        holds(&g.at("file"), b"text");
        fails(fs::write(g.at("file"), b"other"), Errno::ROFS);
        fails(fs::write(g.at("new"), b""), Errno::ROFS);
        fails(fs::remove_file(g.at("file")), Errno::ROFS);
        fails(fs::rename(g.at("file"), g.at("new")), Errno::ROFS);
        fails(fs::hard_link(g.at("file"), g.at("new")), Errno::ROFS);
        fails(chmod(&g.at("file"), 0o600), Errno::ROFS);
        fails(fs::remove_dir(g.at("directory")), Errno::ROFS);
        let set = rustix::fs::setxattr(g.at("file"), "user.a", b"x", rustix::fs::XattrFlags::empty());
        fails(set, Errno::ROFS);
        fails(rustix::fs::access(g.at("file"), rustix::fs::Access::WRITE_OK), Errno::ROFS);
        Ok(())
    })?;
    fs::write(g.at("file"), b"other")?;
    Ok(())
}

/// Mounts of what is no volume, at what is no directory, fail and leave nothing.
fn generic_067_mounts_that_fail(g: &Ground) -> Done {
    let (image, file, directory) = (g.elsewhere.join("image"), g.at("file"), g.at("directory"));
    File::create(&image)?.set_len(8 << 20)?;
    fs::write(&file, b"")?;
    fs::create_dir(&directory)?;
    let device = |path: &std::path::Path| of(path).map(|found| found.dev());
    let before = device(&directory)?;
    let mount = |from: &std::path::Path, to: &std::path::Path| {
        let ran = if g.kind == Kind::Scmfs {
            pocketstone_tests::command::run(pocketstone_tests::mounted::scmfs(["mount"]).arg(from).arg(to))
        } else {
            let mut words = Command::new("mount");
            pocketstone_tests::command::run(words.args(["-t", "ext4", "-o", "loop"]).args([from, to]))
        };
        assert!(ran.status.is_some_and(|status| status != 0) && !ran.err.is_empty(), "{ran}");
    };
    mount(&image, &directory);
    mount(&image, &file);
    mount(&g.elsewhere.join("nothing"), &directory);
    mount(&g.elsewhere, &directory);
    assert_eq!(device(&directory)?, before);
    Ok(())
}

/// With noatime, and nodiratime, reading changes no times.
fn generic_120_without_access_times(g: &Ground) -> Done {
    fs::write(g.at("file"), b"text")?;
    let time = |name: &str| of(&g.at(name)).map(|found| (found.atime(), found.atime_nsec()));
    remounted(g, MountFlags::NOATIME, || {
        let before = (time("file")?, time("")?);
        tick();
        holds(&g.at("file"), b"text");
        names(&g.folder)?;
        assert_eq!((time("file")?, time("")?), before);
        Ok(())
    })?;
    tick();
    fs::write(g.at("file"), b"text")?;
    let before = time("file")?;
    tick();
    holds(&g.at("file"), b"text");
    assert!(time("file")? > before);
    Ok(())
}

/// With nosuid, nodev and noexec, programs and devices are without effect.
fn generic_128_without_set_ids(g: &Ground) -> Done {
    copy_program("/usr/bin/id", &g.at("id"));
    fs::set_permissions(g.at("id"), fs::Permissions::from_mode(0o4755))?;
    rustix::fs::mknodat(CWD, g.at("null"), FileType::CharacterDevice, Mode::from_raw_mode(0o666), 0x103)?;
    let mut words = Command::new("setpriv");
    let words = words.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(g.at("id")).arg("-u");
    let mut id = || words.output().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    assert_eq!(id()?, "0");
    remounted(g, MountFlags::NOSUID | MountFlags::NODEV, || {
        assert_eq!(id()?, "65534");
        fails(rw(&g.at("null")), Errno::ACCESS);
        Ok(())
    })?;
    remounted(g, MountFlags::NOEXEC, || {
        fails(Command::new(g.at("id")).status(), Errno::ACCESS);
        Ok(())
    })?;
    File::open(g.at("null"))?;
    Ok(())
}

/// What exists exists, also where nothing could be made.
fn generic_294_what_exists_when_read_only(g: &Ground) -> Done {
    fs::create_dir(g.at("directory"))?;
    fs::write(g.at("file"), b"")?;
    std::os::unix::fs::symlink("file", g.at("link"))?;
    remounted(g, MountFlags::RDONLY, || {
        fails(fs::create_dir(g.at("directory")), Errno::EXIST);
        let made = rustix::fs::mknodat(CWD, g.at("file"), FileType::Fifo, Mode::from_raw_mode(0o600), 0);
        fails(made, Errno::EXIST);
        fails(std::os::unix::fs::symlink("x", g.at("link")), Errno::EXIST);
        fails(fs::create_dir(g.at("new")), Errno::ROFS);
        File::open(g.at("file"))?;
        open(&g.at("file"), OFlags::CREATE | OFlags::RDONLY)?;
        Ok(())
    })
}

/// Devices can be written to where files cannot.
fn generic_306_devices_when_read_only(g: &Ground) -> Done {
    rustix::fs::mknodat(CWD, g.at("null"), FileType::CharacterDevice, Mode::from_raw_mode(0o666), 0x103)?;
    rustix::fs::mknodat(CWD, g.at("zero"), FileType::CharacterDevice, Mode::from_raw_mode(0o666), 0x105)?;
    std::os::unix::fs::symlink("null", g.at("link"))?;
    fs::write(g.at("file"), b"text")?;
    let device = g.file("bound", b"")?;
    drop(device);
    remounted(g, MountFlags::RDONLY, || {
        rw(&g.at("null"))?.write_all(b"away")?;
        open(&g.at("link"), OFlags::WRONLY)?.write_all(b"away")?;
        let mut found = [1; 16];
        File::open(g.at("zero"))?.read_exact(&mut found)?;
        assert_eq!(found, [0; 16]);
        mount_bind(g.at("null"), g.at("bound"))?;
        let wrote = open(&g.at("bound"), OFlags::WRONLY).and_then(|mut file| file.write_all(b"away"));
        unmount(g.at("bound"), UnmountFlags::empty())?;
        wrote?;
        fails(rw(&g.at("file")), Errno::ROFS);
        Ok(())
    })
}

/// A part of it bound elsewhere is the same files.
fn generic_409_bound_elsewhere(g: &Ground) -> Done {
    let (here, there) = (g.directory("here")?, g.elsewhere.join("there"));
    fs::create_dir(&there)?;
    mount_bind(&here, &there)?;
    let act = || -> Done {
        fs::write(here.join("file"), b"text")?;
        holds(&there.join("file"), b"text");
        fs::rename(there.join("file"), there.join("new"))?;
        holds(&here.join("new"), b"text");
        assert_eq!(of(&here)?.ino(), of(&there)?.ino());
        // Two mounts are two file systems to rename and link, even if they are one.
        fails(fs::rename(here.join("new"), there.join("other")), Errno::XDEV);
        fails(fs::hard_link(here.join("new"), there.join("other")), Errno::XDEV);
        mount_remount(&there, MountFlags::BIND | MountFlags::RDONLY, "")?;
        fails(fs::write(there.join("new"), b""), Errno::ROFS);
        fs::write(here.join("new"), b"more")?;
        holds(&there.join("new"), b"more");
        Ok(())
    };
    let done = act();
    unmount(&there, UnmountFlags::DETACH)?;
    done
}

/// A file is opened by its handle, while it is known and after the kernel forgot it.
fn generic_426_handles(g: &Ground) -> Done {
    let top = File::open(g.top)?;
    let mut handles = Vec::new();
    for n in 0..60 {
        fs::write(g.at(&n.to_string()), n.to_string())?;
        handles.push(handle_of(&g.at(&n.to_string()))?);
    }
    for forget in [false, true] {
        if forget {
            rustix::fs::syncfs(&top)?;
            fs::write("/proc/sys/vm/drop_caches", "2")?;
        }
        for (n, handle) in handles.iter().enumerate() {
            let mut text = String::new();
            open_handle(&top, handle, libc::O_RDWR)?.read_to_string(&mut text)?;
            assert_eq!(text, n.to_string());
        }
    }
    fs::remove_file(g.at("7"))?;
    fails(open_handle(&top, &handles[7], libc::O_RDONLY), Errno::STALE);
    // A new file with the number of an old one is another one.
    for n in 0..60 {
        fs::write(g.at(&format!("new-{n}")), b"new")?;
    }
    fails(open_handle(&top, &handles[7], libc::O_RDONLY), Errno::STALE);
    Ok(())
}

/// The same for directories, and for what is in one that was moved.
fn generic_467_handles_of_directories(g: &Ground) -> Done {
    let top = File::open(g.top)?;
    fs::create_dir_all(g.at("a/b/c"))?;
    fs::write(g.at("a/b/c/file"), b"text")?;
    let (directory, file) = (handle_of(&g.at("a/b/c"))?, handle_of(&g.at("a/b/c/file"))?);
    fs::rename(g.at("a/b"), g.at("moved"))?;
    rustix::fs::syncfs(&top)?;
    fs::write("/proc/sys/vm/drop_caches", "2")?;
    let opened = open_handle(&top, &directory, libc::O_RDONLY | libc::O_DIRECTORY)?;
    assert_eq!(opened.metadata()?.ino(), of(&g.at("moved/c"))?.ino());
    let within = rustix::fs::openat(&opened, "file", OFlags::RDONLY, Mode::empty())?;
    let mut text = String::new();
    File::from(within).read_to_string(&mut text)?;
    open_handle(&top, &file, libc::O_RDONLY)?.read_to_string(&mut text)?;
    assert_eq!(text, "texttext");
    let above = rustix::fs::statat(&opened, "..", rustix::fs::AtFlags::empty())?;
    assert_eq!(above.st_ino, of(&g.at("moved"))?.ino());
    Ok(())
}

/// A file on it is no place to swap to, and that is said.
fn generic_472_swap(g: &Ground) -> Done {
    fs::write(g.at("swap"), vec![0; 1 << 20])?;
    chmod(&g.at("swap"), 0o600)?;
    let path = std::ffi::CString::new(std::os::unix::ffi::OsStrExt::as_bytes(g.at("swap").as_os_str()))?;
    // SAFETY: a path that ends with a zero; the file has no header, so that it is taken by no kernel.
    let done = unsafe { libc::swapon(path.as_ptr(), 0) };
    let error = std::io::Error::last_os_error();
    assert_eq!((done, error.raw_os_error()), (-1, Some(libc::EINVAL)), "{error}");
    Ok(())
}

/// While files are open to be written it cannot become read-only; after that it can.
fn generic_599_remounted_while_busy(g: &Ground) -> Done {
    let file = g.file("file", b"text")?;
    fails(mount_remount(g.top, MountFlags::RDONLY, ""), Errno::BUSY);
    drop(file);
    remounted(g, MountFlags::RDONLY, || Ok(holds(&g.at("file"), b"text")))?;
    let reader = File::open(g.at("file"))?;
    remounted(g, MountFlags::RDONLY, || Ok(holds(&g.at("file"), b"text")))?;
    drop(reader);
    fs::write(g.at("file"), b"more")?;
    Ok(())
}

/// A directory with something bound to it cannot be removed, and can be afterwards.
fn generic_632_bound_and_taken_away(g: &Ground) -> Done {
    let directory = g.directory("directory")?;
    mount_bind(&g.elsewhere, &directory)?;
    let removed = fs::remove_dir(&directory);
    unmount(&directory, UnmountFlags::empty())?;
    fails(removed, Errno::BUSY);
    fs::remove_dir(&directory)?;
    Ok(())
}

/// In a name space of users of its own, files of numbers that it does not know are nobody's.
fn generic_317_other_users_numbers(g: &Ground) -> Done {
    fs::write(g.at("file"), b"text")?;
    chmod(&g.at("file"), 0o644)?;
    let script = "cat \"$0\" && stat -c %u:%g \"$0\" && ! chmod 600 \"$0\" 2>/dev/null && touch \"$1\"";
    let mut words = Command::new("setpriv");
    words.args(["--reuid", "1", "--regid", "1", "--clear-groups", "unshare", "-U", "-r", "sh", "-c", script]);
    let ran = pocketstone_tests::command::run(words.arg(g.at("file")).arg(g.at("new")));
    if ran.err.contains("unshare failed") {
        return g.skip(Need::Namespaces, "this kernel gives users no name space of their own");
    }
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "text65534:65534\n"), "{ran}");
    assert_eq!((of(&g.at("new"))?.uid(), of(&g.at("new"))?.gid()), (1, 1));
    Ok(())
}
