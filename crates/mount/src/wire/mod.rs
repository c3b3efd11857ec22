//! The protocol of FUSE, spoken on an open /dev/fuse.

pub(crate) mod abi;
mod dispatch;
mod filesystem;
mod notify;
mod readers;
mod reply;
mod request;
mod session;
#[cfg(test)]
mod tests;

pub(crate) use filesystem::{Answer, Content, Filesystem};
pub(crate) use notify::{Connection, controls};
pub(crate) use reply::{Attributes, Full, Listing, More, Opened, Statfs};
pub(crate) use request::{
    Copy, Fallocate, Ioctl, Operation, Part, Request, SetAttributes, SetTime, SetXattr, Time, Write,
};
pub(crate) use session::{LARGEST_REQUEST, Reading, Serving, Session};

/// Whether a message is one that the kernel may send. For those who throw bytes at the reader of messages.
pub fn is_request(message: &[u8]) -> bool {
    [false, true].into_iter().any(|long_xattrs| match request::parse(message, long_xattrs) {
        Ok((_, request::Operation::BatchForget(forgotten))) => forgotten.count() <= message.len(),
        read => read.is_ok(),
    })
}
