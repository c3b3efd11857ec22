use super::*;

const SMALL: &str = r#"
title = "t"
board = "virt-nand"
[[experiment]]
name = "e"
[experiment.factors]
file_system = ["jffs2", "ubifs"]
bulk_read = [false, true]
file_bytes = "5MiB"
requests = [16, 64]
read_ahead_bytes = ["128KiB", 0]
[experiment.compare]
factor = "read_ahead_bytes"
baseline = "128KiB"
candidate = 0
[experiment.on.host]
file_system = "directory"
"#;

#[test]
fn a_matrix_has_every_combination_that_exists() {
    let study = Study::parse("s.toml", SMALL).unwrap();
    let points = study.experiments[0].points("virtual");
    // JFFS2 has no bulk_read: 2 requests x 2 settings x (1 + 2).
    assert_eq!(points.len(), 12);
    assert_eq!(points[0]["request_bytes"], 4096);
    // What is compared lies side by side.
    assert_eq!((&points[0]["read_ahead_bytes"], &points[1]["read_ahead_bytes"]), (&131_072.into(), &0.into()));
    assert_eq!(points[0]["requests"], points[1]["requests"]);
    let host = study.experiments[0].points("host");
    assert!(host.len() == 4 && host.iter().all(|p| p["file_system"] == "directory"));
}

#[test]
fn a_command_line_is_as_it_was_written() {
    let line = "echo {value:x} {given:y}";
    let text = format!(
        "title = '{line}'\nboard = 'host'\n[[experiment]]\nname = 'e'\n[experiment.factors]\n\
         workload = 'command'\nfile_system = 'tmpfs'\ncommand = '{line}'\n"
    );
    let study = Study::parse("s.toml", &text).unwrap();
    assert_eq!((study.title.as_str(), &study.experiments[0].points("host")[0]["command"]), (line, &line.into()));
    let named = Study::parse("s.toml", &format!("description = ['{line}']\n{text}")).unwrap_err();
    assert!(named.chain().contains("no [[value]] or [[claim]] is named `x`"), "{}", named.chain());
}

#[test]
fn mistakes_are_shown_where_they_are() {
    for (from, to, place, word) in [
        ("requests = [16", "requets = [16", "s.toml:10:1", "requets"),
        ("[16, 64]", "[16, \"x\"]", "s.toml:10:12", "number"),
        ("baseline = \"128KiB\"", "baseline = \"64KiB\"", "s.toml:14:12", "65536"),
        ("file_bytes = \"5MiB\"\n", "", "s.toml:5:8", "file_bytes"),
    ] {
        let error = Study::parse("s.toml", &SMALL.replace(from, to)).unwrap_err();
        let text = error.chain();
        assert!(text.contains(place) && text.contains(word), "{text}");
    }
    let stack = |metrics: &str| {
        let figure = "[[figure]]\nname='f'\ntitle='t'\ncaption='c'\nexperiment='e'\nshow='value'\nx='requests'\n";
        Study::parse(
            "s.toml",
            &format!(
                "title='t'\nboard='b'\n[[experiment]]\nname='e'\n[experiment.factors]\n\
            file_system='jffs2'\nfile_bytes='1MiB'\nrequests=[16, 64]\n{figure}{metrics}"
            ),
        )
    };
    stack("metric='page_senses'\nstack=['page_programs']").unwrap();
    let error = stack("metric='used_bytes'\nstack=['total_ns']").unwrap_err().chain();
    assert!(error.contains("s.toml:17:8") && error.contains("another unit than `used_bytes`"), "{error}");
    let error = Study::parse("s.toml", "title = 5").unwrap_err();
    assert!(error.chain().contains("s.toml:1:9"), "{}", error.chain());
}

#[test]
fn a_factor_that_a_workload_lacks_makes_no_points_of_it() {
    let text = "title='t'\nboard='b'\n[[experiment]]\nname='e'\n[experiment.factors]\nfile_system='jffs2'\n\
                workload=['read', 'files']\noperation=['read', 'create']\nsync=['none', 'each']\n\
                access=['read', 'mmap']\nfile_bytes=4096\nrequests=[1, 2]\n";
    let study = Study::parse("s.toml", text).unwrap();
    let points = study.experiments[0].points("virtual");
    let count = |workload: &str| points.iter().filter(|p| p["workload"] == workload).count();
    // Reads: 2 ways x 2 requests. Files: reads are never synced, so 3 combinations x 2 requests.
    assert_eq!((count("read"), count("files"), points.len()), (4, 6, 10));
    let counted: u64 = study.experiments[0].kinds_of_points("virtual").iter().map(|(_, n)| n).sum();
    assert_eq!(counted, 10);
    // Each repetition has a twin.
    assert_eq!(crate::specification::cell::count(&study, "virtual").unwrap(), 20);
}

#[test]
fn factors_that_a_kind_of_board_replaces_are_those_of_its_workloads() {
    let study = |on: &str| {
        let text = format!(
            "title='t'\nboard='b'\n[[experiment]]\nname='e'\n[experiment.factors]\nfile_system='tmpfs'\n\
             file_bytes='1MiB'\nrequests=8\n[experiment.on.host]\n{on}\n"
        );
        Study::parse("s.toml", &text)
    };
    study("requests=16\ncollector=false").unwrap();
    study("workload='iozone'\nrequest_bytes='64KiB'\npass='read'").unwrap();
    let error = study("requests=16\npass='read'").unwrap_err().chain();
    assert!(
        error.contains("no workload of experiment `e` has a factor `pass`") && error.contains("s.toml:11:1"),
        "{error}"
    );
    // All that the other workload needs is there as well.
    let error = study("workload='command'").unwrap_err().chain();
    assert!(error.contains("does not set `command`"), "{error}");
}
