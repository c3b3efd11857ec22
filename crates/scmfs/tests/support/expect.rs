//! What a volume may hold after a crash.

use pocketstone_fstest::{Model, Op, Tree, differences};
use pocketstone_scmfs::Allocate;

/// The states of a tree that a crash at one moment may leave.
pub struct Expectation {
    before: Tree,
    /// `None` between operations: then nothing else is allowed.
    after: Option<Tree>,
    /// The file whose bytes the operation changes in place: each may be old or new.
    torn: Option<String>,
}

impl Expectation {
    /// No operation is being executed.
    pub fn exactly(tree: Tree) -> Expectation {
        Expectation { before: tree, after: None, torn: None }
    }

    /// While `op` is being executed.
    pub fn during(op: &Op, before: &Model, after: &Model) -> Expectation {
        let torn = match op {
            Op::Write(target, ..) | Op::Append(target, ..) => before.first_name(target),
            Op::Allocate(target, Allocate::PunchHole | Allocate::Zero | Allocate::ZeroKeepSize, ..) => {
                before.first_name(target)
            }
            _ => None,
        };
        Expectation { before: before.tree(), after: Some(after.tree()), torn }
    }

    /// `Err` says how `got` is none of the allowed states.
    pub fn allows(&self, got: &Tree) -> Result<(), String> {
        if *got == self.before || self.after.as_ref() == Some(got) || self.is_torn(got) {
            return Ok(());
        }
        let mut text = format!("neither as before:\n    {}", differences(got, &self.before).join("\n    "));
        if let Some(after) = &self.after {
            text += &format!("\n  nor as after:\n    {}", differences(got, after).join("\n    "));
        }
        Err(text)
    }

    /// The old size, and each byte old or new. (With a new size, everything must be new.)
    fn is_torn(&self, got: &Tree) -> bool {
        let (Some(path), Some(after)) = (&self.torn, &self.after) else { return false };
        let (Some(got_leaf), Some(old), Some(new)) = (got.get(path), self.before.get(path), after.get(path)) else {
            return false;
        };
        if got_leaf.content.size() != old.content.size() {
            return false;
        }
        let mut differing = got_leaf.content.differences(&old.content).into_iter();
        if !differing.all(|at| got_leaf.content.byte(at) == new.content.byte(at)) {
            return false;
        }
        // Apart from these bytes, nothing may have changed.
        let mut rest = got.clone();
        for leaf in rest.values_mut().filter(|leaf| leaf.first == *path) {
            if leaf.content != got_leaf.content {
                return false;
            }
            leaf.content = old.content.clone();
        }
        rest == self.before
    }
}
