//! A small target of checkpoints in memory, to be damaged. Its bytes are put together here, by the format's
//! description and not by its code.

use pocketstone_scmfs::checkpoint::{Folder, Input, Output};
use std::io::{Error, ErrorKind, Result};

const PAGE: usize = 4096;

/// A file: header, pages, table. Pages whose value is 0 are not stored.
fn file(generation: u64, parent: u64, pages: &[(u64, u8)]) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    bytes[..8].copy_from_slice(b"SCMFSCP\n");
    bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
    bytes[12..16].copy_from_slice(&4096_u32.to_le_bytes());
    bytes[16..32].fill(7);
    let stored: Vec<u8> = pages.iter().filter(|(_, value)| *value != 0).map(|(_, value)| *value).collect();
    let words = [generation, parent, 8 * 4096, stored.len() as u64, pages.len() as u64, 1_700_000_000_000_000_000];
    for (number, word) in words.into_iter().enumerate() {
        bytes[32 + 8 * number..40 + 8 * number].copy_from_slice(&word.to_le_bytes());
    }
    stored.iter().for_each(|value| bytes.extend([*value; PAGE]));
    for (page, value) in pages {
        let word = if *value == 0 { page | 1 << 63 } else { *page };
        bytes.extend(word.to_le_bytes());
        bytes.extend(crc32c::crc32c(&[*value; PAGE]).to_le_bytes());
        bytes.extend([0; 4]);
    }
    seal(&mut bytes);
    bytes
}

/// Corrects the checksums of the table and the header, if there is room for them.
fn seal(bytes: &mut [u8]) {
    if bytes.len() < PAGE {
        return;
    }
    let stored = u64::from_le_bytes(bytes[56..64].try_into().expect("eight bytes"));
    let table = usize::try_from(stored).ok().and_then(|stored| stored.checked_add(1)?.checked_mul(PAGE));
    if let Some(table) = table.and_then(|at| bytes.get(at..)) {
        let crc = crc32c::crc32c(table);
        bytes[80..84].copy_from_slice(&crc.to_le_bytes());
    }
    let crc = crc32c::crc32c(&bytes[..PAGE - 4]);
    bytes[PAGE - 4..PAGE].copy_from_slice(&crc.to_le_bytes());
}

/// Generation 1 and generation 2, which builds on it.
pub fn sound() -> [Vec<u8>; 2] {
    [file(1, 0, &[(0, 1), (1, 2), (5, 3)]), file(2, 1, &[(1, 0), (2, 4), (5, 5), (7, 6)])]
}

/// One edit: see `fuzz::checkpoint`.
pub fn edit(file: &mut Vec<u8>, edit: &[u8]) {
    let &[how, place, what, value, more] = edit else { return };
    if file.len() < PAGE {
        return;
    }
    // Most are of the header and the table, where numbers are.
    let table = file.len() - 64.min(file.len());
    let at = match how >> 1 & 3 {
        0 => usize::from(place) % 88,
        1 => (table + usize::from(place) % 64).min(file.len() - 1),
        2 => usize::from(place) * 8 % 88 / 8 * 8,
        _ => usize::from(place) * 61 % file.len(),
    };
    match what % 5 {
        0 => file[at] = value,
        1 => file[at] ^= value,
        2 => file.truncate(at + usize::from(more) * 16),
        3 => file.extend(std::iter::repeat_n(value, usize::from(more))),
        _ => {
            let word = u64::from(value) << (more % 57);
            let end = (at + 8).min(file.len());
            file[at..end].copy_from_slice(&word.to_le_bytes()[..end - at]);
        }
    }
    if how & 8 != 0 {
        seal(file);
    }
}

/// A folder that is only read.
pub struct Fixed(pub [Vec<u8>; 2]);

struct Bytes(Vec<u8>);

impl Input for Bytes {
    fn bytes(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, into: &mut [u8], at: u64) -> Result<()> {
        let end = at.checked_add(into.len() as u64);
        let from = end.and_then(|end| self.0.get(usize::try_from(at).ok()?..usize::try_from(end).ok()?));
        into.copy_from_slice(from.ok_or(Error::from(ErrorKind::UnexpectedEof))?);
        Ok(())
    }
}

impl Folder for Fixed {
    fn names(&self) -> Result<Vec<String>> {
        Ok((1..=2).map(|generation| format!("checkpoint-{generation:020}")).collect())
    }

    fn create(&self, _: &str) -> Result<Box<dyn Output>> {
        Err(Error::from(ErrorKind::ReadOnlyFilesystem))
    }

    fn open(&self, name: &str) -> Result<Box<dyn Input>> {
        Ok(Box::new(Bytes(self.0[usize::from(name.ends_with('2'))].clone())))
    }

    fn rename(&self, _: &str, _: &str) -> Result<()> {
        Err(Error::from(ErrorKind::ReadOnlyFilesystem))
    }

    fn remove(&self, _: &str) -> Result<()> {
        Err(Error::from(ErrorKind::ReadOnlyFilesystem))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}
