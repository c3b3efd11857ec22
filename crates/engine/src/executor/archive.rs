//! Archives: what `tar` makes of files, compressed as `gzip -6` does.

use crate::Tree;
use crate::tree::whole;
use flate2::Compression;
use flate2::write::GzEncoder;
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use pocketstone_workload::Purpose;
use std::ffi::{CStr, CString};
use std::io::Write;

/// Bytes of a block of an archive.
const BLOCK_BYTES: usize = 512;

/// gzip's own level.
const LEVEL: u32 = 6;

/// Creates `into` and writes an archive of `files` to it, by calls of at most `buffer.len()` bytes; the bytes written.
pub(super) fn archive<T: Tree>(tree: &T, files: &[CString], into: &CStr, buffer: &mut [u8]) -> Result<u64> {
    let failed = || "cannot compress".to_owned();
    let target = tree.create(into)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
    let mut written = 0;
    for name in files {
        let bytes = tree.stat(name)?;
        encoder.write_all(&header(name, bytes)).board(failed)?;
        let file = tree.open(name, Purpose::Read)?;
        let mut offset = 0;
        while offset < bytes {
            let wanted = (bytes - offset).min(buffer.len() as u64) as usize;
            whole(tree.read(&file, &mut buffer[..wanted], offset)?, wanted, "a read")?;
            encoder.write_all(&buffer[..wanted]).board(failed)?;
            offset += wanted as u64;
            written += drain(tree, &target, encoder.get_mut(), buffer.len())?;
        }
        let padding = bytes.next_multiple_of(BLOCK_BYTES as u64) - bytes;
        encoder.write_all(&[0; BLOCK_BYTES][..padding as usize]).board(failed)?;
    }
    encoder.write_all(&[0; 2 * BLOCK_BYTES]).board(failed)?;
    let mut rest = encoder.finish().board(failed)?;
    written += drain(tree, &target, &mut rest, buffer.len())?;
    whole(tree.append(&target, &rest)?, rest.len(), "an append")?;
    Ok(written + rest.len() as u64)
}

/// Writes what has come out of the compressor, in whole calls.
fn drain<T: Tree>(tree: &T, target: &T::File<'_>, out: &mut Vec<u8>, call_bytes: usize) -> Result<u64> {
    let calls = out.chunks_exact(call_bytes);
    let bytes = out.len() - calls.remainder().len();
    for part in calls {
        whole(tree.append(target, part)?, part.len(), "an append")?;
    }
    out.drain(..bytes);
    Ok(bytes as u64)
}

/// The block before a file's contents, in the format of POSIX.1-1988 (ustar). Nothing in it depends on the time.
fn header(name: &CStr, bytes: u64) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
    // Longer names do not occur; what is cut off still has its contents.
    put(0, &name.to_bytes()[..name.to_bytes().len().min(100)]);
    for (at, number) in [(100, "0000644"), (108, "0000000"), (116, "0000000"), (136, "00000000000")] {
        put(at, number.as_bytes());
    }
    put(124, format!("{bytes:011o}").as_bytes());
    put(156, b"0");
    put(257, b"ustar\x0000");
    // The sum is of the block with spaces in its place.
    put(148, b"        ");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KernelTree;
    use pocketstone_testing::{or_skip, program};
    use std::process::Command;

    #[test]
    fn tar_finds_the_files_in_an_archive() {
        let tar = or_skip!(program("tar", "tar"));
        let folder = tempfile::tempdir().unwrap();
        let contents = [Vec::new(), vec![7; 512], (0..100_000u32).flat_map(u32::to_le_bytes).collect()];
        let names = [c"empty", c"block", c"many"].map(CStr::to_owned);
        for (name, content) in names.iter().zip(&contents) {
            std::fs::write(folder.path().join(name.to_str().unwrap()), content).unwrap();
        }
        let tree = KernelTree::open(folder.path()).unwrap();
        let written = archive(&tree, &names, c"all.tar.gz", &mut [0; 1000]).unwrap();
        let target = folder.path().join("all.tar.gz");
        assert_eq!(std::fs::metadata(&target).unwrap().len(), written);
        let out = folder.path().join("out");
        std::fs::create_dir(&out).unwrap();
        let ran = Command::new(tar).arg("-xzf").arg(&target).arg("-C").arg(&out).output().unwrap();
        assert!(ran.status.success() && ran.stderr.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
        for (name, content) in names.iter().zip(&contents) {
            assert_eq!(&std::fs::read(out.join(name.to_str().unwrap())).unwrap(), content);
        }
    }
}
