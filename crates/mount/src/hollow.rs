//! A file system that has names and sizes, and nothing else: whatever is written is gone, whatever is read is zeros.
//! What it takes is what FUSE itself takes, for each operation.

use crate::MountOptions;
use crate::session::{Mounted, serve};
use crate::wire::abi::{ROOT, fopen, init};
use crate::wire::{
    Answer, Attributes, Content, Filesystem, LARGEST_REQUEST, Listing, Opened, Part, Request, SetAttributes, Time,
    Write,
};
use pocketstone_core::Result;
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;
/// The kernel asks nothing at open(2) and close(2), as on an SCMFS mount.
const BY_NUMBER: u64 = init::NO_OPEN_SUPPORT | init::NO_OPENDIR_SUPPORT;

/// Mounts it, empty, at a directory. What the kernel keeps of it, and how it asks, is as on an SCMFS volume that is
/// mounted with the same options.
///
/// # Errors
/// `ErrorKind::User` if `mountpoint` is not a directory; `ErrorKind::Board` if FUSE is unavailable, or the kernel
/// refuses.
pub fn mount_hollow(mountpoint: &Path, options: &MountOptions) -> Result<Mounted> {
    let hollow = Hollow {
        tree: Mutex::new(Tree::new()),
        zeros: vec![0; LARGEST_REQUEST as usize],
        may_open_by_number: !options.direct_io && !options.strict_open && !options.writeback,
        by_number: AtomicBool::new(false),
        direct_io: options.direct_io,
    };
    serve(hollow, mountpoint, "null", options, 1, &OnceLock::new())
}

struct Hollow {
    tree: Mutex<Tree>,
    zeros: Vec<u8>,
    may_open_by_number: bool,
    by_number: AtomicBool,
    direct_io: bool,
}

/// What there is, by number.
struct Tree {
    nodes: HashMap<u64, Node>,
    /// The next number, and the next place in a directory.
    next: u64,
}

struct Node {
    mode: u32,
    size: u64,
    owner: (u32, u32),
    parent: u64,
    /// Names that lead here.
    links: u32,
    /// How often the kernel was told of it: it may ask until it has forgotten as often.
    lookups: u64,
    entries: HashMap<Vec<u8>, (u64, u64)>,
    /// The names by their places, in which they are listed.
    order: BTreeMap<u64, (Vec<u8>, u64)>,
}

impl Node {
    fn new(mode: u32, parent: u64, owner: (u32, u32)) -> Node {
        let (entries, order) = (HashMap::new(), BTreeMap::new());
        Node { mode, size: 0, owner, parent, links: 1, lookups: 0, entries, order }
    }

    fn is_directory(&self) -> bool {
        self.mode & S_IFMT == S_IFDIR
    }
}

impl Tree {
    fn new() -> Tree {
        Tree { nodes: HashMap::from([(ROOT, Node::new(S_IFDIR | 0o755, ROOT, (0, 0)))]), next: ROOT + 1 }
    }

    fn node(&mut self, number: u64) -> Answer<&mut Node> {
        self.nodes.get_mut(&number).ok_or(Errno::NOENT)
    }

    fn named(&self, directory: u64, name: &[u8]) -> Option<u64> {
        self.nodes.get(&directory)?.entries.get(name).map(|(node, _)| *node)
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn add(&mut self, directory: u64, name: &[u8], node: u64) -> Answer<()> {
        let place = self.number();
        let directory = self.node(directory)?;
        directory.entries.insert(name.to_vec(), (node, place));
        directory.order.insert(place, (name.to_vec(), node));
        Ok(())
    }

    /// Makes something new and tells the kernel of it.
    fn make(&mut self, request: &Request, name: &[u8], mode: u32) -> Answer<Attributes> {
        if self.named(request.node, name).is_some() {
            return Err(Errno::EXIST);
        }
        let number = self.number();
        self.add(request.node, name, number)?;
        self.nodes.insert(number, Node::new(mode, request.node, (request.uid, request.gid)));
        self.told(number)
    }

    /// Takes a name away; what it named stays while the kernel knows it.
    fn remove(&mut self, directory: u64, name: &[u8], is_directory: bool) -> Answer<u64> {
        let number = self.named(directory, name).ok_or(Errno::NOENT)?;
        let node = self.node(number)?;
        match (node.is_directory(), is_directory) {
            (true, false) => return Err(Errno::ISDIR),
            (false, true) => return Err(Errno::NOTDIR),
            _ if !node.entries.is_empty() => return Err(Errno::NOTEMPTY),
            _ => node.links = 0,
        }
        self.take_name(directory, name)?;
        self.drop_unknown(number);
        Ok(number)
    }

    fn take_name(&mut self, directory: u64, name: &[u8]) -> Answer<()> {
        let directory = self.node(directory)?;
        let (_, place) = directory.entries.remove(name).ok_or(Errno::NOENT)?;
        directory.order.remove(&place);
        Ok(())
    }

    fn drop_unknown(&mut self, number: u64) {
        if self.nodes.get(&number).is_some_and(|node| node.links == 0 && node.lookups == 0) {
            self.nodes.remove(&number);
        }
    }

    fn attributes(&self, number: u64) -> Answer<Attributes> {
        let node = self.nodes.get(&number).ok_or(Errno::NOENT)?;
        let [atime, mtime, ctime] = [Time { seconds: 0, nanoseconds: 0 }; 3];
        Ok(Attributes {
            node: number,
            generation: 0,
            size: node.size,
            blocks: node.size.div_ceil(512),
            atime,
            mtime,
            ctime,
            mode: node.mode,
            links: node.links,
            uid: node.owner.0,
            gid: node.owner.1,
            rdev: 0,
            block_bytes: 4096,
            kept: true,
        })
    }

    /// Attributes with which the kernel is told of a name.
    fn told(&mut self, number: u64) -> Answer<Attributes> {
        self.node(number)?.lookups += 1;
        self.attributes(number)
    }
}

impl Hollow {
    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self) -> Opened {
        let cache = if self.direct_io { fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES } else { fopen::KEEP_CACHE };
        Opened { handle: 0, flags: cache | fopen::NOFLUSH }
    }

    /// Refuses what the kernel need not ask any more: it does not do so again then.
    fn must_ask(&self) -> Answer<()> {
        if self.by_number.load(Ordering::Relaxed) { Err(Errno::NOSYS) } else { Ok(()) }
    }
}

impl Filesystem for Hollow {
    fn wants(&self) -> u64 {
        let flags = init::PARALLEL_DIROPS | init::ASYNC_DIO | init::DIRECT_IO_ALLOW_MMAP | init::HANDLE_KILLPRIV_V2;
        if self.may_open_by_number { flags | BY_NUMBER } else { flags }
    }

    fn agreed(&self, flags: u64) {
        self.by_number.store(flags & BY_NUMBER == BY_NUMBER && self.may_open_by_number, Ordering::Relaxed);
    }

    fn lookup(&self, request: &Request, name: &[u8]) -> Answer<Option<Attributes>> {
        let mut tree = self.tree();
        tree.named(request.node, name).map(|number| tree.told(number)).transpose()
    }

    fn forget(&self, node: u64, lookups: u64) {
        let mut tree = self.tree();
        if let Ok(known) = tree.node(node) {
            known.lookups = known.lookups.saturating_sub(lookups);
        }
        tree.drop_unknown(node);
    }

    fn getattr(&self, request: &Request) -> Answer<Attributes> {
        self.tree().attributes(request.node)
    }

    fn setattr(&self, request: &Request, change: &SetAttributes) -> Answer<Attributes> {
        let mut tree = self.tree();
        let node = tree.node(request.node)?;
        node.size = change.size.unwrap_or(node.size);
        node.owner = (change.uid.unwrap_or(node.owner.0), change.gid.unwrap_or(node.owner.1));
        node.mode = change.mode.map_or(node.mode, |mode| node.mode & S_IFMT | mode & !S_IFMT);
        tree.attributes(request.node)
    }

    fn mknod(&self, request: &Request, name: &[u8], mode: u32, _: u32, _: u32) -> Answer<Attributes> {
        match mode & S_IFMT {
            S_IFREG => self.tree().make(request, name, mode),
            _ => Err(Errno::PERM),
        }
    }

    fn mkdir(&self, request: &Request, name: &[u8], mode: u32, _: u32) -> Answer<Attributes> {
        self.tree().make(request, name, S_IFDIR | mode & !S_IFMT)
    }

    fn unlink(&self, request: &Request, name: &[u8]) -> Answer<()> {
        self.tree().remove(request.node, name, false).map(drop)
    }

    fn rmdir(&self, request: &Request, name: &[u8]) -> Answer<()> {
        self.tree().remove(request.node, name, true).map(drop)
    }

    fn rename(&self, request: &Request, name: &[u8], to: u64, new_name: &[u8], flags: u32) -> Answer<()> {
        if flags != 0 {
            return Err(Errno::INVAL);
        }
        let mut tree = self.tree();
        let number = tree.named(request.node, name).ok_or(Errno::NOENT)?;
        let is_directory = tree.node(number)?.is_directory();
        match tree.named(to, new_name) {
            Some(same) if same == number => return Ok(()),
            Some(_) => drop(tree.remove(to, new_name, is_directory)?),
            None => {}
        }
        tree.take_name(request.node, name)?;
        tree.add(to, new_name, number)?;
        tree.node(number)?.parent = to;
        Ok(())
    }

    fn open(&self, _: &Request, _: u32) -> Answer<Opened> {
        self.must_ask().map(|()| self.opened())
    }

    fn opendir(&self, _: &Request) -> Answer<Opened> {
        self.must_ask().map(|()| Opened::default())
    }

    fn create(&self, request: &Request, name: &[u8], mode: u32, _: u32) -> Answer<(Attributes, Opened)> {
        let made = self.tree().make(request, name, S_IFREG | mode & !S_IFMT)?;
        Ok((made, self.opened()))
    }

    fn read(&self, request: &Request, part: &Part, into: &mut [u8]) -> Answer<Content<'_>> {
        let left = self.tree().node(request.node)?.size.saturating_sub(part.offset);
        let bytes = left.min(into.len() as u64).min(u64::from(LARGEST_REQUEST)) as usize;
        Ok(Content::There(&self.zeros[..bytes]))
    }

    fn write(&self, request: &Request, write: &Write<'_>) -> Answer<usize> {
        let end = write.offset.checked_add(write.data.len() as u64).ok_or(Errno::FBIG)?;
        let mut tree = self.tree();
        let node = tree.node(request.node)?;
        node.size = node.size.max(end);
        Ok(write.data.len())
    }

    fn fsync(&self, _: &Request, _: u64) -> Answer<()> {
        Ok(())
    }

    fn fsyncdir(&self, _: &Request) -> Answer<()> {
        Ok(())
    }

    fn readdir(&self, request: &Request, offset: u64, listing: &mut Listing<'_>) -> Answer<()> {
        let mut tree = self.tree();
        let directory = tree.node(request.node)?;
        // Places are larger than 2. What kind of thing a name is, the kernel asks if it wants to know.
        let dots = [(1, &b"."[..], request.node), (2, &b".."[..], directory.parent)];
        let names = directory.order.range(offset + 1..).map(|(place, (name, node))| (*place, &name[..], *node));
        for (next, name, node) in dots.into_iter().filter(|(next, ..)| *next > offset).chain(names) {
            if listing.name(node, next, 0, name).is_break() {
                break;
            }
        }
        Ok(())
    }
}
