//! A virtual board's console, for people.

use super::{Qemu, machine};
use crate::transport::Transport;
use crate::{Console, Failed};
use machine::Machine;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_workload::plan::Order;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

impl Qemu {
    /// Runs the board with its console joined to `input` and `output` until the boot or the shell is
    /// over.
    pub(super) fn join_console(
        &self,
        what: Console,
        mut input: Box<dyn Read + Send>,
        mut output: Box<dyn Write + Send>,
    ) -> Result<(), Failed> {
        let folder = self.folder()?;
        let state = match what {
            Console::Boot => None,
            Console::Shell => Some(self.state(&[])?),
        };
        let start = self.start(state.as_ref().map(|s| s.path.as_path()), machine::Console::Socket);
        let mut machine = Machine::start(&self.profile, &start, folder.path(), &self.context)?;
        // A socket's path must be short, a folder's need not be.
        let handle = fs::File::open(folder.path()).board(|| "cannot open the cell's folder".into())?;
        let path = format!("/proc/self/fd/{}/console.sock", std::os::fd::AsRawFd::as_raw_fd(&handle));
        let socket = UnixStream::connect(path).board(|| "cannot reach the board's console".into())?;
        let mut from_board = socket.try_clone().board(|| "cannot share the console".into())?;
        let mut to_board = socket;
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = from_board.read(&mut buffer) {
                if output.write_all(&buffer[..n]).and_then(|()| output.flush()).is_err() {
                    return;
                }
            }
        });
        // Ends with the process: a read from a terminal cannot be called off.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = input.read(&mut buffer) {
                if to_board.write_all(&buffer[..n]).is_err() {
                    return;
                }
            }
        });
        let unlimited = std::time::Duration::from_secs(365 * 24 * 3600);
        match what {
            Console::Boot => machine.run(self.boot_limit())?,
            Console::Shell => {
                self.put(Order::Shell, folder.path())?;
                machine.run(unlimited)?;
            }
        }
        drop(machine);
        reader.join().map_err(|_| Error::bug("the console's reader failed"))?;
        Ok(())
    }
}
