//! What the processes of a model do, and what happens where some of them stand still.

/// For each process its operations, in order.
#[derive(Debug, Clone)]
pub struct Programs<Op>(Vec<Vec<Op>>);

impl<Op: Copy> Programs<Op> {
    /// Those of up to so many processes, each with up to so many operations: a state has room for no more.
    ///
    /// # Panics
    ///
    /// If there are more.
    pub fn new(programs: &[&[Op]], most: usize, longest: usize) -> Self {
        assert!(programs.len() <= most && programs.iter().all(|ops| ops.len() <= longest), "room in a state");
        Programs(programs.iter().map(|ops| ops.to_vec()).collect())
    }

    /// How many processes there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// All that a process does.
    pub fn of(&self, process: usize) -> &[Op] {
        self.0.get(process).map_or(&[], Vec::as_slice)
    }

    /// What a process does that is so far; `None`: nothing more.
    pub fn op(&self, process: usize, done: u8) -> Option<Op> {
        self.of(process).get(usize::from(done)).copied()
    }
}

/// The state in which none of the processes that `goes` says yes of can go on, whatever the others do not do.
///
/// # Errors
///
/// The `Broken` of the first step that breaks something.
pub fn settled<State: Copy, Broken>(
    start: &State,
    processes: usize,
    goes: impl Fn(&State, usize) -> bool,
    step: impl Fn(&State, usize) -> Result<Option<State>, Broken>,
) -> Result<State, Broken> {
    let (mut now, mut went) = (*start, true);
    while went {
        went = false;
        for p in 0..processes {
            let next = if goes(&now, p) { step(&now, p)? } else { None };
            if let Some(next) = next {
                (now, went) = (next, true);
            }
        }
    }
    Ok(now)
}
