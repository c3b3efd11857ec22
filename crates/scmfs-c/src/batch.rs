//! Changing several files at once.

use crate::arguments::{array, data, reference};
use crate::error::{Result, count, status};
use crate::file::OpenFile;
use crate::types::SCMFS_KEEP_SIZE;
use crate::volume::{OpenVolume, entered};
use pocketstone_scmfs as scmfs;
use std::ffi::{c_int, c_void};

/// One write of a batch.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Write {
    /// Where in the file, in bytes.
    pub offset: u64,
    /// What to write there; may be NULL if length is 0.
    pub data: *const c_void,
    /// How many bytes.
    pub length: usize,
}

/// What a batch does to one file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FileBatch {
    /// The file, open with SCMFS_WRITE.
    pub file: *const OpenFile,
    /// The writes; where they overlap, the last one counts. May be NULL if count is 0.
    pub writes: *const Write,
    /// How many writes.
    pub count: usize,
    /// The size of the file afterwards in bytes, or SCMFS_KEEP_SIZE.
    pub size: u64,
}

/// Writes to several files, several times each, and sets their sizes. A file may be given once. On failure nothing has
/// changed.
///
/// Returns 0 or a negative errno: -EFBIG beyond scmfs_batch_max(), -EINVAL for a file that is given twice or belongs to
/// another volume and for a write beyond the given size, -EBADF for a file that is not open for writing, -ENOSPC.
///
/// Durable on return. After a crash during the call: all of it or nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_write_batch(
    volume: *const OpenVolume,
    batches: *const FileBatch,
    count: usize,
) -> c_int {
    status("scmfs_write_batch", || {
        // SAFETY: the header asks callers for an open volume, and for arrays of these lengths.
        let (fs, _call) = unsafe { entered(volume) }?;
        // SAFETY: as above.
        let batches = unsafe { array(batches, count) }?;
        let mut parts = Vec::with_capacity(batches.len());
        for batch in batches {
            // SAFETY: as above, and for an open file.
            let file = unsafe { reference(batch.file, "a file of the batch is NULL") }?;
            // SAFETY: as above.
            let writes = unsafe { array(batch.writes, batch.count) }?;
            // SAFETY: as above, and for data of these lengths.
            let writes = writes.iter().map(|write| Ok((write.offset, unsafe { data(write.data, write.length) }?)));
            parts.push((file, writes.collect::<Result<Vec<(u64, &[u8])>>>()?, batch.size));
        }
        let parts = parts.iter().map(|(file, writes, size)| {
            let size = (*size != SCMFS_KEEP_SIZE).then_some(*size);
            Ok(scmfs::FileBatch { file: file.to_write()?, writes, size })
        });
        Ok(fs.volume().write_batch(&parts.collect::<Result<Vec<_>>>()?)?)
    })
}

/// What scmfs_write_batch() takes at most, in bytes: the data, 144 bytes for each file, and up to 32 for each piece of
/// a write. 1.3 MiB on a volume of 64 MiB or more.
///
/// Returns it, or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scmfs_batch_max(volume: *const OpenVolume) -> i64 {
    count("scmfs_batch_max", || {
        // SAFETY: the header asks callers for an open volume.
        let (fs, _call) = unsafe { entered(volume) }?;
        Ok(fs.volume().batch_max())
    })
}
