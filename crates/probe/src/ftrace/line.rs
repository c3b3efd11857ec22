//! One line of ftrace text: who, where, when, and what after it.

/// A line's parts. The layout is `trace_print_context` of the kernel: task, process where
/// `record-tgid` is set, processor, flags where `irq-info` is set, time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Name of the running thread, `<...>` where the kernel forgot it.
    pub comm: &'a str,
    pub pid: u32,
    /// The process that the thread belongs to.
    pub process: Option<u32>,
    pub cpu: u16,
    pub time_ns: u64,
    /// What happened: everything behind the time.
    pub what: &'a str,
}

impl<'a> Line<'a> {
    /// Takes a line apart; `None` where it does not have the shape of an event.
    pub fn of(line: &'a str) -> Option<Line<'a>> {
        // A task's name may hold anything, spaces, dashes and brackets included, and so may what follows:
        // the first " [" that has a processor, flags and a time behind it is the processor's.
        line.match_indices(" [").find_map(|(at, _)| {
            let (cpu, rest) = line[at + 2..].split_once("] ")?;
            let cpu = digits(cpu)?.parse().ok()?;
            let rest = rest.trim_start_matches(' ');
            let (first, after) = rest.split_once(' ').unwrap_or((rest, ""));
            let (time, what) = match time_ns(first) {
                Some(time) => (time, after),
                None => {
                    let after = after.trim_start_matches(' ');
                    let (second, what) = after.split_once(' ').unwrap_or((after, ""));
                    (time_ns(second)?, what)
                }
            };
            let mut left = line[..at].trim_end_matches(' ');
            let mut process = None;
            if let Some(inner) = left.strip_suffix(')') {
                let (before, tgid) = inner.rsplit_once('(')?;
                process = digits(tgid.trim()).and_then(|t| t.parse().ok());
                left = before.trim_end_matches(' ');
            }
            let (comm, pid) = left.rsplit_once('-')?;
            let pid = digits(pid)?.parse().ok()?;
            Some(Line { comm: comm.trim_start_matches(' '), pid, process, cpu, time_ns: time, what })
        })
    }
}

fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then_some(text)
}

/// `12.345678:` with up to nine digits behind the point, in ns.
fn time_ns(word: &str) -> Option<u64> {
    let (seconds, fraction) = word.strip_suffix(':')?.split_once('.')?;
    let fraction = digits(fraction).filter(|f| f.len() <= 9)?;
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let ns = fraction.parse::<u64>().ok()? * scale;
    digits(seconds)?.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_of_a_line() {
        let plain = Line { comm: "", pid: 0, process: None, cpu: 0, time_ns: 0, what: "x: y" };
        for (text, expected) in [
            (
                "  bash-12  [003] d..2.  1.000002: x: y",
                Line { comm: "bash", pid: 12, cpu: 3, time_ns: 1_000_002_000, ..plain },
            ),
            ("bash-12 [000] 1.000000002: x: y", Line { comm: "bash", pid: 12, time_ns: 1_000_000_002, ..plain }),
            (
                " a-b [1] c-12-7     (   9) [001] .....     7.5: x: y",
                Line { comm: "a-b [1] c-12", pid: 7, process: Some(9), cpu: 1, time_ns: 7_500_000_000, ..plain },
            ),
            ("<idle>-0 (-------) [000] d.h1. 0.1: x: y", Line { comm: "<idle>", time_ns: 100_000_000, ..plain }),
            ("<...>-123 [000] .... 1.0: x: y", Line { comm: "<...>", pid: 123, time_ns: 1_000_000_000, ..plain }),
            // What follows may look like a processor.
            (
                "a-1 [002] .... 1.0: x: [3] 4.0: z",
                Line { comm: "a", pid: 1, cpu: 2, time_ns: 1_000_000_000, process: None, what: "x: [3] 4.0: z" },
            ),
        ] {
            assert_eq!(Line::of(text), Some(expected), "{text}");
        }
        for text in [
            "",
            " [000] .... 1.0: x",
            "a [000] .... 1.0: x",
            "a-1 [x] .... 1.0: x",
            "a-1 [000] .... 1: x",
            "a-1 [000] . 1.0",
        ] {
            assert_eq!(Line::of(text), None, "{text}");
        }
    }
}
