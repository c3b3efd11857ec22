//! Making the files that a workload starts with.

use crate::Tree;
use crate::tree::whole;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_workload::{Content, NewFile, Population};
use std::collections::BTreeSet;
use std::ffi::CString;

pub(crate) fn c_name(name: &str) -> Result<CString> {
    CString::new(name).map_err(|e| Error::bug("a NUL in a file's name").because(e))
}

/// Makes the files that a workload starts with, in an empty folder.
///
/// # Errors
/// `ErrorKind::Board` if the file system refuses.
pub fn populate<T: Tree>(tree: &T, population: &Population) -> Result<()> {
    let files = population.list();
    let mut buffer = Vec::new();
    if let Some((filler, content)) = population.filler() {
        make(tree, population, &filler, content, &mut buffer).board(|| "cannot create the filler".into())?;
    }
    let mut folders = BTreeSet::new();
    let mut make_folders = |path: &str| {
        // Those above it come first.
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        let new: Vec<&str> =
            ends.map(|end| &path[..end]).filter(|folder| folders.insert((*folder).to_owned())).collect();
        new.into_iter().try_for_each(|folder| tree.mkdir(&c_name(folder)?))
    };
    for (number, (new, content)) in files.iter().zip(population.contents()).enumerate() {
        let failed = || format!("cannot create the file {} of {}", number + 1, files.len());
        if let Some((folder, _)) = new.name.rsplit_once('/') {
            make_folders(folder).board(failed)?;
        }
        make(tree, population, new, content, &mut buffer).board(failed)?;
    }
    population
        .folders()
        .iter()
        .try_for_each(|folder| make_folders(folder).board(|| format!("cannot create the folder {folder}")))
}

fn make<T: Tree>(
    tree: &T,
    population: &Population,
    new: &NewFile,
    mut content: Content,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    let (part_bytes, durable) = population.writing();
    buffer.resize(buffer.len().max(part_bytes.min(new.bytes as usize)), 0);
    let file = tree.create(&c_name(&new.name)?)?;
    let mut left = new.bytes;
    while left > 0 {
        let part = &mut buffer[..left.min(part_bytes as u64) as usize];
        content.fill(part);
        whole(tree.append(&file, part)?, part.len(), "an append")?;
        left -= part.len() as u64;
    }
    if durable { tree.sync(&file) } else { Ok(()) }
}
