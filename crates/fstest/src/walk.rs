//! A whole volume as plain data, read through the public interface, and checked on the way.

use crate::content::Content;
use crate::subject::{Broken, Subject};
use crate::tree::{Leaf, Tree};
use pocketstone_vfs::{Entry, Error, FileType, Ino, Operations, ROOT};
use std::collections::BTreeMap;

/// More names than any test makes; a damaged volume may pretend to have more.
const MOST_NAMES: usize = 20_000;

/// A volume, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    /// What every file system has.
    pub tree: Tree,
    /// The inode number and the device number behind each path.
    pub numbers: BTreeMap<String, (Ino, u32)>,
}

/// Reads a whole volume. Bytes of names that are no printable ASCII are escaped in paths.
///
/// # Errors
/// [`Broken::Contradiction`] where it contradicts itself, or has too many names; [`Broken::Error`] where it cannot be
/// read.
pub fn walk<S: Subject>(volume: &S::Volume) -> Result<Walked, Broken> {
    let walked = Walked { tree: Tree::new(), numbers: BTreeMap::new() };
    let mut walker = Walker::<S> { volume, walked, first: BTreeMap::new() };
    let mut todo = vec![(String::from("/"), ROOT, ROOT)];
    while let Some((path, ino, parent)) = todo.pop() {
        let leaf = walker.leaf(&path, ino, parent)?;
        if leaf.kind == FileType::Directory {
            todo.extend(walker.directory(&path, ino, parent, leaf.links)?);
        }
        let tree = &mut walker.walked.tree;
        if tree.insert(path.clone(), leaf).is_some() || tree.len() > MOST_NAMES {
            return Err(Broken::Contradiction(format!("{path}: met twice, or too many names")));
        }
    }
    walker.finish()
}

struct Walker<'a, S: Subject> {
    volume: &'a S::Volume,
    walked: Walked,
    /// The first name of each inode, and the number of its names.
    first: BTreeMap<Ino, (String, u32)>,
}

impl<S: Subject> Walker<'_, S> {
    fn leaf(&mut self, path: &str, ino: Ino, parent: Ino) -> Result<Leaf, Broken> {
        let failed = |error| Broken::Error(path.into(), error);
        let attr = self.volume.attributes(ino).map_err(failed)?;
        Broken::unless(attr.ino == ino, path, || format!("inode {ino} says it is {}", attr.ino))?;
        self.walked.numbers.insert(path.into(), (ino, attr.rdev));
        let names = self.first.entry(ino).or_insert_with(|| (path.into(), 0));
        names.1 += 1;
        if names.0.as_str() > path {
            names.0 = path.into();
        }
        let seconds = |ns: i64| ns.div_euclid(1_000_000_000);
        let mut leaf = Leaf {
            first: String::new(),
            kind: attr.kind,
            permissions: attr.permissions,
            uid: attr.uid,
            gid: attr.gid,
            links: attr.links,
            times: S::TIMES.then(|| [attr.atime_ns, attr.mtime_ns, attr.ctime_ns].map(seconds)),
            content: Content::default(),
            symlink: Vec::new(),
            xattrs: BTreeMap::new(),
        };
        match attr.kind {
            FileType::Regular => leaf.content = S::content(self.volume, path, &attr)?,
            FileType::Symlink => {
                leaf.symlink = self.volume.read_link(ino).map_err(failed)?;
                let same = leaf.symlink.len() as u64 == attr.size;
                Broken::unless(same, path, || "a link of another size".into())?;
            }
            _ => {}
        }
        for name in S::list_xattrs(self.volume, ino).map_err(failed)? {
            let value = S::get_xattr(self.volume, ino, &name).map_err(failed)?;
            Broken::unless(leaf.xattrs.insert(name, value).is_none(), path, || "an attribute is listed twice".into())?;
        }
        S::look(self.volume, path, &attr, parent)?;
        Ok(leaf)
    }

    fn directory(&self, path: &str, ino: Ino, parent: Ino, links: u32) -> Result<Vec<(String, Ino, Ino)>, Broken> {
        let failed = |error| Broken::Error(path.into(), error);
        let above = self.volume.parent(ino).map_err(failed)?;
        Broken::unless(above == parent, path, || format!("it is in {parent}, and says {above}"))?;
        let base = path.trim_end_matches('/');
        let mut children = Vec::new();
        let mut subdirectories = 0;
        for entry in list(self.volume, ino).map_err(failed)? {
            let name = entry.name.escape_ascii().to_string();
            let child = format!("{base}/{name}");
            let attr = self.volume.lookup(ino, &entry.name).map_err(|error| Broken::Error(child.clone(), error))?;
            let same = attr.ino == entry.ino && attr.kind == entry.kind;
            Broken::unless(same, &child, || format!("listed as {:?} {}, found {attr:?}", entry.kind, entry.ino))?;
            let sane = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
            Broken::unless(sane, &child, || "no name that can exist".into())?;
            subdirectories += u32::from(attr.kind == FileType::Directory);
            children.push((child, attr.ino, ino));
            Broken::unless(children.len() <= MOST_NAMES, path, || "more names than were made".into())?;
        }
        let counted = links == 2 + subdirectories;
        Broken::unless(counted, path, || format!("{links} links, {subdirectories} directories in it"))?;
        Ok(children)
    }

    fn finish(mut self) -> Result<Walked, Broken> {
        for (path, leaf) in &mut self.walked.tree {
            let (first, names) = &self.first[&self.walked.numbers[path].0];
            leaf.first = first.clone();
            let counted = leaf.kind == FileType::Directory || leaf.links == *names;
            Broken::unless(counted, path, || format!("{} links, {names} names", leaf.links))?;
            let alone = leaf.kind != FileType::Directory || *names == 1;
            Broken::unless(alone, path, || "a directory with two names".into())?;
        }
        Ok(self.walked)
    }
}

/// All entries of a directory, a few at a time, so that cookies are used.
///
/// # Errors
/// As [`Operations::read_directory`].
pub fn list(volume: &impl Operations, ino: Ino) -> Result<Vec<Entry>, Error> {
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
