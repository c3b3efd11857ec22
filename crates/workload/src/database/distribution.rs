//! Random numbers as YCSB and PocketData draw them, the same bits on every machine.
//!
//! Only operations that IEEE 754 rounds correctly are used, and `libm` for the rest: the functions of
//! a C library differ from one to the next.

use pocketstone_core::random::Random;

/// YCSB's skew. The exponents 1 - THETA and 1 / (1 - THETA) are 0.01 and 100.
const THETA: f64 = 0.99;
const ALPHA: u32 = 100;

/// Items that [`ScrambledZipfian`] draws from before it scatters them, and their zeta, as YCSB has them.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Zipfian ranks: rank k of n has the probability (k + 1)^-0.99 / zeta(n), nearly.
///
/// The algorithm of Gray, Sundaresan, Englert, Baclawski and Weinberger, "Quickly generating
/// billion-record synthetic databases" (SIGMOD 1994): ranks 0 and 1 are exact; of the others, rank k
/// gets the share of the interval from k to k + 1 under a power law that is fitted to them together.
#[derive(Debug, Clone)]
pub(super) struct Zipfian {
    items: u64,
    zeta: f64,
    eta: f64,
}

fn power(base: f64, exponent: u32) -> f64 {
    let (mut result, mut square, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result *= square;
        }
        square *= square;
        left >>= 1;
    }
    result
}

/// What rank `k` adds to zeta.
fn term(k: u64) -> f64 {
    1.0 / libm::pow((k + 1) as f64, THETA)
}

impl Zipfian {
    /// Ranks `0..items`; `items` is at least 1. Takes time in proportion to it.
    pub(super) fn new(items: u64) -> Self {
        let mut zipfian = Self::with_zeta(1, 1.0);
        zipfian.grow(items);
        zipfian
    }

    fn with_zeta(items: u64, zeta: f64) -> Self {
        let first_two = term(0) + term(1);
        // With one or two items nothing is left for the power law; `rank` never asks for it.
        let eta = (1.0 - libm::pow(2.0 / items as f64, 1.0 - THETA)) / (1.0 - first_two / zeta);
        Zipfian { items, zeta, eta }
    }

    /// Makes it `items` ranks, at least as many as before; zeta goes on from where it was.
    pub(super) fn grow(&mut self, items: u64) {
        if items > self.items {
            let zeta = (self.items..items).fold(self.zeta, |sum, k| sum + term(k));
            *self = Self::with_zeta(items, zeta);
        }
    }

    /// The rank at `unit`, a number in `[0, 1)`.
    pub(super) fn rank(&self, unit: f64) -> u64 {
        let share = unit * self.zeta;
        if share < 1.0 || self.items == 1 {
            return 0;
        }
        if share < 1.0 + term(1) || self.items == 2 {
            return 1;
        }
        let rank = self.items as f64 * power(self.eta * unit - self.eta + 1.0, ALPHA);
        // Rounding may bring the last one to `items` itself.
        (rank as u64).min(self.items - 1)
    }
}

/// YCSB's hash of a record's number: 64-bit FNV-1a over its bytes, the lowest first, and of that the
/// amount as a signed number.
pub(super) fn hash(number: u64) -> u64 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    (number.to_le_bytes().into_iter().fold(0xcbf2_9ce4_8422_2325, fold) as i64).unsigned_abs()
}

/// Zipfian popularity scattered over the items by YCSB's hash: the popular ones are no neighbours.
#[derive(Debug, Clone)]
pub(super) struct ScrambledZipfian {
    ranks: Zipfian,
    items: u64,
}

impl ScrambledZipfian {
    /// Items `0..items`; `items` is at least 1.
    pub(super) fn new(items: u64) -> Self {
        ScrambledZipfian { ranks: Zipfian::with_zeta(SCRAMBLED_ITEMS, SCRAMBLED_ZETA), items }
    }

    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        hash(self.ranks.rank(random.unit())) % self.items
    }
}

/// Zipfian by age: the newest item is the most popular one. As in YCSB, item 0 is never drawn where
/// there is another one.
#[derive(Debug, Clone)]
pub(super) struct SkewedLatest {
    ages: Zipfian,
}

impl SkewedLatest {
    /// Items `0..=last`.
    pub(super) fn new(last: u64) -> Self {
        SkewedLatest { ages: Zipfian::new(last.max(1)) }
    }

    /// An item of `0..=last`; `last` never gets smaller.
    pub(super) fn draw(&mut self, last: u64, random: &mut Random) -> u64 {
        self.ages.grow(last);
        last.saturating_sub(self.ages.rank(random.unit()))
    }
}

/// Lognormal durations, or sizes.
#[derive(Debug, Clone)]
pub(crate) struct Lognormal {
    mu: f64,
    sigma: f64,
}

impl Lognormal {
    /// With that mean and standard deviation of the logarithm: mu = ln(mean) - sigma^2 / 2.
    pub(crate) fn new(mean: u64, sigma: f64) -> Self {
        Lognormal { mu: libm::log(mean as f64) - sigma * sigma / 2.0, sigma }
    }

    /// One of them in the mean's unit, whole; what does not fit 64 bits is their largest number.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        libm::round(libm::exp(self.mu + self.sigma * normal(random))) as u64
    }
}

/// A normal number of mean 0 and standard deviation 1, by Box and Muller.
fn normal(random: &mut Random) -> f64 {
    // The logarithm is of a number in (0, 1].
    let radius = (-2.0 * libm::log(1.0 - random.unit())).sqrt();
    radius * libm::cos(std::f64::consts::TAU * random.unit())
}

/// A number of the gamma distribution of that mean and shape, which is at least 1: Marsaglia and Tsang, "A simple
/// method for generating gamma variables" (ACM TOMS 26, 2000).
pub(crate) fn gamma(mean: f64, shape: f64, random: &mut Random) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(random);
        let v = 1.0 + c * x;
        let v = v * v * v;
        if v > 0.0 && libm::log(1.0 - random.unit()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return d * v * mean / shape;
        }
    }
}

/// The delay that the published "log" files have before operation `number` + 1, counted from 1:
/// round(ln(number)) ms.
pub(super) fn published_log_ns(number: u64) -> u64 {
    libm::round(libm::log(number as f64)) as u64 * 1_000_000
}

#[cfg(test)]
mod tests;
