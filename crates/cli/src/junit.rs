//! A run's claims and failed cells in the form that CI servers read, of the JUnit reports of Ant.

use pocketstone_core::Result;
use pocketstone_core::error::Context;
use pocketstone_study::views::model::{ClaimResult, Model, Verdict};
use std::fmt::Write;
use std::path::Path;

/// Writes a file with a test case for each claim, and one for each failed cell. A claim that does not hold is a failure
/// if the study requires it; otherwise, and if its results are unavailable, it is skipped and says why.
///
/// # Errors
/// `ErrorKind::User` if the file cannot be written.
pub fn write(model: &Model, suite: &str, path: &Path) -> Result<()> {
    let (mut failed, mut skipped, mut cases) = (0, 0, String::new());
    for claim in &model.claims {
        let (count, case) = of_claim(claim, suite);
        match count {
            Counted::Failed => failed += 1,
            Counted::Skipped => skipped += 1,
            Counted::Passed => {}
        }
        cases += &case;
    }
    for failure in &model.failures {
        let _ = writeln!(
            cases,
            "  <testcase classname=\"{}.cells\" name=\"{}\"><error message=\"{}\"/></testcase>",
            escaped(suite),
            escaped(&failure.cell),
            escaped(&failure.message)
        );
    }
    let (tests, errors) = (model.claims.len() + model.failures.len(), model.failures.len());
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{tests}\" failures=\"{failed}\" \
         errors=\"{errors}\" skipped=\"{skipped}\">\n{cases}</testsuite>\n",
        escaped(suite)
    );
    std::fs::write(path, text).user(|| format!("cannot write {}", path.display()))
}

enum Counted {
    Passed,
    Failed,
    Skipped,
}

fn of_claim(claim: &ClaimResult, suite: &str) -> (Counted, String) {
    let why = claim.deviation.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    let said = escaped(&format!("{}{why}", claim.said()));
    let (count, inside) = match (claim.verdict, claim.required) {
        (Verdict::Holds, _) => (Counted::Passed, format!("<system-out>{said}</system-out>")),
        (Verdict::Explained | Verdict::Unexplained, true) => {
            (Counted::Failed, format!("<failure message=\"{}: {said}\"/>", claim.verdict.word()))
        }
        _ => (Counted::Skipped, format!("<skipped message=\"{}: {said}\"/>", claim.verdict.word())),
    };
    let (name, text) = (escaped(&claim.name), escaped(&claim.text));
    let case =
        format!("  <testcase classname=\"{}.claims\" name=\"{name}: {text}\">{inside}</testcase>\n", escaped(suite));
    (count, case)
}

/// Text for XML 1.0, in an attribute or between tags: characters that it cannot have are left out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\n' => out += "&#10;",
            '\t' => out += "&#9;",
            c if c < ' ' || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}
