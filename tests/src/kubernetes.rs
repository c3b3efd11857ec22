//! What Kubernetes does to a container's command.

/// A word of a command as the container gets it if it has no variables: `Expand` of Kubernetes's
/// `third_party/forked/golang/expansion/expand.go`.
pub fn expanded(word: &str) -> String {
    let (mut made, mut rest) = (String::new(), word);
    while let Some(at) = rest.find('$') {
        let (before, reference) = rest.split_at(at);
        made.push_str(before);
        let read = match reference.as_bytes().get(1) {
            Some(b'$') => 2,
            // Of no variable, it stays, with all that is in it.
            Some(b'(') => reference.find(')').map_or(2, |end| end + 1),
            _ => 1,
        };
        made.push_str(if reference.starts_with("$$") { "$" } else { &reference[..read] });
        rest = &reference[read..];
    }
    made + rest
}
