//! A volume's tree as the independent reader (`tests/yaffs2/README.md`) prints it, and that reader as a process.

use super::subject::walk;
use pocketstone_fstest::Walked;
use pocketstone_media::nand::{Nand, SimulatedNand};
use pocketstone_vfs::FileType;
use pocketstone_yaffs2::Volume;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// By path.
pub type Rows = BTreeMap<String, Map<String, Value>>;

/// Where the Python tools are.
pub fn tool(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/yaffs2").join(name)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Printable ASCII but "%" as it is, the rest in hexadecimal.
fn escaped(bytes: &[u8]) -> String {
    let one = |&byte: &u8| match byte {
        b'%' | 0..=0x1F | 0x7F.. => format!("%{byte:02X}"),
        _ => char::from(byte).to_string(),
    };
    bytes.iter().map(one).collect()
}

/// What a volume shows.
///
/// # Errors
/// The `String` of [`walk`].
pub fn rows(volume: &Volume) -> Result<Rows, String> {
    Ok(of_walked(&walk(volume)?))
}

fn of_walked(walked: &Walked) -> Rows {
    let kept = walked.tree.iter().filter(|(path, _)| !path.starts_with("/lost+found/"));
    kept.map(|(path, leaf)| {
        let (ino, rdev) = walked.numbers[path];
        let (kind, type_bits) = match leaf.kind {
            FileType::Regular => ("file", 0o100_000),
            FileType::Directory => ("directory", 0o40_000),
            FileType::Symlink => ("symlink", 0o120_000),
            FileType::Fifo => ("special", 0o10_000),
            FileType::CharDevice => ("special", 0o20_000),
            FileType::BlockDevice => ("special", 0o60_000),
            FileType::Socket => ("special", 0o140_000),
        };
        let is_file = kind == "file";
        // A negative time has the mark of 32-bit times in its upper word, which the reader takes for such a one.
        let times = leaf.times.expect("times are compared").map(|time| if time < 0 { time + (1 << 32) } else { time });
        let xattrs: Map<String, Value> =
            leaf.xattrs.iter().map(|(name, value)| (escaped(name), hex(value).into())).collect();
        let row = json!({
            "inode": ino, "type": kind, "mode": type_bits | u32::from(leaf.permissions),
            "uid": leaf.uid, "gid": leaf.gid,
            "atime": times[0], "mtime": times[1], "ctime": times[2],
            "size": is_file.then_some(leaf.content.size()),
            "sha256": is_file.then(|| hex(&Sha256::digest(leaf.content.read(0, leaf.content.size())))),
            "target": (kind == "symlink").then(|| escaped(&leaf.symlink)),
            "rdev": (kind == "special").then_some(rdev),
            "xattrs": xattrs,
            "links": (kind != "directory").then_some(leaf.links),
        });
        (unescape_ascii(path), row.as_object().cloned().unwrap_or_default())
    })
    .collect()
}

/// The tree's paths are escaped as Rust does it; the reader has its own way.
fn unescape_ascii(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'x') => {
                let two: Vec<u8> = rest.by_ref().take(2).collect();
                let text = String::from_utf8_lossy(&two).into_owned();
                bytes.push(u8::from_str_radix(&text, 16).expect("two digits follow"));
            }
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'r') => bytes.push(b'\r'),
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    escaped(&bytes)
}

/// Rows out of a document; which link object a name is, no volume says.
pub fn of_document(document: &Value) -> Rows {
    let objects = document["objects"].as_array().expect("a document has objects");
    let row = |row: &Value| {
        let mut row = row.as_object().cloned().expect("objects are rows");
        row.remove("hard_link");
        for time in ["atime", "mtime", "ctime"].map(|name| name.to_string()) {
            // A volume's times are nanoseconds in 64 bits, which end in 2262.
            let seconds = row[&time].as_i64().map(|seconds| seconds.min(i64::MAX / 1_000_000_000));
            row.insert(time, seconds.into());
        }
        (row.remove("path").and_then(|path| path.as_str().map(String::from)).expect("rows have paths"), row)
    };
    objects.iter().map(row).collect()
}

/// Where two sets of rows differ. What has no header has no attributes: the volume makes some up.
pub fn differences(volume: &Rows, reader: &Rows) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, row) in reader {
        let Some(other) = volume.get(path) else {
            lines.push(format!("{path} is missing"));
            continue;
        };
        let fixed = path == "/" || path == "/lost+found";
        let same = |(key, value): (&String, &Value)| fixed && value.is_null() || other.get(key) == Some(value);
        if row.len() != other.len() || !row.iter().all(same) {
            lines.push(format!("{path} is {other:?}, should be {row:?}"));
        }
    }
    lines.extend(volume.keys().filter(|path| !reader.contains_key(*path)).map(|path| format!("{path} should not be")));
    lines
}

/// The independent reader, which answers a line for every line.
pub struct Reader {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
    dump: tempfile::NamedTempFile,
}

impl Reader {
    pub fn start() -> Reader {
        let mut child = Command::new("python3")
            .arg(tool("reader.py"))
            .arg("--lines")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the reader starts");
        let answers = BufReader::new(child.stdout.take().expect("it has an output"));
        Reader { child, answers, dump: tempfile::NamedTempFile::new().expect("a temporary file") }
    }

    /// The document of a chip.
    pub fn read(&mut self, chip: &SimulatedNand, options: &pocketstone_yaffs2::OpenOptions, checkpoint: bool) -> Value {
        std::fs::write(self.dump.path(), chip.image()).expect("an image is written");
        let (geometry, layout) = (chip.geometry(), chip.layout());
        let asked = json!({
            "dump": self.dump.path(), "page": geometry.page_bytes, "spare": layout.spare_total_bytes,
            "spare_offset": layout.spare_offset, "pages_per_block": geometry.pages_per_block,
            "inband": options.inband_tags, "tags_ecc": options.tags_ecc, "checkpoint": checkpoint,
            "summary": options.summary, "keep_lost_and_found": false,
        });
        let input = self.child.stdin.as_mut().expect("it has an input");
        writeln!(input, "{asked}").expect("the reader listens");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the reader answers");
        let document: Value = serde_json::from_str(&answer).expect("it answers JSON");
        assert!(document.get("error").is_none(), "{document}");
        document
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
