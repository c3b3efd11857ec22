//! Chips of others, written page by page as a fuzzer says: YAFFS1, and YAFFS2 of big-endian machines. Tags have the
//! error correction that their form wants, so that what they say is read.

use super::subject::walk;
use super::writer::header;
use pocketstone_media::nand::{Access, Geometry, ImageLayout, ImageNand, Nand, tags::TagsParity};
use pocketstone_yaffs2::{ByteOrder, DumpOptions, OpenOptions, Volume, byte_order, check, dump};
use std::path::Path;

const PAGES_PER_BLOCK: u32 = 32;
const PAGES: usize = 128;

/// How words are stored.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Spread,
    Packed,
    Spare,
    Inband,
}

/// The first byte chooses the form and the order of bytes; then 8 bytes are a page: how it is written, an object, a
/// chunk or the kind of a header, a directory, a letter, a serial or sequence number, a size (2).
pub fn foreign(data: &[u8]) {
    let Some((&which, pages)) = data.split_first() else { return };
    let form = [Form::Spread, Form::Packed, Form::Spare, Form::Inband][usize::from(which & 3)];
    let order = [ByteOrder::Little, ByteOrder::Big, ByteOrder::BigHeaders][usize::from(which >> 2) % 3];
    let (page_bytes, spare) = match form {
        Form::Spread | Form::Packed => (512, 16),
        Form::Spare => (1024, 32),
        Form::Inband => (1040, 0),
    };
    let mut image = vec![0xFF; PAGES * (page_bytes + spare)];
    for (number, page) in pages.chunks_exact(8).take(PAGES).enumerate() {
        let at = number * (page_bytes + spare);
        write(&mut image[at..at + page_bytes + spare], page_bytes, form, order, page);
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &image).expect("written");
    let offset = if form == Form::Packed { 8 } else { 0 };
    let layout = ImageLayout {
        page_bytes: page_bytes as u32,
        spare_total_bytes: spare as u32,
        spare_offset: offset,
        spare_free_bytes: spare as u32 - offset,
        pages_per_block: PAGES_PER_BLOCK,
    };
    // Somebody tells the layout, or it is looked for.
    examine(file.path(), Some(&layout), form == Form::Inband, Some(order));
    examine(file.path(), None, false, None);
}

/// Reads all of a chip. It may be refused; nothing may panic or go on for ever.
fn examine(path: &Path, layout: Option<&ImageLayout>, inband_tags: bool, order: Option<ByteOrder>) {
    let open = || ImageNand::open(path, Access::Read, layout);
    let Ok(mut nand) = open() else { return };
    let Geometry { page_bytes, .. } = nand.geometry();
    let inband_tags = inband_tags || nand.inband_tags() == Some(true);
    let tags_ecc = nand.tags_ecc() != Some(false);
    let mut options =
        OpenOptions::default().read_only(true).inband_tags(inband_tags).tags_ecc(tags_ecc).empty_lost_and_found(false);
    let found = byte_order(&mut nand, &options).expect("a file is read");
    options.byte_order = order.unwrap_or(found);
    assert!(page_bytes >= 512);
    if let Ok(volume) = Volume::open(Box::new(nand), &options) {
        volume.missing();
        drop(walk(&volume));
    }
    drop(open().map(|nand| check(Box::new(nand), &options)));
    let what = DumpOptions::default().summary(true);
    drop(open().map(|nand| dump(Box::new(nand), &options, &what, &mut |_| true)));
    let writing = options.read_only(false);
    if writing.byte_order != ByteOrder::Little || page_bytes == 512 {
        let nand = open().expect("it was opened before");
        assert!(Volume::open(Box::new(nand), &writing).is_err(), "it would be written");
    }
}

fn write(page: &mut [u8], page_bytes: usize, form: Form, order: ByteOrder, how: &[u8]) {
    let [how, object, chunk, parent, bytes, serial, low, high] = how.try_into().expect("8 bytes");
    if how == 0 {
        return;
    }
    // Few objects, so that pages meet; and numbers that no object has.
    let object = if how & 0x80 != 0 { u32::from(object) << 10 } else { 256 + u32::from(object % 12) };
    let (is_header, value) = (how & 1 == 0, u32::from(high) << 8 | u32::from(low));
    let data = &mut page[..page_bytes];
    data.fill(object as u8);
    if is_header {
        let parent = if parent < 5 { u32::from(parent) } else { 256 + u32::from(parent % 12) };
        let mut words = header(u32::from(chunk % 7), parent, &[b'a' + bytes % 26, serial], value);
        if order != ByteOrder::Little {
            let places = (0..8).chain(268..300).chain(460..512).collect::<Vec<usize>>();
            places.chunks_exact(4).for_each(|at| words[at[0]..at[0] + 4].reverse());
        }
        data[..512].copy_from_slice(&words);
    }
    let (number, valid) = match (is_header, form) {
        (true, Form::Spread | Form::Packed) => (0, 0x3FF),
        (true, _) => (0, 0xFFFF),
        (false, _) => (u32::from(chunk), value & 0x3FF),
    };
    let big = order == ByteOrder::Big;
    let word = |word: u32| if big { word.to_be_bytes() } else { word.to_le_bytes() };
    match form {
        Form::Spread | Form::Packed => {
            let tags = yaffs1_tags(object & 0x3FFFF, number, valid, u32::from(serial & 3), big);
            let spare = &mut page[page_bytes..];
            let places = if form == Form::Packed { [8, 9, 10, 11, 12, 13, 14, 15] } else { [0, 1, 2, 3, 6, 7, 11, 12] };
            places.into_iter().zip(tags).for_each(|(at, byte)| spare[at] = byte);
            match how & 6 {
                2 => spare[4] = 0,
                4 => spare[usize::from(low % 16)] ^= 1 << (high % 8),
                _ => {}
            }
        }
        Form::Spare | Form::Inband => {
            let sequence = 0x1000 + u32::from(serial & 7);
            let extra = (is_header && how & 2 != 0).then_some(0x8000_0000 | u32::from(parent));
            let object = if extra.is_some() { u32::from(chunk % 7) << 28 | object } else { object };
            let words = [sequence, object, extra.unwrap_or(number), valid].map(word).concat();
            let at = if form == Form::Inband { page_bytes - 16 } else { page_bytes };
            page[at..at + 16].copy_from_slice(&words);
            if form == Form::Spare {
                let parity = TagsParity::of(&words);
                page[at + 16..at + 20].copy_from_slice(&[parity.column, 0, 0, 0]);
                page[at + 20..at + 28].copy_from_slice(&[word(parity.line), word(parity.inverted)].concat());
            }
        }
    }
}

/// Tags of YAFFS1, by their description: the code is the exclusive or of the numbers of all bits that are set.
fn yaffs1_tags(object: u32, chunk: u32, bytes: u32, serial: u32, big: bool) -> [u8; 8] {
    let packed = |code: u32| {
        let words = match big {
            false => [chunk | serial << 20 | bytes << 22, object | code << 18 | 3 << 30].map(u32::to_le_bytes),
            true => [chunk << 12 | serial << 10 | bytes, object << 14 | code << 2 | 3].map(u32::to_be_bytes),
        };
        [words[0], words[1]].concat()
    };
    let set = (0..64).filter(|bit| packed(0)[bit / 8] >> (bit % 8) & 1 == 1);
    let code = set.fold(0, |code, bit| code ^ (bit as u32 + 1));
    packed(code).try_into().expect("8 bytes")
}
