//! Wrong values of factors: each is refused where cells are made, with the factor, its place in the study, and what it
//! may be.

use super::cell::{Cell, cells};
use super::study::Study;
use super::traces::Traces;
use pocketstone_core::Result;
use std::path::Path;

const HEAD: &str = "title = 't'\nboard = 'host'\n[[experiment]]\nname = 'e'\n[experiment.factors]\n";

/// A workload's factors, all of them right.
const BASES: [(&str, &[(&str, &str)]); 7] = [
    (
        "files",
        &[
            ("file_system", "'scmfs'"),
            ("operation", "'read'"),
            ("files", "4"),
            ("file_bytes", "'16KiB'"),
            ("request_bytes", "'4KiB'"),
            ("requests", "8"),
        ],
    ),
    ("iozone", &[("file_system", "'scmfs'"), ("file_bytes", "'1MiB'"), ("request_bytes", "'64KiB'")]),
    (
        "postmark",
        &[
            ("file_system", "'scmfs'"),
            ("phases", "'all'"),
            ("files", "4"),
            ("least_file_bytes", "'4KiB'"),
            ("file_bytes", "'16KiB'"),
            ("request_bytes", "512"),
            ("requests", "8"),
        ],
    ),
    (
        "filebench",
        &[
            ("file_system", "'scmfs'"),
            ("personality", "'varmail'"),
            ("files", "10"),
            ("file_bytes", "'16KiB'"),
            ("request_bytes", "'1MiB'"),
            ("requests", "5"),
        ],
    ),
    ("lookup", &[("file_system", "'scmfs'"), ("folder_names", "20"), ("requests", "10")]),
    ("androsh", &[("file_system", "'scmfs'"), ("script", "'copy'"), ("request_bytes", "'64KiB'")]),
    ("capacity", &[("file_system", "'scmfs'"), ("files", "5"), ("file_bytes", "'2MiB'"), ("request_bytes", "'1MiB'")]),
];

/// Workload, factor, a wrong value, what is said of the right ones, and what else has to be set for it to be wrong.
type Wrong = (&'static str, &'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

const WRONG: &[Wrong] = &[
    // Of volumes.
    ("files", "file_system", "'ntfs'", "scmfs-fuse", &[]),
    ("files", "medium", "'paper'", "hugetlbfs, anonymous, pcm", &[]),
    ("files", "medium", "'mtd'", "medium = \"tmpfs\"", &[]),
    ("files", "volume_access", "'kernel'", "\"in-process\" or \"fuse\"", &[]),
    ("files", "volume_bytes", "0", "set volume_bytes = \"1GiB\"", &[]),
    ("files", "volume_bytes", "'much'", "B, K, KiB, kB, M, MiB", &[]),
    ("files", "threshold", "'64KiB'", "never, 128KiB, 512KiB, 2MiB", &[]),
    ("files", "threshold", "'never'", "omit", &[("file_system", "'ext4'")]),
    ("files", "null_files", "-1", "at least 1, or \"none\"", &[]),
    ("files", "null_files", "'some'", "at least 1, or \"none\"", &[]),
    ("files", "null_files", "0", "at least 1, or \"none\"", &[]),
    ("files", "collector", "'maybe'", "true or false", &[]),
    ("files", "direct", "'yes'", "true or false", &[]),
    ("files", "direct", "true", "set file_system = \"ext4\"", &[]),
    ("files", "barriers", "0", "true or false", &[]),
    ("files", "barriers", "false", "set file_system = \"ext4\"", &[]),
    ("files", "pcm_read", "'fast'", "ns", &[("medium", "'pcm'")]),
    ("files", "pcm_read", "'2ms'", "at most 1000000 ns", &[("medium", "'pcm'")]),
    ("files", "pcm_write", "'2ms'", "at most 1000000 ns", &[("medium", "'pcm'")]),
    ("files", "pcm_write", "true", "a duration", &[("medium", "'pcm'")]),
    ("files", "pcm_write", "'100ns'", "medium = \"pcm\"", &[]),
    ("files", "tlb", "7", "a text, or \"default\"", &[]),
    ("files", "counters", "'some'", "true or false", &[]),
    // Of workloads.
    ("files", "workload", "'sqlite3'", "files, postmark", &[]),
    ("files", "operation", "'smell'", "read, write, append, create", &[]),
    ("files", "sync", "'later'", "none, each", &[]),
    ("files", "pattern", "'zigzag'", "sequential, random", &[]),
    ("files", "data", "'pretty'", "random, compressible", &[]),
    ("files", "files", "0", "at least 1", &[]),
    ("files", "files", "100000", "at most 512", &[]),
    ("files", "request_bytes", "0", "1 or more", &[]),
    ("files", "request_bytes", "'32KiB'", "from 1 to file_bytes", &[]),
    ("files", "requests", "0", "at least 1", &[]),
    ("files", "threads", "65", "from 1 to 64", &[]),
    ("iozone", "pass", "'sideways'", "write, rewrite, read, reread, random-read, random-write", &[]),
    ("iozone", "timed_fsync", "'maybe'", "true or false", &[]),
    ("iozone", "timed_close", "3", "true or false", &[]),
    ("iozone", "request_bytes", "'3KiB'", "from 4096 (4 KiB) to 16777216 (16 MiB)", &[]),
    ("iozone", "file_bytes", "0", "at least request_bytes", &[]),
    ("postmark", "phases", "'some'", "transactions, all", &[]),
    ("postmark", "files", "0", "at least 1", &[]),
    ("postmark", "least_file_bytes", "'32KiB'", "from 1 to file_bytes", &[]),
    ("postmark", "file_bytes", "0", "at least least_file_bytes", &[]),
    ("postmark", "file_bytes", "'8GiB'", "at most", &[]),
    ("postmark", "request_bytes", "'8KiB'", "at most 4096", &[]),
    ("postmark", "write_bytes", "0", "1 or more", &[]),
    ("postmark", "write_bytes", "'8KiB'", "at most 4096", &[]),
    ("postmark", "write_bytes", "'8KiB'", "buffered = false", &[]),
    ("postmark", "requests", "0", "at least 1", &[]),
    ("postmark", "bias_read", "11", "from 0 to 10, or \"none\"", &[]),
    ("postmark", "bias_create", "'x'", "from 0 to 10, or \"none\"", &[]),
    ("postmark", "subdirectories", "0", "at least 1", &[]),
    ("postmark", "subdirectories", "100000", "from 1 to 65536", &[]),
    ("postmark", "buffered", "'maybe'", "true or false", &[]),
    ("postmark", "buffered", "false", "set phases = \"all\"", &[("phases", "'transactions'")]),
    ("postmark", "subdirectories", "4", "is for whole runs", &[("phases", "'transactions'")]),
    ("postmark", "subdirectories", "4", "set phases = \"all\"", &[("phases", "'transactions'")]),
    ("filebench", "personality", "'mail'", "varmail, fileserver, webproxy, webserver", &[]),
    ("filebench", "distribution", "'normal'", "gamma, lognormal", &[]),
    ("filebench", "directory_width", "1", "2 or more", &[]),
    ("filebench", "files", "1000001", "from 1 to 1000000", &[]),
    ("filebench", "file_bytes", "0", "from 1 to 1048576 (1 MiB)", &[]),
    ("filebench", "request_bytes", "0", "1 or more", &[]),
    ("filebench", "requests", "10000001", "at most 10000000", &[]),
    ("filebench", "threads", "101", "from 1 to 100", &[]),
    ("filebench", "picks", "'best'", "uniform, rotating", &[]),
    ("lookup", "folder_names", "19", "from 20 to 1000000", &[]),
    ("lookup", "folder_names", "1000001", "from 20 to 1000000", &[]),
    ("lookup", "names_are", "'lost'", "cached, cold", &[]),
    ("androsh", "script", "'fly'", "sequential-write, sequential-read, random-write", &[]),
    ("androsh", "media", "'smell'", "photo, song, audio, video", &[]),
    ("androsh", "media", "'video'", "it is for copy, copy-tree, compress-one: omit it", &[("script", "'random-read'")]),
    ("androsh", "tree", "'bush'", "root, folders, nested", &[]),
    ("androsh", "tree", "'nested'", "it is for read-tree", &[]),
    ("androsh", "tree_file_bytes", "'1KiB'", "it is for read-tree", &[]),
    ("androsh", "rounds", "1001", "from 1 to 1000", &[]),
    ("androsh", "scale", "1025", "from 1 to 1024", &[]),
    ("androsh", "request_bytes", "'32KiB'", "at least 65536 (64 KiB)", &[("script", "'compress-one'")]),
    ("androsh", "request_bytes", "'128MiB'", "at most 104857600", &[("script", "'random-read'")]),
    ("capacity", "files", "10000001", "from 1 to 10000000", &[]),
    ("capacity", "file_bytes", "0", "1 or more", &[]),
    ("capacity", "request_bytes", "0", "1 or more", &[]),
];

/// The study with a wrong value, and the line that this is in.
fn study(&(workload, factor, value, _, more): &Wrong) -> (String, usize) {
    let (_, base) = BASES.iter().find(|(name, _)| *name == workload).expect("a workload");
    let workload = format!("'{workload}'");
    let mut factors = vec![("workload", workload.as_str())];
    factors.extend(base.iter().copied());
    for (name, value) in more.iter().chain(&[(factor, value)]) {
        factors.retain(|(known, _)| known != name);
        factors.push((name, value));
    }
    let lines: Vec<String> = factors.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    (format!("{HEAD}{}\n", lines.join("\n")), HEAD.lines().count() + lines.len())
}

fn made(text: &str) -> Result<Vec<Cell>> {
    let folder = tempfile::tempdir().unwrap();
    let traces = &mut Traces::new(folder.path(), Path::new("."));
    Study::parse("s.toml", text).and_then(|study| cells(&study, "host", None, true, traces))
}

#[test]
fn a_wrong_value_is_refused_with_its_factor_its_place_and_what_is_allowed() {
    for (workload, base) in BASES {
        // What is right is not refused: it is the value that is.
        let right: Vec<String> = base.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let found = made(&format!("{HEAD}workload = '{workload}'\n{}\n", right.join("\n")));
        assert!(found.is_ok_and(|cells| !cells.is_empty()), "{workload}");
    }
    let mut bad = Vec::new();
    for wrong in WRONG {
        let (text, line) = study(wrong);
        let said = match made(&text) {
            Ok(_) => "nothing".to_owned(),
            Err(error) => format!("{}\n{}", error.chain(), error.cure().unwrap_or_default()),
        };
        let (factor, allowed) = (wrong.1, wrong.3);
        if ![factor, allowed, &format!("s.toml:{line}:")].iter().all(|word| said.contains(word)) {
            bad.push(format!("{wrong:?}, line {line}: {said}"));
        }
    }
    assert!(bad.is_empty(), "{} of {} are not said well:\n{}", bad.len(), WRONG.len(), bad.join("\n"));
}
