//! Which governor suits a run: every one with a grid of tunables, by energy at a latency budget, beside the bound.

use crate::activity::Activity;
use crate::bound::{front, least_mean_energy};
use crate::device::{Cluster, Device};
use crate::governor::{DEFAULT_HZ, Spec};
use crate::levers::Levers;
use crate::simulate::simulate;
use pocketstone_core::units::parse_ns;
use pocketstone_core::{Error, Result};
use serde::Serialize;
use std::collections::BTreeSet;
use std::str::FromStr;

/// How much mean latency is allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// So many nanoseconds.
    Ns(u64),
    /// A fraction more than the fastest governor has.
    Over(f64),
}

impl FromStr for Budget {
    type Err = Error;

    /// `2ms`, or `10%`: over the fastest.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::user(format!("`{text}` is not a latency budget"))
                .hint("use a time such as 2ms, or a percentage above the fastest governor's, such as 10%")
        };
        match text.strip_suffix('%') {
            Some(per_cent) => {
                let read = per_cent.trim().parse::<f64>().ok().filter(|p| p.is_finite() && *p >= 0.0);
                read.map(|p| Budget::Over(p / 100.0)).ok_or_else(wrong)
            }
            None => parse_ns(text).map(Budget::Ns).map_err(|_| wrong()),
        }
    }
}

/// A governor and what the run is under it: means over the trials.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advised {
    /// With its tunables.
    pub governor: Spec,
    /// Mean latency of an operation.
    pub mean_latency_ns: f64,
    /// The 99th percentile.
    pub p99_latency_ns: f64,
    /// Modelled energy of the run.
    pub energy_mj: f64,
    /// How much more than the least energy for its own mean latency in each trial, as a fraction of that.
    pub over_bound: Option<f64>,
    /// Whether it keeps the budget.
    pub within: bool,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// The budget of mean latency.
    pub budget_ns: f64,
    /// Least energy that any policy could have at that mean latency. It is the mean of all trials: a policy may take
    /// more of it in one than in another.
    pub bound_mj: Option<f64>,
    /// By energy, those within the budget first; those beyond it by latency.
    pub ranked: Vec<Advised>,
}

/// Governors worth a try on a cluster: pinned at each operating point, and each with its own defaults, the device's
/// settings, and a grid of those tunables that decide how fast it is.
///
/// # Errors
/// `ErrorKind::User` if one is not understood, which is a fault of this list.
pub fn candidates(device: &Device, cluster: &Cluster) -> Result<Vec<Spec>> {
    let khz: Vec<u32> = cluster.points.iter().map(|p| p.khz).collect();
    let inner = khz.get(1..khz.len().saturating_sub(1)).unwrap_or_default();
    let mut texts: Vec<String> = vec!["performance".into(), "powersave".into()];
    texts.extend(inner.iter().map(|khz| format!("fixed:{khz}kHz")));
    texts.extend([
        "ondemand".into(),
        "ondemand-legacy".into(),
        "conservative".into(),
        "conservative-legacy".into(),
        "database".into(),
    ]);
    // No period is shorter than two ticks: those would be the same governor under another name.
    let ticks_us = 2_000_000 / u64::from(device.hz.unwrap_or(DEFAULT_HZ));
    let rates_us: Vec<u64> = [10_000, 50_000].into_iter().filter(|us| *us >= ticks_us).collect();
    for up in [60, 80, 95] {
        texts.extend(rates_us.iter().map(|us| format!("ondemand{{up_threshold={up},sampling_rate={us}}}")));
    }
    if let Some(us) = rates_us.first() {
        texts.extend([5, 20].map(|step| format!("conservative{{freq_step={step},sampling_rate={us}}}")));
    }
    texts.push("interactive".into());
    // A quarter, a half and three quarters up the frequencies.
    for part in 1..4 {
        let Some(hispeed) = khz.get(khz.len() * part / 4) else { continue };
        for load in [70, 80, 90] {
            texts.push(format!("interactive{{hispeed_freq={hispeed},target_loads={load}}}"));
        }
    }
    texts.push("schedutil".into());
    texts.extend([500, 2000, 10_000].map(|us| format!("schedutil{{rate_limit_us={us}}}")));
    texts.extend([25, 75].map(|percent| format!("database{{waiting_percent={percent}}}")));
    let read: BTreeSet<Spec> = texts.iter().map(|t| t.parse()).collect::<Result<_>>()?;
    Ok(read.into_iter().collect())
}

/// Ranks governors for the trials of a run.
///
/// # Errors
/// `ErrorKind::User` if there is no trial or no governor, or a trial has no operation; otherwise as [`front`] and
/// [`simulate`].
pub fn rank(
    trials: &[Activity],
    device: &Device,
    levers: &Levers,
    governors: &[Spec],
    budget: Budget,
) -> Result<Advice> {
    if trials.is_empty() || governors.is_empty() {
        return Err(Error::user("no run or no governor to rank").hint("give at least one of each"));
    }
    let fronts = trials.iter().map(|t| front(t, device, levers)).collect::<Result<Vec<_>>>()?;
    let number = trials.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / number;
    let mut ranked = Vec::new();
    for governor in governors {
        let replays = trials.iter().map(|t| simulate(t, device, governor, levers)).collect::<Result<Vec<_>>>()?;
        let none = || Error::user("a trial has no operation").hint("select runs with operations");
        let latencies: Option<Vec<f64>> = replays.iter().map(|r| r.mean_latency_ns()).collect();
        let latencies = latencies.ok_or_else(none)?;
        let p99s: Vec<f64> = replays.iter().filter_map(|r| r.p99_latency_ns()).map(|ns| ns as f64).collect();
        let energies: Vec<f64> = replays.iter().map(|r| r.energy.total_mj()).collect();
        let least: Option<Vec<f64>> = fronts.iter().zip(&latencies).map(|(f, l)| f.least_energy(*l)).collect();
        let least = least.map(|l| mean(&l)).filter(|l| *l > 0.0);
        ranked.push(Advised {
            governor: governor.clone(),
            mean_latency_ns: mean(&latencies),
            p99_latency_ns: mean(&p99s),
            energy_mj: mean(&energies),
            over_bound: least.map(|l| mean(&energies) / l - 1.0),
            within: false,
        });
    }
    let fastest = ranked.iter().map(|a| a.mean_latency_ns).fold(f64::INFINITY, f64::min);
    let budget_ns = match budget {
        Budget::Ns(ns) => ns as f64,
        Budget::Over(part) => fastest * (1.0 + part),
    };
    ranked.iter_mut().for_each(|a| a.within = a.mean_latency_ns <= budget_ns);
    ranked.sort_by(|a, b| {
        let by = |x: &Advised| if x.within { x.energy_mj } else { x.mean_latency_ns };
        b.within.cmp(&a.within).then(by(a).total_cmp(&by(b))).then(a.governor.cmp(&b.governor))
    });
    Ok(Advice { budget_ns, bound_mj: least_mean_energy(&fronts, budget_ns), ranked })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::testing::{activity, compute, device, one_core, operation};

    fn run() -> Activity {
        let operations: Vec<_> = (0..200).map(|_| operation(3_000_000, &[compute(1_000_000)])).collect();
        activity(&[&operations])
    }

    /// By hand: 1,000,000 cycles take 1 ms at 1 GHz, 0.667 ms at 1.5, 0.5 ms at 2 GHz.
    #[test]
    fn those_within_the_budget_come_first_by_energy() {
        let device = device();
        let governors: Vec<Spec> =
            ["performance", "powersave", "fixed:1500000kHz"].map(|t| t.parse().unwrap()).to_vec();
        let ranked = |budget: &str| {
            let advice = rank(&[run(), run()], &device, &one_core(), &governors, budget.parse().unwrap()).unwrap();
            let names: Vec<(String, bool)> = advice.ranked.iter().map(|a| (a.governor.to_string(), a.within)).collect();
            (names, advice)
        };
        let word = |text: &str, within| (text.to_owned(), within);
        let (names, advice) = ranked("0.7ms");
        let all = [word("fixed:1500000kHz", true), word("performance", true), word("powersave", false)];
        assert_eq!(names, all);
        assert!((advice.ranked[1].mean_latency_ns / 500_000.0 - 1.0).abs() < 0.01, "{advice:?}");
        assert!(advice.ranked.iter().all(|a| a.over_bound.unwrap() >= -1e-9), "{advice:?}");
        assert!(advice.bound_mj.unwrap() <= advice.ranked[0].energy_mj);
        // 10 % more than 0.5 ms leaves the fastest alone; the others come by latency.
        let (names, advice) = ranked("10%");
        assert_eq!(names, [word("performance", true), word("fixed:1500000kHz", false), word("powersave", false)]);
        assert!((advice.budget_ns / 550_000.0 - 1.0).abs() < 0.01);
        let (names, advice) = ranked("1us");
        assert!(names.iter().all(|n| !n.1) && advice.bound_mj.is_none());
    }

    /// One trial's operations are four times as long as the other's: by itself it is never within the budget, which is
    /// of the mean.
    #[test]
    fn the_bound_is_for_the_mean_of_trials_that_differ() {
        let (device, long) = (device(), operation(3_000_000, &[compute(4_000_000)]));
        let trials = [run(), activity(&[&vec![long; 50]])];
        let found = candidates(&device, &device.clusters[0]).unwrap();
        for budget in ["10%", "60%"] {
            let advice = rank(&trials, &device, &one_core(), &found, budget.parse().unwrap()).unwrap();
            let bound_mj = advice.bound_mj.expect("the fastest governor keeps the budget");
            let within = advice.ranked.iter().filter(|a| a.within);
            assert!(within.clone().count() > 0 && within.clone().all(|a| bound_mj <= a.energy_mj), "{advice:?}");
        }
    }

    #[test]
    fn every_candidate_can_be_on_its_device_and_no_two_are_one() {
        let device = device();
        let found = candidates(&device, &device.clusters[0]).unwrap();
        let advice = rank(&[run()], &device, &one_core(), &found, Budget::Over(0.1)).unwrap();
        assert_eq!(advice.ranked.len(), found.len());
        assert!(found.len() >= 30, "{}", found.len());
        for name in ["performance", "powersave", "ondemand", "ondemand-legacy", "interactive", "schedutil", "database"]
        {
            assert!(found.iter().any(|s| s.to_string() == name), "{name}");
        }
    }

    /// Two ticks are 8 ms at 250 Hz and 20 ms at 100 Hz.
    #[test]
    fn no_candidate_samples_more_often_than_its_kernel_can() {
        let shortest = |hz| {
            let mut device = device();
            device.hz = hz;
            let found = candidates(&device, &device.clusters[0]).unwrap();
            found.iter().filter(|spec| spec.to_string().contains("sampling_rate=10000")).count()
        };
        assert_eq!([None, Some(100)].map(shortest), [5, 0]);
    }

    #[test]
    fn budgets_that_are_none_say_what_one_is() {
        for text in ["", "fast", "-1%", "x%", "nan%"] {
            assert!(text.parse::<Budget>().unwrap_err().cure().unwrap().contains("10%"), "{text}");
        }
        let nothing = rank(&[], &device(), &one_core(), &["performance".parse().unwrap()], Budget::Over(0.0));
        assert!(nothing.unwrap_err().cure().is_some());
    }
}
