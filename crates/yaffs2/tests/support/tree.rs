//! Everything that a volume shows, and whether it is what the model says.

use super::model::{Id, Model, ROOT, Times};
use pocketstone_core::inode::{Attr, Entry, FileType, Ino};
use pocketstone_yaffs2::Volume;
use std::collections::BTreeMap;

/// What stands behind a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    pub ino: Ino,
    /// The first of the paths that lead to the same object.
    pub first: String,
    pub kind: FileType,
    pub permissions: u16,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub links: u32,
    pub times: Times,
    pub content: Vec<u8>,
    pub symlink: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

pub type Tree = BTreeMap<String, Leaf>;

/// Files longer than this are not read: a damaged volume may say anything.
const LONGEST: u64 = 4 << 20;
const MOST_NAMES: usize = 20_000;

/// Reads a whole volume.
///
/// # Errors
/// What contradicts itself, or cannot be read.
pub fn walk(volume: &mut Volume) -> Result<Tree, String> {
    let mut tree = Tree::new();
    let mut first: BTreeMap<Ino, String> = BTreeMap::new();
    let mut directories = vec![(String::new(), 1, 1)];
    let root = volume.attributes(1).map_err(|error| format!("/: {error}"))?;
    let root = leaf(volume, "/", &root)?;
    tree.insert("/".into(), root);
    while let Some((path, ino, parent)) = directories.pop() {
        let failed = |error| format!("{path}: {error}");
        if volume.parent(ino).map_err(failed)? != parent {
            return Err(format!("{path}: not in {parent}"));
        }
        for entry in list(volume, ino).map_err(failed)? {
            let child = format!("{path}/{}", entry.name.escape_ascii());
            let attr = volume.lookup(ino, &entry.name).map_err(|error| format!("{child}: {error}"))?;
            if attr.ino != entry.ino || attr.kind != entry.kind {
                return Err(format!("{child}: listed as {entry:?}, found {attr:?}"));
            }
            let leaf = leaf(volume, &child, &attr)?;
            if attr.kind == FileType::Directory {
                directories.push((child.clone(), attr.ino, ino));
            }
            if tree.len() > MOST_NAMES {
                return Err("more names than were made".into());
            }
            if tree.insert(child.clone(), leaf).is_some() {
                return Err(format!("{child}: twice"));
            }
        }
    }
    for (path, leaf) in &mut tree {
        leaf.first = first.entry(leaf.ino).or_insert_with(|| path.clone()).clone();
    }
    let mut names: BTreeMap<Ino, u32> = BTreeMap::new();
    tree.values().for_each(|leaf| *names.entry(leaf.ino).or_default() += 1);
    let wrong = tree.iter().find(|(_, leaf)| leaf.kind != FileType::Directory && leaf.links != names[&leaf.ino]);
    match wrong {
        Some((path, leaf)) => Err(format!("{path}: {} links, {} names", leaf.links, names[&leaf.ino])),
        None => Ok(tree),
    }
}

fn leaf(volume: &mut Volume, path: &str, attr: &Attr) -> Result<Leaf, String> {
    let failed = |error| format!("{path}: {error}");
    let seconds = |ns: i64| ns.div_euclid(1_000_000_000);
    let mut content = Vec::new();
    if attr.kind == FileType::Regular && attr.size <= LONGEST {
        content = vec![0xEE; attr.size as usize + 3];
        let bytes = volume.read(attr.ino, 0, &mut content).map_err(failed)?;
        if bytes as u64 != attr.size {
            return Err(format!("{path}: {bytes} bytes read of {}", attr.size));
        }
        content.truncate(bytes);
    }
    let mut xattrs = BTreeMap::new();
    for name in volume.list_xattrs(attr.ino).map_err(failed)? {
        let value = volume.get_xattr(attr.ino, &name).map_err(failed)?;
        if xattrs.insert(name, value).is_some() {
            return Err(format!("{path}: an attribute is listed twice"));
        }
    }
    Ok(Leaf {
        ino: attr.ino,
        first: String::new(),
        kind: attr.kind,
        permissions: attr.permissions,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        links: attr.links,
        times: [seconds(attr.atime_ns), seconds(attr.mtime_ns), seconds(attr.ctime_ns)],
        content,
        symlink: if attr.kind == FileType::Symlink { volume.read_link(attr.ino).map_err(failed)? } else { Vec::new() },
        xattrs,
    })
}

/// All entries of a directory, a few at a time, so that cookies are used.
fn list(volume: &mut Volume, ino: Ino) -> pocketstone_core::inode::Result<Vec<Entry>> {
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

/// Whether a tree is the model's: exactly, or (`after_loss`) as a loss of power may have left it.
///
/// # Errors
/// The first difference.
pub fn compare(tree: &Tree, model: &Model, after_loss: bool) -> Result<(), String> {
    let mut first: BTreeMap<Id, String> = BTreeMap::new();
    let mut paths: BTreeMap<String, Id> = BTreeMap::new();
    let mut directories = vec![(String::new(), ROOT)];
    paths.insert("/".into(), ROOT);
    while let Some((path, id)) = directories.pop() {
        for (name, child) in &model.node(id).entries {
            let child_path = format!("{path}/{name}");
            if model.node(*child).kind == FileType::Directory {
                directories.push((child_path.clone(), *child));
            }
            paths.insert(child_path, *child);
        }
    }
    if let Some(path) = tree.keys().find(|path| !paths.contains_key(*path)) {
        return Err(format!("{path} should not exist"));
    }
    for (path, id) in &paths {
        let first = first.entry(*id).or_insert_with(|| path.clone()).clone();
        let leaf = tree.get(path).ok_or_else(|| format!("{path} is missing"))?;
        compare_leaf(leaf, model, *id, &first, after_loss).map_err(|what| format!("{path}: {what}"))?;
    }
    Ok(())
}

fn compare_leaf(leaf: &Leaf, model: &Model, id: Id, first: &str, after_loss: bool) -> Result<(), String> {
    let node = model.node(id);
    let must = |same: bool, what: &dyn Fn() -> String| if same { Ok(()) } else { Err(what()) };
    let is_directory = |id: &&Id| model.node(**id).kind == FileType::Directory;
    let links = match node.kind {
        FileType::Directory => 2 + node.entries.values().filter(is_directory).count() as u32,
        _ => node.links,
    };
    let got = (leaf.first.as_str(), leaf.kind, leaf.permissions, leaf.uid, leaf.gid, leaf.links);
    let want = (first, node.kind, node.permissions, node.uid, node.gid, links);
    must(got == want, &|| format!("{got:?}, should be {want:?}"))?;
    must(leaf.symlink == node.symlink.as_bytes(), &|| "another target".into())?;
    let xattrs: BTreeMap<Vec<u8>, Vec<u8>> =
        node.xattrs.iter().map(|(name, value)| (name.clone().into_bytes(), value.clone())).collect();
    must(leaf.xattrs == xattrs, &|| format!("attributes {:?}, should be {xattrs:?}", leaf.xattrs.keys()))?;
    if !after_loss {
        must(leaf.times == node.times, &|| format!("times {:?}, should be {:?}", leaf.times, node.times))?;
        let at = (0..leaf.content.len()).find(|at| leaf.content.get(*at) != node.content.get(*at));
        return must(leaf.content == *node.content, &|| {
            format!("{} bytes, should be {}; they differ from {at:?} on", leaf.content.len(), node.content.len())
        });
    }
    for which in 0..3 {
        let known = node.times_since.iter().any(|times| times[which] == leaf.times[which]);
        must(known, &|| format!("times {:?}, should be of {:?}", leaf.times, node.times_since))?;
    }
    let size = leaf.content.len() as u64;
    must(node.sizes.contains(&size), &|| format!("{size} bytes, should be of {:?}", node.sizes))?;
    let chunk = model.chunk_bytes as usize;
    for (number, part) in leaf.content.chunks(chunk).enumerate() {
        let from = number * chunk;
        let same = |version: &[u8]| {
            let known = version.len().saturating_sub(from).min(part.len());
            part[..known] == version[version.len().min(from)..][..known] && part[known..].iter().all(|byte| *byte == 0)
        };
        let versions = node.versions.len();
        must(node.versions.iter().any(|version| same(version)), &|| {
            format!("chunk {number} of {size} bytes is none of {versions} versions")
        })?;
    }
    Ok(())
}

/// A model of what a volume shows: all that a loss of power has left is durable.
pub fn adopt(tree: &Tree, model: &mut Model) {
    model.restart();
    let paths: Vec<(String, Id)> =
        tree.keys().map(|path| (path.clone(), model.walk(path).expect("compared before"))).collect();
    for (path, id) in paths {
        let (leaf, node) = (&tree[&path], model.node_mut(id));
        node.adopt(leaf.content.clone());
        node.times = leaf.times;
        node.settle();
    }
}
