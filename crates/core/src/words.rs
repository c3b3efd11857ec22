//! Words: enums whose values are words in studies, which come from the enum and from nowhere else, and the word that
//! was probably meant by a wrong one. Nouns that stand behind a number.

/// An enum whose values have one word each.
pub trait Word: Copy + Sized + 'static {
    /// Every word, in the order they are shown.
    const WORDS: &'static [&'static str];

    /// The value's word.
    fn word(self) -> &'static str;

    /// The value of a word; `None` if unknown.
    fn of_word(word: &str) -> Option<Self>;
}

/// An enum whose values have one name each, in studies, plans and messages. Who uses it depends on `serde`.
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $value:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $word)] $value,)* }

        impl $name {
            /// Every value, in the order they are shown.
            pub const ALL: [$name; [$($word,)*].len()] = [$($name::$value,)*];

            /// The name used in studies, results and messages.
            pub const fn name(self) -> &'static str {
                match self { $($name::$value => $word,)* }
            }
        }

        impl $crate::words::Word for $name {
            const WORDS: &'static [&'static str] = &[$($word,)*];

            fn word(self) -> &'static str {
                self.name()
            }

            fn of_word(word: &str) -> Option<Self> {
                $name::ALL.into_iter().find(|value| value.name() == word)
            }
        }
    };
}

/// A number of things, by what one of them is called: `1 file`, `2 directories`.
pub fn counted<N: std::fmt::Display + PartialEq + From<u8>>(number: N, one: &str) -> String {
    format!("{number} {}", noun(number == N::from(1), one))
}

/// The name of one thing, or of any other number of them.
pub fn noun(is_one: bool, one: &str) -> String {
    match one.strip_suffix('y') {
        _ if is_one || one.ends_with("series") => one.to_owned(),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if one.ends_with(['s', 'x']) || one.ends_with("ch") || one.ends_with("sh") => format!("{one}es"),
        _ => format!("{one}s"),
    }
}

/// What helps with a wrong word: the one that was probably meant, and all that there are, under what they are called.
pub fn choices(word: &str, what: &str, names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let all = format!("{what}: {}", names.join(", "));
    nearest(word, names).map_or(all.clone(), |name| format!("did you mean `{name}`? {all}"))
}

/// The one of some names that a wrong word differs from in at most a third of its letters.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (word.chars().count() / 3).max(1);
    let near = names.into_iter().map(|name| (edits(word, name), name)).filter(|(edits, _)| *edits <= most);
    near.min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// How many letters have to be put in, taken out or replaced to make one word of another.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_singular() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "directory")), ["0 directories", "1 directory", "2 directories"]);
        assert_eq!([1u64, 3].map(|n| counted(n, "symbolic link")), ["1 symbolic link", "3 symbolic links"]);
        assert_eq!(
            ["process", "branch", "day", "index", "more series"].map(|one| noun(false, one)),
            ["processes", "branches", "days", "indexes", "more series"]
        );
    }

    #[test]
    fn the_word_that_was_meant_stands_before_all_others() {
        let names = ["jffs2", "tmpfs", "ramfs"];
        assert_eq!(choices("tmpf", "volumes", &names), "did you mean `tmpfs`? volumes: jffs2, tmpfs, ramfs");
        assert_eq!(choices("ntfs", "volumes", &names), "volumes: jffs2, tmpfs, ramfs");
        assert_eq!(nearest("filesystem", ["files", "file_system"]), Some("file_system"));
        assert_eq!((edits("", "ab"), edits("kitten", "sitting"), edits("same", "same")), (2, 3, 0));
    }
}
