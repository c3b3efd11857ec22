//! Reading and writing files.

use crate::files::{Files, Space};
use crate::log::chip::Chunk;
use crate::log::tags::{Content, Found, Kind};
use pocketstone_vfs::{Error, Ino, Result};

/// Gaps shorter than so many chunks are filled with zeros instead of left as holes.
const FILLED_GAP: u64 = 4;

/// Reads bytes of a file and returns their number. Holes read as zeros; what is behind the bytes in `into` may be
/// overwritten.
pub fn read_at(files: &mut Files, ino: Ino, into: &mut [u8], offset: u64) -> Result<usize> {
    let size = files.tree.file_size(ino)?;
    let bytes = size.saturating_sub(offset).min(into.len() as u64) as usize;
    let all = files.tree.log.chip.data_bytes();
    let mut done = 0;
    while done < bytes {
        let at = offset + done as u64;
        let (chunk, start) = ((at / all as u64) as u32 + 1, (at % all as u64) as usize);
        let part = (all - start).min(bytes - done);
        let room = into.len() - done;
        let piece = &mut into[done..done + part];
        if let Some(entry) = files.cache.find(ino, chunk) {
            piece.copy_from_slice(&entry.data[start..start + part]);
        } else {
            let place = files.tree.chunk_of(ino, chunk);
            if place == 0 {
                piece.fill(0);
            } else if part == all {
                files.tree.log.read_chunk(place, piece)?;
            } else if start == 0 && !files.cache.is_on() && room >= all {
                // The file ends in it, and the buffer does not.
                files.tree.log.read_chunk(place, &mut into[done..done + all])?;
            } else {
                files.with_chunk(ino, chunk, size, |data| piece.copy_from_slice(&data[start..start + part]))?;
            }
        }
        done += part;
    }
    Ok(bytes)
}

/// Writes bytes to a file, which grows as needed. Returns their number, less than all if space ran out.
pub fn write_at(files: &mut Files, ino: Ino, from: &[u8], offset: u64) -> Result<usize> {
    files.tree.log.writable()?;
    let size = files.tree.file_size(ino)?;
    if from.is_empty() {
        return Ok(0);
    }
    let all = files.tree.log.chip.data_bytes();
    if offset.saturating_add(from.len() as u64) > files.tree.log.chip.largest_file() {
        return Err(Error::TooLarge);
    }
    if offset > size {
        grow(files, ino, offset, false)?;
    }
    let mut done = 0;
    while done < from.len() {
        let at = offset + done as u64;
        let (chunk, start) = ((at / all as u64) as u32 + 1, (at % all as u64) as usize);
        let part = (all - start).min(from.len() - done);
        match write_part(files, ino, chunk, start, &from[done..done + part]) {
            Ok(()) => done += part,
            Err(Error::NoSpace) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    files.tree.details.changed(ino, files.tree.now_s());
    for id in files.tree.details.overdue() {
        files.write_header(id)?;
    }
    Ok(done)
}

fn write_part(files: &mut Files, ino: Ino, chunk: u32, start: usize, from: &[u8]) -> Result<()> {
    let all = files.tree.log.chip.data_bytes();
    let size = files.tree.file_size(ino)?;
    let end = u64::from(chunk - 1) * all as u64 + (start + from.len()) as u64;
    files.check_space(0)?;
    if from.len() == all {
        // Until it is written, what was there before counts, in the cache too.
        files.collect(false)?;
        files.write_chunk_of(ino, chunk, from, size.max(end), Space::Ordinary)?;
        files.cache.forget_one(ino, chunk);
        files.tree.grow_to(ino, end);
        return Ok(());
    }
    if files.cache.is_on() {
        files.bring(ino, chunk, size)?;
        if let Some(entry) = files.cache.find(ino, chunk) {
            entry.data[start..start + from.len()].copy_from_slice(from);
            entry.dirty = true;
        }
        files.tree.grow_to(ino, end);
        return Ok(());
    }
    files.collect(false)?;
    let mut data = vec![0; all];
    files.load_chunk(ino, chunk, size, &mut data)?;
    data[start..start + from.len()].copy_from_slice(from);
    files.write_chunk_of(ino, chunk, &data, size.max(end), Space::Ordinary)?;
    files.tree.grow_to(ino, end);
    Ok(())
}

/// Cuts a file, or lengthens it with zeros.
pub fn resize(files: &mut Files, ino: Ino, size: u64) -> Result<()> {
    let old = files.tree.file_size(ino)?;
    if size > files.tree.log.chip.largest_file() {
        return Err(Error::TooLarge);
    }
    if size > old {
        grow(files, ino, size, true)?;
    }
    files.tree.details.changed(ino, files.tree.now_s());
    if size < old { cut(files, ino, size) } else { files.write_header(ino) }
}

/// What is on the chip stays whole until the header with the new size is there: what follows may erase blocks.
fn cut(files: &mut Files, ino: Ino, size: u64) -> Result<()> {
    let all = files.tree.log.chip.data_bytes() as u64;
    let kept = size.div_ceil(all) as u32;
    files.flush(ino)?;
    files.collect(false)?;
    let old = files.tree.file_size(ino)?;
    files.tree.set_size(ino, size);
    if let Err(error) = files.tree.put_header(ino, None, 0, false) {
        files.tree.set_size(ino, old);
        return Err(error);
    }
    files.cache.forget(ino, if size % all == 0 { kept + 1 } else { kept });
    let width = files.tree.width;
    let object = files.tree.objects.get(ino).ok_or(Error::NotFound)?;
    let gone: Vec<(u32, Chunk)> = object.map.chunks(width).filter(|&(slot, _)| slot >= kept).collect();
    for (slot, place) in gone.into_iter().rev() {
        files.tree.set_chunk(ino, slot + 1, 0);
        files.tree.log.discard(place)?;
    }
    if let Some(object) = files.tree.objects.get_mut(ino) {
        object.map.shrink(width, kept);
    }
    trim(files, ino)
}

/// Sees to it that nothing but zeros lies behind the end in the last chunk.
fn trim(files: &mut Files, ino: Ino) -> Result<()> {
    let size = files.tree.file_size(ino)?;
    let all = files.tree.log.chip.data_bytes() as u64;
    if size % all == 0 {
        return Ok(());
    }
    let last = (size / all) as u32 + 1;
    files.flush(ino)?;
    let place = files.tree.chunk_of(ino, last);
    if place == 0 {
        return Ok(());
    }
    if let Found::Tags { tags, .. } = files.tree.log.chip.read_tags(place)? {
        let bytes = (size % all) as u32;
        if matches!(tags.content, Content::Data { bytes: valid, .. } if valid <= bytes) {
            return Ok(());
        }
    }
    files.collect(false)?;
    let mut data = vec![0; all as usize];
    files.load_chunk(ino, last, size, &mut data)?;
    files.write_chunk(ino, last, &data, Space::Reserve)
}

/// Lengthens a file with zeros, up to `size`.
fn grow(files: &mut Files, ino: Ino, size: u64, whole: bool) -> Result<()> {
    let old = files.tree.file_size(ino)?;
    let all = files.tree.log.chip.data_bytes() as u64;
    files.check_space(1)?;
    trim(files, ino)?;
    if size - old < FILLED_GAP * all && files.check_space(FILLED_GAP as u32 + 1).is_ok() {
        let zeros = vec![0; all as usize];
        let mut at = old;
        while at < size {
            let (chunk, start) = ((at / all) as u32 + 1, (at % all) as usize);
            let part = (all - start as u64).min(size - at) as usize;
            write_part(files, ino, chunk, start, &zeros[..part])?;
            at += part as u64;
        }
        return Ok(());
    }
    // Where the hole starts: chunks from before an earlier cut must not come back in it.
    files.write_shrink_header(ino)?;
    if whole {
        files.tree.set_size(ino, size);
    }
    Ok(())
}

/// The parts of a file that are not holes: start and end in bytes, in order, clipped to its size.
pub fn data_ranges(files: &mut Files, ino: Ino) -> Result<Vec<(u64, u64)>> {
    files.flush(ino)?;
    let file = match files.tree.objects.get(ino) {
        None => return Err(Error::NotFound),
        Some(object) if object.kind != Kind::File => return Err(Error::Invalid),
        Some(object) => object,
    };
    let bytes = files.tree.log.chip.data_bytes() as u64;
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (slot, _) in file.map.chunks(files.tree.width) {
        let start = u64::from(slot) * bytes;
        let end = (start + bytes).min(file.value);
        match ranges.last_mut() {
            _ if start >= end => break,
            Some(last) if last.1 == start => last.1 = end,
            _ => ranges.push((start, end)),
        }
    }
    Ok(ranges)
}
