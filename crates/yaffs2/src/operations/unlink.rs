//! Taking names away, and giving others.

use super::names::add_link;
use crate::files::Files;
use crate::log::tags::Kind;
use crate::tree::names::check_name;
use crate::tree::objects::{UNLINKED_ID, is_fixed};
use pocketstone_vfs::{Error, Ino, Rename, Result};

/// Marks an inode as in use: it outlives its last name until it is released.
pub fn hold(files: &mut Files, ino: Ino) -> Result<()> {
    files.tree.objects.get(ino).ok_or(Error::NotFound)?;
    *files.tree.held.entry(ino).or_default() += 1;
    Ok(())
}

/// Releases an inode. A nameless one is deleted on its last release.
pub fn release(files: &mut Files, ino: Ino) -> Result<()> {
    let Some(uses) = files.tree.held.get_mut(&ino) else { return Ok(()) };
    *uses -= 1;
    if *uses > 0 {
        return Ok(());
    }
    files.tree.held.remove(&ino);
    delete_if_unlinked(files, ino)
}

pub fn delete_if_unlinked(files: &mut Files, ino: Ino) -> Result<()> {
    match files.tree.objects.get(ino) {
        Some(object) if object.parent == UNLINKED_ID && !files.options.read_only => files.delete_object(ino),
        _ => Ok(()),
    }
}

/// Removes a name; the object is deleted with its last name.
pub fn unlink(files: &mut Files, parent: Ino, name: &[u8]) -> Result<()> {
    files.tree.log.writable()?;
    let id = files.tree.find(parent, name)?.ok_or(Error::NotFound)?;
    if files.tree.objects.get(id).is_some_and(|object| object.kind == Kind::Directory) {
        return Err(Error::IsDirectory);
    }
    remove_name(files, id)?;
    files.tree.touch(parent);
    Ok(())
}

/// Deletes an empty directory.
pub fn remove_directory(files: &mut Files, parent: Ino, name: &[u8]) -> Result<()> {
    files.tree.log.writable()?;
    let id = files.tree.find(parent, name)?.ok_or(Error::NotFound)?;
    files.tree.must_be_directory(id)?;
    if is_fixed(id) {
        return Err(Error::NotPermitted);
    }
    if !files.tree.objects.is_empty(id) {
        return Err(Error::NotEmpty);
    }
    remove_name(files, id)?;
    files.tree.touch(parent);
    Ok(())
}

/// Takes away the name that an object stands for.
fn remove_name(files: &mut Files, id: u32) -> Result<()> {
    let object = files.tree.objects.get(id).ok_or(Error::NotFound)?;
    if object.kind == Kind::HardLink {
        let target = object.value as u32;
        files.delete_object(id)?;
        let now = files.tree.now_s();
        if files.tree.objects.get(target).is_some() {
            files.tree.load(target)?.ctime_s = now;
            files.write_header(target)?;
        }
        return Ok(());
    }
    if files.tree.links.contains_key(&id) {
        return move_to_a_link(files, id);
    }
    if files.tree.held.contains_key(&id) {
        let (parent, now) = (object.parent, files.tree.now_s());
        let detail = files.tree.load(id)?;
        detail.ctime_s = now;
        files.tree.objects.detach(id);
        files.tree.objects.attach(id, UNLINKED_ID);
        // What is in the cache stays there: newer than a header that replaces this object, it would come back.
        let written = files.collect(false).and_then(|()| files.tree.put_header(id, None, 0, false));
        if written.is_err() {
            files.tree.objects.detach(id);
            files.tree.objects.attach(id, parent);
        }
        return written;
    }
    files.delete_object(id)
}

/// An object with further names moves to the place of one of them.
fn move_to_a_link(files: &mut Files, id: u32) -> Result<()> {
    let link = files.tree.links.get(&id).and_then(|links| links.first().copied()).ok_or(Error::NotFound)?;
    let name = files.tree.load(link)?.name.clone();
    let directory = files.tree.objects.get(link).ok_or(Error::NotFound)?.parent;
    move_over(files, id, directory, &name, Some(link))?;
    // Who has read a part of the directory finds the name where it was.
    files.tree.objects.set_place(id, link);
    Ok(())
}

/// Gives an object another place and name, and deletes what had that name, at once: a header that replaces the
/// other object says so.
fn move_over(files: &mut Files, id: u32, to: Ino, name: &[u8], victim: Option<u32>) -> Result<()> {
    files.flush(id)?;
    files.collect(false)?;
    let now = files.tree.now_s();
    let before = files.tree.load(id)?.clone();
    let from = files.tree.objects.get(id).ok_or(Error::NotFound)?.parent;
    let detail = files.tree.load(id)?;
    detail.ctime_s = now;
    detail.name = name.to_vec();
    files.tree.objects.detach(id);
    files.tree.objects.name(id, name);
    files.tree.objects.attach(id, to);
    if let Err(error) = files.tree.put_header(id, None, victim.unwrap_or(0), false) {
        files.tree.objects.detach(id);
        files.tree.objects.name(id, &before.name);
        files.tree.objects.attach(id, from);
        files.tree.details.insert(id, before);
        return Err(error);
    }
    let Some(victim) = victim else { return Ok(()) };
    // Collecting would take the mark of replacement away.
    files.collector.paused = true;
    let gone = remove_name(files, victim);
    let written = gone.and_then(|()| files.tree.put_header(id, None, 0, false));
    files.collector.paused = false;
    written
}

/// Renames, over an existing name if `how` allows it.
pub fn rename(files: &mut Files, from: Ino, name: &[u8], to: Ino, new_name: &[u8], how: Rename) -> Result<()> {
    files.tree.log.writable()?;
    if matches!(how, Rename::Exchange | Rename::Whiteout { .. }) {
        return Err(Error::Invalid);
    }
    files.tree.must_be_directory(to)?;
    let id = files.tree.find(from, name)?.ok_or(Error::NotFound)?;
    let victim = files.tree.find(to, new_name)?;
    check_name(new_name)?;
    if files.tree.objects.get(to).is_some_and(|object| object.parent == UNLINKED_ID) {
        return Err(Error::NotFound);
    }
    if is_fixed(id) || victim.is_some_and(is_fixed) {
        return Err(Error::NotPermitted);
    }
    let is_directory = files.tree.objects.get(id).is_some_and(|object| object.kind == Kind::Directory);
    if victim.is_some() && how == Rename::NoReplace {
        return Err(Error::Exists);
    }
    if is_directory && files.tree.is_within(to, id) {
        return Err(Error::Invalid);
    }
    if let Some(victim) = victim {
        if files.tree.is_within(from, victim) {
            return Err(Error::NotEmpty);
        }
        if files.tree.resolve(victim).ok() == files.tree.resolve(id).ok() {
            return Ok(());
        }
        let victim_is_directory = files.tree.objects.get(victim).is_some_and(|o| o.kind == Kind::Directory);
        match (is_directory, victim_is_directory) {
            (true, false) => return Err(Error::NotDirectory),
            (false, true) => return Err(Error::IsDirectory),
            (true, true) if !files.tree.objects.is_empty(victim) => return Err(Error::NotEmpty),
            _ => {}
        }
    }
    match victim {
        Some(victim) if files.tree.links.contains_key(&victim) => {
            // What had the name goes on under another of its names. Until something else has this one, it keeps it,
            // by a hard link of the same name: if the power fails before it moves, the next mount takes that away.
            let stand_in = add_link(files, victim, to, new_name)?;
            if let Err(error) = move_to_a_link(files, victim) {
                files.delete_object(stand_in)?;
                return Err(error);
            }
            move_over(files, id, to, new_name, Some(stand_in))?;
        }
        _ => move_over(files, id, to, new_name, victim)?,
    }
    files.tree.touch(from);
    files.tree.touch(to);
    Ok(())
}
