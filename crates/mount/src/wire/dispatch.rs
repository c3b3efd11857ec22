//! From a question to the operation it asks for, and from what that returns to the answer.

use super::filesystem::{Answer, Content, Filesystem};
use super::reply::{Attributes, Listing, Opened, Reply};
use super::request::{Operation, Part, Request};
use rustix::io::Errno;

/// Most bytes of one read that an answer is made for; the kernel asks for as much as was agreed on, which is less.
const MOST: u32 = 16 << 20;

/// What becomes of a question.
pub(crate) enum Outcome<'a> {
    /// The answer is made.
    Made,
    /// The answer is this content.
    There(&'a [u8]),
    /// The answer is an error.
    Refused(Errno),
    /// There is none.
    Silent,
}

/// Has a file system do what it is asked for.
pub(crate) fn carry_out<'a, F: Filesystem>(
    fs: &'a F,
    request: &Request,
    operation: &Operation<'_>,
    reply: &mut Reply,
) -> Outcome<'a> {
    reply.clear();
    match operation {
        // The two that data go through.
        Operation::Read(part) => return read(fs, request, part, reply),
        Operation::Forget { lookups } => {
            fs.forget(request.node, *lookups);
            return Outcome::Silent;
        }
        Operation::BatchForget(forgotten) => {
            forgotten.for_each(|(node, lookups)| fs.forget(node, lookups));
            return Outcome::Silent;
        }
        _ => {}
    }
    match answer(fs, request, operation, reply) {
        Ok(()) => Outcome::Made,
        Err(error) => Outcome::Refused(error),
    }
}

fn read<'a, F: Filesystem>(fs: &'a F, request: &Request, part: &Part, reply: &mut Reply) -> Outcome<'a> {
    if part.size > MOST {
        return Outcome::Refused(Errno::INVAL);
    }
    match fs.read(request, part, reply.room(part.size as usize)) {
        Ok(Content::Filled(bytes)) => {
            reply.filled(bytes);
            Outcome::Made
        }
        Ok(Content::There(data)) => Outcome::There(data),
        Err(error) => Outcome::Refused(error),
    }
}

fn answer<F: Filesystem>(fs: &F, to: &Request, operation: &Operation<'_>, reply: &mut Reply) -> Answer<()> {
    match operation {
        Operation::Lookup { name } => match fs.lookup(to, name)? {
            Some(attr) => reply.entry(&attr),
            None => reply.no_entry(),
        },
        Operation::Getattr => reply.attr(&fs.getattr(to)?),
        Operation::Statx => {
            let (attr, more) = fs.statx(to)?;
            reply.statx(&attr, &more);
        }
        Operation::Setattr(change) => reply.attr(&fs.setattr(to, change)?),
        Operation::Readlink => reply.bytes(&fs.readlink(to)?),
        Operation::Symlink { name, target } => reply.entry(&fs.symlink(to, name, target)?),
        Operation::Mknod { name, mode, rdev, umask } => reply.entry(&fs.mknod(to, name, *mode, *rdev, *umask)?),
        Operation::Mkdir { name, mode, umask } => reply.entry(&fs.mkdir(to, name, *mode, *umask)?),
        Operation::Unlink { name } => fs.unlink(to, name)?,
        Operation::Rmdir { name } => fs.rmdir(to, name)?,
        Operation::Rename { name, to: directory, new_name, flags } => {
            fs.rename(to, name, *directory, new_name, *flags)?;
        }
        Operation::Link { node, name } => reply.entry(&fs.link(to, *node, name)?),
        Operation::Open { flags } => reply.opened(fs.open(to, *flags)?),
        Operation::Create { name, mode, umask } => created(reply, fs.create(to, name, *mode, *umask)?),
        Operation::Tmpfile { mode, umask, flags } => created(reply, fs.tmpfile(to, *mode, *umask, *flags)?),
        Operation::Write(write) => reply.count(fs.write(to, write)? as u32),
        Operation::Statfs => reply.statfs(&fs.statfs(to)?),
        Operation::Flush { handle } => fs.flush(to, *handle)?,
        Operation::Release { handle } => fs.release(*handle),
        Operation::Fsync { handle } => fs.fsync(to, *handle)?,
        Operation::Setxattr(xattr) => fs.setxattr(to, xattr)?,
        Operation::Getxattr { name, size } => value(reply, *size, &fs.getxattr(to, name)?)?,
        Operation::Listxattr { size } => value(reply, *size, &fs.listxattr(to)?)?,
        Operation::Removexattr { name } => fs.removexattr(to, name)?,
        Operation::Opendir => reply.opened(fs.opendir(to)?),
        Operation::Readdir(part) => fs.readdir(to, part.offset, &mut Listing::new(reply, part.size))?,
        Operation::Readdirplus(part) => fs.readdirplus(to, part.offset, &mut Listing::new(reply, part.size))?,
        Operation::Releasedir { handle } => fs.releasedir(*handle),
        Operation::Fsyncdir => fs.fsyncdir(to)?,
        Operation::Fallocate(how) => fs.fallocate(to, how)?,
        Operation::Lseek { handle, offset, whence } => reply.u64(fs.lseek(to, *handle, *offset as i64, *whence)?),
        Operation::CopyFileRange { copy, wide } => match (fs.copy_file_range(to, copy)?, wide) {
            (copied, true) => reply.u64(copied),
            (copied, false) => reply.count(u32::try_from(copied).map_err(|_| Errno::INVAL)?),
        },
        Operation::Ioctl(ioctl) => {
            let data = fs.ioctl(to, ioctl)?;
            reply.ioctl(data.get(..data.len().min(ioctl.room as usize)).unwrap_or_default());
        }
        Operation::Destroy => {}
        // To an interrupt it says that none need be sent: no operation waits for anything but the medium.
        _ => return Err(Errno::NOSYS),
    }
    Ok(())
}

fn created(reply: &mut Reply, (attr, opened): (Attributes, Opened)) {
    reply.entry(&attr);
    reply.opened(opened);
}

/// An extended attribute's value, or, to who offers no room, its size.
fn value(reply: &mut Reply, room: u32, value: &[u8]) -> Answer<()> {
    match u32::try_from(value.len()) {
        Ok(bytes) if room == 0 => reply.count(bytes),
        Ok(bytes) if bytes <= room => reply.bytes(value),
        _ => return Err(Errno::RANGE),
    }
    Ok(())
}
