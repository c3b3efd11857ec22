//! What the dependency tree may hold, by `deny.toml`. cargo-deny reads the same file and sees more (the texts of
//! licences, known vulnerabilities), but is a minute of compiling: `make torture` has it.

use super::{parse, root};
use serde_json::{Value, json};
use spdx::{Expression, ParseMode};
use std::collections::BTreeSet;
use std::process::Command;

/// What is wrong with packages, as `cargo metadata` lists them.
fn faults(packages: &[Value], rules: &toml::Table) -> Vec<String> {
    let texts = |path: [&str; 2]| -> BTreeSet<String> {
        let list = rules[path[0]][path[1]].as_array().unwrap_or_else(|| panic!("{path:?} is no list"));
        let name = |rule: &toml::Value| rule.get("crate").unwrap_or(rule).as_str().expect("a name").to_owned();
        list.iter().map(name).collect()
    };
    let (allowed, banned) = (texts(["licenses", "allow"]), texts(["bans", "deny"]));
    let registries: BTreeSet<String> =
        texts(["sources", "allow-registry"]).into_iter().map(|url| format!("registry+{url}")).collect();
    // Licences that one package may have, and no other.
    let mut exceptions = BTreeSet::new();
    for exception in rules["licenses"].get("exceptions").and_then(toml::Value::as_array).into_iter().flatten() {
        let text = |value: &toml::Value| value.as_str().expect("a text").to_owned();
        let licences = exception["allow"].as_array().expect("a list of licences");
        exceptions.extend(licences.iter().map(|licence| (text(&exception["crate"]), text(licence))));
    }
    let (mut faults, mut used, mut excepted) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for package in packages {
        let of = |field: &str| package[field].as_str().unwrap_or_default();
        let name = of("name");
        if banned.contains(name) {
            faults.push(format!("{name} is banned"));
        }
        if !package["source"].is_null() && !registries.contains(of("source")) {
            faults.push(format!("{name} comes from {}", of("source")));
        }
        let licence = of("license");
        let met = Expression::parse_mode(licence, ParseMode::LAX).is_ok_and(|expression| {
            expression.evaluate(|wanted| {
                let id = wanted.license.id().map(|id| id.name).filter(|_| wanted.addition.is_none());
                let Some(id) = id.map(str::to_owned) else { return false };
                let exception = (name.to_owned(), id.clone());
                let (may, is_excepted) = (allowed.contains(&id), exceptions.contains(&exception));
                used.extend(may.then_some(id));
                excepted.extend((is_excepted && !may).then_some(exception));
                may || is_excepted
            })
        });
        if !met {
            faults.push(format!("{name} has the licence `{licence}`"));
        }
    }
    faults.extend(allowed.difference(&used).map(|unused| format!("nothing has the licence {unused}")));
    let unused = exceptions.difference(&excepted);
    faults.extend(unused.map(|(name, licence)| format!("{name} needs no exception for {licence}")));
    faults
}

#[test]
fn dependencies_are_what_may_be_depended_on() {
    // What this machine compiles; what others would has not been fetched.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let words = ["metadata", "--locked", "--format-version", "1", "--filter-platform", &platform];
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo).args(words).current_dir(root()).output().expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: Value = serde_json::from_slice(&out.stdout).expect("metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 100, "{} packages", packages.len());
    assert_eq!(faults(packages, &parse("deny.toml")), Vec::<String>::new());
}

#[test]
fn what_may_not_be_depended_on_is_found() {
    let rules = r#"licenses.allow = ["MIT", "ISC"]
        licenses.exceptions = [{ crate = "tool", allow = ["MPL-2.0"] }, { crate = "gone", allow = ["Zlib"] }]
        bans.deny = [{ crate = "bad" }]
        sources.allow-registry = ["https://here"]"#;
    let package =
        |name: &str, licence: &str, source: &str| json!({ "name": name, "license": licence, "source": source });
    let packages = [
        package("good", "GPL-3.0-only OR MIT", "registry+https://here"),
        package("old", "MIT/Apache-2.0", "registry+https://here"),
        package("viral", "MIT AND GPL-3.0-only", "registry+https://here"),
        package("excepted", "MIT WITH LLVM-exception", "registry+https://here"),
        package("none", "", "registry+https://here"),
        package("far", "MIT", "git+https://there"),
        package("bad", "MIT", "registry+https://here"),
        package("tool", "MPL-2.0", "registry+https://here"),
        package("other", "MPL-2.0", "registry+https://here"),
    ];
    let expected = [
        "viral has the licence `MIT AND GPL-3.0-only`",
        "excepted has the licence `MIT WITH LLVM-exception`",
        "none has the licence ``",
        "far comes from git+https://there",
        "bad is banned",
        "other has the licence `MPL-2.0`",
        "nothing has the licence ISC",
        "gone needs no exception for Zlib",
    ];
    assert_eq!(faults(&packages, &rules.parse().expect("rules")), expected);
}
