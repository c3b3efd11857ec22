//! What the files hold: bytes that do or do not compress, from a seed.

use pocketstone_core::random::Random;
use serde::{Deserialize, Serialize};

pocketstone_core::words! {
    /// What a file holds.
    Data {
        /// Random bytes: no compressor gains anything.
        Random = "random",
        /// Text-like bytes that compress to about half.
        Compressible = "compressible",
    }
}

/// A file that is there at the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewFile {
    /// Its name; a folder's name stands before a slash.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A stream of file content.
pub struct Content {
    data: Data,
    random: Random,
}

impl Content {
    /// The content of one file.
    pub fn new(data: Data, seed: u64) -> Self {
        Content { data, random: Random::labelled(seed, "file content") }
    }

    /// The next `bytes.len()` bytes of the file.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        match self.data {
            Data::Random => self.random.fill(bytes),
            // One of 16 letters in each byte holds 4 bits: an ideal coder halves it.
            Data::Compressible => {
                for pair in bytes.chunks_mut(16) {
                    let word = self.random.next_u64();
                    for (n, byte) in pair.iter_mut().enumerate() {
                        *byte = b"etaoinshrdlcum w"[(word >> (4 * n) & 15) as usize];
                    }
                }
            }
        }
    }
}

/// Size of a filler written before the target file, so that every seed places the file elsewhere on
/// the chip and at another offset within its pages: 1 to 65,536 bytes.
pub fn filler_bytes(seed: u64) -> u64 {
    1 + Random::labelled(seed, "placement").below(65_536)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_seeded_and_its_letters_are_evenly_used() {
        let (mut a, mut b) = (vec![0; 160_000], vec![0; 160_000]);
        Content::new(Data::Compressible, 3).fill(&mut a);
        Content::new(Data::Compressible, 3).fill(&mut b);
        assert_eq!(a, b);
        let mut counts = [0u32; 256];
        a.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        let used: Vec<u32> = counts.into_iter().filter(|c| *c > 0).collect();
        // 16 letters, 10,000 each on average, standard deviation 97.
        assert_eq!(used.len(), 16);
        assert!(used.iter().all(|c| (9_500..10_500).contains(c)), "{used:?}");
    }

    #[test]
    fn random_content_uses_every_byte_value() {
        let mut bytes = vec![0; 65_536];
        Content::new(Data::Random, 1).fill(&mut bytes);
        assert_eq!(bytes.iter().collect::<std::collections::HashSet<_>>().len(), 256);
    }
}
