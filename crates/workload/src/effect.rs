//! What operations do to files: what a promise about a file's contents is judged by.

use crate::{Operation, Purpose};

/// What an operation does to files and to what they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// It is a request that changes a file: a workload that makes each of these durable promises it by its end.
    Request {
        /// Number of the file.
        file: u32,
        /// What of it may be different then.
        part: Part,
    },
    /// It changes a file, makes it or takes it away, and promises nothing: a name is its folder's.
    Change {
        /// Number of the file.
        file: u32,
        /// What of it may be different then.
        part: Part,
    },
    /// What the file holds is durable then.
    Promise {
        /// Number of the file.
        file: u32,
    },
    /// A file has the name of another one then.
    Rename {
        /// Number of the file.
        file: u32,
        /// Number that it has then.
        to: u32,
    },
}

/// What of a file an operation may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All, and whether it is there.
    All,
    /// All, after it was cut to nothing.
    Anew,
    /// These bytes; zeros between the end that it had and the first of them.
    Bytes {
        /// The first one.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// What is beyond the end that it had.
    Beyond,
}

impl Operation {
    /// What it does to files and to what they hold.
    pub fn effect(&self) -> Effect {
        use Operation::{
            Allocate, Append, Archive, Attributes, Close, Create, CreateFile, Delete, Evict, Fill, Invalidate, List,
            LookUp, MakeDirectory, Map, Open, Pause, Prefetch, Read, ReadFile, ReadOpen, Rename, SeekEnd, SetOwner,
            Sync, SyncData, SyncFolder, Touch, Truncate, Turn, Write, WriteFile,
        };
        match *self {
            Write { file, offset, bytes } => Effect::Request { file, part: Part::Bytes { offset, bytes } },
            Append { file, .. } => Effect::Request { file, part: Part::Beyond },
            WriteFile { file, .. } => Effect::Request { file, part: Part::Anew },
            Truncate { file, .. } => Effect::Request { file, part: Part::All },
            Fill { file, .. } => Effect::Change { file, part: Part::Beyond },
            Create { file } | CreateFile { file } | Delete { file } | Allocate { file, .. } => {
                Effect::Change { file, part: Part::All }
            }
            Archive { into, .. } => Effect::Change { file: into, part: Part::All },
            Open { file, purpose: Purpose::New } => Effect::Change { file, part: Part::All },
            Open { purpose: Purpose::Read | Purpose::Write | Purpose::Append | Purpose::Direct, .. } => Effect::Nothing,
            Sync { file } | SyncData { file } => Effect::Promise { file },
            Rename { file, to } => Effect::Rename { file, to },
            Read { .. } | ReadOpen { .. } | ReadFile { .. } | Map { .. } | Touch { .. } | Prefetch { .. } => {
                Effect::Nothing
            }
            LookUp { .. } | Attributes { .. } | SeekEnd { .. } | Close { .. } | SetOwner { .. } => Effect::Nothing,
            MakeDirectory { .. } | List | SyncFolder => Effect::Nothing,
            Evict { .. } | Invalidate { .. } | Turn { .. } | Pause { .. } => Effect::Nothing,
        }
    }
}
