//! The examples in C and Python, and the header for C++: they compile without warnings, run, and leave what they say.

use crate::support::{assert_clean, library, opened, run};
use pocketstone_testing::{Skip, or_skip, program};
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOM: &str = env!("CARGO_MANIFEST_DIR");
const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

/// Compiles a program of C, linked with the library in one of its forms.
#[track_caller]
fn compiled(source: &Path, folder: &Path, shared: bool) -> Result<PathBuf, Skip> {
    let program = folder.join("program");
    let mut cc = Command::new(self::program("cc", "gcc")?);
    cc.args(STRICT).arg("-std=c11").arg("-I").arg(format!("{ROOM}/include")).arg(source).arg("-o").arg(&program);
    if shared {
        let library = library("libscmfs.so");
        let folder = library.parent().expect("a folder").display().to_string();
        cc.arg(format!("-L{folder}")).arg("-lscmfs").arg(format!("-Wl,-rpath,{folder}"));
    } else {
        cc.arg(library("libscmfs.a")).args(["-lpthread", "-ldl", "-lm"]);
    }
    run(cc.arg("-pthread"));
    Ok(program)
}

/// Runs an example twice, with a new volume and with the old one, and looks at what it leaves.
fn leaves_a_note(example: impl Fn(&Path) -> Command) {
    let folder = tempfile::tempdir().expect("a folder");
    let region = folder.path().join("notes.scmfs");
    for _ in 0..2 {
        assert_eq!(run(&mut example(&region)), "buy milk\n/note\n");
        let fs = opened(&region);
        assert_eq!(fs.read("/note").expect("the note"), b"buy milk\n");
        assert_eq!(fs.metadata("note").expect("its attributes").permissions, 0o600);
        fs.into_volume().close().expect("it closes");
        assert_clean(&region);
    }
    std::fs::write(&region, [7; 8192]).expect("no volume");
    let refused = example(&region).output().expect("it runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("scmfs_volume_open: "), "{said}");
}

#[test]
fn the_example_in_c_runs_with_both_forms_of_the_library() {
    for shared in [true, false] {
        let folder = tempfile::tempdir().expect("a folder");
        let source = Path::new(ROOM).join("examples/notes.c");
        let program = or_skip!(compiled(&source, folder.path(), shared));
        leaves_a_note(|region| {
            let mut command = Command::new(&program);
            command.arg(region);
            command
        });
    }
}

#[test]
fn the_example_in_python_runs() {
    let python = or_skip!(program("python3", "python3"));
    leaves_a_note(|region| {
        let mut command = Command::new(&python);
        command.arg(format!("{ROOM}/examples/notes.py")).arg(region).arg(library("libscmfs.so"));
        command
    });
}

#[test]
fn threads_of_c_share_a_volume() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = Path::new(ROOM).join("tests/threads.c");
    let program = or_skip!(compiled(&source, folder.path(), true));
    assert_eq!(run(&mut Command::new(program)), "20000 records\n");
}

#[test]
fn the_header_compiles_as_c_plus_plus() {
    let compiler = or_skip!(program("c++", "g++"));
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("header.cpp");
    let code = "#include \"scmfs.h\"\nint main() { scmfs_create_options options{}; return scmfs_abi() != SCMFS_ABI || \
                options.flags; }\n";
    std::fs::write(&source, code).expect("a source");
    let mut command = Command::new(compiler);
    command.args(STRICT).args(["-std=c++11", "-I"]).arg(format!("{ROOM}/include")).arg(&source);
    let program = folder.path().join("program");
    let library = library("libscmfs.so");
    let libraries = library.parent().expect("a folder").display().to_string();
    run(command.arg(&library).arg(format!("-Wl,-rpath,{libraries}")).arg("-o").arg(&program));
    run(&mut Command::new(program));
}

#[test]
fn the_examples_of_the_documents_are_the_examples() {
    let page = std::fs::read_to_string(Path::new(ROOM).join("../../docs/scmfs.md")).expect("docs/scmfs.md");
    for (language, example) in [("c", "notes.c"), ("python", "notes.py")] {
        let source = std::fs::read_to_string(Path::new(ROOM).join("examples").join(example)).expect("the example");
        let block = format!("```{language}\n{source}```\n");
        assert!(page.contains(&block), "docs/scmfs.md does not have crates/scmfs-c/examples/{example} as it is");
    }
}
