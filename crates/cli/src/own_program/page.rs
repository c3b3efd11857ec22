//! What the page of a program's own run shows: its sentence, its figures and its tables, as parts of a study.

use pocketstone_study::results::stats::Spread;
use pocketstone_study::specification::factor::{self, Kind};

/// A file's name as the program knows it: from its folder on, and what its output is written to.
const FILE: &str = "CASE WHEN file IS NULL THEN 'unnamed' WHEN file LIKE '%/command-output' THEN 'its output' \
    WHEN instr(file, '/pocketstone-files/') > 0 THEN substr(file, instr(file, '/pocketstone-files/') + 19) \
    ELSE file END";

/// The numbers of the sentence that its page opens with: name, unit, SQL. With several points (settings), some have
/// none, and so it is where runs use several cores at once.
const VALUES: [(&str, &str, &str); 10] = [
    ("least", "nanoseconds", "SELECT min(median) FROM summary WHERE metric = 'total_ns'"),
    ("most", "nanoseconds", "SELECT iif(count(*) > 1, max(median), NULL) FROM summary WHERE metric = 'total_ns'"),
    (
        "on-core",
        "nanoseconds",
        "SELECT iif(count(*) = 1 AND c.median <= t.median, c.median, NULL) FROM summary c \
         JOIN summary t ON t.metric = 'total_ns' WHERE c.metric = 'on_core_ns'",
    ),
    (
        "waiting",
        "nanoseconds",
        "SELECT iif(count(*) = 1 AND c.median <= t.median, t.median - c.median, NULL) FROM summary c \
         JOIN summary t ON t.metric = 'total_ns' WHERE c.metric = 'on_core_ns'",
    ),
    (
        "on-cores",
        "nanoseconds",
        "SELECT iif(count(*) = 1 AND c.median > t.median, c.median, NULL) FROM summary c \
         JOIN summary t ON t.metric = 'total_ns' WHERE c.metric = 'on_core_ns'",
    ),
    (
        "on-core-least",
        "nanoseconds",
        "SELECT iif(count(*) > 1, min(median), NULL) FROM summary WHERE metric = 'on_core_ns'",
    ),
    (
        "on-core-most",
        "nanoseconds",
        "SELECT iif(count(*) > 1, max(median), NULL) FROM summary WHERE metric = 'on_core_ns'",
    ),
    ("senses", "number", "SELECT iif(count(*) = 1, max(median), NULL) FROM summary WHERE metric = 'page_senses'"),
    ("programs", "number", "SELECT iif(count(*) = 1, max(median), NULL) FROM summary WHERE metric = 'page_programs'"),
    ("erases", "number", "SELECT iif(count(*) = 1, max(median), NULL) FROM summary WHERE metric = 'block_erases'"),
];

/// The parts of that sentence that are said where a run has their numbers.
const MORE: [&str; 6] = [
    " with the fastest setting and {value:most} with the slowest",
    ": {value:on-core} on a core and {value:waiting} waiting",
    ", in which its processes spend {value:on-cores} on cores",
    "; {value:on-core-least} to {value:on-core-most} of it are on a core",
    "; the flash chip reads {value:senses} pages, programs {value:programs} and erases {value:erases} blocks",
    ".",
];

/// The parts of the study, where these factors have several values each, and each point so many seeds.
pub fn parts(varied: &[&str], repetitions: u32) -> toml::Table {
    let values = VALUES.iter().map(|&(name, unit, value)| {
        let texts = [("name", name), ("unit", unit), ("value", value)];
        texts.into_iter().map(|(key, text)| (key.to_owned(), text.into())).collect::<toml::Table>()
    });
    let mut text = toml::Table::new();
    text.insert("value".into(), values.map(toml::Value::from).collect::<Vec<_>>().into());
    let mut answer = toml::Table::new();
    answer.insert("text".into(), "A run takes {value:least} from start to end".into());
    answer.insert("more".into(), MORE.map(toml::Value::from).to_vec().into());
    answer.insert("figure".into(), "time".into());
    text.insert("answer".into(), answer.into());
    text.insert("chart".into(), vec![toml::Value::from(time(varied)), toml::Value::from(flash(varied))].into());
    text.insert(
        "table".into(),
        vec![
            toml::Value::from(took(varied, repetitions)),
            toml::Value::from(files_used(varied)),
            toml::Value::from(output(varied)),
        ]
        .into(),
    );
    text
}

/// Factors as columns with names in words, and as terms to order by, each with its comma; `of` is what stands before
/// their names.
fn columns(varied: &[&str], of: &str) -> [String; 2] {
    let column = |name: &&str| format!("{of}{name} AS \"{}\", ", name.replace('_', " "));
    [varied.iter().map(column).collect(), varied.iter().map(|name| format!("{of}{name}, ")).collect()]
}

/// The name of a point in a figure: the values of the factors that vary, or the volume.
fn place(varied: &[&str]) -> String {
    let in_bytes = |name: &str| factor::named(name).is_ok_and(|factor| matches!(factor.kind, Kind::Bytes));
    let value = |name: &&str| match in_bytes(name) {
        true => format!("iif(s.{name} >= 1024 AND s.{name} % 1024 = 0, (s.{name} / 1024) || ' KiB', s.{name})"),
        false => format!("s.{name}"),
    };
    let value = |name: &&str| format!("coalesce({}, 'none')", value(name));
    match varied {
        [] => "s.file_system".to_owned(),
        varied => varied.iter().map(value).collect::<Vec<_>>().join(" || ' ' || "),
    }
}

/// What the time of the runs went to.
fn time(varied: &[&str]) -> toml::Table {
    let (place, [_, order]) = (place(varied), columns(varied, "s."));
    let same: String = varied.iter().map(|name| format!(" AND c.{name} IS s.{name}")).collect();
    let caption = "Medians over the seeds of runs that were not traced. On a core is the time of all processes that \
        the command started, at most that of the run; the rest is spent waiting: for devices, for a core, or asleep.";
    let query = format!(
        "SELECT p.part AS series, {place} AS x, \
         iif(p.part = 'on a core', min(c.median, s.median), max(s.median - c.median, 0)) AS y \
         FROM summary s JOIN summary c ON c.metric = 'on_core_ns'{same} \
         JOIN (SELECT 'on a core' AS part UNION ALL SELECT 'waiting') p \
         WHERE s.metric = 'total_ns' ORDER BY {order}p.part"
    );
    chart("time", "Where the time of a run goes", caption, ("time", "duration"), query)
}

/// The flash operations of the runs.
fn flash(varied: &[&str]) -> toml::Table {
    let (place, [_, order]) = (place(varied), columns(varied, "s."));
    let query = format!(
        "SELECT o.what AS series, {place} AS x, s.median AS y FROM summary s \
         JOIN (SELECT 1 AS n, 'page_senses' AS metric, 'page senses' AS what \
         UNION ALL SELECT 2, 'page_programs', 'page programs' \
         UNION ALL SELECT 3, 'block_erases', 'block erases') o USING (metric) \
         WHERE s.median > 0 ORDER BY {order}o.n"
    );
    let caption = "Of a traced run, with all processes that the command started.";
    chart("flash", "Flash operations of a run", caption, ("operations", "linear"), query)
}

fn chart(name: &str, title: &str, caption: &str, (label, scale): (&str, &str), query: String) -> toml::Table {
    let mut chart = table(name, title, caption, query);
    chart.insert("kind".into(), "stacked-bars".into());
    let axis = |texts: &[(&str, &str)]| -> toml::Table {
        texts.iter().map(|&(key, text)| (key.to_owned(), text.into())).collect()
    };
    chart.insert("x".into(), axis(&[("label", "")]).into());
    chart.insert("y".into(), axis(&[("label", label), ("scale", scale)]).into());
    chart
}

/// 20 ticks of a kernel that has 100 in a second.
const ENOUGH_TICKS_NS: u64 = 200_000_000;

/// What the runs took: a line for each quantity that was measured. Time in the kernel is a share that the clock's ticks
/// found there, which says nothing of a run of some ticks.
fn took(varied: &[&str], repetitions: u32) -> toml::Table {
    let [columns, order] = columns(varied, "");
    let ends = ends(repetitions);
    let same: String = varied.iter().map(|name| format!(" AND c.{name} IS s.{name}")).collect();
    let mut took = table(
        "took",
        "What it took",
        "Medians over the seeds. Times are those of runs that were not traced; calls, pages, requests and flash \
         operations are those of a traced one, with all processes that the command started.",
        format!(
            "WITH shown(place, metric, what) AS (VALUES \
             (1, 'total_ns', 'from start to end'), \
             (2, 'on_core_ns', 'time on a core'), \
             (3, 'kernel_ns', 'of it in the kernel'), \
             (4, 'io_ns', 'time in calls that read, write or sync'), \
             (5, 'reads', 'read calls'), (6, 'read_bytes', 'bytes read'), \
             (7, 'writes', 'write calls'), (8, 'written_bytes', 'bytes written'), \
             (9, 'syncs', 'sync calls'), (10, 'cache_misses', 'page-cache misses, pages'), \
             (11, 'major_faults', 'major page faults'), \
             (12, 'block_reads', 'block requests that read'), \
             (13, 'block_writes', 'block requests that write or flush'), \
             (14, 'page_senses', 'flash page senses'), \
             (15, 'page_programs', 'flash page programs'), \
             (16, 'block_erases', 'flash block erases'), \
             (17, 'energy_uj', 'energy'), \
             (18, 'active_energy_uj', 'energy less idle')) \
             SELECT {columns}what AS quantity, written(median, d.unit) AS median, {ends}n AS runs \
             FROM shown JOIN summary s USING (metric) JOIN metric_definition d ON d.name = metric \
             WHERE metric <> 'kernel_ns' OR EXISTS \
             (SELECT 1 FROM summary c WHERE c.metric = 'on_core_ns' AND c.median >= {ENOUGH_TICKS_NS}{same}) \
             ORDER BY {order}place"
        ),
    );
    took.insert("replaces_results".into(), true.into());
    took
}

/// The column of what stands beside a median, with its comma. Its head says what that is of a point all of whose runs
/// have ended well; others say it themselves.
fn ends(repetitions: u32) -> String {
    let whole = Spread::known(repetitions as usize, 0.0, 0.0).name();
    whole.map_or(String::new(), |whole| {
        format!(
            "iif(low = high OR spread_name(n) IS NULL, '', written(low, d.unit) || ' to ' || written(high, d.unit) || \
             iif(n = {repetitions}, '', ' (' || spread_name(n) || ')')) AS \"{whole}\", "
        )
    })
}

/// Which files the calls of the first seed's traced run were on.
fn files_used(varied: &[&str]) -> toml::Table {
    let [columns, order] = columns(varied, "c.");
    table(
        "files",
        "Its files",
        "Calls by file in the traced run, those with the most time first; 20 at most for each point. Files whose name \
         the trace does not have are one line.",
        format!(
            "WITH ranked AS (SELECT f.*, row_number() OVER (PARTITION BY cell ORDER BY \
             read_ns + write_ns + sync_ns DESC, coalesce(cache_misses, 0) DESC, file) AS place FROM file_cost f) \
             SELECT {columns}{FILE} AS file, reads, written(read_bytes, 'bytes') AS \"bytes read\", \
             writes, written(written_bytes, 'bytes') AS \"bytes written\", syncs, \
             written(read_ns + write_ns + sync_ns, 'ns') AS \"time in them\", \
             cache_misses AS \"cache misses\" \
             FROM ranked JOIN cells c ON c.id = cell WHERE place <= 20 AND c.repetition = 0 ORDER BY {order}place"
        ),
    )
}

/// The end of what it wrote.
fn output(varied: &[&str]) -> toml::Table {
    let [columns, _] = columns(varied, "c.");
    table(
        "output",
        "Its output",
        "The end of what it wrote to standard output and standard error with the first seed; the results have up to \
         64 KiB of each run.",
        format!(
            "SELECT {columns}c.seed, rtrim(substr(outcome ->> '$.command.output', -400), char(10)) AS output \
             FROM cells c JOIN cell USING (id) WHERE c.repetition = 0 AND NOT c.traced AND output <> '' ORDER BY c.id"
        ),
    )
}

fn table(name: &str, title: &str, caption: &str, query: String) -> toml::Table {
    let texts =
        [("name", name.to_owned()), ("title", title.to_owned()), ("caption", caption.to_owned()), ("query", query)];
    texts.into_iter().map(|(key, text)| (key.to_owned(), text.into())).collect()
}
