//! The reference: a file system of maps, as POSIX and the Linux manual pages describe one.
//!
//! This file holds nodes, paths and files' contents; `model_names.rs` what changes names.

use super::content::{Content, pattern};
use super::errno::*;
use super::op::{Op, Outcome, Target};
use super::tree::{Leaf, Tree};
use pocketstone_scmfs::{Allocate, FileType, SetXattr};
use std::collections::BTreeMap;

pub type Id = u32;
pub const ROOT: Id = 0;

/// What attributes an operation returns, without what depends on the implementation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub kind: FileType,
    pub permissions: u16,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    /// 0 for directories.
    pub size: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Object {
    pub kind: FileType,
    pub permissions: u16,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub content: Content,
    pub symlink: String,
    pub entries: BTreeMap<String, Id>,
    /// Of a directory.
    pub parent: Id,
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Handle {
    pub id: Id,
    /// Made without a name, and still without one.
    pub unnamed: bool,
}

#[derive(Debug, Clone)]
pub struct Model {
    pub(super) objects: BTreeMap<Id, Object>,
    pub(super) handles: BTreeMap<u8, Handle>,
    next: Id,
}

pub(super) type Answer = Result<Outcome, Errno>;

impl Model {
    /// An empty file system with that root.
    pub fn new(permissions: u16, uid: u32, gid: u32) -> Model {
        let mut model = Model { objects: BTreeMap::new(), handles: BTreeMap::new(), next: ROOT };
        let root = model.add(FileType::Directory, permissions);
        let root = model.objects.get_mut(&root).expect("just added");
        (root.links, root.uid, root.gid) = (2, uid, gid);
        model
    }

    pub(super) fn add(&mut self, kind: FileType, permissions: u16) -> Id {
        let id = self.next;
        self.next += 1;
        let object = Object {
            kind,
            permissions,
            uid: 0,
            gid: 0,
            links: 0,
            content: Content::default(),
            symlink: String::new(),
            entries: BTreeMap::new(),
            parent: ROOT,
            xattrs: BTreeMap::new(),
        };
        self.objects.insert(id, object);
        id
    }

    pub(super) fn object(&self, id: Id) -> &Object {
        &self.objects[&id]
    }

    pub(super) fn object_mut(&mut self, id: Id) -> &mut Object {
        self.objects.get_mut(&id).expect("an object lives while something refers to it")
    }

    /// Executes an operation.
    pub fn apply(&mut self, op: &Op) -> Outcome {
        self.try_apply(op).unwrap_or_else(Outcome::Failed)
    }

    /// What a crash or a clean restart does: no file is open any more, unnamed files are gone.
    pub fn restart(&mut self) {
        self.handles.clear();
        self.objects.retain(|_, object| object.links > 0);
    }

    pub(super) fn drop_unused(&mut self, id: Id) {
        if self.object(id).links == 0 && !self.handles.values().any(|handle| handle.id == id) {
            self.objects.remove(&id);
        }
    }

    pub(super) fn walk(&self, path: &str) -> Result<Id, Errno> {
        let mut at = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = self.child(at, name)?.ok_or(ENOENT)?;
        }
        Ok(at)
    }

    /// The directory that a path's last name is in, and that name.
    pub(super) fn parent_of<'p>(&self, path: &'p str) -> Result<(Id, &'p str), Errno> {
        let (directory, name) = path.rsplit_once('/').expect("paths are absolute");
        let directory = self.walk(directory)?;
        if self.object(directory).kind != FileType::Directory {
            return Err(ENOTDIR);
        }
        if name.len() > 255 {
            return Err(ENAMETOOLONG);
        }
        Ok((directory, name))
    }

    pub(super) fn child(&self, directory: Id, name: &str) -> Result<Option<Id>, Errno> {
        let object = self.object(directory);
        if object.kind != FileType::Directory {
            return Err(ENOTDIR);
        }
        if name.len() > 255 {
            return Err(ENAMETOOLONG);
        }
        Ok(object.entries.get(name).copied())
    }

    pub(super) fn node(&self, id: Id) -> Outcome {
        let object = self.object(id);
        Outcome::Node(Node {
            kind: object.kind,
            permissions: object.permissions,
            uid: object.uid,
            gid: object.gid,
            links: object.links,
            size: object.size(),
        })
    }

    /// A file whose content can be used; `None` for kinds of objects that these tests do not open.
    fn file(&mut self, target: &Target) -> Result<Option<Id>, Errno> {
        let id = match target {
            Target::Slot(slot) => match self.handles.get(slot) {
                Some(handle) => handle.id,
                None => return Ok(None),
            },
            Target::Path(path) => self.walk(path)?,
        };
        match self.object(id).kind {
            FileType::Regular => Ok(Some(id)),
            FileType::Directory => Err(EISDIR),
            _ => Ok(None),
        }
    }

    fn try_apply(&mut self, op: &Op) -> Answer {
        match op {
            Op::Write(target, ..)
            | Op::WriteAtomic(target, ..)
            | Op::Append(target, ..)
            | Op::Truncate(target, _)
            | Op::Allocate(target, ..)
            | Op::Read(target, ..)
            | Op::View(target)
            | Op::SyncFile(target) => match self.file(target)? {
                Some(id) => on_content(&mut self.object_mut(id).content, op),
                None => Ok(Outcome::Skipped),
            },
            Op::SetSize(path, size) => match self.file(&Target::Path(path.clone()))? {
                Some(id) => {
                    self.object_mut(id).content.resize(*size);
                    Ok(self.node(id))
                }
                None => Ok(Outcome::Skipped),
            },
            Op::Stat(path) => Ok(self.node(self.walk(path)?)),
            Op::ReadLink(path) => {
                let object = self.object(self.walk(path)?);
                if object.kind != FileType::Symlink {
                    return Err(EINVAL);
                }
                Ok(Outcome::Bytes(object.symlink.clone().into_bytes()))
            }
            Op::Chmod(path, permissions) => {
                let id = self.walk(path)?;
                self.object_mut(id).permissions = *permissions;
                Ok(self.node(id))
            }
            Op::Chown(path, uid, gid) => {
                let id = self.walk(path)?;
                let object = self.object_mut(id);
                (object.uid, object.gid) = (*uid, *gid);
                Ok(self.node(id))
            }
            Op::SetXattr(..) | Op::GetXattr(..) | Op::ListXattrs(_) | Op::RemoveXattr(..) => self.on_xattrs(op),
            Op::Sync | Op::Collect | Op::Resize(_) => Ok(Outcome::Done),
            _ => self.on_names(op),
        }
    }

    fn on_xattrs(&mut self, op: &Op) -> Answer {
        let (Op::SetXattr(path, ..) | Op::GetXattr(path, _) | Op::ListXattrs(path) | Op::RemoveXattr(path, _)) = op
        else {
            unreachable!("only operations on attributes come here")
        };
        let id = self.walk(path)?;
        let xattrs = &mut self.object_mut(id).xattrs;
        match op {
            Op::SetXattr(_, name, bytes, fill, how) => {
                match (how, xattrs.contains_key(name)) {
                    (SetXattr::Create, true) => return Err(EEXIST),
                    (SetXattr::Replace, false) => return Err(ENODATA),
                    _ => {}
                }
                xattrs.insert(name.clone(), pattern(*fill, 0, *bytes));
                Ok(Outcome::Done)
            }
            Op::GetXattr(_, name) => Ok(Outcome::Bytes(xattrs.get(name).ok_or(ENODATA)?.clone())),
            Op::RemoveXattr(_, name) => xattrs.remove(name).map(|_| Outcome::Done).ok_or(ENODATA),
            _ => Ok(Outcome::Names(xattrs.keys().map(|name| name.clone().into_bytes()).collect())),
        }
    }

    /// Bytes that an object's extended attributes take, names included.
    pub fn xattr_bytes(&self, path: &str) -> usize {
        let xattrs = self.walk(path).map(|id| &self.object(id).xattrs);
        xattrs.map_or(0, |xattrs| xattrs.iter().map(|(name, value)| name.len() + value.len()).sum())
    }

    /// All names, and what they name.
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        let mut first: BTreeMap<Id, String> = BTreeMap::new();
        self.add_to_tree(&mut tree, ROOT, String::new());
        // The first of an object's names in the order of paths tells which names are links to one object.
        for (path, leaf) in &mut tree {
            let id = self.walk(path).expect("the tree holds names that exist");
            leaf.first = first.entry(id).or_insert_with(|| path.clone()).clone();
        }
        tree
    }

    fn add_to_tree(&self, tree: &mut Tree, id: Id, path: String) {
        let object = self.object(id);
        let leaf = Leaf {
            first: String::new(),
            kind: object.kind,
            permissions: object.permissions,
            uid: object.uid,
            gid: object.gid,
            links: object.links,
            content: object.content.clone(),
            symlink: object.symlink.clone().into_bytes(),
            xattrs: object.xattrs.iter().map(|(name, value)| (name.clone().into_bytes(), value.clone())).collect(),
        };
        for (name, child) in &object.entries {
            self.add_to_tree(tree, *child, format!("{path}/{name}"));
        }
        tree.insert(if path.is_empty() { "/".into() } else { path }, leaf);
    }

    /// The names of the file that an operation writes to, if there is one: it may be torn by a crash.
    pub fn first_name(&self, target: &Target) -> Option<String> {
        let id = match target {
            Target::Path(path) => self.walk(path).ok()?,
            Target::Slot(slot) => self.handles.get(slot)?.id,
        };
        self.tree().into_keys().find(|path| self.walk(path) == Ok(id))
    }
}

impl Object {
    fn size(&self) -> u64 {
        match self.kind {
            FileType::Regular => self.content.size(),
            FileType::Symlink => self.symlink.len() as u64,
            _ => 0,
        }
    }
}

fn on_content(content: &mut Content, op: &Op) -> Answer {
    match op {
        Op::Write(_, offset, bytes, fill) => {
            content.write(*offset, &pattern(*fill, *offset, *bytes));
            Ok(Outcome::Number(*bytes))
        }
        Op::WriteAtomic(_, offset, bytes, fill) => {
            content.write(*offset, &pattern(*fill, *offset, *bytes));
            Ok(Outcome::Done)
        }
        Op::Append(_, bytes, fill) => {
            let end = content.size();
            content.write(end, &pattern(*fill, end, *bytes));
            Ok(Outcome::Number(end))
        }
        Op::Truncate(_, size) => {
            content.resize(*size);
            Ok(Outcome::Done)
        }
        Op::Allocate(_, how, offset, bytes) => {
            if *bytes == 0 {
                return Err(EINVAL);
            }
            if *how != Allocate::Extend && *how != Allocate::KeepSize {
                content.zero(*offset, *bytes);
            }
            if *how == Allocate::Extend || *how == Allocate::Zero {
                content.resize(content.size().max(offset + bytes));
            }
            Ok(Outcome::Done)
        }
        Op::Read(_, offset, bytes) => Ok(Outcome::Bytes(content.read(*offset, *bytes))),
        Op::View(_) => Ok(Outcome::Bytes(content.read(0, content.size()))),
        _ => Ok(Outcome::Done),
    }
}
