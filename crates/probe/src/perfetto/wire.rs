//! The wire format of protobuf, as far as a trace of any length is walked through without being held: its packets one
//! by one from a stream, and the fields of what a packet holds. Messages are decoded by prost.

use pocketstone_core::{Error, Result};
use prost::encoding::{WireType, decode_key, decode_varint};
use std::io::{self, BufRead, Read};

/// The longest number: 64 bits, of which a byte holds seven.
const LONGEST_NUMBER_BYTES: usize = 10;

/// Fields of the messages that are walked through, by their numbers in the published schema. Those of the messages that
/// are decoded as a whole are in [`super::messages`].
pub(super) mod field {
    pub const TRACE_PACKET: u32 = 1;

    pub const PACKET_FTRACE_EVENTS: u32 = 1;
    pub const PACKET_PROCESS_TREE: u32 = 2;
    pub const PACKET_CLOCK_SNAPSHOT: u32 = 6;
    pub const PACKET_SEQUENCE: u32 = 10;
    pub const PACKET_POWER_RAILS: u32 = 40;
    pub const PACKET_PREVIOUS_DROPPED: u32 = 42;
    pub const PACKET_SYSTEM_INFO: u32 = 45;
    pub const PACKET_COMPRESSED: u32 = 50;
    pub const PACKET_TRACK_DESCRIPTOR: u32 = 60;

    pub const TREE_THREADS: u32 = 2;

    pub const BUNDLE_CPU: u32 = 1;
    pub const BUNDLE_EVENT: u32 = 2;
    pub const BUNDLE_LOST_EVENTS: u32 = 3;
    pub const BUNDLE_COMPACT_SCHED: u32 = 4;
    pub const BUNDLE_CLOCK: u32 = 5;
    pub const BUNDLE_CLOCK_TIME: u32 = 6;
    pub const BUNDLE_BOOT_TIME: u32 = 7;
    pub const BUNDLE_ERROR: u32 = 8;

    pub const COMPACT_SWITCH_TIME: u32 = 1;
    pub const COMPACT_SWITCH_STATE: u32 = 2;
    pub const COMPACT_SWITCH_NEXT: u32 = 3;
    pub const COMPACT_NAMES: u32 = 5;
    pub const COMPACT_SWITCH_NAME: u32 = 6;
    pub const COMPACT_WAKING_TIME: u32 = 7;
    pub const COMPACT_WAKING_THREAD: u32 = 8;
    pub const COMPACT_WAKING_NAME: u32 = 11;
}

/// A field's value in a message that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A fixed number, which none of the fields read has.
    Fixed,
}

impl Value<'_> {
    pub fn number(self) -> Option<u64> {
        match self {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }
}

/// The fields of a message, in its order; the last is an error if it is none.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub fn of(message: &'a [u8]) -> Fields<'a> {
        Fields(message)
    }

    fn field(&mut self) -> Result<(u32, Value<'a>)> {
        let bad = |e: prost::DecodeError| Error::board("a field is none").because(e);
        let (number, wire) = decode_key(&mut self.0).map_err(bad)?;
        let value = match wire {
            WireType::Varint => Value::Number(decode_varint(&mut self.0).map_err(bad)?),
            WireType::LengthDelimited => {
                let length = decode_varint(&mut self.0).map_err(bad)?;
                Value::Bytes(self.take(length)?)
            }
            WireType::SixtyFourBit => self.take(8).map(|_| Value::Fixed)?,
            WireType::ThirtyTwoBit => self.take(4).map(|_| Value::Fixed)?,
            WireType::StartGroup | WireType::EndGroup => return Err(group()),
        };
        Ok((number, value))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let at = usize::try_from(length).ok().filter(|length| *length <= self.0.len());
        let (value, rest) = self.0.split_at(at.ok_or_else(|| Error::board("a field is longer than its message"))?);
        self.0 = rest;
        Ok(value)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// Numbers side by side, as a repeated field holds them; the last is an error if it is none.
pub(super) struct Numbers<'a>(pub &'a [u8]);

impl Iterator for Numbers<'_> {
    type Item = Result<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let number = decode_varint(&mut self.0).map_err(|e| Error::board("a number is none").because(e));
        if number.is_err() {
            self.0 = &[];
        }
        Some(number)
    }
}

fn group() -> Error {
    Error::board("a field is a group, which the schema has none of")
}

/// What a field of a message in a stream is, whose content is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coming {
    Number(u64),
    /// So many bytes.
    Bytes(u64),
}

/// A stream of which it is known how far it has been read.
pub(super) struct Stream<R> {
    input: R,
    position: u64,
}

impl<R: BufRead> Stream<R> {
    pub fn new(input: R) -> Stream<R> {
        Stream { input, position: 0 }
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// `ErrorKind::User` if it cannot be read.
    pub fn is_at_end(&mut self) -> Result<bool> {
        loop {
            match self.input.fill_buf() {
                Ok(rest) => return Ok(rest.is_empty()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(unreadable(e)),
            }
        }
    }

    fn byte(&mut self) -> Result<u8> {
        if self.is_at_end()? {
            return Err(cut_off());
        }
        let byte = self.input.fill_buf().map_err(unreadable)?[0];
        self.input.consume(1);
        self.position += 1;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64> {
        let mut bytes = [0; LONGEST_NUMBER_BYTES];
        for end in 1..=LONGEST_NUMBER_BYTES {
            bytes[end - 1] = self.byte()?;
            if bytes[end - 1] & 0x80 == 0 {
                let number = decode_varint(&mut &bytes[..end]);
                return number.map_err(|e| Error::board("a number is none").because(e));
            }
        }
        Err(Error::board("a number has no end"))
    }

    /// The next field of a message.
    ///
    /// # Errors
    /// `ErrorKind::Board` if there is none; `ErrorKind::User` if the stream cannot be read, or ends.
    pub fn field(&mut self) -> Result<(u32, Coming)> {
        let key = self.number()?;
        let number = u32::try_from(key >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        let number = number.ok_or_else(|| Error::board(format!("{key:#x} is no field")))?;
        let wire = WireType::try_from(key & 7).map_err(|e| Error::board("a field is none").because(e))?;
        let coming = match wire {
            WireType::Varint => Coming::Number(self.number()?),
            WireType::LengthDelimited => Coming::Bytes(self.number()?),
            WireType::SixtyFourBit => Coming::Bytes(8),
            WireType::ThirtyTwoBit => Coming::Bytes(4),
            WireType::StartGroup | WireType::EndGroup => return Err(group()),
        };
        Ok((number, coming))
    }

    /// The next bytes, of which there are `length`.
    ///
    /// # Errors
    /// `ErrorKind::Board` if they are more than `most`; `ErrorKind::User` if the stream cannot be read, or ends.
    pub fn take(&mut self, length: u64, most: u64) -> Result<Vec<u8>> {
        if length > most {
            return Err(Error::board(format!("a field has {length} bytes, and at most {most} are read at once")));
        }
        // It grows with what comes, not with what is said to.
        let mut bytes = Vec::new();
        self.input.by_ref().take(length).read_to_end(&mut bytes).map_err(unreadable)?;
        self.position += bytes.len() as u64;
        if bytes.len() as u64 == length { Ok(bytes) } else { Err(cut_off()) }
    }

    /// Goes into the next packet of a trace; where it ends. `None`: what came was no packet, and is passed over.
    ///
    /// # Errors
    /// As [`Stream::field`] and [`Stream::skip`]; `ErrorKind::Board` if it has no end.
    pub fn packet(&mut self) -> Result<Option<u64>> {
        let length = match self.field()? {
            (field::TRACE_PACKET, Coming::Bytes(length)) => length,
            (_, Coming::Bytes(length)) => return self.skip(length).map(|()| None),
            (_, Coming::Number(_)) => return Ok(None),
        };
        self.position().checked_add(length).map(Some).ok_or_else(|| Error::board("a packet has no end"))
    }

    /// Goes through the next packet of a trace; `act` gets the contents of its fields of this number, each of at most
    /// `most` bytes.
    ///
    /// # Errors
    /// As [`Stream::packet`] and [`Stream::take`]; `ErrorKind::Board` if a field is longer than the packet; that of
    /// `act`.
    pub fn packet_with(&mut self, wanted: u32, most: u64, mut act: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Some(end) = self.packet()? else { return Ok(()) };
        while self.position() < end {
            match self.field()? {
                (number, Coming::Bytes(length)) if number == wanted => act(&self.take(length, most)?)?,
                (_, Coming::Bytes(length)) => self.skip(length)?,
                (_, Coming::Number(_)) => {}
            }
        }
        match self.position() == end {
            true => Ok(()),
            false => Err(Error::board("a field is longer than its packet")),
        }
    }

    /// Passes over the next bytes.
    ///
    /// # Errors
    /// `ErrorKind::User` if the stream cannot be read, or ends.
    pub fn skip(&mut self, length: u64) -> Result<()> {
        let mut left = length;
        while left > 0 {
            if self.is_at_end()? {
                return Err(cut_off());
            }
            let here = self.input.fill_buf().map_err(unreadable)?.len();
            let now = usize::try_from(left).unwrap_or(usize::MAX).min(here);
            self.input.consume(now);
            self.position += now as u64;
            left -= now as u64;
        }
        Ok(())
    }
}

fn unreadable(e: io::Error) -> Error {
    Error::user("it cannot be read").because(e)
}

fn cut_off() -> Error {
    Error::user("the trace ends in the middle of it")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of protobuf's own description of its encoding: 150 in field 1, "testing" in field 2.
    #[test]
    fn fields_of_a_message_and_of_a_stream_are_the_same() {
        let bytes = b"\x08\x96\x01\x12\x07testing\x1d\x01\x02\x03\x04";
        let fields: Vec<_> = Fields::of(bytes).map(Result::unwrap).collect();
        assert_eq!(fields, [(1, Value::Number(150)), (2, Value::Bytes(b"testing")), (3, Value::Fixed)]);
        let mut stream = Stream::new(bytes.as_slice());
        assert_eq!(stream.field().unwrap(), (1, Coming::Number(150)));
        assert_eq!((stream.field().unwrap(), stream.position()), ((2, Coming::Bytes(7)), 5));
        assert_eq!(stream.take(7, 7).unwrap(), b"testing");
        assert_eq!(stream.field().unwrap(), (3, Coming::Bytes(4)));
        stream.skip(4).unwrap();
        assert!(stream.is_at_end().unwrap() && stream.position() == 17);
        assert_eq!(Numbers(b"\x01\x96\x01").map(Result::unwrap).collect::<Vec<_>>(), [1, 150]);
    }

    #[test]
    fn what_is_none_is_an_error_and_the_end() {
        for bad in [&b"\x0a\x05abc"[..], b"\x08", b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0b", b"\x00"]
        {
            let mut fields = Fields::of(bad);
            assert!(fields.next().unwrap().is_err() && fields.next().is_none(), "{bad:x?}");
        }
        let endless = [0xff; 64];
        let mut stream = Stream::new(endless.as_slice());
        assert!(stream.field().unwrap_err().message().contains("no end"));
        assert_eq!(stream.position(), 10);
        // Said to be long, and short: no room is made for what does not come.
        let mut stream = Stream::new(&b"ab"[..]);
        assert!(stream.take(1 << 40, 1 << 50).is_err());
        assert!(Stream::new(&b"ab"[..]).take(9, 8).unwrap_err().message().contains("at most 8"));
        assert!(Stream::new(&b"ab"[..]).skip(3).is_err());
        let mut numbers = Numbers(b"\x01\xff");
        assert!(numbers.next().unwrap().is_ok() && numbers.next().unwrap().is_err() && numbers.next().is_none());
    }
}
