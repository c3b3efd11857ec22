//! Names and labels on a terminal.

/// A name or label for a terminal: control characters, which could do something to it, and what is no text are escaped.
pub fn shown(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match u8::try_from(c) {
                Ok(byte) if byte.is_ascii_control() => text.extend(byte.escape_ascii().map(char::from)),
                _ if c.is_control() => text.extend(c.escape_unicode()),
                _ => text.push(c),
            }
        }
        text.extend(chunk.invalid().escape_ascii().map(char::from));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_nothing_to_a_terminal() {
        for plain in ["naïve", r#"Bob's "disk" \o/"#, ""] {
            assert_eq!(shown(plain.as_bytes()), plain);
        }
        assert_eq!(shown(b"\x1b[2J\xff'\n"), "\\x1b[2J\\xff'\\n");
        assert_eq!(shown("ä\u{9b}".as_bytes()), "ä\\u{9b}");
    }
}
