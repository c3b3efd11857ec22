//! Text of which only the length matters.

use pocketstone_core::random::Random;

/// `bytes` random characters from `0` to `o` in ASCII, 64 of them and none of them a quote, in `text`.
pub(super) fn printable<'a>(random: &mut Random, bytes: usize, text: &'a mut Vec<u8>) -> &'a str {
    text.clear();
    while text.len() < bytes {
        // Six bits of each byte, moved to 0x30..0x70; no byte carries into the next one.
        let word = (random.next_u64() & 0x3f3f_3f3f_3f3f_3f3f) + 0x3030_3030_3030_3030;
        text.extend_from_slice(&word.to_le_bytes());
    }
    text.truncate(bytes);
    std::str::from_utf8(text).unwrap_or_default()
}
