//! What a thread that executes operations tells of its work, for whoever sets the processor's speed.
//!
//! Who takes it belongs to the thread: file calls deep within SQLite find it there. Without one, the measured loop
//! is compiled without hints: they cost nothing then.

use pocketstone_core::hint::{Hint, TakesHints};
use pocketstone_workload::database::{StatementKind, Step, Trace};
use std::cell::{Cell, RefCell};

/// Makes the taker of a thread's hints, on that thread.
pub type Informs = dyn Fn() -> Box<dyn TakesHints> + Sync;

thread_local! {
    static TAKER: RefCell<Option<Box<dyn TakesHints>>> = const { RefCell::new(None) };
    /// Waits that this thread is in: SQLite makes a folder durable within the sync of a file, and alone.
    static WAITS: Cell<u32> = const { Cell::new(0) };
}

/// Runs something whose hints on this thread go to `taker`.
pub(super) fn during<T>(taker: Box<dyn TakesHints>, run: impl FnOnce() -> T) -> T {
    struct Ends;
    impl Drop for Ends {
        fn drop(&mut self) {
            TAKER.set(None);
        }
    }
    TAKER.set(Some(taker));
    WAITS.set(0);
    let _ends = Ends;
    run()
}

/// Gives a hint to this thread's taker, if it has one.
pub(super) fn say(hint: Hint) {
    TAKER.with(|taker| {
        // It is called through C's frames: a panic has no way out of there.
        if let Ok(mut taker) = taker.try_borrow_mut() {
            if let Some(taker) = &mut *taker {
                taker.hint(hint);
            }
        }
    });
}

/// This thread is about to wait for a device.
pub(super) fn blocks() {
    if WAITS.replace(WAITS.get() + 1) == 0 {
        say(Hint::Blocks);
    }
}

/// It has waited.
pub(super) fn resumes() {
    if WAITS.get() > 0 && WAITS.replace(WAITS.get() - 1) == 1 {
        say(Hint::Resumes);
    }
}

/// Follows the transactions of a thread's operations, as far as statements tell: what changes something is one
/// of its own, unless it is between an explicit beginning and end.
#[derive(Default)]
pub(super) struct Transactions {
    open: bool,
}

impl Transactions {
    /// Whether a transaction that may have changed something ends with an operation of these steps.
    pub(super) fn end_with(&mut self, trace: &Trace, steps: &[Step]) -> bool {
        let mut ended = false;
        for step in steps {
            let statement = trace.statement(step);
            let changes = match statement.kind {
                StatementKind::Read | StatementKind::Scan | StatementKind::ScanAfter => false,
                StatementKind::Update | StatementKind::Insert => true,
                StatementKind::Sql => {
                    let text = statement.text.trim_start();
                    let word = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
                    match word.to_ascii_lowercase().as_str() {
                        "begin" | "savepoint" => {
                            self.open = true;
                            false
                        }
                        "commit" | "end" | "rollback" | "release" => {
                            self.open = false;
                            true
                        }
                        "select" | "values" | "explain" | "pragma" => false,
                        _ => true,
                    }
                }
            };
            ended |= changes && !self.open;
        }
        ended
    }
}
