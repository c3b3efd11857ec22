//! Boards at the other end of something: one program, for most of its time is waiting, which several tests can do at
//! once. They begin in the order of their names: while the static runner is compiled that most of them need, those go
//! on that do without it.

mod architectures;
mod by_command;
mod by_ssh;
mod cable;
mod lent;
mod phone;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many tests at once, where nobody says otherwise, however few processors there are: as root, for then each has a
/// network of its own, and with it boards that no other one uses.
const AT_ONCE: &str = "4";

/// The harness looks at this variable when it begins, which is after this.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = several_at_once;

extern "C" fn several_at_once() {
    if rustix::process::geteuid().is_root() && std::env::var_os("RUST_TEST_THREADS").is_none() {
        // SAFETY: before `main` there is no other thread that might read the environment.
        unsafe { std::env::set_var("RUST_TEST_THREADS", AT_ONCE) };
    }
}

/// Who compiles for minutes, or measures times, has this.
static QUIET: Mutex<()> = Mutex::new(());

fn quiet() -> MutexGuard<'static, ()> {
    QUIET.lock().unwrap_or_else(PoisonError::into_inner)
}
