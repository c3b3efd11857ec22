//! Governors against vectors: files of what a governor must do, each derived without this code.
//!
//! `vectors/README.md` describes their form. A vector is played to a governor by its moments alone.

use std::collections::BTreeMap;
use std::path::Path;

use pocketstone_replay::device::{Cluster, Device, OperatingPoint};
use pocketstone_replay::governor::{CoreTimes, Decision, Domain, Governor, Moment, Others, Spec, TimerRequest};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tables: BTreeMap<String, Vec<u32>>,
    vector: Vec<Vector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    name: String,
    governor: String,
    table: String,
    start_khz: u32,
    #[serde(default)]
    transition_latency_ns: u64,
    /// Load in per cent and kHz of a core of another domain that is on-line.
    others: Option<(u64, u32)>,
    /// By core: what it does, such as `busy 20ms, idle 5ms, io 300us`. It is idle afterwards.
    cores: Vec<String>,
    /// Moments in us and the frequency from then on: all changes, in order.
    expect: Option<Vec<(u64, u32)>>,
    /// The frequency at the end of the time line.
    expect_last_khz: Option<u32>,
    derivation: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Busy,
    Idle,
    Io,
}

/// Parts of a core's time line: kind and end in ns. Neighbours of the same kind are joined.
fn parts(text: &str) -> Vec<(Kind, u64)> {
    let (mut all, mut end): (Vec<(Kind, u64)>, u64) = (Vec::new(), 0);
    for part in text.split(',') {
        let (kind, length) = part.trim().split_once(' ').expect(part);
        let kind = match kind {
            "busy" => Kind::Busy,
            "idle" => Kind::Idle,
            "io" => Kind::Io,
            other => panic!("a core cannot be {other:?}"),
        };
        let digits = length.find(|c: char| !c.is_ascii_digit()).expect(part);
        let unit = match &length[digits..] {
            "ms" => 1_000_000,
            "us" => 1000,
            "ns" => 1,
            other => panic!("unit {other:?}"),
        };
        end += length[..digits].parse::<u64>().expect(part) * unit;
        match all.last_mut() {
            Some(last) if last.0 == kind => last.1 = end,
            _ => all.push((kind, end)),
        }
    }
    all
}

struct Player<'a> {
    others: Others,
    governor: Box<dyn Governor>,
    table: &'a [u32],
    khz: u32,
    now_ns: u64,
    cores: Vec<CoreTimes>,
    kinds: Vec<Kind>,
    /// When it is due, whether it is deferrable, and the tick that it then waits for.
    timer: Option<(u64, bool, u64)>,
    changes: Vec<(u64, u32)>,
}

impl Player<'_> {
    fn tell(&mut self, moment: Moment) {
        let domain = Domain {
            now_ns: self.now_ns,
            khz: self.khz,
            frequencies_khz: self.table,
            cores: &self.cores,
            others: self.others,
        };
        let Decision { khz, timer } = self.governor.decide(moment, &domain);
        if let Some(khz) = khz {
            assert!(self.table.contains(&khz), "{khz} is no operating point");
            if khz != self.khz {
                self.changes.push((self.now_ns / 1000, khz));
            }
            self.khz = khz;
        }
        match timer {
            TimerRequest::Keep => {}
            TimerRequest::Off => self.timer = None,
            TimerRequest::At { at_ns, deferrable, tick_ns } => self.timer = Some((at_ns, deferrable, tick_ns)),
        }
    }

    fn pass(&mut self, until_ns: u64) {
        for (core, kind) in self.cores.iter_mut().zip(&self.kinds) {
            match kind {
                Kind::Busy => core.busy_ns += until_ns - self.now_ns,
                Kind::Io => core.iowait_ns += until_ns - self.now_ns,
                Kind::Idle => {}
            }
        }
        self.now_ns = until_ns;
    }

    /// When the timer runs, as things are: a deferrable one that is late waits for a tick.
    fn timer_ns(&self) -> Option<u64> {
        let (at, deferrable, tick) = self.timer?;
        Some(if deferrable && at < self.now_ns { self.now_ns.div_ceil(tick) * tick } else { at })
    }

    /// The timer as far as it is due: a deferrable one waits for a busy core.
    fn run_timer(&mut self) {
        while let Some((_, deferrable, _)) = self.timer {
            if self.timer_ns() > Some(self.now_ns) || deferrable && !self.kinds.contains(&Kind::Busy) {
                return;
            }
            self.timer = None;
            self.tell(Moment::Timer);
        }
    }
}

/// Plays a time line. At one moment, the timer comes first, then ticks, then what cores begin and end.
fn play(vector: &Vector, table: &[u32]) -> (Vec<(u64, u32)>, u32) {
    let point = |khz: &u32| OperatingPoint { khz: *khz, power_mw: 1.0 };
    let cluster = Cluster {
        name: "cores".into(),
        cores: vector.cores.len() as u32,
        points: table.iter().map(point).collect(),
        transition_latency_ns: vector.transition_latency_ns,
        ..Cluster::default()
    };
    let device =
        Device { name: "vector".into(), clusters: vec![cluster], cycles_per_recorded_ns: 1.0, ..Device::default() };
    let spec: Spec = vector.governor.parse().expect(&vector.name);
    let governor = spec.build(&device, &device.clusters[0]).expect(&vector.name);
    let lines: Vec<_> = vector.cores.iter().map(|c| parts(c)).collect();
    let end = lines.iter().filter_map(|l| l.last()).map(|l| l.1).max().expect("a time line");
    let (others_load, others_khz) = vector.others.unwrap_or_default();
    let others = Others { cores: u32::from(vector.others.is_some()), load: others_load, khz: others_khz };
    let mut player = Player {
        others,
        governor,
        table,
        khz: vector.start_khz,
        now_ns: 0,
        cores: vec![CoreTimes::default(); lines.len()],
        kinds: vec![Kind::Idle; lines.len()],
        timer: None,
        changes: Vec::new(),
    };
    let tick_ns = player.governor.tick_ns();
    let mut next = vec![0; lines.len()];
    let mut from_io = vec![false; lines.len()];
    player.tell(Moment::Start);
    loop {
        player.run_timer();
        if tick_ns.is_some_and(|t| player.now_ns % t == 0) && player.now_ns > 0 {
            for core in (0..lines.len()).filter(|c| player.kinds[*c] == Kind::Busy).collect::<Vec<_>>() {
                player.tell(Moment::Tick { core });
            }
        }
        for core in 0..lines.len() {
            if next[core] > lines[core].len() {
                continue;
            }
            let starts = if next[core] == 0 { 0 } else { lines[core][next[core] - 1].1 };
            if starts != player.now_ns {
                continue;
            }
            let kind = lines[core].get(next[core]).map_or(Kind::Idle, |p| p.0);
            next[core] += 1;
            let was = std::mem::replace(&mut player.kinds[core], kind);
            player.cores[core].busy = kind == Kind::Busy;
            from_io[core] |= was == Kind::Io;
            match (was == Kind::Busy, kind == Kind::Busy) {
                (false, true) => {
                    let from_io = std::mem::take(&mut from_io[core]);
                    player.tell(Moment::IdleExit { core, from_io });
                }
                (true, false) => player.tell(Moment::IdleEntry { core }),
                _ => {}
            }
        }
        player.run_timer();
        if player.now_ns >= end {
            return (player.changes, player.khz);
        }
        let ends = (0..lines.len()).filter_map(|c| lines[c].get(next[c].wrapping_sub(1)).map(|p| p.1));
        let tick = tick_ns.filter(|_| player.kinds.contains(&Kind::Busy)).map(|t| (player.now_ns / t + 1) * t);
        let timer = player.timer_ns();
        let until = ends.chain(tick).chain(timer).filter(|at| *at > player.now_ns).min().expect("an end");
        player.pass(until.min(end));
    }
}

fn files() -> Vec<(String, File)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let mut paths: Vec<_> = std::fs::read_dir(folder).expect("vectors").map(|e| e.expect("entry").path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "toml"));
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let name = path.file_name().expect("name").to_string_lossy().into_owned();
        let file =
            toml::from_str(&std::fs::read_to_string(path).expect(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        (name, file)
    };
    paths.iter().map(read).collect()
}

#[test]
fn every_governor_does_what_the_vectors_say() {
    let mut wrong = Vec::new();
    for (name, file) in files() {
        for vector in &file.vector {
            let table = file.tables.get(&vector.table).unwrap_or_else(|| panic!("{name}: no table {}", vector.table));
            let (changes, last) = play(vector, table);
            let right = vector.expect.as_ref().is_none_or(|e| *e == changes)
                && vector.expect_last_khz.is_none_or(|khz| khz == last);
            if !right {
                wrong.push(format!(
                    "{name}: {}: expected {:?} {:?}, got {changes:?} and {last}: {}",
                    vector.name, vector.expect, vector.expect_last_khz, vector.derivation
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} vectors are not met:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn there_are_at_least_300_different_vectors_and_each_governor_has_some() {
    let mut names = std::collections::BTreeSet::new();
    let mut bodies = std::collections::BTreeSet::new();
    let mut governors: BTreeMap<String, usize> = BTreeMap::new();
    for (file_name, file) in files() {
        for vector in file.vector {
            assert!(vector.expect.is_some() || vector.expect_last_khz.is_some(), "{}: expects nothing", vector.name);
            assert!(vector.derivation.len() >= 20, "{}: no derivation", vector.name);
            let body = (vector.governor.clone(), vector.table, vector.start_khz, vector.cores, vector.others);
            assert!(bodies.insert(body), "{file_name}: {} is there twice", vector.name);
            let kind = vector.governor.split(['{', ':']).next().unwrap_or_default().to_owned();
            *governors.entry(kind).or_default() += 1;
            assert!(names.insert(vector.name.clone()), "{file_name}: the name {} is there twice", vector.name);
        }
    }
    assert!(names.len() >= 300, "only {} vectors", names.len());
    for governor in [
        "performance",
        "powersave",
        "fixed",
        "ondemand",
        "ondemand-legacy",
        "conservative",
        "conservative-legacy",
        "interactive",
        "schedutil",
    ] {
        assert!(governors.get(governor).is_some_and(|n| *n >= 3), "{governor}: {:?}", governors.get(governor));
    }
}
