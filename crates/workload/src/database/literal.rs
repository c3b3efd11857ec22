//! Statements as SQL text with their values in it.

use super::tokens::{TokenKind, Tokens, is_word};
use super::trace::{Step, Trace, Value};
use pocketstone_core::bytes::hexadecimal;
use std::fmt::Write;

impl Trace {
    /// A step's statement with its values as literals in the places of its `?`.
    ///
    /// A literal that would be read as one word with its neighbour is parted from it by a blank: `x-?` with -5 would
    /// begin a comment, `?AND` with 1 would be a wrong number. Quotes in texts are doubled. A number with a fraction
    /// has as many digits as bring back the same double. What SQL has no literal for is written as SQLite understands
    /// it: a text with a zero character as `CAST(x'..' AS TEXT)`, an infinite number as `9e999`, what is no number as
    /// `NULL`.
    pub fn sql(&self, step: &Step) -> String {
        let text = &self.statement(step).text;
        let mut values = self.values(step);
        if values.len() == 0 {
            return text.clone();
        }
        let mut sql = String::with_capacity(text.len() + 16 * values.len());
        let mut behind_literal = false;
        for token in Tokens::new(text, 0) {
            let value = if token.kind == TokenKind::Mark { values.next() } else { None };
            match value {
                Some(value) => {
                    if sql.bytes().next_back().is_some_and(joins_literal) {
                        sql.push(' ');
                    }
                    push_literal(&mut sql, value);
                }
                None => {
                    if behind_literal && matches!(token.kind, TokenKind::Word | TokenKind::Quoted) {
                        sql.push(' ');
                    }
                    sql.push_str(&text[token.start..token.end]);
                }
            }
            behind_literal = value.is_some();
        }
        sql
    }
}

/// Whether a literal that follows this byte could become one token with it: a word, a comment, a longer text.
fn joins_literal(last: u8) -> bool {
    is_word(last) || matches!(last, b'-' | b'\'')
}

fn push_literal(sql: &mut String, value: Value<'_>) {
    // Writing to a string does not fail.
    let _ = match value {
        Value::Null => write!(sql, "NULL"),
        Value::Integer(n) => write!(sql, "{n}"),
        Value::Real(x) if x.is_nan() => write!(sql, "NULL"),
        Value::Real(x) if x.is_infinite() => write!(sql, "{}9e999", if x < 0.0 { "-" } else { "" }),
        // The shortest digits that read back the same, with a point or an exponent.
        Value::Real(x) => write!(sql, "{x:?}"),
        Value::Text(text) if text.contains('\0') => write!(sql, "CAST(x'{}' AS TEXT)", hexadecimal(text.as_bytes())),
        Value::Text(text) => write!(sql, "'{}'", text.replace('\'', "''")),
        Value::Blob(bytes) => write!(sql, "x'{}'", hexadecimal(bytes)),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::StatementKind;
    use proptest::prelude::*;
    use rusqlite::Connection;
    use rusqlite::types::{Value as Stored, ValueRef};

    fn sql(statement: &str, values: &[Value<'_>]) -> String {
        let mut trace = Trace::default();
        let statement = trace.add_statement(statement, StatementKind::Sql, 0);
        trace.measure(0, statement, values, false).unwrap();
        trace.sql(&trace.measured()[0])
    }

    #[test]
    fn values_stand_where_the_marks_were() {
        let values = [Value::Integer(-7), Value::Text("it's ?"), Value::Real(0.1), Value::Null];
        assert_eq!(
            sql("UPDATE t SET a = ?, b=?, \"?\" = '?' || ? /* ? */ WHERE k = ?", &values),
            "UPDATE t SET a = -7, b='it''s ?', \"?\" = '?' || 0.1 /* ? */ WHERE k = NULL"
        );
        assert_eq!(sql("SELECT ?, ?", &[Value::Real(31.0)]), "SELECT 31.0, ?");
        assert_eq!(sql("SELECT ?", &[]), "SELECT ?");
    }

    #[test]
    fn a_literal_stays_apart_from_what_is_beside_it() {
        let (five, text) = (Value::Integer(-5), Value::Text("a"));
        assert_eq!(sql("SET x = x-? WHERE id = ?", &[five, Value::Integer(3)]), "SET x = x- -5 WHERE id = 3");
        assert_eq!(sql("id=?AND x<>?", &[Value::Integer(1), Value::Integer(7)]), "id=1 AND x<>7");
        assert_eq!(sql("SELECT?FROM t", &[text]), "SELECT 'a' FROM t");
        assert_eq!(sql("SELECT ?'b'", &[text]), "SELECT 'a' 'b'");
        assert_eq!(sql("'b'?", &[text]), "'b' 'a'");
        assert_eq!(sql("(?,?)-(?)||?", &[five, five, five, text]), "(-5,-5)-(-5)||'a'");
    }

    #[test]
    fn sqlite_reads_the_same_values_from_literals() {
        let database = Connection::open_in_memory().unwrap();
        let values = [
            Value::Null,
            Value::Integer(i64::MIN),
            Value::Integer(i64::MAX),
            Value::Real(f64::INFINITY),
            Value::Real(f64::NEG_INFINITY),
            Value::Real(1e300),
            Value::Real(15.0187),
            Value::Text("a\0'b"),
            Value::Text("grüße"),
            Value::Text(""),
        ];
        for value in values {
            let same = |row: &rusqlite::Row<'_>| {
                Ok(match (row.get_ref(0)?, value) {
                    (ValueRef::Null, Value::Null) => true,
                    (ValueRef::Integer(a), Value::Integer(b)) => a == b,
                    (ValueRef::Real(a), Value::Real(b)) => a == b,
                    (ValueRef::Text(a), Value::Text(b)) => a == b.as_bytes(),
                    _ => false,
                })
            };
            assert!(database.query_row(&sql("SELECT ?", &[value]), [], same).unwrap(), "{value:?}");
        }
    }

    fn a_value() -> impl Strategy<Value = Value<'static>> {
        let texts = prop::sample::select(vec!["", "-", "it's", "a\0", "--", "?"]);
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Integer),
            any::<i16>().prop_map(|n| Value::Real(f64::from(n) / 8.0)),
            texts.prop_map(Value::Text),
        ]
    }

    proptest! {
        #[test]
        fn sqlite_finds_the_same_rows_by_literals_as_by_bound_values(
            template in prop::sample::select(vec![
                "SELECT 7-?-?", "SELECT-?-? AS a", "SELECT?AS a,?b", "SELECT?'a',?\"b\"", "SELECT?BETWEEN 0 AND?",
                "SELECT CASE?WHEN?THEN 1 ELSE 2 END", "SELECT 1 WHERE?IS NOT?", "SELECT 8%?-- a\n,?/* b */",
            ]),
            values in (a_value(), a_value()),
        ) {
            let database = Connection::open_in_memory().unwrap();
            let bound = |value| match value {
                Value::Null => Stored::Null,
                Value::Integer(n) => n.into(),
                Value::Real(x) => x.into(),
                Value::Text(text) => text.to_owned().into(),
                Value::Blob(_) => unreachable!("a workload has no blobs as values"),
            };
            let rows = |text: &str, values: &[Stored]| {
                let mut statement = database.prepare(text).unwrap();
                let columns = statement.column_count();
                let row = |row: &rusqlite::Row<'_>| (0..columns).map(|n| row.get(n)).collect();
                let rows = statement.query_map(rusqlite::params_from_iter(values), row).unwrap();
                rows.collect::<rusqlite::Result<Vec<Vec<Stored>>>>().unwrap()
            };
            let literals = sql(template, &[values.0, values.1]);
            prop_assert_eq!(rows(&literals, &[]), rows(template, &[bound(values.0), bound(values.1)]), "{}", literals);
        }

        #[test]
        fn numbers_read_back_the_same_double(bits in any::<u64>()) {
            let x = f64::from_bits(bits);
            prop_assume!(x.is_finite());
            let text = sql("?", &[Value::Real(x)]);
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits);
            prop_assert!(text.contains(['.', 'e']));
        }

        #[test]
        fn a_text_is_one_quoted_token(text in "[a'?;\"-]{0,20}") {
            let literal = sql("?", &[Value::Text(&text)]);
            let tokens: Vec<_> = Tokens::new(&literal, 0).collect();
            prop_assert!(tokens.len() == 1 && tokens[0].kind == TokenKind::Quoted && tokens[0].closed);
            prop_assert_eq!(literal[1..literal.len() - 1].replace("''", "'"), text);
        }
    }
}
