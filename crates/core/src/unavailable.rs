//! What a machine could not provide, and why.

use crate::counted::Counted;
use serde::{Deserialize, Serialize};

/// Something a machine could not give. Absent is never 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unavailable {
    /// What is missing.
    pub what: Quantity,
    /// Why.
    pub why: String,
    /// The fix; empty if there is none.
    pub cure: String,
}

/// What is measured beside the operations' times. In JSON each is its words, such as `flash operations`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Quantity {
    /// Operations of the flash chip.
    FlashOperations,
    /// Pages that a chip with a page buffer reads.
    PageReads,
    /// The read-ahead that is in force.
    ReadAhead,
    /// Energy by any meter.
    Energy,
    /// Energy by meters that are there and cannot be used.
    EnergyOfSomeMeters,
    /// All that the kernel's events say of each operation.
    EventsOfOperations,
    /// The kernel's events, by operation: where it is not known which operation caused them.
    CostOfOperations,
    /// Switches between threads.
    ContextSwitches,
    /// System calls.
    SystemCalls,
    /// Pages added to the page cache.
    PageCacheMisses,
    /// Requests to block devices.
    BlockRequests,
    /// Changes of processors' frequencies.
    FrequencyChanges,
    /// The frequencies that processors have at the start.
    Frequencies,
    /// Entries of idle states.
    IdleStates,
    /// Names of files that the process opens while it is measured.
    OpenedFileNames,
    /// An event that the processor or the kernel counts.
    Counted(Counted),
    /// A condition that was asked for, or something that only another version of the runner has; in words.
    Other(String),
}

/// The quantities that are one word or some, with those.
static NAMED: [(Quantity, &str); 20] = [
    (Quantity::FlashOperations, "flash operations"),
    (Quantity::PageReads, "page reads"),
    (Quantity::ReadAhead, "read-ahead in force"),
    (Quantity::Energy, "energy"),
    (Quantity::EnergyOfSomeMeters, "energy by some meters"),
    (Quantity::EventsOfOperations, "reads and writes, time on core and page-cache misses of each operation"),
    (Quantity::CostOfOperations, "cost of each operation"),
    (Quantity::ContextSwitches, "context switches"),
    (Quantity::SystemCalls, "system calls"),
    (Quantity::PageCacheMisses, "page-cache misses"),
    (Quantity::BlockRequests, "block requests"),
    (Quantity::FrequencyChanges, "frequency changes"),
    (Quantity::Frequencies, "frequencies"),
    (Quantity::IdleStates, "idle states"),
    (Quantity::OpenedFileNames, "names of files opened during the run"),
    counted(Counted::DataTlbLoadMisses),
    counted(Counted::DataTlbStoreMisses),
    counted(Counted::DataPageWalks),
    counted(Counted::PageFaults),
    counted(Counted::TaskClock),
];

const fn counted(what: Counted) -> (Quantity, &'static str) {
    (Quantity::Counted(what), what.in_words())
}

impl Quantity {
    /// The quantity in words.
    pub fn words(&self) -> &str {
        match self {
            Quantity::Other(words) => words,
            named => NAMED.iter().find(|(quantity, _)| quantity == named).map_or("", |(_, words)| words),
        }
    }
}

impl From<String> for Quantity {
    fn from(words: String) -> Self {
        let named = NAMED.iter().find(|(_, known)| *known == words);
        named.map_or(Quantity::Other(words), |(quantity, _)| quantity.clone())
    }
}

impl From<Quantity> for String {
    fn from(quantity: Quantity) -> Self {
        quantity.words().to_owned()
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The JSON that runners wrote before the quantities had types.
    #[test]
    fn outcomes_of_earlier_runners_are_read_and_written_as_they_were() {
        let old = r#"[{"what":"context switches","why":"this kernel has no event sched/sched_switch","cure":"c"},
            {"what":"page-cache misses","why":"w","cure":""},{"what":"governor powersave","why":"w","cure":""}]"#;
        let read: Vec<Unavailable> = serde_json::from_str(old).unwrap();
        let quantities: Vec<&Quantity> = read.iter().map(|u| &u.what).collect();
        let other = Quantity::Other("governor powersave".into());
        assert_eq!(quantities, [&Quantity::ContextSwitches, &Quantity::PageCacheMisses, &other]);
        let compact: String = old.lines().map(str::trim).collect();
        assert_eq!(serde_json::to_string(&read).unwrap(), compact);
        for what in Counted::ALL {
            assert_eq!(Quantity::from(what.in_words().to_owned()), Quantity::Counted(what));
        }
        for (quantity, words) in &NAMED {
            assert_eq!((quantity.words(), &Quantity::from((*words).to_owned())), (*words, quantity));
        }
    }
}
