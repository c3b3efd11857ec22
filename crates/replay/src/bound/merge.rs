//! Fronts of sums: what one stretch may cost, added to what all before it may.

use super::costs::{Cost, Costs, Nwns};

/// Entries that a front may have before its convex hull takes its place.
pub const MOST_STATES: usize = 4096;
/// Points of a front that is given back, about: at most twice as many.
pub const MOST_POINTS: usize = 1024;

/// The front from the fastest on, and how far above the optimum it may be.
pub(super) fn points(costs: &Costs) -> (Vec<Cost>, Nwns) {
    match exact(costs) {
        Some(front) => (front, 0),
        None => thinned(hull(costs)),
    }
}

/// The whole front, unless it grows too large.
pub(super) fn exact(costs: &Costs) -> Option<Vec<Cost>> {
    let mut front = vec![costs.rest];
    for stretch in &costs.stretches.all {
        let choices = costs.choices(stretch);
        let mut sums = Vec::with_capacity(front.len() * choices.len());
        for entry in &front {
            sums.extend(choices.iter().map(|c| sum(*entry, *c)));
        }
        front = pareto(sums);
        if front.len() > MOST_STATES {
            return None;
        }
    }
    Some(front)
}

fn sum(a: Cost, b: Cost) -> Cost {
    Cost { latency_ns: a.latency_ns + b.latency_ns, energy: a.energy + b.energy }
}

/// What nothing beats, by ascending latency.
fn pareto(mut all: Vec<Cost>) -> Vec<Cost> {
    all.sort_unstable_by_key(|c| (c.latency_ns, c.energy));
    let mut best: Option<Nwns> = None;
    all.retain(|c| {
        let keep = best.is_none_or(|b| c.energy < b);
        if keep {
            best = Some(c.energy);
        }
        keep
    });
    all
}

/// From one vertex of a stretch's hull to the next.
#[derive(Clone, Copy)]
struct Step {
    longer_ns: u64,
    saved: Nwns,
}

/// Every vertex of the front's convex hull. A hull of sums is the sum of hulls (Minkowski): all stretches'
/// steps, the one that saves most for a nanosecond first.
pub(super) fn hull(costs: &Costs) -> Vec<Cost> {
    let mut at = costs.rest;
    let mut steps = Vec::new();
    for stretch in &costs.stretches.all {
        let vertices = envelope(&costs.choices(stretch));
        at = vertices.first().map_or(at, |v| sum(at, *v));
        steps.extend(
            vertices
                .windows(2)
                .map(|w| Step { longer_ns: w[1].latency_ns - w[0].latency_ns, saved: w[0].energy - w[1].energy }),
        );
    }
    steps.sort_unstable_by(|a, b| (b.saved * Nwns::from(a.longer_ns)).cmp(&(a.saved * Nwns::from(b.longer_ns))));
    let mut front = Vec::with_capacity(steps.len() + 1);
    front.push(at);
    front.extend(steps.iter().map(|step| {
        at.latency_ns += step.longer_ns;
        at.energy -= step.saved;
        at
    }));
    front
}

/// The vertices of a front's lower convex envelope.
fn envelope(front: &[Cost]) -> Vec<Cost> {
    let mut kept: Vec<Cost> = Vec::with_capacity(front.len());
    let slope = |a: &Cost, b: &Cost| (a.energy - b.energy, Nwns::from(b.latency_ns - a.latency_ns));
    for new in front {
        while let [.., a, b] = &kept[..] {
            let ((saved, longer), (saved_all, longer_all)) = (slope(a, b), slope(a, new));
            if saved * longer_all > saved_all * longer {
                break;
            }
            kept.pop();
        }
        kept.push(*new);
    }
    kept
}

/// About [`MOST_POINTS`] of a hull's vertices, at even distances of energy, and the largest distance. Each is the
/// optimum at its latency; between two, the optimum is at least the slower one's energy, and the faster one is
/// a schedule in time: that one is above the optimum by their distance at most.
fn thinned(all: Vec<Cost>) -> (Vec<Cost>, Nwns) {
    let (Some(first), Some(last)) = (all.first().copied(), all.last().copied()) else { return (all, 0) };
    let least = (first.energy - last.energy) / MOST_POINTS as Nwns;
    let mut kept = vec![first];
    let mut before = first;
    for next in all.into_iter().skip(1) {
        let since = kept.last().map_or(0, |k| k.energy - next.energy);
        if since > least && kept.last() != Some(&before) {
            kept.push(before);
        }
        before = next;
    }
    if kept.last() != Some(&last) {
        kept.push(last);
    }
    let error = kept.windows(2).map(|w| w[0].energy - w[1].energy).max().unwrap_or(0);
    (kept, error)
}
