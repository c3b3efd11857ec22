use super::*;

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices")
}

/// A small profile; a test changes one thing in it.
const GOOD: &str = r#"kind = "model"
description = "Two cores"
awake_mw = { value = 100, source = "a meter" }
asleep_mw = { value = 3.5, source = "a meter" }
memory_mw = { value = 0.0, source = "assumed: it has none" }
memory_share = { value = 0.1, source = "a fit" }
cycles_per_recorded_ns = { value = 2.0, source = "a fit" }

[storage]
read_mw = { value = 1.0, source = "disk" }
write_mw = { value = 2.0, source = "disk" }
sync_mw = { value = 3.0, source = "disk" }

[[cluster]]
name = "little"
cores = { value = 2, source = "the box" }
clock_per_core = { value = true, source = "the box" }
shared_mw = { value = 4.0, source = "the box" }
transition_latency_ns = { value = 300000, source = "the box" }
transition_stall_ns = { value = 7, source = "the box" }

[cluster.points]
khz = { values = [1000, 2000], source = "the box" }
power_mw = { values = [10.0, 30.5], source = "a meter" }

[cluster.idle]
name = ["wfi", "off"]
power_mw = { values = [2.0, 0.0], source = "a meter" }
exit_ns = { values = [1000, 5000], source = "the box" }
least_ns = { values = [1000, 9000], source = "the box" }

[governor.ondemand]
up_threshold = { value = "90", source = "the box" }

[[flash_energy]]
file_system = "jffs2"
workload = "read"
read_ahead = true
cpu_mw = { value = 223, source = "a paper" }
memory_mw = { value = 29, source = "a paper" }

[sources]
disk = "the disk's data sheet"
"#;

fn changed(from: &str, to: &str) -> String {
    assert_eq!(GOOD.matches(from).count(), 1, "{from}");
    GOOD.replace(from, to)
}

/// The error of a profile with one change: it must name the line that the change is in, say `wrong`, and have `cure`.
fn refused(from: &str, to: &str, line: usize, wrong: &str, cure: &str) {
    let error = Device::parse("box", &changed(from, to)).unwrap_err();
    let chain = error.chain();
    assert!(chain.starts_with(&format!("box.toml:{line}:")), "{chain}");
    assert!(chain.contains(wrong), "{chain}");
    assert!(error.cure().is_some_and(|c| c.contains(cure)), "{:?}", error.cure());
}

#[test]
fn every_number_arrives_with_its_source() {
    let device = Device::parse("box", GOOD).unwrap();
    assert_eq!((device.awake_mw, device.asleep_mw, device.memory_share), (100.0, 3.5, 0.1));
    assert_eq!(device.storage, Storage { read_mw: 1.0, write_mw: 2.0, sync_mw: 3.0, times: None });
    let cluster = &device.clusters[0];
    assert_eq!((cluster.cores, cluster.clock_per_core, cluster.shared_mw), (2, true, 4.0));
    assert_eq!((cluster.transition_latency_ns, cluster.transition_stall_ns), (300_000, 7));
    assert_eq!(cluster.points[1], OperatingPoint { khz: 2000, power_mw: 30.5 });
    let off = IdleState { name: "off".into(), power_mw: 0.0, exit_ns: 5000, least_ns: 9000 };
    assert_eq!(cluster.idle[1], off);
    assert_eq!(device.tunables["ondemand"]["up_threshold"], "90");
    assert_eq!((device.flash_energy[0].cpu_mw, &device.flash_energy[0].pattern), (223.0, &None));
    assert_eq!(device.text, GOOD);
    let source = |key: &str| device.sources[key].as_str();
    assert_eq!(source("cluster.little.points.power_mw"), "a meter");
    assert_eq!(source("storage.read_mw"), "the disk's data sheet");
    assert_eq!(source("governor.ondemand.up_threshold"), "the box");
    assert_eq!(source("flash_energy.jffs2.read.any.read-ahead.cpu_mw"), "a paper");
    // 5 of the device, 3 of its storage, 5 + 2 + 3 of the cluster, 1 tunable, 2 of the flash.
    assert_eq!(device.sources.len(), 21);
}

#[test]
fn ticks_need_a_source_and_need_not_be_known() {
    assert_eq!(Device::parse("box", GOOD).unwrap().hz, None);
    let device =
        Device::parse("box", &changed("description = ", "hz = { value = 300, source = \"the box\" }\ndescription = "));
    let device = device.unwrap();
    assert_eq!((device.hz, device.sources["hz"].as_str()), (Some(300), "the box"));
    refused("description = ", "hz = { value = 300 }\ndescription = ", 2, "no source", "source");
}

#[test]
fn a_table_that_is_not_sorted_is_refused() {
    refused("[1000, 2000], s", "[1000,\n 500], s", 24, "500 kHz comes after 1000 kHz", "sort");
}

#[test]
fn a_frequency_that_stands_twice_is_refused() {
    refused("[1000, 2000], s", "[2000, 2000], s", 23, "2000 kHz is listed twice", "remove one");
}

#[test]
fn a_table_without_power_is_refused() {
    let line = "power_mw = { values = [10.0, 30.5], source = \"a meter\" }\n";
    refused(line, "", 22, "no `power_mw`", "add power_mw");
}

#[test]
fn columns_of_different_lengths_are_refused() {
    refused("[10.0, 30.5]", "[10.0]", 24, "`power_mw` has 1 values and `khz` has 2", "each row");
    refused("[1000, 5000]", "[1000, 5000, 6000]", 29, "`exit_ns` has 3 values and `name` has 2", "each row");
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    refused("[10.0, 30.5]", "[-10.0, 30.5]", 24, "-10 mW is out of range", "from 0");
    refused("[10.0, 30.5]", "[0.0, 30.5]", 24, "must take power", "in mW");
    refused("[10.0, 30.5]", "[nan, 30.5]", 24, "nan is not a number", "from 0");
    refused("value = 100,", "value = inf,", 3, "inf is out of range", "from 0");
    refused("[1000, 2000], s", "[0, 2000], s", 23, "0 kHz is not a valid frequency", "above 0");
    refused("value = 300000", "value = -1", 19, "-1 ns is out of range", "nanoseconds");
    refused("value = 2, s", "value = 0, s", 16, "have 0 cores", "from 1");
    refused("value = 0.1", "value = 1.5", 6, "1.5 is out of range", "from 0 to 1");
    refused(
        "description = ",
        "hz = { value = 0, source = \"the box\" }\ndescription = ",
        2,
        "0 ticks a second",
        "CONFIG_HZ",
    );
    refused("value = 3.5", "value = 101.0", 4, "more (101 mW) than awake", "at most awake_mw");
}

#[test]
fn unknown_keys_are_refused() {
    refused("description = ", "descripton = ", 2, "descripton", "docs/devices.md");
    refused("shared_mw = ", "sharde_mw = ", 18, "sharde_mw", "docs/devices.md");
    refused("\"jffs2\"", "\"ext4\"", 36, "unknown key `ext4`", "yaffs2");
}

#[test]
fn a_number_without_its_source_is_refused() {
    refused("{ value = 100, source = \"a meter\" }", "{ value = 100 }", 3, "`awake_mw` has no source", "source");
    refused("{ value = 100, source = \"a meter\" }", "100", 3, "not a valid device profile", "source");
    refused("[10.0, 30.5], source = \"a meter\"", "[10.0, 30.5]", 24, "power_mw` has no source", "source");
    refused("\"assumed: it has none\"", "\"assumed\"", 5, "is empty", "assumed: why");
    refused("\"assumed: it has none\"", "\" \"", 5, "is empty", "assumed: why");
    refused(
        "value = 0.1, source = \"a fit\"",
        "value = 0.1, source = \"fti\"",
        6,
        "`fti`, which is not in",
        "[sources]",
    );
}

#[test]
fn a_profile_without_idle_states_is_refused() {
    refused("[\"wfi\", \"off\"]", "[]", 27, "`name` is empty", "at least one row");
    refused("name = [\"wfi\", \"off\"]\n", "", 26, "no `name`", "wfi");
    let start = GOOD.find("[cluster.idle]").unwrap();
    let end = GOOD.find("[governor").unwrap();
    let error = Device::parse("box", &format!("{}{}", &GOOD[..start], &GOOD[end..])).unwrap_err();
    assert!(error.chain().contains("missing field `idle`"), "{}", error.chain());
}

#[test]
fn idle_states_that_are_not_ordered_are_refused() {
    refused("[2.0, 0.0]", "[2.0, 3.0]", 28, "`off` takes more power than `wfi`", "shallowest");
    refused("[1000, 5000]", "[6000, 5000]", 29, "`off` is left faster", "shallowest");
    refused("[1000, 9000]", "[10000, 9000]", 30, "`off` is entered sooner", "shallowest");
}

#[test]
fn what_stands_twice_is_refused() {
    let cluster = &GOOD[GOOD.find("[[cluster]]").unwrap()..GOOD.find("[governor").unwrap()];
    let error = Device::parse("box", &GOOD.replace(cluster, &cluster.repeat(2))).unwrap_err();
    assert!(error.chain().contains("duplicate cluster `little`"), "{}", error.chain());
    let row = &GOOD[GOOD.find("[[flash").unwrap()..GOOD.find("[sources]").unwrap()];
    let error = Device::parse("box", &GOOD.replace(row, &row.repeat(2))).unwrap_err();
    assert!(error.chain().contains("the same reads"), "{}", error.chain());
}

#[test]
fn a_board_is_no_device_and_a_wrong_name_lists_the_devices() {
    let error = Device::load(&shipped(), "host").unwrap_err();
    assert!(error.chain().contains("host.toml:2:") && error.cure().unwrap().contains("kind = \"model\""));
    let error = Device::load(&shipped(), "nexus-99").unwrap_err();
    assert!(error.cure().unwrap().contains("nexus-5, nexus-6, omap3530"));
    let device = Device::parse("box", GOOD).unwrap();
    assert_eq!(device.cluster(None).unwrap().name, "little");
    assert!(device.cluster(Some("big")).unwrap_err().cure().unwrap().contains("little"));
}

#[test]
fn all_shipped_devices_are_understood_and_boards_passed_over() {
    let names: Vec<String> = list(&shipped()).unwrap().into_iter().map(|d| d.name).collect();
    let wanted = "gs101 gs201 msm8996 msm8998 nexus-5 nexus-6 omap3530 sdm845 sm8250 sm8350 zuma zumapro";
    assert_eq!(names, wanted.split(' ').collect::<Vec<_>>());
}

#[test]
fn the_nexus_6_needs_an_awake_cost_for_the_papers_least_energy() {
    let device = Device::load(&shipped(), "nexus-6").unwrap();
    let points = &device.clusters[0].points;
    assert_eq!(points.len(), 18);
    // Voltages and currents of the first and last point: 0.79 V x 76 mA, 1.13 V x 886 mA.
    assert_eq!((points[0].power_mw, points[17].power_mw), (60.04, 1001.18));
    let best = |awake_mw: f64| {
        let cost = |p: &OperatingPoint| (awake_mw + p.power_mw) / f64::from(p.khz);
        points.iter().min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap().khz
    };
    assert_eq!(best(0.0), 300_000);
    // The reference material derives 92 to 119 mW for a minimum at 1267.2 MHz, the paper's Fixed-50.
    assert_eq!(
        [best(92.0), best(93.0), best(device.awake_mw), best(118.0), best(119.0)].map(|f| f == 1_267_200),
        [false, true, true, true, false]
    );
}

#[test]
fn a_profile_that_is_cut_or_lacks_a_line_never_panics_and_has_a_cure() {
    let lines: Vec<&str> = GOOD.lines().collect();
    let cut = (0..GOOD.len()).map(|n| GOOD[..n].to_owned());
    let without = (0..lines.len()).map(|n| [&lines[..n], &lines[n + 1..]].concat().join("\n"));
    let mut refused = 0;
    for text in cut.chain(without) {
        if let Err(error) = Device::parse("box", &text) {
            refused += 1;
            assert!(error.cure().is_some() && error.chain().contains("box.toml"), "{}", error.chain());
        }
    }
    assert!(refused > GOOD.len() / 2);
}

#[test]
fn a_device_may_have_assumed_times() {
    let of = |name: &str| Device::load(&shipped(), name);
    let (own, stalls) = (of("nexus-6").unwrap(), of("nexus-6{transition_stall_ns=2000000}").unwrap());
    assert_eq!((own.clusters[0].transition_stall_ns, stalls.clusters[0].transition_stall_ns), (0, 2_000_000));
    assert_eq!(stalls.name, "nexus-6{transition_stall_ns=2000000}");
    // Nothing else differs but the text, by which replays of the two are told apart; and that is a profile, too.
    let mut same = stalls.clone();
    (same.name, same.text, same.sources) = (own.name.clone(), own.text.clone(), own.sources.clone());
    same.clusters[0].transition_stall_ns = 0;
    assert!(same == own);
    assert!(stalls.text.contains("assumed: by who named the device") && stalls.text != own.text);
    assert_eq!(Device::parse(&stalls.name, &stalls.text).unwrap(), stalls);
    // Every cluster has them.
    let both = of("msm8998{transition_latency_ns=7, transition_stall_ns=5}").unwrap();
    assert!(both.clusters.len() > 1);
    assert!(both.clusters.iter().all(|c| (c.transition_latency_ns, c.transition_stall_ns) == (7, 5)));
    for wrong in ["nexus-6{", "nexus-6{transition_stall_ns}", "nexus-6{awake_mw=1}", "nexus-6{transition_stall_ns=-1}"]
    {
        let error = of(wrong).unwrap_err();
        assert!(error.cure().unwrap().contains("transition_stall_ns"), "{wrong}: {error}");
    }
    assert!(of("nexus-7{transition_stall_ns=1}").unwrap_err().message().contains("nexus-7"));
    assert_eq!(Device::profile_of("a{b=1}"), "a");
}
