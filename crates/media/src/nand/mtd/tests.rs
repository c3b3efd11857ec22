use super::*;
use pocketstone_vfs::MediumErrorKind;
use std::io::Write;

#[test]
fn what_is_no_mtd_device_is_refused_with_a_cure() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let cases = [
        (file.path(), "is not a character device", MediumErrorKind::Refused),
        (Path::new("/dev/null"), "/dev/null is not an MTD device: Inappropriate ioctl", MediumErrorKind::Refused),
        (Path::new("/dev/mtd-none"), "cannot open /dev/mtd-none: No such file", MediumErrorKind::Failed),
    ];
    for (path, what, kind) in cases {
        let error = MtdNand::open(path, Access::Write).err().expect("refused");
        assert!(error.chain().contains(what), "{}", error.chain());
        assert_eq!((error.kind(), error.cure().is_some()), (kind, kind == MediumErrorKind::Refused));
    }
}

#[test]
fn free_bytes_are_gathered_in_their_order() {
    let mut layout = Layout::default();
    layout.free[0] = requests::OobFree { offset: 2, length: 3 };
    layout.free[1] = requests::OobFree { offset: 9, length: 2 };
    let free = free_runs(&layout);
    assert_eq!(free, [(2, 3), (9, 2)]);
    let raw: Vec<u8> = (0..12).collect();
    let mut spare = [0; 5];
    gather(&free, &raw, &mut spare);
    assert_eq!(spare, [2, 3, 4, 9, 10]);
    let mut less = [0; 4];
    gather(&free, &raw, &mut less);
    assert_eq!(less, [2, 3, 4, 9]);
}

#[test]
fn bits_below_the_threshold_are_no_reason_to_renew_a_block() {
    assert_eq!(verdict(0, 0, 1), Verdict::Clean);
    assert_eq!(verdict(0, 2, 3), Verdict::Clean);
    assert_eq!(verdict(0, 3, 3), Verdict::Corrected);
    assert_eq!(verdict(1, 0, 3), Verdict::Uncorrectable);
}

#[test]
fn an_errno_is_the_chips_word_or_the_mediums() {
    let nand = MtdNand {
        path: "/dev/mtd9".into(),
        name: "test".into(),
        file: File::open("/dev/null").expect("a file"),
        geometry: Geometry { page_bytes: 2048, spare_bytes: 38, pages_per_block: 64, blocks: 2048 },
        oob_bytes: 64,
        free: None,
        bitflip_threshold: 1,
        has_memread: false,
    };
    assert!(matches!(nand.fault(Err(Errno::IO), String::new), Err(Fault::Failed)));
    let mut nand = nand;
    let Err(Fault::Medium(error)) = nand.program(3, &[0; 2048], &[0; 28]) else { panic!("not refused") };
    assert!(error.chain().starts_with("/dev/mtd9: cannot program page 3: Inappropriate ioctl"), "{error}");
    assert!(error.cure().is_some_and(|cure| cure.contains("Linux 3.2")));
    let errors = [
        nand.read(3, &mut [0; 2048], &mut []).expect_err("no chip").chain(),
        nand.read(3, &mut [], &mut [0; 28]).expect_err("no chip").chain(),
        nand.is_bad(1).expect_err("no chip").chain(),
        nand.mark_bad(1).expect_err("no chip").chain(),
        nand.erase(1).expect_err("no chip").to_string(),
    ];
    let what = ["read page 3", "which spare bytes", "whether block 1", "mark block 1", "erase block 1"];
    for (error, what) in errors.iter().zip(what) {
        assert!(error.starts_with("/dev/mtd9: ") && error.contains(what), "{error}");
    }
    let kind = nand.read(0, &mut [0; 5], &mut []).expect_err("a short buffer").kind();
    assert_eq!(kind, MediumErrorKind::Bug);
}

/// Whether the bytes are what is read from a page, in every way that a page can be read.
fn reads_as(nand: &mut MtdNand, page: u32, data: &[u8], spare: &[u8]) -> Verdict {
    let (mut read, mut read_spare) = (vec![0; data.len()], vec![0; spare.len()]);
    let verdict = nand.read(page, &mut read, &mut read_spare).expect("read");
    assert!(read == data && read_spare == spare, "page {page}: {verdict:?}, spare {read_spare:02x?}");
    read.fill(0);
    nand.read(page, &mut read, &mut []).expect("read");
    assert!(read == data, "page {page}, data alone");
    read_spare.fill(0);
    assert_eq!(nand.read(page, &mut [], &mut read_spare).expect("read"), Verdict::Clean);
    assert_eq!(read_spare, spare, "page {page}, spare alone");
    verdict
}

/// The free bytes of a page's spare area, made up.
fn made_up(page: u32, bytes: u32) -> Vec<u8> {
    (0..bytes).map(|i| (page * 7 + i) as u8).collect()
}

/// The device that an environment variable names, to be overwritten.
fn device(variable: &str) -> (std::ffi::OsString, MtdNand) {
    let path =
        std::env::var_os(variable).unwrap_or_else(|| panic!("name an MTD device to be overwritten in {variable}"));
    let nand = MtdNand::open(Path::new(&path), Access::Write).expect("an MTD device of NAND flash");
    let _ = writeln!(std::io::stderr(), "{}", nand.describe());
    (path, nand)
}

/// Both ways to read, as far as the kernel has them.
fn ways(nand: &MtdNand) -> &'static [bool] {
    if nand.has_memread { &[true, false] } else { &[false] }
}

#[test]
#[ignore = "overwrites the MTD device that POCKETSTONE_MTD names"]
fn a_device_does_all_that_a_chip_does_with_and_without_the_newest_request() {
    let (path, mut nand) = device("POCKETSTONE_MTD");
    let geometry = nand.geometry();
    let Geometry { page_bytes, spare_bytes, pages_per_block, blocks } = geometry;
    let erased = (vec![0xff; page_bytes as usize], vec![0xff; spare_bytes as usize]);
    for &has_memread in ways(&nand) {
        nand.has_memread = has_memread;
        let block = (1..blocks).find(|&block| !nand.is_bad(block).expect("told")).expect("a good block");
        nand.erase(block).expect("erased");
        let first = block * pages_per_block;
        for page in first..first + pages_per_block - 1 {
            let data = made_up(page, page_bytes);
            let spare = made_up(page, spare_bytes);
            nand.program(page, &data, &spare).expect("programmed");
            assert_eq!(reads_as(&mut nand, page, &data, &spare), Verdict::Clean);
        }
        let last = first + pages_per_block - 1;
        reads_as(&mut nand, last, &erased.0, &erased.1);
        nand.program_spare(last, &[1, 2, 3]).expect("programmed");
        reads_as(&mut nand, last, &erased.0, &[&[1, 2, 3], &erased.1[3..]].concat());
        nand.erase(block).expect("erased");
        reads_as(&mut nand, first, &erased.0, &erased.1);
        let past = nand.read(geometry.pages(), &mut vec![0; page_bytes as usize], &mut []);
        assert!(past.is_err(), "a page behind the chip was read");
        nand.mark_bad(block).expect("marked");
        assert!(nand.is_bad(block).expect("told"));
        assert!(matches!(nand.erase(block), Err(Fault::Failed)));
    }
    let mut reader = MtdNand::open(Path::new(&path), Access::Read).expect("for reading");
    let Err(Fault::Medium(error)) = reader.program(0, &erased.0, &[]) else { panic!("a reader wrote") };
    assert!(error.cure().is_some_and(|cure| cure.contains("read-only")), "{}", error.chain());
}

/// Needs nandsim with `bitflips=1 weakblocks=2:0 weakpages=193:0 gravepages=194:0`, in blocks of 64 pages: reads flip a
/// bit once in a thousand times, block 2 cannot be erased, page 193 not programmed, page 194 not read.
#[test]
#[ignore = "overwrites the MTD device that POCKETSTONE_MTD_WORN names"]
fn a_worn_device_says_what_it_cannot_do_and_what_was_put_right() {
    let (_, mut nand) = device("POCKETSTONE_MTD_WORN");
    assert!(matches!(nand.erase(2), Err(Fault::Failed)));
    nand.erase(3).expect("erased");
    let data = made_up(3, nand.geometry.page_bytes);
    nand.program(192, &data, &[]).expect("programmed");
    assert!(matches!(nand.program(193, &data, &[]), Err(Fault::Failed)));
    nand.program(194, &data, &[]).expect("programmed");
    for &has_memread in ways(&nand) {
        nand.has_memread = has_memread;
        let mut read = vec![0; data.len()];
        assert_eq!(nand.read(194, &mut read, &mut []).expect("read"), Verdict::Uncorrectable);
        assert_ne!(read, data);
        let corrected = (0..20_000).filter(|_| {
            let verdict = nand.read(192, &mut read, &mut []).expect("read");
            assert!(read == data, "{verdict:?}, and the data is wrong");
            verdict == Verdict::Corrected
        });
        assert!(corrected.count() > 0, "of 20,000 reads none had a flipped bit");
    }
}
