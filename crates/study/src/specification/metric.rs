//! The metrics: those of every workload here, those of one in its own file.

use pocketstone_core::Error;
use pocketstone_core::metric::metric;
use pocketstone_core::words::choices;
use pocketstone_workload::table;

pub use pocketstone_core::metric::{Better, Metric, Source, Unit};

/// Every metric.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    OF_ALL.iter().chain(table::metrics())
}

/// The metric of a name, if there is one.
pub fn named(name: &str) -> Option<&'static Metric> {
    all().find(|metric| metric.name == name)
}

/// The error of a name that no metric has.
pub fn unknown(name: &str) -> Error {
    let names: Vec<&str> = all().map(|metric| metric.name).collect();
    Error::user(format!("unknown metric `{name}`")).hint(choices(name, "metrics", &names))
}

use Better::{Less, More, Neither};
use Source::{BenchMeter, Calls, Counters, Cuts, Events, Faults, Flash, Meter, Model, Process, Runs, Tlb, TracedCalls};
use Unit::{Bytes, Count, Microjoules, Millijoules, Milliwatts, Nanoseconds, PerSecond, Share};

/// Those that do not depend on the workload.
static OF_ALL: [Metric; 116] = [
    metric("total_ns", Nanoseconds, Less, Calls, "total time in read()"),
    metric("mean_ns", Nanoseconds, Less, Calls, "mean latency of read()"),
    metric("median_ns", Nanoseconds, Less, Calls, "median latency of read()"),
    metric("p99_ns", Nanoseconds, Less, Calls, "99th percentile of read() latency"),
    metric("max_ns", Nanoseconds, Less, Calls, "longest read()"),
    metric("response_mean_ns", Nanoseconds, Less, Calls, "mean time since the intended start"),
    metric("response_p99_ns", Nanoseconds, Less, Calls, "99th percentile of the time since the intended start"),
    metric("late_p99_ns", Nanoseconds, Less, Calls, "99th percentile of start lateness"),
    metric("run_ns", Nanoseconds, Less, Calls, "time of the run"),
    metric("operations_per_s", PerSecond, More, Calls, "operations per second"),
    // What files take of a volume that was made for them, and what they did to it.
    metric("used_bytes", Bytes, Less, Calls, "space that the files take"),
    metric("stored_bytes", Bytes, Neither, Calls, "bytes in the files"),
    metric("wasted_share", Share, Less, Calls, "part of that space without bytes of a file"),
    metric("fragmented_files", Count, Less, Calls, "files in several pieces"),
    metric("pcm_line_writes", Count, Less, Calls, "writes of lines of phase change memory"),
    metric("pcm_hottest_line_writes", Count, Less, Calls, "writes of the most written line"),
    metric("prefetch_ns", Nanoseconds, Less, Calls, "time of the prefetch call"),
    metric("prefetched_pages", Count, Neither, Calls, "pages in the page cache after the prefetch call"),
    // What the process under test used.
    metric("startup_ns", Nanoseconds, Less, Process, "process start to first result"),
    metric("process_ns", Nanoseconds, Less, Process, "time on core of the whole process"),
    metric("net_process_ns", Nanoseconds, Less, Runs, "time on core of the process, less the floor"),
    metric("on_core_ns", Nanoseconds, Less, Process, "on core"),
    metric("off_core_ns", Nanoseconds, Neither, Process, "off core"),
    metric("kernel_ns", Nanoseconds, Less, Process, "on core, in the kernel"),
    metric("voluntary_switches", Count, Less, Process, "voluntary context switches"),
    metric("involuntary_switches", Count, Less, Process, "involuntary context switches"),
    metric("read_calls", Count, Less, Process, "read calls"),
    metric("write_calls", Count, Less, Process, "write calls"),
    metric("device_read_bytes", Bytes, Less, Process, "bytes read from the device"),
    metric("device_write_bytes", Bytes, Less, Process, "bytes written to the device"),
    metric("major_faults", Count, Less, Process, "major page faults"),
    metric("others_load", Share, Neither, Process, "load by other programs, of one processor"),
    metric("rows", Count, Neither, Process, "rows returned"),
    metric("output_bytes", Bytes, Neither, Process, "written to standard output and standard error"),
    // What the processor and the kernel counted.
    metric("dtlb_load_misses", Count, Less, Counters, "loads that miss the data TLB, counted"),
    metric("dtlb_store_misses", Count, Less, Counters, "stores that miss the data TLB, counted"),
    metric("dtlb_walks", Count, Less, Counters, "page walks for data, counted"),
    metric("page_faults", Count, Less, Counters, "page faults"),
    metric("task_clock_ns", Nanoseconds, Less, Counters, "on core, by the kernel's task clock"),
    // Energy, by the machine's own meters and by one beside it.
    metric("energy_uj", Microjoules, Less, Meter, "energy by the machine's own meter"),
    metric("active_energy_uj", Microjoules, Less, Meter, "energy less idle"),
    metric("net_energy_uj", Microjoules, Less, Runs, "energy less idle and the floor"),
    metric("idle_mw", Milliwatts, Neither, Meter, "idle power"),
    metric("bench_energy_uj", Microjoules, Less, BenchMeter, "energy by the bench meter"),
    metric("bench_active_energy_uj", Microjoules, Less, BenchMeter, "energy by the bench meter, less idle"),
    metric("bench_net_energy_uj", Microjoules, Less, Runs, "energy by the bench meter, less idle and the floor"),
    metric("bench_idle_mw", Milliwatts, Neither, BenchMeter, "idle power by the bench meter"),
    // Of traced twins.
    metric("traced_total_ns", Nanoseconds, Less, TracedCalls, "total time in read() while tracing"),
    metric("tracing_cost", Share, Less, Runs, "cost of tracing"),
    metric("page_senses", Count, Less, Flash, "flash page senses"),
    metric("page_reads", Count, Less, Flash, "flash page reads (with a page buffer)"),
    metric("column_changes", Count, Less, Flash, "column changes"),
    metric("page_programs", Count, Less, Flash, "flash page programs"),
    metric("block_erases", Count, Less, Flash, "flash block erases"),
    metric("background_page_senses", Count, Less, Flash, "flash page senses of other tasks"),
    metric("device_reads", Count, Less, Flash, "read requests to the block device"),
    metric("device_read_request_bytes", Bytes, Less, Flash, "bytes of read requests to the block device"),
    metric("device_writes", Count, Less, Flash, "write requests to the block device"),
    metric("device_written_request_bytes", Bytes, Less, Flash, "bytes of write requests to the block device"),
    metric("device_flushes", Count, Less, Flash, "flushes of the block device"),
    metric("device_discards", Count, Neither, Flash, "discards on the block device"),
    metric("background_device_writes", Count, Less, Flash, "write requests to the block device by other tasks"),
    metric("device_page_reads", Count, Less, Flash, "pages that the device's own chip reads"),
    metric("device_page_programs", Count, Less, Flash, "pages that the device's own chip programs"),
    metric("device_block_erases", Count, Less, Flash, "blocks that the device's own chip erases"),
    metric("device_moved_pages", Count, Less, Flash, "pages that the device's garbage collection moves"),
    metric("device_discarded_pages", Count, Neither, Flash, "pages of the device's own chip that discards free"),
    metric("write_amplification", Count, Less, Flash, "bytes programmed per byte written to the device"),
    metric("traced_on_core_ns", Nanoseconds, Less, Events, "on core while tracing"),
    metric("traced_others_load", Share, Neither, Events, "load by other programs while tracing, of one processor"),
    metric("traced_off_core_ns", Nanoseconds, Neither, Events, "off core while tracing"),
    metric("runnable_ns", Nanoseconds, Less, Events, "runnable, waiting for a core"),
    metric("switches", Count, Less, Events, "context switches"),
    metric("wakeups", Count, Less, Events, "wakeups"),
    metric("frequency_changes", Count, Neither, Events, "frequency changes"),
    metric("idle_entries", Count, Neither, Events, "idle state entries"),
    metric("reads", Count, Less, Events, "read calls, traced"),
    metric("read_bytes", Bytes, Less, Events, "bytes read"),
    metric("writes", Count, Less, Events, "write calls, traced"),
    metric("written_bytes", Bytes, Less, Events, "bytes written"),
    metric("syncs", Count, Less, Events, "sync calls"),
    metric("io_ns", Nanoseconds, Less, Events, "blocked in read, write and sync"),
    metric("rest_ns", Nanoseconds, Neither, Events, "the rest"),
    metric("cache_misses", Count, Less, Events, "page-cache misses"),
    metric("block_reads", Count, Less, Events, "block read requests"),
    metric("block_writes", Count, Less, Events, "block write requests"),
    metric("block_ns", Nanoseconds, Less, Events, "time in block requests"),
    // Of models over measured runs.
    metric("modelled_energy_mj", Millijoules, Less, Model, "modelled energy above idle"),
    metric("modelled_cpu_mj", Millijoules, Less, Model, "modelled energy of the processor above idle"),
    metric("modelled_memory_mj", Millijoules, Less, Model, "modelled energy of memory and flash above idle"),
    metric("modelled_power_mw", Milliwatts, Less, Model, "modelled power above idle"),
    // Of cuts of the power, over all cuts of a cell.
    metric("power_cuts", Count, Neither, Cuts, "cuts of the power"),
    metric("refused_mounts", Count, Less, Cuts, "volumes that could not be mounted after a power cut"),
    metric("read_only_mounts", Count, Less, Cuts, "volumes that could not be written to after a power cut"),
    metric("cuts_with_broken_promises", Count, Less, Cuts, "power cuts that lost what had been promised"),
    metric("promises", Count, Neither, Cuts, "operations that had been promised to be durable"),
    metric("lost_promises", Count, Less, Cuts, "promised operations that a power cut lost"),
    metric("lost_unpromised", Count, Less, Cuts, "operations without a promise that a power cut lost"),
    metric("mixed_contents", Count, Less, Cuts, "files that hold a part of what was being written"),
    metric("damaged_contents", Count, Less, Cuts, "files and databases that a power cut damaged"),
    metric("remount_median_ns", Nanoseconds, Less, Cuts, "median time of mounting after a power cut"),
    // Of a chip with faults, over the run and the look at the volume after it.
    metric("flipped_bits", Count, Neither, Faults, "bits that the chip flipped as it was read"),
    metric("unread_pages", Count, Neither, Faults, "reads that the chip failed"),
    metric("unprogrammed_pages", Count, Neither, Faults, "page programs that the chip failed"),
    metric("unerased_blocks", Count, Neither, Faults, "block erases that the chip failed"),
    metric("corrected_bits", Count, Neither, Faults, "bits that error correction put right"),
    metric("failed_corrections", Count, Less, Faults, "reads that error correction could not put right"),
    metric("grown_bad_blocks", Count, Less, Faults, "blocks that were marked bad"),
    metric("worn_refused_mounts", Count, Less, Faults, "volumes on a worn chip that could not be mounted again"),
    metric("worn_read_only_mounts", Count, Less, Faults, "volumes on a worn chip that could not be written to again"),
    metric("worn_wrong_contents", Count, Less, Faults, "calls, files and databases that are not on a worn chip"),
    // Of a modelled data TLB, over the run of its calls.
    metric("tlb_accesses", Count, Neither, Tlb, "data accesses"),
    metric("tlb_first_level_misses", Count, Less, Tlb, "accesses that miss the first level of the data TLB"),
    metric("tlb_walks", Count, Less, Tlb, "page walks of data accesses"),
    metric("tlb_own_walks", Count, Less, Tlb, "page walks while the process under test was on core"),
    metric("tlb_walk_loads", Count, Less, Tlb, "entries of page tables that those walks read"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_core::origin::Origin;
    use std::collections::BTreeSet;

    #[test]
    fn names_end_in_their_unit_and_are_defined_once() {
        assert_eq!(all().map(|metric| metric.name).collect::<BTreeSet<_>>().len(), all().count());
        for metric in all() {
            let unit = match metric.unit {
                Unit::Nanoseconds => "_ns",
                Unit::BytesPerSecond => "_bytes_per_s",
                Unit::PerSecond => "_per_s",
                Unit::Bytes => "_bytes",
                Unit::Microjoules => "_uj",
                Unit::Millijoules => "_mj",
                Unit::Milliwatts => "_mw",
                Unit::Count | Unit::Share => "",
            };
            assert!(metric.name.ends_with(unit), "{}", metric.name);
            let rate = matches!(metric.unit, Unit::PerSecond | Unit::BytesPerSecond);
            // And what fits a volume.
            let more = rate || metric.name.starts_with("filled_");
            assert_eq!(
                more,
                metric.better == Better::More,
                "{}: only rates and what fits are better when larger",
                metric.name
            );
            let modelled = metric.name.starts_with("modelled_") || metric.name.starts_with("tlb_");
            assert_eq!(modelled, metric.origin() == Origin::Modelled, "{}", metric.name);
        }
    }

    #[test]
    fn whatever_is_counted_is_a_metric() {
        for what in pocketstone_core::counted::Counted::ALL {
            let metric = named(what.name());
            assert!(metric.is_some_and(|metric| metric.source == Counters), "{}", what.name());
        }
    }

    #[test]
    fn an_improvement_has_the_direction_of_its_metric() {
        let of = |name: &str, value, baseline| named(name).unwrap().better.improvement(value, baseline);
        assert_eq!(of("total_ns", 50.0, 200.0), Some(0.75));
        assert_eq!(of("total_ns", 300.0, 200.0), Some(-0.5));
        assert_eq!(of("operations_per_s", 300.0, 200.0), Some(0.5));
        assert_eq!(of("read_50_bytes_per_s", 50.0, 200.0), Some(-0.75));
        assert_eq!((of("prefetched_pages", 1.0, 2.0), of("total_ns", 1.0, 0.0)), (None, None));
        assert!(named("nothing").is_none());
    }
}
