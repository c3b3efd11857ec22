//! What a child has of its parent's files: what the parent had mapped. It has no part in the parent's session, which
//! may have ended.

use crate::message::{self, NAME_BYTES, Name, Question};
use crate::table::File;

/// A mapped file, as whoever has it mapped can name it, however he got the mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inherited {
    pub(crate) name: Name,
    pub(crate) file: File,
}

const NAME_WORDS: usize = NAME_BYTES / 8;

impl Inherited {
    /// So many words say it.
    pub const WORDS: usize = NAME_WORDS + 2;

    /// As words, to be kept in memory that a child has, too.
    pub fn words(&self) -> [u64; Inherited::WORDS] {
        let mut words = [0; Inherited::WORDS];
        words[..NAME_WORDS].copy_from_slice(&self.name.words());
        words[NAME_WORDS..].copy_from_slice(&[u64::from(self.file.index), self.file.key]);
        words
    }

    /// What these words say.
    pub fn of_words(words: &[u64; Inherited::WORDS]) -> Inherited {
        let (name, [index, key]) = (words[..NAME_WORDS].try_into(), [words[NAME_WORDS], words[NAME_WORDS + 1]]);
        let file = File { key, index: u32::try_from(index).unwrap_or(u32::MAX) };
        Inherited { name: Name::of_words(&name.unwrap_or_default()), file }
    }

    /// The file, for who has a session.
    pub fn file(&self) -> File {
        self.file
    }

    /// A mapping of the file was stored to, perhaps: one question to the server, for who has no session. If it cannot
    /// be asked any more, or does not let this process, nothing is noted.
    pub fn note_stored(&self) {
        let _ = message::ask(&self.name, Question::Stored { index: self.file.index, key: self.file.key });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_the_same() {
        let name = Name::new("scmfs-4711-0123456789abcdef").unwrap();
        let inherited = Inherited { name, file: File { key: u64::MAX - 1, index: 16_383 } };
        let words = inherited.words();
        assert_eq!(words[0].to_ne_bytes(), *b"scmfs-47");
        assert_eq!(Inherited::of_words(&words), inherited);
    }
}
