//! The order of the bytes in a volume's words: found by looking, and headers turned round.

use crate::log::tags::{Content, ECC_BYTES, Found, INBAND_BYTES, PLAIN_BYTES, Tags};
use crate::log::{FIRST_SEQUENCE, LAST_SEQUENCE};
use crate::options::Options;
use crate::tree::header::{HEADER_BYTES, Header};
use crate::tree::objects::LARGEST_OBJECT;
use pocketstone_media::nand::Nand;
use pocketstone_vfs::Result;

/// The order of the bytes in a volume's words. Names, link targets and contents have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ByteOrder {
    /// Little-endian.
    #[default]
    Little,
    /// Big-endian. Such volumes are read by scanning: their checkpoints and block summaries are ignored.
    Big,
    /// Big-endian headers with little-endian tags: images that a builder converted for a machine of the other order.
    BigHeaders,
}

impl ByteOrder {
    /// Of the volume on a chip, by its first header; little-endian if it has none. Of `options`, those count that say
    /// how tags are stored.
    ///
    /// # Errors
    /// `Medium` if the chip cannot be read.
    pub fn of(nand: &mut dyn Nand, options: &Options) -> Result<ByteOrder> {
        let geometry = nand.geometry();
        let mut page = vec![0xFF; geometry.page_bytes as usize];
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

    /// Whether tags are big-endian.
    pub(crate) fn has_big_tags(self) -> bool {
        self == ByteOrder::Big
    }

    /// Turns the words of a header's page round, if they are big-endian: those of the header, and the lengths of the
    /// extended attributes behind it.
    pub(crate) fn turn_header(self, page: &mut [u8]) {
        if self == ByteOrder::Little {
            return;
        }
        // Between them are a checksum that nobody reads, the name and a link's target.
        for words in [0..8, 268..300, 460..HEADER_BYTES] {
            page[words].chunks_exact_mut(4).for_each(<[u8]>::reverse);
        }
        let mut area = &mut page[HEADER_BYTES..];
        while area.len() > 4 {
            area[..4].reverse();
            let bytes = i32::from_le_bytes([area[0], area[1], area[2], area[3]]);
            if bytes <= 4 || bytes as usize > area.len() {
                break;
            }
            area = &mut area[bytes as usize..];
        }
    }
}

/// Whether tags can be those of a header in this order.
fn is_header(stored: &[u8], big: bool) -> bool {
    let Found::Tags { tags, .. } = Tags::decode(stored, big) else { return false };
    (FIRST_SEQUENCE..=LAST_SEQUENCE).contains(&tags.sequence)
        && (1..LARGEST_OBJECT).contains(&tags.object)
        && !matches!(tags.content, Content::Data { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::xattrs;

    #[test]
    fn lengths_of_attributes_are_turned_one_after_the_other() {
        let mut page = vec![0xFF; 1024];
        // By hand: 4 bytes of length, the name, NUL, the value.
        page[512..524].copy_from_slice(b"\0\0\0\x0cuser.a\0b");
        page[524..538].copy_from_slice(b"\0\0\0\x0euser.cc\0dd");
        ByteOrder::Big.turn_header(&mut page);
        assert_eq!(xattrs::records(&page[512..]), [(&b"user.a"[..], &b"b"[..]), (b"user.cc", b"dd")]);
    }

    #[test]
    fn words_are_turned_and_names_are_not() {
        let mut page: Vec<u8> = (0..512).map(|at| at as u8).collect();
        ByteOrder::BigHeaders.turn_header(&mut page);
        assert_eq!(page[..12], [3, 2, 1, 0, 7, 6, 5, 4, 8, 9, 10, 11]);
        assert_eq!(page[264..272], [8, 9, 10, 11, 15, 14, 13, 12]);
        assert_eq!(page[296..304], [43, 42, 41, 40, 44, 45, 46, 47]);
        assert_eq!(page[456..464], [200, 201, 202, 203, 207, 206, 205, 204]);
        assert_eq!(page[508..], [255, 254, 253, 252]);
    }
}
