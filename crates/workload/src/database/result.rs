//! The result digest of a database, the same for every correct engine.
//!
//! A stream of 64-bit words is folded one by one, `state = (rotl(state, 5) ^ word) * K`, from 0. A step of
//! an operation that returns rows gives, for each row, the number of its values and then each value; a
//! step that changes rows gives their number. Every step ends with the word 0xff.
//!
//! | value | words |
//! | --- | --- |
//! | null | 0 |
//! | a number without fraction, below 2^53 | 1, the integer |
//! | any other number | 2, the bits of the double |
//! | text or bytes | 3, the hash of its bytes |
//!
//! The hash of bytes is a state, from the number of bytes, and takes little-endian words of 8 bytes. While there are
//! 16 bytes it is multiplied, `(state ^ first) * (second ^ K)`, to 128 bits, the halves of which are combined by xor;
//! what is left is folded, the last word padded with zeros. Two words at a time, because each multiplication waits for
//! the one before. Numbers are told apart by their value, not by the engine's type.

use super::trace::Value;

/// Odd constant (the golden ratio's fraction in 64 bits).
const K: u64 = 0x9e37_79b9_7f4a_7c15;

/// A digest being made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultDigest {
    state: u64,
    rows: u64,
}

#[inline]
fn fold(state: u64, word: u64) -> u64 {
    (state.rotate_left(5) ^ word).wrapping_mul(K)
}

/// Two words of bytes (the step of wyhash, <https://github.com/wangyi-fudan/wyhash>).
#[inline]
fn multiply(state: u64, first: u64, second: u64) -> u64 {
    let product = u128::from(state ^ first) * u128::from(second ^ K);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn hash(bytes: &[u8]) -> u64 {
    let mut state = bytes.len() as u64;
    // Two steps at a time: counting them costs as much as one of them.
    let mut fours = bytes.chunks_exact(32);
    for four in &mut fours {
        state = multiply(state, word_at(four), word_at(&four[8..]));
        state = multiply(state, word_at(&four[16..]), word_at(&four[24..]));
    }
    let mut pairs = fours.remainder().chunks_exact(16);
    for pair in &mut pairs {
        state = multiply(state, word_at(pair), word_at(&pair[8..]));
    }
    let mut words = pairs.remainder().chunks_exact(8);
    for word in &mut words {
        state = fold(state, word_at(word));
    }
    match words.remainder() {
        [] => state,
        rest => fold(state, last_word(bytes, rest)),
    }
}

/// The first 8 bytes.
#[inline]
fn word_at(b: &[u8]) -> u64 {
    u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])
}

/// The last bytes `rest`, at most 7, as a word padded with zeros. Where there is a whole word, its last bytes are
/// shifted down: to copy a number of bytes that is known only now costs more than to hash them.
#[inline]
fn last_word(bytes: &[u8], rest: &[u8]) -> u64 {
    match bytes.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last) >> (8 * (8 - rest.len())),
        None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

impl ResultDigest {
    /// A row of `columns` values begins.
    #[inline]
    pub fn row(&mut self, columns: usize) {
        self.rows += 1;
        self.state = fold(self.state, columns as u64);
    }

    /// The next value of the row.
    #[inline]
    pub fn value(&mut self, value: Value<'_>) {
        match value {
            Value::Null => self.state = fold(self.state, 0),
            Value::Integer(n) => self.integer(n),
            Value::Real(x) => self.real(x),
            Value::Text(text) => self.bytes(text.as_bytes()),
            Value::Blob(bytes) => self.bytes(bytes),
        }
    }

    /// An integer value.
    #[inline]
    pub fn integer(&mut self, n: i64) {
        match n.unsigned_abs() < 1 << 53 {
            true => self.state = fold(fold(self.state, 1), n as u64),
            false => self.state = fold(fold(self.state, 2), (n as f64).to_bits()),
        }
    }

    /// A value with a fraction, or without.
    #[inline]
    pub fn real(&mut self, x: f64) {
        match x.fract() == 0.0 && x.abs() < (1u64 << 53) as f64 {
            true => self.state = fold(fold(self.state, 1), x as i64 as u64),
            false => self.state = fold(fold(self.state, 2), x.to_bits()),
        }
    }

    /// Text or bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.state = fold(fold(self.state, 3), hash(bytes));
    }

    /// A step that changed `rows` rows instead of returning some.
    #[inline]
    pub fn changed(&mut self, rows: u64) {
        self.state = fold(self.state, rows);
    }

    /// A step ends.
    #[inline]
    pub fn end(&mut self) {
        self.state = fold(self.state, 0xff);
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// 16 hexadecimal digits.
    pub fn text(&self) -> String {
        format!("{:016x}", self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[Value<'_>]) -> String {
        let mut digest = ResultDigest::default();
        digest.row(values.len());
        values.iter().for_each(|v| digest.value(*v));
        digest.end();
        digest.text()
    }

    #[test]
    fn numbers_are_told_apart_by_value_and_texts_by_every_byte() {
        assert_eq!(of(&[Value::Integer(31)]), of(&[Value::Real(31.0)]));
        assert_ne!(of(&[Value::Integer(31)]), of(&[Value::Real(31.5)]));
        assert_ne!(of(&[Value::Integer(31)]), of(&[Value::Text("31")]));
        assert_ne!(of(&[Value::Text("a"), Value::Text("b")]), of(&[Value::Text("ab"), Value::Text("")]));
        assert_ne!(of(&[Value::Text("0123456789")]), of(&[Value::Text("0123456788")]));
        assert_ne!(of(&[Value::Text("a\0")]), of(&[Value::Text("a")]));
        assert_ne!(of(&[Value::Null]), of(&[Value::Integer(0)]));
    }

    #[test]
    fn bytes_of_any_length_are_the_words_of_the_table_above() {
        let bytes: Vec<u8> = (1..=70).collect();
        for length in 0..=bytes.len() {
            let mut padded = bytes[..length].to_vec();
            padded.resize(length.next_multiple_of(8), 0);
            let words = padded.chunks(8).map(|w| w.iter().rev().fold(0, |sum, b| sum << 8 | u64::from(*b)));
            let words: Vec<u64> = words.collect();
            let (pairs, rest) = words.split_at(length / 16 * 2);
            let state = pairs.chunks(2).fold(length as u64, |state, pair| multiply(state, pair[0], pair[1]));
            assert_eq!(hash(&bytes[..length]), rest.iter().copied().fold(state, fold), "{length} bytes");
        }
    }

    /// Folded by hand with Python's integers from the text above.
    #[test]
    fn a_known_digest() {
        assert_eq!(of(&[Value::Integer(-1), Value::Text("abcdefghi"), Value::Null, Value::Real(0.5)]), SHORT);
        assert_eq!(of(&[Value::Text("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTU")]), LONG);
    }

    const SHORT: &str = "c326eeab0e941794";
    const LONG: &str = "048ffd49a9743be5";
}
