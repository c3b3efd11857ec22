//! Work that is done every now and then while a volume is mounted.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that takes a step at the end of every period, until this is dropped.
pub(crate) struct Background {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub fn start(period: Duration, mut step: impl FnMut() + Send + 'static) -> io::Result<Background> {
        let (stop, told) = channel();
        let work = move || {
            while let Err(RecvTimeoutError::Timeout) = told.recv_timeout(period) {
                step();
            }
        };
        let thread = std::thread::Builder::new().name("background".into()).spawn(work)?;
        Ok(Background { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
