//! Volumes, and databases in them.

use pocketstone_media::{Pcm, PcmOptions};
use pocketstone_scmfs::{CreateOptions, File, OpenOptions, Operations, ROOT, Volume};
use pocketstone_sqlite::{Attached, Host, attach, register};
use rusqlite::{Connection, OpenFlags};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory with a volume, which can be opened again.
pub struct Memory(Pcm);

impl Memory {
    pub fn new(bytes: u64) -> Memory {
        let (memory, _) = Pcm::new(bytes, &PcmOptions::default().read_ns(0).write_ns(0));
        Volume::create(Box::new(memory.region().unwrap()), &CreateOptions::default()).unwrap();
        Memory(memory)
    }

    pub fn volume(&self) -> Volume {
        Volume::open(Box::new(self.0.region().unwrap()), &OpenOptions::default()).unwrap()
    }

    /// Does something to a file of its root.
    pub fn with(&self, name: &str, f: impl FnOnce(&File)) {
        let volume = self.volume();
        f(&volume.open(volume.lookup(ROOT, name.as_bytes()).unwrap().ino).unwrap());
    }
}

/// A volume in memory, and the name it is attached by.
pub struct Home {
    pub name: String,
    _volume: Attached,
}

impl Home {
    pub fn new(bytes: u64) -> Home {
        Home::of(Memory::new(bytes).volume())
    }

    pub fn of(volume: Volume) -> Home {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Home::named(&format!("volume-{}", NEXT.fetch_add(1, Ordering::Relaxed)), volume)
    }

    /// What recovers several databases looks for a file by its whole name, the volume's among it.
    pub fn named(name: &str, volume: Volume) -> Home {
        register(Host::linked()).unwrap();
        Home { _volume: attach(name, volume).unwrap(), name: name.to_owned() }
    }

    pub fn uri(&self, file: &str) -> String {
        format!("file:{file}?vfs=scmfs&volume={}", self.name)
    }

    pub fn connect(&self, file: &str) -> Connection {
        connect(&self.uri(file))
    }
}

pub fn connect(uri: &str) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags).unwrap_or_else(|e| panic!("{uri}: {e}"))
}

pub fn text(connection: &Connection, sql: &str) -> String {
    connection.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0).map(|v| show(&v))).unwrap()
}

pub fn show(value: &rusqlite::types::Value) -> String {
    match value {
        rusqlite::types::Value::Integer(number) => number.to_string(),
        rusqlite::types::Value::Text(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

/// What integrity_check says.
pub fn integrity(connection: &Connection) -> String {
    text(connection, "PRAGMA integrity_check")
}
