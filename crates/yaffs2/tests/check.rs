//! What a check says of chips that were written by hand, page by page, from the description of the format.

use crate::support::writer::{DIRECTORY, FILE, HARD_LINK, PAGE, SYMLINK, Writer, geometry, header};
use pocketstone_media::Result;
use pocketstone_media::nand::{Fault, Geometry, Nand, SimulatedNand, SimulatedOptions, Verdict};
use pocketstone_vfs::{Meta, Operations, ROOT};
use pocketstone_yaffs2::{DumpOptions, OpenOptions, Report, Severity, Volume, check, dump, has_checkpoint};
use std::collections::BTreeSet;

/// What was found of a kind, without the bad block that every chip here has.
fn found(report: &Report) -> BTreeSet<(Severity, &'static str)> {
    let findings = report.findings.iter().map(|finding| (finding.severity, finding.kind));
    findings.filter(|finding| finding.1 != "bad block").collect()
}

#[track_caller]
fn assert_found(writer: &mut Writer, severity: Severity, kind: &'static str) -> Report {
    let report = writer.check();
    assert_eq!(found(&report), BTreeSet::from([(severity, kind)]), "{:?}", report.findings);
    assert_eq!(report.errors > 0, severity == Severity::Error);
    report
}

#[test]
fn a_whole_volume_is_counted() {
    let mut writer = Writer::new();
    writer.header(257, DIRECTORY, 1, b"d", 0).header(258, FILE, 257, b"f", 0).data(258, 1, 2048).data(258, 2, 5);
    writer.header(258, FILE, 257, b"f", 2053).header(259, HARD_LINK, 1, b"h", 258).next_block();
    // Was written, and then deleted: its last header stays.
    writer.header(260, FILE, 1, b"gone", 0).data(260, 1, 9).header(260, FILE, 4, b"deleted", 0);
    let report = writer.check();
    assert_eq!((found(&report).len(), report.errors, report.bad_blocks), (0, 0, 1), "{:?}", report.findings);
    let kinds = report.objects;
    // The root and lost+found are directories, too.
    assert_eq!((kinds.files, kinds.directories, kinds.hard_links, report.file_bytes), (1, 3, 1, 2053));
    assert_eq!((report.used_pages, report.garbage_pages, report.erased_pages), (5, 4, 7 * 64 - 9));
    assert_eq!((report.sequences, report.erased_blocks), (Some((0x1001, 0x1002)), 5));
    assert!(!report.checkpoint);
}

#[test]
fn wrong_trees_are_found() {
    use Severity::{Error, Tidy};
    let case = |severity, kind, build: fn(&mut Writer)| {
        let mut writer = Writer::new();
        build(&mut writer);
        assert_found(&mut writer, severity, kind);
    };
    case(Error, "object without header", |w| {
        w.header(257, FILE, 300, b"a", 0);
    });
    case(Error, "object without header", |w| {
        w.data(257, 1, 10);
    });
    case(Error, "orphan", |w| {
        w.header(257, FILE, 1, b"a", 0).header(258, FILE, 257, b"b", 0);
    });
    case(Error, "directory loop", |w| {
        w.header(257, DIRECTORY, 258, b"a", 0).header(258, DIRECTORY, 257, b"b", 0);
    });
    case(Error, "duplicate name", |w| {
        w.header(257, FILE, 1, b"a", 0).header(258, FILE, 1, b"a", 0);
    });
    case(Error, "duplicate name", |w| {
        w.header(257, FILE, 1, b"lost+found", 0);
    });
    case(Error, "name that cannot be", |w| {
        w.header(257, FILE, 1, b"a/b", 0);
    });
    case(Error, "name that cannot be", |w| {
        w.header(257, FILE, 1, b"..", 0);
    });
    case(Error, "dangling hard link", |w| {
        w.header(257, HARD_LINK, 1, b"a", 300);
    });
    case(Error, "dangling hard link", |w| {
        w.header(257, HARD_LINK, 1, b"a", 1);
    });
    case(Error, "symbolic link without target", |w| {
        w.header(257, SYMLINK, 1, b"a", 0);
    });
    // Deleted while it was open.
    case(Tidy, "deletion not finished", |w| {
        w.header(257, FILE, 3, b"unlinked", 0);
    });
}

#[test]
fn wrong_pages_are_found_where_they_are() {
    use Severity::{Error, Tidy};
    let case = |severity, kind, page: u32, build: fn(&mut Writer)| {
        let mut writer = Writer::new();
        writer.header(257, FILE, 1, b"a", 4096);
        build(&mut writer);
        let report = assert_found(&mut writer, severity, kind);
        let finding = report.findings.iter().find(|finding| finding.kind == kind).expect("found");
        assert_eq!((finding.block, finding.page), (Some(0), Some(page)), "{finding:?}");
    };
    // In the middle of a block it is an error; at its end nobody has referred to it yet.
    case(Error, "tags out of range", 2, |w| {
        w.data(257, 1, 10).put(&[], 257, 2, 2049).data(257, 2, 9);
    });
    case(Error, "tags disagree with header", 1, |w| {
        w.put(&header(FILE, 1, b"a", 4096), 1 << 28 | 257, 0x8000_0001, 4000).data(257, 1, 9);
    });
    case(Error, "tags disagree with header", 1, |w| {
        w.put(&header(FILE, 1, b"a", 4096), 1 << 28 | 257, 0x8000_0002, 4096).data(257, 1, 9);
    });
    case(Error, "no header", 1, |w| {
        w.put(&[0xAB; 512], 258, 0, 0xFFFF).data(257, 1, 9);
    });
    case(Error, "tags of no object", 1, |w| {
        w.put(&[], 0x4_0000, 1, 5).data(257, 1, 9);
    });
    case(Error, "bytes beyond the valid ones", 1, |w| {
        w.put(&[5; PAGE], 257, 1, 100).data(257, 2, 9);
    });
    case(Error, "sequence number is not the block's", 1, |w| {
        w.sequence += 1;
        w.data(257, 1, 9);
    });
    case(Error, "tags not readable", 1, |w| {
        w.nand.program(1, &[5; PAGE], &[0x37; 28]).expect("programmed");
        w.page += 1;
        w.data(257, 1, 9);
    });
    case(Tidy, "tags not readable", 1, |w| w.nand.program(1, &[5; PAGE], &[0x37; 28]).expect("programmed"));
    case(Tidy, "page without tags", 1, |w| w.nand.program(1, &[5; PAGE], &[]).expect("programmed"));
}

#[test]
fn a_summary_that_says_something_else_is_found() {
    let mut writer = Writer::new();
    let mut entries = Vec::new();
    writer.header(257, FILE, 1, b"a", 62 * 2048);
    entries.extend([1 << 28 | 257, 0x8000_0001, 62 * 2048]);
    for chunk in 1..=62 {
        writer.data(257, chunk, 2048);
        // One page is said to be another's.
        entries.extend([257, if chunk == 9 { 70 } else { chunk }, 2048]);
    }
    let entries: Vec<u8> = entries.into_iter().flat_map(u32::to_le_bytes).collect();
    let sum: u32 = entries.iter().map(|&byte| u32::from(byte)).sum();
    let summary: Vec<u8> =
        [1, 1, 0x1001, sum].into_iter().flat_map(u32::to_le_bytes).chain(entries.iter().copied()).collect();
    writer.put(&summary, 0x10, 1, summary.len() as u32);
    let report = writer.check();
    let finding = report.findings.iter().find(|finding| finding.kind == "summary disagrees with tags");
    assert_eq!(finding.map(|finding| finding.page), Some(Some(9)), "{:?}", report.findings);
    assert_eq!(report.summarised_blocks, 1);
}

/// A chip of which one page cannot be corrected any more.
struct Worn {
    inner: Box<dyn Nand>,
    page: u32,
}

impl Nand for Worn {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn read(&mut self, page: u32, data: &mut [u8], spare: &mut [u8]) -> Result<Verdict> {
        let verdict = self.inner.read(page, data, spare)?;
        Ok(if page == self.page && !data.is_empty() { Verdict::Uncorrectable } else { verdict })
    }
    fn program(&mut self, page: u32, data: &[u8], spare: &[u8]) -> Result<(), Fault> {
        self.inner.program(page, data, spare)
    }
    fn erase(&mut self, block: u32) -> Result<(), Fault> {
        self.inner.erase(block)
    }
    fn is_bad(&mut self, block: u32) -> Result<bool> {
        self.inner.is_bad(block)
    }
    fn mark_bad(&mut self, block: u32) -> Result<()> {
        self.inner.mark_bad(block)
    }
    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[test]
fn data_that_cannot_be_corrected_is_found_and_a_torn_page_is_no_error() {
    for (page, expected) in [(1, Severity::Error), (2, Severity::Tidy)] {
        let mut writer = Writer::new();
        writer.header(257, FILE, 1, b"a", 4096).data(257, 1, 2048).data(257, 2, 2048);
        let report =
            check(Box::new(Worn { inner: Box::new(writer.nand), page }), &OpenOptions::default()).expect("checked");
        assert_eq!(found(&report), BTreeSet::from([(expected, "data not readable")]), "{:?}", report.findings);
    }
}

/// A chip with a checkpoint: its unmounted volume has one file, and the last page that was written.
fn with_checkpoint() -> Box<dyn Nand> {
    let nand = SimulatedNand::new(geometry(64), SimulatedOptions::default());
    let options = OpenOptions::default().fixed_clock_ns(0);
    let volume = Volume::open(Box::new(nand.clone()), &options).expect("mounted");
    let file = volume.create_file(ROOT, b"f", &Meta::file(0o644)).expect("created");
    file.write_at(&[7; 5000], 0).expect("written");
    drop(file);
    volume.close().expect("unmounted");
    Box::new(nand)
}

#[test]
fn a_checkpoint_is_held_against_a_scan() {
    let whole = check(with_checkpoint(), &OpenOptions::default()).expect("checked");
    assert_eq!((whole.errors, whole.checkpoint, whole.checkpoint_blocks), (0, true, 1), "{:?}", whole.findings);
    assert!(has_checkpoint(with_checkpoint(), &OpenOptions::default()).expect("read"));
    // Somebody wrote, and left the checkpoint where it was.
    let mut chip = with_checkpoint();
    let erased = |chip: &mut Box<dyn Nand>, page: u32| {
        let mut spare = [0; 28];
        chip.read(page, &mut [], &mut spare).expect("read");
        spare == [0xFF; 28]
    };
    let page = (0..64).find(|&page| erased(&mut chip, page)).expect("room");
    let mut writer = Writer::new();
    writer.header(300, FILE, 1, b"new", 0);
    let (mut data, mut spare) = (vec![0; PAGE], [0; 28]);
    writer.nand.read(0, &mut data, &mut spare).expect("read");
    chip.program(page, &data, &spare).expect("programmed");
    let report = check(chip, &OpenOptions::default()).expect("checked");
    assert!(report.findings.iter().any(|f| f.kind == "checkpoint disagrees with scan" && f.object == Some(300)));
    assert!(report.errors > 0);
    // One that cannot be read is none.
    let mut chip = with_checkpoint();
    let first = (1..64).map(|block| block * 64).find(|&page| !erased(&mut chip, page)).expect("the checkpoint");
    let report = check(Box::new(Worn { inner: chip, page: first }), &OpenOptions::default()).expect("checked");
    assert_eq!((report.errors, report.checkpoint), (0, false));
    assert_eq!(found(&report), BTreeSet::from([(Severity::Tidy, "checkpoint not valid")]));
}

#[test]
fn a_dump_tells_every_page_and_the_checkpoint() {
    let mut lines = Vec::new();
    let mut line = |text: &str| {
        lines.push(text.to_owned());
        true
    };
    dump(with_checkpoint(), &OpenOptions::default(), &DumpOptions::default(), &mut line).expect("dumped");
    let text = lines.join("\n");
    for part in [
        "block 0: sequence 0x1001",
        "     0  object 257, header: file, 0 bytes, in 1",
        "        file `f` in 1, 0 bytes",
        "mode 100644, user 0, group 0, read 0, written 0, changed 0",
        "object 257, chunk 1, 2048 bytes",
        "object 257, chunk 3, 904 bytes",
        "block 1: checkpoint",
        "checkpoint page 1, 2048 bytes",
        "blocks 2 to 63: erased",
        "checkpoint: newest sequence 0x1001; block 0 is filled up to page",
        "  object 257: file, 5000 bytes in 3 chunks, in 1, header at block 0 page",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let one = DumpOptions::default().block(64).summary(true);
    assert!(dump(with_checkpoint(), &OpenOptions::default(), &one, &mut |_| true).is_err());
}
