//! Generates `include/scmfs.h`: `cargo run -p pocketstone-scmfs-c --example header`.

use std::path::{Path, PathBuf};

/// The sources, in the order in which a reader of the header needs them.
const SOURCES: [&str; 8] = ["version", "error", "types", "volume", "file", "batch", "names", "directory"];

/// Where the header is.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include/scmfs.h")
}

/// What the header has to be.
pub fn generated() -> String {
    let room = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(room.join("cbindgen.toml")).expect("cbindgen.toml");
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = SOURCES.iter().fold(builder, |b, name| b.with_src(room.join(format!("src/{name}.rs"))));
    let mut header = Vec::new();
    builder.generate().expect("the sources have an interface of C").write(&mut header);
    String::from_utf8(header).expect("the sources are UTF-8")
}

#[allow(dead_code, reason = "the test that compares has its own")]
fn main() -> std::io::Result<()> {
    std::fs::write(path(), generated())
}
