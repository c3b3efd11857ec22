//! How the engines without SQL hold a row: its first column as the key, the others as the record.
//!
//! ```text
//! key      1, i64 big-endian with its sign bit flipped | 2, the text's bytes
//! record   each column: 0 null | 1, i64 | 2, f64 | 3, u32 length, text | 4, u32 length, bytes
//! ```
//! Keys compare byte by byte as SQL compares them: integers before text, text by its bytes. Numbers in a
//! record are little-endian.

use pocketstone_core::{Error, Result};
use pocketstone_workload::database::{ResultDigest, Value};

const INTEGER_KEY: u8 = 1;
const TEXT_KEY: u8 = 2;
const SIGN: u64 = 1 << 63;

/// Writes a key over what `out` holds.
///
/// # Errors
/// `ErrorKind::User` if the value cannot be a key.
#[inline]
pub(super) fn put_key(value: Value<'_>, out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    match value {
        Value::Integer(n) => {
            out.push(INTEGER_KEY);
            out.extend((n as u64 ^ SIGN).to_be_bytes());
        }
        Value::Text(text) => {
            out.push(TEXT_KEY);
            out.extend(text.as_bytes());
        }
        Value::Null | Value::Real(_) | Value::Blob(_) => {
            return Err(Error::user(format!("{value:?} cannot be a key in an engine without SQL"))
                .hint("use integer or text keys, or engine = \"sqlite\""));
        }
    }
    Ok(())
}

/// Adds a column to a record.
#[inline]
pub(super) fn put_value(value: Value<'_>, out: &mut Vec<u8>) {
    let mut bytes = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        out.extend((bytes.len() as u32).to_le_bytes());
        out.extend(bytes);
    };
    match value {
        Value::Text(text) => bytes(3, text.as_bytes()),
        Value::Blob(blob) => bytes(4, blob),
        Value::Null => out.push(0),
        Value::Integer(n) => {
            out.push(1);
            out.extend(n.to_le_bytes());
        }
        Value::Real(x) => {
            out.push(2);
            out.extend(x.to_le_bytes());
        }
    }
}

/// A column's length at the start of a record, tag and all.
#[inline]
fn length(record: &[u8]) -> Result<usize> {
    let length = match record.first() {
        Some(0) => 1,
        Some(1 | 2) => 9,
        Some(3 | 4) => 5 + record.get(1..5).map_or(usize::MAX - 5, |b| le_u32(b) as usize),
        _ => usize::MAX,
    };
    if length <= record.len() { Ok(length) } else { Err(damaged()) }
}

#[cold]
fn damaged() -> Error {
    Error::board("a record of the database is damaged").hint("empty the folder and reload the database")
}

fn le_u32(b: &[u8]) -> u32 {
    u32::from_le_bytes([b[0], b[1], b[2], b[3]])
}

fn word(b: &[u8]) -> [u8; 8] {
    [b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]
}

/// Gives a row to the digest: the number of its values, and each.
///
/// # Errors
/// `ErrorKind::Board` if the key or the record is damaged.
#[inline]
pub(super) fn digest_row(key: &[u8], record: &[u8], digest: &mut ResultDigest) -> Result<()> {
    let (mut columns, mut rest) = (1, record);
    while !rest.is_empty() {
        rest = &rest[length(rest)?..];
        columns += 1;
    }
    digest.row(columns);
    match (key.first(), key.len()) {
        (Some(&INTEGER_KEY), 9) => digest.integer((u64::from_be_bytes(word(&key[1..])) ^ SIGN) as i64),
        (Some(&TEXT_KEY), _) => digest.bytes(&key[1..]),
        _ => return Err(damaged()),
    }
    rest = record;
    while !rest.is_empty() {
        let (column, behind) = rest.split_at(length(rest)?);
        match column[0] {
            0 => digest.value(Value::Null),
            1 => digest.integer(i64::from_le_bytes(word(&column[1..]))),
            2 => digest.real(f64::from_le_bytes(word(&column[1..]))),
            _ => digest.bytes(&column[5..]),
        }
        rest = behind;
    }
    Ok(())
}

/// Writes a record with some columns replaced: bit `n` of `columns` is for column `n` of the row, the key
/// being column 0, and `values` are theirs in that order.
///
/// # Errors
/// `ErrorKind::Board` if the record is damaged; `ErrorKind::User` if it lacks a column.
pub(super) fn replace<'v>(
    record: &[u8],
    columns: u64,
    mut values: impl Iterator<Item = Value<'v>>,
    out: &mut Vec<u8>,
) -> Result<()> {
    out.clear();
    let (mut left, mut rest) = (columns >> 1, record);
    while !rest.is_empty() {
        let (column, behind) = rest.split_at(length(rest)?);
        match left & 1 {
            1 => put_value(values.next().ok_or_else(too_few)?, out),
            _ => out.extend(column),
        }
        (left, rest) = (left >> 1, behind);
    }
    match left {
        0 => Ok(()),
        _ => Err(Error::user("an update names a column that the row lacks").hint("prepare the workload again")),
    }
}

#[cold]
pub(super) fn too_few() -> Error {
    Error::user("a step has fewer values than its statement needs").hint("prepare the workload again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(value: Value<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        put_key(value, &mut out).unwrap();
        out
    }

    proptest! {
        #[test]
        fn keys_compare_as_their_values_do(a in any::<i64>(), b in any::<i64>(), s in ".*", t in ".*") {
            prop_assert_eq!(key(Value::Integer(a)).cmp(&key(Value::Integer(b))), a.cmp(&b));
            prop_assert_eq!(key(Value::Text(&s)).cmp(&key(Value::Text(&t))), s.as_bytes().cmp(t.as_bytes()));
            prop_assert!(key(Value::Integer(a)) < key(Value::Text(&s)));
        }

        #[test]
        fn a_damaged_record_is_an_error_and_no_panic(record in prop::collection::vec(0u8..6, 0..40)) {
            let mut digest = ResultDigest::default();
            let shown = digest_row(&key(Value::Integer(1)), &record, &mut digest);
            let mut out = Vec::new();
            let replaced = replace(&record, 0, std::iter::empty(), &mut out);
            prop_assert_eq!(shown.is_ok(), replaced.is_ok());
            prop_assert!(replaced.is_err() || out == record);
        }
    }

    #[test]
    fn columns_are_replaced_in_their_order() {
        let (mut record, mut expected, mut out) = (Vec::new(), Vec::new(), vec![9]);
        [Value::Null, Value::Text("old"), Value::Real(0.5)].into_iter().for_each(|v| put_value(v, &mut record));
        [Value::Integer(7), Value::Text("old"), Value::Text("new")]
            .into_iter()
            .for_each(|v| put_value(v, &mut expected));
        replace(&record, 0b1010, [Value::Integer(7), Value::Text("new")].into_iter(), &mut out).unwrap();
        assert_eq!(out, expected);
        assert!(replace(&record, 0b1_0000, [Value::Null].into_iter(), &mut out).is_err());
        assert!(replace(&record, 0b10, std::iter::empty(), &mut out).is_err());
        assert!(put_key(Value::Real(0.5), &mut out).unwrap_err().cure().is_some());
    }
}
