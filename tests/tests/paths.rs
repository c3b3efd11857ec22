//! The path layer does on both file systems what the standard library does on this machine's.

use pocketstone_media::nand::{Geometry, SimulatedNand, SimulatedOptions};
use pocketstone_media::{MapOptions, Mapped};
use pocketstone_vfs::{FileSystem, FileType, OpenOptions, Operations};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use {pocketstone_scmfs as scmfs, pocketstone_yaffs2 as yaffs2};

/// A step by paths; what it gives is compared.
#[derive(Debug, Clone)]
enum Step {
    CreateDir(&'static str),
    CreateDirAll(&'static str),
    RemoveDir(&'static str),
    RemoveFile(&'static str),
    Rename(&'static str, &'static str),
    HardLink(&'static str, &'static str),
    Symlink(&'static str, &'static str),
    ReadLink(&'static str),
    Write(&'static str, &'static str),
    Read(&'static str),
    Metadata(&'static str),
    SymlinkMetadata(&'static str),
    ReadDir(&'static str),
    Permissions(&'static str, u16),
    /// Options as letters (read, write, append, truncate, create, new), then seeks and text to write at each; the rest
    /// of the file as it is read then.
    Open(&'static str, &'static str, &'static [(i64, &'static str)]),
    /// Opens for reading, removes, reads.
    ReadRemoved(&'static str),
}

/// What a step gave: text, or the number of an error.
type Outcome = Result<String, i32>;

fn number(error: impl Into<io::Error>) -> i32 {
    let error = error.into();
    match (error.raw_os_error(), error.kind()) {
        (Some(number), _) => number,
        // What the standard library refuses itself: EINVAL.
        (None, io::ErrorKind::InvalidInput) => 22,
        _ => panic!("not of the system: {error}"),
    }
}

fn work(file: &mut (impl Read + Write + Seek), steps: &[(i64, &str)]) -> io::Result<String> {
    let mut said = String::new();
    for (to, text) in steps {
        // A negative place counts from the end.
        let to = if *to < 0 { SeekFrom::End(*to) } else { SeekFrom::Start(*to as u64) };
        file.seek(to)?;
        file.write_all(text.as_bytes())?;
        said += &format!("{} ", file.stream_position()?);
    }
    file.flush()?;
    file.read_to_string(&mut said)?;
    Ok(said)
}

fn in_std(root: &Path, step: &Step) -> Outcome {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let at = |path: &str| match path {
        "" => PathBuf::new(),
        path => PathBuf::from(format!("{}/{}", root.display(), path.trim_start_matches('/'))),
    };
    let attributes = |m: fs::Metadata| {
        let bytes = if m.is_dir() { 0 } else { m.len() };
        let links = if m.is_dir() { 0 } else { m.nlink() };
        format!("{:o} {bytes} {links}", m.mode())
    };
    let outcome: io::Result<String> = (|| {
        Ok(match step {
            Step::CreateDir(path) => fs::create_dir(at(path)).map(|()| String::new())?,
            Step::CreateDirAll(path) => fs::create_dir_all(at(path)).map(|()| String::new())?,
            Step::RemoveDir(path) => fs::remove_dir(at(path)).map(|()| String::new())?,
            Step::RemoveFile(path) => fs::remove_file(at(path)).map(|()| String::new())?,
            Step::Rename(from, to) => fs::rename(at(from), at(to)).map(|()| String::new())?,
            Step::HardLink(old, new) => fs::hard_link(at(old), at(new)).map(|()| String::new())?,
            Step::Symlink(target, link) => symlink(target, at(link)).map(|()| String::new())?,
            Step::ReadLink(path) => fs::read_link(at(path))?.to_str().expect("text").to_owned(),
            Step::Write(path, text) => fs::write(at(path), text).map(|()| String::new())?,
            Step::Read(path) => String::from_utf8(fs::read(at(path))?).expect("text"),
            Step::Metadata(path) => attributes(fs::metadata(at(path))?),
            Step::SymlinkMetadata(path) => attributes(fs::symlink_metadata(at(path))?),
            Step::ReadDir(path) => {
                let entries = fs::read_dir(at(path))?.map(|entry| entry.map(|e| e.file_name().into_string()));
                let mut names: Vec<String> =
                    entries.map(|name| name.map(|n| n.expect("text"))).collect::<Result<_, _>>()?;
                names.retain(|name| name != "lost+found");
                names.sort();
                names.join(" ")
            }
            Step::Permissions(path, mode) => {
                let mode = fs::Permissions::from_mode(u32::from(*mode));
                fs::set_permissions(at(path), mode).map(|()| String::new())?
            }
            Step::Open(path, how, steps) => {
                let has = |letter| how.contains(letter);
                let mut options = fs::OpenOptions::new();
                options.read(has('r')).write(has('w')).append(has('a')).truncate(has('t')).create(has('c'));
                work(&mut options.create_new(has('n')).open(at(path))?, steps)?
            }
            Step::ReadRemoved(path) => {
                let mut file = fs::File::open(at(path))?;
                fs::remove_file(at(path))?;
                let mut text = String::new();
                file.read_to_string(&mut text)?;
                text
            }
        })
    })();
    outcome.map_err(number)
}

fn in_volume<V: Operations>(fs: &FileSystem<V>, step: &Step) -> Outcome {
    let attributes = |attr: pocketstone_vfs::Attr| {
        let is_directory = attr.kind == FileType::Directory;
        let (bytes, links) = if is_directory { (0, 0) } else { (attr.size, attr.links) };
        format!("{:o} {bytes} {links}", attr.kind.mode_bits() | attr.permissions)
    };
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let outcome: io::Result<String> = (|| {
        Ok(match step {
            Step::CreateDir(path) => fs.create_dir(path).map(|()| String::new())?,
            Step::CreateDirAll(path) => fs.create_dir_all(path).map(|()| String::new())?,
            Step::RemoveDir(path) => fs.remove_dir(path).map(|()| String::new())?,
            Step::RemoveFile(path) => fs.remove_file(path).map(|()| String::new())?,
            Step::Rename(from, to) => fs.rename(from, to).map(|()| String::new())?,
            Step::HardLink(old, new) => fs.hard_link(old, new).map(|()| String::new())?,
            Step::Symlink(target, link) => fs.symlink(target, link).map(|()| String::new())?,
            Step::ReadLink(path) => text(fs.read_link(path)?),
            Step::Write(path, text) => fs.write(path, text).map(|()| String::new())?,
            Step::Read(path) => text(fs.read(path)?),
            Step::Metadata(path) => attributes(fs.metadata(path)?),
            Step::SymlinkMetadata(path) => attributes(fs.symlink_metadata(path)?),
            Step::ReadDir(path) => {
                let names = fs.read_dir(path)?.map(|entry| entry.map(|e| text(e.name)));
                let mut names: Vec<String> = names.collect::<Result<_, _>>()?;
                names.retain(|name| name != "lost+found");
                names.sort();
                names.join(" ")
            }
            Step::Permissions(path, mode) => fs.set_permissions(path, *mode).map(|()| String::new())?,
            Step::Open(path, how, steps) => {
                let has = |letter| how.contains(letter);
                let mut options = OpenOptions::new();
                options.read(has('r')).write(has('w')).append(has('a')).truncate(has('t')).create(has('c'));
                let mut file = options.create_new(has('n')).open(fs, path)?;
                work(&mut file, steps)?
            }
            Step::ReadRemoved(path) => {
                let mut file = fs.open(path)?;
                fs.remove_file(path)?;
                let mut text = String::new();
                file.read_to_string(&mut text).expect("it is still open");
                text
            }
        })
    })();
    outcome.map_err(number)
}

fn steps() -> Vec<Step> {
    use Step::*;
    vec![
        CreateDir("/a"),
        CreateDir("/a"),
        CreateDir("/none/b"),
        CreateDirAll("/a/b/c/d"),
        CreateDirAll("a/b"),
        Write("/a/f", "hello"),
        Write("/a/f/g", "no"),
        Write("/a/b", "no"),
        Read("/a/f"),
        Read("/a/b/../f"),
        Read("/a/./b/c/../../f"),
        Read("//a//f"),
        Read("/a/f/"),
        Read("/a/none"),
        Read("/a/b"),
        Read(""),
        Metadata("/a/f"),
        Metadata("/a/b/"),
        Metadata("/"),
        Permissions("/a/f", 0o600),
        Permissions("/a/b", 0o711),
        Metadata("/a/f"),
        Metadata("/a/b"),
        Symlink("b/c", "/a/to-c"),
        Symlink("../a/f", "/a/to-f"),
        Symlink("to-f", "/a/to-to-f"),
        Symlink("nowhere", "/a/dangling"),
        Symlink("loop", "/a/loop"),
        Symlink("x", "/a/f"),
        ReadLink("/a/to-c"),
        ReadLink("/a/f"),
        Read("/a/to-f"),
        Read("/a/to-to-f"),
        Read("/a/loop"),
        Read("/a/dangling"),
        Metadata("/a/to-c/d"),
        SymlinkMetadata("/a/to-c/d/.."),
        Metadata("/a/to-f/"),
        CreateDir("/a/to-c/e"),
        ReadDir("/a/b/c"),
        ReadDir("/a/to-c"),
        ReadDir("/a/f"),
        ReadDir("/a"),
        Open("/a/f", "r", &[]),
        Open("/a/f", "", &[]),
        Open("/a/f", "rt", &[]),
        Open("/a/f", "rc", &[]),
        Open("/a/f", "at", &[]),
        Open("/a/f", "wn", &[]),
        Open("/a/new", "rw", &[]),
        Open("/a/new", "rwn", &[(0, "abc"), (1, "X"), (-1, "YZ"), (10, "end")]),
        Open("/a/new", "w", &[(0, "no reading")]),
        Read("/a/new"),
        Open("/a/new", "ra", &[(0, "more"), (0, "and more")]),
        Read("/a/new"),
        Open("/a/new", "rwc", &[(2, "!")]),
        Open("/a/new", "rwt", &[]),
        Metadata("/a/new"),
        Open("/a/b/", "wc", &[]),
        Open("/a/dir/", "wc", &[]),
        HardLink("/a/f", "/a/b/f2"),
        HardLink("/a/b", "/a/b2"),
        HardLink("/a/none", "/a/b3"),
        HardLink("/a/f", "/a/new"),
        Metadata("/a/b/f2"),
        Rename("/a/f", "/a/b/c/f3"),
        Read("/a/b/f2"),
        Rename("/a/b/c/f3", "/a/new"),
        Read("/a/new"),
        Rename("/a/b", "/a/b/c/under"),
        Rename("/a/b", "/a/new"),
        Rename("/a/new", "/a/b"),
        Rename("/a/none", "/a/any"),
        CreateDir("/empty"),
        Rename("/a", "/empty"),
        Rename("/empty", "/a"),
        ReadDir("/"),
        Rename("/a/b/.", "/a/any"),
        Rename("/a/b/..", "/a/any"),
        Rename("/a/b/../", "/a/any"),
        Rename("/a/b", "/a/b/."),
        Rename("/a/b", "/a/b/c/.."),
        Rename("/a/none", "/a/b/."),
        Rename("/a/none/.", "/a/any"),
        Rename("/a/b/.", "/a/none/any"),
        Rename("/a/new/.", "/a/any"),
        Rename("/a/b", "/a/new/.."),
        Rename("/a/new/", "/a/any"),
        Rename("/a/none/", "/a/any"),
        ReadRemoved("/a/new"),
        ReadDir("/a"),
        RemoveFile("/a/b"),
        RemoveFile("/a/to-c/"),
        RemoveFile("/a/to-c"),
        RemoveFile("/a/b/f2/"),
        RemoveFile("/a/none"),
        RemoveDir("/a/b/f2"),
        RemoveDir("/a/b"),
        RemoveDir("/a/b/c/d/"),
        RemoveDir("/a/b/c/d"),
        RemoveDir("/a/b/c/e/."),
        ReadDir("/a/b"),
    ]
}

fn compare<V: Operations>(what: &str, fs: &FileSystem<V>) {
    let home = tempfile::tempdir().expect("a folder");
    let root = home.path().join("root");
    std::fs::create_dir(&root).expect("made");
    // Which bits new files get is nobody's choice here.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let outcomes = steps().into_iter().map(|step| (in_volume(fs, &step), in_std(&root, &step), step));
    let differ: Vec<String> = outcomes
        .filter(|(found, expected, _)| found != expected)
        .map(|(found, expected, step)| format!("{step:?}: {found:?}, not {expected:?}"))
        .collect();
    assert!(differ.is_empty(), "{what}:\n{}", differ.join("\n"));
    // More names than are read at a time.
    fs.create_dir("/many").expect("made");
    let names: std::collections::BTreeSet<Vec<u8>> = (0..500).map(|n| format!("name {n}").into_bytes()).collect();
    for name in &names {
        fs.write([b"/many/", &name[..]].concat(), name).expect("written");
    }
    let listed: Vec<Vec<u8>> = fs.read_dir("/many").expect("listed").map(|entry| entry.expect("read").name).collect();
    assert_eq!(listed.len(), 500);
    assert!(listed.into_iter().collect::<std::collections::BTreeSet<_>>() == names);
}

#[test]
fn scmfs_has_the_paths_of_the_standard_library() {
    let home = tempfile::tempdir().expect("a folder");
    let path = home.path().join("volume");
    let region = Mapped::create(&path, 32 << 20, &MapOptions::default()).expect("a region");
    scmfs::Volume::create(Box::new(region), &scmfs::CreateOptions::default()).expect("a volume");
    let region = Mapped::open(&path, &MapOptions::default()).expect("the region");
    let fs =
        scmfs::Volume::open(Box::new(region), &scmfs::OpenOptions::default()).expect("it opens").into_file_system();
    compare("SCMFS", &fs);
    let before = fs.volume().usage().inodes_used;
    let held = fs.open("/many/name 1").expect("opened");
    fs.remove_file("/many/name 1").expect("removed");
    assert_eq!(fs.volume().usage().inodes_used, before);
    drop(held);
    assert_eq!(fs.volume().usage().inodes_used, before - 1, "the file goes with its last handle");
    fs.into_volume().close().expect("closed");
}

#[test]
fn yaffs2_has_the_paths_of_the_standard_library() {
    let geometry = Geometry { page_bytes: 2048, spare_bytes: 64, pages_per_block: 64, blocks: 128 };
    let mut chip = SimulatedNand::new(geometry, SimulatedOptions::default());
    yaffs2::Volume::create(&mut chip).expect("a volume");
    let options = yaffs2::OpenOptions::default();
    let fs = yaffs2::Volume::open(Box::new(chip.clone()), &options).expect("it opens").into_file_system();
    compare("YAFFS2", &fs);
    let objects = || fs.volume().usage().objects;
    let before = objects();
    let held = fs.open("/many/name 1").expect("opened");
    fs.remove_file("/many/name 1").expect("removed");
    assert_eq!(objects(), before);
    drop(held);
    assert_eq!(objects(), before - 1, "the file goes with its last handle");
    fs.into_volume().close().expect("closed");
    // What was written is on the chip.
    let fs = yaffs2::Volume::open(Box::new(chip), &options).expect("it opens again").into_file_system();
    assert_eq!(fs.read("/many/name 2").expect("read"), b"name 2");
}
