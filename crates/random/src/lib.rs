//! Seeded randomness that gives the same numbers on every machine, for ever.
//!
//! xoshiro256++ seeded by SplitMix64, as published by Blackman and Vigna
//! (<https://prng.di.unimi.it/>). A library's generator may change its stream between versions;
//! a recorded seed must not change its meaning.
//!
#![doc = include_str!("../README.md")]

mod twister;

pub use twister::Twister;

/// A stream of pseudo-random numbers.
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 4],
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

/// The finaliser of SplitMix64: every bit of `z` changes half of the bits of the result. Source of the constants:
/// Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014).
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut s = seed;
        Random { state: std::array::from_fn(|_| split_mix(&mut s)) }
    }

    /// The stream of `seed` for one purpose. Streams of different labels are unrelated, so that
    /// drawing more numbers for one purpose does not move another.
    pub fn labelled(seed: u64, label: &str) -> Self {
        // FNV-1a: any fixed mixing of the label will do, SplitMix64 does the rest.
        let hash =
            label.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        Self::new(seed ^ hash)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `0..bound`, unbiased (Lemire's multiplication with rejection).
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a random number below 0 does not exist");
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number in `[0, 1)`, uniform over the multiples of 2^-53: the top 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_generator() {
        // SplitMix64 of seed 1234567, from the Rosetta Code task that its author's C code solves.
        let mut s = 1_234_567;
        let got: Vec<u64> = (0..5).map(|_| split_mix(&mut s)).collect();
        assert_eq!(
            got,
            [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
        );
        // xoshiro256++ from state 1, 2, 3, 4: the vector of the reference C code.
        let mut r = Random { state: [1, 2, 3, 4] };
        let got: Vec<u64> = (0..4).map(|_| r.next_u64()).collect();
        assert_eq!(got, [41943041, 58720359, 3588806011781223, 3591011842654386]);
    }

    #[test]
    fn below_stays_below_and_reaches_everything() {
        let mut r = Random::labelled(7, "test");
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[r.below(10) as usize] = true;
        }
        assert!(seen.iter().all(|s| *s));
    }

    #[test]
    fn unit_numbers_are_the_top_53_bits_and_stay_below_1() {
        // 41943041 >> 11 = 20480 from the vector above, as a fraction of 2^53.
        assert_eq!(Random { state: [1, 2, 3, 4] }.unit(), 20480.0 / 9_007_199_254_740_992.0);
        // A state whose first output is all ones: 0 + u64::MAX, rotated, plus 0.
        assert_eq!(Random { state: [0, 0, 0, u64::MAX] }.unit(), 1.0 - 1.0 / 9_007_199_254_740_992.0);
    }

    #[test]
    fn labels_part_the_streams() {
        assert_ne!(Random::labelled(1, "a").next_u64(), Random::labelled(1, "b").next_u64());
    }
}
