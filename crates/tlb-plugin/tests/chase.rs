//! The plugin on a machine without an operating system, whose every access is known: a chase of pointers.

use pocketstone_testing::{Need, Skip, library, or_skip};
use pocketstone_tlb::marks::{Mark, MarkKind, decode};
use pocketstone_tlb::{Access, Counts, ERROR_FILE, MARKS_FILE, PROCESSOR_FILE, Processor, SMALL_PAGE_BITS, Tlb};
use std::path::Path;
use std::process::Command;

const PROGRAM_AT: u32 = 0x4010_0000;
const PAGES_AT: u32 = 0x4200_0000;
const PAGE_BYTES: u32 = 4096;

/// 32-bit ARM, encodings A1 of the ARM Architecture Reference Manual: reads the counter, goes `rounds` times `steps`
/// pointers on from `first`, reads the counter again and ends the machine by semihosting (SYS_EXIT).
fn program(first: u32, steps: u32, rounds: u32) -> Vec<u8> {
    let half = |code: u32, register: u32, value: u32| code | (value >> 12 & 15) << 16 | register << 12 | value & 0xfff;
    let movw = |register, value: u32| half(0xe300_0000, register, value & 0xffff);
    let movt = |register, value: u32| half(0xe340_0000, register, value >> 16);
    let back = |instructions: i32| 0x1a00_0000 | (-instructions - 2) as u32 & 0x00ff_ffff;
    let code = [
        movw(0, first),
        movt(0, first),
        movw(1, rounds),
        0xec55_4f1e, // mrrc p15, 1, r4, r5, c14
        0xe1a0_2000, // mov r2, r0
        movw(3, steps),
        0xe592_2000, // ldr r2, [r2]
        0xe253_3001, // subs r3, r3, #1
        back(2),     // bne ldr
        0xe251_1001, // subs r1, r1, #1
        back(6),     // bne mov
        0xec55_4f1e, // mrrc p15, 1, r4, r5, c14
        movw(0, 0x18),
        movw(1, 0x2_0026),
        movt(1, 0x2_0026),
        0xef12_3456, // svc #0x123456
    ];
    code.iter().flat_map(|instruction| instruction.to_le_bytes()).collect()
}

/// Pages in the order of the chase: a permutation with one cycle.
fn order(pages: u32) -> Vec<u32> {
    // 389 is a prime and divides no number of pages here.
    (0..pages).map(|n| n * 389 % pages).collect()
}

/// What the plugin counted between the two readings of the counter, and the instructions between them.
fn chase(processor: &Processor, pages: u32, rounds: u32) -> Result<(Counts, u64), Skip> {
    let folder = tempfile::tempdir().unwrap();
    let order = order(pages);
    let address = |page: u32| PAGES_AT + page * PAGE_BYTES;
    let mut memory = vec![0; (pages * PAGE_BYTES) as usize];
    for (n, page) in order.iter().enumerate() {
        let next = address(order[(n + 1) % order.len()]);
        memory[(page * PAGE_BYTES) as usize..][..4].copy_from_slice(&next.to_le_bytes());
    }
    std::fs::write(folder.path().join("program"), program(address(order[0]), pages, rounds)).unwrap();
    std::fs::write(folder.path().join("pages"), memory).unwrap();
    std::fs::write(folder.path().join(PROCESSOR_FILE), processor.to_text().unwrap()).unwrap();
    let loader = |file: &str, at: u32, rest: &str| format!("loader,file={file},addr={at:#x},force-raw=on{rest}");
    let output = Command::new("qemu-system-arm")
        .args(["-M", "virt,highmem=off", "-cpu", "cortex-a15", "-m", "128", "-nodefaults", "-display", "none"])
        .args(["-icount", "shift=1,sleep=off", "-semihosting-config", "enable=on,target=native"])
        .args(["-device", &loader("pages", PAGES_AT, "")])
        .args(["-device", &loader("program", PROGRAM_AT, ",cpu-num=0")])
        .arg("-plugin")
        .arg(library("libpocketstone_tlb_plugin.so"))
        .current_dir(folder.path())
        .output();
    let output = match output {
        Err(e) => return Err(Need::Qemu.lacks(format_args!("no chase on a machine: qemu-system-arm: {e}"))),
        Ok(output) => output,
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let marks = decode(&std::fs::read(folder.path().join(MARKS_FILE)).unwrap()).unwrap();
    let [begin, end, last]: [Mark; 3] = marks.try_into().unwrap();
    assert_eq!([begin.kind, end.kind, last.kind], [MarkKind::Clock, MarkKind::Clock, MarkKind::End]);
    Ok((end.counts.since(&begin.counts), end.instructions - begin.instructions))
}

/// What the model counts of the same addresses.
fn model(processor: &Processor, pages: u32, rounds: u32) -> Counts {
    let mut tlb = Tlb::new(processor);
    for page in (0..rounds).flat_map(|_| order(pages)) {
        let address = u64::from(PAGES_AT + page * PAGE_BYTES);
        tlb.access(Access { address, space: address >> 12, page_bits: SMALL_PAGE_BITS, store: false });
    }
    tlb.counts()
}

#[test]
fn a_chase_of_pointers_has_the_misses_that_are_known_of_it() {
    let devices = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices");
    let load = |name: &str| Processor::load(&devices, name).unwrap();
    // Pages, rounds, first-level misses and walks of a Cortex-A15's 32 and 512 entries, worked out by hand: what fits
    // misses once for each page, twice as many pages as entries miss at every step.
    for (pages, rounds, first, walks) in
        [(32, 10, 32, 32), (64, 10, 640, 64), (512, 4, 2048, 512), (1024, 3, 3072, 3072)]
    {
        let (counts, instructions) = or_skip!(chase(&load("cortex-a15"), pages, rounds));
        let steps = u64::from(pages * rounds);
        assert_eq!((counts.accesses, counts.first_level_misses, counts.walks), (steps, first, walks), "{pages} pages");
        assert_eq!(instructions, 3 * steps + 4 * u64::from(rounds) + 1, "{pages} pages");
    }
    for name in ["i5-750", "cortex-a15", "cortex-a76", "zen-4", "golden-cove"] {
        for (pages, rounds) in [(100, 7), (600, 5), (1500, 3)] {
            let processor = load(name);
            let (counts, _) = or_skip!(chase(&processor, pages, rounds));
            assert_eq!(counts, model(&processor, pages, rounds), "{name}, {pages} pages");
        }
    }
}

/// The plugin without what it reads: QEMU ends, and says why.
#[test]
fn a_missing_processor_is_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("program"), program(PAGES_AT, 1, 1)).unwrap();
    let output = Command::new("qemu-system-arm")
        .args(["-M", "virt", "-cpu", "cortex-a15", "-nodefaults", "-display", "none", "-device"])
        .arg(format!("loader,file=program,addr={PROGRAM_AT:#x},force-raw=on,cpu-num=0"))
        .arg("-plugin")
        .arg(library("libpocketstone_tlb_plugin.so"))
        .current_dir(folder.path())
        .output();
    let output = or_skip!(output.map_err(|e| Need::Qemu.lacks(format_args!("no machine to watch: {e}"))));
    let said = std::fs::read_to_string(folder.path().join(ERROR_FILE)).unwrap();
    assert!(!output.status.success() && said.contains(PROCESSOR_FILE), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "nothing of it where nobody reads");
}
