//! The reference: a file system of maps, with what a loss of power may leave of each file.
//!
//! This file holds nodes, contents and attributes; `model_names.rs` what changes names.

use super::op::{Answer, Op, Outcome, Target, pattern};
use super::shape::{NOW_S, Shape};
use pocketstone_core::inode::{FileType, SetXattr};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub const EPERM: i32 = 1;
pub const ENOENT: i32 = 2;
pub const EEXIST: i32 = 17;
pub const ENOTDIR: i32 = 20;
pub const EISDIR: i32 = 21;
pub const EINVAL: i32 = 22;
pub const ENOSPC: i32 = 28;
pub const ENAMETOOLONG: i32 = 36;
pub const ENOTEMPTY: i32 = 39;
pub const ENODATA: i32 = 61;

pub type Id = u32;
pub const ROOT: Id = 0;
pub const LOST: Id = 1;

/// Last read, last change of the content, last change of the attributes; seconds.
pub type Times = [i64; 3];

#[derive(Debug, Clone)]
pub struct Node {
    pub kind: FileType,
    pub permissions: u16,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub times: Times,
    pub content: Rc<Vec<u8>>,
    pub symlink: String,
    pub entries: BTreeMap<String, Id>,
    /// Of a directory.
    pub parent: Id,
    pub xattrs: BTreeMap<String, Vec<u8>>,
    /// What a loss of power may leave: each chunk as in one of these, a size of these, times of these.
    pub versions: Vec<Rc<Vec<u8>>>,
    pub sizes: BTreeSet<u64>,
    pub times_since: Vec<Times>,
}

#[derive(Debug, Clone)]
pub struct Model {
    pub nodes: BTreeMap<Id, Node>,
    pub slots: BTreeMap<u8, Id>,
    next: Id,
    pub chunk_bytes: u64,
}

impl Model {
    pub fn new(shape: &Shape) -> Model {
        let mut model =
            Model { nodes: BTreeMap::new(), slots: BTreeMap::new(), next: ROOT, chunk_bytes: shape.chunk_bytes() };
        model.add(FileType::Directory, 0o755);
        model.add(FileType::Directory, 0o700);
        model.node_mut(ROOT).entries.insert("lost+found".into(), LOST);
        model
    }

    pub fn add(&mut self, kind: FileType, permissions: u16) -> Id {
        let id = self.next;
        self.next += 1;
        let content = Rc::new(Vec::new());
        let node = Node {
            kind,
            permissions,
            uid: 0,
            gid: 0,
            links: 1,
            times: [NOW_S; 3],
            versions: vec![content.clone()],
            content,
            symlink: String::new(),
            entries: BTreeMap::new(),
            parent: ROOT,
            xattrs: BTreeMap::new(),
            sizes: BTreeSet::from([0]),
            times_since: vec![[NOW_S; 3]],
        };
        self.nodes.insert(id, node);
        id
    }

    pub fn node(&self, id: Id) -> &Node {
        &self.nodes[&id]
    }

    pub fn node_mut(&mut self, id: Id) -> &mut Node {
        self.nodes.get_mut(&id).expect("a node lives while something refers to it")
    }

    pub fn apply(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Write(target, offset, bytes, fill) => {
                let Some(id) = self.file(target)? else { return Ok(Answer::Skipped) };
                let chunk_bytes = self.chunk_bytes;
                let node = self.node_mut(id);
                let mut content = (*node.content).clone();
                let (old, end) = (content.len() as u64, offset + bytes);
                if old < end {
                    content.resize(end as usize, 0);
                    node.sizes.extend([old, (*offset).max(old), end]);
                    node.sizes.extend((old / chunk_bytes + 1..=end / chunk_bytes).map(|chunk| chunk * chunk_bytes));
                }
                content[*offset as usize..end as usize].copy_from_slice(&pattern(*fill, *offset, *bytes));
                node.set(content);
                node.changed();
                Ok(Answer::Number(*bytes))
            }
            Op::Truncate(target, size) => {
                let Some(id) = self.file(target)? else { return Ok(Answer::Skipped) };
                let chunk_bytes = self.chunk_bytes;
                let node = self.node_mut(id);
                let mut content = (*node.content).clone();
                let old = content.len() as u64;
                node.sizes.extend((old / chunk_bytes + 1..=size / chunk_bytes).map(|chunk| chunk * chunk_bytes));
                content.resize(*size as usize, 0);
                node.set(content);
                node.changed();
                Ok(Answer::Done)
            }
            Op::Read(target, offset, bytes) => {
                let Some(id) = self.file(target)? else { return Ok(Answer::Skipped) };
                let content = &self.node(id).content;
                let from = (*offset as usize).min(content.len());
                Ok(Answer::Bytes(content[from..(from + *bytes as usize).min(content.len())].to_vec()))
            }
            Op::SyncFile(target) => match self.file(target)? {
                Some(id) => {
                    self.node_mut(id).settle();
                    Ok(Answer::Done)
                }
                None => Ok(Answer::Skipped),
            },
            Op::Sync => {
                self.nodes.values_mut().for_each(Node::settle);
                Ok(Answer::Done)
            }
            Op::Background => Ok(Answer::Done),
            Op::Chmod(path, permissions) => self.set(path, |node| node.permissions = *permissions),
            Op::Chown(path, uid, gid) => self.set(path, |node| (node.uid, node.gid) = (*uid, *gid)),
            Op::Times(path, read, changed) => self.set(path, |node| (node.times[0], node.times[1]) = (*read, *changed)),
            Op::SetXattr(..) | Op::RemoveXattr(..) => self.on_xattrs(op),
            _ => self.on_names(op),
        }
    }

    fn set(&mut self, path: &str, change: impl FnOnce(&mut Node)) -> Outcome {
        let id = self.walk(path)?;
        let node = self.node_mut(id);
        change(node);
        node.times[2] = NOW_S;
        node.times_since = vec![node.times];
        Ok(Answer::Done)
    }

    fn on_xattrs(&mut self, op: &Op) -> Outcome {
        let (Op::SetXattr(path, name, ..) | Op::RemoveXattr(path, name)) = op else {
            unreachable!("only operations on attributes come here")
        };
        let id = self.walk(path)?;
        let room = self.chunk_bytes - 512;
        let node = self.node_mut(id);
        let known = node.xattrs.contains_key(name);
        if let Op::SetXattr(_, _, bytes, fill, how) = op {
            match (how, known) {
                (SetXattr::Create, true) => return Err(EEXIST),
                (SetXattr::Replace, false) => return Err(ENODATA),
                _ => {}
            }
            // A record is its length in 4 bytes, the name, NUL, the value; all share the rest of the header's page.
            let others = node.xattrs.iter().filter(|(other, _)| *other != name);
            let taken: usize = others.map(|(name, value)| 5 + name.len() + value.len()).sum();
            if (taken + 5 + name.len()) as u64 + bytes > room {
                return Err(ENOSPC);
            }
            node.xattrs.insert(name.clone(), pattern(*fill, 0, *bytes));
        } else if node.xattrs.remove(name).is_none() {
            return Err(ENODATA);
        }
        node.times[2] = NOW_S;
        node.times_since = vec![node.times];
        Ok(Answer::Done)
    }

    /// What an operation that returned has made durable, beyond what [`Model::apply`] knows.
    pub fn settle(&mut self, op: &Op) {
        if let Op::Truncate(target, _) = op {
            if let Ok(Some(id)) = self.file(target) {
                self.node_mut(id).settle();
            }
        }
    }

    /// A file whose content can be used; `None` for kinds of objects that these tests do not open.
    pub fn file(&self, target: &Target) -> Result<Option<Id>, i32> {
        let id = match target {
            Target::Slot(slot) => match self.slots.get(slot) {
                Some(id) => *id,
                None => return Ok(None),
            },
            Target::Path(path) => self.walk(path)?,
        };
        match self.node(id).kind {
            FileType::Regular => Ok(Some(id)),
            FileType::Directory => Err(EISDIR),
            _ => Ok(None),
        }
    }

    /// Nothing is open any more; what had no name is gone.
    pub fn restart(&mut self) {
        self.slots.clear();
        self.nodes.retain(|_, node| node.links > 0);
    }
}

impl Node {
    fn set(&mut self, content: Vec<u8>) {
        self.sizes.insert(content.len() as u64);
        self.content = Rc::new(content);
        self.versions.push(self.content.clone());
    }

    /// The content is what the volume says: an operation on it failed on the way.
    pub fn adopt(&mut self, content: Vec<u8>) {
        self.set(content);
    }

    /// Content or names in it changed now.
    pub fn changed(&mut self) {
        (self.times[1], self.times[2]) = (NOW_S, NOW_S);
        self.times_since.push(self.times);
    }

    /// Attributes changed now, in memory.
    pub fn touched(&mut self) {
        self.times[2] = NOW_S;
        self.times_since.push(self.times);
    }

    pub fn settle(&mut self) {
        self.versions = vec![self.content.clone()];
        self.sizes = BTreeSet::from([self.content.len() as u64]);
        self.times_since = vec![self.times];
    }
}
