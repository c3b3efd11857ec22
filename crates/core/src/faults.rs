//! Faults of a chip of raw NAND that has aged: bits that flip as they are read, blocks that can no longer be erased,
//! pages that can no longer be programmed or read. The kernel's simulator of such chips, nandsim, makes them.

use crate::chip::{Found, Verdict};
use crate::random::Random;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The most bytes that the kernel takes as a module's parameter of text.
const MOST_BYTES: usize = 1024;

/// Faults of a chip; as text, by the names of nandsim's parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Faults {
    /// The most bits that flip in a page as it is read, which happens to one in 1024 reads; 0: none do.
    pub bit_flips: u64,
    /// Blocks that cannot be erased any more after so many times.
    pub weak_blocks: Option<Part>,
    /// Pages that cannot be programmed any more after so many times.
    pub weak_pages: Option<Part>,
    /// Pages that cannot be read any more after so many times.
    pub grave_pages: Option<Part>,
}

/// A part of a chip, chosen by a seed, and how often it works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// How large it is, in thousandths of a percent; at least one block or page is chosen.
    pub millipercent: u64,
    /// How often each of its blocks or pages works, counted from when the chip's contents are put onto it.
    pub works: u64,
}

impl Part {
    /// A list for nandsim: numbers below `all`, each with how often it works.
    fn list(self, all: u32, seed: u64, label: &str) -> String {
        let mut random = Random::labelled(seed, label);
        let wanted = (u64::from(all) * self.millipercent).div_ceil(100_000).clamp(1, u64::from(all)) as usize;
        let mut chosen = BTreeSet::new();
        while chosen.len() < wanted {
            chosen.insert(random.below(u64::from(all)));
        }
        let each: Vec<String> = chosen.iter().map(|number| format!("{number}:{}", self.works)).collect();
        each.join(",")
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(text: &str) -> Result<Part> {
        let parse = || {
            let (percent, works) = text.split_once("%:")?;
            let (whole, thousandths) = percent.split_once('.').unwrap_or((percent, ""));
            let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            if !digits(whole) || !digits(thousandths) || thousandths.len() > 3 {
                return None;
            }
            let millipercent = format!("{whole}{thousandths:0<3}").parse().ok()?;
            let works = works.parse().ok()?;
            ((1..=100_000).contains(&millipercent) && works <= 1_000_000).then_some(Part { millipercent, works })
        };
        parse().ok_or_else(|| {
            Error::user(format!("`{text}` is not a part of a chip"))
                .hint("write PERCENT%:TIMES, such as 0.5%:3: so much of the chip, which works so many times")
        })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, thousandths) = (self.millipercent / 1000, self.millipercent % 1000);
        let percent = format!("{whole}.{thousandths:03}");
        write!(f, "{}%:{}", percent.trim_end_matches('0').trim_end_matches('.'), self.works)
    }
}

impl Faults {
    /// The parameters of nandsim for a chip of these sizes, without those of none.
    ///
    /// # Errors
    /// `ErrorKind::User` if the kernel does not take as many; the hint says what would help.
    pub fn parameters(&self, blocks: u32, block_pages: u32, seed: u64) -> Result<String> {
        let mut parameters = match self.bit_flips {
            0 => Vec::new(),
            flips => vec![format!("bitflips={flips}")],
        };
        let pages = blocks * block_pages;
        let lists = [
            ("weakblocks", self.weak_blocks, blocks),
            ("weakpages", self.weak_pages, pages),
            ("gravepages", self.grave_pages, pages),
        ];
        for (name, part, all) in lists {
            let Some(part) = part else { continue };
            let list = part.list(all, seed, name);
            if list.len() > MOST_BYTES {
                let error = format!("{name}={part} is a list of {} bytes for the kernel", list.len());
                return Err(Error::user(error).hint(format!("it takes {MOST_BYTES}: choose a smaller part")));
            }
            parameters.push(format!("{name}={list}"));
        }
        Ok(parameters.join(" "))
    }
}

impl FromStr for Faults {
    type Err = Error;

    fn from_str(text: &str) -> Result<Faults> {
        let mut faults = Faults::default();
        let mut seen = BTreeSet::new();
        for word in text.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            if !seen.insert(name) {
                return Err(Error::user(format!("`{text}` says twice what {name} is")));
            }
            let part = || value.parse::<Part>().map(Some);
            match name {
                "bitflips" => {
                    let flips = value.parse().ok().filter(|flips| *flips <= 1000);
                    faults.bit_flips = flips.ok_or_else(|| {
                        Error::user(format!("`{value}` is not a number of bits")).hint("bitflips is 0 to 1000")
                    })?;
                }
                "weakblocks" => faults.weak_blocks = part()?,
                "weakpages" => {
                    faults.weak_pages = part()?;
                    if faults.weak_pages.is_some_and(|part| part.works == 0) {
                        return Err(Error::user("a page that cannot be programmed at all cannot have had contents")
                            .hint("set weakpages = PERCENT%:1 or more: putting the contents there is the first time"));
                    }
                }
                "gravepages" => faults.grave_pages = part()?,
                other => {
                    return Err(Error::user(format!("`{other}` is not a fault of a chip"))
                        .hint("there are bitflips, weakblocks, weakpages and gravepages"));
                }
            }
        }
        match seen.is_empty() {
            true => Err(Error::user("faults names no fault").hint("bitflips=0 is a chip that is as good as new")),
            false => Ok(faults),
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bitflips={}", self.bit_flips)?;
        let parts =
            [("weakblocks", self.weak_blocks), ("weakpages", self.weak_pages), ("gravepages", self.grave_pages)];
        parts
            .iter()
            .filter_map(|(name, part)| Some((name, (*part)?)))
            .try_for_each(|(name, part)| write!(f, " {name}={part}"))
    }
}

impl TryFrom<String> for Faults {
    type Error = Error;

    fn try_from(text: String) -> Result<Faults> {
        text.parse()
    }
}

impl From<Faults> for String {
    fn from(faults: Faults) -> String {
        faults.to_string()
    }
}

/// What was seen of faults in some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultCounts {
    /// Bits that the simulator says it flipped.
    pub flipped_bits: u64,
    /// Pages that it says it did not read.
    pub unread_pages: u64,
    /// Pages that it says it did not program.
    pub unprogrammed_pages: u64,
    /// Blocks that it says it did not erase.
    pub unerased_blocks: u64,
    /// Bits that the kernel's error correction put right.
    pub corrected_bits: u64,
    /// Reads that it could not put right.
    pub failed_corrections: u64,
    /// Blocks that were marked bad.
    pub bad_blocks: u64,
}

/// What became of a run on a chip with faults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worn {
    /// What was seen during the run.
    pub run: FaultCounts,
    /// What was seen after it, while the volume was mounted anew and all of it was read.
    pub look: FaultCounts,
    /// How the volume was found then.
    pub found: Found,
    /// What was found on it, beside what it should hold; the lab knows that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn faults_are_read_as_they_are_written() {
        let faults: Faults = "weakpages=0.25%:1 bitflips=1".parse().unwrap();
        assert_eq!((faults.bit_flips, faults.weak_blocks), (1, None));
        assert_eq!(faults.weak_pages, Some(Part { millipercent: 250, works: 1 }));
        assert_eq!(faults.to_string(), "bitflips=1 weakpages=0.25%:1");
        assert_eq!("gravepages=100%:0".parse::<Faults>().unwrap().to_string(), "bitflips=0 gravepages=100%:0");
        assert_eq!(serde_json::to_string(&faults).unwrap(), "\"bitflips=1 weakpages=0.25%:1\"");
        let refused = |text: &str| text.parse::<Faults>().unwrap_err().chain();
        assert!(refused("").contains("names no fault"));
        assert!(refused("bitflips=1 bitflips=2").contains("twice"));
        assert!(refused("rust=1").contains("`rust` is not a fault"));
        for wrong in ["5:1", "5%", "5%:", "101%:1", "0%:1", "0.0001%:1", "-1%:1", "1.%%:1", "+5%:1"] {
            assert!(refused(&format!("weakblocks={wrong}")).contains("not a part of a chip"), "{wrong}");
        }
        assert!(refused("weakpages=1%:0").contains("cannot be programmed at all"));
        assert!(refused("bitflips=1001").contains("not a number of bits"));
    }

    proptest! {
        #[test]
        fn any_faults_come_back(
            bit_flips in 0u64..1000,
            part in prop::option::of((1u64..=100_000, 0u64..1_000_000)),
        ) {
            let part = part.map(|(millipercent, works)| Part { millipercent, works });
            let faults = Faults { bit_flips, weak_blocks: part, weak_pages: None, grave_pages: part };
            prop_assert_eq!(faults.to_string().parse::<Faults>().unwrap(), faults);
        }
    }

    #[test]
    fn the_seed_chooses_and_the_kernel_is_told_in_its_own_words() {
        let faults: Faults = "bitflips=2 weakblocks=5%:3 gravepages=0.1%:0".parse().unwrap();
        let parameters = faults.parameters(128, 64, 7).unwrap();
        assert_eq!(parameters, faults.parameters(128, 64, 7).unwrap());
        assert_ne!(parameters, faults.parameters(128, 64, 8).unwrap());
        let [flips, blocks, pages] = parameters.split(' ').collect::<Vec<_>>()[..] else { panic!("{parameters}") };
        assert_eq!(flips, "bitflips=2");
        let numbers = |list: &str, name: &str, works: &str| -> Vec<u32> {
            let list = list.strip_prefix(name).unwrap();
            list.split(',').map(|each| each.strip_suffix(works).unwrap().parse().unwrap()).collect()
        };
        // 5 % of 128 are 6.4, and 0.1 % of 8192 are 8.2.
        let (blocks, pages) = (numbers(blocks, "weakblocks=", ":3"), numbers(pages, "gravepages=", ":0"));
        assert_eq!((blocks.len(), pages.len()), (7, 9));
        assert!(blocks.is_sorted() && blocks.iter().all(|block| *block < 128), "{blocks:?}");
        assert!(pages.iter().all(|page| *page < 8192) && pages.iter().any(|page| *page >= 128), "{pages:?}");
        assert_eq!("bitflips=0".parse::<Faults>().unwrap().parameters(128, 64, 7).unwrap(), "");
        let many: Faults = "weakpages=10%:1".parse().unwrap();
        assert!(many.parameters(128, 64, 7).unwrap_err().cure().unwrap().contains("smaller part"));
    }
}
