//! Chips that are somebody else's, and pages that can no longer be read: what is there stays there.

use crate::support::writer::{DIRECTORY, FILE, HARD_LINK, Writer, header};
use pocketstone_media::nand::{Geometry, Nand, SimulatedNand, SimulatedOptions};
use pocketstone_vfs::{Error, Meta, Operations, ROOT, SetAttr, SetXattr};
use pocketstone_yaffs2::{OpenOptions, Volume};

const LOST_AND_FOUND: u32 = 2;
const GEOMETRY: Geometry = Geometry { page_bytes: 2048, spare_bytes: 38, pages_per_block: 16, blocks: 64 };

fn chip() -> SimulatedNand {
    SimulatedNand::new(GEOMETRY, SimulatedOptions::default())
}

fn mount(chip: &SimulatedNand, options: &OpenOptions) -> Result<Volume, Error> {
    Volume::open(Box::new(chip.clone()), options)
}

fn by_scan() -> OpenOptions {
    OpenOptions::default().checkpoint_read(false).checkpoint_write(false)
}

#[track_caller]
fn assert_refused(chip: &SimulatedNand, options: &OpenOptions) {
    let before = chip.image();
    for read_only in [true, false] {
        let said = mount(chip, &options.clone().read_only(read_only)).err().expect("refused").to_string();
        assert!(said.contains("not a YAFFS2 volume"), "{said}");
    }
    assert!(chip.image() == before, "something was changed");
}

#[test]
fn what_has_nothing_in_its_spare_areas_is_no_empty_volume() {
    let mut other = chip();
    for page in 0..8 * GEOMETRY.pages_per_block {
        other.program(page, &[0x5A; 2048], &[]).expect("programmed");
    }
    assert_refused(&other, &OpenOptions::default());
    // A volume whose tags are in its pages.
    let inband = by_scan().inband_tags(true);
    let chip = chip();
    let volume = mount(&chip, &inband).unwrap();
    let file = volume.create_file(ROOT, b"file", &Meta::file(0o600)).unwrap().ino();
    volume.open(file).unwrap().write_at(&[1; 200_000], 0).unwrap();
    volume.close().unwrap();
    assert_refused(&chip, &OpenOptions::default());
    assert_eq!(mount(&chip, &inband).unwrap().lookup(ROOT, b"file").unwrap().size, 200_000);
}

#[test]
fn bits_that_flipped_in_an_erased_chip_are_no_file_system() {
    let chip = chip();
    for block in 0..10 {
        chip.flip_data(block * GEOMETRY.pages_per_block, 12, u64::from(block));
    }
    let volume = mount(&chip, &OpenOptions::default()).unwrap();
    volume.create_file(ROOT, b"file", &Meta::file(0o600)).unwrap();
}

#[test]
fn what_lay_in_a_directory_that_cannot_be_read_is_kept() {
    let mut writer = Writer::new();
    // Headers as old writers have them, who say nothing of them in the tags.
    writer.put(&header(DIRECTORY, 1, b"system", 0), 257, 0, 0xFFFF).put(&header(FILE, 257, b"file", 0), 258, 0, 0xFFFF);
    writer.put(&[7; 2048], 258, 1, 2048).put(&header(FILE, 257, b"file", 2048), 258, 0, 0xFFFF);
    let chip = writer.nand;
    chip.flip_data(0, 500, 1);
    for _ in 0..2 {
        let volume = mount(&chip, &OpenOptions::default()).unwrap();
        let directory = volume.lookup(LOST_AND_FOUND, b"obj257").unwrap().ino;
        let file = volume.lookup(directory, b"file").unwrap();
        let mut data = [0; 2048];
        assert_eq!((volume.open(file.ino).unwrap().read_at(&mut data, 0).unwrap(), data), (2048, [7; 2048]));
        volume.close().unwrap();
    }
}

/// A header whose very tags cannot be read any more, in the middle of a block.
#[test]
fn what_lay_in_a_directory_whose_tags_cannot_be_read_is_kept() {
    let mut writer = Writer::new();
    writer.header(257, DIRECTORY, 1, b"system", 0).header(258, FILE, 257, b"file", 0).data(258, 1, 2048);
    writer.header(258, FILE, 257, b"file", 2048);
    let chip = writer.nand;
    // Two bits of the object's number.
    chip.flip_spare(0, 32);
    chip.flip_spare(0, 35);
    for _ in 0..2 {
        let volume = mount(&chip, &OpenOptions::default()).unwrap();
        let directory = volume.lookup(LOST_AND_FOUND, b"obj257").unwrap().ino;
        assert_eq!(volume.lookup(directory, b"file").unwrap().size, 2048);
        volume.close().unwrap();
    }
}

#[test]
fn a_size_that_no_file_can_have_is_none() {
    let largest = ((1 << 28) - 1) * 2048;
    let mut page = header(FILE, 1, b"file", 4096);
    // The upper half of the size: 2^43 and 4096.
    page[496..500].copy_from_slice(&(1_u32 << 11).to_le_bytes());
    let mut writer = Writer::new();
    writer.data(257, 1, 2048).put(&page, 257, 0, 0xFFFF).put(&page, 258, 0, 0xFFFF);
    let report = pocketstone_yaffs2::check(Box::new(writer.nand.clone()), &OpenOptions::default()).unwrap();
    assert_eq!(report.objects.files, 2);
    let volume = mount(&writer.nand, &by_scan()).unwrap();
    let file = volume.open(257).unwrap();
    assert_eq!(file.attributes().unwrap().size, largest);
    let mut data = [1; 2048];
    assert_eq!(file.read_at(&mut data, 1 << 43).unwrap(), 0);
    assert_eq!((file.read_at(&mut data, 0).unwrap(), data), (2048, [5; 2048]));
}

#[test]
fn a_hard_link_to_a_directory_leads_nowhere() {
    let mut writer = Writer::new();
    writer.header(257, DIRECTORY, 1, b"d", 0).header(258, HARD_LINK, 257, b"again", 257);
    writer.header(259, HARD_LINK, 257, b"and again", 258);
    let volume = mount(&writer.nand, &by_scan().read_only(true)).unwrap();
    for name in [&b"again"[..], b"and again"] {
        assert!(matches!(volume.lookup(257, name), Err(Error::NotFound)));
    }
}

#[test]
fn one_object_that_cannot_be_written_keeps_no_other_from_it() {
    let chip = chip();
    let volume = mount(&chip, &by_scan()).unwrap();
    // The first two pages that are written. Attributes are read from the second one whenever there is a new header.
    let directory = volume.create_directory(ROOT, b"directory", &Meta::directory(0o700)).unwrap().ino;
    volume.set_xattr(directory, b"user.a", b"b", SetXattr::Any).unwrap();
    let other = volume.create_file(ROOT, b"other", &Meta::file(0o600)).unwrap().ino();
    volume.close().unwrap();
    let volume = mount(&chip, &by_scan()).unwrap();
    volume.attributes(directory).unwrap();
    chip.flip_data(1, 500, 1);
    let _ = volume.create_file(directory, b"inside", &Meta::file(0o600));
    volume.open(other).unwrap().write_at(b"must be there", 0).unwrap();
    assert!(matches!(volume.sync_all(), Err(Error::Damaged(_))));
    volume.abandon();
    let volume = mount(&chip, &by_scan().lazy_loading(false)).unwrap();
    let mut data = [0; 13];
    assert_eq!((volume.open(other).unwrap().read_at(&mut data, 0).unwrap(), &data), (13, b"must be there"));
}

#[test]
fn a_hole_behind_two_gigabytes_stays_one() {
    const FAR: u64 = 1 << 31;
    for inband_tags in [false, true] {
        let chip = chip();
        let options = by_scan().inband_tags(inband_tags);
        let chunk = 2048 - 16 * u64::from(inband_tags);
        let volume = mount(&chip, &options).unwrap();
        let file = volume.create_file(ROOT, b"file", &Meta::file(0o600)).unwrap().ino();
        volume.open(file).unwrap().write_at(&[9; 4000], FAR + 10 * chunk).unwrap();
        for size in [FAR + chunk, FAR + 100 * chunk] {
            volume.set_attributes(file, &SetAttr::default().size(Some(size))).unwrap();
        }
        volume.sync_all().unwrap();
        volume.abandon();
        let volume = mount(&chip, &options).unwrap();
        assert_eq!(volume.attributes(file).unwrap().size, FAR + 100 * chunk);
        let mut data = vec![1; 6000];
        assert_eq!(volume.open(file).unwrap().read_at(&mut data, FAR + 10 * chunk).unwrap(), 6000);
        assert!(data.iter().all(|&byte| byte == 0), "inband: {inband_tags}");
    }
}
