//! Every program of raw NAND with its bytes, and every erase: from them and what a chip held before follows what it
//! holds at any moment.
//!
//! A program's data and spare area reach the NAND layer by two functions, and one event holds 512 bytes at most: what
//! belongs together is put together here.

use crate::flashmon::Line;
use crate::tracefs::{Instance, Probe};
use pocketstone_core::chip::{Change, Changed};
use pocketstone_core::{Error, Result};

/// Most bytes that one event holds: 64 words of 64 bits, the kernel's limit for an array.
const PART_BYTES: u32 = 512;
/// Parts of the largest page.
const PARTS: [[&str; 16]; 2] = [
    [
        "begin0", "begin1", "begin2", "begin3", "begin4", "begin5", "begin6", "begin7", "begin8", "begin9", "begin10",
        "begin11", "begin12", "begin13", "begin14", "begin15",
    ],
    [
        "whole0", "whole1", "whole2", "whole3", "whole4", "whole5", "whole6", "whole7", "whole8", "whole9", "whole10",
        "whole11", "whole12", "whole13", "whole14", "whole15",
    ],
];
/// Room for events in KiB: a program takes about 2.3 KiB of it.
const BUFFER_KIB: u64 = 64 * 1024;

/// Where the arguments of a program are: page, column, address and number of bytes; and those of a write of more bytes.
struct Registers {
    program: [&'static str; 4],
    more: [&'static str; 2],
    block: &'static str,
}

/// As in `flashmon`; the fifth argument is on the stack on 32-bit ARM.
const REGISTERS: Option<Registers> = if cfg!(target_arch = "arm") {
    Some(Registers { program: ["%r1", "%r2", "%r3", "$stack0"], more: ["%r1", "%r2"], block: "%r1" })
} else if cfg!(target_arch = "aarch64") {
    Some(Registers { program: ["%x1", "%x2", "%x3", "%x4"], more: ["%x1", "%x2"], block: "%x1" })
} else if cfg!(target_arch = "x86_64") {
    Some(Registers { program: ["%si", "%dx", "%cx", "%r8"], more: ["%si", "%dx"], block: "%si" })
} else {
    None
};

/// A running recorder.
pub struct ChipChanges {
    instance: Instance,
}

impl ChipChanges {
    /// Sets the probes for a chip with pages of so many bytes of data and spare area; nothing is recorded before
    /// [`ChipChanges::start`].
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel has no raw NAND support, no tracefs or no kprobes, the pages are larger than
    /// 8 KiB, or the processor is unsupported.
    pub fn new(page_bytes: u32, oob_bytes: u32) -> Result<Self> {
        let unsupported = || Error::board("programs cannot be recorded with their bytes on this processor");
        let registers = REGISTERS.ok_or_else(unsupported)?;
        let parts = page_bytes.div_ceil(PART_BYTES) as usize;
        if parts > PARTS[0].len() || page_bytes % 8 != 0 || oob_bytes % 8 != 0 || oob_bytes > PART_BYTES {
            let what = format!("{page_bytes}+{oob_bytes} bytes");
            return Err(Error::board(format!("programs of pages of {what} cannot be recorded with their bytes")));
        }
        let mut instance = Instance::new("changes", BUFFER_KIB)?;
        let [page, column, data, length] = registers.program;
        for (symbol, names) in ["nand_prog_page_begin_op", "nand_prog_page_op"].into_iter().zip(&PARTS) {
            for (name, part) in names.iter().zip(0..parts as u32) {
                let at = part * PART_BYTES;
                let words = (page_bytes - at).min(PART_BYTES) / 8;
                let definition = format!(
                    "{symbol} page={page}:u32 column={column}:u32 length={length}:u32 data=+{at}({data}):x64[{words}]"
                );
                add(&mut instance, &Probe { name, definition })?;
            }
        }
        let [data, length] = registers.more;
        let words = oob_bytes / 8;
        let definition = format!("nand_write_data_op length={length}:u32 data=+0({data}):x64[{words}]");
        add(&mut instance, &Probe { name: "more", definition })?;
        let definition = format!("nand_erase_op block={}:u32", registers.block);
        add(&mut instance, &Probe { name: "erased", definition })?;
        Ok(ChipChanges { instance })
    }

    /// Starts recording.
    ///
    /// # Errors
    /// `ErrorKind::Board` if tracefs refuses.
    pub fn start(&self) -> Result<()> {
        self.instance.start()
    }

    /// How many events were recorded so far.
    ///
    /// # Errors
    /// `ErrorKind::Board` if tracefs does not say.
    pub fn events(&self) -> Result<u64> {
        self.instance.entries()
    }

    /// Stops recording and returns every change since the start.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel lost events, or its text cannot be read or understood.
    pub fn stop(self) -> Result<Vec<Changed>> {
        self.instance.stop()?;
        let lost = self.instance.lost()?;
        if lost > 0 {
            return Err(Error::board(format!("the kernel lost {lost} events of programs and erases"))
                .hint("make the workload smaller: there is room for about 25,000 programs"));
        }
        parse(&self.instance.text()?)
    }
}

fn add(instance: &mut Instance, probe: &Probe) -> Result<()> {
    instance.add(probe).map_err(|e| {
        Error::board("programs of the flash cannot be recorded with their bytes")
            .because(e)
            .hint("the kernel requires raw NAND support and CONFIG_KPROBE_EVENTS with arrays (Linux 4.20)")
    })
}

/// A program of which not all events were seen.
struct Pending {
    time_ns: u64,
    /// Whether its function takes everything at once.
    whole: bool,
    page: u32,
    column: u32,
    length: usize,
    bytes: Vec<u8>,
    /// The parts that are there.
    parts: u32,
}

impl Pending {
    fn wanted(&self) -> u32 {
        (self.length as u32).div_ceil(PART_BYTES)
    }

    fn is_complete(&self) -> bool {
        (0..self.wanted()).all(|part| self.parts >> part & 1 == 1)
    }

    fn changed(self) -> Result<Changed> {
        if !self.is_complete() {
            let what = format!("of a program of page {}", self.page);
            return Err(Error::board(format!("the kernel's trace lacks a part {what}")));
        }
        let Pending { time_ns, page, column, bytes, .. } = self;
        Ok(Changed { time_ns, change: Change::Program { page, column, bytes } })
    }
}

fn parse(text: &str) -> Result<Vec<Changed>> {
    let mut changes = Vec::new();
    let mut pending: Option<Pending> = None;
    for line in text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()) {
        let short = || line.chars().take(200).collect::<String>();
        let strange = || Error::board(format!("cannot parse a line of the kernel's trace: {}", short()));
        let event = Line::of(line).ok_or_else(strange)?;
        match event.name {
            "erased" => {
                changes.extend(pending.take().map(Pending::changed).transpose()?);
                let block = event.number("block").and_then(|n| u32::try_from(n).ok()).ok_or_else(strange)?;
                changes.push(Changed { time_ns: event.time_ns, change: Change::Erase { block } });
            }
            // The spare area, behind the data.
            "more" => {
                let length = event.number("length").ok_or_else(strange)? as usize;
                let bytes = event.bytes("data").filter(|bytes| bytes.len() >= length).ok_or_else(strange)?;
                let open = pending.as_mut().filter(|p| !p.whole && p.is_complete() && p.bytes.len() == p.length);
                open.ok_or_else(strange)?.bytes.extend(&bytes[..length]);
            }
            name => {
                let (whole, part) = match (name.strip_prefix("begin"), name.strip_prefix("whole")) {
                    (Some(part), _) => (false, part),
                    (_, Some(part)) => (true, part),
                    _ => return Err(strange()),
                };
                let part: u32 = part.parse().map_err(|_| strange())?;
                let number = |name| event.number(name).and_then(|n| u32::try_from(n).ok()).ok_or_else(strange);
                let (page, column, length) = (number("page")?, number("column")?, number("length")? as usize);
                // Parts of one call come in any order, and each once.
                let continues = |p: &Pending| p.whole == whole && p.page == page && p.parts >> part & 1 == 0;
                if !pending.as_ref().is_some_and(continues) {
                    changes.extend(pending.take().map(Pending::changed).transpose()?);
                }
                let time_ns = event.time_ns;
                let open = pending.get_or_insert_with(|| Pending {
                    time_ns,
                    whole,
                    page,
                    column,
                    length,
                    bytes: vec![0xff; length],
                    parts: 0,
                });
                open.parts |= 1 << part;
                // Behind the end of a short buffer lies something else, or nothing.
                let at = (part * PART_BYTES) as usize;
                if at < length {
                    let bytes = event.bytes("data").ok_or_else(strange)?;
                    let end = length.min(at + PART_BYTES as usize);
                    let bytes = bytes.get(..end - at).ok_or_else(strange)?;
                    open.bytes[at..end].copy_from_slice(bytes);
                }
            }
        }
    }
    changes.extend(pending.map(Pending::changed).transpose()?);
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(first: u64, count: u64) -> String {
        let words: Vec<String> = (0..count).map(|n| format!("{:#x}", first + n)).collect();
        format!("{{{}}}", words.join(","))
    }

    fn bytes(first: u64, count: u64) -> Vec<u8> {
        (0..count).flat_map(|n| (first + n).to_le_bytes()).collect()
    }

    /// As a 6.1 kernel prints a page of 1024+16 bytes and a marker of an erased block; a part's event that was defined
    /// later comes first.
    fn trace() -> String {
        let head = |us: u32, name: &str, f: &str| format!("  dd-87  [000] d....  3.3364{us}: {name}: ({f}+0x0/0xd0)");
        let begin = |us, name, data: String| {
            let call = head(us, name, "nand_prog_page_begin_op");
            format!("{call} page=9 column=0 length=1024 data={data}\n")
        };
        let whole = |us, name, data: String| {
            let call = head(us, name, "nand_prog_page_op");
            format!("{call} page=64 column=1024 length=16 data={data}\n")
        };
        "# tracer: nop\n#\n".to_owned()
            + &begin(10, "begin1", words(100, 64))
            + &begin(23, "begin0", words(7, 64))
            + &format!("{} length=16 data={}\n", head(40, "more", "nand_write_data_op"), words(500, 2))
            + &whole(50, "whole1", "(fault)".into())
            + &whole(52, "whole0", words(900, 64))
            + &format!("{} block=3\n", head(60, "erased", "nand_erase_op"))
            + &begin(70, "begin1", words(1, 64))
            + &begin(71, "begin0", words(2, 64))
    }

    #[test]
    fn parts_become_programs_in_their_order() {
        let changes = parse(&trace()).unwrap();
        let of = |n: usize| (changes[n].time_ns, &changes[n].change);
        let page = [bytes(7, 64), bytes(100, 64), bytes(500, 2)].concat();
        assert_eq!(of(0), (3_336_410_000, &Change::Program { page: 9, column: 0, bytes: page }));
        assert_eq!(of(1), (3_336_450_000, &Change::Program { page: 64, column: 1024, bytes: bytes(900, 2) }));
        assert_eq!(of(2), (3_336_460_000, &Change::Erase { block: 3 }));
        // Another program of the same page, without its spare area.
        let page = [bytes(2, 64), bytes(1, 64)].concat();
        assert_eq!(of(3), (3_336_470_000, &Change::Program { page: 9, column: 0, bytes: page }));
        assert_eq!(changes.len(), 4);
    }

    #[test]
    fn what_is_missing_is_an_error_not_a_gap() {
        let without = |name: &str| {
            let text: Vec<String> =
                trace().lines().filter(|l| !l.contains(&format!(" {name}:"))).map(str::to_owned).collect();
            parse(&text.join("\n"))
        };
        assert!(without("begin0").unwrap_err().to_string().contains("cannot parse"), "the spare area of half a page");
        assert!(without("whole0").unwrap_err().to_string().contains("lacks a part of a program of page 64"));
        assert!(parse("CPU:0 [LOST 5 EVENTS]\n").is_err());
    }
}
