//! The order of the bytes in a volume's words, found by looking.

use crate::log::chip::is_yaffs1;
use crate::log::tags::{Content, ECC_BYTES, Found, INBAND_BYTES, PLAIN_BYTES, Tags};
use crate::log::{FIRST_SEQUENCE, LAST_SEQUENCE};
use crate::options::{ByteOrder, OpenOptions};
use crate::tree::header::{HEADER_BYTES, Header};
use crate::tree::objects::LARGEST_OBJECT;
use pocketstone_media::nand::Nand;
use pocketstone_media::nand::yaffs1::{SPARE_BYTES, Yaffs1Found};
use pocketstone_vfs::Result;

/// The order of the bytes in the words of the volume on a chip, by its first header; little-endian if it has none.
/// Of `options`, those count that say how tags are stored.
///
/// # Errors
/// `Medium` if the chip cannot be read.
pub fn byte_order(nand: &mut dyn Nand, options: &OpenOptions) -> Result<ByteOrder> {
    let geometry = nand.geometry();
    let mut page = vec![0xFF; geometry.page_bytes as usize];
    if is_yaffs1(&geometry, options.inband_tags) {
        return yaffs1_order(nand, &mut page);
    }
    if page.len() < HEADER_BYTES + INBAND_BYTES {
        return Ok(ByteOrder::Little);
    }
    let bytes = if options.tags_ecc && !options.inband_tags { ECC_BYTES } else { PLAIN_BYTES };
    let bytes = if options.inband_tags { bytes } else { bytes.min(geometry.spare_bytes as usize) };
    let mut spare = [0; ECC_BYTES];
    for number in 0..geometry.blocks * geometry.pages_per_block {
        let stored = match options.inband_tags {
            true => {
                nand.read(number, &mut page, &mut [])?;
                &page[page.len() - INBAND_BYTES..]
            }
            false => {
                nand.read(number, &mut [], &mut spare[..bytes])?;
                &spare[..bytes]
            }
        };
        if stored.len() < PLAIN_BYTES {
            break;
        }
        let Some(big) = [false, true].into_iter().find(|big| is_header(stored, *big)) else { continue };
        if big {
            return Ok(ByteOrder::Big);
        }
        if !options.inband_tags {
            nand.read(number, &mut page, &mut [])?;
        }
        return Ok(if Header::is_big_endian(&page) { ByteOrder::BigHeaders } else { ByteOrder::Little });
    }
    Ok(ByteOrder::Little)
}

/// The same for YAFFS1, by the first header whose tags are right in one order alone.
fn yaffs1_order(nand: &mut dyn Nand, page: &mut [u8]) -> Result<ByteOrder> {
    let geometry = nand.geometry();
    let mut spare = [0; SPARE_BYTES as usize];
    let bytes = geometry.spare_bytes.min(SPARE_BYTES) as usize;
    for number in 0..geometry.blocks * geometry.pages_per_block {
        nand.read(number, &mut [], &mut spare[..bytes])?;
        let is_header = |big| match Yaffs1Found::decode(&spare[..bytes], big) {
            Yaffs1Found::Tags(tags) => tags.chunk == 0 && !tags.corrected,
            _ => false,
        };
        match (is_header(false), is_header(true)) {
            (false, true) => return Ok(ByteOrder::Big),
            (true, false) => {
                nand.read(number, page, &mut [])?;
                return Ok(if Header::is_big_endian(page) { ByteOrder::BigHeaders } else { ByteOrder::Little });
            }
            _ => {}
        }
    }
    Ok(ByteOrder::Little)
}

/// Whether tags can be those of a header in this order.
fn is_header(stored: &[u8], big: bool) -> bool {
    let Found::Tags { tags, .. } = Tags::decode(stored, big) else { return false };
    (FIRST_SEQUENCE..=LAST_SEQUENCE).contains(&tags.sequence)
        && (1..LARGEST_OBJECT).contains(&tags.object)
        && !matches!(tags.content, Content::Data { .. })
}
