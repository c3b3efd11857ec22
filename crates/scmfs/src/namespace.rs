//! Names: creating, linking, removing and renaming, each in one transaction.

use crate::body::Body;
use crate::directory::{Found, check_name, slots_of};
use crate::file::File;
use crate::inode::{self, Record};
use crate::journal::Transaction;
use crate::layout::SLOT_BYTES;
use crate::node::{Node, State, lock};
use crate::volume::{Inner, Volume};
use crate::{Attr, Entry, Error, FileType, Ino, Meta, ROOT, Result, SetAttr, defects};
use pocketstone_media::Durable;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most hard links of an inode, as in ext4.
pub(crate) const LINKS_MAX: u32 = 65_000;
/// Longest target of a symbolic link, as Linux has it.
pub(crate) const TARGET_MAX: usize = 4095;

impl Volume {
    /// Finds a name in a directory; `.` and `..` too.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NameTooLong`; `Damaged`.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        let inner = &self.inner;
        let node = inner.node(parent)?;
        match name {
            b"." => return inner.attributes(parent),
            b".." => return inner.attributes(directory(&node.read())?.parent),
            _ => {}
        }
        loop {
            let found = inner.find_name(&node, name)?;
            let attr = inner.attributes(found.ino)?;
            if attr.kind == found.kind && attr.ino != parent {
                return Ok(attr);
            }
            // Damage, or the name changed between the two calls: only while the directory is locked it cannot.
            let mut state = node.write();
            let found = inner.find_in(&node, &mut state, name)?;
            inner.child(&node, &state, &found)?;
        }
    }

    /// An inode's attributes.
    ///
    /// # Errors
    /// `NotFound`; `Damaged`.
    pub fn attributes(&self, ino: Ino) -> Result<Attr> {
        self.inner.attributes(ino)
    }

    /// The directory that a directory is in; the root's is the root.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`.
    pub fn parent(&self, directory_ino: Ino) -> Result<Ino> {
        Ok(directory(&self.inner.node(directory_ino)?.read())?.parent)
    }

    /// Follows a path such as `/a/b` from the root; symbolic links are not followed.
    ///
    /// # Errors
    /// As [`Volume::lookup`].
    pub fn resolve(&self, path: &str) -> Result<Ino> {
        path.split('/')
            .filter(|part| !part.is_empty())
            .try_fold(ROOT, |at, part| Ok(self.lookup(at, part.as_bytes())?.ino))
    }

    /// Changes attributes: the size first, then all the others at once.
    ///
    /// # Errors
    /// `NotFound`; for the size also `IsDirectory`, `Invalid`, `TooLarge`, `NoSpace`.
    pub fn set_attributes(&self, ino: Ino, change: &SetAttr) -> Result<Attr> {
        let inner = &self.inner;
        let node = inner.node(ino)?;
        let mut state = inner.exclusive(&node)?;
        live(&state.record)?;
        if let Some(size) = change.size {
            match state.record.kind() {
                FileType::Regular => inner.resize_file(ino, &mut state, size)?,
                FileType::Directory => return Err(Error::IsDirectory),
                _ => return Err(Error::Invalid),
            }
        }
        let record = &mut state.record;
        if let Some(permissions) = change.permissions {
            record.mode = record.mode & !0o7777 | permissions & 0o7777;
        }
        record.uid = change.uid.unwrap_or(record.uid);
        record.gid = change.gid.unwrap_or(record.gid);
        record.atime_ns = change.atime_ns.unwrap_or(record.atime_ns);
        record.mtime_ns = change.mtime_ns.unwrap_or(record.mtime_ns);
        record.ctime_ns = change.ctime_ns.unwrap_or_else(|| inner.now());
        inner.store_version(ino, &mut state, Durable::nothing()).done();
        Ok(state.record.attr(ino, &inner.layout))
    }

    /// Creates anything but a directory or a symbolic link, and opens it.
    ///
    /// # Errors
    /// `Exists`, `NotFound`, `NotDirectory`, `NameTooLong`, `NoSpace`; `Invalid` for other kinds.
    pub fn create_file(&self, parent: Ino, name: &[u8], meta: &Meta) -> Result<File> {
        if matches!(meta.kind, FileType::Directory | FileType::Symlink) {
            return Err(Error::Invalid);
        }
        let node = self.inner.create(parent, name, meta, &[])?;
        Ok(File::pinned(&self.inner, node))
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// As [`Volume::create_file`], and `TooManyLinks`.
    pub fn create_directory(&self, parent: Ino, name: &[u8], meta: &Meta) -> Result<Attr> {
        let meta = Meta { kind: FileType::Directory, ..*meta };
        let node = self.inner.create(parent, name, &meta, &[])?;
        self.inner.unpin_new(&node)
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// As [`Volume::create_file`]; `NameTooLong` also for the target, `NotFound` if that is empty.
    pub fn create_symlink(&self, parent: Ino, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<Attr> {
        if target.is_empty() {
            return Err(Error::NotFound);
        }
        if target.len() > TARGET_MAX {
            return Err(Error::NameTooLong);
        }
        let meta = Meta { kind: FileType::Symlink, permissions: 0o777, uid, gid, rdev: 0 };
        let node = self.inner.create(parent, name, &meta, target)?;
        self.inner.unpin_new(&node)
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// `Invalid` if it is none.
    pub fn read_link(&self, ino: Ino) -> Result<Vec<u8>> {
        let node = self.inner.node(ino)?;
        let state = node.read();
        live(&state.record)?;
        if state.record.kind() != FileType::Symlink || state.record.size > TARGET_MAX as u64 {
            return Err(Error::Invalid);
        }
        let mut target = vec![0; state.record.size as usize];
        self.inner.read(&state, &mut target, 0);
        if crc32c::crc32c(&target) != state.record.target_crc {
            let at = state.body.piece_at();
            return Err(Error::damaged(at, format!("the target of symbolic link {ino} with a wrong checksum")));
        }
        Ok(target)
    }

    /// Gives an inode another name.
    ///
    /// # Errors
    /// `NotPermitted` for directories, `TooManyLinks`; else as [`Volume::create_file`].
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.inner.link(ino, parent, name, false)
    }

    /// Removes a name that is not a directory's; the inode too, if it was the last and nobody has it open.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `NotDirectory`.
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let inner = &self.inner;
        check_dots(name, Error::IsDirectory)?;
        let node = inner.node(parent)?;
        let mut state = inner.exclusive(&node)?;
        let found = inner.find_in(&node, &mut state, name)?;
        if found.kind == FileType::Directory {
            return Err(Error::IsDirectory);
        }
        let child = inner.child(&node, &state, &found)?;
        let mut target = child.write();
        let mut tx = Transaction::new();
        inner.stage_removal(&mut tx, &state, &found)?;
        let dying = inner.stage_unlink(&mut tx, &child, &mut target);
        inner.touch_parent(&mut tx, &node, &mut state, false);
        inner.commit(tx, Durable::nothing()).done();
        inner.entry_removed(&mut state, name, &found);
        inner.finish_unlink(&child, &mut target, dying);
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NotEmpty`; `Invalid` for `.`.
    pub fn remove_directory(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let inner = &self.inner;
        if name == b".." {
            return Err(Error::NotEmpty);
        }
        check_dots(name, Error::Invalid)?;
        let _tree = lock(&inner.tree);
        let node = inner.node(parent)?;
        let mut state = inner.exclusive(&node)?;
        let found = inner.find_in(&node, &mut state, name)?;
        if found.kind != FileType::Directory {
            return Err(Error::NotDirectory);
        }
        let child = inner.child(&node, &state, &found)?;
        inner.must_be_in(&child, parent)?;
        let mut target = child.write();
        inner.must_be_empty(&child, &mut target)?;
        let mut tx = Transaction::new();
        inner.stage_removal(&mut tx, &state, &found)?;
        let dying = inner.stage_unlink(&mut tx, &child, &mut target);
        state.record.links = state.record.links.saturating_sub(1);
        inner.touch_parent(&mut tx, &node, &mut state, true);
        inner.commit(tx, Durable::nothing()).done();
        inner.entry_removed(&mut state, name, &found);
        inner.finish_unlink(&child, &mut target, dying);
        Ok(())
    }

    /// Calls `take` for the names after a cookie (0: all), until it returns false; that name is not
    /// used up. `.` and `..` are not among them.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`; `Damaged`.
    pub fn read_directory(&self, ino: Ino, cookie: u64, take: &mut dyn FnMut(&Entry) -> bool) -> Result<()> {
        let node = self.inner.node(ino)?;
        let state = node.read();
        directory(&state)?;
        let Ok(from) = u32::try_from(cookie) else { return Ok(()) };
        // A cookie is the slot after an entry's first: the entry's further slots hold name bytes.
        let from = self.inner.after_cookie(ino, &state, from)?;
        self.inner.entries(ino, &state, from, take)
    }
}

/// A directory's record, if it is one and still has a name.
pub(crate) fn directory(state: &State) -> Result<&Record> {
    if state.record.is_free() {
        return Err(Error::NotFound);
    }
    if state.record.is_directory() { Ok(&state.record) } else { Err(Error::NotDirectory) }
}

/// Whether an inode is in use: it may have been freed while its lock was waited for.
pub(crate) fn live(record: &Record) -> Result<()> {
    if record.is_free() { Err(Error::NotFound) } else { Ok(()) }
}

fn check_dots(name: &[u8], otherwise: Error) -> Result<()> {
    match check_name(name) {
        Err(Error::Exists) => Err(otherwise),
        other => other,
    }
}

impl Node {
    /// The attributes as they are now, if the inode is in use.
    pub fn attributes(&self, inner: &Inner) -> Result<Attr> {
        let state = self.read();
        live(&state.record)?;
        Ok(self.attributes_of(inner, &state))
    }

    /// The attributes as they are now, the last read included.
    pub fn attributes_of(&self, inner: &Inner, state: &State) -> Attr {
        let mut attr = state.record.attr(self.ino, &inner.layout);
        let read_ns = self.read_ns.load(Ordering::Relaxed);
        if read_ns != 0 {
            attr.atime_ns = read_ns;
        }
        attr
    }
}

impl Inner {
    /// The slot to go on at after a cookie. If its entry is gone, what lies there now may be the middle of
    /// another one: then the entries before it say where the next one starts.
    fn after_cookie(&self, ino: Ino, state: &State, cookie: u32) -> Result<u32> {
        if cookie == 0 || u64::from(cookie) * SLOT_BYTES > state.record.size {
            return Ok(cookie);
        }
        if let Some(slots) = self.entry_at(ino, state, cookie - 1)? {
            return Ok(cookie - 1 + slots);
        }
        let unit = (self.layout.huge / SLOT_BYTES) as u32;
        let mut next = cookie;
        self.entries(ino, state, (cookie - 1) / unit * unit, &mut |entry| {
            let slot = (entry.cookie - 1) as u32;
            if slot < cookie {
                next = next.max(slot + slots_of(&entry.name));
            }
            slot < cookie
        })?;
        Ok(next)
    }

    /// Finds a name; makes the index first, if there is none.
    pub fn find_name(&self, node: &Node, name: &[u8]) -> Result<Found> {
        if name.len() > crate::NAME_MAX {
            return Err(Error::NameTooLong);
        }
        {
            let state = node.read();
            directory(&state)?;
            if state.index.is_some() {
                return self.find(node.ino, &state, name)?.ok_or(Error::NotFound);
            }
        }
        self.find_in(node, &mut node.write(), name)
    }

    /// Finds a name in a directory that is locked.
    pub fn find_in(&self, node: &Node, state: &mut State, name: &[u8]) -> Result<Found> {
        directory(state)?;
        self.index(node.ino, state)?;
        self.find(node.ino, state, name)?.ok_or(Error::NotFound)
    }

    /// The inode that an entry of a locked directory leads to. Damage may have made it the directory itself or
    /// an inode of another kind, whose lock may be held already: so this is known before anybody waits for it.
    pub fn child(&self, directory: &Node, state: &State, found: &Found) -> Result<Arc<Node>> {
        let what = match self.node(found.ino) {
            Ok(_) if found.ino == directory.ino => "itself".into(),
            Ok(node) if node.kind == found.kind => return Ok(node),
            Ok(_) => format!("inode {}, which is of another kind", found.ino),
            Err(Error::NotFound) => format!("inode {}, which is not in use", found.ino),
            Err(error) => return Err(error),
        };
        let at = self.slot_at(state, found.slot)?;
        Err(Error::damaged(at, format!("an entry of directory {} that leads to {what}", directory.ino)))
    }

    /// Refuses a directory that an entry leads to and that is in another directory. The tree is locked, so it
    /// stays there; the directory is not.
    pub fn must_be_in(&self, node: &Node, parent: Ino) -> Result<()> {
        if node.kind != FileType::Directory || node.read().record.parent == parent {
            return Ok(());
        }
        let at = self.layout.version_at(node.ino, 0);
        Err(Error::damaged(at, format!("directory {} with a name in {parent}, which is not its parent", node.ino)))
    }

    pub fn must_be_empty(&self, node: &Node, state: &mut State) -> Result<()> {
        directory(state)?;
        if self.index(node.ino, state)?.count() == 0 { Ok(()) } else { Err(Error::NotEmpty) }
    }

    /// Refuses a name that exists, and directories that have no name any more.
    pub fn must_be_new(&self, node: &Node, state: &mut State, name: &[u8]) -> Result<()> {
        match self.find_in(node, state, name) {
            Ok(_) => Err(Error::Exists),
            Err(Error::NotFound) if state.record.links > 0 && !state.record.is_free() => check_name(name),
            Err(error) => Err(error),
        }
    }

    /// Stamps a directory whose names changed; stores it in the transaction if its links changed too, or
    /// if its times on the medium are too old.
    pub fn touch_parent(&self, tx: &mut Transaction, node: &Node, state: &mut State, store: bool) {
        state.touch(self.now());
        if store || state.is_overdue() {
            let (at, version) = self.next_version(node.ino, state);
            tx.bytes(at, &version);
        }
    }

    /// Creates an inode with a name. It comes pinned once.
    pub fn create(&self, parent: Ino, name: &[u8], meta: &Meta, content: &[u8]) -> Result<Arc<Node>> {
        let node = self.node(parent)?;
        let mut state = self.exclusive(&node)?;
        self.must_be_new(&node, &mut state, name)?;
        let is_directory = meta.kind == FileType::Directory;
        if is_directory && state.record.links >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        let slot = self.take_slots(parent, &mut state, name)?;
        let made = self.new_inode(meta, parent, content);
        let (child, after) = made.inspect_err(|_| self.return_slots(&mut state, slot, slots_of(name)))?;
        let mut tx = Transaction::new();
        if defects::on(defects::CREATE_ORDER) {
            let mut early = Transaction::new();
            self.stage_entry(&mut early, (parent, &state), slot, name, (child.ino, meta.kind))?;
            self.commit(early, Durable::nothing()).done();
        }
        // Known, and locked, before the medium has it: nobody may load it a second time.
        let mut new = child.write();
        self.add_node(child.clone());
        let (at, version) = self.next_version(child.ino, &mut new);
        tx.bytes(at, &version);
        self.stage_entry(&mut tx, (parent, &state), slot, name, (child.ino, meta.kind))?;
        state.record.links += u32::from(is_directory);
        self.touch_parent(&mut tx, &node, &mut state, is_directory);
        self.commit(tx, after).done();
        self.entry_added(&mut state, name, slot, child.ino);
        drop(new);
        Ok(child)
    }

    /// An inode with content, not on the medium yet; and the proof that its content is durable.
    fn new_inode(&self, meta: &Meta, parent: Ino, content: &[u8]) -> Result<(Arc<Node>, Durable)> {
        let (ino, mut page) = self.take_null()?;
        let old = inode::load(&self.medium, &self.layout, ino, self.segments());
        let (sequence, old) = old.inspect_err(|_| self.return_null(ino, page))?;
        let mut record = Record::new(meta, old.generation.wrapping_add(1), self.now());
        let wants_space = matches!(meta.kind, FileType::Regular | FileType::Symlink);
        if let Some(unused) = page.take_if(|_| !wants_space) {
            lock(&self.alloc).free_page_run(unused, 1);
        }
        if let Some(page) = page {
            (record.run_start, record.run_pages) = (page, 1);
        }
        if meta.kind == FileType::Directory {
            record.parent = parent;
        }
        let mut durable = Durable::nothing();
        if !content.is_empty() {
            let pages = self.layout.pages(content.len() as u64) as u32;
            if record.run_pages < pages {
                let run = self.take_run(pages, pages);
                let (start, count) = run.inspect_err(|_| self.return_null(ino, page))?;
                if let Some(page) = page {
                    lock(&self.alloc).free_page_run(page, 1);
                }
                (record.run_start, record.run_pages) = (start, count);
            }
            record.size = content.len() as u64;
            record.target_crc = crc32c::crc32c(content);
            let at = self.layout.page_at(record.run_start);
            let flushed = self.medium.stream(at, content, Durable::nothing());
            durable = crate::persist::fence(&self.medium, flushed, defects::SYMLINK_FENCE);
        }
        let node = Node::new(ino, sequence, record, Body::new(&self.layout, &record, Vec::new()));
        node.pins.store(1, Ordering::Relaxed);
        Ok((Arc::new(node), durable))
    }

    /// Creates a file without a name. It comes pinned once.
    pub fn create_unnamed(&self, meta: &Meta) -> Result<Arc<Node>> {
        // It has no directory whose lock would keep the volume from being closed meanwhile.
        let _tree = lock(&self.tree);
        self.writable()?;
        let (node, after) = self.new_inode(meta, 0, &[])?;
        {
            let mut state = node.write();
            self.add_node(node.clone());
            state.record.links = 0;
            self.store_version(node.ino, &mut state, after).done();
        }
        Ok(node)
    }

    /// Gives up the pin that a new inode comes with.
    fn unpin_new(&self, node: &Node) -> Result<Attr> {
        node.pins.fetch_sub(1, Ordering::AcqRel);
        node.attributes(self)
    }

    /// Adds a name for an inode; `unnamed` ones may have none yet.
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8], unnamed: bool) -> Result<Attr> {
        let child = self.node(ino)?;
        let is_directory = child.read().record.is_directory();
        let node = self.node(parent)?;
        let mut state = self.exclusive(&node)?;
        self.must_be_new(&node, &mut state, name)?;
        if is_directory {
            return Err(Error::NotPermitted);
        }
        let slot = self.take_slots(parent, &mut state, name)?;
        let mut target = child.write();
        let refused = match target.record.links {
            _ if target.record.is_free() => Some(Error::NotFound),
            0 if !unnamed => Some(Error::NotFound),
            LINKS_MAX.. => Some(Error::TooManyLinks),
            _ => None,
        };
        if let Some(error) = refused {
            self.return_slots(&mut state, slot, slots_of(name));
            return Err(error);
        }
        let mut tx = Transaction::new();
        self.stage_entry(&mut tx, (parent, &state), slot, name, (ino, target.record.kind()))?;
        if defects::on(defects::LINK_COUNT) {
            self.commit(std::mem::replace(&mut tx, Transaction::new()), Durable::nothing()).done();
        }
        target.record.links += 1;
        target.record.ctime_ns = self.now();
        let (at, version) = self.next_version(ino, &mut target);
        tx.bytes(at, &version);
        self.touch_parent(&mut tx, &node, &mut state, false);
        self.commit(tx, Durable::nothing()).done();
        self.entry_added(&mut state, name, slot, ino);
        Ok(target.record.attr(ino, &self.layout))
    }

    /// Gives an inode that has none a name, as it is: for repairs.
    pub fn adopt(&self, parent: Ino, name: &[u8], ino: Ino, kind: FileType) -> Result<()> {
        let node = self.node(parent)?;
        let mut state = node.write();
        self.must_be_new(&node, &mut state, name)?;
        let slot = self.take_slots(parent, &mut state, name)?;
        let mut tx = Transaction::new();
        self.stage_entry(&mut tx, (parent, &state), slot, name, (ino, kind))?;
        let child = self.node(ino)?;
        let mut target = child.write();
        if kind == FileType::Directory {
            target.record.parent = parent;
            state.record.links += 1;
        }
        let (at, version) = self.next_version(ino, &mut target);
        tx.bytes(at, &version);
        self.touch_parent(&mut tx, &node, &mut state, true);
        self.commit(tx, Durable::nothing()).done();
        self.entry_added(&mut state, name, slot, ino);
        Ok(())
    }
}
