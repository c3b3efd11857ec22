//! Enums whose values are words in studies: the words come from the enum, and from nowhere else.

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
