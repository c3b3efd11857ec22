//! What the tests of all file systems of this project share: operations as data, a model of what POSIX and Linux say
//! of them, what executes them on a volume or in a directory of this machine, and what holds the two against each
//! other. Nothing but tests and fuzzers depends on this crate.
//!
//! A file system says by [`Has`] where it differs, and by [`Subject`] how to do what is beyond
//! [`pocketstone_vfs::Operations`]. What is there after a loss of power is each file system's own matter.

pub mod acl;
mod content;
mod decode;
pub mod drive;
#[allow(missing_docs, reason = "errno(3) has them")]
pub mod errno;
pub mod host;
pub mod model;
mod op;
mod subject;
mod tree;
pub mod volume;
mod walk;

pub use content::{Content, pattern};
pub use decode::{Decoder, Word};
pub use drive::Pair;
pub use model::{Has, Model};
pub use op::{BatchPart, Node, Op, Outcome, Target};
pub use subject::{Broken, Handle, OpenFiles, Subject};
pub use tree::{Leaf, Times, Tree, differences};
pub use volume::apply;
pub use walk::{Walked, list, walk};
