//! Tests of governors as text.

use super::*;

fn refused(text: &str) -> (String, String) {
    let error = text.parse::<Spec>().expect_err(text);
    (error.chain(), error.cure().unwrap_or_default().to_owned())
}

#[test]
fn a_governor_s_text_is_read_and_written_alike() {
    for text in [
        "performance",
        "powersave",
        "fixed:50",
        "fixed:47.8",
        "fixed:0.001",
        "fixed:100",
        "fixed:1267200kHz",
        "ondemand",
        "ondemand-legacy{sampling_rate=50000,up_threshold=90}",
        "conservative{freq_step=10}",
        "conservative-legacy",
        "interactive{target_loads=\"85 1500000:90\",timer_rate=20000,timer_slack=-1}",
        "schedutil{rate_limit_us=500}",
    ] {
        assert_eq!(text.parse::<Spec>().expect(text).to_string(), text);
    }
}

#[test]
fn tunables_are_sorted_and_spaces_do_not_matter() {
    let spec: Spec = " interactive { timer_rate = 20000 , boost=1, target_loads=\"85 1500000:90\" } ".parse().unwrap();
    assert_eq!(spec.to_string(), "interactive{boost=1,target_loads=\"85 1500000:90\",timer_rate=20000}");
    assert_eq!(spec.name(), "interactive");
    let unquoted: Spec = "interactive{target_loads=85 1500000:90}".parse().unwrap();
    assert_eq!(unquoted.to_string(), "interactive{target_loads=\"85 1500000:90\"}");
}

#[test]
fn an_unknown_governor_and_an_unknown_tunable_are_answered_with_the_known_ones() {
    let (chain, cure) = refused("turbo");
    assert!(chain.contains("\"turbo\"") && cure.contains("schedutil") && cure.contains("fixed:PERCENT"), "{cure}");
    let (chain, cure) = refused("schedutil{up_threshold=90}");
    assert!(chain.contains("schedutil has no tunable \"up_threshold\"") && cure.contains("rate_limit_us"), "{chain}");
    let (_, cure) = refused("powersave{x=1}");
    assert_eq!(cure, "it has none");
}

#[test]
fn text_of_the_wrong_shape_is_refused_with_what_is_wrong() {
    for (text, what) in [
        ("interactive{boost=1", "braces are not closed"),
        ("interactive{boost}", "no value"),
        ("interactive{boost=1,boost=0}", "boost is given twice"),
        ("interactive{target_loads=\"85}", "quotation is not closed"),
        ("interactive{target_loads=\"85\"boost=1}", "after target_loads there is"),
        ("interactive{boost=1,}", "after boost there is"),
        ("fixed:0", "fixed at \"0\""),
        ("fixed:100.1", "fixed at \"100.1\""),
        ("fixed:1.2345", "fixed at"),
        ("fixed:0kHz", "fixed at"),
        ("fixed:", "fixed at"),
        ("", "unknown governor"),
    ] {
        let (chain, cure) = refused(text);
        assert!(chain.contains(what), "{text}: {chain}");
        assert!(!cure.is_empty(), "{text}");
    }
}

#[test]
fn a_spec_is_its_text_in_json() {
    let spec: Spec = "ondemand{up_threshold=95}".parse().unwrap();
    let json = serde_json::to_string(&spec).unwrap();
    assert_eq!(json, "\"ondemand{up_threshold=95}\"");
    assert_eq!(serde_json::from_str::<Spec>(&json).unwrap(), spec);
    assert!(serde_json::from_str::<Spec>("\"turbo\"").unwrap_err().to_string().contains("unknown governor"));
}

fn device(tunables: &[(&str, &str, &str)]) -> Device {
    let points = vec![crate::device::OperatingPoint { khz: 1000, power_mw: 1.0 }];
    let cluster = Cluster {
        name: "c".into(),
        cores: 1,
        clock_per_core: true,
        points,
        idle: Vec::new(),
        shared_mw: 0.0,
        transition_latency_ns: 0,
        transition_stall_ns: 0,
    };
    let mut all: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (governor, name, value) in tunables {
        all.entry((*governor).into()).or_default().insert((*name).into(), (*value).into());
    }
    Device {
        name: "phone".into(),
        description: String::new(),
        clusters: vec![cluster],
        awake_mw: 0.0,
        asleep_mw: 0.0,
        memory_mw: 0.0,
        storage: crate::device::Storage::default(),
        memory_share: 0.0,
        cycles_per_recorded_ns: 1.0,
        hz: None,
        tunables: all,
        flash_energy: Vec::new(),
        sources: BTreeMap::new(),
        text: String::new(),
    }
}

fn not_built(text: &str, device: &Device) -> String {
    match text.parse::<Spec>().expect(text).build(device, &device.clusters[0]) {
        Ok(_) => panic!("{text} was built"),
        Err(error) => format!("{} ({})", error.chain(), error.cure().unwrap_or_default()),
    }
}

#[test]
fn a_value_out_of_its_range_is_refused_with_what_is_allowed() {
    let device = device(&[]);
    for (text, what) in [
        ("ondemand{up_threshold=101}", "whole number from 1 to 100"),
        ("ondemand{io_is_busy=yes}", "whole number from 0 to 1"),
        ("ondemand-legacy{up_threshold=10}", "down_differential 10 is not below up_threshold 10"),
        ("conservative{down_threshold=80}", "down_threshold 80 is not below up_threshold 80"),
        ("interactive{timer_slack=-2}", "-1 for a timer that never wakes"),
        ("interactive{target_loads=\"85 1500000\"}", "FREQUENCY:VALUE"),
        ("interactive{target_loads=\"0\"}", "at least 1"),
        ("interactive{target_loads=\"85 2:90 1:80\"}", "ascending"),
        ("interactive{boostpulse=\"1 x\"}", "separated by spaces"),
        ("schedutil{hz=0}", "whole number from 1 to 10000"),
        ("ondemand{kernel=4}", "two numbers, such as 4.19"),
    ] {
        let error = not_built(text, &device);
        assert!(error.contains(what), "{text}: {error}");
    }
}

#[test]
fn a_device_s_tunables_are_checked_and_the_braces_win_over_them() {
    let wrong = device(&[("ondemand", "speed", "1")]);
    let error = not_built("ondemand", &wrong);
    assert!(error.contains("device phone") && error.contains("\"speed\"") && error.contains("up_threshold"), "{error}");
    let bad_value = device(&[("ondemand", "up_threshold", "200"), ("interactive", "boost", "7")]);
    assert!(not_built("ondemand", &bad_value).contains("200"));
    let spec: Spec = "ondemand{up_threshold=50}".parse().unwrap();
    assert!(spec.build(&bad_value, &bad_value.clusters[0]).is_ok());
}

#[test]
fn a_device_s_ticks_hold_unless_the_braces_say_others() {
    let device = Device { hz: Some(128), ..device(&[]) };
    let timer = |text: &str| {
        let mut governor = text.parse::<Spec>().unwrap().build(&device, &device.clusters[0]).unwrap();
        let (cores, others) = ([crate::governor::CoreTimes::default()], crate::governor::Others::default());
        let domain = crate::governor::Domain { now_ns: 0, khz: 1000, frequencies_khz: &[1000], cores: &cores, others };
        governor.decide(crate::governor::Moment::Start, &domain).timer
    };
    let at = |at_ns, tick_ns| crate::governor::TimerRequest::At { at_ns, deferrable: true, tick_ns };
    // 50 ms are 6.4 ticks of 7.8125 ms: 7.
    assert_eq!(timer("ondemand-legacy{sampling_rate=50000}"), at(54_687_500, 7_812_500));
    assert_eq!(timer("ondemand-legacy{hz=1000,sampling_rate=50000}"), at(50_000_000, 1_000_000));
    assert!(timer("powersave") == crate::governor::TimerRequest::Keep);
}
