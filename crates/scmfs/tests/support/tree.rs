//! A whole volume as plain data, read through the public interface, and checked on the way.

use super::content::Content;
use pocketstone_scmfs::{Attr, Entry, Error, FileType, Ino, ROOT, Volume};
use std::collections::BTreeMap;
use std::fmt;

/// Everything that must not change unless an operation changes it; times may lag behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The first of the object's names: the same for all links to it.
    pub first: String,
    pub kind: FileType,
    pub permissions: u16,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub content: Content,
    pub symlink: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

pub type Tree = BTreeMap<String, Leaf>;

/// Why a volume could not be read as a tree.
pub enum Broken {
    /// It said so itself.
    Error(String, Error),
    /// It gave answers that contradict each other.
    Contradiction(String),
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Error(path, error) => write!(f, "{path}: {error}"),
            Broken::Contradiction(text) => f.write_str(text),
        }
    }
}

/// More names than any test makes; a damaged volume may pretend to have more.
const MOST_NAMES: usize = 20_000;
/// Files up to this size are also read in one piece, and through a view.
const READ_WHOLE_BYTES: u64 = 1 << 20;

pub fn walk(volume: &Volume) -> Result<Tree, Broken> {
    let mut walker = Walker { volume, tree: Tree::new(), inos: BTreeMap::new(), first: BTreeMap::new() };
    let mut todo = vec![(String::from("/"), ROOT, ROOT)];
    while let Some((path, ino, parent)) = todo.pop() {
        walker.inos.insert(path.clone(), ino);
        let leaf = walker.leaf(&path, ino)?;
        if leaf.kind == FileType::Directory {
            todo.extend(walker.directory(&path, ino, parent, leaf.links)?);
        }
        if walker.tree.insert(path.clone(), leaf).is_some() || walker.tree.len() > MOST_NAMES {
            return Err(Broken::Contradiction(format!("{path}: met twice, or too many names")));
        }
    }
    walker.finish()
}

struct Walker<'a> {
    volume: &'a Volume,
    tree: Tree,
    /// What each path led to.
    inos: BTreeMap<String, Ino>,
    /// The first name of each inode, and the number of its names.
    first: BTreeMap<Ino, (String, u32)>,
}

fn require(holds: bool, path: &str, what: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken::Contradiction(format!("{path}: {}", what()))) }
}

impl Walker<'_> {
    fn leaf(&mut self, path: &str, ino: Ino) -> Result<Leaf, Broken> {
        let failed = |error| Broken::Error(path.into(), error);
        let attr = self.volume.attributes(ino).map_err(failed)?;
        require(attr.ino == ino, path, || format!("inode {ino} says it is {}", attr.ino))?;
        let names = self.first.entry(ino).or_insert_with(|| (path.into(), 0));
        names.1 += 1;
        if names.0.as_str() > path {
            names.0 = path.into();
        }
        let mut leaf = Leaf {
            first: String::new(),
            kind: attr.kind,
            permissions: attr.permissions,
            uid: attr.uid,
            gid: attr.gid,
            links: attr.links,
            content: Content::default(),
            symlink: Vec::new(),
            xattrs: BTreeMap::new(),
        };
        match attr.kind {
            FileType::Regular => leaf.content = self.content(path, &attr)?,
            FileType::Symlink => {
                leaf.symlink = self.volume.read_link(ino).map_err(failed)?;
                require(leaf.symlink.len() as u64 == attr.size, path, || "a link of another size".into())?;
            }
            _ => {}
        }
        for name in self.volume.list_xattrs(ino).map_err(failed)? {
            let value = self.volume.get_xattr(ino, &name).map_err(failed)?;
            require(leaf.xattrs.insert(name, value).is_none(), path, || "an attribute is listed twice".into())?;
        }
        Ok(leaf)
    }

    fn content(&self, path: &str, attr: &Attr) -> Result<Content, Broken> {
        let failed = |error| Broken::Error(path.into(), error);
        let file = self.volume.open_file(attr.ino).map_err(failed)?;
        let mut content = Content::default();
        let mut at = 0;
        // From data to data, so that holes cost nothing however large they are.
        while at < attr.size {
            let data = match file.next_data(at) {
                Ok(data) => data,
                Err(Error::NoMore) => break,
                Err(error) => return Err(failed(error)),
            };
            let hole = file.next_hole(data).map_err(failed)?;
            let holds = at <= data && data < hole && hole <= attr.size;
            require(holds, path, || format!("data {data}..{hole} after {at} of {}", attr.size))?;
            for from in (data..hole).step_by(READ_WHOLE_BYTES as usize) {
                let mut buffer = vec![0; (hole - from).min(READ_WHOLE_BYTES) as usize];
                let got = file.read_at(&mut buffer, from).map_err(failed)?;
                require(got == buffer.len(), path, || format!("read {got} of {} bytes", buffer.len()))?;
                content.write(from, &buffer);
            }
            at = hole;
        }
        content.resize(attr.size);
        // One byte more than there is: a read ends at the end of the file.
        if attr.size <= READ_WHOLE_BYTES {
            let mut whole = vec![0xee; attr.size as usize + 1];
            let got = file.read_at(&mut whole, 0).map_err(failed)?;
            let expected = content.read(0, attr.size);
            require(whole[..got] == expected, path, || format!("a hole with data in it, or {got} bytes read"))?;
            let view = file.view().map_err(failed)?;
            require(*view == expected[..], path, || format!("a view ({} bytes) differs from a read", view.len()))?;
        }
        Ok(content)
    }

    fn directory(&self, path: &str, ino: Ino, parent: Ino, links: u32) -> Result<Vec<(String, Ino, Ino)>, Broken> {
        let failed = |error| Broken::Error(path.into(), error);
        let base = path.trim_end_matches('/');
        let mut children = Vec::new();
        let mut subdirectories = 0;
        for entry in list(self.volume, ino).map_err(failed)? {
            // Only damage makes names that are not UTF-8.
            let name = String::from_utf8(entry.name.clone()).unwrap_or_else(|_| entry.name.escape_ascii().to_string());
            let child = format!("{base}/{name}");
            let attr = self.volume.lookup(ino, &entry.name).map_err(|error| Broken::Error(child.clone(), error))?;
            let same = attr.ino == entry.ino && attr.kind == entry.kind;
            require(same, &child, || format!("listed as {:?} {}, found {attr:?}", entry.kind, entry.ino))?;
            let sane = !entry.name.is_empty() && name != "." && name != ".." && !name.contains('/');
            require(sane, &child, || "no name that can exist".into())?;
            subdirectories += u32::from(attr.kind == FileType::Directory);
            children.push((child, attr.ino, ino));
            require(children.len() <= MOST_NAMES, path, || "more names than were made".into())?;
        }
        require(links == 2 + subdirectories, path, || format!("{links} links, {subdirectories} directories in it"))?;
        let here = self.volume.lookup(ino, b".").map_err(failed)?.ino;
        let above = self.volume.lookup(ino, b"..").map_err(failed)?.ino;
        require(here == ino && above == parent, path, || format!("{ino} in {parent}: . is {here}, .. is {above}"))?;
        Ok(children)
    }

    fn finish(mut self) -> Result<Tree, Broken> {
        // From the root by the whole path, as well as from directory to directory.
        for (path, ino) in self.inos.iter().filter(|(path, _)| !path.contains('\\')) {
            let found = self.volume.resolve(path).map_err(|error| Broken::Error(path.clone(), error))?;
            require(found == *ino, path, || format!("leads to inode {found}, and to {ino} step by step"))?;
        }
        for (path, leaf) in &mut self.tree {
            let (first, names) = &self.first[&self.inos[path]];
            leaf.first = first.clone();
            let counted = leaf.kind == FileType::Directory || leaf.links == *names;
            require(counted, path, || format!("{} links, {names} names", leaf.links))?;
            require(leaf.kind != FileType::Directory || *names == 1, path, || "a directory with two names".into())?;
        }
        Ok(self.tree)
    }
}

/// All entries of a directory, a few at a time, so that cookies are used.
pub fn list(volume: &Volume, ino: Ino) -> Result<Vec<Entry>, Error> {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let cookie = entries.last().map_or(0, |entry| entry.cookie);
        let before = entries.len();
        volume.read_directory(ino, cookie, &mut |entry| {
            let room = entries.len() - before < 3;
            if room {
                entries.push(entry.clone());
            }
            room
        })?;
        if entries.len() == before || entries.len() > MOST_NAMES {
            return Ok(entries);
        }
    }
}

/// Where two trees differ, for a failure's message; empty when they do not.
pub fn differences(got: &Tree, want: &Tree) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, leaf) in want {
        match got.get(path) {
            None => lines.push(format!("{path} is missing: {leaf:?}")),
            Some(other) if other != leaf => {
                let at = other.content.differences(&leaf.content);
                let bytes = at.first().map_or(String::new(), |first| format!(" ({} bytes from {first} on)", at.len()));
                lines.push(format!("{path} is {other:?}, should be {leaf:?}{bytes}"));
            }
            Some(_) => {}
        }
    }
    lines.extend(got.keys().filter(|path| !want.contains_key(*path)).map(|path| format!("{path} should not exist")));
    lines
}
