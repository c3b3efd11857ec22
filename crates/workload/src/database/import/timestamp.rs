//! Times at the beginnings of lines.

/// The forms of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Calendar,
    Seconds,
    Milliseconds,
}

/// The form of the time that a line begins with; no statement of SQL begins with a digit.
pub(super) fn form_of(line: &str) -> Option<Form> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    match (digits, line.as_bytes().get(digits)) {
        (0, _) => None,
        (_, Some(b'-')) => Some(Form::Calendar),
        (_, Some(b'.')) => Some(Form::Seconds),
        _ => Some(Form::Milliseconds),
    }
}

impl Form {
    pub(super) fn name(self) -> &'static str {
        match self {
            Form::Calendar => "a calendar time",
            Form::Seconds => "a time in seconds",
            Form::Milliseconds => "a time in milliseconds",
        }
    }

    /// The time that a line begins with in ns, and the bytes of it and of what parts it from the statement.
    pub(super) fn read(self, line: &str) -> Result<(i128, usize), String> {
        let mut reader = Reader { bytes: line.as_bytes(), at: 0 };
        let time = match self {
            Form::Calendar => reader.calendar(),
            Form::Seconds => reader.seconds(),
            Form::Milliseconds => reader.number(18).map(|ms| i128::from(ms) * 1_000_000),
        };
        let time = time.ok_or_else(|| {
            let shown: String = line.chars().take(32).take_while(|c| *c != '\n').collect();
            format!("`{}` does not begin with {}", shown.trim_end(), self.name())
        })?;
        let parted = reader.skip(|b| matches!(b, b' ' | b'\t' | b'\r' | b'|' | b','));
        match parted || reader.peek().is_none_or(|b| b == b'\n') {
            true => Ok((time, reader.at)),
            false => Err(format!("no separator between {} and the statement", self.name())),
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, of: &[u8]) -> Option<u8> {
        let byte = self.peek().filter(|b| of.contains(b))?;
        self.at += 1;
        Some(byte)
    }

    fn skip(&mut self, of: impl Fn(u8) -> bool) -> bool {
        let start = self.at;
        while self.peek().is_some_and(&of) {
            self.at += 1;
        }
        self.at > start
    }

    /// All digits here, at least one and at most `most`.
    fn number(&mut self, most: usize) -> Option<u64> {
        let start = self.at;
        self.skip(|b| b.is_ascii_digit());
        let digits = &self.bytes[start..self.at];
        (1..=most).contains(&digits.len()).then(|| digits.iter().fold(0, |n, d| n * 10 + u64::from(d - b'0')))
    }

    /// Exactly so many digits, of a number in a range.
    fn digits(&mut self, count: usize, range: std::ops::RangeInclusive<u64>) -> Option<i64> {
        let digits = self.bytes.get(self.at..self.at + count).filter(|d| d.iter().all(u8::is_ascii_digit))?;
        self.at += count;
        let number = digits.iter().fold(0, |n, d| n * 10 + u64::from(d - b'0'));
        range.contains(&number).then_some(number as i64)
    }

    /// Nanoseconds of a fraction, whose point is behind us. Digits behind the ninth are left out.
    fn fraction(&mut self) -> Option<i128> {
        let start = self.at;
        self.skip(|b| b.is_ascii_digit());
        let digits = &self.bytes[start..self.at];
        let nth = |n: usize| digits.get(n).map_or(0, |d| i128::from(d - b'0'));
        (!digits.is_empty()).then(|| (0..9).fold(0, |ns, n| ns * 10 + nth(n)))
    }

    fn seconds(&mut self) -> Option<i128> {
        let whole = i128::from(self.number(18)?) * 1_000_000_000;
        self.take(b".")?;
        Some(whole + self.fraction()?)
    }

    /// RFC 3339, with a blank for the `T` allowed and the zone left out allowed.
    fn calendar(&mut self) -> Option<i128> {
        let year = self.digits(4, 0..=9999)?;
        self.take(b"-")?;
        let month = self.digits(2, 1..=12)?;
        self.take(b"-")?;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let most = match month {
            2 => 28 + u64::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let day = self.digits(2, 1..=most)?;
        self.take(b"Tt ")?;
        let hour = self.digits(2, 0..=23)?;
        self.take(b":")?;
        let minute = self.digits(2, 0..=59)?;
        self.take(b":")?;
        // 60 is a leap second.
        let second = self.digits(2, 0..=60)?;
        let fraction = if self.take(b".").is_some() { self.fraction()? } else { 0 };
        let zone = match self.take(b"Zz+-") {
            Some(sign @ (b'+' | b'-')) => {
                let hours = self.digits(2, 0..=23)?;
                self.take(b":")?;
                let minutes = hours * 60 + self.digits(2, 0..=59)?;
                if sign == b'+' { minutes } else { -minutes }
            }
            _ => 0,
        };
        let minutes = (days(year, month, day) * 24 + hour) * 60 + minute - zone;
        Some(i128::from(minutes * 60 + second) * 1_000_000_000 + fraction)
    }
}

/// Days from 1970-01-01 to a day of the Gregorian calendar. Years are counted from March, so that the leap
/// day is the last one of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // Months from March have 31, 30, 31, 30, 31 days, again and again: 153 in five.
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<(i128, usize), String> {
        form_of(line).expect("a time").read(line)
    }

    /// Seconds from `date -u -d TIME +%s` of GNU coreutils.
    #[test]
    fn calendar_times_are_seconds_since_1970() {
        for (text, seconds) in [
            ("1970-01-01 00:00:00", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2024-12-31 23:59:59", 1_735_689_599),
            ("1900-03-01 00:00:00", -2_203_891_200),
            ("2024-05-17T08:30:00+02:00", 1_715_927_400),
            ("2024-05-17t08:30:00-00:30", 1_715_936_400),
            ("0001-01-01 00:00:00z", -62_135_596_800),
        ] {
            assert_eq!(read(text).unwrap(), (seconds * 1_000_000_000, text.len()), "{text}");
        }
    }

    #[test]
    fn fractions_are_nanoseconds() {
        assert_eq!(read("1970-01-01 00:00:01.25 SELECT").unwrap(), (1_250_000_000, 23));
        assert_eq!(read("12.000000001\tSELECT").unwrap(), (12_000_000_001, 13));
        assert_eq!(read("0.1234567899 | SELECT").unwrap(), (123_456_789, 15));
        assert_eq!(read("12345,SELECT").unwrap(), (12_345_000_000, 6));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "2024-02-30 00:00:00 ",
            "2023-02-29 00:00:00 ",
            "2024-13-01 00:00:00 ",
            "2024-05-17 ",
            "2024-5-17 00:00:00 ",
            "2024-05-17 24:00:00 ",
            "2024-05-17 00:00:00. ",
            "2024-05-17 00:00:00+2 ",
            "12. ",
            "12.x ",
            "1234567890123456789 ",
            "12SELECT",
            "1.5SELECT",
            "2024-05-17 00:00:00SELECT",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(form_of("SELECT 1"), None);
    }
}
