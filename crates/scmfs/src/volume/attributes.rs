//! Inode metadata besides attributes: extended attributes, ACLs, protection.

use super::Volume;
use crate::operations::{acl, protection, xattr};
use crate::{Ino, Protection, Result, SetXattr};

impl Volume {
    /// An extended attribute's value.
    ///
    /// # Errors
    /// `NoAttribute`, `NotFound`; `NotSupported` for a name outside the namespaces of xattr(7); `Damaged`.
    pub fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        xattr::get_xattr(&self.parts, ino, name)
    }

    /// The names of an inode's extended attributes.
    ///
    /// # Errors
    /// `NotFound`; `Damaged`.
    pub fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        xattr::list_xattrs(&self.parts, ino)
    }

    /// Sets an extended attribute. An ACL also changes the mode: see [`Volume::set_acl`].
    ///
    /// # Errors
    /// `Exists` or `NoAttribute` if `how` says so; `Range` for an empty or too long name, `Invalid` for one with a
    /// zero byte; `NotSupported` for one outside the namespaces of xattr(7); `NotPermitted` for `user.` on what is
    /// neither a regular file nor a directory; `NoSpace`, also if the inode has too many bytes of them.
    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        let _operation = self.parts.store.operation();
        xattr::set_xattr(&self.parts, ino, name, value, how)
    }

    /// Removes an extended attribute. Removing an ACL succeeds even if there is none.
    ///
    /// # Errors
    /// `NoAttribute`, `NotFound`, `NotSupported`, `NotPermitted`.
    pub fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        let _operation = self.parts.store.operation();
        xattr::remove_xattr(&self.parts, ino, name)
    }

    /// Removes a program's file capabilities, as any change of its contents must. Returns whether it had any.
    ///
    /// # Errors
    /// `NotFound`, `NoSpace`; `Damaged`.
    pub fn drop_capability(&self, ino: Ino) -> Result<bool> {
        let _operation = self.parts.store.operation();
        xattr::drop_capability(&self.parts, ino)
    }

    /// Sets the ACL named [`crate::ACL_ACCESS`] or [`crate::ACL_DEFAULT`], in the format of Linux's extended
    /// attributes, or removes it if empty. The mode changes with it. `drop_group_id` clears the set-group-id bit, as
    /// for a caller outside the file's group.
    ///
    /// # Errors
    /// `Invalid` for an invalid list; `NotSupported` for symbolic links and other names; `Denied` for a default list on
    /// anything but a directory; `NotPermitted`, `NoSpace`.
    pub fn set_acl(&self, ino: Ino, name: &[u8], value: &[u8], drop_group_id: bool) -> Result<()> {
        let _operation = self.parts.store.operation();
        acl::set_acl(&self.parts, ino, name, value, drop_group_id)
    }

    /// The protection of an inode.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn protection(&self, ino: Ino) -> Result<Protection> {
        protection::protection(&self.parts, ino)
    }

    /// Sets the protection of a file or directory.
    ///
    /// # Errors
    /// `NotFound`; `NotSupported` for anything but files and directories.
    pub fn protect(&self, ino: Ino, how: Protection) -> Result<()> {
        let _operation = self.parts.store.operation();
        protection::protect(&self.parts, ino, how)
    }
}
