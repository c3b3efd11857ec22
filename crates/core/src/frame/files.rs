//! Files as frames: a piece at a time, so that neither side holds a whole one, and no silence is long.

use super::{Frame, PIECE_BYTES, damaged};
use crate::error::Context;
use crate::{Error, Result};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The pieces of a file, the first one with its name.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be read.
pub fn pieces(path: &Path) -> Result<impl Iterator<Item = Result<Frame>>> {
    let failed = |path: &Path| format!("cannot read {}", path.display());
    let mut file = File::open(path).board(|| failed(path))?;
    let mut name = Some(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
    let path = path.to_path_buf();
    Ok(std::iter::from_fn(move || {
        let mut bytes = Vec::new();
        match (&mut file).take(PIECE_BYTES as u64).read_to_end(&mut bytes).board(|| failed(&path)) {
            Err(error) => Some(Err(error)),
            Ok(_) => match name.take() {
                Some(name) => Some(Ok(Frame::File(name, bytes))),
                None => (!bytes.is_empty()).then_some(Ok(Frame::More(bytes))),
            },
        }
    }))
}

/// Puts files that come as frames into a folder.
#[derive(Debug)]
pub struct Inbox {
    folder: PathBuf,
    /// The one that grows, and where it is.
    file: Option<(File, PathBuf)>,
}

impl Inbox {
    /// Files for a folder.
    pub fn new(folder: &Path) -> Inbox {
        Inbox { folder: folder.to_owned(), file: None }
    }

    /// Takes a frame; gives it back if it is no part of a file.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it cannot be written, or continues a file that has not begun.
    pub fn take(&mut self, frame: Frame) -> Result<Option<Frame>> {
        let bytes = match frame {
            Frame::File(name, bytes) => {
                let path = self.folder.join(name);
                let file = File::create(&path).board(|| format!("cannot create {}", path.display()))?;
                self.file = Some((file, path));
                bytes
            }
            Frame::More(bytes) => bytes,
            other => return Ok(Some(other)),
        };
        let Some((file, path)) = &mut self.file else { return Err(damaged()) };
        match file.write_all(&bytes) {
            Ok(()) => Ok(None),
            Err(error) => Err(Error::board(format!("cannot write {}", path.display())).because(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_of_any_length_arrive_as_they_were() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut inbox = Inbox::new(to.path());
        for bytes in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
            let content: Vec<u8> = (0..=250).cycle().take(bytes).collect();
            let name = format!("file-{bytes}");
            fs::write(from.path().join(&name), &content).unwrap();
            for frame in pieces(&from.path().join(&name)).unwrap() {
                let mut sent = Vec::new();
                frame.unwrap().send(&mut sent).unwrap();
                assert!(sent.len() <= PIECE_BYTES + 100);
                let mut frames = super::super::Frames::default();
                let mut rest = &sent[..];
                while frames.hear(&mut rest).unwrap() {}
                assert_eq!(inbox.take(frames.take().unwrap().unwrap()).unwrap(), None);
            }
            assert_eq!(fs::read(to.path().join(&name)).unwrap(), content);
        }
        assert_eq!(inbox.take(Frame::Go).unwrap(), Some(Frame::Go));
        assert!(Inbox::new(to.path()).take(Frame::More(vec![1])).is_err());
    }
}
