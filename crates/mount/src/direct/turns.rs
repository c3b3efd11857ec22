//! Threads that answer in turn: one waits for questions, and does itself what takes longer if another one is there to
//! wait meanwhile. To hand it on would take as long as to do it.

use super::files::Files;
use super::server::Server;
use crate::mountable::Mountable;
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

const THREADS: usize = 2;

struct Turn<V: Mountable> {
    /// `None`: it is over.
    server: Mutex<Option<Server<V>>>,
    /// Threads that wait for their turn.
    waiting: AtomicUsize,
    stop: OwnedFd,
}

/// The threads, until [`Turns::end`]. Nobody waits for one that has something to do.
pub(super) struct Turns<V: Mountable> {
    turn: Arc<Turn<V>>,
    /// Says that there is a server, as long as there is this thread.
    keeper: Option<JoinHandle<()>>,
}

impl<V: Mountable> Turns<V> {
    pub fn start(server: Server<V>, files: &Arc<Files>) -> std::io::Result<Turns<V>> {
        let stop = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        let turn = Arc::new(Turn { server: Mutex::new(Some(server)), waiting: AtomicUsize::new(0), stop });
        let mut turns = Turns { turn: turn.clone(), keeper: None };
        let same = files.clone();
        let (say, said) = sync_channel(1);
        let keep = move || {
            // Without it nobody is direct.
            let _serving = same.table.serve();
            let _ = say.send(());
            let _ =
                rustix::io::retry_on_intr(|| rustix::event::poll(&mut [PollFd::new(&turn.stop, PollFlags::IN)], None));
        };
        turns.keeper = Some(Builder::new().name("serving".into()).spawn(keep)?);
        let _ = said.recv();
        for _ in 0..THREADS {
            // Nothing of the volume, which is closed when the last who has it lets it go.
            let (turn, files) = (turns.turn.clone(), files.clone());
            let _not_joined = Builder::new().name("direct".into()).spawn(move || turn.take(&files))?;
        }
        Ok(turns)
    }

    /// Ends the door: from here on nothing is answered.
    pub fn end(&mut self) {
        let _ = rustix::io::write(&self.turn.stop, &1_u64.to_ne_bytes());
        let server = self.turn.server().take();
        drop(server);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

impl<V: Mountable> Drop for Turns<V> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<V: Mountable> Turn<V> {
    fn server(&self) -> MutexGuard<'_, Option<Server<V>>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, files: &Files) {
        loop {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let mut turn = self.server();
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            let waits = || self.waiting.load(Ordering::Relaxed) > 0;
            let job = turn.as_mut().and_then(|server| server.serve(&self.stop, waits));
            drop(turn);
            match job {
                Some(job) => job.run(files),
                None => return,
            }
        }
    }
}
