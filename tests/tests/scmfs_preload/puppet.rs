//! Processes that do what they are told, one step at a time.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A process that does what it is told.
pub struct Puppet {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Puppet {
    /// Starts a script for a file.
    pub fn start(mut command: Command, script: &Path, file: &Path) -> Puppet {
        command.arg(script).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3 starts");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        Puppet { child, input, output: BufReader::new(output) }
    }

    /// Tells it something: the bytes that it answers.
    pub fn tell(&mut self, what: &str, at: usize, bytes: usize, byte: u8) -> Vec<u8> {
        writeln!(self.input.as_mut().expect("a pipe"), "{what} {at} {bytes} {byte}").expect("it listens");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        let digits = line.trim_end();
        assert!(line.ends_with('\n'), "{what} {at} {bytes} failed");
        (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).expect("hex")).collect()
    }

    /// The process that was started has ended; a child of it does what is told from now on.
    pub fn ended(&mut self) {
        self.child.wait().expect("it ends");
    }

    /// Waits until it has ended well.
    pub fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().expect("it ends").success());
    }
}
