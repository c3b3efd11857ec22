//! Statistics of a prepared workload.

use super::tokens::{TokenKind, Tokens};
use super::trace::{StatementKind, Trace};
use std::collections::BTreeMap;

/// Numbers of a prepared workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Different statements.
    pub statements: u64,
    /// Steps that load the database.
    pub loading_steps: u64,
    /// Measured operations.
    pub operations: u64,
    /// Measured steps; an operation has at least one.
    pub steps: u64,
    /// Measured steps by what they are for engines without SQL; only those that there are.
    pub kinds: Vec<(StatementKind, u64)>,
    /// Measured steps by their statement's first word in capitals, `SELECT`; by name.
    pub words: Vec<(String, u64)>,
    /// Sum of all pauses in ns.
    pub pause_ns: u64,
    /// Bytes of the database file that it starts from, 0 where there is none.
    pub image_bytes: u64,
    /// Whether engines without SQL can run it: all that its steps need but the making of the table is a
    /// key-value operation.
    pub key_value: bool,
}

impl Trace {
    /// Computes the statistics of the workload.
    pub fn summary(&self) -> Summary {
        let mut uses = vec![0u64; self.statements.len()];
        let mut summary = Summary {
            statements: self.statements.len() as u64,
            loading_steps: self.loading().len() as u64,
            operations: self.operations() as u64,
            steps: self.measured().len() as u64,
            image_bytes: self.image.len() as u64,
            ..Summary::default()
        };
        for step in self.measured() {
            uses[step.statement as usize] += 1;
            summary.pause_ns = summary.pause_ns.saturating_add(step.pause_ns);
        }
        let (mut kinds, mut words) = (BTreeMap::new(), BTreeMap::new());
        for (statement, uses) in self.statements.iter().zip(&uses).filter(|(_, uses)| **uses > 0) {
            kinds.entry(statement.kind as u16).or_insert((statement.kind, 0)).1 += uses;
            *words.entry(first_word(&statement.text)).or_insert(0) += uses;
        }
        summary.kinds = kinds.into_values().collect();
        summary.words = words.into_iter().collect();
        let is_sql = |kind: StatementKind| kind == StatementKind::Sql;
        let loads = self.loading().iter().map(|step| self.statement(step));
        summary.key_value = self.image.is_empty()
            && !summary.kinds.iter().any(|(kind, _)| is_sql(*kind))
            && loads.clone().all(|s| !is_sql(s.kind) || first_word(&s.text) == "CREATE");
        summary
    }
}

/// The first word that is no comment, in capitals.
fn first_word(text: &str) -> String {
    let word = Tokens::new(text, 0).find(|t| t.kind == TokenKind::Word);
    word.map_or_else(String::new, |t| text[t.start..t.end].to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Value;

    #[test]
    fn a_summary_counts_steps_by_kind_and_by_word() {
        let mut trace = Trace::default();
        let create = trace.add_statement("CREATE TABLE t (k)", StatementKind::Sql, 0);
        let read = trace.add_statement(" /* x */ select * from t where k = ?", StatementKind::Read, 0);
        let scan = trace.add_statement("SELECT * FROM t WHERE k > ? LIMIT ?", StatementKind::ScanAfter, 0);
        let update = trace.add_statement("UPDATE t SET k = ? WHERE k = ?", StatementKind::Update, 1);
        let one = Value::Integer(1);
        trace.load(create, &[]).unwrap();
        trace.measure(5, read, &[one], false).unwrap();
        trace.measure(7, update, &[one, one], true).unwrap();
        trace.measure(u64::MAX - 20, scan, &[one, one], false).unwrap();
        let expected = Summary {
            statements: 4,
            loading_steps: 1,
            operations: 2,
            steps: 3,
            kinds: vec![(StatementKind::Read, 1), (StatementKind::Update, 1), (StatementKind::ScanAfter, 1)],
            words: vec![("SELECT".to_owned(), 2), ("UPDATE".to_owned(), 1)],
            pause_ns: u64::MAX - 8,
            image_bytes: 0,
            key_value: true,
        };
        assert_eq!(trace.summary(), expected);
        trace.measure(0, create, &[], false).unwrap();
        assert!(!trace.summary().key_value);
    }
}
