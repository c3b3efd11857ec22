//! What cells cost of this machine's time, and how long those take that are left: by measured costs of like cells.

use crate::specification::cell::Cell;
use crate::specification::guess::guess_ms;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// A mean of milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Mean {
    n: u64,
    ms: f64,
}

impl Mean {
    fn add(&mut self, ms: f64) {
        // What is long ago counts less: programs and machines change.
        self.n = (self.n + 1).min(200);
        self.ms += (ms - self.ms) / self.n as f64;
    }
}

/// What cells have cost on this machine, by how like each other they are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    means: BTreeMap<String, Mean>,
}

/// Names of what a cell is like, the nearest first.
fn likes(board: &str, cell: &Cell) -> [String; 3] {
    let word = |name: &str| cell.point.get(name).map(ToString::to_string).unwrap_or_default();
    let work = ["workload", "file_system", "engine", "delay"].map(word).join(" ");
    let size = ["operations", "requests", "file_bytes", "inter_arrival_ns"].map(word).join(" ");
    [
        format!("{board} {work} {size} {}", cell.traced),
        format!("{board} {} {}", word("workload"), cell.traced),
        board.to_owned(),
    ]
}

impl Costs {
    /// Those that were kept in a file; none where there is no such file, or it is damaged.
    pub fn load(path: &Path) -> Self {
        std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Keeps them in a file. They are for convenience: where that fails, the next estimate is coarser.
    pub fn save(&self, path: &Path) {
        let temporary = path.with_extension(std::process::id().to_string());
        let Ok(text) = serde_json::to_vec(self) else { return };
        if std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, path)).is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
    }

    /// Learns what a cell cost.
    pub fn learn(&mut self, board: &str, cell: &Cell, ms: f64) {
        self.learn_like(likes(board, cell), ms);
    }

    fn learn_like(&mut self, likes: [String; 3], ms: f64) {
        likes.into_iter().for_each(|like| self.means.entry(like).or_default().add(ms));
    }

    /// What a cell will cost in milliseconds, where anything like it was measured.
    pub fn of(&self, board: &str, cell: &Cell) -> Option<f64> {
        self.of_like(&likes(board, cell))
    }

    fn of_like(&self, likes: &[String; 3]) -> Option<f64> {
        likes.iter().find_map(|like| self.means.get(like)).map(|mean| mean.ms)
    }

    /// How long cells take on a board, `parallel` of them at once, and whether that is known from like cells. Else it
    /// is a guess.
    pub fn expect(&self, board: &str, cells: &[Cell], parallel: usize) -> (Duration, bool) {
        let costs: Vec<(f64, bool)> =
            cells.iter().map(|c| self.of(board, c).map_or_else(|| (guess_ms(c), false), |ms| (ms, true))).collect();
        let ms: f64 = costs.iter().map(|(ms, _)| ms).sum();
        let known = costs.iter().all(|(_, known)| *known);
        (Duration::from_secs_f64(ms / 1000.0 / parallel.max(1) as f64), known)
    }
}

/// What is left of a run, and how long that takes.
pub(crate) struct Left<'a> {
    board: &'a str,
    workers: f64,
    /// Costs of this run's own cells: they are nearest.
    own: Costs,
    before: Costs,
    /// Number of cells left, by what they are like: cells are many, and what they are like is little.
    todo: BTreeMap<[String; 3], usize>,
    states: usize,
    state: Mean,
}

impl<'a> Left<'a> {
    pub fn new(
        done: Vec<(&Cell, f64)>,
        board: &'a str,
        before: &Costs,
        todo: &[&Cell],
        states: usize,
        workers: usize,
    ) -> Self {
        let mut own = Costs::default();
        done.into_iter().for_each(|(cell, ms)| own.learn(board, cell, ms));
        let mut left = BTreeMap::new();
        todo.iter().for_each(|cell| *left.entry(likes(board, cell)).or_default() += 1);
        let (workers, before) = (workers as f64, before.clone());
        Left { board, workers, own, before, todo: left, states, state: Mean::default() }
    }

    /// A state is made.
    pub fn state(&mut self, took: Duration) {
        self.states = self.states.saturating_sub(1);
        self.state.add(took.as_secs_f64() * 1000.0);
    }

    /// A cell is done, or has failed.
    pub fn cell(&mut self, cell: &Cell, ms: f64, measured: bool) {
        let likes = likes(self.board, cell);
        if let Some(number) = self.todo.get_mut(&likes) {
            *number -= 1;
            if *number == 0 {
                self.todo.remove(&likes);
            }
        }
        if measured {
            self.own.learn_like(likes, ms);
        }
    }

    /// How long the rest takes; `None` as long as nothing like it was measured.
    pub fn time(&self) -> Option<Duration> {
        let of = |likes| self.own.of_like(likes).or_else(|| self.before.of_like(likes));
        let kinds = self.todo.iter().map(|(likes, number)| Some((of(likes)?, *number)));
        let costs = kinds.collect::<Option<Vec<(f64, usize)>>>()?;
        let cells: f64 = costs.iter().map(|(ms, number)| ms * *number as f64).sum();
        let ms = cells + self.states as f64 * self.state.ms;
        // What is under way at the end keeps one worker busy, not all.
        let longest = costs.iter().map(|(ms, _)| *ms).fold(0.0, f64::max);
        Some(Duration::from_secs_f64((ms / self.workers).max(longest) / 1000.0))
    }

    /// Adds what was measured to what is known.
    pub fn learned(&self, costs: &mut Costs) {
        for (like, mean) in &self.own.means {
            let known = costs.means.entry(like.clone()).or_default();
            (0..mean.n).for_each(|_| known.add(mean.ms));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specification::study::Study;
    use crate::specification::traces::Traces;

    fn cells(requests: &str) -> Vec<Cell> {
        let text = format!(
            "title='t'\nboard='host'\n[[experiment]]\nname='e'\ntraced='none'\nrepetitions=2\n[experiment.factors]\n\
             file_system='jffs2'\nfile_bytes='5MiB'\nrequests={requests}\n"
        );
        let study = Study::parse("s.toml", &text).unwrap();
        crate::specification::cell::cells(&study, "virtual", None, true, &mut Traces::checked(Path::new("."))).unwrap()
    }

    #[test]
    fn what_is_left_costs_what_like_cells_cost() {
        let cells = cells("[8, 1000]");
        let todo: Vec<&Cell> = cells.iter().collect();
        let mut left = Left::new(Vec::new(), "b", &Costs::default(), &todo, 2, 1);
        assert_eq!(left.time(), None, "nothing is known");
        left.state(Duration::from_secs(30));
        assert_eq!(left.time(), None);
        left.cell(&cells[0], 1000.0, true);
        // One state of 30 s, and three cells of which one second each is all that is known.
        assert_eq!(left.time(), Some(Duration::from_secs(33)));
        left.state(Duration::from_secs(30));
        left.cell(&cells[1], 9000.0, true);
        // The small one again, and the large one again.
        assert_eq!(left.time(), Some(Duration::from_secs(10)));
        left.cell(&cells[2], 1000.0, true);
        left.cell(&cells[3], 9000.0, false);
        assert_eq!(left.time(), Some(Duration::ZERO));
        let mut known = Costs::default();
        left.learned(&mut known);
        let (time, all) = known.expect("b", &cells, 2);
        assert!(all && time == Duration::from_secs(10), "{time:?}");
        let (time, all) = Costs::default().expect("b", &cells, 2);
        assert!(!all && time == Duration::from_secs(2), "{time:?}");
    }

    #[test]
    fn what_is_left_of_many_cells_is_known_by_their_few_kinds() {
        let cells = cells("[8, 1000]");
        let todo: Vec<&Cell> = cells.iter().cycle().take(20_000).collect();
        let mut left = Left::new(Vec::new(), "b", &Costs::default(), &todo, 0, 1);
        assert_eq!(left.todo.len(), 2, "two numbers of requests");
        todo.iter().take(10_000).for_each(|cell| left.cell(cell, 1000.0, true));
        (0..1000).for_each(|_| assert_eq!(left.time(), Some(Duration::from_secs(10_000))));
    }

    #[test]
    fn costs_are_kept_and_a_damaged_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("costs.json");
        let mut costs = Costs::load(&file);
        assert_eq!(costs, Costs::default());
        costs.learn("b", &cells("8")[0], 5.0);
        costs.save(&file);
        assert_eq!(Costs::load(&file), costs);
        std::fs::write(&file, "{").unwrap();
        assert_eq!(Costs::load(&file), Costs::default());
    }
}
