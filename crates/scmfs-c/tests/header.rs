//! The committed header is the one that the sources give.

#[path = "../examples/header.rs"]
mod generator;

#[test]
fn the_header_is_up_to_date() {
    let committed = std::fs::read_to_string(generator::path()).expect("the header");
    let generated = generator::generated();
    let different = committed.lines().zip(generated.lines()).position(|(old, new)| old != new);
    let line = different.unwrap_or(committed.lines().count().min(generated.lines().count())) + 1;
    assert!(
        committed == generated,
        "include/scmfs.h differs from the sources from line {line} on: run `cargo run -p pocketstone-scmfs-c --example \
         header`"
    );
}

#[test]
fn every_exported_function_is_in_the_header() {
    let sources = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).expect("the sources");
    let sources = sources.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file());
    let sources = sources.map(|path| std::fs::read_to_string(path).expect("a source")).collect::<String>();
    let header = generator::generated();
    let functions: Vec<&str> =
        sources.split("extern \"C\" fn ").skip(1).map(|rest| rest.split('(').next().expect("a name")).collect();
    assert!(functions.len() > 30, "{functions:?}");
    let missing: Vec<&&str> = functions.iter().filter(|name| !header.contains(&format!("{name}("))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
