//! The command `yaffs2`, and the writer of images in `tests/yaffs2` that knows nothing of it.

use crate::command::{Ran, binary, run};
use crate::project;
use pocketstone_testing::{Skip, program};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// `yaffs2` with arguments: what was built beside the `pocketstone` under test.
pub fn yaffs2<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let program = binary().with_file_name("yaffs2");
    assert!(program.exists(), "there is no {}; build it: make build", program.display());
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// `yaffs2 extract` into a folder.
pub fn extract(file: &Path, folder: &Path, more: &[&str]) -> Ran {
    run(yaffs2(["extract"]).args(more).args([file, folder]))
}

/// A program of `tests/yaffs2`.
///
/// # Errors
///
/// A counted [`Skip`] where there is no Python.
pub fn python(script: &str) -> Result<Command, Skip> {
    let mut command = Command::new(program("python3", "python3")?);
    command.arg(project().join("tests/yaffs2").join(script)).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

/// Writes an image with that writer, as its arguments say (`plain` or `live`, then options), and the tree that a reader
/// should find in it.
///
/// # Errors
///
/// A counted [`Skip`], as [`python`].
pub fn write_image(form: &[&str], file: &Path, expected: &Path) -> Result<(), Skip> {
    // What is to be built comes before the image's name.
    let source = if form[0] == "plain" { &["plain", "-"][..] } else { &form[..1] };
    let mut writer = python("writer.py")?;
    writer.args(source).arg(file).args(&form[1..]).arg("--expect").arg(expected);
    run(&mut writer).ends_with(0);
    Ok(())
}

/// Holds a folder against the tree that should be in it; `form` is for messages.
///
/// # Errors
///
/// A counted [`Skip`], as [`python`].
#[track_caller]
pub fn assert_expected(folder: &Path, expected: &Path, form: &[&str]) -> Result<(), Skip> {
    let compared = run(python("folder.py")?.args([folder, expected]));
    assert_eq!(compared.status, Some(0), "{form:?}: {compared}");
    Ok(())
}
