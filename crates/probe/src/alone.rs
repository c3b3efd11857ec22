//! One lab at a time on a machine, whatever user, cache or folder it has: among those far away one for as long as it is
//! connected, and of all labs one for a cell.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// The name that a lab has, here or far away, while it measures a cell on the machine.
pub const MACHINE: &str = "pocketstone-board";
/// The name that the one lab far away has which gives the machine orders.
pub const FAR_LAB: &str = "pocketstone-far-lab";
/// What who has waited gets to take the name before another cell of the same lab does.
const TURN: Duration = Duration::from_millis(100);

/// A name that nobody else on this machine has until this is dropped: the kernel gives it to one process, and takes it
/// back when that ends.
#[derive(Debug)]
pub struct Alone(Option<UnixListener>);

impl Alone {
    /// Takes the name, without waiting; `None`: somebody else has it.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel has no such names.
    pub fn now(name: &str) -> Result<Option<Alone>> {
        match UnixListener::bind_addr(&address(name)?) {
            Ok(listener) => Ok(Some(Alone(Some(listener)))),
            Err(error) if error.kind() == ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(Error::board(failed()).because(error)),
        }
    }

    /// Takes the name as soon as nobody else has it.
    ///
    /// # Errors
    /// As [`Alone::now`].
    pub fn wait(name: &str) -> Result<Alone> {
        loop {
            if let Some(alone) = Alone::now(name)? {
                return Ok(alone);
            }
            // Nobody accepts or answers: this sleeps in the kernel until who has the name is gone.
            match UnixStream::connect_addr(&address(name)?) {
                Ok(mut other) => drop(other.read(&mut [0])),
                // Gone already, or not yet listening.
                Err(_) => std::thread::sleep(TURN),
            }
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let Some(listener) = self.0.take() else { return };
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let waited_for =
            poll(&mut [PollFd::new(&listener, PollFlags::IN)], Some(&none)).is_ok_and(|waiting| waiting > 0);
        drop(listener);
        if waited_for {
            std::thread::sleep(TURN);
        }
    }
}

fn address(name: &str) -> Result<SocketAddr> {
    SocketAddr::from_abstract_name(name).board(failed)
}

fn failed() -> String {
    "cannot get the name that keeps others away".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_name_is_one_holders_at_a_time_and_who_waits_has_it_before_the_holders_next_cell() {
        let name = &format!("pocketstone-test-{}", std::process::id());
        let first = Alone::now(name).unwrap().unwrap();
        assert!(Alone::now(name).unwrap().is_none());
        let (send, got) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || send.send(Alone::wait(name)));
            assert!(got.recv_timeout(Duration::from_millis(200)).is_err(), "it waits");
            drop(first);
            let second = got.recv_timeout(Duration::from_secs(10)).unwrap().unwrap();
            assert!(Alone::now(name).unwrap().is_none());
            drop(second);
            drop(Alone::wait(name).unwrap());
        });
    }
}
