//! One line of strace: whose it is, when it began, and the parts of a call.

use crate::operation::MOST_PAUSE_NS;
use std::borrow::Cow;

/// A line.
pub struct Line<'a> {
    /// The thread; 0 where the line has none.
    pub pid: u32,
    /// When the call began, in ns, where the line says it.
    pub start_ns: Option<u64>,
    /// Whether that is since midnight.
    pub of_day: bool,
    /// What it says.
    pub what: What<'a>,
}

/// What a line says.
pub enum What<'a> {
    /// A call from its name to its result.
    Whole(&'a str),
    /// The start of one.
    Begun(&'a str),
    /// The end of one that was begun.
    Resumed(&'a str),
    /// The thread has ended.
    Ended,
    /// strace follows a new thread.
    Attached(u32),
    /// A signal, or a message of strace's own.
    Nothing,
}

/// A call.
pub struct Call<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its arguments as they are written.
    pub arguments: Vec<&'a str>,
    /// What it returned; `None`: it did not.
    pub result: Option<i64>,
    /// The path of the descriptor that it returned, where strace was told to write it.
    pub result_path: Option<Cow<'a, str>>,
    /// The name of the error.
    pub error: Option<&'a str>,
    /// How long it took, in ns.
    pub took_ns: Option<u64>,
}

/// Parses a line; `None`: it is empty.
pub fn parse(text: &str) -> Result<Option<Line<'_>>, &'static str> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Ok(None);
    }
    if let Some(message) = rest.strip_prefix("strace: ") {
        let attached = message.strip_prefix("Process ").and_then(|m| m.strip_suffix(" attached")?.parse().ok());
        let what = attached.map_or(What::Nothing, What::Attached);
        return Ok(Some(Line { pid: 0, start_ns: None, of_day: false, what }));
    }
    let mut pid = 0;
    if let Some(inner) = rest.strip_prefix("[pid ") {
        let (number, behind) = inner.split_once(']').ok_or("the number of the process has no end")?;
        // With -Y the name of the program is behind it.
        let number = number.trim().split('<').next().unwrap_or_default();
        pid = number.parse().map_err(|_| "the process has no number")?;
        rest = behind.trim_start();
    } else if let Some((word, behind)) = rest.split_once(' ') {
        let word = word.split('<').next().unwrap_or_default();
        if let Ok(number) = word.parse::<u32>() {
            (pid, rest) = (number, behind.trim_start());
        }
    }
    let (mut start_ns, mut of_day) = (None, false);
    if rest.starts_with(|c: char| c.is_ascii_digit()) {
        let (word, behind) = rest.split_once(' ').ok_or("there is nothing behind the time")?;
        (start_ns, of_day) = (Some(time(word).ok_or("the time is not understood")?), word.contains(':'));
        rest = behind.trim_start();
    }
    let what = if let Some(message) = rest.strip_prefix("+++ ") {
        if message.starts_with("exited") || message.starts_with("killed") { What::Ended } else { What::Nothing }
    } else if rest.starts_with("---") {
        What::Nothing
    } else if let Some(resumed) = rest.strip_prefix("<... ") {
        let (_, resumed) = resumed.split_once(" resumed>").ok_or("a call that goes on is not understood")?;
        What::Resumed(resumed)
    } else if let Some(begun) = rest.strip_suffix("<unfinished ...>").or_else(|| rest.strip_suffix("<detached ...>")) {
        What::Begun(begun.trim_end())
    } else {
        What::Whole(rest)
    };
    Ok(Some(Line { pid, start_ns, of_day, what }))
}

/// A time in ns: seconds with a fraction, or hours, minutes and seconds.
fn time(word: &str) -> Option<u64> {
    let mut seconds = 0u64;
    let (whole, fraction) = word.split_once('.').unwrap_or((word, "0"));
    for part in whole.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    seconds.checked_mul(1_000_000_000)?.checked_add(billionths(fraction)?).filter(|ns| *ns <= MOST_PAUSE_NS)
}

/// Digits behind a point, as ns.
fn billionths(digits: &str) -> Option<u64> {
    if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse::<u64>().ok()? * 10u64.pow(9 - digits.len() as u32))
}

/// The parts of a call's text.
pub fn call(text: &str) -> Result<Call<'_>, &'static str> {
    let (name, rest) = text.split_once('(').ok_or("not a system call")?;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err("not a system call");
    }
    let (arguments, behind) = arguments(rest)?;
    let behind = behind.trim_start().strip_prefix('=').ok_or("the call has no result")?.trim();
    let (behind, took_ns) = match behind.strip_suffix('>').and_then(|b| b.rsplit_once(" <")) {
        // `-y` puts a path behind a result in the same way, and without a space.
        Some((before, took)) => (before.trim_end(), Some(time(took).ok_or("the time that it took is not understood")?)),
        None => (behind, None),
    };
    let end = behind.find([' ', '<']).unwrap_or(behind.len());
    let (number, more) = behind.split_at(end);
    let result = match number {
        "?" => None,
        hex if hex.starts_with("0x") => {
            let bits = u64::from_str_radix(&hex[2..], 16).map_err(|_| "the result is not understood")?;
            Some(bits as i64)
        }
        number => Some(number.parse::<i64>().map_err(|_| "the result is not understood")?),
    };
    let result_path = more.strip_prefix('<').and_then(annotated);
    let error = (result == Some(-1)).then(|| more.split_whitespace().next()).flatten();
    Ok(Call { name, arguments, result, result_path, error, took_ns })
}

/// What is between `<` and its `>` as it is written, and what follows. Sockets have brackets with arrows in them; in
/// paths strace escapes arrows, and leaves brackets.
fn annotation(text: &str) -> Option<(&str, &str)> {
    if text.starts_with('/') {
        return text.split_once('>');
    }
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            b'>' if depth <= 0 => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
}

/// The path, or what else there is, between `<` and its `>`.
fn annotated(text: &str) -> Option<Cow<'_, str>> {
    annotation(text).and_then(|(path, _)| unescape(path))
}

/// The arguments up to the closing parenthesis, and what is behind it.
fn arguments(text: &str) -> Result<(Vec<&str>, &str), &'static str> {
    let bytes = text.as_bytes();
    let (mut found, mut start, mut at, mut depth) = (Vec::new(), 0, 0, 0u32);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at).ok_or("a text has no end")?,
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                let end = text[at..].find("*/").ok_or("a comment has no end")?;
                at += end + 1;
            }
            b'(' | b'[' | b'{' => depth += 1,
            // Behind a descriptor; elsewhere it is a sign, as in `1<<3`.
            b'<' if follows_descriptor(bytes, at) => {
                let (path, _) = annotation(&text[at + 1..]).ok_or("the path of a descriptor has no end")?;
                at += path.len() + 1;
            }
            b')' if depth == 0 => {
                let last = text[start..at].trim();
                if !(last.is_empty() && found.is_empty()) {
                    found.push(last);
                }
                return Ok((found, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth = depth.checked_sub(1).ok_or("brackets do not match")?,
            b',' if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    Err("the arguments have no end")
}

fn follows_descriptor(bytes: &[u8], at: usize) -> bool {
    at > 0 && bytes.get(at + 1) != Some(&b'<') && (bytes[at - 1].is_ascii_digit() || bytes[..at].ends_with(b"AT_FDCWD"))
}

/// Where the text that begins at `at` has its last quote.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// A text argument without its quotes; `None`: it is none, or was cut off.
pub fn string(argument: &str) -> Option<String> {
    let inner = argument.strip_prefix('"')?;
    let end = string_end(argument.as_bytes(), 0)?;
    if end != argument.len() - 1 {
        return None;
    }
    unescape(&inner[..end - 1]).map(Cow::into_owned)
}

/// A text whose special characters are written as in C; `None`: one of them is not whole.
fn unescape(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('\\') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = text.bytes().peekable();
    let mut made = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            made.push(byte);
            continue;
        }
        made.push(match bytes.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'x' => {
                let (high, low) = (bytes.next()?, bytes.next()?);
                let digit = |byte: u8| (byte as char).to_digit(16);
                (digit(high)? * 16 + digit(low)?) as u8
            }
            first @ b'0'..=b'7' => {
                let mut value = u32::from(first - b'0');
                for _ in 0..2 {
                    let Some(digit) = bytes.next_if(|byte| (b'0'..=b'7').contains(byte)) else { break };
                    value = value * 8 + u32::from(digit - b'0');
                }
                value as u8
            }
            other => other,
        });
    }
    Some(Cow::Owned(String::from_utf8_lossy(&made).into_owned()))
}

/// The number of a descriptor, and its path where `-y` wrote it; `None` behind a number: no path.
pub fn descriptor(argument: &str) -> Option<(i64, Option<Cow<'_, str>>)> {
    let end = argument.find('<').unwrap_or(argument.len());
    let number = match &argument[..end] {
        "AT_FDCWD" => AT_CWD,
        number => number.parse().ok()?,
    };
    Some((number, argument[end..].strip_prefix('<').and_then(annotated)))
}

/// The descriptor that stands for the current folder.
pub const AT_CWD: i64 = -100;

/// A number, decimal, octal or hexadecimal; in brackets, too, as strace writes what a pointer leads to.
pub fn number(argument: &str) -> Option<u64> {
    // `[8] => [4096]`, or `[8 => 4096]`: before and after the call.
    let text = argument.split(" => ").next()?.trim_start_matches('[').trim_end_matches(']');
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse::<u64>().ok().or_else(|| text.parse::<i64>().ok().map(|n| n as u64)),
    }
}

/// The value of a field of a structure.
pub fn field<'a>(argument: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = argument.split_once(name)?;
    Some(&rest[..rest.find([',', '}']).unwrap_or(rest.len())])
}
