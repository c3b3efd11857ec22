//! What the runner says to whoever reads its output.

use std::io::Write;

/// Writes to standard output. A reader that went away is no reason to fail.
pub fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
