//! The words of SQL text, as far as telling quotes and comments from the rest needs.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// Blanks, without ends of lines.
    Blank,
    /// The end of a line.
    Line,
    /// `-- ...` up to the end of the line, or `/* ... */`.
    Comment,
    /// `'...'`, `"..."`, `` `...` `` or `[...]`.
    Quoted,
    /// Letters, digits, `_`, `$`.
    Word,
    /// `?`
    Mark,
    /// `;`
    Semicolon,
    /// Any other character.
    Other,
}

/// A token of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    /// Byte that it starts at.
    pub(super) start: usize,
    /// Byte behind it.
    pub(super) end: usize,
    /// Whether its closing quote or mark is there.
    pub(super) closed: bool,
}

/// Where the last comment and the last bracket of a text end: behind that nobody looks for another end, which would
/// take time by the square of a text's length where many are open.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastEnds {
    comment: Option<usize>,
    bracket: Option<usize>,
}

impl LastEnds {
    /// Those of a text.
    pub(super) fn of(text: &str) -> Self {
        LastEnds { comment: text.rfind("*/"), bracket: text.rfind(']') }
    }
}

/// The tokens of a text; together they are the whole of it.
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
    ends: LastEnds,
}

impl<'a> Tokens<'a> {
    /// From the byte `at` of a text on.
    pub(super) fn new(text: &'a str, at: usize) -> Self {
        Self::with(text, at, LastEnds::of(text))
    }

    /// As [`Tokens::new`], of a text whose last ends are known.
    pub(super) fn with(text: &'a str, at: usize, ends: LastEnds) -> Self {
        Tokens { text, at, ends }
    }
}

/// Whether a byte is one of a word's.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let (bytes, start) = (self.text.as_bytes(), self.at);
        let rest = &bytes[start..];
        let run = |of: &dyn Fn(u8) -> bool| start + rest.iter().take_while(|b| of(**b)).count();
        let mut closed = true;
        let mut until = |end: Option<usize>| {
            closed = end.is_some();
            end.unwrap_or(bytes.len())
        };
        let (kind, end) = match *rest.first()? {
            b'\n' => (TokenKind::Line, start + 1),
            b if b.is_ascii_whitespace() => (TokenKind::Blank, run(&|b| b.is_ascii_whitespace() && b != b'\n')),
            b'-' if rest.starts_with(b"--") => (TokenKind::Comment, run(&|b| b != b'\n')),
            b'/' if rest.starts_with(b"/*") => {
                let ends = self.ends.comment.is_some_and(|last| last >= start + 2);
                let end = || rest[2..].windows(2).position(|w| w == b"*/").map(|n| start + 2 + n + 2);
                (TokenKind::Comment, until(ends.then(end).flatten()))
            }
            b'[' => {
                let ends = self.ends.bracket.is_some_and(|last| last > start);
                let end = || rest.iter().position(|b| *b == b']').map(|n| start + n + 1);
                (TokenKind::Quoted, until(ends.then(end).flatten()))
            }
            quote @ (b'\'' | b'"' | b'`') => (TokenKind::Quoted, until(closing(rest, quote).map(|n| start + n))),
            b';' => (TokenKind::Semicolon, start + 1),
            b'?' => (TokenKind::Mark, start + 1),
            b if is_word(b) => (TokenKind::Word, run(&is_word)),
            _ => (TokenKind::Other, start + 1),
        };
        self.at = end;
        Some(Token { kind, start, end, closed })
    }
}

/// Bytes up to and with the closing quote; a doubled one does not close.
fn closing(rest: &[u8], quote: u8) -> Option<usize> {
    let mut at = 1;
    loop {
        at += rest.get(at..)?.iter().position(|b| *b == quote)? + 1;
        if rest.get(at) != Some(&quote) {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<(TokenKind, &str)> {
        let seen = |t: &Token| !matches!(t.kind, TokenKind::Blank);
        Tokens::new(text, 0).filter(seen).map(|t| (t.kind, &text[t.start..t.end])).collect()
    }

    #[test]
    fn quotes_and_comments_hide_what_is_in_them() {
        use TokenKind::*;
        let text = "SELECT 'a;''?' , [b;] -- ?;\n\"x\"\"y\" /* ; \n? */ ?;é`;`";
        let expected = [
            (Word, "SELECT"),
            (Quoted, "'a;''?'"),
            (Other, ","),
            (Quoted, "[b;]"),
            (Comment, "-- ?;"),
            (Line, "\n"),
            (Quoted, "\"x\"\"y\""),
            (Comment, "/* ; \n? */"),
            (Mark, "?"),
            (Semicolon, ";"),
            (Word, "é"),
            (Quoted, "`;`"),
        ];
        assert_eq!(words(text), expected);
    }

    #[test]
    fn what_is_not_closed_says_so() {
        for text in ["'", "'a''", "\"x", "`", "[a", "/*", "/*/", "/* *"] {
            let tokens: Vec<Token> = Tokens::new(text, 0).collect();
            assert!(tokens.len() == 1 && !tokens[0].closed, "{text}");
        }
        assert!(Tokens::new("'' -- no end", 0).all(|t| t.closed));
    }

    proptest! {
        #[test]
        fn tokens_are_the_whole_text(text in "[-a;?'\"`\\[\\]/*\n é\r]{0,40}") {
            let joined: String = Tokens::new(&text, 0).map(|t| &text[t.start..t.end]).collect();
            prop_assert_eq!(joined, text.clone());
        }
    }
}
