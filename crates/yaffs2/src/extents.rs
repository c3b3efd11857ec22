//! Where a file has data, so that whoever copies it need not read its holes.

use crate::tags::Kind;
use crate::volume::Volume;
use pocketstone_core::inode::{Error, Ino, Result};

impl Volume {
    /// The parts of a file that are no holes: from and to, in bytes, in order, clipped to its size.
    ///
    /// # Errors
    /// When it is no file.
    pub fn extents(&mut self, ino: Ino) -> Result<Vec<(u64, u64)>> {
        self.flush(ino)?;
        let file = match self.objects.get(ino) {
            None => return Err(Error::NotFound),
            Some(object) if object.kind != Kind::File => return Err(Error::Invalid),
            Some(object) => object,
        };
        let bytes = self.chip.data_bytes() as u64;
        let mut extents: Vec<(u64, u64)> = Vec::new();
        for (slot, _) in file.map.chunks(self.width) {
            let start = u64::from(slot) * bytes;
            let end = (start + bytes).min(file.value);
            match extents.last_mut() {
                _ if start >= end => break,
                Some(last) if last.1 == start => last.1 = end,
                _ => extents.push((start, end)),
            }
        }
        Ok(extents)
    }
}
