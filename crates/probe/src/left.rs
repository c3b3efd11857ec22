//! Whether a process is gone, for what has the process in its name: what a killed one has left can be told by that.

use std::fs;
use std::path::Path;

/// This process's PID namespace. A process in a container may share files with one outside, and does not see its
/// processes. 0: the kernel does not say.
pub fn namespace() -> u64 {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let number: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    number.parse().unwrap_or(0)
}

/// Whether there is a process of this number in this namespace.
pub fn runs(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_in_a_namespace() {
        assert_ne!(namespace(), 0);
        assert!(runs(&std::process::id().to_string()) && !runs("4194305"));
    }
}
