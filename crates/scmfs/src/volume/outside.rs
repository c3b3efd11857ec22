//! For processes that reach the content of files without the volume: what they have to know, and what the volume has to
//! know of them.

use super::{File, Volume};
use crate::contents;
use crate::format::sizes;
use crate::inodes::live;
use crate::operations::{allocate, tail};
use crate::{Error, OutsideStores, Result, Running, TimeNs, Watch, Written};
use pocketstone_media::size_record::SIZE_RECORD_BYTES;
use pocketstone_media::{Durable, Shared};
use std::sync::Arc;

impl Volume {
    /// The region as other processes can map it; `None`: they cannot.
    pub fn shared(&self) -> Option<Shared<'_>> {
        self.parts.store.medium.region().shared()
    }

    /// One of those that may store, and that [`OutsideStores::stored`] tells nothing of any more, stored to these bytes
    /// of the region.
    pub fn note_stored(&self, at: u64, bytes: u64) {
        if let Some(tracker) = self.parts.store.medium.tracker() {
            tracker.note(at, bytes);
        }
    }

    /// Stores the sizes of files that have grown by leases of their ends: they outlive the server from now on.
    pub fn store_sizes(&self) {
        self.parts.store_sizes();
    }

    /// Where records of sizes lie, one behind the other, and how many
    /// ([`size_record`](pocketstone_media::size_record)). Of a file that somebody makes longer by a lease, a record of
    /// the version that [`Shown`](crate::Shown) says makes the size outlive the volume.
    pub fn size_records(&self) -> (u64, u32) {
        let layout = &self.parts.store.layout;
        (layout.size_records_at(), layout.size_records())
    }

    /// From now on records of sizes count.
    ///
    /// # Errors
    /// `ReadOnly` if the volume is closed or read-only.
    pub fn use_size_records(&self) -> Result<()> {
        let store = &self.parts.store;
        let _operation = store.operation();
        let mut superblock = store.superblock();
        store.writable()?;
        if !superblock.size_records {
            // SAFETY: nobody has one of them yet.
            let wiped = unsafe { sizes::wipe(&store.medium, &store.layout, Durable::nothing_new()) };
            superblock.size_records = true;
            // Both copies: should the newer one be damaged later, the older one must not have it that none counts.
            let first = store.store_superblock(&mut superblock, wiped);
            store.store_superblock(&mut superblock, first).done();
        }
        Ok(())
    }

    /// A record says nothing any more. What it said has to be stored ([`Shown::settled`](crate::Shown::settled)).
    ///
    /// # Safety
    /// Nobody else loads or stores it meanwhile.
    pub unsafe fn clear_size_record(&self, record: u32) {
        let store = &self.parts.store;
        let at = store.layout.size_records_at() + u64::from(record) * SIZE_RECORD_BYTES;
        let _operation = store.operation();
        if record < store.layout.size_records() && !store.read_only() {
            // SAFETY: the caller's promise.
            let wiped = unsafe { store.medium.zero(at, SIZE_RECORD_BYTES, Durable::unreferenced()) };
            store.medium.fence(wiped).done();
        }
    }

    /// Whether [`File::lie_still`] can be had.
    pub fn may_be_mapped(&self) -> bool {
        self.parts.may_be_mapped()
    }

    /// From now on others may store where [`Watch`] says that it is allowed, as long as `stores` says that they do.
    ///
    /// # Errors
    /// `Invalid` if somebody said so before.
    pub fn let_others_store(&self, stores: Arc<dyn OutsideStores>) -> Result<()> {
        if self.parts.space.held.guard(stores) { Ok(()) } else { Err(Error::Invalid) }
    }
}

impl File {
    /// Has the file's content watched as long as the inode is in memory. `watch` is told its generation, and may make
    /// nothing; it is called with the inode locked. False: somebody watches it already, or nothing was made.
    ///
    /// # Errors
    /// `NotFound` if the file is gone; `NotSupported` if reading needs more than to look where the content lies: with
    /// checksums, or of what is no regular file.
    pub fn watch(&self, watch: impl FnOnce(u32) -> Option<Box<dyn Watch>>) -> Result<bool> {
        if self.parts.store.layout.checks_at.is_some() {
            return Err(Error::NotSupported);
        }
        self.check_regular().map_err(|_| Error::NotSupported)?;
        self.node.watch(watch)
    }

    /// Finds space for so many bytes behind the end of the file. Where that space ends, in bytes of the file: with a
    /// page.
    ///
    /// # Errors
    /// As [`File::append`].
    pub fn room_to_append(&self, bytes: u64) -> Result<u64> {
        let _operation = self.parts.store.operation();
        self.check_regular()?;
        let mut state = self.node.exclusive(&self.parts.store)?;
        live(&state.record)?;
        state.record.must_take_more()?;
        let (size, layout) = (state.record.size, &self.parts.store.layout);
        let end = layout.end_of(size, bytes)?.next_multiple_of(layout.page);
        let end = layout.end_of(end, 0)?;
        tail::clear(&self.parts, self.node.ino, &mut state)?;
        allocate::find_space(&self.parts, self.node.ino, &mut state, size..end, None)?;
        Ok(end)
    }

    /// Lets somebody who watches the file lease its end, by `give`, which is told the size. What is appended up to
    /// `limit` has space then. False: it has not, or the file ends there.
    ///
    /// # Errors
    /// `NotFound`; `Medium` if the volume is closed or read-only.
    pub fn lease_end(&self, limit: u64, give: impl FnOnce(u64)) -> Result<bool> {
        let state = self.node.exclusive(&self.parts.store)?;
        live(&state.record)?;
        let size = state.record.size;
        let fits = size < limit && state.tail.is_none() && state.body.has_space(size, limit);
        if fits {
            give(size);
        }
        Ok(fits)
    }

    /// Has a range of the content lie still, for somebody who maps it: where it has no space of its own it gets some,
    /// and as long as what `hold` gives says so, no page of the content is taken from the file or moved. What would do
    /// that fails with `Busy`, but for zeroing, which happens in place. The file has to stay open meanwhile. `hold` may
    /// give nothing. Whether the range lies still now.
    ///
    /// # Errors
    /// `Invalid` for a range that is empty or goes on behind the page in which the file ends; `NotSupported` on a
    /// volume with checksums, or one whose stores have to be known, for checkpoints; `Busy` if the end is being
    /// appended to; `NotPermitted` for a hole in a file that must not change; otherwise as [`File::allocate`].
    pub fn lie_still(&self, offset: u64, bytes: u64, hold: impl FnOnce() -> Option<Running>) -> Result<bool> {
        let (store, layout) = (&self.parts.store, &self.parts.store.layout);
        let _operation = store.operation();
        self.check_regular()?;
        if !self.parts.may_be_mapped() {
            return Err(Error::NotSupported);
        }
        let mut state = self.node.exclusive(store)?;
        live(&state.record)?;
        let (size, end) = (state.record.size, layout.end_of(offset, bytes)?);
        if bytes == 0 || end > size.next_multiple_of(layout.page) {
            return Err(Error::Invalid);
        }
        if state.tail.is_some() {
            return Err(Error::Busy);
        }
        if !state.body.has_space(offset, end.min(size)) {
            state.record.must_be_free_to_change()?;
            allocate::find_space(&self.parts, self.node.ino, &mut state, offset..end.min(size), None)?;
        }
        // Whoever maps a part of a page has all of it.
        if end.next_multiple_of(layout.page) > size {
            // Behind the end lies whatever was there before.
            contents::zero_behind_end(&self.parts, &state);
        }
        let Some(mapped) = hold() else { return Ok(false) };
        state.mapped = Some(Box::new(mapped));
        Ok(true)
    }

    /// Takes over when others stored, as [`Watch::written`] says, and stores it if what is stored is too old.
    /// `at_ns`: somebody did then who cannot say so there.
    ///
    /// # Errors
    /// `NotFound`; `Medium` if the volume is closed or read-only.
    pub fn note_written(&self, at_ns: Option<TimeNs>) -> Result<()> {
        let store = &self.parts.store;
        let _operation = store.operation();
        let mut state = self.node.beside_appends(store)?;
        live(&state.record)?;
        if let Some(at_ns) = at_ns {
            state.note_written(Written { at_ns, now_ns: store.now() });
        }
        if state.is_overdue() {
            self.parts.store_version(self.node.ino, &mut state, Durable::nothing_new()).done();
        }
        Ok(())
    }
}
