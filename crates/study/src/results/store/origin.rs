//! Where what a query gives comes from: each value of a metric says it when it is read, and so does every table that
//! holds values of one kind alone. Nothing depends on the text of a query, or on what an author has to remember: one
//! that goes around what notes the values of metrics is refused.

use super::Store;
use super::functions;
use super::schema::Names;
use crate::specification::metric;
use pocketstone_core::Result;
use pocketstone_core::origin::Origin;
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// What the rows of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// Measured, all of them.
    Measured,
    /// A model's, all of them.
    Modelled,
    /// What the definition of their metric says; such tables are read only through views that note it ([`noting`]).
    AsMetric,
    /// Which cells, devices and the like there are: no numbers that anybody measured.
    Names,
}

/// What each table of the results holds.
pub(super) const TABLES: [(&str, Holds); 20] = [
    ("run", Holds::Names),
    ("cell", Holds::Names),
    ("left_out", Holds::Names),
    ("metric_definition", Holds::Names),
    ("statement", Holds::Names),
    ("call", Holds::Measured),
    ("event_log", Holds::Measured),
    ("operation_cost", Holds::Measured),
    ("file_cost", Holds::Measured),
    ("flash_op", Holds::Measured),
    ("block_request", Holds::Measured),
    ("metric", Holds::AsMetric),
    ("statistic", Holds::AsMetric),
    ("comparison", Holds::AsMetric),
    ("replay", Holds::Modelled),
    ("replay_metric", Holds::Modelled),
    ("replay_front", Holds::Modelled),
    ("replay_statistic", Holds::Modelled),
    ("validation", Holds::Modelled),
    ("read_ahead_model", Holds::Modelled),
];

/// What the names of the views begin with that note the values of a table. Queries read them by the table's name,
/// which is a view over them: a query may well have a table of that name in its WITH.
const NOTING: &str = "noting_";

const MEASURED: u8 = 1;
const MODELLED: u8 = 2;

/// What has been read since it was cleared last.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen(Arc<AtomicU8>);

impl Seen {
    fn note(&self, origin: Origin) {
        let bit = if origin == Origin::Modelled { MODELLED } else { MEASURED };
        self.0.fetch_or(bit, Ordering::Relaxed);
    }

    fn origin(&self) -> Origin {
        match self.0.load(Ordering::Relaxed) {
            MODELLED => Origin::Modelled,
            bits if bits == MEASURED | MODELLED => Origin::Both,
            _ => Origin::Measured,
        }
    }
}

/// Gives this connection what queries of studies use beside the tables: functions, and views over the tables of
/// metrics, whose values note where they come from. The other views are made again on top of them.
pub(super) fn watch(db: &Connection, names: &Names, views: &str) -> rusqlite::Result<Seen> {
    functions::add(db)?;
    let seen = Seen::default();
    let noted = seen.clone();
    db.create_scalar_function("noted", 2, FunctionFlags::SQLITE_UTF8, move |values| {
        let name: String = values.get(1)?;
        // A metric that is not known any more was one of the first versions, and measured.
        noted.note(metric::named(&name).map_or(Origin::Measured, metric::Metric::origin));
        values.get::<Value>(0)
    })?;
    db.execute_batch(&format!(
        "{} {} {} {}",
        noting("metric", "cell, name, noted(value, name) AS value", "main.metric"),
        noting("statistic", SUMMARY, names.statistic),
        noting("comparison", SUMMARY, names.comparison),
        views.replace("CREATE VIEW", "CREATE TEMP VIEW")
    ))?;
    Ok(seen)
}

/// The columns of a view that notes summaries of metrics.
const SUMMARY: &str = "experiment, point, metric, n, noted(median, metric) AS median, noted(mean, metric) AS mean, \
    noted(low, metric) AS low, noted(high, metric) AS high, coverage";

/// What makes the views through which queries read a table of metrics by its name.
fn noting(name: &str, columns: &str, table: &str) -> String {
    format!(
        "CREATE TEMP VIEW {NOTING}{name} AS SELECT {columns} FROM {table};
         CREATE TEMP VIEW {name} AS SELECT * FROM {NOTING}{name};"
    )
}

/// Whether a query reads a table of metrics without noting its values, as `main.metric` or `main.summary`.
fn goes_around(context: &AuthContext<'_>, table: &str, column: &str) -> bool {
    let noted = context.accessor.and_then(|view| view.strip_prefix(NOTING)) == Some(table);
    // The views themselves are in `temp`. Rows that are only counted have no column, and nothing to note.
    context.database_name == Some("main") && !column.is_empty() && !noted
}

impl Store {
    /// What `ask` gives, and where the values come from that its queries read.
    ///
    /// # Errors
    /// The `Error` of `ask`, whatever its kind; a query that goes around the noting of values is refused.
    pub(crate) fn with_origin<T>(&self, ask: impl FnOnce(&Store) -> Result<T>) -> Result<(T, Origin)> {
        self.seen.0.store(0, Ordering::Relaxed);
        let seen = self.seen.clone();
        self.db.authorizer(Some(move |context: AuthContext<'_>| {
            if let AuthAction::Read { table_name, column_name } = context.action {
                match TABLES.iter().find(|(name, _)| *name == table_name).map(|(_, holds)| holds) {
                    Some(Holds::AsMetric) if goes_around(&context, table_name, column_name) => {
                        return Authorization::Deny;
                    }
                    Some(Holds::Measured) => seen.note(Origin::Measured),
                    Some(Holds::Modelled) => seen.note(Origin::Modelled),
                    Some(Holds::AsMetric | Holds::Names) | None => {}
                }
            }
            Authorization::Allow
        }));
        let given = ask(self);
        self.db.authorizer(None::<fn(AuthContext<'_>) -> Authorization>);
        Ok((given?, self.seen.origin()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results with a measured and a modelled metric of one cell.
    fn store(folder: &std::path::Path) -> Store {
        let store = Store::create(folder, []).unwrap();
        let rows = ["total_ns", "modelled_energy_mj"].map(|metric| {
            format!(
                "INSERT INTO main.metric VALUES (1, '{metric}', 4.0);
                 INSERT INTO main.statistic VALUES ('e', '{{}}', '{metric}', 1, 4.0, 4.0, 4.0, 4.0, NULL);
                 INSERT INTO main.comparison VALUES ('e', '{{}}', '{metric}', 1, 0.5, 0.5, 0.5, 0.5, NULL);"
            )
        });
        let cell = "INSERT INTO cell VALUES (1, 'e', '{}', 0, 1, 0, 'done', '{}', NULL, NULL, 1.0, NULL, NULL, NULL);
            INSERT INTO read_ahead_model VALUES ('rules', 1, '6.1', 16, 0, NULL, 4e6, 0.5, 0.5);";
        store.db.execute_batch(&format!("{cell}{}{}", rows[0], rows[1])).unwrap();
        store
    }

    #[test]
    fn a_value_says_where_it_comes_from_whatever_the_query_looks_like() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let modelled = "'model' || 'led_energy_mj'";
        for (query, origin) in [
            ("SELECT median FROM summary WHERE metric = 'total_ns'", Origin::Measured),
            ("SELECT median, 'modelled_energy_mj' FROM summary WHERE metric = 'total_ns'", Origin::Measured),
            ("SELECT count(*) FROM cells", Origin::Measured),
            ("SELECT 'a replay', 1", Origin::Measured),
            ("SELECT avg(time_saving) FROM read_ahead_models", Origin::Modelled),
            ("SELECT min(n) FROM (SELECT max(page_reads) AS n FROM read_ahead_model GROUP BY cell)", Origin::Modelled),
            ("SELECT avg(abs(error)) FROM validation", Origin::Modelled),
            ("SELECT median FROM replay_summary", Origin::Modelled),
            ("SELECT median FROM improvement WHERE metric = 'modelled_energy_mj'", Origin::Modelled),
            (&format!("SELECT median FROM improvement WHERE metric = {modelled}"), Origin::Modelled),
            (&format!("SELECT max(value) FROM metric WHERE name = {modelled}"), Origin::Modelled),
            (
                &format!("WITH s AS (SELECT * FROM statistic) SELECT low FROM s WHERE metric = {modelled}"),
                Origin::Modelled,
            ),
            ("SELECT sum(median) FROM summary", Origin::Both),
            ("SELECT (SELECT max(median) FROM summary) / value FROM metric", Origin::Both),
            (
                "SELECT total_ns / value FROM read_ahead_models JOIN metric USING (cell) WHERE name = 'total_ns'",
                Origin::Both,
            ),
            ("WITH metric AS (SELECT * FROM temp.metric) SELECT max(value) FROM metric", Origin::Both),
            ("SELECT count(*) FROM metric", Origin::Measured),
            ("SELECT count(*) FROM main.metric", Origin::Measured),
        ] {
            let (_, found) = store.with_origin(|store| store.table(query)).unwrap();
            assert_eq!(found, origin, "{query}");
        }
        assert!(store.with_origin(|store| store.table("SELECT nonsense")).is_err());
        // Looking at a query leaves nothing behind.
        assert!(store.table("SELECT count(*) FROM replay").is_ok());
    }

    #[test]
    fn a_query_that_would_hide_where_its_values_come_from_is_refused_with_what_to_write() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        for query in [
            "SELECT max(value) FROM main.metric WHERE name = 'modelled_energy_mj'",
            "WITH metric AS (SELECT * FROM main.metric) SELECT max(value) FROM metric",
            "SELECT median FROM main.statistic",
            "SELECT median FROM main.comparison",
            "SELECT median FROM main.summary",
            "SELECT median FROM main.improvement",
        ] {
            let refused = store.with_origin(|store| store.table(query)).unwrap_err();
            assert_eq!(refused.message(), "a table of metrics is read as one of `main`", "{query}");
            assert!(refused.cure().unwrap().contains("leave out `main.`"), "{query}");
        }
    }

    #[test]
    fn it_is_known_of_every_table_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let sql = "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY 1";
        let there: Vec<String> = store(folder.path()).rows(sql, [], |r| r.get(0)).unwrap();
        let mut listed = TABLES.map(|(name, _)| name);
        listed.sort_unstable();
        assert_eq!(there, listed);
    }

    /// What the program `sqlite3` shows of results has a column for it.
    #[test]
    fn rows_of_summaries_say_their_origin() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        for view in ["summary", "improvement"] {
            let sql = format!("SELECT metric, origin FROM main.{view} ORDER BY metric");
            let rows = store.rows(&sql, [], |r| Ok((r.get::<_, String>(0)?, r.get::<_, String>(1)?))).unwrap();
            let expected = [("modelled_energy_mj", "modelled"), ("total_ns", "measured")];
            assert_eq!(rows, expected.map(|(m, o)| (m.to_owned(), o.to_owned())));
        }
    }
}
