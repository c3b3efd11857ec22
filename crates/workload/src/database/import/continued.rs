//! Statements of several lines: where the next line goes on with what the one before began.

use crate::database::tokens::{LastEnds, Token, TokenKind, Tokens};

/// Words that no statement begins with.
const NO_BEGINNING: &str = " AND AS BETWEEN COLLATE CROSS ELSE EXCEPT FROM FULL GROUP HAVING IN INNER INTERSECT INTO \
    IS JOIN LEFT LIKE LIMIT NATURAL NOT OFFSET ON OR ORDER OUTER RETURNING RIGHT SET THEN UNION USING WHEN WHERE ";
/// Words that no statement ends with.
const NO_END: &str = " ALL AND AS BETWEEN BY COLLATE ELSE EXCEPT FROM GROUP HAVING IN INTERSECT INTO IS JOIN LIKE \
    LIMIT NOT OFFSET ON OR ORDER SET THEN UNION USING VALUES WHEN WHERE ";

/// What is known of a statement that may not be whole yet.
#[derive(Debug, Default)]
pub(super) struct Continued {
    open: u32,
    first: String,
    last: String,
    words: u32,
    /// Whether one of SELECT, VALUES, INSERT, UPDATE, DELETE was there after the first word, outside parentheses.
    verb: bool,
}

/// The next token that is no blank and no comment. It is looked for once, not anew at the end of each line before it.
#[derive(Debug)]
pub(super) struct Ahead<'a> {
    text: &'a str,
    ends: LastEnds,
    found: Option<Option<Token>>,
}

impl<'a> Ahead<'a> {
    pub fn new(text: &'a str, ends: LastEnds) -> Self {
        Ahead { text, ends, found: None }
    }

    /// The one from the byte `at` on, which never decreases.
    fn from(&mut self, at: usize) -> Option<Token> {
        let whole = |t: &Token| !matches!(t.kind, TokenKind::Blank | TokenKind::Line | TokenKind::Comment);
        if self.found.is_none_or(|found| found.is_some_and(|token| token.start < at)) {
            self.found = Some(Tokens::with(self.text, at, self.ends).find(whole));
        }
        self.found.flatten()
    }
}

fn listed(list: &str, word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase()) && list.contains(&format!(" {word} "))
}

impl Continued {
    /// The statement's next token, which is no blank and no comment.
    pub fn word(&mut self, kind: TokenKind, text: &str) {
        match text {
            "(" if kind == TokenKind::Other => self.open += 1,
            ")" if kind == TokenKind::Other => self.open = self.open.saturating_sub(1),
            _ => {}
        }
        let word = if kind == TokenKind::Quoted { String::new() } else { text.to_ascii_uppercase() };
        self.words += 1;
        match self.words {
            1 => self.first = word.clone(),
            _ if self.open == 0 => {
                self.verb |= ["SELECT", "VALUES", "INSERT", "UPDATE", "DELETE", "DEFAULT"].contains(&word.as_str());
            }
            _ => {}
        }
        self.last = word;
    }

    /// Whether the text behind the line, which ends at the byte `end`, goes on with this statement.
    pub fn goes_on(&self, ahead: &mut Ahead<'_>, end: usize) -> bool {
        let Some(next) = ahead.from(end) else { return false };
        if self.open > 0 {
            return true;
        }
        let text = &ahead.text[next.start..next.end];
        let word = text.to_ascii_uppercase();
        let operator = |word: &str| [",", "(", "=", "<", ">", "+", "*", "/", "|", "%", "."].contains(&word);
        let ends_early = listed(NO_END, &self.last) || (operator(&self.last) && self.last != "*");
        let begins_late = match next.kind {
            TokenKind::Word => listed(NO_BEGINNING, &word),
            TokenKind::Other => operator(text) || text == ")",
            _ => false,
        };
        // What these begin with is followed by what could stand alone.
        let takes = match self.first.as_str() {
            _ if self.verb => "",
            "SELECT" if self.words == 1 => return next.kind != TokenKind::Semicolon,
            "WITH" => " SELECT INSERT UPDATE DELETE REPLACE VALUES ",
            "INSERT" | "REPLACE" => " SELECT VALUES WITH DEFAULT ",
            _ => "",
        };
        ends_early || begins_late || listed(takes, &word)
    }
}
