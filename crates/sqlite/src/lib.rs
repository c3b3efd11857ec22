//! SQLite databases on SCMFS volumes, in process and on mounts: the VFS `scmfs`.
//!
//! A transaction in a rollback journal mode needs no journal file. The journal is kept in memory, as are the pages that
//! change, until SQLite commits: then they go to the volume in one [`write_batch`], all or nothing. Whatever does not
//! fit that, such as a transaction larger than a record of the volume's journal, or one over several databases, is done
//! by SQLite's own protocol, with a journal file in the volume. WAL mode works as on any file system.
//!
//! A database is named by a URI: `file:/app.db?vfs=scmfs&volume=/dev/shm/app.scmfs` is the file `/app.db` of the volume
//! in that file. `file:/mnt/app.db?vfs=scmfs` is a file on a mount that makes changes all at once; all other names
//! belong to the VFS that was the default before.
//!
//! It is layered. Each module uses only those above it in this table:
//!
//! | Module | For |
//! | --- | --- |
//! | `host` | what is called in SQLite |
//! | `store` | files as transactions see them |
//! | `place` | files of a volume by their paths |
//! | `transaction` | a transaction of one connection: staged, or by a journal file |
//! | `locks`, `shm` | the locks between the connections of this process, and the memory they share in WAL mode |
//! | `volumes` | the volumes in use, by their names |
//! | `files` | an open database, journal or WAL |
//! | `in_process` | databases in volumes of this process |
//! | `below`, `mounted` | the VFS that was the default before, and databases on mounts |
//! | `methods` | `sqlite3_io_methods`: files, as SQLite calls them |
//! | `vfs` | `sqlite3_vfs`: names, as SQLite calls them; registration |
//!
//! [`write_batch`]: pocketstone_scmfs::Volume::write_batch

mod below;
mod files;
mod host;
mod in_process;
mod locks;
mod methods;
mod mounted;
mod place;
mod shm;
mod store;
mod transaction;
mod vfs;
mod volumes;

pub use host::Host;
pub use vfs::{register, register_extension};
pub use volumes::{Attached, attach};
