//! Events of a run that the processor or the kernel counts.

crate::words! {
    /// An event that is counted; its name is that of the metric.
    Counted {
        /// Loads that miss the data TLB, as the kernel maps that to the processor's own events.
        DataTlbLoadMisses = "dtlb_load_misses",
        /// Stores that miss it.
        DataTlbStoreMisses = "dtlb_store_misses",
        /// Page walks for data; ARMv8 processors have an event of that number.
        DataPageWalks = "dtlb_walks",
        /// Page faults, which the kernel itself counts: every machine has them.
        PageFaults = "page_faults",
        /// Time on processors, by the kernel as well.
        TaskClock = "task_clock_ns",
    }
}

impl Counted {
    /// What is counted, in words.
    pub const fn in_words(self) -> &'static str {
        match self {
            Counted::DataTlbLoadMisses => "loads that miss the data TLB",
            Counted::DataTlbStoreMisses => "stores that miss the data TLB",
            Counted::DataPageWalks => "page walks for data",
            Counted::PageFaults => "page faults",
            Counted::TaskClock => "time on processors by the kernel's task clock",
        }
    }
}
