use super::tags::{Order, TagsParity, parity_holds, sequence};
use super::yaffs1::{Yaffs1Found, Yaffs1Tags};
use super::*;
use crate::nand::{SimulatedNand, SimulatedOptions};
use pocketstone_vfs::MediumErrorKind;
use proptest::prelude::*;
use std::fs;

/// Tags with their error correction, of a Python script written from a description of the format alone: sequence
/// number, object, chunk, bytes; and whether they are big-endian.
const TAGS: [(u32, &str, Order); 7] = [
    // A header, a full chunk and another header as mkyaffs2image writes them.
    (0x1000, "001000000101000000000000ffff00002500000000000000ffffffff", Order::Little),
    (0x1000, "001000000101000001000000000800002a00000005000000faffffff", Order::Little),
    (0x1000, "001000000201000000000000ffff00002600000000000000ffffffff", Order::Little),
    // The header of a file of 5000 bytes as a file system writes it, its last chunk, and a directory that shrank.
    (0x1001, "011000000101001001000080881300003c0000000900000009000000", Order::Little),
    (0x1001, "01100000010100000300000088030000000000000000000000000000", Order::Little),
    (0x1002, "0210000002010030010000c0000000002500000008000000f7ffffff", Order::Little),
    (0x1001, "00001001000001010000000300000388000000000000000000000000", Order::Big),
];

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex")).collect()
}

/// Tags of a data chunk.
fn packed(sequence: u32, object: u32, chunk: u32, bytes: u32) -> Vec<u8> {
    let mut raw: Vec<u8> = [sequence, object, chunk, bytes].iter().flat_map(|word| word.to_le_bytes()).collect();
    let parity = TagsParity::of(&raw);
    raw.extend([parity.column, 0, 0, 0]);
    raw.extend([parity.line, parity.inverted].iter().flat_map(|word| word.to_le_bytes()));
    raw
}

/// A page as it lies in an image; `tags` at `at`, counted from the start of the page.
fn page(page_bytes: usize, spare_bytes: usize, at: usize, tags: &[u8]) -> Vec<u8> {
    let mut page = vec![0xff; page_bytes + spare_bytes];
    page[..512].fill(0x5a);
    page[at..at + tags.len()].copy_from_slice(tags);
    page
}

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("image")
    }

    fn open(&self, image: &[u8]) -> Result<ImageNand> {
        fs::write(self.path(), image).expect("written");
        ImageNand::open(&self.path(), Access::Read, None)
    }
}

fn refusal(result: Result<(), Fault>) -> String {
    match result.expect_err("refused") {
        Fault::Medium(error) => error.chain(),
        Fault::Failed => panic!("an image does not fail"),
    }
}

#[test]
fn tags_are_known_by_their_values_and_their_error_correction() {
    for (number, text, order) in TAGS {
        let raw = unhex(text);
        assert_eq!(sequence(&raw, order, 2048), Some(number), "{text}");
        assert!(parity_holds(&raw, order), "{text}");
        for bit in 0..16 * 8 {
            let mut wrong = raw.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(!parity_holds(&wrong, order), "{text}, bit {bit}");
        }
    }
    // A chunk cannot hold more than a page; zeros and ones are no tags.
    assert_eq!(sequence(&unhex(TAGS[1].1), Order::Little, 2032), None);
    assert_eq!(sequence(&[0; 28], Order::Little, 2048), None);
    assert_eq!(sequence(&[0xff; 28], Order::Little, 2048), None);
}

#[test]
fn every_page_size_and_place_of_tags_is_found() {
    for page_bytes in [512, 1024, 2048, 4096, 8192, 16384] {
        for spare in [page_bytes / 32, 64, 128, 224] {
            for offset in [0, 2] {
                if spare < offset + 28 || spare > page_bytes / 4 {
                    continue;
                }
                let image: Vec<u8> = (0..24)
                    .flat_map(|i| {
                        page(page_bytes, spare, page_bytes + offset, &packed(0x1001, 257, 1 + i, page_bytes as u32))
                    })
                    .collect();
                let nand = Scratch::new().open(&image).expect("found");
                let layout = nand.layout();
                let found = [layout.page_bytes, layout.spare_total_bytes, layout.spare_offset].map(|n| n as usize);
                assert_eq!(found, [page_bytes, spare, offset]);
                assert_eq!((nand.inband_tags(), nand.tags_ecc()), (Some(false), Some(true)));
                assert!(nand.describe().contains("found by their error correction"), "{}", nand.describe());
            }
        }
    }
}

/// Tags of YAFFS1, of `tests/yaffs2/yaffs1.py`: object, chunk, bytes, serial number; big-endian or not.
const YAFFS1: [(u32, u32, u32, u8, bool, &str); 5] = [
    (257, 0, 1023, 0, false, "0000c0ff010100c1"),
    (257, 1, 512, 1, false, "0100108001010cc1"),
    (0x3FFFF, 1000, 17, 3, false, "e8037004ffffb7c1"),
    (1, 0, 1023, 2, true, "00000bff0000406f"),
    (258, 300, 100, 1, true, "0012c46400408057"),
];

fn spread(tags: &[u8]) -> [u8; 16] {
    let mut spare = [0xff; 16];
    for (at, byte) in [0, 1, 2, 3, 6, 7, 11, 12].into_iter().zip(tags) {
        spare[at] = *byte;
    }
    spare
}

#[test]
fn tags_of_yaffs1_are_read_wherever_they_lie_and_a_flipped_bit_is_put_right() {
    for (object, chunk, bytes, serial, big, text) in YAFFS1 {
        let raw = unhex(text);
        let right = |corrected| Yaffs1Found::Tags(Yaffs1Tags { object, chunk, bytes, serial, corrected });
        assert_eq!(Yaffs1Found::decode(&raw, big), right(false), "{text}");
        assert_eq!(Yaffs1Found::decode(&spread(&raw), big), right(false), "{text}");
        assert!(!matches!(Yaffs1Found::decode(&raw, !big), Yaffs1Found::Tags(tags) if !tags.corrected), "{text}");
        // Without the code's own bits, the mark of a deleted page, and the bit beside it.
        let of_data = |bit: &usize| match (bit / 8, big) {
            (0..4, _) => true,
            (byte, false) => bit % 8 + (byte - 4) * 8 < 18,
            (byte, true) => 7 - bit % 8 + (byte - 4) * 8 < 18,
        };
        for bit in (0..64).filter(of_data) {
            let mut wrong = raw.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Yaffs1Found::decode(&wrong, big), right(true), "{text}, bit {bit}");
        }
        let mut deleted = spread(&raw);
        deleted[4] = 0x10;
        assert_eq!(Yaffs1Found::decode(&deleted, big), Yaffs1Found::Deleted);
        let mut bad = spread(&raw);
        bad[5] = b'Y';
        assert_eq!(Yaffs1Found::decode(&bad, big), Yaffs1Found::Bad);
        let mut deleted = raw.clone();
        deleted[7] &= if big { !0x02 } else { !0x40 };
        assert_eq!(Yaffs1Found::decode(&deleted, big), Yaffs1Found::Deleted);
    }
    assert_eq!(Yaffs1Found::decode(&[0xff; 16], false), Yaffs1Found::Unused);
    assert_eq!(Yaffs1Found::decode(&[0xff; 7], false), Yaffs1Found::Broken);
    assert_eq!(Yaffs1Found::decode(&[0; 16], false), Yaffs1Found::Bad);
}

#[test]
fn images_of_yaffs1_are_found_and_their_bad_blocks_known() {
    for packed in [false, true] {
        let mut image: Vec<u8> = Vec::new();
        for (_, _, _, _, _, text) in &YAFFS1[..3] {
            let spare = match packed {
                true => [vec![0xff; 8], unhex(text)].concat(),
                false => spread(&unhex(text)).to_vec(),
            };
            image.extend(vec![0x5a; 512]);
            image.extend(spare);
        }
        image.resize(2 * 32 * 528, 0xff);
        image[32 * 528 + 512 + 5] = 0;
        let mut nand = Scratch::new().open(&image).expect("found");
        assert!(nand.describe().contains("YAFFS1 tags"), "{}", nand.describe());
        let spare_bytes = if packed { 8 } else { 16 };
        assert_eq!(nand.geometry(), Geometry { page_bytes: 512, spare_bytes, pages_per_block: 32, blocks: 2 });
        assert_eq!([nand.is_bad(0).expect("there"), nand.is_bad(1).expect("there")], [false, true]);
    }
}

#[test]
fn tags_behind_error_correction_and_in_large_spare_areas_are_found() {
    for (page_bytes, spare, offset) in [(2048, 64, 26), (8192, 448, 0), (8192, 448, 2), (8192, 448, 418)] {
        let tags = |i: u32| packed(0x1001, 257, 1 + i, page_bytes as u32);
        let image: Vec<u8> = (0..24).flat_map(|i| page(page_bytes, spare, page_bytes + offset, &tags(i))).collect();
        let layout = Scratch::new().open(&image).expect("found").layout();
        let found = [layout.page_bytes, layout.spare_total_bytes, layout.spare_offset].map(|n| n as usize);
        assert_eq!(found, [page_bytes, spare, offset]);
    }
}

#[test]
fn an_image_of_mkyaffs2image_is_read_to_the_byte() {
    let image: Vec<u8> = TAGS[..3].iter().flat_map(|(_, text, _)| page(2048, 64, 2048, &unhex(text))).collect();
    let mut nand = Scratch::new().open(&image).expect("found");
    // All of the spare area but the 24 bytes of Linux' Hamming code; three pages are one block that lacks most.
    let geometry = Geometry { page_bytes: 2048, spare_bytes: 40, pages_per_block: 64, blocks: 1 };
    assert_eq!(nand.geometry(), geometry);
    let (mut data, mut spare) = (vec![0; 2048], vec![0; 28]);
    nand.read(1, &mut data, &mut spare).expect("read");
    assert_eq!((data[0], data[512], spare), (0x5a, 0xff, unhex(TAGS[1].1)));
    nand.read(3, &mut data, &mut []).expect("read");
    assert_eq!(data, vec![0xff; 2048]);
    assert!(nand.describe().ends_with("pages per block assumed"), "{}", nand.describe());
    assert!(!nand.is_bad(0).expect("there"));
}

#[test]
fn tags_without_error_correction_and_inband_tags_are_found_by_their_values() {
    let tags = |i: u32| packed(0x1001, 257, i, if i == 0 { 0 } else { 2032 })[..16].to_vec();
    let build =
        |spare: usize, at: usize| -> Vec<u8> { (0..64).flat_map(|i| page(2048, spare, at, &tags(i))).collect() };
    for (spare, at, inband) in [(64, 2048, false), (64, 2050, false), (0, 2032, true), (64, 2032, true)] {
        let nand = Scratch::new().open(&build(spare, at)).expect("found");
        let layout = nand.layout();
        assert_eq!((layout.page_bytes, layout.spare_total_bytes as usize), (2048, spare), "{}", nand.describe());
        assert_eq!((nand.inband_tags(), nand.tags_ecc()), (Some(inband), Some(false)));
        assert_eq!(layout.pages_per_block, 64);
        assert!(nand.describe().contains("found by their values"), "{}", nand.describe());
        if !inband {
            assert_eq!(layout.spare_offset as usize, at - 2048);
        }
    }
}

#[test]
fn big_endian_tags_are_found_and_said() {
    let image = page(2048, 64, 2050, &unhex(TAGS[6].1));
    let nand = Scratch::new().open(&image).expect("found");
    assert!(nand.describe().contains("big-endian"), "{}", nand.describe());
}

#[test]
fn what_cannot_be_told_is_refused_with_what_to_give() {
    let mut noise = vec![0; 100 * 2112];
    pocketstone_random::Random::new(1).fill(&mut noise);
    let cases = [
        (Vec::new(), "is empty"),
        (vec![0xff; 64 * 2112], "is erased"),
        (noise, "no YAFFS2 tags"),
        (vec![0; 64 * 2112], "no YAFFS2 tags"),
        (page(2048, 64, 2050, &unhex(TAGS[0].1))[..2111].to_vec(), "no YAFFS2 tags"),
    ];
    for (image, what) in cases {
        let error = Scratch::new().open(&image).err().expect("refused");
        assert!(error.chain().contains(what), "{}", error.chain());
        assert!(error.cure().is_some_and(|cure| cure.contains("page size") && cure.contains("pages per block")));
        assert_eq!(error.kind(), MediumErrorKind::UnknownLayout);
    }
}

#[test]
fn a_given_layout_is_taken_and_checked() {
    let scratch = Scratch::new();
    fs::write(scratch.path(), vec![7; 3 * 2112]).expect("written");
    let layout = ImageLayout::linux(2048, 2).expect("there is room");
    let mut nand = ImageNand::open(&scratch.path(), Access::Read, Some(&layout)).expect("opened");
    assert_eq!((nand.geometry().blocks, nand.geometry().spare_bytes, nand.inband_tags()), (2, 38, None));
    assert!(nand.is_bad(0).expect("there"), "7 is no 0xFF");
    drop(nand);
    let open_for = |access, layout: ImageLayout| ImageNand::open(&scratch.path(), access, Some(&layout));
    let open = |layout: ImageLayout| open_for(Access::Read, layout).err().expect("refused").chain();
    let other = ImageLayout { page_bytes: 2000, ..layout };
    let refused = open_for(Access::Write, other).err().expect("refused").chain();
    assert!(refused.contains("6336 bytes, not a multiple of the page size 2064"), "{refused}");
    // An image that was cut off can be read, but for what is no whole page.
    let mut cut = open_for(Access::Read, other).expect("opened");
    assert_eq!((cut.cut_bytes(), cut.geometry().blocks), (6336 - 3 * 2064, 2));
    let mut page = [0; 2000];
    cut.read(2, &mut page, &mut []).expect("read");
    assert_eq!(page, [7; 2000]);
    cut.read(3, &mut page, &mut []).expect("read");
    assert_eq!(page, [0xff; 2000]);
    assert!(open(ImageLayout { spare_free_bytes: 63, ..layout }).contains("impossible image layout"));
    assert!(open(ImageLayout { pages_per_block: 0, ..layout }).contains("impossible image layout"));
    let folder = ImageNand::open(scratch.0.path(), Access::Read, Some(&layout)).err().expect("refused").chain();
    assert!(folder.ends_with("is not a file"), "{folder}");
}

#[test]
fn the_free_bytes_are_those_that_the_kernel_has() {
    // Linux' large-page layouts: 64 bytes with error correction from 40 on, 128 with it from 80 on.
    assert_eq!(ImageLayout::linux(2048, 64).map(|layout| layout.spare_free_bytes), Some(38));
    assert_eq!(ImageLayout::linux(4096, 64).map(|layout| layout.spare_free_bytes), Some(78));
    assert_eq!(ImageLayout::linux(32, 64), None);
}

#[test]
fn what_is_written_lies_in_the_file_where_the_layout_says() {
    let scratch = Scratch::new();
    let layout = ImageLayout::linux(2048, 64).expect("there is room");
    let mut nand = ImageNand::create(&scratch.path(), &layout, 3).expect("created");
    assert_eq!(fs::read(scratch.path()).expect("read"), vec![0xff; 3 * 64 * 2112]);
    nand.program(65, &[1; 2048], &[2; 28]).expect("programmed");
    assert!(refusal(nand.program(65, &[1; 2048], &[])).ends_with("page 65 is programmed again without an erase"));
    nand.mark_bad(2).expect("marked");
    nand.sync().expect("synchronised");
    let image = fs::read(scratch.path()).expect("read");
    let page = &image[65 * 2112..66 * 2112];
    assert_eq!((page[0], page[2047], &page[2048..2051], page[2078]), (1, 1, &[0xff, 0xff, 2][..], 0xff));
    assert_eq!(image[128 * 2112 + 2048..128 * 2112 + 2051], [0, 0, 0xff]);
    assert!(nand.is_bad(2).expect("there") && !nand.is_bad(1).expect("there"));
    assert!(refusal(nand.erase(2)).ends_with("erase of bad block 2"));
    nand.erase(1).expect("erased");
    assert_eq!(fs::read(scratch.path()).expect("read")[..128 * 2112], vec![0xff; 128 * 2112]);
    let again = ImageNand::create(&scratch.path(), &layout, 3).err().expect("it exists");
    assert!(again.chain().contains("exists"), "{}", again.chain());
}

/// Whether a sync asks the host: it is given a file that cannot be synchronised.
fn asks_the_host(nand: &mut ImageNand) -> bool {
    let image = std::mem::replace(&mut nand.file, LockedFile::new(File::open("/dev/null").expect("there")));
    let asks = nand.sync().is_err();
    nand.file = image;
    asks
}

#[test]
fn the_host_is_asked_for_a_sync_after_a_change_alone() {
    let scratch = Scratch::new();
    let layout = ImageLayout::linux(2048, 64).expect("there is room");
    let mut nand = ImageNand::create(&scratch.path(), &layout, 3).expect("created");
    let changes: [&dyn Fn(&mut ImageNand); 4] = [
        &|_| (),
        &|nand| nand.program(0, &[1; 2048], &[]).expect("programmed"),
        &|nand| nand.erase(0).expect("erased"),
        &|nand| nand.mark_bad(1).expect("marked"),
    ];
    for change in changes {
        change(&mut nand);
        // One that failed is made up for.
        assert!(asks_the_host(&mut nand) && asks_the_host(&mut nand));
        nand.sync().expect("synchronised");
        assert!(!asks_the_host(&mut nand));
    }
    drop(nand);
    for access in [Access::Read, Access::Write] {
        let mut nand = ImageNand::open(&scratch.path(), access, Some(&layout)).expect("opened");
        assert_eq!(asks_the_host(&mut nand), access == Access::Write);
    }
}

#[test]
fn a_short_file_grows_by_whole_erased_pages() {
    let scratch = Scratch::new();
    let layout = ImageLayout {
        page_bytes: 512,
        spare_total_bytes: 32,
        spare_offset: 0,
        spare_free_bytes: 32,
        pages_per_block: 16,
    };
    let stride = layout.stride() as usize;
    fs::write(scratch.path(), vec![3; stride]).expect("written");
    let mut nand = ImageNand::open(&scratch.path(), Access::Write, Some(&layout)).expect("opened");
    nand.program(4, &[4; 512], &[]).expect("programmed");
    let image = fs::read(scratch.path()).expect("read");
    assert_eq!(image.len(), 5 * stride);
    assert_eq!((image[stride - 1], &image[stride..4 * stride]), (3, &vec![0xff; 3 * stride][..]));
    nand.erase(0).expect("erased");
    assert_eq!(fs::read(scratch.path()).expect("read"), vec![0xff; 5 * stride]);
    let refused = nand.mark_bad(0).expect_err("no place");
    assert!(refused.chain().contains("no space for bad-block marks") && refused.cure().is_some());
}

#[test]
fn nobody_writes_an_image_that_is_in_use() {
    let scratch = Scratch::new();
    let layout = ImageLayout::linux(2048, 16).expect("there is room");
    let writer = ImageNand::create(&scratch.path(), &layout, 1).expect("created");
    let error = ImageNand::open(&scratch.path(), Access::Read, Some(&layout)).err().expect("locked");
    assert!(error.kind() == MediumErrorKind::InUse && error.cure().is_some());
    drop(writer);
    let mut reader = ImageNand::open(&scratch.path(), Access::Read, Some(&layout)).expect("free");
    assert!(ImageNand::open(&scratch.path(), Access::Read, Some(&layout)).is_ok(), "readers are many");
    assert!(refusal(reader.program(0, &[0; 2048], &[])).ends_with("open read-only"));
    assert!(refusal(reader.erase(0)).ends_with("open read-only"));
    assert!(reader.mark_bad(0).is_err());
}

#[test]
fn a_simulated_chips_image_is_found_and_is_the_same_chip() {
    let geometry = Geometry { page_bytes: 2048, spare_bytes: 38, pages_per_block: 32, blocks: 8 };
    let mut chip =
        SimulatedNand::new(geometry, SimulatedOptions { factory_bad: vec![5], ..SimulatedOptions::default() });
    for block in [0, 1, 6] {
        for page in 0..32 {
            let tags = packed(0x1001 + block, 300, page + 1, 2048);
            chip.program(block * 32 + page, &[block as u8; 2048], &tags).expect("programmed");
        }
    }
    let mut nand = Scratch::new().open(&chip.image()).expect("found");
    assert_eq!((nand.geometry(), nand.layout()), (geometry, chip.layout()));
    for page in 0..geometry.pages() {
        let (mut data, mut spare) = ([vec![0; 2048], vec![0; 2048]], [vec![0; 38], vec![0; 38]]);
        chip.read(page, &mut data[0], &mut spare[0]).expect("read");
        nand.read(page, &mut data[1], &mut spare[1]).expect("read");
        assert_eq!((&data[0], &spare[0]), (&data[1], &spare[1]), "page {page}");
    }
    for block in 0..8 {
        assert_eq!(nand.is_bad(block).expect("there"), block == 5);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn damage_anywhere_in_an_image_leads_to_an_answer_and_little_of_it_to_the_right_one(
        hits in proptest::collection::vec((0usize..40 * 2112, any::<u8>()), 0..400),
        cut in 0usize..40 * 2112,
    ) {
        let pages = (0..40).flat_map(|i| page(2048, 64, 2050, &packed(0x1001, 257, 1 + i, 2048)));
        let mut image: Vec<u8> = pages.collect();
        for &(at, byte) in &hits {
            image[at] = byte;
        }
        // Fewer hits than half of the pages cannot reach the tags of half of them.
        if hits.len() < 20 {
            let layout = Scratch::new().open(&image).expect("found").layout();
            prop_assert_eq!((layout.page_bytes, layout.spare_total_bytes, layout.spare_offset), (2048, 64, 2));
        }
        if let Ok(mut nand) = Scratch::new().open(&image[..cut]) {
            let geometry = nand.geometry();
            let mut data = vec![0; geometry.page_bytes as usize];
            prop_assert!(nand.read(geometry.pages() - 1, &mut data, &mut []).is_ok());
        }
    }

    #[test]
    fn an_image_and_a_simulated_chip_cannot_be_told_apart(
        steps in proptest::collection::vec((0u32..4, 0u32..12, any::<u8>()), 0..60),
    ) {
        let geometry = Geometry { page_bytes: 512, spare_bytes: 30, pages_per_block: 3, blocks: 4 };
        let mut chip = SimulatedNand::new(geometry, SimulatedOptions::default());
        let scratch = Scratch::new();
        let mut nand = ImageNand::create(&scratch.path(), &chip.layout(), 4).expect("created");
        for (what, page, byte) in steps {
            match what {
                // A page of ones is a program on a chip and nothing in a file; and a file knows no order.
                0 | 1 => {
                    let in_order = chip.program(page, &[byte; 512], &[0; 30]);
                    if in_order.is_ok() {
                        prop_assert!(nand.program(page, &[byte; 512], &[0; 30]).is_ok());
                    }
                }
                2 => prop_assert_eq!(chip.erase(page / 3).is_ok(), nand.erase(page / 3).is_ok()),
                _ if byte < 40 => prop_assert_eq!(chip.mark_bad(page / 3).is_ok(), nand.mark_bad(page / 3).is_ok()),
                _ => {}
            }
        }
        prop_assert_eq!(fs::read(scratch.path()).expect("read"), chip.image());
    }
}

#[test]
fn built_images_are_told_from_volumes_in_use() {
    let scratch = Scratch::new();
    let written = |sequence| page(2048, 64, 2048, &packed(sequence, 257, 1, 2048));
    let erased = vec![0xff; 2112];
    let image = |pages: &[&[u8]]| scratch.open(&pages.concat()).expect("an image").is_built();
    let (built, used, checkpoint) = (written(0x1000), written(0x1001), written(0x21));
    let mut pages: Vec<&[u8]> = vec![&built; 130];
    assert!(image(&pages));
    // Filled up to whole blocks, with and without a block that is erased.
    pages.extend([&erased[..]; 62 + 64]);
    assert!(image(&pages));
    for other in [&used, &checkpoint] {
        pages[192..].fill(other);
        assert!(!image(&pages));
        assert!(!image(&pages[192..]));
    }
}
