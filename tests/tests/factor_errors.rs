//! Wrong values of factors as the command refuses them: which are wrong is tested beside the factors.

use pocketstone_tests::command::{changed, lab, write};

const STUDY: &str = "title = 't'\nboard = 'host'\n[[experiment]]\nname = 'e'\n[experiment.factors]\n\
                     workload = 'iozone'\nfile_system = 'scmfs'\nfile_bytes = '1MiB'\nrequest_bytes = '64KiB'\n";

/// One that is no value, one that does not fit another one, and one that does not fit the volume.
#[test]
fn a_wrong_value_is_refused_before_anything_runs() {
    let home = tempfile::tempdir().expect("a temporary folder");
    for (wrong, place, words) in [
        ("pass = 'sideways'", "s.toml:10:8", ["pass", "rewrite"]),
        ("request_bytes = '3KiB'", "s.toml:9:17", ["request_bytes", "from 4096 (4 KiB)"]),
        ("direct = true", "s.toml:10:10", ["direct", "set file_system = \"ext4\""]),
    ] {
        let text = match wrong.starts_with("request_bytes") {
            true => changed(STUDY, "request_bytes = '64KiB'", wrong),
            false => format!("{STUDY}{wrong}\n"),
        };
        write(home.path(), "s.toml", &text);
        for words_of_run in [&["--dry-run"][..], &["--output", "out"]] {
            let refused = lab(home.path(), &[&["run", "s.toml"], words_of_run].concat()).ends_with(1);
            refused.complains(&[place, words[0], words[1]]);
        }
        assert!(!home.path().join("out").exists(), "{wrong}");
    }
}

/// A processor that no profile describes: the study is valid, and its run is refused before anything is measured.
#[test]
fn a_processor_without_a_profile_is_refused_with_those_that_have_one() {
    let home = tempfile::tempdir().expect("a temporary folder");
    write(home.path(), "s.toml", &format!("{STUDY}tlb = 'z80'\n"));
    let refused = lab(home.path(), &["run", "s.toml", "--output", "out"]).ends_with(1);
    refused.complains(&["z80", "cortex-a15", "s.toml:10:"]);
}
