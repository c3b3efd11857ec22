//! flashmon: every page sense, program and erase of raw NAND, with its time, page and task.
//!
//! The method is that of Flashmon (Olivier, Boukhobza, Senn): probes in the kernel's NAND layer. It
//! used jprobes, which Linux 4.19 removed; this uses kprobe events of tracefs, which need no module.

use crate::tracefs::{Instance, Probe};
use pocketstone_core::log::{FlashKind, FlashLog, FlashOp};
use pocketstone_core::outcome::{FlashTotals, Geometry};
use pocketstone_core::{Error, Result};
use std::fmt::Write as _;

/// Where a kernel function's arguments are at its entry, in kprobe syntax.
struct Registers {
    arguments: [&'static str; 2],
    /// `from` and the pointer to mtd_oob_ops, arguments of nand_read_oob after the mtd_info.
    from: &'static str,
    ops_length: &'static str,
}

/// Calling conventions: AAPCS (32-bit ARM passes a 64-bit value in an even register pair, so that
/// the next argument is on the stack), AAPCS64 and System V. `len` is the second field of struct
/// mtd_oob_ops, one machine word behind its start.
const REGISTERS: Option<Registers> = if cfg!(target_arch = "arm") {
    Some(Registers { arguments: ["%r0", "%r1"], from: "from=%r2:u32 high=%r3:u32", ops_length: "len=+4($stack0):u32" })
} else if cfg!(target_arch = "aarch64") {
    Some(Registers { arguments: ["%x0", "%x1"], from: "from=%x1:u64 high=0", ops_length: "len=+8(%x2):u64" })
} else if cfg!(target_arch = "x86_64") {
    Some(Registers { arguments: ["%di", "%si"], from: "from=%si:u64", ops_length: "len=+8(%dx):u64" })
} else {
    None
};

/// Geometry of the first MTD device that is NAND.
///
/// # Errors
/// `ErrorKind::Board` if there is none.
pub fn first_nand() -> Result<Geometry> {
    (0..16).find_map(nand).ok_or_else(|| {
        Error::board("this machine has no raw NAND (no NAND device in /sys/class/mtd)")
            .hint("run it on a board with raw NAND, or, as root, load the simulator: modprobe nandsim")
    })
}

/// The geometry of an MTD device, if it is raw NAND.
pub fn nand(mtd: u32) -> Option<Geometry> {
    let attribute = |a: &str| std::fs::read_to_string(format!("/sys/class/mtd/mtd{mtd}/{a}")).ok();
    let number = |a| attribute(a).and_then(|t| t.trim().parse::<u64>().ok());
    attribute("type").filter(|t| t.trim().ends_with("nand"))?;
    Some(Geometry {
        page_bytes: u32::try_from(number("writesize")?).ok()?,
        block_bytes: u32::try_from(number("erasesize")?).ok()?,
        bytes: number("size")?,
    })
}

/// A running flash monitor.
pub struct Flashmon {
    instance: Instance,
    geometry: Geometry,
    page_reads: std::result::Result<(), Error>,
}

impl Flashmon {
    /// Sets the probes; nothing is recorded before [`Flashmon::start`].
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel has no raw NAND support, no tracefs or no kprobes, or the processor is
    /// unsupported.
    pub fn new(geometry: Geometry) -> Result<Self> {
        let registers =
            REGISTERS.ok_or_else(|| Error::board("flashmon does not support this processor's calling convention"))?;
        let mut instance = Instance::new("flash", 16 * 1024)?;
        let [_, page] = registers.arguments;
        for (name, symbol) in [
            ("sense", "nand_read_page_op"),
            ("program", "nand_prog_page_op"),
            ("program_begin", "nand_prog_page_begin_op"),
            ("erase", "nand_erase_op"),
            // Its second argument is the column; the page is the one sensed last.
            ("column_change", "nand_change_read_column_op"),
        ] {
            instance.add(&Probe { name, definition: format!("{symbol} page={page}:u32") }).map_err(|e| {
                Error::board(format!("flash operations cannot be traced at {symbol}"))
                    .because(e)
                    .hint("the kernel requires raw NAND support (nand.ko loaded or built in) and CONFIG_KPROBE_EVENTS")
            })?;
        }
        // A static function: a kernel may have inlined it. Everything else works without it.
        let page_reads = instance.add(&Probe {
            name: "request",
            definition: format!("nand_read_oob {} {}", registers.from, registers.ops_length),
        });
        Ok(Flashmon { instance, geometry, page_reads })
    }

    /// Why read requests are not counted, where they are not.
    pub fn page_reads_unavailable(&self) -> Option<String> {
        self.page_reads.as_ref().err().map(Error::chain)
    }

    /// Starts recording.
    ///
    /// # Errors
    /// `ErrorKind::Board` if tracefs refuses.
    pub fn start(&self) -> Result<()> {
        self.instance.start()
    }

    /// Stops recording.
    ///
    /// # Errors
    /// `ErrorKind::Board` if tracefs refuses.
    pub fn stop(&self) -> Result<()> {
        self.instance.stop()
    }

    /// Every operation from the start to [`Flashmon::stop`].
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel lost events (the log would be wrong), or its text cannot be read or understood.
    pub fn read(self) -> Result<FlashLog> {
        let lost = self.instance.lost()?;
        if lost > 0 {
            return Err(Error::board(format!("the kernel lost {lost} flash events, so the counts would be wrong"))
                .hint("trace a shorter run"));
        }
        parse(&self.instance.text()?, &self.geometry)
    }
}

/// Reads tracefs text, whose lines are
/// `comm-pid [cpu] flags sec.usec: event: (function+0x0/0x0) name=value ...`.
fn parse(text: &str, geometry: &Geometry) -> Result<FlashLog> {
    let mut log = FlashLog::default();
    for line in text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()) {
        let op = parse_line(line, geometry, &mut log)
            .ok_or_else(|| Error::board(format!("cannot parse a line of the kernel's trace: {line}")))?;
        log.ops.push(op);
    }
    Ok(log)
}

/// A line of tracefs text.
pub(crate) struct Line<'a> {
    comm: &'a str,
    pid: u32,
    pub time_ns: u64,
    /// The event's name.
    pub name: &'a str,
    rest: &'a str,
}

impl<'a> Line<'a> {
    pub fn of(line: &'a str) -> Option<Line<'a>> {
        // The task's name may hold anything, spaces, dashes and brackets included: the last " [" that
        // has a processor number behind it parts it from the rest.
        let (left, rest) = line.rmatch_indices(" [").find_map(|(at, _)| {
            let (cpu, rest) = line[at + 2..].split_once("] ")?;
            cpu.bytes().all(|b| b.is_ascii_digit()).then_some((&line[..at], rest))
        })?;
        let (comm, pid) = left.trim().rsplit_once('-')?;
        let mut words = rest.split_whitespace();
        let time = words.nth(1)?.strip_suffix(':')?;
        let name = words.next()?.strip_suffix(':')?;
        let (seconds, microseconds) = time.split_once('.')?;
        let time_ns = seconds.parse::<u64>().ok()? * 1_000_000_000 + microseconds.parse::<u64>().ok()? * 1_000;
        Some(Line { comm: comm.trim(), pid: pid.parse().ok()?, time_ns, name, rest })
    }

    fn word(&self, name: &str) -> Option<&'a str> {
        self.rest.split_whitespace().find_map(|w| w.strip_prefix(name)?.strip_prefix('='))
    }

    /// A number by its name.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.word(name)?.parse().ok()
    }

    /// An array of words by its name, as bytes in memory; all processors that are supported are little-endian.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let words = self.word(name)?.strip_prefix('{')?.strip_suffix('}')?;
        let mut bytes = Vec::with_capacity(words.len() / 2);
        for word in words.split(',') {
            bytes.extend(u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()?.to_le_bytes());
        }
        Some(bytes)
    }
}

fn parse_line(line: &str, geometry: &Geometry, log: &mut FlashLog) -> Option<FlashOp> {
    let line = Line::of(line)?;
    let value = |name: &str| line.number(name);
    let page_bytes = u64::from(geometry.page_bytes);
    let (kind, page, pages) = match line.name {
        "sense" => (FlashKind::Sense, value("page")?, 1),
        "program" | "program_begin" => (FlashKind::Program, value("page")?, 1),
        // The kernel passes the number of the block.
        "erase" => {
            let block_pages = u64::from(geometry.block_pages());
            (FlashKind::Erase, value("page")? * block_pages, block_pages)
        }
        "column_change" => {
            let last = log.ops.iter().rfind(|op| op.kind == FlashKind::Sense);
            (FlashKind::ColumnChange, last.map_or(0, |op| u64::from(op.page)), 1)
        }
        "request" => {
            let from = value("from")? | value("high").unwrap_or(0) << 32;
            let length = value("len")?;
            // A request without data reads out-of-band bytes alone.
            let pages = if length == 0 { 0 } else { (from + length - 1) / page_bytes - from / page_bytes + 1 };
            (FlashKind::Read, from / page_bytes, pages)
        }
        _ => return None,
    };
    Some(FlashOp {
        time_ns: line.time_ns,
        kind,
        page: u32::try_from(page).ok()?,
        pages: u32::try_from(pages).ok()?,
        pid: line.pid,
        task: log.task_index(line.comm),
    })
}

/// Totals of the operations for which `select` holds.
///
/// Page reads are the senses that a driver with a one-page buffer would need, which is what most
/// boards with hardware ECC have: a request for the page that was read last, by whomever, costs none.
/// Software ECC in the kernel reads parts of pages and senses the same page again for each.
pub fn totals(log: &FlashLog, page_reads: bool, select: impl Fn(&FlashOp) -> bool) -> FlashTotals {
    let mut totals = FlashTotals { page_reads: page_reads.then_some(0), ..FlashTotals::default() };
    let mut buffered = None;
    for op in &log.ops {
        let first_is_buffered = op.kind == FlashKind::Read && op.pages > 0 && buffered == Some(op.page);
        match op.kind {
            FlashKind::Read if op.pages > 0 => buffered = Some(op.page + op.pages - 1),
            FlashKind::Program | FlashKind::Erase => buffered = None,
            FlashKind::Read | FlashKind::Sense | FlashKind::ColumnChange => {}
        }
        if !select(op) {
            continue;
        }
        match op.kind {
            FlashKind::Sense => totals.page_senses += 1,
            FlashKind::Program => totals.programs += 1,
            FlashKind::Erase => totals.erases += 1,
            FlashKind::ColumnChange => totals.column_changes += 1,
            FlashKind::Read => {
                let pages = u64::from(op.pages) - u64::from(first_is_buffered);
                totals.page_reads = totals.page_reads.map(|n| n + pages);
            }
        }
    }
    totals
}

/// The classic `/proc/flashmon` form: a line `reads writes erases` for each block.
pub fn classic_summary(log: &FlashLog, geometry: &Geometry) -> String {
    let mut blocks = vec![[0u64; 3]; geometry.blocks() as usize];
    for op in &log.ops {
        let column = match op.kind {
            FlashKind::Sense => 0,
            FlashKind::Program => 1,
            FlashKind::Erase => 2,
            FlashKind::Read | FlashKind::ColumnChange => continue,
        };
        if let Some(block) = blocks.get_mut((op.page / geometry.block_pages()) as usize) {
            block[column] += 1;
        }
    }
    blocks.iter().fold(String::new(), |mut text, [r, w, e]| {
        let _ = writeln!(text, "{r} {w} {e}");
        text
    })
}

/// The classic `/proc/flashmon_log` form: lines of `sec.nsec;R|W|E;address;task`. The address is the
/// page's number for reads and writes and the block's number for erases.
pub fn classic_log(log: &FlashLog, geometry: &Geometry) -> String {
    log.ops.iter().fold(String::new(), |mut text, op| {
        let (letter, address) = match op.kind {
            FlashKind::Sense => ('R', op.page),
            FlashKind::Program => ('W', op.page),
            FlashKind::Erase => ('E', op.page / geometry.block_pages()),
            FlashKind::Read | FlashKind::ColumnChange => return text,
        };
        let (seconds, rest) = (op.time_ns / 1_000_000_000, op.time_ns % 1_000_000_000);
        let _ = writeln!(text, "{seconds}.{rest:09};{letter};{address};{}", log.task(op));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHIP: Geometry = Geometry { page_bytes: 2048, block_bytes: 131_072, bytes: 1 << 28 };

    // Lines as a 6.1 kernel prints them.
    const TRACE: &str = "# tracer: nop
#
#                                _-----=> irqs-off/BH-disabled
         busybox-123     [000] d....    39.832905: sense: (nand_read_page_op+0x0/0x360) page=130974
 jffs2_gcd_mtd0-98      [000] d....    39.833230: erase: (nand_erase_op+0x0/0x360) page=3
   a [1] b-c d-77      [001] d....    40.000001: program_begin: (nand_prog_page_begin_op+0x0/0x1) page=64
         busybox-123     [000] d....    40.000002: request: (nand_read_oob+0x0/0x360) from=2000 high=0 len=68
         busybox-123     [000] d....    40.000003: request: (nand_read_oob+0x0/0x360) from=4096 high=0 len=0
";

    #[test]
    fn the_kernels_text_becomes_operations() {
        let log = parse(TRACE, &CHIP).unwrap();
        let short: Vec<_> = log.ops.iter().map(|o| (o.kind, o.page, o.pages, o.pid, log.task(o))).collect();
        assert_eq!(
            short,
            [
                (FlashKind::Sense, 130_974, 1, 123, "busybox"),
                (FlashKind::Erase, 192, 64, 98, "jffs2_gcd_mtd0"),
                (FlashKind::Program, 64, 1, 77, "a [1] b-c d"),
                (FlashKind::Read, 0, 2, 123, "busybox"),
                (FlashKind::Read, 2, 0, 123, "busybox"),
            ]
        );
        assert_eq!(log.ops[0].time_ns, 39_832_905_000);
        let mine = totals(&log, true, |op| op.pid == 123);
        assert_eq!(
            mine,
            FlashTotals { page_senses: 1, column_changes: 0, page_reads: Some(2), programs: 0, erases: 0 }
        );
        assert_eq!(totals(&log, false, |_| true).page_reads, None);
    }

    #[test]
    fn a_page_that_was_read_last_is_not_read_again() {
        let mut log = FlashLog::default();
        let task = log.task_index("reader");
        // A JFFS2 node: its header, then its data from the same page on.
        for (page, pages, pid) in [(7, 1, 1), (7, 3, 1), (9, 1, 2), (9, 1, 1), (5, 0, 1), (9, 1, 1)] {
            log.ops.push(FlashOp { time_ns: 0, kind: FlashKind::Read, page, pages, pid, task });
        }
        assert_eq!(totals(&log, true, |op| op.pid == 1).page_reads, Some(3));
        assert_eq!(totals(&log, true, |op| op.pid == 2).page_reads, Some(0));
        log.ops.insert(1, FlashOp { time_ns: 0, kind: FlashKind::Erase, page: 0, pages: 64, pid: 3, task });
        assert_eq!(totals(&log, true, |op| op.pid == 1).page_reads, Some(4));
    }

    #[test]
    fn a_line_that_is_not_understood_is_an_error_not_a_gap() {
        let error = parse("CPU:0 [LOST 5 EVENTS]\n", &CHIP).unwrap_err();
        assert!(error.to_string().contains("LOST 5"));
    }

    #[test]
    fn the_classic_forms() {
        let log = parse(TRACE, &CHIP).unwrap();
        let summary: Vec<String> = classic_summary(&log, &CHIP).lines().map(str::to_owned).collect();
        assert_eq!(summary.len(), 2048);
        assert_eq!((summary[1].as_str(), summary[3].as_str(), summary[2046].as_str()), ("0 1 0", "0 0 1", "1 0 0"));
        let text = classic_log(&log, &CHIP);
        assert_eq!(text.lines().next(), Some("39.832905000;R;130974;busybox"));
        assert_eq!(text.lines().nth(1), Some("39.833230000;E;3;jffs2_gcd_mtd0"));
        assert_eq!(text.lines().count(), 3);
    }
}
