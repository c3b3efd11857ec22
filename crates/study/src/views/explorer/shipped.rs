//! The replay for browsers as the project ships it, for where this machine's Rust cannot compile it: used only where
//! what it was made from is what is here. `cargo run -p pocketstone-study --example browser-module` makes it.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use toml::Value;

/// Where it is, in the project's sources.
pub const MODULE: &str = "crates/replay/browser/replay.wasm";
/// What is recorded of it.
pub const RECORD: &str = "crates/replay/browser/replay.toml";
/// The command that makes both.
pub const COMMAND: &str = "cargo run -p pocketstone-study --example browser-module";

/// From what the module was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The module's SHA-256.
    pub module_sha256: String,
    /// Who compiled it.
    pub compiler: String,
    /// Other packages' checksums, as `Cargo.lock` has them, by name and version.
    pub packages: BTreeMap<String, String>,
    /// SHA-256 of the project's files that the compiler read. Of manifests, of what they say of dependencies.
    pub sources: BTreeMap<String, String>,
}

impl Record {
    /// The record of a module and of the sources in `root` that it was made from: files of the project, manifests of
    /// its crates included, and other packages as `NAME VERSION`.
    ///
    /// # Errors
    /// `ErrorKind::Board` if one of them is not there.
    pub fn of(module: &[u8], compiler: String, root: &Path, files: &[String], packages: &[String]) -> Result<Record> {
        let locked = locked(root)?;
        let checksum = |package: &String| {
            let sum = locked.get(package).ok_or_else(|| Error::board(format!("Cargo.lock has no {package}")))?;
            Ok((package.clone(), sum.clone()))
        };
        let packages: BTreeMap<String, String> = packages.iter().map(checksum).collect::<Result<_>>()?;
        let source = |file: &String| Ok((file.clone(), digest_of(root, file, &packages)?));
        let sources = files.iter().map(source).collect::<Result<_>>()?;
        Ok(Record { module_sha256: sha256(module), compiler, packages, sources })
    }

    /// The first thing that is no longer what the module was made from.
    fn changed(&self, root: &Path) -> Result<Option<String>> {
        let locked = locked(root)?;
        if let Some((package, _)) = self.packages.iter().find(|(package, sum)| locked.get(*package) != Some(sum)) {
            return Ok(Some(format!("{package} of Cargo.lock")));
        }
        let is_other = |(file, digest): &(&String, &String)| {
            digest_of(root, file, &self.packages).map_or(true, |found| found != **digest)
        };
        Ok(self.sources.iter().find(is_other).map(|(file, _)| file.clone()))
    }
}

/// The shipped module of a project whose sources it was made from.
///
/// # Errors
/// `ErrorKind::Board` if it is missing or damaged, or of other sources; the hint is the command that makes it.
pub fn shipped(root: &Path) -> Result<Vec<u8>> {
    let read = |name: &str| std::fs::read(root.join(name)).board(|| format!("cannot read {name}"));
    let hint = |error: Error| error.hint(COMMAND);
    let module = read(MODULE).map_err(hint)?;
    let text = String::from_utf8_lossy(&read(RECORD).map_err(hint)?).into_owned();
    let record: Record = toml::from_str(&text).board(|| format!("{RECORD} is no record")).map_err(hint)?;
    if sha256(&module) != record.module_sha256 {
        return Err(hint(Error::board(format!("{MODULE} is damaged: {RECORD} has another digest"))));
    }
    match record.changed(root)? {
        None => Ok(module),
        Some(what) => Err(hint(Error::board(format!("{MODULE} was made from other sources: {what} has changed")))),
    }
}

fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// The digest of a file; of a manifest, that of what it says of the module's packages.
fn digest_of(root: &Path, file: &str, packages: &BTreeMap<String, String>) -> Result<String> {
    let bytes = std::fs::read(root.join(file)).board(|| format!("cannot read {file}"))?;
    if !file.ends_with("Cargo.toml") {
        return Ok(sha256(&bytes));
    }
    let table = parsed(&bytes, file)?;
    let part = |names: &[&str]| names.iter().try_fold(&table, |at, name| at.get(name)).cloned();
    let mut said = vec![part(&["dependencies"]), part(&["features"]), part(&["profile", "browser"])];
    let names = packages.keys().filter_map(|package| package.split(' ').next());
    said.extend(names.map(|name| part(&["workspace", "dependencies", name])));
    Ok(sha256(format!("{said:?}").as_bytes()))
}

/// The checksums of `Cargo.lock`, by name and version.
fn locked(root: &Path) -> Result<BTreeMap<String, String>> {
    let bytes = std::fs::read(root.join("Cargo.lock")).board(|| "cannot read Cargo.lock".into())?;
    let lock = parsed(&bytes, "Cargo.lock")?;
    let packages = lock.get("package").and_then(Value::as_array).into_iter().flatten();
    let text = |package: &Value, key| package.get(key).and_then(Value::as_str).map(str::to_owned);
    let entry = |package: &Value| {
        let name = format!("{} {}", text(package, "name")?, text(package, "version")?);
        Some((name, text(package, "checksum")?))
    };
    Ok(packages.filter_map(entry).collect())
}

fn parsed(bytes: &[u8], file: &str) -> Result<Value> {
    toml::from_str(&String::from_utf8_lossy(bytes)).board(|| format!("{file} is no TOML"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn the_shipped_module_is_of_these_sources() {
        let module = shipped(&root());
        let module = module.unwrap_or_else(|e| panic!("{}; make it anew: {COMMAND}", e.chain()));
        assert_eq!(&module[..8], b"\0asm\x01\0\0\0", "WebAssembly, version 1");
        let record: Record = toml::from_str(&std::fs::read_to_string(root().join(RECORD)).unwrap()).unwrap();
        for file in ["Cargo.toml", "crates/replay/Cargo.toml", "crates/replay/src/governor/interactive.rs"] {
            assert!(record.sources.contains_key(file), "{file} is part of it");
        }
        assert!(record.packages.keys().any(|p| p.starts_with("serde_json ")));
    }

    /// A project with a module made from it.
    fn project() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("Cargo.toml", "[workspace.dependencies]\nserde = '1'\nother = '1'\n[profile.browser]\nlto = true\n");
        write("Cargo.lock", "[[package]]\nname = 'serde'\nversion = '1.0.1'\nchecksum = 'aa'\n");
        write("crates/a/Cargo.toml", "[dependencies]\nserde.workspace = true\n[dev-dependencies]\n");
        write("crates/a/src/lib.rs", "fn a() {}");
        write(MODULE, "module");
        let files = ["Cargo.toml", "crates/a/Cargo.toml", "crates/a/src/lib.rs"].map(str::to_owned);
        let record = Record::of(b"module", "rustc".into(), folder.path(), &files, &["serde 1.0.1".into()]).unwrap();
        write(RECORD, &toml::to_string(&record).unwrap());
        folder
    }

    #[test]
    fn a_module_of_other_sources_is_left_out_and_what_changed_is_named() {
        assert_eq!(shipped(project().path()).unwrap(), b"module");
        let after = |file: &str, from: &str, to: &str| {
            let project = project();
            let path = project.path().join(file);
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{file}: {from}");
            std::fs::write(path, text.replace(from, to)).unwrap();
            shipped(project.path())
        };
        let cases = [
            ("crates/a/src/lib.rs", "a()", "b()", "crates/a/src/lib.rs has changed"),
            ("crates/a/Cargo.toml", "serde.workspace", "other.workspace", "crates/a/Cargo.toml has changed"),
            ("Cargo.toml", "serde = '1'", "serde = '2'", "Cargo.toml has changed"),
            ("Cargo.lock", "'aa'", "'bb'", "serde 1.0.1 of Cargo.lock has changed"),
            (MODULE, "module", "modula", "replay.wasm is damaged"),
            (RECORD, "module_sha256", "digest", "is no record"),
        ];
        for (file, from, to, said) in cases {
            let error = after(file, from, to).unwrap_err();
            assert!(error.chain().contains(said), "{file}: {}", error.chain());
            assert_eq!(error.cure(), Some(COMMAND));
        }
        // What the module is not made from may change.
        for (file, from, to) in [
            ("Cargo.toml", "other = '1'", "other = '2'"),
            ("crates/a/Cargo.toml", "[dev-dependencies]", "[dev-dependencies]\nother.workspace = true"),
        ] {
            assert_eq!(after(file, from, to).unwrap(), b"module", "{file}");
        }
    }
}
