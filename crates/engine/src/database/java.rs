//! H2, an SQL engine in Java, used through JDBC: `java/` has its process, `scripts/java` builds it.
//!
//! It runs with Java's own defaults (heap, garbage collector, compilers), as a program on this machine
//! would find them. Its start-up is that of a Java program: nothing is made ready ahead of time.

use crate::installed::Installed;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The settings that H2 has.
pub(super) const SETTINGS: &[&str] = &["cache_bytes", "synchronous"];
/// Names the jar, where it is not beside the binary.
const JAR_VARIABLE: &str = "POCKETSTONE_H2_JAR";
/// The jar, within the folder of a build or of an installation's data.
const JAR: &str = "java/pocketstone-h2.jar";
/// Folders to look in, from the binary's own on: `target/release/deps`, `target/release`, `target`.
const FOLDERS: usize = 3;

/// Versions of H2 and Java, such as `H2 2.5.252 on OpenJDK 17.0.15`. Asking starts a Java machine: a tenth
/// of a second.
///
/// # Errors
/// `ErrorKind::Board` if Java is missing or too old, or the jar was not built; the hint says how to get it.
pub fn available() -> Result<String> {
    let jar = jar()?;
    let mut java = java(&jar);
    let output = java.arg("--version").output().map_err(no_java)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(match said.contains("UnsupportedClassVersionError") {
            true => Error::board("H2 requires Java 17 or newer; the installed one is older")
                .hint("sudo apt-get install default-jre-headless, or point JAVA_HOME to a newer Java"),
            false => {
                let line = said.lines().next().unwrap_or("no output");
                Error::bug(format!("Java cannot run {}: {line}", jar.display()))
                    .hint(format!("remove it and rebuild it: scripts/java; or unset {JAR_VARIABLE}"))
            }
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The command that carries out the task in `task_file` (see [`super::Task`]); its input and output are
/// those of this process until the caller sets them.
///
/// # Errors
/// `ErrorKind::Board` if the jar was not built. A missing Java shows only when the command is started.
pub fn command(task_file: &Path) -> Result<Command> {
    let mut command = java(&jar()?);
    command.arg(task_file);
    Ok(command)
}

fn java(jar: &Path) -> Command {
    let home = std::env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin/java"));
    let mut command = Command::new(home.filter(|java| java.is_file()).unwrap_or_else(|| "java".into()));
    // Names of files are UTF-8, whatever the locale. And the machine's counters in /tmp, which are written
    // all the time, would be part of what is measured.
    command.env("LC_ALL", "C.UTF-8").arg("-XX:-UsePerfData").arg("-jar").arg(jar);
    command
}

fn no_java(error: std::io::Error) -> Error {
    Error::board("H2 requires Java, which is not installed")
        .because(error)
        .hint("sudo apt-get install default-jre-headless")
}

/// Where the jar is.
fn jar() -> Result<PathBuf> {
    let named = std::env::var_os(JAR_VARIABLE).map(PathBuf::from);
    let program = std::env::current_exe().board(|| "the path of this program is unknown".to_owned())?;
    find_jar(named, &program)
}

fn find_jar(named: Option<PathBuf>, program: &Path) -> Result<PathBuf> {
    if let Some(jar) = named {
        return match jar.is_file() {
            true => Ok(jar),
            false => Err(Error::user(format!("{JAR_VARIABLE} names {}, which is not a file", jar.display()))
                .hint(format!("set it to pocketstone-h2.jar, or unset it; scripts/java builds target/{JAR}"))),
        };
    }
    let installed = Installed::of(program).map(|installed| installed.share());
    let folders = program.ancestors().skip(1).take(FOLDERS).map(Path::to_owned).chain(installed);
    folders.map(|folder| folder.join(JAR)).find(|jar| jar.is_file()).ok_or_else(|| {
        Error::board(format!("the engine h2 was not built: {JAR} is in no folder above {}", program.display()))
            .hint("build it in a checkout: scripts/java; or install a package of pocketstone that has it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jar_is_found_beside_the_folder_of_the_binary() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("target/release/deps/tests");
        let error = find_jar(None, &program).unwrap_err();
        assert!(error.cure().unwrap().contains("scripts/java"), "{}", error.chain());

        let jar = folder.path().join("target/java/pocketstone-h2.jar");
        std::fs::create_dir_all(jar.parent().unwrap()).unwrap();
        std::fs::write(&jar, "").unwrap();
        assert_eq!(find_jar(None, &program).unwrap(), jar);
        assert_eq!(find_jar(None, &folder.path().join("target/release/pocketstone")).unwrap(), jar);
        // An installed runner finds the installation's.
        let runner = folder.path().join("usr/lib/pocketstone/pocketstone-runner");
        let installed = folder.path().join("usr/share/pocketstone/java/pocketstone-h2.jar");
        std::fs::create_dir_all(installed.parent().unwrap()).unwrap();
        std::fs::write(&installed, "").unwrap();
        assert_eq!(find_jar(None, &runner).unwrap(), installed);
        // Not from just anywhere above.
        assert!(find_jar(None, &folder.path().join("target/release/a/b/tests")).is_err());

        let other = folder.path().join("other.jar");
        assert!(find_jar(Some(other.clone()), &program).unwrap_err().message().contains("other.jar"));
        std::fs::write(&other, "").unwrap();
        assert_eq!(find_jar(Some(other.clone()), &program).unwrap(), other);
    }
}
