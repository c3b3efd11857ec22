//! Little-endian numbers at a place in bytes.

/// Four bytes from `at` on; panics beyond the end.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
