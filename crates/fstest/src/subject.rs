//! What a file system has to say to be tested.

use crate::content::Content;
use crate::op::{Op, Outcome};
use pocketstone_vfs::{Attr, Error, Ino, Operations, Result, SetXattr};
use std::collections::BTreeMap;
use std::fmt;

/// Files longer than this are not read as they are: a damaged volume may say anything.
const LONGEST_BYTES: u64 = 4 << 20;

/// What tests do with volumes of one file system beyond [`Operations`].
pub trait Subject {
    /// An open volume.
    type Volume: Operations;
    /// Whether times are compared, in whole seconds.
    const TIMES: bool;

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// As setxattr(2): `Exists` or `NoAttribute` if `how` does not allow it, `NoSpace` if it does not fit, and what
    /// else the file system refuses.
    fn set_xattr(volume: &Self::Volume, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()>;

    /// An extended attribute's value.
    ///
    /// # Errors
    /// As getxattr(2): `NoAttribute` if there is none of this name.
    fn get_xattr(volume: &Self::Volume, ino: Ino, name: &[u8]) -> Result<Vec<u8>>;

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// As listxattr(2): `NotFound` if there is no such inode.
    fn list_xattrs(volume: &Self::Volume, ino: Ino) -> Result<Vec<Vec<u8>>>;

    /// Takes an extended attribute away.
    ///
    /// # Errors
    /// As removexattr(2): `NoAttribute` if there is none of this name.
    fn remove_xattr(volume: &Self::Volume, ino: Ino, name: &[u8]) -> Result<()>;

    /// What the volume does when nobody wants anything.
    ///
    /// # Errors
    /// `Medium` if something cannot be written.
    fn background(volume: &Self::Volume) -> Result<()>;

    /// Gives an inode back.
    ///
    /// # Errors
    /// `Medium` if what has no name cannot be deleted.
    fn close(volume: &Self::Volume, handle: Handle<Self>) -> Result<()> {
        volume.release(handle);
        Ok(())
    }

    /// An operation on a file that not all file systems have.
    ///
    /// # Errors
    /// An [`Error`] with the [number](Error::errno) that Linux gives.
    fn on_file(_: &Self::Volume, _: &Handle<Self>, op: &Op) -> Result<Outcome> {
        unreachable!("{op:?} is not generated")
    }

    /// Another operation that not all file systems have.
    ///
    /// # Errors
    /// An [`Error`] with the [number](Error::errno) that Linux gives.
    fn on_others(_: &Self::Volume, _: &mut OpenFiles<Self>, op: &Op) -> Result<Outcome> {
        unreachable!("{op:?} is not generated")
    }

    /// What a file holds.
    ///
    /// # Errors
    /// [`Broken::Error`] where it cannot be read; [`Broken::Contradiction`] where it has another size than its
    /// attributes say, or two ways to read it give two contents.
    fn content(volume: &Self::Volume, path: &str, attr: &Attr) -> Result<Content, Broken> {
        let failed = |error| Broken::Error(path.into(), error);
        let mut content = Content::default();
        if attr.size <= LONGEST_BYTES {
            let file = volume.open(attr.ino).map_err(failed)?;
            // More than there is: a read ends at the end of the file.
            let mut bytes = vec![0xEE; attr.size as usize + 3];
            let got = volume.read_at(&file, &mut bytes, 0).map_err(failed)?;
            Self::close(volume, file).map_err(failed)?;
            Broken::unless(got as u64 == attr.size, path, || format!("{got} bytes read of {}", attr.size))?;
            content.write(0, &bytes[..got]);
        }
        Ok(content)
    }

    /// Looks at whatever else must hold of a name and what it leads to.
    ///
    /// # Errors
    /// [`Broken::Contradiction`] where something does not; [`Broken::Error`] where that cannot be seen.
    fn look(_: &Self::Volume, _: &str, _: &Attr, _: Ino) -> Result<(), Broken> {
        Ok(())
    }
}

/// An inode of a volume in use.
pub type Handle<S> = <<S as Subject>::Volume as Operations>::Handle;

/// Open files by slot, and whether each is still without a name.
pub struct OpenFiles<S: Subject + ?Sized>(pub BTreeMap<u8, (Handle<S>, bool)>);

impl<S: Subject + ?Sized> Default for OpenFiles<S> {
    fn default() -> Self {
        OpenFiles(BTreeMap::new())
    }
}

/// Why a volume could not be read as a tree.
pub enum Broken {
    /// It said so itself.
    Error(String, Error),
    /// It gave answers that contradict each other.
    Contradiction(String),
}

impl Broken {
    /// What must hold of a path.
    ///
    /// # Errors
    /// [`Broken::Contradiction`] when it does not.
    pub fn unless(holds: bool, path: &str, what: impl FnOnce() -> String) -> Result<(), Broken> {
        if holds { Ok(()) } else { Err(Broken::Contradiction(format!("{path}: {}", what()))) }
    }
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Error(path, error) => write!(f, "{path}: {error}"),
            Broken::Contradiction(text) => f.write_str(text),
        }
    }
}
