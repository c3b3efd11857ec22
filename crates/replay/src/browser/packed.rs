//! Activities as few bytes, for a page that carries them.
//!
//! Every number is a LEB128 integer: seven bits a byte, the lowest first, the highest bit set where more follow.
//!
//! ```text
//! activity   format (1), threads, then each thread
//! thread     background (0 or 1), operations, then each operation
//! operation  delay_ns x 4 + held x 2 + transaction, held_ns where held is 1, segments, then each segment
//! segment    value x 8 + kind: 0 compute, 1 stall, 2 read, 3 write, 4 sync, 5 sleep
//! ```

use crate::activity::{Activity, IoKind, Operation, Segment, Thread};
use pocketstone_core::{Error, Result};

/// The first number of a packed activity.
const FORMAT: u128 = 1;

/// An activity as bytes; [`unpack`] gives it back exactly.
pub fn pack(activity: &Activity) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, FORMAT);
    put(&mut out, activity.threads.len() as u128);
    for thread in &activity.threads {
        put(&mut out, u128::from(thread.background));
        put(&mut out, thread.operations.len() as u128);
        for operation in &thread.operations {
            put_operation(&mut out, operation);
        }
    }
    out
}

/// An activity with the first operations of every thread, as many as fit into so many bytes when packed. Threads
/// that count keep the same part of their operations each; other work of the machine, which repeats, is whole.
/// Returns `None` where not even one operation of each thread fits.
pub fn shortened(activity: &Activity, most_bytes: usize) -> Option<Activity> {
    let longest = activity.threads.iter().filter(|t| !t.background).map(|t| t.operations.len()).max().unwrap_or(0);
    let first = |n: usize| {
        // At least one of each thread, so that none disappears.
        let part = |all: usize| ((all as u128 * n as u128).div_ceil(longest.max(1) as u128) as usize).min(all);
        let thread = |t: &Thread| match t.background {
            true => t.clone(),
            false => Thread { operations: t.operations[..part(t.operations.len())].to_vec(), background: false },
        };
        Activity { threads: activity.threads.iter().map(thread).collect() }
    };
    let fits = |n: usize| pack(&first(n)).len() <= most_bytes;
    if fits(longest) {
        return Some(activity.clone());
    }
    // Bytes grow with n: the largest n that fits lies in low..high.
    let (mut low, mut high) = (0, longest);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match fits(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    (low > 0).then(|| first(low))
}

/// The activity that was packed.
///
/// # Errors
/// `ErrorKind::User` if the bytes are not a packed activity; the message includes the place.
pub fn unpack(bytes: &[u8]) -> Result<Activity> {
    let mut reader = Reader { bytes, at: 0 };
    let format = reader.number()?;
    if format != FORMAT {
        return Err(Error::user(format!("a packed activity of format {format}, not {FORMAT}"))
            .hint("pack it with the same version of pocketstone"));
    }
    let threads = reader.list(|r| {
        let background = r.number()? == 1;
        Ok(Thread { operations: r.list(Reader::operation)?, background })
    })?;
    if reader.at < bytes.len() {
        return Err(reader.wrong("trailing bytes"));
    }
    Ok(Activity { threads })
}

fn put(out: &mut Vec<u8>, mut number: u128) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_operation(out: &mut Vec<u8>, operation: &Operation) {
    let held = operation.held_ns > 0;
    let flags = u128::from(held) * 2 + u128::from(operation.transaction);
    put(out, u128::from(operation.delay_ns) * 4 + flags);
    if held {
        put(out, operation.held_ns.into());
    }
    put(out, operation.segments.len() as u128);
    for segment in &operation.segments {
        let (value, kind) = match *segment {
            Segment::Compute { cycles } => (cycles, 0),
            Segment::Stall { ns } => (ns, 1),
            Segment::Io { ns, kind: IoKind::Read } => (ns, 2),
            Segment::Io { ns, kind: IoKind::Write } => (ns, 3),
            Segment::Io { ns, kind: IoKind::Sync } => (ns, 4),
            Segment::Sleep { ns } => (ns, 5),
        };
        put(out, u128::from(value) * 8 + kind);
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn wrong(&self, what: &str) -> Error {
        Error::user(format!("a packed activity has {what}, at byte {} of {}", self.at, self.bytes.len()))
            .hint("regenerate the report: `pocketstone report DIR`")
    }

    fn number(&mut self) -> Result<u128> {
        let mut number = 0u128;
        // 67 bits are the largest that is written: a number of 64 and its kind.
        for shift in (0..70).step_by(7) {
            let Some(&byte) = self.bytes.get(self.at) else { return Err(self.wrong("an early end")) };
            self.at += 1;
            number |= u128::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.wrong("a number that is too long"))
    }

    fn small(&mut self, number: u128) -> Result<u64> {
        u64::try_from(number).map_err(|_| self.wrong("a number that is too large"))
    }

    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.number()?;
        // Each entry takes a byte at least: a wrong count does not take all memory.
        if count > (self.bytes.len() - self.at) as u128 {
            return Err(self.wrong("a count that is larger than what follows"));
        }
        (0..count).map(|_| one(self)).collect()
    }

    fn operation(&mut self) -> Result<Operation> {
        let first = self.number()?;
        let held_ns = match first & 2 {
            0 => 0,
            _ => self.number().and_then(|n| self.small(n))?,
        };
        let delay_ns = self.small(first >> 2)?;
        Ok(Operation { delay_ns, held_ns, segments: self.list(Reader::segment)?, transaction: first & 1 == 1 })
    }

    fn segment(&mut self) -> Result<Segment> {
        let number = self.number()?;
        let value = self.small(number >> 3)?;
        match number & 7 {
            0 => Ok(Segment::Compute { cycles: value }),
            1 => Ok(Segment::Stall { ns: value }),
            2 => Ok(Segment::Io { ns: value, kind: IoKind::Read }),
            3 => Ok(Segment::Io { ns: value, kind: IoKind::Write }),
            4 => Ok(Segment::Io { ns: value, kind: IoKind::Sync }),
            5 => Ok(Segment::Sleep { ns: value }),
            _ => Err(self.wrong("a segment of an unknown kind")),
        }
    }
}

/// Bytes as base64 text (RFC 4648, section 4, with padding).
pub fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= chunk.len() { digit as char } else { '=' });
        }
    }
    out
}

/// The bytes of a base64 text; `None` where it is none.
pub fn bytes_of_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for chunk in digits.chunks(4) {
        let mut bits = 0;
        for i in 0..4 {
            let value = chunk.get(i).map_or(Some(0), |c| DIGITS.iter().position(|d| d == c))?;
            bits = bits << 6 | value as u32;
        }
        out.extend(&bits.to_be_bytes()[1..chunk.len()]);
    }
    (text.len() % 4 == 0 && digits.len() % 4 != 1).then_some(out)
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segments() -> impl Strategy<Value = Segment> {
        let kind = prop_oneof![Just(IoKind::Read), Just(IoKind::Write), Just(IoKind::Sync)];
        prop_oneof![
            any::<u64>().prop_map(|cycles| Segment::Compute { cycles }),
            any::<u64>().prop_map(|ns| Segment::Stall { ns }),
            (any::<u64>(), kind).prop_map(|(ns, kind)| Segment::Io { ns, kind }),
            (0..3_000_000u64).prop_map(|ns| Segment::Sleep { ns }),
        ]
    }

    fn activities() -> impl Strategy<Value = Activity> {
        let operation = (any::<u64>(), 0..3u64, proptest::collection::vec(segments(), 0..6), any::<bool>()).prop_map(
            |(delay_ns, held_ns, segments, transaction)| Operation { delay_ns, held_ns, segments, transaction },
        );
        let thread = (proptest::collection::vec(operation, 0..8), any::<bool>())
            .prop_map(|(operations, background)| Thread { operations, background });
        proptest::collection::vec(thread, 0..4).prop_map(|threads| Activity { threads })
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back(activity in activities()) {
            prop_assert_eq!(unpack(&pack(&activity)).unwrap(), activity);
        }

        #[test]
        fn wrong_bytes_are_an_error_and_no_crash(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = unpack(&bytes);
        }

        #[test]
        fn base64_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(bytes_of_base64(&base64(&bytes)), Some(bytes));
        }
    }

    #[test]
    fn base64_is_that_of_its_standard() {
        // The test vectors of RFC 4648, section 10.
        let vectors = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (bytes, text) in vectors {
            assert_eq!(base64(bytes.as_bytes()), text);
            assert_eq!(bytes_of_base64(text).as_deref(), Some(bytes.as_bytes()));
        }
        for wrong in ["Zg=", "Z", "Zm9v!", "Z g="] {
            assert_eq!(bytes_of_base64(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_description() {
        let segments = vec![Segment::Compute { cycles: 3 }, Segment::Io { ns: 16, kind: IoKind::Sync }];
        let operation = Operation { delay_ns: 1, held_ns: 200, segments, transaction: true };
        let activity = Activity { threads: vec![Thread { operations: vec![operation], background: false }] };
        // format, threads | background, operations | 1 x 4 + 2 + 1, 200 = 0x48 + 128, segments | 3 x 8, 16 x 8 + 4
        assert_eq!(pack(&activity), [1, 1, 0, 1, 7, 0xc8, 1, 2, 24, 0x84, 1]);
    }

    #[test]
    fn a_run_that_is_too_long_keeps_its_first_operations() {
        let operation = |cycles| Operation { segments: vec![Segment::Compute { cycles }], ..Operation::default() };
        let thread = |n, background| Thread { operations: (0..n).map(operation).collect(), background };
        let activity = Activity { threads: vec![thread(12, false), thread(6, false), thread(4, true)] };
        // An operation takes 3 bytes here, a thread 2, the activity 2: 8 + 12 of the background's + 3 n + 3 n / 2.
        assert_eq!(pack(&activity).len(), 74);
        assert_eq!(shortened(&activity, 74), Some(activity.clone()));
        let counts = |a: &Activity| a.threads.iter().map(|t| t.operations.len()).collect::<Vec<_>>();
        let short = shortened(&activity, 40).unwrap();
        assert_eq!(counts(&short), [4, 2, 4], "20 + 18 bytes; one more operation would be 41 or more");
        assert_eq!(short.threads[0].operations[..], activity.threads[0].operations[..4]);
        assert_eq!(shortened(&activity, 20), None);
    }
}
