//! What big-endian machines have written in pages, turned round when it is read.

use crate::options::ByteOrder;

/// Bytes of an object's header.
pub const HEADER_BYTES: usize = 512;

/// Turns the words of a header's page round, if they are big-endian: those of the header, and the lengths of the
/// extended attributes behind it.
pub fn turn_header(order: ByteOrder, page: &mut [u8]) {
    if order == ByteOrder::Little {
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

/// Turns a page of a block summary round, if it is big-endian. It has nothing but words.
pub fn turn_summary(order: ByteOrder, page: &mut [u8]) {
    if order == ByteOrder::Big {
        page.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_turned_and_names_are_not() {
        let mut page: Vec<u8> = (0..512).map(|at| at as u8).collect();
        turn_header(ByteOrder::BigHeaders, &mut page);
        assert_eq!(page[..12], [3, 2, 1, 0, 7, 6, 5, 4, 8, 9, 10, 11]);
        assert_eq!(page[264..272], [8, 9, 10, 11, 15, 14, 13, 12]);
        assert_eq!(page[296..304], [43, 42, 41, 40, 44, 45, 46, 47]);
        assert_eq!(page[456..464], [200, 201, 202, 203, 207, 206, 205, 204]);
        assert_eq!(page[508..], [255, 254, 253, 252]);
    }
}
