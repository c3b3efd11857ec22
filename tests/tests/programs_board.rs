//! Programs' work on the virtual board: PostMark's transactions, an application's start, mappings, and calls that
//! prefetch, on every kind of volume that can have them.

use pocketstone_testing::{amount, or_skip};
use pocketstone_tests::command::{board, lab, write};

const STUDY: &str = r#"title = "t"
board = "virt-nand"
[[experiment]]
name = "postmark"
traced = "none"
[experiment.factors]
file_system = "jffs2"
compression = "none"
workload = "postmark"
files = 4
least_file_bytes = "200KiB"
file_bytes = "300KiB"
requests = 8
read_ahead_bytes = ["128KiB", 0]
[[experiment]]
name = "start"
[experiment.factors]
file_system = ["ubifs", "squashfs-mtdblock", "squashfs-ubiblock"]
data = "compressible"
workload = "app-start"
files = 40
libraries = 1
request_bytes = "64KiB"
[[experiment]]
name = "read"
[experiment.factors]
file_system = ["jffs2", "squashfs-ubiblock"]
compression = "none"
file_bytes = "1MiB"
pattern = "random"
requests = 16
access = ["read", "mmap"]
prefetch = ["none", "willneed"]
read_ahead_bytes = 0
"#;

#[test]
fn programs_on_the_board_repeat_to_the_bit_and_pay_for_what_they_read() {
    or_skip!(board());
    let home = tempfile::tempdir().unwrap();
    // The long tests have every image: each takes its time to be made.
    let (study, images): (_, &[&str]) = match amount(0, 1) {
        0 => (STUDY.replace("\"squashfs-mtdblock\", ", ""), &["squashfs-ubiblock"]),
        _ => (STUDY.to_owned(), &["squashfs-mtdblock", "squashfs-ubiblock"]),
    };
    write(home.path(), "study.toml", &study);
    lab(home.path(), &["run", "study.toml", "--output", "a"]).ends_with(0);
    pocketstone_tests::results::repeats(
        home.path(),
        "experiment = 'start' AND file_system = 'squashfs-ubiblock' \
         OR experiment = 'postmark' AND read_ahead_bytes = 0 OR access = 'mmap' AND prefetch = 'willneed'",
    );

    let db = pocketstone_tests::results::read(&home.path().join("a"));
    let number = |sql: &str| -> f64 { db.query_row(sql, [], |r| r.get(0)).unwrap_or_else(|e| panic!("{e}: {sql}")) };
    let postmark = |share: u32, window: u32| {
        number(&format!(
            "SELECT median FROM summary WHERE experiment = 'postmark' AND metric = 'read_{share}_bytes_per_s'
             AND read_ahead_bytes = {window}"
        ))
    };
    // A file of 50 to 75 pages of which 13 to 19 are read: windows of 4, 8, 16 and 32 pages have been fetched by then,
    // all pages or 60 of 75. Throughput without read-ahead is the same at every share.
    let lost = 1.0 - postmark(25, 131_072) / postmark(25, 0);
    assert!((0.55..=0.77).contains(&lost), "{lost}");
    let whole = postmark(100, 131_072) / postmark(100, 0);
    assert!((0.95..=1.05).contains(&whole), "{whole}");

    // The same files are opened and read in the same calls, whoever has them; nobody writes to SquashFS.
    let of = |what: &str, file_system: &str| {
        number(&format!(
            "SELECT {what} FROM cells c JOIN metric m ON m.cell = c.id
             WHERE c.experiment = 'start' AND c.file_system = '{file_system}'"
        ))
    };
    let calls = "CAST((SELECT count(*) FROM call k WHERE k.cell = min(c.id)) AS REAL)";
    let senses = "max(iif(m.name = 'page_senses', m.value, 0))";
    for file_system in images.iter().copied() {
        assert_eq!(of(calls, file_system), of(calls, "ubifs"));
        // The library of 256 pages compresses to about half, and a quarter of its pages is touched: blocks of
        // 128 KiB bring nearly all of it in, 64 flash pages or more.
        assert!(of(senses, file_system) >= 64.0, "{}", of(senses, file_system));
        assert_eq!(of("max(iif(m.name = 'page_programs', m.value, 0))", file_system), 0.0);
    }
    if images.contains(&"squashfs-mtdblock") {
        // mtdblock reads each of a page's four sectors by itself.
        let ratio = of(senses, "squashfs-mtdblock") / of(senses, "squashfs-ubiblock");
        assert!((3.0..=4.5).contains(&ratio), "{ratio}");
    }

    let read = |metric: &str, file_system: &str, access: &str, prefetch: &str| {
        number(&format!(
            "SELECT median FROM summary WHERE experiment = 'read' AND metric = '{metric}' AND access = '{access}'
             AND file_system = '{file_system}' AND prefetch = '{prefetch}'"
        ))
    };
    // On MTD without a window, WILLNEED does nothing, and a fault reads its page as read() does.
    for access in ["read", "mmap"] {
        assert_eq!(read("prefetched_pages", "jffs2", access, "willneed"), 0.0);
        let senses = |prefetch| read("page_senses", "jffs2", access, prefetch);
        assert_eq!(senses("willneed"), senses("none"));
        assert_eq!(senses("none"), read("page_senses", "jffs2", "read", "none"));
    }
    assert!(read("prefetched_pages", "squashfs-ubiblock", "read", "willneed") >= 32.0);
}
