//! The generator of random numbers of programs whose choices a workload repeats.

/// Words of its state.
const WORDS: usize = 624;

/// Distance between the words that make a new one.
const MIDDLE: usize = 397;

/// MT19937 of Matsumoto and Nishimura ("Mersenne Twister", ACM TOMACS 8, 1998).
#[derive(Debug, Clone)]
pub struct Twister {
    state: [u32; WORDS],
    used: usize,
}

impl Twister {
    /// The stream of a seed as of 1999-10-28, PostMark's: each word takes the upper halves of two steps of
    /// x -> 69069 x + 1.
    pub fn new(seed: u32) -> Twister {
        let mut x = seed;
        let mut upper_half = || {
            let half = x >> 16;
            x = x.wrapping_mul(69_069).wrapping_add(1);
            half
        };
        Twister { state: std::array::from_fn(|_| upper_half() << 16 | upper_half()), used: WORDS }
    }

    /// The stream of a key as of 2002-01-26 (`init_by_array`), which is Python's of a seed. The key is not empty.
    pub fn of_key(key: &[u32]) -> Twister {
        let mut state = [0; WORDS];
        state[0] = 19_650_218;
        for n in 1..WORDS {
            state[n] = mixed(state[n - 1]).wrapping_mul(1_812_433_253).wrapping_add(n as u32);
        }
        let mut n = 1;
        for step in 0..WORDS.max(key.len()) {
            let at = step % key.len();
            let product = mixed(state[n - 1]).wrapping_mul(1_664_525);
            state[n] = (state[n] ^ product).wrapping_add(key[at]).wrapping_add(at as u32);
            n = following(n, &mut state);
        }
        for _ in 1..WORDS {
            let product = mixed(state[n - 1]).wrapping_mul(1_566_083_941);
            state[n] = (state[n] ^ product).wrapping_sub(n as u32);
            n = following(n, &mut state);
        }
        state[0] = 0x8000_0000;
        Twister { state, used: WORDS }
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
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
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { u64::from(self.next_u32()) % bound }
    }

    /// Puts things into random order: Fisher and Yates, as Durstenfeld wrote it down. Each number has as many upper
    /// bits as the largest, and is drawn again where it is too large: so does `random.shuffle` of Python.
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            let choices = last as u32 + 1;
            let unused = choices.leading_zeros();
            let chosen = loop {
                let number = self.next_u32() >> unused;
                if number < choices {
                    break number;
                }
            };
            things.swap(last, chosen as usize);
        }
    }
}

fn mixed(word: u32) -> u32 {
    word ^ word >> 30
}

/// The place after `n`; the last word also stands in for the one before the first.
fn following(n: usize, state: &mut [u32; WORDS]) -> usize {
    if n + 1 < WORDS {
        return n + 1;
    }
    state[0] = state[WORDS - 1];
    1
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
    fn a_key_gives_the_published_stream() {
        // The first numbers of mt19937ar.out, which the authors publish beside their program.
        let mut twister = Twister::of_key(&[0x123, 0x234, 0x345, 0x456]);
        let first: [u32; 5] = std::array::from_fn(|_| twister.next_u32());
        assert_eq!(first, [1_067_595_299, 955_945_823, 477_289_528, 4_107_218_783, 4_228_976_476]);
    }

    #[test]
    fn things_are_shuffled_as_python_does() {
        // random.Random(0).shuffle(list(range(10))) in Python 3.11.
        let mut ten: Vec<u32> = (0..10).collect();
        Twister::of_key(&[0]).shuffle(&mut ten);
        assert_eq!(ten, [7, 8, 1, 5, 3, 4, 2, 0, 9, 6]);
        Twister::of_key(&[0]).shuffle::<u32>(&mut []);
    }

    #[test]
    fn nothing_is_drawn_below_0() {
        let (mut one, mut other) = (Twister::new(1), Twister::new(1));
        assert_eq!(one.below(0), 0);
        assert_eq!(one.next_u32(), other.next_u32());
    }
}
