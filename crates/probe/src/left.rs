//! Whether a process is gone, for what has the process in its name: what a killed one has left can be told by that.

use pocketstone_core::{Error, Result};
use std::path::Path;

/// The kernel's own PID namespace (PROC_PID_INIT_INO of Linux).
const INITIAL: u64 = 0xEFFF_FFFC;

/// This process's PID namespace. 0: the kernel does not say.
pub fn namespace() -> u64 {
    pocketstone_process::number_namespace().unwrap_or(0)
}

/// Whether process numbers here are those by which the kernel traces: a container may have its own.
///
/// # Errors
/// `ErrorKind::Board` if they are not.
pub(crate) fn numbers_are_the_kernels() -> Result<()> {
    are_the_kernels(namespace())
}

fn are_the_kernels(namespace: u64) -> Result<()> {
    match namespace {
        0 | INITIAL => Ok(()),
        _ => Err(Error::board("this is a container with process numbers of its own; the kernel traces by others")
            .hint("start it with those of the machine: docker run --pid=host")),
    }
}

/// Whether there is a process of this number in this namespace.
pub fn runs(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_in_the_kernels_own_namespace_are_numbers_its_own() {
        // Linux before 3.8 does not say, and has no others that it could trace in.
        assert!(are_the_kernels(0).is_ok() && are_the_kernels(INITIAL).is_ok());
        let error = are_the_kernels(4_026_532_201).unwrap_err();
        assert!(error.message().contains("container") && error.cure().is_some_and(|cure| cure.contains("--pid=host")));
    }

    #[test]
    fn this_process_runs_in_a_namespace() {
        assert_ne!(namespace(), 0);
        assert!(runs(&std::process::id().to_string()) && !runs("4194305"));
    }
}
