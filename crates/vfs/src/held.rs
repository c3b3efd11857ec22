//! A RAII handle of an inode.

use crate::{Ino, Operations, Result};
use std::fmt;
use std::ops::Deref;

/// An inode in use, released on drop. It dereferences to its handle. `P` points to the volume: a reference, or an
/// `Arc`.
pub struct Held<P>
where
    P: Deref,
    P::Target: Operations,
{
    volume: P,
    /// There until this is dropped.
    handle: Option<<P::Target as Operations>::Handle>,
}

impl<P> Held<P>
where
    P: Deref,
    P::Target: Operations,
{
    /// Wraps a handle of this volume.
    pub fn new(volume: P, handle: <P::Target as Operations>::Handle) -> Held<P> {
        Held { volume, handle: Some(handle) }
    }

    /// Opens an inode.
    ///
    /// # Errors
    /// As [`Operations::open`].
    pub fn open(volume: P, ino: Ino) -> Result<Held<P>> {
        let handle = volume.open(ino)?;
        Ok(Held::new(volume, handle))
    }

    /// The volume.
    pub fn volume(held: &Held<P>) -> &P::Target {
        &held.volume
    }
}

impl<P> Deref for Held<P>
where
    P: Deref,
    P::Target: Operations,
{
    type Target = <P::Target as Operations>::Handle;

    #[inline]
    fn deref(&self) -> &Self::Target {
        self.handle.as_ref().expect("it is there until this is dropped")
    }
}

impl<P> Drop for Held<P>
where
    P: Deref,
    P::Target: Operations,
{
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.volume.release(handle);
        }
    }
}

impl<P> fmt::Debug for Held<P>
where
    P: Deref,
    P::Target: Operations,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.volume.ino(self)).finish()
    }
}
