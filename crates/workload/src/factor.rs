//! Factors: what a study varies. A factor has a type, so that a value which is none of it never gets far; its words
//! come from the enum that the plan has.

use pocketstone_core::database::Delay;
use pocketstone_core::words::Word;
use pocketstone_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// The form of a factor's values in a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text.
    Text,
    /// The name of a volume.
    Volume,
    /// A number of things, at least 1.
    Count,
    /// A size in bytes, or a text with a unit.
    Bytes,
    /// A duration in nanoseconds, or a text with a unit.
    Nanoseconds,
    /// A delay between two operations, as [`Delay`] reads it, or the word `own`: what the file has.
    Delay,
    /// true or false.
    Flag,
    /// A number from 0 to 10, or the word `none`.
    TenthsOrNone,
    /// A number of things, at least 1, or the word `none`.
    CountOrNone,
}

/// A value of a factor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// true or false.
    Flag(bool),
    /// A number: things, bytes, nanoseconds.
    Number(u64),
    /// A word or a text.
    Text(String),
}

impl Value {
    /// The text, where it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, where it is one.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Flag(flag) => flag.fmt(f),
            Value::Number(number) => number.fmt(f),
            Value::Text(text) => write!(f, "\"{text}\""),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}

impl PartialEq<str> for Value {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl PartialEq<String> for Value {
    fn eq(&self, other: &String) -> bool {
        self == other.as_str()
    }
}

impl PartialEq<u64> for Value {
    fn eq(&self, other: &u64) -> bool {
        self.as_u64() == Some(*other)
    }
}

/// What a factor's values mean.
pub trait Meaning {
    /// The form of the values.
    const KIND: Kind;
    /// Whether `default` is a value, too: what it means is the machine's or the engine's affair.
    const OR_DEFAULT: bool = false;
    /// What a value is in a plan.
    type Is;

    /// What a value is; `None` where it is none.
    fn of(value: &Value) -> Option<Self::Is>;
}

impl<W: Word> Meaning for W {
    const KIND: Kind = Kind::Word(W::WORDS);
    type Is = W;

    fn of(value: &Value) -> Option<W> {
        value.as_str().and_then(W::of_word)
    }
}

/// Declares what is a value of a kind and no enum.
macro_rules! meanings {
    ($($(#[$doc:meta])* $name:ident: $kind:expr => $is:ty, $of:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl Meaning for $name {
            const KIND: Kind = $kind;
            type Is = $is;

            fn of(value: &Value) -> Option<$is> {
                let of: fn(&Value) -> Option<$is> = $of;
                of(value)
            }
        }
    )*};
}

meanings! {
    /// A number of things.
    Count: Kind::Count => u64, Value::as_u64;
    /// A size in bytes.
    Bytes: Kind::Bytes => u64, Value::as_u64;
    /// A duration in nanoseconds.
    Nanoseconds: Kind::Nanoseconds => u64, Value::as_u64;
    /// true or false.
    Flag: Kind::Flag => bool, |value| if let Value::Flag(flag) = value { Some(*flag) } else { None };
    /// So many of ten, or `None` for `none`.
    TenthsOrNone: Kind::TenthsOrNone => Option<u64>, |value| match value {
        Value::Text(none) if none == "none" => Some(None),
        value => value.as_u64().filter(|tenths| *tenths <= 10).map(Some),
    };
    /// A number of things; 0 for `none`.
    CountOrNone: Kind::CountOrNone => u64, |value| match value {
        Value::Text(none) if none == "none" => Some(0),
        value => value.as_u64(),
    };
    /// Any text.
    Text: Kind::Text => String, |value| value.as_str().map(str::to_owned);
    /// The name of a volume.
    VolumeName: Kind::Volume => String, |value| value.as_str().map(str::to_owned);
    /// A delay, or `None` for `own`.
    DelayOrOwn: Kind::Delay => Option<Delay>, |value| match value.as_str()? {
        "own" => Some(None),
        delay => delay.parse().ok().map(Some),
    };
}

/// A value, or `None` for the word `default`.
#[derive(Debug)]
pub struct OrDefault<M>(PhantomData<M>);

impl<M: Meaning> Meaning for OrDefault<M> {
    const KIND: Kind = M::KIND;
    const OR_DEFAULT: bool = true;
    type Is = Option<M::Is>;

    fn of(value: &Value) -> Option<Option<M::Is>> {
        match value.as_str() {
            Some("default") => Some(None),
            _ => M::of(value).map(Some),
        }
    }
}

/// A factor whose values mean `M`.
#[derive(Debug)]
pub struct Factor<M> {
    any: AnyFactor,
    means: PhantomData<fn() -> M>,
}

/// A factor, whatever its values mean.
#[derive(Debug, Clone, Copy)]
pub struct AnyFactor {
    /// Its name in studies, results and expressions.
    pub name: &'static str,
    /// The form of its values.
    pub kind: Kind,
    /// Whether `default` is a value, too.
    pub or_default: bool,
    /// The value where a study says nothing; `None` where it must.
    pub default: Option<&'static str>,
    /// Whether a point has it only where it is not the default: so have those that earlier versions did not know,
    /// and the names of their cells stay what they were.
    pub quiet: bool,
    /// What it is.
    pub about: &'static str,
    check: fn(u64) -> Result<()>,
}

impl<M: Meaning> Factor<M> {
    /// A factor that a study must say something about.
    pub const fn new(name: &'static str, about: &'static str) -> Factor<M> {
        let (kind, or_default) = (M::KIND, M::OR_DEFAULT);
        let any = AnyFactor { name, kind, or_default, default: None, quiet: false, about, check: |_| Ok(()) };
        Factor { any, means: PhantomData }
    }

    /// With a value for where a study says nothing.
    pub const fn default(mut self, default: &'static str) -> Factor<M> {
        self.any.default = Some(default);
        self
    }

    /// In the words of a workload to which it is something more.
    pub const fn about(mut self, about: &'static str) -> Factor<M> {
        self.any.about = about;
        self
    }

    /// In a point only where it is not the default.
    pub const fn quiet(mut self) -> Factor<M> {
        self.any.quiet = true;
        self
    }

    /// With a check of its numbers.
    pub const fn checked(mut self, check: fn(u64) -> Result<()>) -> Factor<M> {
        self.any.check = check;
        self
    }

    /// Without its type, for tables.
    pub const fn any(&self) -> AnyFactor {
        self.any
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.any.name
    }
}

impl AnyFactor {
    /// The default value.
    pub fn default_value(&self) -> Option<Value> {
        let text = self.default?;
        Some(match text.parse::<u64>() {
            Ok(number) => number.into(),
            Err(_) => text.parse::<bool>().map_or_else(|_| text.into(), Value::from),
        })
    }

    /// Refuses numbers that make no sense.
    ///
    /// # Errors
    /// `ErrorKind::User` for an invalid number; the hint lists valid ones.
    pub fn check(&self, value: &Value) -> Result<()> {
        value.as_u64().map_or(Ok(()), self.check)
    }
}

/// The values of a point of a study's matrix, by factor. Factors that its workload does not have are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Point(BTreeMap<String, Value>);

impl Point {
    /// What a factor is in this point.
    ///
    /// # Errors
    /// `ErrorKind::Bug` if the point has no such factor and the factor no default, or the value is invalid.
    pub fn of<M: Meaning>(&self, factor: &Factor<M>) -> Result<M::Is> {
        let name = factor.name();
        let given = self.0.get(name).cloned().or_else(|| factor.any.default_value());
        let value = given.ok_or_else(|| Error::bug(format!("a point has no {name}")))?;
        M::of(&value).ok_or_else(|| Error::bug(format!("{value} is not a valid {name}")))
    }
}

impl std::ops::Deref for Point {
    type Target = BTreeMap<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl std::ops::DerefMut for Point {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl FromIterator<(String, Value)> for Point {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(values: I) -> Point {
        Point(values.into_iter().collect())
    }
}

/// Why a point makes no plan, and which factor is to blame.
#[derive(Debug)]
pub struct Impossible {
    /// The factor.
    pub factor: &'static str,
    /// Why.
    pub error: Error,
}

impl From<Error> for Impossible {
    fn from(error: Error) -> Self {
        Impossible { factor: "workload", error }
    }
}

/// Blames a factor whose value is wrong, and says what it must be.
pub fn wrong(factor: &'static str, why: String, must_be: &str) -> Impossible {
    Impossible { factor, error: Error::user(why).hint(format!("{factor} must be {must_be}")) }
}

/// Blames a factor for an error.
pub fn blame(factor: &'static str) -> impl Fn(Error) -> Impossible {
    move |error| Impossible { factor, error }
}
