//! Values that a log has for the `?` of its statements.

use crate::database::tokens::{TokenKind, Tokens};
use crate::database::trace::Value;

/// A value of a log.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Bound {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

impl Bound {
    /// The value as a trace takes it.
    pub fn value(&self) -> Value<'_> {
        match self {
            Bound::Null => Value::Null,
            Bound::Integer(n) => Value::Integer(*n),
            Bound::Real(x) => Value::Real(*x),
            Bound::Text(text) => Value::Text(text),
            Bound::Blob(bytes) => Value::Blob(bytes),
        }
    }

    /// A word as SQL and Android's logs write it; `None` for what is no value.
    fn word(word: &str) -> Option<Self> {
        let hexadecimal = || {
            let digits = word.strip_prefix(['x', 'X'])?.strip_prefix('\'')?.strip_suffix('\'')?;
            let byte = |n| u8::from_str_radix(digits.get(2 * n..2 * n + 2)?, 16).ok();
            (digits.len() % 2 == 0).then(|| (0..digits.len() / 2).map(byte).collect::<Option<Vec<u8>>>())?
        };
        match word.to_ascii_lowercase().as_str() {
            "null" | "none" => Some(Bound::Null),
            "true" => Some(Bound::Integer(1)),
            "false" => Some(Bound::Integer(0)),
            _ => word
                .parse()
                .map(Bound::Integer)
                .ok()
                .or_else(|| hexadecimal().map(Bound::Blob))
                .or_else(|| word.parse().ok().filter(|x: &f64| x.is_finite()).map(Bound::Real)),
        }
    }
}

/// How many values a statement takes.
pub(super) fn marks(sql: &str) -> Result<usize, String> {
    let mut tokens = Tokens::new(sql, 0).peekable();
    let mut count = 0;
    while let Some(token) = tokens.next() {
        if token.kind == TokenKind::Mark {
            count += 1;
            let numbered = |b: u8| b.is_ascii_digit();
            if tokens.peek().is_some_and(|next| sql.as_bytes().get(next.start).copied().is_some_and(numbered)) {
                return Err("it has numbered parameters, such as `?1`: only `?` is supported".into());
            }
        }
    }
    Ok(count)
}

/// The list of values in a comment behind a statement, `-- [1, 'x']` or with a word before it, such as
/// `-- args: (1, 'x')`.
pub(super) fn in_comment(comment: &str) -> Option<&str> {
    let text = comment.strip_prefix("--").or_else(|| comment.strip_prefix("/*")?.strip_suffix("*/"))?.trim();
    let list = text.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_:= ".contains(c));
    let within = |open: char, close: char| list.starts_with(open) && list.ends_with(close);
    (within('[', ']') || within('(', ')')).then_some(list)
}

/// Reads a list of values in brackets: SQL's literals, and texts in `"`, whose quotes are not doubled.
pub(super) fn read(list: &str) -> Result<Vec<Bound>, String> {
    let wrong = || format!("`{list}` is not a list of values");
    let mut rest = list.get(1..list.len().saturating_sub(1)).ok_or_else(wrong)?.trim();
    let mut values = Vec::new();
    while !rest.is_empty() {
        let (value, length) = match rest.as_bytes()[0] {
            b'\'' => {
                let token = Tokens::new(rest, 0).next().filter(|t| t.closed).ok_or_else(wrong)?;
                (Bound::Text(rest[1..token.end - 1].replace("''", "'")), token.end)
            }
            b'"' => {
                // Android doubles nothing: the text ends where the next value begins, or the list.
                let end = rest[1..].find("\", ").map(|n| n + 1).or_else(|| rest.len().checked_sub(1));
                let end = end.filter(|end| *end > 0 && rest.as_bytes()[*end] == b'"').ok_or_else(wrong)?;
                (Bound::Text(rest[1..end].to_owned()), end + 1)
            }
            _ => {
                let end = rest.find(',').unwrap_or(rest.len());
                let word = rest[..end].trim_end();
                let value = Bound::word(word).ok_or_else(|| format!("`{word}` is not a value"))?;
                (value, end)
            }
        };
        values.push(value);
        rest = rest[length..].trim_start();
        match rest.strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None if rest.is_empty() => {}
            // Python's tuple of one has a comma, and nothing else does without.
            None => return Err(wrong()),
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_hold_what_sql_and_android_write() {
        let expected = vec![
            Bound::Integer(-7),
            Bound::Real(0.5),
            Bound::Null,
            Bound::Text("it's, x".into()),
            Bound::Blob(vec![0xca, 0xfe]),
        ];
        assert_eq!(read("[-7, 0.5, NULL, 'it''s, x', x'cafe']").unwrap(), expected);
        let expected = vec![Bound::Text("a \"b\" c".into()), Bound::Integer(5), Bound::Null, Bound::Text("".into())];
        assert_eq!(read("[\"a \"b\" c\", 5, null, \"\"]").unwrap(), expected);
        assert_eq!(read("(1,)").unwrap(), [Bound::Integer(1)]);
        assert_eq!(read("[]").unwrap(), []);
        for wrong in ["[1 2]", "['x]", "[<byte[]>]", "[\"]", "["] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_comment_may_hold_values() {
        assert_eq!(in_comment("-- [1]"), Some("[1]"));
        assert_eq!(in_comment("-- args: (1, 2) "), Some("(1, 2)"));
        assert_eq!(in_comment("/* params = [1] */"), Some("[1]"));
        assert_eq!(in_comment("-- see [1] there"), None);
        assert_eq!((marks("SELECT '?', ?, ? -- ?"), marks("SELECT ?1").is_err()), (Ok(2), true));
    }
}
