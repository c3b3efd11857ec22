//! Taking names away, and giving others.

use crate::objects::{Mark, UNLINKED_ID};
use crate::tags::Kind;
use crate::volume::Volume;
use crate::{names::check_name, objects::LOST_ID};
use pocketstone_core::inode::{Error, Ino, Rename, Result};

/// Deepest that directories can lie in each other before something is wrong.
const DEEPEST: u32 = 1 << 18;

impl Volume {
    /// An inode is in use: it stays when it loses its last name, until it is given back.
    ///
    /// # Errors
    /// When there is no such inode.
    pub fn hold(&mut self, ino: Ino) -> Result<()> {
        self.objects.get(ino).ok_or(Error::NotFound)?;
        *self.held.entry(ino).or_default() += 1;
        Ok(())
    }

    /// Gives an inode back. One without a name is deleted at the last time.
    ///
    /// # Errors
    /// When deleting fails.
    pub fn release(&mut self, ino: Ino) -> Result<()> {
        let Some(uses) = self.held.get_mut(&ino) else { return Ok(()) };
        *uses -= 1;
        if *uses > 0 {
            return Ok(());
        }
        self.held.remove(&ino);
        self.delete_if_unlinked(ino)
    }

    pub(crate) fn delete_if_unlinked(&mut self, ino: Ino) -> Result<()> {
        match self.objects.get(ino) {
            Some(object) if object.parent == UNLINKED_ID && !self.options.read_only => self.delete_object(ino),
            _ => Ok(()),
        }
    }

    /// Takes a name away; its object goes with the last one.
    ///
    /// # Errors
    /// When there is no such name, or it is a directory's.
    pub fn unlink(&mut self, parent: Ino, name: &[u8]) -> Result<()> {
        self.writable()?;
        let id = self.find(parent, name)?.ok_or(Error::NotFound)?;
        if self.objects.get(id).is_some_and(|object| object.kind == Kind::Directory) {
            return Err(Error::IsDirectory);
        }
        self.remove_name(id)?;
        self.touch(parent)
    }

    /// Deletes an empty directory.
    ///
    /// # Errors
    /// When it is none, is not empty, or is always there.
    pub fn remove_directory(&mut self, parent: Ino, name: &[u8]) -> Result<()> {
        self.writable()?;
        let id = self.find(parent, name)?.ok_or(Error::NotFound)?;
        self.must_be_directory(id)?;
        if Self::is_fixed(id) {
            return Err(Error::NotPermitted);
        }
        if !self.objects.is_empty(id) {
            return Err(Error::NotEmpty);
        }
        self.remove_name(id)?;
        self.touch(parent)
    }

    /// Takes away the name that an object stands for.
    fn remove_name(&mut self, id: u32) -> Result<()> {
        let object = self.objects.get(id).ok_or(Error::NotFound)?;
        if object.kind == Kind::HardLink {
            let target = object.value as u32;
            self.delete_object(id)?;
            let now = self.now_s();
            if self.objects.get(target).is_some() {
                self.load(target)?.ctime_s = now;
                self.write_header(target)?;
            }
            return Ok(());
        }
        if self.links.contains_key(&id) {
            return self.move_to_a_link(id);
        }
        if self.held.contains_key(&id) {
            let (parent, now) = (object.parent, self.now_s());
            let detail = self.load(id)?;
            detail.ctime_s = now;
            self.objects.detach(id);
            self.objects.attach(id, UNLINKED_ID);
            // What is in the cache stays there: newer than a header that replaces this object, it would come back.
            let written = self.collect(false).and_then(|()| self.put_header(id, None, 0, false));
            if written.is_err() {
                self.objects.detach(id);
                self.objects.attach(id, parent);
            }
            return written;
        }
        self.delete_object(id)
    }

    /// An object with further names moves to the place of one of them.
    fn move_to_a_link(&mut self, id: u32) -> Result<()> {
        let link = self.links.get(&id).and_then(|links| links.first().copied()).ok_or(Error::NotFound)?;
        let name = self.load(link)?.name.clone();
        let directory = self.objects.get(link).ok_or(Error::NotFound)?.parent;
        self.move_over(id, directory, &name, Some(link))
    }

    /// Gives an object another place and name, and deletes what had that name, at once: a header that replaces the
    /// other object says so.
    fn move_over(&mut self, id: u32, to: Ino, name: &[u8], victim: Option<u32>) -> Result<()> {
        self.flush(id)?;
        self.collect(false)?;
        let now = self.now_s();
        let before = self.load(id)?.clone();
        let from = self.objects.get(id).ok_or(Error::NotFound)?.parent;
        let detail = self.load(id)?;
        detail.ctime_s = now;
        detail.name = name.to_vec();
        self.objects.detach(id);
        self.objects.name(id, name);
        self.objects.attach(id, to);
        if let Err(error) = self.put_header(id, None, victim.unwrap_or(0), false) {
            self.objects.detach(id);
            self.objects.name(id, &before.name);
            self.objects.attach(id, from);
            self.details.insert(id, before);
            return Err(error);
        }
        let Some(victim) = victim else { return Ok(()) };
        // Collecting would take the mark of replacement away.
        self.collector.paused = true;
        let gone = self.remove_name(victim);
        let written = gone.and_then(|()| self.put_header(id, None, 0, false));
        self.collector.paused = false;
        written
    }

    /// Renames, over an existing name if `how` allows it.
    ///
    /// # Errors
    /// As rename(2) has them. [`Rename::Exchange`] does not exist here.
    pub fn rename(&mut self, from: Ino, name: &[u8], to: Ino, new_name: &[u8], how: Rename) -> Result<()> {
        self.writable()?;
        if how == Rename::Exchange {
            return Err(Error::Invalid);
        }
        self.must_be_directory(to)?;
        let id = self.find(from, name)?.ok_or(Error::NotFound)?;
        let victim = self.find(to, new_name)?;
        check_name(new_name)?;
        if self.objects.get(to).is_some_and(|object| object.parent == UNLINKED_ID) {
            return Err(Error::NotFound);
        }
        if Self::is_fixed(id) || victim.is_some_and(Self::is_fixed) {
            return Err(Error::NotPermitted);
        }
        let is_directory = self.objects.get(id).is_some_and(|object| object.kind == Kind::Directory);
        if victim.is_some() && how == Rename::NoReplace {
            return Err(Error::Exists);
        }
        if is_directory && self.is_within(to, id) {
            return Err(Error::Invalid);
        }
        if let Some(victim) = victim {
            if self.is_within(from, victim) {
                return Err(Error::NotEmpty);
            }
            if self.resolve(victim).ok() == self.resolve(id).ok() {
                return Ok(());
            }
            let victim_is_directory = self.objects.get(victim).is_some_and(|o| o.kind == Kind::Directory);
            match (is_directory, victim_is_directory) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                (true, true) if !self.objects.is_empty(victim) => return Err(Error::NotEmpty),
                _ => {}
            }
        }
        match victim {
            Some(victim) if self.links.contains_key(&victim) => {
                // What had the name goes on under another of its names. Until something else has this one, it keeps it,
                // by a hard link of the same name: if the power fails before it moves, the next mount takes that away.
                let stand_in = self.add_link(victim, to, new_name)?;
                if let Err(error) = self.move_to_a_link(victim) {
                    self.delete_object(stand_in)?;
                    return Err(error);
                }
                self.move_over(id, to, new_name, Some(stand_in))?;
            }
            _ => self.move_over(id, to, new_name, victim)?,
        }
        self.touch(from)?;
        self.touch(to)
    }

    /// Whether a directory is another one, or lies in it.
    fn is_within(&self, mut directory: u32, other: u32) -> bool {
        for _ in 0..DEEPEST {
            if directory == other {
                return true;
            }
            match self.objects.get(directory) {
                Some(object) if object.parent != 0 => directory = object.parent,
                _ => return false,
            }
        }
        true
    }

    /// Puts an object whose place is not known into lost+found.
    pub(crate) fn lose(&mut self, id: u32) {
        self.objects.detach(id);
        self.objects.attach(id, LOST_ID);
        if let Some(lost) = self.objects.get_mut(LOST_ID) {
            lost.set(Mark::AllNamed, false);
        }
    }
}
