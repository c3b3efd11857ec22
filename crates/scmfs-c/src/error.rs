//! Failures: from Rust's errors and panics to negative numbers and a message for each thread.

use pocketstone_scmfs::Error;
use pocketstone_vfs::MediumErrorKind;
use rustix::io::Errno;
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why a call failed.
pub(crate) enum Failure {
    /// The file system says so.
    Library(Error),
    /// The caller gave what cannot be.
    Argument(&'static str),
    /// A panic, which is a defect of this library.
    Panic(String),
    /// There was a panic before.
    Broken,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Library(error)
    }
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// What the operating system said, if that is the cause.
fn os_errno(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    pocketstone_vfs::causes(error).find_map(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        io.or_else(|| cause.downcast_ref::<Errno>().map(|errno| errno.raw_os_error()))
    })
}

impl Failure {
    fn errno(&self) -> i32 {
        match self {
            Failure::Library(Error::Medium(medium)) => os_errno(medium.as_ref()).unwrap_or(Errno::IO.raw_os_error()),
            Failure::Library(error) => error.errno(),
            Failure::Argument(_) => Errno::INVAL.raw_os_error(),
            Failure::Panic(_) | Failure::Broken => Errno::IO.raw_os_error(),
        }
    }

    /// Kind, causes and hint, on one line.
    fn text(&self) -> String {
        match self {
            Failure::Library(error) => {
                let hint = error.cure().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
                format!("{}: {error}{hint}", kind(error))
            }
            Failure::Argument(what) => format!("Argument: {what}"),
            Failure::Panic(message) => format!("Bug: the library panicked: {message}; hint: {REOPEN}"),
            Failure::Broken => format!("Bug: the library panicked in an earlier call; hint: {REOPEN}"),
        }
    }
}

const REOPEN: &str = "close the volume and open it again, which recovers it";

/// The kind of an error, by its name in Rust.
fn kind(error: &Error) -> String {
    match error {
        Error::Damaged(_) => "Damaged".into(),
        Error::Medium(medium) => match medium.kind() {
            MediumErrorKind::Refused => "Refused".into(),
            MediumErrorKind::Failed => "Failed".into(),
            kind => format!("{kind:?}"),
        },
        // The others hold nothing: their name is all there is.
        plain => format!("{plain:?}"),
    }
}

/// The last failure of a thread. Its message is put together only when somebody asks.
struct Last {
    failed: Option<(&'static str, Failure)>,
    message: Option<CString>,
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last { failed: None, message: None }) };
}

/// What the last call of this thread that failed has to say, on one line: the function, the kind of error, its causes
/// and, if there is one, a hint. For example:
///
///     scmfs_volume_open: Refused: cannot open /v: No such file or directory (os error 2)
///
/// The text is for people, and may change. It is valid until the next call of this function in the same thread. Empty
/// if no call has failed yet; never NULL. Calls that succeed leave it as it is.
#[unsafe(no_mangle)]
pub extern "C" fn scmfs_last_error() -> *const c_char {
    let render = || {
        LAST.with_borrow_mut(|last| {
            if let Some((function, failure)) = last.failed.take() {
                let text = format!("{function}: {}", failure.text()).replace('\0', " ");
                last.message = CString::new(text).ok();
            }
            last.message.as_deref().unwrap_or_default().as_ptr()
        })
    };
    catch_unwind(render).unwrap_or(<&CStr>::default().as_ptr())
}

/// Runs the body of an exported function. A failure is kept for [`scmfs_last_error`], and is a negative errno.
#[inline]
fn run<T>(function: &'static str, body: impl FnOnce() -> Result<T>) -> std::result::Result<T, i32> {
    // What a panic may leave half done is in volumes, and `Health` keeps them from being used any more.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(failure)) => Err(kept(function, failure)),
        Err(panic) => Err(kept(function, Failure::Panic(said(panic)))),
    }
}

/// Keeps a failure, and returns its negative errno.
#[cold]
fn kept(function: &'static str, failure: Failure) -> i32 {
    let errno = failure.errno();
    // A thread that is ending may have lost the place for it; the number is returned all the same.
    let _ = LAST.try_with(|last| last.borrow_mut().failed = Some((function, failure)));
    -errno
}

/// What a panic said. Its payload is leaked if it is no text: dropping it might panic again.
#[cold]
fn said(panic: Box<dyn Any + Send>) -> String {
    let panic = match panic.downcast::<String>() {
        Ok(text) => return *text,
        Err(panic) => panic,
    };
    match panic.downcast::<&'static str>() {
        Ok(text) => (*text).to_owned(),
        Err(panic) => {
            std::mem::forget(panic);
            "without a message".to_owned()
        }
    }
}

/// A function that returns 0 or a negative errno.
pub(crate) fn status(function: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    run(function, body).err().unwrap_or(0)
}

/// A function that returns a number or a negative errno.
#[inline]
pub(crate) fn count(function: &'static str, body: impl FnOnce() -> Result<u64>) -> i64 {
    match run(function, body) {
        Ok(count) => i64::try_from(count).unwrap_or(i64::MAX),
        Err(errno) => i64::from(errno),
    }
}

/// Whether a volume can still be trusted: after a panic in one of its calls nobody knows what its memory holds. Further
/// calls are refused, and it is abandoned when it is closed, as if the process had died: recovery knows only what is on
/// the medium.
#[derive(Clone, Default)]
pub(crate) struct Health(Arc<AtomicBool>);

/// A call in progress: a panic meanwhile breaks the volume.
pub(crate) struct Call<'a>(&'a Health);

impl Health {
    #[inline]
    pub(crate) fn enter(&self) -> Result<Call<'_>> {
        if self.is_broken() { Err(Failure::Broken) } else { Ok(Call(self)) }
    }

    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for Call<'_> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.0.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests;
