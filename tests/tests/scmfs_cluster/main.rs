//! Volumes that are more than one machine's: handles of files that outlive what the kernel remembers and a server, and
//! engines of others on mounted volumes, in namespaces of their own.
//!
//! Needs root, FUSE and what `scripts/cluster` fetches; what cannot be had is left out, and named.

mod engines;
mod handles;
