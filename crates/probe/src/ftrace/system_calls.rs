//! System calls in ftrace text: `sys_pread64(fd: 3, buf: 0x7f.., count: 0x1000, pos: 0)` and
//! `sys_pread64 -> 0x1000`.
//!
//! All numbers are hexadecimal: with 0x in front, but for a single digit, on today's kernels, and without
//! on older ones such as 6.1. A 32-bit kernel passes a 64-bit position in a register pair that the trace
//! does not follow.

use pocketstone_core::events::SystemCall;

/// What a call's arguments say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Called<'a> {
    pub call: SystemCall,
    pub fd: Option<i64>,
    pub offset: Option<u64>,
    pub bytes: u64,
    /// The file's name, on kernels that write it.
    pub name: Option<&'a str>,
    /// The descriptor to which the kernel writes what the call reads from the other one.
    pub copies_to: Option<i64>,
    /// The descriptor of the folder that the name starts from; `None`: that which the process is in.
    pub folder: Option<i64>,
}

/// Where a process goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folder<'a> {
    /// To a folder by its name, on kernels that write it.
    Named(Option<&'a str>),
    /// To that of a descriptor.
    Open(i64),
}

/// The call that a kernel's name stands for, where a log follows it. Some arguments make a call another
/// one (fcntl without a lock): [`enter`] decides.
pub(super) fn kind(name: &str) -> Option<SystemCall> {
    Some(match name {
        "read" | "pread64" | "readv" | "preadv" | "preadv2" => SystemCall::Read,
        // With the write of what they read.
        "sendfile" | "sendfile64" | "copy_file_range" | "splice" => SystemCall::Read,
        "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" => SystemCall::Write,
        "fsync" | "fdatasync" | "msync" | "sync" | "syncfs" | "sync_file_range" | "sync_file_range2" => {
            SystemCall::Sync
        }
        "open" | "openat" | "openat2" | "creat" => SystemCall::Open,
        "close" => SystemCall::Close,
        "unlink" | "unlinkat" => SystemCall::Delete,
        "ftruncate" | "ftruncate64" | "fallocate" => SystemCall::Truncate,
        "fcntl" | "fcntl64" | "flock" => SystemCall::Lock,
        _ => return None,
    })
}

/// F_GETLK, F_SETLK and F_SETLKW, their 64-bit forms and those of open file descriptions.
const LOCKS: [u64; 9] = [5, 6, 7, 12, 13, 14, 36, 37, 38];
/// In the place of a folder's descriptor: the folder that the process is in.
const AT_FDCWD: i64 = -100;
/// unlinkat's AT_REMOVEDIR.
const REMOVE_FOLDER: u64 = 0x200;

/// What a call's start says: `Ok(None)` where it is none that a log follows.
///
/// `narrow` tells that the kernel is a 32-bit one.
///
/// # Errors
/// `Err(())` when an argument that the call must have is missing or no number.
pub(super) fn enter<'a>(name: &str, arguments: &'a str, narrow: bool) -> Result<Option<Called<'a>>, ()> {
    let Some(call) = kind(name) else { return Ok(None) };
    let value = |wanted: &str| argument(arguments, wanted).and_then(number);
    let must = |wanted: &str| value(wanted).ok_or(());
    let mut called = Called { call, fd: None, offset: None, bytes: 0, name: None, copies_to: None, folder: None };
    let wide = |offset: u64| if narrow { None } else { Some(offset) };
    if let "openat" | "openat2" | "unlinkat" = name {
        called.folder = value("dfd").map(descriptor).filter(|fd| *fd != AT_FDCWD);
    }
    match name {
        "open" | "openat" | "openat2" | "creat" => called.name = quoted(arguments, "filename"),
        "unlink" => called.name = quoted(arguments, "pathname"),
        "unlinkat" => {
            if must("flag")? & REMOVE_FOLDER != 0 {
                return Ok(None);
            }
            called.name = quoted(arguments, "pathname");
        }
        "msync" => called.bytes = must("len")?,
        // Of all files.
        "sync" => {}
        "sendfile" | "sendfile64" => {
            (called.fd, called.copies_to) = (Some(descriptor(must("in_fd")?)), Some(descriptor(must("out_fd")?)));
            called.bytes = must("count")?;
        }
        "copy_file_range" | "splice" => {
            (called.fd, called.copies_to) = (Some(descriptor(must("fd_in")?)), Some(descriptor(must("fd_out")?)));
            called.bytes = must("len")?;
        }
        _ => called.fd = Some(descriptor(must("fd")?)),
    }
    match name {
        "read" | "write" => called.bytes = must("count")?,
        "pread64" | "pwrite64" => (called.bytes, called.offset) = (must("count")?, wide(must("pos")?)),
        "preadv" | "preadv2" | "pwritev" | "pwritev2" => {
            let high = if narrow { must("pos_h")? << 32 } else { 0 };
            called.offset = Some(must("pos_l")? | high);
        }
        "fallocate" if !narrow => (called.offset, called.bytes) = (Some(must("offset")?), must("len")?),
        "sync_file_range" if !narrow => (called.offset, called.bytes) = (Some(must("offset")?), must("nbytes")?),
        "fcntl" | "fcntl64" if !LOCKS.contains(&must("cmd")?) => return Ok(None),
        _ => {}
    }
    Ok(Some(called))
}

/// fcntl's F_DUPFD and F_DUPFD_CLOEXEC.
const DUPLICATES: [u64; 2] = [0, 1030];

/// The descriptor that a call's start says is to be known by another number, too, which the call returns.
pub(super) fn duplicates(name: &str, arguments: &str) -> Option<i64> {
    let value = |wanted: &str| argument(arguments, wanted).and_then(number);
    let fd = match name {
        "dup" => value("fildes"),
        "dup2" | "dup3" => value("oldfd"),
        "fcntl" | "fcntl64" => value("fd").filter(|_| value("cmd").is_some_and(|cmd| DUPLICATES.contains(&cmd))),
        _ => None,
    };
    fd.map(descriptor)
}

/// An int: -1 is no descriptor.
fn descriptor(value: u64) -> i64 {
    i64::from(value as u32 as i32)
}

/// The folder that a call's start says is to be the process's.
pub(super) fn moves<'a>(name: &str, arguments: &'a str) -> Option<Folder<'a>> {
    match name {
        "chdir" => Some(Folder::Named(quoted(arguments, "filename"))),
        "fchdir" => argument(arguments, "fd").and_then(number).map(|fd| Folder::Open(descriptor(fd))),
        _ => None,
    }
}

/// What a call returned. An error is a small negative number, in as many bits as the machine has.
pub(super) fn result(text: &str) -> Option<i64> {
    let value = number(text)?;
    Some(match u32::try_from(value) {
        Ok(low) if low as i32 >= -4095 && (low as i32) < 0 => i64::from(low as i32),
        _ => value as i64,
    })
}

fn argument<'a>(arguments: &'a str, wanted: &str) -> Option<&'a str> {
    let mut rest = arguments;
    while let Some(at) = rest.find(wanted) {
        let starts = at == 0 || rest[..at].ends_with(", ");
        let after = &rest[at + wanted.len()..];
        match after.strip_prefix(": ") {
            Some(value) if starts => return Some(&value[..value.find([',', ' ']).unwrap_or(value.len())]),
            _ => rest = after,
        }
    }
    None
}

/// A name behind its address: `filename: 0x7ffd "/etc/passwd"`, as Linux writes it from 6.19 on.
fn quoted<'a>(arguments: &'a str, wanted: &str) -> Option<&'a str> {
    let (_, after) = arguments.split_once(wanted)?;
    let (address, name) = after.strip_prefix(": ")?.split_once(" \"")?;
    number(address)?;
    Some(&name[..name.find('"')?])
}

fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_as_a_6_18_kernel_writes_them() {
        let read = enter("pread64", "fd: 3, buf: 0x557064035540, count: 0x2328, pos: 0", false).unwrap().unwrap();
        assert_eq!(
            read,
            Called {
                call: SystemCall::Read,
                fd: Some(3),
                offset: Some(0),
                bytes: 9000,
                name: None,
                copies_to: None,
                folder: None
            }
        );
        // A 32-bit kernel's `pos` is the padding before the register pair.
        assert_eq!(
            enter("pread64", "fd: 3, buf: 0x5570, count: 0x10, pos: 0xbeef", true).unwrap().unwrap().offset,
            None
        );
        let vector = "fd: 0xb, vec: 0x5, vlen: 2, pos_l: 0x80000000, pos_h: 1";
        assert_eq!(enter("preadv", vector, true).unwrap().unwrap().offset, Some(0x1_8000_0000));
        assert_eq!(enter("preadv", vector, false).unwrap().unwrap().offset, Some(0x8000_0000));
        assert_eq!(enter("fcntl", "fd: 0xb, cmd: 2, arg: 1", false), Ok(None));
        assert_eq!(enter("fcntl64", "fd: 0xb, cmd: 0xd, arg: 0x1", false).unwrap().unwrap().call, SystemCall::Lock);
        // As Linux 6.1 writes it on ARM.
        let old = enter("fcntl64", "fd: 1f, cmd: d, arg: bed7f1a0", true).unwrap().unwrap();
        assert_eq!((old.call, old.fd), (SystemCall::Lock, Some(31)));
        assert_eq!(enter("unlinkat", "dfd: 0xffffff9c, pathname: 0x55, flag: 0x200", false), Ok(None));
        let sync = |name, arguments| enter(name, arguments, false).unwrap().map(|called| (called.call, called.fd));
        assert_eq!(sync("sync", ""), Some((SystemCall::Sync, None)));
        assert_eq!(sync("syncfs", "fd: 0x4"), Some((SystemCall::Sync, Some(4))));
        assert_eq!(enter("newfstatat", "dfd: 3", false), Ok(None));
        assert_eq!(duplicates("dup", "fildes: 0x1f"), Some(31));
        assert_eq!(duplicates("dup2", "oldfd: 3, newfd: 1"), Some(3));
        assert_eq!(duplicates("fcntl", "fd: 1, cmd: 0x406, arg: 0xa"), Some(1));
        assert_eq!(duplicates("fcntl", "fd: 1, cmd: 0x1, arg: 0"), None);
        assert_eq!(enter("read", "fd: 3, buf: 0x1", false), Err(()));
        let open = "dfd: 0xffffffffffffff9c, filename: 0x7ffd \"/tmp/a b\", flags: 0, mode: 0";
        assert_eq!(enter("openat", open, false).unwrap().unwrap().name, Some("/tmp/a b"));
        assert_eq!(
            enter("openat", "dfd: 0xffffff9c, filename: 0x5607cc952000, flags: 0", false).unwrap().unwrap().name,
            None
        );
    }

    #[test]
    fn errors_are_negative_on_32_and_64_bits() {
        assert_eq!(result("0x1388"), Some(5000));
        assert_eq!(result("0x0"), Some(0));
        assert_eq!(result("0xfffffffffffffffe"), Some(-2));
        assert_eq!(result("0xfffffff5"), Some(-11));
        assert_eq!(result("soon"), None);
    }
}
