//! PostMark's generator of random numbers, so that its choices are those of the program.

/// Words of its state.
const WORDS: usize = 624;

/// Distance between the words that make a new one.
const MIDDLE: usize = 397;

/// MT19937 of Matsumoto and Nishimura ("Mersenne Twister", ACM TOMACS 8, 1998). Its seeding is the one that they
/// published on 1999-10-28: each word takes the upper halves of two steps of x -> 69069 x + 1.
#[derive(Debug, Clone)]
pub(crate) struct Twister {
    state: [u32; WORDS],
    used: usize,
}

impl Twister {
    /// The stream of a seed.
    pub(crate) fn new(seed: u32) -> Twister {
        let mut x = seed;
        let mut upper_half = || {
            let half = x >> 16;
            x = x.wrapping_mul(69_069).wrapping_add(1);
            half
        };
        Twister { state: std::array::from_fn(|_| upper_half() << 16 | upper_half()), used: WORDS }
    }

    /// The next 32 bits.
    pub(crate) fn next_u32(&mut self) -> u32 {
        if self.used == WORDS {
            self.renew();
        }
        let mut y = self.state[self.used];
        self.used += 1;
        y ^= y >> 11;
        y ^= y << 7 & 0x9d2c_5680;
        y ^= y << 15 & 0xefc6_0000;
        y ^ y >> 18
    }

    fn renew(&mut self) {
        for n in 0..WORDS {
            let y = self.state[n] & 0x8000_0000 | self.state[(n + 1) % WORDS] & 0x7fff_ffff;
            let twist = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[n] = self.state[(n + MIDDLE) % WORDS] ^ y >> 1 ^ twist;
        }
        self.used = 0;
    }

    /// A number below `bound`, as PostMark takes it: the remainder, which favours small ones a little. Below 0 there
    /// is 0, and no number is drawn for it.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { u64::from(self.next_u32()) % bound }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_programs() {
        // The first bytes of whatever PostMark 1.51 writes with seed 42, as strace shows them: 32 + a number below 95.
        let mut twister = Twister::new(42);
        let text: String = (0..28).map(|_| char::from(32 + twister.below(95) as u8)).collect();
        assert_eq!(text, "LeZebJ6S5~qPv$C$py}hmKd H58n");
    }

    #[test]
    fn nothing_is_drawn_below_0() {
        let (mut one, mut other) = (Twister::new(1), Twister::new(1));
        assert_eq!(one.below(0), 0);
        assert_eq!(one.next_u32(), other.next_u32());
    }
}
