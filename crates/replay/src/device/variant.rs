//! A device with other times than its profile has, which a study assumes: `nexus-6{transition_stall_ns=2000000}`.

use pocketstone_core::{Error, Result};
use std::fmt::Write;

/// Times of a device's clusters that may be assumed.
const TIMES: [&str; 2] = ["transition_latency_ns", "transition_stall_ns"];

/// The profile's name, and the times that are assumed.
///
/// # Errors
/// `ErrorKind::User` if what is in braces is not understood.
pub(super) fn split(name: &str) -> Result<(&str, Vec<(&'static str, u64)>)> {
    let Some((profile, rest)) = name.split_once('{') else { return Ok((name, Vec::new())) };
    let wrong = || {
        Error::user(format!("`{name}` is not a device with assumed times")).hint(format!(
            "use NAME{{TIME=NANOSECONDS}}, such as nexus-6{{transition_stall_ns=2000000}}; times: {}",
            TIMES.join(", ")
        ))
    };
    let time = |pair: &str| {
        let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
        let known = TIMES.into_iter().find(|known| *known == key.trim()).ok_or_else(wrong)?;
        Ok((known, value.trim().parse::<u32>().map_err(|_| wrong())?.into()))
    };
    let inside = rest.strip_suffix('}').ok_or_else(wrong)?;
    Ok((profile, inside.split(',').map(time).collect::<Result<_>>()?))
}

/// A profile's text with these times, which says that they are assumed.
///
/// # Errors
/// `ErrorKind::User` if the profile has no line of its own for one of them.
pub(super) fn assume(text: &str, times: &[(&'static str, u64)]) -> Result<String> {
    let mut changed = text.to_owned();
    for (key, ns) in times {
        let is_of = |line: &str| line.split_once('=').is_some_and(|(of, _)| of.trim() == *key);
        if !changed.lines().any(is_of) {
            return Err(Error::user(format!("the profile has no line for `{key}`"))
                .hint(format!("write `{key} = {{ value = ..., source = ... }}` on a line of its own")));
        }
        changed = changed.lines().fold(String::new(), |mut text, line| {
            let _ = match is_of(line) {
                true => writeln!(text, "{key} = {{ value = {ns}, source = \"assumed: by who named the device\" }}"),
                false => writeln!(text, "{line}"),
            };
            text
        });
    }
    Ok(changed)
}
