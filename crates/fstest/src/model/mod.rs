//! The reference: a file system of maps, as POSIX and the Linux manual pages describe one.
//!
//! This file holds objects, paths and what becomes of an operation; `names.rs` what changes names, `attributes.rs` and
//! `contents.rs` the rest.

mod attributes;
mod contents;
mod names;

use crate::content::Content;
use crate::errno::*;
use crate::op::{Node, Op, Outcome, Target};
use crate::tree::{Leaf, Times, Tree};
use pocketstone_vfs::{FileType, NAME_MAX};
use std::collections::BTreeMap;

/// An object in the model.
pub type Id = u32;
/// The root directory.
pub const ROOT: Id = 0;

/// What a file system has, and where it differs from Linux's own.
#[derive(Debug, Clone)]
pub struct Has {
    /// Files without names, names that change places, ranges that are allocated, whole writes, and views; where it
    /// lacks these, other operations are generated instead.
    pub all_of_linux: bool,
    /// The unit in which ranges are taken out of files and put in.
    pub page_bytes: u64,
    /// Longest target of a symbolic link.
    pub target_max: usize,
    /// What all attributes of an object share, if that is a matter of the format: each takes a name, a value and 5.
    pub xattr_bytes: Option<u64>,
    /// It refuses itself what xattr(7) refuses: attributes that users set on what is neither file nor directory.
    pub guards_user_xattrs: bool,
    /// The time that it always is, in seconds, if times are compared.
    pub now_s: Option<i64>,
}

impl Has {
    /// All that Linux has.
    pub fn all() -> Has {
        Has {
            all_of_linux: true,
            page_bytes: 4096,
            target_max: 4095,
            xattr_bytes: None,
            guards_user_xattrs: true,
            now_s: None,
        }
    }
}

/// A file, a directory, or whatever else has a name or had one.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "as in a leaf")]
pub struct Object {
    pub kind: FileType,
    pub permissions: u16,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub times: Times,
    pub content: Content,
    pub symlink: String,
    pub entries: BTreeMap<String, Id>,
    /// Of a directory.
    pub parent: Id,
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

#[derive(Debug, Clone, Copy)]
struct Handle {
    id: Id,
    /// Made without a name, and still without one.
    unnamed: bool,
}

/// A file system.
#[derive(Debug, Clone)]
pub struct Model {
    objects: BTreeMap<Id, Object>,
    handles: BTreeMap<u8, Handle>,
    next: Id,
    has: Has,
}

type Answer = Result<Outcome, Errno>;

impl Model {
    /// An empty file system with a root of these permissions, owner and group.
    pub fn new(has: Has, permissions: u16, uid: u32, gid: u32) -> Model {
        let mut model = Model { objects: BTreeMap::new(), handles: BTreeMap::new(), next: ROOT, has };
        let root = model.add(FileType::Directory, permissions);
        let root = model.object_mut(root);
        (root.links, root.uid, root.gid) = (2, uid, gid);
        model
    }

    fn add(&mut self, kind: FileType, permissions: u16) -> Id {
        let id = self.next;
        self.next += 1;
        let object = Object {
            kind,
            permissions,
            uid: 0,
            gid: 0,
            links: 0,
            times: [self.now(); 3],
            content: Content::default(),
            symlink: String::new(),
            entries: BTreeMap::new(),
            parent: ROOT,
            xattrs: BTreeMap::new(),
        };
        self.objects.insert(id, object);
        id
    }

    fn now(&self) -> i64 {
        self.has.now_s.unwrap_or_default()
    }

    /// Everything there is, also what has no name any more.
    pub fn objects(&self) -> &BTreeMap<Id, Object> {
        &self.objects
    }

    /// What has a number.
    pub fn object(&self, id: Id) -> &Object {
        &self.objects[&id]
    }

    /// What has a number, to change it.
    ///
    /// # Panics
    /// If it is gone.
    pub fn object_mut(&mut self, id: Id) -> &mut Object {
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

    fn drop_unused(&mut self, id: Id) {
        if self.object(id).links == 0 && !self.handles.values().any(|handle| handle.id == id) {
            self.objects.remove(&id);
        }
    }

    /// What a path leads to.
    ///
    /// # Errors
    /// As stat(2): [`ENOENT`] if a name is missing, [`ENOTDIR`] behind what is no directory, [`ENAMETOOLONG`].
    pub fn walk(&self, path: &str) -> Result<Id, Errno> {
        let mut at = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = self.child(at, name)?.ok_or(ENOENT)?;
        }
        Ok(at)
    }

    /// The directory that a path's last name is in, and that name.
    fn parent_of<'p>(&self, path: &'p str) -> Result<(Id, &'p str), Errno> {
        let (directory, name) = path.rsplit_once('/').expect("paths are absolute");
        let directory = self.walk(directory)?;
        if self.object(directory).kind != FileType::Directory {
            return Err(ENOTDIR);
        }
        if name.len() > NAME_MAX {
            return Err(ENAMETOOLONG);
        }
        Ok((directory, name))
    }

    fn child(&self, directory: Id, name: &str) -> Result<Option<Id>, Errno> {
        let object = self.object(directory);
        if object.kind != FileType::Directory {
            return Err(ENOTDIR);
        }
        if name.len() > NAME_MAX {
            return Err(ENAMETOOLONG);
        }
        Ok(object.entries.get(name).copied())
    }

    fn node(&self, id: Id) -> Outcome {
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
    ///
    /// # Errors
    /// [`EISDIR`] for a directory; otherwise as [`Model::walk`].
    pub fn file(&self, target: &Target) -> Result<Option<Id>, Errno> {
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
        if let Some(target) = op.file() {
            return match self.file(target)? {
                Some(id) => self.on_content(id, op),
                None => Ok(Outcome::Skipped),
            };
        }
        match op {
            Op::SetSize(path, size) => match self.file(&Target::Path(path.clone()))? {
                Some(id) => {
                    self.on_content(id, &Op::Truncate(Target::Path(path.clone()), *size))?;
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
            Op::Chmod(path, ..) | Op::Chown(path, ..) | Op::Times(path, ..) => {
                let id = self.walk(path)?;
                Ok(self.on_attributes(id, op))
            }
            Op::SetXattr(path, ..)
            | Op::GetXattr(path, _)
            | Op::ListXattrs(path)
            | Op::RemoveXattr(path, _)
            | Op::SetAcl(path, ..) => {
                let id = self.walk(path)?;
                self.on_xattrs(id, op)
            }
            Op::WriteBatch(parts) => self.on_batch(parts),
            Op::Sync | Op::Background | Op::Resize(_) => Ok(Outcome::Done),
            _ => self.on_names(op),
        }
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
            times: self.has.now_s.map(|_| object.times),
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
