//! What there is to know of each governor before it is chosen: a sentence, and its tunables.
//!
//! Units and defaults are those of the tables in the governors' files, which say where they are from.

/// A governor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Its name in a [`super::Spec`]; `fixed` stands for all that keep to one frequency.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// What can be set, in the order of [`super::Spec::tunables`].
    pub tunables: &'static [Tunable],
}

/// A setting of a governor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunable {
    /// Its name.
    pub name: &'static str,
    /// Its unit, or what its values are.
    pub unit: &'static str,
    /// Its value where neither device nor study sets it, or that value in words where it depends on the device.
    pub default: &'static str,
}

const fn tunable(name: &'static str, unit: &'static str, default: &'static str) -> Tunable {
    Tunable { name, unit, default }
}

const UP_THRESHOLD: Tunable = tunable("up_threshold", "%", "80");
const IO_IS_BUSY: Tunable = tunable("io_is_busy", "0 or 1", "0");
const POWERSAVE_BIAS: Tunable = tunable("powersave_bias", "thousandths", "0");
const KERNEL: Tunable = tunable("kernel", "version", "6.12");
const HZ: Tunable = tunable("hz", "ticks a second", "the device's, else 250");
const OLD_HZ: Tunable = tunable("hz", "ticks a second", "the device's, else 100");
const OTHERS_LOAD: Tunable = tunable("others_load", "% of cores without a thread", "0");
const OTHERS_FREQ: Tunable = tunable("others_freq", "kHz of cores without a thread", "0");
const RATE: &str = "by kernel, transition latency and hz, at least two ticks";
const OLD_RATE: &str = "1000 x the transition latency, at least 10000";
const OLD_CONSERVATIVE_RATE: &str = "1000 x the transition latency, at least 20 ticks";

/// Tunables of both revisions of conservative but those of their kernels.
const fn conservative(rate: &'static str, down_factor: &'static str) -> [Tunable; 5] {
    [
        UP_THRESHOLD,
        tunable("down_threshold", "%", "20"),
        tunable("freq_step", "% of the maximum", "5"),
        tunable("sampling_rate", "us", rate),
        tunable("sampling_down_factor", "samples", down_factor),
    ]
}

const CONSERVATIVE: [Tunable; 7] = {
    let [a, b, c, d, e] = conservative(RATE, "1");
    [a, b, c, d, e, HZ, KERNEL]
};
const CONSERVATIVE_LEGACY: [Tunable; 6] = {
    let [a, b, c, d, e] = conservative(OLD_CONSERVATIVE_RATE, "5");
    [a, b, c, d, e, OLD_HZ]
};

/// Every governor.
pub const GOVERNORS: [About; 10] = [
    About { name: "performance", about: "Always the maximum frequency.", tunables: &[] },
    About { name: "powersave", about: "Always the minimum frequency.", tunables: &[] },
    About { name: "fixed", about: "Always the operating point nearest to this frequency.", tunables: &[] },
    About {
        name: "ondemand",
        about: "Samples the load; above a threshold it selects the maximum, otherwise a frequency proportional to the \
            load.",
        tunables: &[
            tunable("up_threshold", "%", "95"),
            tunable("sampling_rate", "us", RATE),
            tunable("sampling_down_factor", "periods", "1"),
            IO_IS_BUSY,
            POWERSAVE_BIAS,
            KERNEL,
            HZ,
        ],
    },
    About {
        name: "ondemand-legacy",
        about: "Ondemand of phone kernels: the maximum under load, otherwise the lowest frequency that carries the \
            load.",
        tunables: &[
            UP_THRESHOLD,
            tunable("down_differential", "%", "10"),
            tunable("sampling_rate", "us", OLD_RATE),
            tunable("sampling_down_factor", "periods", "1"),
            IO_IS_BUSY,
            POWERSAVE_BIAS,
            tunable("up_threshold_multi_core", "%", "80"),
            tunable("up_threshold_any_cpu_load", "%", "80"),
            tunable("optimal_freq", "kHz, 0: off", "0"),
            tunable("sync_freq", "kHz, 0: off", "0"),
            OLD_HZ,
            tunable("down_differential_multi_core", "%", "3"),
            OTHERS_LOAD,
            OTHERS_FREQ,
        ],
    },
    About { name: "conservative", about: "Samples the load, and moves up and down in steps.", tunables: &CONSERVATIVE },
    About {
        name: "conservative-legacy",
        about: "Conservative of old kernels: up and down in steps, down more slowly.",
        tunables: &CONSERVATIVE_LEGACY,
    },
    About {
        name: "interactive",
        about: "Android's: a timer on each core, a jump to hispeed_freq under load, and a slow way down.",
        tunables: &[
            tunable("timer_rate", "us", "20000"),
            tunable("timer_slack", "us, -1: never", "80000"),
            tunable("min_sample_time", "us", "80000"),
            tunable("above_hispeed_delay", "us, list by kHz", "20000"),
            tunable("target_loads", "%, list by kHz", "90"),
            tunable("go_hispeed_load", "%", "99"),
            tunable("hispeed_freq", "kHz", "the maximum"),
            tunable("boost", "0 or 1", "0"),
            tunable("boostpulse", "us since the start, several", "none"),
            tunable("boostpulse_duration", "us", "80000"),
            IO_IS_BUSY,
            tunable("sampling_down_factor", "us, 0: off", "0"),
            OLD_HZ,
            tunable("sync_freq", "kHz, 0: off", "0"),
            tunable("up_threshold_any_cpu_load", "%", "0"),
            tunable("up_threshold_any_cpu_freq", "kHz", "0"),
            OTHERS_LOAD,
            OTHERS_FREQ,
        ],
    },
    About {
        name: "schedutil",
        about: "Follows the scheduler's estimate of each core's utilization.",
        tunables: &[
            tunable("rate_limit_us", "us", "by kernel and transition latency"),
            tunable("up_rate_limit_us", "us", "rate_limit_us"),
            tunable("down_rate_limit_us", "us", "rate_limit_us"),
            tunable("frequency_invariant", "0 or 1", "1"),
            KERNEL,
            HZ,
        ],
    },
    About {
        name: "database",
        about: "Uses hints from the database on when operations start, wait and end to weigh latency against energy.",
        tunables: &[
            tunable("waiting_percent", "%", "10"),
            tunable("most_waiting", "operations", "8"),
            tunable("rate_limit_us", "us", "1.5 x the transition latency, at most 2000"),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::{Activity, IoKind, Operation, Segment, Thread};
    use crate::device::Device;
    use crate::governor::Spec;
    use crate::levers::Levers;
    use crate::simulate::simulate;

    fn device() -> Device {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../devices/nexus-6.toml");
        let mut device = Device::parse("nexus-6", &std::fs::read_to_string(path).unwrap()).unwrap();
        device.tunables.clear();
        device
    }

    fn activity() -> Activity {
        let operation = |n: u64| Operation {
            segments: vec![
                Segment::Compute { cycles: 100_000 + n * 7919 % 9_000_000 },
                Segment::Io { ns: 2_000_000, kind: IoKind::Sync },
            ],
            delay_ns: n * n % 31_000_000,
            transaction: n % 3 == 0,
            ..Operation::default()
        };
        Activity { threads: vec![Thread { operations: (0..300).map(operation).collect(), background: false }] }
    }

    #[test]
    fn every_governor_is_here_with_all_of_its_tunables() {
        for governor in GOVERNORS {
            let spec: Spec = if governor.name == "fixed" { "fixed:50" } else { governor.name }.parse().unwrap();
            let names: Vec<&str> = governor.tunables.iter().map(|t| t.name).collect();
            assert_eq!(names, spec.tunables(), "{}", governor.name);
            assert_eq!(spec.about(), governor);
        }
        let error = "no-governor".parse::<Spec>().unwrap_err();
        let said = error.cure().unwrap();
        assert!(GOVERNORS.iter().all(|g| said.contains(g.name)), "{said}");
        // performance, powersave, fixed:PERCENT, fixed:FREQUENCYkHz and those with tunables.
        assert_eq!(said.split(", ").count(), GOVERNORS.len() + 1, "{said}");
    }

    #[test]
    fn a_default_that_is_set_changes_nothing() {
        let (device, activity, levers) = (device(), activity(), Levers::default());
        let replay = |spec: &Spec| simulate(&activity, &device, spec, &levers).unwrap();
        let mut set = 0;
        for governor in GOVERNORS.iter().filter(|g| !g.tunables.is_empty()) {
            let plain: Spec = governor.name.parse().unwrap();
            let expected = replay(&plain);
            for tunable in governor.tunables.iter().filter(|t| t.default.parse::<u64>().is_ok()) {
                let spec = plain.clone().with(tunable.name, tunable.default).unwrap();
                assert_eq!(replay(&spec), expected, "{spec}");
                set += 1;
            }
        }
        // All but kernels and those whose default depends on the device or is nothing: eight rates, six ticks, two of
        // `interactive`.
        let kernels = GOVERNORS.iter().flat_map(|g| g.tunables).filter(|t| t.name == "kernel").count();
        assert_eq!(set, GOVERNORS.iter().map(|g| g.tunables.len()).sum::<usize>() - 16 - kernels);
    }
}
