//! What the kernel says about a volume while it is mounted and read.

use pocketstone_core::chip::Survivor;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// The kernel's log, one record for each read(2).
const LOG: &str = "/dev/kmsg";
/// The longest record (CONSOLE_EXT_LOG_MAX).
const RECORD_BYTES: usize = 8192;
/// How many of its messages are kept: the last ones.
const MESSAGES: usize = 4;

/// The kernel's messages from some time on.
pub struct KernelLog {
    /// Where the next one is read; `None`: this kernel has no log.
    log: Option<File>,
    /// Those that were read.
    messages: Vec<String>,
}

impl KernelLog {
    /// Without what was said before.
    pub fn from_here_on() -> KernelLog {
        let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(LOG);
        let at_end = opened.and_then(|mut log| log.seek(SeekFrom::End(0)).map(|_| log));
        KernelLog { log: at_end.ok(), messages: Vec::new() }
    }

    /// The last that it said.
    pub fn last_words(&mut self) -> Option<String> {
        if let Some(log) = &mut self.log {
            read_all(log, &mut self.messages);
        }
        let last = self.messages[self.messages.len().saturating_sub(MESSAGES)..].join("; ");
        (!last.is_empty()).then(|| format!("the kernel's last words: {last}"))
    }

    /// Adds its last words to the reasons why files cannot be read. Their errors alone do not say what is wrong.
    pub fn explain(&mut self, survivors: &mut [Survivor]) {
        if survivors.iter().all(|survivor| survivor.content.is_ok()) {
            return;
        }
        let Some(words) = self.last_words() else { return };
        for reason in survivors.iter_mut().filter_map(|survivor| survivor.content.as_mut().err()) {
            *reason = format!("{reason}; {words}");
        }
    }
}

/// Reads the records that there are. One that was overwritten before it could be read (EPIPE) is passed over.
fn read_all(mut log: impl Read, messages: &mut Vec<String>) {
    let mut record = [0; RECORD_BYTES];
    loop {
        match log.read(&mut record) {
            Ok(0) => return,
            Ok(bytes) => messages.extend(message(&String::from_utf8_lossy(&record[..bytes]))),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(_) => return,
        }
    }
}

/// The text of a record, which follows its level, number, time and flags; keys and values may follow it on further
/// lines (Documentation/ABI/testing/dev-kmsg).
fn message(record: &str) -> Option<String> {
    let (_, text) = record.lines().next()?.split_once(';')?;
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one record after the other.
    struct Records(Vec<&'static str>);

    impl Read for Records {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            match self.0.is_empty() {
                true => Err(ErrorKind::WouldBlock.into()),
                false => match self.0.remove(0) {
                    "overwritten" => Err(ErrorKind::BrokenPipe.into()),
                    record => record.as_bytes().read(into),
                },
            }
        }
    }

    /// The first two are examples of Documentation/ABI/testing/dev-kmsg.
    #[test]
    fn messages_are_the_first_lines_of_records_without_what_is_before_them() {
        let records = vec![
            "7,160,424069,-;pci_root PNP0A03:00: host bridge window [io  0x0000-0x0cf7] (ignored)\n SUBSYSTEM=acpi\n",
            "6,339,5140900,-;NET: Registered protocol family 10\n",
            "overwritten",
            "4,340,5690716,-,caller=T1;a; b\n",
            "6,341,5690717,-;\n",
        ];
        let mut messages = Vec::new();
        read_all(Records(records), &mut messages);
        let window = "pci_root PNP0A03:00: host bridge window [io  0x0000-0x0cf7] (ignored)";
        assert_eq!(messages, [window, "NET: Registered protocol family 10", "a; b"]);
    }

    #[test]
    fn files_that_cannot_be_read_have_the_last_four_messages_and_others_have_none() {
        let said = |messages: &[&str]| KernelLog { log: None, messages: messages.iter().map(|&m| m.into()).collect() };
        let survivor = |content| Survivor { name: "f".into(), content };
        let files = vec![survivor(Ok(b"1".to_vec())), survivor(Err("I/O error".into()))];
        let mut explained = files.clone();
        said(&["1", "2", "3", "4", "5"]).explain(&mut explained);
        let reason = "I/O error; the kernel's last words: 2; 3; 4; 5";
        assert_eq!(explained, [files[0].clone(), survivor(Err(reason.into()))]);
        let mut explained = files.clone();
        said(&[]).explain(&mut explained);
        assert_eq!(explained, files);
    }
}
