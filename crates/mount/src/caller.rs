//! Who asks for an operation.

use crate::wire::Request;

/// Whether a user may have what is for the user of this process and for root.
pub(crate) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Whether the caller is in a group, or is root, who need not be. Setting a list of access rights takes the
/// set-group-id bit from a file of a group that the caller is not in; before Linux 5.12 the kernel does not say who
/// that is.
pub(crate) fn is_in_group(request: &Request, gid: u32) -> bool {
    let listed = || std::fs::read_to_string(format!("/proc/{}/status", request.pid)).is_ok_and(|s| is_listed(&s, gid));
    request.uid == 0 || request.gid == gid || listed()
}

/// The process that a thread belongs to which waits for an answer; `None`: it is not seen from here.
pub(crate) fn process(request: &Request) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", request.pid)).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Whether /proc/PID/status names a group among the supplementary ones.
fn is_listed(status: &str, gid: u32) -> bool {
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    groups.is_some_and(|groups| groups.split_whitespace().any(|group| group.parse() == Ok(gid)))
}

#[cfg(test)]
mod tests {
    use super::is_listed;

    #[test]
    fn supplementary_groups_are_found() {
        let status = "Name:\tcat\nGid:\t5\t5\t5\t5\nGroups:\t4 24 1000 \nNStgid:\t77\n";
        assert!(is_listed(status, 24) && is_listed(status, 1000));
        assert!(!is_listed(status, 5) && !is_listed(status, 2) && !is_listed(status, 77));
        assert!(!is_listed("Groups:\t\n", 0) && !is_listed("", 0));
    }
}
