//! What reads cost on a file system, learned from recorded calls.

use super::reader::Work;
use std::collections::BTreeMap;

/// Calls that are taken together where pages and nodes are told apart. The model knows how many nodes there are and
/// not at which pages they begin, so that single calls would charge a node to the wrong one.
const TOGETHER: usize = 32;

/// A cost of work: time in ns, or senses of the chip's pages.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Of each page that a call touches, cached or not.
    pub touch: f64,
    /// Of each page read from the medium, beyond that.
    pub page: f64,
    /// Of each node of the file system's index that is read.
    pub node: f64,
}

impl Cost {
    /// The costs that recorded calls had: pairs of a call's work and its value. Calls that read nothing say what
    /// touching a page costs; where each call read something, that is part of the page's cost. Pages and nodes are
    /// told apart by least squares. `None` where no call read anything: nothing is known of the medium then.
    pub fn from_calls(calls: &[(Work, f64)]) -> Option<Cost> {
        let (missed, found): (Vec<_>, Vec<_>) = calls.iter().partition(|(work, _)| work.pages > 0);
        let touched: u64 = found.iter().map(|(work, _)| work.touched).sum();
        let touch = match touched {
            0 => 0.0,
            _ => found.iter().map(|(_, value)| value).sum::<f64>() / touched as f64,
        };
        let rest = |value: f64, work: &Work| value - touch * work.touched as f64;
        // Normal equations of value = page * pages + node * nodes.
        let (mut pp, mut pn, mut nn, mut pv, mut nv) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let (mut pages, mut total) = (0.0, 0.0);
        for calls in missed.chunks(TOGETHER) {
            let work: Work = calls.iter().map(|(work, _)| *work).sum();
            let v: f64 = calls.iter().map(|(work, value)| rest(*value, work)).sum();
            let (p, n) = (work.pages as f64, work.nodes as f64);
            pp += p * p;
            pn += p * n;
            nn += n * n;
            pv += p * v;
            nv += n * v;
            pages += p;
            total += v;
        }
        if missed.is_empty() {
            return None;
        }
        let determinant = pp * nn - pn * pn;
        let (page, node) = ((pv * nn - nv * pn) / determinant, (nv * pp - pv * pn) / determinant);
        // Where each page came with about as many nodes, or nodes would cost less than nothing, pages bear it all.
        let told_apart = determinant > 1e-3 * pp * nn && page > 0.0 && node > 0.0;
        let (page, node) = if told_apart { (page, node) } else { ((total / pages).max(0.0), 0.0) };
        Some(Cost { touch, page, node })
    }

    /// What work costs.
    pub fn of(&self, work: Work) -> f64 {
        self.touch * work.touched as f64 + self.page * work.pages as f64 + self.node * work.nodes as f64
    }
}

/// A call that was recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observed {
    /// What it made the file system do.
    pub work: Work,
    /// The page that it read, if it read one alone.
    pub page: Option<u64>,
    /// What it cost: ns, or senses.
    pub value: f64,
}

/// What reading a file costs, page by page where that is known.
///
/// Pages do not cost the same: JFFS2's nodes lie across the chip's pages, and where an erase block ends, one is in two
/// pieces. Calls that read one page say what it costs, for every run that starts from the same state. Where nodes of
/// an index are read, too, they hide it, and each page costs the mean.
#[derive(Debug, Clone, PartialEq)]
pub struct PageCosts {
    mean: Cost,
    /// Cost beyond the mean, by page.
    beyond: BTreeMap<u64, f64>,
}

impl PageCosts {
    /// The costs that recorded calls had; `None` where no call read anything.
    pub fn from_calls(calls: &[Observed]) -> Option<PageCosts> {
        let pairs: Vec<(Work, f64)> = calls.iter().map(|call| (call.work, call.value)).collect();
        let mean = Cost::from_calls(&pairs)?;
        let mut sums: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        if calls.iter().all(|call| call.work.nodes == 0) {
            for (page, call) in calls.iter().filter_map(|call| Some((call.page?, call))) {
                let (sum, count) = sums.entry(page).or_default();
                (*sum, *count) = (*sum + call.value - mean.of(call.work), *count + 1.0);
            }
        }
        let beyond = sums.into_iter().map(|(page, (sum, count))| (page, sum / count)).collect();
        Some(PageCosts { mean, beyond })
    }

    /// What work costs that reads these pages.
    pub fn of(&self, work: Work, pages: &[u64]) -> f64 {
        self.mean.of(work) + pages.iter().filter_map(|page| self.beyond.get(page)).sum::<f64>()
    }
}
