//! Marks that delimit runs in a trace: `NAME_START` and `NAME_END`, as PocketData's app writes them for its engines
//! (`{"EVENT":"SQL_START"}`, `{"EVENT":"BDB_START"}`).

/// Runs open at once: those of more names are left out, so that a trace of nothing but starts takes no memory.
const MOST_OPEN: usize = 16;

/// Runs that are told of, so that a trace of nothing but short runs takes no memory, either.
pub const MOST_RUNS: usize = 4096;

/// The longest name of a run, in bytes: a longer word is no mark.
const LONGEST_NAME_BYTES: usize = 128;

/// What a mark says of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunMark<'a> {
    /// The run of this name begins.
    Start(&'a str),
    /// It ends.
    End(&'a str),
}

impl<'a> RunMark<'a> {
    /// What a mark's text says: its first word that ends in `_START` or `_END` and has a name before it, of at most 128
    /// bytes.
    pub fn of(text: &'a str) -> Option<RunMark<'a>> {
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.find_map(|word| {
            let start = word.strip_suffix("_START").map(RunMark::Start);
            start.or_else(|| word.strip_suffix("_END").map(RunMark::End)).filter(|mark| mark.is_named())
        })
    }

    fn is_named(&self) -> bool {
        (1..=LONGEST_NAME_BYTES).contains(&self.name().len())
    }

    fn name(&self) -> &'a str {
        match self {
            RunMark::Start(name) | RunMark::End(name) => name,
        }
    }
}

/// Finds the runs of a trace while it is read. A run within another one is a part of it and not told of; a start
/// that is repeated before its end begins the run anew; an end without a start, or at a time before it, says nothing.
#[derive(Debug)]
pub struct RunMarks<Open, Done> {
    /// Name and number of each run that has begun.
    open: Vec<(String, u64, Open)>,
    done: Vec<(u64, Done)>,
    begun: u64,
    /// Runs that ended when there were as many as are told of, and the least of their numbers.
    beyond: (u64, u64),
}

impl<Open, Done> Default for RunMarks<Open, Done> {
    fn default() -> Self {
        RunMarks { open: Vec::new(), done: Vec::new(), begun: 0, beyond: (0, u64::MAX) }
    }
}

impl<Open, Done> RunMarks<Open, Done> {
    /// Takes a mark: `start` makes what is kept of a run that begins, from its name, and `end` what is told of it;
    /// `None` of one that ends before it begins.
    pub fn mark(&mut self, text: &str, start: impl FnOnce(&str) -> Open, end: impl FnOnce(Open) -> Option<Done>) {
        let Some(mark) = RunMark::of(text) else { return };
        let place = self.open.iter().position(|(name, ..)| name == mark.name());
        match (mark, place) {
            (RunMark::Start(name), place) => {
                if let Some(place) = place {
                    self.open.remove(place);
                }
                if self.open.len() < MOST_OPEN {
                    self.begun += 1;
                    self.open.push((name.to_owned(), self.begun, start(name)));
                }
            }
            (RunMark::End(_), Some(place)) => {
                let (_, number, run) = self.open.remove(place);
                let Some(run) = end(run) else { return };
                while self.done.last().is_some_and(|(within, _)| *within > number) {
                    self.done.pop();
                }
                if self.beyond.1 > number {
                    // They were parts of this run.
                    self.beyond = (0, u64::MAX);
                }
                match self.done.len() < MOST_RUNS {
                    true => self.done.push((number, run)),
                    false => self.beyond = (self.beyond.0 + 1, self.beyond.1.min(number)),
                }
            }
            (RunMark::End(_), None) => {}
        }
    }

    /// The runs that have begun and not ended.
    pub fn open(&mut self) -> impl Iterator<Item = &mut Open> {
        self.open.iter_mut().map(|(.., run)| run)
    }

    /// How many runs are not told of, because there were too many before.
    pub fn beyond(&self) -> u64 {
        self.beyond.0
    }

    /// The runs that have ended, in the order of their ends; and the name of one that has not.
    pub fn end(self) -> (Vec<Done>, Option<String>) {
        (self.done.into_iter().map(|(_, run)| run).collect(), self.open.into_iter().map(|(name, ..)| name).next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_any_engine_and_no_others() {
        for (text, expected) in [
            (r#"{"EVENT":"SQL_START"}"#, Some(RunMark::Start("SQL"))),
            (r#"{"EVENT":"BDB_END"}"#, Some(RunMark::End("BDB"))),
            ("BDB100_START", Some(RunMark::Start("BDB100"))),
            ("B|3180|WRITE_AHEAD_START", Some(RunMark::Start("WRITE_AHEAD"))),
            ("H2_END\\n", Some(RunMark::End("H2"))),
            ("START: App started", None),
            ("END: app finished", None),
            ("_START", None),
            ("SQL_STARTED", None),
            (r#"{"EVENT":"Workload A SQL"}"#, None),
            ("", None),
        ] {
            assert_eq!(RunMark::of(text), expected, "{text}");
        }
        let name = |bytes: usize| "N".repeat(bytes);
        let (longest, longer) = (name(LONGEST_NAME_BYTES), name(LONGEST_NAME_BYTES + 1));
        assert_eq!(RunMark::of(&format!("{longer}_END {longest}_START")), Some(RunMark::Start(&longest)));
    }

    /// Name and marks of each run that is found.
    fn runs(marks: &str) -> (Vec<String>, Option<String>) {
        let mut runs = RunMarks::default();
        for (n, mark) in marks.split(' ').enumerate() {
            runs.mark(
                mark,
                |name| format!("{name} {n}"),
                |run: String| (mark != "LATE_END").then(|| format!("{run} {n}")),
            );
        }
        runs.end()
    }

    #[test]
    fn the_outermost_runs_that_end() {
        let found = |marks: &str, expected: &[&str], left: Option<&str>| {
            let expected = expected.iter().map(|r| r.to_string()).collect::<Vec<_>>();
            assert_eq!(runs(marks), (expected, left.map(str::to_owned)), "{marks}");
        };
        found("SQL_START x SQL_END", &["SQL 0 2"], None);
        found("SQL_START SQL_END BDB_START BDB_END", &["SQL 0 1", "BDB 2 3"], None);
        // Parts of a run, and a part that is never ended.
        found("SQL_START A_START A_END B_START B_END SQL_END", &["SQL 0 5"], None);
        found("OPEN_START SQL_START SQL_END", &["SQL 1 2"], Some("OPEN"));
        found("SQL_END SQL_START", &[], Some("SQL"));
        found("SQL_START SQL_START SQL_END SQL_END", &["SQL 1 2"], None);
        // A run whose end has a time before its start's is none, and takes no other with it.
        found("LATE_START SQL_START SQL_END LATE_END", &["SQL 1 2"], None);
        let starts: Vec<String> = (0..100).map(|n| format!("N{n}_START")).collect();
        let mut all = RunMarks::<u32, u32>::default();
        starts.iter().for_each(|mark| all.mark(mark, |_| 0, Some));
        assert_eq!(all.open().count(), MOST_OPEN);
        let mut many = RunMarks::<u32, u32>::default();
        for _ in 0..MOST_RUNS + 3 {
            many.mark("A_START", |_| 0, Some);
            many.mark("A_END", |_| 0, Some);
        }
        assert_eq!((many.beyond(), many.end().0.len()), (3, MOST_RUNS));
        // As parts of one run they may be as many as they like.
        let mut parts = RunMarks::<u32, u32>::default();
        parts.mark("SQL_START", |_| 7, Some);
        for _ in 0..MOST_RUNS + 3 {
            parts.mark("A_START", |_| 0, Some);
            parts.mark("A_END", |_| 0, Some);
        }
        parts.mark("SQL_END", |_| 0, Some);
        assert_eq!((parts.beyond(), parts.end().0), (0, vec![7]));
    }
}
