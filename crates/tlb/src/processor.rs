//! Data TLBs as a property of devices: the files `devices/*.toml` of the kind [`KIND`].

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The kind of a profile that describes a data TLB.
pub const KIND: &str = "tlb";

/// A processor's data TLB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// The file's name without `.toml`.
    #[serde(default, skip)]
    pub name: String,
    /// [`KIND`].
    kind: String,
    /// One line for people.
    pub description: String,
    /// For each level of its page tables, from the top, the bits of an address below what an entry's index decodes:
    /// 39, 30, 21, 12 where four levels of 512 entries decode 48 bits.
    pub table_bits: Vec<u32>,
    /// From the level that is asked first.
    #[serde(rename = "level")]
    pub levels: Vec<Level>,
    /// Caches of upper levels of page tables; none where nothing is published.
    #[serde(default, rename = "walk_cache")]
    pub walk_caches: Vec<WalkCache>,
}

/// One level: its arrays, of which each access asks the first that answers such accesses and holds its page size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Its arrays.
    #[serde(rename = "array")]
    pub arrays: Vec<Array>,
}

/// A set-associative array of translations. A page's set is its number modulo the number of sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// Number of translations.
    pub entries: usize,
    /// Number of them in a set; `entries` if it is fully associative.
    pub ways: usize,
    /// Sizes of pages that it holds.
    pub page_bytes: Vec<u64>,
    /// Whether it holds larger pages in pieces of its largest size, one for each piece that is touched.
    #[serde(default)]
    pub splits: bool,
    /// Accesses that ask it.
    #[serde(default)]
    pub accesses: Accesses,
    /// Which translation gives way.
    #[serde(default)]
    pub replacement: Replacement,
    /// Where the numbers are from.
    pub source: String,
}

/// Accesses that ask an array.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accesses {
    /// Loads and stores.
    #[default]
    All,
    /// Loads.
    Loads,
    /// Stores.
    Stores,
}

/// Which translation of a set gives way to a new one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The one that was not used for longest; also where a publication does not name the replacement.
    #[default]
    LeastRecentlyUsed,
    /// Pseudo-LRU by a binary tree of bits, each pointing away from the half used last.
    Tree,
}

/// A cache of what one level of the page table says: a hit ends a walk's upper part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WalkCache {
    /// Bits of an address that are below what an entry decodes: 21 for entries that point to tables of 4 KiB pages.
    pub covers_bits: u32,
    /// Number of entries.
    pub entries: usize,
    /// Number of them in a set; the least recently used one gives way.
    pub ways: usize,
    /// Where the numbers are from.
    pub source: String,
}

impl Array {
    /// The size as which it holds a page of `page_bits`, in bits, if it does.
    pub(crate) fn held(&self, page_bits: u32) -> Option<u32> {
        let sizes = || self.page_bytes.iter().map(|bytes| bytes.trailing_zeros());
        match sizes().find(|bits| *bits == page_bits) {
            None if self.splits => sizes().filter(|bits| *bits < page_bits).max(),
            found => found,
        }
    }
}

impl Processor {
    /// Reads the text of a profile; `name` is the file's name without `.toml`, which errors repeat.
    ///
    /// # Errors
    /// `ErrorKind::User` if it is not understood, or describes what cannot be; the message includes the place.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let not = || format!("{name}.toml is not a description of a data TLB");
        let processor: Processor = toml::from_str(text).map_err(|e| Error::user(e.to_string())).user(not)?;
        let processor = Processor { name: name.to_owned(), ..processor };
        processor.check().user(not)?;
        Ok(processor)
    }

    /// Reads the profile `name`: a file's path, or a name in `folder`.
    ///
    /// # Errors
    /// `ErrorKind::User` for an unknown name, or a profile that is not understood.
    pub fn load(folder: &Path, name: &str) -> Result<Self> {
        let path = match name.ends_with(".toml") {
            true => PathBuf::from(name),
            false => folder.join(format!("{name}.toml")),
        };
        let text = fs::read_to_string(&path).map_err(|e| {
            let known: Vec<String> = list(folder).unwrap_or_default().into_iter().map(|p| p.name).collect();
            let unknown = format!("there is no profile of the data TLB of {name}");
            Error::user(unknown).because(e).hint(format!("known: {}", known.join(", ")))
        })?;
        Self::parse(&path.file_stem().unwrap_or_default().to_string_lossy(), &text)
    }

    /// The text of a profile that [`Processor::parse`] reads as this.
    ///
    /// # Errors
    /// `ErrorKind::Bug` if it cannot be written.
    pub fn to_text(&self) -> Result<String> {
        toml::to_string(self).map_err(|e| Error::bug("a data TLB cannot be written as TOML").because(e))
    }

    /// Sizes of pages that any array holds, in bits, ascending.
    pub fn page_bits(&self) -> Vec<u32> {
        let arrays = self.levels.iter().flat_map(|level| &level.arrays);
        let mut sizes: Vec<u32> = arrays.flat_map(|a| &a.page_bytes).map(|bytes| bytes.trailing_zeros()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    fn check(&self) -> Result<()> {
        let wrong = |what: &str, cure: &str| Err(Error::user(what).hint(cure));
        if self.kind != KIND {
            return wrong(&format!("kind `{}` is not a data TLB", self.kind), "a data TLB has kind = \"tlb\"");
        }
        if self.levels.iter().all(|level| level.arrays.is_empty()) {
            return wrong("no array", "add a [[level]] with a [[level.array]]");
        }
        if self.table_bits.is_empty() || !self.table_bits.is_sorted_by(|a, b| a > b) || self.table_bits[0] > 63 {
            return wrong("table_bits does not descend from at most 63", "for x86-64: table_bits = [39, 30, 21, 12]");
        }
        let arrays = self.levels.iter().flat_map(|level| &level.arrays);
        let sets = arrays.map(|a| (a.entries, a.ways)).chain(self.walk_caches.iter().map(|c| (c.entries, c.ways)));
        for (entries, ways) in sets {
            if ways == 0 || entries == 0 || entries % ways != 0 || entries > 1 << 20 {
                let what = format!("{entries} entries cannot be in sets of {ways} ways");
                return wrong(&what, "ways divides entries; entries is at most 1048576");
            }
        }
        for array in self.levels.iter().flat_map(|level| &level.arrays) {
            let sizes = &array.page_bytes;
            if sizes.is_empty() || sizes.iter().any(|s| !s.is_power_of_two() || *s < 1024 || *s > 1 << 40) {
                return wrong(
                    "page_bytes are not sizes of pages",
                    "use powers of two from 1024, such as [4096, 2097152]",
                );
            }
            if array.replacement == Replacement::Tree && !(array.ways.is_power_of_two() && array.ways <= 64) {
                return wrong("a tree cannot have that many ways", "ways is a power of two of at most 64");
            }
        }
        if self.walk_caches.iter().any(|c| c.covers_bits > 63) {
            return wrong("covers_bits is above 63", "it is 21 for entries that point to tables of 4 KiB pages");
        }
        Ok(())
    }
}

/// All data TLBs of a folder, by name. Profiles of another kind are passed over.
///
/// # Errors
/// `ErrorKind::User` if the folder or one of its data TLBs cannot be read.
pub fn list(folder: &Path) -> Result<Vec<Processor>> {
    #[derive(Deserialize)]
    struct Head {
        kind: String,
    }
    let entries = fs::read_dir(folder).user(|| format!("cannot list the devices in {}", folder.display()))?;
    let paths = entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|x| x == "toml"));
    let mut processors = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).user(|| format!("cannot read {}", path.display()))?;
        if toml::from_str::<Head>(&text).is_ok_and(|head| head.kind == KIND) {
            processors.push(Processor::load(folder, &path.to_string_lossy())?);
        }
    }
    processors.sort_by(|a: &Processor, b| a.name.cmp(&b.name));
    Ok(processors)
}
