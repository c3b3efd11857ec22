//! One operation of a workload.

use pocketstone_core::words;

/// Most bytes of a file, and the last place in one: Linux counts them in 64 bits with a sign.
pub(crate) const MOST_FILE_BYTES: u64 = i64::MAX as u64;

/// The longest pause in ns, and the latest time of a recording: 146 years, so that sums of two are times, too.
pub(crate) const MOST_PAUSE_NS: u64 = (1 << 62) - 1;

words! {
    /// Which call asks the kernel, before the first request, for all that the requests will read.
    Prefetch {
        /// None.
        None = "none",
        /// readahead(2).
        Readahead = "readahead",
        /// posix_fadvise(POSIX_FADV_WILLNEED).
        Willneed = "willneed",
        /// madvise(MADV_WILLNEED) on a mapping.
        Madvise = "madvise",
    }
}

impl Prefetch {
    pub(crate) fn none() -> Self {
        Prefetch::None
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        *self == Prefetch::None
    }
}

words! {
    /// What a file is opened for.
    Purpose {
        /// Reading alone.
        Read = "read",
        /// Reading, and writing at offsets.
        Write = "write",
        /// Reading, and writing at its end.
        Append = "append",
        /// As `Write`, of a file that this makes.
        New = "new",
        /// As `Write`, by the page cache where there is one.
        Direct = "direct",
    }
}

/// One operation of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Read `bytes` bytes of a file at `offset`.
    Read {
        /// Number of the file; a `read` workload has one.
        file: u32,
        /// Position in the file.
        offset: u64,
        /// Bytes asked for.
        bytes: u64,
    },
    /// Overwrite `bytes` bytes of a file at `offset`.
    Write {
        /// Number of the file.
        file: u32,
        /// Position in the file.
        offset: u64,
        /// Bytes written.
        bytes: u64,
    },
    /// Write `bytes` bytes at a file's end.
    Append {
        /// Number of the file.
        file: u32,
        /// Bytes written.
        bytes: u64,
    },
    /// Create an empty file and close it.
    CreateFile {
        /// Number of the file.
        file: u32,
    },
    /// Create an empty file, for what follows until it is closed.
    Create {
        /// Number of the file.
        file: u32,
    },
    /// Delete a file.
    Delete {
        /// Number of the file.
        file: u32,
    },
    /// Ask for a file's attributes by its name.
    LookUp {
        /// Number of the file.
        file: u32,
    },
    /// Open a file, for what follows until it is closed.
    Open {
        /// Number of the file.
        file: u32,
        /// What for.
        purpose: Purpose,
    },
    /// Ask for the attributes of a file that is open.
    Attributes {
        /// Number of the file.
        file: u32,
    },
    /// Go to the end of a file that is open.
    SeekEnd {
        /// Number of the file.
        file: u32,
    },
    /// Close the file that is open.
    Close {
        /// Number of the file.
        file: u32,
    },
    /// Map a file into memory, for as long as the run takes.
    Map {
        /// Number of the file.
        file: u32,
    },
    /// Read a byte of a mapped file: where its page is not in memory, the kernel gets it.
    Touch {
        /// Number of the file.
        file: u32,
        /// Position in the file.
        offset: u64,
    },
    /// Make a file durable that is open.
    Sync {
        /// Number of the file.
        file: u32,
    },
    /// Write to the end of a file that is open until it has so many bytes more, or the volume is full.
    Fill {
        /// Number of the file.
        file: u32,
        /// Most bytes written.
        bytes: u64,
    },
    /// Make what a file holds durable, and of its attributes what reading it back needs, as fdatasync() does.
    SyncData {
        /// Number of the file.
        file: u32,
    },
    /// Open the folder that the files are in, make its names durable, close it.
    SyncFolder,
    /// Give a file that is open the owner that it has: what the file system writes for a change of attributes.
    SetOwner {
        /// Number of the file.
        file: u32,
    },
    /// Give a file that is open another size.
    Truncate {
        /// Number of the file.
        file: u32,
        /// The size.
        bytes: u64,
    },
    /// Reserve space for a file that is open, from its start on, and give it at least that size. Where the file system
    /// cannot, nothing is done.
    Allocate {
        /// Number of the file.
        file: u32,
        /// Bytes reserved.
        bytes: u64,
    },
    /// Give a file the name of another number; what had that name is gone.
    Rename {
        /// Number of the file.
        file: u32,
        /// Number that it has from then on.
        to: u32,
    },
    /// Read all of a file that is open, from its start to its end.
    ReadOpen {
        /// Number of the file.
        file: u32,
    },
    /// Open a file, read all of it, close it.
    ReadFile {
        /// Number of the file.
        file: u32,
    },
    /// Open a file, cut it to nothing, write so many bytes, close it.
    WriteFile {
        /// Number of the file.
        file: u32,
        /// Its new size.
        bytes: u64,
    },
    /// Create a file, write to it what `tar` makes of files and `gzip -6` of that, close it.
    Archive {
        /// Number of the first file that goes into it.
        first: u32,
        /// How many files do.
        files: u32,
        /// Number of the file that is created.
        into: u32,
    },
    /// Make a directory.
    MakeDirectory {
        /// Number of the directory.
        directory: u32,
    },
    /// Read all names of the folder that the files are in.
    List,
    /// Evict a file's pages from the page cache. It is part of the measurement, but not measured.
    Evict {
        /// Number of the file.
        file: u32,
    },
    /// Ask the kernel to drop from the page cache what it has of a file that is open; what is not yet written stays.
    /// It is part of the measurement, but not measured.
    Invalidate {
        /// Number of the file.
        file: u32,
    },
    /// Ask the kernel for a part of the file before it is read. It is timed apart.
    Prefetch {
        /// By which call.
        by: Prefetch,
        /// Position in the file.
        offset: u64,
        /// How much.
        bytes: u64,
    },
    /// What follows is the work of this thread, until another one's turn. Where an operation gives a file its name or
    /// takes it away, operations on the same file stay in their order, whichever threads they are of.
    Turn {
        /// Number of the thread.
        thread: u32,
    },
    /// Do nothing for a while.
    Pause {
        /// How long.
        ns: u64,
    },
}

impl Operation {
    /// Whether a run's log of calls has it.
    pub fn is_logged(&self) -> bool {
        use Operation::{Evict, Invalidate, Pause, Prefetch, Turn};
        !matches!(self, Pause { .. } | Evict { .. } | Invalidate { .. } | Prefetch { .. } | Turn { .. })
    }

    /// The one file that it is about.
    pub fn file(&self) -> Option<u32> {
        use Operation::{Allocate, Append, Attributes, Close, Create, CreateFile, Delete, Fill, LookUp, Open, Read};
        use Operation::{Archive, Evict, List, MakeDirectory, Map, Pause, Prefetch, Rename, Sync, Touch, Truncate};
        use Operation::{
            Invalidate, ReadFile, ReadOpen, SeekEnd, SetOwner, SyncData, SyncFolder, Turn, Write, WriteFile,
        };
        match *self {
            Read { file, .. } | Write { file, .. } | Append { file, .. } | Truncate { file, .. } => Some(file),
            Create { file } | CreateFile { file } | Delete { file } | LookUp { file } | Close { file } => Some(file),
            Open { file, .. } | Map { file } | Touch { file, .. } | Sync { file } | Evict { file } => Some(file),
            SyncData { file } | SetOwner { file } | Invalidate { file } | Allocate { file, .. } => Some(file),
            Attributes { file } | SeekEnd { file } => Some(file),
            Fill { file, .. } | ReadFile { file } | ReadOpen { file } | WriteFile { file, .. } => Some(file),
            Archive { .. } | Rename { .. } | MakeDirectory { .. } | List | SyncFolder => None,
            Prefetch { .. } | Turn { .. } | Pause { .. } => None,
        }
    }

    /// Whether it opens a file with O_DIRECT.
    pub(crate) fn opens_direct(&self) -> bool {
        matches!(self, Operation::Open { purpose: Purpose::Direct, .. })
    }

    /// Whether it gives a file its name, or takes it away.
    pub fn changes_a_name(&self) -> bool {
        matches!(self, Operation::Create { .. } | Operation::CreateFile { .. } | Operation::Delete { .. })
    }

    /// Bytes that it moves, as far as it says: reading a file whole does not.
    pub fn bytes(&self) -> u64 {
        use Operation::{Allocate, Append, Archive, Attributes, Close, Create, CreateFile, Delete, Evict, Fill};
        use Operation::{
            Invalidate, List, LookUp, MakeDirectory, Map, Open, Pause, Prefetch, Read, ReadFile, ReadOpen,
        };
        use Operation::{
            Rename, SeekEnd, SetOwner, Sync, SyncData, SyncFolder, Touch, Truncate, Turn, Write, WriteFile,
        };
        match *self {
            Read { bytes, .. } | Write { bytes, .. } | Append { bytes, .. } | WriteFile { bytes, .. } => bytes,
            // What there is, or what fits.
            ReadOpen { .. } | ReadFile { .. } | Archive { .. } | Fill { .. } => 0,
            Map { .. } | Touch { .. } | Prefetch { .. } | Truncate { .. } | Allocate { .. } => 0,
            Create { .. } | CreateFile { .. } | Delete { .. } | Rename { .. } | Open { .. } | Close { .. } => 0,
            LookUp { .. } | Attributes { .. } | SeekEnd { .. } | SetOwner { .. } | MakeDirectory { .. } | List => 0,
            Sync { .. } | SyncData { .. } | SyncFolder | Evict { .. } | Invalidate { .. } => 0,
            Turn { .. } | Pause { .. } => 0,
        }
    }
}
